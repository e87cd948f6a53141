//! Compares every architecture with Hugging Face transformers, on tiny random models. Compares the
//! residual stream after every layer, and the logits.

use std::iter;

use formwork_lm::{Role, Wanted};
use formwork_model::{Device, Model, OpenOptions};
use formwork_vocab::TokenId;
use serde_json::json;

use crate::converted;
use crate::published::{Golden, Stored, goldens, write_safetensors};
use crate::tiny::{self, append};

impl Golden {
    /// Compares a model with the results of transformers.
    ///
    /// The tolerance is 1e-4 for elements of the residual stream. For logits it is at least 1e-4,
    /// and a millionth of the row's largest. Rows with values of some hundreds are not more exact
    /// in `f32`.
    pub(crate) fn assert_computed_by(&self, model: &Model, name: &str) {
        let compare = |place: &str, given: &[f32], expected: &[f32], tolerance: f32| {
            assert_eq!(given.len(), expected.len(), "{name}, {place}");
            for (given, expected) in given.iter().zip(expected) {
                let close = (given - expected).abs() <= tolerance;
                assert!(close, "{name}, {place}: {given} instead of {expected}");
            }
        };
        let tokens: Vec<TokenId> = self.tokens.iter().copied().map(TokenId).collect();
        let states = model.hidden_states(&tokens).unwrap();
        let hidden = model.spec().unwrap().hidden;
        assert_eq!(states.len(), self.layers.len() + 1, "{name}");
        for (index, (state, expected)) in
            states.iter().zip(iter::once(&self.embedded).chain(&self.layers)).enumerate()
        {
            for (&position, expected) in self.positions.iter().zip(expected) {
                let place = format!("after {index} layers at {position}");
                compare(&place, &state[position * hidden..(position + 1) * hidden], expected, 1e-4);
            }
        }
        for role in [Role::Generated, Role::Prompt] {
            let mut decoder = model.language_model();
            for (&position, expected) in self.positions.iter().zip(&self.logits) {
                let sequence = decoder.open();
                let logits =
                    append(&mut *decoder, sequence, &tokens[..=position], role, Wanted::All).unwrap();
                let largest = expected.iter().fold(0.0f32, |largest, logit| largest.max(logit.abs()));
                compare(
                    &format!("logits at {position}, {role:?}"),
                    &logits,
                    expected,
                    (1e-6 * largest).max(1e-4),
                );
            }
        }
    }

    /// Returns the largest error of a model, relative to the largest number in the same row.
    pub(crate) fn largest_error(&self, model: &Model) -> f32 {
        let error = |given: &[f32], expected: &[f32]| {
            assert_eq!(given.len(), expected.len());
            let largest = expected.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            given.iter().zip(expected).fold(0.0f32, |most, (given, expected)| {
                let error = (given - expected).abs() / largest;
                if error.is_nan() { f32::INFINITY } else { most.max(error) }
            })
        };
        let tokens: Vec<TokenId> = self.tokens.iter().copied().map(TokenId).collect();
        let states = model.hidden_states(&tokens).unwrap();
        let hidden = model.spec().unwrap().hidden;
        assert_eq!(states.len(), self.layers.len() + 1);
        let mut most = 0.0f32;
        for (state, expected) in states.iter().zip(iter::once(&self.embedded).chain(&self.layers)) {
            for (&position, expected) in self.positions.iter().zip(expected) {
                most = most.max(error(&state[position * hidden..(position + 1) * hidden], expected));
            }
        }
        for role in [Role::Generated, Role::Prompt] {
            let mut decoder = model.language_model();
            for (&position, expected) in self.positions.iter().zip(&self.logits) {
                let sequence = decoder.open();
                let text = &tokens[..=position];
                let logits = append(&mut *decoder, sequence, text, role, Wanted::All).unwrap();
                most = most.max(error(&logits, expected));
            }
        }
        most
    }
}

#[test]
fn safetensors_compute_what_transformers_does() {
    for (name, golden) in goldens() {
        let folder = golden.checkpoint();
        let model = Model::open(folder.path(), OpenOptions::default()).unwrap();
        golden.assert_computed_by(&model, &name);
    }
}

/// Tests a text model inside a multimodal checkpoint, as Gemma 3 is released. Omitted fields have
/// their defaults.
#[test]
fn text_models_are_found_in_larger_ones() {
    let golden = goldens().into_iter().find(|(name, _)| name == "gemma3-64").unwrap().1;
    let renames: [fn(&str) -> String; 2] =
        [|name| format!("language_model.{name}"), |name| name.replace("model.", "model.language_model.")];
    for rename in renames {
        let folder = golden.checkpoint();
        let mut text = golden.config.clone();
        for usual in
            ["rms_norm_eps", "rope_theta", "rope_local_base_freq", "sliding_window_pattern", "eos_token_id"]
        {
            text.remove(usual);
        }
        let config = json!({
            "architectures": ["Gemma3ForConditionalGeneration"],
            "eos_token_id": [1, 2],
            "model_type": "gemma3",
            "text_config": text,
            "vision_config": { "hidden_size": 1152 },
        });
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let mut tensors: Vec<Stored> = golden.tensors.keys().map(|name| golden.stored(name)).collect();
        for tensor in &mut tensors {
            tensor.name = rename(&tensor.name);
        }
        let eye = "vision_tower.vision_model.post_layernorm.weight".to_owned();
        tensors.push(Stored { name: eye, dtype: "F32", shape: vec![2], bytes: vec![0; 8] });
        write_safetensors(&folder.path().join("model.safetensors"), tensors);
        let model = Model::open(folder.path(), OpenOptions::default()).unwrap();
        golden.assert_computed_by(&model, "gemma3 inside");
    }
}

