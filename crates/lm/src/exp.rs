/// `eˣ` to within two units in the last place, without a branch, so that loops over it become vector code.
///
/// With n the integer nearest to x / ln 2, eˣ = 2ⁿ · eʳ and |r| ≤ ln 2 / 2, where the Taylor series to the seventh power
/// is off by less than 2⁻²⁷. Arguments are clamped to where 2ⁿ is a normal number.
#[inline]
pub fn exp(x: f32) -> f32 {
    // ln 2 in two parts: the first has few enough bits that n times it is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Beyond this the steps of floats are 1, and the last bits are the integer; `as` would saturate, one lane at a time.
    const MIDDLE: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let moved = fma(x, std::f32::consts::LOG2_E, MIDDLE);
    let n = moved - MIDDLE;
    let r = fma(n, -LN_2_LOW, fma(n, -LN_2_HIGH, x));
    let mut series = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = fma(series, r, coefficient);
    }
    f32::from_bits(moved.to_bits().wrapping_add(127) << 23) * series
}

/// `a * b + c`, fused where the target does that in one instruction.
#[inline]
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
