//! Matrices of 8-bit floats, with scales for blocks, rows or the whole matrix.

use super::super::matrix::Matrix;
use super::convert::from_values;
use super::scales::Scales;
use super::source::Source;
use crate::error::Kind;

/// Reads a matrix of 8-bit floats whose scales are the tensor `scale`.
pub(super) fn read(source: &Source<'_>, scale: &str, block: Option<[usize; 2]>) -> Result<Matrix, Kind> {
    let &Source { count, rows, columns, .. } = source;
    let shape = [columns, rows, count];
    let bytes = source.bytes("weight", "F8_E4M3", if count == 1 { &shape[..2] } else { &shape })?;
    let scales = Scales::read(source, scale, block)?;
    from_values(source, scales.factor, |range, out| {
        for (row, out) in range.zip(out.chunks_exact_mut(columns)) {
            let groups = bytes[row * columns..(row + 1) * columns].chunks(scales.columns);
            for ((bytes, out), scale) in groups.zip(out.chunks_mut(scales.columns)).zip(scales.row(row)) {
                for (&byte, out) in bytes.iter().zip(out) {
                    *out = e4m3(byte) * scale;
                }
            }
        }
    })
}

/// Returns the value of an 8-bit float: a sign, four exponent bits with the bias 7, and three
/// mantissa bits. There is no infinity, and the float with all bits of the magnitude is NaN.
pub(super) fn e4m3(byte: u8) -> f32 {
    /// Factor between a 32-bit float and an 8-bit float with the same exponent bits.
    const UNBIAS: f32 = f32::from_bits((127 + 127 - 7) << 23);
    let (sign, magnitude) = (u32::from(byte >> 7), u32::from(byte & 0x7f));
    if magnitude == 0x7f { f32::NAN } else { f32::from_bits(sign << 31 | magnitude << 20) * UNBIAS }
}
