//! `unevaluatedItems` and `unevaluatedProperties`.
//!
//! They apply to what no keyword beside them has evaluated, nor any subschema applied to the same value from there, as
//! far as that holds. A conjunction has every choice made, so it is known which those are: the atoms that it has of those
//! that can be come to from the keyword's own. That a branch not chosen may hold as well is no matter: less is evaluated
//! without it, and with it there is another conjunction. For their negations, which ask for something that is not
//! evaluated, it does matter: where there are any, branches not chosen are made not to hold.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::atom::{Atom, AtomId, Contains, SomeMember};
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
        let branches = atom.any.iter().flat_map(|choice| choice.branches.iter());
        todo.extend(atom.all.iter().chain(branches).filter(|&&part| met.insert(part)));
    }
    reached
}

/// The `unevaluatedItems` of a conjunction that apply to any item.
pub(super) fn items(members: &Members<'_>, order: &[AtomId], all: &mut Atoms<'_>) -> Vec<UnevaluatedItems> {
    let mut items = Vec::new();
    for &id in order {
        if let Some(unevaluated) = members[&id].array.unevaluated {
            items.extend(other_items(id, unevaluated, members, all));
        }
    }
    items
}

/// The counts that the negations of `unevaluatedItems` in a conjunction ask for, or none if one has no item to ask for.
pub(super) fn some_items(
    members: &Members<'_>,
    order: &[AtomId],
    all: &mut Atoms<'_>,
) -> Option<Vec<Contains>> {
    let mut some = Vec::new();
    for &id in order {
        let Some(asked) = members[&id].array.some_unevaluated else { continue };
        let kept = all.negate(asked);
        let items = other_items(id, kept, members, all)?;
        let atom = all.negate(items.atom);
        some.push(Contains { from: items.from as u32, atom, min: 1, max: None, pointer: all.place(id) });
    }
    Some(some)
}

/// The items that nothing beside an atom evaluates: where they begin, and what they are if not as `unevaluated`.
fn other_items(
    id: AtomId,
    unevaluated: AtomId,
    members: &Members<'_>,
    all: &mut Atoms<'_>,
) -> Option<UnevaluatedItems> {
    let beside = reached(id, members);
    let inner = beside.iter().skip(1).any(|atom| atom.array.unevaluated.is_some());
    if inner || beside.iter().any(|atom| atom.array.rest.is_some()) {
        return None;
    }
    let from = beside.iter().map(|atom| atom.array.prefix.len()).max().unwrap_or(0);
    let contained = beside.iter().flat_map(|atom| &atom.array.contained).copied();
    let atom = all.any_of([unevaluated].into_iter().chain(contained).collect());
    Some(UnevaluatedItems { from, atom })
}

/// The `unevaluatedProperties` of a conjunction that apply to any member.
pub(super) fn properties<'a>(members: &Members<'a>, order: &[AtomId]) -> Vec<UnevaluatedMembers<'a>> {
    let unevaluated = order.iter().filter_map(|&id| members[&id].object.unevaluated.map(|atom| (id, atom)));
    unevaluated.filter_map(|(id, atom)| other_members(id, atom, members)).collect()
}

/// What the negations of `unevaluatedProperties` in a conjunction ask for, or none if one has no member to ask for.
pub(super) fn some_properties(
    members: &Members<'_>,
    order: &[AtomId],
    all: &mut Atoms<'_>,
) -> Option<Vec<SomeMember>> {
    let mut some = Vec::new();
    for &id in order {
        let Some(asked) = members[&id].object.some_unevaluated else { continue };
        let UnevaluatedMembers { names, patterns, atom } = other_members(id, asked, members)?;
        let expressions = &mut all.expressions;
        let mut evaluated: Vec<_> = names.into_iter().map(|name| expressions.literal(name)).collect();
        evaluated.extend(patterns);
        let evaluated = expressions.any_of(evaluated);
        some.push(SomeMember { names: expressions.not(evaluated), atom, pointer: all.place(id) });
    }
    Some(some)
}

/// The members that nothing beside an atom evaluates.
fn other_members<'a>(id: AtomId, atom: AtomId, members: &Members<'a>) -> Option<UnevaluatedMembers<'a>> {
    let beside = reached(id, members);
    let inner = beside.iter().skip(1).any(|atom| atom.object.unevaluated.is_some());
    if inner || beside.iter().any(|atom| atom.object.additional.is_some()) {
        return None;
    }
    let objects = || beside.iter().map(|atom| &atom.object);
    Some(UnevaluatedMembers {
        names: objects().flat_map(|object| object.properties.iter().map(|(name, _)| &**name)).collect(),
        patterns: objects().flat_map(|object| object.patterns.iter().map(|(names, _)| *names)).collect(),
        atom,
    })
}
