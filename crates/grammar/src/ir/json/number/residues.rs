//! Conditions on remainders, from the divisors of several rules.
//!
//! All rules for one value read the same digits, so one remainder by the least common multiple of
//! their divisors suffices. Each rule has a set of accepted remainders. A set may depend on a
//! smaller modulus only. Each set is therefore reduced to the smallest equivalent modulus before
//! the common modulus is computed.

use super::{Multiple, NumberError, NumberRule};
use crate::ledger::Ledger;

/// Maximum least common multiple of the divisors.
const MODULUS: u64 = 1 << 20;

/// Conditions of groups of rules on the remainder of a number. The number is counted in units of
/// `1 / 10^places`, and the remainder is modulo `modulus`.
#[derive(Debug)]
pub(crate) struct Residues {
    pub(crate) places: u16,
    /// The modulus for all conditions, at least 1.
    pub(crate) modulus: u32,
    /// The condition of each group.
    pub(crate) conditions: Vec<Condition>,
}

/// The remainders of the numbers that satisfy at least one rule of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Condition {
    /// For each remainder, true if it is accepted. The length is the modulus of the condition,
    /// which divides the common modulus.
    accepted: Vec<bool>,
    /// True if numbers are accepted that have more decimal places than all divisors. No divisor
    /// divides such numbers.
    pub(crate) beyond: bool,
}

impl Residues {
    /// Creates one condition for each group of rules. A number satisfies the condition if it
    /// satisfies one rule of the group.
    pub(crate) fn new(groups: &[Vec<&NumberRule>], ledger: &Ledger) -> Result<Self, NumberError> {
        // Divisors that are powers of 1/10 need no remainder: digits beyond their places must be 0.
        let rules = || groups.iter().filter(|group| decimals(group).is_none()).flatten();
        let divisors = || rules().flat_map(|rule| rule.multiple_of.iter().chain(&rule.indivisible));
        let places = divisors().map(|divisor| divisor.places).max().unwrap_or(0);
        let mut modulus = 1;
        for &divisor in divisors() {
            let units = divisor.scaled(places).unwrap_or(u64::MAX);
            modulus = least_common_multiple(modulus, units).unwrap_or(u64::MAX);
            if modulus > MODULUS {
                return Err(NumberError::CommonMultiple { given: modulus, limit: MODULUS });
            }
        }
        let mut conditions = Vec::with_capacity(groups.len());
        for group in groups {
            conditions.push(match decimals(group) {
                Some(_) => Condition { accepted: vec![true], beyond: true },
                None => Condition::new(group, (places, modulus), ledger)?,
            });
        }
        let common = conditions.iter().fold(1, |all, condition: &Condition| {
            least_common_multiple(all, condition.accepted.len() as u64).unwrap_or(modulus)
        });
        Ok(Self { places, modulus: common as u32, conditions })
    }

    /// Returns the remainder of a number after one more digit. `remainder` is the remainder of the
    /// digits before.
    pub(crate) const fn after(&self, remainder: u32, digit: u8) -> u32 {
        ((remainder as u64 * 10 + digit as u64) % self.modulus as u64) as u32
    }

    /// Reports whether the condition with index `condition` accepts a number. `remainder` is the
    /// remainder of all digits, and `after_point` is the number of digits after the point.
    pub(crate) fn accepts(&self, condition: u32, remainder: u32, after_point: u16) -> bool {
        let missing = self.places.saturating_sub(after_point);
        let remainder = (0..missing).fold(remainder, |rest, _| self.after(rest, 0));
        let accepted = &self.conditions[condition as usize].accepted;
        accepted[remainder as usize % accepted.len()]
    }
}

