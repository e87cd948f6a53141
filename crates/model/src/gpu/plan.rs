//! The steps of a forward pass, bound to their buffers.

use formwork_gpu::layer::{
    self, Added, Attention, Bound, BoundAttention, KvType, Norm, QkNorm, Rotation, SPAN, Shared,
};
use formwork_gpu::product::{Activations, Batch, Inputs, Operand, Output, Outputs, Product};
use formwork_gpu::{Buffer, Gpu, GpuError, Step};

use super::Network;
use super::pool::Pool;
use super::weights::{Layer, Linear, Weights};
use crate::spec::{Activation, ModelSpec, QkNorm as QkNormScope, RopePairing};

/// Maximum number of tokens in a pass.
pub(super) const PIECE: usize = 256;

/// Maximum number of rows that the head computes at once.
pub(super) const HEAD_ROWS: usize = 8;

/// Work of attention that several layers share: they have the same window, and as many tokens in an
/// item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Kind {
    pub(super) window: Option<usize>,
    /// Number of tokens in an item of a prompt.
    pub(super) tokens: usize,
}

/// Buffers of the tokens of a pass.
pub(super) struct Workspace {
    pub(super) batch: Buffer,
    /// Residual stream. Shape: `[PIECE, width]`.
    pub(super) residual: Buffer,
    pub(super) rotations: Buffer,
    pub(super) slots: Buffer,
    pub(super) table: Buffer,
    /// Items and parts of each kind.
    pub(super) items: Vec<(Buffer, Buffer)>,
    x: Activations,
    qkv: Buffer,
    queries: Buffer,
    attended: Activations,
    y: Buffer,
    gate_up: Buffer,
    activated: Activations,
    sums: Buffer,
    stats: Buffer,
    /// Rows of `sums`.
    pub(super) rows: usize,
    /// Maximum number of blocks in `table`.
    pub(super) blocks: usize,
}

/// Buffers of the rows that the head computes.
pub(super) struct HeadSpace {
    pub(super) batch: Buffer,
    /// Numbers of the tokens in the pass.
    pub(super) rows: Buffer,
    /// Listed tokens of the vocabulary.
    pub(super) list: Buffer,
    /// Shape: `[HEAD_ROWS, vocabulary]`.
    pub(super) logits: Buffer,
    /// The largest logits of parts of a row.
    pub(super) best: Buffer,
    /// Number of these parts.
    pub(super) parts: usize,
}

/// A product with the two forms of activations.
struct Products {
    bytes: Product,
    floats: Product,
}

struct PlannedLayer {
    enter_norm: Bound,
    qkv: Vec<Products>,
    kind: usize,
    attention: BoundAttention,
    output: Products,
    middle_norm: Bound,
    gate_up: Vec<Products>,
    activate: Bound,
    down: Products,
}

/// The steps of a pass, for the buffers of one decoder.
pub(super) struct Plan {
    pub(super) workspace: Workspace,
    pub(super) head: HeadSpace,
    pub(super) kinds: Vec<Kind>,
    /// Index of the first cosine of each set of rotary frequencies.
    pub(super) sets: Vec<usize>,
    layers: Vec<PlannedLayer>,
    /// Adds the output of the last block.
    last: Bound,
    /// Normalises the stream of all tokens, for hidden states.
    normed: Bound,
    gather: Bound,
    head_norm: Bound,
    head_all: Product,
    head_listed: Product,
    best: Bound,
}

/// Rows that the head computes in one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeadRows {
    All,
    Listed,
}

/// Properties of a pass that decide on its steps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Shape {
    pub(super) tokens: usize,
    /// Number of items of each kind.
    pub(super) items: Vec<usize>,
    /// True if the tokens are of a prompt, which has kernels for many tokens.
    pub(super) is_tiled: bool,
    /// True if activations are not rounded.
    pub(super) is_precise: bool,
}

