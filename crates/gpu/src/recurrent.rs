//! Steps of blocks that keep a state of fixed size for a sequence: causal convolutions and linear
//! recurrences.
//!
//! The states of all sequences are in slots. A pass reads the state before the first of a sequence's
//! tokens from one slot, and writes the state after the last to another or the same one ([`Segment`]).
//! Tokens are computed one after another, so the results do not depend on the division of a text.

use crate::kernel::Access::{Read, Uniform, Write};
use crate::layer::{BATCH, Bound, Columns, QUANTISE, unsigned};
use crate::product::Activations;
use crate::source::{fill, float, unroll};
use crate::{Buffer, Gpu};

const SEGMENT: &str = include_str!("shaders/segment.wgsl");

/// The tokens of a sequence in a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, bytemuck::NoUninit)]
#[repr(C)]
pub struct Segment {
    /// Index of the first token in the pass.
    pub first: u32,
    /// Number of tokens.
    pub count: u32,
    /// Slot of the state before the first token, or [`Segment::NOWHERE`].
    pub before: u32,
    /// Slot of the state after the last token.
    pub after: u32,
}

impl Segment {
    /// Slot of the state before a sequence's first token.
    pub const NOWHERE: u32 = u32::MAX;
}

/// A causal convolution of each channel.
pub struct Convolution<'a> {
    /// Inputs.
    pub x: Columns<'a>,
    /// Number of channels.
    pub channels: usize,
    /// Number of tokens that a result depends on, at least 2.
    pub kernel: usize,
    /// Factors of the tokens, oldest first. Shape: `[kernel, channels]`.
    pub factors: &'a Buffer,
    /// Added to the sums. Shape: `[channels]`.
    pub bias: Option<&'a Buffer>,
    /// True if the input and the result are multiplied by gates, which precede the input in a row. Other
    /// results pass through `x · σ(x)`.
    pub is_gated: bool,
}

impl Convolution<'_> {
    /// Returns the number of elements of a state.
    pub const fn state_len(channels: usize, kernel: usize) -> usize {
        channels * (kernel - 1)
    }

    /// Binds the step. Its second dimension is the segment. Shape of `out`: `[tokens, channels]`.
    pub fn bind(
        &self,
        gpu: &Gpu,
        (batch, segments): (&Buffer, &Buffer),
        state: &Buffer,
        out: &Buffer,
    ) -> Bound {
        let x = self.x;
        let source = SEGMENT.to_owned()
            + &fill(
                include_str!("shaders/convolve.wgsl"),
                &[
                    ("GATED", self.is_gated.to_string()),
                    ("BIAS", self.bias.is_some().to_string()),
                    ("CHANNELS", unsigned(self.channels)),
                    ("KERNEL", unsigned(self.kernel)),
                    ("STRIDE", unsigned(x.stride)),
                    ("INPUT", unsigned(x.first)),
                ],
            );
        let buffers = [
            (Uniform, batch),
            (Read, segments),
            (Read, x.buffer),
            (Read, self.factors),
            (Read, self.bias.unwrap_or(self.factors)),
            (Write, state),
            (Write, out),
        ];
        Bound::new(gpu, &(BATCH.to_owned() + &source), self.channels.div_ceil(64) as u32, &buffers)
    }
}

/// Kind of a linear recurrence.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RecurrenceKind {
    /// The gated delta rule. Queries and keys are normalised.
    DeltaRule {
        /// Column of the first head's rate in the projections.
        rates: usize,
        /// Factor of queries.
        query_scale: f32,
    },
    /// Mamba2. Values are multiplied by their time steps.
    Mamba2 {
        /// Least and largest time step.
        limits: [f32; 2],
    },
}

/// Heads that share queries and keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// This number of heads have queries and keys. Neighbours share one.
    Neighbours(usize),
    /// Head `i` uses the query and key of head `i % count`, where `count` is this number.
    Alternating(usize),
}

/// A linear recurrence.
pub struct Recurrence<'a> {
    /// Queries, keys and values: results of the convolution.
    pub x: Columns<'a>,
    /// The block's projections, among them rates and time steps.
    pub mixed: Columns<'a>,
    /// Kind of the recurrence.
    pub kind: RecurrenceKind,
    /// Number of heads, each with a state of its own.
    pub heads: usize,
    /// Width of a query or key, a multiple of 4.
    pub rows: usize,
    /// Width of a value.
    pub columns: usize,
    /// Assignment of heads to queries and keys.
    pub sharing: Sharing,
    /// Columns of the first query, key and value in a row of the convolution's result.
    pub starts: [usize; 3],
    /// Column of the first head's time step in the projections.
    pub times: usize,
    /// Bias of the time step and growth of each head. Shape: `[heads, 2]`.
    pub constants: &'a Buffer,
}

