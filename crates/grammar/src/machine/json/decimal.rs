use std::cmp::Ordering;

use serde_json::Number;

/// An exact decimal number: its digits, without leading or trailing zeros.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Decimal {
    /// Never set for zero.
    pub(crate) negative: bool,
    /// Digits before the point, most significant first; empty for numbers below one.
    pub(crate) integer: Vec<u8>,
    /// Digits after the point.
    pub(crate) fraction: Vec<u8>,
}

/// From here on a double no longer tells neighbouring integers apart, so the digits that the schema's author wrote may
/// have been lost when it was read.
const EXACT_DOUBLES: f64 = 9_007_199_254_740_992.0;

impl Decimal {
    /// The number as it was written, or `None` if reading it into a double may have changed it.
    pub(crate) fn from_number(number: &Number) -> Option<Self> {
        if number.is_i64() || number.is_u64() {
            return Some(Self::parse(&number.to_string()));
        }
        let value = number.as_f64()?;
        // `Display` of a double is its shortest decimal that reads back the same, without an exponent.
        (value.abs() < EXACT_DOUBLES).then(|| Self::parse(&value.to_string()))
    }

    fn parse(text: &str) -> Self {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().map(|b| b - b'0').collect::<Vec<u8>>();
        let integer = digits(integer.trim_start_matches('0'));
        let fraction = digits(fraction.trim_end_matches('0'));
        Self { negative: negative && !(integer.is_empty() && fraction.is_empty()), integer, fraction }
    }

    pub(crate) const fn is_integer(&self) -> bool {
        self.fraction.is_empty()
    }

    pub(crate) const fn is_zero(&self) -> bool {
        self.integer.is_empty() && self.fraction.is_empty()
    }

    /// The digits read as one integer after shifting the point right by `places`, if that is an integer that fits.
    pub(crate) fn scaled(&self, places: usize) -> Option<u64> {
        let zeros = places.checked_sub(self.fraction.len())?;
        let digits = self.integer.iter().chain(&self.fraction).copied().chain(std::iter::repeat_n(0, zeros));
        let mut value = 0u64;
        for digit in digits {
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        }
        Some(value)
    }

    fn compare_magnitude(&self, other: &Self) -> Ordering {
        (self.integer.len().cmp(&other.integer.len()))
            .then_with(|| self.integer.cmp(&other.integer))
            .then_with(|| self.fraction.cmp(&other.fraction))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.compare_magnitude(other),
            (true, true) => other.compare_magnitude(self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::from_number(&text.parse().unwrap()).unwrap()
    }

    #[test]
    fn order_is_that_of_the_values() {
        let ascending =
            ["-100", "-99.5", "-1e-7", "0", "0.05", "0.5", "0.51", "1", "9.99", "10", "123456789012"];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(decimal(a).cmp(&decimal(b)), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(decimal("-0.0"), decimal("0"));
        assert_eq!(decimal("2.50"), decimal("2.5"));
    }

    #[test]
    fn numbers_that_a_double_cannot_hold_are_refused() {
        assert!(Decimal::from_number(&"1e300".parse().unwrap()).is_none());
        assert!(Decimal::from_number(&"18446744073709551615".parse().unwrap()).is_some());
    }
}
