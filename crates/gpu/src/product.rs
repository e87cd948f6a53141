//! Products of matrices with activations.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::kernel::Access::{self, Read, Uniform, Write};
use crate::mixture::Choice;
use crate::source::{fill, float, unroll};
use crate::weights::{Codes, Matrix, Part, Scales, Storage};
use crate::{Bindings, Buffer, Gpu, Kernel, MatrixCores};

/// Form of the activations in a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// 8-bit integers with a step for each group of 32. Only for quantised weights.
    Bytes,
    /// 32-bit floats.
    Floats,
}

/// Activations of the tokens of a pass, in both forms, as [`layer`](crate::layer) kernels write
/// them. A row has whole groups of 32: elements beyond the width are 0.
#[derive(Clone)]
pub struct Activations {
    /// Floats. Shape: `[tokens, width]`.
    pub floats: Buffer,
    /// Bytes. Shape: `[tokens, width]`.
    pub codes: Buffer,
    /// Step and sums of each group. Shape: `[tokens, width / 32, 2]`.
    pub heads: Buffer,
}

impl Activations {
    /// Creates activations of at most `tokens` tokens with `width` elements each.
    pub fn new(gpu: &Gpu, tokens: usize, width: usize) -> Self {
        let width = width.next_multiple_of(32) as u64;
        let count = tokens as u64 * width;
        Self { floats: gpu.buffer(count * 4), codes: gpu.buffer(count), heads: gpu.buffer(count / 32 * 8) }
    }
}

/// Destination of a product: columns of a matrix of `f32` with a row for each token.
#[derive(Clone)]
pub struct Output {
    /// The matrix.
    pub buffer: Buffer,
    /// Length of its rows.
    pub stride: u32,
    /// Column of the first output.
    pub first: u32,
}

/// Rows that a product computes.
#[derive(Clone)]
pub enum Outputs {
    /// All rows.
    All,
    /// The rows with the numbers in the buffer. Their count is [`Batch::rows`].
    Listed(Buffer),
    /// All rows of the experts of each token. The output has a row for each pair of a token and an
    /// expert.
    Experts {
        /// The experts of each token.
        choice: Choice,
        /// Number of rows of an expert. The matrix has the rows of all experts, one after another.
        rows: u32,
        /// True if activations have a row for each pair, and false for each token.
        has_pairs: bool,
    },
}

/// Parameters of a pass, which kernels read from a uniform buffer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, bytemuck::NoUninit)]
#[repr(C)]
pub struct Batch {
    /// Number of tokens.
    pub tokens: u32,
    /// Number of listed rows.
    pub rows: u32,
    /// Padding to 16 bytes.
    pub unused: [u32; 2],
}

/// Numbers of tokens that kernels multiply at once.
pub const TILES: [u32; 4] = [1, 2, 4, 8];

/// Number of rows from which a thread works on two rows at once.
pub(crate) const MANY_ROWS: u32 = 4096;

/// Memory of a workgroup that multiplies prompts with floats, in bytes: two panels of 520 vectors.
pub(crate) const TILE_MEMORY: usize = 2 * 520 * 16;

/// Threads that share a row. The order of a row's sums depends on it.
const LANES: u32 = 32;
const THREADS: u32 = 128;

/// The products of one matrix, bound to their activations and outputs.
#[derive(Clone)]
pub struct Product {
    parts: Vec<BoundPart>,
    storage: Storage,
    operand: Operand,
    groups: u32,
    stride: u32,
    first: u32,
    factor: f32,
    has_bias: bool,
    outputs: Outputs,
    /// Kernels by part and shape, compiled when they are first needed.
    kernels: Arc<Mutex<HashMap<(usize, KernelShape), Kernel>>>,
}

/// Shape of a kernel's workgroups.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum KernelShape {
    /// Numbers of tokens, and of rows of a thread.
    Tokens(u32, u32),
    Prompt,
    /// Products of whole blocks by matrix cores.
    PromptOnCores(MatrixCores),
}

#[derive(Clone)]
struct BoundPart {
    bindings: Bindings,
    first: u32,
    rows: u32,
}

const ACCESSES: [Access; 9] = [Uniform, Read, Read, Read, Read, Read, Read, Read, Write];

/// Inputs of a product.
pub struct Inputs<'a> {
    /// Parameters of the pass, a [`Batch`].
    pub batch: &'a Buffer,
    /// Activations, of the width of the matrix.
    pub x: &'a Activations,
    /// Form of the activations that the product reads.
    pub operand: Operand,
    /// Added to the outputs.
    pub bias: Option<&'a Buffer>,
    /// Factor of the products, before the bias is added.
    pub factor: f32,
    /// Rows to compute.
    pub outputs: Outputs,
}

