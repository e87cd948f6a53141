use std::collections::BTreeSet;
use std::ops::{BitAnd, BitOr};

use crate::error::SchemaProblem;
use crate::machine::json::decimal::Decimal;
use crate::machine::json::number::NumberRule;

/// The index of an [`Atom`].
pub(super) type AtomId = u32;

/// The keywords of one subschema, read and checked, with its subschemas by reference.
///
/// A value has to satisfy several atoms together wherever `$ref`, `allOf` or the taken branch of an `anyOf` stand beside
/// other keywords; what it satisfies then is their conjunction.
#[derive(Clone, Debug)]
pub(super) struct Atom {
    pub(super) types: Types,
    pub(super) number: NumberRule,
    pub(super) min_length: u32,
    pub(super) max_length: Option<u32>,
    /// `enum` and `const`, as far as they list strings, numbers, booleans and null.
    pub(super) scalars: Option<BTreeSet<Scalar>>,
    pub(super) array: ArrayKeywords,
    pub(super) object: ObjectKeywords,
    /// What must hold beside this atom: `allOf`, then `$ref`.
    pub(super) all: Vec<AtomId>,
    /// Of each, one branch must hold.
    pub(super) any: Vec<Choice>,
    /// Keywords that cannot be enforced.
    pub(super) refusals: Vec<Refusal>,
}

/// A branch of `anyOf`, `oneOf` or of what can be written with them.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) branches: Vec<AtomId>,
    /// For `oneOf`: no value may satisfy two branches, or the keyword at this place is refused.
    pub(super) exclusive: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ArrayKeywords {
    pub(super) prefix: Vec<AtomId>,
    pub(super) rest: Option<AtomId>,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ObjectKeywords {
    pub(super) properties: Vec<(String, AtomId)>,
    pub(super) required: Vec<String>,
    pub(super) additional: Option<AtomId>,
    pub(super) min: u32,
    /// Where `minProperties` stands.
    pub(super) min_pointer: String,
    pub(super) max: Option<u32>,
}

/// A keyword that would have to be enforced on values of some types.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) types: Types,
    pub(super) pointer: String,
    pub(super) keyword: String,
    pub(super) problem: SchemaProblem,
}

/// A value of `enum` or `const` that is neither an array nor an object. Numbers are equal by value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Number(Decimal),
    String(String),
}

/// A set of JSON types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NONE: Self = Self(0);
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOL: Self = Self(2);
    pub(super) const NUMBER: Self = Self(4);
    pub(super) const STRING: Self = Self(8);
    pub(super) const ARRAY: Self = Self(16);
    pub(super) const OBJECT: Self = Self(32);
    pub(super) const ALL: Self = Self(63);

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitAnd for Types {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Types {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Atom {
    /// No keyword at all: every value.
    pub(super) fn any() -> Self {
        Self {
            types: Types::ALL,
            number: NumberRule::ANY,
            min_length: 0,
            max_length: None,
            scalars: None,
            array: ArrayKeywords::default(),
            object: ObjectKeywords::default(),
            all: Vec::new(),
            any: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// Values of some types.
    pub(super) fn of(types: Types) -> Self {
        Self { types, ..Self::any() }
    }

    /// Whether every value satisfies it, which is certain only if so.
    pub(super) fn is_any(&self) -> bool {
        self.types == Types::ALL
            && self.number == NumberRule::ANY
            && (self.min_length, self.max_length) == (0, None)
            && self.scalars.is_none()
            && self.array.prefix.is_empty()
            && (self.array.rest, self.array.min, self.array.max) == (None, 0, None)
            && self.object.properties.is_empty()
            && self.object.required.is_empty()
            && (self.object.additional, self.object.min, self.object.max) == (None, 0, None)
            && self.all.is_empty()
            && self.any.is_empty()
            && self.refusals.is_empty()
    }

    /// Narrows the listed scalars to those of `values` too.
    pub(super) fn list(&mut self, values: BTreeSet<Scalar>) {
        self.scalars = Some(match self.scalars.take() {
            Some(before) => before.intersection(&values).cloned().collect(),
            None => values,
        });
    }
}
