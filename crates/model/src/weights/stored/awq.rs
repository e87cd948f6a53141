//! Integers as AWQ's library stores them: transposed, and packed along the outputs.

use super::super::matrix::Matrix;
use super::integers::Integers;
use super::scales::Scales;
use super::source::{Source, code};
use crate::error::Kind;

const BITS: usize = 4;
/// Position of each of eight adjacent outputs in a word.
const POSITIONS: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Reads a matrix whose groups have `group` columns, or all columns if `group` is `None`.
pub(super) fn read(source: &Source<'_>, group: Option<usize>) -> Result<Matrix, Kind> {
    let &Source { rows, columns, .. } = source;
    let per_column = rows.div_ceil(POSITIONS.len());
    let words = source.words("qweight", &[per_column, columns])?;
    let scales = Scales::read_transposed(source, "scales", group.unwrap_or(columns))?;
    let groups = scales.per_row;
    let zeros = source.words("qzeros", &[per_column, groups])?;
    let place = |row: usize| (row / POSITIONS.len(), POSITIONS[row % POSITIONS.len()]);
    let zero = |row: usize, group: usize| {
        let (word, position) = place(row);
        code(zeros.at(group * per_column + word), position, BITS)
    };
    let zeros = (0..rows).flat_map(|row| (0..groups).map(move |group| zero(row, group))).collect();
    Integers { source, bits: BITS, scales, zeros: Some(zeros), order: None }.matrix(|range, out| {
        // Words of adjacent rows are adjacent, so that the loop over rows is the inner one.
        for column in 0..columns {
            for (row, out) in range.clone().zip(out.chunks_exact_mut(columns)) {
                let (word, position) = place(row);
                out[column] = code(words.at(column * per_column + word), position, BITS);
            }
        }
    })
}
