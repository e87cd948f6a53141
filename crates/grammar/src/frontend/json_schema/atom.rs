use std::collections::BTreeSet;
use std::ops::{BitAnd, BitOr};
use std::rc::Rc;

use crate::error::SchemaProblem;
use crate::ir::json::decimal::Decimal;
use crate::ir::json::number::NumberRule;
use crate::regular::{ExprId, Expressions};

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
    /// The strings that `pattern` and `format` allow.
    pub(super) text: ExprId,
    /// `enum` and `const`, as far as they list strings, numbers, booleans and null.
    pub(super) scalars: Option<BTreeSet<Scalar>>,
    /// What a negated `enum` or `const` leaves out.
    pub(super) excluded: BTreeSet<Scalar>,
    pub(super) array: ArrayKeywords,
    pub(super) object: ObjectKeywords,
    /// What must hold beside this atom: `allOf`, then `$ref`.
    pub(super) all: Vec<AtomId>,
    /// Of each, one branch must hold.
    pub(super) any: Vec<Choice>,
    /// Keywords that cannot be enforced.
    pub(super) refusals: Vec<Refusal>,
    /// Whether it evaluates nothing, as under `not`.
    pub(super) silent: bool,
}

/// A branch of `anyOf`, `oneOf` or of what can be written with them.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) branches: Rc<[AtomId]>,
    pub(super) kind: ChoiceKind,
}