impl Product {
    /// Binds a product. Float matrices are always multiplied with floats.
    pub fn new(gpu: &Gpu, matrix: &Matrix, inputs: &Inputs<'_>, output: &Output) -> Self {
        let is_float = matrix.storage.codes.is_float();
        let operand = if is_float { Operand::Floats } else { inputs.operand };
        let x = match operand {
            Operand::Bytes => &inputs.x.codes,
            Operand::Floats => &inputs.x.floats,
        };
        let bias = inputs.bias.unwrap_or(&inputs.x.heads);
        let bind = |part: &Part| {
            let [codes, more, scales] = &part.planes;
            let list = match &inputs.outputs {
                Outputs::All => codes,
                Outputs::Listed(list) => list,
                Outputs::Experts { choice, .. } => &choice.list,
            };
            let reads = [codes, more, scales, x, &inputs.x.heads, list, bias];
            let mut bound = vec![(Uniform, inputs.batch)];
            bound.extend(reads.map(|buffer| (Read, buffer)));
            bound.push((Write, &output.buffer));
            BoundPart { bindings: gpu.bind(&bound), first: part.first, rows: part.rows }
        };
        Self {
            parts: matrix.parts.iter().map(bind).collect(),
            storage: matrix.storage,
            operand,
            groups: matrix.groups,
            stride: output.stride,
            first: output.first,
            factor: inputs.factor,
            has_bias: inputs.bias.is_some(),
            outputs: inputs.outputs.clone(),
            kernels: Arc::default(),
        }
    }

    /// Appends the steps that multiply all parts for a pass.
    pub fn steps(&self, gpu: &Gpu, batch: Batch, steps: &mut Vec<crate::Step>) {
        let tile = *TILES.iter().find(|tile| **tile >= batch.tokens).unwrap_or(&TILES[TILES.len() - 1]);
        let (tile, tiles) = match &self.outputs {
            Outputs::Experts { choice, .. } => choice.tiles(batch.tokens),
            _ => (tile, batch.tokens.div_ceil(tile)),
        };
        for (index, part) in self.parts.iter().enumerate() {
            let outputs = match self.outputs {
                Outputs::All => part.rows,
                Outputs::Listed(_) => batch.rows,
                Outputs::Experts { rows, .. } => rows,
            };
            // More rows at once read activations less often, and fewer rows use more of the device.
            let rows = if outputs >= MANY_ROWS { 2 } else { 1 };
            let kernel = self.kernel(gpu, index, KernelShape::Tokens(tile, rows));
            let per_workgroup = THREADS / LANES * rows;
            let workgroups = [outputs.div_ceil(per_workgroup), tiles, 1];
            steps.push(crate::Step { kernel, bindings: part.bindings.clone(), workgroups });
        }
    }

    /// Appends the steps that multiply all parts for a prompt. A workgroup has 64 tokens, so that it
    /// reads weights less often than those of [`Product::steps`]. Groups are added in another order.
    ///
    /// Experts have the steps of [`Product::steps`], whose tiles have as many tokens as an expert has.
    pub fn prompt_steps(&self, gpu: &Gpu, batch: Batch, steps: &mut Vec<crate::Step>) {
        if matches!(self.outputs, Outputs::Experts { .. }) {
            return self.steps(gpu, batch, steps);
        }
        // The kernel for matrix cores reads activations of 8 bits.
        let blocks = gpu.prompt_cores().filter(|_| self.operand == Operand::Bytes);
        let shape = blocks.map_or(KernelShape::Prompt, KernelShape::PromptOnCores);
        for (index, part) in self.parts.iter().enumerate() {
            let kernel = self.kernel(gpu, index, shape);
            let workgroups = [part.rows.div_ceil(64), batch.tokens.div_ceil(64), 1];
            steps.push(crate::Step { kernel, bindings: part.bindings.clone(), workgroups });
        }
    }

    fn prompt_kernel(&self, gpu: &Gpu, part: &BoundPart) -> Kernel {
        let source = match self.operand {
            Operand::Bytes => include_str!("shaders/tile_int8.wgsl").replace("BODY", &self.dots()),
            Operand::Floats => include_str!("shaders/tile_floats.wgsl").to_owned(),
        };
        self.compile(gpu, part, &source, Sum { name: "acc_$r_$t", output: "output_$r", rows: 4, tokens: 4 })
    }

