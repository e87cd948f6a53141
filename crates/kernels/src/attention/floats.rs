//! Blocks of keys and values as 32-bit floats.

use bytemuck::{cast_slice, cast_slice_mut};

use super::POSITIONS;
use crate::vectorised;

/// Number of output elements whose sums stay in registers at a time.
const LANES: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Floats<'a> {
    /// Shape `[head_dim, POSITIONS]`.
    keys: &'a [f32],
    /// Shape `[POSITIONS, head_dim]`. Empty if the values are a part of the keys.
    pub(super) values: &'a [f32],
}

/// Returns the number of 32-bit elements in a block.
pub(super) const fn len(head_dim: usize, value_dim: usize) -> usize {
    POSITIONS * (head_dim + value_dim)
}

impl<'a> Floats<'a> {
    /// Creates a view of a block's memory.
    pub(super) fn new(head_dim: usize, memory: &'a [u32]) -> Self {
        let (keys, values) = cast_slice(memory).split_at(POSITIONS * head_dim);
        Self { keys, values }
    }

    /// Copies the elements of the keys from `first` on to `room`, and uses them as the values.
    pub(super) fn copy_values(&mut self, first: usize, room: &'a mut [u32]) {
        let room: &mut [f32] = cast_slice_mut(room);
        let dim = room.len() / POSITIONS;
        for (element, keys) in self.keys.as_chunks::<POSITIONS>().0[first..].iter().enumerate() {
            for (position, key) in keys.iter().enumerate() {
                room[position * dim + element] = *key;
            }
        }
        self.values = room;
    }

    /// Stores the key and the value of position `row` in a block's memory.
    pub(super) fn write(memory: &mut [u32], row: usize, key: &[f32], value: &[f32]) {
        let (keys, values) = cast_slice_mut(memory).split_at_mut(POSITIONS * key.len());
        for (slots, key) in keys.as_chunks_mut::<POSITIONS>().0.iter_mut().zip(key) {
            slots[row] = *key;
        }
        if !value.is_empty() {
            values[row * value.len()..][..value.len()].copy_from_slice(value);
        }
    }

    /// Computes each product as a chain of fused multiply-adds over the elements of the head.
    pub(super) fn key_products(&self, query: &[f32], scale: f32, out: &mut [f32; POSITIONS]) {
        let keys = self.keys;
        vectorised!(key_products(keys: &[f32], query: &[f32], scale: f32, out: &mut [f32; POSITIONS]));
    }

    /// Computes each output as a chain of fused multiply-adds over the positions.
    pub(super) fn add_values(&self, weights: &[f32; POSITIONS], out: &mut [f32]) {
        let values = self.values;
        vectorised!(add_values(values: &[f32], weights: &[f32; POSITIONS], out: &mut [f32]));
    }
}

#[inline(always)]
fn key_products(keys: &[f32], query: &[f32], scale: f32, out: &mut [f32; POSITIONS]) {
    let mut sums = [0f32; POSITIONS];
    for (q, keys) in query.iter().zip(keys.as_chunks::<POSITIONS>().0) {
        for (sum, key) in sums.iter_mut().zip(keys) {
            *sum = q.mul_add(*key, *sum);
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = sum * scale;
    }
}

#[inline(always)]
fn add_values(values: &[f32], weights: &[f32; POSITIONS], out: &mut [f32]) {
    let dim = out.len();
    for (first, out) in (0..dim).step_by(LANES).zip(out.chunks_mut(LANES)) {
        let mut sums = [0f32; LANES];
        sums[..out.len()].copy_from_slice(out);
        for (weight, values) in weights.iter().zip(values.chunks_exact(dim)) {
            // Values with weight 0 may be infinite or NaN.
            if *weight != 0.0 {
                for (sum, value) in sums.iter_mut().zip(&values[first..]) {
                    *sum = weight.mul_add(*value, *sum);
                }
            }
        }
        out.copy_from_slice(&sums[..out.len()]);
    }
}
