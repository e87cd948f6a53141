//! Matrices of 4-bit floats: NVFP4 in two dialects, and MXFP4.

use formwork_kernels::Encoding;

use super::super::matrix::Matrix;
use super::convert::{from_blocks, from_values};
use super::float8::e4m3;
use super::source::Source;
use crate::error::Kind;

/// Number of elements that share a scale.
const NVFP4_GROUP: usize = 16;
const MXFP4_GROUP: usize = 32;
/// Number of groups in a block of the kernels.
const NVFP4_GROUPS: usize = 4;

/// Names of the tensors of an NVFP4 matrix.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    elements: &'static str,
    factor: &'static str,
    /// True if the weights are divided by the factor, not multiplied.
    divides: bool,
}

impl Layout {
    /// Names of compressed-tensors.
    pub(super) const PACKED: Self =
        Self { elements: "weight_packed", factor: "weight_global_scale", divides: true };
    /// Names of NVIDIA's Model Optimizer.
    pub(super) const MODEL_OPT: Self = Self { elements: "weight", factor: "weight_scale_2", divides: false };
}

/// Reads an NVFP4 matrix: two elements per byte, a scale per 16 elements, and a factor.
pub(super) fn nvfp4(source: &Source<'_>, layout: Layout) -> Result<Matrix, Kind> {
    let &Source { rows, columns, .. } = source;
    if source.has("pre_quant_scale") {
        let (tensor, given) = (source.name("pre_quant_scale"), "scales of the inputs");
        return Err(Kind::UnsupportedType { tensor, given });
    }
    let elements = source.bytes(layout.elements, "U8", &[columns / 2, rows])?;
    let per_row = columns / NVFP4_GROUP;
    let scales = source.bytes("weight_scale", "F8_E4M3", &[per_row, rows])?;
    // Scales have no sign, and the largest number stands for NaN.
    if let Some(index) = scales.iter().position(|&scale| scale >= 0x7f) {
        let (tensor, given) = (source.name("weight_scale"), e4m3(scales[index]));
        return Err(Kind::Scale { tensor, index, given });
    }
    let factor = nvfp4_factor(source, layout)?;
    let pairs = elements.as_chunks::<{ NVFP4_GROUP / 2 }>().0;
    let groups = |row: usize| {
        let range = row * per_row..(row + 1) * per_row;
        scales[range.clone()].iter().zip(&pairs[range])
    };
    if columns.is_multiple_of(NVFP4_GROUPS * NVFP4_GROUP) {
        return from_blocks(source, Encoding::Nvfp4, factor, |range, out| {
            let mut blocks = out.as_chunks_mut::<36>().0.iter_mut();
            for row in range {
                let mut groups = groups(row);
                for block in blocks.by_ref().take(per_row / NVFP4_GROUPS) {
                    for (i, (scale, pairs)) in groups.by_ref().take(NVFP4_GROUPS).enumerate() {
                        block[i] = *scale;
                        block[4 + 8 * i..][..8].copy_from_slice(&halves(pairs));
                    }
                }
            }
        });
    }
    from_values(source, factor, |range, out| {
        for (row, out) in range.zip(out.chunks_exact_mut(columns)) {
            for ((scale, pairs), out) in groups(row).zip(out.as_chunks_mut::<NVFP4_GROUP>().0) {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = e4m3(*scale) * e2m1(nibble(pairs, i));
                }
            }
        }
    })
}

/// Returns the factor of an NVFP4 matrix.
fn nvfp4_factor(source: &Source<'_>, layout: Layout) -> Result<f32, Kind> {
    let [given] = source.scales(layout.factor)?[..] else {
        return Err(source.wrong_shape(layout.factor, &[1]));
    };
    let factor = if layout.divides { given.recip() } else { given };
    if factor.is_finite() {
        return Ok(factor);
    }
    Err(Kind::Scale { tensor: source.name(layout.factor), index: 0, given })
}

/// Reads an MXFP4 matrix: two elements per byte, and the exponent of a power of two per 32
/// elements.
pub(super) fn mxfp4(source: &Source<'_>) -> Result<Matrix, Kind> {
    let &Source { rows, columns, .. } = source;
    let per_row = columns / MXFP4_GROUP;
    let elements = source.bytes("weight_packed", "U8", &[columns / 2, rows])?;
    let dtype = if source.dtype("weight_scale") == Some("F8_E8M0") { "F8_E8M0" } else { "U8" };
    let exponents = source.bytes("weight_scale", dtype, &[per_row, rows])?;
    if let Some(index) = exponents.iter().position(|&exponent| exponent == u8::MAX) {
        return Err(Kind::Scale { tensor: source.name("weight_scale"), index, given: f32::NAN });
    }
    let pairs = elements.as_chunks::<{ MXFP4_GROUP / 2 }>().0;
    from_blocks(source, Encoding::Mxfp4, 1.0, |range, out| {
        let groups = range.start * per_row..range.end * per_row;
        for ((block, exponent), pairs) in
            out.as_chunks_mut::<17>().0.iter_mut().zip(&exponents[groups.clone()]).zip(&pairs[groups])
        {
            block[0] = *exponent;
            block[1..].copy_from_slice(&halves(pairs));
        }
    })
}

/// Returns element `index` of elements that lie in pairs, the first one in the low half of a byte.
const fn nibble(pairs: &[u8], index: usize) -> u8 {
    pairs[index / 2] >> (index % 2 * 4) & 15
}

/// Returns the value of a 4-bit float: a sign, two exponent bits and one mantissa bit.
fn e2m1(code: u8) -> f32 {
    const LEVELS: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let level = LEVELS[usize::from(code & 7)];
    if code < 8 { level } else { -level }
}

/// Reorders `2 * N` elements. In `pairs`, a byte contains two adjacent elements. In the result,
/// byte `i` contains element `i` in its low nibble and element `i + N` in its high nibble, as in
/// GGUF files.
pub(in super::super) fn halves<const N: usize>(pairs: &[u8; N]) -> [u8; N] {
    std::array::from_fn(|index| nibble(pairs, index) | nibble(pairs, index + N) << 4)
}
