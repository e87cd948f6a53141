//! The models of `candle-transformers` that are available, and their construction from a
//! checkpoint.

use std::collections::HashMap;
use std::io::Cursor;

use candle_core::quantized::gguf_file;
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{gemma, helium, olmo, phi, quantized_phi, starcoder2};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{CandleModel, Make, Network, caught};
use crate::checkpoint::{Checkpoint, Safetensors};
use crate::error::Kind;
use crate::gguf::{self, Gguf};

/// Implements [`CandleModel`] for models whose `forward` takes the number of previous tokens as an
/// argument.
macro_rules! borrow_with_offset {
    ($($model:ty),*) => {
        $(impl CandleModel for $model {
            fn forward(&mut self, tokens: &Tensor, offset: usize) -> Result<Tensor> {
                Self::forward(self, tokens, offset)
            }
        })*
    };
}

borrow_with_offset!(gemma::Model, helium::Model, olmo::Model, starcoder2::Model, quantized_phi::ModelWeights);

impl CandleModel for phi::Model {
    fn forward(&mut self, tokens: &Tensor, _: usize) -> Result<Tensor> {
        Self::forward(self, tokens)
    }
}

/// Function that creates a model from a `config.json` and tensors.
type FromConfig = fn(&Map<String, Value>, VarBuilder<'_>) -> std::result::Result<Box<Make>, Kind>;

/// The available models, each with its `model_type` in a `config.json`.
const CONFIGS: &[(&str, FromConfig)] = &[
    ("gemma", |config, vars| from_config(config, |config| gemma::Model::new(false, &config, vars))),
    ("helium", |config, vars| from_config(config, |config| helium::Model::new(&config, vars))),
    ("olmo", |config, vars| from_config(config, |config| olmo::Model::new(&config, vars))),
    ("phi", |config, vars| from_config(config, |config| phi::Model::new(&config, vars))),
    ("starcoder2", |config, vars| from_config(config, |config| starcoder2::Model::new(&config, vars))),
];

/// Function that creates a model from the content of a GGUF file.
type FromGguf = fn(gguf_file::Content, &mut Cursor<&[u8]>, &Device) -> std::result::Result<Box<Make>, Kind>;

/// The available models, each with the name of its architecture in GGUF files.
const GGUFS: &[(&str, FromGguf)] = &[("phi2", |content, file, device| {
    made(|| quantized_phi::ModelWeights::from_gguf(content, file, device))
})];

fn from_config<C: DeserializeOwned, M: CandleModel + Clone + Sync + 'static>(
    config: &Map<String, Value>,
    new: impl FnOnce(C) -> Result<M>,
) -> std::result::Result<Box<Make>, Kind> {
    let config = serde_json::from_value(Value::from(config.clone())).map_err(Kind::Json)?;
    made(|| new(config))
}

fn made<M: CandleModel + Clone + Sync + 'static>(
    new: impl FnOnce() -> Result<M>,
) -> std::result::Result<Box<Make>, Kind> {
    let model = caught(new)?;
    Ok(Box::new(move || Box::new(model.clone())))
}

pub(super) fn check(checkpoint: &Checkpoint, unknown: Kind) -> std::result::Result<(), Kind> {
    let (given, names) = (checkpoint.architecture()?, names(checkpoint));
    if names.contains(&given) { Ok(()) } else { Err(unknown.with_known(names)) }
}

/// Returns the names of the available architectures in the checkpoint's format.
fn names(checkpoint: &Checkpoint) -> Vec<&'static str> {
    match checkpoint {
        Checkpoint::Gguf(_) => GGUFS.iter().map(|entry| entry.0).collect(),
        Checkpoint::Safetensors(_) => CONFIGS.iter().map(|entry| entry.0).collect(),
    }
}