/// How many branches may hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ChoiceKind {
    /// One or more, and which of them do makes no difference.
    Any,
    /// One or more, and each that holds evaluates items and members: `anyOf`.
    Each,
    /// Any number: which of them do matters only for what they evaluate.
    Optional,
    /// Exactly one: the `oneOf` at this place.
    One(Rc<str>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct ArrayKeywords {
    pub(super) prefix: Vec<AtomId>,
    pub(super) rest: Option<AtomId>,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    pub(super) contains: Vec<Contains>,
    /// Where it stands that no two items may be equal.
    pub(super) unique: Option<String>,
    /// Where it stands that they may not, which is negated: two items are equal.
    pub(super) repeated: Option<String>,
    /// Items that satisfy one of these are evaluated.
    pub(super) contained: Vec<AtomId>,
    /// What applies to the items that nothing else evaluates.
    pub(super) unevaluated: Option<AtomId>,
    /// What one of these satisfies at least: the negation of an `unevaluatedItems`.
    pub(super) some_unevaluated: Option<AtomId>,
}

/// How many items satisfy an atom.
#[derive(Clone, Debug)]
pub(super) struct Contains {
    /// Items before this index do not count.
    pub(super) from: u32,
    pub(super) atom: AtomId,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    /// Where the keyword stands.
    pub(super) pointer: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ObjectKeywords {
    pub(super) properties: Vec<(String, AtomId)>,
    /// What applies to the members whose names are in a language.
    pub(super) patterns: Vec<(ExprId, AtomId)>,
    pub(super) required: Vec<String>,
    /// What applies to all members that neither `properties` nor `patterns` name.
    pub(super) additional: Option<AtomId>,
    /// What applies to the members that nothing else evaluates.
    pub(super) unevaluated: Option<AtomId>,
    /// What one of these satisfies at least: the negation of an `unevaluatedProperties`.
    pub(super) some_unevaluated: Option<AtomId>,
    /// What all names must satisfy. Their languages are worked out where they are needed, since they may lead back here.
    pub(super) names: Vec<AtomId>,
    /// Of each, some name must not satisfy it.
    pub(super) other_names: Vec<AtomId>,
    /// Whether there are `properties`, even none.
    pub(super) declares: bool,
    /// Whether a keyword speaks about the members that `properties` does not declare.
    pub(super) speaks_of_others: bool,
    /// Of each, some member must exist: what the negations of the keywords above say.
    pub(super) some: Vec<SomeMember>,
    pub(super) min: u32,
    /// Where `minProperties` stands.
    pub(super) min_pointer: String,
    pub(super) max: Option<u32>,
}

/// A member with a name in a language and a value that satisfies an atom.
#[derive(Clone, Debug)]
pub(super) struct SomeMember {
    pub(super) names: ExprId,
    pub(super) atom: AtomId,
    /// Where the negated keyword stands.
    pub(super) pointer: String,
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

impl Scalar {
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
    /// Whether it says something about what nothing else evaluates.
    pub(super) const fn has_unevaluated(&self) -> bool {
        self.array.unevaluated.is_some() || self.object.unevaluated.is_some() || self.has_some_unevaluated()
    }

    /// Whether it asks for something that nothing else evaluates.
    pub(super) const fn has_some_unevaluated(&self) -> bool {
        self.array.some_unevaluated.is_some() || self.object.some_unevaluated.is_some()
    }

    /// Whether it asks for names and the values of names, and for nothing else of an object.
    pub(super) fn asks_for_members_only(&self) -> bool {
        let asks = !self.object.properties.is_empty() || !self.object.required.is_empty();
        asks && self.all.is_empty() && self.any.is_empty() && self.says_only_of_members()
    }

    /// The member that it asks for, if it asks for nothing else of objects.
    pub(super) fn asks_for_one_member(&self) -> Option<&SomeMember> {
        let [some] = self.object.some.as_slice() else { return None };
        let rest = ObjectKeywords { some: Vec::new(), ..self.object.clone() };
        let refused = self.refusals.iter().any(|refusal| refusal.types.has(Types::OBJECT));
        let alone = rest.is_any() && self.scalars.is_none() && self.all.is_empty() && self.any.is_empty();
        (alone && !refused && self.types.has(Types::OBJECT)).then_some(some)
    }

    /// Whether it says something of objects by names of members only, apart from what holds beside it.
    pub(super) fn says_only_of_members(&self) -> bool {
        let object = &self.object;
        let by_name = object.patterns.is_empty() && object.names.is_empty() && !object.asks_for_some();
        let bounded = object.min > 0 || object.max.is_some() || object.additional.is_some();
        let evaluated = object.unevaluated.is_some() || object.some_unevaluated.is_some();
        let refused = self.refusals.iter().any(|refusal| refusal.types.has(Types::OBJECT));
        let other = bounded || evaluated || refused || self.scalars.is_some();
        by_name && !other && self.types.has(Types::OBJECT)
    }

    /// Whether it leaves out some scalars, and asks for nothing else.
    pub(super) fn only_excludes(&self) -> bool {
        let rest = Self { excluded: BTreeSet::new(), ..self.clone() };
        rest.is_any()
    }

    /// No keyword at all: every value.
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

    /// The number of parts that a conjunction with it looks at.
    pub(super) fn size(&self) -> usize {
        let lists = self.scalars.as_ref().map_or(0, BTreeSet::len) + self.excluded.len();
        let object = &self.object;
        let names = object.properties.len() + object.required.len() + object.names.len();
        lists + names + object.patterns.len() + object.some.len() + self.array.prefix.len() + self.any.len()
    }

    /// Values of some types.
    pub(super) fn of(types: Types) -> Self {
        Self { types, ..Self::any() }
    }

    /// Whether every value satisfies it, which is certain only if so.
    pub(super) fn is_any(&self) -> bool {
        self.is_all() && self.all.is_empty()
    }

    /// Whether it is no more than all of the atoms that must hold beside it, like a lone reference.
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

    /// What holds where all of `atoms` do.
    pub(super) fn all(atoms: Vec<AtomId>) -> Self {
        Self { all: atoms, ..Self::any() }
    }

    /// What holds where one of `branches` does.
    pub(super) fn one_of(branches: Vec<AtomId>) -> Self {
        Self { any: vec![Choice { branches: branches.into(), kind: ChoiceKind::Any }], ..Self::any() }
    }

    /// Narrows the listed scalars to those of `values` too.
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
    /// Whether some member must exist that is not named.
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
