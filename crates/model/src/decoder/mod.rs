//! The decoder: one forward pass for every architecture that a [`ModelSpec`] describes.
//!
//! Weights stay in the mapped file and are computed with as they lie there; activations are plain rows of `f32`. A run of
//! tokens is cut into pieces, and a piece goes through the layers as a whole. Which numeric path a piece takes depends on
//! its role and its place alone:
//!
//! - generated tokens always take the row-by-row path, on which a token's result is the same whether it came alone or
//!   with others, bit by bit;
//! - prompts are cut at multiples of [`PROMPT_PIECE`] positions, and pieces of [`GEMM_FROM`] tokens or more are computed
//!   in `f32`, several times as fast. The same prompt gives the same logits on every run.
//!
//! The runs of a batch are computed one after the other.

mod attention;
mod feed_forward;
mod kv;
mod layer;
mod ops;
mod product;
mod rope;

use std::sync::Arc;

use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, Run, SequenceId, Wanted};
use formwork_vocab::{TokenId, TokenSet};
use rustc_hash::FxHashMap;

use self::kv::KvCache;
use self::layer::Pass;
use self::ops::{rms_norm, scale, softcap};
use self::product::{Path, all_rows, some_rows};
use self::rope::Rope;
use crate::spec::ModelSpec;
use crate::weights::Weights;

/// Positions of a prompt that go through the layers together.
const PROMPT_PIECE: usize = 256;
/// Generated tokens that go through the layers together.
const GENERATED_PIECE: usize = 32;
/// From this many prompt tokens on, expanding the weights pays.
const GEMM_FROM: usize = 16;
/// The whole head is computed where more than one token in this many is wanted.
const SPARSE_HEAD: usize = 4;

/// What is computed with: shared by all decoders of a model.
#[derive(Debug)]
pub(crate) struct Network {
    spec: ModelSpec,
    weights: Weights,
    rope: Rope,
}

impl Network {
    /// For sequences of `context` tokens at most.
    pub(crate) fn new(spec: ModelSpec, weights: Weights, context: usize) -> Self {
        let rope = Rope::new(&spec, context);
        Self { spec, weights, rope }
    }

    pub(crate) const fn spec(&self) -> &ModelSpec {
        &self.spec
    }
}

/// A model with its open sequences.
pub(crate) struct Decoder {
    network: Arc<Network>,
    context: usize,
    sequences: FxHashMap<SequenceId, KvCache>,
    next: u32,
}

impl Decoder {
    /// A decoder without sequences, each of which can hold `context` tokens.
    pub(crate) fn new(network: Arc<Network>, context: usize) -> Self {
        Self { network, context, sequences: FxHashMap::default(), next: 0 }
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Vec<f32>, ModelError> {
        let network = &*self.network;
        let cache = self
            .sequences
            .get_mut(&run.sequence)
            .ok_or_else(|| ModelError::unknown_sequence(run.sequence))?;
        network.check_tokens(run.tokens)?;
        let len = cache.len() + run.tokens.len();
        if len > self.context {
            return Err(ModelError::context_full(len, self.context));
        }
        let mut last = Vec::new();
        let mut rest = run.tokens;
        while !rest.is_empty() {
            let (len, path) = piece(run.role, cache.len(), rest.len());
            let (tokens, others) = rest.split_at(len);
            last = network.piece(path, tokens, cache, &mut |_| {}).map_err(ModelError::backend)?;
            rest = others;
        }
        Ok(if last.is_empty() { last } else { network.logits(&last, run.wanted) })
    }
}

/// How many of the next `len` tokens go together, and on which path.
fn piece(role: Role, position: usize, len: usize) -> (usize, Path) {
    match role {
        Role::Generated => (len.min(GENERATED_PIECE), Path::Dot),
        Role::Prompt => {
            let len = len.min(PROMPT_PIECE - position % PROMPT_PIECE);
            (len, if len < GEMM_FROM { Path::Dot } else { Path::Gemm })
        }
    }
}

impl Network {
    /// Appends tokens to a sequence; gives the last one's residual stream, `[hidden]`. `visit` sees that of all tokens,
    /// `[tokens, hidden]`, as it enters the first layer and leaves each.
    fn piece(
        &self,
        path: Path,
        tokens: &[TokenId],
        cache: &mut KvCache,
        visit: &mut dyn FnMut(&[f32]),
    ) -> candle_core::Result<Vec<f32>> {
        let spec = &self.spec;
        // [tokens, hidden]
        let mut x = vec![0.0; tokens.len() * spec.hidden];
        for (token, x) in tokens.iter().zip(x.chunks_exact_mut(spec.hidden)) {
            self.weights.embedding.dequantize(token.index()..token.index() + 1, x);
            scale(x, spec.embedding_scale);
        }
        visit(&x);
        cache.reserve(cache.len() + tokens.len());
        let pass = Pass { spec, path, rotations: self.rope.rotations(cache.len(), tokens.len()) };
        for (index, layer) in self.weights.layers.iter().enumerate() {
            pass.layer(index, layer, cache, &mut x)?;
            visit(&x);
        }
        cache.advance(tokens.len());
        Ok(x.split_off(x.len() - spec.hidden))
    }

