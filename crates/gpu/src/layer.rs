//! Steps of a layer other than products.
//!
//! Buffers have a row for each token of a pass. The width of a row is a multiple of 32 elements, and
//! elements beyond the model's width are 0.

use crate::kernel::Access::{self, Read, Uniform, Write};
use crate::product::{Activations, TILE_MEMORY};
use crate::source::{fill, float, unroll};
use crate::{Bindings, Buffer, Gpu, Kernel, Step};

pub(crate) const QUANTISE: &str = include_str!("shaders/quantise.wgsl");
pub(crate) const BATCH: &str = include_str!("shaders/batch.wgsl");

/// Number of positions in a block of keys and values.
pub const BLOCK: usize = 64;

/// Number of positions in a span of attention. A generated token has a workgroup for each span, and
/// more of them use more of the device.
pub const SPAN: usize = 128;

/// Number of positions that a workgroup of a prompt reads at once, a multiple of [`SPAN`].
pub const PROMPT_SPAN: usize = 256;

/// Most queries that a workgroup of attention has.
const QUERIES: u32 = 8;

/// A step whose number of workgroups depends on the pass.
#[derive(Clone)]
pub struct Bound {
    kernel: Kernel,
    bindings: Bindings,
    per_token: u32,
}

impl Bound {
    pub(crate) fn new(gpu: &Gpu, source: &str, per_token: u32, buffers: &[(Access, &Buffer)]) -> Self {
        let accesses: Vec<Access> = buffers.iter().map(|(access, _)| *access).collect();
        Self { kernel: gpu.kernel(source, &accesses), bindings: gpu.bind(buffers), per_token }
    }

    /// Returns the step with `rows` workgroups in the second dimension.
    pub fn by_y(&self, rows: u32) -> Step {
        Step {
            kernel: self.kernel.clone(),
            bindings: self.bindings.clone(),
            workgroups: [self.per_token, rows, 1],
        }
    }

    /// Returns the step with `rows` workgroups in the first dimension.
    pub fn by_x(&self, rows: u32) -> Step {
        let mut step = self.by_y(rows);
        step.workgroups.swap(0, 1);
        step
    }
}

pub(crate) fn unsigned(value: usize) -> String {
    format!("{value}u")
}

/// A norm of the residual stream, and the addition of a block's output before it.
pub struct Norm<'a> {
    /// Number of elements of a token, a multiple of 4.
    pub width: usize,
    /// Added to the mean square.
    pub epsilon: f32,
    /// Output of a block, which is added to the residual stream. Shape: `[tokens, width]`.
    pub added: Option<Added<'a>>,
    /// Weights of the norm. `None` if the stream is not normalised.
    pub weight: Option<&'a Buffer>,
    /// True if the mean is subtracted first.
    pub is_centred: bool,
    /// Added after the norm.
    pub bias: Option<&'a Buffer>,
    /// Residual stream. Shape: `[tokens, width]`.
    pub residual: &'a Buffer,
    /// Result. `None` if only the stream is needed.
    pub out: Option<&'a Activations>,
}

/// Output of a block.
#[derive(Clone, Copy)]
pub struct Added<'a> {
    /// The output. Shape: `[tokens, width]`.
    pub y: &'a Buffer,
    /// Weights of the norm of the output.
    pub norm: Option<&'a Buffer>,
    /// Factor of the output, after its norm.
    pub scale: f32,
    /// Factor of the sum.
    pub stream_scale: f32,
}

