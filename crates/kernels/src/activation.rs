use crate::format::{GROUP, each};
use crate::products::Tier;
use crate::words::Q16Block;

/// Thirty-two activations rounded to 8 bits. One line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Q8Block {
    /// Between -127 and 127.
    pub(crate) q: [i8; GROUP],
    /// The step between two levels.
    pub(crate) scale: f32,
    /// The sum of the rounded activations, and those of the two halves, for weights with offsets.
    pub(crate) sum: f32,
    pub(crate) sums: [f32; 2],
    /// The sums of the integers, negated: they take from products what a bias of the weights has added.
    pub(crate) minus: i32,
    pub(crate) minuses: [i32; 2],
}

impl Default for Q8Block {
    fn default() -> Self {
        Self { q: [0; GROUP], scale: 0.0, sum: 0.0, sums: [0.0; 2], minus: 0, minuses: [0; 2] }
    }
}

/// One row of activations, as it is and rounded, as far as the weights that it meets call for: see [`Operand`](crate::Operand).
#[derive(Clone, Copy, Debug)]
pub struct Activation<'a> {
    values: &'a [f32],
    groups: &'a [Q8Block],
    rests: Option<&'a [Q8Block]>,
    words: &'a [Q16Block],
}

impl<'a> Activation<'a> {
    /// Pairs a row with its rounding by [`Activation::quantize`].
    pub const fn new(values: &'a [f32], groups: &'a [Q8Block]) -> Self {
        Self { values, groups, rests: None, words: &[] }
    }

    /// A row of 16 bits: its rounding by [`Activation::quantize`] with what that leaves by [`Activation::rests`].
    pub const fn fine(values: &'a [f32], groups: &'a [Q8Block], rests: &'a [Q8Block]) -> Self {
        Self { values, groups, rests: Some(rests), words: &[] }
    }

    /// The same row with its rounding by [`Q16Block::quantize_into`].
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

    /// What is left of each group, where the activations have 16 bits.
    pub(crate) const fn fine_rests(&self) -> Option<&'a [Q8Block]> {
        self.rests
    }

    /// Rounds rows of activations to multiples of 1/127 of the largest magnitude in each group. Elements past the last
    /// whole group are left out; only rows of floats are so long, and they do not meet these groups.
    pub fn quantize(values: &[f32]) -> Vec<Q8Block> {
        let mut groups = vec![Q8Block::default(); values.len() / GROUP];
        Self::quantize_into(values, &mut groups);
        groups
    }

    /// [`Activation::quantize`] into `groups`, as many as are whole.
    ///
    /// # Panics
    /// When there are more groups of values than of blocks, or less.
    pub fn quantize_into(values: &[f32], groups: &mut [Q8Block]) {
        let values = values.as_chunks::<GROUP>().0;
        assert_eq!(values.len(), groups.len(), "groups of activations");
        Tier::best().quantize(values, groups);
    }

    /// What rounding has taken from the values, in steps 1/256 as large.
    pub fn rests(values: &[f32], groups: &[Q8Block]) -> Vec<Q8Block> {
        let mut rests = vec![Q8Block::default(); groups.len()];
        Self::rests_into(values, groups, &mut rests);
        rests
    }

    /// [`Activation::rests`] into `rests`.
    ///
    /// # Panics
    /// When there are not as many groups of values, groups and rests.
    pub fn rests_into(values: &[f32], groups: &[Q8Block], rests: &mut [Q8Block]) {
        let values = values.as_chunks::<GROUP>().0;
        assert_eq!((values.len(), values.len()), (groups.len(), rests.len()), "groups of activations");
        Tier::best().rests(values, groups, rests);
    }
}

impl Q8Block {
    /// With the sums of integers, `step` times which are the activations.
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

/// The bits of the largest magnitude. Floats without a sign are in the order of their bits, and integers have a vector maximum.
#[inline(always)]
pub(crate) fn largest(values: &[f32]) -> u32 {
    values.iter().fold(0, |most, value| (value.to_bits() & 0x7fff_ffff).max(most))
}

/// The step between the levels of a group, from the bits of its largest magnitude.
#[inline(always)]
pub(crate) fn step(largest: u32) -> f32 {
    f32::from_bits(largest) / 127.0
}

/// The inverse of a step. That of what is smaller than the normal floats is infinite, and not even NaN has a step; a group
/// of such counts as zeros.
#[inline(always)]
pub(crate) fn inverse(scale: f32) -> Option<f32> {
    scale.is_normal().then(|| 1.0 / scale)
}

/// The nearest integer, of two the even one, of a value between -2^22 and 2^22: there the steps of the sum are 1. The
/// compiler turns this into vector code, and `round` not everywhere.
#[inline(always)]
pub(crate) fn nearest(value: f32) -> i32 {
    const MIDDLE: f32 = 12_582_912.0;
    (value + MIDDLE).to_bits() as i32 - MIDDLE.to_bits() as i32
}

/// The sums of the two halves.
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
        // What is left is half a step at most: the difference is small, and the clamp takes one level of 256 at the ends.
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
                tier.words(&[values], &mut word);
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
            tier.quantize(&values, &mut groups);
            tier.rests(&values, &groups, &mut rests);
            let mut words = vec![Q16Block::default(); values.len()];
            tier.words(&values, &mut words);
            format!("{groups:?} {rests:?} {words:?}")
        };
        for tier in Tier::available() {
            assert_eq!(by(Tier::Portable), by(tier), "{tier:?}");
        }
    }
}
