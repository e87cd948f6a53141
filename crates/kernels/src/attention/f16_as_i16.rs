//! Blocks of keys and values as 16-bit integers. Queries and attention weights are rounded to
//! 16-bit integers as well.
//!
//! A key or a query is rounded to multiples of a power of two. The power is as small as possible
//! while the sum of all products fits in 32 bits. By the Cauchy-Schwarz inequality, a sum is at
//! most the product of the norms, and each norm is kept below the square root of 2^31.
//!
//! A value is rounded to multiples of a fraction of its largest element. Each weight of a query is
//! multiplied by the rounding step of the value at its position. The results are rounded to
//! multiples of a fraction of their sum, so that the sum of weights times values fits in 32 bits as
//! well.
//!
//! Both products are sums of integers, so the order of their terms is free.

use bytemuck::{cast_slice, cast_slice_mut};

use super::POSITIONS;
use crate::activation::{inverse, largest, nearest};
use crate::format::each;
use crate::vectorised;

/// Two 16-bit integers. One instruction multiplies two pairs and adds the two products. In keys, a
/// pair is two neighbouring elements; in values, it is the same element at two neighbouring
/// positions.
pub type Pair = [i16; 2];

/// Maximum norm of a key or a query before rounding. Rounding adds at most half the square root of
/// its length to the norm.
const NORM: f32 = 46_300.0;
/// Maximum number of elements of a key for which the norm after rounding is below the square root
/// of 2^31.
pub(super) const LONGEST: usize = 4096;
/// The largest integer. The rounded weights of a block add up to at most this integer, so no sum of
/// weights times values exceeds `2^15 * 2^15`.
const LARGEST: f32 = i16::MAX as f32;
/// Mask of the mantissa bits of a float.
const MANTISSA: u32 = (1 << 23) - 1;
/// Number of partial sums in the sums that determine a step.
pub(crate) const LANES: usize = 16;

/// The keys and values of one head at [`POSITIONS`] positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    /// The keys, with neighbouring elements in pairs. Shape `[head_dim / 2, POSITIONS]`, with
    /// `head_dim / 2` rounded up.
    pub(crate) keys: &'a [Pair],
    /// The values, with neighbouring positions in pairs. Shape `[POSITIONS / 2, head_dim]`. Empty if
    /// the values are a part of the keys.
    pub(crate) values: &'a [Pair],
    pub(crate) key_steps: &'a [f32; POSITIONS],
    pub(crate) value_steps: &'a [f32; POSITIONS],
    /// Number of positions in use, starting at the first one. At most [`POSITIONS`].
    pub(crate) positions: usize,
    /// Memory that is prefetched during the products. Empty if there is nothing to prefetch.
    pub(crate) next: &'a [Pair],
}

/// Returns the number of pairs in the keys of a block.
pub(super) const fn key_pairs(head_dim: usize) -> usize {
    head_dim.div_ceil(2) * POSITIONS
}

/// Returns the number of pairs in the values of a block.
pub(super) const fn value_pairs(head_dim: usize) -> usize {
    POSITIONS / 2 * head_dim
}

/// Returns the number of 32-bit elements in a block.
pub(super) const fn len(head_dim: usize, value_dim: usize) -> usize {
    let steps = if value_dim == 0 { POSITIONS } else { 2 * POSITIONS };
    key_pairs(head_dim) + value_pairs(value_dim) + steps
}

impl<'a> Words<'a> {
    /// Creates a view of a block's memory, with the first `positions` positions in use.
    pub(super) fn new(head_dim: usize, memory: &'a [u32], positions: usize) -> Self {
        debug_assert!(
            positions <= POSITIONS,
            "{positions} positions exceed the {POSITIONS} positions of a block"
        );
        let (keys, rest) = memory.split_at(key_pairs(head_dim));
        // Without values, only the steps of the keys follow.
        let value_len = if rest.len() == POSITIONS { 0 } else { value_pairs(head_dim) };
        let (values, steps) = rest.split_at(value_len);
        let (key_steps, value_steps) = match cast_slice::<_, [f32; POSITIONS]>(steps) {
            [key_steps, value_steps] => (key_steps, value_steps),
            [steps] => (steps, steps),
            _ => unreachable!("the memory has the length of a block"),
        };
        Self {
            keys: cast_slice(keys),
            values: cast_slice(values),
            key_steps,
            value_steps,
            positions,
            next: &[],
        }
    }

