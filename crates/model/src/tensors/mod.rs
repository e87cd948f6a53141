//! The decoder on candle's tensors: for GPUs, and on the CPU as a reference.
//!
//! It computes what a [`ModelSpec`] says, as the decoder of the CPU does, in larger steps: the tokens of all sequences of a
//! piece go through the layers together, attention included, which reads the keys and values of all of them from one
//! [`Pool`]. The residual stream and what is added to it are `f32`. Keys and values are `f16` on a GPU; matrices stay
//! quantised where the library has their type. A result may depend on what else is in its batch, by rounding.

mod layout;
mod pass;
mod pool;
mod weights;

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::ops::rms_norm;
use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, Run, SequenceId, Wanted};
use formwork_vocab::TokenId;
use rustc_hash::FxHashMap;

use self::layout::{Layout, Segment};
use self::pass::{Pass, scaled, softcapped};
use self::pool::{Pool, Table};
use self::weights::Weights;
use crate::rope::Rope;
use crate::spec::ModelSpec;
use crate::weights::{self as host, Matrix};

/// Positions of a prompt that go through the layers together.
const PROMPT_PIECE: usize = 256;
/// Generated tokens that go through the layers together.
const GENERATED_PIECE: usize = 64;

/// What is computed with: shared by all decoders of a model.
pub(crate) struct Network {
    spec: ModelSpec,
    /// On the host: a pass needs its rows only.
    embedding: Matrix,
    weights: Weights,
    rope: Rope,
    device: Device,
}

impl Network {
    /// For sequences of `context` tokens at most, on a device.
    pub(crate) fn new(
        spec: ModelSpec,
        weights: &host::Weights,
        context: usize,
        device: Device,
    ) -> Result<Self> {
        let rope = Rope::new(&spec, context);
        let embedding = weights.embedding.clone();
        Ok(Self { spec, embedding, weights: Weights::upload(weights, &device)?, rope, device })
    }

    pub(crate) const fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn pool(&self) -> Result<Pool> {
        let dtype = if self.device.is_cpu() { DType::F32 } else { DType::F16 };
        Pool::new(&self.spec, dtype, &self.device)
    }

    /// Appends tokens to sequences; gives their residual stream, `[tokens, hidden]`. `visit` sees it as it enters the first
    /// layer and leaves each.
    fn pass(
        &self,
        pool: &Pool,
        segments: &[Segment<'_>],
        visit: &mut dyn FnMut(&Tensor) -> Result<()>,
    ) -> Result<Tensor> {
        let hidden = self.spec.hidden;
        let tokens = segments.iter().flat_map(|segment| segment.tokens);
        let mut embedded = vec![0.0; tokens.clone().count() * hidden];
        for (token, row) in tokens.zip(embedded.chunks_exact_mut(hidden)) {
            self.embedding.dequantize(token.index()..token.index() + 1, row);
        }
        let shape = (embedded.len() / hidden, hidden);
        let mut x = scaled(Tensor::from_vec(embedded, shape, &self.device)?, self.spec.embedding_scale)?;
        visit(&x)?;
        let layout = Layout::new(&self.spec, &self.rope, segments, &self.device)?;
        let pass = Pass { spec: &self.spec, layout, pool };
        for (index, layer) in self.weights.layers.iter().enumerate() {
            x = pass.layer(index, layer, &x)?;
            visit(&x)?;
        }
        Ok(x)
    }

    /// The logits after some tokens, `[tokens, vocabulary]`, from their residual stream.
    fn logits(&self, x: &Tensor) -> Result<Vec<Vec<f32>>> {
        let normed = rms_norm(x, &self.weights.output_norm, self.spec.norm_epsilon)?;
        let logits = scaled(self.weights.head.forward(&normed)?, self.spec.logit_scale)?;
        softcapped(logits, self.spec.logit_softcap)?.to_vec2()
    }

    /// The residual stream of a text, `[tokens, hidden]`, as it enters the first layer and leaves each.
    pub(crate) fn hidden_states(&self, tokens: &[TokenId]) -> std::result::Result<Vec<Vec<f32>>, ModelError> {
        let sequence = SequenceId(0);
        let run = Run { sequence, tokens, role: Role::Prompt, wanted: Wanted::Nothing };
        Batch { runs: vec![run] }.check(|_| Some(0), self.spec.vocabulary, usize::MAX)?;
        let mut states = vec![Vec::new(); self.spec.layers.len() + 1];
        let mut compute = || {
            let (mut pool, mut table) = (self.pool()?, Table::default());
            for tokens in tokens.chunks(PROMPT_PIECE) {
                pool.reserve(&mut table, tokens.len())?;
                let mut states = states.iter_mut();
                let mut visit = |x: &Tensor| {
                    let x = x.flatten_all()?.to_vec1::<f32>()?;
                    states.next().into_iter().for_each(|state| state.extend(&x));
                    Ok(())
                };
                self.pass(&pool, &[Segment { tokens, table: &table }], &mut visit)?;
                table.advance(tokens.len());
            }
            Ok::<(), candle_core::Error>(())
        };
        compute().map_err(ModelError::backend)?;
        Ok(states)
    }
}

/// A model with its open sequences.
pub(crate) struct Decoder {
    network: Arc<Network>,
    context: usize,
    /// Made with the first tokens.
    pool: Option<Pool>,
    sequences: FxHashMap<SequenceId, Table>,
    next: u32,
}

impl Decoder {
    /// A decoder without sequences, each of which can hold `context` tokens.
    pub(crate) fn new(network: Arc<Network>, context: usize) -> Self {
        Self { network, context, pool: None, sequences: FxHashMap::default(), next: 0 }
    }
}

/// A run on its way.
struct Progress<'a> {
    run: Run<'a>,
    table: Table,
    /// What is still to come.
    rest: &'a [TokenId],
    /// The last token's residual stream so far, `[1, hidden]`.
    last: Option<Tensor>,
}