impl Products {
    fn steps(&self, gpu: &Gpu, shape: &Shape, steps: &mut Vec<Step>) {
        let batch = Batch { tokens: shape.tokens as u32, ..Batch::default() };
        if shape.is_precise {
            self.floats.steps(gpu, batch, steps);
        } else if shape.is_tiled {
            self.bytes.prompt_steps(gpu, batch, steps);
        } else {
            self.bytes.steps(gpu, batch, steps);
        }
    }
}

impl Plan {
    /// Binds the steps for sequences of up to `context` tokens.
    pub(super) fn new(network: &Network, pool: &Pool, context: usize) -> Result<Self, GpuError> {
        let Network { gpu, spec, weights, kv, .. } = network;
        let kv = *kv;
        let mut kinds: Vec<Kind> = Vec::new();
        let kind_of = |layer: &Layer| {
            let tokens = layer::tile(layer.shape.heads, layer.shape.kv_heads).1;
            Kind { window: layer.shape.window, tokens }
        };
        for kind in weights.layers.iter().map(kind_of) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let mut sets = Vec::new();
        let mut floats = 0;
        for rope in &spec.ropes {
            sets.push(floats);
            floats += PIECE * rope.dims;
        }
        let workspace = Workspace::new(gpu, spec, weights, (kinds.len(), floats, context));
        let head = HeadSpace::new(gpu, spec);
        gpu.check()?;
        let bind = Bind { gpu, spec, workspace: &workspace, kv, sets: &sets };
        let mut layers = Vec::new();
        let mut previous: Option<&Layer> = None;
        for (layer, memory) in weights.layers.iter().zip(&pool.layers) {
            let kind = kinds.iter().position(|kind| *kind == kind_of(layer)).unwrap_or_default();
            layers.push(bind.layer(layer, previous, kind, memory));
            previous = Some(layer);
        }
        let last = bind.norm(previous.map(BlockOutput::of_feed_forward), None, false);
        let normed = bind.norm(None, Some(&weights.output_norm), true);
        let gathered = gpu.buffer((HEAD_ROWS * spec.hidden.next_multiple_of(32) * 4) as u64);
        let x = Activations::new(gpu, HEAD_ROWS, spec.hidden);
        let head_norm = Norm {
            width: spec.hidden,
            epsilon: spec.norm_epsilon,
            added: None,
            weight: Some(&weights.output_norm),
            residual: &gathered,
            out: Some(&x),
        };
        let vocabulary = weights.head.matrix.rows as usize;
        let output = Output { buffer: head.logits.clone(), stride: vocabulary as u32, first: 0 };
        let product = |outputs| {
            let factor = weights.head.factor * spec.logit_scale;
            let (batch, operand) = (&head.batch, Operand::Bytes);
            let inputs = Inputs { batch, x: &x, operand, bias: None, factor, outputs };
            Product::new(gpu, &weights.head.matrix, &inputs, &output)
        };
        let plan = Self {
            gather: layer::gather(
                gpu,
                &head.batch,
                &head.rows,
                (&workspace.residual, spec.hidden),
                &gathered,
            ),
            head_norm: head_norm.bind(gpu, &head.batch, &x),
            head_all: product(Outputs::All),
            head_listed: product(Outputs::Listed(head.list.clone())),
            best: layer::best(gpu, &head.batch, (&head.logits, vocabulary), (&head.best, head.parts)),
            last,
            normed,
            layers,
            workspace,
            head,
            kinds,
            sets,
        };
        gpu.check()?;
        Ok(plan)
    }

    /// Binds attention to the new buffers of a pool that has grown.
    pub(super) fn rebind(&mut self, network: &Network, pool: &Pool) {
        let Network { gpu, spec, weights, kv, .. } = network;
        let kv = *kv;
        let bind = Bind { gpu, spec, workspace: &self.workspace, kv, sets: &self.sets };
        let attentions: Vec<_> = weights
            .layers
            .iter()
            .zip(&pool.layers)
            .zip(&self.layers)
            .map(|((layer, memory), planned)| bind.attention(layer, planned.kind, memory))
            .collect();
        for (planned, attention) in self.layers.iter_mut().zip(attentions) {
            planned.attention = attention;
        }
    }

