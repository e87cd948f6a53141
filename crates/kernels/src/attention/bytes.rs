//! Blocks of keys and values as 8-bit integers. Before a product, a block is expanded to the 16-bit
//! integers of [`Words`], so both formats have the same products.
//!
//! A key or a value is scaled as for 16-bit integers, with a step twice as large. Each [`GROUP`] of
//! its elements has a factor, a small integer: an 8-bit integer times the factor of its group is the
//! 16-bit integer. The factor is the smallest one with which the largest element of the group fits in
//! 8 bits. With the larger step, no rounding up can make a sum of products exceed 32 bits.

use bytemuck::{cast_slice, cast_slice_mut};

use super::POSITIONS;
use super::f16_as_i16::{Levels, Pair, Words, key_pairs, value_pairs};
use crate::activation::nearest;
use crate::format::GROUP;
use crate::tier::{Tier, with_tier};

/// The largest 8-bit integer that is stored.
const LARGEST: f32 = i8::MAX as f32;
/// Length in bytes of two elements of the keys of all positions.
const PAIRS: usize = 2 * POSITIONS;

/// The keys and values of one head at [`POSITIONS`] positions. The integers have the shapes of the
/// pairs of [`Words`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a> {
    /// Shape `[head_dim / 2, POSITIONS, 2]`, with `head_dim / 2` rounded up.
    keys: &'a [i8],
    /// Shape `[POSITIONS / 2, value_dim, 2]`. Empty if the values are a part of the keys.
    values: &'a [i8],
    /// Shape `[groups, POSITIONS]`.
    key_factors: &'a [[u8; POSITIONS]],
    /// Shape `[POSITIONS / 2, groups, 2]`.
    value_factors: &'a [[u8; 2]],
    key_steps: &'a [f32; POSITIONS],
    value_steps: &'a [f32; POSITIONS],
    /// Number of positions in use, starting at the first one. At most [`POSITIONS`].
    positions: usize,
}

/// Numbers of bytes of the parts of a block, in their order: keys, values, factors of the keys, and
/// factors of the values. The steps follow.
const fn parts(head_dim: usize, value_dim: usize) -> [usize; 4] {
    let groups = [head_dim.div_ceil(GROUP), value_dim.div_ceil(GROUP)];
    [key_pairs(head_dim) * 2, value_pairs(value_dim) * 2, groups[0] * POSITIONS, groups[1] * POSITIONS]
}

/// Returns the number of 32-bit elements in a block.
pub(super) const fn len(head_dim: usize, value_dim: usize) -> usize {
    let [keys, values, key_factors, value_factors] = parts(head_dim, value_dim);
    let steps = if value_dim == 0 { POSITIONS } else { 2 * POSITIONS };
    (keys + values + key_factors + value_factors) / size_of::<u32>() + steps
}

/// Returns the number of 32-bit elements into which the keys, or the values, of a block are expanded.
pub(super) const fn room_len(head_dim: usize, value_dim: usize) -> usize {
    let (keys, values) = (key_pairs(head_dim), value_pairs(value_dim));
    if keys > values { keys } else { values }
}

impl<'a> Bytes<'a> {
    /// Creates a view of a block's memory, with the first `positions` positions in use.
    pub(super) fn new((head_dim, value_dim): (usize, usize), memory: &'a [u32], positions: usize) -> Self {
        let [keys, values, key_factors, value_factors] = parts(head_dim, value_dim);
        let (keys, rest) = cast_slice::<_, u8>(memory).split_at(keys);
        let (values, rest) = rest.split_at(values);
        let (key_factors, rest) = rest.split_at(key_factors);
        let (value_factors, steps) = rest.split_at(value_factors);
        let (key_steps, value_steps) = match cast_slice::<_, [f32; POSITIONS]>(steps) {
            [key_steps, value_steps] => (key_steps, value_steps),
            [steps] => (steps, steps),
            _ => unreachable!("the memory has the length of a block"),
        };
        Self {
            keys: cast_slice(keys),
            values: cast_slice(values),
            key_factors: cast_slice(key_factors),
            value_factors: cast_slice(value_factors),
            key_steps,
            value_steps,
            positions,
        }
    }

