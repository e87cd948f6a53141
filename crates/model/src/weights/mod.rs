//! A model's weights, bound to the tensors of a checkpoint ([`Matrix`]) or packed for the kernels
//! ([`Packed`]).

mod bind;
mod matrix;
mod mixer;
mod packed;
mod stored;
mod text_head;

use formwork_kernels::{Encoding, Packing};

pub use self::bind::Quantization;
pub(crate) use self::matrix::{Matrix, Origin, Purpose};
pub(crate) use self::mixer::{
    AttentionWeights, Convolution, DeltaRule, LatentQuery, LatentWeights, Mamba2, Mixer, QkNormWeights,
    ShortConvolution,
};
pub(crate) use self::packed::{Packed, pack_all};
#[cfg(feature = "gpu")]
pub(crate) use self::packed::{pack_blocks, packed_block_bytes};
pub(crate) use self::stored::Method as StoredMethod;
pub(crate) use self::text_head::{InputWeights, TextHead};
use crate::LoadError;
use crate::checkpoint::Checkpoint;
use crate::spec::{ExpertSpec, ModelSpec};

/// A linear layer: a weight matrix, and the bias to add to its products if the layer has one.
#[derive(Clone, Debug)]
pub(crate) struct Linear<M = Matrix> {
    pub(crate) weight: M,
    pub(crate) bias: Option<Vec<f32>>,
}

/// Weights of a norm, and the bias to add if the norm has one.
#[derive(Clone, Debug)]
pub(crate) struct Norm {
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Option<Vec<f32>>,
}

/// Weights of one decoder layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerWeights<M = Matrix> {
    pub(crate) mixer_norm: Option<Norm>,
    pub(crate) mixer: Mixer<M>,
    pub(crate) post_mixer_norm: Option<Norm>,
    pub(crate) feed_forward_norm: Option<Norm>,
    pub(crate) feed_forward: FeedForward<M>,
    pub(crate) post_feed_forward_norm: Option<Norm>,
    /// Weights for the layer's additional input.
    pub(crate) per_layer_input: Option<PerLayerInput<M>>,
    /// Factor for the output of the layer.
    pub(crate) scale: Option<f32>,
}

/// Weights of the head for drafts, which predicts the token after the next one from the vector after a
/// token and from the next token.
#[derive(Debug)]
pub(crate) struct DraftHeadWeights<M = Matrix> {
    /// Norm of the embedding of the next token.
    pub(crate) token_norm: Norm,
    /// Norm of the vector after the token, which is the output of the model's last norm.
    pub(crate) state_norm: Norm,
    /// Projection of both vectors, that of the token first. Shape: `[hidden, 2 * hidden]`.
    pub(crate) projection: Linear<M>,
    pub(crate) layer: LayerWeights<M>,
    /// Norm before the output head.
    pub(crate) output_norm: Norm,
    /// Embedding. `None` if it is that of the model.
    pub(crate) embedding: Option<Matrix>,
    /// Output head. `None` if it is that of the model.
    pub(crate) head: Option<M>,
}

/// Weights for the additional input of a layer.
#[derive(Clone, Debug)]
pub(crate) struct PerLayerInput<M = Matrix> {
    /// Projection of the residual stream to the gate of the input.
    pub(crate) gate: Linear<M>,
    /// Projection of the gated input to the residual stream.
    pub(crate) projection: Linear<M>,
    /// Norm of the projected input.
    pub(crate) norm: Vec<f32>,
}

/// Weights that compute the additional inputs of all layers from a token.
#[derive(Debug)]
pub(crate) struct PerLayerInputs<M = Matrix> {
    /// Embedding, of shape `[vocabulary, layers * width]`. A forward pass reads only the rows of its
    /// tokens.
    pub(crate) embedding: Matrix,
    /// Projection of the model's embedding. Shape: `[layers * width, hidden]`.
    pub(crate) projection: Linear<M>,
    /// Norm of the projection of each layer. Shape: `[width]`.
    pub(crate) norm: Vec<f32>,
}

/// Weights of a feed-forward block.
#[derive(Clone, Debug)]
pub(crate) enum FeedForward<M = Matrix> {
    Nothing,
    Dense(GatedLinear<M>),
    Experts(Box<Mixture<M>>),
    DenseAndExperts(Box<DenseAndExperts<M>>),
}

