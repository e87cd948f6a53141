//! The exponential function in loops that vectorise.

use crate::multiply_add::{AsBuilt, MultiplyAdd};
use crate::vectorised;

/// Computes `eˣ` to within two units in the last place. The code has no branches, so that loops
/// over it vectorise.
///
/// Let n be the integer nearest to x / ln 2. Then eˣ = 2ⁿ · eʳ with |r| ≤ ln 2 / 2. In this range
/// the error of the Taylor series up to r⁷ is less than 2⁻²⁷. Arguments are clamped so that 2ⁿ is a
/// normal number.
#[inline(always)]
pub fn exp_with<M: MultiplyAdd>(x: f32) -> f32 {
    // ln 2 as a sum of two parts. The first part has so few significant bits that its product with
    // n is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Consecutive floats at this magnitude differ by 1. Adding the constant rounds to an integer,
    // which the low bits then hold. An `as` cast would saturate, and that does not vectorise.
    const MIDDLE: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let moved = M::multiply_add(x, std::f32::consts::LOG2_E, MIDDLE);
    let n = moved - MIDDLE;
    let r = M::multiply_add(n, -LN_2_LOW, M::multiply_add(n, -LN_2_HIGH, x));
    // Written out: a loop around another loop vectorises only if the compiler unrolls the inner one,
    // which it does not do if it optimises for size.
    let mut series = M::multiply_add(1.0 / 5040.0, r, 1.0 / 720.0);
    series = M::multiply_add(series, r, 1.0 / 120.0);
    series = M::multiply_add(series, r, 1.0 / 24.0);
    series = M::multiply_add(series, r, 1.0 / 6.0);
    series = M::multiply_add(series, r, 0.5);
    series = M::multiply_add(series, r, 1.0);
    series = M::multiply_add(series, r, 1.0);
    f32::from_bits(moved.to_bits().wrapping_add(127) << 23) * series
}

/// Computes `eˣ` as [`exp_with`] does, with the instructions of the build.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    exp_with::<AsBuilt>(x)
}

/// Replaces each logit by `exp((logit - largest) / temperature)`: its probability up to a common factor. Logits
/// that are not finite yield 0.
pub fn unscaled_softmax(logits: &mut [f32], largest: f32, temperature: f32) {
    vectorised!(unscaled_softmax_loops::<_>(logits: &mut [f32], largest: f32, temperature: f32));
}

#[inline(always)]
fn unscaled_softmax_loops<M: MultiplyAdd>(logits: &mut [f32], largest: f32, temperature: f32) {
    for logit in logits {
        let weight = exp_with::<M>((*logit - largest) / temperature);
        *logit = if logit.is_finite() { weight } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fused;

    #[test]
    fn exp_is_close_over_its_whole_range() {
        for step in -87_000..88_000 {
            let x = step as f32 / 1000.0;
            let expected = f64::from(x).exp();
            for given in [exp_with::<Fused>(x), exp(x)] {
                let error = (f64::from(given) - expected).abs() / expected;
                assert!(error < 2.5e-7, "exp({x}) is off by {error:e}");
            }
        }
        assert!(exp_with::<Fused>(-1e30) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37);
    }

    #[test]
    fn logits_that_are_not_finite_weigh_nothing() {
        let mut logits = [f32::INFINITY, 2.0, f32::NAN, f32::NEG_INFINITY, 4.0];
        unscaled_softmax(&mut logits, 4.0, 2.0);
        assert!((logits[1] - (-1f32).exp()).abs() < 1e-6);
        let others = [logits[0], logits[2], logits[3], logits[4]];
        assert_eq!(others.map(f32::to_bits), [0.0f32, 0.0, 0.0, 1.0].map(f32::to_bits));
    }
}
