use std::cmp::Ordering;

use crate::ir::json::decimal::Decimal;

/// The numbers that one alternative of a schema allows.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NumberRule {
    pub(crate) low: Option<Bound>,
    pub(crate) high: Option<Bound>,
    pub(crate) form: NumberForm,
    pub(crate) multiple_of: Option<Multiple>,
    /// The form that the number must not have.
    pub(crate) other_than: Option<NumberForm>,
    /// What it must not be a multiple of.
    pub(crate) indivisible: Vec<Multiple>,
    /// A value of `enum` or `const`: generated in its shortest spelling only.
    pub(crate) literal: bool,
}

/// One end of a range.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Bound {
    pub(crate) value: Decimal,
    pub(crate) inclusive: bool,
}

/// `units / 10^places`, which every value must be a multiple of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Multiple {
    pub(crate) units: u64,
    pub(crate) places: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum NumberForm {
    Any,
    /// The value is an integer; `5.0` is one.
    Integer,
    /// The text has no fraction: what draft 4 calls an integer.
    Digits,
}

impl NumberRule {
    /// Every number.
    pub(crate) const ANY: Self = Self {
        low: None,
        high: None,
        form: NumberForm::Any,
        multiple_of: None,
        other_than: None,
        indivisible: Vec::new(),
        literal: false,
    };

    /// Leaves out what is below `bound`.
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

    /// Leaves out what is above `bound`.
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

    /// Just `value`, in all spellings that `self` allows, or `None` where `self` excludes it.
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

    /// The same apart from the divisors.
    pub(crate) fn without_divisors(&self) -> Self {
        Self { multiple_of: None, indivisible: Vec::new(), ..self.clone() }
    }
}