/// The tokens of the next pass: for each run how many of its next ones.
fn next_piece(runs: &[Progress<'_>]) -> Vec<usize> {
    let mut lens = vec![0; runs.len()];
    let prompt = runs.iter().position(|run| run.run.role == Role::Prompt && !run.rest.is_empty());
    if let Some(index) = prompt {
        let run = &runs[index];
        lens[index] = run.rest.len().min(PROMPT_PIECE - run.table.len() % PROMPT_PIECE);
        return lens;
    }
    let mut room = GENERATED_PIECE;
    for (len, run) in lens.iter_mut().zip(runs) {
        *len = run.rest.len().min(room);
        room -= *len;
    }
    lens
}

/// Takes runs through the model.
fn advance(network: &Network, pool: &mut Pool, runs: &mut [Progress<'_>]) -> Result<()> {
    while runs.iter().any(|run| !run.rest.is_empty()) {
        let lens = next_piece(runs);
        let mut segments = Vec::new();
        for (run, &len) in runs.iter_mut().zip(&lens).filter(|(_, len)| **len > 0) {
            pool.reserve(&mut run.table, len)?;
            segments.push(Segment { tokens: &run.rest[..len], table: &run.table });
        }
        let x = network.pass(pool, &segments, &mut |_| Ok(()))?;
        drop(segments);
        let mut end = 0;
        for (run, &len) in runs.iter_mut().zip(&lens).filter(|(_, len)| **len > 0) {
            end += len;
            run.last = Some(x.narrow(0, end - 1, 1)?);
            run.rest = &run.rest[len..];
            run.table.advance(len);
        }
    }
    Ok(())
}

/// The rows that runs want after their last tokens.
fn rows(network: &Network, runs: &[Progress<'_>]) -> Result<Vec<Vec<f32>>> {
    let wants = |run: &&Progress<'_>| run.last.is_some() && !matches!(run.run.wanted, Wanted::Nothing);
    let lasts: Vec<&Tensor> = runs.iter().filter(wants).filter_map(|run| run.last.as_ref()).collect();
    if lasts.is_empty() {
        return Ok(vec![Vec::new(); runs.len()]);
    }
    let mut rows = network.logits(&Tensor::cat(&lasts, 0)?)?.into_iter();
    let row = |run: &Progress<'_>| {
        let row = if wants(&run) { rows.next() } else { None };
        row.map_or_else(Vec::new, |row| run.run.wanted.of(row))
    };
    Ok(runs.iter().map(row).collect())
}

impl LanguageModel for Decoder {
    fn vocab_size(&self) -> usize {
        self.network.spec.vocabulary
    }

    fn context_len(&self) -> usize {
        self.context
    }

    fn open(&mut self) -> SequenceId {
        let id = SequenceId(self.next);
        self.next = self.next.wrapping_add(1);
        self.sequences.insert(id, Table::default());
        id
    }

    fn close(&mut self, sequence: SequenceId) {
        if let (Some(mut table), Some(pool)) = (self.sequences.remove(&sequence), &mut self.pool) {
            pool.truncate(&mut table, 0);
        }
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> std::result::Result<(), ModelError> {
        let table = self.sequences.get_mut(&sequence);
        let table = table.ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        if let Some(pool) = &mut self.pool {
            pool.truncate(table, len);
        }
        Ok(())
    }

    fn forward(&mut self, batch: &Batch<'_>) -> std::result::Result<Logits, ModelError> {
        let len = |sequence| self.sequences.get(&sequence).map(Table::len);
        batch.check(len, self.network.spec.vocabulary, self.context)?;
        let mut pool = match self.pool.take() {
            Some(pool) => pool,
            None => self.network.pool().map_err(ModelError::backend)?,
        };
        let runs = batch.runs.iter().filter_map(|&run| {
            let table = self.sequences.remove(&run.sequence)?;
            Some(Progress { run, table, rest: run.tokens, last: None })
        });
        let mut runs: Vec<Progress<'_>> = runs.collect();
        let logits = advance(&self.network, &mut pool, &mut runs).and_then(|()| rows(&self.network, &runs));
        self.sequences.extend(runs.into_iter().map(|progress| (progress.run.sequence, progress.table)));
        self.pool = Some(pool);
        logits.map(Logits::new).map_err(ModelError::backend)
    }
}
