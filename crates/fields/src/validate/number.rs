//! Numbers by their values.

use std::fmt;

use crate::field::Float;

/// A JSON number as it is read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    /// Whether both are the same number.
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

/// The number as an integer, if it is one: `5.0` is.
pub(super) fn whole(number: Number) -> Option<i128> {
    match number {
        Number::Integer(number) => Some(number),
        // No more than all of these fit.
        Number::Float(number) => (number.fract() == 0.0 && number.abs() < 1e38).then_some(number as i128),
    }
}

/// Whether a number is one of a field's.
pub(super) fn is_within(number: Number, float: &Float) -> bool {
    let value = number.as_float();
    let (min, max, allowed) = range(float);
    min <= value && value <= max && decimals(value) <= allowed
}

/// The bounds of a field's numbers, and how many decimals these have.
pub(super) fn range(float: &Float) -> (f64, f64, u32) {
    let allowed = float.decimals.unwrap_or_else(|| {
        let bounds = [float.min, float.max].into_iter().flatten();
        bounds.map(decimals).max().unwrap_or(0).clamp(2, 15)
    });
    // Without a bound: as far as floats tell all of them apart. The quotient is a power of ten, so it is exact.
    let limit = if allowed == 0 { 9_007_199_254_740_991.0 } else { 1e15 / 10f64.powi(allowed as i32) };
    (float.min.unwrap_or(-limit), float.max.unwrap_or(limit), allowed)
}

/// The digits after the point that a float needs.
fn decimals(value: f64) -> u32 {
    value.to_string().split_once('.').map_or(0, |(_, digits)| digits.len() as u32)
}