impl Condition {
    fn new(
        rules: &[&NumberRule],
        (places, modulus): (u16, u64),
        ledger: &Ledger,
    ) -> Result<Self, NumberError> {
        let scaled = |divisor: &Multiple| divisor.scaled(places).unwrap_or(u64::MAX);
        if rules.iter().any(|rule| rule.multiple_of.is_none() && rule.indivisible.is_empty()) {
            return Ok(Self { accepted: vec![true], beyond: true });
        }
        let mut accepted = vec![false; modulus as usize];
        let mut beyond = false;
        for rule in rules {
            let multiple = rule.multiple_of.as_ref().map_or(1, scaled) as usize;
            let indivisible: Vec<u64> = rule.indivisible.iter().map(scaled).collect();
            ledger.note((accepted.len() / multiple + 1) * (1 + indivisible.len()));
            if ledger.is_over() {
                return Err(NumberError::Ledger);
            }
            for remainder in (0..accepted.len()).step_by(multiple) {
                accepted[remainder] |=
                    !indivisible.iter().any(|divisor| (remainder as u64).is_multiple_of(*divisor));
            }
            beyond |= rule.multiple_of.is_none();
        }
        let mut condition = Self { accepted, beyond };
        condition.shrink();
        Ok(condition)
    }

    /// Reduces the condition to the smallest modulus that accepts the same numbers.
    fn shrink(&mut self) {
        let mut rest = self.accepted.len();
        let mut factor = 2;
        while rest > 1 {
            if factor * factor > rest {
                factor = rest;
            }
            if !rest.is_multiple_of(factor) {
                factor += 1;
                continue;
            }
            rest /= factor;
            let modulus = self.accepted.len() / factor;
            let (first, others) = self.accepted.split_at(modulus);
            if others.chunks(modulus).all(|other| other == first) {
                self.accepted.truncate(modulus);
            }
        }
    }

    /// Reports whether every number satisfies the condition.
    pub(crate) fn is_any(&self) -> bool {
        self.beyond && self.accepted == [true]
    }

    #[cfg(test)]
    fn modulus(&self) -> usize {
        self.accepted.len()
    }
}

/// Returns the number of decimal places that the rules allow together. Returns `None` unless the
/// divisor of each rule is a power of 1/10.
pub(crate) fn decimals(rules: &[&NumberRule]) -> Option<u16> {
    let places = |rule: &&NumberRule| {
        let multiple = rule.multiple_of.filter(|multiple| multiple.units == 1 && rule.indivisible.is_empty());
        multiple.map(|multiple| multiple.places)
    };
    let all: Option<Vec<u16>> = rules.iter().map(places).collect();
    all?.into_iter().max()
}

pub(crate) const fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    (a / greatest_common_divisor(a, b)).checked_mul(b)
}

const fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn takes_the_smallest_equivalent_modulus() {
        let multiple = |units| Multiple { units, places: 0 };
        let of = |units| NumberRule { multiple_of: Some(multiple(units)), ..NumberRule::ANY };
        let not = |units| NumberRule { indivisible: vec![multiple(units)], ..NumberRule::ANY };
        let residues =
            |rules: &[NumberRule]| Residues::new(&[rules.iter().collect()], &Ledger::new(&Limits::default()));
        let modulus = |rules: &[NumberRule]| residues(rules).map(|all| all.conditions[0].modulus()).ok();
        assert_eq!(modulus(&[of(6)]), Some(6));
        assert_eq!(modulus(&[of(6), of(4)]), Some(12));
        assert_eq!(modulus(&[of(6), of(3)]), Some(3));
        assert_eq!(modulus(&[of(7), not(7)]), Some(1));
        assert!(residues(&[of(7), not(7)]).is_ok_and(|all| all.conditions[0].is_any()));
        assert_eq!(modulus(&[of(1_000_003), of(3)]), None);
    }

    #[test]
    fn has_one_modulus_for_conditions_of_several_groups() {
        let of =
            |units, places| NumberRule { multiple_of: Some(Multiple { units, places }), ..NumberRule::ANY };
        let (three, quarter) = (of(3, 0), of(25, 2));
        let residues = Residues::new(&[vec![&three], vec![&quarter]], &Ledger::new(&Limits::default()));
        let residues = residues.expect("a small modulus");
        assert_eq!((residues.places, residues.modulus), (2, 300));
        // 4.5, read as 45 with one digit after the point.
        let (three, quarter) = (residues.accepts(0, 45, 1), residues.accepts(1, 45, 1));
        assert_eq!((three, quarter), (false, true));
    }
}