impl Norm<'_> {
    /// Binds the step. It has one workgroup for each token.
    pub fn bind(&self, gpu: &Gpu, batch: &Buffer, unused: &Activations) -> Bound {
        let (post, scale) = self.added.map_or((None, 1.0), |added| (added.norm, added.scale));
        let stream = self.added.map_or(1.0, |added| added.stream_scale);
        let out = self.out.unwrap_or(unused);
        let source = QUANTISE.to_owned() + include_str!("shaders/norm.wgsl");
        let source = BATCH.to_owned()
            + &fill(
                &source,
                &[
                    ("VECTORS", unsigned(self.width.next_multiple_of(32) / 4)),
                    ("USED", unsigned(self.width / 4)),
                    ("WIDTH", format!("{}.0", self.width)),
                    ("EPSILON", float(self.epsilon)),
                    ("SCALE", float(scale)),
                    ("STREAM", float(stream)),
                    ("CENTRED", self.is_centred.to_string()),
                    ("BIAS", self.bias.is_some().to_string()),
                    ("POST", post.is_some().to_string()),
                    ("ADD", self.added.is_some().to_string()),
                    ("NORM", self.weight.is_some().to_string()),
                    ("OUT", self.out.is_some().to_string()),
                ],
            );
        // A buffer cannot be bound both to read and to write, so unused bindings take the batch.
        let read = |buffer: Option<&Buffer>| buffer.unwrap_or(batch).clone();
        let y = read(self.added.map(|added| added.y));
        let (post, weight, bias) = (read(post), read(self.weight), read(self.bias));
        Bound::new(
            gpu,
            &source,
            1,
            &[
                (Uniform, batch),
                (Read, &y),
                (Read, &post),
                (Read, &weight),
                (Read, &bias),
                (Write, self.residual),
                (Write, &out.floats),
                (Write, &out.codes),
                (Write, &out.heads),
            ],
        )
    }
}

/// Binds a copy of the rows of the residual stream with the numbers in `rows`. Rows have `width`
/// elements.
pub fn gather(
    gpu: &Gpu,
    batch: &Buffer,
    rows: &Buffer,
    (stream, width): (&Buffer, usize),
    out: &Buffer,
) -> Bound {
    let vectors = width.next_multiple_of(32) / 4;
    let source =
        BATCH.to_owned() + &fill(include_str!("shaders/gather.wgsl"), &[("VECTORS", unsigned(vectors))]);
    let buffers = [(Uniform, batch), (Read, rows), (Read, stream), (Write, out)];
    Bound::new(gpu, &source, vectors.div_ceil(64) as u32, &buffers)
}

/// Rows of floats, of which a step reads some columns.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// The rows.
    pub buffer: &'a Buffer,
    /// Length of a row.
    pub stride: usize,
    /// First column that is used.
    pub first: usize,
}

/// Binds the rounding of `width` columns of rows of floats. The second dimension of the step is the row.
pub fn round(gpu: &Gpu, batch: &Buffer, y: Columns<'_>, (out, width): (&Activations, usize)) -> Bound {
    let vectors = width.next_multiple_of(32) / 4;
    let values = [
        ("STRIDE", unsigned(y.stride)),
        ("BEGIN", unsigned(y.first)),
        ("VECTORS", unsigned(vectors)),
        ("WIDTH", unsigned(width)),
    ];
    let source = BATCH.to_owned() + QUANTISE + &fill(include_str!("shaders/round.wgsl"), &values);
    let buffers =
        [(Uniform, batch), (Read, y.buffer), (Write, &out.floats), (Write, &out.codes), (Write, &out.heads)];
    Bound::new(gpu, &source, vectors.div_ceil(256) as u32, &buffers)
}

/// A norm of rows of floats.
pub struct RowNorm<'a> {
    /// Rows, of which `width` columns are normalised.
    pub y: Columns<'a>,
    /// Number of elements, a multiple of 4.
    pub width: usize,
    /// Added to the mean square.
    pub epsilon: f32,
    /// Weights.
    pub weight: &'a Buffer,
    /// Added to the result. Its rows are padded to multiples of 32 elements.
    pub added: Option<&'a Buffer>,
}

