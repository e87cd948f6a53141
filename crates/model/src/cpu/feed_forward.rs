//! Feed-forward block of a layer, which is either dense or a mixture of experts.

use super::layer::Pass;
use super::product::{Input, Rounded, Rounding, gated_products, products};
use super::workspace::{Workspace, room};
use crate::adapter::Adapter;
use crate::ops::{add_scaled, rms_norm, rms_norm_in_place, scale, sigmoid, ungated};
use crate::routing::route;
use crate::weights::{DenseAndExperts, FeedForward, GatedLinear, Linear, Mixture, Packed, SharedExpert};

/// Number of elements that a parallel task passes through an activation without an up projection.
const ACTIVATED: usize = 1 << 11;

/// The tokens that a block computes.
#[derive(Clone, Copy)]
struct Tokens<'a> {
    /// One rounding for each token.
    roundings: &'a [Rounding],
    /// The adapter of each token. Empty if no token has one.
    adapters: &'a [Option<&'a Adapter>],
}

impl Pass<'_> {
    /// Computes a feed-forward block. Reads `workspace.normed`, which is the residual
    /// stream `x` after the layer's norm, and writes `workspace.result`. Shape of all three:
    /// `[tokens, hidden]`.
    pub(super) fn feed_forward(&self, block: &FeedForward<Packed>, x: &[f32], workspace: &mut Workspace) {
        match block {
            FeedForward::Nothing => {}
            FeedForward::Experts(mixture) => {
                let Workspace { normed, rounded, .. } = &mut *workspace;
                let logits = self.projected(&mixture.router, &normed[..x.len()], rounded);
                self.experts(mixture, &logits, workspace);
            }
            FeedForward::DenseAndExperts(both) => self.dense_and_experts(both, x, workspace),
            FeedForward::Dense(dense) => self.dense(dense, self.tokens(), workspace),
        }
    }

    /// Returns the roundings and the adapters of all tokens.
    fn tokens(&self) -> Tokens<'_> {
        Tokens { roundings: &self.roundings, adapters: &self.adapters }
    }

    /// Computes a dense block, or one expert, in the same way.
    fn dense(&self, weights: &GatedLinear<Packed>, tokens: Tokens<'_>, workspace: &mut Workspace) {
        let Workspace { normed, result, gate, up, rounded, .. } = workspace;
        let Tokens { roundings, adapters } = tokens;
        let tokens = roundings.len();
        let wide = tokens * weights.gate.weight.rows;
        // Shape: `[tokens, feed_forward]`.
        let (gate, up) = (room(gate, wide), room(up, wide));
        let input = Input { x: &normed[..tokens * weights.gate.weight.columns], roundings, adapters };
        if let Some(linear) = &weights.up {
            let parts = [(&weights.gate, &mut *gate), (linear, up)];
            gated_products(self.team, rounded, input, parts, self.spec.activation);
        } else {
            products(self.team, rounded, input, [(&weights.gate, &mut *gate)]);
            self.team.for_chunks(gate, ACTIVATED, |_, gate| ungated(self.spec.activation, gate));
        }
        let input = Input { x: gate, roundings, adapters };
        let result = room(result, tokens * weights.down.weight.rows);
        products(self.team, rounded, input, [(&weights.down, result)]);
    }

    /// Computes a dense block and a mixture side by side, as [`Pass::feed_forward`] does.
    fn dense_and_experts(&self, both: &DenseAndExperts<Packed>, x: &[f32], workspace: &mut Workspace) {
        let epsilon = self.spec.norm_epsilon;
        self.dense(&both.dense, self.tokens(), workspace);
        let mut sum = workspace.result[..x.len()].to_vec();
        rms_norm_in_place(self.team, &mut sum, &both.dense_norm, epsilon);
        let mut routed = vec![0.0; x.len()];
        rms_norm(self.team, x, &both.router_norm, epsilon, &mut routed);
        let logits = self.projected(&both.mixture.router, &routed, &mut workspace.rounded);
        rms_norm(self.team, x, &both.experts_norm, epsilon, room(&mut workspace.normed, x.len()));
        self.experts(&both.mixture, &logits, workspace);
        let result = room(&mut workspace.result, x.len());
        rms_norm_in_place(self.team, result, &both.mixture_norm, epsilon);
        add_scaled(self.team, result, &sum, 1.0);
    }

    /// Computes a mixture with the router's `logits`, of shape `[tokens, experts]`. Reads
    /// `workspace.normed` and writes `workspace.result`.
    fn experts(&self, mixture: &Mixture<Packed>, logits: &[f32], workspace: &mut Workspace) {
        let tokens = self.roundings.len();
        let x = workspace.normed[..tokens * self.spec.hidden].to_vec();
        let shared = mixture.shared.as_ref().map(|shared| self.shared_expert(shared, &x, workspace));
        let width = mixture.spec.latent.unwrap_or(self.spec.hidden);
        let narrow =
            mixture.latent.as_ref().map(|[before, _]| self.projected(before, &x, &mut workspace.rounded));
        let inputs = narrow.as_ref().unwrap_or(&x);
        let mut sum = vec![0.0; tokens * width];
        let (bias, scales) = (mixture.choice_bias.as_deref(), mixture.output_scales.as_deref());
        let routes = route(mixture.spec, logits, bias, scales);
        for (expert, tokens) in mixture.experts.iter().zip(routes).filter(|(_, tokens)| !tokens.is_empty()) {
            let rows = tokens.iter().flat_map(|&(token, _)| &inputs[token * width..(token + 1) * width]);
            room(&mut workspace.normed, x.len()).iter_mut().zip(rows).for_each(|(to, from)| *to = *from);
            let roundings: Vec<Rounding> = tokens.iter().map(|&(token, _)| self.roundings[token]).collect();
            let adapters = tokens.iter().filter_map(|&(token, _)| self.adapters.get(token).copied());
            let adapters: Vec<Option<&Adapter>> = adapters.collect();
            let own = Tokens { roundings: &roundings, adapters: &adapters };
            self.dense(expert, own, workspace);
            for ((token, weight), fed) in tokens.into_iter().zip(workspace.result.chunks_exact(width)) {
                for (out, fed) in sum[token * width..(token + 1) * width].iter_mut().zip(fed) {
                    *out += weight * fed;
                }
            }
        }
        if let Some([_, after]) = &mixture.latent {
            sum = self.projected(after, &sum, &mut workspace.rounded);
        }
        if let Some(shared) = shared {
            add_scaled(self.team, &mut sum, &shared, 1.0);
        }
        room(&mut workspace.result, sum.len()).copy_from_slice(&sum);
    }

    /// Returns the products of the inputs `x` of a block with a small matrix. Shape: `[tokens, rows]`.
    fn projected(&self, linear: &Linear<Packed>, x: &[f32], rounded: &mut Rounded) -> Vec<f32> {
        let mut out = vec![0.0; self.roundings.len() * linear.weight.rows];
        let input = self.input(x);
        products(self.team, rounded, input, [(linear, &mut out)]);
        out
    }

    /// Returns the output of the shared expert for the inputs `x`, which are also in
    /// `workspace.normed`. Shape of both: `[tokens, hidden]`.
    fn shared_expert(&self, shared: &SharedExpert<Packed>, x: &[f32], workspace: &mut Workspace) -> Vec<f32> {
        let factors = shared.gate.as_ref().map(|gate| self.projected(gate, x, &mut workspace.rounded));
        self.dense(&shared.block, self.tokens(), workspace);
        let mut out = workspace.result[..x.len()].to_vec();
        if let Some(factors) = factors {
            for (out, factor) in out.chunks_exact_mut(self.spec.hidden).zip(factors) {
                scale(out, sigmoid(factor));
            }
        }
        out
    }
}
