//! Steps of the additional inputs of layers, which depend on the token.

use formwork_gpu::layer::{self, Bound, Columns};

use super::bind::{Bind, activation};
use super::steps::{Products, Steps};
use super::workspace::LayerInputSpace;
use crate::gpu::weights::{LayerInput, LayerInputs};

/// Computation of the inputs of all layers.
pub(super) struct PlannedInputs {
    /// Rounds the embeddings.
    enter: Bound,
    projection: Products,
    norm: Bound,
}

/// Addition of a layer's input to the residual stream.
pub(super) struct PlannedInput {
    gate: Products,
    activate: Bound,
    projection: Products,
}

impl PlannedInputs {
    pub(super) fn steps(&self, steps: &mut Steps<'_>) {
        let tokens = steps.tokens();
        steps.begin("inputs of layers").push(self.enter.by_x(tokens));
        steps.products(&self.projection);
        steps.push(self.norm.by_y(tokens));
    }
}

impl PlannedInput {
    pub(super) fn steps(&self, steps: &mut Steps<'_>) {
        let tokens = steps.tokens();
        steps.begin("inputs of layers").products(&self.gate);
        steps.push(self.activate.by_y(tokens));
        steps.products(&self.projection);
    }
}

impl Bind<'_> {
    pub(super) fn layer_inputs(&self, inputs: &LayerInputs, space: &LayerInputSpace) -> PlannedInputs {
        let (weight, width) = &inputs.norm;
        let shape = (self.spec.layers.len(), *width, self.spec.norm_epsilon);
        let all = shape.0 * width;
        let batch = &self.workspace.batch;
        PlannedInputs {
            enter: self.norm(None, None, true),
            projection: self.products(&inputs.projection, &self.workspace.x, (&space.inputs, all)),
            norm: layer::layer_inputs(self.gpu, batch, shape, [&space.embedded, weight], &space.inputs),
        }
    }

    pub(super) fn layer_input(
        &self,
        (index, input): (usize, &LayerInput),
        space: &LayerInputSpace,
    ) -> PlannedInput {
        let workspace = self.workspace;
        let width = input.gate.matrix.rows as usize;
        let stride = width.next_multiple_of(32);
        let all = self.spec.layers.len() * width;
        let up = Columns { buffer: &space.inputs, stride: all, first: index * width };
        let gate = (&workspace.gate_up, width, up);
        let activation = activation(self.spec.activation);
        PlannedInput {
            gate: self.products(&input.gate, &workspace.x, (&workspace.gate_up, stride)),
            activate: activation.bind_to(self.gpu, &workspace.batch, gate, &workspace.activated),
            projection: self.products(&input.projection, &workspace.activated, (&workspace.y, self.hidden())),
        }
    }
}
