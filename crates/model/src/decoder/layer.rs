use std::borrow::Cow;

use formwork_vocab::TokenId;
use rayon::prelude::*;

use super::attention::attend;
use super::kv::KvCache;
use super::product::{Rounding, products};
use crate::ops::{add, rms_norm, rms_norm_in_place, scale};
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
        index: usize,
        weights: &LayerWeights<Packed>,
        segments: &mut [Segment<'_>],
        x: &mut [f32],
    ) {
        let normed = self.normed(x, weights.attention_norm.as_deref());
        let mut attended = self.attention(index, weights, segments, &normed);
        self.add(x, &mut attended, weights.post_attention_norm.as_deref());
        let mut fed = self.feed_forward(weights, &self.normed(x, weights.feed_forward_norm.as_deref()));
        self.add(x, &mut fed, weights.post_feed_forward_norm.as_deref());
    }

    /// What enters a block.
    fn normed<'x>(&self, x: &'x [f32], norm: Option<&[f32]>) -> Cow<'x, [f32]> {
        match norm {
            Some(norm) => rms_norm(x, norm, self.spec.norm_epsilon).into(),
            None => x.into(),
        }
    }

    /// Adds a block's result to the residual stream.
    fn add(&self, x: &mut [f32], result: &mut [f32], norm: Option<&[f32]>) {
        if let Some(norm) = norm {
            rms_norm_in_place(result, norm, self.spec.norm_epsilon);
        }
        scale(result, self.spec.residual_scale);
        add(x, result);
    }

    /// The attention block's result, `[tokens, hidden]`.
    fn attention(
        &self,
        index: usize,
        weights: &LayerWeights<Packed>,
        segments: &mut [Segment<'_>],
        x: &[f32],
    ) -> Vec<f32> {
        let spec = self.spec;
        // [tokens, heads, head_dim], and twice [tokens, kv_heads, head_dim]
        let [mut queries, mut keys, values] =
            products(&self.roundings, x, [&weights.query, &weights.key, &weights.value]);
        if let Some(norm) = &weights.qk_norm {
            rms_norm_in_place(&mut queries, &norm.query, spec.norm_epsilon);
            rms_norm_in_place(&mut keys, &norm.key, spec.norm_epsilon);
        }
        let (query_len, key_len) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let (mut queries, mut keys, mut values) = (&mut queries[..], &mut keys[..], &values[..]);
        let own = |segment: &Segment<'_>| {
            let len = segment.tokens.len();
            let queries = queries.split_off_mut(..len * query_len).unwrap_or_default();
            let keys = keys.split_off_mut(..len * key_len).unwrap_or_default();
            (queries, keys, values.split_off(..len * key_len).unwrap_or_default())
        };
        let own: Vec<_> = segments.iter().map(own).collect();
        let attend = |(segment, own): (&mut Segment<'_>, _)| {
            segment.attention(spec, index, weights.sinks.as_deref(), own)
        };
        // One sequence is divided by its heads.
        let attended: Vec<Vec<f32>> = match segments.len() {
            1 => segments.iter_mut().zip(own).map(attend).collect(),
            _ => segments.par_iter_mut().zip(own).map(attend).collect(),
        };
        let attended = attended.concat();
        let [out] = products(&self.roundings, &attended, [&weights.output]);
        out
    }
}

impl Segment<'_> {
    /// Rotates the queries and keys of the segment's tokens, writes keys and values to the cache, and attends.
    fn attention(
        &mut self,
        spec: &ModelSpec,
        index: usize,
        sinks: Option<&[f32]>,
        (queries, keys, values): (&mut [f32], &mut [f32], &[f32]),
    ) -> Vec<f32> {
        let (query_len, key_len) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let layer = spec.layers[index];
        let rotation = layer.rope.map(|rope| &self.rotations[rope]);
        let start = self.cache.len();
        let cache = self.cache.layer_mut(index);
        let rows = queries
            .chunks_exact_mut(query_len)
            .zip(keys.chunks_exact_mut(key_len))
            .zip(values.chunks_exact(key_len));
        for (token, ((query, key), value)) in rows.enumerate() {
            if let Some(rotation) = rotation {
                rotation.apply(token, query, spec.head_dim);
                rotation.apply(token, key, spec.head_dim);
            }
            cache.write(start + token, key, value);
        }
        attend(spec, (layer, sinks), cache, queries, start)
    }
}
