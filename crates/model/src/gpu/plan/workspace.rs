//! Buffers of a decoder's passes.

use formwork_gpu::attention::{BLOCK, SPAN};
use formwork_gpu::layer;
use formwork_gpu::mixture::Choice;
use formwork_gpu::product::Activations;
use formwork_gpu::top::Top;
use formwork_gpu::{Buffer, Gpu, GpuError};

use super::{HEAD_ROWS, PIECE};
use crate::gpu::weights::{Dense, Linear, Mixer, Weights};
use crate::spec::{AttentionSpec, FeedForwardSpec, LayerSpec, MixerSpec, ModelSpec};

/// Buffers of the tokens of a pass.
pub(in crate::gpu) struct Workspace {
    pub(in crate::gpu) batch: Buffer,
    /// Residual stream. Shape: `[PIECE, width]`.
    pub(in crate::gpu) residual: Buffer,
    pub(in crate::gpu) rotations: Buffer,
    pub(in crate::gpu) slots: Buffer,
    pub(in crate::gpu) table: Buffer,
    /// Tokens and states of each sequence.
    pub(in crate::gpu) segments: Buffer,
    /// Items and parts of each kind.
    pub(in crate::gpu) items: Vec<(Buffer, Buffer)>,
    /// Input of a block.
    pub(in crate::gpu) x: Activations,
    /// Results of the first projections of a mixer.
    pub(super) mixed: Buffer,
    pub(super) queries: Buffer,
    /// Results of a convolution.
    pub(super) convolved: Buffer,
    /// Results of a recurrence.
    pub(super) recurred: Buffer,
    /// Input of the last projection of a mixer.
    pub(super) attended: Activations,
    /// Output of a block.
    pub(in crate::gpu) y: Buffer,
    pub(super) gate_up: Buffer,
    pub(super) activated: Activations,
    pub(super) sums: Buffer,
    pub(super) stats: Buffer,
    /// Buffers of mixtures of experts.
    pub(super) mixture: Option<MixtureSpace>,
    /// Buffers of latent attention.
    pub(super) latent: Option<LatentSpace>,
    /// Buffers of the additional inputs of layers.
    pub(in crate::gpu) layer_inputs: Option<LayerInputSpace>,
    /// Rows of `sums`.
    pub(in crate::gpu) rows: usize,
    /// Maximum number of blocks in `table`.
    pub(in crate::gpu) blocks: usize,
}

/// Buffers of mixtures of experts.
pub(super) struct MixtureSpace {
    /// Logits of the router. Shape: `[PIECE, experts]`.
    pub(super) logits: Buffer,
    pub(super) choice: Choice,
    /// Outputs of the experts. Shape: `[PIECE, used, width]`.
    pub(super) outputs: Buffer,
    /// Output of the shared expert, and the logit of its factor.
    pub(super) shared: Buffer,
    pub(super) shared_gate: Buffer,
    /// Input and output of experts in a narrower space.
    pub(super) narrow: Buffer,
    pub(super) narrow_x: Activations,
    /// Buffers for dense blocks beside the mixtures.
    pub(super) both: Option<BothSpace>,
}

/// Buffers of dense blocks and mixtures side by side.
pub(super) struct BothSpace {
    /// Outputs of the dense block and of the mixture.
    pub(super) dense: Buffer,
    pub(super) mixture: Buffer,
    /// Normalised output of the dense block.
    pub(super) normed: Activations,
    /// Input of the router.
    pub(super) router_x: Activations,
}

/// Buffers of latent attention.
pub(super) struct LatentSpace {
    /// The heads of all tokens, which have matrices of their own.
    pub(super) heads: Choice,
    /// Short vectors from which queries are computed.
    pub(super) low: Buffer,
    pub(super) low_x: Activations,
    /// Latent vectors, each with the part of the key to rotate.
    pub(super) latent: Buffer,
    /// Parts of queries that are not rotated. Shape: `[PIECE, heads, plain_dim]`.
    pub(super) plain_x: Activations,
    /// Their projections. Shape: `[PIECE, heads, rank]`.
    pub(super) projected: Buffer,
    /// Results of attention. Shape: `[PIECE, heads, rank]`.
    pub(super) latent_x: Activations,
    /// Values. Shape: `[PIECE, heads, value_dim]`.
    pub(super) values: Buffer,
    pub(super) values_x: Activations,
}

/// Buffers of the additional inputs of layers. Shape of both: `[PIECE, layers, width]`.
pub(in crate::gpu) struct LayerInputSpace {
    /// Embeddings of the tokens.
    pub(in crate::gpu) embedded: Buffer,
    pub(super) inputs: Buffer,
}

