use std::f32::consts::FRAC_1_SQRT_2;

use formwork_kernels::Team;
use formwork_vocab::TokenId;

use super::kv::KvCache;
use super::product::{Input, Rounding, products};
use super::state::States;
use super::workspace::{Workspace, room};
use crate::adapter::Adapter;
use crate::ops::{add_scaled, gated, normalise, normalise_in_place, rms_norm_in_place, scale};
use crate::rope::Rotation;
use crate::spec::{ModelSpec, NormPlacement};
use crate::weights::{FeedForward, LayerWeights, Mixer, Norm, Packed, PerLayerInput, PerLayerInputs};

/// State of a forward pass that all layers share.
pub(super) struct Pass<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) team: &'a Team,
    /// One rounding for each token of the pass.
    pub(super) roundings: Vec<Rounding>,
    /// The adapter of each token. Empty if no token has one.
    pub(super) adapters: Vec<Option<&'a Adapter>>,
    /// Index of each token among those with which the pass began. Tokens whose output is not needed
    /// leave before the last layer.
    pub(super) tokens: Vec<usize>,
}

/// Tokens of one sequence that are computed in a forward pass, following the tokens in its cache.
pub(super) struct Segment<'a> {
    pub(super) cache: &'a mut KvCache,
    /// `None` if the model has no states.
    pub(super) states: Option<&'a mut States>,
    /// Adapter that the tokens are computed with.
    pub(super) adapter: Option<&'a Adapter>,
    pub(super) tokens: &'a [TokenId],
    /// Residual stream before the first layer, of shape `[tokens, hidden]`. `None` for the embeddings of
    /// the tokens.
    pub(super) input: Option<&'a [f32]>,
    /// Rotations for the positions of the tokens, with an element for each set of rotary
    /// frequencies.
    pub(super) rotations: Vec<Rotation>,
    /// Number of tokens, counted from the last, whose output of the last layer is needed.
    pub(super) wanted: usize,
}

