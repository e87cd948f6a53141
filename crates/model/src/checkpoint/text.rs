//! Text model of a multimodal checkpoint, such as Gemma 3 or Mistral 3 with their vision towers.
//!
//! In the `config.json` of a multimodal checkpoint, the object `text_config` contains the fields of
//! the text model. The names of its tensors contain an additional component. This module converts
//! both to the form of a plain text model. The tensors of other parts are never read.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::ends::{IDS, listed};
use super::safetensors::QUANTIZATION;

/// Fields of a whole model that also apply to its text model.
const WHOLE: [&str; 2] = [QUANTIZATION, "tie_word_embeddings"];

/// Returns the defaults of fields that the published text configurations of Gemma 3 omit. The
/// values are those of `Gemma3TextConfig` in transformers.
fn gemma3_defaults() -> Value {
    json!({
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "max_position_embeddings": 131_072,
        "num_attention_heads": 8,
        "num_hidden_layers": 26,
        "num_key_value_heads": 4,
        "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-6,
        "rope_local_base_freq": 10_000,
        "rope_theta": 1_000_000,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
    })
}

/// Names of fields that the configurations of nomic's models take from GPT-2, and their usual names.
const NOMIC_FIELDS: [(&str, &str); 10] = [
    ("n_embd", "hidden_size"),
    ("n_head", "num_attention_heads"),
    ("n_inner", "intermediate_size"),
    ("n_layer", "num_hidden_layers"),
    ("n_positions", "max_position_embeddings"),
    ("layer_norm_epsilon", "layer_norm_eps"),
    ("rotary_emb_base", "rope_theta"),
    ("rotary_emb_fraction", "partial_rotary_factor"),
    ("activation_function", "hidden_act"),
    ("num_experts", "num_local_experts"),
];

/// Returns the configuration of a text model with the usual names of its fields.
pub(super) fn plain_config(config: Map<String, Value>) -> Map<String, Value> {
    let mut config = text_config(config);
    if config.get("model_type").and_then(Value::as_str) == Some("nomic_bert") {
        for (own, usual) in NOMIC_FIELDS {
            if let Some(value) = config.remove(own) {
                config.entry(usual).or_insert(value);
            }
        }
    }
    config
}

/// Returns the configuration of the text model. If the checkpoint is not multimodal, returns
/// `config` unchanged.
fn text_config(mut config: Map<String, Value>) -> Map<String, Value> {
    let is_gemma3 = config.get("model_type").and_then(Value::as_str) == Some("gemma3");
    match config.remove("text_config") {
        Some(Value::Object(text)) => {
            let mut own = match gemma3_defaults() {
                Value::Object(defaults) if is_gemma3 => defaults,
                _ => Map::new(),
            };
            let ends = [config.get(IDS), text.get(IDS)].map(listed).concat();
            // These fields may be given at the top level, for the whole model.
            own.extend(config.into_iter().filter(|(key, _)| WHOLE.contains(&key.as_str())));
            own.extend(text.into_iter().filter(|(_, value)| !value.is_null()));
            // Each of the two objects can name tokens that the other does not name.
            own.insert(IDS.to_owned(), ends.into());
            if is_gemma3 {
                own.insert("model_type".to_owned(), "gemma3_text".into());
            }
            own
        }
        Some(other) => {
            config.insert("text_config".to_owned(), other);
            config
        }
        None => config,
    }
}

/// Returns the name that a tensor has in a plain text model.
///
/// Older checkpoints have names such as `language_model.model.norm.weight`, and newer ones have
/// names such as `model.language_model.norm.weight`. Both become `model.norm.weight`.
pub(crate) fn text_name(name: &str) -> Cow<'_, str> {
    if let Some(name) = name.strip_prefix("language_model.") {
        return name.into();
    }
    match name.strip_prefix("model.language_model.") {
        Some(name) => format!("model.{name}").into(),
        None => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_tokens_of_both_objects_are_kept() {
        let config = json!({
            "eos_token_id": [1, 106],
            "model_type": "gemma4",
            "text_config": {"eos_token_id": 1, "model_type": "gemma4_text"},
        });
        let Value::Object(config) = config else { panic!("not an object") };
        let text = text_config(config);
        assert_eq!(text[IDS], json!([1, 106, 1]));
        assert_eq!(text["model_type"], "gemma4_text");
    }
}
