//! Merges the keywords of several atoms.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::atom::{Atom, AtomId, Contains, Scalar, SomeMember, Types};
use super::groups::Group;
use super::read::Atoms;
use super::text::matches;
use super::unevaluated::{self, Members};
use super::{Problem, child_pointer};
use crate::error::{Kind, SchemaProblem};
use crate::ir::json::number::{Bound, NumberRule, normalize};
use crate::ir::json::program::TextRule;
use crate::regular::{ExprId, Expressions};

/// The values that satisfy several atoms at once, ignoring the choices of the atoms. Each item and
/// member is given as the set of atoms that apply to it.
pub(super) struct Conjunction {
    pub(super) null: bool,
    /// True for each accepted boolean: `false` first, then `true`.
    pub(super) bools: [bool; 2],
    pub(super) numbers: Vec<NumberRule>,
    pub(super) text: Option<StringSet>,
    /// Strings that `enum` or `const` lists.
    pub(super) words: Vec<String>,
    pub(super) array: Option<ArraySets>,
    pub(super) object: Option<ObjectSets>,
}

/// Strings of a language, with bounds on their length.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct StringSet {
    pub(super) length: TextRule,
    pub(super) language: ExprId,
}

/// The arrays of a [`Conjunction`].
pub(super) struct ArraySets {
    /// For each of the first items, the atoms that apply.
    pub(super) prefix: Vec<Vec<AtomId>>,
    /// The atoms that apply to every later item.
    pub(super) rest: Vec<AtomId>,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    pub(super) contains: Vec<Contains>,
    /// If no two items may be equal, the place of the `uniqueItems` that requires this.
    pub(super) unique: Option<String>,
    /// If two items must be equal, the place of the negated `uniqueItems` that requires this.
    pub(super) repeated: Option<String>,
}

/// The objects of a [`Conjunction`].
#[derive(Clone)]
pub(super) struct ObjectSets {
    /// The declared members, in declaration order.
    pub(super) members: Vec<MemberSet>,
    /// The distinct languages of `patternProperties`.
    pub(super) patterns: Vec<ExprId>,
    /// For each subschema, its rules for undeclared names.
    pub(super) scopes: Vec<Scope>,
    /// The language of the names that `propertyNames` allows.
    pub(super) names: ExprId,
    /// Members that must exist and have no fixed name.
    pub(super) some: Vec<SomeMember>,
    /// True if some subschema has `properties` with entries, and no keyword applies to undeclared
    /// members. The option [`Undeclared`](crate::options::Undeclared) decides about these members.
    pub(super) silent: bool,
    pub(super) min: u32,
    /// Place of the largest `minProperties`.
    pub(super) min_pointer: String,
    pub(super) max: Option<u32>,
}

/// A declared member.
#[derive(Clone)]
pub(super) struct MemberSet {
    pub(super) name: String,
    /// The atoms that apply to the value.
    pub(super) atoms: Vec<AtomId>,
    pub(super) required: bool,
    /// True if `propertyNames` allows the name.
    pub(super) allowed: bool,
    /// True if only alternatives of groups mention the name.
    pub(super) only_grouped: bool,
}

/// The rules of one subschema for members by name. `patterns` holds `patternProperties`: an index
/// into [`ObjectSets::patterns`], and the atom of the value. `additional` holds
/// `additionalProperties`.
///
/// A scope can also hold an `unevaluatedProperties`. Its patterns then match the evaluated names
/// and have no atom.
#[derive(Clone)]
pub(super) struct Scope {
    patterns: Vec<(usize, Option<AtomId>)>,
    additional: Option<AtomId>,
}

impl Scope {
    /// Returns the atoms that apply to a member with some name. `own` holds the entry of the name
    /// in `properties`, if any. `matches` returns true for the index of a pattern that matches the
    /// name.
    fn of_name(&self, own: &[Option<AtomId>], matches: impl Fn(usize) -> bool) -> Vec<AtomId> {
        let patterns = self.patterns.iter().filter(|(pattern, _)| matches(*pattern)).map(|&(_, atom)| atom);
        let named: Vec<_> = own.iter().copied().chain(patterns).collect();
        if named.is_empty() {
            self.additional.into_iter().collect()
        } else {
            named.into_iter().flatten().collect()
        }
    }
}

impl ObjectSets {
    /// Returns the atoms that apply to a member with an undeclared name. `matches` returns true for
    /// the index of a pattern that matches the name.
    pub(super) fn of_name(&self, matches: impl Fn(usize) -> bool) -> Vec<AtomId> {
        self.scopes.iter().flat_map(|scope| scope.of_name(&[], &matches)).collect()
    }
}