/// Weights of a dense block and a mixture side by side.
#[derive(Clone, Debug)]
pub(crate) struct DenseAndExperts<M = Matrix> {
    pub(crate) dense: GatedLinear<M>,
    /// Norm of the output of the dense block.
    pub(crate) dense_norm: Vec<f32>,
    pub(crate) mixture: Mixture<M>,
    /// Norm of the router's input.
    pub(crate) router_norm: Vec<f32>,
    /// Norm of the experts' input.
    pub(crate) experts_norm: Vec<f32>,
    /// Norm of the output of the mixture.
    pub(crate) mixture_norm: Vec<f32>,
}

/// Weights of a mixture of experts.
#[derive(Clone, Debug)]
pub(crate) struct Mixture<M = Matrix> {
    pub(crate) spec: ExpertSpec,
    pub(crate) router: Linear<M>,
    /// Bias of the experts' scores for the choice. Shape: `[experts]`.
    pub(crate) choice_bias: Option<Vec<f32>>,
    /// Factors of the experts' outputs. Shape: `[experts]`.
    pub(crate) output_scales: Option<Vec<f32>>,
    pub(crate) experts: Vec<GatedLinear<M>>,
    pub(crate) shared: Option<SharedExpert<M>>,
    /// Projections before and after the experts, which compute in a narrower space.
    pub(crate) latent: Option<[Linear<M>; 2]>,
}

/// An expert that computes every token.
#[derive(Clone, Debug)]
pub(crate) struct SharedExpert<M = Matrix> {
    pub(crate) block: GatedLinear<M>,
    /// Projection to one number, whose logistic function is the factor of the output.
    pub(crate) gate: Option<Linear<M>>,
}

/// The matrices of a feed-forward block.
#[derive(Clone, Debug)]
pub(crate) struct GatedLinear<M = Matrix> {
    /// Projection that passes through the activation.
    pub(crate) gate: Linear<M>,
    /// Projection that is multiplied by the result. `None` if the block is not gated.
    pub(crate) up: Option<Linear<M>>,
    pub(crate) down: Linear<M>,
}

/// Function that selects the packing of a matrix, given its encoding.
pub(crate) type Order = fn(Encoding) -> Packing;

/// All weights of a model.
#[derive(Debug)]
pub(crate) struct Weights<M = Matrix> {
    /// Embedding, of shape `[vocabulary, hidden]`. `None` if the head is also the embedding. A
    /// forward pass reads only the rows of its tokens.
    pub(crate) embedding: Option<Matrix>,
    pub(crate) per_layer_inputs: Option<PerLayerInputs<M>>,
    pub(crate) layers: Vec<LayerWeights<M>>,
    pub(crate) draft_head: Option<Box<DraftHeadWeights<M>>>,
    /// Norm before the head. `None` for models whose layers end with a norm.
    pub(crate) output_norm: Option<Norm>,
    /// Vectors that are added to those of tokens.
    pub(crate) input: InputWeights,
    /// Layers after the pooling of hidden states.
    pub(crate) text_head: TextHead,
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
        purpose: Purpose,
    ) -> Result<Self, LoadError> {
        bind::bind(checkpoint, spec, quantize, purpose).map_err(|kind| checkpoint.error(kind))
    }
}

impl<M> Weights<M> {
    /// Calls `see` with each matrix except the embedding. The second argument is the function that
    /// selects the packing of the matrix.
    pub(crate) fn each(&self, see: &mut impl FnMut(&M, Order)) {
        let mut plain = |matrix: &M| see(matrix, Packing::plain);
        if let Some(inputs) = &self.per_layer_inputs {
            plain(&inputs.projection.weight);
        }
        for layer in &self.layers {
            layer.each(&mut plain);
        }
        see(&self.head, Packing::split_bits);
        // The head for drafts is taken out of the weights, so it must be last.
        if let Some(draft_head) = &self.draft_head {
            draft_head.layer.each(&mut |matrix| see(matrix, Packing::plain));
            see(&draft_head.projection.weight, Packing::plain);
            if let Some(head) = &draft_head.head {
                see(head, Packing::split_bits);
            }
        }
    }

    /// Replaces each matrix except the embedding by the result of `into`, in the order of
    /// [`Weights::each`].
    fn map<T>(self, into: &mut impl FnMut(M, Order) -> T) -> Weights<T> {
        let mut plain = |matrix| into(matrix, Packing::plain);
        let per_layer_inputs = self.per_layer_inputs.map(|inputs| PerLayerInputs {
            embedding: inputs.embedding,
            projection: inputs.projection.map(&mut plain),
            norm: inputs.norm,
        });
        let layers = self.layers.into_iter().map(|layer| layer.map(&mut plain)).collect();
        let head = into(self.head, Packing::split_bits);
        let draft_head = self.draft_head.map(|draft_head| {
            let layer = draft_head.layer.map(&mut |matrix| into(matrix, Packing::plain));
            let projection = draft_head.projection.map(&mut |matrix| into(matrix, Packing::plain));
            Box::new(DraftHeadWeights {
                token_norm: draft_head.token_norm,
                state_norm: draft_head.state_norm,
                projection,
                layer,
                output_norm: draft_head.output_norm,
                embedding: draft_head.embedding,
                head: draft_head.head.map(|head| into(head, Packing::split_bits)),
            })
        });
        Weights {
            embedding: self.embedding,
            per_layer_inputs,
            layers,
            draft_head,
            output_norm: self.output_norm,
            input: self.input,
            text_head: self.text_head,
            head,
        }
    }
}

