//! The changes that llama.cpp's converter makes in models with latent attention.

use super::Converter;
use crate::writer::Writer;

impl Converter<'_> {
    /// Reports whether the model has latent attention.
    pub(super) fn is_latent(&self) -> bool {
        self.size("kv_lora_rank").is_some()
    }

    pub(super) fn latent(&self, writer: &mut Writer) {
        let key = |name: &str| format!("{}.{name}", self.architecture);
        let size = |name: &str| self.size(name).unwrap();
        let (rank, rotated) = (size("kv_lora_rank"), size("qk_rope_head_dim"));
        for (name, value) in [
            ("attention.head_count_kv", 1),
            ("attention.key_length", rank + rotated),
            ("attention.value_length", rank),
            ("attention.key_length_mla", size("qk_nope_head_dim") + rotated),
            ("attention.value_length_mla", size("v_head_dim")),
            ("attention.kv_lora_rank", rank),
            ("rope.dimension_count", rotated),
            ("feed_forward_length", size("intermediate_size")),
        ] {
            writer.u32(&key(name), value);
        }
        if let Some(rank) = self.size("q_lora_rank") {
            writer.u32(&key("attention.q_lora_rank"), rank);
        }
        if self.config("norm_topk_prob").and_then(serde_json::Value::as_bool) == Some(true) {
            writer.bool(&key("expert_weights_norm"), true);
        }
    }

    /// Writes a tensor that is changed in a way of its own. Returns false for all others.
    pub(super) fn latent_tensor(&self, writer: &mut Writer, name: &str) -> bool {
        let Some((layer, "self_attn.kv_b_proj.weight")) =
            name.split_once("layers.").and_then(|(_, rest)| rest.split_once('.'))
        else {
            return false;
        };
        let size = |name: &str| self.size(name).unwrap() as usize;
        let (heads, rank) = (size("num_attention_heads"), size("kv_lora_rank"));
        let (plain, value) = (size("qk_nope_head_dim"), size("v_head_dim"));
        let all = self.golden.values(name);
        let rows = |head: usize| &all[head * (plain + value) * rank..][..(plain + value) * rank];
        let transposed = |head: usize| {
            let rows = rows(head);
            (0..rank * plain).map(move |at| rows[at % plain * rank + at / plain])
        };
        let keys: Vec<f32> = (0..heads).flat_map(transposed).collect();
        let values: Vec<f32> = (0..heads).flat_map(|head| rows(head)[plain * rank..].to_vec()).collect();
        let shape = |columns: usize, rows: usize| [columns as u64, rows as u64, heads as u64];
        self.write(writer, &format!("blk.{layer}.attn_k_b.weight"), &shape(plain, rank), &keys);
        self.write(writer, &format!("blk.{layer}.attn_v_b.weight"), &shape(rank, value), &values);
        true
    }
}
