//! What an architecture is, as data.
//!
//! A [`ModelSpec`] says everything that the decoder has to know: sizes, where the norms are, how positions enter, which
//! layers look at a window only. It is read from a checkpoint's fields, the metadata of a GGUF file or a `config.json`, by
//! one small function per family ([`families`]); nothing else in the crate knows an architecture by name, but for the names
//! of its tensors in a checkpoint of safetensors.

mod families;
mod fields;
mod rope;

pub(crate) use self::families::Family;
pub use self::rope::{LongFactors, RopeScaling, RopeSpec, Yarn};
use crate::LoadError;
use crate::checkpoint::Checkpoint;
use crate::error::Kind;

/// How the elements of a head are paired for rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RopePairing {
    /// Elements `2i` and `2i + 1`.
    Interleaved,
    /// Elements `i` and `i + dims / 2`.
    Halves,
}

/// The nonlinearity of the feed-forward block, from the gate `g` and what it gates, `u`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Activation {
    /// `g · σ(g) · u`
    Silu,
    /// `gelu(g) · u` with the tanh approximation of the Gaussian error linear unit.
    GeluTanh,
    /// `g · σ(1.702 g) · (u + 1)`, where `g` is at most `limit` and `u` within `±limit`: gpt-oss.
    ClampedSwiglu {
        /// What both are clamped to.
        limit: f32,
    },
}

/// What differs from layer to layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayerSpec {
    /// How many positions a token sees, itself included; all where `None`.
    pub window: Option<usize>,
    /// An index into [`ModelSpec::ropes`]; `None` where positions do not enter.
    pub rope: Option<usize>,
}

/// Where a layer normalises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NormPlacement {
    /// The residual stream, before it enters the two blocks.
    Before,
    /// The two blocks' results, before they are added.
    After,
    /// Both.
    Both,
}

/// Over which elements queries and keys are normalised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QkNorm {
    /// Each head by itself.
    PerHead,
    /// All heads of a token together.
    Whole,
}

/// How the scores of a router become the weights of the chosen experts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gating {
    /// Softmax over all experts.
    Softmax,
    /// Softmax over the chosen experts alone; the same as softmax over all with the chosen weights scaled to a sum of 1.
    SoftmaxOverChosen,
}

/// A mixture of experts in place of the feed-forward block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpertSpec {
    /// Experts in a layer.
    pub count: usize,
    /// Experts that a token goes through.
    pub used: usize,
    /// Width of an expert.
    pub feed_forward: usize,
    /// How they are weighted.
    pub gating: Gating,
}

/// A decoder's shape and conventions.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelSpec {
    /// The architecture's name in GGUF files.
    pub architecture: String,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward block.
    pub feed_forward: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Rows of the embedding and of the head.
    pub vocabulary: usize,
    /// Positions that the model was trained for.
    pub context: usize,
    /// Added to the mean square before the root.
    pub norm_epsilon: f32,
    /// Elements of a head that rotate.
    pub rope_dims: usize,
    /// How they are paired.
    pub rope_pairing: RopePairing,
    /// The distinct sets of frequencies.
    pub ropes: Vec<RopeSpec>,
    /// The layers, first to last.
    pub layers: Vec<LayerSpec>,
    /// Whether and how queries and keys are normalised.
    pub qk_norm: Option<QkNorm>,
    /// Whether the query, key and value projections must have biases; where not, they may.
    pub qkv_bias: bool,
    /// Where the norms of the two blocks are.
    pub norms: NormPlacement,
    /// What embeddings are multiplied with.
    pub embedding_scale: f32,
    /// What attention scores are multiplied with.
    pub attention_scale: f32,
    /// What the two blocks' results are multiplied with before they are added.
    pub residual_scale: f32,
    /// What logits are multiplied with.
    pub logit_scale: f32,
    /// Attention scores `s` become `c · tanh(s / c)`.
    pub attention_softcap: Option<f32>,
    /// Logits `x` become `c · tanh(x / c)`.
    pub logit_softcap: Option<f32>,
    /// Whether each query head has a score of its own that takes part in the softmax, and nothing else.
    pub attention_sinks: bool,
    /// The nonlinearity of the feed-forward block.
    pub activation: Activation,
    /// The mixture of experts, where there is one.
    pub experts: Option<ExpertSpec>,
}

impl ModelSpec {
    /// Reads the specification from a checkpoint's metadata. Shapes of tensors are checked when the weights are bound.
    ///
    /// # Errors
    /// When the architecture is unknown or a key is missing, of the wrong type or out of range.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self, LoadError> {
        Self::of_known(checkpoint).map_err(|kind| checkpoint.error(kind))
    }

    pub(crate) fn of_known(checkpoint: &Checkpoint) -> Result<Self, Kind> {
        families::read(checkpoint)
    }
}
