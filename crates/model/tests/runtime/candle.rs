//! Compares the GPU code, on the tested device, with the CPU kernels. The same calls must give the
//! same results.

use candle_core::quantized::GgmlDType;
use formwork_lm::{Batch, LanguageModel, Role, Run, SequenceId, Wanted};
use formwork_model::{Device, Model, OpenOptions};
use formwork_vocab::{TokenId, TokenSet};

use crate::published::goldens;
use crate::tiny::{self, CONTEXT, tokens};
use crate::{converted, tiny::open_with};

/// Vocabulary size of the smallest model.
const LEAST_VOCABULARY: u32 = 96;

/// Returns the maximum difference, relative to the largest number in the row.
fn bound() -> f32 {
    if tiny::tested() == Device::Reference { 1e-4 } else { tiny::HALF_KEYS }
}

/// Two back ends of one model that receive the same calls.
struct Pair {
    models: [Box<dyn LanguageModel>; 2],
    /// Open sequences with their lengths.
    sequences: Vec<([SequenceId; 2], usize)>,
    state: u64,
}

impl Pair {
    fn new(file: &[u8]) -> Self {
        let open = |device| open_with(file, OpenOptions { device, ..OpenOptions::default() }).unwrap();
        let models = [Device::Cpu, tiny::tested()].map(|device| open(device).language_model());
        Self { models, sequences: Vec::new(), state: 0x5eed }
    }

    /// Returns a random number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % limit
    }

    fn step(&mut self, name: &str) {
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
        let bound = bound();
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

#[test]
fn tensors_and_kernels_agree() {
    let small = |name: &str| name.ends_with("-64");
    for (name, golden) in goldens().iter().filter(|(name, golden)| small(name) && !golden.is_native_only()) {
        let file = converted::gguf_with(golden, GgmlDType::F32, Some(CONTEXT as u32));
        let mut pair = Pair::new(&file);
        for _ in 0..50 {
            pair.step(name);
        }
    }
}

#[test]
fn hidden_states_are_alike() {
    let small = |name: &str| name.ends_with("-64");
    for (name, golden) in goldens().iter().filter(|(name, golden)| small(name) && !golden.is_native_only()) {
        let mut pair = Pair::new(&converted::gguf_with(golden, GgmlDType::F32, Some(CONTEXT as u32)));
        let text: Vec<TokenId> = tokens(40, 3).iter().map(|t| TokenId(t.0 % LEAST_VOCABULARY)).collect();
        let [cpu, tensors] = [0, 1].map(|side| {
            let sequence = pair.models[side].open();
            pair.models[side].hidden_states(sequence, &text).unwrap()
        });
        assert_eq!(cpu.len(), tensors.len());
        let largest = cpu.iter().fold(1.0f32, |largest, x| largest.max(x.abs()));
        assert!(cpu.iter().zip(&tensors).all(|(x, y)| (x - y).abs() <= bound() * largest), "{name}");
    }
}

#[test]
fn quantised_weights_are_expanded_for_the_reference() {
    for dtype in [GgmlDType::Q8_0, GgmlDType::Q4_0] {
        let text = tokens(30, 3);
        let row = |tiny: &tiny::Tiny, device| {
            let options = OpenOptions { device, ..OpenOptions::default() };
            let mut model = open_with(&tiny.file, options).unwrap().language_model();
            let sequence = model.open();
            tiny::append(&mut *model, sequence, &text, Role::Prompt, Wanted::All).unwrap()
        };
        let expanded = tiny::expanded("llama", dtype);
        let given = row(&tiny::tiny("llama", dtype), Device::Reference);
        assert_eq!(given, row(&expanded, Device::Reference), "{dtype:?}");
        let exact = row(&expanded, Device::Cpu);
        let error =
            given.iter().zip(&exact).fold(0f32, |most, (given, exact)| most.max((given - exact).abs()));
        assert!(error < 1e-4, "{dtype:?}: {error}");
    }
}

#[test]
fn errors_of_devices_name_them() {
    let tiny = tiny::tiny("llama", GgmlDType::F32);
    let open = |device| -> Result<Model, _> {
        open_with(&tiny.file, OpenOptions { device, ..OpenOptions::default() })
    };
    if cfg!(not(feature = "cuda")) {
        let error = open(Device::Cuda(1)).unwrap_err().to_string();
        assert!(error.contains("the device cuda:1 needs a build with the feature \"cuda\""), "{error}");
        assert!(open(Device::Auto).is_ok());
    }
    if cfg!(not(feature = "metal")) {
        let error = open(Device::Metal).unwrap_err().to_string();
        assert!(error.contains("the device metal needs a build with the feature \"metal\""), "{error}");
    }
    let mut model = open(tiny::tested()).unwrap().language_model();
    let sequence = model.open();
    let mut try_run = |tokens: &[TokenId]| {
        tiny::append(&mut *model, sequence, tokens, Role::Prompt, Wanted::All).unwrap_err().to_string()
    };
    assert_eq!(try_run(&tokens(CONTEXT + 1, 1)), "601 tokens exceed the context length of 600");
    assert_eq!(try_run(&[TokenId(200)]), "token 200 is out of range (vocabulary size 200)");
}
