//! One rule, digit by digit, for numbers without an exponent and for those without bounds.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use super::residues::{Residues, decimals};
use super::scientific::Normal;
use super::{Bound, GENERATED_DIGITS, NumberError, NumberForm, NumberRule};
use crate::ledger::Ledger;
use crate::options::Profile;

/// The rules with those merged that differ only in their divisors, and the conditions on remainders that they have.
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

/// A rule prepared for comparing magnitudes: one pair of bounds for each sign.
pub(crate) struct PreparedRule {
    positive: Magnitudes,
    negative: Magnitudes,
    form: NumberForm,
    other_than: Option<NumberForm>,
    /// Where there is any divisor.
    residues: Option<Divisors>,
    exponent: bool,
    /// True if numbers in scientific notation are compared with the bounds.
    pub(crate) scientific: bool,
    /// Digits after the point that may be other than zero, where bounded by a divisor.
    decimals: Option<u16>,
    /// Digits in all, where bounded.
    digits: Option<usize>,
    /// Digits after the point, where bounded.
    places: Option<u16>,
    /// True if the rule has one value.
    pub(crate) single: bool,
}

/// What a rule needs to know of its condition on remainders.
#[derive(Clone, Copy)]
struct Divisors {
    condition: u32,
    places: u16,
    /// Whether numbers with more places are accepted.
    beyond: bool,
}

/// The bounds of a number's absolute value.
pub(crate) struct Magnitudes {
    pub(crate) low: Option<Bound>,
    pub(crate) high: Option<Bound>,
    pub(crate) possible: bool,
    /// The low and the high bound in scientific notation, where numbers in it are compared with them.
    pub(crate) normals: (Option<Normal>, Option<Normal>),
    /// More digits than this before or after the point make no difference to the comparisons.
    longest: (u16, u16),
}

impl Magnitudes {
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
        // Beside a bound that is not part of the range, the nearest number may have a digit more than the bound.
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

/// How far one rule has read. Fields that can no longer matter are kept at their defaults, so that states coincide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PlainNumber {
    pub(crate) rule: u32,
    phase: Phase,
    negative: bool,
    /// Digits in all, where the rule bounds them.
    digits: u16,
    /// Digits before the point, then digits after it.
    place: u16,
    /// The digits so far against those of each bound.
    low: Ordering,
    high: Ordering,
    /// Whether all digits are zeros, where that matters: after a minus.
    zero: bool,
    fraction: Fraction,
}

/// What the digits after the point have been.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Fraction {
    /// Only zeros, or it does not matter.
    Zeros,
    /// One was not zero, where only such numbers are wanted.
    Some,
    /// One beyond the places of the modulus was not zero.
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

    /// Whether the digits so far are those of the only value that the rule has: where they once differ, no others make up
    /// for it. So of many listed numbers each is left as soon as it can be.
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

    /// The order of the magnitude, were it to end here, and a bound. Without a bound the answer is of no use.
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

    /// Whether the number may end here, as far as this rule is concerned.
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

    fn has_form(&self, span: &PreparedRule) -> bool {
        match span.other_than {
            None => true,
            Some(NumberForm::Any) => false,
            Some(NumberForm::Integer) => self.fraction > Fraction::Zeros,
            Some(NumberForm::Digits) => self.phase == Phase::Fraction,
        }
    }

    /// Whether the remainder of the digits so far matters.
    pub(crate) fn divides(&self, span: &PreparedRule) -> bool {
        span.residues.is_some() && self.fraction != Fraction::Beyond
    }

    /// Whether the last digit counts for the remainder, where it matters.
    pub(crate) fn counts_digit(&self, before: &Self, span: &PreparedRule) -> bool {
        match self.phase {
            Phase::Fraction => span.residues.is_some_and(|divisors| before.place < divisors.places),
            _ => true,
        }
    }
}

/// A number may end if its remainder satisfies a condition, and always without one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct End {
    pub(crate) condition: Option<u32>,
    /// The number of digits after the point.
    pub(crate) after_point: u16,
}

impl End {
    pub(crate) const ALWAYS: Self = Self { condition: None, after_point: 0 };
}