    /// Returns the steps of all layers, in sections. The residual stream is complete after the first
    /// section, and after each further section has the output of one more layer.
    pub(super) fn sections(&self, gpu: &Gpu, shape: &Shape) -> Vec<Vec<Step>> {
        let tokens = shape.tokens as u32;
        let mut sections = Vec::with_capacity(self.layers.len() + 1);
        let mut steps = Vec::new();
        for layer in &self.layers {
            steps.push(layer.enter_norm.by_x(tokens));
            sections.push(std::mem::take(&mut steps));
            layer.qkv.iter().for_each(|product| product.steps(gpu, shape, &mut steps));
            layer.attention.steps(tokens, shape.items[layer.kind] as u32, shape.is_tiled, &mut steps);
            layer.output.steps(gpu, shape, &mut steps);
            steps.push(layer.middle_norm.by_x(tokens));
            layer.gate_up.iter().for_each(|product| product.steps(gpu, shape, &mut steps));
            steps.push(layer.activate.by_y(tokens));
            layer.down.steps(gpu, shape, &mut steps);
        }
        steps.push(self.last.by_x(tokens));
        sections.push(steps);
        sections
    }

    /// Returns the steps of all layers by what they do, for measurements.
    pub(super) fn groups(&self, gpu: &Gpu, shape: &Shape) -> Vec<(&'static str, Vec<Step>)> {
        let tokens = shape.tokens as u32;
        let layers = &self.layers;
        let all = |step: &dyn Fn(&PlannedLayer, &mut Vec<Step>)| {
            let mut steps = Vec::new();
            for layer in layers {
                step(layer, &mut steps);
            }
            steps
        };
        let attention = |part: usize| {
            all(&|layer, steps| {
                let mut own = Vec::new();
                layer.attention.steps(tokens, shape.items[layer.kind] as u32, shape.is_tiled, &mut own);
                steps.push(own.swap_remove(part));
            })
        };
        let products = |of: &dyn Fn(&PlannedLayer) -> Vec<&Products>| {
            all(&|layer, steps| {
                for product in of(layer) {
                    product.steps(gpu, shape, steps);
                }
            })
        };
        vec![
            (
                "norms",
                all(&|layer, steps| {
                    steps.extend([layer.enter_norm.by_x(tokens), layer.middle_norm.by_x(tokens)]);
                }),
            ),
            ("queries, keys, values", products(&|layer| layer.qkv.iter().collect())),
            ("rotation, cache", attention(0)),
            ("attention", attention(1)),
            ("joining of spans", attention(2)),
            ("output", products(&|layer| vec![&layer.output])),
            ("gate, up", products(&|layer| layer.gate_up.iter().collect())),
            ("activation", all(&|layer, steps| steps.push(layer.activate.by_y(tokens)))),
            ("down", products(&|layer| vec![&layer.down])),
        ]
    }

    /// Returns the steps that compute logits of some rows, after those of the layers. With `is_largest`,
    /// finds the largest of each whole row.
    pub(super) fn head(&self, gpu: &Gpu, batch: Batch, rows: HeadRows, is_largest: bool) -> Vec<Step> {
        let mut steps = vec![self.gather.by_y(batch.tokens), self.head_norm.by_x(batch.tokens)];
        let product = match rows {
            HeadRows::All => &self.head_all,
            HeadRows::Listed => &self.head_listed,
        };
        product.steps(gpu, batch, &mut steps);
        if is_largest {
            steps.push(self.best.by_y(batch.tokens));
        }
        steps
    }

    /// Returns the step that computes the hidden states of all tokens, and their buffer.
    pub(super) fn normed(&self, tokens: usize) -> (Step, &Buffer) {
        (self.normed.by_x(tokens as u32), &self.workspace.x.floats)
    }
}

