//! Conjunctions that no object satisfies, told early.
//!
//! Branches are mostly told apart by a name that each requires and wants another value of. Many choices at one place
//! multiply, and so do the pairs of a long `oneOf`; nearly all of the products contradict themselves in such a name. Here
//! that is seen from the keywords alone, so that they are not even made. What is not seen here is found by the solver.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Problem;
use super::atom::{Atom, AtomId, Scalar, Types};
use super::choose::Open;
use super::read::Atoms;
use super::text::matches;
use crate::regular::ExprId;

/// The members by which an atom can be told from others: those with listed or excluded values, or none at all.
pub(super) type Marks = Rc<[(String, Rc<Atom>)]>;

/// What the atoms of a conjunction say about members of an object.
#[derive(Default)]
pub(super) struct Facts {
    required: FxHashSet<String>,
    /// Members with listed values.
    listed: FxHashMap<String, Vec<Rc<Atom>>>,
    properties: FxHashSet<(String, AtomId)>,
    /// Languages of which some member must have a name, and what its value must be.
    some: Vec<(ExprId, AtomId)>,
    /// All names that are allowed, where these are few.
    names: Option<Vec<String>>,
    /// By language, which of these it has.
    members: FxHashMap<ExprId, Rc<[bool]>>,
}

impl Atoms<'_> {
    /// Leaves out the type of objects where the atoms ask for a member that they allow no value of.
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

    /// Whether some atom allows no names but its own, and another requires a name that is none of these.
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

    /// The required names of a conjunction whose values are listed, with these values.
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

    /// What a conjunction says about members.
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

    /// Whether one of some atoms certainly holds for all objects that a conjunction leaves.
    ///
    /// It is seen of atoms that ask for members only: names that are required anyway, with values that are listed and
    /// that the atom does not exclude. And of those that ask for some member, where any member that the conjunction
    /// asks for will do.
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

    /// Whether some member with a name in a language exists anyway.
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

    /// Whether the scalars that some atoms list or exclude leave none, beside their types.
    pub(super) fn contradict(&mut self, open: &Open) -> Result<bool, Problem> {
        let mut atoms = Vec::with_capacity(open.conjunction.len());
        for &id in &open.conjunction {
            atoms.push(self.get(id)?);
        }
        Ok(is_contradiction(&atoms))
    }

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

/// Whether no value has the types and is among the listed ones of all `atoms`.
fn is_contradiction(atoms: &[Rc<Atom>]) -> bool {
    let types = atoms.iter().fold(Types::ALL, |types, atom| types & atom.types);
    if types.is_empty() {
        return true;
    }
    let mut listed: Option<BTreeSet<&Scalar>> = None;
    for scalars in atoms.iter().filter_map(|atom| atom.scalars.as_ref()) {
        let all = scalars.iter().filter(|scalar| types.has(scalar.types()));
        listed = Some(match listed {
            Some(listed) => all.filter(|scalar| listed.contains(scalar)).collect(),
            None => all.collect(),
        });
    }
    let Some(mut listed) = listed else { return false };
    listed.retain(|scalar| !atoms.iter().any(|atom| atom.excluded.contains(scalar)));
    listed.is_empty()
}
