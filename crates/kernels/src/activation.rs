use crate::f16_as_i16::Q16Block;
use crate::format::{GROUP, each};
use crate::tier::{Tier, with_tier};

/// A group of 32 activations rounded to 8 bits. Fills one cache line of 64 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Q8Block {
    /// Integers between -127 and 127. Activation `i` is about `q[i] * scale`.
    pub(crate) q: [i8; GROUP],
    /// Activation that the integer 1 stands for.
    pub(crate) scale: f32,
    /// Sum of the rounded activations. A product with weights that have offsets needs the sum.
    pub(crate) sum: f32,
    /// Sums of the first and second half of the rounded activations.
    pub(crate) sums: [f32; 2],
    /// Negated sum of the integers. The bias of the weights times this value is added to a sum of
    /// products of levels, which replaces the levels by their integers.
    pub(crate) minus: i32,
    /// Negated sums of the integers of the first and second half.
    pub(crate) minuses: [i32; 2],
}

impl Default for Q8Block {
    fn default() -> Self {
        Self { q: [0; GROUP], scale: 0.0, sum: 0.0, sums: [0.0; 2], minus: 0, minuses: [0; 2] }
    }
}

/// A row of activations: the original values, and the rounded forms that a product with weights may
/// need. [`Operand`](crate::Operand) says which form an encoding needs.
#[derive(Clone, Copy, Debug)]
pub struct Activation<'a> {
    values: &'a [f32],
    groups: &'a [Q8Block],
    rests: Option<&'a [Q8Block]>,
    words: &'a [Q16Block],
}

impl<'a> Activation<'a> {
    /// Creates an 8-bit row. `groups` is the result of [`Activation::quantize`] for `values`.
    pub const fn new(values: &'a [f32], groups: &'a [Q8Block]) -> Self {
        Self { values, groups, rests: None, words: &[] }
    }

    /// Creates a 16-bit row. `groups` is the result of [`Activation::quantize`] for `values`, the
    /// upper 8 bits. `rests` is the result of [`Activation::rests`], the lower 8 bits.
    pub const fn fine(values: &'a [f32], groups: &'a [Q8Block], rests: &'a [Q8Block]) -> Self {
        Self { values, groups, rests: Some(rests), words: &[] }
    }

    /// Adds `words` to the row, the result of [`Q16Block::quantize_into`]. Products with 16-bit
    /// float weights need them.
    #[must_use]
    pub const fn with_words(self, words: &'a [Q16Block]) -> Self {
        Self { words, ..self }
    }

    pub(crate) const fn values(&self) -> &'a [f32] {
        self.values
    }

    pub(crate) const fn groups(&self) -> &'a [Q8Block] {
        self.groups
    }

    pub(crate) const fn words(&self) -> &'a [Q16Block] {
        self.words
    }

    /// Returns the lower 8 bits of all groups ([`Activation::rests`]), or `None` for 8-bit
    /// activations.
    pub(crate) const fn fine_rests(&self) -> Option<&'a [Q8Block]> {
        self.rests
    }

    /// Rounds the activations in `values` to multiples of 1/127 of the largest magnitude in their
    /// group. Returns one block for each group of 32.
    ///
    /// Elements after the last whole group are skipped. Only rows of float weights have such
    /// lengths, and their products do not use these blocks.
    pub fn quantize(values: &[f32]) -> Vec<Q8Block> {
        let mut groups = vec![Q8Block::default(); values.len() / GROUP];
        Self::quantize_into(values, &mut groups);
        groups
    }

    /// Rounds activations as [`Activation::quantize`] does, into `groups`.
    ///
    /// # Panics
    /// Panics if the length of `groups` is not the number of whole groups in `values`.
    pub fn quantize_into(values: &[f32], groups: &mut [Q8Block]) {
        let values = values.as_chunks::<GROUP>().0;
        assert_eq!(values.len(), groups.len(), "number of activation groups");
        quantize_by(Tier::best(), values, groups);
    }

    /// Returns the errors that rounding `values` to `groups` made, one block per group. The errors
    /// are rounded to multiples of 1/256 of the group's `scale`.
    pub fn rests(values: &[f32], groups: &[Q8Block]) -> Vec<Q8Block> {
        let mut rests = vec![Q8Block::default(); groups.len()];
        Self::rests_into(values, groups, &mut rests);
        rests
    }

    /// Computes [`Activation::rests`] into `rests`.
    ///
    /// # Panics
    /// Panics if the lengths of `groups` and `rests` are not the number of whole groups in
    /// `values`.
    pub fn rests_into(values: &[f32], groups: &[Q8Block], rests: &mut [Q8Block]) {
        let values = values.as_chunks::<GROUP>().0;
        assert_eq!((values.len(), values.len()), (groups.len(), rests.len()), "number of activation groups");
        rests_by(Tier::best(), values, groups, rests);
    }
}

