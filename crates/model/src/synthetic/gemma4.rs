//! The parts of Gemma 4 that other architectures lack.

use super::Entries;
use super::shapes::{Shape, Tensors};

/// Sizes of Gemma 4 beside those of every model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gemma4 {
    /// Width of heads in layers with a window.
    pub(super) local_head_dim: usize,
    /// Number of layers from one layer without a window to the next.
    pub(super) full_every: usize,
    /// Number of the last layers, which read the keys and values of earlier ones. Their feed-forward
    /// blocks are twice as wide.
    pub(super) sharing: usize,
    /// Width of the embedding that each layer adds.
    pub(super) per_layer: usize,
}

/// Number of positions that layers with a window see.
const WINDOW: usize = 512;

impl Gemma4 {
    const fn is_full(self, layer: usize) -> bool {
        (layer + 1).is_multiple_of(self.full_every)
    }

    const fn is_sharing(self, shape: &Shape, layer: usize) -> bool {
        layer + self.sharing >= shape.layers
    }

    const fn width(self, shape: &Shape, layer: usize) -> usize {
        if self.is_sharing(shape, layer) { 2 * shape.feed_forward } else { shape.feed_forward }
    }

    pub(super) fn write_metadata(self, shape: &Shape, entries: &mut Entries) {
        let layers = 0..shape.layers;
        let widths = layers.clone().map(|layer| self.width(shape, layer));
        entries.numbers("gemma4.feed_forward_length", widths);
        for (name, value) in [
            ("attention.head_count_kv", shape.kv_heads),
            ("attention.key_length_swa", self.local_head_dim),
            ("attention.value_length_swa", self.local_head_dim),
            ("attention.shared_kv_layers", self.sharing),
            ("attention.sliding_window", WINDOW),
            ("embedding_length_per_layer_input", self.per_layer),
            ("rope.dimension_count", shape.head_dim),
            ("rope.dimension_count_swa", self.local_head_dim),
        ] {
            entries.number(&format!("gemma4.{name}"), value);
        }
        let windows = layers.map(|layer| !self.is_full(layer));
        entries.flags("gemma4.attention.sliding_window_pattern", windows);
        entries.float("gemma4.rope.freq_base_swa", 10_000.0);
        entries.float("gemma4.final_logit_softcapping", 30.0);
    }

    /// Adds the tensors that belong to no layer.
    pub(super) fn globals(self, shape: &Shape, tensors: &mut Tensors) {
        let all = self.per_layer * shape.layers;
        tensors.matrix("per_layer_token_embd.weight", &[all, shape.vocabulary]);
        tensors.matrix("per_layer_model_proj.weight", &[shape.hidden, all]);
        tensors.norm("per_layer_proj_norm.weight", &[self.per_layer]);
        // Real files leave most pairs as they are, which takes the same time.
        tensors.norm("rope_freqs.weight", &[shape.head_dim / 2]);
    }

    pub(super) fn layer(self, shape: &Shape, layer: usize, tensors: &mut Tensors) {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let (hidden, width) = (shape.hidden, self.width(shape, layer));
        let norms = ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm"];
        for part in norms {
            tensors.norm(&name(part), &[hidden]);
        }
        let head_dim = if self.is_full(layer) { shape.head_dim } else { self.local_head_dim };
        tensors.matrix(&name("attn_q"), &[hidden, shape.heads * head_dim]);
        tensors.norm(&name("attn_q_norm"), &[head_dim]);
        if !self.is_sharing(shape, layer) {
            for part in ["attn_k", "attn_v"] {
                tensors.matrix(&name(part), &[hidden, shape.kv_heads * head_dim]);
            }
            tensors.norm(&name("attn_k_norm"), &[head_dim]);
        }
        tensors.matrix(&name("attn_output"), &[shape.heads * head_dim, hidden]);
        for part in ["ffn_gate", "ffn_up"] {
            tensors.matrix(&name(part), &[hidden, width]);
        }
        tensors.matrix(&name("ffn_down"), &[width, hidden]);
        tensors.matrix(&name("inp_gate"), &[hidden, self.per_layer]);
        tensors.matrix(&name("proj"), &[self.per_layer, hidden]);
        tensors.norm(&name("layer_output_scale"), &[1]);
    }
}
