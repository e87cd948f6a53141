//! `unevaluatedItems` and `unevaluatedProperties`.
//!
//! They apply to what no keyword beside them has evaluated, nor any subschema applied to the same value from there, as
//! far as that holds. A conjunction has every choice made, so it is known which those are: the atoms that it has of those
//! that can be come to from the keyword's own. That a branch not chosen may hold as well is no matter: less is evaluated
//! without it, and with it there is another conjunction.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::atom::{Atom, AtomId};
use super::read::Atoms;
use crate::regular::ExprId;

/// A conjunction of atoms, by id.
pub(super) type Members<'a> = FxHashMap<AtomId, &'a Rc<Atom>>;

/// An `unevaluatedItems`.
pub(super) struct UnevaluatedItems {
    /// Items before this index are evaluated.
    pub(super) from: usize,
    /// What applies to all others.
    pub(super) atom: AtomId,
}

/// An `unevaluatedProperties`.
pub(super) struct UnevaluatedMembers<'a> {
    /// Names that are evaluated.
    pub(super) names: FxHashSet<&'a str>,
    /// Languages of such names.
    pub(super) patterns: Vec<ExprId>,
    /// What applies to all others.
    pub(super) atom: AtomId,
}

/// The atoms of a conjunction that `start` leads to, itself first, as far as what they evaluate counts.
fn reached<'a>(start: AtomId, members: &Members<'a>) -> Vec<&'a Atom> {
    let mut met = FxHashSet::from_iter([start]);
    let mut todo = vec![start];
    let mut reached: Vec<&Atom> = Vec::new();
    while let Some(id) = todo.pop() {
        let Some(atom) = members.get(&id) else { continue };
        if atom.silent {
            continue;
        }
        reached.push(atom);
        let branches = atom.any.iter().flat_map(|choice| &choice.branches);
        todo.extend(atom.all.iter().chain(branches).filter(|&&part| met.insert(part)));
    }
    reached
}

/// Those of a conjunction that apply to any item.
pub(super) fn items(members: &Members<'_>, order: &[AtomId], all: &mut Atoms<'_>) -> Vec<UnevaluatedItems> {
    let mut items = Vec::new();
    for &id in order {
        let Some(unevaluated) = members[&id].array.unevaluated else { continue };
        let beside = reached(id, members);
        let inner = beside.iter().skip(1).any(|atom| atom.array.unevaluated.is_some());
        if inner || beside.iter().any(|atom| atom.array.rest.is_some()) {
            continue;
        }
        let from = beside.iter().map(|atom| atom.array.prefix.len()).max().unwrap_or(0);
        let contained = beside.iter().flat_map(|atom| &atom.array.contained).copied();
        let atom = all.any_of([unevaluated].into_iter().chain(contained).collect());
        items.push(UnevaluatedItems { from, atom });
    }
    items
}

/// Those of a conjunction that apply to any member.
pub(super) fn properties<'a>(members: &Members<'a>, order: &[AtomId]) -> Vec<UnevaluatedMembers<'a>> {
    let mut properties = Vec::new();
    for &id in order {
        let Some(atom) = members[&id].object.unevaluated else { continue };
        let beside = reached(id, members);
        let inner = beside.iter().skip(1).any(|atom| atom.object.unevaluated.is_some());
        if inner || beside.iter().any(|atom| atom.object.additional.is_some()) {
            continue;
        }
        let objects = || beside.iter().map(|atom| &atom.object);
        properties.push(UnevaluatedMembers {
            names: objects().flat_map(|object| object.properties.iter().map(|(name, _)| &**name)).collect(),
            patterns: objects().flat_map(|object| object.patterns.iter().map(|(names, _)| *names)).collect(),
            atom,
        });
    }
    properties
}
