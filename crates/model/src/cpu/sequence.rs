//! A sequence of a decoder: its keys and values, and its states.

use std::io;

use formwork_vocab::TokenId;

use super::kv::{KvCache, KvMemory};
use super::state::{StateMemory, States};

/// What a decoder keeps of a sequence.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) cache: KvCache,
    /// `None` if the model has no states.
    pub(super) recurrent: Option<Recurrent>,
}

/// States of a sequence, and the tokens to compute them again from.
#[derive(Clone, Debug)]
pub(super) struct Recurrent {
    pub(super) states: States,
    /// All tokens of the sequence. Those beyond the keys and values in the cache were computed
    /// before, and must be computed again.
    tokens: Vec<TokenId>,
}

impl Sequence {
    /// Creates a sequence without tokens.
    pub(super) fn new(kv_memory: KvMemory, state_memory: Option<&StateMemory>) -> Self {
        let recurrent =
            |memory: &StateMemory| Recurrent { states: States::new(memory.clone()), tokens: Vec::new() };
        Self { cache: KvCache::new(kv_memory), recurrent: state_memory.map(recurrent) }
    }

    /// Returns the number of tokens.
    pub(super) fn len(&self) -> usize {
        self.recurrent.as_ref().map_or(self.cache.len(), |recurrent| recurrent.tokens.len())
    }

    /// Returns the tokens that must be computed again before the sequence can go on.
    pub(super) fn to_replay(&self) -> &[TokenId] {
        self.recurrent.as_ref().map_or(&[], |recurrent| &recurrent.tokens[self.cache.len()..])
    }

    /// Removes all tokens except the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        let Some(Recurrent { states, tokens }) = &mut self.recurrent else {
            return self.cache.truncate(len);
        };
        tokens.truncate(len);
        if len < self.cache.len() {
            let position = states.restorable(len);
            states.restore(position);
            self.cache.truncate(position);
        }
    }

    /// Returns a sequence with the first `len` tokens of this one. Both share keys, values and states.
    pub(super) fn fork(&self, len: usize) -> Self {
        let mut fork = Self { cache: self.cache.fork(self.cache.len()), recurrent: self.recurrent.clone() };
        fork.truncate(len);
        fork
    }

    /// Adds tokens that will be computed.
    pub(super) fn append(&mut self, tokens: &[TokenId]) {
        if let Some(recurrent) = &mut self.recurrent {
            recurrent.tokens.extend_from_slice(tokens);
        }
    }

    /// Keeps a snapshot of the state after the computed tokens, because the sequence will probably be
    /// cut here.
    pub(super) fn keep(&mut self) {
        if let Some(recurrent) = &mut self.recurrent {
            recurrent.states.keep(self.cache.len());
        }
    }

    /// Ends a forward pass that has computed tokens of the sequence.
    pub(super) fn finish(&mut self) {
        if let Some(recurrent) = &mut self.recurrent {
            recurrent.states.finish(self.cache.len());
        }
    }

    /// Takes memory to compute the next `count` tokens.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn reserve(&mut self, count: usize) -> io::Result<()> {
        let position = self.cache.len();
        self.cache.reserve(position + count)?;
        match &mut self.recurrent {
            Some(recurrent) => recurrent.states.begin(position, count),
            None => Ok(()),
        }
    }
}