    /// Stores the key and the value of position `row` in a block's memory.
    pub(super) fn write(memory: &mut [u32], row: usize, key: &[f32], value: &[f32]) {
        let [keys, values, key_factors, value_factors] = parts(key.len(), value.len());
        let (keys, rest) = cast_slice_mut::<_, u8>(memory).split_at_mut(keys);
        let (values, rest) = rest.split_at_mut(values);
        let (key_factors, rest) = rest.split_at_mut(key_factors);
        let (value_factors, steps) = rest.split_at_mut(value_factors);
        let steps: &mut [f32] = cast_slice_mut(steps);
        let (keys, values): (&mut [i8], &mut [i8]) = (cast_slice_mut(keys), cast_slice_mut(values));
        let levels = Levels::of_key(key).doubled();
        steps[row] = levels.step;
        let groups = key.chunks(GROUP).zip(keys.chunks_mut(GROUP / 2 * PAIRS));
        for ((group, keys), factors) in groups.zip(key_factors.chunks_mut(POSITIONS)) {
            let (factor, bytes) = round(levels, group);
            factors[row] = factor;
            for (pair, keys) in bytes.as_chunks::<2>().0.iter().zip(keys.chunks_mut(PAIRS)) {
                keys[2 * row..][..2].copy_from_slice(pair);
            }
        }
        if value.is_empty() {
            return;
        }
        let levels = Levels::of_value(value).doubled();
        steps[POSITIONS + row] = levels.step;
        let values = values.chunks_mut(2 * value.len()).nth(row / 2).unwrap_or_default();
        let factors =
            value_factors.chunks_mut(2 * value.len().div_ceil(GROUP)).nth(row / 2).unwrap_or_default();
        let groups = value.chunks(GROUP).zip(values.chunks_mut(2 * GROUP));
        for ((group, values), factors) in groups.zip(factors.chunks_mut(2)) {
            let (factor, bytes) = round(levels, group);
            factors[row % 2] = factor;
            for (pair, byte) in values.chunks_mut(2).zip(bytes) {
                pair[row % 2] = byte;
            }
        }
    }

    /// Returns the memory of the keys, for prefetching.
    pub(super) fn key_memory(&self) -> &'a [Pair] {
        cast_slice(self.keys)
    }

    /// Returns the memory of the values, for prefetching.
    pub(super) fn value_memory(&self) -> &'a [Pair] {
        cast_slice(self.values)
    }

    /// Expands the keys into `room`. The result has no values.
    #[allow(unsafe_code, reason = "kernels need the instructions of their tier")]
    pub(super) fn expand_keys(&self, tier: Tier, room: &'a mut [u32]) -> Words<'a> {
        tier.check();
        let room: &mut [i16] = cast_slice_mut(&mut room[..self.keys.len() / 2]);
        with_tier!(tier,
            // SAFETY: `check` asserts that the processor has the tier.
            kernels => unsafe { kernels::expand_keys(self, room) },
            portable => expand_keys(self, room)
        );
        self.words(cast_slice(room), &[])
    }

    /// Expands the values into `room`. The result has no keys. `first` is the first element of the
    /// keys that is also a value, if the values are a part of the keys.
    #[allow(unsafe_code, reason = "kernels need the instructions of their tier")]
    pub(super) fn expand_values(
        &self,
        tier: Tier,
        (dim, first): (usize, Option<usize>),
        room: &'a mut [u32],
    ) -> Words<'a> {
        tier.check();
        let room: &mut [i16] = cast_slice_mut(&mut room[..value_pairs(dim)]);
        match first {
            Some(first) => self.copy_values(dim, first, room),
            None => with_tier!(tier,
                // SAFETY: `check` asserts that the processor has the tier.
                kernels => unsafe { kernels::expand_values(self, dim, room) },
                portable => expand_values(self, dim, room)
            ),
        }
        self.words(&[], cast_slice(room))
    }

    /// Expands the elements of the keys from `first` on into `room`, in the order of values.
    fn copy_values(&self, dim: usize, first: usize, room: &mut [i16]) {
        for (pair, room) in room.chunks_mut(2 * dim).take(self.positions.div_ceil(2)).enumerate() {
            for (element, room) in (first..).zip(room.as_chunks_mut::<2>().0) {
                let bytes = &self.keys[element / 2 * PAIRS..][..PAIRS].as_chunks::<2>().0[2 * pair..];
                let factors = &self.key_factors[element / GROUP][2 * pair..];
                for (index, word) in room.iter_mut().enumerate() {
                    *word = product(bytes[index][element % 2], i16::from(factors[index]));
                }
            }
        }
    }

    const fn words(&self, keys: &'a [Pair], values: &'a [Pair]) -> Words<'a> {
        let Self { key_steps, value_steps, positions, .. } = *self;
        Words { keys, values, key_steps, value_steps, positions, next: &[] }
    }
}

