//! A model whose results depend on the cuts of a prompt, but not on the rest of a pass. In real
//! models, rounding has this effect.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, SequenceId, Wanted, masked};
use formwork_vocab::TokenId;

use crate::fixture::VOCABULARY;

/// Prompts are cut at multiples of this number of tokens.
pub(crate) const GRAIN: usize = 48;
const CONTEXT: usize = 700;

/// State after each token of each sequence.
type Sequences = HashMap<SequenceId, Vec<u64>>;

#[derive(Clone, Default)]
pub(crate) struct Pieces {
    sequences: Arc<Mutex<Sequences>>,
    next: u32,
    /// Value reported by `is_batch_invariant`.
    is_batch_invariant: bool,
    pass_time: Duration,
}

impl Pieces {
    pub(crate) fn new(is_batch_invariant: bool) -> Self {
        Self { is_batch_invariant, ..Self::default() }
    }

    /// Returns the model with a delay for each pass.
    pub(crate) fn slow(self, pass_time: Duration) -> Self {
        Self { pass_time, ..self }
    }

    pub(crate) fn open_sequences(&self) -> usize {
        self.with(|sequences| sequences.len())
    }

    fn with<T>(&self, work: impl FnOnce(&mut Sequences) -> T) -> T {
        work(&mut self.sequences.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn insert(&mut self, states: Vec<u64>) -> SequenceId {
        let id = SequenceId(self.next);
        self.next += 1;
        self.with(|sequences| sequences.insert(id, states));
        id
    }
}

fn mix(state: u64, x: u64) -> u64 {
    (state ^ x).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// Appends tokens. Prompt tokens are appended in pieces, and the lengths of the pieces affect the
/// state.
fn append(states: &mut Vec<u64>, tokens: &[TokenId], role: Role) {
    let mut rest = tokens;
    while !rest.is_empty() {
        let len = match role {
            Role::Prompt => rest.len().min(GRAIN - states.len() % GRAIN),
            Role::Generated => 1,
        };
        let (piece, after) = rest.split_at(len);
        let mut state =
            mix(states.last().copied().unwrap_or(7), len as u64 + 1000 * u64::from(role == Role::Prompt));
        for token in piece {
            state = mix(state, token.0.into());
            states.push(state);
        }
        rest = after;
    }
}

/// Returns logits that favour four tokens, so that outputs repeat themselves.
fn logits(state: u64) -> Vec<f32> {
    let logit = |token: u64| {
        let chance = (mix(mix(state, token), 1) >> 40) as f32 / (1 << 21) as f32;
        let favour = if (97..=100).contains(&token) { 6.0 } else { 0.0 };
        chance + favour
    };
    (0..VOCABULARY as u64).map(logit).collect()
}

/// Keeps only the largest logit of a row.
fn largest(mut row: Vec<f32>) -> Vec<f32> {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().filter(|logit| **logit < largest).for_each(|logit| *logit = f32::NEG_INFINITY);
    row
}

impl LanguageModel for Pieces {
    fn vocab_size(&self) -> usize {
        VOCABULARY
    }
    fn context_len(&self) -> usize {
        CONTEXT
    }
    fn open(&mut self) -> SequenceId {
        self.insert(Vec::new())
    }
    fn close(&mut self, sequence: SequenceId) {
        self.with(|sequences| sequences.remove(&sequence));
    }
    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        self.with(|sequences| sequences.get_mut(&sequence).unwrap().truncate(len));
        Ok(())
    }
    fn prompt_grain(&self) -> usize {
        GRAIN
    }
    fn can_fork(&self) -> bool {
        true
    }
    fn is_batch_invariant(&self) -> bool {
        self.is_batch_invariant
    }
    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        let states = self.with(|sequences| sequences[&sequence][..len].to_vec());
        Ok(self.insert(states))
    }
    fn kv_bytes_per_token(&self) -> usize {
        8
    }
    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        std::thread::sleep(self.pass_time);
        self.with(|sequences| {
            batch.check(|id| sequences.get(&id).map(Vec::len), VOCABULARY, CONTEXT)?;
            let rows = batch.runs.iter().map(|run| {
                let states = sequences.get_mut(&run.sequence).unwrap();
                append(states, run.tokens, run.role);
                let wanted = run.wanted.rows();
                let states = &states[states.len() - wanted.len()..];
                let rows = states.iter().zip(wanted).map(|(state, wanted)| masked(logits(*state), wanted));
                if matches!(run.wanted, Wanted::Largest(_)) {
                    rows.map(largest).collect()
                } else {
                    rows.collect()
                }
            });
            Ok(Logits::new(rows.collect()))
        })
    }
}
