//! Descriptions of model architectures as data.
//!
//! A [`ModelSpec`] contains everything that the decoder needs to know: sizes, placement of norms,
//! rotary frequencies and the layers' windows. It is read from a checkpoint's hyperparameters,
//! which are the metadata of a GGUF file or a `config.json`. Each family has a small function for
//! its differences ([`families`]). Outside this module, a family matters only for the names, layout
//! and conventions of its tensors.

mod families;
mod fields;
mod mixer;
mod rope;

use formwork_lm::Abilities;

pub use self::mixer::{
    AttentionSpec, ConvolutionSpec, DeltaRuleSpec, HeadSharing, KeyValues, LatentSpec, Mamba2Spec, MixerSpec,
    RecurrenceSpec,
};
pub use self::rope::{LongFactors, RopeScaling, RopeSpec, Yarn};
use crate::LoadError;
use crate::checkpoint::Checkpoint;
pub(crate) use crate::checkpoint::Family;
use crate::error::Kind;

/// Pairing of the elements of a head for rotary embeddings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RopePairing {
    /// Pairs are the elements `2i` and `2i + 1`.
    Interleaved,
    /// Pairs are the elements `i` and `i + dims / 2`.
    Halves,
}

/// Activation of the feed-forward block, applied to the gate `g` and the up projection `u`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Activation {
    /// `g · σ(g) · u`
    Silu,
    /// `gelu(g) · u`, with the tanh approximation of the Gaussian error linear unit.
    GeluTanh,
    /// `gelu(g) · u`, with the exact Gaussian error linear unit.
    Gelu,
    /// `gelu(g)`, with the exact Gaussian error linear unit and without an up projection.
    PlainGelu,
    /// `max(g, 0)²`, without an up projection.
    ReluSquared,
    /// `g · σ(1.702 g) · (u + 1)`, with `g` clamped from above and `u` from both sides. Used by
    /// gpt-oss.
    ClampedSwiglu {
        /// Upper limit of `g`, and of the absolute value of `u`.
        limit: f32,
    },
}

/// Properties that can differ from layer to layer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LayerSpec {
    /// Block that mixes information of different positions.
    pub mixer: MixerSpec,
    /// Kind and width of the feed-forward block.
    pub feed_forward: FeedForwardSpec,
}

impl LayerSpec {
    /// Returns the shape of the attention block. `None` for a layer with another mixer.
    pub const fn attention(&self) -> Option<&AttentionSpec> {
        match &self.mixer {
            MixerSpec::Attention(attention) => Some(attention),
            _ => None,
        }
    }
}

/// Kind and width of a feed-forward block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FeedForwardSpec {
    /// No block. The layer is its mixer.
    Nothing,
    /// One gated block for all tokens.
    Dense {
        /// Width of the hidden layer.
        width: usize,
    },
    /// A mixture of experts.
    Experts(ExpertSpec),
    /// A dense block and a mixture side by side. Each has its own norms, and their outputs are added.
    /// The router has a norm of its own, and each expert a factor for its output. Used by Gemma 4.
    DenseAndExperts {
        /// Width of the hidden layer of the dense block.
        width: usize,
        /// The mixture.
        experts: ExpertSpec,
    },
}

impl Activation {
    /// Reports whether the block has an up projection.
    pub const fn is_gated(self) -> bool {
        !matches!(self, Self::ReluSquared | Self::PlainGelu)
    }
}

impl FeedForwardSpec {
    /// Returns the mixture of experts. `None` for a dense block.
    pub const fn experts(&self) -> Option<&ExpertSpec> {
        match self {
            Self::Nothing | Self::Dense { .. } => None,
            Self::Experts(experts) | Self::DenseAndExperts { experts, .. } => Some(experts),
        }
    }
}

/// Placement of the norms in a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NormPlacement {
    /// The inputs of the two blocks are normalised.
    Before,
    /// The outputs of the two blocks are normalised, before they are added to the residual stream.
    After,
    /// Both inputs and outputs are normalised.
    Both,
    /// The input of the layer is normalised once, and is the input of both blocks.
    Parallel,
    /// The residual stream is normalised after the output of each block was added.
    Residual,
}

/// Computation of the norms of a layer, and of the norm before the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NormKind {
    /// Divides by the root mean square.
    Rms,
    /// Subtracts the mean, and then divides by the root mean square: `LayerNorm`. Its bias is optional.
    LayerNorm,
}

