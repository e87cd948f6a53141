//! Keys and values as they are.

use super::POSITIONS;

/// Elements of an output whose sums are kept in registers.
const LANES: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Floats {
    /// `[head_dim, POSITIONS]`
    keys: Box<[f32]>,
    /// `[POSITIONS, head_dim]`
    values: Box<[f32]>,
}

impl Floats {
    pub(super) fn new(head_dim: usize) -> Self {
        let zeros = || vec![0.0; POSITIONS * head_dim].into_boxed_slice();
        Self { keys: zeros(), values: zeros() }
    }

    pub(super) fn write(&mut self, row: usize, key: &[f32], value: &[f32]) {
        for (slots, key) in self.keys.as_chunks_mut::<POSITIONS>().0.iter_mut().zip(key) {
            slots[row] = *key;
        }
        self.values[row * value.len()..][..value.len()].copy_from_slice(value);
    }

    /// Each a chain of fused multiply-adds over the elements of the head.
    pub(super) fn key_products(&self, query: &[f32], scale: f32, out: &mut [f32; POSITIONS]) {
        let mut sums = [0f32; POSITIONS];
        for (q, keys) in query.iter().zip(self.keys.as_chunks::<POSITIONS>().0) {
            for (sum, key) in sums.iter_mut().zip(keys) {
                *sum = q.mul_add(*key, *sum);
            }
        }
        *out = sums.map(|sum| sum * scale);
    }

    /// Each a chain of fused multiply-adds over the positions.
    pub(super) fn add_values(&self, weights: &[f32; POSITIONS], out: &mut [f32]) {
        let dim = out.len();
        for (first, out) in (0..dim).step_by(LANES).zip(out.chunks_mut(LANES)) {
            let mut sums = [0f32; LANES];
            sums[..out.len()].copy_from_slice(out);
            for (weight, values) in weights.iter().zip(self.values.chunks_exact(dim)) {
                // What is not looked at need not be a number.
                if *weight != 0.0 {
                    for (sum, value) in sums.iter_mut().zip(&values[first..]) {
                        *sum = weight.mul_add(*value, *sum);
                    }
                }
            }
            out.copy_from_slice(&sums[..out.len()]);
        }
    }
}
