//! Native CPU decoder. It computes the forward pass of every architecture that a [`ModelSpec`] can
//! describe.
//!
//! Weights are packed for the kernels ([`Packed`]), and activations are rows of `f32`.
//!
//! The tokens of a batch are divided into pieces. A piece may contain tokens of several sequences,
//! and passes through each layer as a whole, so that its tokens share each read of the weights.
//!
//! The result of a token depends only on the tokens before it in its sequence. Results are
//! bit-identical alone and in a batch, for prompts and generated tokens, and for any division into
//! runs.
//!
//! The first token of a sequence is computed with higher precision than the others
//! ([`product::Rounding`]).

mod attention;
mod feed_forward;
mod head;
mod kv;
mod layer;
mod product;
mod workspace;

use std::io;
use std::sync::Arc;

use formwork_kernels::{KvFormat, Operand, Team};
use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, Run, SequenceId, Wanted};
use formwork_vocab::TokenId;
use rustc_hash::FxHashMap;

use self::kv::{KvCache, KvMemory};
use self::layer::{Pass, Segment};
use self::workspace::{Workspace, room};
use crate::backend::Backend;
use crate::ops::scale;
use crate::rope::Rope;
use crate::spec::ModelSpec;
use crate::weights::{LayerWeights, Packed, Weights};

/// Number of tokens in a piece.
const PIECE: usize = 256;
/// Maximum number of additional tokens in the last piece. A separate piece for a few tokens would
/// be slow, because all weights would have to be read again.
const MORE: usize = 32;

/// Immutable part of a model, which all its decoders share.
#[derive(Debug)]
pub(crate) struct Network {
    spec: ModelSpec,
    weights: Weights<Packed>,
    rope: Rope,
    kv_memory: KvMemory,
    team: Team,
}

impl Network {
    /// Packs the weights, and prepares to compute sequences of at most `context` tokens.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory for the weights.
    pub(crate) fn new(spec: ModelSpec, weights: Weights, context: usize, team: Team) -> io::Result<Self> {
        let rope = Rope::new(&spec, context);
        let weights = weights.pack()?;
        // Keys and values that come from `f32` weights are computed in `f32`, and are then also
        // stored in `f32`.
        let is_exact = |layer: &LayerWeights<Packed>| {
            let mut linears = [&layer.key, &layer.value].into_iter().flatten();
            linears.all(|linear| linear.weight.operand() == Operand::Floats)
        };
        let is_exact = weights.layers.iter().all(is_exact)
            || !spec.layers.iter().all(|layer| KvFormat::I16.takes(layer.attention.head_dim));
        let kv_memory = KvMemory::new(&spec, if is_exact { KvFormat::F32 } else { KvFormat::I16 });
        Ok(Self { spec, weights, rope, kv_memory, team })
    }

    /// Sums all packed weights as integers, to measure the speed of reading them. Returns their
    /// size in bytes.
    fn sum_weights(&self) -> usize {
        const PIECE: usize = 1 << 18;
        let weights = self.weights.head.neighbours();
        let mut pieces: Vec<&[u8]> = weights.chunks(PIECE).collect();
        self.team.for_each(&mut pieces, |piece| {
            let words = piece.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            std::hint::black_box(words.fold(0, u64::wrapping_add));
        });
        weights.len()
    }
}

impl Backend for Network {
    fn device_name(&self) -> String {
        "cpu".to_owned()
    }

    fn threads(&self) -> usize {
        self.team.threads()
    }

    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.spec)
    }

    fn decoder(self: Arc<Self>, context: usize) -> Box<dyn LanguageModel> {
        Box::new(Decoder::new(self, context))
    }

    fn hidden_states(&self, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.residual_streams(tokens)
    }

    /// Returns `None` for a mixture of experts, because a token then reads only some of the
    /// weights.
    fn read_weights(&self) -> Option<usize> {
        (!self.spec.has_experts()).then(|| self.sum_weights())
    }
}

/// Decoder of a model, with its open sequences.
pub(crate) struct Decoder {
    network: Arc<Network>,
    context: usize,
    sequences: FxHashMap<SequenceId, KvCache>,
    next: u32,
    workspace: Workspace,
}

impl Decoder {
    /// Creates a decoder without open sequences. A sequence can have at most `context` tokens.
    pub(crate) fn new(network: Arc<Network>, context: usize) -> Self {
        Self { network, context, sequences: FxHashMap::default(), next: 0, workspace: Workspace::default() }
    }