    /// Returns the source of the kernel that multiplies prompts with matrix cores.
    pub(crate) fn core_source(&self, part: usize, cores: MatrixCores) -> String {
        let MatrixCores { size, subgroup } = cores;
        let source = fill(
            include_str!("shaders/tile_matrix.wgsl"),
            &[
                ("RESULTS", format!("{}u", 4 * size * size)),
                ("SQUARE", format!("{}u", size * size)),
                ("SIZE", size.to_string()),
                ("THREADS", format!("{}u", 4 * subgroup)),
            ],
        );
        let count = 32 / size;
        let sum = Sum { name: "result", output: "output", rows: count, tokens: count };
        // Extensions come before all else.
        "enable f16;\nenable wgpu_cooperative_matrix;\n".to_owned()
            + &self.source(&self.parts[part], &source, sum)
    }

    fn kernel(&self, gpu: &Gpu, part: usize, shape: KernelShape) -> Kernel {
        let mut known = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = known.entry((part, shape)).or_insert_with(|| match shape {
            KernelShape::Tokens(tokens, rows) => self.token_kernel(gpu, &self.parts[part], tokens, rows),
            KernelShape::Prompt => self.prompt_kernel(gpu, &self.parts[part]),
            KernelShape::PromptOnCores(cores) => gpu.kernel(&self.core_source(part, cores), &ACCESSES),
        });
        kernel.clone()
    }

    fn token_kernel(&self, gpu: &Gpu, part: &BoundPart, tokens: u32, rows: u32) -> Kernel {
        let body = match self.operand {
            Operand::Bytes => include_str!("shaders/int8.wgsl").to_owned() + &self.dots(),
            Operand::Floats => include_str!("shaders/floats.wgsl").to_owned(),
        };
        let last = part.rows - 1;
        let any_row = |is_inside: &dyn Fn(&str) -> String| {
            (0..rows).map(|row| is_inside(&row.to_string())).collect::<Vec<_>>().join(" || ")
        };
        let source = match &self.outputs {
            Outputs::All => fill(
                include_str!("shaders/product.wgsl"),
                &[
                    ("PICK", "output_$r".to_owned()),
                    (" GUARD", String::new()),
                    ("NEEDED", "first < outputs".to_owned()),
                ],
            ),
            Outputs::Listed(_) => {
                // Rows of other parts are computed by other steps.
                let is_inside = |row: &str| format!("list[output_{row}] - {}u <= {last}u", part.first);
                fill(
                    include_str!("shaders/product.wgsl"),
                    &[
                        ("PICK", format!("min(list[output_$r] - {}u, {last}u)", part.first)),
                        (" GUARD", format!(" && {}", is_inside("$r"))),
                        ("NEEDED", format!("first < outputs && ({})", any_row(&is_inside))),
                    ],
                )
            }
            Outputs::Experts { choice, has_pairs, .. } => fill(
                include_str!("shaders/experts.wgsl"),
                &[
                    ("NEEDED", any_row(&|row| format!("place_{row} <= {last}u"))),
                    ("SHARING", format!("{}u", if *has_pairs { 1 } else { choice.used })),
                    ("PAIRS", format!("{}u", choice.first_pair())),
                    ("ABSENT", format!("{}u", part.first)),
                    ("LAST", format!("{last}u")),
                ],
            ),
        };
        let source = fill(
            &source,
            &[
                ("BODY", body),
                ("JOIN", join()),
                ("PARTIALS", format!("{}u", THREADS * rows * tokens)),
                ("THREADS", format!("{THREADS}u")),
                ("LANES", format!("{LANES}u")),
                ("TOKENS", format!("{tokens}u")),
                ("ROWS", format!("{rows}u")),
            ],
        );
        self.compile(gpu, part, &source, Sum { name: "sum_$r_$t", output: "output_$r", rows, tokens })
    }

    /// Returns the statements that add the products of a group.
    fn dots(&self) -> String {
        include_str!("shaders/dots.wgsl").to_owned() + sums(self.storage.scales)
    }

    /// Compiles the main function in `source`.
    fn compile(&self, gpu: &Gpu, part: &BoundPart, source: &str, sum: Sum<'_>) -> Kernel {
        gpu.kernel(&self.source(part, source, sum), &ACCESSES)
    }

