//! Checkpoints in the form of a folder with safetensors, in which models are usually published.
//!
//! A folder contains `config.json`, `tokenizer.json`, and either `model.safetensors` or shards with
//! an index.
//!
//! A safetensors file starts with the length of its header, in eight bytes. The header is a JSON
//! object with the type, the shape and the location of each tensor. See the [format
//! description](https://huggingface.co/docs/safetensors).
//!
//! [`Safetensors::open`] validates all headers: every tensor lies inside its file, and no two
//! tensors overlap.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use formwork_vocab::Tokenizer;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Modules;
use super::ends::{end_token, end_tokens};
use super::python_json::quote_numbers;
use super::text::{plain_config, text_name};
use crate::LoadError;
use crate::error::Kind;
use crate::file_map::FileMap;
use crate::gguf::{TensorInfo, TensorType, no_overlap};

pub(crate) const CONFIG: &str = "config.json";
/// Field of the configuration with the format of quantised matrices.
pub(crate) const QUANTIZATION: &str = "quantization_config";
const MODEL_OPT: &str = "hf_quant_config.json";
pub(crate) const INDEX: &str = "model.safetensors.index.json";
pub(crate) const SINGLE: &str = "model.safetensors";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const MAX_RANK: usize = 8;
/// Maximum length of a header in bytes. The reference implementation has the same limit.
const MAX_HEADER: usize = 100_000_000;

/// A folder with mapped and validated safetensors.
#[derive(Clone, Debug)]
pub struct Safetensors(Arc<Folder>);

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    config: Map<String, Value>,
    chat_template: Option<String>,
    response_template: Option<Value>,
    /// Modules of a model for embeddings.
    modules: Option<Modules>,
    maps: Vec<Arc<FileMap>>,
    tensors: Vec<TensorInfo>,
    names: FxHashMap<String, usize>,
}

/// Entry of a tensor in the header of a file.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    /// Dimensions, slowest-running first. GGUF files have the opposite order.
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Content of the index file, `model.safetensors.index.json`. Maps the name of each tensor to its
/// shard.
#[derive(Deserialize)]
pub(crate) struct Index {
    pub(crate) weight_map: FxHashMap<String, String>,
}

