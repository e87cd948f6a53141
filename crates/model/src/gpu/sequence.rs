//! A sequence of a decoder: its keys and values, and its states.

use formwork_lm::Role;
use formwork_vocab::TokenId;

use super::states::{Slot, States};
use crate::paged::Table;

/// Number of calls of the decoder after which a sequence that took part in none is idle.
const IDLE: u64 = 64;

/// Data that a decoder keeps for a sequence.
#[derive(Clone, Default)]
pub(super) struct Sequence {
    /// Keys and values of the computed tokens.
    pub(super) table: Table,
    /// `None` if the model has no states.
    pub(super) recurrent: Option<Recurrent>,
    /// Time of the last call, as a number of calls of the decoder.
    pub(super) used: u64,
}

/// States of a sequence, and the tokens to compute them again from.
#[derive(Clone, Default)]
pub(super) struct Recurrent {
    pub(super) states: States,
    /// All tokens of the sequence. Those beyond the keys and values in the table were computed before,
    /// and must be computed again.
    tokens: Vec<(TokenId, Role)>,
}

impl Sequence {
    /// Creates a sequence without tokens.
    pub(super) fn new(has_states: bool) -> Self {
        Self { recurrent: has_states.then(Recurrent::default), ..Self::default() }
    }

    /// Returns the number of tokens.
    pub(super) fn len(&self) -> usize {
        self.recurrent.as_ref().map_or(self.table.len(), |recurrent| recurrent.tokens.len())
    }

    /// Returns the tokens that must be computed again before the sequence can go on.
    pub(super) fn to_replay(&self) -> &[(TokenId, Role)] {
        self.recurrent.as_ref().map_or(&[], |recurrent| &recurrent.tokens[self.table.len()..])
    }

    /// Adds tokens that will be computed.
    pub(super) fn append(&mut self, tokens: &[TokenId], role: Role) {
        if let Some(recurrent) = &mut self.recurrent {
            recurrent.tokens.extend(tokens.iter().map(|token| (*token, role)));
        }
    }

    /// Removes all tokens except the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        let Some(Recurrent { states, tokens }) = &mut self.recurrent else {
            return self.table.truncate(len);
        };
        tokens.truncate(len);
        if len < self.table.len() {
            let position = states.restorable(len);
            states.restore(position);
            self.table.truncate(position);
        }
    }

    /// Keeps the first `len` tokens as far as they are computed, and removes all others. Returns the number
    /// of remaining tokens.
    pub(super) fn keep_computed(&mut self, len: usize) -> usize {
        self.truncate(len);
        let computed = self.table.len();
        self.truncate(computed);
        computed
    }

    /// Returns a sequence with the first `len` tokens of this one. Both share keys, values and states.
    pub(super) fn fork(&self, len: usize) -> Self {
        let mut fork = self.clone();
        fork.truncate(len);
        fork
    }

    /// Keeps a snapshot of the state after the computed tokens.
    pub(super) fn keep(&mut self) {
        if let Some(recurrent) = &mut self.recurrent {
            recurrent.states.keep(self.table.len());
        }
    }

    /// Returns the number of states that the sequence holds.
    pub(super) fn states(&self) -> usize {
        self.recurrent.as_ref().map_or(0, |recurrent| recurrent.states.count())
    }

    /// Returns the copies of states that the sequence holds, with what each is worth
    /// ([`States::worths`]). They include the state itself if the sequence is idle at the time `now`.
    pub(super) fn worths(&self, now: u64) -> impl Iterator<Item = (f32, &Slot)> {
        let age = now - self.used;
        let recency = 1.0 / (1.0 + age as f32 / IDLE as f32);
        let states = self.recurrent.iter().flat_map(move |recurrent| {
            let computed = (age > IDLE).then_some(self.table.len());
            recurrent.states.worths(recurrent.tokens.len(), computed)
        });
        states.map(move |(worth, state)| (worth * recency, state))
    }

    /// Forgets a state that [`Sequence::worths`] returned. Tokens after the last remaining one will be
    /// computed again.
    pub(super) fn forget(&mut self, state: &Slot, now: u64) {
        let is_idle = now - self.used > IDLE;
        let Some(Recurrent { states, .. }) = &mut self.recurrent else { return };
        states.forget(state);
        if is_idle && states.is_live(state) {
            let position = states.restorable(self.table.len());
            states.restore(position);
            self.table.truncate(position);
        }
    }
}