    /// Copies the elements of the keys from `first` on to `room`, and uses them as the values.
    pub(super) fn copy_values(&mut self, first: usize, room: &'a mut [u32]) {
        let room: &mut [Pair] = cast_slice_mut(room);
        let dim = room.len() / (POSITIONS / 2);
        let keys = &self.keys.as_chunks::<POSITIONS>().0[first / 2..];
        for (positions, room) in room.chunks_exact_mut(dim).enumerate() {
            for (elements, keys) in room.chunks_mut(2).zip(keys) {
                let [one, other] = [keys[2 * positions], keys[2 * positions + 1]];
                for (index, element) in elements.iter_mut().enumerate() {
                    *element = [one[index], other[index]];
                }
            }
        }
        self.values = room;
    }

    /// Stores the key and the value of position `row` in a block's memory.
    pub(super) fn write(memory: &mut [u32], row: usize, key: &[f32], value: &[f32]) {
        const PIECE: usize = 64;
        let (keys, rest) = memory.split_at_mut(key_pairs(key.len()));
        let (values, steps) = rest.split_at_mut(value_pairs(value.len()));
        let (keys, values): (&mut [Pair], &mut [Pair]) = (cast_slice_mut(keys), cast_slice_mut(values));
        let levels = Levels::of_key(key);
        steps[row] = levels.step.to_bits();
        for (key, keys) in key.chunks(PIECE).zip(keys.chunks_mut(PIECE / 2 * POSITIONS)) {
            let mut words = [0; PIECE];
            levels.round(key, &mut words);
            for (pair, keys) in words.as_chunks::<2>().0.iter().zip(keys.as_chunks_mut::<POSITIONS>().0) {
                keys[row] = *pair;
            }
        }
        if value.is_empty() {
            return;
        }
        let levels = Levels::of_value(value);
        steps[POSITIONS + row] = levels.step.to_bits();
        let values = &mut values[row / 2 * value.len()..][..value.len()];
        for (value, values) in value.chunks(PIECE).zip(values.chunks_mut(PIECE)) {
            let mut words = [0; PIECE];
            levels.round(value, &mut words);
            for (pair, word) in values.iter_mut().zip(words) {
                pair[row % 2] = word;
            }
        }
    }

    /// Computes the products of `query` with the keys of all positions, with plain loops.
    pub(super) fn key_products(&self, query: &WordQuery<'_>, out: &mut [f32; POSITIONS]) {
        let mut sums = [0; POSITIONS];
        for (q, keys) in query.pairs.iter().zip(self.keys.as_chunks::<POSITIONS>().0) {
            for (sum, key) in sums.iter_mut().zip(keys) {
                *sum += product(*q, *key);
            }
        }
        for ((out, sum), step) in out.iter_mut().zip(sums).zip(self.key_steps.iter()) {
            *out = sum as f32 * step * query.scale;
        }
    }

    /// Adds the weighted sum of the values to `out`, from element `first` on, with plain loops.
    #[inline(always)]
    pub(crate) fn add_values(&self, weights: &Weights, first: usize, out: &mut [f32]) {
        let dim = out.len();
        for (element, out) in out.iter_mut().enumerate().skip(first) {
            let values = self.values.iter().skip(element).step_by(dim);
            let sum: i32 =
                weights.pairs.iter().zip(values).map(|(weights, values)| product(*weights, *values)).sum();
            *out = (sum as f32).mul_add(weights.step, *out);
        }
    }
}

#[inline(always)]
fn product(a: Pair, b: Pair) -> i32 {
    i32::from(a[0]) * i32::from(b[0]) + i32::from(a[1]) * i32::from(b[1])
}

/// A query rounded to 16-bit integers.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct WordQuery<'a> {
    pub(crate) pairs: &'a [Pair],
    /// The step of the query times the caller's scale. A product is the sum of integers times this
    /// factor and the step of the key.
    pub(crate) scale: f32,
}

