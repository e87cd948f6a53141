//! Weights of the blocks that mix information of different positions.

use super::{Linear, Matrix};
use crate::spec::{AttentionSpec, ConvolutionSpec, DeltaRuleSpec, LatentSpec, Mamba2Spec};

/// Weights of the mixer of a layer.
#[derive(Clone, Debug)]
pub(crate) enum Mixer<M = Matrix> {
    Nothing,
    Attention(Box<AttentionWeights<M>>),
    Latent(Box<LatentWeights<M>>),
    ShortConvolution(Box<ShortConvolution<M>>),
    DeltaRule(Box<DeltaRule<M>>),
    Mamba2(Box<Mamba2<M>>),
}

/// Weights of an attention block.
#[derive(Clone, Debug)]
pub(crate) struct AttentionWeights<M = Matrix> {
    pub(crate) shape: AttentionSpec,
    pub(crate) query: Linear<M>,
    /// `None` if the keys and values are those of another layer.
    pub(crate) key: Option<Linear<M>>,
    /// `None` if the values are the keys, or those of another layer.
    pub(crate) value: Option<Linear<M>>,
    /// Projection to the gate of the output. `None` if there is no gate.
    pub(crate) gate: Option<Linear<M>>,
    /// Norm weights of values, which are all 1. `None` if the model does not normalise values.
    pub(crate) value_norm: Option<Vec<f32>>,
    /// Norm weights of queries and keys. `None` if the model does not normalise them. Each vector
    /// has the length `head_dim`, or the length of all heads if the heads of a token are normalised
    /// together.
    pub(crate) qk_norm: Option<QkNormWeights>,
    /// Attention sinks: one score per query head that takes part in the softmax. `None` if the
    /// model has none.
    pub(crate) sinks: Option<Vec<f32>>,
    pub(crate) output: Linear<M>,
}

/// Norm weights for queries and for keys.
#[derive(Clone, Debug)]
pub(crate) struct QkNormWeights {
    pub(crate) query: Vec<f32>,
    /// Empty if the keys are those of another layer.
    pub(crate) key: Vec<f32>,
}

/// Weights of a latent attention block.
#[derive(Clone, Debug)]
pub(crate) struct LatentWeights<M = Matrix> {
    pub(crate) shape: LatentSpec,
    pub(crate) query: LatentQuery<M>,
    /// Projection to the latent vector and to the rotated part of the keys.
    pub(crate) latent: Linear<M>,
    /// Norm of the latent vector.
    pub(crate) latent_norm: Vec<f32>,
    /// For each head, the projection of the part of its query that is not rotated to the space of
    /// latent vectors. Shape of each: `[rank, plain_dim]`.
    pub(crate) key: Vec<Linear<M>>,
    /// For each head, the projection of a latent vector to the value. Shape of each:
    /// `[value_dim, rank]`.
    pub(crate) value: Vec<Linear<M>>,
    pub(crate) output: Linear<M>,
}

/// Weights that compute the queries of a latent attention block.
#[derive(Clone, Debug)]
pub(crate) enum LatentQuery<M = Matrix> {
    Direct(Linear<M>),
    /// Projection to a short vector, its norm, and the projection to the queries.
    Compressed {
        down: Linear<M>,
        norm: Vec<f32>,
        up: Linear<M>,
    },
}

/// Weights of a causal convolution of each channel.
#[derive(Clone, Debug)]
pub(crate) struct Convolution {
    pub(crate) shape: ConvolutionSpec,
    /// Factors of the positions, oldest first. Shape: `[kernel, channels]`.
    pub(crate) factors: Vec<f32>,
    /// Added to the sum of each channel.
    pub(crate) bias: Option<Vec<f32>>,
}

/// Weights of a gated convolution.
#[derive(Clone, Debug)]
pub(crate) struct ShortConvolution<M = Matrix> {
    /// Projection to the gate of the convolution's input, the gate of its output, and its input.
    /// Shape: `[3 * channels, hidden]`.
    pub(crate) input: Linear<M>,
    pub(crate) convolution: Convolution,
    pub(crate) output: Linear<M>,
}

/// Weights of a gated delta rule.
#[derive(Clone, Debug)]
pub(crate) struct DeltaRule<M = Matrix> {
    pub(crate) shape: DeltaRuleSpec,
    /// Projection to queries, keys and values.
    pub(crate) mixed: Linear<M>,
    /// Projection to the gate of the output.
    pub(crate) gate: Linear<M>,
    /// Projection to the logits of the rates, one for each value head.
    pub(crate) rate: Linear<M>,
    /// Projection to the time steps, one for each value head.
    pub(crate) time: Linear<M>,
    /// Added to the time steps.
    pub(crate) time_bias: Vec<f32>,
    /// Growth of each value head's state in a time step of 1, as the exponent of e. Negative.
    pub(crate) growth: Vec<f32>,
    pub(crate) convolution: Convolution,
    /// Norm of the output of a head.
    pub(crate) norm: Vec<f32>,
    pub(crate) output: Linear<M>,
}