impl Workspace {
    fn new(
        gpu: &Gpu,
        spec: &ModelSpec,
        weights: &Weights,
        (kinds, rotations, context): (usize, usize, usize),
    ) -> Self {
        let shapes = || weights.layers.iter().map(|layer| layer.shape);
        let most = |value: &dyn Fn(&Layer) -> usize| weights.layers.iter().map(value).max().unwrap_or(1);
        let heads = shapes().map(|shape| shape.heads).max().unwrap_or(1);
        let queries = most(&|layer| layer.shape.query_len());
        let qkv = most(&|layer| qkv_stride(layer));
        let width = most(&|layer| layer.width.next_multiple_of(32));
        let floats = |count: usize| gpu.buffer(4 * count as u64);
        let hidden = spec.hidden.next_multiple_of(32);
        // A prompt has a row for each token, and a generated token one for each span.
        let rows = ((32 << 20) / (4 * queries)).max(PIECE).max(context / SPAN + 1);
        let blocks = (context / layer::BLOCK + 1).max(1 << 14);
        let items = || (floats(rows * 8), floats(PIECE * 2));
        Self {
            batch: gpu.buffer(16),
            residual: floats(PIECE * hidden),
            rotations: floats(rotations.max(4)),
            slots: floats(PIECE * 2),
            table: floats(blocks),
            items: (0..kinds).map(|_| items()).collect(),
            x: Activations::new(gpu, PIECE, spec.hidden),
            qkv: floats(PIECE * qkv),
            queries: floats(PIECE * queries),
            attended: Activations::new(gpu, PIECE, queries),
            y: floats(PIECE * hidden),
            gate_up: floats(PIECE * width * 2),
            activated: Activations::new(gpu, PIECE, width),
            sums: floats(rows * queries),
            stats: floats(rows * heads * 2),
            rows,
            blocks,
        }
    }
}

impl HeadSpace {
    fn new(gpu: &Gpu, spec: &ModelSpec) -> Self {
        let parts = spec.vocabulary.div_ceil(layer::BEST);
        Self {
            batch: gpu.buffer(16),
            rows: gpu.buffer(4 * HEAD_ROWS as u64),
            list: gpu.buffer(4 * spec.vocabulary as u64),
            logits: gpu.buffer((4 * HEAD_ROWS * spec.vocabulary) as u64),
            best: gpu.buffer((16 * HEAD_ROWS * parts) as u64),
            parts,
        }
    }
}

/// Returns the length of a row of queries, keys and values.
fn qkv_stride(layer: &Layer) -> usize {
    layer.shape.query_len() + 2 * layer.shape.key_len()
}

/// Output of a block that is added to the residual stream.
#[derive(Clone, Copy)]
struct BlockOutput<'a> {
    /// Norm of the output.
    norm: Option<&'a Buffer>,
}

impl<'a> BlockOutput<'a> {
    fn of_feed_forward(layer: &'a Layer) -> Self {
        Self { norm: layer.post_feed_forward_norm.as_ref() }
    }
}

struct Bind<'a> {
    gpu: &'a Gpu,
    spec: &'a ModelSpec,
    workspace: &'a Workspace,
    kv: KvType,
    sets: &'a [usize],
}

