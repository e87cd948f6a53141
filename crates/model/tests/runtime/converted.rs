//! The tiny models of [`published`](crate::published) as GGUF files, as llama.cpp's converter
//! writes them.

#[path = "converted_experts.rs"]
mod experts;
#[path = "converted_hybrids.rs"]
mod hybrids;
#[path = "converted_latent.rs"]
mod latent;

use candle_core::quantized::GgmlDType;
use serde_json::Value;

use crate::published::Golden;
use crate::writer::Writer;

/// Converts a model to a GGUF file.
pub(crate) fn gguf(golden: &Golden) -> Vec<u8> {
    gguf_with(golden, GgmlDType::F32, None)
}

/// Converts a model to a GGUF file with matrices of type `dtype`, and optionally with another
/// context length.
pub(crate) fn gguf_with(golden: &Golden, dtype: GgmlDType, context: Option<u32>) -> Vec<u8> {
    gguf_by(golden, Writer::default(), dtype, context)
}

/// Converts a model to a GGUF file with a given writer.
pub(crate) fn gguf_by(
    golden: &Golden,
    mut writer: Writer,
    dtype: GgmlDType,
    context: Option<u32>,
) -> Vec<u8> {
    let converter = Converter { golden, architecture: architecture(golden.model_type()), dtype, context };
    converter.metadata(&mut writer);
    for name in golden.tensors.keys() {
        converter.tensor(&mut writer, name);
    }
    converter.experts(&mut writer);
    converter.rope_factors(&mut writer);
    writer.finish()
}

pub(crate) fn architecture(model_type: &str) -> &str {
    match model_type {
        "deepseek_v2" | "deepseek_v3" | "glm4_moe_lite" => "deepseek2",
        "ernie4_5_moe" => "ernie4_5-moe",
        "hunyuan_v1_dense" => "hunyuan-dense",
        "gemma3_text" => "gemma3",
        "granitemoehybrid" => "granitehybrid",
        "lfm2_moe" => "lfm2moe",
        "nemotron_h" => "nemotron_h_moe",
        "qwen3_next" => "qwen3next",
        "qwen3_5_text" => "qwen35",
        "qwen3_5_moe_text" => "qwen35moe",
        "glm4_moe" => "glm4moe",
        "minimax_m2" => "minimax-m2",
        "gemma4_text" => "gemma4",
        "gpt_oss" => "gpt-oss",
        "ministral3" => "mistral3",
        "mistral" | "mixtral" => "llama",
        "olmo3" => "olmo2",
        "qwen2_moe" => "qwen2moe",
        "qwen3_moe" => "qwen3moe",
        "qwen3_vl_text" => "qwen3vl",
        other => other,
    }
}

/// Writes one tensor of a model, without metadata. Skips tensors of experts.
pub(crate) fn write_tensor(golden: &Golden, writer: &mut Writer, name: &str) {
    let architecture = architecture(golden.model_type());
    let converter = Converter { golden, architecture, dtype: GgmlDType::F32, context: None };
    converter.tensor(writer, name);
}

/// Writes a part of a model without experts: the tensors whose names `has` accepts, and optionally
/// the metadata.
pub(crate) fn write_part(golden: &Golden, writer: &mut Writer, metadata: bool, has: &dyn Fn(&str) -> bool) {
    let architecture = architecture(golden.model_type());
    let converter = Converter { golden, architecture, dtype: GgmlDType::F32, context: None };
    if metadata {
        converter.metadata(writer);
    }
    for name in golden.tensors.keys() {
        if converter.name(name).is_some_and(|own| has(&own)) {
            converter.tensor(writer, name);
        }
    }
}

/// Returns the name of a tensor of a dense model in the GGUF file.
pub(crate) fn own_name(name: &str, architecture: &str) -> String {
    let golden = Golden::default();
    Converter { golden: &golden, architecture, dtype: GgmlDType::F32, context: None }.name(name).unwrap()
}