/// Weights of a Mamba2 block.
#[derive(Clone, Debug)]
pub(crate) struct Mamba2<M = Matrix> {
    pub(crate) shape: Mamba2Spec,
    /// Projection to the gate of the output, the channels of the convolution, and the time steps.
    pub(crate) input: Linear<M>,
    pub(crate) convolution: Convolution,
    /// Added to the time steps.
    pub(crate) time_bias: Vec<f32>,
    /// Growth of each head's state in a time step of 1, as the exponent of e. Negative.
    pub(crate) growth: Vec<f32>,
    /// Factor of each head's values that are added to its output.
    pub(crate) skip: Vec<f32>,
    /// Norm of the output.
    pub(crate) norm: Vec<f32>,
    pub(crate) output: Linear<M>,
}

impl<M> Mixer<M> {
    /// Calls `see` with each matrix.
    pub(super) fn each(&self, see: &mut impl FnMut(&M)) {
        let mut all = |linears: &[&Linear<M>]| linears.iter().for_each(|linear| see(&linear.weight));
        match self {
            Self::Nothing => {}
            Self::Attention(block) => {
                all(&[&block.query]);
                for linear in [&block.key, &block.value, &block.gate].into_iter().flatten() {
                    all(&[linear]);
                }
                all(&[&block.output]);
            }
            Self::Latent(block) => {
                match &block.query {
                    LatentQuery::Direct(query) => all(&[query]),
                    LatentQuery::Compressed { down, up, .. } => all(&[down, up]),
                }
                all(&[&block.latent]);
                for linear in block.key.iter().chain(&block.value) {
                    all(&[linear]);
                }
                all(&[&block.output]);
            }
            Self::ShortConvolution(block) => all(&[&block.input, &block.output]),
            Self::DeltaRule(block) => {
                all(&[&block.mixed, &block.gate, &block.rate, &block.time, &block.output]);
            }
            Self::Mamba2(block) => all(&[&block.input, &block.output]),
        }
    }

    /// Replaces each matrix by the result of `into`, in the order of [`Mixer::each`].
    pub(super) fn map<T>(self, into: &mut impl FnMut(M) -> T) -> Mixer<T> {
        match self {
            Self::Nothing => Mixer::Nothing,
            Self::Attention(block) => Mixer::Attention(Box::new(AttentionWeights {
                shape: block.shape,
                query: block.query.map(into),
                key: block.key.map(|key| key.map(into)),
                value: block.value.map(|value| value.map(into)),
                gate: block.gate.map(|gate| gate.map(into)),
                value_norm: block.value_norm,
                qk_norm: block.qk_norm,
                sinks: block.sinks,
                output: block.output.map(into),
            })),
            Self::Latent(block) => Mixer::Latent(Box::new(LatentWeights {
                shape: block.shape,
                query: match block.query {
                    LatentQuery::Direct(query) => LatentQuery::Direct(query.map(into)),
                    LatentQuery::Compressed { down, norm, up } => {
                        LatentQuery::Compressed { down: down.map(into), norm, up: up.map(into) }
                    }
                },
                latent: block.latent.map(into),
                latent_norm: block.latent_norm,
                key: block.key.into_iter().map(|key| key.map(into)).collect(),
                value: block.value.into_iter().map(|value| value.map(into)).collect(),
                output: block.output.map(into),
            })),
            Self::ShortConvolution(block) => Mixer::ShortConvolution(Box::new(ShortConvolution {
                input: block.input.map(into),
                convolution: block.convolution,
                output: block.output.map(into),
            })),
            Self::DeltaRule(block) => Mixer::DeltaRule(Box::new(DeltaRule {
                shape: block.shape,
                mixed: block.mixed.map(into),
                gate: block.gate.map(into),
                rate: block.rate.map(into),
                time: block.time.map(into),
                time_bias: block.time_bias,
                growth: block.growth,
                convolution: block.convolution,
                norm: block.norm,
                output: block.output.map(into),
            })),
            Self::Mamba2(block) => Mixer::Mamba2(Box::new(Mamba2 {
                shape: block.shape,
                input: block.input.map(into),
                convolution: block.convolution,
                time_bias: block.time_bias,
                growth: block.growth,
                skip: block.skip,
                norm: block.norm,
                output: block.output.map(into),
            })),
        }
    }
}