    fn check(&self, batch: &Batch<'_>) -> Result<(), ModelError> {
        let len = |sequence| self.sequences.get(&sequence).map(KvCache::len);
        batch.check(len, self.network.spec.vocabulary, self.context)
    }
}

/// Run of a batch, with the state of its computation.
struct Progress<'a> {
    run: Run<'a>,
    cache: KvCache,
    /// Tokens of the run that have not been computed yet.
    rest: &'a [TokenId],
    /// Output of the last layer for the tokens whose logits are requested, as far as computed.
    /// Shape: `[rows, hidden]`.
    x: Vec<f32>,
}

impl<'a> Progress<'a> {
    fn new(run: Run<'a>, cache: KvCache) -> Self {
        Self { run, cache, rest: run.tokens, x: Vec::new() }
    }

    /// Returns the number of tokens with requested logits among the `len` tokens that precede
    /// `rest`.
    fn wanted(&self, len: usize) -> usize {
        self.run.wanted.count().saturating_sub(self.rest.len()).min(len)
    }
}

impl Network {
    /// Creates the cache of a sequence without tokens.
    fn cache(&self) -> KvCache {
        KvCache::new(self.kv_memory.clone())
    }

    /// Computes all tokens of the runs, piece by piece.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory for keys and values.
    fn advance(&self, runs: &mut [Progress<'_>], workspace: &mut Workspace) -> Result<(), ModelError> {
        loop {
            let left = runs.iter().map(|progress| progress.rest.len()).sum();
            let mut room = if left <= PIECE + MORE { left } else { PIECE };
            let mut segments = Vec::new();
            let mut wanted = vec![0; runs.len()];
            for (progress, wanted) in runs.iter_mut().zip(&mut wanted) {
                let len = progress.rest.len().min(room);
                if len > 0 {
                    room -= len;
                    let (tokens, rest) = progress.rest.split_at(len);
                    progress.rest = rest;
                    *wanted = progress.wanted(len);
                    segments.push(self.segment(&mut progress.cache, tokens, *wanted)?);
                }
            }
            if segments.is_empty() {
                return Ok(());
            }
            let mut x = self.pass(segments, workspace, &mut |_| {});
            for (progress, wanted) in runs.iter_mut().zip(wanted) {
                progress.x.extend_from_slice(x.split_off(..wanted * self.spec.hidden).unwrap_or_default());
            }
        }
    }

    /// Returns the next tokens of a sequence as a segment, with memory for their keys and values.
    /// `wanted` is the number of tokens, counted from the last, whose output is needed.
    fn segment<'a>(
        &self,
        cache: &'a mut KvCache,
        tokens: &'a [TokenId],
        wanted: usize,
    ) -> Result<Segment<'a>, ModelError> {
        cache.reserve(cache.len() + tokens.len()).map_err(ModelError::backend)?;
        let rotations = self.rope.rotations(&self.team, cache.len()..cache.len() + tokens.len());
        Ok(Segment { cache, tokens, rotations, wanted })
    }

    /// Appends tokens to sequences. Returns the output of the last layer for the tokens whose
    /// output is needed, segment by segment. Shape: `[tokens, hidden]`.
    ///
    /// `visit` is called with the residual stream, once before the first layer and once after each
    /// layer. After the last layer, the stream only contains the tokens whose output is needed.
    fn pass<'w>(
        &self,
        mut segments: Vec<Segment<'_>>,
        workspace: &'w mut Workspace,
        visit: &mut dyn FnMut(&[f32]),
    ) -> &'w [f32] {
        let spec = &self.spec;
        let tokens = segments.iter().flat_map(|segment| segment.tokens);
        let mut residual = std::mem::take(&mut workspace.residual);
        let mut x = room(&mut residual, tokens.clone().count() * spec.hidden);
        for (token, x) in tokens.zip(x.chunks_exact_mut(spec.hidden)) {
            match &self.weights.embedding {
                Some(embedding) => embedding.dequantize(token.index()..token.index() + 1, x),
                None => self.weights.head.dequantize(token.index(), x),
            }
            scale(x, spec.embedding_scale);
        }
        visit(x);
        let count = x.len() / spec.hidden;
        let mut pass = Pass::new(spec, &self.team, &segments, (0..count).collect());
        if let Some(inputs) = &self.weights.per_layer_inputs {
            pass.per_layer_inputs(inputs, &segments, x, workspace);
        }
        for layer in self.weights.layers.iter().enumerate() {
            let is_last = layer.0 + 1 == self.weights.layers.len();
            if is_last && segments.iter().any(|segment| segment.wanted < segment.tokens.len()) {
                // Later tokens need only the keys and values of the skipped tokens.
                pass.keys_and_values(layer, &mut segments, x, workspace);
                let tokens = wanted_tokens(&segments);
                x = leave_wanted(&mut segments, x, spec.hidden);
                if x.is_empty() {
                    break;
                }
                pass = Pass::new(spec, &self.team, &segments, tokens);
            }
            pass.layer(layer, &mut segments, x, workspace);
            visit(x);
        }
        for segment in &mut segments {
            segment.cache.advance(segment.tokens.len());
        }
        let len = x.len();
        workspace.residual = residual;
        &workspace.residual[..len]
    }

    /// Computes the residual stream of a text, before the first layer and after each layer. Shape
    /// of each element: `[tokens, hidden]`.
    fn residual_streams(&self, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError> {
        ModelError::check_tokens(tokens, self.spec.vocabulary)?;
        let mut states = vec![Vec::new(); self.spec.layers.len() + 1];
        let (mut cache, mut workspace) = (self.cache(), Workspace::default());
        for tokens in tokens.chunks(PIECE) {
            let mut states = states.iter_mut();
            let mut visit = |x: &[f32]| states.next().into_iter().for_each(|state| state.extend(x));
            self.pass(vec![self.segment(&mut cache, tokens, tokens.len())?], &mut workspace, &mut visit);
        }
        Ok(states)
    }
}

