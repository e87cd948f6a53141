/// Computes `eˣ` to within two units in the last place. The code has no branches, so that loops
/// over it vectorise.
///
/// Let n be the integer nearest to x / ln 2. Then eˣ = 2ⁿ · eʳ with |r| ≤ ln 2 / 2. In this range
/// the error of the Taylor series up to r⁷ is less than 2⁻²⁷. Arguments are clamped so that 2ⁿ is a
/// normal number.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // ln 2 as a sum of two parts. The first part has so few significant bits that its product with
    // n is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Consecutive floats at this magnitude differ by 1. Adding the constant rounds to an integer,
    // which the low bits then hold. An `as` cast would saturate, and that does not vectorise.
    const MIDDLE: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let moved = fma(x, std::f32::consts::LOG2_E, MIDDLE);
    let n = moved - MIDDLE;
    let r = fma(n, -LN_2_LOW, fma(n, -LN_2_HIGH, x));
    // Written out: a loop around another loop vectorises only if the compiler unrolls the inner one,
    // which it does not do if it optimises for size.
    let mut series = fma(1.0 / 5040.0, r, 1.0 / 720.0);
    series = fma(series, r, 1.0 / 120.0);
    series = fma(series, r, 1.0 / 24.0);
    series = fma(series, r, 1.0 / 6.0);
    series = fma(series, r, 0.5);
    series = fma(series, r, 1.0);
    series = fma(series, r, 1.0);
    f32::from_bits(moved.to_bits().wrapping_add(127) << 23) * series
}

/// Computes `a * b + c`, with a fused multiply-add if the target has one.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as for `exp`")]
fn fma(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) { a.mul_add(b, c) } else { a * b + c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_over_its_whole_range() {
        for step in -87_000..88_000 {
            let x = step as f32 / 1000.0;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs() / expected;
            assert!(error < 2.5e-7, "exp({x}) is off by {error:e}");
        }
        assert!(exp(-1e30) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37);
    }
}
