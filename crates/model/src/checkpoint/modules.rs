//! The files of sentence-transformers, which describe how a model turns a text into a vector.
//!
//! `modules.json` lists the modules of a model. The first is the model itself. The others have a folder
//! each: the pooling, dense layers and the normalisation. `config_sentence_transformers.json` has the
//! prompts. The format has no specification; these are the files that the library writes
//! (<https://sbert.net/docs/sentence_transformer/usage/custom_models.html>).

use std::collections::BTreeMap;
use std::path::Path;

use formwork_lm::Pooling;
use serde_json::{Map, Value};

use super::safetensors::{SINGLE, read_object};
use super::{Checkpoint, Safetensors};
use crate::LoadError;
use crate::error::Kind;

const MODULES: &str = "modules.json";
const CONFIG: &str = "config.json";
const PROMPTS: &str = "config_sentence_transformers.json";
const LIMITS: &str = "sentence_bert_config.json";
/// Upper limit of a layer's width, which rejects absurd values.
const MAX_WIDTH: u64 = 1 << 20;

/// Modules of a model for embeddings.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Modules {
    pub(crate) pooling: Pooling,
    pub(crate) dense: Vec<DenseModule>,
    pub(crate) normalizes: bool,
    pub(crate) prompts: BTreeMap<String, String>,
    pub(crate) default_prompt: Option<String>,
    /// Maximum number of tokens of a text.
    pub(crate) max_tokens: Option<usize>,
    pub(crate) lowercases: bool,
}

/// A dense layer after the pooling.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DenseModule {
    /// Shape: `[outputs, inputs]`.
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// True if the activation is the hyperbolic tangent. Otherwise there is none.
    pub(crate) is_tanh: bool,
}

impl Modules {
    /// Reads the modules of the model in `folder`. Returns `None` if the folder does not list modules.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, LoadError> {
        let list = folder.join(MODULES);
        if !list.exists() {
            return Ok(None);
        }
        let error = |kind| LoadError::new(&list, kind);
        let bytes = std::fs::read(&list).map_err(|io| LoadError::new(&list, io))?;
        let entries: Vec<Map<String, Value>> =
            serde_json::from_slice(&bytes).map_err(|json| error(Kind::Json(json)))?;
        let mut pooling = None;
        let (mut dense, mut normalizes) = (Vec::new(), false);
        for (index, entry) in entries.iter().enumerate() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let (kind, path) = (text("type"), text("path"));
            // A path must not lead out of the folder.
            if path.split(['/', '\\']).any(|part| part == "..") || Path::new(path).is_absolute() {
                return Err(error(Kind::ShardName { given: path.to_owned() }));
            }
            let module = folder.join(path);
            let unexpected = || {
                let rule = "expected Transformer, Pooling, Dense and Normalize, in this order";
                error(Kind::KeyValue { key: format!("{index}.type"), given: kind.to_owned(), rule })
            };
            match kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" if index == 0 && path.is_empty() => {}
                "Pooling" if index > 0 && pooling.is_none() => {
                    pooling = Some(read_pooling(&module.join(CONFIG))?);
                }
                "Dense" if pooling.is_some() && !normalizes => dense.push(DenseModule::read(&module)?),
                "Normalize" if pooling.is_some() && !normalizes => normalizes = true,
                _ => return Err(unexpected()),
            }
        }
        let missing = || error(Kind::MissingModule { module: "Pooling" });
        let mut modules = Self {
            pooling: pooling.ok_or_else(missing)?,
            dense,
            normalizes,
            prompts: BTreeMap::new(),
            default_prompt: None,
            max_tokens: None,
            lowercases: false,
        };
        modules.read_prompts(&folder.join(PROMPTS))?;
        modules.read_limits(&folder.join(LIMITS))?;
        Ok(Some(modules))
    }

    fn read_prompts(&mut self, path: &Path) -> Result<(), LoadError> {
        if !path.exists() {
            return Ok(());
        }
        let config = read_object(path)?;
        let wrong = |key: &str, given, expected| {
            LoadError::new(path, Kind::KeyType { key: key.to_owned(), given, expected })
        };
        let expected = "an object of strings";
        for (name, text) in config.get("prompts").and_then(Value::as_object).into_iter().flatten() {
            match text {
                Value::String(text) => drop(self.prompts.insert(name.clone(), text.clone())),
                Value::Null => {}
                _ => return Err(wrong("prompts", "an object with other values", expected)),
            }
        }
        match config.get("default_prompt_name") {
            None | Some(Value::Null) => {}
            Some(Value::String(name)) if self.prompts.contains_key(name) => {
                self.default_prompt = Some(name.clone());
            }
            Some(other) => {
                let (key, given) = ("default_prompt_name".to_owned(), other.to_string());
                let rule = "expected a name in `prompts`";
                return Err(LoadError::new(path, Kind::KeyValue { key, given, rule }));
            }
        }
        Ok(())
    }

    fn read_limits(&mut self, path: &Path) -> Result<(), LoadError> {
        if !path.exists() {
            return Ok(());
        }
        let config = read_object(path)?;
        match config.get("max_seq_length") {
            None | Some(Value::Null) => {}
            Some(value) => self.max_tokens = Some(size(path, "max_seq_length", value, u64::from(u32::MAX))?),
        }
        self.lowercases = truth(path, &config, "do_lower_case")?.unwrap_or(false);
        Ok(())
    }
}

