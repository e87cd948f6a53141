//! Adapters in the format of PEFT: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! The tensors of a module `M` are `base_model.model.M.lora_A.weight` and `….lora_B.weight`, and those
//! of an embedding `….lora_embedding_A` and `….lora_embedding_B`. The facts are those of PEFT 0.17.

use std::path::Path;

use serde_json::{Map, Value};

use super::{AdapterFile, Side, pairs};
use crate::LoadError;
use crate::checkpoint::Checkpoint;
use crate::checkpoint::safetensors::{Safetensors, read_object};
use crate::checkpoint::text_name;
use crate::error::Kind;
use crate::gguf::TensorInfo;

pub(super) const CONFIG: &str = "adapter_config.json";
pub(super) const TENSORS: &str = "adapter_model.safetensors";

/// Prefix of the names of all modules.
const PREFIX: &str = "base_model.model.";

/// Fields that need computations of their own, and the reason to refuse any value but a false one.
const REFUSED: [(&str, &str); 12] = [
    ("use_dora", "DoRA is not supported"),
    ("use_qalora", "QALoRA is not supported"),
    ("use_bdlora", "BD-LoRA is not supported"),
    ("fan_in_fan_out", "transposed matrices are not supported"),
    ("lora_bias", "biases of adapters are not supported"),
    ("modules_to_save", "modules that are trained as a whole are not supported"),
    ("layer_replication", "replicated layers are not supported"),
    ("trainable_token_indices", "trained tokens are not supported"),
    ("target_parameters", "adapters of parameters such as stacked experts are not supported"),
    ("alora_invocation_tokens", "activated LoRA is not supported"),
    ("megatron_config", "Megatron's layers are not supported"),
    ("arrow_config", "Arrow is not supported"),
];

/// Field with the initialisation of the matrices.
const INIT: &str = "init_lora_weights";
/// Initialisations that change the weights of the model, which the adapter then relies on.
const CHANGED_BASE: [&str; 5] = ["pissa", "olora", "corda", "loftq", "lora_ga"];

pub(super) fn open(folder: &Path) -> Result<AdapterFile, LoadError> {
    let path = folder.join(CONFIG);
    let fields = read_object(&path)?;
    let config = Config::read(&fields).map_err(|kind| LoadError::new(&path, kind))?;
    let file = folder.join(TENSORS);
    let tensors = Safetensors::of_file(&file)?;
    let pairs = pairs(tensors.tensors(), side, |module, b| config.scale(module, b));
    Ok(AdapterFile {
        architecture: None,
        alpha: config.alpha,
        pairs: pairs.map_err(|kind| LoadError::new(&file, kind))?,
        tensors: Checkpoint::Safetensors(tensors),
    })
}

/// The fields of a configuration that determine the factors of an adapter.
struct Config<'a> {
    rank: u64,
    alpha: f64,
    /// True if the factor is divided by the square root of the rank.
    is_stabilised: bool,
    ranks: Option<&'a Map<String, Value>>,
    alphas: Option<&'a Map<String, Value>>,
}

impl<'a> Config<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, Kind> {
        let wrong = |key: &str, rule| {
            let given = fields.get(key).map(ToString::to_string).unwrap_or_default();
            Kind::KeyValue { key: key.to_owned(), given, rule }
        };
        let missing = |key: &str| Kind::MissingKey { key: key.to_owned() };
        match fields.get("peft_type").ok_or_else(|| missing("peft_type"))? {
            Value::String(kind) if kind == "LORA" => {}
            _ => return Err(wrong("peft_type", "expected \"LORA\"")),
        }
        for (key, rule) in REFUSED {
            let is_empty = match fields.get(key) {
                None | Some(Value::Null | Value::Bool(false)) => true,
                Some(Value::Array(list)) => list.is_empty(),
                Some(Value::Object(object)) => object.is_empty(),
                _ => false,
            };
            if !is_empty {
                return Err(wrong(key, rule));
            }
        }
        if fields.get("bias").is_some_and(|bias| bias != "none") {
            return Err(wrong("bias", "trained biases are not supported; expected \"none\""));
        }
        let init = fields.get(INIT).and_then(Value::as_str).unwrap_or_default();
        if CHANGED_BASE.iter().any(|prefix| init.starts_with(prefix)) {
            return Err(wrong(INIT, "adapters of changed weights are not supported; convert the adapter"));
        }
        let rank = fields.get("r").ok_or_else(|| missing("r"))?;
        let alpha = fields.get("lora_alpha").ok_or_else(|| missing("lora_alpha"))?;
        let patterns = |key: &str| match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(patterns)) => {
                match patterns.keys().find(|pattern| literal(pattern).is_none()) {
                    None => Ok(Some(patterns)),
                    Some(_) => Err(wrong(key, "expected names of modules; other patterns are not supported")),
                }
            }
            Some(_) => Err(wrong(key, "expected an object")),
        };
        Ok(Self {
            rank: rank
                .as_u64()
                .filter(|&rank| rank > 0)
                .ok_or_else(|| wrong("r", "expected a positive integer"))?,
            alpha: alpha
                .as_f64()
                .filter(|alpha| alpha.is_finite())
                .ok_or_else(|| wrong("lora_alpha", "expected a number"))?,
            is_stabilised: fields.get("use_rslora") == Some(&Value::Bool(true)),
            ranks: patterns("rank_pattern")?,
            alphas: patterns("alpha_pattern")?,
        })
    }

    /// Returns the rank and the factor of a module. `b` is the second matrix of its pair.
    fn scale(&self, module: &str, b: &TensorInfo) -> Result<(usize, f64), Kind> {
        let rank = of_module(self.ranks, module).and_then(Value::as_u64).unwrap_or(self.rank);
        let alpha = of_module(self.alphas, module).and_then(Value::as_f64).unwrap_or(self.alpha);
        if b.shape[0] != rank {
            let expected = [&[rank], &b.shape[1..]].concat();
            return Err(Kind::Shape { tensor: b.name.clone(), given: b.shape.clone(), expected });
        }
        let divisor = if self.is_stabilised { (rank as f64).sqrt() } else { rank as f64 };
        Ok((rank as usize, alpha / divisor))
    }
}

