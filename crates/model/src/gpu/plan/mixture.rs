//! Steps of mixtures of experts.

use formwork_gpu::Buffer;
use formwork_gpu::layer::{self, Bound, Columns, RowNorm};
use formwork_gpu::mixture::{self, Mix, Router};
use formwork_gpu::product::{Activations, Outputs};

use super::bind::{Bind, DenseRows, PlannedDense};
use super::steps::{Products, Steps};
use super::workspace::{BothSpace, MixtureSpace};
use crate::gpu::weights::{DenseAndExperts, Mixture};
use crate::spec::Scores;

pub(super) struct PlannedMixture {
    router: Products,
    route: [Bound; 2],
    /// Number of experts of a token.
    used: u32,
    /// Projection to the space of the experts, and its rounding.
    before: Option<(Products, Bound)>,
    experts: PlannedDense,
    shared: Option<(PlannedDense, Option<Products>)>,
    mix: Bound,
    /// Rounding of the mixture, and the projection from the space of the experts.
    after: Option<(Bound, Products)>,
    /// Addition of the shared expert after this projection.
    add_shared: Option<Bound>,
}

/// A dense block and a mixture side by side.
pub(super) struct PlannedBoth {
    dense: PlannedDense,
    /// Norms of the dense block's output, and of the inputs of the router and of the experts.
    norms: [Bound; 3],
    mixture: PlannedMixture,
    /// Norm of the mixture, and addition of the dense block's output.
    join: Bound,
}

impl PlannedBoth {
    pub(super) fn steps(&self, steps: &mut Steps<'_>) {
        let tokens = steps.tokens();
        self.dense.steps(tokens, steps);
        steps.begin("norms");
        for norm in &self.norms {
            steps.push(norm.by_x(tokens));
        }
        self.mixture.steps(steps);
        steps.begin("norms").push(self.join.by_x(tokens));
    }
}

impl PlannedMixture {
    pub(super) fn steps(&self, steps: &mut Steps<'_>) {
        let tokens = steps.tokens();
        steps.begin("router").products(&self.router);
        let [choose, sort] = &self.route;
        steps.push(choose.by_x(tokens));
        steps.push(sort.by_x(1));
        if let Some((shared, gate)) = &self.shared {
            if let Some(gate) = gate {
                steps.products(gate);
            }
            shared.steps(tokens, steps);
        }
        if let Some((products, round)) = &self.before {
            steps.begin("space of the experts").products(products);
            steps.push(round.by_y(tokens));
        }
        self.experts.steps(tokens * self.used, steps);
        steps.begin("sum of the experts").push(self.mix.by_y(tokens));
        if let Some((round, products)) = &self.after {
            steps.begin("space of the experts").push(round.by_y(tokens));
            steps.products(products);
        }
        if let Some(add) = &self.add_shared {
            steps.begin("sum of the experts").push(add.by_y(tokens));
        }
    }
}

