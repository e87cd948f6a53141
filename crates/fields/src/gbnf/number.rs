//! Expressions for exact ranges of numbers.
//!
//! A range is split by number of digits, and then at the first digit in which its bounds differ.
//! For example, the range from 1 to 120 contains all numbers of one or two digits. Its numbers of
//! three digits begin with `10` or `11`, or are equal to `120`.
//!
//! Trailing zeros of a fraction are optional, so a fraction may end wherever only zeros could
//! follow. Numbers have no leading zeros and no exponent, and zero has no sign.

use super::expr::Expr;
use crate::Characters;
use crate::decimal::Decimals;

/// Returns an expression for the integers from `low` to `high`.
pub(super) fn integers(low: i64, high: i64) -> Expr {
    signed(low, high, whole)
}

/// Returns an expression for the decimal numbers in a range, with at most `range.digits` digits
/// after the point.
pub(super) fn decimals(range: Decimals) -> Expr {
    signed(range.low, range.high, |low, high| magnitudes(low, high, range.digits))
}

/// Returns an expression for a signed range. `magnitudes` returns the alternatives for an unsigned
/// range.
fn signed(low: i64, high: i64, magnitudes: impl Fn(u64, u64) -> Vec<Expr>) -> Expr {
    let mut ways = Vec::new();
    if low < 0 {
        // Zero has no sign.
        let least = if high < 0 { high.unsigned_abs() } else { 1 };
        let below = Expr::alternatives(magnitudes(least, low.unsigned_abs()));
        ways.push(Expr::sequence([Expr::text("-"), below]));
    }
    if high >= 0 {
        ways.extend(magnitudes(low.max(0).unsigned_abs(), high.unsigned_abs()));
    }
    Expr::alternatives(ways)
}

fn digit(low: u64, high: u64) -> Expr {
    let digit = |value: u64| char::from(b'0' + value as u8);
    if low == high {
        Expr::text(digit(low))
    } else {
        Expr::Class(Characters::of(vec![(digit(low), digit(high))]))
    }
}

fn digits(min: usize, max: usize) -> Expr {
    digit(0, 9).repeat(min, Some(max))
}

/// Returns the number of decimal digits.
const fn length(number: u64) -> u32 {
    match number.checked_ilog10() {
        Some(log) => log + 1,
        None => 1,
    }
}

/// Returns alternatives for the unsigned integers from `low` to `high`, split by number of digits.
fn whole(low: u64, high: u64) -> Vec<Expr> {
    let mut ways = Vec::new();
    // Consecutive lengths whose numbers are all in the range. They share one alternative.
    let mut full: Option<(u32, u32)> = None;
    let flush = |full: &mut Option<(u32, u32)>, ways: &mut Vec<Expr>| {
        if let Some((from, to)) = full.take() {
            ways.push(Expr::sequence([digit(1, 9), digits(from as usize - 1, to as usize - 1)]));
        }
    };
    for length in length(low)..=length(high) {
        let least = if length == 1 { 0 } else { 10u64.pow(length - 1) };
        let most = 10u64.checked_pow(length).map_or(u64::MAX, |power| power - 1);
        let (from, to) = (low.max(least), high.min(most));
        // The complete range of one digit is 1 to 9. A range that starts at 0 needs a separate
        // alternative.
        if from == least.max(1) && to == most && most < u64::MAX {
            full = Some(full.map_or((length, length), |(from, _)| (from, length)));
        } else {
            flush(&mut full, &mut ways);
            ways.push(same_length(&from.to_string(), &to.to_string()));
        }
    }
    flush(&mut full, &mut ways);
    ways
}

/// Returns an expression for the digit strings from `low` to `high`. Both bounds have the same
/// length.
fn same_length(low: &str, high: &str) -> Expr {
    let common = low.bytes().zip(high.bytes()).take_while(|(low, high)| low == high).count();
    let (prefix, low) = low.split_at(common);
    let high = &high[common..];
    if low.is_empty() {
        return Expr::text(prefix);
    }
    let (first, last) = (u64::from(low.as_bytes()[0] - b'0'), u64::from(high.as_bytes()[0] - b'0'));
    let (low, high) = (&low[1..], &high[1..]);
    let rest = low.len();
    let is_low_full = low.bytes().all(|digit| digit == b'0');
    let is_high_full = high.bytes().all(|digit| digit == b'9');
    let mut ways = Vec::new();
    if !is_low_full {
        ways.push(Expr::sequence([digit(first, first), same_length(low, &"9".repeat(rest))]));
    }
    let (from, to) = (first + u64::from(!is_low_full), last - u64::from(!is_high_full));
    if from <= to {
        ways.push(Expr::sequence([digit(from, to), digits(rest, rest)]));
    }
    if !is_high_full {
        ways.push(Expr::sequence([digit(last, last), same_length(&"0".repeat(rest), high)]));
    }
    let ways = Expr::alternatives(ways);
    if prefix.is_empty() { ways } else { Expr::sequence([Expr::text(prefix), ways]) }
}

