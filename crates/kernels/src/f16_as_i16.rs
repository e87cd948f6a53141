//! Weights of 16-bit floats, multiplied as 16-bit integers.
//!
//! A row of weights is multiplied by a power of two and rounded to integers. Activations are 16-bit
//! integers with a scale per group of 32. Both are rounded as finely as possible while the sum of a
//! group's products fits in 32 bits. By the Cauchy-Schwarz inequality, a sum is at most the product
//! of the two norms, and each norm is kept below the square root of 2^31. A product takes half the
//! instructions of a product of floats, and is exact except for the two roundings.
//!
//! Rounding activations to these integers loses a seventh of the precision that rounding to 16-bit
//! floats would lose. Rounding a row of weights loses little if its groups have similar magnitudes,
//! and much if one weight is far larger than the others. The loss of a row is limited to the loss
//! that rounding to 16-bit floats could cause ([`WORST`]). If a row of a tile would lose more, or
//! cannot be scaled ([`power`]), the whole tile uses unrounded activations. Its products have two
//! partial sums: one of the even columns and one of the odd columns.
//!
//! A tile starts with the powers of two as floats. They are all 0 if the tile uses unrounded
//! activations. Then follow 64 bytes for every two columns: the two floats of each of the sixteen
//! rows, as they are in the file. The first half of the 64 bytes contains rows 0, 1, 4, 5, 8, 9, 12
//! and 13, and the second half rows 2, 3, 6, 7, 10, 11, 14 and 15. The instruction that packs two
//! vectors of integers into one needs this order.

use crate::activation::{Activation, inverse, largest, nearest};
use crate::float::FloatFormat;
use crate::format::{GROUP, each};
use crate::layout::{PLANE, TILE_ROWS};
use crate::tier::{Tier, with_tier};

/// Size of the powers of two in a tile, in bytes.
pub(crate) const POWERS_BYTES: usize = PLANE;
/// Size of two columns in a tile, in bytes.
pub(crate) const PAIR_BYTES: usize = PLANE;
/// Number of pairs of columns in a group.
pub(crate) const PAIRS: usize = GROUP / 2;
/// Maximum norm of a group before rounding. Rounding adds at most half the square root of 32 to the
/// norm.
const NORM: f32 = 46_330.0;
const LARGEST: f32 = i16::MAX as f32;
/// Maximum norm of a row's rounding errors, relative to the norm of the row.
const WORST: f32 = 1.0 / 4096.0;

/// Thirty-two activations rounded to 16 bits.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Q16Block {
    pub(crate) q: [i16; GROUP],
    /// Activation that the integer 1 stands for.
    pub(crate) scale: f32,
}

impl Q16Block {
    /// Returns the number of blocks for `activations` activations. The last block is filled up with
    /// zeros.
    pub const fn count(activations: usize) -> usize {
        activations.div_ceil(GROUP)
    }

    /// Rounds the activations `values` into `groups`.
    ///
    /// # Panics
    /// Panics if the length of `groups` is not [`Q16Block::count`] of the values.
    pub fn quantize_into(values: &[f32], groups: &mut [Self]) {
        assert_eq!(Self::count(values.len()), groups.len(), "number of activation groups");
        let (whole, rest) = values.as_chunks::<GROUP>();
        quantize_words_by(Tier::best(), whole, &mut groups[..whole.len()]);
        if let [.., last] = groups
            && !rest.is_empty()
        {
            let mut group = [0.0; GROUP];
            group[..rest.len()].copy_from_slice(rest);
            quantize_words_by(Tier::best(), &[group], std::slice::from_mut(last));
        }
    }
}

/// Rounds groups to 16 bits with the instructions of `tier`.
#[allow(unsafe_code, reason = "kernels need the instructions of their tier")]
pub(crate) fn quantize_words_by(tier: Tier, values: &[[f32; GROUP]], groups: &mut [Q16Block]) {
    tier.check();
    with_tier!(tier,
        // SAFETY: `check` asserts that the processor has the tier.
        kernels => unsafe { kernels::quantize_words(values, groups) },
        portable => quantize_words(values, groups)
    );
}

