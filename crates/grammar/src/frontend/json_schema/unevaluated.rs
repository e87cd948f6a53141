//! The keywords `unevaluatedItems` and `unevaluatedProperties`.
//!
//! They apply to the items and members that nothing else has evaluated: neither an adjacent
//! keyword, nor a subschema of an adjacent keyword that applies to the same value and holds. Every
//! choice of a conjunction is made, so these subschemas are known. They are the atoms of the
//! conjunction that the keyword's own atom leads to.
//!
//! A branch may hold without being chosen. This does not matter, because another conjunction
//! includes that branch, and this conjunction merely evaluates less. It does matter for the
//! negations, because they require something unevaluated. If the schema has such negations,
//! branches that are not chosen must not hold.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::atom::{Atom, AtomId, Contains, SomeMember};
use super::read::Atoms;
use crate::regular::ExprId;

/// The atoms of a conjunction, by id.
pub(super) type Members<'a> = FxHashMap<AtomId, &'a Rc<Atom>>;

/// An `unevaluatedItems` keyword.
pub(super) struct UnevaluatedItems {
    /// Index of the first item that is not evaluated.
    pub(super) from: usize,
    /// Atom for all other items.
    pub(super) atom: AtomId,
}

/// An `unevaluatedProperties` keyword.
pub(super) struct UnevaluatedMembers<'a> {
    /// Names that are evaluated.
    pub(super) names: FxHashSet<&'a str>,
    /// Languages of names that are evaluated.
    pub(super) patterns: Vec<ExprId>,
    /// Atom for all other members.
    pub(super) atom: AtomId,
}

/// Returns the atoms of a conjunction that `start` leads to, with `start` first. Silent atoms are skipped.
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

/// Returns the `unevaluatedItems` of a conjunction that apply to any item.
pub(super) fn items(members: &Members<'_>, order: &[AtomId], all: &mut Atoms<'_>) -> Vec<UnevaluatedItems> {
    let mut items = Vec::new();
    for &id in order {
        if let Some(unevaluated) = members[&id].array.unevaluated {
            items.extend(other_items(id, unevaluated, members, all));
        }
    }
    items
}

/// Returns the counts that negations of `unevaluatedItems` require. Returns `None` if one of the
/// negations applies to no item, because all items are evaluated.
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

/// Returns the items that neither an atom nor the atoms that it leads to evaluate: their first
/// index, and an atom for them. The returned atom also accepts the items that `contains` evaluates.
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

/// Returns the `unevaluatedProperties` of a conjunction that apply to any member.
pub(super) fn properties<'a>(members: &Members<'a>, order: &[AtomId]) -> Vec<UnevaluatedMembers<'a>> {
    let unevaluated = order.iter().filter_map(|&id| members[&id].object.unevaluated.map(|atom| (id, atom)));
    unevaluated.filter_map(|(id, atom)| other_members(id, atom, members)).collect()
}

/// Returns the members that negations of `unevaluatedProperties` require. Returns `None` if one of
/// the negations applies to no member, because all members are evaluated.
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

/// Returns the names that an atom and the atoms that it leads to evaluate, and the atom for all
/// other members. Returns `None` if all members are evaluated.
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