impl<'a> WordQuery<'a> {
    pub(super) fn new(values: &[f32], scale: f32, room: &'a mut [Pair]) -> Self {
        if let Some(last) = room.last_mut() {
            last[1] = 0;
        }
        let levels = Levels::of_key(values);
        levels.round(values, room.as_flattened_mut());
        Self { pairs: room, scale: levels.step * scale }
    }
}

/// The attention weights of a query for the values of a block, rounded to 16-bit integers.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Weights {
    pub(crate) pairs: [Pair; POSITIONS / 2],
    /// Factor that turns a sum of integers into a sum of weighted values.
    pub(crate) step: f32,
}

impl Weights {
    /// Rounds `weights[i] * steps[i]`, where `steps[i]` is the step of the value at position `i`.
    pub(crate) fn new(weights: &[f32; POSITIONS], steps: &[f32; POSITIONS]) -> Self {
        // Values with weight 0 may be infinite or NaN.
        let scaled: [f32; POSITIONS] = each(|i| if weights[i] == 0.0 { 0.0 } else { weights[i] * steps[i] });
        let levels = Levels::of_weights(by_lanes(&scaled, f32::abs));
        let mut pairs = [[0; 2]; POSITIONS / 2];
        levels.round(&scaled, pairs.as_flattened_mut());
        Self { pairs, step: levels.step }
    }
}

/// Rounding of a row of floats: each float is replaced by an integer times `step`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levels {
    /// Factor that scales floats to integers. `None` if a float is infinite or NaN.
    pub(crate) inverse: Option<f32>,
    /// The float that the integer 1 stands for, a power of two. Infinite or NaN if one of the
    /// floats is.
    pub(crate) step: f32,
}

impl Levels {
    /// Creates levels whose step is `step`, rounded up to a power of two.
    #[inline(always)]
    fn new(step: f32) -> Self {
        if !step.is_finite() {
            return Self { inverse: None, step };
        }
        let step = f32::from_bits((step.max(f32::MIN_POSITIVE).to_bits() + MANTISSA) & !MANTISSA);
        Self { inverse: Some(1.0 / step), step }
    }

    /// Returns levels with a step twice as large.
    pub(super) fn doubled(self) -> Self {
        Self { inverse: self.inverse.map(|inverse| inverse / 2.0), step: self.step * 2.0 }
    }

    pub(super) fn of_key(values: &[f32]) -> Self {
        Self::new(vectorised!(step_of_key(values: &[f32]) -> f32))
    }

    pub(super) fn of_value(values: &[f32]) -> Self {
        Self::new(f32::from_bits(largest(values)) / LARGEST)
    }

    /// Returns the levels for rounding weights with the sum `sum`.
    #[inline(always)]
    pub(crate) fn of_weights(sum: f32) -> Self {
        Self::new(sum / LARGEST)
    }

    /// Rounds `values` into `words`, up to the length of the shorter slice.
    #[inline(always)]
    fn round(self, values: &[f32], words: &mut [i16]) {
        let Some(inverse) = self.inverse else {
            words.fill(0);
            return;
        };
        for (word, value) in words.iter_mut().zip(values) {
            *word = nearest(value * inverse) as i16;
        }
    }
}

/// Returns the least step for the levels of a key.
#[inline(always)]
fn step_of_key(values: &[f32]) -> f32 {
    let most = f32::from_bits(largest(values));
    // A magnitude below the normal floats has no inverse. The step is then the smallest normal
    // float.
    let norm = inverse(most)
        .map_or(most, |inverse| most * by_lanes(values, |value| value * inverse * (value * inverse)).sqrt());
    (norm / NORM).max(most / LARGEST)
}

/// Returns the sum of `of(value)` over all values, as [`LANES`] partial sums that are added at the
/// end.
#[inline(always)]
fn by_lanes(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for values in whole {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane += of(*value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += of(*value);
    }
    sum_of_lanes(lanes)
}

/// Adds up `lanes`: the two halves are added element by element until one element remains.
#[inline(always)]
pub(crate) fn sum_of_lanes(lanes: [f32; LANES]) -> f32 {
    let eights: [f32; 8] = each(|i| lanes[i] + lanes[i + 8]);
    let fours: [f32; 4] = each(|i| eights[i] + eights[i + 4]);
    (fours[0] + fours[2]) + (fours[1] + fours[3])
}
