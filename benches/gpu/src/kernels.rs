//! Matrix-vector kernels: their variants, their arrangements, and their WGSL.

use std::fmt;

/// Storage of a matrix's weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weights {
    /// Blocks of 256 weights in 144 bytes, as in the file.
    Q4K,
    /// Rows of two planes: 8-bit codes, then an `f16` scale for each 32 codes.
    Q80,
    /// Half-precision floats.
    F16,
}

/// Storage of the activations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Activations {
    /// Single-precision floats.
    F32,
    /// 8-bit codes, with a step and a sum of codes for each group of 16.
    Int8,
}

/// The types of a kernel's inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Variant {
    pub(crate) weights: Weights,
    pub(crate) activations: Activations,
}

/// All measured variants.
pub(crate) const VARIANTS: [Variant; 5] = [
    Variant { weights: Weights::Q4K, activations: Activations::F32 },
    Variant { weights: Weights::Q4K, activations: Activations::Int8 },
    Variant { weights: Weights::Q80, activations: Activations::F32 },
    Variant { weights: Weights::Q80, activations: Activations::Int8 },
    Variant { weights: Weights::F16, activations: Activations::F32 },
];

/// Shape of a workgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrangement {
    pub(crate) threads: u32,
    /// Threads that share a row.
    pub(crate) lanes: u32,
    /// Rows that each thread works on at once.
    pub(crate) rows: u32,
    /// True to add partial sums with `subgroupAdd`, false to add them in a tree in workgroup
    /// memory.
    pub(crate) subgroup: bool,
}

const fn arrangement(threads: u32, lanes: u32, rows: u32) -> Arrangement {
    Arrangement { threads, lanes, rows, subgroup: false }
}

/// All measured arrangements with a tree in workgroup memory.
///
/// Each computes at least two rows per workgroup, so that 128,256 rows need fewer than 65,536
/// workgroups.
pub(crate) const ARRANGEMENTS: [Arrangement; 13] = [
    arrangement(32, 32, 2),
    arrangement(64, 32, 1),
    arrangement(64, 32, 2),
    arrangement(64, 16, 2),
    arrangement(128, 32, 1),
    arrangement(128, 32, 2),
    arrangement(128, 32, 4),
    arrangement(128, 64, 2),
    arrangement(256, 32, 2),
    arrangement(256, 32, 1),
    arrangement(64, 32, 4),
    arrangement(128, 64, 1),
    arrangement(128, 128, 4),
];

impl Weights {
    /// Returns the number of 16-byte words in a row of `k` weights.
    pub(crate) fn stride(self, k: u32) -> u32 {
        match self {
            Self::Q4K => k / 256 * 9,
            Self::Q80 => k / 16 + k / 256,
            Self::F16 => k / 8,
        }
    }

    /// Returns the number of weights that a thread processes at once.
    pub(crate) fn unit(self) -> u32 {
        match self {
            Self::Q4K | Self::Q80 => 32,
            Self::F16 => 16,
        }
    }
}

impl Arrangement {
    /// Returns the number of rows that a workgroup computes.
    pub(crate) fn rows_per_workgroup(self) -> u32 {
        self.threads / self.lanes * self.rows
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let weights = match self.weights {
            Weights::Q4K => "Q4_K",
            Weights::Q80 => "Q8_0",
            Weights::F16 => "f16",
        };
        let activations = match self.activations {
            Activations::F32 => "f32",
            Activations::Int8 => "int8",
        };
        f.pad(&format!("{weights} x {activations}"))
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let join = if self.subgroup { "s" } else { "" };
        f.pad(&format!("{}/{}x{}{join}", self.threads, self.lanes, self.rows))
    }
}

/// Returns the WGSL source of a product of `tokens` columns, over all rows or over a list of rows.
pub(crate) fn product(variant: Variant, arrangement: Arrangement, tokens: u32, listed: bool) -> String {
    let body = match (variant.weights, variant.activations) {
        (Weights::Q4K, Activations::F32) => include_str!("shaders/q4k_f32.wgsl"),
        (Weights::Q4K, Activations::Int8) => include_str!("shaders/q4k_int8.wgsl"),
        (Weights::Q80, Activations::F32) => include_str!("shaders/q80_f32.wgsl"),
        (Weights::Q80, Activations::Int8) => include_str!("shaders/q80_int8.wgsl"),
        (Weights::F16, _) => include_str!("shaders/f16_f32.wgsl"),
    };
    let x = match variant.activations {
        Activations::F32 => "vec4<f32>",
        Activations::Int8 => "vec4<u32>",
    };
    let stride = match variant.weights {
        Weights::Q4K => "(shape.k / 256u * 9u)",
        Weights::Q80 => "(shape.k / 16u + shape.k / 256u)",
        Weights::F16 => "(shape.k / 8u)",
    };
    let Arrangement { threads, lanes, rows, subgroup } = arrangement;
    let source = include_str!("shaders/product.wgsl")
        .replace("BODY", body)
        .replace("JOIN", &join(arrangement))
        .replace("X_TYPE", x)
        .replace("STRIDE", stride)
        .replace("UNIT", &format!("{}u", variant.weights.unit()))
        .replace("PICK", if listed { "list[output]" } else { "output" })
        .replace("PARTIALS", &format!("{}u", if subgroup { 1 } else { threads * rows * tokens }))
        .replace("THREADS", &format!("{threads}u"))
        .replace("LANES", &format!("{lanes}u"))
        .replace("ROWS", &format!("{rows}u"));
    expand(&source, rows, tokens)
}

/// Returns the statements that add up the partial sums of a row in its first lane.
fn join(arrangement: Arrangement) -> String {
    if arrangement.subgroup {
        return "#rt let sum_$r_$t = subgroupAdd(acc_$r_$t);\n".to_owned();
    }
    let place = "($r * TOKENS + $t) * THREADS + thread";
    let mut text = format!("#rt partial[{place}] = acc_$r_$t;\n");
    let mut step = arrangement.lanes / 2;
    while step > 0 {
        text.extend([
            format!("workgroupBarrier();\nif lane < {step}u {{\n"),
            format!("#rt partial[{place}] += partial[{place} + {step}u];\n}}\n"),
        ]);
        step /= 2;
    }
    text + &format!("#rt let sum_$r_$t = partial[{place}];\n")
}

/// Repeats lines that begin with `#r`, `#t` or `#rt` for each row `$r` and token `$t`.
fn expand(source: &str, rows: u32, tokens: u32) -> String {
    let source = source.replace("TOKENS", &format!("{tokens}u"));
    let mut text = String::new();
    for line in source.lines().map(str::trim_start) {
        let (rows, tokens, line) = if let Some(line) = line.strip_prefix("#rt ") {
            (rows, tokens, line)
        } else if let Some(line) = line.strip_prefix("#r ") {
            (rows, 1, line)
        } else if let Some(line) = line.strip_prefix("#t ") {
            (1, tokens, line)
        } else {
            (1, 1, line)
        };
        for row in 0..rows {
            for token in 0..tokens {
                text += &line.replace("$r", &row.to_string()).replace("$t", &token.to_string());
                text.push('\n');
            }
        }
    }
    text
}
