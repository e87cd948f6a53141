//! Several atoms as one.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Problem;
use super::atom::{Atom, AtomId, Scalar, Types};
use crate::error::{Kind, SchemaProblem};
use crate::machine::json::decimal::Decimal;
use crate::machine::json::number::{Multiple, NumberRule};
use crate::machine::json::program::TextRule;

/// What the values are that satisfy all of some atoms, apart from their choices. Items and members are given as sets of
/// atoms again.
pub(super) struct Conjunction {
    pub(super) null: bool,
    pub(super) bools: [bool; 2],
    pub(super) numbers: Vec<NumberRule>,
    pub(super) text: Option<TextRule>,
    pub(super) words: Vec<String>,
    pub(super) array: Option<ArraySets>,
    pub(super) object: Option<ObjectSets>,
}

pub(super) struct ArraySets {
    pub(super) prefix: Vec<Vec<AtomId>>,
    pub(super) rest: Vec<AtomId>,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
}

pub(super) struct ObjectSets {
    /// In the declared order: name, what applies to its value, and whether it is required.
    pub(super) members: Vec<(String, Vec<AtomId>, bool)>,
    pub(super) additional: Vec<AtomId>,
    pub(super) min: u32,
    /// Where the largest `minProperties` stands.
    pub(super) min_pointer: String,
    pub(super) max: Option<u32>,
}

/// Merges the keywords of `atoms`, or refuses one of them that cannot be enforced on what is left.
pub(super) fn conjoin(atoms: &[Rc<Atom>]) -> Result<Conjunction, Problem> {
    let mut types = Types::ALL;
    let mut scalars: Option<BTreeSet<Scalar>> = None;
    for atom in atoms {
        types = types & atom.types;
        if let Some(values) = &atom.scalars {
            let kept = scalars.take().map(|kept| kept.intersection(values).cloned().collect());
            scalars = Some(kept.unwrap_or_else(|| values.clone()));
        }
    }
    let number = conjoin_numbers(atoms, types)?;
    let text = TextRule {
        min: atoms.iter().map(|atom| atom.min_length).max().unwrap_or(0),
        max: atoms.iter().filter_map(|atom| atom.max_length).min(),
    };
    let mut conjunction = match scalars {
        Some(scalars) => listed(&scalars, types, &number, &text),
        None => Conjunction {
            null: types.has(Types::NULL),
            bools: [types.has(Types::BOOL); 2],
            numbers: if types.has(Types::NUMBER) { vec![number] } else { Vec::new() },
            text: (types.has(Types::STRING) && text.max.is_none_or(|max| max >= text.min)).then_some(text),
            words: Vec::new(),
            array: types.has(Types::ARRAY).then(|| conjoin_arrays(atoms)),
            object: types.has(Types::OBJECT).then(|| conjoin_objects(atoms)),
        },
    };
    // Nothing is left of either where a bound is empty; costs find the deeper cases.
    conjunction.array = conjunction.array.filter(|array| array.max.is_none_or(|max| max >= array.min));
    conjunction.object = conjunction.object.filter(|object| object.max.is_none_or(|max| max >= object.min));
    let left = conjunction.types();
    match atoms.iter().flat_map(|atom| &atom.refusals).find(|refusal| left.has(refusal.types)) {
        Some(refusal) => Err(Problem(Kind::Schema {
            pointer: refusal.pointer.clone(),
            keyword: refusal.keyword.clone(),
            problem: refusal.problem.clone(),
        })),
        None => Ok(conjunction),
    }
}

impl Conjunction {
    fn types(&self) -> Types {
        let present = [
            (self.null, Types::NULL),
            (self.bools.contains(&true), Types::BOOL),
            (!self.numbers.is_empty(), Types::NUMBER),
            (self.text.is_some() || !self.words.is_empty(), Types::STRING),
            (self.array.is_some(), Types::ARRAY),
            (self.object.is_some(), Types::OBJECT),
        ];
        present.iter().filter(|(present, _)| *present).fold(Types::NONE, |all, &(_, one)| all | one)
    }
}