/// Returns the factor that scales values to integers, given the sum of their squares. The values
/// must be at most 1.
#[inline(always)]
pub(crate) fn factor(squares: f32) -> f32 {
    (NORM / squares.sqrt()).min(LARGEST)
}

/// Rounds groups with plain loops. A sum of squares has eight partial sums, which are added in
/// pairs: first `i` and `i + 4`, then `i` and `i + 2`.
pub(crate) fn quantize_words(values: &[[f32; GROUP]], groups: &mut [Q16Block]) {
    for (values, group) in values.iter().zip(groups) {
        let most = f32::from_bits(largest(values));
        let Some(inverse) = inverse(most) else {
            *group = Q16Block { q: [0; GROUP], scale: most };
            continue;
        };
        let values: [f32; GROUP] = each(|i| values[i] * inverse);
        let mut chains: [f32; 8] = each(|i| values[i] * values[i]);
        for eight in &values.as_chunks::<8>().0[1..] {
            chains = each(|i| eight[i].mul_add(eight[i], chains[i]));
        }
        let fours: [f32; 4] = each(|i| chains[i] + chains[i + 4]);
        let factor = factor((fours[0] + fours[2]) + (fours[1] + fours[3]));
        *group = Q16Block { q: each(|i| nearest(values[i] * factor) as i16), scale: most / factor };
    }
}

/// Returns the byte offset of a weight in a tile of 16-bit floats.
pub(crate) const fn place(row: usize, column: usize) -> usize {
    let pair = row / 2 % 2 * (TILE_ROWS / 2) + row / 4 * 2 + row % 2;
    POWERS_BYTES + column / 2 * PAIR_BYTES + 4 * pair + 2 * (column % 2)
}

/// Returns the size of a tile in bytes. Rows are padded to whole groups.
pub(crate) const fn word_tile_bytes<F: FloatFormat>(columns: usize) -> usize {
    assert!(2 * F::BYTES == PAIR_BYTES / TILE_ROWS, "the format must have 16 bits");
    POWERS_BYTES + columns.div_ceil(GROUP) * PAIRS * PAIR_BYTES
}

/// Packs 16-bit floats into the tile `out`. `rows` contains up to sixteen rows of `row_bytes` bytes
/// each.
pub(crate) fn pack_words<F: FloatFormat>(rows: &[u8], row_bytes: usize, out: &mut [u8]) {
    let (powers, pairs) = out.split_at_mut(POWERS_BYTES);
    if rows.len() < TILE_ROWS * row_bytes || !row_bytes.is_multiple_of(GROUP * F::BYTES) {
        pairs.fill(0);
    }
    let mut all = Some([1.0; TILE_ROWS]);
    for (row, bytes) in rows.chunks_exact(row_bytes).enumerate() {
        all = all.zip(power::<F>(bytes)).map(|(mut all, power)| {
            all[row] = power;
            all
        });
        let at = place(row, 0) - POWERS_BYTES;
        let (whole, rest) = bytes.as_chunks::<4>();
        let mut pairs = pairs.as_chunks_mut::<PAIR_BYTES>().0.iter_mut();
        for (bytes, pair) in whole.iter().zip(pairs.by_ref()) {
            pair[at..at + 4].copy_from_slice(bytes);
        }
        if let Some(pair) = pairs.next() {
            pair[at..at + rest.len()].copy_from_slice(rest);
        }
    }
    for (to, power) in powers.as_chunks_mut().0.iter_mut().zip(all.unwrap_or_default()) {
        *to = power.to_le_bytes();
    }
}