/// Runs the GPU code on the tested device. GPUs store keys and values in 16 bits, so their
/// tolerance is larger.
#[test]
fn tensors_compute_what_transformers_does() {
    let device = tiny::tested();
    let mut failed = Vec::new();
    for (name, golden) in goldens() {
        let folder = golden.checkpoint();
        let model = Model::open(folder.path(), OpenOptions { device, ..OpenOptions::default() });
        if golden.is_native_only() {
            let error = model.expect_err("only the CPU computes this").to_string();
            assert!(error.contains("runs on the CPU only"), "{error}");
            continue;
        }
        let model = model.unwrap();
        if device == Device::Reference {
            golden.assert_computed_by(&model, &name);
            continue;
        }
        let error = golden.largest_error(&model);
        eprintln!("{name}: {error:.1e}");
        if error > tiny::HALF_KEYS {
            failed.push(format!("{name}: {error}"));
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn gguf_files_compute_what_transformers_does() {
    for (name, golden) in goldens() {
        // GGUF files have no keys for these fields, so they always have the usual values.
        let is_odd =
            |key: &str, usual: f64| golden.config.get(key).is_some_and(|value| value.as_f64() != Some(usual));
        if is_odd("swiglu_limit", 7.0) || is_odd("no_rope_layer_interval", 4.0) {
            continue;
        }
        let file = converted::gguf(&golden);
        let model = tiny::open(&file).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        golden.assert_computed_by(&model, &name);
    }
}

/// Tests the experts of gpt-oss in their published form: MXFP4, packed in a special order.
#[test]
fn packed_experts_are_what_they_stand_for() {
    let golden = goldens().into_iter().find(|(name, _)| name == "gpt-oss-64").unwrap().1;
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    for (name, shape) in &golden.tensors {
        let stored = golden.stored(name);
        if name.ends_with("_proj") {
            let [experts, inputs, outputs] = shape[..] else { panic!("{name} has another shape") };
            let (values, tensors) = mxfp4(name, (experts, inputs, outputs));
            plain.push(Stored {
                bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
                ..stored
            });
            packed.extend(tensors);
        } else {
            plain.push(stored.clone());
            packed.push(stored);
        }
    }
    let tokens: Vec<TokenId> = golden.tokens.iter().copied().map(TokenId).collect();
    let [expected, given] = [plain, packed].map(|tensors| {
        let folder = golden.checkpoint();
        write_safetensors(&folder.path().join("model.safetensors"), tensors);
        Model::open(folder.path(), OpenOptions::default()).unwrap().hidden_states(&tokens).unwrap()
    });
    // Activations are rounded to 8 bits for products with packed weights.
    for (given, expected) in given.iter().zip(&expected) {
        let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>().sqrt();
        let error = norm(&mut given.iter().zip(expected).map(|(given, expected)| given - expected));
        let size = norm(&mut expected.iter().copied());
        assert!(error < 0.02 * size, "{error} of {size}");
    }
}

/// Returns a matrix of each expert, both as values of shape `[experts, inputs, outputs]` and
/// packed.
fn mxfp4(name: &str, (experts, inputs, outputs): (usize, usize, usize)) -> (Vec<f32>, [Stored; 2]) {
    const LEVELS: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let count = experts * inputs * outputs;
    // Shapes: `[experts, outputs, inputs / 2]` and `[experts, outputs, inputs / 32]`.
    let pairs: Vec<u8> = (0..count / 2).map(|at| (at * 89 + at / 7) as u8).collect();
    let scales: Vec<u8> = (0..count / 32).map(|at| 121 + (at % 3) as u8).collect();
    let mut values = vec![0.0f32; count];
    for index in 0..count {
        let nibble = pairs[index / 2] >> (index % 2 * 4) & 15;
        let sign = if nibble < 8 { 1.0 } else { -1.0 };
        let scale = (f32::from(scales[index / 32]) - 127.0).exp2();
        let (expert, output, input) = (index / (inputs * outputs), index / inputs % outputs, index % inputs);
        values[(expert * inputs + input) * outputs + output] = sign * LEVELS[usize::from(nibble % 8)] * scale;
    }
    let shape = vec![experts, outputs, inputs / 32];
    let stored =
        |part: &str, shape, bytes| Stored { name: format!("{name}_{part}"), dtype: "U8", shape, bytes };
    (values, [stored("scales", shape.clone(), scales), stored("blocks", [shape, vec![16]].concat(), pairs)])
}
