//! Tests of candle's own models. `goldens/borrowed/borrowed.py` generated the expected logits.

use candle_core::quantized::GgmlDType;
use formwork_lm::{LanguageModel, Role, SequenceId, Wanted};
use formwork_model::{Definition, Device, KvCacheType, Model, OpenOptions, Quantization};
use formwork_vocab::TokenId;
use serde_json::json;

use crate::published::{Golden, goldens_in};
use crate::tiny::append;
use crate::writer::Writer;

fn borrowed() -> Vec<(String, Golden)> {
    goldens_in("tests/runtime/goldens/borrowed")
}

fn open(golden: &Golden) -> Model {
    let folder = golden.checkpoint();
    Model::open(folder.path(), OpenOptions::default()).unwrap()
}

/// A way of appending a text to a sequence. Returns the logits after the last token.
type Feed = fn(&mut dyn LanguageModel, SequenceId, &[TokenId]) -> Vec<f32>;

const FEEDS: [(&str, Feed); 4] = [
    ("at once", |model, sequence, text| append(model, sequence, text, Role::Prompt, Wanted::All).unwrap()),
    ("token by token", |model, sequence, text| {
        let mut logits = Vec::new();
        for token in text {
            logits = append(model, sequence, &[*token], Role::Generated, Wanted::All).unwrap();
        }
        logits
    }),
    ("in pieces", |model, sequence, text| {
        let (first, second) = text.split_at(text.len() / 3);
        if !first.is_empty() {
            append(model, sequence, first, Role::Prompt, Wanted::Nothing).unwrap();
        }
        append(model, sequence, second, Role::Prompt, Wanted::All).unwrap()
    }),
    ("after going back", |model, sequence, text| {
        let (last, most) = text.split_last().unwrap();
        let other = [most, &[TokenId(5), TokenId(9)]].concat();
        append(model, sequence, &other, Role::Prompt, Wanted::Nothing).unwrap();
        model.truncate(sequence, most.len()).unwrap();
        append(model, sequence, &[*last], Role::Generated, Wanted::All).unwrap()
    }),
];

impl Golden {
    /// Compares the logits with the expected ones, for every way of appending the text.
    fn assert_borrowed(&self, model: &Model, name: &str) {
        let tokens: Vec<TokenId> = self.tokens.iter().copied().map(TokenId).collect();
        for (how, feed) in FEEDS {
            let model = &mut *model.language_model();
            for (&position, expected) in self.positions.iter().zip(&self.logits) {
                let sequence = model.open();
                let given = feed(model, sequence, &tokens[..=position]);
                assert_eq!(given.len(), expected.len(), "{name}");
                let largest = expected.iter().fold(1.0f32, |largest, logit| largest.max(logit.abs()));
                for (given, expected) in given.iter().zip(expected) {
                    let close = (given - expected).abs() <= 1e-4 * largest;
                    assert!(close, "{name}, {how}, at {position}: {given} instead of {expected}");
                }
            }
        }
    }
}

#[test]
fn candles_models_compute_what_transformers_does() {
    for (name, golden) in borrowed() {
        let model = open(&golden);
        assert!(model.spec().is_none(), "{name}");
        assert_eq!(Definition::of(model.checkpoint()).unwrap(), Definition::Candle, "{name}");
        assert_eq!(model.context_len(), 64, "{name}");
        golden.assert_borrowed(&model, &name);
    }
}