impl Segment<'_> {
    /// Removes the tokens whose output is not needed, and returns their number. The keys and values
    /// of these tokens must be in the cache.
    pub(super) fn skip_unwanted(&mut self) -> usize {
        let skipped = self.tokens.len() - self.wanted;
        self.tokens = &self.tokens[skipped..];
        self.cache.advance(skipped);
        self.rotations.iter_mut().for_each(|rotation| rotation.skip(skipped));
        skipped
    }
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        spec: &'a ModelSpec,
        team: &'a Team,
        segments: &[Segment<'a>],
        tokens: Vec<usize>,
    ) -> Self {
        let rounding = |segment: &Segment<'_>| {
            let start = segment.cache.len();
            (start..start + segment.tokens.len()).map(Rounding::at)
        };
        let roundings = segments.iter().flat_map(rounding).collect();
        let has_adapter = segments.iter().any(|segment| segment.adapter.is_some());
        let adapters = segments.iter().filter(|_| has_adapter);
        let adapters = adapters.flat_map(|segment| segment.tokens.iter().map(|_| segment.adapter));
        Self { spec, team, roundings, adapters: adapters.collect(), tokens }
    }

    /// Returns the activations `x` of all tokens as the input of products. Shape: `[tokens, columns]`.
    pub(super) fn input<'i>(&'i self, x: &'i [f32]) -> Input<'i> {
        Input { x, roundings: &self.roundings, adapters: &self.adapters }
    }

    /// Computes the mixer of the layer at `index`: updates the residual stream `x`, and writes the
    /// layer's keys, values and states to the segments.
    ///
    /// Shape of `x`: `[tokens, hidden]`, segment by segment.
    pub(super) fn mix(
        &self,
        (index, weights): (usize, &LayerWeights<Packed>),
        segments: &mut [Segment<'_>],
        x: &mut [f32],
        workspace: &mut Workspace,
    ) {
        if matches!(weights.mixer, Mixer::Nothing) {
            return;
        }
        self.normed(x, weights.mixer_norm.as_ref(), workspace);
        match &weights.mixer {
            Mixer::Nothing => {}
            Mixer::Attention(attention) => self.attention(index, attention, segments, workspace),
            Mixer::Latent(block) => self.latent_attention(index, block, segments, workspace),
            Mixer::ShortConvolution(block) => self.short_convolution(index, block, segments, workspace),
            Mixer::DeltaRule(block) => self.delta_rule(index, block, segments, workspace),
            Mixer::Mamba2(block) => self.mamba2(index, block, segments, workspace),
        }
        self.add(x, &mut workspace.result[..x.len()], weights.post_mixer_norm.as_ref());
    }

    /// Computes the keys, values and states of the layer at `index`, which later tokens need. If this
    /// takes the whole mixer, updates the residual stream `x` as [`Pass::mix`] does. Otherwise, returns
    /// true: the mixer is still to be computed for the tokens whose output is needed.
    pub(super) fn keys_and_states(
        &self,
        (index, weights): (usize, &LayerWeights<Packed>),
        segments: &mut [Segment<'_>],
        x: &mut [f32],
        workspace: &mut Workspace,
    ) -> bool {
        match &weights.mixer {
            Mixer::Attention(attention) => {
                self.normed(x, weights.mixer_norm.as_ref(), workspace);
                self.keys_and_values((index, attention), segments, workspace);
                true
            }
            Mixer::Latent(latent) => {
                self.normed(x, weights.mixer_norm.as_ref(), workspace);
                self.write_latent_keys(index, latent, segments, workspace);
                true
            }
            _ => {
                self.mix((index, weights), segments, x, workspace);
                false
            }
        }
    }

    /// Computes what follows the mixer in the layer at `index`: updates the residual stream `x`, of
    /// shape `[tokens, hidden]`.
    pub(super) fn feed(
        &self,
        (index, weights): (usize, &LayerWeights<Packed>),
        x: &mut [f32],
        workspace: &mut Workspace,
    ) {
        if !matches!(weights.feed_forward, FeedForward::Nothing) {
            // A parallel block reads the input of the mixer, which is still in the workspace.
            if self.spec.norms != NormPlacement::Parallel {
                self.normed(x, weights.feed_forward_norm.as_ref(), workspace);
            }
            self.feed_forward(&weights.feed_forward, x, workspace);
            self.add(x, &mut workspace.result[..x.len()], weights.post_feed_forward_norm.as_ref());
        }
        if let Some(input) = &weights.per_layer_input {
            self.per_layer_input((index, input), x, workspace);
        }
        if let Some(factor) = weights.scale {
            scale(x, factor);
        }
    }

    /// Adds the layer's additional input to the residual stream `x`.
    fn per_layer_input(
        &self,
        (index, weights): (usize, &PerLayerInput<Packed>),
        x: &mut [f32],
        workspace: &mut Workspace,
    ) {
        let Workspace { result, gate, rounded, per_layer_inputs, .. } = workspace;
        let width = weights.gate.weight.rows;
        let gate = room(gate, self.roundings.len() * width);
        let input = self.input(x);
        products(self.team, rounded, input, [(&weights.gate, &mut *gate)]);
        let all = self.spec.layers.len() * width;
        for (gate, &token) in gate.chunks_exact_mut(width).zip(&self.tokens) {
            let input = &per_layer_inputs[token * all + index * width..][..width];
            gated(self.spec.activation, gate, input);
        }
        let result = room(result, x.len());
        let input = self.input(gate);
        products(self.team, rounded, input, [(&weights.projection, &mut *result)]);
        rms_norm_in_place(self.team, result, &weights.norm, self.spec.norm_epsilon);
        add_scaled(self.team, x, result, 1.0);
    }

    /// Computes the additional inputs of all layers from the tokens and from their embeddings `x`, of
    /// shape `[tokens, hidden]`.
    pub(super) fn per_layer_inputs(
        &self,
        weights: &PerLayerInputs<Packed>,
        segments: &[Segment<'_>],
        x: &[f32],
        workspace: &mut Workspace,
    ) {
        let Workspace { per_layer_inputs, rounded, .. } = workspace;
        let (width, all) = (weights.norm.len(), weights.projection.weight.rows);
        let inputs = room(per_layer_inputs, self.roundings.len() * all);
        let input = self.input(x);
        products(self.team, rounded, input, [(&weights.projection, &mut *inputs)]);
        scale(inputs, 1.0 / (self.spec.hidden as f32).sqrt());
        rms_norm_in_place(self.team, inputs, &weights.norm, self.spec.norm_epsilon);
        let tokens = segments.iter().flat_map(|segment| segment.tokens);
        let mut row = vec![0.0; all];
        for (token, inputs) in tokens.zip(inputs.chunks_exact_mut(all)) {
            weights.embedding.dequantize(token.index()..token.index() + 1, &mut row);
            for (input, embedded) in inputs.iter_mut().zip(&row) {
                *input = (*input + embedded * (width as f32).sqrt()) * FRAC_1_SQRT_2;
            }
        }
    }

    /// Normalises the input `x` of a block, and writes the result to `workspace.normed`.
    pub(super) fn normed(&self, x: &[f32], norm: Option<&Norm>, workspace: &mut Workspace) {
        let normed = room(&mut workspace.normed, x.len());
        match norm {
            Some(norm) => normalise(self.team, self.spec, x, norm, normed),
            None => normed.copy_from_slice(x),
        }
    }

    /// Adds the output `result` of a block to the residual stream `x`. If `norm` is given, `result`
    /// is normalised first, or the sum is normalised.
    pub(super) fn add(&self, x: &mut [f32], result: &mut [f32], norm: Option<&Norm>) {
        let is_of_sum = self.spec.norms == NormPlacement::Residual;
        if let Some(norm) = norm.filter(|_| !is_of_sum) {
            normalise_in_place(self.team, self.spec, result, norm);
        }
        add_scaled(self.team, x, result, self.spec.residual_scale);
        if let Some(norm) = norm.filter(|_| is_of_sum) {
            normalise_in_place(self.team, self.spec, x, norm);
        }
    }
}