impl Q8Block {
    /// Creates a block from the integers `q` and their scale `step`.
    ///
    /// `sums` are the sums of the integers in the first and second half. Times `step`, they are the
    /// sums of the activations. In a block of residuals, `sums` also include the group's upper 8
    /// bits, in units of `step`.
    #[inline(always)]
    pub(crate) fn new(q: [i8; GROUP], step: f32, sums: [i32; 2]) -> Self {
        let sum = sums[0] + sums[1];
        Self {
            q,
            scale: step,
            sum: step * sum as f32,
            sums: [step * sums[0] as f32, step * sums[1] as f32],
            minus: -sum,
            minuses: [-sums[0], -sums[1]],
        }
    }
}

/// Rounds groups to 8 bits with the instructions of `tier`.
#[allow(unsafe_code, reason = "kernels need the instructions of their tier")]
fn quantize_by(tier: Tier, values: &[[f32; GROUP]], groups: &mut [Q8Block]) {
    tier.check();
    with_tier!(tier,
        // SAFETY: `check` asserts that the processor has the tier.
        kernels => unsafe { kernels::quantize(values, groups) },
        portable => quantize_groups(values, groups)
    );
}

/// Computes the residuals of groups that were rounded to 8 bits, with the instructions of `tier`.
#[allow(unsafe_code, reason = "kernels need the instructions of their tier")]
fn rests_by(tier: Tier, values: &[[f32; GROUP]], groups: &[Q8Block], rests: &mut [Q8Block]) {
    tier.check();
    with_tier!(tier,
        // SAFETY: `check` asserts that the processor has the tier.
        kernels => unsafe { kernels::rests(values, groups, rests) },
        portable => rest_groups(values, groups, rests)
    );
}

#[inline(always)]
pub(crate) fn quantize_groups(values: &[[f32; GROUP]], groups: &mut [Q8Block]) {
    for (values, group) in values.iter().zip(groups) {
        *group = quantize_group(values);
    }
}

#[inline(always)]
pub(crate) fn rest_groups(values: &[[f32; GROUP]], groups: &[Q8Block], rests: &mut [Q8Block]) {
    for ((values, group), rest) in values.iter().zip(groups).zip(rests) {
        *rest = rest_group(values, group);
    }
}

/// Returns the bits of the largest magnitude in `values`. Without their sign bits, floats have the
/// order of their bits as integers, and integers have a vector instruction for the maximum.
#[inline(always)]
pub(crate) fn largest(values: &[f32]) -> u32 {
    values.iter().fold(0, |most, value| (value.to_bits() & 0x7fff_ffff).max(most))
}

/// Returns the step between the levels of a group, given the bits of its largest magnitude.
#[inline(always)]
pub(crate) fn step(largest: u32) -> f32 {
    f32::from_bits(largest) / 127.0
}

/// Returns the reciprocal of a scale, or `None` if the scale is zero, subnormal, infinite or NaN. A
/// group with such a scale is rounded to zeros. An infinite or NaN scale still makes the group's
/// products NaN.
#[inline(always)]
pub(crate) fn inverse(scale: f32) -> Option<f32> {
    scale.is_normal().then(|| 1.0 / scale)
}

/// Rounds a value between -2^22 and 2^22 to the nearest integer, ties to even. For such values,
/// `value + MIDDLE` is in a range where floats have a spacing of 1. The compiler always vectorises
/// this code, but not always `round_ties_even`.
#[inline(always)]
pub(crate) fn nearest(value: f32) -> i32 {
    const MIDDLE: f32 = 12_582_912.0;
    (value + MIDDLE).to_bits() as i32 - MIDDLE.to_bits() as i32
}

