//! Steps of mixers that keep a state of fixed size for a sequence.

use formwork_gpu::Buffer;
use formwork_gpu::layer::{self, Bound, Columns};
use formwork_gpu::recurrent::{self, GatedNorm, RecurrenceKind, Sharing};

use super::bind::Bind;
use super::steps::{Products, Steps};
use super::workspace::stride;
use crate::gpu::weights::{Convolution, Recurrent, RecurrentKind, ShortConvolution};
use crate::spec::HeadSharing;

pub(super) struct PlannedConvolution {
    input: Products,
    convolve: Bound,
    round: Bound,
    output: Products,
}

pub(super) struct PlannedRecurrence {
    input: Vec<Products>,
    convolve: Bound,
    recur: Bound,
    norm: Bound,
    output: Products,
}

impl PlannedConvolution {
    pub(super) fn steps(&self, steps: &mut Steps<'_>) {
        let (tokens, segments) = (steps.tokens(), steps.shape.segments as u32);
        steps.begin("projections").products(&self.input);
        steps.begin("convolution").push(self.convolve.by_y(segments));
        steps.push(self.round.by_y(tokens));
        steps.begin("output").products(&self.output);
    }
}

impl PlannedRecurrence {
    pub(super) fn steps(&self, steps: &mut Steps<'_>) {
        let (tokens, segments) = (steps.tokens(), steps.shape.segments as u32);
        steps.begin("projections");
        self.input.iter().for_each(|product| steps.products(product));
        steps.begin("convolution").push(self.convolve.by_y(segments));
        steps.begin("recurrence").push(self.recur.by_y(segments));
        steps.begin("gate, norm").push(self.norm.by_x(tokens));
        steps.begin("output").products(&self.output);
    }
}

impl Bind<'_> {
    /// Binds a convolution whose inputs are columns of the projections, from `first` on.
    fn convolve(&self, convolution: &Convolution, (stride, first): (usize, usize), state: &Buffer) -> Bound {
        let space = self.workspace;
        let step = recurrent::Convolution {
            x: Columns { buffer: &space.mixed, stride, first },
            channels: convolution.shape.channels,
            kernel: convolution.shape.kernel,
            factors: &convolution.factors,
            bias: convolution.bias.as_ref(),
            is_gated: convolution.is_gated,
        };
        step.bind(self.gpu, (&space.batch, &space.segments), state, &space.convolved)
    }

    /// Binds a gated convolution. `memory` has the states of the convolution.
    pub(super) fn short_convolution(
        &self,
        block: &ShortConvolution,
        memory: &[Buffer; 2],
    ) -> PlannedConvolution {
        let space = self.workspace;
        let channels = block.convolution.shape.channels;
        // A row has the gate of the input, the gate of the output, and the input.
        let stride = 3 * channels;
        let result = Columns { buffer: &space.convolved, stride: channels, first: 0 };
        PlannedConvolution {
            input: self.products(&block.input, &space.x, (&space.mixed, stride)),
            convolve: self.convolve(&block.convolution, (stride, 2 * channels), &memory[0]),
            round: layer::round(self.gpu, &space.batch, result, (&space.attended, channels)),
            output: self.output(&block.output),
        }
    }

    /// Binds a block with a recurrence. `memory` has the states of the convolution and of the recurrence.
    pub(super) fn recurrent(&self, block: &Recurrent, memory: &[Buffer; 2]) -> PlannedRecurrence {
        let space = self.workspace;
        let (stride, channels) = (stride(&block.input), block.convolution.shape.channels);
        let mixed = |first| Columns { buffer: &space.mixed, stride, first };
        let x = Columns { buffer: &space.convolved, stride: channels, first: 0 };
        let (first, gate, recurrence) = match block.kind {
            RecurrentKind::DeltaRule(shape) => {
                let (keys, values) = (shape.key_len(), shape.value_len());
                let rates = channels + values;
                let query_scale = 1.0 / (shape.key_dim as f32).sqrt();
                let recurrence = recurrent::Recurrence {
                    x,
                    mixed: mixed(0),
                    kind: RecurrenceKind::DeltaRule { rates, query_scale },
                    heads: shape.value_heads,
                    rows: shape.key_dim,
                    columns: shape.value_dim,
                    sharing: match shape.sharing {
                        HeadSharing::Neighbours => Sharing::Neighbours(shape.key_heads),
                        HeadSharing::Alternating => Sharing::Alternating(shape.key_heads),
                    },
                    starts: [0, keys, 2 * keys],
                    times: rates + shape.value_heads,
                    constants: &block.constants,
                };
                (0, channels, recurrence)
            }
            RecurrentKind::Mamba2(shape) => {
                let (inner, of_groups) = (shape.inner_len(), shape.groups * shape.state);
                let recurrence = recurrent::Recurrence {
                    x,
                    mixed: mixed(0),
                    kind: RecurrenceKind::Mamba2 { limits: shape.time_step_limits },
                    heads: shape.heads,
                    rows: shape.state,
                    columns: shape.head_dim,
                    sharing: Sharing::Neighbours(shape.groups),
                    starts: [inner + of_groups, inner, 0],
                    times: inner + channels,
                    constants: &block.constants,
                };
                (inner, 0, recurrence)
            }
        };
        let norm = GatedNorm {
            len: block.inner_len(),
            norms: match block.kind {
                RecurrentKind::DeltaRule(shape) => shape.value_heads,
                RecurrentKind::Mamba2(shape) => shape.groups,
            },
            epsilon: self.spec.norm_epsilon,
            weight: (&block.norm.0, block.norm.1),
            is_gated_first: matches!(block.kind, RecurrentKind::Mamba2(_)),
            skip: block.skip.as_ref().map(|skip| (skip, recurrence.columns, x)),
        };
        let parameters = (&space.batch, &space.segments);
        PlannedRecurrence {
            input: block
                .input
                .iter()
                .map(|linear| self.products(linear, &space.x, (&space.mixed, stride)))
                .collect(),
            convolve: self.convolve(&block.convolution, (stride, first), &memory[0]),
            recur: recurrence.bind(self.gpu, parameters, &memory[1], &space.recurred),
            norm: norm.bind(self.gpu, &space.batch, (&space.recurred, mixed(gate)), &space.attended),
            output: self.output(&block.output),
        }
    }
}
