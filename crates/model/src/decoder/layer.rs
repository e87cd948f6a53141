use formwork_vocab::TokenId;
use rayon::prelude::*;

use super::attention::Run;
use super::kv::KvCache;
use super::product::{Rounding, products};
use super::workspace::{Workspace, room};
use crate::ops::{add_scaled, rms_norm, rms_norm_in_place};
use crate::rope::Rotation;
use crate::spec::ModelSpec;
use crate::weights::{LayerWeights, Packed};

/// What the tokens on their way through the layers have in common.
pub(super) struct Pass<'a> {
    pub(super) spec: &'a ModelSpec,
    /// One per token.
    pub(super) roundings: Vec<Rounding>,
}

/// A sequence's part of a pass: some tokens that come next in it.
pub(super) struct Segment<'a> {
    pub(super) cache: &'a mut KvCache,
    pub(super) tokens: &'a [TokenId],
    /// One per set of frequencies, for the positions of the tokens.
    pub(super) rotations: Vec<Rotation>,
}

impl Pass<'_> {
    /// Adds layer `index` to the residual stream `x`, `[tokens, hidden]`, of all segments, one after the other, and their
    /// keys and values to their caches.
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
        self.feed_forward(weights, workspace);
        self.add(x, &mut workspace.result[..x.len()], weights.post_feed_forward_norm.as_deref());
    }

    /// What enters a block.
    fn normed(&self, x: &[f32], norm: Option<&[f32]>, workspace: &mut Workspace) {
        let normed = room(&mut workspace.normed, x.len());
        match norm {
            Some(norm) => rms_norm(x, norm, self.spec.norm_epsilon, normed),
            None => normed.copy_from_slice(x),
        }
    }

    /// Adds a block's result to the residual stream.
    fn add(&self, x: &mut [f32], result: &mut [f32], norm: Option<&[f32]>) {
        if let Some(norm) = norm {
            rms_norm_in_place(result, norm, self.spec.norm_epsilon);
        }
        add_scaled(x, result, self.spec.residual_scale);
    }

    /// The attention block: `result` from `normed`, `[tokens, hidden]`.
    fn attention(
        &self,
        index: usize,
        weights: &LayerWeights<Packed>,
        segments: &mut [Segment<'_>],
        workspace: &mut Workspace,
    ) {
        let spec = self.spec;
        let tokens = self.roundings.len();
        let (query_len, key_len) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let Workspace { normed, result, queries, keys, values, attended, rounded, .. } = workspace;
        // [tokens, heads, head_dim], and twice [tokens, kv_heads, head_dim]
        let mut queries = room(queries, tokens * query_len);
        let mut keys = room(keys, tokens * key_len);
        let values = room(values, tokens * key_len);
        let parts =
            [(&weights.query, &mut *queries), (&weights.key, &mut *keys), (&weights.value, &mut *values)];
        products(rounded, &self.roundings, &normed[..tokens * spec.hidden], parts);
        if let Some(norm) = &weights.qk_norm {
            rms_norm_in_place(queries, &norm.query, spec.norm_epsilon);
            rms_norm_in_place(keys, &norm.key, spec.norm_epsilon);
        }
        let attended = room(attended, tokens * query_len);
        let (mut values, mut out) = (&*values, &mut *attended);
        let mut own = |segment: &Segment<'_>| {
            let len = segment.tokens.len();
            Own {
                queries: queries.split_off_mut(..len * query_len).unwrap_or_default(),
                keys: keys.split_off_mut(..len * key_len).unwrap_or_default(),
                values: values.split_off(..len * key_len).unwrap_or_default(),
                attended: out.split_off_mut(..len * query_len).unwrap_or_default(),
            }
        };
        let attend = |segment: &mut Segment<'_>, own| {
            segment.attention(spec, index, weights.sinks.as_deref(), own);
        };
        // One sequence is divided by its heads.
        if let [segment] = segments {
            let own = own(segment);
            attend(segment, own);
        } else {
            let own: Vec<Own<'_>> = segments.iter().map(own).collect();
            segments.par_iter_mut().zip(own).for_each(|(segment, own)| attend(segment, own));
        }
        let result = room(result, tokens * spec.hidden);
        products(rounded, &self.roundings, attended, [(&weights.output, result)]);
    }
}

/// A segment's rows of the queries, keys and values, and of what attention gives.
struct Own<'a> {
    queries: &'a mut [f32],
    keys: &'a mut [f32],
    values: &'a [f32],
    attended: &'a mut [f32],
}

impl Segment<'_> {
    /// Rotates the queries and keys of the segment's tokens, writes keys and values to the cache, and attends.
    fn attention(&mut self, spec: &ModelSpec, index: usize, sinks: Option<&[f32]>, own: Own<'_>) {
        let Own { queries, keys, values, attended } = own;
        let (query_len, key_len) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let layer = spec.layers[index];
        if let Some(rope) = layer.rope {
            self.rotations[rope].apply(queries, query_len, spec.head_dim);
            self.rotations[rope].apply(keys, key_len, spec.head_dim);
        }
        let start = self.cache.len();
        let cache = self.cache.layer_mut(index);
        for (token, (key, value)) in keys.chunks_exact(key_len).zip(values.chunks_exact(key_len)).enumerate()
        {
            cache.write(start + token, key, value);
        }
        Run { spec, layer, sinks, cache, queries, start }.attend(attended);
    }
}