    /// Completes the source of a kernel with the main function `source`.
    fn source(&self, part: &BoundPart, source: &str, sum: Sum<'_>) -> String {
        let Sum { name, output, rows, tokens } = sum;
        // The output of the part's first row, the number of outputs, and the bias of an output.
        let (part_first, outputs, bias) = match self.outputs {
            Outputs::All => {
                (part.first, format!("{}u", part.rows), format!("bias[{}u + {output}]", part.first))
            }
            Outputs::Listed(_) => (0, "batch.rows".to_owned(), format!("bias[list[{output}]]")),
            Outputs::Experts { rows, .. } => {
                (0, format!("{rows}u"), format!("bias[expert * {rows}u + {output}]"))
            }
        };
        let mut epilogue = name.to_owned();
        if self.factor.to_bits() != 1f32.to_bits() {
            epilogue = format!("{epilogue} * {}", float(self.factor));
        }
        if self.has_bias {
            epilogue = format!("{epilogue} + {bias}");
        }
        let values = [
            ("EPILOGUE", epilogue),
            ("OUTPUTS", outputs),
            ("X_TYPE", if self.operand == Operand::Bytes { "vec4<u32>" } else { "vec4<f32>" }.to_owned()),
            ("GROUPS", format!("{}u", self.groups)),
            ("STRIDE", format!("{}u", self.stride)),
            ("FIRST", format!("{}u", self.first + part_first)),
            ("MINUS", format!("{}", self.storage.bias)),
        ];
        let source = reader(self.storage) + include_str!("shaders/bindings.wgsl") + source;
        unroll(&fill(&source, &values), &[('r', rows), ('t', tokens), ('q', 8)])
    }
}

/// Names of variables in a kernel, which lines may repeat for rows and tokens.
#[derive(Clone, Copy)]
struct Sum<'a> {
    /// A product.
    name: &'a str,
    /// Number of its output.
    output: &'a str,
    /// Numbers of rows and tokens.
    rows: u32,
    tokens: u32,
}

/// Returns the statements that add the sums of a group to the product, in the order of the CPU's.
const fn sums(scales: Scales) -> &'static str {
    match scales {
        Scales::Nothing => "",
        Scales::Half => "#rt acc_$r_$t = fma(s_$r.x * step_$t, f32(low_$r_$t + high_$r_$t), acc_$r_$t);\n",
        Scales::HalfPair | Scales::Header => {
            "#rt acc_$r_$t = fma(s_$r.x * step_$t, f32(low_$r_$t + high_$r_$t), acc_$r_$t);
             #rt acc_$r_$t = fma(s_$r.z, step_$t * f32(low_sum_$t + high_sum_$t), acc_$r_$t);\n"
        }
        Scales::Small | Scales::Pair => {
            "#rt acc_$r_$t = fma(s_$r.x * step_$t, f32(low_$r_$t), acc_$r_$t);
             #rt acc_$r_$t = fma(s_$r.y * step_$t, f32(high_$r_$t), acc_$r_$t);\n"
        }
        Scales::Four => {
            "#rt acc_$r_$t = fma(s_$r.x * step_$t, f32(low_$r_$t), acc_$r_$t);
             #rt acc_$r_$t = fma(s_$r.z, step_$t * f32(low_sum_$t), acc_$r_$t);
             #rt acc_$r_$t = fma(s_$r.y * step_$t, f32(high_$r_$t), acc_$r_$t);
             #rt acc_$r_$t = fma(s_$r.w, step_$t * f32(high_sum_$t), acc_$r_$t);\n"
        }
    }
}

/// Returns the statements that add the partial sums of the lanes of a row, in a tree.
fn join() -> String {
    let place = "($r * TOKENS + $t) * THREADS + thread";
    let mut lines = vec![format!("#rt partial[{place}] = acc_$r_$t;")];
    let mut step = LANES / 2;
    while step > 0 {
        lines.push(format!("workgroupBarrier();\nif lane < {step}u {{"));
        lines.push(format!("#rt partial[{place}] += partial[{place} + {step}u];\n}}"));
        step /= 2;
    }
    lines.push(format!("#rt let sum_$r_$t = partial[{place}];\n"));
    lines.join("\n")
}

