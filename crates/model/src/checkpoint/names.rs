//! Names of tensors in GGUF files and in safetensors.

use super::{Checkpoint, Family};

/// Converts the name of a tensor from Llama's name in GGUF files to the name in a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    in_config: bool,
    family: Family,
}

impl Names {
    pub(crate) fn new(checkpoint: &Checkpoint, family: Family) -> Self {
        Self { in_config: matches!(checkpoint, Checkpoint::Safetensors(_)), family }
    }

    /// Returns the number that must be added to each weight of a norm.
    pub(crate) fn norm_offset(self) -> f32 {
        // Gemma's norms multiply by one plus the weight. GGUF files store the sum.
        let adds = self.in_config && matches!(self.family, Family::Gemma2 | Family::Gemma3);
        if adds { 1.0 } else { 0.0 }
    }

    /// Returns the name of a tensor that does not belong to a layer, such as `token_embd.weight`.
    pub(crate) fn global(self, name: &str) -> String {
        let own = match name {
            "token_embd.weight" => "model.embed_tokens.weight",
            "output_norm.weight" => "model.norm.weight",
            "output.weight" => "lm_head.weight",
            "per_layer_token_embd.weight" => "model.embed_tokens_per_layer.weight",
            "per_layer_model_proj" => "model.per_layer_model_projection",
            "per_layer_proj_norm.weight" => "model.per_layer_projection_norm.weight",
            _ => name,
        };
        if self.in_config { own.to_owned() } else { name.to_owned() }
    }

    /// Returns the name of a tensor of the layer at `index`. `part` is the last part of its name
    /// without `.weight` or `.bias`, such as `attn_q`.
    pub(crate) fn layer(self, index: usize, part: &str) -> String {
        if self.in_config {
            format!("model.layers.{index}.{}", self.in_layer(part))
        } else {
            let part = match (self.family, part) {
                (Family::GptOss | Family::SeedOss | Family::Glm4Moe, "ffn_norm") => "post_attention_norm",
                _ => part,
            };
            format!("blk.{index}.{part}")
        }
    }

    fn in_layer(self, part: &str) -> &str {
        let has_post_norms = matches!(self.family, Family::Gemma2 | Family::Gemma3 | Family::Gemma4);
        match part {
            "attn_norm" => "input_layernorm",
            "attn_q" => "self_attn.q_proj",
            "attn_k" => "self_attn.k_proj",
            "attn_v" => "self_attn.v_proj",
            "attn_qkv" => "self_attn.qkv_proj",
            "attn_q_norm" => "self_attn.q_norm",
            "attn_k_norm" => "self_attn.k_norm",
            "attn_sinks" => "self_attn.sinks",
            "attn_output" => "self_attn.o_proj",
            "ffn_norm" if has_post_norms => "pre_feedforward_layernorm",
            "ffn_norm" | "post_attention_norm" => "post_attention_layernorm",
            "post_ffw_norm" => "post_feedforward_layernorm",
            "ffn_gate" => "mlp.gate_proj",
            "ffn_up" if self.family == Family::Phi3 => "mlp.gate_up_proj",
            "ffn_up" => "mlp.up_proj",
            "ffn_down" => "mlp.down_proj",
            "inp_gate" => "per_layer_input_gate",
            "proj" => "per_layer_projection",
            "post_norm" => "post_per_layer_input_norm",
            "pre_ffw_norm_2" => "pre_feedforward_layernorm_2",
            "post_ffw_norm_1" => "post_feedforward_layernorm_1",
            "post_ffw_norm_2" => "post_feedforward_layernorm_2",
            "ffn_gate_shexp" => "mlp.shared_experts.gate_proj",
            "ffn_up_shexp" => "mlp.shared_experts.up_proj",
            "ffn_down_shexp" => "mlp.shared_experts.down_proj",
            "ffn_gate_inp_shexp" => "mlp.shared_expert_gate",
            "exp_probs_b" if self.family == Family::MiniMax => "block_sparse_moe.e_score_correction_bias",
            "exp_probs_b" => "mlp.gate.e_score_correction_bias",
            "ffn_gate_inp" => match self.family {
                Family::Mixtral | Family::MiniMax => "block_sparse_moe.gate",
                Family::GptOss => "mlp.router",
                Family::Gemma4 => "router.proj",
                _ => "mlp.gate",
            },
            _ => part,
        }
    }

