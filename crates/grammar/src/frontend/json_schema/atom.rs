use std::collections::BTreeSet;
use std::ops::{BitAnd, BitOr};
use std::rc::Rc;

use crate::error::SchemaProblem;
use crate::ir::json::decimal::Decimal;
use crate::ir::json::number::NumberRule;
use crate::regular::{ExprId, Expressions};

/// Index of an [`Atom`].
pub(super) type AtomId = u32;

/// The checked keywords of one subschema. Nested subschemas are referenced by id.
///
/// Several atoms apply to one value if `$ref`, `allOf` or the chosen branch of `anyOf` is next to
/// other keywords. The value must then satisfy their conjunction.
#[derive(Clone, Debug)]
pub(super) struct Atom {
    pub(super) types: Types,
    pub(super) number: NumberRule,
    pub(super) min_length: u32,
    pub(super) max_length: Option<u32>,
    /// The language of the strings that `pattern` and `format` allow.
    pub(super) text: ExprId,
    /// The strings, numbers, booleans and null that `enum` and `const` list. `None` without these
    /// keywords.
    pub(super) scalars: Option<BTreeSet<Scalar>>,
    /// The values that a negated `enum` or `const` excludes.
    pub(super) excluded: BTreeSet<Scalar>,
    pub(super) array: ArrayKeywords,
    pub(super) object: ObjectKeywords,
    /// Atoms that must hold for the same value: those of `allOf`, then those of `$ref`.
    pub(super) all: Vec<AtomId>,
    /// Choices between branches. Every choice must be satisfied.
    pub(super) any: Vec<Choice>,
    /// Keywords that cannot be enforced.
    pub(super) refusals: Vec<Refusal>,
    /// True if the atom evaluates no items or members, as under `not`.
    pub(super) silent: bool,
}

/// The branches of `anyOf`, `oneOf` or an equivalent keyword.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) branches: Rc<[AtomId]>,
    pub(super) kind: ChoiceKind,
}

/// The number of branches that may hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ChoiceKind {
    /// At least one branch. It makes no difference which branches hold.
    Any,
    /// At least one branch, and each branch that holds evaluates items and members: `anyOf`.
    Each,
    /// Any number of branches. Each branch that holds evaluates items and members.
    Optional,
    /// Exactly one branch: the `oneOf` at this place.
    One(Rc<str>),
}

/// The keywords for arrays.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrayKeywords {
    /// Atoms of `prefixItems`.
    pub(super) prefix: Vec<AtomId>,
    /// Atom for all items after `prefix`.
    pub(super) rest: Option<AtomId>,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    pub(super) contains: Vec<Contains>,
    /// If no two items may be equal, the place of the `uniqueItems` that requires this.
    pub(super) unique: Option<String>,
    /// If two items must be equal, the place of the negated `uniqueItems` that requires this.
    pub(super) repeated: Option<String>,
    /// Atoms of `contains`. Items that satisfy one of these atoms are evaluated.
    pub(super) contained: Vec<AtomId>,
    /// Atom of `unevaluatedItems`, for the items that nothing else evaluates.
    pub(super) unevaluated: Option<AtomId>,
    /// Atom that some unevaluated item must satisfy, because of a negated `unevaluatedItems`.
    pub(super) some_unevaluated: Option<AtomId>,
}

/// Bounds on the number of items that satisfy `atom`.
#[derive(Clone, Debug)]
pub(super) struct Contains {
    /// Index of the first item that counts.
    pub(super) from: u32,
    pub(super) atom: AtomId,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    /// Place of the keyword.
    pub(super) pointer: String,
}

