use crate::format::{GROUP, each};

/// Thirty-two activations rounded to 8 bits.
#[derive(Clone, Copy, Debug)]
pub struct Q8Block {
    /// The step between two levels.
    pub(crate) scale: f32,
    /// The sum of the rounded activations, and those of the two halves, for weights with offsets.
    pub(crate) sum: f32,
    pub(crate) sums: [f32; 2],
    /// Between -127 and 127.
    pub(crate) q: [i8; GROUP],
}

/// One row of activations, as it is and rounded.
#[derive(Clone, Copy, Debug)]
pub struct Activation<'a> {
    values: &'a [f32],
    groups: &'a [Q8Block],
}

impl<'a> Activation<'a> {
    /// Pairs a row with its rounding by [`Activation::quantize`].
    pub const fn new(values: &'a [f32], groups: &'a [Q8Block]) -> Self {
        Self { values, groups }
    }

    pub(crate) const fn values(&self) -> &'a [f32] {
        self.values
    }

    pub(crate) const fn groups(&self) -> &'a [Q8Block] {
        self.groups
    }

    /// Rounds rows of activations to multiples of 1/127 of the largest magnitude in each group. Elements past the last
    /// whole group are left out; only float weights have such rows, and they use the values.
    pub fn quantize(values: &[f32]) -> Vec<Q8Block> {
        values.as_chunks::<GROUP>().0.iter().map(quantize_group).collect()
    }
}

impl Q8Block {
    /// What rounding has taken from the values.
    pub fn residual(&self, values: &[f32; GROUP]) -> [f32; GROUP] {
        each(|i| values[i] - self.scale * f32::from(self.q[i]))
    }
}

fn quantize_group(values: &[f32; GROUP]) -> Q8Block {
    // Floats without a sign are in the order of their bits, and integers have a vector maximum.
    let largest = values.iter().fold(0, |most, value| (value.to_bits() & 0x7fff_ffff).max(most));
    let scale = f32::from_bits(largest) / 127.0;
    // The inverse of what is smaller is infinite; a group of such small numbers counts as zeros.
    let inverse = if scale.is_normal() { 1.0 / scale } else { 0.0 };
    let q: [i16; GROUP] = each(|i| (values[i] * inverse).round_ties_even() as i16);
    let sum = |half: &[i16]| scale * f32::from(half.iter().sum::<i16>());
    let sums = [sum(&q[..16]), sum(&q[16..])];
    Q8Block { scale, sum: sums[0] + sums[1], sums, q: each(|i| q[i] as i8) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_activation_leaves_eight_bits() {
        for value in [0.0, f32::MIN_POSITIVE, 1e-42, 1e-36, 1.0, f32::MAX, f32::INFINITY, f32::NAN] {
            let mut values = [-value; GROUP];
            values[3] = value;
            let block = quantize_group(&values);
            assert!(block.q.iter().all(|q| (-127..=127).contains(q)), "{value}: {:?}", block.q);
        }
    }
}
