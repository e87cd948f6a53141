//! What tensors are called.

use super::Checkpoint;
use crate::spec::Family;

/// The names of tensors in a checkpoint, by those that llama's have in GGUF files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    in_config: bool,
    family: Family,
}

impl Names {
    pub(crate) fn new(checkpoint: &Checkpoint, family: Family) -> Self {
        Self { in_config: matches!(checkpoint, Checkpoint::Safetensors(_)), family }
    }

    /// What is added to the weights of a norm.
    pub(crate) fn norm_offset(self) -> f32 {
        // Gemma's norms multiply with one more than the weight; GGUF files have the sum.
        let adds = self.in_config && matches!(self.family, Family::Gemma2 | Family::Gemma3);
        if adds { 1.0 } else { 0.0 }
    }

    /// A tensor that no layer has.
    pub(crate) fn global(self, name: &str) -> String {
        let own = match name {
            "token_embd.weight" => "model.embed_tokens.weight",
            "output_norm.weight" => "model.norm.weight",
            "output.weight" => "lm_head.weight",
            _ => name,
        };
        if self.in_config { own.to_owned() } else { name.to_owned() }
    }

    /// A tensor of a layer; `part` is without `.weight` and `.bias`.
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
            "ffn_gate_inp" => match self.family {
                Family::Mixtral => "block_sparse_moe.gate",
                Family::GptOss => "mlp.router",
                _ => "mlp.gate",
            },
            _ => part,
        }
    }

    /// The scores of a layer's attention sinks.
    pub(crate) fn sinks(self, index: usize) -> String {
        let name = self.layer(index, "attn_sinks");
        if self.in_config { name } else { name + ".weight" }
    }

    /// A matrix of all experts of a layer; `None` where each expert has its own.
    pub(crate) fn experts(self, index: usize, part: &str) -> Option<String> {
        (!self.in_config).then(|| self.layer(index, &format!("{part}_exps")))
    }

    /// The common part of the names of experts that lie transposed in one tensor each.
    pub(crate) fn transposed_experts(self, index: usize) -> Option<String> {
        let so = self.in_config && self.family == Family::GptOss;
        so.then(|| format!("model.layers.{index}.mlp.experts"))
    }

    /// A matrix of one expert.
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
            // Files of some age.
            (false, _) => self.layer(index, &format!("{part}.{expert}")),
        }
    }
}
