//! The normal form of a union of number rules, by arithmetic.
//!
//! A rule is an interval and a set of residue classes. Each bound moves to the nearest number that
//! the rule's divisors allow. Rules without numbers are dropped, and rules with few numbers become
//! a list of numbers. Adjacent intervals are joined. Only the remaining rules become an automaton,
//! so the automaton's size depends on the numbers and not on the form of the rules.
//!
//! All arithmetic is on decimal digits, so bounds of any size are exact.

use std::cmp::Ordering;

use super::residues::least_common_multiple;
use super::{Bound, Multiple, NumberForm, NumberRule};
use crate::ir::json::decimal::Decimal;

/// Maximum length of a list of numbers that replaces a rule.
const LISTED: u128 = 1 << 12;

/// A rule becomes a list of several numbers only if its divisor is at least this many times the
/// length of the list.
const SPARSE: u128 = 8;

/// Returns rules in normal form that together accept the same numbers as `rules`. Rules without
/// numbers are dropped.
pub(crate) fn normalize(rules: Vec<NumberRule>) -> Vec<NumberRule> {
    if rules.contains(&NumberRule::ANY) {
        return vec![NumberRule::ANY];
    }
    let mut normal = Vec::with_capacity(rules.len());
    for rule in rules {
        if let Some(rule) = rule.tightened() {
            match rule.values() {
                Some(values) => normal.extend(values),
                None => normal.push(rule),
            }
        }
    }
    join(normal)
}

/// Joins rules that differ only in their intervals, if the intervals are adjacent or overlap.
fn join(mut rules: Vec<NumberRule>) -> Vec<NumberRule> {
    let mut joined: Vec<NumberRule> = Vec::with_capacity(rules.len());
    rules.sort_by(|a, b| a.class().cmp(&b.class()).then_with(|| compare_low(a, b)));
    for rule in rules {
        match joined.last_mut() {
            Some(last) if last.class() == rule.class() && last.touches(&rule) => last.extend_to(rule.high),
            _ => joined.push(rule),
        }
    }
    joined
}

/// Compares the lower bounds of two rules. A missing bound is the least.
fn compare_low(a: &NumberRule, b: &NumberRule) -> Ordering {
    match (&a.low, &b.low) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(a), Some(b)) => a.value.cmp(&b.value).then(b.inclusive.cmp(&a.inclusive)),
    }
}

impl NumberRule {
    /// Returns all properties of the rule except its bounds.
    fn class(&self) -> (bool, NumberForm, Option<NumberForm>, Option<Multiple>, &[Multiple]) {
        (self.literal, self.form, self.other_than, self.multiple_of, &self.indivisible)
    }

    /// Reports whether the intervals of this rule and of `next` overlap or have no number of their
    /// class between them. Both rules have the same class, and the lower bound of `next` is not
    /// less than that of this rule.
    fn touches(&self, next: &Self) -> bool {
        let (Some(high), Some(low)) = (&self.high, &next.low) else { return true };
        match high.value.cmp(&low.value) {
            Ordering::Greater => true,
            Ordering::Equal => high.inclusive || low.inclusive,
            // A listed number stays a rule of its own, so that it keeps its spelling.
            Ordering::Less => {
                let step = self.step().filter(|_| !self.literal);
                step.is_some_and(|step| above(high, step).is_some_and(|bound| bound.value == low.value))
            }
        }
    }

