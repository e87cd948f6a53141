//! Tiny models in published formats, with the results of transformers. `goldens/generate.py`
//! generated the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// A model and the results that transformers computed with it.
#[derive(Clone, Default, Deserialize)]
pub(crate) struct Golden {
    pub(crate) config: Map<String, Value>,
    /// Names and shapes, slowest-running dimension first.
    pub(crate) tensors: BTreeMap<String, Vec<usize>>,
    pub(crate) tokens: Vec<u32>,
    pub(crate) positions: Vec<usize>,
    /// Residual stream before the first layer. Shape: `[positions, hidden]`.
    pub(crate) embedded: Vec<Vec<f32>>,
    /// Residual stream after each layer. Shape: `[layers, positions, hidden]`.
    pub(crate) layers: Vec<Vec<Vec<f32>>>,
    /// Shape: `[positions, vocabulary]`.
    pub(crate) logits: Vec<Vec<f32>>,
    /// Elements of tensors that differ from the published ones.
    #[serde(skip)]
    pub(crate) changed: BTreeMap<String, Vec<f32>>,
}

/// A tensor in the form in which a file stores it.
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

/// Returns all models that the native decoder supports, with their names.
pub(crate) fn goldens() -> Vec<(String, Golden)> {
    goldens_in("tests/runtime/goldens")
}

/// Returns the models in a folder, with their names.
pub(crate) fn goldens_in(folder: &str) -> Vec<(String, Golden)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
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
    /// Returns the type of the text model.
    pub(crate) fn model_type(&self) -> &str {
        self.text_config()["model_type"].as_str().unwrap()
    }

    /// Returns the configuration of the text model, which a model with images contains.
    pub(crate) fn text_config(&self) -> &Map<String, Value> {
        self.config.get("text_config").and_then(Value::as_object).unwrap_or(&self.config)
    }

    /// Reports whether the model adds one to the weights of the norm `name`.
    fn adds_one(&self, name: &str) -> bool {
        let types = ["gemma", "gemma2", "gemma3_text", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"];
        types.contains(&self.model_type()) && !name.ends_with("linear_attn.norm.weight")
    }

    /// Reports whether only the native decoder computes the model.
    pub(crate) fn is_native_only(&self) -> bool {
        let is_latent = self.text_config().contains_key("kv_lora_rank");
        matches!(self.model_type(), "cohere2" | "gemma4_text" | "hunyuan_v1_dense")
            || self.is_hybrid()
            || is_latent
    }

    /// Reports whether layers have convolutions or recurrences.
    pub(crate) fn is_hybrid(&self) -> bool {
        let mixers = [".conv.", ".mamba.", ".linear_attn.", "backbone."];
        self.tensors.keys().any(|name| mixers.iter().any(|mixer| name.contains(mixer)))
    }

    /// Computes the elements of a tensor. `generate.py` has the same formula.
    pub(crate) fn values(&self, name: &str) -> Vec<f32> {
        if let Some(changed) = self.changed.get(name) {
            return changed.clone();
        }
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
            _ if ["embed_tokens.weight", "embeddings.weight", "router.proj.weight"]
                .iter()
                .any(|large| name.ends_with(large)) =>
            {
                (0.0, 1.0)
            }
            [_] if name.ends_with("A_log") => (-2.0, 1.0),
            // One is added to the weights of these norms.
            [_] if name.ends_with("bias") || name.ends_with("sinks") || self.adds_one(name) => (0.0, 0.25),
            [_] => (1.0, 0.25),
            [.., columns] => (0.0, (-(columns as f64).sqrt().log2().round()).exp2() as f32),
            [] => panic!("{name} is a scalar"),
        };
        (0..shape.iter().product()).map(|index| base + unit(index) * scale).collect()
    }

    /// Writes the model as a folder of safetensors.
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

    /// Returns a tensor in the form in which it is published.
    pub(crate) fn stored(&self, name: &str) -> Stored {
        let bytes = self.values(name).iter().flat_map(|value| value.to_le_bytes()).collect();
        Stored { name: name.to_owned(), dtype: "F32", shape: self.tensors[name].clone(), bytes }
    }
}
