//! Binding of the blocks of layers to their buffers.

use formwork_gpu::attention::{
    self, Attention as AttentionStep, BoundAttention, KvType, QkNorm, Rotation, Shared,
};
use formwork_gpu::layer::{self, Added, Bound};
use formwork_gpu::product::{Activations, Inputs, Operand, Output, Outputs, Product};
use formwork_gpu::{Buffer, Gpu};

use super::steps::{Products, Steps};
use super::workspace::{Workspace, stride};
use crate::gpu::weights::{Attention, Dense, Linear, Norm};
use crate::spec::{Activation, KeyValues, ModelSpec, NormKind, QkNorm as QkNormScope, RopePairing};

/// Everything that blocks are bound to.
pub(super) struct Bind<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) spec: &'a ModelSpec,
    pub(super) workspace: &'a Workspace,
    pub(super) kv: KvType,
    /// Index of the first cosine of each set of rotary frequencies.
    pub(super) sets: &'a [usize],
}

/// Output of a block that is added to the residual stream.
#[derive(Clone, Copy)]
pub(super) struct BlockOutput<'a> {
    /// Norm of the output.
    pub(super) norm: Option<&'a Norm>,
    /// Factor of the output.
    pub(super) scale: f32,
    /// Factor of the sum.
    pub(super) stream_scale: f32,
}

/// Inputs and outputs of a dense block.
pub(super) struct DenseRows<'a> {
    pub(super) x: &'a Activations,
    /// Output, and the length of its rows.
    pub(super) out: (&'a Buffer, usize),
}

pub(super) struct PlannedAttention {
    qkv: Vec<Products>,
    /// Index of the kind.
    kind: usize,
    attention: BoundAttention,
    output: Products,
}

pub(super) struct PlannedDense {
    gate_up: Vec<Products>,
    activate: Bound,
    down: Products,
}

impl PlannedAttention {
    pub(super) fn steps(&self, steps: &mut Steps<'_>) {
        steps.begin("queries, keys, values");
        self.qkv.iter().for_each(|product| steps.products(product));
        let (tokens, items) = (steps.tokens(), steps.shape.items[self.kind] as u32);
        let [enter, attend, combine] = self.attention.steps(tokens, items, steps.shape.is_tiled);
        steps.begin("rotation, cache").push(enter);
        steps.begin("attention").push(attend);
        steps.begin("joining of spans").push(combine);
        steps.begin("output").products(&self.output);
    }
}

impl PlannedDense {
    /// Appends the steps for `rows` rows: tokens, or pairs of a token and an expert.
    pub(super) fn steps(&self, rows: u32, steps: &mut Steps<'_>) {
        steps.begin("gate, up");
        self.gate_up.iter().for_each(|product| steps.products(product));
        steps.begin("activation").push(self.activate.by_y(rows));
        steps.begin("down").products(&self.down);
    }
}