/// The keywords for objects.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectKeywords {
    /// Names of members, each with the atom of the value.
    pub(super) properties: Vec<(String, AtomId)>,
    /// Languages of names, each with the atom of the values: `patternProperties`.
    pub(super) patterns: Vec<(ExprId, AtomId)>,
    pub(super) required: Vec<String>,
    /// Atom for all members that neither `properties` nor `patterns` names.
    pub(super) additional: Option<AtomId>,
    /// Atom of `unevaluatedProperties`, for the members that nothing else evaluates.
    pub(super) unevaluated: Option<AtomId>,
    /// Atom that some unevaluated member must satisfy, because of a negated
    /// `unevaluatedProperties`.
    pub(super) some_unevaluated: Option<AtomId>,
    /// Atoms of `propertyNames`, which all names must satisfy. Their languages are computed on
    /// demand, because they may refer back to this atom.
    pub(super) names: Vec<AtomId>,
    /// Atoms of negated `propertyNames`. For each atom, at least one name must violate the atom.
    pub(super) other_names: Vec<AtomId>,
    /// True if the subschema has `properties` with entries.
    pub(super) declares: bool,
    /// True if a keyword applies to members that `properties` does not declare.
    pub(super) speaks_of_others: bool,
    /// Members that must exist, required by negations of the keywords above.
    pub(super) some: Vec<SomeMember>,
    pub(super) min: u32,
    /// Place of `minProperties`.
    pub(super) min_pointer: String,
    pub(super) max: Option<u32>,
}

/// A member that must exist. Its name may be any name in the language `names`, and its value must
/// satisfy `atom`.
#[derive(Clone, Debug)]
pub(super) struct SomeMember {
    pub(super) names: ExprId,
    pub(super) atom: AtomId,
    /// Place of the negated keyword.
    pub(super) pointer: String,
}

/// A keyword that cannot be enforced on values of some types.
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

impl Scalar {
    /// Returns the type of the value.
    pub(super) const fn types(&self) -> Types {
        match self {
            Self::Null => Types::NULL,
            Self::Bool(_) => Types::BOOL,
            Self::Number(_) => Types::NUMBER,
            Self::String(_) => Types::STRING,
        }
    }
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

    /// Returns true if the two sets have a type in common.
    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the types that are not in `other`.
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
    /// Returns true if the atom has `unevaluatedItems`, `unevaluatedProperties` or the negation of
    /// one of them.
    pub(super) const fn has_unevaluated(&self) -> bool {
        self.array.unevaluated.is_some() || self.object.unevaluated.is_some() || self.has_some_unevaluated()
    }

    /// Returns true if the atom requires an unevaluated item or member.
    pub(super) const fn has_some_unevaluated(&self) -> bool {
        self.array.some_unevaluated.is_some() || self.object.some_unevaluated.is_some()
    }

    /// Returns true if the atom constrains objects only through `properties` and `required`, has at
    /// least one of them, and has no nested atoms in `all` and `any`.
    pub(super) fn asks_for_members_only(&self) -> bool {
        let asks = !self.object.properties.is_empty() || !self.object.required.is_empty();
        asks && self.all.is_empty() && self.any.is_empty() && self.says_only_of_members()
    }

    /// Returns the member that the atom requires, if the atom requires exactly one [`SomeMember`]
    /// and nothing else of objects. Otherwise returns `None`.
    pub(super) fn asks_for_one_member(&self) -> Option<&SomeMember> {
        let [some] = self.object.some.as_slice() else { return None };
        let rest = ObjectKeywords { some: Vec::new(), ..self.object.clone() };
        let refused = self.refusals.iter().any(|refusal| refusal.types.has(Types::OBJECT));
        let alone = rest.is_any() && self.scalars.is_none() && self.all.is_empty() && self.any.is_empty();
        (alone && !refused && self.types.has(Types::OBJECT)).then_some(some)
    }

    /// Returns true if the atom allows objects, and its own keywords constrain objects only through
    /// `properties` and `required`. Ignores the atoms in `all` and `any`.
    pub(super) fn says_only_of_members(&self) -> bool {
        let object = &self.object;
        let by_name = object.patterns.is_empty() && object.names.is_empty() && !object.asks_for_some();
        let bounded = object.min > 0 || object.max.is_some() || object.additional.is_some();
        let evaluated = object.unevaluated.is_some() || object.some_unevaluated.is_some();
        let refused = self.refusals.iter().any(|refusal| refusal.types.has(Types::OBJECT));
        let other = bounded || evaluated || refused || self.scalars.is_some();
        by_name && !other && self.types.has(Types::OBJECT)
    }