impl Bind<'_> {
    /// Binds a mixture. `router_x` is the input of the router, and `out` the result.
    pub(super) fn mixture(
        &self,
        (mixture, router_x): (&Mixture, &Activations),
        space: &MixtureSpace,
        out: &Buffer,
    ) -> PlannedMixture {
        let (gpu, workspace, spec) = (self.gpu, self.workspace, mixture.spec);
        let (batch, hidden) = (&workspace.batch, self.hidden());
        let gating = spec.gating;
        let router = Router {
            experts: spec.count,
            used: spec.used,
            scores: match gating.scores {
                Scores::Softmax => mixture::Scores::Softmax,
                Scores::SoftmaxOverChosen => mixture::Scores::SoftmaxOverChosen,
                Scores::Sigmoid => mixture::Scores::Sigmoid,
            },
            groups: gating.groups.map(|groups| mixture::Groups {
                count: groups.count,
                used: groups.used,
                best: groups.best,
            }),
            normalised: gating.normalised,
            scale: gating.scale,
            bias: mixture.choice_bias.as_ref(),
            factors: mixture.output_scales.as_ref(),
        };
        let narrow = spec.latent.map(|width| (width, width.next_multiple_of(32)));
        let outputs = |rows: u32, has_pairs| {
            let rows = rows / spec.count as u32;
            Outputs::Experts { choice: space.choice.clone(), rows, has_pairs }
        };
        let wide = mixture.experts.gate_up[0].matrix.rows;
        let rows = DenseRows {
            x: if narrow.is_some() { &space.narrow_x } else { &workspace.x },
            out: (&space.outputs, narrow.map_or(hidden, |(_, stride)| stride)),
        };
        let shared = mixture.shared.as_ref().map(|(shared, gate)| {
            let gate = gate.as_ref().map(|gate| self.products(gate, &workspace.x, (&space.shared_gate, 1)));
            (self.dense(shared, &space.shared), gate)
        });
        let added =
            shared.as_ref().map(|(_, gate)| (&space.shared, gate.as_ref().map(|_| &space.shared_gate)));
        let routed = Some((&space.choice, &space.outputs));
        let ends = |linears: &[crate::gpu::weights::Linear; 2], (width, stride): (usize, usize)| {
            let narrow = Columns { buffer: &space.narrow, stride, first: 0 };
            let round = layer::round(gpu, batch, narrow, (&space.narrow_x, width));
            let before = self.products(&linears[0], &workspace.x, (&space.narrow, stride));
            let after = self.products(&linears[1], &space.narrow_x, (out, hidden));
            ((before, round.clone()), (round, after))
        };
        let (before, after) =
            mixture.latent.as_ref().zip(narrow).map(|(latent, narrow)| ends(latent, narrow)).unzip();
        let mix = match narrow {
            Some((width, _)) => Mix { width, routed, shared: None }.bind(gpu, batch, &space.narrow),
            None => Mix { width: self.spec.hidden, routed, shared: added }.bind(gpu, batch, out),
        };
        let add_shared = narrow.and(added).map(|_| {
            let mix = Mix { width: self.spec.hidden, routed: None, shared: added };
            mix.bind(gpu, batch, out)
        });
        PlannedMixture {
            router: self.products(&mixture.router, router_x, (&space.logits, spec.count)),
            route: router.bind(gpu, batch, &space.logits, &space.choice),
            used: spec.used as u32,
            before,
            experts: self.dense_of(
                &mixture.experts,
                &rows,
                [&outputs(wide, false), &outputs(mixture.experts.down.matrix.rows, true)],
            ),
            shared,
            mix,
            after,
            add_shared,
        }
    }

    /// Binds a dense block and a mixture side by side.
    pub(super) fn both(
        &self,
        block: &DenseAndExperts,
        (space, both): (&MixtureSpace, &BothSpace),
    ) -> PlannedBoth {
        let (gpu, workspace, hidden) = (self.gpu, self.workspace, self.hidden());
        let norm = |buffer, weight, added, out: &Activations| {
            let y = Columns { buffer, stride: hidden, first: 0 };
            let (width, epsilon) = (self.spec.hidden, self.spec.norm_epsilon);
            RowNorm { y, width, epsilon, weight, added }.bind(gpu, &workspace.batch, out)
        };
        let result = Activations { floats: workspace.y.clone(), ..workspace.x.clone() };
        PlannedBoth {
            dense: self.dense(&block.dense, &both.dense),
            norms: [
                norm(&both.dense, &block.dense_norm, None, &both.normed),
                norm(&workspace.residual, &block.router_norm, None, &both.router_x),
                // The dense block has read its input.
                norm(&workspace.residual, &block.experts_norm, None, &workspace.x),
            ],
            mixture: self.mixture((&block.mixture, &both.router_x), space, &both.mixture),
            join: norm(&both.mixture, &block.mixture_norm, Some(&both.normed.floats), &result),
        }
    }
}
