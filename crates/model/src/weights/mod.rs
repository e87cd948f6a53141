//! A model's weights, bound to the tensors of a checkpoint ([`Matrix`]) or packed for the kernels
//! ([`Packed`]).

mod bind;
mod matrix;
mod packed;

use formwork_kernels::{Encoding, Packing};

pub use self::bind::Quantization;
pub(crate) use self::matrix::Matrix;
pub(crate) use self::packed::Packed;
use crate::LoadError;
use crate::checkpoint::Checkpoint;
use crate::spec::{ExpertSpec, ModelSpec};

/// A linear layer: a weight matrix, and the bias to add to its products if the layer has one.
#[derive(Debug)]
pub(crate) struct Linear<M = Matrix> {
    pub(crate) weight: M,
    pub(crate) bias: Option<Vec<f32>>,
}

/// Weights of one decoder layer.
#[derive(Debug)]
pub(crate) struct LayerWeights<M = Matrix> {
    pub(crate) attention_norm: Option<Vec<f32>>,
    pub(crate) query: Linear<M>,
    pub(crate) key: Linear<M>,
    pub(crate) value: Linear<M>,
    /// Norm weights of queries and keys. `None` if the model does not normalise them. Each vector
    /// has the length `head_dim`, or the length of all heads if the heads of a token are normalised
    /// together.
    pub(crate) qk_norm: Option<QkNormWeights>,
    /// Attention sinks: one score per query head that takes part in the softmax. `None` if the
    /// model has none.
    pub(crate) sinks: Option<Vec<f32>>,
    pub(crate) output: Linear<M>,
    pub(crate) post_attention_norm: Option<Vec<f32>>,
    pub(crate) feed_forward_norm: Option<Vec<f32>>,
    pub(crate) feed_forward: FeedForward<M>,
    pub(crate) post_feed_forward_norm: Option<Vec<f32>>,
}

/// Norm weights for queries and for keys.
#[derive(Debug)]
pub(crate) struct QkNormWeights {
    pub(crate) query: Vec<f32>,
    pub(crate) key: Vec<f32>,
}

/// Weights of a feed-forward block.
#[derive(Debug)]
pub(crate) enum FeedForward<M = Matrix> {
    Dense(GatedLinear<M>),
    Experts(Mixture<M>),
}

/// Weights of a mixture of experts.
#[derive(Debug)]
pub(crate) struct Mixture<M = Matrix> {
    pub(crate) spec: ExpertSpec,
    pub(crate) router: Linear<M>,
    /// Bias of the experts' scores for the choice. Shape: `[experts]`.
    pub(crate) choice_bias: Option<Vec<f32>>,
    pub(crate) experts: Vec<GatedLinear<M>>,
    pub(crate) shared: Option<SharedExpert<M>>,
}

/// An expert that computes every token.
#[derive(Debug)]
pub(crate) struct SharedExpert<M = Matrix> {
    pub(crate) block: GatedLinear<M>,
    /// Projection to one number, whose logistic function is the factor of the output.
    pub(crate) gate: Option<Linear<M>>,
}

/// The three matrices of a gated feed-forward block.
#[derive(Debug)]
pub(crate) struct GatedLinear<M = Matrix> {
    pub(crate) gate: Linear<M>,
    pub(crate) up: Linear<M>,
    pub(crate) down: Linear<M>,
}

/// Function that selects the packing of a matrix, given its encoding.
type Order = fn(Encoding) -> Packing;

/// All weights of a model.
#[derive(Debug)]
pub(crate) struct Weights<M = Matrix> {
    /// Embedding, of shape `[vocabulary, hidden]`. `None` if the head is also the embedding. A
    /// forward pass reads only the rows of its tokens.
    pub(crate) embedding: Option<Matrix>,
    pub(crate) layers: Vec<LayerWeights<M>>,
    pub(crate) output_norm: Vec<f32>,
    /// Output head, of shape `[vocabulary, hidden]`.
    pub(crate) head: M,
}

