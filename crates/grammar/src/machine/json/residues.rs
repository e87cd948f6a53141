//! Which remainders a number may leave.
//!
//! Alternatives that differ only in their divisors are one condition on the remainder by a common multiple of them all.
//! Followed side by side, their automata would multiply; as one condition they shrink, for the condition may depend on
//! the remainder by a smaller number only.

use super::number::{Multiple, NumberRule};

/// The most remainders that are told apart.
pub(super) const REMAINDERS: u64 = 1 << 20;

/// A condition on the remainder of a number, in units of `1 / 10^places`.
#[derive(Clone, Debug)]
pub(super) struct Residues {
    pub(super) places: u16,
    /// By remainder; its length is the modulus.
    pub(super) accepted: Vec<bool>,
    /// Whether numbers with more places than that are accepted: no divisor divides them.
    pub(super) beyond: bool,
}

impl Residues {
    /// What the divisors of some rules, of which one must hold, ask for together; `None` where the common multiple is too
    /// large.
    pub(super) fn new<'a>(rules: impl Iterator<Item = &'a NumberRule> + Clone) -> Option<Self> {
        let divisors = || rules.clone().flat_map(|rule| rule.multiple_of.iter().chain(&rule.indivisible));
        let places = divisors().map(|divisor| divisor.places).max().unwrap_or(0);
        let all = divisors().try_fold(Multiple { units: 1, places }, |all, &divisor| all.common(divisor))?;
        let modulus = all.scaled(places).filter(|&modulus| modulus <= REMAINDERS)?;
        let mut accepted = vec![false; modulus as usize];
        let mut beyond = false;
        for rule in rules {
            let multiple = rule.multiple_of.map_or(Some(1), |multiple| multiple.scaled(places))? as usize;
            let indivisible = rule.indivisible.iter().map(|divisor| Some(divisor.scaled(places)? as usize));
            let indivisible = indivisible.collect::<Option<Vec<_>>>()?;
            for remainder in (0..modulus as usize).step_by(multiple) {
                accepted[remainder] |= indivisible.iter().all(|divisor| remainder % divisor != 0);
            }
            beyond |= rule.multiple_of.is_none();
        }
        let mut residues = Self { places, accepted, beyond };
        residues.shrink();
        Some(residues)
    }

    /// Takes the smallest modulus that tells the same.
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

    pub(super) const fn modulus(&self) -> u64 {
        self.accepted.len() as u64
    }

    /// Whether every number satisfies it.
    pub(super) fn is_any(&self) -> bool {
        self.beyond && self.accepted == [true]
    }

    /// The remainder after one more digit.
    pub(super) const fn after(&self, remainder: u32, digit: u8) -> u32 {
        ((remainder as u64 * 10 + digit as u64) % self.modulus()) as u32
    }

    /// Whether a number may end with this remainder and this many digits after its point.
    pub(super) fn accept(&self, remainder: u32, after_point: usize) -> bool {
        let missing = usize::from(self.places).saturating_sub(after_point);
        let remainder = (0..missing).fold(remainder, |rest, _| self.after(rest, 0));
        self.accepted[remainder as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modulus_is_as_small_as_it_can_be() {
        let multiple = |units| Multiple { units, places: 0 };
        let of = |units| NumberRule { multiple_of: Some(multiple(units)), ..NumberRule::ANY };
        let not = |units| NumberRule { indivisible: vec![multiple(units)], ..NumberRule::ANY };
        let modulus = |rules: &[NumberRule]| Residues::new(rules.iter()).map(|residues| residues.modulus());
        assert_eq!(modulus(&[of(6)]), Some(6));
        assert_eq!(modulus(&[of(6), of(4)]), Some(12));
        assert_eq!(modulus(&[of(6), of(3)]), Some(3));
        assert_eq!(modulus(&[of(7), not(7)]), Some(1));
        assert!(Residues::new([of(7), not(7)].iter()).is_some_and(|residues| residues.is_any()));
        assert_eq!(modulus(&[of(1_000_003), of(3)]), None);
    }
}
