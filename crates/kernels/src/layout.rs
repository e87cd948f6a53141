//! The memory layout of packed weights.
//!
//! Sixteen rows make a tile. A tile has two parts, both aligned to 64 bytes: the heads of all
//! blocks, then the codes of all groups. A head is the raw header of a block, and a code the stored
//! bits of an element. A tile takes as many bytes as its rows in a file, plus the padding of the
//! heads. For types that store several elements as one index, a tile is larger: see `grid.rs` and
//! `ternary.rs`.
//!
//! - Heads are stored block by block: each 16-bit float of the head for all rows, then each small
//!   integer for all rows.
//! - Codes are stored group by group. A group has eight pieces of four neighbouring elements, and a
//!   piece of all rows is a vector of 64 codes, row by row. The bits of these vectors lie in planes
//!   of 64 bytes. Each byte of a plane holds bits of as many pieces as fit:
//!   - 8 bits: one piece.
//!   - 4 bits (or the low 4 of 5 or 6): piece `i` in the low and piece `i + 4` in the high half.
//!   - 2 bits (or the low 2 of 3, or the high 2 of 6): pieces `4 * i` to `4 * i + 3`.
//!   - 1 bit (or the high bit of 3 or 5): all eight pieces.
//!
//! Types with split bits ([`SplitBits`]) store the high four bits of all groups first. Then follow
//! the low bits of all groups, four or two per element, in planes as for codes of four or two bits.
//! The heads of such a tile end with one byte per row. The byte encodes the largest distance of a
//! group's low bits from their midpoint (`low_byte`), from which error bounds follow.
//!
//! A few shifts and masks of whole vectors turn planes into factors for four activations at a time.
//! Each 32-bit lane belongs to a row, so sums never cross lanes. Rows of 32-bit floats are stored
//! as columns of 16 values. See `f16_as_i16.rs` for rows of 16-bit floats.

use crate::float::FloatFormat;
use crate::format::{BlockFormat, GROUP, Head};
#[cfg(doc)]
use crate::split_bits::SplitBits;
use crate::split_bits::{low_byte, spread};

/// Number of rows in a tile.
pub const TILE_ROWS: usize = 16;
/// Number of pieces in a group; a piece is four neighbouring elements.
pub(crate) const PIECES: usize = GROUP / 4;
/// Number of bytes in a plane, and the alignment of the parts of a tile.
pub(crate) const PLANE: usize = 64;

/// Some tiles of packed rows.
#[derive(Clone, Copy)]
pub(crate) struct Tiles<'a> {
    pub(crate) bytes: &'a [u8],
    /// Size of one tile, in bytes.
    pub(crate) tile_bytes: usize,
    pub(crate) columns: usize,
}

/// Returns the size of the heads of one block of all sixteen rows, in bytes.
pub(crate) const fn head_bytes<B: BlockFormat>() -> usize {
    TILE_ROWS * (2 * B::HALVES + B::SMALL)
}

/// Returns the size of the codes of one group of all sixteen rows, in bytes. Low bits that are
/// stored separately do not count.
pub(crate) const fn code_bytes<B: BlockFormat>() -> usize {
    PLANE * (B::BITS - B::LOW)
}

/// Returns the size of the separately stored low bits of one group of all sixteen rows, in bytes.
pub(crate) const fn low_bytes<B: BlockFormat>() -> usize {
    PLANE * B::LOW
}

/// Returns the size of all heads of a tile with their padding, in bytes. The codes start at this
/// offset.
pub(crate) const fn heads_bytes<B: BlockFormat>(columns: usize) -> usize {
    let spreads = if B::LOW > 0 { TILE_ROWS } else { 0 };
    (columns / B::LEN * head_bytes::<B>() + spreads).next_multiple_of(PLANE)
}

/// Returns the size of a tile of blocks, in bytes.
pub(crate) const fn tile_bytes<B: BlockFormat>(columns: usize) -> usize {
    heads_bytes::<B>(columns) + columns / GROUP * (code_bytes::<B>() + low_bytes::<B>())
}

/// A tile of blocks, divided into heads, codes and separately stored low bits.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) heads: &'a [u8],
    codes: &'a [u8],
    low: &'a [u8],
}

impl<'a> Parts<'a> {
    #[inline(always)]
    pub(crate) fn of<B: BlockFormat>(tile: &'a [u8], columns: usize) -> Self {
        let (heads, rest) = tile.split_at(heads_bytes::<B>(columns));
        let (codes, low) = rest.split_at(columns / GROUP * code_bytes::<B>());
        Self { heads, codes, low }
    }

