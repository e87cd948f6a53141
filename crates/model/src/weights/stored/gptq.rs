//! Integers as GPTQ's libraries store them: transposed, and packed along the inputs.

use super::super::matrix::Matrix;
use super::integers::{Integers, order};
use super::method::GptqVersion;
use super::scales::Scales;
use super::source::{Source, code};
use crate::error::Kind;

/// Reads a matrix whose groups have `group` columns, or all columns if `group` is `None`.
pub(super) fn read(source: &Source<'_>, group: Option<usize>, version: GptqVersion) -> Result<Matrix, Kind> {
    let &Source { rows, columns, .. } = source;
    let given = source.shape("qweight")?.get(1).map_or(0, |&words| words as usize);
    let bits = [2, 4, 8].into_iter().find(|bits| columns * bits == given * 32).unwrap_or(4);
    let per_word = 32 / bits;
    let words = source.words("qweight", &[rows, columns.div_ceil(per_word)])?;
    let len = group.unwrap_or(columns);
    let scales = Scales::read_transposed(source, "scales", len)?;
    let packed_rows = rows.div_ceil(per_word);
    let zeros = source.words("qzeros", &[packed_rows, scales.per_row])?;
    let zero = |row: usize, group: usize| {
        let stored = code(zeros.at(group * packed_rows + row / per_word), row % per_word, bits);
        match version {
            // Version 1 stores the zero point minus 1, modulo the number of codes.
            GptqVersion::V1 => stored.wrapping_add(1) & u8::MAX >> (8 - bits),
            GptqVersion::V2 => stored,
        }
    };
    let groups = scales.per_row;
    let zeros = (0..rows).flat_map(|row| (0..groups).map(move |group| zero(row, group))).collect();
    let order = order(source, "g_idx", len)?;
    Integers { source, bits, scales, zeros: Some(zeros), order }.matrix(|range, out| {
        // Words of adjacent rows are adjacent, so that the loop over rows is the inner one.
        for first in (0..columns).step_by(per_word) {
            for (row, out) in range.clone().zip(out.chunks_exact_mut(columns)) {
                let word = words.at(first / per_word * rows + row);
                for (position, out) in out[first..].iter_mut().take(per_word).enumerate() {
                    *out = code(word, position, bits);
                }
            }
        }
    })
}
