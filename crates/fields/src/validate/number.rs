//! Comparison of numbers by value.

use std::fmt;

use crate::field::Float;

/// JSON number as parsed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    /// Reports whether both numbers have the same value. For example, `5.0` equals 5.
    pub(super) fn equals(self, other: Self) -> bool {
        match (whole(self), whole(other)) {
            (Some(one), Some(other)) => one == other,
            (None, None) => self.as_float().total_cmp(&other.as_float()).is_eq(),
            _ => false,
        }
    }

    const fn as_float(self) -> f64 {
        match self {
            Self::Integer(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => write!(f, "{number:?}"),
        }
    }
}

/// Converts a whole number such as `5.0` to an integer. Returns `None` if the number is not whole,
/// or if it is too large.
pub(super) fn whole(number: Number) -> Option<i128> {
    match number {
        Number::Integer(number) => Some(number),
        // All whole floats below 1e38 fit into an `i128`.
        Number::Float(number) => (number.fract() == 0.0 && number.abs() < 1e38).then_some(number as i128),
    }
}

/// Reports whether the field `float` allows a number.
pub(super) fn is_within(number: Number, float: &Float) -> bool {
    let value = number.as_float();
    let (min, max, allowed) = range(float);
    min <= value && value <= max && decimals(value) <= allowed
}

/// Returns the smallest value, the largest value and the maximum number of decimals that a field
/// allows.
pub(super) fn range(float: &Float) -> (f64, f64, u32) {
    let allowed = float.decimals.unwrap_or_else(|| {
        let bounds = [float.min, float.max].into_iter().flatten();
        bounds.map(decimals).max().unwrap_or(0).clamp(2, 15)
    });
    // A missing bound defaults to the range in which floats distinguish all values. The quotient is
    // exact, because it is a power of ten.
    let limit = if allowed == 0 { 9_007_199_254_740_991.0 } else { 1e15 / 10f64.powi(allowed as i32) };
    (float.min.unwrap_or(-limit), float.max.unwrap_or(limit), allowed)
}

/// Returns the number of fraction digits in the shortest decimal that parses to `value`.
fn decimals(value: f64) -> u32 {
    value.to_string().split_once('.').map_or(0, |(_, digits)| digits.len() as u32)
}