    /// Returns the codes of group `group` of all rows, then the separately stored low bits of the
    /// group.
    #[inline(always)]
    pub(crate) fn codes<B: BlockFormat>(&self, group: usize) -> [&'a [u8]; 2] {
        let (codes, low) = (code_bytes::<B>(), low_bytes::<B>());
        [&self.codes[group * codes..(group + 1) * codes], &self.low[group * low..(group + 1) * low]]
    }
}

/// Returns the size of a tile of floats, in bytes.
pub(crate) const fn float_tile_bytes<F: FloatFormat>(columns: usize) -> usize {
    (columns * TILE_ROWS * F::BYTES).next_multiple_of(PLANE)
}

/// Packs blocks into the tile `out`. `rows` contains up to sixteen rows of `row_bytes` bytes each.
#[inline(always)]
pub(crate) fn pack_tile<B: BlockFormat>(rows: &[u8], row_bytes: usize, out: &mut [u8]) {
    let columns = row_bytes / B::BYTES * B::LEN;
    let (heads, rest) = out.split_at_mut(heads_bytes::<B>(columns));
    heads.fill(0);
    let (codes, mut low) = rest.split_at_mut(columns / GROUP * code_bytes::<B>());
    let mut codes = codes.chunks_exact_mut(code_bytes::<B>());
    let mut spreads = [0; TILE_ROWS];
    for (block, heads) in heads.chunks_exact_mut(head_bytes::<B>()).enumerate().take(row_bytes / B::BYTES) {
        let blocks = rows.chunks_exact(row_bytes).map(|row| &row[block * B::BYTES..(block + 1) * B::BYTES]);
        for (row, block) in blocks.clone().enumerate() {
            put_head::<B>(&B::head(block), row, heads);
        }
        for (index, codes) in (0..B::LEN / GROUP).zip(&mut codes) {
            let mut pieces = [[0; TILE_ROWS]; PIECES];
            for (row, block) in blocks.clone().enumerate() {
                let codes = B::codes(block, index);
                if B::LOW > 0 {
                    spreads[row] = spread::<B>(&codes).max(spreads[row]);
                }
                for (piece, four) in pieces.iter_mut().zip(codes.as_chunks().0) {
                    piece[row] = u32::from_le_bytes(*four);
                }
            }
            let low = low.split_off_mut(..low_bytes::<B>()).unwrap_or_default();
            let planes = codes.as_chunks_mut::<PLANE>().0.iter_mut().chain(low.as_chunks_mut().0);
            for (plane, bits) in planes.zip(to_planes::<B>(&pieces)) {
                for (to, bits) in plane.as_chunks_mut().0.iter_mut().zip(bits) {
                    *to = bits.to_le_bytes();
                }
            }
        }
    }
    if B::LOW > 0 {
        let at = columns / B::LEN * head_bytes::<B>();
        heads[at..at + TILE_ROWS].copy_from_slice(&spreads.map(low_byte::<B>));
    }
}

/// Packs 32-bit floats into the tile `out`. `rows` contains up to sixteen rows of `row_bytes` bytes
/// each.
pub(crate) fn pack_floats<F: FloatFormat>(rows: &[u8], row_bytes: usize, out: &mut [u8]) {
    out.fill(0);
    for (row, bytes) in rows.chunks_exact(row_bytes).enumerate() {
        let columns = out.chunks_exact_mut(TILE_ROWS * F::BYTES);
        for (column, bytes) in columns.zip(bytes.chunks_exact(F::BYTES)) {
            column[row * F::BYTES..(row + 1) * F::BYTES].copy_from_slice(bytes);
        }
    }
}

#[inline(always)]
fn put_head<B: BlockFormat>(head: &Head, row: usize, heads: &mut [u8]) {
    let (halves, small) = heads.split_at_mut(2 * TILE_ROWS * B::HALVES);
    for i in 0..B::HALVES {
        let at = 2 * (i * TILE_ROWS + row);
        halves[at..at + 2].copy_from_slice(&head.halves[i].to_le_bytes());
    }
    for i in 0..B::SMALL {
        small[i * TILE_ROWS + row] = head.bytes[i];
    }
}

