//! Matrices of small integers, with a scale and a zero point per group of columns.

use std::ops::Range;

use formwork_kernels::{Encoding, GROUP};
use half::f16;

use super::super::matrix::Matrix;
use super::convert::{from_blocks, from_values};
use super::scales::Scales;
use super::source::Source;
use crate::error::Kind;

/// Integers of a matrix. An element is its code minus the zero point of its group, times the scale
/// of the group.
pub(super) struct Integers<'a> {
    pub(super) source: &'a Source<'a>,
    /// Number of bits of a code: 2, 4 or 8.
    pub(super) bits: usize,
    pub(super) scales: Scales,
    /// A code per scale. `None` if all are half of the range of codes.
    pub(super) zeros: Option<Vec<u8>>,
    /// The group of each column. `None` if the columns of a group are adjacent.
    pub(super) order: Option<Vec<usize>>,
}

impl Integers<'_> {
    /// Creates the matrix. `codes` writes the codes of a range of rows.
    pub(super) fn matrix(&self, codes: impl Fn(Range<usize>, &mut [u8]) + Sync) -> Result<Matrix, Kind> {
        let (source, columns) = (self.source, self.source.columns);
        let fits = self.order.is_none() && source.is_aligned(self.scales.columns);
        let is_symmetric =
            self.zeros.as_ref().is_none_or(|zeros| zeros.iter().all(|&zero| zero == self.middle()));
        let encoding = match (fits, self.bits, is_symmetric) {
            (true, 4, true) => Encoding::Q4_0,
            (true, 2 | 4, _) => Encoding::Q4_1,
            (true, 8, true) => Encoding::Q8_0,
            _ => return self.expanded(codes),
        };
        let block_bytes = encoding.block().1;
        from_blocks(source, encoding, self.scales.factor, |range, out| {
            let mut all = vec![0; range.len() * columns];
            codes(range.clone(), &mut all);
            let mut blocks = out.chunks_exact_mut(block_bytes);
            for (row, codes) in range.zip(all.chunks_exact(columns)) {
                for (index, (codes, block)) in codes.as_chunks().0.iter().zip(&mut blocks).enumerate() {
                    let group = index * GROUP / self.scales.columns;
                    write_block(encoding, codes, self.group(row, group), block);
                }
            }
        })
    }

    /// Creates the matrix by rounding the values of its elements to 8 bits.
    fn expanded(&self, codes: impl Fn(Range<usize>, &mut [u8]) + Sync) -> Result<Matrix, Kind> {
        let columns = self.source.columns;
        from_values(self.source, self.scales.factor, |range, out| {
            let mut all = vec![0; out.len()];
            codes(range.clone(), &mut all);
            for ((row, codes), out) in range.zip(all.chunks_exact(columns)).zip(out.chunks_exact_mut(columns))
            {
                for (column, (code, out)) in codes.iter().zip(out).enumerate() {
                    let group =
                        self.order.as_ref().map_or(column / self.scales.columns, |order| order[column]);
                    let (scale, zero) = self.group(row, group);
                    *out = scale * (f32::from(*code) - f32::from(zero));
                }
            }
        })
    }

    /// Returns the scale and the zero point of a group.
    fn group(&self, row: usize, group: usize) -> (f32, u8) {
        let at = row * self.scales.per_row + group;
        (self.scales.row(row)[group], self.zeros.as_ref().map_or(self.middle(), |zeros| zeros[at]))
    }

    /// Returns half of the range of codes.
    const fn middle(&self) -> u8 {
        1 << (self.bits - 1)
    }
}

/// Writes a block of the kernels, given the scale and the zero point of its codes.
fn write_block(encoding: Encoding, codes: &[u8; GROUP], (scale, zero): (f32, u8), block: &mut [u8]) {
    let (head, rest) =
        block.split_at_mut(block.len() - if encoding == Encoding::Q8_0 { GROUP } else { GROUP / 2 });
    head[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    if let Some(offset) = head.get_mut(2..4) {
        offset.copy_from_slice(&f16::from_f32(-scale * f32::from(zero)).to_le_bytes());
    }
    for (i, byte) in rest.iter_mut().enumerate() {
        *byte =
            if encoding == Encoding::Q8_0 { codes[i] ^ 0x80 } else { codes[i] | codes[i + GROUP / 2] << 4 };
    }
}

/// Reads a matrix of 8-bit integers with one code per byte, as compressed-tensors stores it.
pub(super) fn bytes(source: &Source<'_>) -> Result<Matrix, Kind> {
    let &Source { rows, columns, .. } = source;
    let bytes = source.bytes("weight", "I8", &[columns, rows])?;
    let scales = Scales::read(source, "weight_scale", None)?;
    let zeros = if source.has("weight_zero_point") {
        let shape: Vec<usize> = source.shape("weight_scale")?.iter().map(|&dim| dim as usize).collect();
        let zeros = source.bytes("weight_zero_point", "I8", &shape)?;
        // The shape is that of the scales, so there is one zero point per row or for all rows.
        let zero = |index: usize| zeros[if zeros.len() == 1 { 0 } else { index }] ^ 0x80;
        Some((0..rows * scales.per_row).map(zero).collect())
    } else {
        None
    };
    Integers { source, bits: 8, scales, zeros, order: None }.matrix(|range, out| {
        for (out, byte) in out.iter_mut().zip(&bytes[range.start * columns..range.end * columns]) {
            *out = byte ^ 0x80;
        }
    })
}

/// Reads the tensor `part` with the group of each column. Returns `None` if there is no such
/// tensor, or if the groups have `len` adjacent columns.
pub(super) fn order(source: &Source<'_>, part: &str, len: usize) -> Result<Option<Vec<usize>>, Kind> {
    if !source.has(part) {
        return Ok(None);
    }
    let words = source.words(part, &[source.columns])?;
    let limit = source.columns.div_ceil(len);
    let order: Vec<usize> = (0..source.columns).map(|column| words.at(column) as usize).collect();
    if let Some(index) = order.iter().position(|&group| group >= limit) {
        return Err(Kind::GroupIndex { tensor: source.name(part), index, given: order[index] as i32, limit });
    }
    let is_plain = order.iter().enumerate().all(|(column, &group)| group == column / len);
    Ok((!is_plain).then_some(order))
}
