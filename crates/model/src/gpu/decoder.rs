//! A decoder with its open sequences.

use std::sync::Arc;

use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, Run, SequenceId, Wanted};
use formwork_vocab::TokenId;
use rustc_hash::FxHashMap;

use super::Network;
use super::pass::{Memory, Results};
use super::pipeline::LastLayers;
use super::pool::own_key_len;
use super::progress::Progress;
use super::sequence::Sequence;
use super::states::Slot;

/// Decoder of a model.
pub(super) struct Decoder {
    network: Arc<Network>,
    context: usize,
    /// Memory of the device. `None` before the first pass.
    memory: Option<Memory>,
    sequences: FxHashMap<SequenceId, Sequence>,
    next: u32,
    /// Number of calls so far.
    now: u64,
    /// Number of tokens that were computed again so far.
    replayed: u64,
}

impl Decoder {
    pub(super) fn new(network: Arc<Network>, context: usize) -> Self {
        let sequences = FxHashMap::default();
        Self { network, context, memory: None, sequences, next: 0, now: 0, replayed: 0 }
    }

    /// Computes all tokens of `batch`. `input` is the residual stream before the first layer for the tokens
    /// of all runs, or `None` for their embeddings.
    fn compute<'a>(
        &mut self,
        batch: &Batch<'a>,
        input: Option<&'a [f32]>,
        results: Results,
    ) -> Result<Vec<Progress<'a>>, ModelError> {
        let len = |sequence| self.sequences.get(&sequence).map(Sequence::len);
        batch.check(len, self.network.spec.vocabulary, self.context)?;
        let memory = match &mut self.memory {
            Some(memory) => memory,
            none => none.insert(Memory::new(&self.network, self.context).map_err(ModelError::backend)?),
        };
        self.now += 1;
        let (mut rest, hidden) = (input, self.network.spec.hidden);
        let runs = batch.runs.iter().filter_map(|&run| {
            let mut sequence = self.sequences.remove(&run.sequence)?;
            sequence.used = self.now;
            let input = rest.as_mut().and_then(|rest| rest.split_off(..run.tokens.len() * hidden));
            Some(Progress::new(run, sequence, input))
        });
        let mut runs: Vec<Progress<'_>> = runs.collect();
        self.replayed += runs.iter().map(|run| run.replayed() as u64).sum::<u64>();
        let result = memory.advance(&self.network, &mut runs, results);
        let sequences = runs.iter_mut().map(|run| (run.run.sequence, std::mem::take(&mut run.sequence)));
        self.sequences.extend(sequences);
        result.map_err(ModelError::backend)?;
        self.bound_states();
        Ok(runs)
    }

    /// Appends every run to its sequence, and returns the residual stream after the last layer. `input` is
    /// the stream before the first layer, or `None` for the embeddings of the tokens. Shape of both:
    /// `[tokens, hidden]`.
    pub(super) fn residual_after(
        &mut self,
        batch: &Batch<'_>,
        input: Option<&[f32]>,
    ) -> Result<Vec<f32>, ModelError> {
        let runs = self.compute(batch, input, Results::Stream)?;
        Ok(runs.into_iter().flat_map(|run| run.states).collect())
    }

    /// Forgets the least useful copies of states until the others fit the limit. The states of
    /// sequences in use are no such copies.
    fn bound_states(&mut self) {
        let Some(memory) = self.memory.as_ref().filter(|_| self.network.spec.has_state()) else { return };
        let most = self.network.state_bytes / memory.states.state_bytes().max(1);
        // Sequences share states, so this is an upper limit of their number.
        if self.sequences.values().map(Sequence::states).sum::<usize>() <= most {
            return;
        }
        loop {
            // A shared state is worth what it is worth to any of its sequences.
            let mut worths: FxHashMap<u32, (f32, &Slot)> = FxHashMap::default();
            for (worth, state) in self.sequences.values().flat_map(|sequence| sequence.worths(self.now)) {
                let known = worths.entry(state.index()).or_insert((worth, state));
                known.0 = known.0.max(worth);
            }
            if worths.len() <= most {
                return;
            }
            let least = worths.values().min_by(|a, b| a.0.total_cmp(&b.0));
            let Some(state) = least.map(|(_, state)| Slot::clone(state)) else { return };
            for sequence in self.sequences.values_mut() {
                sequence.forget(&state, self.now);
            }
        }
    }
}

impl LastLayers for Decoder {
    fn keep_computed(&mut self, sequence: SequenceId, len: usize) -> usize {
        self.sequences.get_mut(&sequence).map_or(0, |sequence| sequence.keep_computed(len))
    }

    fn finish(&mut self, batch: &Batch<'_>, input: &[f32]) -> Result<Logits, ModelError> {
        let runs = self.compute(batch, Some(input), Results::Logits)?;
        Ok(runs.into_iter().map(|run| run.logits).collect())
    }

    fn states(&mut self, run: Run<'_>, input: &[f32]) -> Result<Vec<f32>, ModelError> {
        let runs = self.compute(&Batch { runs: vec![run] }, Some(input), Results::States)?;
        Ok(runs.into_iter().flat_map(|run| run.states).collect())
    }
}

impl LanguageModel for Decoder {
    fn vocab_size(&self) -> usize {
        self.network.spec.vocabulary
    }

    fn context_len(&self) -> usize {
        self.context
    }

    fn architecture(&self) -> Option<&str> {
        Some(&self.network.spec.architecture)
    }

    fn open(&mut self) -> SequenceId {
        let id = SequenceId(self.next);
        self.next = self.next.wrapping_add(1);
        let sequence = Sequence::new(self.network.spec.has_state());
        self.sequences.insert(id, Sequence { used: self.now, ..sequence });
        id
    }

    fn close(&mut self, sequence: SequenceId) {
        self.sequences.remove(&sequence);
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        let table = self.sequences.get_mut(&sequence);
        table.ok_or_else(|| ModelError::unknown_sequence(sequence))?.truncate(len);
        Ok(())
    }

    fn can_fork(&self) -> bool {
        true
    }

    fn truncates_cheaply(&self) -> bool {
        !self.network.spec.has_state()
    }

    fn replayed_tokens(&self) -> u64 {
        self.replayed
    }

    fn is_batch_invariant(&self) -> bool {
        self.network.is_invariant
    }

    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        let parent = self.sequences.get(&sequence).ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        let fork = parent.fork(len);
        let id = self.open();
        self.sequences.insert(id, fork);
        Ok(id)
    }

    fn kv_bytes_per_token(&self) -> usize {
        let lens = self.network.spec.layers.iter().map(own_key_len);
        2 * self.network.kv.bytes() * lens.sum::<usize>()
    }

    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        let run = Run { sequence, tokens, role: Role::Prompt, wanted: Wanted::Nothing };
        let runs = self.compute(&Batch { runs: vec![run] }, None, Results::States)?;
        let hidden = self.network.spec.hidden;
        let states = runs.into_iter().flat_map(|run| {
            let skipped = run.replayed() * hidden;
            run.states.into_iter().skip(skipped)
        });
        Ok(states.collect())
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        let runs = self.compute(batch, None, Results::Logits)?;
        Ok(runs.into_iter().map(|run| run.logits).collect())
    }
}