impl RowNorm<'_> {
    /// Binds the step. It has one workgroup for each row.
    pub fn bind(&self, gpu: &Gpu, batch: &Buffer, out: &Activations) -> Bound {
        let source = QUANTISE.to_owned() + include_str!("shaders/row_norm.wgsl");
        let values = [
            ("VECTORS", unsigned(self.width.next_multiple_of(32) / 4)),
            ("STRIDE", unsigned(self.y.stride)),
            ("BEGIN", unsigned(self.y.first)),
            ("EPSILON", float(self.epsilon)),
            ("WIDTH", unsigned(self.width)),
            ("ADD", self.added.is_some().to_string()),
        ];
        let buffers = [
            (Uniform, batch),
            (Read, self.y.buffer),
            (Read, self.weight),
            (Read, self.added.unwrap_or(self.weight)),
            (Write, &out.floats),
            (Write, &out.codes),
            (Write, &out.heads),
        ];
        Bound::new(gpu, &(BATCH.to_owned() + &fill(&source, &values)), 1, &buffers)
    }
}

/// Binds the additional inputs of layers: normalises each row of `inputs` with `weight`, adds the row of
/// `embedded`, and divides by √2. Shape of both: `[tokens, layers, width]`. The second dimension of the
/// step is the token.
pub fn layer_inputs(
    gpu: &Gpu,
    batch: &Buffer,
    (layers, width, epsilon): (usize, usize, f32),
    [embedded, weight]: [&Buffer; 2],
    inputs: &Buffer,
) -> Bound {
    let values = [("LAYERS", unsigned(layers)), ("WIDTH", unsigned(width)), ("EPSILON", float(epsilon))];
    let source = BATCH.to_owned() + &fill(include_str!("shaders/layer_inputs.wgsl"), &values);
    let buffers = [(Uniform, batch), (Read, embedded), (Read, weight), (Write, inputs)];
    Bound::new(gpu, &source, layers as u32, &buffers)
}

/// Activation of a feed-forward block, on the gate `g` and the up projection `u`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Activation {
    /// `g · σ(g) · u`
    Silu,
    /// `gelu(g) · u`, with the tanh approximation.
    GeluTanh,
    /// `gelu(g) · u`.
    Gelu,
    /// `gelu(g)`, without an up projection.
    PlainGelu,
    /// `max(g, 0)²`, without an up projection.
    ReluSquared,
    /// `g · σ(1.702 g) · (u + 1)`, with `g` clamped from above and `u` from both sides.
    ClampedSwiglu {
        /// Upper limit of `g`, and of the absolute value of `u`.
        limit: f32,
    },
}

impl Activation {
    fn source(self) -> String {
        match self {
            Self::Silu => "return g / (1.0 + exp(-g)) * u;".to_owned(),
            Self::GeluTanh => {
                "let z = 0.7978846 * g * (1.0 + 0.044715 * g * g); return g / (1.0 + exp(-2.0 * z)) * u;"
                    .to_owned()
            }
            Self::PlainGelu => "return 0.5 * g * (1.0 + erf(g * 0.70710678));".to_owned(),
            Self::ReluSquared => "let r = max(g, vec4<f32>(0.0)); return r * r;".to_owned(),
            Self::Gelu => "return 0.5 * g * (1.0 + erf(g * 0.70710678)) * u;".to_owned(),
            Self::ClampedSwiglu { limit } => {
                let limit = float(limit);
                format!(
                    "let c = min(g, vec4<f32>({limit}));
                     let v = clamp(u, vec4<f32>(-({limit})), vec4<f32>({limit}));
                     return c / (1.0 + exp(-1.702 * c)) * (v + 1.0);"
                )
            }
        }
    }

    /// Reports whether the block has an up projection.
    pub const fn is_gated(self) -> bool {
        !matches!(self, Self::PlainGelu | Self::ReluSquared)
    }

    /// Binds the step for a hidden layer of `width` elements. A row of `y` has the gate and the up
    /// projection, if there is one, each padded to a multiple of 32 elements.
    pub fn bind(self, gpu: &Gpu, batch: &Buffer, (y, width): (&Buffer, usize), out: &Activations) -> Bound {
        let vectors = width.next_multiple_of(32) / 4;
        let stride = vectors * if self.is_gated() { 2 } else { 1 };
        let up = if self.is_gated() { vectors } else { 0 };
        self.bind_rows(gpu, batch, ([y, y], [stride, stride, up], width), out)
    }

