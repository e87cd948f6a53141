//! The steps of a forward pass, bound to their buffers.

mod bind;
mod latent;
mod layer_input;
mod mixture;
mod recurrent;
mod steps;
mod workspace;

use formwork_gpu::attention;
use formwork_gpu::layer::{self, Bound};
use formwork_gpu::product::{Activations, Batch, Inputs, Operand, Output, Outputs, Product};
use formwork_gpu::{Buffer, Gpu, GpuError, Step};

use self::bind::{Bind, BlockOutput, PlannedAttention, PlannedDense, stream_norm};
use self::latent::PlannedLatent;
use self::layer_input::{PlannedInput, PlannedInputs};
use self::mixture::{PlannedBoth, PlannedMixture};
use self::recurrent::{PlannedConvolution, PlannedRecurrence};
use self::steps::Steps;
pub(super) use self::steps::{End, Part, Shape};
use self::workspace::{HeadSpace, Workspace};
pub(super) use self::workspace::{sum_rows, widest_query};
use super::Network;
use super::pool::Pool;
use super::states::StatePool;
use super::weights::{FeedForward, Layer, Mixer};
use crate::spec::{AttentionSpec, KeyValues, NormPlacement};

/// Maximum number of tokens in a pass.
pub(super) const PIECE: usize = 256;

/// Maximum number of rows that the head computes at once.
pub(super) const HEAD_ROWS: usize = 8;

/// A row is computed as a list of tokens if it has at most this share of the vocabulary.
const LISTED: usize = 4;

/// Returns the maximum length of a list of tokens, which is the distance of the rows of their logits.
pub(super) const fn listed_stride(vocabulary: usize) -> usize {
    vocabulary / LISTED
}

/// Work of attention that several layers share: they have the same window, and as many tokens in an
/// item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Kind {
    pub(super) window: Option<usize>,
    /// Number of tokens in an item of a prompt.
    pub(super) tokens: usize,
}

impl Kind {
    fn of(shape: AttentionSpec) -> Self {
        Self { window: shape.window, tokens: attention::tile(shape.heads, shape.kv_heads).1 }
    }
}

/// The blocks of a layer. A block normalises the residual stream, after the output of the block before
/// was added to it.
struct PlannedLayer {
    mixer: Option<(Bound, PlannedMixer)>,
    feed_forward: Option<(Bound, PlannedFeedForward)>,
    /// Additional input of the layer.
    input: Option<(Bound, PlannedInput)>,
}

enum PlannedMixer {
    Attention(PlannedAttention),
    Latent(Box<PlannedLatent>),
    ShortConvolution(PlannedConvolution),
    Recurrent(PlannedRecurrence),
}

enum PlannedFeedForward {
    Dense(Box<PlannedDense>),
    Experts(Box<PlannedMixture>),
    Both(Box<PlannedBoth>),
    OnHost,
}

/// Memory of all sequences.
#[derive(Clone, Copy)]
pub(super) struct Memories<'a> {
    pub(super) pool: &'a Pool,
    pub(super) states: &'a StatePool,
}

/// The steps of a pass, for the buffers of one decoder.
pub(super) struct Plan {
    pub(super) workspace: Workspace,
    pub(super) head: HeadSpace,
    pub(super) kinds: Vec<Kind>,
    /// Index of the first cosine of each set of rotary frequencies.
    pub(super) sets: Vec<usize>,
    /// Sorting of the heads of latent attention, which have matrices of their own.
    sort_heads: Option<Bound>,
    inputs: Option<PlannedInputs>,
    layers: Vec<PlannedLayer>,
    /// Adds the output of the last block.
    last: Bound,
    /// Normalises the stream of all tokens, for hidden states.
    normed: Bound,
    gather: Bound,
    head_norm: Bound,
    /// Products of the head. `None` if another device has it.
    head_all: Option<Product>,
    head_listed: Option<Product>,
    best: Bound,
}

/// Rows that the head computes in one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeadRows {
    All,
    Listed,
}

/// Step that shortens rows of logits before the CPU reads them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reduction {
    None,
    /// Finds the largest logit of each row.
    Largest,
    /// Finds the likeliest tokens of each row.
    Top,
}

