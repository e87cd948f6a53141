//! The shapes of real models: their metadata and tensors.
//!
//! The sizes are those of the models' published configurations.

use super::gemma4::Gemma4;
use super::{Entries, F32, TensorEntry, Type, Weights};

/// The shape of a model.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) hidden: usize,
    /// Width of dense feed-forward blocks.
    pub(super) feed_forward: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) vocabulary: usize,
    /// True if the output head uses the matrix of the embedding.
    pub(super) tied: bool,
}

/// The architecture of a model, with its own sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Llama,
    /// Qwen3 with mixtures.
    Qwen3Moe(Experts),
    /// Gated delta rule in three of four layers.
    Qwen35 {
        key_heads: usize,
        value_heads: usize,
        /// Width of keys and values of the delta rule.
        dim: usize,
    },
    /// Short convolutions, with attention in some layers.
    Lfm2 {
        attention: &'static [usize],
    },
    /// Mamba2 with mixtures, and attention in some layers.
    GraniteHybrid {
        attention: &'static [usize],
        heads: usize,
        head_dim: usize,
        state: usize,
        experts: Experts,
        /// Width of the expert that computes every token.
        shared: usize,
    },
    /// Embeddings for each layer, and keys and values that layers share.
    Gemma4(Gemma4),
}

/// Sizes of a mixture of experts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Experts {
    count: usize,
    used: usize,
    width: usize,
}

/// Number of positions that convolutions see, except those of LFM2.
const KERNEL: usize = 4;
/// Number of positions that LFM2's convolutions see.
const SHORT_KERNEL: usize = 3;
/// Number of layers from one attention layer of Qwen3.5 to the next.
const INTERVAL: usize = 4;

/// Llama 3.2 (1B, 3B) and 3.1 (8B), Qwen3.5, LFM2, Granite 4 H-Tiny, eight layers of Qwen3-30B-A3B, and
/// Gemma 4 E2B.
pub(super) const SHAPES: [Shape; 9] = [
    Shape {
        name: "llama-1b",
        kind: Kind::Llama,
        hidden: 2048,
        feed_forward: 8192,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        head_dim: 64,
        vocabulary: 128_256,
        tied: true,
    },
    Shape {
        name: "llama-3b",
        kind: Kind::Llama,
        hidden: 3072,
        feed_forward: 8192,
        layers: 28,
        heads: 24,
        kv_heads: 8,
        head_dim: 128,
        vocabulary: 128_256,
        tied: true,
    },
    Shape {
        name: "llama-8b",
        kind: Kind::Llama,
        hidden: 4096,
        feed_forward: 14_336,
        layers: 32,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        vocabulary: 128_256,
        tied: false,
    },
    Shape {
        name: "qwen3.5-0.8b",
        kind: Kind::Qwen35 { key_heads: 16, value_heads: 16, dim: 128 },
        hidden: 1024,
        feed_forward: 3584,
        layers: 24,
        heads: 8,
        kv_heads: 2,
        head_dim: 256,
        vocabulary: 248_320,
        tied: true,
    },
    Shape {
        name: "qwen3.5-4b",
        kind: Kind::Qwen35 { key_heads: 16, value_heads: 32, dim: 128 },
        hidden: 2560,
        feed_forward: 9216,
        layers: 32,
        heads: 16,
        kv_heads: 4,
        head_dim: 256,
        vocabulary: 248_320,
        tied: true,
    },
    Shape {
        name: "lfm2-1.2b",
        kind: Kind::Lfm2 { attention: &[2, 5, 8, 10, 12, 14] },
        hidden: 2048,
        feed_forward: 8192,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        head_dim: 64,
        vocabulary: 65_536,
        tied: true,
    },
    Shape {
        name: "granite-4-h-tiny",
        kind: Kind::GraniteHybrid {
            attention: &[5, 15, 25, 35],
            heads: 48,
            head_dim: 64,
            state: 128,
            experts: Experts { count: 64, used: 6, width: 512 },
            shared: 1024,
        },
        hidden: 1536,
        feed_forward: 512,
        layers: 40,
        heads: 12,
        kv_heads: 4,
        head_dim: 128,
        vocabulary: 100_352,
        tied: true,
    },
    Shape {
        name: "qwen3-30b-a3b-8-layers",
        kind: Kind::Qwen3Moe(Experts { count: 128, used: 8, width: 768 }),
        hidden: 2048,
        feed_forward: 6144,
        layers: 8,
        heads: 32,
        kv_heads: 4,
        head_dim: 128,
        vocabulary: 151_936,
        tied: false,
    },
    Shape {
        name: "gemma-4-e2b",
        kind: Kind::Gemma4(Gemma4 { local_head_dim: 256, full_every: 5, sharing: 20, per_layer: 256 }),
        hidden: 1536,
        feed_forward: 6144,
        layers: 35,
        heads: 8,
        kv_heads: 1,
        head_dim: 512,
        vocabulary: 262_144,
        tied: true,
    },
];