impl Safetensors {
    /// Opens a folder: reads `config.json`, maps the safetensors files and validates their headers.
    ///
    /// # Errors
    /// Returns an error if a file is missing or malformed, or if a tensor is not in the shard that
    /// the index names.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let mut config = plain_config(read_object(&path.join(CONFIG))?);
        add_model_opt(path, &mut config)?;
        let mut folder = Folder {
            path: path.to_owned(),
            config,
            chat_template: chat_template(path)?,
            response_template: response_template(path)?,
            modules: Modules::read(path)?,
            maps: Vec::new(),
            tensors: Vec::new(),
            names: FxHashMap::default(),
        };
        let index = path.join(INDEX);
        if index.exists() {
            folder.read_shards(&index)?;
        } else {
            folder.read_file(&path.join(SINGLE))?;
        }
        Ok(Self(Arc::new(folder)))
    }

    /// Maps a single file without a configuration and validates its header.
    ///
    /// # Errors
    /// Returns an error if the file is missing or malformed.
    pub(crate) fn of_file(path: &Path) -> Result<Self, LoadError> {
        let mut folder = Folder {
            path: path.to_owned(),
            config: Map::new(),
            chat_template: None,
            response_template: None,
            modules: None,
            maps: Vec::new(),
            tensors: Vec::new(),
            names: FxHashMap::default(),
        };
        folder.read_file(path)?;
        Ok(Self(Arc::new(folder)))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the content of `config.json`. For a multimodal model, returns only the configuration
    /// of its text model.
    pub fn config(&self) -> &Map<String, Value> {
        &self.0.config
    }

    /// Returns the modules of a model for embeddings. `None` if the folder does not list modules.
    pub(crate) fn modules(&self) -> Option<&Modules> {
        self.0.modules.as_ref()
    }

    /// Reports whether the name of an architecture in the configuration ends with `ending`.
    pub(crate) fn is_for(&self, ending: &str) -> bool {
        let names = self.0.config.get("architectures").and_then(Value::as_array);
        names.into_iter().flatten().filter_map(Value::as_str).any(|name| name.ends_with(ending))
    }

    /// Reports whether the scores of a cross-encoder are converted to probabilities. This is the
    /// default of sentence-transformers.
    pub(crate) fn scores_are_probabilities(&self) -> Result<bool, Kind> {
        let key = "sentence_transformers.activation_fn";
        let nested = self.0.config.get("sentence_transformers").and_then(|own| own.get("activation_fn"));
        let given = nested.or_else(|| self.0.config.get("sbert_ce_default_activation_function"));
        let Some(given) = given.and_then(Value::as_str) else { return Ok(true) };
        match given.rsplit('.').next().unwrap_or_default() {
            "Sigmoid" => Ok(true),
            "Identity" => Ok(false),
            _ => {
                let rule = "expected Sigmoid or Identity";
                Err(Kind::KeyValue { key: key.to_owned(), given: given.to_owned(), rule })
            }
        }
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.0.path.join(CONFIG)
    }

    /// Returns the entries of all tensors, file by file. The dimensions are in the order of GGUF
    /// files: fastest-running first.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.0.tensors
    }

    /// Returns the entry of the tensor `name`, or `None` if the checkpoint does not have this
    /// tensor.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.0.names.get(name).map(|&index| &self.0.tensors[index])
    }

    /// Returns the chat template from `chat_template.jinja` or `tokenizer_config.json`. Returns
    /// `None` if neither file contains one.
    pub fn chat_template(&self) -> Option<&str> {
        self.0.chat_template.as_deref()
    }

    /// Returns the member `response_template` of `tokenizer_config.json`. `None` if the file has none.
    pub fn response_template(&self) -> Option<&Value> {
        self.0.response_template.as_ref()
    }

    pub(crate) fn maps(&self) -> &[Arc<FileMap>] {
        &self.0.maps
    }

    /// Reports whether `path` has the file name of `config.json`, of the index or of a file with
    /// tensors.
    pub(crate) fn has_file(&self, path: &Path) -> bool {
        let name = path.file_name();
        let shards = self.maps().iter().map(|map| map.path().file_name());
        [CONFIG, INDEX].iter().any(|&own| name == Some(own.as_ref()))
            || shards.into_iter().any(|own| own == name)
    }

    pub(crate) fn model_type(&self) -> Result<&str, Kind> {
        let key = || "model_type".to_owned();
        match self.0.config.get("model_type") {
            Some(Value::String(name)) => Ok(name),
            Some(_) => {
                Err(Kind::KeyType { key: key(), given: "a value of another type", expected: "a string" })
            }
            None => Err(Kind::MissingKey { key: key() }),
        }
    }

    /// Creates the tokenizer from `tokenizer.json`. `config.json`, `generation_config.json` and
    /// `tokenizer_config.json` can name further tokens that end a sequence.
    ///
    /// # Errors
    /// Returns an error if a file is missing or malformed.
    pub fn tokenizer(&self) -> Result<Tokenizer, LoadError> {
        let path = self.0.path.join("tokenizer.json");
        let json = std::fs::read(&path).map_err(|error| LoadError::new(&path, error))?;
        let tokenizer = Tokenizer::from_json(&json).map_err(|error| LoadError::new(&path, error))?;
        let vocabulary = tokenizer.vocabulary();
        let mut ends = end_tokens(&self.0.config, vocabulary)
            .map_err(|kind| LoadError::new(&self.config_path(), kind))?;
        let generation = self.0.path.join("generation_config.json");
        if generation.exists() {
            let named = end_tokens(&read_object(&generation)?, vocabulary);
            ends.extend(named.map_err(|kind| LoadError::new(&generation, kind))?);
        }
        let config = self.0.path.join(TOKENIZER_CONFIG);
        let eos = if config.exists() {
            let named = end_token(&read_object(&config)?, vocabulary);
            named.map_err(|kind| LoadError::new(&config, kind))?
        } else {
            None
        };
        let tokenizer = tokenizer.with_ends(&ends);
        let tokenizer = match eos {
            Some(eos) => tokenizer.and_then(|tokenizer| tokenizer.with_eos(eos)),
            None => tokenizer,
        };
        tokenizer.map_err(|error| LoadError::new(&path, error))
    }
}

fn chat_template(folder: &Path) -> Result<Option<String>, LoadError> {
    let file = folder.join("chat_template.jinja");
    if file.exists() {
        return std::fs::read_to_string(&file).map(Some).map_err(|error| LoadError::new(&file, error));
    }
    let config = folder.join(TOKENIZER_CONFIG);
    if !config.exists() {
        return Ok(None);
    }
    Ok(match read_object(&config)?.remove("chat_template") {
        Some(Value::String(template)) => Some(template),
        // A list of named templates; the one named `default` is used.
        Some(Value::Array(templates)) => templates.iter().find_map(|entry| {
            let is_default = entry.get("name").and_then(Value::as_str) == Some("default");
            is_default.then(|| entry.get("template").and_then(Value::as_str).map(str::to_owned)).flatten()
        }),
        _ => None,
    })
}

fn response_template(folder: &Path) -> Result<Option<Value>, LoadError> {
    let config = folder.join(TOKENIZER_CONFIG);
    if !config.exists() {
        return Ok(None);
    }
    Ok(read_object(&config)?.remove("response_template").filter(Value::is_object))
}

