//! The model's own head for drafts (multi-token prediction, MTP).
//!
//! The head is one layer. From the vector after a token and from the next token, it predicts the token
//! after that. It has keys and values of its own: entry `p` belongs to token `p + 1` and to the vector
//! after token `p`. So a sequence of `n` tokens has `n - 1` entries. The entries of drafts follow, whose
//! vectors are the head's own results.
//!
//! What the head computes affects only how many drafts are accepted. Where a vector is missing, because
//! a sequence was cut at an unusual place, the head takes zeros instead.

use std::sync::Arc;

use formwork_lm::ModelError;
use formwork_vocab::{TokenId, TokenSet};

use super::head::Row;
use super::kv::{KvCache, KvMemory};
use super::layer::Segment;
use super::product::{Input, Rounding, products};
use super::workspace::Workspace;
use super::{Network, kv_format};
use crate::KvCacheType;
use crate::ops::{normalise, normalise_in_place};
use crate::rope::Rope;
use crate::spec::ModelSpec;
use crate::weights::{InputWeights, Linear, Norm, Packed, TextHead, Weights};

/// Vectors are kept after each multiple of this number of tokens, where cached prefixes are cut.
const INTERVAL: usize = 64;

/// The head of a model, which all its decoders share.
#[derive(Debug)]
pub(super) struct DraftHead {
    /// The head's layer and norm, with the embedding and the output head of the model.
    network: Network,
    token_norm: Norm,
    state_norm: Norm,
    projection: Linear<Packed>,
}

/// What a sequence keeps for the head.
#[derive(Debug)]
pub(super) struct HeadState {
    cache: KvCache,
    /// Vectors after tokens, with the indices of the tokens, in ascending order.
    vectors: Vec<(usize, Arc<[f32]>)>,
    /// Result of the head for the last draft.
    after_drafts: Option<Vec<f32>>,
}

/// Tokens of a sequence that the model has computed.
pub(super) struct Computed<'a> {
    pub(super) state: &'a mut HeadState,
    pub(super) tokens: &'a [TokenId],
    /// Index of the first of the tokens in the sequence.
    pub(super) start: usize,
    /// Number of last tokens whose vectors are kept, because the sequence may be cut after each.
    pub(super) kept: usize,
    /// Vectors after the tokens. Shape: `[tokens, hidden]`.
    pub(super) vectors: Vec<f32>,
}

/// Entries to compute: tokens, and the vectors before them.
#[derive(Default)]
struct Entries {
    tokens: Vec<TokenId>,
    /// Shape: `[entries, hidden]`.
    vectors: Vec<f32>,
    roundings: Vec<Rounding>,
}

/// Drafts that continue a sequence.
pub(super) struct HeadRun<'a> {
    pub(super) state: &'a mut HeadState,
    /// Number of tokens of the sequence.
    pub(super) len: usize,
    pub(super) tokens: &'a [TokenId],
    /// Tokens that may come next. `None` means all.
    pub(super) wanted: Option<&'a TokenSet>,
}

impl ModelSpec {
    /// Returns the head for drafts as a model of one layer.
    fn of_draft_head(&self) -> Option<Self> {
        let layers = vec![self.draft_head?];
        Some(Self { layers, draft_head: None, per_layer_input: None, ..self.clone() })
    }
}

/// Returns the size of the head's keys and values of a token, in bytes.
pub(super) fn bytes_per_token(spec: &ModelSpec, weights: &Weights, kv_cache: KvCacheType) -> usize {
    let memory =
        |of_head: ModelSpec| KvMemory::new(&of_head, kv_format(spec, weights, kv_cache)).bytes_per_position();
    spec.of_draft_head().filter(|_| weights.draft_head.is_some()).map_or(0, memory)
}

