//! Bounds of decimal numbers, as integer multiples of the last decimal place. With two decimals, for
//! example, the bound 1.25 is 125 units.

use crate::error::Problem;
use crate::field::Float;

/// Maximum number of digits after the decimal point.
pub(crate) const DECIMALS: u32 = 15;

/// Largest magnitude up to which every integer has its own 64-bit float: 2^53 - 1.
pub(crate) const WHOLE: i64 = (1 << 53) - 1;

/// Largest allowed magnitude of a number with at least one decimal, in units of its last decimal
/// place.
///
/// 64-bit floats distinguish all decimals of 15 digits, and this limit is 1 followed by 15 zeros.
/// Some decimals of 16 digits share a float, such as `80000000000000.01` and `80000000000000.02`.
const UNITS: i64 = 1_000_000_000_000_000;

/// Minimum number of decimals of a field that does not set the number of decimals.
const USUAL: u32 = 2;

/// Range of decimal numbers. `low` and `high` are inclusive, in units of `10^-digits`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Decimals {
    pub(crate) low: i64,
    pub(crate) high: i64,
    /// Maximum number of digits after the decimal point.
    pub(crate) digits: u32,
}

impl Decimals {
    /// Returns the range of numbers that a field allows.
    ///
    /// # Errors
    /// Returns an error if the range is empty, if a bound is not finite, or if floats cannot
    /// represent all numbers of the range distinctly.
    pub(crate) fn of(float: &Float) -> Result<Self, Problem> {
        for (key, bound) in [("min", float.min), ("max", float.max)] {
            if let Some(given) = bound.filter(|bound| !bound.is_finite()) {
                return Err(Problem::NotFinite { key, given });
            }
        }
        let bounds = [float.min, float.max].into_iter().flatten();
        let usual = || bounds.map(fraction_digits).max().unwrap_or(0).clamp(USUAL, DECIMALS);
        let decimals = float.decimals.unwrap_or_else(usual);
        if decimals > DECIMALS {
            return Err(Problem::Decimals { given: decimals.into(), limit: DECIMALS });
        }
        let limit = limit(decimals);
        let low = float.min.map_or(Ok(-limit), |min| units(min, decimals, Rounding::Up))?;
        let high = float.max.map_or(Ok(limit), |max| units(max, decimals, Rounding::Down))?;
        let shown =
            |bound: Option<f64>, units| bound.map_or_else(|| plain(units, decimals), |b| b.to_string());
        let (min, max) = (shown(float.min, -limit), shown(float.max, limit));
        if let (Some(least), Some(most)) = (float.min, float.max)
            && least > most
        {
            return Err(Problem::Bounds { min, max });
        }
        if low > high {
            return Err(Problem::NoNumber { decimals, min, max });
        }
        Ok(Self { low, high, digits: decimals })
    }
}

/// Returns the largest allowed magnitude of a number, in units of `10^-decimals`. Up to this
/// magnitude, every decimal has its own float.
const fn limit(decimals: u32) -> i64 {
    if decimals == 0 { WHOLE } else { UNITS }
}

#[derive(Clone, Copy)]
enum Rounding {
    Up,
    Down,
}

/// Returns the number of fraction digits in the shortest decimal that parses to `value`.
pub(crate) fn fraction_digits(value: f64) -> u32 {
    value.to_string().split_once('.').map_or(0, |(_, fraction)| fraction.len() as u32)
}

/// Converts a bound to units of `10^-decimals`. A bound between two units is rounded up or down.
/// The conversion works on the digits of the shortest decimal that parses to `bound`, so it has no
/// floating-point errors.
fn units(bound: f64, decimals: u32, rounding: Rounding) -> Result<i64, Problem> {
    let too_large = || {
        let limit = plain(limit(decimals), decimals);
        Problem::Digits { bound: format!("{bound:?}"), decimals, limit }
    };
    let text = bound.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (kept, rest) = fraction.split_at(fraction.len().min(decimals as usize));
    let digits = format!("{whole}{kept:0<width$}", width = decimals as usize);
    let magnitude = digits.parse::<i64>().map_err(|_| too_large())?;
    // Rounding up a positive bound, or down a negative bound, increases its magnitude.
    let is_exact = rest.bytes().all(|digit| digit == b'0');
    let (up, down) = (matches!(rounding, Rounding::Up), matches!(rounding, Rounding::Down));
    let is_negative = bound.is_sign_negative();
    let away = !is_exact && ((up && !is_negative) || (down && is_negative));
    let magnitude = magnitude.saturating_add(i64::from(away));
    if magnitude > limit(decimals) {
        return Err(too_large());
    }
    Ok(if is_negative { -magnitude } else { magnitude })
}

/// Formats a number of units of `10^-decimals` in decimal notation. For example, 1250 units with 2
/// decimals are `12.50`.
pub(crate) fn plain(units: i64, decimals: u32) -> String {
    let digits = format!("{:0>width$}", units.unsigned_abs(), width = decimals as usize + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals as usize);
    let sign = if units < 0 { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(min: f64, max: f64, decimals: Option<u32>) -> Result<(i64, i64, u32), String> {
        let float = Float { min: Some(min), max: Some(max), decimals };
        let decimals = Decimals::of(&float).map_err(|problem| problem.to_string())?;
        Ok((decimals.low, decimals.high, decimals.digits))
    }

    #[test]
    fn rounds_bounds_inwards() {
        assert_eq!(of(0.5, 1.5, Some(2)), Ok((50, 150, 2)));
        assert_eq!(of(0.1, 0.3, Some(1)), Ok((1, 3, 1)));
        assert_eq!(of(0.05, 0.39, Some(1)), Ok((1, 3, 1)));
        assert_eq!(of(-0.39, -0.05, Some(1)), Ok((-3, -1, 1)));
        assert_eq!(of(-0.39, 0.39, Some(0)), Ok((0, 0, 0)));
        assert_eq!(of(-1.5, 1e15, Some(0)), Ok((-1, 1_000_000_000_000_000, 0)));
        assert_eq!(of(0.0, 1.0, None), Ok((0, 100, 2)));
        assert_eq!(of(0.0, 0.0005, None), Ok((0, 5, 4)));
        assert_eq!(of(-0.0, 0.0, Some(15)), Ok((0, 0, 15)));
        assert_eq!(of(0.0, 1.0, Some(15)), Ok((0, UNITS, 15)));
        let open = Float { min: None, max: None, decimals: Some(2) };
        let open = Decimals::of(&open).map(|open| (open.low, open.high));
        assert_eq!(open, Ok((-UNITS, UNITS)));
    }

    #[test]
    fn rejects_ranges_without_numbers() {
        assert_eq!(of(1.0, 0.5, None), Err("min (1) is greater than max (0.5)".to_owned()));
        assert!(
            of(0.4, 0.6, Some(0)).unwrap_err().contains("with at most 0 decimals lies between 0.4 and 0.6")
        );
        assert!(of(0.0, 1e15, Some(2)).unwrap_err().contains("up to 10000000000000.00"));
        assert!(of(0.0, 80_000_000_000_000.01, None).unwrap_err().contains("too many digits"));
        assert!(of(0.0, 10_000_000_000_000.01, None).unwrap_err().contains("too many digits"));
        assert!(of(0.0, 1e300, Some(0)).unwrap_err().contains("too many digits"));
        assert!(of(0.0, 1.0, Some(16)).unwrap_err().contains("the maximum is 15"));
        assert!(of(f64::NAN, 1.0, None).unwrap_err().starts_with("min is NaN"));
        assert!(of(0.0, f64::INFINITY, None).unwrap_err().starts_with("max is inf"));
    }
}
