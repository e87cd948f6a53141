use super::attention::attend;
use super::kv::KvCache;
use super::ops::{add, gated, rms_norm, rms_norm_in_place};
use super::product::{Path, products};
use super::rope::Rotation;
use crate::spec::ModelSpec;
use crate::weights::LayerWeights;

/// A piece of a run on its way through the layers.
pub(super) struct Pass<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) path: Path,
    /// One per set of frequencies, for the positions of the piece.
    pub(super) rotations: Vec<Rotation>,
}

impl Pass<'_> {
    /// Adds layer `index` to the residual stream `x`, `[tokens, hidden]`, and its keys and values to the cache.
    pub(super) fn layer(
        &self,
        index: usize,
        weights: &LayerWeights,
        cache: &mut KvCache,
        x: &mut [f32],
    ) -> candle_core::Result<()> {
        let epsilon = self.spec.norm_epsilon;
        let normed = rms_norm(x, &weights.attention_norm, epsilon);
        let mut attended = self.attention(index, weights, cache, &normed)?;
        if let Some(norm) = &weights.post_attention_norm {
            rms_norm_in_place(&mut attended, norm, epsilon);
        }
        add(x, &attended);
        let normed = rms_norm(x, &weights.feed_forward_norm, epsilon);
        // [tokens, feed_forward]
        let [mut gate, up] = products(self.path, &normed, [&weights.gate, &weights.up])?;
        gated(self.spec.activation, &mut gate, &up);
        let [mut fed] = products(self.path, &gate, [&weights.down])?;
        if let Some(norm) = &weights.post_feed_forward_norm {
            rms_norm_in_place(&mut fed, norm, epsilon);
        }
        add(x, &fed);
        Ok(())
    }

    /// The attention block's result, `[tokens, hidden]`.
    fn attention(
        &self,
        index: usize,
        weights: &LayerWeights,
        cache: &mut KvCache,
        x: &[f32],
    ) -> candle_core::Result<Vec<f32>> {
        let (spec, layer) = (self.spec, self.spec.layers[index]);
        // [tokens, heads, head_dim], and twice [tokens, kv_heads, head_dim]
        let [mut queries, mut keys, values] =
            products(self.path, x, [&weights.query, &weights.key, &weights.value])?;
        if let Some(norm) = &weights.qk_norm {
            rms_norm_in_place(&mut queries, &norm.query, spec.norm_epsilon);
            rms_norm_in_place(&mut keys, &norm.key, spec.norm_epsilon);
        }
        let (query_len, key_len) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let rotation = &self.rotations[layer.rope];
        let start = cache.len();
        let cache = cache.layer_mut(index);
        let rows = queries
            .chunks_exact_mut(query_len)
            .zip(keys.chunks_exact_mut(key_len))
            .zip(values.chunks_exact(key_len));
        for (token, ((query, key), value)) in rows.enumerate() {
            rotation.apply(token, query, spec.head_dim);
            rotation.apply(token, key, spec.head_dim);
            cache.write(start + token, key, value);
        }
        let attended = attend(spec, layer, cache, &queries, start);
        let [out] = products(self.path, &attended, [&weights.output])?;
        Ok(out)
    }
}