impl DraftHead {
    /// Takes the head out of the weights of a model.
    pub(super) fn take(network: &mut Network, context: usize) -> Option<Self> {
        let spec = network.spec.of_draft_head()?;
        let weights = *network.weights.draft_head.take()?;
        let of_layer = Weights {
            embedding: weights.embedding.or_else(|| network.weights.embedding.clone()),
            per_layer_inputs: None,
            layers: vec![weights.layer],
            draft_head: None,
            output_norm: Some(weights.output_norm),
            input: InputWeights::default(),
            text_head: TextHead::default(),
            head: weights.head.unwrap_or_else(|| network.weights.head.clone()),
        };
        let of_head = Network {
            rope: Rope::new(&spec, context),
            kv_memory: KvMemory::new(&spec, network.kv_memory.format()),
            state_memory: None,
            state_bytes: 0,
            draft_head: None,
            team: Arc::clone(&network.team),
            weights: of_layer,
            spec,
        };
        Some(Self {
            network: of_head,
            token_norm: weights.token_norm,
            state_norm: weights.state_norm,
            projection: weights.projection,
        })
    }

    pub(super) fn state(&self) -> HeadState {
        let cache = KvCache::new(self.network.kv_memory.clone());
        HeadState { cache, vectors: Vec::new(), after_drafts: None }
    }

    pub(super) fn bytes_per_token(&self) -> usize {
        self.network.kv_memory.bytes_per_position()
    }

    /// Adds tokens that the model has computed to the entries of their sequences.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn read(
        &self,
        runs: &mut [Computed<'_>],
        workspace: &mut Workspace,
    ) -> Result<(), ModelError> {
        let hidden = self.network.spec.hidden;
        let mut entries = Entries::default();
        for run in &mut *runs {
            let first = run.start.max(1);
            run.state.truncate(first);
            let tokens = &run.tokens[first - run.start..];
            run.state.cache.reserve(first - 1 + tokens.len()).map_err(ModelError::backend)?;
            entries.tokens.extend_from_slice(tokens);
            entries.roundings.extend((first..first + tokens.len()).map(|index| Rounding::at(index - 1)));
            if first == run.start && !tokens.is_empty() {
                entries.vectors.extend_from_slice(&run.state.vector(first - 1, hidden));
            }
            // The vector after the last token belongs to the entry of the next one.
            entries.vectors.extend_from_slice(&run.vectors[..(run.tokens.len() - 1) * hidden]);
            run.state.keep(run.start, run.kept, &run.vectors, hidden);
        }
        let mut x = self.projected(&entries, workspace);
        let segments = runs.iter_mut().map(|run| {
            let tokens = &run.tokens[run.start.max(1) - run.start..];
            self.segment(&mut run.state.cache, tokens, 0)
        });
        let segments: Vec<_> = segments.filter(|segment| !segment.tokens.is_empty()).collect();
        if !segments.is_empty() {
            self.network.layers(segments, &mut x, workspace, &mut |_| {});
        }
        Ok(())
    }

    /// Continues sequences by drafts. Returns for each a row of logits after its last token, in which
    /// the largest logit of the wanted tokens is right.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn draft(
        &self,
        runs: &mut [HeadRun<'_>],
        workspace: &mut Workspace,
    ) -> Result<Vec<Vec<f32>>, ModelError> {
        let hidden = self.network.spec.hidden;
        let most = runs.iter().map(|run| run.tokens.len()).max().unwrap_or(0);
        for step in 0..most {
            let mut entries = Entries::default();
            let mut going: Vec<_> = runs.iter_mut().filter(|run| run.tokens.len() > step).collect();
            for run in &mut going {
                let state = &mut *run.state;
                match state.after_drafts.take() {
                    Some(vector) => entries.vectors.extend(vector),
                    None => entries.vectors.extend_from_slice(&state.vector(run.len - 1, hidden)),
                }
                entries.tokens.push(run.tokens[step]);
                let position = state.cache.len();
                entries.roundings.push(Rounding::at(position));
                state.cache.reserve(position + 1).map_err(ModelError::backend)?;
            }
            let mut x = self.projected(&entries, workspace);
            let segments =
                going.iter_mut().map(|run| self.segment(&mut run.state.cache, &run.tokens[step..=step], 1));
            self.network.layers(segments.collect(), &mut x, workspace, &mut |_| {});
            let results = self.network.normed(&x);
            for (run, result) in going.iter_mut().zip(results.chunks_exact(hidden)) {
                run.state.after_drafts = Some(result.to_vec());
            }
        }
        let rows = runs.iter().map(|run| {
            let x = run.state.after_drafts.clone().unwrap_or_default();
            vec![Row { x, tokens: run.wanted, is_largest: true, change: None }]
        });
        let rows: Vec<_> = rows.collect();
        Ok(self.network.logits_of(&rows, workspace).into_iter().flatten().collect())
    }