/// Small models for tests and for checks of devices, one for each architecture.
pub(super) static SMALL: [Shape; 6] = {
    const EXPERTS: Experts = Experts { count: 8, used: 2, width: 256 };
    const fn small(name: &'static str, kind: Kind) -> Shape {
        Shape {
            name,
            kind,
            hidden: 256,
            feed_forward: 512,
            layers: 4,
            heads: 4,
            kv_heads: 2,
            head_dim: 64,
            vocabulary: 300,
            tied: false,
        }
    }
    [
        Shape { layers: 2, ..small("small", Kind::Llama) },
        small("small-mixture", Kind::Qwen3Moe(EXPERTS)),
        small("small-delta-rule", Kind::Qwen35 { key_heads: 2, value_heads: 4, dim: 64 }),
        small("small-convolution", Kind::Lfm2 { attention: &[1, 3] }),
        Shape {
            // Files of this architecture state the width of the experts here.
            feed_forward: EXPERTS.width,
            ..small(
                "small-mamba",
                Kind::GraniteHybrid {
                    attention: &[2],
                    heads: 8,
                    head_dim: 64,
                    state: 32,
                    experts: EXPERTS,
                    shared: 256,
                },
            )
        },
        small(
            "small-shared-keys",
            Kind::Gemma4(Gemma4 { local_head_dim: 32, full_every: 2, sharing: 2, per_layer: 256 }),
        ),
    ]
};

