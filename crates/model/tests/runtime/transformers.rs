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
        let (mut header, mut data) = (Map::new(), Vec::new());
        for (name, shape) in &self.tensors {
            let from = data.len();
            data.extend(self.values(name).iter().flat_map(|value| value.to_le_bytes()));
            header.insert(
                name.clone(),
                json!({ "dtype": "F32", "shape": shape, "data_offsets": [from, data.len()] }),
            );
        }
        let header = Value::from(header).to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.bytes());
        file.extend(data);
        std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
        folder
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
