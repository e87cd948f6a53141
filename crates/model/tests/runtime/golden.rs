//! Real models, where `FORMWORK_TEST_MODELS` names a folder with their files.
//!
//! The expected tokens are those of candle-transformers 0.11.1 on the same files: `quantized_llama`, and
//! `quantized_gemma3` with the activation and the window of the reference implementation (0.11.1 has `SiLU` for GELU and
//! one position too many).

use std::path::PathBuf;

use formwork_lm::{LanguageModel, Role, Wanted};
use formwork_model::{Device, Model, OpenOptions};
use formwork_vocab::TokenId;

use crate::tiny::append;

const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const GEMMA3: &str = "gemma-3-270m-q4_k_m.gguf";

/// The file of this name, where the folder is set and has it.
fn real(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("FORMWORK_TEST_MODELS")?).join(name);
    path.exists().then_some(path)
}

/// The likeliest tokens, one after the other.
fn greedy(model: &mut dyn LanguageModel, prompt: &[u32], count: usize) -> Vec<u32> {
    let prompt: Vec<TokenId> = prompt.iter().copied().map(TokenId).collect();
    let sequence = model.open();
    let mut logits = append(model, sequence, &prompt, Role::Prompt, Wanted::All).unwrap();
    let mut out = Vec::new();
    for _ in 0..count {
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        out.push(best as u32);
        let next = [TokenId(best as u32)];
        logits = append(model, sequence, &next, Role::Generated, Wanted::All).unwrap();
    }
    out
}

/// By how much rounding activations to 8 bits may move the difference of two logits: what one step in a hundred exceeds.
const ROUNDING: f32 = 0.5;

/// Whether the model finds each of `expected` likeliest after those before it, or as likely as rounding can tell.
fn agrees(model: &mut dyn LanguageModel, prompt: &[u32], expected: &[u32]) -> bool {
    let prompt: Vec<TokenId> = prompt.iter().copied().map(TokenId).collect();
    let sequence = model.open();
    let mut logits = append(model, sequence, &prompt, Role::Prompt, Wanted::All).unwrap();
    expected.iter().all(|&token| {
        let most = logits.iter().copied().fold(f32::MIN, f32::max);
        let is_close = most - logits[token as usize] < ROUNDING;
        logits = append(model, sequence, &[TokenId(token)], Role::Generated, Wanted::All).unwrap();
        is_close
    })
}

#[test]
fn smollm2_continues_as_expected() {
    let Some(path) = real(SMOLLM2) else { return };
    let model = Model::open(&path, OpenOptions::default()).unwrap();
    assert_eq!((model.parameters(), model.context_len()), (134_515_008, 8192));
    let prompt = [
        504, 1463, 282, 260, 7510, 1757, 5634, 281, 1910, 28, 837, 39245, 1502, 436, 808, 804, 30, 3027,
        5376, 1643, 338, 260, 2824, 282, 2905, 4247, 638, 701, 835, 28, 284, 338, 4199, 6679, 1130, 260, 725,
        10971, 30, 216, 504, 1463, 282, 260, 7510, 1757, 5634,
    ];
    let model = &mut *model.language_model();
    let short = [
        29, 2058, 7510, 436, 808, 4727, 281, 260, 216, 33, 36, 373, 2070, 30, 1423, 28, 260, 10531, 282, 260,
        7510, 1757, 25774, 260,
    ];
    // At its fifth step the two best are 0.2 apart, and so are those of the long one at its twenty-second.
    assert!(agrees(model, &prompt[..12], &short));
    assert_eq!(greedy(model, &prompt[..12], 4), short[..4]);
    let long = [
        281, 1910, 28, 837, 39245, 1502, 436, 808, 804, 30, 3027, 5376, 1643, 338, 260, 2824, 282, 2905,
        4247, 638, 701, 835, 28, 284,
    ];
    assert!(agrees(model, &prompt, &long));
    assert_eq!(greedy(model, &prompt, 21), long[..21]);
    let reference = OpenOptions { device: Device::Reference, ..OpenOptions::default() };
    let model = &mut *Model::open(path, reference).unwrap().language_model();
    assert_eq!(greedy(model, &prompt[..12], short.len()), short);
    assert_eq!(greedy(model, &prompt, long.len()), long);
}

#[test]
fn gemma3_continues_as_expected() {
    let Some(path) = real(GEMMA3) else { return };
    let model = Model::open(path, OpenOptions::default()).unwrap();
    assert_eq!((model.parameters(), model.context_len()), (268_098_176, 32_768));
    let prompt = [2, 818, 1806, 7488, 9979, 528, 7001, 659, 9079, 236_764];
    let expected = [
        49533, 532, 82706, 236_761, 108, 818, 1806, 7488, 9979, 528, 7001, 659, 9079, 236_764, 49533, 532,
        82706,
    ];
    assert_eq!(greedy(&mut *model.language_model(), &prompt, expected.len()), expected);
}

#[test]
fn real_vocabularies_become_tokenizers() {
    for (name, tokens) in [(SMOLLM2, 49_152), (GEMMA3, 262_144)] {
        let Some(path) = real(name) else { continue };
        let model = Model::open(path, OpenOptions::default()).unwrap();
        assert_eq!(model.tokenizer().unwrap().vocabulary().len(), tokens);
    }
}