    /// Raises the upper bound to `high` if `high` is greater.
    fn extend_to(&mut self, high: Option<Bound>) {
        let further = match (&self.high, &high) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(own), Some(other)) => {
                own.value.cmp(&other.value).then(own.inclusive.cmp(&other.inclusive)).is_lt()
            }
        };
        if further {
            self.high = high;
        }
    }

    /// Returns the distance between adjacent numbers that the form and the divisor allow. Returns
    /// `None` if there is no such distance, because every decimal is allowed.
    fn step(&self) -> Option<Multiple> {
        let integers = Multiple { units: 1, places: 0 };
        match (self.form, self.multiple_of) {
            (NumberForm::Any, step) => step,
            (_, None) => Some(integers),
            (_, Some(multiple)) => Some(multiple.common(integers).unwrap_or(integers)),
        }
    }

    /// Returns the rule with the narrowest bounds that accepts the same numbers. Returns `None` if
    /// the rule accepts no numbers.
    fn tightened(mut self) -> Option<Self> {
        let step = self.step();
        let integral = self.form != NumberForm::Any || step.is_some_and(|step| step.places == 0);
        let excluded = match self.other_than {
            None => false,
            Some(NumberForm::Any) => true,
            Some(NumberForm::Integer) => integral,
            Some(NumberForm::Digits) => self.form == NumberForm::Digits,
        };
        let divisible = |by: &Multiple| self.multiple_of.is_some_and(|multiple| multiple.is_multiple_of(*by));
        if excluded || self.indivisible.iter().any(divisible) {
            return None;
        }
        if integral && self.form == NumberForm::Any {
            self.form = NumberForm::Integer;
        }
        if let Some(step) = step {
            // A bound that cannot be moved keeps its place, which is exact too.
            self.low = self.low.map(|bound| at_least(&bound, step).unwrap_or(bound));
            self.high = self.high.map(|bound| at_most(&bound, step).unwrap_or(bound));
        }
        let (Some(low), Some(high)) = (&self.low, &self.high) else { return Some(self) };
        match low.value.cmp(&high.value) {
            Ordering::Less => Some(self),
            Ordering::Equal => (low.inclusive && high.inclusive).then_some(self)?.single(),
            Ordering::Greater => None,
        }
    }

    /// Checks the divisors of a rule with one value, and returns the rule without them. Returns
    /// `None` if the value does not satisfy the divisors.
    fn single(self) -> Option<Self> {
        let value = &self.low.as_ref()?.value;
        if self.multiple_of.is_some_and(|multiple| !multiple.divides(value))
            || self.indivisible.iter().any(|multiple| multiple.divides(value))
            || (self.other_than == Some(NumberForm::Integer) && value.is_integer())
        {
            return None;
        }
        Some(Self { multiple_of: None, indivisible: Vec::new(), ..self })
    }

    /// Returns one rule for each number that this rule accepts. Returns `None` if the numbers are
    /// infinitely many, or too many compared with the divisors.
    fn values(&self) -> Option<Vec<Self>> {
        let step = self.step().filter(|_| !self.literal)?;
        let divisor =
            self.multiple_of.iter().chain(&self.indivisible).map(|multiple| multiple.units).max()?;
        let places = self.indivisible.iter().map(|multiple| multiple.places).fold(step.places, u16::max);
        let step = i128::from(step.scaled(places)?);
        let (low, high) = (self.low.as_ref()?, self.high.as_ref()?);
        let (low, high) = (low.value.units(places)?, high.value.units(places)?);
        let count = ((high - low) / step) as u128 + 1;
        if count > LISTED || (count > 1 && count.saturating_mul(SPARSE) > u128::from(divisor)) {
            return None;
        }
        let indivisible = self.indivisible.iter().map(|multiple| Some(i128::from(multiple.scaled(places)?)));
        let indivisible: Vec<i128> = indivisible.collect::<Option<_>>()?;
        let one = i128::from(10_u64.checked_pow(u32::from(places))?);
        let mut values = Vec::with_capacity(count as usize);
        for at in 0..count as i128 {
            let value = low + at * step;
            let integral = value % one == 0;
            if indivisible.iter().all(|divisor| value % divisor != 0)
                && !(integral && self.other_than == Some(NumberForm::Integer))
            {
                let bound = Some(Bound { value: Decimal::of_units(value, places), inclusive: true });
                let rule = Self { low: bound.clone(), high: bound, literal: true, ..self.clone() };
                values.push(Self { multiple_of: None, indivisible: Vec::new(), ..rule });
            }
        }
        Some(values)
    }
}

impl Multiple {
    /// Returns the least common multiple of two divisors, or `None` on overflow.
    pub(crate) fn common(self, other: Self) -> Option<Self> {
        let mut places = self.places.max(other.places);
        let mut units = least_common_multiple(self.scaled(places)?, other.scaled(places)?)?;
        while places > 0 && units.is_multiple_of(10) {
            (units, places) = (units / 10, places - 1);
        }
        Some(Self { units, places })
    }

    /// Returns the divisor in units of `1 / 10^places`, or `None` on overflow.
    pub(crate) fn scaled(self, places: u16) -> Option<u64> {
        self.units.checked_mul(10_u64.checked_pow(u32::from(places.checked_sub(self.places)?))?)
    }

    /// Reports whether `value` is a multiple of the divisor.
    fn divides(self, value: &Decimal) -> bool {
        let places = usize::from(self.places);
        let fraction = value.fraction.iter().copied().chain(std::iter::repeat(0)).take(places);
        let digits: Vec<u8> = value.integer.iter().copied().chain(fraction).collect();
        value.fraction.len() <= places && remainder(&digits, self.units) == 0
    }

