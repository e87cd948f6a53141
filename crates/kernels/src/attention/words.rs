//! Keys and values as integers of 16 bits, which meet queries and weights that are rounded alike.
//!
//! A key or a query is rounded to multiples of one power of two, as small as it can be with the sum of all products of the two in 32
//! bits: no sum is larger than the product of the norms (Cauchy-Schwarz), and each of these is held below the root of 2^31. A
//! value is rounded to multiples of a part of its largest element. The weights that a query gives the positions of a block take over the
//! steps of the values there, and are rounded to multiples of a part of their sum, so that this product fits 32 bits as well. So
//! both products are sums of integers, whose order is free.

use bytemuck::{cast_slice, cast_slice_mut};

use super::POSITIONS;
use crate::activation::{inverse, largest, nearest};
use crate::format::each;

/// Two words which meet another two at once: neighbours of a key, or an element of two neighbouring values.
pub type Pair = [i16; 2];

/// The largest norm that a key or a query may have before it is rounded, which adds half of the root of its length at most.
const NORM: f32 = 46_300.0;
/// The longest key for which that is below the root of 2^31.
pub(super) const LONGEST: usize = 4096;
/// The largest integer. The weights of a block are no more together, so that no sum with values is above `2^15 * 2^15`.
const LARGEST: f32 = i16::MAX as f32;
/// The digits of a float.
const MANTISSA: u32 = (1 << 23) - 1;
/// Chains of the sums of what is rounded.
pub(crate) const LANES: usize = 16;

/// The keys and values of one head at [`POSITIONS`] positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    /// `[head_dim / 2, POSITIONS]`
    pub(crate) keys: &'a [Pair],
    /// `[POSITIONS / 2, head_dim]`
    pub(crate) values: &'a [Pair],
    pub(crate) key_steps: &'a [f32; POSITIONS],
    pub(crate) value_steps: &'a [f32; POSITIONS],
    /// How many positions count, from the first on: [`POSITIONS`] at most.
    pub(crate) positions: usize,
    /// What is prefetched meanwhile.
    pub(crate) next: &'a [Pair],
}

const fn key_pairs(head_dim: usize) -> usize {
    head_dim.div_ceil(2) * POSITIONS
}

const fn value_pairs(head_dim: usize) -> usize {
    POSITIONS / 2 * head_dim
}

/// Elements of 32 bits that a block takes.
pub(super) const fn len(head_dim: usize) -> usize {
    key_pairs(head_dim) + value_pairs(head_dim) + 2 * POSITIONS
}

impl<'a> Words<'a> {
    /// Of a block's memory.
    pub(super) fn new(head_dim: usize, memory: &'a [u32], positions: usize) -> Self {
        debug_assert!(positions <= POSITIONS, "{positions} positions of a block");
        let (keys, rest) = memory.split_at(key_pairs(head_dim));
        let (values, steps) = rest.split_at(value_pairs(head_dim));
        let [key_steps, value_steps] = cast_slice::<_, [f32; POSITIONS]>(steps) else {
            unreachable!("the memory of a block")
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

    /// Sets a position's key and value in a block's memory.
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

    /// By plain loops.
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

    /// Adds the elements from `first` on, by plain loops.
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

/// A query that was rounded.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct WordQuery<'a> {
    pub(crate) pairs: &'a [Pair],
    /// What products with integers are multiplied with, beside the step of the key.
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

/// What the values of a block are multiplied with.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Weights {
    pub(crate) pairs: [Pair; POSITIONS / 2],
    /// What sums of integers are multiplied with.
    pub(crate) step: f32,
}

impl Weights {
    /// Weights of positions together with the steps of the values there.
    pub(crate) fn new(weights: &[f32; POSITIONS], steps: &[f32; POSITIONS]) -> Self {
        // What is not looked at need not be a number.
        let scaled: [f32; POSITIONS] = each(|i| if weights[i] == 0.0 { 0.0 } else { weights[i] * steps[i] });
        let levels = Levels::of_weights(by_lanes(&scaled, f32::abs));
        let mut pairs = [[0; 2]; POSITIONS / 2];
        levels.round(&scaled, pairs.as_flattened_mut());
        Self { pairs, step: levels.step }
    }
}

/// How a row is rounded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levels {
    /// What values are multiplied with; nothing where one of them is no number.
    pub(crate) inverse: Option<f32>,
    /// The step between two levels, a power of two; no number where a value is none.
    pub(crate) step: f32,
}

impl Levels {
    /// With the next power of two.
    #[inline(always)]
    fn new(step: f32) -> Self {
        if !step.is_finite() {
            return Self { inverse: None, step };
        }
        let step = f32::from_bits((step.max(f32::MIN_POSITIVE).to_bits() + MANTISSA) & !MANTISSA);
        Self { inverse: Some(1.0 / step), step }
    }

    fn of_key(values: &[f32]) -> Self {
        let most = f32::from_bits(largest(values));
        // What is smaller than the normal floats has no inverse, and no level but that of zero.
        let norm = inverse(most).map_or(most, |inverse| {
            most * by_lanes(values, |value| value * inverse * (value * inverse)).sqrt()
        });
        Self::new((norm / NORM).max(most / LARGEST))
    }

    fn of_value(values: &[f32]) -> Self {
        Self::new(f32::from_bits(largest(values)) / LARGEST)
    }

    /// Of weights with this sum.
    #[inline(always)]
    pub(crate) fn of_weights(sum: f32) -> Self {
        Self::new(sum / LARGEST)
    }

    /// Rounds values, as many as there are of both.
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

/// The sum of something of each value, in chains as many as lanes.
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

/// By halves.
#[inline(always)]
pub(crate) fn sum_of_lanes(lanes: [f32; LANES]) -> f32 {
    let eights: [f32; 8] = each(|i| lanes[i] + lanes[i + 8]);
    let fours: [f32; 4] = each(|i| eights[i] + eights[i + 4]);
    (fours[0] + fours[2]) + (fours[1] + fours[3])
}