    /// Returns true if the atom excludes some scalars and has no other keywords.
    pub(super) fn only_excludes(&self) -> bool {
        let rest = Self { excluded: BTreeSet::new(), ..self.clone() };
        rest.is_any()
    }

    /// Creates the atom without keywords, which every value satisfies.
    pub(super) fn any() -> Self {
        Self {
            types: Types::ALL,
            number: NumberRule::ANY,
            min_length: 0,
            max_length: None,
            text: Expressions::EVERYTHING,
            scalars: None,
            excluded: BTreeSet::new(),
            array: ArrayKeywords::default(),
            object: ObjectKeywords::default(),
            all: Vec::new(),
            any: Vec::new(),
            refusals: Vec::new(),
            silent: false,
        }
    }

    /// Returns the number of entries in the lists of the atom, as a measure of the work to merge
    /// the atom.
    pub(super) fn size(&self) -> usize {
        let lists = self.scalars.as_ref().map_or(0, BTreeSet::len) + self.excluded.len();
        let object = &self.object;
        let names = object.properties.len() + object.required.len() + object.names.len();
        lists + names + object.patterns.len() + object.some.len() + self.array.prefix.len() + self.any.len()
    }

    /// Creates the atom that accepts exactly the values of `types`.
    pub(super) fn of(types: Types) -> Self {
        Self { types, ..Self::any() }
    }

    /// Returns true if the atom has no keywords. If false, every value may still satisfy the atom.
    pub(super) fn is_any(&self) -> bool {
        self.is_all() && self.all.is_empty()
    }

    /// Returns true if the atom has no keywords, except that atoms may be in `all`. A lone `$ref`
    /// gives such an atom.
    pub(super) fn is_all(&self) -> bool {
        self.types == Types::ALL
            && self.number == NumberRule::ANY
            && (self.min_length, self.max_length) == (0, None)
            && self.text == Expressions::EVERYTHING
            && self.scalars.is_none()
            && self.excluded.is_empty()
            && self.array.is_any()
            && self.object.is_any()
            && self.any.is_empty()
            && self.refusals.is_empty()
    }

    /// Creates an atom that accepts the values that all of `atoms` accept.
    pub(super) fn all(atoms: Vec<AtomId>) -> Self {
        Self { all: atoms, ..Self::any() }
    }

    /// Creates an atom that accepts the values that at least one of `branches` accepts.
    pub(super) fn one_of(branches: Vec<AtomId>) -> Self {
        Self { any: vec![Choice { branches: branches.into(), kind: ChoiceKind::Any }], ..Self::any() }
    }

    /// Restricts the atom to the scalars in `values`, in addition to earlier restrictions.
    pub(super) fn list(&mut self, values: BTreeSet<Scalar>) {
        self.scalars = Some(match self.scalars.take() {
            Some(before) => before.intersection(&values).cloned().collect(),
            None => values,
        });
    }
}

impl ArrayKeywords {
    pub(super) const fn is_any(&self) -> bool {
        let bounds = matches!((self.rest, self.min, self.max), (None, 0, None));
        let counted = self.contains.is_empty() && self.contained.is_empty();
        let counted = counted && self.unique.is_none() && self.repeated.is_none();
        let evaluated = self.unevaluated.is_none() && self.some_unevaluated.is_none();
        bounds && counted && evaluated && self.prefix.is_empty()
    }
}

impl ObjectKeywords {
    /// Returns true if some member must exist whose name is not fixed.
    pub(super) const fn asks_for_some(&self) -> bool {
        !self.some.is_empty() || !self.other_names.is_empty()
    }

    pub(super) const fn is_any(&self) -> bool {
        let named = self.properties.is_empty() && self.patterns.is_empty() && self.names.is_empty();
        let bounds = matches!((self.additional, self.min, self.max), (None, 0, None));
        let evaluated = self.unevaluated.is_none() && self.some_unevaluated.is_none();
        named && bounds && evaluated && self.required.is_empty() && !self.asks_for_some()
    }
}
