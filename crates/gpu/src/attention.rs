//! Steps of attention to the keys and values in blocks.

use crate::kernel::Access::{Read, Uniform, Write};
use crate::layer::{BATCH, Bound, QUANTISE, unsigned};
use crate::product::{Activations, TILE_MEMORY};
use crate::source::{fill, float, unroll};
use crate::{Buffer, Gpu, Step};

/// Number of positions in a block of keys and values.
pub const BLOCK: usize = 64;

/// Number of positions in a span of attention. A generated token has a workgroup for each span, and
/// more of them use more of the device.
pub const SPAN: usize = 128;

/// Number of positions that a workgroup of a prompt reads at once, a multiple of [`SPAN`].
pub const PROMPT_SPAN: usize = 256;

/// Most queries that a workgroup of attention has.
const QUERIES: u32 = 8;

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
