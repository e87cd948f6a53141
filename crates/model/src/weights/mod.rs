//! A model's tensors, bound by name to their places.

mod bind;
mod matrix;

pub use self::bind::Quantization;
pub(crate) use self::matrix::Matrix;
use crate::LoadError;
use crate::checkpoint::Checkpoint;
use crate::spec::{ExpertSpec, ModelSpec};

/// A matrix and the bias that is added to its product.
#[derive(Debug)]
pub(crate) struct Linear {
    pub(crate) weight: Matrix,
    pub(crate) bias: Option<Vec<f32>>,
}

/// One decoder layer.
#[derive(Debug)]
pub(crate) struct LayerWeights {
    pub(crate) attention_norm: Option<Vec<f32>>,
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    /// `[head_dim]`, or `[heads * head_dim]` where a token's heads are normalised together.
    pub(crate) qk_norm: Option<QkNormWeights>,
    /// One score per query head.
    pub(crate) sinks: Option<Vec<f32>>,
    pub(crate) output: Linear,
    pub(crate) post_attention_norm: Option<Vec<f32>>,
    pub(crate) feed_forward_norm: Option<Vec<f32>>,
    pub(crate) feed_forward: FeedForward,
    pub(crate) post_feed_forward_norm: Option<Vec<f32>>,
}

/// The norms of queries and keys.
#[derive(Debug)]
pub(crate) struct QkNormWeights {
    pub(crate) query: Vec<f32>,
    pub(crate) key: Vec<f32>,
}

/// What follows attention in a layer.
#[derive(Debug)]
pub(crate) enum FeedForward {
    Dense(GatedLinear),
    Experts { spec: ExpertSpec, router: Linear, experts: Vec<GatedLinear> },
}

/// The three matrices of a gated feed-forward block.
#[derive(Debug)]
pub(crate) struct GatedLinear {
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
}

/// All weights of a model.
#[derive(Debug)]
pub(crate) struct Weights {
    /// `[vocabulary, hidden]`
    pub(crate) embedding: Matrix,
    pub(crate) layers: Vec<LayerWeights>,
    pub(crate) output_norm: Vec<f32>,
    /// `[vocabulary, hidden]`; the embedding, where the checkpoint has no head of its own.
    pub(crate) head: Matrix,
}

impl Weights {
    /// Finds every tensor that `spec` calls for and checks its shape; converts matrices of floats where `quantize` says so.
    pub(crate) fn bind(
        checkpoint: &Checkpoint,
        spec: &ModelSpec,
        quantize: Option<Quantization>,
    ) -> Result<Self, LoadError> {
        bind::bind(checkpoint, spec, quantize).map_err(|kind| checkpoint.error(kind))
    }
}