/// Buffers of the rows that the head computes.
pub(in crate::gpu) struct HeadSpace {
    pub(in crate::gpu) batch: Buffer,
    /// Numbers of the tokens in the pass.
    pub(in crate::gpu) rows: Buffer,
    /// Listed tokens of the vocabulary.
    pub(in crate::gpu) list: Buffer,
    /// Shape: `[HEAD_ROWS, vocabulary]`.
    pub(in crate::gpu) logits: Buffer,
    /// The largest logits of parts of a row.
    pub(in crate::gpu) best: Buffer,
    /// Number of these parts.
    pub(in crate::gpu) parts: usize,
    pub(in crate::gpu) top: Top,
}

/// Returns the length of a row of the linear layers' outputs.
pub(super) fn stride(linears: &[Linear]) -> usize {
    linears.iter().map(|linear| linear.first + linear.matrix.rows as usize).max().unwrap_or_default()
}

/// Returns the number of elements of the hidden layer's row, before its activation.
fn hidden_row(dense: &Dense, is_gated: bool) -> usize {
    dense.width.next_multiple_of(32) * if is_gated { 2 } else { 1 }
}

fn cached(spec: &ModelSpec) -> impl Iterator<Item = AttentionSpec> + '_ {
    spec.layers.iter().filter_map(|layer| layer.mixer.cached())
}

/// Returns the largest number of elements of a token's queries. 1 for a model without attention.
pub(in crate::gpu) fn widest_query(spec: &ModelSpec) -> usize {
    cached(spec).map(|shape| shape.query_len()).max().unwrap_or(1)
}

/// Returns the number of rows for partial sums of attention: a prompt has one for each token, and a
/// generated token one for each span.
pub(in crate::gpu) fn sum_rows(spec: &ModelSpec, context: usize) -> usize {
    let most = if cached(spec).next().is_some() { (32 << 20) / (4 * widest_query(spec)) } else { 1 };
    most.max(PIECE).max(context / SPAN + 1)
}

impl Workspace {
    pub(super) fn new(
        gpu: &Gpu,
        spec: &ModelSpec,
        weights: &Weights,
        (kinds, rotations, context): (usize, usize, usize),
    ) -> Result<Self, GpuError> {
        let queries = widest_query(spec);
        let heads = cached(spec).map(|shape| shape.heads).max().unwrap_or(1);
        let floats = |count: usize| gpu.buffer(4 * count as u64);
        let hidden = spec.hidden.next_multiple_of(32);
        // Number of elements of a token: projections, results of a convolution and of a recurrence.
        let [mut mixed, mut channels, mut recurred] = [1, 1, 1];
        // Number of elements of a token, or of all its experts: a hidden layer before and after the
        // activation.
        let narrow = spec.per_layer_input.unwrap_or(1).next_multiple_of(32);
        let [mut wide, mut activated] = [narrow; 2];
        for layer in &weights.layers {
            let (own, convolution, inner) = match &layer.mixer {
                Mixer::Nothing => (0, 0, 0),
                Mixer::Attention(attention) => (stride(&attention.qkv), 0, 0),
                Mixer::Latent(block) => (block.query.matrix.rows as usize, 0, 0),
                Mixer::ShortConvolution(block) => {
                    let channels = block.convolution.shape.channels;
                    (3 * channels, channels, channels)
                }
                Mixer::Recurrent(block) => {
                    (stride(&block.input), block.convolution.shape.channels, block.inner_len())
                }
            };
            (mixed, channels) = (mixed.max(own), channels.max(convolution));
            recurred = recurred.max(inner);
            let dense = layer.dense().map(|dense| (dense, 1));
            let mixture = layer.mixture();
            let shared = mixture.and_then(|mixture| Some((&mixture.shared.as_ref()?.0, 1)));
            let experts = mixture.map(|mixture| (&mixture.experts, mixture.spec.used));
            for (dense, count) in [dense, shared, experts].into_iter().flatten() {
                wide = wide.max(count * hidden_row(dense, spec.activation.is_gated()));
                activated = activated.max(count * dense.width.next_multiple_of(32));
            }
        }
        let has_mixtures = weights.layers.iter().any(|layer| layer.mixture().is_some());
        let (rows, attended) = (sum_rows(spec, context), queries.max(recurred));
        let blocks = (context / BLOCK + 1).max(1 << 14);
        let items = || (floats(rows * 8), floats(PIECE * 2));
        Ok(Self {
            batch: gpu.buffer(16),
            residual: floats(PIECE * hidden),
            rotations: floats(rotations.max(4)),
            slots: floats(PIECE * 2),
            table: floats(blocks),
            segments: floats(PIECE * 4),
            items: (0..kinds).map(|_| items()).collect(),
            x: Activations::new(gpu, PIECE, spec.hidden),
            mixed: floats(PIECE * mixed),
            queries: floats(PIECE * queries),
            convolved: floats(PIECE * channels),
            recurred: floats(PIECE * recurred),
            attended: Activations::new(gpu, PIECE, attended),
            y: floats(PIECE * hidden),
            gate_up: floats(PIECE * wide),
            activated: Activations::new(gpu, PIECE, activated),
            sums: floats(rows * queries),
            stats: floats(rows * heads * 2),
            mixture: if has_mixtures { MixtureSpace::new(gpu, spec) } else { None },
            latent: LatentSpace::new(gpu, spec)?,
            layer_inputs: spec.per_layer_input.map(|width| {
                let [embedded, inputs] = [(); 2].map(|()| floats(PIECE * spec.layers.len() * width));
                LayerInputSpace { embedded, inputs }
            }),
            rows,
            blocks,
        })
    }
}