    /// Binds the step for a gate, in rows that are padded to a multiple of 32 elements, and columns of
    /// another buffer as the up projection. `width`, the stride and the first column of `up` are multiples
    /// of 4.
    pub fn bind_to(
        self,
        gpu: &Gpu,
        batch: &Buffer,
        (gate, width, up): (&Buffer, usize, Columns<'_>),
        out: &Activations,
    ) -> Bound {
        let strides = [width.next_multiple_of(32) / 4, up.stride / 4, up.first / 4];
        self.bind_rows(gpu, batch, ([gate, up.buffer], strides, width), out)
    }

    /// Binds the step for a gate and an up projection in `rows`, with the strides of both and the first
    /// column of the second, in vectors of four.
    fn bind_rows(
        self,
        gpu: &Gpu,
        batch: &Buffer,
        (rows, [stride, up_stride, up_first], width): ([&Buffer; 2], [usize; 3], usize),
        out: &Activations,
    ) -> Bound {
        let vectors = width.next_multiple_of(32) / 4;
        let source = BATCH.to_owned()
            + QUANTISE
            + &fill(
                include_str!("shaders/activate.wgsl"),
                &[
                    ("UP_STRIDE", unsigned(up_stride)),
                    ("UP_BEGIN", unsigned(up_first)),
                    ("STRIDE", unsigned(stride)),
                    ("VECTORS", unsigned(vectors)),
                    ("WIDTH", unsigned(width)),
                    ("ACTIVATION", self.source()),
                ],
            );
        Bound::new(
            gpu,
            &source,
            vectors.div_ceil(256) as u32,
            &[
                (Uniform, batch),
                (Read, rows[0]),
                (Read, rows[1]),
                (Write, &out.floats),
                (Write, &out.codes),
                (Write, &out.heads),
            ],
        )
    }
}

/// Type of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvType {
    /// 16-bit floats.
    F16,
    /// 32-bit floats.
    F32,
}

impl KvType {
    /// Returns the size of an element in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }

    pub(crate) const fn pair(self) -> &'static str {
        match self {
            Self::F16 => "u32",
            Self::F32 => "vec2<f32>",
        }
    }

    /// Returns the expression that stores `pair`.
    pub(crate) const fn store(self) -> &'static str {
        match self {
            // A value beyond the range of `f16` would become infinite, and reach tokens that do not see it.
            Self::F16 => "pack2x16float(clamp(pair, vec2<f32>(-65504.0), vec2<f32>(65504.0)))",
            Self::F32 => "pair",
        }
    }

    const fn load(self) -> &'static str {
        match self {
            Self::F16 => "unpack2x16float",
            Self::F32 => "vec2<f32>",
        }
    }
}

/// Norm of queries and keys.
#[derive(Clone, Copy)]
pub struct QkNorm<'a> {
    /// Weights for queries.
    pub query: &'a Buffer,
    /// Weights for keys.
    pub key: &'a Buffer,
    /// True if all heads of a token are normalised together.
    pub is_whole: bool,
    /// True if the weights apply to rotated heads.
    pub is_rotated: bool,
}

/// Origin of the keys and values of an attention block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyValues {
    /// Two projections.
    Own,
    /// One projection. The values are the keys before their norm and rotation.
    OneProjection,
    /// The blocks of keys and values have been written by another layer.
    Written,
}

/// Rotation of queries and keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rotation {
    /// Number of rotated pairs of a head.
    pub pairs: usize,
    /// True if pairs are neighbours, false if they are half of the rotated part apart.
    pub is_interleaved: bool,
    /// Index of the cosine of the first pair of the first token in the buffer of rotations. A token
    /// has the cosines of all pairs, and then their sines.
    pub first: usize,
}