    /// Projects entries to the residual stream of the head. Shape of the result: `[entries, hidden]`.
    fn projected(&self, entries: &Entries, workspace: &mut Workspace) -> Vec<f32> {
        let Network { spec, team, .. } = &self.network;
        let Entries { tokens, vectors, roundings } = entries;
        let mut embedded = vec![0.0; tokens.len() * spec.hidden];
        for (token, x) in tokens.iter().zip(embedded.chunks_exact_mut(spec.hidden)) {
            self.network.embed(*token, None, x);
        }
        normalise_in_place(team, spec, &mut embedded, &self.token_norm);
        let mut normed = vec![0.0; vectors.len()];
        normalise(team, spec, vectors, &self.state_norm, &mut normed);
        let halves = embedded.chunks_exact(spec.hidden).zip(normed.chunks_exact(spec.hidden));
        let joined: Vec<f32> = halves.flat_map(|(token, vector)| [token, vector].concat()).collect();
        let input = Input { x: &joined, roundings, adapters: &[] };
        let mut x = embedded;
        products(team, &mut workspace.rounded, input, [(&self.projection, &mut *x)]);
        x
    }

    fn segment<'a>(&self, cache: &'a mut KvCache, tokens: &'a [TokenId], wanted: usize) -> Segment<'a> {
        let positions = cache.len()..cache.len() + tokens.len();
        let rotations = self.network.rope.rotations(&self.network.team, positions);
        Segment { cache, states: None, adapter: None, tokens, input: None, rotations, wanted }
    }
}

impl HeadState {
    /// Returns the number of drafts after the `len` tokens of the sequence.
    pub(super) const fn drafted(&self, len: usize) -> usize {
        (self.cache.len() + 1).saturating_sub(len)
    }

    /// Removes the entries of drafts, and those of all tokens except the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.cache.truncate(len.saturating_sub(1));
        self.vectors.retain(|(index, _)| *index < len);
        self.after_drafts = None;
    }

    /// Returns the state of a sequence with the first `len` tokens of this one.
    pub(super) fn fork(&self, len: usize) -> Self {
        let cache = self.cache.fork(self.cache.len());
        let mut fork = Self { cache, vectors: self.vectors.clone(), after_drafts: None };
        fork.truncate(len);
        fork
    }

    /// Returns the vector after the token at `index`, or zeros if it is not known.
    fn vector(&self, index: usize, hidden: usize) -> Arc<[f32]> {
        let found = self.vectors.iter().rfind(|(known, _)| *known == index);
        found.map_or_else(|| vec![0.0; hidden].into(), |(_, vector)| Arc::clone(vector))
    }

    /// Keeps the vectors of the last `kept` of the tokens from `start` on, and those at multiples of
    /// the interval. Forgets earlier ones.
    fn keep(&mut self, start: usize, kept: usize, vectors: &[f32], hidden: usize) {
        let is_at_interval = |index: usize| (index + 1).is_multiple_of(INTERVAL);
        self.vectors.retain(|(index, _)| is_at_interval(*index));
        let len = vectors.len() / hidden;
        for (row, vector) in vectors.chunks_exact(hidden).enumerate() {
            if row + kept.max(1) >= len || is_at_interval(start + row) {
                self.vectors.push((start + row, vector.into()));
            }
        }
    }
}