/// Returns the value of the first pattern that matches a module. A pattern is the end of the module's
/// name, or the whole name if it starts with `^`.
fn of_module<'a>(patterns: Option<&'a Map<String, Value>>, module: &str) -> Option<&'a Value> {
    let matches = |pattern: &str| {
        let Some(name) = literal(pattern) else { return false };
        let rest = module.strip_suffix(name.as_str());
        rest.is_some_and(|rest| rest.is_empty() || (rest.ends_with('.') && !pattern.starts_with('^')))
    };
    patterns?.iter().find(|(pattern, _)| matches(pattern)).map(|(_, value)| value)
}

/// Returns the name that a pattern stands for. Returns `None` if the pattern is a regular expression
/// that can match several names.
fn literal(pattern: &str) -> Option<String> {
    let name = pattern.strip_prefix('^').unwrap_or(pattern).replace("\\.", ".");
    let is_plain = |char: char| char.is_alphanumeric() || matches!(char, '.' | '_' | '-');
    name.chars().all(is_plain).then_some(name)
}

fn side(tensor: &TensorInfo) -> Result<(String, Side, bool), Kind> {
    let name = tensor.name.as_str();
    let unsupported = |reason| Kind::AdapterTensor { tensor: name.to_owned(), reason };
    let sides = [
        (".lora_A", Side::A, false),
        (".lora_B", Side::B, false),
        (".lora_embedding_A", Side::A, true),
        (".lora_embedding_B", Side::B, true),
    ];
    let found = sides.into_iter().find_map(|(part, side, is_embedding)| {
        let (module, rest) = name.split_once(part)?;
        // The name of the adapter may follow, which PEFT usually removes.
        let rest = rest.strip_suffix(".weight").unwrap_or(rest);
        let is_end = rest.is_empty() || rest.strip_prefix('.').is_some_and(|name| !name.contains('.'));
        (is_end && rest != ".bias").then_some((module, side, is_embedding))
    });
    let Some((module, side, is_embedding)) = found else {
        return Err(unsupported(if name.contains("lora_magnitude_vector") {
            "DoRA is not supported"
        } else if name.contains("lora_") && name.ends_with("bias") {
            "biases of adapters are not supported"
        } else {
            "only pairs of lora_A and lora_B are supported, no modules or biases that are trained as a whole"
        }));
    };
    let module = module.strip_prefix(PREFIX).unwrap_or(module);
    Ok((text_name(module).into_owned(), side, is_embedding))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_match_ends_of_names() {
        let Value::Object(patterns) = json!({"^model.q_proj": 1, "q_proj": 2, "layers\\.1\\.k_proj": 3})
        else {
            panic!("not an object")
        };
        let found = |module| of_module(Some(&patterns), module).and_then(Value::as_u64);
        assert_eq!(found("model.q_proj"), Some(1));
        assert_eq!(found("my.model.q_proj"), Some(2));
        assert_eq!(found("my_q_proj"), None);
        assert_eq!(found("model.layers.1.k_proj"), Some(3));
        assert_eq!(literal("layers.*.k_proj"), None);
    }
}