/// Returns the indices of the tokens whose output is needed.
fn wanted_tokens(segments: &[Segment<'_>]) -> Vec<usize> {
    let mut first = 0;
    let wanted = segments.iter().flat_map(|segment| {
        first += segment.tokens.len();
        first - segment.wanted..first
    });
    wanted.collect()
}

/// Removes the tokens whose output is not needed from `segments` and from the residual stream `x`.
/// Returns the remaining stream. The keys and values of the removed tokens must be in the caches.
fn leave_wanted<'x>(segments: &mut Vec<Segment<'_>>, x: &'x mut [f32], hidden: usize) -> &'x mut [f32] {
    let (mut read, mut written) = (0, 0);
    for segment in &mut *segments {
        let skipped = segment.skip_unwanted();
        let tokens = read + skipped..read + skipped + segment.tokens.len();
        read = tokens.end;
        x.copy_within(tokens.start * hidden..tokens.end * hidden, written * hidden);
        written += segment.tokens.len();
    }
    segments.retain(|segment| !segment.tokens.is_empty());
    &mut x[..written * hidden]
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
        self.sequences.insert(id, self.network.cache());
        id
    }

    fn close(&mut self, sequence: SequenceId) {
        self.sequences.remove(&sequence);
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        let cache =
            self.sequences.get_mut(&sequence).ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        cache.truncate(len);
        Ok(())
    }

    fn can_fork(&self) -> bool {
        true
    }

    fn is_batch_invariant(&self) -> bool {
        true
    }

    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        let cache = self.sequences.get(&sequence).ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        let fork = cache.fork(len);
        let id = self.open();
        self.sequences.insert(id, fork);
        Ok(id)
    }

    fn kv_bytes_per_token(&self) -> usize {
        self.network.kv_memory.bytes_per_position()
    }

    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        let wanted = vec![None; tokens.len()];
        let run = Run { sequence, tokens, role: Role::Prompt, wanted: Wanted::Each(&wanted) };
        self.check(&Batch { runs: vec![run] })?;
        let cache = self.sequences.remove(&sequence);
        let cache = cache.ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        let mut runs = [Progress::new(run, cache)];
        let (network, workspace) = (&*self.network, &mut self.workspace);
        network.advance(&mut runs, workspace)?;
        let [Progress { cache, x, .. }] = runs;
        self.sequences.insert(sequence, cache);
        Ok(network.normed(&x))
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        self.check(batch)?;
        let runs = batch.runs.iter().filter_map(|&run| {
            let cache = self.sequences.remove(&run.sequence)?;
            Some(Progress::new(run, cache))
        });
        let mut runs: Vec<Progress<'_>> = runs.collect();
        let (network, workspace) = (&*self.network, &mut self.workspace);
        network.advance(&mut runs, workspace)?;
        let logits = network.logits(&runs, workspace);
        self.sequences.extend(runs.into_iter().map(|progress| (progress.run.sequence, progress.cache)));
        Ok(Logits::new(logits))
    }

    fn recycle(&mut self, logits: Logits) {
        self.workspace.logits.give_back(logits.into_rows());
    }
}