pub(super) fn open(checkpoint: &Checkpoint, device: Device) -> std::result::Result<Network, Kind> {
    let given = checkpoint.architecture()?;
    let unknown = || Kind::Architecture { given: given.to_owned(), known: names(checkpoint) };
    let (make, vocabulary, context) = match checkpoint {
        Checkpoint::Gguf(file) => {
            let (name, make) = GGUFS.iter().find(|entry| entry.0 == given).ok_or_else(unknown)?;
            let vocabulary = checkpoint.vocabulary("token_embd.weight")?;
            let context = bounded_file(file, name, checkpoint)?;
            (from_gguf(file, (*name, context), *make, &device)?, vocabulary, context)
        }
        Checkpoint::Safetensors(folder) => {
            let (_, make) = CONFIGS.iter().find(|entry| entry.0 == given).ok_or_else(unknown)?;
            let config = bounded(flat(folder.config()), checkpoint)?;
            let (vocabulary, context) = (size(&config, "vocab_size")?, size(&config, CONTEXT)?);
            (make(&config, variables(folder, checkpoint, &device)?)?, vocabulary, context)
        }
    };
    Ok(Network { make, vocabulary, context, device })
}

const CONTEXT: &str = "max_position_embeddings";

/// Maximum context length. candle's models compute the rotary angles of all positions when they are
/// created.
const MAX_CONTEXT: usize = 1 << 17;

/// Checks the sizes in a configuration against the tensors, because candle's models allocate memory
/// for them. Returns the configuration with the context limited to [`MAX_CONTEXT`].
fn bounded(
    mut config: Map<String, Value>,
    checkpoint: &Checkpoint,
) -> std::result::Result<Map<String, Value>, Kind> {
    let embedding = "model.embed_tokens.weight";
    let info = checkpoint.tensor(embedding);
    let info = info.ok_or_else(|| Kind::MissingTensor { tensor: embedding.to_owned() })?;
    let hidden = size(&config, "hidden_size")?;
    let shape = [hidden as u64, size(&config, "vocab_size")? as u64];
    if info.shape != shape {
        let (given, expected) = (info.shape.clone(), shape.to_vec());
        return Err(Kind::Shape { tensor: embedding.to_owned(), given, expected });
    }
    let tensors = checkpoint.tensors().len();
    let of_hidden = ["head_dim", "num_attention_heads", "num_key_value_heads"].map(|key| (key, hidden));
    for (key, limit) in of_hidden.into_iter().chain([("num_hidden_layers", tensors)]) {
        let is_absent = config.get(key).is_none_or(Value::is_null);
        if !is_absent && !(1..=limit).contains(&size(&config, key)?) {
            let (key, given) = (key.to_owned(), config[key].to_string());
            return Err(Kind::KeyValue { key, given, rule: "it does not match the tensors" });
        }
    }
    let scaling = config.get("rope_scaling").unwrap_or(&Value::Null);
    for kind in [config.get("rope_type"), scaling.get("rope_type"), scaling.get("type")].into_iter().flatten()
    {
        if kind != "default" {
            return Err(scaled_rope("rope_scaling", kind.to_string()));
        }
    }
    let key = "partial_rotary_factor";
    if let Some(factor) = config.get(key).and_then(Value::as_f64)
        && !(0.0..=1.0).contains(&factor)
    {
        let rule = "it must be between 0 and 1";
        return Err(Kind::KeyValue { key: key.to_owned(), given: factor.to_string(), rule });
    }
    let context = size(&config, CONTEXT)?.min(MAX_CONTEXT);
    config.insert(CONTEXT.to_owned(), context.into());
    Ok(config)
}

/// Creates the error for a configuration with scaled rotary frequencies. candle's models would
/// ignore the scaling.
fn scaled_rope(key: &str, given: String) -> Kind {
    let rule = "candle's own model for this architecture does not support scaled rotary frequencies";
    Kind::KeyValue { key: key.to_owned(), given, rule }
}

fn size(config: &Map<String, Value>, key: &str) -> std::result::Result<usize, Kind> {
    let given = config.get(key).ok_or_else(|| Kind::MissingKey { key: key.to_owned() })?;
    let size = given.as_u64().filter(|size| (1..1 << 31).contains(size));
    size.map(|size| size as usize).ok_or_else(|| Kind::KeyValue {
        key: key.to_owned(),
        given: given.to_string(),
        rule: "it must be a positive integer below 2^31",
    })
}