/// An attention block.
pub struct Attention<'a> {
    /// Number of query heads.
    pub heads: usize,
    /// Number of heads of keys and values.
    pub kv_heads: usize,
    /// Width of a head, a multiple of 4.
    pub head_dim: usize,
    /// Number of positions that a token sees. `None` for all.
    pub window: Option<usize>,
    /// Cap of the scores.
    pub softcap: Option<f32>,
    /// Factor of the scores.
    pub scale: f32,
    /// Added to the mean square of queries and keys.
    pub epsilon: f32,
    /// Norm of queries and keys.
    pub qk_norm: Option<QkNorm<'a>>,
    /// True if each head of the values is normalised, without weights.
    pub value_norm: bool,
    /// Origin of keys and values.
    pub key_values: KeyValues,
    /// Rotation of queries and keys.
    pub rotation: Option<Rotation>,
    /// Scores that take part in the softmax. Shape: `[heads]`.
    pub sinks: Option<&'a Buffer>,
    /// True if the result is multiplied by `σ(g)` of the gate `g`.
    pub is_gated: bool,
    /// Type of keys and values.
    pub kv: KvType,
}

/// Buffers of a pass, which all attention blocks share.
pub struct Shared<'a> {
    /// Parameters of the pass.
    pub batch: &'a Buffer,
    /// Queries, keys and values. Shape: `[tokens, stride]`.
    pub qkv: &'a Buffer,
    /// Length of a row of `qkv`.
    pub stride: usize,
    /// Column of the first head's gate in a row of `qkv`, if the result is gated.
    pub gates: usize,
    /// Cosines and sines.
    pub rotations: &'a Buffer,
    /// Slot of each token, and the factor of its query as the bits of an `f32`.
    pub slots: &'a Buffer,
    /// Queries. Shape: `[tokens, heads, head_dim]`.
    pub queries: &'a Buffer,
    /// Blocks of the sequences of the pass.
    pub table: &'a Buffer,
    /// Items of attention with the block's window ([`Item`]).
    pub items: &'a Buffer,
    /// Partial sums of attention. Shape: `[rows, heads, head_dim]`.
    pub sums: &'a Buffer,
    /// Largest score and sum of exponentials. Shape: `[rows, heads, 2]`.
    pub stats: &'a Buffer,
    /// First row and number of rows of each token.
    pub parts: &'a Buffer,
    /// Result. Shape: `[tokens, heads * head_dim]`.
    pub out: &'a Activations,
}

/// Work of a workgroup of attention: some tokens of a sequence with neighbouring positions, and a
/// range of positions that they attend to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, bytemuck::NoUninit)]
#[repr(C)]
pub struct Item {
    /// Index of the first token in the pass.
    pub token: u32,
    /// Number of tokens.
    pub count: u32,
    /// Position of the first token.
    pub position: u32,
    /// Index of the sequence's first block in the table.
    pub table: u32,
    /// First position, a multiple of [`BLOCK`].
    pub begin: u32,
    /// End of the positions.
    pub end: u32,
    /// Row of partial sums for the first token.
    pub row: u32,
    /// Padding to 32 bytes.
    pub unused: u32,
}

/// The steps of an attention block between the products.
#[derive(Clone)]
pub struct BoundAttention {
    enter: Bound,
    /// For items of one token and of several.
    attend: [Bound; 2],
    combine: Bound,
}

/// Returns the memory that a workgroup needs for a model with heads of `head_dim` elements, in bytes.
pub fn workgroup_memory(head_dim: usize) -> usize {
    // Attention holds queries, scores and a tree of sums.
    let attention = QUERIES as usize * 4 * (head_dim + PROMPT_SPAN + 64);
    attention.max(TILE_MEMORY)
}