/// Returns the WGSL that reads groups of a storage: the functions `codes` and `scales`, or `values`
/// for floats, and `values` for all.
pub(crate) fn reader(storage: Storage) -> String {
    let more = if storage.codes == Codes::SixBits { "vec2<u32>" } else { "u32" };
    let scale = match storage.scales {
        Scales::Header => "vec4<u32>",
        Scales::Pair => "vec2<f32>",
        Scales::Four => "vec4<f32>",
        _ => "u32",
    };
    let head = fill(
        include_str!("shaders/codes.wgsl"),
        &[("MORE_TYPE", more.to_owned()), ("SCALE_TYPE", scale.to_owned())],
    );
    if storage.codes.is_float() {
        return head + float_values(storage.codes);
    }
    let signed = if storage.codes == Codes::Bytes { "unpack4xI8" } else { "unpack4xU8" };
    let words = ["low.x", "low.y", "low.z", "low.w", "high.x", "high.y", "high.z", "high.w"];
    let value = |(index, word): (usize, &str)| {
        let (scale, offset) = if index < 4 { ("s.x", "s.z") } else { ("s.y", "s.w") };
        let bias = format!("vec4<f32>({}.0)", storage.bias);
        format!("fma(vec4<f32>({scale}), vec4<f32>({signed}(c.{word})) - {bias}, vec4<f32>({offset}))")
    };
    let values: Vec<String> = words.into_iter().enumerate().map(value).collect();
    [
        head,
        code_reader(storage.codes).to_owned(),
        scale_reader(storage.scales).to_owned(),
        "// The weights of a group.\nfn values(row: u32, group: u32) -> array<vec4<f32>, 8> {\n\
         let c = codes(row * GROUPS + group);\nlet s = scales(row, group);\nreturn array<vec4<f32>, 8>("
            .to_owned(),
        values.join(",\n"),
        ");\n}\n".to_owned(),
    ]
    .concat()
}

/// Returns the function `values`, and the function `vector` for four of these values.
fn float_values(codes: Codes) -> &'static str {
    match codes {
        Codes::F16 => {
            "fn vector(row: u32, group: u32, q: u32) -> vec4<f32> {
                let w = plane[(row * GROUPS + group) * 4u + (q >> 1u)];
                let pair = select(w.xy, w.zw, (q & 1u) == 1u);
                return vec4<f32>(unpack2x16float(pair.x), unpack2x16float(pair.y));
            }
            fn halves(w: vec4<u32>) -> array<vec4<f32>, 2> {
                return array<vec4<f32>, 2>(vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y)),
                    vec4<f32>(unpack2x16float(w.z), unpack2x16float(w.w)));
            }
            fn values(row: u32, group: u32) -> array<vec4<f32>, 8> {
                let at = (row * GROUPS + group) * 4u;
                let a = halves(plane[at]); let b = halves(plane[at + 1u]);
                let c = halves(plane[at + 2u]); let d = halves(plane[at + 3u]);
                return array<vec4<f32>, 8>(a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]);
            }\n"
        }
        Codes::Bf16 => {
            "fn vector(row: u32, group: u32, q: u32) -> vec4<f32> {
                let w = plane[(row * GROUPS + group) * 4u + (q >> 1u)];
                let pair = select(w.xy, w.zw, (q & 1u) == 1u);
                return bitcast<vec4<f32>>(
                    vec4<u32>(pair.x << 16u, pair.x & 0xffff0000u, pair.y << 16u, pair.y & 0xffff0000u));
            }
            fn halves(w: vec4<u32>) -> array<vec4<f32>, 2> {
                let low = bitcast<vec4<f32>>(w << vec4<u32>(16u));
                let high = bitcast<vec4<f32>>(w & vec4<u32>(0xffff0000u));
                return array<vec4<f32>, 2>(vec4<f32>(low.x, high.x, low.y, high.y),
                    vec4<f32>(low.z, high.z, low.w, high.w));
            }
            fn values(row: u32, group: u32) -> array<vec4<f32>, 8> {
                let at = (row * GROUPS + group) * 4u;
                let a = halves(plane[at]); let b = halves(plane[at + 1u]);
                let c = halves(plane[at + 2u]); let d = halves(plane[at + 3u]);
                return array<vec4<f32>, 8>(a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]);
            }\n"
        }
        _ => {
            "fn vector(row: u32, group: u32, q: u32) -> vec4<f32> {
                return bitcast<vec4<f32>>(plane[(row * GROUPS + group) * 8u + q]);
            }
            fn values(row: u32, group: u32) -> array<vec4<f32>, 8> {
                let at = (row * GROUPS + group) * 8u;
                return array<vec4<f32>, 8>(
                    bitcast<vec4<f32>>(plane[at]), bitcast<vec4<f32>>(plane[at + 1u]),
                    bitcast<vec4<f32>>(plane[at + 2u]), bitcast<vec4<f32>>(plane[at + 3u]),
                    bitcast<vec4<f32>>(plane[at + 4u]), bitcast<vec4<f32>>(plane[at + 5u]),
                    bitcast<vec4<f32>>(plane[at + 6u]), bitcast<vec4<f32>>(plane[at + 7u]));
            }\n"
        }
    }
}