/// Returns the configuration with the fields of `rope_parameters` copied to the top level, where
/// candle's models expect them. Newer configurations have this nested object.
fn flat(config: &Map<String, Value>) -> Map<String, Value> {
    let mut flat = config.clone();
    if let Some(Value::Object(rope)) = config.get("rope_parameters") {
        for (key, value) in rope {
            if !flat.contains_key(key) {
                flat.insert(key.clone(), value.clone());
            }
        }
    }
    flat
}

/// Loads all float tensors. On the CPU they are converted to `f32`, the only type with fast
/// products there. On a GPU they keep their type.
fn variables(
    folder: &Safetensors,
    checkpoint: &Checkpoint,
    device: &Device,
) -> std::result::Result<VarBuilder<'static>, Kind> {
    let mut tensors = HashMap::new();
    let mut of = DType::F32;
    for info in folder.tensors() {
        let dtype = match info.dtype.name() {
            "F32" => DType::F32,
            "F16" => DType::F16,
            "BF16" => DType::BF16,
            // Other types are not weights. For example, some old checkpoints contain position
            // indices.
            _ => continue,
        };
        let shape: Vec<usize> = info.shape.iter().rev().map(|&len| len as usize).collect();
        let tensor = Tensor::from_raw_buffer(checkpoint.bytes(info), dtype, &shape, device)?;
        if !device.is_cpu() && dtype != DType::F32 {
            of = dtype;
        }
        tensors.insert(info.name.clone(), tensor);
    }
    Ok(VarBuilder::from_tensors(tensors, of, device))
}

fn from_gguf(
    file: &Gguf,
    (name, context): (&str, usize),
    make: FromGguf,
    device: &Device,
) -> std::result::Result<Box<Make>, Kind> {
    let [map] = file.maps() else { return Err(Kind::CandleModelParts) };
    let mut reader = Cursor::new(&map[..]);
    let mut content = caught(|| gguf_file::Content::read(&mut reader))?;
    let context = gguf_file::Value::U32(context as u32);
    content.metadata.insert(format!("{name}.context_length"), context);
    make(content, &mut reader, device)
}

/// Returns the context length of a GGUF file, at most [`MAX_CONTEXT`]. Returns an error if a size
/// in the metadata contradicts the tensors.
fn bounded_file(file: &Gguf, name: &str, checkpoint: &Checkpoint) -> std::result::Result<usize, Kind> {
    let unsigned = |part: &str| {
        let key = format!("{name}.{part}");
        match file.value(&key) {
            Some(&gguf::Value::Unsigned(given)) => Ok(Some(given as usize)),
            Some(other) => {
                Err(Kind::KeyType { key, given: other.kind_name(), expected: "an unsigned integer" })
            }
            None => Ok(None),
        }
    };
    let hidden = unsigned("embedding_length")?.unwrap_or(0);
    let expected = vec![hidden as u64, checkpoint.vocabulary("token_embd.weight")? as u64];
    checkpoint.shaped("token_embd.weight", &expected)?;
    let of_hidden = ["attention.head_count", "attention.head_count_kv", "attention.key_length"];
    let of_hidden = of_hidden.into_iter().chain(["rope.dimension_count"]).map(|part| (part, hidden));
    for (part, limit) in of_hidden.chain([("block_count", checkpoint.tensors().len())]) {
        if let Some(given) = unsigned(part)?.filter(|given| !(1..=limit).contains(given)) {
            let (key, given) = (format!("{name}.{part}"), given.to_string());
            return Err(Kind::KeyValue { key, given, rule: "it does not match the tensors" });
        }
    }
    let key = format!("{name}.rope.scaling.type");
    if let Some(gguf::Value::String(kind)) = file.value(&key)
        && kind != "none"
    {
        return Err(scaled_rope(&key, kind.clone()));
    }
    let context = unsigned("context_length")?;
    let context = context.ok_or_else(|| Kind::MissingKey { key: format!("{name}.context_length") })?;
    Ok(context.min(MAX_CONTEXT))
}