impl<M> LayerWeights<M> {
    /// Calls `see` with each matrix.
    pub(crate) fn each(&self, see: &mut impl FnMut(&M)) {
        self.mixer.each(see);
        self.feed_forward.each(see);
        if let Some(input) = &self.per_layer_input {
            see(&input.gate.weight);
            see(&input.projection.weight);
        }
    }

    fn map<T>(self, into: &mut impl FnMut(M) -> T) -> LayerWeights<T> {
        LayerWeights {
            mixer_norm: self.mixer_norm,
            mixer: self.mixer.map(into),
            post_mixer_norm: self.post_mixer_norm,
            feed_forward_norm: self.feed_forward_norm,
            feed_forward: self.feed_forward.map(into),
            post_feed_forward_norm: self.post_feed_forward_norm,
            per_layer_input: self.per_layer_input.map(|input| PerLayerInput {
                gate: input.gate.map(into),
                projection: input.projection.map(into),
                norm: input.norm,
            }),
            scale: self.scale,
        }
    }
}

impl<M> FeedForward<M> {
    /// Calls `see` with each matrix.
    pub(crate) fn each(&self, see: &mut impl FnMut(&M)) {
        match self {
            Self::Nothing => {}
            Self::Dense(dense) => dense.each(see),
            Self::Experts(mixture) => mixture.each(see),
            Self::DenseAndExperts(both) => {
                both.dense.each(see);
                both.mixture.each(see);
            }
        }
    }

    fn map<T>(self, into: &mut impl FnMut(M) -> T) -> FeedForward<T> {
        match self {
            Self::Nothing => FeedForward::Nothing,
            Self::Dense(dense) => FeedForward::Dense(dense.map(into)),
            Self::Experts(mixture) => FeedForward::Experts(Box::new(mixture.map(into))),
            Self::DenseAndExperts(both) => FeedForward::DenseAndExperts(Box::new(both.map(into))),
        }
    }

    /// Reports whether the block has a mixture of experts.
    #[cfg(feature = "gpu")]
    pub(crate) const fn has_experts(&self) -> bool {
        matches!(self, Self::Experts(_) | Self::DenseAndExperts(_))
    }
}

impl<M> DenseAndExperts<M> {
    fn map<T>(self, into: &mut impl FnMut(M) -> T) -> DenseAndExperts<T> {
        DenseAndExperts {
            dense: self.dense.map(into),
            dense_norm: self.dense_norm,
            mixture: self.mixture.map(into),
            router_norm: self.router_norm,
            experts_norm: self.experts_norm,
            mixture_norm: self.mixture_norm,
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
        for linear in self.latent.iter().flatten() {
            see(&linear.weight);
        }
    }

    fn map<T>(self, into: &mut impl FnMut(M) -> T) -> Mixture<T> {
        Mixture {
            spec: self.spec,
            router: self.router.map(into),
            choice_bias: self.choice_bias,
            output_scales: self.output_scales,
            experts: self.experts.into_iter().map(|expert| expert.map(into)).collect(),
            shared: self.shared.map(|SharedExpert { block, gate }| SharedExpert {
                block: block.map(into),
                gate: gate.map(|gate| gate.map(into)),
            }),
            latent: self.latent.map(|latent| latent.map(|linear| linear.map(into))),
        }
    }
}

impl<M> GatedLinear<M> {
    fn each(&self, see: &mut impl FnMut(&M)) {
        for linear in [Some(&self.gate), self.up.as_ref(), Some(&self.down)].into_iter().flatten() {
            see(&linear.weight);
        }
    }

    fn map<T>(self, into: &mut impl FnMut(M) -> T) -> GatedLinear<T> {
        GatedLinear {
            gate: self.gate.map(into),
            up: self.up.map(|up| up.map(into)),
            down: self.down.map(into),
        }
    }
}

impl<M> Linear<M> {
    fn map<T>(self, into: &mut impl FnMut(M) -> T) -> Linear<T> {
        Linear { weight: into(self.weight), bias: self.bias }
    }
}