/// Adds the content of `hf_quant_config.json` to the configuration of a folder, as the field
/// `quantization_config`. Older checkpoints of NVIDIA's Model Optimizer have only this file.
fn add_model_opt(folder: &Path, config: &mut Map<String, Value>) -> Result<(), LoadError> {
    let file = folder.join(MODEL_OPT);
    if config.get(QUANTIZATION).is_some_and(|given| !given.is_null()) || !file.exists() {
        return Ok(());
    }
    if let Some(Value::Object(mut fields)) = read_object(&file)?.remove("quantization") {
        fields.insert("quant_method".to_owned(), "modelopt".into());
        config.insert(QUANTIZATION.to_owned(), fields.into());
    }
    Ok(())
}

pub(crate) fn read_object(path: &Path) -> Result<Map<String, Value>, LoadError> {
    let bytes = std::fs::read(path).map_err(|error| LoadError::new(path, error))?;
    serde_json::from_slice(&quote_numbers(&bytes)).map_err(|error| LoadError::new(path, Kind::Json(error)))
}

impl Folder {
    fn read_shards(&mut self, index: &Path) -> Result<(), LoadError> {
        let bytes = std::fs::read(index).map_err(|error| LoadError::new(index, error))?;
        let Index { weight_map } =
            serde_json::from_slice(&bytes).map_err(|error| LoadError::new(index, Kind::Json(error)))?;
        let files: BTreeSet<&String> = weight_map.values().collect();
        for file in files {
            // Shards must be in the folder of the index, so their names must not contain a path.
            if Path::new(file).file_name() != Some(file.as_ref()) {
                return Err(LoadError::new(index, Kind::ShardName { given: file.clone() }));
            }
            self.read_file(&self.path.join(file))?;
        }
        let mut listed: Vec<_> = weight_map.iter().collect();
        listed.sort_unstable();
        for (tensor, file) in listed {
            let found =
                self.names.get(&*text_name(tensor)).map(|&at| self.maps[self.tensors[at].file].path());
            if found.and_then(Path::file_name) != Some(file.as_ref()) {
                let (tensor, file) = (tensor.clone(), file.clone());
                return Err(LoadError::new(index, Kind::NotInShard { tensor, file }));
            }
        }
        Ok(())
    }

    fn read_file(&mut self, path: &Path) -> Result<(), LoadError> {
        let map = Arc::new(FileMap::open(path)?);
        self.maps.push(Arc::clone(&map));
        self.read_header(&map).map_err(|kind| LoadError::new(path, kind))
    }

    fn read_header(&mut self, file: &[u8]) -> Result<(), Kind> {
        let truncated = |what, at| Kind::Truncated { what, at, limit: file.len() };
        let (length, rest) = file.split_first_chunk::<8>().ok_or(truncated("the header's length", 0))?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let header = rest.get(..length).ok_or(truncated("the header", 8))?;
        if length > MAX_HEADER {
            return Err(Kind::HeaderLength { given: length, limit: MAX_HEADER });
        }
        let data = 8 + length;
        let entries: Map<String, Value> = serde_json::from_slice(header).map_err(Kind::Json)?;
        let first = self.tensors.len();
        for (name, entry) in entries {
            if name == "__metadata__" {
                continue;
            }
            let entry: Entry =
                serde_json::from_value(entry).map_err(|error| Kind::Entry { tensor: name.clone(), error })?;
            let tensor = self.tensor_info(text_name(&name).into_owned(), &entry, data, file.len())?;
            if self.names.insert(tensor.name.clone(), self.tensors.len()).is_some() {
                return Err(Kind::DuplicateTensor { tensor: tensor.name, at: tensor.offset });
            }
            self.tensors.push(tensor);
        }
        no_overlap(&self.tensors[first..])
    }

    fn tensor_info(
        &self,
        tensor: String,
        entry: &Entry,
        data: usize,
        limit: usize,
    ) -> Result<TensorInfo, Kind> {
        let (from, to) = entry.data_offsets;
        let at = (data as u64).saturating_add(from);
        let Some(dtype) = TensorType::from_safetensors(&entry.dtype) else {
            return Err(Kind::DtypeName { tensor, given: entry.dtype.clone(), at });
        };
        let shape: Vec<u64> = entry.shape.iter().rev().copied().collect();
        if shape.len() > MAX_RANK {
            let (given, limit) = (shape.len() as u32, MAX_RANK as u32);
            return Err(Kind::Rank { tensor, given, limit, at: at as usize });
        }
        let elements = shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
        let bytes = elements.and_then(|elements| elements.checked_mul(dtype.block_bytes() as u64));
        let Some(bytes) = bytes.filter(|&bytes| bytes > 0) else {
            return Err(Kind::ImpossibleShape { tensor, shape: entry.shape.clone(), at: at as usize });
        };
        if to.checked_sub(from) != Some(bytes) {
            return Err(Kind::ByteCount { tensor, from, to, expected: bytes });
        }
        if at.saturating_add(bytes) > limit as u64 {
            return Err(Kind::TensorOutside { tensor, at, len: bytes, limit: limit as u64 });
        }
        let (offset, byte_len, file) = (at as usize, bytes as usize, self.maps.len() - 1);
        Ok(TensorInfo { name: tensor, shape, dtype, file, offset, byte_len })
    }
}