impl Bind<'_> {
    fn layer(
        &self,
        layer: &Layer,
        previous: Option<&Layer>,
        kind: usize,
        memory: &[Buffer; 2],
    ) -> PlannedLayer {
        let space = self.workspace;
        let hidden = self.spec.hidden.next_multiple_of(32);
        let width = layer.width.next_multiple_of(32);
        let post = previous.map(BlockOutput::of_feed_forward);
        let qkv = |linear: &Linear| self.products(linear, &space.x, (&space.qkv, qkv_stride(layer)));
        let gate_up = |linear: &Linear| self.products(linear, &space.x, (&space.gate_up, 2 * width));
        let activation = match self.spec.activation {
            Activation::GeluTanh => layer::Activation::GeluTanh,
            Activation::Gelu => layer::Activation::Gelu,
            Activation::ClampedSwiglu { limit } => layer::Activation::ClampedSwiglu { limit },
            // Activations without a gate were refused before.
            Activation::Silu | Activation::PlainGelu | Activation::ReluSquared => layer::Activation::Silu,
        };
        PlannedLayer {
            enter_norm: self.norm(post, layer.mixer_norm.as_ref(), true),
            qkv: layer.qkv.iter().map(qkv).collect(),
            kind,
            attention: self.attention(layer, kind, memory),
            output: self.products(&layer.output, &space.attended, (&space.y, hidden)),
            middle_norm: self.norm(
                Some(BlockOutput { norm: layer.post_mixer_norm.as_ref() }),
                layer.feed_forward_norm.as_ref(),
                true,
            ),
            gate_up: layer.gate_up.iter().map(gate_up).collect(),
            activate: activation.bind(
                self.gpu,
                &space.batch,
                (&space.gate_up, layer.width),
                &space.activated,
            ),
            down: self.products(&layer.down, &space.activated, (&space.y, hidden)),
        }
    }

    /// Binds a norm of the residual stream, to which the output of a block may be added before.
    fn norm(&self, added: Option<BlockOutput<'_>>, weight: Option<&Buffer>, has_result: bool) -> Bound {
        let space = self.workspace;
        let added =
            added.map(|output| Added { y: &space.y, norm: output.norm, scale: self.spec.residual_scale });
        let (width, epsilon) = (self.spec.hidden, self.spec.norm_epsilon);
        let out = has_result.then_some(&space.x);
        let norm = Norm { width, epsilon, added, weight, residual: &space.residual, out };
        norm.bind(self.gpu, &space.batch, &space.x)
    }

    fn products(&self, linear: &Linear, x: &Activations, (y, stride): (&Buffer, usize)) -> Products {
        let output = Output { buffer: y.clone(), stride: stride as u32, first: linear.first as u32 };
        let product = |operand| {
            let (batch, bias, factor) = (&self.workspace.batch, linear.bias.as_ref(), linear.factor);
            let inputs = Inputs { batch, x, operand, bias, factor, outputs: Outputs::All };
            Product::new(self.gpu, &linear.matrix, &inputs, &output)
        };
        Products { bytes: product(Operand::Bytes), floats: product(Operand::Floats) }
    }

    fn attention(&self, layer: &Layer, kind: usize, memory: &[Buffer; 2]) -> BoundAttention {
        let (spec, space, shape) = (self.spec, self.workspace, layer.shape);
        let rotation = shape.rope.map(|set| Rotation {
            pairs: spec.ropes[set].dims / 2,
            is_interleaved: spec.rope_pairing == RopePairing::Interleaved,
            first: self.sets[set],
        });
        let qk_norm = layer.qk_norm.as_ref().map(|(query, key)| QkNorm {
            query,
            key,
            is_whole: spec.qk_norm == Some(QkNormScope::Whole),
        });
        let attention = Attention {
            heads: shape.heads,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
            window: shape.window,
            softcap: spec.attention_softcap,
            scale: spec.attention_scale,
            epsilon: spec.norm_epsilon,
            qk_norm,
            rotation,
            sinks: layer.sinks.as_ref(),
            kv: self.kv,
        };
        let shared = Shared {
            batch: &space.batch,
            qkv: &space.qkv,
            stride: qkv_stride(layer),
            rotations: &space.rotations,
            slots: &space.slots,
            queries: &space.queries,
            table: &space.table,
            items: &space.items[kind].0,
            sums: &space.sums,
            stats: &space.stats,
            parts: &space.items[kind].1,
            out: &space.attended,
        };
        attention.bind(self.gpu, &shared, &memory[0], &memory[1])
    }
}