struct Converter<'a> {
    golden: &'a Golden,
    architecture: &'a str,
    /// Type of the matrices.
    dtype: GgmlDType,
    context: Option<u32>,
}

impl Converter<'_> {
    fn config(&self, key: &str) -> Option<&Value> {
        self.golden.text_config().get(key).filter(|value| !value.is_null())
    }

    fn size(&self, key: &str) -> Option<u32> {
        self.config(key).and_then(Value::as_u64).map(|size| size as u32)
    }

    fn float(&self, key: &str) -> Option<f32> {
        let nested = || self.config("rope_parameters").and_then(|ropes| ropes.get(key));
        self.config(key).or_else(nested).and_then(Value::as_f64).map(|float| float as f32)
    }

    fn metadata(&self, writer: &mut Writer) {
        let key = |name: &str| format!("{}.{name}", self.architecture);
        writer.string("general.architecture", self.architecture);
        let size = |name: &str| self.size(name).unwrap_or_else(|| panic!("{name} is missing"));
        let head_dim = self
            .size("global_head_dim")
            .or(self.size("head_dim"))
            .unwrap_or(size("hidden_size") / size("num_attention_heads"));
        let mut sizes = vec![
            ("block_count", size("num_hidden_layers")),
            ("context_length", self.context.unwrap_or(size("max_position_embeddings"))),
            ("embedding_length", size("hidden_size")),
            ("attention.head_count", size("num_attention_heads")),
        ];
        if !self.is_latent() {
            sizes.extend([("attention.key_length", head_dim), ("attention.value_length", head_dim)]);
        }
        if self.architecture == "gemma4" {
            self.gemma4(writer);
            sizes.extend([
                ("attention.key_length_swa", size("head_dim")),
                ("attention.value_length_swa", size("head_dim")),
            ]);
            let shared = self.size("num_kv_shared_layers").filter(|&shared| shared > 0);
            sizes.extend(shared.map(|shared| ("attention.shared_kv_layers", shared)));
            let width = self.size("hidden_size_per_layer_input").filter(|&width| width > 0);
            sizes.extend(width.map(|width| ("embedding_length_per_layer_input", width)));
        } else if self.golden.is_hybrid() {
            self.hybrid(writer);
        } else if self.is_latent() {
            self.latent(writer);
        } else {
            sizes.push(("feed_forward_length", size("intermediate_size")));
            sizes.extend(self.size("num_key_value_heads").map(|heads| ("attention.head_count_kv", heads)));
        }
        let fraction = self.float("partial_rotary_factor").unwrap_or(1.0);
        let fraction = if self.architecture == "nemotron_h_moe" { 1.0 } else { fraction };
        let dims = self.size("rotary_dim").unwrap_or((head_dim as f32 * fraction) as u32);
        if !self.is_latent() {
            sizes.push(("rope.dimension_count", dims));
        }
        // The configurations of Qwen contain a window that is not used.
        if self.architecture != "qwen2" {
            sizes.extend(self.size("sliding_window").map(|window| ("attention.sliding_window", window)));
        }
        // The pattern differs from the default of the architecture.
        let alternates = self.config("layer_types").is_some_and(|types| types[1] == "full_attention");
        if matches!(self.architecture, "gemma3" | "olmo2") && alternates {
            sizes.push(("attention.sliding_window_pattern", 2));
        }
        sizes.extend(self.expert_sizes());
        sizes.extend(self.size("mtp_num_hidden_layers").map(|heads| ("nextn_predict_layers", heads)));
        for (name, size) in sizes {
            writer.u32(&key(name), size);
        }
        for (name, config) in [
            ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
            ("attention.layer_norm_rms_epsilon", "norm_eps"),
            ("attention.layer_norm_epsilon", "layer_norm_eps"),
            ("logit_scale", "logit_scale"),
            ("rope.freq_base", "rope_theta"),
            ("attn_logit_softcapping", "attn_logit_softcapping"),
            ("final_logit_softcapping", "final_logit_softcapping"),
            ("attention.scale", "attention_multiplier"),
            ("embedding_scale", "embedding_multiplier"),
            ("residual_scale", "residual_multiplier"),
            ("logit_scale", "logits_scaling"),
            ("expert_weights_scale", "routed_scaling_factor"),
        ] {
            if let Some(mut value) = self.float(config) {
                if name == "rope.freq_base" {
                    value *= self.base_factor(head_dim);
                }
                writer.f32(&key(name), value);
            }
        }
        // The converter omits the key if the value is the head width.
        if let Some(scalar) = self.size("query_pre_attn_scalar").filter(|&scalar| scalar != head_dim) {
            writer.f32(&key("attention.scale"), 1.0 / (scalar as f32).sqrt());
        }
        self.scaling(writer);
        writer.string("tokenizer.ggml.model", "gpt2");
    }

    /// Returns the factor of the base of the rotary frequencies, which the converter applies.
    fn base_factor(&self, head_dim: u32) -> f32 {
        let alpha = self.config("rope_scaling").and_then(|scaling| scaling["alpha"].as_f64());
        let exponent = f64::from(head_dim) / f64::from(head_dim - 2);
        alpha.map_or(1.0, |alpha| alpha.powf(exponent) as f32)
    }

    fn scaling(&self, writer: &mut Writer) {
        let key = |name: &str| format!("{}.rope.scaling.{name}", self.architecture);
        let Some(scaling) = self.config("rope_scaling").or(self.config("rope_parameters")) else { return };
        // In models with windows, each kind of layer has an object of its own.
        let Some(kind) = scaling.get("rope_type").or(scaling.get("type")).and_then(Value::as_str) else {
            return;
        };
        if !matches!(kind, "linear" | "yarn" | "longrope") {
            return;
        }
        writer.string(&key("type"), kind);
        if let Some(factor) = scaling["factor"].as_f64() {
            writer.f32(&key("factor"), factor as f32);
        }
        let original = scaling["original_max_position_embeddings"].as_u64();
        if let Some(original) = original.or(self.size("original_max_position_embeddings").map(u64::from)) {
            writer.u32(&key("original_context_length"), original as u32);
        }
        if let Some(all) = scaling["mscale_all_dim"].as_f64() {
            let factor = if self.is_latent() { 0.1 } else { 1.0 };
            writer.f32(&key("yarn_log_multiplier"), (factor * all) as f32);
        }
        if let Some(beta) = scaling["llama_4_scaling_beta"].as_f64() {
            writer.f32(&format!("{}.attention.temperature_scale", self.architecture), beta as f32);
        }
        if kind == "longrope" {
            let original = self.float("original_max_position_embeddings").unwrap();
            let stretched = self.float("max_position_embeddings").unwrap() / original;
            writer.f32(&key("attn_factor"), (1.0 + stretched.ln() / original.ln()).sqrt());
        }
    }

    /// Writes one tensor, with the changes that the converter makes. Skips tensors of experts.
    fn tensor(&self, writer: &mut Writer, name: &str) {
        if (self.golden.is_hybrid() && self.hybrid_tensor(writer, name)) || self.latent_tensor(writer, name) {
            return;
        }
        let Some(own) = self.name(name) else { return };
        let mut values = self.golden.values(name);
        let shape = &self.golden.tensors[name];
        let interleaves =
            matches!(self.architecture, "llama" | "mistral3" | "smollm3" | "granite" | "granitehybrid");
        let heads = if own.contains("attn_q.") { "num_attention_heads" } else { "num_key_value_heads" };
        if interleaves && (own.contains("attn_q.") || own.contains("attn_k.")) {
            let heads = self.size(heads).unwrap_or(2) as usize;
            values = interleaved(&values, heads, shape);
        }
        let adds_one = (self.architecture.starts_with("gemma") && self.architecture != "gemma4")
            || matches!(self.architecture, "qwen3next" | "qwen35" | "qwen35moe");
        if adds_one && (name.ends_with("norm.weight") || name.starts_with("mtp.pre_fc_norm")) {
            for value in &mut values {
                *value += 1.0;
            }
        }
        let shape: Vec<u64> = shape.iter().rev().map(|&dim| dim as u64).collect();
        self.write(writer, &own, &shape, &values);
    }

    fn write(&self, writer: &mut Writer, name: &str, shape: &[u64], values: &[f32]) {
        let is_whole = shape[0].is_multiple_of(self.dtype.block_size() as u64);
        let is_matrix = shape.len() > 1 && name.ends_with("weight");
        let dtype = if is_matrix && is_whole { self.dtype } else { GgmlDType::F32 };
        writer.tensor(name, shape, dtype, values);
    }

    /// Returns the name of a tensor in the GGUF file. Returns `None` for experts, which are written
    /// together, and for what belongs to images.
    fn name(&self, name: &str) -> Option<String> {
        let whole = name.replacen("model.language_model.", "model.", 1);
        let name = whole.strip_prefix("language_model.").unwrap_or(&whole);
        if ["visual", "vision_tower", "multi_modal_projector"].iter().any(|other| name.contains(other)) {
            return None;
        }
        if let Some(global) = self.global_name(name) {
            return Some(global);
        }
        let name = name.replacen("backbone.", "model.", 1);
        let (layer, part) = name.strip_prefix("model.layers.").unwrap().split_once('.').unwrap();
        let (part, kind) = match part {
            "self_attn.sinks" => (part, "weight"),
            "mlp.gate.e_score_correction_bias"
            | "mlp.moe_statics.e_score_correction_bias"
            | "block_sparse_moe.e_score_correction_bias"
            | "mixer.gate.e_score_correction_bias"
            | "feed_forward.expert_bias" => ("exp_probs_b", "bias"),
            "layer_scalar" => ("layer_output_scale", "weight"),
            "router.per_expert_scale" => ("ffn_down_exps", "scale"),
            _ => part.rsplit_once('.').unwrap(),
        };
        let four_norms = self.architecture.starts_with("gemma");
        let own = match part {
            "input_layernorm" | "operator_norm" | "norm" => "attn_norm",
            "self_attn.q_proj" | "mixer.q_proj" => "attn_q",
            "self_attn.k_proj" | "mixer.k_proj" => "attn_k",
            "self_attn.v_proj" | "mixer.v_proj" => "attn_v",
            "self_attn.qkv_proj" => "attn_qkv",
            "self_attn.o_proj" | "self_attn.out_proj" | "mixer.o_proj" => "attn_output",
            "self_attn.q_norm" | "self_attn.q_layernorm" | "self_attn.query_layernorm" => "attn_q_norm",
            "self_attn.k_norm" | "self_attn.k_layernorm" | "self_attn.key_layernorm" => "attn_k_norm",
            "self_attn.sinks" => "attn_sinks",
            "self_attn.q_a_proj" => "attn_q_a",
            "self_attn.q_a_layernorm" => "attn_q_a_norm",
            "self_attn.q_b_proj" => "attn_q_b",
            "self_attn.kv_a_proj_with_mqa" => "attn_kv_a_mqa",
            "self_attn.kv_a_layernorm" => "attn_kv_a_norm",
            "post_attention_layernorm" if four_norms => "post_attention_norm",
            "post_attention_layernorm"
                if matches!(
                    self.architecture,
                    "olmo2"
                        | "gpt-oss"
                        | "seed_oss"
                        | "exaone4"
                        | "glm4moe"
                        | "qwen3next"
                        | "qwen35"
                        | "qwen35moe"
                ) =>
            {
                "post_attention_norm"
            }
            "post_attention_layernorm" | "pre_feedforward_layernorm" | "ffn_norm" => "ffn_norm",
            "post_self_attn_layernorm" => "post_attention_norm",
            "post_feedforward_layernorm" | "post_mlp_layernorm" => "post_ffw_norm",
            "pre_feedforward_layernorm_2" => "pre_ffw_norm_2",
            "post_feedforward_layernorm_1" => "post_ffw_norm_1",
            "post_feedforward_layernorm_2" => "post_ffw_norm_2",
            "per_layer_input_gate" => "inp_gate",
            "per_layer_projection" => "proj",
            "post_per_layer_input_norm" => "post_norm",
            "layer_output_scale" | "ffn_down_exps" | "exp_probs_b" => part,
            "mlp.shared_experts.gate_proj" | "mlp.shared_expert.gate_proj" => "ffn_gate_shexp",
            "mlp.shared_experts.up_proj" | "mlp.shared_expert.up_proj" | "mixer.shared_experts.up_proj" => {
                "ffn_up_shexp"
            }
            "mlp.shared_experts.down_proj"
            | "mlp.shared_expert.down_proj"
            | "mixer.shared_experts.down_proj" => "ffn_down_shexp",
            "mlp.shared_expert_gate" => "ffn_gate_inp_shexp",
            "mlp.gate_proj" | "feed_forward.w1" => "ffn_gate",
            "mlp.up_proj" | "mlp.gate_up_proj" | "feed_forward.w3" | "mixer.up_proj" => "ffn_up",
            "mlp.down_proj" | "feed_forward.w2" | "mixer.down_proj" => "ffn_down",
            "mixer.fc1_latent_proj" => "ffn_latent_down",
            "mixer.fc2_latent_proj" => "ffn_latent_up",
            "conv.in_proj" => "shortconv.in_proj",
            "conv.out_proj" => "shortconv.out_proj",
            "mlp.gate"
            | "mlp.router"
            | "block_sparse_moe.gate"
            | "block_sparse_moe.router.layer"
            | "feed_forward.gate"
            | "mixer.gate"
            | "router"
            | "router.proj" => "ffn_gate_inp",
            _ if part.contains("experts") || part.starts_with("block_sparse_moe") => return None,
            other => panic!("no name for {other}"),
        };
        Some(format!("blk.{layer}.{own}.{kind}"))
    }

    /// Returns the name of a tensor that belongs to no layer, or to the head for drafts, whose layer is the
    /// last one. `None` for the others.
    fn global_name(&self, name: &str) -> Option<String> {
        let own = match name {
            "model.embed_tokens.weight" | "backbone.embeddings.weight" => "token_embd",
            "model.norm.weight" | "backbone.norm_f.weight" => "output_norm",
            "model.embedding_norm.weight" => "token_embd_norm",
            "lm_head.weight" => "output",
            "model.embed_tokens_per_layer.weight" => "per_layer_token_embd",
            "model.per_layer_model_projection.weight" => "per_layer_model_proj",
            "model.per_layer_projection_norm.weight" => "per_layer_proj_norm",
            _ => {
                let own = match name.strip_prefix("mtp.")? {
                    "fc.weight" => "eh_proj",
                    "pre_fc_norm_embedding.weight" => "enorm",
                    "pre_fc_norm_hidden.weight" => "hnorm",
                    "norm.weight" => "shared_head_norm",
                    other => panic!("no name for {other}"),
                };
                return Some(format!(
                    "blk.{}.nextn.{own}.weight",
                    self.size("num_hidden_layers").unwrap() - 1
                ));
            }
        };
        Some(format!("{own}.weight"))
    }

    /// Writes what differs from layer to layer in Gemma 4, and the frequencies of the windowed layers.
    fn gemma4(&self, writer: &mut Writer) {
        let key = |name: &str| format!("gemma4.{name}");
        let types = self.config("layer_types").and_then(Value::as_array).unwrap();
        let is_local: Vec<bool> = types.iter().map(|kind| kind == "sliding_attention").collect();
        let layers = is_local.len();
        let own = layers - self.size("num_kv_shared_layers").unwrap_or(0) as usize;
        let heads = self.size("num_key_value_heads").unwrap();
        let full_heads = self.size("num_global_key_value_heads").unwrap_or(heads);
        let heads: Vec<u32> =
            is_local.iter().map(|&is_local| if is_local { heads } else { full_heads }).collect();
        let width = self.size("intermediate_size").unwrap();
        let is_double = self.config("use_double_wide_mlp").and_then(Value::as_bool).unwrap_or(false);
        let width = |layer: usize| if is_double && layer >= own { 2 * width } else { width };
        writer.u32s(&key("attention.head_count_kv"), &heads);
        writer.u32s(&key("feed_forward_length"), &(0..layers).map(width).collect::<Vec<_>>());
        writer.bools(&key("attention.sliding_window_pattern"), &is_local);
        let theta =
            |kind: &str| self.config("rope_parameters").unwrap()[kind]["rope_theta"].as_f64().unwrap();
        writer.f32(&key("rope.freq_base"), theta("full_attention") as f32);
        writer.f32(&key("rope.freq_base_swa"), theta("sliding_attention") as f32);
        writer.u32(&key("rope.dimension_count_swa"), self.size("head_dim").unwrap());
    }

    /// Writes the divisors of the rotary frequencies, for models whose GGUF files have them as
    /// tensors.
    fn rope_factors(&self, writer: &mut Writer) {
        if self.architecture == "gemma4" {
            let full = &self.config("rope_parameters").unwrap()["full_attention"];
            let pairs = self.size("global_head_dim").unwrap() as usize / 2;
            let rotated = (pairs as f64 * full["partial_rotary_factor"].as_f64().unwrap()) as usize;
            let factors: Vec<f32> = (0..pairs).map(|pair| if pair < rotated { 1.0 } else { 1e30 }).collect();
            self.write(writer, "rope_freqs.weight", &[pairs as u64], &factors);
            return;
        }
        let Some(scaling) = self.config("rope_scaling") else { return };
        for (own, key) in
            [("rope_factors_long.weight", "long_factor"), ("rope_factors_short.weight", "short_factor")]
        {
            if let Some(factors) = scaling[key].as_array() {
                let factors: Vec<f32> =
                    factors.iter().map(|factor| factor.as_f64().unwrap() as f32).collect();
                self.write(writer, own, &[factors.len() as u64], &factors);
            }
        }
        if scaling["rope_type"] == "llama3" {
            let number = |key: &str| scaling[key].as_f64().unwrap();
            let (theta, dims) =
                (self.config("rope_theta").unwrap().as_f64().unwrap(), self.size("head_dim").unwrap());
            let (low, high) = (number("low_freq_factor"), number("high_freq_factor"));
            let original = number("original_max_position_embeddings");
            let factor = |pair: u32| {
                let wavelength = std::f64::consts::TAU * theta.powf(f64::from(2 * pair) / f64::from(dims));
                if wavelength < original / high {
                    return 1.0;
                }
                if wavelength > original / low {
                    return number("factor") as f32;
                }
                let smooth = (original / wavelength - low) / (high - low);
                (1.0 / ((1.0 - smooth) / number("factor") + smooth)) as f32
            };
            let factors: Vec<f32> = (0..dims / 2).map(factor).collect();
            self.write(writer, "rope_freqs.weight", &[factors.len() as u64], &factors);
        }
    }
}

/// Reorders the rows of queries or keys so that pairs that rotate together are adjacent.
fn interleaved(values: &[f32], heads: usize, shape: &[usize]) -> Vec<f32> {
    let columns = if shape.len() == 2 { shape[1] } else { 1 };
    let head_dim = shape[0] / heads;
    let row = |row: usize| {
        let (head, within) = (row / head_dim, row % head_dim);
        let source = head * head_dim + within / 2 + within % 2 * (head_dim / 2);
        &values[source * columns..(source + 1) * columns]
    };
    (0..shape[0]).flat_map(row).copied().collect()
}
