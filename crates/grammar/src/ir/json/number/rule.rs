use std::cmp::Ordering;

use crate::ir::json::decimal::Decimal;

/// An interval of numbers with conditions on form and divisors. Each alternative of a schema allows
/// the numbers of such a rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NumberRule {
    pub(crate) low: Option<Bound>,
    pub(crate) high: Option<Bound>,
    pub(crate) form: NumberForm,
    pub(crate) multiple_of: Option<Multiple>,
    /// A form that the number must not have, because of a negated `type`.
    pub(crate) other_than: Option<NumberForm>,
    /// Divisors that must not divide the number, because of a negated `multipleOf`.
    pub(crate) indivisible: Vec<Multiple>,
    /// True for a value of `enum` or `const`. Such a value is generated in its shortest spelling
    /// only.
    pub(crate) literal: bool,
}

/// One end of an interval.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Bound {
    pub(crate) value: Decimal,
    pub(crate) inclusive: bool,
}

/// The divisor `units / 10^places`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Multiple {
    pub(crate) units: u64,
    pub(crate) places: u16,
}

/// The form that a number must have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum NumberForm {
    /// Any form.
    Any,
    /// The value is an integer, for example `5` or `5.0`.
    Integer,
    /// The text has no fraction, as draft 4 defines integers.
    Digits,
}

impl NumberRule {
    /// The rule of all numbers.
    pub(crate) const ANY: Self = Self {
        low: None,
        high: None,
        form: NumberForm::Any,
        multiple_of: None,
        other_than: None,
        indivisible: Vec::new(),
        literal: false,
    };

    /// Excludes the numbers below `bound`.
    pub(crate) fn above(&mut self, bound: Bound) {
        let tighter = self.low.as_ref().is_none_or(|low| match bound.value.cmp(&low.value) {
            Ordering::Less => false,
            Ordering::Equal => !bound.inclusive,
            Ordering::Greater => true,
        });
        if tighter {
            self.low = Some(bound);
        }
    }

    /// Excludes the numbers above `bound`.
    pub(crate) fn below(&mut self, bound: Bound) {
        let tighter = self.high.as_ref().is_none_or(|high| match bound.value.cmp(&high.value) {
            Ordering::Less => true,
            Ordering::Equal => !bound.inclusive,
            Ordering::Greater => false,
        });
        if tighter {
            self.high = Some(bound);
        }
    }

    /// Returns the rule that accepts only `value`, in all spellings that `self` allows. Returns
    /// `None` if `self` excludes `value` by its bounds or form.
    pub(crate) fn literal(&self, value: &Decimal) -> Option<Self> {
        let above = self.low.as_ref().is_none_or(|low| match value.cmp(&low.value) {
            Ordering::Less => false,
            Ordering::Equal => low.inclusive,
            Ordering::Greater => true,
        });
        let below = self.high.as_ref().is_none_or(|high| match value.cmp(&high.value) {
            Ordering::Less => true,
            Ordering::Equal => high.inclusive,
            Ordering::Greater => false,
        });
        let form = self.form == NumberForm::Any || value.is_integer();
        let form = form && !(self.other_than == Some(NumberForm::Integer) && value.is_integer());
        let bound = Some(Bound { value: value.clone(), inclusive: true });
        (above && below && form).then(|| Self {
            low: bound.clone(),
            high: bound,
            literal: true,
            ..self.clone()
        })
    }

    pub(crate) const fn is_bounded(&self) -> bool {
        self.low.is_some() || self.high.is_some() || self.other_than.is_some()
    }

    pub(crate) const fn has_divisors(&self) -> bool {
        self.multiple_of.is_some() || !self.indivisible.is_empty()
    }

    /// Returns the rule without its divisors.
    pub(crate) fn without_divisors(&self) -> Self {
        Self { multiple_of: None, indivisible: Vec::new(), ..self.clone() }
    }
}