/// Creates the GGUF file of a model of type phi, with the names and keys of llama.cpp's converter.
fn gguf(golden: &Golden) -> Vec<u8> {
    let name = "phi2";
    let size = |key: &str| golden.config[key].as_u64().unwrap() as u32;
    let real = |key: &str| golden.config[key].as_f64().unwrap() as f32;
    let key = |part: &str| format!("{name}.{part}");
    let mut writer = Writer::default();
    writer.string("general.architecture", name);
    writer.u32(&key("block_count"), size("num_hidden_layers"));
    writer.u32(&key("context_length"), size("max_position_embeddings"));
    writer.u32(&key("embedding_length"), size("hidden_size"));
    writer.u32(&key("feed_forward_length"), size("intermediate_size"));
    writer.u32(&key("attention.head_count"), size("num_attention_heads"));
    writer.u32(&key("attention.head_count_kv"), size("num_key_value_heads"));
    writer.u32(&key("attention.key_length"), size("hidden_size") / size("num_attention_heads"));
    writer.u32(&key("rope.dimension_count"), size("hidden_size") / size("num_attention_heads") / 2);
    writer.f32(&key("rope.freq_base"), real("rope_theta"));
    writer.f32(&key("attention.layer_norm_epsilon"), real("layer_norm_eps"));
    let names = [
        ("model.embed_tokens", "token_embd"),
        ("lm_head", "output"),
        ("model.final_layernorm", "output_norm"),
        ("model.layers", "blk"),
        ("input_layernorm", "attn_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.dense", "attn_output"),
        ("mlp.fc1", "ffn_up"),
        ("mlp.fc2", "ffn_down"),
    ];
    for (tensor, shape) in &golden.tensors {
        let own = names.iter().fold(tensor.clone(), |name, (from, to)| name.replace(from, to));
        let mut shape: Vec<u64> = shape.iter().rev().map(|&len| len as u64).collect();
        let mut values = golden.values(tensor);
        // The three projections are a single tensor.
        let own = match own.strip_suffix(".weight").or(own.strip_suffix(".bias")) {
            Some(part) if part.ends_with("attn_q") => {
                values.extend(golden.values(&tensor.replace("q_proj", "k_proj")));
                values.extend(golden.values(&tensor.replace("q_proj", "v_proj")));
                *shape.last_mut().unwrap() *= 3;
                own.replace("attn_q", "attn_qkv")
            }
            Some(part) if part.ends_with("attn_k") || part.ends_with("attn_v") => continue,
            _ => own,
        };
        writer.tensor(&own, &shape, GgmlDType::F32, &values);
    }
    writer.finish()
}

#[test]
fn candles_models_compute_from_gguf_files() {
    for (name, golden) in borrowed() {
        if golden.model_type() != "phi" {
            continue;
        }
        let model = crate::tiny::open(&gguf(&golden)).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        golden.assert_borrowed(&model, &name);
    }
}

#[test]
fn unsupported_operations_of_candle_models_are_errors() {
    let (_, golden) = borrowed().remove(0);
    let folder = golden.checkpoint();
    let options = OpenOptions { quantize: Some(Quantization::Q8_0), ..OpenOptions::default() };
    let error = Model::open(folder.path(), options).unwrap_err().to_string();
    assert!(error.contains("cannot quantize weights"), "{error}");
    let options = OpenOptions { kv_cache: KvCacheType::Q8, ..OpenOptions::default() };
    let error = Model::open(folder.path(), options).unwrap_err().to_string();
    assert!(error.contains("keys and values of 8 bits"), "{error}");
    let error = open(&golden).hidden_states(&[TokenId(1)]).unwrap_err();
    assert_eq!(error.to_string(), "the model's backend failed");
    // For these models, the reference device is the same as the CPU.
    let reference = OpenOptions { device: Device::Reference, ..OpenOptions::default() };
    assert!(Model::open(folder.path(), reference).is_ok());
}

#[test]
fn broken_configurations_are_errors() {
    let (_, mut golden) = borrowed().remove(0);
    let open = |golden: &Golden| {
        let folder = golden.checkpoint();
        Model::open(folder.path(), OpenOptions::default()).unwrap_err().to_string()
    };
    for scaling in [json!({"type": "linear", "factor": 2.0}), json!({"rope_type": "yarn", "factor": 2.0})] {
        golden.config.insert("rope_scaling".to_owned(), scaling);
        assert!(open(&golden).contains("does not support scaled rotary frequencies"));
    }
    golden.config.remove("rope_scaling");
    golden.config.insert("num_attention_heads".to_owned(), 0.into());
    assert!(!open(&golden).is_empty());
    golden.config.remove("num_attention_heads");
    assert!(open(&golden).contains("config.json"));
    golden.config.insert("num_attention_heads".to_owned(), 4.into());
    golden.tensors.remove("model.norm.weight");
    assert!(!open(&golden).is_empty());
}

/// Checks that a configuration with any changed number either gives an error or a model that
/// computes.
#[test]
fn survives_odd_configurations() {
    for (name, golden) in borrowed() {
        let numbers: Vec<String> =
            golden.config.iter().filter(|(_, value)| value.is_number()).map(|(key, _)| key.clone()).collect();
        for key in numbers {
            for odd in [0.into(), 1.into(), 7.into(), 1_000_000_000.into(), (-1).into(), json!(0.3)] {
                let mut golden = golden.clone();
                golden.config.insert(key.clone(), odd);
                let folder = golden.checkpoint();
                let Ok(model) = Model::open(folder.path(), OpenOptions::default()) else { continue };
                let model = &mut *model.language_model();
                let sequence = model.open();
                let tokens = [TokenId(1), TokenId(2)];
                let given = append(model, sequence, &tokens, Role::Prompt, Wanted::All);
                if let Ok(logits) = given {
                    assert_eq!(logits.len(), model.vocab_size(), "{name}, {key}");
                }
            }
        }
    }
}
