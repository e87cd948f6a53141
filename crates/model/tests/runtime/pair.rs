//! Random calls to two back ends of one model, which must give the same results.

use formwork_lm::{Batch, LanguageModel, Role, Run, SequenceId, Wanted};
use formwork_model::{Device, OpenOptions};
use formwork_vocab::{TokenId, TokenSet};

use crate::tiny::{CONTEXT, open_with, tokens};

/// Vocabulary size of the smallest model.
pub(crate) const LEAST_VOCABULARY: u32 = 96;

/// Two back ends of one model that receive the same calls.
pub(crate) struct Pair {
    pub(crate) models: [Box<dyn LanguageModel>; 2],
    /// Open sequences with their lengths.
    sequences: Vec<([SequenceId; 2], usize)>,
    state: u64,
    /// Maximum difference of two logits, relative to the largest number in the row.
    bound: f32,
}

impl Pair {
    /// Opens a model on the CPU and on `device`.
    pub(crate) fn new(file: &[u8], device: Device, bound: f32) -> Self {
        Self::with_options(file, OpenOptions { device, ..OpenOptions::default() }, bound)
    }

    /// Opens a model on the CPU and with `options`.
    pub(crate) fn with_options(file: &[u8], options: OpenOptions, bound: f32) -> Self {
        let models = [OpenOptions::default(), options];
        let models = models.map(|options| open_with(file, options).unwrap().language_model());
        Self { models, sequences: Vec::new(), state: 0x5eed, bound }
    }

    /// Returns a random number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % limit
    }

    /// Makes a random call.
    pub(crate) fn step(&mut self, name: &str) {
        match self.below(8) {
            0 if self.sequences.len() < 6 => {
                let [cpu, tensors] = &mut self.models;
                self.sequences.push(([cpu.open(), tensors.open()], 0));
            }
            1 if (1..8).contains(&self.sequences.len()) => {
                let index = self.below(self.sequences.len());
                let (ids, len) = self.sequences[index];
                let kept = self.below(len + 1);
                let [cpu, tensors] = &mut self.models;
                let forks = [cpu.fork(ids[0], kept).unwrap(), tensors.fork(ids[1], kept).unwrap()];
                self.sequences.push((forks, kept));
            }
            2 if !self.sequences.is_empty() => {
                let index = self.below(self.sequences.len());
                let ids = self.sequences.swap_remove(index).0;
                self.models.iter_mut().zip(ids).for_each(|(model, id)| model.close(id));
            }
            3 if !self.sequences.is_empty() => {
                let index = self.below(self.sequences.len());
                let kept = self.below(self.sequences[index].1 + 1);
                let (ids, len) = &mut self.sequences[index];
                *len = kept;
                self.models.iter_mut().zip(*ids).for_each(|(model, id)| model.truncate(id, kept).unwrap());
            }
            _ => self.forward(name),
        }
    }

    fn forward(&mut self, name: &str) {
        let mut set = TokenSet::empty(self.models[0].vocab_size());
        (0..90).step_by(1 + self.below(9)).for_each(|token| set.insert(TokenId(token as u32)));
        let each = [None, Some(&set), None];
        let mut runs = Vec::new();
        for index in 0..self.sequences.len() {
            let len = [1, 1, 1, 5, 40, 300][self.below(6)].min(CONTEXT - self.sequences[index].1);
            if len == 0 || self.below(4) == 0 {
                continue;
            }
            let text: Vec<TokenId> = tokens(len, self.below(1000));
            let text: Vec<TokenId> = text.iter().map(|token| TokenId(token.0 % LEAST_VOCABULARY)).collect();
            let role = if self.below(2) == 0 { Role::Prompt } else { Role::Generated };
            runs.push((index, text, role, self.below(5)));
            self.sequences[index].1 += len;
        }
        let rows = [0, 1].map(|side| {
            let run = |(index, tokens, role, wanted): &(usize, Vec<TokenId>, Role, usize)| {
                let wanted = match wanted {
                    0 => Wanted::Nothing,
                    1 => Wanted::Only(&set),
                    2 => Wanted::Each(&each[each.len().saturating_sub(tokens.len())..]),
                    _ => Wanted::All,
                };
                (self.sequences[*index].0[side], tokens.clone(), *role, wanted)
            };
            let runs: Vec<_> = runs.iter().map(run).collect();
            let run = |(sequence, tokens, role, wanted): &(SequenceId, Vec<TokenId>, Role, _)| {
                (*sequence, tokens.clone(), *role, *wanted)
            };
            let owned: Vec<_> = runs.iter().map(run).collect();
            let runs = owned.iter().map(|(sequence, tokens, role, wanted)| Run {
                sequence: *sequence,
                tokens,
                role: *role,
                wanted: *wanted,
            });
            let logits = self.models[side].forward(&Batch { runs: runs.collect() }).unwrap();
            (0..owned.len()).flat_map(|index| logits.rows(index).to_vec()).collect::<Vec<_>>()
        });
        let [cpu, tensors] = rows;
        let bound = self.bound;
        assert_eq!(cpu.len(), tensors.len(), "{name}");
        for (given, expected) in tensors.iter().zip(&cpu) {
            assert_eq!(given.len(), expected.len(), "{name}");
            let finite = expected.iter().filter(|logit| logit.is_finite());
            let largest = finite.fold(1.0f32, |largest, logit| largest.max(logit.abs()));
            for (given, expected) in given.iter().zip(expected) {
                let close = given.total_cmp(expected).is_eq() || (given - expected).abs() <= bound * largest;
                assert!(close, "{name}: {given} instead of {expected}");
            }
        }
    }
}
