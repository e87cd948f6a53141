//! Reads a number by one rule, digit by digit: numbers without an exponent, and numbers of rules
//! without bounds.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use super::residues::{Residues, decimals};
use super::scientific::Normal;
use super::{Bound, GENERATED_DIGITS, NumberError, NumberForm, NumberRule};
use crate::ledger::Ledger;
use crate::options::Profile;

/// Merges the rules that differ only in their divisors. Returns the merged rules, and their
/// conditions on remainders. The rule with index `i` has the condition with index `i`.
pub(crate) fn spans(
    rules: &[NumberRule],
    profile: Profile,
    ledger: &Ledger,
) -> Result<(Vec<PreparedRule>, Residues), NumberError> {
    let mut bounds: Vec<NumberRule> = Vec::new();
    let mut groups: Vec<Vec<&NumberRule>> = Vec::new();
    let mut known: FxHashMap<NumberRule, usize> = FxHashMap::default();
    for rule in rules {
        let at = *known.entry(rule.without_divisors()).or_insert_with_key(|key| {
            bounds.push(key.clone());
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[at].push(rule);
    }
    let residues = Residues::new(&groups, ledger)?;
    let span = |(at, bounds): (usize, &NumberRule)| {
        let decimals = decimals(&groups[at]);
        PreparedRule::new(bounds, (&residues, at as u32), decimals, profile)
    };
    Ok((bounds.iter().enumerate().map(span).collect(), residues))
}

/// A rule without its divisors, prepared for comparing magnitudes.
pub(crate) struct PreparedRule {
    /// The bounds for numbers without a minus sign.
    positive: Magnitudes,
    /// The bounds for numbers with a minus sign.
    negative: Magnitudes,
    form: NumberForm,
    other_than: Option<NumberForm>,
    /// The condition on the remainder, if the rule has divisors that need a remainder.
    residues: Option<Divisors>,
    /// True if the number may have any exponent. The rule then has no bounds, because such a number
    /// is not compared.
    exponent: bool,
    /// True if numbers in scientific notation are accepted and compared with the bounds: see
    /// [`Scientific`](super::scientific::Scientific).
    pub(crate) scientific: bool,
    /// Maximum number of decimal places with digits other than 0, if the divisors limit this
    /// number.
    decimals: Option<u16>,
    /// Maximum number of digits in total, for generated texts. `None` means unlimited.
    digits: Option<usize>,
    /// Maximum number of digits after the point, for generated texts. `None` means unlimited.
    places: Option<u16>,
    /// True if the rule accepts only one value.
    pub(crate) single: bool,
}

/// The condition of a rule on the remainder.
#[derive(Clone, Copy)]
struct Divisors {
    /// Index in [`Residues::conditions`].
    condition: u32,
    /// Number of decimal places that the remainder covers.
    places: u16,
    /// True if numbers with more decimal places, digits other than 0 included, are accepted.
    beyond: bool,
}

/// The bounds of the absolute value of a number, for one sign.
pub(crate) struct Magnitudes {
    pub(crate) low: Option<Bound>,
    pub(crate) high: Option<Bound>,
    /// False if no number with this sign satisfies the rule.
    pub(crate) possible: bool,
    /// The lower and the upper bound in scientific notation. `None` for a missing bound, for 0, and
    /// if numbers in this notation are not compared.
    pub(crate) normals: (Option<Normal>, Option<Normal>),
    /// The largest numbers of digits of the bounds, before and after the point. Positions beyond
    /// them need not be distinguished.
    longest: (u16, u16),
}

impl Magnitudes {
    /// Creates the bounds for numbers with or without a minus sign. `negate` is true for a minus
    /// sign.
    fn new((low, high): (Option<&Bound>, Option<&Bound>), negate: bool, scientific: bool) -> Self {
        let (low, high) = if negate { (high, low) } else { (low, high) };
        let sign = |bound: &&Bound| bound.value.negative == negate || bound.value.is_zero();
        let possible = high.as_ref().is_none_or(sign);
        let (low, high) = (low.filter(sign), high.filter(sign));
        let longest = low.iter().chain(&high).fold((0, 0), |(integer, fraction), bound| {
            (integer.max(bound.value.integer.len() as u16), fraction.max(bound.value.fraction.len() as u16))
        });
        let normal = |bound: Option<&Bound>| bound.filter(|_| scientific).and_then(Normal::of);
        let normals = (normal(low), normal(high));
        Self { low: low.cloned(), high: high.cloned(), possible, normals, longest }
    }
}

impl PreparedRule {
    fn new(
        rule: &NumberRule,
        (residues, condition): (&Residues, u32),
        decimals: Option<u16>,
        profile: Profile,
    ) -> Self {
        let own = &residues.conditions[condition as usize];
        let divisors = Divisors { condition, places: residues.places, beyond: own.beyond };
        let divisors = Some(divisors).filter(|_| !own.is_any());
        let bounds = || rule.low.iter().chain(&rule.high);
        let fraction = bounds().map(|bound| bound.value.fraction.len()).max().unwrap_or(0);
        let integer = bounds().map(|bound| bound.value.integer.len().max(1)).max().unwrap_or(0);
        let places = divisors.map(|divisors| divisors.places).max(decimals).map_or(0, usize::from);
        let units = divisors.map_or(0, |_| residues.modulus.to_string().len());
        let generate = profile == Profile::Generate;
        // The nearest number to an exclusive bound may have one digit more than the bound.
        let open = usize::from(bounds().any(|bound| !bound.inclusive));
        let digits = GENERATED_DIGITS.max(integer + fraction.max(places) + open).max(units + places);
        let is_divided = divisors.is_some() || decimals.is_some();
        let may_have_exponent = !generate && rule.form != NumberForm::Digits && !is_divided;
        let generated_integer = generate && rule.form != NumberForm::Any;
        let scientific = may_have_exponent && rule.is_bounded() && rule.other_than.is_none();
        let range = (rule.low.as_ref(), rule.high.as_ref());
        Self {
            positive: Magnitudes::new(range, false, scientific),
            negative: Magnitudes::new(range, true, scientific),
            form: if generated_integer { NumberForm::Digits } else { rule.form },
            other_than: rule.other_than,
            exponent: may_have_exponent && !rule.is_bounded(),
            scientific,
            decimals,
            residues: divisors,
            digits: generate.then_some(digits),
            places: (generate && rule.literal).then_some(fraction as u16),
            single: rule.low.as_ref().is_some_and(|low| low.inclusive) && rule.low == rule.high,
        }
    }

    pub(crate) const fn form(&self) -> NumberForm {
        self.form
    }

    pub(crate) const fn magnitudes(&self, negative: bool) -> &Magnitudes {
        if negative { &self.negative } else { &self.positive }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Phase {
    Start,
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

/// The state of reading a number by one rule. Fields that are irrelevant in a state have their
/// default values, so that equal states coincide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PlainNumber {
    /// Index of the rule.
    pub(crate) rule: u32,
    phase: Phase,
    negative: bool,
    /// Number of digits so far, if the rule limits this number. Otherwise 0.
    digits: u16,
    /// Number of digits so far before the point. In the fraction, number of digits so far after the
    /// point.
    place: u16,
    /// Order of the digits so far and the digits of the lower bound of the magnitude.
    low: Ordering,
    /// Order of the digits so far and the digits of the upper bound of the magnitude.
    high: Ordering,
    /// True if the number is negative and all its digits so far are 0, in generated texts. Such a
    /// number must not end here.
    zero: bool,
    fraction: Fraction,
}

/// Classifies the digits so far after the point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Fraction {
    /// All digits are 0, or their values do not matter.
    Zeros,
    /// Some digit is not 0, and the rule excludes integers.
    Some,
    /// Some digit beyond the places of the modulus is not 0.
    Beyond,
}

impl PlainNumber {
    pub(crate) const fn start(rule: u32) -> Self {
        let equal = Ordering::Equal;
        let phase = Phase::Start;
        Self {
            rule,
            phase,
            negative: false,
            digits: 0,
            place: 0,
            low: equal,
            high: equal,
            zero: false,
            fraction: Fraction::Zeros,
        }
    }

    /// Returns the state after `byte`, or `None` if no number of the rule continues with `byte`.
    pub(crate) fn step(&self, span: &PreparedRule, byte: u8) -> Option<Self> {
        use Phase::{Exponent, ExponentDigits, ExponentSign, Fraction, Integer, Minus, Point, Start, Zero};
        let mut next = *self;
        next.phase = match (self.phase, byte) {
            (Start, b'-') => Minus,
            (Start | Minus, b'0') => Zero,
            (Start | Minus | Integer, b'0'..=b'9') => Integer,
            (Zero | Integer, b'.') if span.form != NumberForm::Digits => Point,
            (Point | Fraction, b'0'..=b'9') => Fraction,
            (Zero | Integer | Fraction, b'e') if span.exponent => Exponent,
            (Exponent, b'+') => ExponentSign,
            (Exponent, b'-') if span.form == NumberForm::Any => ExponentSign,
            (Exponent | ExponentSign | ExponentDigits, b'0'..=b'9') => ExponentDigits,
            _ => return None,
        };
        match next.phase {
            Minus => {
                next.negative = true;
                next.zero = span.digits.is_some();
            }
            Zero | Integer => next.integer_digit(span, byte - b'0')?,
            Point => (next.low, next.high, next.place) = (self.order(span, true), self.order(span, false), 0),
            Fraction => next.fraction_digit(span, byte - b'0')?,
            _ => next = Self { phase: next.phase, ..Self::start(self.rule) },
        }
        Some(next).filter(|next| !span.single || next.is_on(span))
    }

    /// Reports whether the digits so far are those of the only value of the rule. Later digits
    /// cannot repair a difference, so the rule of a listed number is dropped early.
    fn is_on(&self, span: &PreparedRule) -> bool {
        match self.phase {
            Phase::Zero => {
                let low = &span.magnitudes(self.negative).low;
                low.as_ref().is_none_or(|low| low.value.integer.is_empty())
            }
            Phase::Integer | Phase::Point | Phase::Fraction => self.low.is_eq() && self.high.is_eq(),
            _ => true,
        }
    }

    /// Counts one more digit. Returns `None` if there are too many digits.
    fn count_digit(&mut self, span: &PreparedRule, digit: u8) -> Option<()> {
        if let Some(all) = span.digits {
            self.digits += 1;
            self.zero &= digit == 0;
            if usize::from(self.digits) > all {
                return None;
            }
        }
        Some(())
    }

    /// Compares one more digit before the point with the bounds. Returns `None` if the digit is not
    /// allowed.
    fn integer_digit(&mut self, span: &PreparedRule, digit: u8) -> Option<()> {
        let magnitudes = span.magnitudes(self.negative);
        if !magnitudes.possible {
            return None;
        }
        self.count_digit(span, digit)?;
        if self.phase == Phase::Zero {
            return Some(()); // a lone zero has no significant digit
        }
        let place = usize::from(self.place);
        let compare = |order: &mut Ordering, bound: &Option<Bound>| {
            let against = bound.as_ref().and_then(|bound| bound.value.integer.get(place));
            *order = order.then(against.map_or(Ordering::Equal, |against| digit.cmp(against)));
        };
        compare(&mut self.low, &magnitudes.low);
        compare(&mut self.high, &magnitudes.high);
        self.place = (self.place + 1).min(magnitudes.longest.0 + 1);
        if self.place > magnitudes.longest.0 {
            (self.low, self.high) = (Ordering::Greater, Ordering::Greater);
        }
        Some(())
    }

    /// Compares one more digit after the point with the bounds. Returns `None` if the digit is not
    /// allowed.
    fn fraction_digit(&mut self, span: &PreparedRule, digit: u8) -> Option<()> {
        let place = usize::from(self.place);
        let places = span.residues.map_or(usize::MAX, |residues| usize::from(residues.places));
        let beyond = digit != 0 && place >= places;
        let too_fine = beyond && span.residues.is_some_and(|residues| !residues.beyond);
        let too_fine = too_fine || digit != 0 && span.decimals.is_some_and(|decimals| self.place >= decimals);
        if too_fine || digit != 0 && span.form == NumberForm::Integer {
            return None;
        }
        let wanted = digit != 0 && span.other_than == Some(NumberForm::Integer);
        self.fraction = self.fraction.max(match (beyond, wanted) {
            (true, _) => Fraction::Beyond,
            (false, true) => Fraction::Some,
            (false, false) => Fraction::Zeros,
        });
        if span.places.is_some_and(|places| self.place >= places) {
            return None;
        }
        self.count_digit(span, digit)?;
        let magnitudes = span.magnitudes(self.negative);
        let compare = |order: &mut Ordering, bound: &Option<Bound>| {
            let against = bound.as_ref().and_then(|bound| bound.value.fraction.get(place)).copied();
            *order = order.then(digit.cmp(&against.unwrap_or(0)));
        };
        compare(&mut self.low, &magnitudes.low);
        compare(&mut self.high, &magnitudes.high);
        let decided = self.low.is_ne() && self.high.is_ne();
        let compared = if decided { 0 } else { magnitudes.longest.1 };
        let divided = span.residues.map_or(0, |residues| residues.places);
        let longest = compared.max(divided).max(span.places.unwrap_or(0)).max(span.decimals.unwrap_or(0));
        self.place = (self.place + 1).min(longest);
        Some(())
    }

    /// Returns the order of the magnitude and a bound, as if the digits ended here. `low` selects
    /// the lower bound. The result has no meaning if the bound is missing.
    fn order(&self, span: &PreparedRule, low: bool) -> Ordering {
        let magnitudes = span.magnitudes(self.negative);
        let (order, bound) = if low { (self.low, &magnitudes.low) } else { (self.high, &magnitudes.high) };
        let Some(bound) = bound else { return Ordering::Greater };
        if matches!(self.phase, Phase::Zero | Phase::Integer) {
            usize::from(self.place).cmp(&bound.value.integer.len()).then(order)
        } else {
            order
        }
    }

    /// Returns the condition under which the number may end here by this rule. Returns `None` if
    /// the number may not end here.
    pub(crate) fn ends(&self, span: &PreparedRule) -> Option<End> {
        let always = Some(End::ALWAYS);
        if self.phase == Phase::ExponentDigits {
            return always;
        }
        if !matches!(self.phase, Phase::Zero | Phase::Integer | Phase::Fraction) || self.zero {
            return None;
        }
        let after_point = if self.phase == Phase::Fraction { self.place } else { 0 };
        let order = |low: bool, bound: &Bound| {
            let rest = bound.value.fraction.len() > usize::from(after_point);
            self.order(span, low).then(if rest { Ordering::Less } else { Ordering::Equal })
        };
        let magnitudes = span.magnitudes(self.negative);
        let above = magnitudes.low.as_ref().is_none_or(|bound| match order(true, bound) {
            Ordering::Less => false,
            Ordering::Equal => bound.inclusive,
            Ordering::Greater => true,
        });
        let below = magnitudes.high.as_ref().is_none_or(|bound| match order(false, bound) {
            Ordering::Less => true,
            Ordering::Equal => bound.inclusive,
            Ordering::Greater => false,
        });
        if !(above && below && self.has_form(span)) {
            return None;
        }
        match span.residues {
            None => always,
            Some(divisors) if self.fraction == Fraction::Beyond => divisors.beyond.then_some(End::ALWAYS),
            Some(divisors) => {
                let after_point = after_point.min(divisors.places);
                Some(End { condition: Some(divisors.condition), after_point })
            }
        }
    }

    /// Reports whether the number has another form than the one in `other_than`.
    fn has_form(&self, span: &PreparedRule) -> bool {
        match span.other_than {
            None => true,
            Some(NumberForm::Any) => false,
            Some(NumberForm::Integer) => self.fraction > Fraction::Zeros,
            Some(NumberForm::Digits) => self.phase == Phase::Fraction,
        }
    }

    /// Reports whether the walk has to track a remainder: the digits so far, divided by the divisor
    /// of this rule.
    pub(crate) fn divides(&self, span: &PreparedRule) -> bool {
        span.residues.is_some() && self.fraction != Fraction::Beyond
    }

    /// Reports whether the last digit changes the remainder, if the remainder matters. `before` is
    /// the state before the digit.
    pub(crate) fn counts_digit(&self, before: &Self, span: &PreparedRule) -> bool {
        match self.phase {
            Phase::Fraction => span.residues.is_some_and(|divisors| before.place < divisors.places),
            _ => true,
        }
    }
}

/// The condition under which a number may end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct End {
    /// Index in [`Residues::conditions`] of the condition that the remainder must satisfy. `None`
    /// if the number may always end.
    pub(crate) condition: Option<u32>,
    /// Number of digits after the point.
    pub(crate) after_point: u16,
}

impl End {
    pub(crate) const ALWAYS: Self = Self { condition: None, after_point: 0 };
}