/// Returns the raw header of one block of row `row`. `heads` starts with the heads of this block
/// for all rows.
#[inline(always)]
pub(crate) fn head<B: BlockFormat>(heads: &[u8], row: usize) -> Head {
    let (halves, small) = heads.split_at(2 * TILE_ROWS * B::HALVES);
    let mut head = Head::default();
    for i in 0..B::HALVES {
        let at = 2 * (i * TILE_ROWS + row);
        head.halves[i] = u16::from_le_bytes([halves[at], halves[at + 1]]);
    }
    for i in 0..B::SMALL {
        head.bytes[i] = small[i * TILE_ROWS + row];
    }
    head
}

/// Returns the levels of a group for `N` rows from row `first` on, indexed by piece, row and
/// element. `codes` are the codes and low bits of the group, as [`Parts::codes`] returns them.
#[inline(always)]
pub(crate) fn levels<B: BlockFormat, const N: usize>(
    codes: [&[u8]; 2],
    first: usize,
) -> [[[u8; 4]; N]; PIECES] {
    let mut planes = [[0; N]; PIECES];
    let stored = codes.into_iter().flat_map(|codes| codes.as_chunks::<PLANE>().0);
    for (bits, plane) in planes.iter_mut().zip(stored) {
        for (bits, four) in bits.iter_mut().zip(&plane.as_chunks().0[first..]) {
            *bits = u32::from_le_bytes(*four);
        }
    }
    from_planes::<B, N>(&planes).map(|piece| piece.map(|codes| codes.to_le_bytes().map(B::level)))
}

/// Returns `bits` repeated in each of four bytes.
const fn splat_bytes(bits: u8) -> u32 {
    u32::from_le_bytes([bits; 4])
}

/// Packs the pieces of a group into planes. Only the first [`BlockFormat::BITS`] planes are used.
#[inline(always)]
fn to_planes<B: BlockFormat>(pieces: &[[u32; TILE_ROWS]; PIECES]) -> [[u32; TILE_ROWS]; PIECES] {
    let mut planes = [[0; TILE_ROWS]; PIECES];
    for (piece, codes) in pieces.iter().enumerate() {
        let mut put = |plane: usize, right: usize, mask: u8, left: usize| {
            for (plane, codes) in planes[plane].iter_mut().zip(codes) {
                *plane |= (codes >> right & splat_bytes(mask)) << left;
            }
        };
        match (B::BITS, B::LOW) {
            (8, 0) => put(piece, 0, 255, 0),
            (4.., low) => put(piece % 4, low, 15, piece / 4 * 4),
            (1, _) => put(0, 0, 1, piece),
            _ => put(piece / 4, 0, 3, piece % 4 * 2),
        }
        match (B::BITS, B::LOW) {
            (3, _) => put(2, 2, 1, piece),
            (5, _) => put(4, 4, 1, piece),
            (6, 0) => put(4 + piece / 4, 4, 3, piece % 4 * 2),
            (_, 2) => put(4 + piece / 4, 0, 3, piece % 4 * 2),
            (_, 4) => put(4 + piece % 4, 0, 15, piece / 4 * 4),
            _ => {}
        }
    }
    planes
}

/// Unpacks planes into pieces: the inverse of [`to_planes`].
#[inline(always)]
fn from_planes<B: BlockFormat, const N: usize>(planes: &[[u32; N]; PIECES]) -> [[u32; N]; PIECES] {
    let mut pieces = [[0; N]; PIECES];
    for (piece, codes) in pieces.iter_mut().enumerate() {
        let mut put = |plane: usize, right: usize, mask: u8, left: usize| {
            for (codes, plane) in codes.iter_mut().zip(&planes[plane]) {
                *codes |= (plane >> right & splat_bytes(mask)) << left;
            }
        };
        match (B::BITS, B::LOW) {
            (8, 0) => put(piece, 0, 255, 0),
            (4.., low) => put(piece % 4, piece / 4 * 4, 15, low),
            (1, _) => put(0, piece, 1, 0),
            _ => put(piece / 4, piece % 4 * 2, 3, 0),
        }
        match (B::BITS, B::LOW) {
            (3, _) => put(2, piece, 1, 2),
            (5, _) => put(4, piece, 1, 4),
            (6, 0) => put(4 + piece / 4, piece % 4 * 2, 3, 4),
            (_, 2) => put(4 + piece / 4, piece % 4 * 2, 3, 0),
            (_, 4) => put(4 + piece % 4, piece / 4 * 4, 15, 0),
            _ => {}
        }
    }
    pieces
}
