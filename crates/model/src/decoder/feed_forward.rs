//! The feed-forward block of a layer: one for all tokens, or for each token some experts out of many.

use super::GEMM_FROM;
use super::layer::Pass;
use super::ops::{gated, softmax};
use super::product::{Path, products};
use crate::spec::{ExpertSpec, Gating};
use crate::weights::{FeedForward, GatedLinear, LayerWeights, Linear};

impl Pass<'_> {
    /// The block's result, `[tokens, hidden]`.
    pub(super) fn feed_forward(&self, weights: &LayerWeights, x: &[f32]) -> candle_core::Result<Vec<f32>> {
        match &weights.feed_forward {
            FeedForward::Experts { spec, router, experts } => self.experts(*spec, router, experts, x),
            FeedForward::Dense(dense) => self.dense(self.path, dense, x),
        }
    }

    fn dense(&self, path: Path, weights: &GatedLinear, x: &[f32]) -> candle_core::Result<Vec<f32>> {
        // [tokens, feed_forward]
        let [mut gate, up] = products(path, x, [&weights.gate, &weights.up])?;
        gated(self.spec.activation, &mut gate, &up);
        let [fed] = products(path, &gate, [&weights.down])?;
        Ok(fed)
    }

    fn experts(
        &self,
        spec: ExpertSpec,
        router: &Linear,
        experts: &[GatedLinear],
        x: &[f32],
    ) -> candle_core::Result<Vec<f32>> {
        let hidden = self.spec.hidden;
        // Which experts a token goes to must not depend on how many others come with it.
        let [scores] = products(Path::Dot, x, [router])?;
        // [experts], each with its tokens and the weights of these.
        let mut chosen: Vec<Vec<(usize, f32)>> = vec![Vec::new(); experts.len()];
        for (token, scores) in scores.chunks_exact(spec.count).enumerate() {
            for (expert, weight) in choose(spec, scores) {
                chosen[expert].push((token, weight));
            }
        }
        let mut out = vec![0.0; x.len()];
        for (expert, tokens) in experts.iter().zip(chosen).filter(|(_, tokens)| !tokens.is_empty()) {
            let rows = tokens.iter().flat_map(|&(token, _)| &x[token * hidden..(token + 1) * hidden]);
            let rows: Vec<f32> = rows.copied().collect();
            let path = if tokens.len() < GEMM_FROM { Path::Dot } else { self.path };
            let fed = self.dense(path, expert, &rows)?;
            for ((token, weight), fed) in tokens.into_iter().zip(fed.chunks_exact(hidden)) {
                for (out, fed) in out[token * hidden..(token + 1) * hidden].iter_mut().zip(fed) {
                    *out += weight * fed;
                }
            }
        }
        Ok(out)
    }
}

/// The experts of a token with the highest scores, the lower of equal ones first, and their weights.
fn choose(spec: ExpertSpec, scores: &[f32]) -> Vec<(usize, f32)> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order.truncate(spec.used);
    let mut weights: Vec<f32> = match spec.gating {
        Gating::SoftmaxOverChosen => order.iter().map(|&expert| scores[expert]).collect(),
        Gating::Softmax => scores.to_vec(),
    };
    softmax(&mut weights, None);
    let weight = |(place, expert): (usize, usize)| match spec.gating {
        Gating::SoftmaxOverChosen => (expert, weights[place]),
        Gating::Softmax => (expert, weights[expert]),
    };
    order.into_iter().enumerate().map(weight).collect()
}
