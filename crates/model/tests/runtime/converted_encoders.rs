//! Conversion of models of whole texts to GGUF files, with the names and keys that llama.cpp's converter
//! writes.

use candle_core::quantized::GgmlDType;
use serde_json::Value;

use crate::converted;
use crate::published::Golden;
use crate::writer::Writer;

/// Converts a model to a GGUF file, optionally with a pooling type.
pub(crate) fn gguf(golden: &Golden, pooling: Option<u32>) -> Vec<u8> {
    let mut writer = Writer::default();
    let architecture = match golden.model_type() {
        "bert" => "bert",
        "nomic_bert" => "nomic-bert",
        "modernbert" => "modern-bert",
        "gemma3_text" => "gemma-embedding",
        other => other,
    };
    let key = |name: &str| format!("{architecture}.{name}");
    if let Some(pooling) = pooling {
        writer.u32(&key("pooling_type"), pooling);
    }
    writer.string("general.architecture", architecture);
    writer.string("tokenizer.ggml.model", "bert");
    let config = |key: &str| golden.config.get(key).filter(|value| !value.is_null());
    for (name, own) in [
        ("block_count", "num_hidden_layers"),
        ("context_length", "max_position_embeddings"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.key_length", "head_dim"),
        ("attention.value_length", "head_dim"),
        ("attention.sliding_window", "local_attention"),
        ("attention.sliding_window", "sliding_window"),
        ("attention.sliding_window_pattern", "global_attn_every_n_layers"),
    ] {
        if let Some(value) = config(own).and_then(Value::as_u64) {
            writer.u32(&key(name), value as u32);
        }
    }
    if architecture == "gemma-embedding" {
        writer.u32(&key("attention.sliding_window_pattern"), 3);
    }
    let nested = config("rope_parameters").and_then(|ropes| ropes["rope_theta"].as_f64());
    for (name, value) in [
        ("attention.layer_norm_epsilon", config("layer_norm_eps").and_then(Value::as_f64)),
        ("attention.layer_norm_epsilon", config("norm_eps").and_then(Value::as_f64)),
        ("attention.layer_norm_rms_epsilon", config("rms_norm_eps").and_then(Value::as_f64)),
        ("rope.freq_base", nested),
        ("rope.freq_base", config("rope_theta").and_then(Value::as_f64)),
        ("rope.freq_base", config("global_rope_theta").and_then(Value::as_f64)),
        ("rope.freq_base_swa", config("local_rope_theta").and_then(Value::as_f64)),
    ] {
        if let Some(value) = value {
            writer.f32(&key(name), value as f32);
        }
    }
    for name in golden.tensors.keys() {
        let own = own_name(name, architecture);
        let mut values = golden.values(name);
        if architecture == "gemma-embedding" && name.ends_with("norm.weight") {
            for value in &mut values {
                *value += 1.0;
            }
        }
        let shape: Vec<u64> = golden.tensors[name].iter().rev().map(|&dim| dim as u64).collect();
        writer.tensor(&own, &shape, GgmlDType::F32, &values);
    }
    writer.finish()
}

/// Returns the name of a tensor in GGUF files.
fn own_name(name: &str, architecture: &str) -> String {
    let (path, kind) = name.rsplit_once('.').unwrap();
    let path = path.strip_prefix("bert.").or(path.strip_prefix("model.")).unwrap_or(path);
    if matches!(architecture, "gemma-embedding" | "qwen3") {
        return converted::own_name(&format!("model.{path}.{kind}"), architecture);
    }
    let global = match path {
        "embeddings.word_embeddings" | "embeddings.tok_embeddings" => Some("token_embd"),
        "embeddings.position_embeddings" => Some("position_embd"),
        "embeddings.token_type_embeddings" => Some("token_types"),
        "embeddings.LayerNorm" | "embeddings.norm" | "emb_ln" => Some("token_embd_norm"),
        "final_norm" => Some("output_norm"),
        "pooler.dense" | "head.dense" => Some("cls"),
        "head.norm" => Some("cls.norm"),
        "classifier" => Some("cls.output"),
        _ => None,
    };
    if let Some(global) = global {
        return format!("{global}.{kind}");
    }
    let rest = ["encoder.layer.", "encoder.layers.", "layers."];
    let rest = rest.iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap();
    let (layer, part) = rest.split_once('.').unwrap();
    let own = match part {
        "attention.self.query" => "attn_q",
        "attention.self.key" => "attn_k",
        "attention.self.value" => "attn_v",
        "attn.Wqkv" => "attn_qkv",
        "attention.output.dense" | "attn.out_proj" | "attn.Wo" => "attn_output",
        "attention.output.LayerNorm" | "norm1" => "attn_output_norm",
        "attn_norm" => "attn_norm",
        "mlp_norm" => "ffn_norm",
        "intermediate.dense" | "mlp.fc11" | "mlp.Wi" => "ffn_up",
        "mlp.fc12" => "ffn_gate",
        "output.dense" | "mlp.fc2" | "mlp.Wo" => "ffn_down",
        "output.LayerNorm" | "norm2" => "layer_output_norm",
        other => panic!("no name for {other}"),
    };
    format!("blk.{layer}.{own}.{kind}")
}