const fn code_reader(codes: Codes) -> &'static str {
    match codes {
        Codes::Nibbles => {
            "fn codes(at: u32) -> Codes {
                let c = plane[at];
                return Codes(c & LOW, (c >> vec4<u32>(4u)) & LOW);
            }\n"
        }
        Codes::FiveBits => {
            "const BIT = vec4<u32>(0x01010101u);
            fn codes(at: u32) -> Codes {
                let c = plane[at];
                let h = vec4<u32>(more[at]);
                let low = (h >> vec4<u32>(0u, 1u, 2u, 3u)) & BIT;
                let high = (h >> vec4<u32>(4u, 5u, 6u, 7u)) & BIT;
                return Codes((c & LOW) | (low << vec4<u32>(4u)),
                    ((c >> vec4<u32>(4u)) & LOW) | (high << vec4<u32>(4u)));
            }\n"
        }
        Codes::SixBits => {
            "const BITS = vec4<u32>(0x03030303u);
            const PLACES = vec4<u32>(0u, 2u, 4u, 6u);
            fn codes(at: u32) -> Codes {
                let c = plane[at];
                let h = more[at];
                let low = (vec4<u32>(h.x) >> PLACES) & BITS;
                let high = (vec4<u32>(h.y) >> PLACES) & BITS;
                return Codes((c & LOW) | (low << vec4<u32>(4u)),
                    ((c >> vec4<u32>(4u)) & LOW) | (high << vec4<u32>(4u)));
            }\n"
        }
        Codes::Bytes | Codes::F16 | Codes::Bf16 | Codes::F32 => {
            "fn codes(at: u32) -> Codes { return Codes(plane[at * 2u], plane[at * 2u + 1u]); }\n"
        }
    }
}

/// Returns the function `scales`: the scales of both halves of a group, then their offsets.
const fn scale_reader(scales: Scales) -> &'static str {
    match scales {
        Scales::Half => {
            "fn scales(row: u32, group: u32) -> vec4<f32> {
                let at = row * GROUPS + group;
                let pair = unpack2x16float(scale_plane[at >> 1u]);
                return vec4<f32>(vec2<f32>(select(pair.x, pair.y, (at & 1u) == 1u)), 0.0, 0.0);
            }\n"
        }
        Scales::HalfPair => {
            "fn scales(row: u32, group: u32) -> vec4<f32> {
                return unpack2x16float(scale_plane[row * GROUPS + group]).xxyy;
            }\n"
        }
        // Groups 0 to 3 of a block have whole bytes of six bits. The upper two bits of the others
        // are the top bits of these bytes.
        Scales::Header => {
            "fn scales(row: u32, group: u32) -> vec4<f32> {
                let head = scale_plane[row * ((GROUPS + 7u) / 8u) + (group >> 3u)];
                let shift = (group & 3u) * 8u;
                let words = head.yzw >> vec3<u32>(shift);
                let near = words.xy & vec2<u32>(63u);
                let far = vec2<u32>(words.z & 15u, (words.z >> 4u) & 15u)
                    | ((words.xy >> vec2<u32>(2u)) & vec2<u32>(48u));
                let both = vec2<f32>(select(far, near, (group & 4u) == 0u));
                let d = unpack2x16float(head.x);
                return vec4<f32>(vec2<f32>(d.x * both.x), vec2<f32>(-(d.y * both.y)));
            }\n"
        }
        Scales::Small => {
            "fn scales(row: u32, group: u32) -> vec4<f32> {
                let word = scale_plane[row * GROUPS + group];
                let d = unpack2x16float(word).y;
                let small = vec2<f32>(unpack4xI8(word).xy);
                return vec4<f32>(d * small, 0.0, 0.0);
            }\n"
        }
        Scales::Nothing | Scales::Pair => {
            "fn scales(row: u32, group: u32) -> vec4<f32> {
                return vec4<f32>(scale_plane[row * GROUPS + group], 0.0, 0.0);
            }\n"
        }
        Scales::Four => {
            "fn scales(row: u32, group: u32) -> vec4<f32> { return scale_plane[row * GROUPS + group]; }\n"
        }
    }
}
