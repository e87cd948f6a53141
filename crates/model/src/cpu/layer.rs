use std::f32::consts::FRAC_1_SQRT_2;

use formwork_kernels::Team;
use formwork_vocab::TokenId;
use smallvec::SmallVec;

use super::attention::{Run, attend};
use super::kv::KvCache;
use super::product::{Input, Rounding, products};
use super::workspace::{Workspace, room};
use crate::ops::{add_scaled, gated, rms_norm, rms_norm_in_place, scale};
use crate::rope::Rotation;
use crate::spec::{KeyValues, ModelSpec};
use crate::weights::{LayerWeights, Packed, PerLayerInput, PerLayerInputs};

/// Minimum number of tokens in a segment for all threads to share the work of writing its keys and
/// values.
const LONG: usize = 16;
/// Number of shorter segments that one parallel task writes.
const WORTH: usize = 2;

/// State of a forward pass that all layers share.
pub(super) struct Pass<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) team: &'a Team,
    /// One rounding for each token of the pass.
    pub(super) roundings: Vec<Rounding>,
    /// Index of each token among those with which the pass began. Tokens whose output is not needed
    /// leave before the last layer.
    pub(super) tokens: Vec<usize>,
}

/// Tokens of one sequence that are computed in a forward pass, following the tokens in its cache.
pub(super) struct Segment<'a> {
    pub(super) cache: &'a mut KvCache,
    pub(super) tokens: &'a [TokenId],
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
        segments: &[Segment<'_>],
        tokens: Vec<usize>,
    ) -> Self {
        let rounding = |segment: &Segment<'_>| {
            let start = segment.cache.len();
            (start..start + segment.tokens.len()).map(Rounding::at)
        };
        Self { spec, team, roundings: segments.iter().flat_map(rounding).collect(), tokens }
    }

    /// Computes the layer at `index`: updates the residual stream `x`, and writes the layer's keys
    /// and values to the caches of the segments.
    ///
    /// Shape of `x`: `[tokens, hidden]`, segment by segment.
    pub(super) fn layer(
        &self,
        (index, weights): (usize, &LayerWeights<Packed>),
        segments: &mut [Segment<'_>],
        x: &mut [f32],
        workspace: &mut Workspace,
    ) {
        self.normed(x, weights.attention_norm.as_deref(), workspace);
        self.attention(index, weights, segments, workspace);
        self.add(x, &mut workspace.result[..x.len()], weights.post_attention_norm.as_deref());
        self.normed(x, weights.feed_forward_norm.as_deref(), workspace);
        self.feed_forward(weights, x, workspace);
        self.add(x, &mut workspace.result[..x.len()], weights.post_feed_forward_norm.as_deref());
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
        let input = Input { x, roundings: &self.roundings };
        products(self.team, rounded, input, [(&weights.gate, &mut *gate)]);
        let all = self.spec.layers.len() * width;
        for (gate, &token) in gate.chunks_exact_mut(width).zip(&self.tokens) {
            let input = &per_layer_inputs[token * all + index * width..][..width];
            gated(self.spec.activation, gate, input);
        }
        let result = room(result, x.len());
        let input = Input { x: gate, roundings: &self.roundings };
        products(self.team, rounded, input, [(&weights.projection, &mut *result)]);
        rms_norm_in_place(self.team, result, &weights.norm, self.spec.norm_epsilon);
        add_scaled(self.team, x, result, 1.0);
    }

    /// Computes only the keys and values of the layer at `index`, and writes them to the caches of
    /// the segments.
    pub(super) fn keys_and_values(
        &self,
        (index, weights): (usize, &LayerWeights<Packed>),
        segments: &mut [Segment<'_>],
        x: &[f32],
        workspace: &mut Workspace,
    ) {
        let Some(key) = &weights.key else { return };
        self.normed(x, weights.attention_norm.as_deref(), workspace);
        let Workspace { normed, keys, values, rounded, .. } = workspace;
        let key_len = self.roundings.len() * self.spec.layers[index].attention.key_len();
        let (keys, values) = (room(keys, key_len), room(values, key_len));
        let input = Input { x: &normed[..x.len()], roundings: &self.roundings };
        if let Some(value) = &weights.value {
            products(self.team, rounded, input, [(key, &mut *keys), (value, &mut *values)]);
        } else {
            products(self.team, rounded, input, [(key, &mut *keys)]);
            values.copy_from_slice(keys);
        }
        self.norm_keys_and_values(weights, keys, values);
        self.write(index, segments, &mut [], (keys, values));
    }

    fn norm_keys_and_values(&self, weights: &LayerWeights<Packed>, keys: &mut [f32], values: &mut [f32]) {
        if let Some(norm) = &weights.qk_norm {
            rms_norm_in_place(self.team, keys, &norm.key, self.spec.norm_epsilon);
        }
        if let Some(norm) = &weights.value_norm {
            rms_norm_in_place(self.team, values, norm, self.spec.norm_epsilon);
        }
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
        let input = Input { x, roundings: &self.roundings };
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
    fn normed(&self, x: &[f32], norm: Option<&[f32]>, workspace: &mut Workspace) {
        let normed = room(&mut workspace.normed, x.len());
        match norm {
            Some(norm) => rms_norm(self.team, x, norm, self.spec.norm_epsilon, normed),
            None => normed.copy_from_slice(x),
        }
    }

    /// Adds the output `result` of a block to the residual stream `x`. If `norm` is given, `result`
    /// is normalised first.
    fn add(&self, x: &mut [f32], result: &mut [f32], norm: Option<&[f32]>) {
        if let Some(norm) = norm {
            rms_norm_in_place(self.team, result, norm, self.spec.norm_epsilon);
        }
        add_scaled(self.team, x, result, self.spec.residual_scale);
    }

    /// Computes the attention block of the layer at `index`. Reads `workspace.normed` and writes
    /// `workspace.result`, both of shape `[tokens, hidden]`.
    fn attention(
        &self,
        index: usize,
        weights: &LayerWeights<Packed>,
        segments: &mut [Segment<'_>],
        workspace: &mut Workspace,
    ) {
        let spec = self.spec;
        let (tokens, shape) = (self.roundings.len(), spec.layers[index].attention);
        let query_len = shape.query_len();
        let key_len = if weights.key.is_some() { shape.key_len() } else { 0 };
        let Workspace { normed, result, queries, keys, values, attended, parts, rounded, .. } = workspace;
        // Shapes: `[tokens, heads, head_dim]` for queries, and `[tokens, kv_heads, head_dim]` for
        // keys and values.
        let queries = room(queries, tokens * query_len);
        let keys = room(keys, tokens * key_len);
        let values = room(values, tokens * key_len);
        let input = Input { x: &normed[..tokens * spec.hidden], roundings: &self.roundings };
        let query = (&weights.query, &mut *queries);
        match (&weights.key, &weights.value) {
            (Some(key), Some(value)) => {
                products(self.team, rounded, input, [query, (key, &mut *keys), (value, &mut *values)]);
            }
            (Some(key), None) => {
                products(self.team, rounded, input, [query, (key, &mut *keys)]);
                values.copy_from_slice(keys);
            }
            (None, _) => products(self.team, rounded, input, [query]),
        }
        if let Some(norm) = &weights.qk_norm {
            rms_norm_in_place(self.team, queries, &norm.query, spec.norm_epsilon);
        }
        if weights.key.is_some() {
            self.norm_keys_and_values(weights, keys, values);
        }
        let source = match shape.key_values {
            KeyValues::OfLayer(source) => source,
            KeyValues::Own | KeyValues::OneProjection => index,
        };
        self.write(index, segments, queries, (keys, values));
        let mut runs: SmallVec<[Run<'_>; 2]> = SmallVec::new();
        let mut rest = &*queries;
        for segment in &*segments {
            runs.push(Run {
                spec,
                shape,
                sinks: weights.sinks.as_deref(),
                cache: segment.cache.layer(source),
                queries: rest.split_off(..segment.tokens.len() * query_len).unwrap_or_default(),
                start: segment.cache.len(),
            });
        }
        let attended = room(attended, tokens * query_len);
        attend(self.team, &runs, parts, attended);
        let result = room(result, tokens * spec.hidden);
        let input = Input { x: attended, roundings: &self.roundings };
        products(self.team, rounded, input, [(&weights.output, result)]);
    }

    /// Rotates the queries and keys of all tokens in place, and writes the keys and values to the
    /// caches. `queries` is empty if only keys and values are computed.
    fn write(
        &self,
        index: usize,
        segments: &mut [Segment<'_>],
        mut queries: &mut [f32],
        (mut keys, mut values): (&mut [f32], &[f32]),
    ) {
        let tokens = self.roundings.len();
        let (query_len, key_len) = (queries.len() / tokens, keys.len() / tokens);
        // All threads share each long segment. Short segments are distributed whole.
        let mut short: SmallVec<[_; 8]> = SmallVec::new();
        for segment in segments {
            let len = segment.tokens.len();
            let queries = queries.split_off_mut(..len * query_len).unwrap_or_default();
            let keys = keys.split_off_mut(..len * key_len).unwrap_or_default();
            let values = values.split_off(..len * key_len).unwrap_or_default();
            if len < LONG {
                short.push((segment, queries, keys, values));
            } else {
                self.write_segment(index, segment, queries, (keys, values));
            }
        }
        self.team.for_chunks(&mut short, WORTH, |_, short| {
            for (segment, queries, keys, values) in short {
                self.write_segment(index, segment, queries, (keys, values));
            }
        });
    }

    /// Does the work of [`Pass::write`] for one segment.
    fn write_segment(
        &self,
        index: usize,
        segment: &mut Segment<'_>,
        queries: &mut [f32],
        (keys, values): (&mut [f32], &[f32]),
    ) {
        let Self { spec, team, .. } = *self;
        let shape = spec.layers[index].attention;
        if let Some(rope) = shape.rope {
            let rotation = &segment.rotations[rope];
            rotation.apply(team, queries, shape.query_len(), shape.head_dim);
            rotation.apply(team, keys, shape.key_len(), shape.head_dim);
        }
        if let Some(temperature) = spec.temperature {
            // `queries` is empty if only keys and values are computed.
            for (token, queries) in queries.chunks_exact_mut(shape.query_len()).enumerate() {
                scale(queries, temperature.at(segment.cache.len() + token));
            }
        }
        if !keys.is_empty() {
            segment.cache.write(team, index, keys, values);
        }
    }
}
