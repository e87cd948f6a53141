//! Compares a number in scientific notation with the bounds of one rule.
//!
//! Scientific notation has one digit before the point, and an exponent. Programs write large and
//! small numbers in this notation. The first digit is 0 only if all digits are 0, so of two
//! numbers, the one with the larger exponent has the larger magnitude. If the exponents are equal,
//! the digits decide. An automaton cannot compare other notations. For `0.0001e4`, for example, the
//! automaton would have to count zeros.

use std::cmp::Ordering;

use super::walk::{End, PreparedRule};
use super::{Bound, NumberForm};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Phase {
    Start,
    Minus,
    First,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

/// The state of reading a number in scientific notation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Scientific {
    /// Index of the rule.
    pub(crate) rule: u32,
    phase: Phase,
    negative: bool,
    /// True if all digits so far are zeros.
    zero: bool,
    negative_exponent: bool,
    /// Number of significant digits so far. In the exponent, number of its digits without leading
    /// zeros.
    ///
    /// The number stops growing beyond the digits of both bounds.
    place: u16,
    /// Order of the magnitude and the lower bound of the magnitude.
    low: BoundOrder,
    /// Order of the magnitude and the upper bound of the magnitude.
    high: BoundOrder,
}

/// The order of the digits and exponent read so far, compared with those of a bound.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct BoundOrder {
    /// The order of the significant digits.
    digits: Ordering,
    /// The order of the exponents' digits, ignoring signs and lengths.
    exponent: Ordering,
}

impl BoundOrder {
    const EQUAL: Self = Self { digits: Ordering::Equal, exponent: Ordering::Equal };
}

/// The magnitude of a bound other than 0, in scientific notation.
pub(crate) struct Normal {
    exponent: i64,
    /// The significant digits.
    digits: Vec<u8>,
    /// The digits of the exponent, without its sign. Empty for the exponent 0.
    exponent_digits: Vec<u8>,
}

impl Normal {
    /// Returns the bound in scientific notation, or `None` if the bound is 0.
    pub(crate) fn of(bound: &Bound) -> Option<Self> {
        let value = &bound.value;
        if value.is_zero() {
            return None;
        }
        let zeros = value.fraction.iter().take_while(|&&digit| digit == 0).count() as i64;
        let exponent = if value.integer.is_empty() { -zeros - 1 } else { value.integer.len() as i64 - 1 };
        let digits = value.integer.iter().chain(&value.fraction);
        let mut digits: Vec<u8> = digits.copied().skip_while(|&digit| digit == 0).collect();
        digits.truncate(digits.iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1));
        let text = exponent.unsigned_abs().to_string();
        let exponent_digits = text.bytes().map(|byte| byte - b'0').skip_while(|&digit| digit == 0).collect();
        Some(Self { exponent, digits, exponent_digits })
    }
}

impl Scientific {
    pub(crate) const fn start(rule: u32) -> Self {
        Self {
            rule,
            phase: Phase::Start,
            negative: false,
            zero: false,
            negative_exponent: false,
            place: 0,
            low: BoundOrder::EQUAL,
            high: BoundOrder::EQUAL,
        }
    }

    /// Returns the state after `byte`, or `None` if no number of the rule continues with `byte`.
    pub(crate) fn step(&self, span: &PreparedRule, byte: u8) -> Option<Self> {
        use Phase::{Exponent, ExponentDigits, ExponentSign, First, Fraction, Minus, Point, Start};
        let is_integer = span.form() == NumberForm::Integer;
        let mut next = *self;
        next.phase = match (self.phase, byte) {
            (Start, b'-') => Minus,
            (Start | Minus, b'0'..=b'9') => First,
            (First, b'.') => Point,
            (Point | Fraction, b'0') => Fraction,
            (Point | Fraction, b'1'..=b'9') if !is_integer && !self.zero => Fraction,
            (First | Fraction, b'e') => Exponent,
            (Exponent, b'+') => ExponentSign,
            (Exponent, b'-') if !is_integer || self.zero => ExponentSign,
            (Exponent | ExponentSign | ExponentDigits, b'0'..=b'9') => ExponentDigits,
            _ => return None,
        };
        match next.phase {
            Minus => next.negative = true,
            First | Fraction => {
                next.zero = next.phase == First && byte == b'0' || self.zero;
                if !next.zero {
                    next.digit(span, byte - b'0')?;
                }
            }
            Exponent => next.end_digits(span),
            ExponentSign => next.negative_exponent = byte == b'-',
            ExponentDigits if !next.zero => next.exponent_digit(span, byte - b'0'),
            _ => {}
        }
        Some(next).filter(|next| !span.single || next.is_on(span))
    }

