//! Conversion of rows to blocks, some rows at a time.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use formwork_kernels::{Encoding, quantizer};

use super::super::matrix::Matrix;
use super::source::Source;
use crate::error::Kind;

/// Creates a matrix of `encoding`. `fill` writes the blocks of a range of rows.
pub(super) fn from_blocks(
    source: &Source<'_>,
    encoding: Encoding,
    factor: f32,
    fill: impl Fn(Range<usize>, &mut [u8]) + Sync,
) -> Result<Matrix, Kind> {
    let format = source.row_format(encoding)?;
    Ok(Matrix::filled(source.purpose, format, source.all_rows(), source.columns, fill).scaled(factor))
}

/// Creates a matrix of 8-bit integers. `fill` writes the values of a range of rows.
///
/// # Errors
/// Returns an error if a value is not finite.
pub(super) fn from_values(
    source: &Source<'_>,
    factor: f32,
    fill: impl Fn(Range<usize>, &mut [f32]) + Sync,
) -> Result<Matrix, Kind> {
    let encoding = Encoding::Q8_0;
    let quantize = quantizer(encoding);
    let is_wrong = AtomicBool::new(false);
    let matrix = from_blocks(source, encoding, factor, |rows, out| {
        let mut values = vec![0.0f32; rows.len() * source.columns];
        fill(rows, &mut values);
        if values.iter().any(|value| !value.is_finite()) {
            is_wrong.store(true, Ordering::Relaxed);
        }
        if let Some(quantize) = quantize {
            quantize(&values, out);
        }
    })?;
    if is_wrong.into_inner() { Err(source.not_finite()) } else { Ok(matrix) }
}
