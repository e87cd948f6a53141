//! A sequence of a decoder: its keys and values, and its states.

use std::io;
use std::sync::Arc;

use formwork_kernels::Slot;
use formwork_vocab::TokenId;

use super::draft_head::HeadState;
use super::kv::{KvCache, KvMemory};
use super::state::{StateMemory, States};
use crate::adapter::Adapter;

/// Number of passes of the decoder after which a sequence that took part in none is idle.
const IDLE: u64 = 64;

/// Data that a decoder keeps for a sequence.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) cache: KvCache,
    /// `None` if the model has no states.
    pub(super) recurrent: Option<Recurrent>,
    /// State for the model's own head for drafts. `None` if there is none, or if the sequence will have
    /// no drafts.
    pub(super) head: Option<HeadState>,
    /// Adapter that the tokens are computed with.
    pub(super) adapter: Option<Arc<Adapter>>,
    /// Time of the last forward pass, as a number of passes of the decoder.
    pub(super) used: u64,
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
        let cache = KvCache::new(kv_memory);
        Self { cache, recurrent: state_memory.map(recurrent), head: None, adapter: None, used: 0 }
    }

    /// Makes no more snapshots of states and computes no drafts, because the sequence will only be read.
    pub(super) fn only_read(&mut self) {
        self.head = None;
        if let Some(recurrent) = &mut self.recurrent {
            recurrent.states.make_no_snapshots();
        }
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
        if let Some(head) = &mut self.head {
            head.truncate(len);
        }
        let Some(Recurrent { states, tokens }) = &mut self.recurrent else {
            return self.cache.truncate(len);
        };
        tokens.truncate(len);
        let Some(count) = self.cache.len().checked_sub(len).filter(|count| *count > 0) else { return };
        let mut position = len;
        if !states.cut(count) {
            position = states.restorable(len);
            states.restore(position);
        }
        self.cache.truncate(position);
    }

    /// Keeps the first `len` tokens as far as they are computed, and removes all others. Returns the number
    /// of remaining tokens.
    #[cfg(feature = "gpu")]
    pub(super) fn keep_computed(&mut self, len: usize) -> usize {
        self.truncate(len);
        let computed = self.cache.len();
        self.truncate(computed);
        computed
    }

    /// Returns a sequence with the first `len` tokens of this one. Both share keys, values and states.
    pub(super) fn fork(&self, len: usize) -> Self {
        let cache = self.cache.fork(self.cache.len());
        let (recurrent, adapter) = (self.recurrent.clone(), self.adapter.clone());
        let head = self.head.as_ref().map(|head| head.fork(len));
        let mut fork = Self { cache, recurrent, head, adapter, used: self.used };
        fork.truncate(len);
        if let Some(recurrent) = &mut fork.recurrent {
            recurrent.states.shrink();
        }
        fork
    }

    /// Returns the copies of states that the sequence holds, with what each is worth
    /// ([`States::worths`]). They include the state itself if the sequence has not been used in the
    /// last [`IDLE`] passes before `now`.
    pub(super) fn worths(&self, now: u64) -> impl Iterator<Item = (f32, &Arc<Slot>)> {
        let age = now - self.used;
        let recency = 1.0 / (1.0 + age as f32 / IDLE as f32);
        let states = self.recurrent.iter().flat_map(move |recurrent| {
            let computed = (age > IDLE).then_some(self.cache.len());
            recurrent.states.worths(recurrent.tokens.len(), computed)
        });
        states.map(move |(worth, state)| (worth * recency, state))
    }

    /// Forgets a state that [`Sequence::worths`] returned. Tokens after the last remaining one will be
    /// computed again.
    pub(super) fn forget(&mut self, state: &Arc<Slot>, now: u64) {
        let is_idle = now - self.used > IDLE;
        let Some(Recurrent { states, .. }) = &mut self.recurrent else { return };
        states.forget(state);
        if is_idle && states.is_live(state) {
            let position = states.restorable(self.cache.len());
            states.restore(position);
            self.cache.truncate(position);
            if let Some(head) = &mut self.head {
                head.truncate(position);
            }
        }
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

    /// Takes memory to compute the next `count` tokens, the last `drafts` of them drafted.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn reserve(&mut self, count: usize, drafts: usize) -> io::Result<()> {
        let position = self.cache.len();
        self.cache.reserve(position + count)?;
        match &mut self.recurrent {
            Some(recurrent) => recurrent.states.begin(position, count, drafts),
            None => Ok(()),
        }
    }
}