/// Merges the keywords of `atoms`. `ids` has the id of each atom. `groups` has choices about
/// members that are left open.
///
/// # Errors
/// Returns an error if a keyword cannot be enforced on the remaining values.
pub(super) fn conjoin(
    ids: &[AtomId],
    atoms: &[Rc<Atom>],
    groups: &[Group],
    all: &mut Atoms<'_>,
) -> Result<Conjunction, Problem> {
    let mut types = Types::ALL;
    let mut scalars: Option<BTreeSet<Scalar>> = None;
    let mut excluded: BTreeSet<&Scalar> = BTreeSet::new();
    for atom in atoms {
        types = types & atom.types;
        excluded.extend(&atom.excluded);
        if let Some(values) = &atom.scalars {
            let kept = scalars.take().map(|kept| kept.intersection(values).cloned().collect());
            scalars = Some(kept.unwrap_or_else(|| values.clone()));
        }
    }
    let has_parts = scalars.is_none() && (types.has(Types::ARRAY) || types.has(Types::OBJECT));
    let by_id: Members<'_> = ids.iter().copied().zip(atoms).filter(|_| has_parts).collect();
    all.ledger.check()?;
    let number = conjoin_numbers(ids, atoms, types, all)?;
    let text = conjoin_strings(atoms, &excluded, all);
    let mut conjunction = match scalars {
        Some(mut scalars) => {
            scalars.retain(|scalar| !excluded.contains(scalar));
            listed(&scalars, types, &number, &text, all)
        }
        None => Conjunction {
            null: types.has(Types::NULL) && !excluded.contains(&Scalar::Null),
            bools: [false, true]
                .map(|value| types.has(Types::BOOL) && !excluded.contains(&Scalar::Bool(value))),
            numbers: if types.has(Types::NUMBER) { without(number, &excluded) } else { Vec::new() },
            text: Some(text).filter(|text| {
                types.has(Types::STRING)
                    && text.length.max.is_none_or(|max| max >= text.length.min)
                    && text.language != Expressions::NOTHING
            }),
            words: Vec::new(),
            array: types.has(Types::ARRAY).then(|| conjoin_arrays(ids, &by_id, all)).flatten(),
            object: types
                .has(Types::OBJECT)
                .then(|| conjoin_objects(ids, &by_id, groups, all))
                .transpose()?
                .flatten(),
        },
    };
    all.ledger.check()?;
    conjunction.numbers = normalize(conjunction.numbers);
    // Contradictory bounds leave no array or object. The solver finds less obvious cases.
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

/// Returns the values in `scalars` that have one of the `types`, satisfy `number` and are in
/// `text`.
fn listed(
    scalars: &BTreeSet<Scalar>,
    types: Types,
    number: &NumberRule,
    text: &StringSet,
    all: &mut Atoms<'_>,
) -> Conjunction {
    let mut conjunction = Conjunction {
        null: false,
        bools: [false; 2],
        numbers: Vec::new(),
        text: None,
        words: Vec::new(),
        array: None,
        object: None,
    };
    let TextRule { min, max } = text.length;
    for scalar in scalars {
        match scalar {
            Scalar::Null => conjunction.null = types.has(Types::NULL),
            Scalar::Bool(value) => conjunction.bools[usize::from(*value)] = types.has(Types::BOOL),
            Scalar::Number(value) if types.has(Types::NUMBER) => {
                conjunction.numbers.extend(number.literal(value));
            }
            Scalar::String(word) if types.has(Types::STRING) => {
                let len = word.chars().count();
                let fits = len >= min as usize && max.is_none_or(|max| len <= max as usize);
                let fits = fits && matches(&mut all.expressions, text.language, word);
                conjunction.words.extend(fits.then(|| word.clone()));
            }
            Scalar::Number(_) | Scalar::String(_) => {}
        }
    }
    conjunction
}

fn conjoin_strings(atoms: &[Rc<Atom>], excluded: &BTreeSet<&Scalar>, all: &mut Atoms<'_>) -> StringSet {
    let length = TextRule {
        min: atoms.iter().map(|atom| atom.min_length).max().unwrap_or(0),
        max: atoms.iter().filter_map(|atom| atom.max_length).min(),
    };
    let mut languages: Vec<_> = atoms.iter().map(|atom| atom.text).collect();
    if excluded.iter().any(|scalar| matches!(scalar, Scalar::String(_))) {
        let words = all.words(excluded.iter().copied());
        languages.push(all.expressions.not(words));
    }
    StringSet { length, language: all.expressions.all_of(languages) }
}

/// Returns the numbers of `rule` without the excluded values, as the intervals between these
/// values.
fn without(rule: NumberRule, excluded: &BTreeSet<&Scalar>) -> Vec<NumberRule> {
    let mut values: Vec<_> = excluded
        .iter()
        .filter_map(|scalar| match scalar {
            Scalar::Number(value) => Some(value),
            _ => None,
        })
        .collect();
    values.sort_unstable();
    let mut rest = rule;
    let mut gaps = Vec::new();
    for value in values {
        let bound = Bound { value: value.clone(), inclusive: false };
        let mut below = rest.clone();
        below.below(bound.clone());
        gaps.push(below);
        rest.above(bound);
    }
    gaps.push(rest);
    gaps
}

fn conjoin_numbers(
    ids: &[AtomId],
    atoms: &[Rc<Atom>],
    types: Types,
    places: &Atoms<'_>,
) -> Result<NumberRule, Problem> {
    let mut all = NumberRule::ANY;
    if !types.has(Types::NUMBER) {
        return Ok(all);
    }
    for (&id, rule) in ids.iter().zip(atoms.iter().map(|atom| &atom.number)) {
        all.form = all.form.max(rule.form);
        if let Some(low) = &rule.low {
            all.above(low.clone());
        }
        if let Some(high) = &rule.high {
            all.below(high.clone());
        }
        let forms = [all.other_than, rule.other_than].into_iter().flatten();
        all.other_than = forms.min();
        for multiple in &rule.indivisible {
            if !all.indivisible.contains(multiple) {
                all.indivisible.push(*multiple);
            }
        }
        all.multiple_of = match (all.multiple_of, rule.multiple_of) {
            (Some(a), Some(b)) => Some(a.common(b).ok_or_else(|| too_large_multiple(id, places))?),
            (a, b) => a.or(b),
        };
    }
    all.indivisible.sort_unstable();
    Ok(all)
}

fn too_large_multiple(id: AtomId, places: &Atoms<'_>) -> Problem {
    let reason = "the least common multiple of the divisors that apply together has more than 64 bits";
    let pointer = child_pointer(&places.place(id), "multipleOf");
    Problem::new(&pointer, "multipleOf", SchemaProblem::UnsupportedForm { reason })
}

/// Returns the arrays that satisfy the atoms `ids`, or `None` if no array does.
fn conjoin_arrays(ids: &[AtomId], by_id: &Members<'_>, all: &mut Atoms<'_>) -> Option<ArraySets> {
    let some = unevaluated::some_items(by_id, ids, all)?;
    let arrays = || ids.iter().map(|id| &by_id[id].array);
    let unique = arrays().find_map(|array| array.unique.clone());
    let repeated = arrays().find_map(|array| array.repeated.clone());
    if unique.is_some() && repeated.is_some() {
        return None;
    }
    let unevaluated = unevaluated::items(by_id, ids, all);
    let longest = arrays().map(|array| array.prefix.len()).max().unwrap_or(0);
    all.ledger.note(longest * (1 + ids.len()));
    if all.ledger.is_over() {
        return None;
    }
    let item = |at: usize| {
        let own = arrays().filter_map(|array| array.prefix.get(at).copied().or(array.rest));
        own.chain(unevaluated.iter().filter(|items| at >= items.from).map(|items| items.atom)).collect()
    };
    Some(ArraySets {
        prefix: (0..longest).map(item).collect(),
        rest: item(longest),
        min: arrays().map(|array| array.min).max().unwrap_or(0),
        max: arrays().filter_map(|array| array.max).min(),
        contains: arrays().flat_map(|array| array.contains.iter().cloned()).chain(some).collect(),
        unique,
        repeated,
    })
}

/// Returns the objects that satisfy the atoms `ids`, or `None` if no object does.
fn conjoin_objects(
    ids: &[AtomId],
    by_id: &Members<'_>,
    groups: &[Group],
    all: &mut Atoms<'_>,
) -> Result<Option<ObjectSets>, Problem> {
    let Some(mut some) = unevaluated::some_properties(by_id, ids, all) else { return Ok(None) };
    let objects = || ids.iter().map(|id| &by_id[id].object);
    let mut patterns: Vec<ExprId> = Vec::new();
    let mut index = |language: ExprId| {
        let known = patterns.iter().position(|&known| known == language);
        known.unwrap_or_else(|| {
            patterns.push(language);
            patterns.len() - 1
        })
    };
    let mut scopes = Vec::new();
    let mut declared = Declared::default();
    for object in objects() {
        let patterns: Vec<_> =
            object.patterns.iter().map(|&(names, atom)| (index(names), Some(atom))).collect();
        let names = object.properties.iter().map(|(name, atom)| (name.as_str(), Some(*atom)));
        declared.add(Scope { patterns, additional: object.additional }, names, &mut scopes);
    }
    for unevaluated in unevaluated::properties(by_id, ids) {
        let patterns = unevaluated.patterns.into_iter().map(|names| (index(names), None)).collect();
        let names = unevaluated.names.into_iter().map(|name| (name, None));
        declared.add(Scope { patterns, additional: Some(unevaluated.atom) }, names, &mut scopes);
    }
    let (mut languages, mut mentioned) = (Vec::new(), Vec::new());
    for &names in objects().flat_map(|object| &object.names) {
        languages.push(all.name_language(names)?);
        mentioned.extend(all.listed_names(names)?);
    }
    for &names in objects().flat_map(|object| &object.other_names) {
        let language = all.name_language(names)?;
        let (names, pointer) = (all.expressions.not(language), all.place(names));
        some.push(SomeMember { names, atom: all.anything(), pointer });
    }
    let names = all.expressions.all_of(languages);
    let least = objects().max_by_key(|object| object.min);
    let mut sets = ObjectSets {
        members: Vec::new(),
        patterns,
        scopes,
        names,
        some: objects().flat_map(|object| object.some.iter().cloned()).chain(some).collect(),
        silent: objects().any(|object| object.declares) && !objects().any(|object| object.speaks_of_others),
        min: least.map_or(0, |object| object.min),
        min_pointer: least.map(|object| object.min_pointer.clone()).unwrap_or_default(),
        max: objects().filter_map(|object| object.max).min(),
    };
    let required: FxHashSet<&str> =
        objects().flat_map(|object| object.required.iter().map(String::as_str)).collect();
    let own = objects().flat_map(|object| object.properties.iter().map(|(name, _)| name));
    let names = own.chain(&mentioned).chain(objects().flat_map(|object| &object.required));
    let grouped = groups.iter().flat_map(|group| &group.names);
    let names = names.map(|name| (name, false)).chain(grouped.map(|name| (name, true)));
    let mut met = FxHashSet::default();
    // Each name is matched with each pattern and each scope.
    let tries = 1 + sets.scopes.len() + 4 * sets.patterns.len();
    for (name, only_grouped) in names.filter(|(name, _)| met.insert(name.as_str())) {
        all.ledger.check()?;
        all.ledger.note(tries * (8 + name.len() / 8));
        let atoms = declared.of(name, &sets, all);
        let required = required.contains(name.as_str());
        let allowed = matches(&mut all.expressions, sets.names, name);
        sets.members.push(MemberSet { name: name.clone(), atoms, required, allowed, only_grouped });
    }
    Ok(Some(sets))
}

/// For each declared name, the subschemas that declare it.
#[derive(Default)]
struct Declared<'a> {
    /// Number of subschemas added so far.
    count: usize,
    /// For each name, the indices of the subschemas that declare the name, each with the atom of
    /// the value. The atom is `None` if the name is only evaluated.
    by_name: FxHashMap<&'a str, Vec<(usize, Option<AtomId>)>>,
    /// For each scope, the index of the subschema that the scope belongs to.
    owners: Vec<usize>,
}

