//! Every architecture against Hugging Face transformers, on tiny random models: the residual stream after every layer and
//! the logits. `goldens/generate.py` made the files; the weights follow from their names.

use std::collections::BTreeMap;
use std::iter;
use std::path::{Path, PathBuf};

use formwork_lm::{Role, Wanted};
use formwork_model::{Model, OpenOptions};
use formwork_vocab::TokenId;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::converted;
use crate::tiny::{self, append};

/// What a model of transformers computed.
#[derive(Deserialize)]
pub(crate) struct Golden {
    pub(crate) config: Map<String, Value>,
    /// Names and shapes, the slowest-running dimension first.
    pub(crate) tensors: BTreeMap<String, Vec<usize>>,
    tokens: Vec<u32>,
    positions: Vec<usize>,
    /// `[positions, hidden]`
    embedded: Vec<Vec<f32>>,
    /// `[layers, positions, hidden]`
    layers: Vec<Vec<Vec<f32>>>,
    /// `[positions, vocabulary]`
    logits: Vec<Vec<f32>>,
}

/// A tensor as it lies in a file.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn write_safetensors(path: &Path, tensors: impl IntoIterator<Item = Stored>) {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for Stored { name, dtype, shape, bytes } in tensors {
        let from = data.len();
        data.extend(bytes);
        header.insert(name, json!({ "dtype": dtype, "shape": shape, "data_offsets": [from, data.len()] }));
    }
    let header = Value::from(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    file.extend(data);
    std::fs::write(path, file).unwrap();
}

/// All files, by name.
pub(crate) fn goldens() -> Vec<(String, Golden)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtime/goldens");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    };
    files.into_iter().map(read).collect()
}

impl Golden {
    pub(crate) fn model_type(&self) -> &str {
        self.config["model_type"].as_str().unwrap()
    }

    /// A tensor's elements, by the formula that `generate.py` has, too.
    pub(crate) fn values(&self, name: &str) -> Vec<f32> {
        let shape = &self.tensors[name];
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let unit = |index: usize| {
            let mut z = hash.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let (base, scale) = match shape[..] {
            [_] if name.ends_with("norm.weight") && !self.model_type().starts_with("gemma") => (1.0, 0.25),
            [_] => (0.0, 0.25),
            _ if name.ends_with("embed_tokens.weight") => (0.0, 1.0),
            [.., columns] => (0.0, (-(columns as f64).sqrt().log2().round()).exp2() as f32),
            [] => panic!("{name} is a scalar"),
        };
        (0..shape.iter().product()).map(|index| base + unit(index) * scale).collect()
    }

    /// Writes the model as it would be published.
    pub(crate) fn checkpoint(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), Value::from(self.config.clone()).to_string())
            .unwrap();
        write_safetensors(
            &folder.path().join("model.safetensors"),
            self.tensors.keys().map(|name| self.stored(name)),
        );
        folder
    }

    /// A tensor as it would be published.
    fn stored(&self, name: &str) -> Stored {
        let bytes = self.values(name).iter().flat_map(|value| value.to_le_bytes()).collect();
        Stored { name: name.to_owned(), dtype: "F32", shape: self.tensors[name].clone(), bytes }
    }

    /// Compares a model with what transformers computed: every element of the residual stream to 1e-4, logits to that or
    /// to a millionth of the row's largest, as rows of some hundred are no more exact in `f32`.
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
        let hidden = model.spec().hidden;
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
}

#[test]
fn safetensors_compute_what_transformers_does() {
    for (name, golden) in goldens() {
        let folder = golden.checkpoint();
        let model = Model::open(folder.path(), OpenOptions::default()).unwrap();
        golden.assert_computed_by(&model, &name);
    }
}

#[test]
fn gguf_files_compute_what_transformers_does() {
    for (name, golden) in goldens() {
        // Files have no place for these; they are always the usual ones.
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

/// The experts of gpt-oss are published in MXFP4, packed in an order of its own.
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
    // The activations that meet packed weights are rounded to 8 bits.
    for (given, expected) in given.iter().zip(&expected) {
        let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>().sqrt();
        let error = norm(&mut given.iter().zip(expected).map(|(given, expected)| given - expected));
        let size = norm(&mut expected.iter().copied());
        assert!(error < 0.02 * size, "{error} of {size}");
    }
}

/// Elements of a matrix for each expert: as they are, `[experts, inputs, outputs]`, and packed.
fn mxfp4(name: &str, (experts, inputs, outputs): (usize, usize, usize)) -> (Vec<f32>, [Stored; 2]) {
    const LEVELS: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let count = experts * inputs * outputs;
    // [experts, outputs, inputs / 2] and [experts, outputs, inputs / 32]
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
