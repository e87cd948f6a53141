//! Detects early that no object satisfies a conjunction.
//!
//! Branches often all require the same member, but each with a different value. The choices about
//! one value multiply, and so do the pairs of branches of a long `oneOf`. Nearly all combinations
//! contradict themselves in such a member. The keywords alone reveal this, so these combinations
//! are never built. The solver finds all other contradictions.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Problem;
use super::atom::{Atom, AtomId, Scalar, Types};
use super::choose::Open;
use super::read::Atoms;
use super::text::matches;
use crate::regular::ExprId;

/// The distinguishing members of an atom, by name. These are the `properties` whose atom lists
/// values, excludes values or accepts no value, so that they can contradict those of another atom.
pub(super) type Marks = Rc<[(String, Rc<Atom>)]>;

/// Facts about the members of every object that satisfies a conjunction.
#[derive(Default)]
pub(super) struct Facts {
    /// Names of required members.
    required: FxHashSet<String>,
    /// For each name, the atoms in `properties` that list the member's values.
    listed: FxHashMap<String, Vec<Rc<Atom>>>,
    /// The entries of `properties`: the name, and the atom of the value.
    properties: FxHashSet<(String, AtomId)>,
    /// Members that must exist: the language of the name, and the atom of the value.
    some: Vec<(ExprId, AtomId)>,
    /// The allowed names, if some atom allows only the names in its `properties`. Otherwise `None`.
    names: Option<Vec<String>>,
    /// For each language, one flag for each entry of `names`: true if the language contains the name.
    members: FxHashMap<ExprId, Rc<[bool]>>,
}