fn listed(scalars: &BTreeSet<Scalar>, types: Types, number: &NumberRule, text: &TextRule) -> Conjunction {
    let mut conjunction = Conjunction {
        null: false,
        bools: [false; 2],
        numbers: Vec::new(),
        text: None,
        words: Vec::new(),
        array: None,
        object: None,
    };
    for scalar in scalars {
        match scalar {
            Scalar::Null => conjunction.null = types.has(Types::NULL),
            Scalar::Bool(value) => conjunction.bools[usize::from(*value)] = types.has(Types::BOOL),
            Scalar::Number(value) if types.has(Types::NUMBER) => {
                conjunction.numbers.extend(number.literal(value));
            }
            Scalar::String(word) if types.has(Types::STRING) => {
                let len = word.chars().count();
                let fits = len >= text.min as usize && text.max.is_none_or(|max| len <= max as usize);
                conjunction.words.extend(fits.then(|| word.clone()));
            }
            Scalar::Number(_) | Scalar::String(_) => {}
        }
    }
    conjunction
}

fn conjoin_numbers(atoms: &[Rc<Atom>], types: Types) -> Result<NumberRule, Problem> {
    let mut all = NumberRule::ANY;
    for rule in atoms.iter().map(|atom| &atom.number) {
        all.form = all.form.max(rule.form);
        if let Some(low) = &rule.low {
            all.above(low.clone());
        }
        if let Some(high) = &rule.high {
            all.below(high.clone());
        }
        if let (Some(a), Some(b)) = (all.multiple_of, rule.multiple_of) {
            let multiple = common_multiple(a, b);
            if multiple.is_none() && types.has(Types::NUMBER) {
                let reason = "two divisors that apply together have too large a common multiple";
                return Err(Problem::new("", "multipleOf", SchemaProblem::UnsupportedForm { reason }));
            }
            all.multiple_of = multiple;
        } else {
            all.multiple_of = all.multiple_of.or(rule.multiple_of);
        }
    }
    Ok(all)
}

fn common_multiple(a: Multiple, b: Multiple) -> Option<Multiple> {
    const fn divisor(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { divisor(b, a % b) }
    }
    let places = a.places.max(b.places);
    let scaled = |multiple: Multiple| {
        u64::from(multiple.units).checked_mul(10u64.checked_pow(u32::from(places - multiple.places))?)
    };
    let (a, b) = (scaled(a)?, scaled(b)?);
    let value = Decimal::from_scaled(a.checked_mul(b / divisor(a, b))?, usize::from(places));
    let places = value.fraction.len();
    let units = value.scaled(places).filter(|&units| units <= 1 << 20)?;
    Some(Multiple { units: units as u32, places: places as u16 })
}

fn conjoin_arrays(atoms: &[Rc<Atom>]) -> ArraySets {
    let arrays = || atoms.iter().map(|atom| &atom.array);
    let longest = arrays().map(|array| array.prefix.len()).max().unwrap_or(0);
    let item =
        |at: usize| arrays().filter_map(|array| array.prefix.get(at).copied().or(array.rest)).collect();
    ArraySets {
        prefix: (0..longest).map(item).collect(),
        rest: arrays().filter_map(|array| array.rest).collect(),
        min: arrays().map(|array| array.min).max().unwrap_or(0),
        max: arrays().filter_map(|array| array.max).min(),
    }
}

fn conjoin_objects(atoms: &[Rc<Atom>]) -> ObjectSets {
    let objects = || atoms.iter().map(|atom| &atom.object);
    let required: FxHashSet<&str> =
        objects().flat_map(|object| object.required.iter().map(String::as_str)).collect();
    let declared: Vec<FxHashMap<&str, AtomId>> = objects()
        .map(|object| object.properties.iter().map(|(name, atom)| (name.as_str(), *atom)).collect())
        .collect();
    let names = objects().flat_map(|object| object.properties.iter().map(|(name, _)| name));
    let names = names.chain(objects().flat_map(|object| &object.required));
    let mut met = FxHashSet::default();
    let member = |name: &String| {
        let atoms = objects().zip(&declared);
        let atoms =
            atoms.filter_map(|(object, declared)| declared.get(name.as_str()).copied().or(object.additional));
        (name.clone(), atoms.collect(), required.contains(name.as_str()))
    };
    let least = objects().max_by_key(|object| object.min);
    ObjectSets {
        members: names.filter(|name| met.insert(name.as_str())).map(member).collect(),
        additional: objects().filter_map(|object| object.additional).collect(),
        min: least.map_or(0, |object| object.min),
        min_pointer: least.map(|object| object.min_pointer.clone()).unwrap_or_default(),
        max: objects().filter_map(|object| object.max).min(),
    }
}