    /// The logits after a token, from its residual stream.
    fn logits(&self, x: &[f32], wanted: Wanted<'_>) -> Vec<f32> {
        let head = &self.weights.head;
        let normed = || rms_norm(x, &self.weights.output_norm, self.spec.norm_epsilon);
        match wanted {
            Wanted::Nothing => Vec::new(),
            Wanted::All => self.finished(all_rows(head, &normed())),
            Wanted::Only(set) if set.count() * SPARSE_HEAD < head.rows => {
                let rows: Vec<u32> =
                    set.iter().map(|token| token.0).filter(|&t| t < head.rows as u32).collect();
                let mut logits = vec![f32::NEG_INFINITY; head.rows];
                for (&row, logit) in rows.iter().zip(self.finished(some_rows(head, &normed(), &rows))) {
                    logits[row as usize] = logit;
                }
                logits
            }
            Wanted::Only(set) => masked(self.finished(all_rows(head, &normed())), set),
        }
    }

    /// Logits from products with rows of the head.
    fn finished(&self, mut logits: Vec<f32>) -> Vec<f32> {
        scale(&mut logits, self.spec.logit_scale);
        if let Some(cap) = self.spec.logit_softcap {
            softcap(&mut logits, cap);
        }
        logits
    }

    /// The residual stream of a text, `[tokens, hidden]`, as it enters the first layer and leaves each.
    pub(crate) fn hidden_states(&self, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.check_tokens(tokens)?;
        let mut states = vec![Vec::new(); self.spec.layers.len() + 1];
        let mut cache = KvCache::new(&self.spec);
        for tokens in tokens.chunks(GENERATED_PIECE) {
            let mut states = states.iter_mut();
            let mut visit = |x: &[f32]| states.next().into_iter().for_each(|state| state.extend(x));
            self.piece(Path::Dot, tokens, &mut cache, &mut visit).map_err(ModelError::backend)?;
        }
        Ok(states)
    }

    fn check_tokens(&self, tokens: &[TokenId]) -> Result<(), ModelError> {
        let vocabulary = self.spec.vocabulary;
        match tokens.iter().find(|token| token.index() >= vocabulary) {
            Some(token) => Err(ModelError::token_outside(token.0, vocabulary)),
            None => Ok(()),
        }
    }
}

/// Leaves only the logits of `set`.
fn masked(mut logits: Vec<f32>, set: &TokenSet) -> Vec<f32> {
    for (index, logit) in logits.iter_mut().enumerate() {
        if !set.contains(TokenId(index as u32)) {
            *logit = f32::NEG_INFINITY;
        }
    }
    logits
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
        self.sequences.insert(id, KvCache::new(&self.network.spec));
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

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        // On a thread of the pool, the many short parallel regions of a pass start without waking anybody up first.
        rayon::scope(|_| batch.runs.iter().map(|run| self.run(run)).collect::<Result<_, _>>())
            .map(Logits::new)
    }
}