impl Atoms<'_> {
    /// Removes the object type from `open` if the atoms require a member that cannot exist: no
    /// value is possible for the member, or its name is not allowed.
    pub(super) fn narrow(&mut self, open: &mut Open) -> Result<(), Problem> {
        if !open.types.has(Types::OBJECT) {
            return Ok(());
        }
        let mut members: FxHashMap<String, Vec<Rc<Atom>>> = FxHashMap::default();
        let mut atoms = Vec::with_capacity(open.conjunction.len());
        for &id in &open.conjunction {
            atoms.push(self.get(id)?);
            for (name, atom) in self.marks(id)?.iter() {
                members.entry(name.clone()).or_default().push(Rc::clone(atom));
            }
        }
        let required = || atoms.iter().flat_map(|atom| &atom.object.required);
        self.ledger.spend(4 * (atoms.len() + required().count()))?;
        let contradicts = |name: &String| members.get(name).is_some_and(|member| is_contradiction(member));
        if required().any(contradicts) || self.closes_out(&atoms)? {
            open.types = open.types.without(Types::OBJECT);
        }
        Ok(())
    }

    /// Returns true if one atom allows only its own names, and another atom requires a different name.
    fn closes_out(&mut self, atoms: &[Rc<Atom>]) -> Result<bool, Problem> {
        for closed in atoms {
            let Some(additional) = closed.object.additional else { continue };
            if !closed.object.patterns.is_empty() || !self.get(additional)?.types.is_empty() {
                continue;
            }
            let own: FxHashSet<&str> =
                closed.object.properties.iter().map(|(name, _)| name.as_str()).collect();
            let required = || atoms.iter().flat_map(|atom| &atom.object.required);
            self.ledger.spend(own.len() + 4 * required().count())?;
            if required().any(|name| !own.contains(name.as_str())) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the required members of `open` whose values are listed: the name and the listed
    /// values.
    pub(super) fn keys(&mut self, open: &Open) -> Result<FxHashMap<String, Vec<Scalar>>, Problem> {
        let mut keys: FxHashMap<String, Vec<Scalar>> = FxHashMap::default();
        let mut required: FxHashSet<String> = FxHashSet::default();
        for &id in &open.conjunction {
            required.extend(self.get(id)?.object.required.iter().cloned());
            self.ledger.spend(4)?;
        }
        for &id in &open.conjunction {
            for (name, atom) in self.marks(id)?.iter() {
                if let Some(scalars) = atom.scalars.as_ref().filter(|_| required.contains(name)) {
                    keys.insert(name.clone(), scalars.iter().cloned().collect());
                }
            }
        }
        Ok(keys)
    }

    /// Collects the facts about members from the atoms of `open`.
    pub(super) fn facts(&mut self, open: &Open) -> Result<Facts, Problem> {
        let mut facts = Facts::default();
        for &id in &open.conjunction {
            let atom = self.get(id)?;
            self.ledger.spend(4 + 4 * atom.size())?;
            facts.required.extend(atom.object.required.iter().cloned());
            facts.properties.extend(atom.object.properties.iter().cloned());
            facts.some.extend(atom.object.some.iter().map(|some| (some.names, some.atom)));
            for (name, member) in self.marks(id)?.iter().filter(|(_, member)| member.scalars.is_some()) {
                facts.listed.entry(name.clone()).or_default().push(Rc::clone(member));
            }
            if facts.names.is_none()
                && atom.object.patterns.is_empty()
                && let Some(additional) = atom.object.additional
                && self.get(additional)?.types.is_empty()
            {
                let names = atom.object.properties.iter().map(|(name, _)| name.clone()).collect();
                facts.names = Some(names);
            }
        }
        Ok(facts)
    }

    /// Returns true if at least one of the branches certainly holds for all objects that have the
    /// `facts`.
    ///
    /// The check recognises two kinds of branches:
    /// - A branch that constrains objects only through `properties` and `required`. Its names must
    ///   be required already, and its properties must hold already. A property holds if the
    ///   conjunction has the same property, or lists only values that the property does not
    ///   exclude.
    /// - A branch that requires one member, with any value. All allowed names must be known, and a
    ///   required member must match.
    pub(super) fn implied(&mut self, facts: &mut Facts, branches: &[AtomId]) -> Result<bool, Problem> {
        for &branch in branches {
            let atom = self.get(branch)?;
            self.ledger.spend(8 + 4 * atom.size())?;
            if atom.asks_for_members_only() && self.has_members(&atom, facts)? {
                return Ok(true);
            }
            if let Some(some) = atom.asks_for_one_member()
                && self.get(some.atom)?.is_any()
                && self.has_some(facts, some.names)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if all objects that have the `facts` satisfy the `properties` and `required` of
    /// `atom`.
    fn has_members(&mut self, atom: &Atom, facts: &Facts) -> Result<bool, Problem> {
        if !atom.object.required.iter().all(|name| facts.required.contains(name)) {
            return Ok(false);
        }
        for (name, id) in &atom.object.properties {
            if facts.properties.contains(&(name.clone(), *id)) {
                continue;
            }
            let value = self.get(*id)?;
            let lists = facts.listed.get(name).into_iter().flatten().filter_map(|atom| atom.scalars.as_ref());
            if !value.only_excludes() || !lists.into_iter().any(|listed| listed.is_disjoint(&value.excluded))
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if all objects that have the `facts` have a member whose name is in the
    /// language `names`.
    fn has_some(&mut self, facts: &mut Facts, names: ExprId) -> bool {
        let Some(own) = &facts.names else { return false };
        let mut members = |names: ExprId| -> Rc<[bool]> {
            let known = facts.members.entry(names).or_insert_with(|| {
                self.ledger.note(own.iter().map(|name| 8 + name.len()).sum());
                own.iter().map(|name| matches(&mut self.expressions, names, name)).collect()
            });
            Rc::clone(known)
        };
        let wanted = members(names);
        facts
            .some
            .iter()
            .any(|&(other, _)| members(other).iter().zip(&*wanted).all(|(&has, &wanted)| !has || wanted))
            || own.iter().zip(&*wanted).any(|(name, &wanted)| wanted && facts.required.contains(name))
    }

    /// Returns true if the types of the atoms, and the values that they list and exclude, leave no
    /// value.
    pub(super) fn contradict(&mut self, open: &Open) -> Result<bool, Problem> {
        let mut atoms = Vec::with_capacity(open.conjunction.len());
        for &id in &open.conjunction {
            atoms.push(self.get(id)?);
        }
        Ok(is_contradiction(&atoms))
    }

    /// Returns the distinguishing members of the atom `id`.
    fn marks(&mut self, id: AtomId) -> Result<Marks, Problem> {
        if let Some(known) = self.marks.get(&id) {
            return Ok(Rc::clone(known));
        }
        let mut marks = Vec::new();
        for (name, member) in &self.get(id)?.object.properties {
            let atom = self.get(*member)?;
            if atom.scalars.is_some() || !atom.excluded.is_empty() || atom.types.is_empty() {
                marks.push((name.clone(), atom));
            }
        }
        let marks: Marks = marks.into();
        self.marks.insert(id, Rc::clone(&marks));
        Ok(marks)
    }
}

/// Returns true if the atoms have no type in common. If some atoms list values, also returns true
/// if each listed value is ruled out by the types, by another list or by an exclusion.
fn is_contradiction(atoms: &[Rc<Atom>]) -> bool {
    let types = atoms.iter().fold(Types::ALL, |types, atom| types & atom.types);
    if types.is_empty() {
        return true;
    }
    let lists = || atoms.iter().filter_map(|atom| atom.scalars.as_ref());
    let Some(shortest) = lists().min_by_key(|scalars| scalars.len()) else { return false };
    let remains = |scalar: &Scalar| {
        types.has(scalar.types())
            && lists().all(|scalars| scalars.contains(scalar))
            && !atoms.iter().any(|atom| atom.excluded.contains(scalar))
    };
    !shortest.iter().any(remains)
}
