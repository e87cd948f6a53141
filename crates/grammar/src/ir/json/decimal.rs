use std::cmp::Ordering;

use serde_json::Number;

/// An exact decimal number. Each digit is a value from 0 to 9. There are no leading zeros before
/// the point and no trailing zeros after it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Decimal {
    /// Always false for zero.
    pub(crate) negative: bool,
    /// Digits before the point, most significant first. Empty for numbers below 1.
    pub(crate) integer: Vec<u8>,
    /// Digits after the point, from left to right.
    pub(crate) fraction: Vec<u8>,
}

/// Maximum number of digits of a number, zeros included. A double has fewer than 800.
const DIGITS: usize = 4096;

impl Decimal {
    /// Creates the number that JSON tools print for `number`.
    ///
    /// Integers of 64 bits are exact. A double is the shortest decimal that reads back as the same
    /// double. Returns `None` for more than [`DIGITS`] digits, which no double has.
    pub(crate) fn from_number(number: &Number) -> Option<Self> {
        Self::parse(&number.to_string())
    }

    /// Parses a number in JSON notation. Returns `None` for more than [`DIGITS`] digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mut all: Vec<u8> = integer.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
        if all.iter().all(|&digit| digit == 0) {
            return Some(Self { negative: false, integer: Vec::new(), fraction: Vec::new() });
        }
        // The number of digits before the point. Negative if there are zeros right after the point.
        // Larger than the number of digits if there are zeros right before the point.
        let point = integer.len() as i64 + exponent.parse::<i64>().ok()?;
        if all.len() > DIGITS || point.unsigned_abs() > DIGITS as u64 {
            return None;
        }
        let before = usize::try_from(-point).unwrap_or(0);
        all.splice(0..0, std::iter::repeat_n(0, before));
        let point = usize::try_from(point).unwrap_or(0);
        all.resize(all.len().max(point), 0);
        let mut fraction = all.split_off(point);
        fraction.truncate(fraction.iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1));
        let zeros = all.iter().take_while(|&&digit| digit == 0).count();
        Some(Self { negative, integer: all.split_off(zeros), fraction })
    }

    pub(crate) const fn is_integer(&self) -> bool {
        self.fraction.is_empty()
    }

    pub(crate) const fn is_zero(&self) -> bool {
        self.integer.is_empty() && self.fraction.is_empty()
    }

    /// Returns the absolute value multiplied by `10^places`. Returns `None` if the result is no
    /// integer, or does not fit into 64 bits.
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
    fn orders_numbers_by_value() {
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
    fn numbers_of_any_size_are_their_shortest_decimal() {
        let digits = |text: &str| text.bytes().map(|b| b - b'0').collect::<Vec<u8>>();
        let integers = [
            ("9223372036854775807", "9223372036854775807".to_owned()),
            ("9223372036854775807.0", "9223372036854776000".to_owned()),
            ("9223372036854776000", "9223372036854776000".to_owned()),
            ("-9223372036854776000", "9223372036854776000".to_owned()),
            ("18446744073709551615", "18446744073709551615".to_owned()),
            ("1e300", format!("1{}", "0".repeat(300))),
            ("1.7976931348623157e308", format!("17976931348623157{}", "0".repeat(292))),
        ];
        for (text, expected) in integers {
            let given = decimal(text);
            assert_eq!((given.integer, given.fraction), (digits(&expected), vec![]), "{text}");
            assert_eq!(given.negative, text.starts_with('-'));
        }
        let small = decimal("1.5e-7");
        assert_eq!((small.integer, small.fraction), (vec![], digits("00000015")));
    }

    #[test]
    fn rejects_numbers_with_too_many_digits() {
        assert!(
            Decimal::parse("-1e400").is_some_and(|number| number.negative && number.integer.len() == 401)
        );
        assert_eq!(Decimal::parse("1e999999999999"), None);
        assert_eq!(Decimal::parse("1e99999999999999999999"), None);
        assert_eq!(Decimal::parse("0e999999999999"), Some(decimal("0")));
    }
}
