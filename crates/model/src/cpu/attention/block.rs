//! The attention block of a layer.

use smallvec::SmallVec;

use super::{Run, attend};
use crate::cpu::layer::{Pass, Segment};
use crate::cpu::product::products;
use crate::cpu::workspace::{Workspace, room};
use crate::ops::{gate_by_sigmoid, rms_norm_in_place, scale};
use crate::spec::{AttentionSpec, KeyValues, QkNorm};
use crate::weights::{AttentionWeights, Packed, QkNormWeights};

/// Minimum number of tokens in a segment for all threads to share the work of writing its keys and
/// values.
const LONG: usize = 16;
/// Number of shorter segments that one parallel task writes.
const WORTH: usize = 2;

impl Pass<'_> {
    /// Computes only the keys and values of the layer at `index`, and writes them to the caches of
    /// the segments. Reads `workspace.normed`, of shape `[tokens, hidden]`.
    pub(in crate::cpu) fn keys_and_values(
        &self,
        (index, weights): (usize, &AttentionWeights<Packed>),
        segments: &mut [Segment<'_>],
        workspace: &mut Workspace,
    ) {
        let Some(key) = &weights.key else { return };
        let Workspace { normed, keys, values, rounded, .. } = workspace;
        let key_len = self.roundings.len() * weights.shape.key_len();
        let (keys, values) = (room(keys, key_len), room(values, key_len));
        let input = self.input(&normed[..self.roundings.len() * self.spec.hidden]);
        if let Some(value) = &weights.value {
            products(self.team, rounded, input, [(key, &mut *keys), (value, &mut *values)]);
        } else {
            products(self.team, rounded, input, [(key, &mut *keys)]);
            values.copy_from_slice(keys);
        }
        self.norm_keys_and_values(weights, keys, values);
        self.write((index, weights.shape), self.late_norm(weights), segments, (&mut [], keys, values));
    }

    /// Returns the norm of queries and keys, if heads are normalised before their rotation.
    fn early_norm<'w>(&self, weights: &'w AttentionWeights<Packed>) -> Option<&'w QkNormWeights> {
        weights.qk_norm.as_ref().filter(|_| self.spec.qk_norm != Some(QkNorm::PerRotatedHead))
    }

    /// Returns the norm of queries and keys, if heads are normalised after their rotation.
    fn late_norm<'w>(&self, weights: &'w AttentionWeights<Packed>) -> Option<&'w QkNormWeights> {
        weights.qk_norm.as_ref().filter(|_| self.spec.qk_norm == Some(QkNorm::PerRotatedHead))
    }

    fn norm_keys_and_values(&self, weights: &AttentionWeights<Packed>, keys: &mut [f32], values: &mut [f32]) {
        if let Some(norm) = self.early_norm(weights) {
            rms_norm_in_place(self.team, keys, &norm.key, self.spec.norm_epsilon);
        }
        if let Some(norm) = &weights.value_norm {
            rms_norm_in_place(self.team, values, norm, self.spec.norm_epsilon);
        }
    }

    /// Computes the attention block of the layer at `index`. Reads `workspace.normed` and writes
    /// `workspace.result`, both of shape `[tokens, hidden]`.
    pub(in crate::cpu) fn attention(
        &self,
        index: usize,
        weights: &AttentionWeights<Packed>,
        segments: &mut [Segment<'_>],
        workspace: &mut Workspace,
    ) {
        let spec = self.spec;
        let (tokens, shape) = (self.roundings.len(), weights.shape);
        let query_len = shape.query_len();
        let key_len = if weights.key.is_some() { shape.key_len() } else { 0 };
        let Workspace { normed, result, queries, keys, values, attended, parts, gate, rounded, .. } =
            workspace;
        // Shapes: `[tokens, heads, head_dim]` for queries, and `[tokens, kv_heads, head_dim]` for
        // keys and values.
        let queries = room(queries, tokens * query_len);
        let keys = room(keys, tokens * key_len);
        let values = room(values, tokens * key_len);
        let input = self.input(&normed[..tokens * spec.hidden]);
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
        if let Some(norm) = self.early_norm(weights) {
            rms_norm_in_place(self.team, queries, &norm.query, spec.norm_epsilon);
        }
        if weights.key.is_some() {
            self.norm_keys_and_values(weights, keys, values);
        }
        let source = match shape.key_values {
            KeyValues::OfLayer(source) => source,
            KeyValues::Own | KeyValues::OneProjection | KeyValues::WithinKeys(_) => index,
        };
        self.write((index, shape), self.late_norm(weights), segments, (queries, keys, values));
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
        if let Some(linear) = &weights.gate {
            let gate = room(gate, tokens * query_len);
            products(self.team, rounded, input, [(linear, &mut *gate)]);
            gate_by_sigmoid(attended, gate);
        }
        let result = room(result, tokens * spec.hidden);
        let input = self.input(attended);
        products(self.team, rounded, input, [(&weights.output, result)]);
    }

    /// Rotates the queries and keys of all tokens in place, and writes the keys and values to the
    /// caches. Normalises the rotated heads if `norm` is given. `queries` is empty if only keys and
    /// values are computed.
    pub(in crate::cpu) fn write(
        &self,
        layer: (usize, AttentionSpec),
        norm: Option<&QkNormWeights>,
        segments: &mut [Segment<'_>],
        (mut queries, mut keys, mut values): (&mut [f32], &mut [f32], &[f32]),
    ) {
        let tokens = self.roundings.len();
        let (query_len, key_len) = (queries.len() / tokens, keys.len() / tokens);
        // All threads share each long segment. Short segments are distributed whole.
        let mut short: SmallVec<[_; 8]> = SmallVec::new();
        for segment in segments {
            let len = segment.tokens.len();
            let queries = queries.split_off_mut(..len * query_len).unwrap_or_default();
            let keys = keys.split_off_mut(..len * key_len).unwrap_or_default();
            let values = values.split_off(..(len * key_len).min(values.len())).unwrap_or_default();
            if len < LONG {
                short.push((segment, queries, keys, values));
            } else {
                self.write_segment(layer, norm, segment, (queries, keys, values));
            }
        }
        self.team.for_chunks(&mut short, WORTH, |_, short| {
            for (segment, queries, keys, values) in short {
                self.write_segment(layer, norm, segment, (queries, keys, values));
            }
        });
    }

    /// Does the work of [`Pass::write`] for one segment.
    fn write_segment(
        &self,
        (index, shape): (usize, AttentionSpec),
        norm: Option<&QkNormWeights>,
        segment: &mut Segment<'_>,
        (queries, keys, values): (&mut [f32], &mut [f32], &[f32]),
    ) {
        let Self { spec, team, .. } = *self;
        if let Some(rope) = shape.rope {
            let rotation = &segment.rotations[rope];
            rotation.apply(team, queries, shape.query_len(), shape.head_dim);
            rotation.apply(team, keys, shape.key_len(), shape.head_dim);
        }
        if let Some(norm) = norm {
            rms_norm_in_place(team, queries, &norm.query, spec.norm_epsilon);
            rms_norm_in_place(team, keys, &norm.key, spec.norm_epsilon);
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
