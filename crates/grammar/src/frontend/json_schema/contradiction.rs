//! Conjunctions that no object satisfies, told early.
//!
//! Branches are mostly told apart by a name that each requires and wants another value of. Many choices at one place
//! multiply, and so do the pairs of a long `oneOf`; nearly all of the products contradict themselves in such a name. Here
//! that is seen from the keywords alone, so that they are not even made. What is not seen here is found by the solver.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::Problem;
use super::atom::{Atom, AtomId, Scalar, Types};
use super::build::Open;
use super::read::Atoms;

/// The members by which an atom can be told from others: those with listed or excluded values, or none at all.
pub(super) type Marks = Rc<[(String, Rc<Atom>)]>;

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
        let required = atoms.iter().flat_map(|atom| &atom.object.required);
        for member in required.filter_map(|name| members.get(name)) {
            if is_contradiction(member) {
                open.types = open.types.without(Types::OBJECT);
                break;
            }
        }
        Ok(())
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