impl Shape {
    /// Returns the name of the architecture in GGUF files.
    const fn architecture(&self) -> &'static str {
        match self.kind {
            Kind::Llama => "llama",
            Kind::Qwen3Moe(_) => "qwen3moe",
            Kind::Qwen35 { .. } => "qwen35",
            Kind::Lfm2 { .. } => "lfm2",
            Kind::GraniteHybrid { .. } => "granitehybrid",
            Kind::Gemma4(_) => "gemma4",
        }
    }

    /// Reports whether the layer has attention.
    fn attends(&self, layer: usize) -> bool {
        match self.kind {
            Kind::Llama | Kind::Qwen3Moe(_) | Kind::Gemma4(_) => true,
            Kind::Qwen35 { .. } => layer % INTERVAL == INTERVAL - 1,
            Kind::Lfm2 { attention } | Kind::GraniteHybrid { attention, .. } => attention.contains(&layer),
        }
    }

    /// Writes the metadata of the architecture.
    pub(super) fn write_metadata(&self, entries: &mut Entries) {
        let architecture = self.architecture();
        let key = |name: &str| format!("{architecture}.{name}");
        entries.text("general.architecture", architecture);
        for (name, value) in [
            ("block_count", self.layers),
            ("context_length", 131_072),
            ("embedding_length", self.hidden),
            ("attention.head_count", self.heads),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
        ] {
            entries.number(&key(name), value);
        }
        if !matches!(self.kind, Kind::Gemma4(_)) {
            entries.number(&key("feed_forward_length"), self.feed_forward);
        }
        match self.kind {
            Kind::Gemma4(sizes) => sizes.write_metadata(self, entries),
            Kind::Llama | Kind::Qwen3Moe(_) | Kind::Qwen35 { .. } => {
                entries.number(&key("attention.head_count_kv"), self.kv_heads);
            }
            Kind::Lfm2 { .. } | Kind::GraniteHybrid { .. } => {
                let heads = |layer| if self.attends(layer) { self.kv_heads } else { 0 };
                entries.numbers(&key("attention.head_count_kv"), (0..self.layers).map(heads));
            }
        }
        entries.float(&key("attention.layer_norm_rms_epsilon"), 1e-5);
        entries.float(&key("rope.freq_base"), 500_000.0);
        let experts = |entries: &mut Entries, experts: Experts| {
            entries.number(&key("expert_count"), experts.count);
            entries.number(&key("expert_used_count"), experts.used);
            entries.number(&key("expert_feed_forward_length"), experts.width);
        };
        let state = |entries: &mut Entries, sizes: [usize; 4]| {
            let names = ["ssm.time_step_rank", "ssm.inner_size", "ssm.group_count", "ssm.state_size"];
            for (name, value) in names.into_iter().zip(sizes) {
                entries.number(&key(name), value);
            }
            entries.number(&key("ssm.conv_kernel"), KERNEL);
        };
        match self.kind {
            Kind::Llama | Kind::Gemma4(_) => {}
            Kind::Qwen3Moe(of) => experts(entries, of),
            Kind::Qwen35 { key_heads, value_heads, dim } => {
                entries.number(&key("full_attention_interval"), INTERVAL);
                entries.number(&key("rope.dimension_count"), self.head_dim / 4);
                // Text has the same position in all sections.
                entries.numbers(&key("rope.dimension_sections"), [11, 11, 10, 0].into_iter());
                state(entries, [value_heads, value_heads * dim, key_heads, dim]);
            }
            Kind::Lfm2 { .. } => entries.number(&key("shortconv.l_cache"), SHORT_KERNEL),
            Kind::GraniteHybrid { heads, head_dim, state: rows, experts: of, shared, .. } => {
                experts(entries, of);
                entries.number(&key("expert_shared_feed_forward_length"), shared);
                state(entries, [heads, heads * head_dim, 1, rows]);
                entries.number(&key("rope.dimension_count"), self.head_dim);
                for (name, value) in [
                    ("attention.scale", 0.0078),
                    ("embedding_scale", 12.0),
                    ("residual_scale", 0.22),
                    ("logit_scale", 6.0),
                ] {
                    entries.float(&key(name), value);
                }
                entries.flag(&key("rope.scaling.finetuned"), false);
            }
        }
    }

    /// Returns all tensors of the model.
    pub(super) fn tensors(&self, weights: &Weights) -> Vec<TensorEntry> {
        let mut tensors = Tensors { all: Vec::new(), of: weights.layers };
        let output_norm =
            if matches!(self.kind, Kind::Lfm2 { .. }) { "token_embd_norm" } else { "output_norm" };
        tensors.typed("token_embd.weight", &[self.hidden, self.vocabulary], weights.vocabulary);
        tensors.norm(&format!("{output_norm}.weight"), &[self.hidden]);
        if !self.tied {
            tensors.typed("output.weight", &[self.hidden, self.vocabulary], weights.vocabulary);
        }
        if let Kind::Gemma4(sizes) = self.kind {
            sizes.globals(self, &mut tensors);
        }
        for layer in 0..self.layers {
            match self.kind {
                Kind::Gemma4(sizes) => sizes.layer(self, layer, &mut tensors),
                _ => self.layer(layer, &mut tensors),
            }
        }
        tensors.all
    }

    fn layer(&self, layer: usize, tensors: &mut Tensors) {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let hidden = self.hidden;
        tensors.norm(&name("attn_norm"), &[hidden]);
        let is_qwen35 = matches!(self.kind, Kind::Qwen35 { .. });
        tensors.norm(&name(if is_qwen35 { "post_attention_norm" } else { "ffn_norm" }), &[hidden]);
        if self.attends(layer) {
            // The queries of Qwen3.5 have gates beside them.
            let queries = self.heads * self.head_dim;
            let rows = if is_qwen35 { 2 * queries } else { queries };
            tensors.matrix(&name("attn_q"), &[hidden, rows]);
            for part in ["attn_k", "attn_v"] {
                tensors.matrix(&name(part), &[hidden, self.kv_heads * self.head_dim]);
            }
            tensors.matrix(&name("attn_output"), &[queries, hidden]);
            if !matches!(self.kind, Kind::Llama | Kind::GraniteHybrid { .. }) {
                for part in ["attn_q_norm", "attn_k_norm"] {
                    tensors.norm(&name(part), &[self.head_dim]);
                }
            }
        } else {
            self.recurrence(layer, tensors);
        }
        match self.kind {
            Kind::Llama | Kind::Qwen35 { .. } | Kind::Lfm2 { .. } => {
                for part in ["ffn_gate", "ffn_up"] {
                    tensors.matrix(&name(part), &[hidden, self.feed_forward]);
                }
                tensors.matrix(&name("ffn_down"), &[self.feed_forward, hidden]);
            }
            Kind::Qwen3Moe(experts) | Kind::GraniteHybrid { experts, .. } => {
                let Experts { count, width, .. } = experts;
                tensors.typed(&name("ffn_gate_inp"), &[hidden, count], F32);
                for part in ["ffn_gate_exps", "ffn_up_exps"] {
                    tensors.matrix(&name(part), &[hidden, width, count]);
                }
                tensors.matrix(&name("ffn_down_exps"), &[width, hidden, count]);
            }
            // It writes its layers itself.
            Kind::Gemma4(_) => {}
        }
        if let Kind::GraniteHybrid { shared, .. } = self.kind {
            for part in ["ffn_gate_shexp", "ffn_up_shexp"] {
                tensors.matrix(&name(part), &[hidden, shared]);
            }
            tensors.matrix(&name("ffn_down_shexp"), &[shared, hidden]);
        }
    }

    /// Adds the tensors of a layer without attention.
    fn recurrence(&self, layer: usize, tensors: &mut Tensors) {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let weight = |part: &str| format!("blk.{layer}.{part}.weight");
        let hidden = self.hidden;
        match self.kind {
            Kind::Llama | Kind::Qwen3Moe(_) | Kind::Gemma4(_) => {}
            Kind::Qwen35 { key_heads, value_heads, dim } => {
                let (keys, values) = (key_heads * dim, value_heads * dim);
                tensors.matrix(&weight("attn_qkv"), &[hidden, 2 * keys + values]);
                tensors.matrix(&weight("attn_gate"), &[hidden, values]);
                for part in ["ssm_alpha", "ssm_beta"] {
                    tensors.matrix(&weight(part), &[hidden, value_heads]);
                }
                tensors.typed(&weight("ssm_conv1d"), &[KERNEL, 2 * keys + values], F32);
                tensors.constant(&name("ssm_a"), &[value_heads], -1.0);
                tensors.constant(&name("ssm_dt.bias"), &[value_heads], 0.1);
                tensors.norm(&weight("ssm_norm"), &[dim]);
                tensors.matrix(&weight("ssm_out"), &[values, hidden]);
            }
            Kind::Lfm2 { .. } => {
                tensors.matrix(&weight("shortconv.in_proj"), &[hidden, 3 * hidden]);
                tensors.typed(&weight("shortconv.conv"), &[SHORT_KERNEL, hidden], F32);
                tensors.matrix(&weight("shortconv.out_proj"), &[hidden, hidden]);
            }
            Kind::GraniteHybrid { heads, head_dim, state, .. } => {
                let inner = heads * head_dim;
                let channels = inner + 2 * state;
                tensors.matrix(&weight("ssm_in"), &[hidden, inner + channels + heads]);
                tensors.typed(&weight("ssm_conv1d"), &[KERNEL, channels], F32);
                tensors.constant(&name("ssm_conv1d.bias"), &[channels], 0.0);
                tensors.constant(&name("ssm_dt.bias"), &[heads], 0.1);
                tensors.constant(&name("ssm_a"), &[1, heads], -1.0);
                tensors.constant(&name("ssm_d"), &[1, heads], 1.0);
                tensors.norm(&weight("ssm_norm"), &[inner, 1]);
                tensors.matrix(&weight("ssm_out"), &[inner, hidden]);
            }
        }
    }
}

/// The tensors of a model, while they are listed. Shapes have the fastest-running dimension first.
pub(super) struct Tensors {
    all: Vec<TensorEntry>,
    of: Type,
}

impl Tensors {
    fn push(&mut self, name: &str, shape: &[usize], of: Type, constant: Option<f32>) {
        self.all.push(TensorEntry { name: name.to_owned(), shape: shape.to_vec(), of, constant });
    }

    /// Adds a matrix of the type of the layers' matrices, or of 32-bit floats if its rows are not whole
    /// blocks.
    pub(super) fn matrix(&mut self, name: &str, shape: &[usize]) {
        let is_whole = shape[0].is_multiple_of(self.of.encoding.block().0);
        self.typed(name, shape, if is_whole { self.of } else { F32 });
    }

    fn typed(&mut self, name: &str, shape: &[usize], of: Type) {
        self.push(name, shape, of, None);
    }

    pub(super) fn norm(&mut self, name: &str, shape: &[usize]) {
        self.constant(name, shape, 1.0);
    }

    /// Adds a tensor whose elements are all `value`.
    fn constant(&mut self, name: &str, shape: &[usize], value: f32) {
        self.push(name, shape, F32, Some(value));
    }
}