/// Returns the largest power of two by which row `row` can be multiplied without exceeding the
/// limit on the norm of a group.
///
/// Returns `None` if rounding would lose more than [`WORST`]. Also returns `None` if the power
/// would not be a normal float, or if the row's largest magnitude is subnormal, infinite or NaN. A
/// row of zeros has the power 1.
pub(crate) fn power<F: FloatFormat>(row: &[u8]) -> Option<f32> {
    let groups = || row.chunks(GROUP * F::BYTES).map(decode_group::<F>);
    let most = f32::from_bits(groups().map(|group| largest(&group)).max().unwrap_or_default());
    if most == 0.0 {
        return Some(1.0);
    }
    let inverse = inverse(most)?;
    let (mut squares, mut all_squares) = (0f32, 0f32);
    for group in groups() {
        let of_group = sum_of_squares(|i| group[i] * inverse);
        squares = squares.max(of_group);
        all_squares += of_group;
    }
    let exponent = (f64::from(factor(squares)) / f64::from(most)).to_bits() >> 52;
    let biased = u32::try_from((exponent + 127).checked_sub(1023)?).ok()?;
    let power = (1..=254).contains(&biased).then(|| f32::from_bits(biased << 23))?;
    let rest = |value: f32| value - nearest(value) as f32;
    let lost: f32 = groups().map(|group| sum_of_squares(|i| rest(group[i] * power))).sum();
    let norm = all_squares.sqrt() * (most * power);
    (lost.sqrt() <= WORST * norm).then_some(power)
}

fn decode_group<F: FloatFormat>(bytes: &[u8]) -> [f32; GROUP] {
    let mut group = [0.0; GROUP];
    F::decode_group(bytes, &mut group);
    group
}

#[inline(always)]
fn sum_of_squares(value: impl Fn(usize) -> f32) -> f32 {
    let mut chains = [0f32; 8];
    for eight in (0..GROUP).step_by(8) {
        chains = each(|i| chains[i] + value(eight + i) * value(eight + i));
    }
    chains.iter().sum()
}

/// Returns the powers of two of a tile's rows, then their inverses. Returns `None` if the tile uses
/// unrounded activations.
pub(crate) fn powers(tile: &[u8]) -> Option<[[f32; TILE_ROWS]; 2]> {
    let powers = each(|row| f32::from_le_bytes(tile.as_chunks().0[row]));
    (powers[0] != 0.0).then(|| [powers, each(|row| 1.0 / powers[row])])
}

/// Computes the products of the sixteen rows of `tile` with each token: `sums[token][row]`. The
/// sums must be 0 before the call. Other tiers must reproduce the bits of these results.
pub(crate) fn word_tile<F: FloatFormat>(tile: &[u8], x: &[Activation<'_>], sums: &mut [[f32; TILE_ROWS]]) {
    let weight = |row: usize, column: usize| F::decode(&tile[place(row, column)..]);
    let Some([powers, inverses]) = powers(tile) else {
        for (x, sums) in x.iter().zip(sums) {
            for (row, sum) in sums.iter_mut().enumerate() {
                let mut chains = [0f32; 2];
                for (column, x) in x.values().iter().enumerate() {
                    chains[column % 2] = weight(row, column).mul_add(*x, chains[column % 2]);
                }
                *sum = chains[0] + chains[1];
            }
        }
        return;
    };
    for group in 0..x[0].words().len() {
        let mut integers = [[0; TILE_ROWS]; GROUP];
        for (i, rows) in integers.iter_mut().enumerate() {
            *rows = each(|row| nearest(weight(row, group * GROUP + i) * powers[row]));
        }
        for (x, sums) in x.iter().zip(&mut *sums) {
            let x = &x.words()[group];
            let mut products = [0; TILE_ROWS];
            for (integers, q) in integers.iter().zip(x.q) {
                products = each(|row| products[row] + integers[row] * i32::from(q));
            }
            *sums = each(|row| x.scale.mul_add(products[row] as f32, sums[row]));
        }
    }
    for sums in sums {
        *sums = each(|row| sums[row] * inverses[row]);
    }
}