impl MixtureSpace {
    /// Creates the buffers, or returns `None` if the model has no mixtures. All mixtures of a model have
    /// equal numbers of experts.
    fn new(gpu: &Gpu, spec: &ModelSpec) -> Option<Self> {
        let experts = spec.layers.iter().find_map(|layer| layer.feed_forward.experts())?;
        let floats = |count: usize| gpu.buffer(4 * (PIECE * count) as u64);
        let hidden = spec.hidden.next_multiple_of(32);
        let narrow = experts.latent.map_or(1, |width| width.next_multiple_of(32));
        Some(Self {
            logits: floats(experts.count),
            choice: Choice::new(gpu, PIECE, (experts.count, experts.used)),
            outputs: floats(experts.used * if experts.latent.is_some() { narrow } else { hidden }),
            shared: floats(if experts.shared.is_some() { hidden } else { 1 }),
            shared_gate: floats(1),
            narrow: floats(narrow),
            narrow_x: Activations::new(gpu, PIECE, narrow),
            both: spec.layers.iter().any(is_both).then(|| BothSpace {
                dense: floats(hidden),
                mixture: floats(hidden),
                normed: Activations::new(gpu, PIECE, hidden),
                router_x: Activations::new(gpu, PIECE, hidden),
            }),
        })
    }
}

fn is_both(layer: &LayerSpec) -> bool {
    matches!(layer.feed_forward, FeedForwardSpec::DenseAndExperts { .. })
}

impl LatentSpace {
    /// Creates the buffers, or returns `None` if the model has no latent attention. All such blocks of a
    /// model have one shape.
    fn new(gpu: &Gpu, spec: &ModelSpec) -> Result<Option<Self>, GpuError> {
        let shape = spec.layers.iter().find_map(|layer| match &layer.mixer {
            MixerSpec::Latent(shape) => Some(shape),
            _ => None,
        });
        let Some(shape) = shape else { return Ok(None) };
        let floats = |count: usize| gpu.buffer(4 * (PIECE * count) as u64);
        let low = shape.query_rank.unwrap_or(32);
        let pairs = PIECE * shape.heads;
        Ok(Some(Self {
            heads: Choice::of_heads(gpu, PIECE, shape.heads)?,
            low: floats(low),
            low_x: Activations::new(gpu, PIECE, low),
            latent: floats(shape.rank + shape.rope_dim),
            plain_x: Activations::new(gpu, pairs, shape.plain_dim),
            projected: floats(shape.heads * shape.rank),
            latent_x: Activations::new(gpu, pairs, shape.rank),
            values: floats(shape.heads * shape.value_dim),
            values_x: Activations::new(gpu, PIECE, shape.heads * shape.value_dim),
        }))
    }
}

impl HeadSpace {
    pub(super) fn new(gpu: &Gpu, spec: &ModelSpec) -> Self {
        let parts = spec.vocabulary.div_ceil(layer::BEST);
        let logits = gpu.buffer((4 * HEAD_ROWS * spec.vocabulary) as u64);
        Self {
            batch: gpu.buffer(16),
            rows: gpu.buffer(4 * HEAD_ROWS as u64),
            list: gpu.buffer(4 * spec.vocabulary as u64),
            best: gpu.buffer((16 * HEAD_ROWS * parts) as u64),
            parts,
            top: Top::new(gpu, (&logits, HEAD_ROWS, spec.vocabulary), spec.logit_softcap),
            logits,
        }
    }
}
