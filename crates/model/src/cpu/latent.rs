//! Latent attention: keys and values are projections of one short vector per token.
//!
//! The projections are applied to the queries and to the results instead of to the keys and values.
//! All heads then attend to the same short keys, and a part of each key is its value. The cache holds
//! only these keys. Prompts are computed in the same way as single tokens, so that the results of a
//! token do not depend on how its text is divided.

use smallvec::SmallVec;

use super::attention::{Run, attend};
use super::layer::{Pass, Segment};
use super::product::products;
use super::workspace::{Workspace, room};
use crate::ops::{rms_norm_in_place, rms_norm_row};
use crate::weights::{LatentQuery, LatentWeights, Packed};

impl Pass<'_> {
    /// Computes a latent attention block. Reads `workspace.normed` and writes `workspace.result`, both
    /// of shape `[tokens, hidden]`.
    pub(super) fn latent_attention(
        &self,
        index: usize,
        weights: &LatentWeights<Packed>,
        segments: &mut [Segment<'_>],
        workspace: &mut Workspace,
    ) {
        let (spec, tokens, shape) = (self.spec, self.roundings.len(), weights.shape);
        let attention = shape.attention();
        let (heads, key_len, query_len) = (shape.heads, attention.head_dim, attention.query_len());
        self.latent_keys(weights, workspace);
        let Workspace { normed, result, queries, keys, attended, parts, gate, up, mixed, rounded, .. } =
            workspace;
        let input = self.input(&normed[..tokens * spec.hidden]);
        // The queries before the projection of keys is applied. Shape: `[tokens, heads, head_dim]`.
        let head_dim = shape.plain_dim + shape.rope_dim;
        let whole = room(gate, tokens * heads * head_dim);
        match &weights.query {
            LatentQuery::Direct(query) => products(self.team, rounded, input, [(query, &mut *whole)]),
            LatentQuery::Compressed { down, norm, up: expand } => {
                let low = room(up, tokens * norm.len());
                products(self.team, rounded, input, [(down, &mut *low)]);
                rms_norm_in_place(self.team, low, norm, shape.norm_epsilon);
                let input = self.input(low);
                products(self.team, rounded, input, [(expand, &mut *whole)]);
            }
        }
        // Shape: `[tokens, heads, key_len]`. The rotated part comes first, as in the keys.
        let queries = room(queries, tokens * query_len);
        let (of_head, projected) = (room(up, tokens * shape.plain_dim), room(mixed, tokens * shape.rank));
        for (head, linear) in weights.key.iter().enumerate() {
            for (token, plain) in of_head.chunks_exact_mut(shape.plain_dim).enumerate() {
                plain.copy_from_slice(&whole[(token * heads + head) * head_dim..][..shape.plain_dim]);
            }
            let input = self.input(of_head);
            products(self.team, rounded, input, [(linear, &mut *projected)]);
            for (token, projected) in projected.chunks_exact(shape.rank).enumerate() {
                let at = token * heads + head;
                let (rotated, plain) = queries[at * key_len..][..key_len].split_at_mut(shape.rope_dim);
                rotated.copy_from_slice(&whole[at * head_dim + shape.plain_dim..][..shape.rope_dim]);
                plain.copy_from_slice(projected);
            }
        }
        self.write((index, attention), None, segments, (queries, &mut keys[..tokens * key_len], &[]));
        let mut runs: SmallVec<[Run<'_>; 2]> = SmallVec::new();
        let mut rest = &*queries;
        for segment in &*segments {
            runs.push(Run {
                spec,
                shape: attention,
                sinks: None,
                cache: segment.cache.layer(index),
                queries: rest.split_off(..segment.tokens.len() * query_len).unwrap_or_default(),
                start: segment.cache.len(),
            });
        }
        // Shape: `[tokens, heads, rank]`.
        let attended = room(attended, tokens * heads * shape.rank);
        attend(self.team, &runs, parts, attended);
        let out = room(gate, tokens * heads * shape.value_dim);
        let (of_head, projected) = (room(up, tokens * shape.rank), room(mixed, tokens * shape.value_dim));
        for (head, linear) in weights.value.iter().enumerate() {
            for (token, of_head) in of_head.chunks_exact_mut(shape.rank).enumerate() {
                of_head.copy_from_slice(&attended[(token * heads + head) * shape.rank..][..shape.rank]);
            }
            let input = self.input(of_head);
            products(self.team, rounded, input, [(linear, &mut *projected)]);
            for (token, projected) in projected.chunks_exact(shape.value_dim).enumerate() {
                out[(token * heads + head) * shape.value_dim..][..shape.value_dim].copy_from_slice(projected);
            }
        }
        let input = self.input(out);
        products(self.team, rounded, input, [(&weights.output, room(result, tokens * spec.hidden))]);
    }

    /// Computes only the keys of the layer at `index`, and writes them to the caches of the segments.
    /// Reads `workspace.normed`.
    pub(super) fn write_latent_keys(
        &self,
        index: usize,
        weights: &LatentWeights<Packed>,
        segments: &mut [Segment<'_>],
        workspace: &mut Workspace,
    ) {
        let attention = weights.shape.attention();
        self.latent_keys(weights, workspace);
        let keys = &mut workspace.keys[..self.roundings.len() * attention.head_dim];
        self.write((index, attention), None, segments, (&mut [], keys, &[]));
    }

    /// Computes the keys before their rotation: for each token, the part to rotate and the latent
    /// vector. Reads `workspace.normed` and writes `workspace.keys`, of shape `[tokens, head_dim]`.
    fn latent_keys(&self, weights: &LatentWeights<Packed>, workspace: &mut Workspace) {
        let (tokens, shape) = (self.roundings.len(), weights.shape);
        let len = shape.rank + shape.rope_dim;
        let Workspace { normed, keys, mixed, rounded, .. } = workspace;
        let input = self.input(&normed[..tokens * self.spec.hidden]);
        let (keys, mixed) = (room(keys, tokens * len), room(mixed, tokens * len));
        products(self.team, rounded, input, [(&weights.latent, &mut *mixed)]);
        self.team.for_pairs((keys, len), (mixed, len), |_, key, mixed| {
            let (latent, rotated) = mixed.split_at_mut(shape.rank);
            rms_norm_row(latent, &weights.latent_norm, shape.norm_epsilon);
            key[..shape.rope_dim].copy_from_slice(rotated);
            key[shape.rope_dim..].copy_from_slice(latent);
        });
    }
}
