//! Integers that compressed-tensors packs along rows (`pack-quantized`).

use super::super::matrix::Matrix;
use super::integers::{Integers, order};
use super::scales::Scales;
use super::source::{Source, code};
use crate::error::Kind;

/// Reads a matrix of packed integers. Zero points are packed along the columns of their matrix.
pub(super) fn read(source: &Source<'_>) -> Result<Matrix, Kind> {
    let &Source { rows, columns, .. } = source;
    let part = "weight_packed";
    let given = source.shape(part)?.first().map_or(0, |&words| words as usize);
    let bits = [2, 4, 8].into_iter().find(|bits| (columns * bits).div_ceil(32) == given).unwrap_or(4);
    let per_word = 32 / bits;
    let per_row = columns.div_ceil(per_word);
    let words = source.words(part, &[per_row, rows])?;
    let scales = Scales::read(source, "weight_scale", None)?;
    let zeros = if source.has("weight_zero_point") {
        let groups = scales.per_row;
        let zeros = source.words("weight_zero_point", &[groups, rows.div_ceil(per_word)])?;
        let zero =
            |row: usize, group: usize| code(zeros.at(row / per_word * groups + group), row % per_word, bits);
        Some((0..rows).flat_map(|row| (0..groups).map(move |group| zero(row, group))).collect())
    } else {
        None
    };
    let order = order(source, "weight_g_idx", scales.columns)?;
    Integers { source, bits, scales, zeros, order }.matrix(|range, out| {
        for (row, out) in range.zip(out.chunks_exact_mut(columns)) {
            for (index, out) in out.chunks_mut(per_word).enumerate() {
                let word = words.at(row * per_row + index);
                for (position, out) in out.iter_mut().enumerate() {
                    *out = code(word, position, bits);
                }
            }
        }
    })
}