/// Scope of the norm of queries and keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QkNorm {
    /// Each head is normalised separately.
    PerHead,
    /// Each head is normalised separately, after its rotation.
    PerRotatedHead,
    /// All heads of a token are normalised together.
    Whole,
}

/// Scores of the experts, computed from the router's logits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scores {
    /// Softmax over all experts.
    Softmax,
    /// Softmax over the chosen experts only. This equals softmax over all experts, scaled so that
    /// the chosen weights sum to 1.
    SoftmaxOverChosen,
    /// The logistic function of each logit.
    Sigmoid,
}

/// Groups of adjacent experts. Only experts of the best groups are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpertGroups {
    /// Number of groups. Divides the number of experts.
    pub count: usize,
    /// Number of groups per token.
    pub used: usize,
    /// Number of best scores of a group whose sum is the score of the group: 1 or 2.
    pub best: usize,
}

/// Choice of a token's experts, and computation of their weights.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gating {
    /// Computation of the scores, which are the weights of the chosen experts.
    pub scores: Scores,
    /// True if a learned bias is added to each score for the choice only, not for the weight.
    pub has_bias: bool,
    /// Groups of experts, if only those of the best groups are chosen.
    pub groups: Option<ExpertGroups>,
    /// If given, the weights are divided by their sum plus this number.
    pub normalised: Option<f32>,
    /// Factor for the weights.
    pub scale: f32,
}

impl Gating {
    /// Creates a gating without bias, groups, normalisation and factor.
    pub const fn plain(scores: Scores) -> Self {
        Self { scores, has_bias: false, groups: None, normalised: None, scale: 1.0 }
    }
}

/// An expert that computes every token, beside the chosen ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedExpertSpec {
    /// Width of the hidden layer.
    pub width: usize,
    /// True if the output is multiplied by the logistic function of a learned projection of the
    /// input.
    pub is_gated: bool,
}

/// Factor of the attention scores that grows with the position of the query, for long contexts:
/// `1 + beta · ln(1 + ⌊position / original⌋)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Temperature {
    /// Growth of the factor.
    pub beta: f32,
    /// Number of positions from which the factor grows.
    pub original: usize,
}

impl Temperature {
    /// Returns the factor for the query at `position`.
    pub(crate) fn at(self, position: usize) -> f32 {
        self.beta.mul_add(((position / self.original) as f32).ln_1p(), 1.0)
    }
}

/// A mixture of experts, which replaces the feed-forward block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExpertSpec {
    /// Number of experts in a layer.
    pub count: usize,
    /// Number of experts per token.
    pub used: usize,
    /// Width of an expert's hidden layer.
    pub width: usize,
    /// Choice of the experts, and computation of their weights.
    pub gating: Gating,
    /// The expert that computes every token. `None` if there is none.
    pub shared: Option<SharedExpertSpec>,
    /// Width of the experts' inputs and outputs, if projections surround the experts. `None` if this
    /// is the width of the residual stream.
    pub latent: Option<usize>,
}

/// The shape and the conventions of a decoder.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub struct ModelSpec {
    /// Name of the architecture in GGUF files.
    pub architecture: String,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of rows of the embedding and of the head.
    pub vocabulary: usize,
    /// Number of positions that the model was trained for.
    pub context: usize,
    /// Added to the mean square before the square root.
    pub norm_epsilon: f32,
    /// Pairing of the rotated elements.
    pub rope_pairing: RopePairing,
    /// The distinct sets of rotary frequencies.
    pub ropes: Vec<RopeSpec>,
    /// The layers, first to last.
    pub layers: Vec<LayerSpec>,
    /// Layer of the head for drafts, which predicts the token after the next one (multi-token
    /// prediction, MTP). `None` if the model has no such head.
    pub draft_head: Option<LayerSpec>,
    /// Scope of the norm of queries and keys. `None` if they are not normalised.
    pub qk_norm: Option<QkNorm>,
    /// True if the values of each head are normalised, without weights.
    pub value_norm: bool,
    /// True if the output of each layer, the residual stream, has a learned factor.
    pub layer_scales: bool,
    /// Width of the additional input of each layer, which depends on the token. `None` if the layers
    /// have no such input. Used by the small models of Gemma 4.
    pub per_layer_input: Option<usize>,
    /// True if the query, key and value projections must have biases. If false, biases are
    /// optional.
    pub qkv_bias: bool,
    /// Placement of the norms of the two blocks.
    pub norms: NormPlacement,
    /// Computation of these norms and of the norm before the head.
    pub norm_kind: NormKind,
    /// Factor for the embeddings.
    pub embedding_scale: f32,
    /// Factor for the attention scores.
    pub attention_scale: f32,
    /// Factor of the attention scores that depends on the position.
    pub temperature: Option<Temperature>,
    /// Factor for the outputs of the two blocks before they are added to the residual stream.
    pub residual_scale: f32,
    /// Factor for the logits.
    pub logit_scale: f32,
    /// Cap `c` of the attention scores: a score `s` becomes `c · tanh(s / c)`.
    pub attention_softcap: Option<f32>,
    /// Cap `c` of the logits: a logit `x` becomes `c · tanh(x / c)`.
    pub logit_softcap: Option<f32>,
    /// True if each query head has an attention sink: a learned score that takes part in the
    /// softmax but has no value.
    pub attention_sinks: bool,
    /// Activation of the feed-forward block.
    pub activation: Activation,
    /// Properties of a model whose tokens attend to the whole text. `None` if tokens attend to earlier
    /// tokens only.
    pub encoder: Option<EncoderSpec>,
    /// True if the residual stream is normalised before the head.
    pub output_norm: bool,
    /// Purposes of the model.
    pub abilities: Abilities,
}

