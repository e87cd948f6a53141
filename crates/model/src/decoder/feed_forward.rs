//! The feed-forward block of a layer: one for all tokens, or for each token some experts out of many.

use super::layer::Pass;
use super::product::{Rounding, products};
use crate::ops::gated;
use crate::routing::route;
use crate::spec::ExpertSpec;
use crate::weights::{FeedForward, GatedLinear, LayerWeights, Linear, Packed};

impl Pass<'_> {
    /// The block's result, `[tokens, hidden]`.
    pub(super) fn feed_forward(&self, weights: &LayerWeights<Packed>, x: &[f32]) -> Vec<f32> {
        match &weights.feed_forward {
            FeedForward::Experts { spec, router, experts } => self.experts(*spec, router, experts, x),
            FeedForward::Dense(dense) => self.dense(dense, &self.roundings, x),
        }
    }

    fn dense(&self, weights: &GatedLinear<Packed>, roundings: &[Rounding], x: &[f32]) -> Vec<f32> {
        // [tokens, feed_forward]
        let [mut gate, up] = products(roundings, x, [&weights.gate, &weights.up]);
        gated(self.spec.activation, &mut gate, &up);
        let [fed] = products(roundings, &gate, [&weights.down]);
        fed
    }

    fn experts(
        &self,
        spec: ExpertSpec,
        router: &Linear<Packed>,
        experts: &[GatedLinear<Packed>],
        x: &[f32],
    ) -> Vec<f32> {
        let hidden = self.spec.hidden;
        let [scores] = products(&self.roundings, x, [router]);
        let mut out = vec![0.0; x.len()];
        for (expert, tokens) in
            experts.iter().zip(route(spec, &scores)).filter(|(_, tokens)| !tokens.is_empty())
        {
            let rows = tokens.iter().flat_map(|&(token, _)| &x[token * hidden..(token + 1) * hidden]);
            let rows: Vec<f32> = rows.copied().collect();
            let roundings: Vec<Rounding> = tokens.iter().map(|&(token, _)| self.roundings[token]).collect();
            let fed = self.dense(expert, &roundings, &rows);
            for ((token, weight), fed) in tokens.into_iter().zip(fed.chunks_exact(hidden)) {
                for (out, fed) in out[token * hidden..(token + 1) * hidden].iter_mut().zip(fed) {
                    *out += weight * fed;
                }
            }
        }
        out
    }
}