impl Attention<'_> {
    /// Returns the number of query heads in a workgroup, and the number of tokens of an item of
    /// several tokens.
    pub fn tile(&self) -> (usize, usize) {
        tile(self.heads, self.kv_heads)
    }

    /// Binds the steps. `keys` and `values` are the blocks of the layer.
    pub fn bind(&self, gpu: &Gpu, shared: &Shared<'_>, keys: &Buffer, values: &Buffer) -> BoundAttention {
        let enter = self.enter(gpu, shared, keys, values);
        self.bind_after(gpu, (enter, shared), keys, values)
    }

    /// Binds the steps after a step that writes queries, keys and values.
    pub(crate) fn bind_after(
        &self,
        gpu: &Gpu,
        (enter, shared): (Bound, &Shared<'_>),
        keys: &Buffer,
        values: &Buffer,
    ) -> BoundAttention {
        BoundAttention {
            enter,
            attend: [1, self.tile().1].map(|tokens| self.attend(gpu, shared, [keys, values], tokens)),
            combine: self.combine(gpu, shared),
        }
    }

    fn enter(&self, gpu: &Gpu, shared: &Shared<'_>, keys: &Buffer, values: &Buffer) -> Bound {
        let rotation = self.rotation.unwrap_or(Rotation { pairs: 0, is_interleaved: false, first: 0 });
        let norm = self.qk_norm;
        let source = BATCH.to_owned()
            + &fill(
                include_str!("shaders/enter.wgsl"),
                &[
                    ("INTERLEAVED", rotation.is_interleaved.to_string()),
                    ("ROTATION", unsigned(rotation.first)),
                    ("PAIRS", unsigned(rotation.pairs)),
                    ("PAIR", self.kv.pair().to_owned()),
                    ("STORE(pair)", self.kv.store().to_owned()),
                    ("STRIDE", unsigned(shared.stride)),
                    ("KV_HEADS", unsigned(self.kv_heads)),
                    ("HEADS", unsigned(self.heads)),
                    ("DIM", unsigned(self.head_dim)),
                    ("EPSILON", float(self.epsilon)),
                    ("SCALE", float(self.scale)),
                    ("VALUE_NORM", self.value_norm.to_string()),
                    ("ONE_PROJECTION", (self.key_values == KeyValues::OneProjection).to_string()),
                    ("ROTATED", norm.is_some_and(|norm| norm.is_rotated).to_string()),
                    ("WHOLE", norm.is_some_and(|norm| norm.is_whole).to_string()),
                    ("NORM", norm.is_some().to_string()),
                ],
            );
        let (query, key) = norm.map_or((shared.rotations, shared.rotations), |norm| (norm.query, norm.key));
        let written = if self.key_values == KeyValues::Written { 0 } else { 2 * self.kv_heads };
        Bound::new(
            gpu,
            &source,
            (self.heads + written) as u32,
            &[
                (Uniform, shared.batch),
                (Read, shared.qkv),
                (Read, query),
                (Read, key),
                (Read, shared.rotations),
                (Read, shared.slots),
                (Write, shared.queries),
                (Write, keys),
                (Write, values),
            ],
        )
    }

    /// Binds attention for items of `tokens` tokens.
    fn attend(&self, gpu: &Gpu, shared: &Shared<'_>, [keys, values]: [&Buffer; 2], tokens: usize) -> Bound {
        let (query_heads, _) = self.tile();
        let group = self.heads / self.kv_heads;
        let chunks = group.div_ceil(query_heads);
        let pairs = self.head_dim / 2;
        let per_thread = pairs.div_ceil(64) as u32;
        let queries = (query_heads * tokens) as u32;
        let cap = match self.softcap {
            Some(cap) => format!("{0} * tanh(1.0 / {0} * ", float(cap)),
            None => "(".to_owned(),
        };
        // The token at position `p` sees the positions from `p + 1 - window` on.
        let seen = match self.window {
            Some(window) => format!("max(item.position + token_$q + 1u, {window}u) - {window}u"),
            None => "0u".to_owned(),
        };
        let source = fill(include_str!("shaders/attend.wgsl"), &[("SEEN", seen)]);
        // Loads that do not wait for each other hide their latency.
        let unrolled = (1..=8).rev().find(|count| pairs.is_multiple_of(*count)).unwrap_or(1);
        let variables = [('q', queries), ('d', per_thread), ('u', unrolled as u32), ('v', 8)];
        let source = unroll(&source, &variables);
        let source = BATCH.to_owned()
            + &fill(
                &source,
                &[
                    ("CAP(", cap),
                    ("LOAD", self.kv.load().to_owned()),
                    ("PAIR>", format!("{}>", self.kv.pair())),
                    ("UNROLLED", unsigned(unrolled)),
                    ("SPAN", unsigned(if tokens == 1 { SPAN } else { PROMPT_SPAN })),
                    ("QUERY_HEADS", unsigned(query_heads)),
                    ("QUERIES", unsigned(queries as usize)),
                    ("KV_HEADS", unsigned(self.kv_heads)),
                    ("HEADS", unsigned(self.heads)),
                    ("CHUNKS", unsigned(chunks)),
                    ("GROUP", unsigned(group)),
                    ("DIM", unsigned(self.head_dim)),
                ],
            );
        Bound::new(
            gpu,
            &source,
            (self.kv_heads * chunks) as u32,
            &[
                (Uniform, shared.batch),
                (Read, shared.items),
                (Read, shared.table),
                (Read, shared.queries),
                (Read, keys),
                (Read, values),
                (Write, shared.sums),
                (Write, shared.stats),
            ],
        )
    }

    fn combine(&self, gpu: &Gpu, shared: &Shared<'_>) -> Bound {
        let width = self.heads * self.head_dim;
        let vectors = width.next_multiple_of(32) / 4;
        let source = BATCH.to_owned()
            + QUANTISE
            + &fill(
                include_str!("shaders/combine.wgsl"),
                &[
                    ("VECTORS", unsigned(vectors)),
                    ("USED", unsigned(width / 4)),
                    ("HEADS", unsigned(self.heads)),
                    ("DIM", unsigned(self.head_dim)),
                    ("SINKS", self.sinks.is_some().to_string()),
                    ("GATED", self.is_gated.to_string()),
                    ("STRIDE", unsigned(shared.stride)),
                    ("GATES", unsigned(shared.gates)),
                ],
            );
        Bound::new(
            gpu,
            &source,
            vectors.div_ceil(256) as u32,
            &[
                (Uniform, shared.batch),
                (Read, shared.sums),
                (Read, shared.stats),
                (Read, shared.parts),
                (Read, self.sinks.unwrap_or(shared.rotations)),
                (Read, shared.qkv),
                (Write, &shared.out.floats),
                (Write, &shared.out.codes),
                (Write, &shared.out.heads),
            ],
        )
    }
}

