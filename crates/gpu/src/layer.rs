//! Steps of a layer other than products and attention.
//!
//! Buffers have a row for each token of a pass. The width of a row is a multiple of 32 elements, and
//! elements beyond the model's width are 0.

use crate::kernel::Access::{self, Read, Uniform, Write};
use crate::product::Activations;
use crate::source::{fill, float};
use crate::{Bindings, Buffer, Gpu, Kernel, Step};

pub(crate) const QUANTISE: &str = include_str!("shaders/quantise.wgsl");
pub(crate) const BATCH: &str = include_str!("shaders/batch.wgsl");

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

/// Rows of floats. A step reads some of their columns.
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
    /// Rows. The step normalises `width` of their columns.
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