impl Bind<'_> {
    /// Binds a norm of the residual stream, to which the output of a block may be added before.
    pub(super) fn norm(
        &self,
        added: Option<BlockOutput<'_>>,
        norm: Option<&Norm>,
        has_result: bool,
    ) -> Bound {
        let space = self.workspace;
        let added = added.map(|output| Added {
            y: &space.y,
            norm: output.norm.map(|norm| &norm.weight),
            scale: output.scale,
            stream_scale: output.stream_scale,
        });
        let step = layer::Norm {
            added,
            residual: &space.residual,
            out: has_result.then_some(&space.x),
            ..stream_norm(self.spec, norm, &space.residual)
        };
        step.bind(self.gpu, &space.batch, &space.x)
    }

    /// Binds the product of all rows. The second part of the output is the length of its rows.
    pub(super) fn products(&self, linear: &Linear, x: &Activations, out: (&Buffer, usize)) -> Products {
        self.products_of(linear, x, out, &Outputs::All)
    }

    pub(super) fn products_of(
        &self,
        linear: &Linear,
        x: &Activations,
        (y, stride): (&Buffer, usize),
        outputs: &Outputs,
    ) -> Products {
        let output = Output { buffer: y.clone(), stride: stride as u32, first: linear.first as u32 };
        let product = |operand| {
            let (batch, bias, factor) = (&self.workspace.batch, linear.bias.as_ref(), linear.factor);
            let inputs = Inputs { batch, x, operand, bias, factor, outputs: outputs.clone() };
            Product::new(self.gpu, &linear.matrix, &inputs, &output)
        };
        Products { bytes: product(Operand::Bytes), floats: product(Operand::Floats) }
    }

    /// Returns the length of a row of the residual stream.
    pub(super) const fn hidden(&self) -> usize {
        self.spec.hidden.next_multiple_of(32)
    }

    /// Binds the last product of a mixer.
    pub(super) fn output(&self, linear: &Linear) -> Products {
        self.products(linear, &self.workspace.attended, (&self.workspace.y, self.hidden()))
    }

    pub(super) fn attention(
        &self,
        attention: &Attention,
        kind: usize,
        memory: &[Buffer; 2],
    ) -> PlannedAttention {
        let (spec, space, shape) = (self.spec, self.workspace, attention.shape);
        let stride = stride(&attention.qkv);
        let qkv = |linear: &Linear| self.products(linear, &space.x, (&space.mixed, stride));
        let rotation = shape.rope.map(|set| Rotation {
            pairs: spec.ropes[set].dims / 2,
            is_interleaved: spec.rope_pairing == RopePairing::Interleaved,
            first: self.sets[set],
        });
        let qk_norm = attention.qk_norm.as_ref().map(|(query, key)| QkNorm {
            query,
            key,
            is_whole: spec.qk_norm == Some(QkNormScope::Whole),
            is_rotated: spec.qk_norm == Some(QkNormScope::PerRotatedHead),
        });
        let step = AttentionStep {
            heads: shape.heads,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
            window: shape.window,
            softcap: spec.attention_softcap,
            scale: spec.attention_scale,
            epsilon: spec.norm_epsilon,
            qk_norm,
            value_norm: spec.value_norm,
            key_values: match shape.key_values {
                KeyValues::OneProjection => attention::KeyValues::OneProjection,
                KeyValues::OfLayer(_) => attention::KeyValues::Written,
                KeyValues::Own | KeyValues::WithinKeys(_) => attention::KeyValues::Own,
            },
            rotation,
            sinks: attention.sinks.as_ref(),
            is_gated: shape.is_gated,
            kv: self.kv,
        };
        let shared = Shared { stride, gates: attention.gates, ..self.shared(kind) };
        PlannedAttention {
            qkv: attention.qkv.iter().map(qkv).collect(),
            kind,
            attention: step.bind(self.gpu, &shared, &memory[0], &memory[1]),
            output: self.output(&attention.output),
        }
    }

    /// Returns the buffers of attention of a kind. The caller sets the length of a row of projections, which
    /// differs from block to block.
    pub(super) fn shared(&self, kind: usize) -> Shared<'_> {
        let space = self.workspace;
        Shared {
            batch: &space.batch,
            qkv: &space.mixed,
            stride: 0,
            gates: 0,
            rotations: &space.rotations,
            slots: &space.slots,
            queries: &space.queries,
            table: &space.table,
            items: &space.items[kind].0,
            sums: &space.sums,
            stats: &space.stats,
            parts: &space.items[kind].1,
            out: &space.attended,
        }
    }

    /// Binds a dense block of all tokens.
    pub(super) fn dense(&self, dense: &Dense, out: &Buffer) -> PlannedDense {
        let rows = DenseRows { x: &self.workspace.x, out: (out, self.hidden()) };
        self.dense_of(dense, &rows, [&Outputs::All; 2])
    }

    /// Binds a dense block, or the experts of a mixture. `outputs` are those of the projections to the
    /// hidden layer and from it.
    pub(super) fn dense_of(
        &self,
        dense: &Dense,
        rows: &DenseRows<'_>,
        [wide, narrow]: [&Outputs; 2],
    ) -> PlannedDense {
        let space = self.workspace;
        let activation = activation(self.spec.activation);
        let parts = if activation.is_gated() { 2 } else { 1 };
        let stride = parts * dense.width.next_multiple_of(32);
        let gate_up = |linear: &Linear| self.products_of(linear, rows.x, (&space.gate_up, stride), wide);
        let hidden = (&space.gate_up, dense.width);
        PlannedDense {
            gate_up: dense.gate_up.iter().map(gate_up).collect(),
            activate: activation.bind(self.gpu, &space.batch, hidden, &space.activated),
            down: self.products_of(&dense.down, &space.activated, rows.out, narrow),
        }
    }
}

/// Returns a norm of `residual` that adds nothing and has no result.
pub(super) fn stream_norm<'a>(
    spec: &ModelSpec,
    norm: Option<&'a Norm>,
    residual: &'a Buffer,
) -> layer::Norm<'a> {
    layer::Norm {
        width: spec.hidden,
        epsilon: spec.norm_epsilon,
        added: None,
        weight: norm.map(|norm| &norm.weight),
        is_centred: norm.is_some() && spec.norm_kind == NormKind::LayerNorm,
        bias: norm.and_then(|norm| norm.bias.as_ref()),
        residual,
        out: None,
    }
}

pub(super) const fn activation(activation: Activation) -> layer::Activation {
    match activation {
        Activation::Silu => layer::Activation::Silu,
        Activation::GeluTanh => layer::Activation::GeluTanh,
        Activation::Gelu => layer::Activation::Gelu,
        Activation::PlainGelu => layer::Activation::PlainGelu,
        Activation::ReluSquared => layer::Activation::ReluSquared,
        Activation::ClampedSwiglu { limit } => layer::Activation::ClampedSwiglu { limit },
    }
}