/// Reads the configuration of a pooling. Older files have a flag for each method.
fn read_pooling(path: &Path) -> Result<Pooling, LoadError> {
    const FLAGS: [(&str, Option<Pooling>); 6] = [
        ("pooling_mode_cls_token", Some(Pooling::First)),
        ("pooling_mode_mean_tokens", Some(Pooling::Mean)),
        ("pooling_mode_lasttoken", Some(Pooling::Last)),
        ("pooling_mode_max_tokens", None),
        ("pooling_mode_mean_sqrt_len_tokens", None),
        ("pooling_mode_weightedmean_tokens", None),
    ];
    let config = read_object(path)?;
    let refused = |key: &str, given: String| {
        let rule = "expected exactly one of cls, mean and lasttoken";
        LoadError::new(path, Kind::KeyValue { key: key.to_owned(), given, rule })
    };
    if truth(path, &config, "include_prompt")? == Some(false) {
        let rule = "tokens of the prompt cannot be left out of the pooling";
        let (key, given) = ("include_prompt".to_owned(), "false".to_owned());
        return Err(LoadError::new(path, Kind::KeyValue { key, given, rule }));
    }
    match config.get("pooling_mode") {
        Some(Value::String(mode)) => {
            return match &**mode {
                "cls" => Ok(Pooling::First),
                "mean" => Ok(Pooling::Mean),
                "lasttoken" => Ok(Pooling::Last),
                _ => Err(refused("pooling_mode", mode.clone())),
            };
        }
        None | Some(Value::Null) => {}
        Some(other) => return Err(refused("pooling_mode", other.to_string())),
    }
    let mut found = None;
    for (key, pooling) in FLAGS {
        if truth(path, &config, key)? == Some(true) {
            match (found, pooling) {
                (None, Some(pooling)) => found = Some(pooling),
                _ => return Err(refused(key, "true".to_owned())),
            }
        }
    }
    found.ok_or_else(|| refused("pooling_mode", "missing".to_owned()))
}

impl DenseModule {
    fn read(folder: &Path) -> Result<Self, LoadError> {
        let path = folder.join(CONFIG);
        let config = read_object(&path)?;
        let width = |key: &str| {
            let value = config
                .get(key)
                .ok_or_else(|| LoadError::new(&path, Kind::MissingKey { key: key.to_owned() }))?;
            size(&path, key, value, MAX_WIDTH)
        };
        let (inputs, outputs) = (width("in_features")?, width("out_features")?);
        let has_bias = truth(&path, &config, "bias")?.unwrap_or(true);
        let activation = config.get("activation_function").and_then(Value::as_str).unwrap_or_default();
        let is_tanh = match activation.rsplit('.').next().unwrap_or_default() {
            "Identity" => false,
            "Tanh" => true,
            _ => {
                let (key, given) = ("activation_function".to_owned(), activation.to_owned());
                let rule = "expected Identity or Tanh";
                return Err(LoadError::new(&path, Kind::KeyValue { key, given, rule }));
            }
        };
        let weights = Checkpoint::Safetensors(Safetensors::of_file(&folder.join(SINGLE))?);
        let values = |tensor: &str, shape: &[u64]| {
            weights.values(tensor, shape).map_err(|kind| LoadError::new(&folder.join(SINGLE), kind))
        };
        let weight = values("linear.weight", &[inputs as u64, outputs as u64])?;
        let bias = has_bias.then(|| values("linear.bias", &[outputs as u64])).transpose()?;
        Ok(Self { weight, bias, inputs, outputs, is_tanh })
    }
}

/// Reads a size from 1 to `limit`.
fn size(path: &Path, key: &str, value: &Value, limit: u64) -> Result<usize, LoadError> {
    let given = value.as_u64().filter(|given| (1..=limit).contains(given));
    let rule = "expected a positive integer";
    let wrong = || Kind::KeyValue { key: key.to_owned(), given: value.to_string(), rule };
    given.map(|given| given as usize).ok_or_else(|| LoadError::new(path, wrong()))
}

fn truth(path: &Path, config: &Map<String, Value>, key: &str) -> Result<Option<bool>, LoadError> {
    match config.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(truth)) => Ok(Some(*truth)),
        Some(_) => {
            let (key, given, expected) = (key.to_owned(), "a value of another type", "a bool");
            Err(LoadError::new(path, Kind::KeyType { key, given, expected }))
        }
    }
}