impl Plan {
    /// Binds the steps for sequences of up to `context` tokens.
    pub(super) fn new(network: &Network, memories: Memories<'_>, context: usize) -> Result<Self, GpuError> {
        let Network { gpu, spec, weights, kv, .. } = network;
        let kv = *kv;
        let mut kinds: Vec<Kind> = Vec::new();
        for kind in spec.layers.iter().filter_map(|layer| layer.mixer.cached()).map(Kind::of) {
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
        let workspace = Workspace::new(gpu, spec, weights, (kinds.len(), floats, context))?;
        let head = HeadSpace::new(gpu, spec);
        gpu.check()?;
        let bind = Bind { gpu, spec, workspace: &workspace, kv, sets: &sets };
        let mixers = bind.mixers(network, &kinds, memories);
        let mut layers = Vec::new();
        let mut previous: Option<BlockOutput<'_>> = None;
        let scale = spec.residual_scale;
        let is_parallel = spec.norms == NormPlacement::Parallel;
        for (index, (layer, mixer)) in weights.layers.iter().zip(mixers).enumerate() {
            let mixer = mixer.map(|mixer| {
                let norm = bind.norm(previous, layer.mixer_norm.as_ref(), true);
                let norm_of_output = layer.post_mixer_norm.as_ref();
                previous = Some(BlockOutput { norm: norm_of_output, scale, stream_scale: 1.0 });
                (norm, mixer)
            });
            let feed_forward = bind.feed_forward(&layer.feed_forward).map(|block| {
                // A parallel block reads the input of the mixer, which is still there.
                let norm = bind.norm(previous, layer.feed_forward_norm.as_ref(), !is_parallel);
                let norm_of_output = layer.post_feed_forward_norm.as_ref();
                previous = Some(BlockOutput { norm: norm_of_output, scale, stream_scale: 1.0 });
                (norm, block)
            });
            let input = layer.per_layer_input.as_ref().zip(workspace.layer_inputs.as_ref());
            let input = input.map(|(input, space)| {
                let norm = bind.norm(previous, None, true);
                previous = Some(BlockOutput { norm: Some(&input.norm), scale: 1.0, stream_scale: 1.0 });
                (norm, bind.layer_input((index, input), space))
            });
            if let Some(output) = &mut previous {
                output.stream_scale = layer.scale;
            }
            layers.push(PlannedLayer { mixer, feed_forward, input });
        }
        let inputs = weights.layer_inputs.as_ref().zip(workspace.layer_inputs.as_ref());
        let inputs = inputs.map(|(inputs, space)| bind.layer_inputs(inputs, space));
        let sort_heads = workspace.latent.as_ref().map(|space| space.heads.sort(gpu, &workspace.batch));
        let last = bind.norm(previous, None, false);
        let normed = bind.norm(None, Some(&weights.output_norm), true);
        let gathered = gpu.buffer((HEAD_ROWS * spec.hidden.next_multiple_of(32) * 4) as u64);
        let x = Activations::new(gpu, HEAD_ROWS, spec.hidden);
        let head_norm =
            layer::Norm { out: Some(&x), ..stream_norm(spec, Some(&weights.output_norm), &gathered) };
        let vocabulary = spec.vocabulary;
        let product = |outputs, stride: usize| {
            let output = Output { buffer: head.logits.clone(), stride: stride as u32, first: 0 };
            let linear = weights.head.as_ref()?;
            let factor = linear.factor * spec.logit_scale;
            let (batch, operand) = (&head.batch, Operand::Bytes);
            let inputs = Inputs { batch, x: &x, operand, bias: None, factor, outputs };
            Some(Product::new(gpu, &linear.matrix, &inputs, &output))
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
            head_all: product(Outputs::All, vocabulary),
            head_listed: product(Outputs::Listed(head.list.clone()), listed_stride(vocabulary)),
            best: layer::best(gpu, &head.batch, (&head.logits, vocabulary), (&head.best, head.parts)),
            sort_heads,
            inputs,
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

    /// Binds mixers to the new buffers of memories that have grown.
    pub(super) fn rebind(&mut self, network: &Network, memories: Memories<'_>) {
        let Network { gpu, spec, kv, .. } = network;
        let bind = Bind { gpu, spec, workspace: &self.workspace, kv: *kv, sets: &self.sets };
        let mixers = bind.mixers(network, &self.kinds, memories);
        for (layer, new) in self.layers.iter_mut().zip(mixers) {
            if let (Some((_, mixer)), Some(new)) = (&mut layer.mixer, new) {
                *mixer = new;
            }
        }
    }

    /// Lists the steps of all layers.
    fn steps<'a>(&self, gpu: &'a Gpu, shape: &'a Shape) -> Steps<'a> {
        let mut steps = Steps::new(gpu, shape);
        let tokens = steps.tokens();
        if let Some(sort) = &self.sort_heads {
            steps.begin("projections of heads").push(sort.by_x(1));
        }
        if let Some(inputs) = &self.inputs {
            inputs.steps(&mut steps);
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let mut is_first = true;
            let mut enter = |steps: &mut Steps<'_>, norm: &Bound| {
                steps.begin("norms").push(norm.by_x(tokens));
                if std::mem::take(&mut is_first) {
                    steps.end(End::Stream);
                }
            };
            if let Some((norm, mixer)) = &layer.mixer {
                enter(&mut steps, norm);
                match mixer {
                    PlannedMixer::Attention(attention) => attention.steps(&mut steps),
                    PlannedMixer::Latent(block) => block.steps(&mut steps),
                    PlannedMixer::ShortConvolution(block) => block.steps(&mut steps),
                    PlannedMixer::Recurrent(block) => block.steps(&mut steps),
                }
            }
            if let Some((norm, block)) = &layer.feed_forward {
                enter(&mut steps, norm);
                match block {
                    PlannedFeedForward::Dense(dense) => dense.steps(tokens, &mut steps),
                    PlannedFeedForward::Experts(mixture) => mixture.steps(&mut steps),
                    PlannedFeedForward::Both(both) => both.steps(&mut steps),
                    PlannedFeedForward::OnHost => steps.end(End::HostBlock(index)),
                }
            }
            if let Some((norm, input)) = &layer.input {
                enter(&mut steps, norm);
                input.steps(&mut steps);
            }
        }
        steps.begin("norms").push(self.last.by_x(tokens));
        steps
    }

    /// Returns the steps of all layers. The residual stream is complete after the first of the parts that
    /// end with it, and after each further one has the output of one more layer.
    pub(super) fn sections(&self, gpu: &Gpu, shape: &Shape) -> Vec<Part> {
        self.steps(gpu, shape).parts(|_| true)
    }

    /// Returns the steps of all layers. All parts but the last end where the CPU computes a block.
    pub(super) fn parts(&self, gpu: &Gpu, shape: &Shape) -> Vec<Part> {
        self.steps(gpu, shape).parts(|end| matches!(end, End::HostBlock(_)))
    }

    /// Returns the steps of all layers by what they do, and then all of them, for measurements.
    pub(super) fn groups(&self, gpu: &Gpu, shape: &Shape) -> Vec<(&'static str, Vec<Step>)> {
        let all = self.steps(gpu, shape).list;
        let mut groups = self.steps(gpu, shape).by_group();
        groups.push(("all layers", all));
        groups
    }

    /// Returns the steps that compute logits of some rows, after those of the layers. A reduction needs
    /// whole rows.
    pub(super) fn head(&self, gpu: &Gpu, batch: Batch, rows: HeadRows, reduction: Reduction) -> Vec<Step> {
        let mut steps = vec![self.gather.by_y(batch.tokens), self.head_norm.by_x(batch.tokens)];
        let product = match rows {
            HeadRows::All => &self.head_all,
            HeadRows::Listed => &self.head_listed,
        };
        if let Some(product) = product {
            product.steps(gpu, batch, &mut steps);
        }
        match reduction {
            Reduction::None => {}
            Reduction::Largest => steps.push(self.best.by_y(batch.tokens)),
            Reduction::Top => steps.extend(self.head.top.steps(batch.tokens)),
        }
        steps
    }

    /// Returns the step that computes the hidden states of all tokens, and their buffer.
    pub(super) fn normed(&self, tokens: usize) -> (Step, &Buffer) {
        (self.normed.by_x(tokens as u32), &self.workspace.x.floats)
    }
}

impl Bind<'_> {
    /// Binds the mixers of all layers to the memories.
    fn mixers(&self, network: &Network, kinds: &[Kind], memories: Memories<'_>) -> Vec<Option<PlannedMixer>> {
        let kind = |shape: AttentionSpec| {
            let own = Kind::of(shape);
            kinds.iter().position(|kind| *kind == own).unwrap_or_default()
        };
        let mixer = |(index, layer): (usize, &Layer)| {
            let (keys_values, states) = (&memories.pool.layers, &memories.states.layers[index]);
            Some(match &layer.mixer {
                Mixer::Nothing => return None,
                Mixer::Attention(attention) => {
                    let source = match attention.shape.key_values {
                        KeyValues::OfLayer(source) => source,
                        _ => index,
                    };
                    let kind = kind(attention.shape);
                    PlannedMixer::Attention(self.attention(attention, kind, &keys_values[source]))
                }
                Mixer::Latent(block) => {
                    let kind = kind(block.shape.attention());
                    let space = self.workspace.latent.as_ref()?;
                    PlannedMixer::Latent(Box::new(self.latent(block, (kind, space), &keys_values[index])))
                }
                Mixer::ShortConvolution(block) => {
                    PlannedMixer::ShortConvolution(self.short_convolution(block, states))
                }
                Mixer::Recurrent(block) => PlannedMixer::Recurrent(self.recurrent(block, states)),
            })
        };
        network.weights.layers.iter().enumerate().map(mixer).collect()
    }

    fn feed_forward(&self, block: &FeedForward) -> Option<PlannedFeedForward> {
        match block {
            FeedForward::Nothing => None,
            FeedForward::OnHost => Some(PlannedFeedForward::OnHost),
            FeedForward::Dense(dense) => {
                let block = self.dense(dense, &self.workspace.y);
                Some(PlannedFeedForward::Dense(Box::new(block)))
            }
            FeedForward::Experts(mixture) => {
                let space = self.workspace.mixture.as_ref()?;
                let input = (&**mixture, &self.workspace.x);
                let block = self.mixture(input, space, &self.workspace.y);
                Some(PlannedFeedForward::Experts(Box::new(block)))
            }
            FeedForward::DenseAndExperts(block) => {
                let space = self.workspace.mixture.as_ref()?;
                let both = space.both.as_ref()?;
                Some(PlannedFeedForward::Both(Box::new(self.both(block, (space, both)))))
            }
        }
    }
}
