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
                (Family::GptOss, "ffn_norm") => "post_attention_norm",
                _ => part,
            };
            format!("blk.{index}.{part}")
        }
    }

    fn in_layer(self, part: &str) -> &str {
        let has_post_norms = matches!(self.family, Family::Gemma2 | Family::Gemma3);
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
            "ffn_gate_shexp" => "mlp.shared_expert.gate_proj",
            "ffn_up_shexp" => "mlp.shared_expert.up_proj",
            "ffn_down_shexp" => "mlp.shared_expert.down_proj",
            "ffn_gate_inp_shexp" => "mlp.shared_expert_gate",
            "exp_probs_b" => "mlp.gate.e_score_correction_bias",
            "ffn_gate_inp" => match self.family {
                Family::Mixtral => "block_sparse_moe.gate",
                Family::GptOss => "mlp.router",
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
            (true, Family::Mixtral) => {
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