    /// Reports whether the text so far can become the value of a rule that has only one value.
    /// Drops the rules of listed numbers early.
    fn is_on(&self, span: &PreparedRule) -> bool {
        let Some(normal) = &span.magnitudes(self.negative).normals.0 else {
            return self.zero || self.phase == Phase::Minus;
        };
        let sign = !self.negative_exponent || normal.exponent <= 0;
        let digits = usize::from(self.place) <= normal.exponent_digits.len();
        let exponent = self.phase != Phase::ExponentDigits || digits && self.low.exponent.is_eq();
        !self.zero && self.low.digits.is_eq() && sign && exponent
    }

    /// Calls `compare` for the lower and the upper bound of the magnitude, with the order to
    /// update. Skips missing bounds and bounds of 0.
    fn compare(&mut self, span: &PreparedRule, compare: impl Fn(&Normal, &mut BoundOrder)) {
        let (low, high) = &span.magnitudes(self.negative).normals;
        for (order, normal) in [(&mut self.low, low), (&mut self.high, high)] {
            if let Some(normal) = normal {
                compare(normal, order);
            }
        }
    }

    /// Compares one more significant digit with the bounds.
    fn digit(&mut self, span: &PreparedRule, digit: u8) -> Option<()> {
        if !span.magnitudes(self.negative).possible {
            return None;
        }
        let place = usize::from(self.place);
        self.compare(span, |normal, order| {
            let against = normal.digits.get(place).copied().unwrap_or(0);
            order.digits = order.digits.then(digit.cmp(&against));
        });
        self.place = (self.place + 1).min(longest(span, self.negative, |normal| normal.digits.len()));
        Some(())
    }

    /// Ends the significant digits. A bound that has more significant digits is larger than the
    /// number if all digits so far are equal.
    fn end_digits(&mut self, span: &PreparedRule) {
        let place = usize::from(self.place);
        self.compare(span, |normal, order| {
            let rest = if normal.digits.len() > place { Ordering::Less } else { Ordering::Equal };
            order.digits = order.digits.then(rest);
        });
        self.place = 0;
    }

    /// Compares one more digit of the exponent with the bounds.
    fn exponent_digit(&mut self, span: &PreparedRule, digit: u8) {
        if self.place == 0 && digit == 0 {
            return; // a leading zero
        }
        let place = usize::from(self.place);
        self.compare(span, |normal, order| {
            let against = normal.exponent_digits.get(place).copied();
            let this = against.map_or(Ordering::Equal, |against| digit.cmp(&against));
            order.exponent = order.exponent.then(this);
        });
        let longest = longest(span, self.negative, |normal| normal.exponent_digits.len());
        self.place = (self.place + 1).min(longest + 1);
    }

    /// Returns the condition under which the number may end here, or `None` if it may not end.
    pub(crate) fn ends(&self, span: &PreparedRule) -> Option<End> {
        if self.phase != Phase::ExponentDigits {
            return None;
        }
        let magnitudes = span.magnitudes(self.negative);
        let (low, high) = &magnitudes.normals;
        let order = |order: BoundOrder, normal: &Option<Normal>| match normal {
            None if self.zero => Ordering::Equal,
            None => Ordering::Greater,
            Some(_) if self.zero => Ordering::Less,
            Some(normal) => self.exponent_order(order, normal).then(order.digits),
        };
        let above = magnitudes.low.as_ref().is_none_or(|bound| match order(self.low, low) {
            Ordering::Less => false,
            Ordering::Equal => bound.inclusive,
            Ordering::Greater => true,
        });
        let below = magnitudes.high.as_ref().is_none_or(|bound| match order(self.high, high) {
            Ordering::Less => true,
            Ordering::Equal => bound.inclusive,
            Ordering::Greater => false,
        });
        (magnitudes.possible && above && below).then_some(End::ALWAYS)
    }

    /// Returns the order of the number's exponent and the exponent of the bound `normal`. `order`
    /// has the order of their digits.
    fn exponent_order(&self, order: BoundOrder, normal: &Normal) -> Ordering {
        let length = usize::from(self.place).cmp(&normal.exponent_digits.len());
        let sizes = length.then(order.exponent);
        match self.negative_exponent {
            false if normal.exponent < 0 => Ordering::Greater,
            false => sizes,
            true if normal.exponent > 0 => Ordering::Less,
            true => sizes.reverse(),
        }
    }
}

/// Returns the larger of two lengths: `len` of the lower and of the upper bound for this sign.
fn longest(span: &PreparedRule, negative: bool, len: impl Fn(&Normal) -> usize) -> u16 {
    let (low, high) = &span.magnitudes(negative).normals;
    low.iter().chain(high).map(|normal| len(normal) as u16).max().unwrap_or(0)
}