impl Weights {
    /// Finds every tensor that `spec` requires and checks its shape. Converts float matrices if
    /// `quantize` is given.
    pub(crate) fn bind(
        checkpoint: &Checkpoint,
        spec: &ModelSpec,
        quantize: Option<Quantization>,
    ) -> Result<Self, LoadError> {
        bind::bind(checkpoint, spec, quantize).map_err(|kind| checkpoint.error(kind))
    }
}

impl<M> Weights<M> {
    /// Calls `see` with each matrix except the embedding. The second argument is the function that
    /// selects the packing of the matrix.
    fn each(&self, see: &mut impl FnMut(&M, Order)) {
        let mut plain = |matrix: &M| see(matrix, Packing::plain);
        for layer in &self.layers {
            for linear in [&layer.query, &layer.key, &layer.value, &layer.output] {
                plain(&linear.weight);
            }
            match &layer.feed_forward {
                FeedForward::Dense(dense) => dense.each(&mut plain),
                FeedForward::Experts(mixture) => mixture.each(&mut plain),
            }
        }
        see(&self.head, Packing::split_bits);
    }

    /// Replaces each matrix except the embedding by the result of `into`, in the order of
    /// [`Weights::each`].
    fn map<T>(self, into: &mut impl FnMut(M, Order) -> T) -> Weights<T> {
        let mut plain = |matrix| into(matrix, Packing::plain);
        let layers = self.layers.into_iter().map(|layer| layer.map(&mut plain)).collect();
        let head = into(self.head, Packing::split_bits);
        Weights { embedding: self.embedding, layers, output_norm: self.output_norm, head }
    }
}

impl<M> LayerWeights<M> {
    fn map<T>(self, into: &mut impl FnMut(M) -> T) -> LayerWeights<T> {
        LayerWeights {
            attention_norm: self.attention_norm,
            query: self.query.map(into),
            key: self.key.map(into),
            value: self.value.map(into),
            qk_norm: self.qk_norm,
            sinks: self.sinks,
            output: self.output.map(into),
            post_attention_norm: self.post_attention_norm,
            feed_forward_norm: self.feed_forward_norm,
            feed_forward: match self.feed_forward {
                FeedForward::Dense(dense) => FeedForward::Dense(dense.map(into)),
                FeedForward::Experts(mixture) => FeedForward::Experts(mixture.map(into)),
            },
            post_feed_forward_norm: self.post_feed_forward_norm,
        }
    }
}

impl<M> Mixture<M> {
    fn each(&self, see: &mut impl FnMut(&M)) {
        see(&self.router.weight);
        for expert in &self.experts {
            expert.each(see);
        }
        if let Some(shared) = &self.shared {
            shared.block.each(see);
            if let Some(gate) = &shared.gate {
                see(&gate.weight);
            }
        }
    }

    fn map<T>(self, into: &mut impl FnMut(M) -> T) -> Mixture<T> {
        Mixture {
            spec: self.spec,
            router: self.router.map(into),
            choice_bias: self.choice_bias,
            experts: self.experts.into_iter().map(|expert| expert.map(into)).collect(),
            shared: self.shared.map(|SharedExpert { block, gate }| SharedExpert {
                block: block.map(into),
                gate: gate.map(|gate| gate.map(into)),
            }),
        }
    }
}

impl<M> GatedLinear<M> {
    fn each(&self, see: &mut impl FnMut(&M)) {
        for linear in [&self.gate, &self.up, &self.down] {
            see(&linear.weight);
        }
    }

    fn map<T>(self, into: &mut impl FnMut(M) -> T) -> GatedLinear<T> {
        GatedLinear { gate: self.gate.map(into), up: self.up.map(into), down: self.down.map(into) }
    }
}

impl<M> Linear<M> {
    fn map<T>(self, into: &mut impl FnMut(M) -> T) -> Linear<T> {
        Linear { weight: into(self.weight), bias: self.bias }
    }
}