/// Properties of a model whose tokens attend to the whole text, or to the tokens at most half a window
/// away on either side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncoderSpec {
    /// True if each position has a learned vector, which is added to the token's.
    pub positions: bool,
    /// Number of kinds of tokens, each with a learned vector that is added to the token's. `None` if
    /// there are no such vectors.
    pub token_types: Option<usize>,
    /// True if the sum of these vectors is normalised.
    pub norm: bool,
}

impl ModelSpec {
    /// Reports whether a layer has a mixture of experts.
    pub fn has_experts(&self) -> bool {
        self.layers.iter().any(|layer| layer.feed_forward.experts().is_some())
    }

    /// Reports whether a sequence has a state beside its keys and values, which cannot be cut
    /// ([`MixerSpec::has_state`]).
    pub fn has_state(&self) -> bool {
        self.layers.iter().any(|layer| layer.mixer.has_state())
    }

    /// Returns the shapes of all attention blocks, each with the index of its layer.
    pub fn attentions(&self) -> impl Iterator<Item = (usize, &AttentionSpec)> {
        let layers = self.layers.iter().enumerate();
        layers.filter_map(|(index, layer)| Some((index, layer.attention()?)))
    }

    pub(crate) fn attentions_mut(&mut self) -> impl Iterator<Item = (usize, &mut AttentionSpec)> {
        let layers = self.layers.iter_mut().enumerate();
        layers.filter_map(|(index, layer)| match &mut layer.mixer {
            MixerSpec::Attention(attention) => Some((index, attention)),
            _ => None,
        })
    }

    /// Reports whether the tokens of a text attend to later ones.
    pub const fn attends_both_ways(&self) -> bool {
        self.encoder.is_some()
    }

    /// Reports whether only the native CPU decoder computes the model. The decoder with tensors is that
    /// of GPUs. It has no mixer but plain attention, no layers that share keys and values, no additional
    /// inputs of layers, and none of their further norms and factors. Its norms do not subtract the
    /// mean, its blocks follow each other, and it normalises heads before their rotation.
    pub(crate) fn is_native_only(&self) -> bool {
        let is_native = |layer: &LayerSpec| {
            layer
                .attention()
                .is_none_or(|attention| attention.key_values != KeyValues::Own || attention.is_gated)
                || !matches!(layer.feed_forward, FeedForwardSpec::Dense { .. } | FeedForwardSpec::Experts(_))
        };
        !self.activation.is_gated()
            || self.encoder.is_some()
            || !self.output_norm
            || self.abilities != Abilities::default()
            || self.value_norm
            || self.layer_scales
            || self.per_layer_input.is_some()
            || self.norms == NormPlacement::Parallel
            || self.norm_kind != NormKind::Rms
            || self.qk_norm == Some(QkNorm::PerRotatedHead)
            || self.layers.iter().any(is_native)
    }

    /// Reads the specification from a checkpoint's metadata. Tensor shapes are checked later, when
    /// the weights are bound.
    ///
    /// # Errors
    /// Returns an error if the architecture is unknown, or if a key is missing, of the wrong type
    /// or out of range.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self, LoadError> {
        Self::of_known(checkpoint).map_err(|kind| checkpoint.error(kind))
    }

    pub(crate) fn of_known(checkpoint: &Checkpoint) -> Result<Self, Kind> {
        families::read(checkpoint)
    }
}