/// Returns the number of query heads in a workgroup of attention, and the number of tokens of an
/// item of several tokens.
pub fn tile(heads: usize, kv_heads: usize) -> (usize, usize) {
    let group = heads / kv_heads;
    // The largest divisor of the group that is at most the limit.
    let query_heads = (1..=group.min(QUERIES as usize)).rev().find(|count| group.is_multiple_of(*count));
    let query_heads = query_heads.unwrap_or(1);
    (query_heads, (QUERIES as usize / query_heads).max(1))
}

impl BoundAttention {
    /// Returns the steps for `tokens` tokens and `items` items, of one token each or of several: the
    /// writing of keys and values, attention to the items' positions, and the joining of its results.
    pub fn steps(&self, tokens: u32, items: u32, is_tiled: bool) -> [Step; 3] {
        let attend = &self.attend[usize::from(is_tiled)];
        [self.enter.by_y(tokens), attend.by_x(items), self.combine.by_y(tokens)]
    }
}

/// Number of values that a workgroup of [`best`] reduces.
pub const BEST: usize = 2048;

/// Binds the search for the largest value of each row. A row of `rows` has as many values as its second
/// part says. The result has `parts` of [`Best`] for a row, one for each [`BEST`] values.
pub fn best(
    gpu: &Gpu,
    batch: &Buffer,
    (rows, count): (&Buffer, usize),
    (out, parts): (&Buffer, usize),
) -> Bound {
    let values = [("COUNT", unsigned(count)), ("PARTS", unsigned(parts))];
    let source = BATCH.to_owned() + &fill(include_str!("shaders/best.wgsl"), &values);
    Bound::new(gpu, &source, parts as u32, &[(Uniform, batch), (Read, rows), (Write, out)])
}

/// The largest of some values.
#[derive(Clone, Copy, PartialEq, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Best {
    /// The value.
    pub value: f32,
    /// Its first place.
    pub place: u32,
    /// Number of equal values.
    pub equal: u32,
    unused: u32,
}