/// Returns alternatives for the unsigned decimals from `low` to `high` units, split by integer
/// part.
fn magnitudes(low: u64, high: u64, decimals: u32) -> Vec<Expr> {
    if decimals == 0 {
        return whole(low, high);
    }
    let one = 10u64.pow(decimals);
    let ((first, low), (last, high)) = ((low / one, low % one), (high / one, high % one));
    let with = |number: u64, low, high| {
        Expr::sequence([Expr::text(number.to_string()), fraction(low, high, decimals)])
    };
    if first == last {
        return vec![with(first, low, high)];
    }
    let (is_low_full, is_high_full) = (low == 0, high == one - 1);
    let mut ways = Vec::new();
    if !is_low_full {
        ways.push(with(first, low, one - 1));
    }
    let (from, to) = (first + u64::from(!is_low_full), last - u64::from(!is_high_full));
    if from <= to {
        ways.push(Expr::sequence([Expr::alternatives(whole(from, to)), fraction(0, one - 1, decimals)]));
    }
    if !is_high_full {
        ways.push(with(last, 0, high));
    }
    ways
}

/// Returns an expression for a point and the digits of `low` to `high` units. The whole fraction is
/// optional if `low` is 0.
fn fraction(low: u64, high: u64, decimals: u32) -> Expr {
    let fraction = Expr::sequence([Expr::text("."), fraction_digits(low, high, decimals)]);
    if low == 0 { fraction.optional() } else { fraction }
}

/// Returns an expression for 1 to `count` fraction digits that stand for `low` to `high` units of
/// the last digit. Omitted digits are zeros.
fn fraction_digits(low: u64, high: u64, count: u32) -> Expr {
    let unit = 10u64.pow(count - 1);
    if low == 0 && high == 10 * unit - 1 {
        return digits(1, count as usize);
    }
    let ((first, low), (last, high)) = ((low / unit, low % unit), (high / unit, high % unit));
    let with = |from, to, low, high| Expr::sequence([digit(from, to), more_digits(low, high, count - 1)]);
    if first == last {
        return with(first, first, low, high);
    }
    let (is_low_full, is_high_full) = (low == 0, high == unit - 1);
    let mut ways = Vec::new();
    if !is_low_full {
        ways.push(with(first, first, low, unit - 1));
    }
    let (from, to) = (first + u64::from(!is_low_full), last - u64::from(!is_high_full));
    if from <= to {
        ways.push(with(from, to, 0, unit - 1));
    }
    if !is_high_full {
        ways.push(with(last, last, 0, high));
    }
    Expr::alternatives(ways)
}

/// Returns an expression for at most `count` further digits. The digits are optional if `low` is 0.
fn more_digits(low: u64, high: u64, count: u32) -> Expr {
    if count == 0 {
        Expr::Sequence(Vec::new())
    } else if low == 0 && high == 10u64.pow(count) - 1 {
        digits(0, count as usize)
    } else if low == 0 {
        fraction_digits(low, high, count).optional()
    } else {
        fraction_digits(low, high, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(low: i64, high: i64) -> String {
        integers(low, high).to_string()
    }

    fn floats(low: i64, high: i64, decimals: u32) -> String {
        super::decimals(Decimals { low, high, digits: decimals }).to_string()
    }

    #[test]
    fn writes_ranges_as_short_rules() {
        assert_eq!(ints(0, 120), r#"[0-9] | [1-9] [0-9] | "1" ([0-1] [0-9] | "20")"#);
        assert_eq!(ints(1, 10), r#"[1-9] | "10""#);
        assert_eq!(ints(1, 100), r#"[1-9] [0-9]? | "100""#);
        assert_eq!(ints(5, 5), r#""5""#);
        assert_eq!(ints(0, 0), r#""0""#);
        let expected =
            r#""-" ([1-9] | "1" [0-7]) | [0-9] | [1-9] [0-9] | "1" [0-9]{2} | "2" ([0-4] [0-9] | "50")"#;
        assert_eq!(ints(-17, 250), expected);
        let expected = r#""0." [5-9] [0-9]? | "1" ("." ([0-4] [0-9]? | "5" "0"?))?"#;
        assert_eq!(floats(50, 150, 2), expected);
        assert_eq!(floats(0, 10, 1), r#""0" ("." [0-9])? | "1" ".0"?"#);
        assert_eq!(floats(-5, 5, 1), r#""-0." [1-5] | "0" ("." [0-5])?"#);
        assert_eq!(floats(0, 0, 2), r#""0" (".0" "0"?)?"#);
    }

    #[test]
    fn writes_the_whole_range_of_64_bits() {
        let all = ints(i64::MIN, i64::MAX);
        assert!(all.starts_with("\"-\" ([1-9] [0-9]{0,17} | "), "{all}");
    }
}