    /// Reports whether this divisor is a multiple of `other`.
    fn is_multiple_of(self, other: Self) -> bool {
        let places = self.places.max(other.places);
        let scaled = self.scaled(places).zip(other.scaled(places));
        scaled.is_some_and(|(units, divisor)| units.is_multiple_of(divisor))
    }
}

/// Returns a lower bound at the least multiple of `step` that satisfies the lower bound `bound`.
fn at_least(bound: &Bound, step: Multiple) -> Option<Bound> {
    next_multiple(bound, step, bound.value.negative)
}

/// Returns an upper bound at the greatest multiple of `step` that satisfies the upper bound
/// `bound`.
fn at_most(bound: &Bound, step: Multiple) -> Option<Bound> {
    next_multiple(bound, step, !bound.value.negative || bound.value.is_zero())
}

/// Returns a bound at the least multiple of `step` above the value of `bound`.
fn above(bound: &Bound, step: Multiple) -> Option<Bound> {
    at_least(&Bound { value: bound.value.clone(), inclusive: false }, step)
}

/// Returns a bound at the nearest multiple of `step` that satisfies `bound`. The search goes from
/// the value of `bound` towards zero or away from zero.
fn next_multiple(bound: &Bound, step: Multiple, towards_zero: bool) -> Option<Bound> {
    let value = &bound.value;
    let places = usize::from(step.places);
    let mut digits = value.integer.clone();
    digits.extend((0..places).map(|at| value.fraction.get(at).copied().unwrap_or(0)));
    let rest = remainder(&digits, step.units);
    let is_multiple = rest == 0 && value.fraction.len() <= places;
    let mut negative = value.negative;
    if is_multiple && !bound.inclusive {
        if towards_zero && digits.iter().all(|&digit| digit == 0) {
            // The multiple lies beyond zero, with the other sign.
            negative = true;
            digits = add(digits, step.units);
        } else if towards_zero {
            digits = subtract(digits, step.units);
        } else {
            digits = add(digits, step.units);
        }
    } else if !is_multiple {
        digits = subtract(digits, rest);
        if !towards_zero {
            digits = add(digits, step.units);
        }
    }
    let point = digits.len().checked_sub(places)?;
    let fraction = digits.split_off(point);
    Some(Bound { value: Decimal::of_digits(negative, &digits, &fraction), inclusive: true })
}

/// Returns the remainder of a number, given by its decimal digits, modulo `divisor`.
fn remainder(digits: &[u8], divisor: u64) -> u64 {
    let divisor = u128::from(divisor);
    digits.iter().fold(0, |rest: u128, &digit| (rest * 10 + u128::from(digit)) % divisor) as u64
}

/// Adds `other` to a number given by its decimal digits.
fn add(mut digits: Vec<u8>, other: u64) -> Vec<u8> {
    let mut carry = other;
    for digit in digits.iter_mut().rev() {
        // The sum may exceed 64 bits, because the carry starts as `other`.
        let sum = u128::from(carry) + u128::from(*digit);
        (*digit, carry) = ((sum % 10) as u8, (sum / 10) as u64);
    }
    let mut front = Vec::new();
    while carry > 0 {
        front.push((carry % 10) as u8);
        carry /= 10;
    }
    front.reverse();
    front.extend(digits);
    front
}

/// Subtracts `other` from a number given by its decimal digits. `other` must not be larger than the
/// number.
fn subtract(mut digits: Vec<u8>, other: u64) -> Vec<u8> {
    let mut rest = other;
    let mut borrow = 0;
    for digit in digits.iter_mut().rev() {
        let taken = (rest % 10) as u8 + borrow;
        rest /= 10;
        borrow = u8::from(*digit < taken);
        *digit = *digit + 10 * borrow - taken;
    }
    digits
}

impl Decimal {
    /// Returns the number in units of `1 / 10^places`. Returns `None` if the result is no integer,
    /// or has more than 36 digits.
    fn units(&self, places: u16) -> Option<i128> {
        let zeros = usize::from(places).checked_sub(self.fraction.len())?;
        if self.integer.len() + usize::from(places) > 36 {
            return None;
        }
        let digits = self.integer.iter().chain(&self.fraction).copied().chain(std::iter::repeat_n(0, zeros));
        let units = digits.fold(0, |units: i128, digit| units * 10 + i128::from(digit));
        Some(if self.negative { -units } else { units })
    }