impl<'a> Declared<'a> {
    /// Adds a subschema, which declares `names`. Appends `scope` to `scopes`, unless the scope has
    /// no rules for other names.
    fn add(
        &mut self,
        scope: Scope,
        names: impl Iterator<Item = (&'a str, Option<AtomId>)>,
        scopes: &mut Vec<Scope>,
    ) {
        let owner = self.count;
        self.count += 1;
        for (name, atom) in names {
            let declared = self.by_name.entry(name).or_default();
            if declared.last().is_none_or(|&(last, _)| last != owner) {
                declared.push((owner, atom));
            }
        }
        if scope.additional.is_some() || !scope.patterns.is_empty() {
            self.owners.push(owner);
            scopes.push(scope);
        }
    }

    /// Returns the atoms that apply to the member called `name`, in the order of the subschemas.
    fn of(&self, name: &str, sets: &ObjectSets, all: &mut Atoms<'_>) -> Vec<AtomId> {
        let expressions = &mut all.expressions;
        let matched: Vec<bool> =
            sets.patterns.iter().map(|&language| matches(expressions, language, name)).collect();
        let mut own = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        let mut atoms = Vec::new();
        for (&owner, scope) in self.owners.iter().zip(&sets.scopes) {
            while let Some((&(declaring, atom), rest)) = own.split_first()
                && declaring < owner
            {
                atoms.extend(atom);
                own = rest;
            }
            let declared = match own.split_first() {
                Some((&(declaring, atom), rest)) if declaring == owner => {
                    own = rest;
                    Some(atom)
                }
                _ => None,
            };
            atoms.extend(scope.of_name(declared.as_slice(), |at| matched[at]));
        }
        atoms.extend(own.iter().filter_map(|&(_, atom)| atom));
        atoms
    }
}