    /// Returns the name of the tensor with the attention sinks of the layer at `index`.
    pub(crate) fn sinks(self, index: usize) -> String {
        let name = self.layer(index, "attn_sinks");
        if self.in_config { name } else { name + ".weight" }
    }

    /// Returns the name of the factor for the output of the layer at `index`.
    pub(crate) fn layer_scale(self, index: usize) -> String {
        if self.in_config {
            format!("model.layers.{index}.layer_scalar")
        } else {
            self.layer(index, "layer_output_scale.weight")
        }
    }

    /// Returns the names of the norm of the router's input and of the factors of the experts' outputs,
    /// in the layer at `index`.
    pub(crate) fn router_scales(self, index: usize) -> [String; 2] {
        if self.in_config {
            ["scale", "per_expert_scale"].map(|part| format!("model.layers.{index}.router.{part}"))
        } else {
            ["ffn_gate_inp.scale", "ffn_down_exps.scale"].map(|part| self.layer(index, part))
        }
    }

    /// Returns the names of the two tensors that contain the matrices of all experts of a layer: gates
    /// and ups together, and downs. Returns `None` if the family has no such tensors.
    pub(crate) fn stacked_experts(self, index: usize) -> Option<[String; 2]> {
        match (self.in_config, self.family) {
            (true, Family::Gemma4) => {
                Some(["gate_up_proj", "down_proj"].map(|part| format!("model.layers.{index}.experts.{part}")))
            }
            (false, Family::Gemma4) => {
                Some(["ffn_gate_up_exps.weight", "ffn_down_exps.weight"].map(|part| self.layer(index, part)))
            }
            _ => None,
        }
    }

    /// Returns the name of the tensor with the bias of the experts' scores for the choice, in the layer
    /// at `index`.
    pub(crate) fn choice_bias(self, index: usize) -> String {
        let name = self.layer(index, "exp_probs_b");
        if self.in_config { name } else { name + ".bias" }
    }

    /// Returns the name of the tensor that contains the matrix `part` of all experts of a layer.
    /// Returns `None` if each expert has a tensor of its own.
    pub(crate) fn experts(self, index: usize, part: &str) -> Option<String> {
        (!self.in_config).then(|| self.layer(index, &format!("{part}_exps")))
    }

    /// Returns the common prefix of the expert tensors of a layer, if the family stores transposed
    /// matrices of all experts. Otherwise returns `None`.
    pub(crate) fn transposed_experts(self, index: usize) -> Option<String> {
        let so = self.in_config && self.family == Family::GptOss;
        so.then(|| format!("model.layers.{index}.mlp.experts"))
    }

    /// Returns the name of the matrix `part` of one expert in the layer at `index`.
    pub(crate) fn expert(self, index: usize, expert: usize, part: &str) -> String {
        match (self.in_config, self.family) {
            (true, Family::Mixtral | Family::MiniMax) => {
                let part = match part {
                    "ffn_gate" => "w1",
                    "ffn_down" => "w2",
                    _ => "w3",
                };
                format!("model.layers.{index}.block_sparse_moe.experts.{expert}.{part}")
            }
            (true, _) => {
                let part = self.in_layer(part).trim_start_matches("mlp.");
                format!("model.layers.{index}.mlp.experts.{expert}.{part}")
            }
            // Older GGUF files have one tensor per expert.
            (false, _) => self.layer(index, &format!("{part}.{expert}")),
        }
    }
}