    /// Creates the number `units / 10^places`.
    fn of_units(units: i128, places: u16) -> Self {
        let text = format!("{:0width$}", units.unsigned_abs(), width = usize::from(places) + 1);
        let digits: Vec<u8> = text.bytes().map(|byte| byte - b'0').collect();
        let (integer, fraction) = digits.split_at(digits.len() - usize::from(places));
        Self::of_digits(units < 0, integer, fraction)
    }

    /// Creates a number from digits that may have zeros at either end.
    fn of_digits(negative: bool, integer: &[u8], fraction: &[u8]) -> Self {
        let start = integer.iter().position(|&digit| digit != 0).unwrap_or(integer.len());
        let end = fraction.iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1);
        let (integer, fraction) = (integer[start..].to_vec(), fraction[..end].to_vec());
        Self { negative: negative && !(integer.is_empty() && fraction.is_empty()), integer, fraction }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::from_number(&text.parse().expect("a number")).expect("exact")
    }

    fn bound(text: &str, inclusive: bool) -> Bound {
        Bound { value: decimal(text), inclusive }
    }

    /// Compares the moved bounds with a search among the multiples.
    #[test]
    fn moves_bounds_to_the_nearest_multiple() {
        for (units, places) in [(1, 0), (3, 0), (7, 0), (5, 1), (25, 2), (12, 1)] {
            let step = Multiple { units, places };
            for hundredths in -130..=130_i128 {
                for inclusive in [false, true] {
                    let bound = Bound { value: Decimal::of_units(hundredths, 2), inclusive };
                    let step_units = i128::from(step.scaled(2).expect("small"));
                    let multiples = (-500..=500).map(|at| at * step_units);
                    let fits_low = |value: i128| value > hundredths || inclusive && value == hundredths;
                    let fits_high = |value: i128| value < hundredths || inclusive && value == hundredths;
                    let low = multiples.clone().find(|&value| fits_low(value)).expect("far enough");
                    let high = multiples.rev().find(|&value| fits_high(value)).expect("far enough");
                    let found = [at_least(&bound, step), at_most(&bound, step)]
                        .map(|bound| bound.and_then(|bound| bound.value.units(2)));
                    assert_eq!(found, [Some(low), Some(high)], "{units}/{places} {hundredths} {inclusive}");
                }
            }
        }
    }

    #[test]
    fn moves_bounds_of_any_size() {
        let step = Multiple { units: 1000, places: 0 };
        let large = Bound { value: decimal("18446744073709551615"), inclusive: true };
        let moved = at_least(&large, step).expect("some multiple");
        assert_eq!(moved.value, Decimal::of_units(18_446_744_073_709_552_000, 0));
    }

    #[test]
    fn drops_rules_without_numbers() {
        let empty = [
            NumberRule {
                low: Some(bound("0", false)),
                high: Some(bound("1", true)),
                multiple_of: Some(Multiple { units: 12345, places: 0 }),
                ..NumberRule::ANY
            },
            NumberRule { low: Some(bound("2", true)), high: Some(bound("1", true)), ..NumberRule::ANY },
            NumberRule {
                low: Some(bound("0.2", true)),
                high: Some(bound("0.8", true)),
                form: NumberForm::Integer,
                ..NumberRule::ANY
            },
            NumberRule {
                multiple_of: Some(Multiple { units: 6, places: 0 }),
                indivisible: vec![Multiple { units: 3, places: 0 }],
                ..NumberRule::ANY
            },
        ];
        for rule in empty {
            assert_eq!(normalize(vec![rule.clone()]), [], "{rule:?}");
        }
    }

    #[test]
    fn writes_out_few_numbers_and_joins_intervals() {
        let sparse = NumberRule {
            low: Some(bound("0", true)),
            high: Some(bound("300", true)),
            multiple_of: Some(Multiple { units: 101, places: 0 }),
            ..NumberRule::ANY
        };
        let values: Vec<_> = normalize(vec![sparse])
            .into_iter()
            .map(|rule| rule.low.and_then(|low| low.value.units(0)).expect("an integer"))
            .collect();
        assert_eq!(values, [0, 101, 202]);
        let integers = |low, high| NumberRule {
            low: Some(bound(low, true)),
            high: Some(bound(high, true)),
            form: NumberForm::Integer,
            ..NumberRule::ANY
        };
        let joined = normalize(vec![integers("10", "19"), integers("0", "4"), integers("5", "9")]);
        assert_eq!(joined, [integers("0", "19")]);
        assert_eq!(normalize(vec![integers("0", "3"), integers("5", "9")]).len(), 2);
    }
}