/// Returns the sums of the integers in the first and second half of a group.
#[inline(always)]
fn half_sums(q: &[i32; GROUP]) -> [i32; 2] {
    let (low, high) = q.split_at(GROUP / 2);
    [low.iter().sum(), high.iter().sum()]
}

#[inline(always)]
fn quantize_group(values: &[f32; GROUP]) -> Q8Block {
    let scale = step(largest(values));
    let q = match inverse(scale) {
        Some(inverse) => each(|i| nearest(values[i] * inverse)),
        None => [0; GROUP],
    };
    Q8Block::new(each(|i| q[i] as i8), scale, half_sums(&q))
}

#[inline(always)]
fn rest_group(values: &[f32; GROUP], group: &Q8Block) -> Q8Block {
    let q = match inverse(group.scale) {
        // The residual is at most half a step of the group, which is 128 steps of the residual. The
        // clamp loses at most one.
        Some(inverse) => each(|i| {
            let rest = values[i] * inverse - f32::from(group.q[i]);
            nearest((rest * 256.0).clamp(-127.0, 127.0))
        }),
        None => [0; GROUP],
    };
    let sums = half_sums(&q);
    let sums = each(|half| sums[half] - 256 * group.minuses[half]);
    Q8Block::new(each(|i| q[i] as i8), group.scale / 256.0, sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::f16_as_i16::quantize_words_by;

    const EXTREMES: [f32; 8] = [0.0, f32::MIN_POSITIVE, 1e-42, 1e-36, 1.0, f32::MAX, f32::INFINITY, f32::NAN];

    #[test]
    fn no_activation_leaves_eight_bits() {
        for value in EXTREMES {
            let mut values = [-value; GROUP];
            values[3] = value;
            let block = quantize_group(&values);
            assert!(block.q.iter().all(|q| (-127..=127).contains(q)), "{value}: {:?}", block.q);
            let rest = rest_group(&values, &block);
            assert!(rest.q.iter().all(|q| (-127..=127).contains(q)), "{value}: {:?}", rest.q);
            for tier in Tier::available() {
                let mut word = [Q16Block::default()];
                quantize_words_by(tier, &[values], &mut word);
                let norm: i64 = word[0].q.iter().map(|&q| i64::from(q) * i64::from(q)).sum();
                assert!(norm < 1 << 31 && !word[0].q.contains(&i16::MIN), "{value}: {word:?}");
            }
        }
    }

    #[test]
    fn activations_round_to_the_nearest_level() {
        let values: [f32; GROUP] = each(|i| ((i * 37 % 64) as f32 - 31.5) / 3.0);
        let block = quantize_group(&values);
        let rest = rest_group(&values, &block);
        for (i, value) in values.into_iter().enumerate() {
            let error = value - block.scale * f32::from(block.q[i]);
            assert!(error.abs() <= block.scale * 0.5001, "{i}: {error}");
            let error = error - rest.scale * f32::from(rest.q[i]);
            assert!(error.abs() <= rest.scale * 1.01, "{i}: {error}");
        }
        let sum: i32 = block.q.iter().map(|&q| i32::from(q)).sum();
        assert_eq!(-sum, block.minus);
        let fine: i32 = rest.q.iter().map(|&q| i32::from(q)).sum();
        assert_eq!(-(256 * sum + fine), rest.minus);
    }

    #[test]
    fn tiers_round_alike() {
        let mut values: Vec<[f32; GROUP]> = EXTREMES.iter().map(|&value| [value; GROUP]).collect();
        values.extend((1..100).map(|seed| each(|i| (((i + 1) * seed * 7919 % 1009) as f32 - 500.0) / 91.0)));
        let by = |tier: Tier| {
            let (mut groups, mut rests) =
                (vec![Q8Block::default(); values.len()], vec![Q8Block::default(); values.len()]);
            quantize_by(tier, &values, &mut groups);
            rests_by(tier, &values, &groups, &mut rests);
            let mut words = vec![Q16Block::default(); values.len()];
            quantize_words_by(tier, &values, &mut words);
            format!("{groups:?} {rests:?} {words:?}")
        };
        for tier in Tier::available() {
            assert_eq!(by(Tier::Portable), by(tier), "{tier:?}");
        }
    }
}