#[inline(always)]
fn product(byte: i8, factor: i16) -> i16 {
    // Only unused positions can have products that exceed 16 bits.
    i16::from(byte).wrapping_mul(factor)
}

/// Expands all keys into `room`, with plain loops.
#[inline(always)]
pub(crate) fn expand_keys(block: &Bytes<'_>, room: &mut [i16]) {
    let groups = block.keys.chunks(GROUP / 2 * PAIRS).zip(room.chunks_mut(GROUP / 2 * PAIRS));
    for ((bytes, room), factors) in groups.zip(block.key_factors) {
        let mut twice = [0; PAIRS];
        for (twice, factor) in twice.as_chunks_mut::<2>().0.iter_mut().zip(factors) {
            *twice = [i16::from(*factor); 2];
        }
        for (bytes, room) in bytes.as_chunks::<PAIRS>().0.iter().zip(room.as_chunks_mut::<PAIRS>().0) {
            for ((word, byte), factor) in room.iter_mut().zip(bytes).zip(twice) {
                *word = product(*byte, factor);
            }
        }
    }
}

/// Expands the values of all positions in use into `room`, with plain loops.
#[inline(always)]
pub(crate) fn expand_values(block: &Bytes<'_>, dim: usize, room: &mut [i16]) {
    const PIECE: usize = 2 * GROUP;
    let factors = block.value_factors.chunks(dim.div_ceil(GROUP));
    let positions = room.chunks_mut(2 * dim).zip(block.values.chunks(2 * dim)).zip(factors);
    for ((room, bytes), factors) in positions.take(block.positions.div_ceil(2)) {
        let (room, room_rest) = room.as_chunks_mut::<PIECE>();
        let (bytes, bytes_rest) = bytes.as_chunks::<PIECE>();
        for ((room, bytes), factors) in room.iter_mut().zip(bytes).zip(factors) {
            let mut all = [0; PIECE];
            all.as_chunks_mut::<2>().0.fill(factors.map(i16::from));
            for ((word, byte), factor) in room.iter_mut().zip(bytes).zip(all) {
                *word = product(*byte, factor);
            }
        }
        let last = factors.last().copied().unwrap_or_default().map(i16::from);
        for ((word, byte), factor) in room_rest.iter_mut().zip(bytes_rest).zip(last.into_iter().cycle()) {
            *word = product(*byte, factor);
        }
    }
}

/// Rounds a group to 8-bit integers. Returns the factor of the group and the integers.
fn round(levels: Levels, values: &[f32]) -> (u8, [i8; GROUP]) {
    let mut bytes = [0; GROUP];
    let Some(inverse) = levels.inverse else { return (0, bytes) };
    let most = values.iter().fold(0f32, |most, value| most.max((value * inverse).abs()));
    let factor = (most / LARGEST).ceil().max(1.0);
    for (byte, value) in bytes.iter_mut().zip(values) {
        *byte = nearest(value * inverse / factor) as i8;
    }
    (factor as u8, bytes)
}