impl Recurrence<'_> {
    /// Binds the step. Its second dimension is the segment. Shape of `out`: `[tokens, heads, columns]`.
    pub fn bind(
        &self,
        gpu: &Gpu,
        (batch, segments): (&Buffer, &Buffer),
        state: &Buffer,
        out: &Buffer,
    ) -> Bound {
        let (x, mixed) = (self.x, self.mixed);
        let (rates, query_scale, [least, most]) = match self.kind {
            RecurrenceKind::DeltaRule { rates, query_scale } => (Some(rates), query_scale, [0.0; 2]),
            RecurrenceKind::Mamba2 { limits } => (None, 1.0, limits),
        };
        let shared = match self.sharing {
            Sharing::Neighbours(count) => format!("(head * {count}u / {}u)", self.heads),
            Sharing::Alternating(count) => format!("(head % {count}u)"),
        };
        let chunks = self.columns.div_ceil(64);
        let quads = self.rows / 4;
        let [queries, keys, values] = self.starts;
        let source = unroll(include_str!("shaders/recur.wgsl"), &[('r', quads as u32)]);
        let source = SEGMENT.to_owned()
            + &fill(
                &source,
                &[
                    ("SHARED_HEAD", shared),
                    ("QUERY_SCALE", float(query_scale)),
                    ("QUERIES", unsigned(queries)),
                    ("KEYS", unsigned(keys)),
                    ("VALUES", unsigned(values)),
                    ("DELTA", rates.is_some().to_string()),
                    ("RATES", unsigned(rates.unwrap_or_default())),
                    ("TIMES", unsigned(self.times)),
                    ("LEAST", float(least)),
                    // No time step is larger.
                    ("MOST", float(most.min(f32::MAX))),
                    ("MIXED", unsigned(mixed.stride)),
                    ("STRIDE", unsigned(x.stride)),
                    ("CHUNKS", unsigned(chunks)),
                    ("QUADS", unsigned(quads)),
                    ("COLUMNS", unsigned(self.columns)),
                    ("HEADS", unsigned(self.heads)),
                    ("ROWS", unsigned(self.rows)),
                ],
            );
        let buffers = [
            (Uniform, batch),
            (Read, segments),
            (Read, x.buffer),
            (Read, mixed.buffer),
            (Read, self.constants),
            (Write, state),
            (Write, out),
        ];
        Bound::new(gpu, &(BATCH.to_owned() + &source), (self.heads * chunks) as u32, &buffers)
    }
}

/// Norm and gate of the outputs of a recurrence.
pub struct GatedNorm<'a> {
    /// Number of outputs of a token.
    pub len: usize,
    /// Number of parts that are normalised by themselves.
    pub norms: usize,
    /// Added to the mean squares.
    pub epsilon: f32,
    /// Weights and their number, which divides `len`.
    pub weight: (&'a Buffer, usize),
    /// True if the gate comes before the norm.
    pub is_gated_first: bool,
    /// Factors of the heads' values, the width of a head, and the values. The products are added to the
    /// outputs first.
    pub skip: Option<(&'a Buffer, usize, Columns<'a>)>,
}

impl GatedNorm<'_> {
    /// Binds the step. It has one workgroup for each token. Shape of `y`: `[tokens, len]`.
    pub fn bind(
        &self,
        gpu: &Gpu,
        batch: &Buffer,
        (y, gate): (&Buffer, Columns<'_>),
        out: &Activations,
    ) -> Bound {
        let vectors = self.len.next_multiple_of(32) / 4;
        let lanes = 1 << (256 / self.norms).max(1).ilog2();
        let (weight, weights) = self.weight;
        let none = (weight, 1, Columns { buffer: weight, stride: 0, first: 0 });
        let (skip, dim, values) = self.skip.unwrap_or(none);
        let source = QUANTISE.to_owned() + include_str!("shaders/gated_norm.wgsl");
        let source = BATCH.to_owned()
            + &fill(
                &source,
                &[
                    ("GATE_FIRST", self.is_gated_first.to_string()),
                    ("GATES", unsigned(gate.first)),
                    ("MIXED", unsigned(gate.stride)),
                    ("SKIP", self.skip.is_some().to_string()),
                    ("STRIDE", unsigned(values.stride)),
                    ("WEIGHTS", unsigned(weights)),
                    ("VECTORS", unsigned(vectors)),
                    ("EPSILON", float(self.epsilon)),
                    ("NORMS", unsigned(self.norms)),
                    ("LANES", unsigned(lanes)),
                    ("LEN", unsigned(self.len)),
                    ("DIM", unsigned(dim)),
                ],
            );
        let buffers = [
            (Uniform, batch),
            (Read, y),
            (Read, gate.buffer),
            (Read, values.buffer),
            (Read, skip),
            (Read, weight),
            (Write, &out.floats),
            (Write, &out.codes),
            (Write, &out.heads),
        ];
        Bound::new(gpu, &source, 1, &buffers)
    }
}
