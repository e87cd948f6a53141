//! The keywords `unevaluatedItems` and `unevaluatedProperties`.
//!
//! An `unevaluated…` keyword applies to the items or members that are not *evaluated*. An item or
//! member is evaluated if a keyword next to the `unevaluated…` keyword applies to it. Keywords of a
//! subschema count as well, if the subschema holds for the same array or object, such as the target
//! of an adjacent `$ref`. In a conjunction every choice is made, so the subschemas that hold are
//! known. They are the atoms of the conjunction that can be reached from the atom with the
//! `unevaluated…` keyword.
//!
//! A branch of `anyOf` may hold although it is not chosen. Then fewer items or members count as
//! evaluated than the specification says. The value is not lost, because another conjunction
//! includes the branch. A negation is different, because it requires an unevaluated item or member.
//! If the schema has such negations, branches that are not chosen must not hold.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::atom::{Atom, AtomId, Contains, SomeMember};
use super::read::Atoms;
use crate::regular::ExprId;

/// The atoms of a conjunction, by id.
pub(super) type Members<'a> = FxHashMap<AtomId, &'a Rc<Atom>>;

/// The items to which the `unevaluatedItems` of one atom applies.
pub(super) struct UnevaluatedItems {
    /// Index of the first of these items. All earlier items are evaluated.
    pub(super) from: usize,
    /// Atom that each of these items must satisfy.
    pub(super) atom: AtomId,
}

/// The members to which the `unevaluatedProperties` of one atom applies.
pub(super) struct UnevaluatedMembers<'a> {
    /// Names of evaluated members.
    pub(super) names: FxHashSet<&'a str>,
    /// Languages whose names belong to evaluated members.
    pub(super) patterns: Vec<ExprId>,
    /// Atom that each member with another name must satisfy.
    pub(super) atom: AtomId,
}

/// Returns the atoms of the conjunction `members` that can be reached from `start` through `all`
/// and `any`, with `start` first. Skips atoms that evaluate nothing ([`Atom::silent`]) and atoms
/// that are reached only through them.
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

/// Returns the items of each `unevaluatedItems` in the conjunction `members`. Skips keywords that
/// apply to no item, because all items are evaluated. `order` has the ids of the conjunction's
/// atoms.
pub(super) fn items(members: &Members<'_>, order: &[AtomId], all: &mut Atoms<'_>) -> Vec<UnevaluatedItems> {
    let mut items = Vec::new();
    for &id in order {
        if let Some(unevaluated) = members[&id].array.unevaluated {
            items.extend(other_items(id, unevaluated, members, all));
        }
    }
    items
}

/// Returns the conditions of the negated `unevaluatedItems` in the conjunction `members`: at least
/// one unevaluated item must violate the keyword. Returns `None` if all items are evaluated for one
/// of these keywords, so that no array satisfies its negation.
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

/// Returns the items that neither the atom `id` nor the atoms reachable from it evaluate. These
/// items must satisfy `unevaluated`, or the atom of a `contains`, which also evaluates items.
/// Returns `None` if all items are evaluated.
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

/// Returns the members of each `unevaluatedProperties` in the conjunction `members`. Skips keywords
/// that apply to no member, because all members are evaluated. `order` has the ids of the
/// conjunction's atoms.
pub(super) fn properties<'a>(members: &Members<'a>, order: &[AtomId]) -> Vec<UnevaluatedMembers<'a>> {
    let unevaluated = order.iter().filter_map(|&id| members[&id].object.unevaluated.map(|atom| (id, atom)));
    unevaluated.filter_map(|(id, atom)| other_members(id, atom, members)).collect()
}

/// Returns the members that the negated `unevaluatedProperties` in the conjunction `members`
/// require: at least one unevaluated member must violate the keyword. Returns `None` if all members
/// are evaluated for one of these keywords, so that no object satisfies its negation.
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

/// Returns the names that the atom `id` and the atoms reachable from it evaluate. All other members
/// must satisfy `atom`. Returns `None` if all members are evaluated.
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
