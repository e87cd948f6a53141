//! Expands a set of atoms into alternatives, in which every choice is made.
//!
//! The choices about one value multiply, so they are pruned early. A choice is dropped if one of
//! its branches holds anyway. A branch is dropped if it contradicts the atoms that already hold
//! ([`contradiction`](super::contradiction)).

use std::collections::VecDeque;
use std::rc::Rc;

use super::Problem;
use super::atom::{AtomId, Choice, ChoiceKind, Types};
use super::build::Builder;
use super::groups::{Alternative, Grouped};
use crate::error::GrammarError;
use crate::ir::json::program::NodeId;

/// Maximum number of alternatives of one node.
const ALTERNATIVES: usize = 4096;

/// An alternative under construction, with choices that are not made yet.
#[derive(Clone)]
pub(super) struct Open {
    /// The atoms that hold.
    pub(super) conjunction: Vec<AtomId>,
    /// The types that all these atoms allow.
    pub(super) types: Types,
    /// The choices that are not made yet.
    pub(super) choices: VecDeque<Choice>,
    /// True if some atom makes it matter which items and members are evaluated.
    pub(super) unevaluated: bool,
    /// True if [`Builder::grouped`] may still turn the choices into groups.
    pub(super) may_group: bool,
}

impl Open {
    pub(super) const fn new(unevaluated: bool) -> Self {
        Self {
            conjunction: Vec::new(),
            types: Types::ALL,
            choices: VecDeque::new(),
            unevaluated,
            may_group: true,
        }
    }

    /// Estimates the memory of the alternative in bytes.
    fn bytes(&self) -> usize {
        64 + 4 * self.conjunction.len() + 64 * self.choices.len()
    }
}

impl Choice {
    /// Returns true if it matters for `open` which branches hold, because each branch that holds
    /// evaluates items and members.
    fn counts(&self, open: &Open) -> bool {
        open.unevaluated && matches!(self.kind, ChoiceKind::Each | ChoiceKind::Optional)
    }

    /// Returns the choice that remains after one branch has been chosen: each branch from index
    /// `from` on may hold as well. Returns `None` if it does not matter which of these branches
    /// hold.
    fn left(&self, open: &Open, from: usize) -> Option<Self> {
        let branches = self.branches[from..].iter().copied();
        let branches: Rc<[_]> = branches.filter(|branch| !open.conjunction.contains(branch)).collect();
        let some = self.counts(open) && !branches.is_empty();
        some.then_some(Self { branches, kind: ChoiceKind::Optional })
    }
}

impl Builder<'_> {
    /// Returns the alternatives of `node`: every way to satisfy all atoms of `key`.
    pub(super) fn alternatives(
        &mut self,
        node: NodeId,
        key: &[AtomId],
    ) -> Result<Vec<Alternative>, GrammarError> {
        let known = self.atoms.asks_for_unevaluated;
        let alternatives = self.choose(node, key)?;
        if known == self.atoms.asks_for_unevaluated {
            return Ok(alternatives);
        }
        // The expansion read an atom that needs exact knowledge of the branches that hold, so it
        // starts again.
        self.choose(node, key)
    }

    fn choose(&mut self, node: NodeId, key: &[AtomId]) -> Result<Vec<Alternative>, GrammarError> {
        let mut start = Open::new(self.atoms.asks_for_unevaluated);
        for &id in key {
            self.include(&mut start, id)?;
        }
        self.expand(node, start)
    }

    /// Returns the alternatives that result from `start` by making its choices in every possible
    /// way.
    pub(super) fn expand(&mut self, node: NodeId, start: Open) -> Result<Vec<Alternative>, GrammarError> {
        let mut done = Vec::new();
        let mut open = vec![start];
        while let Some(mut partial) = open.pop() {
            if partial.may_group && self.may_group(&partial)? {
                if partial.types != Types::OBJECT {
                    let others = partial.types.without(Types::OBJECT);
                    for types in [others, Types::OBJECT] {
                        let mut part = partial.clone();
                        self.restrict(&mut part, types)?;
                        open.push(part);
                    }
                    continue;
                }
                match self.grouped(node, &partial)? {
                    Grouped::All(alternative) => {
                        done.push(alternative);
                        continue;
                    }
                    Grouped::Nothing => continue,
                    Grouped::Other(at) => {
                        let other = partial.choices.remove(at);
                        partial.choices.extend(other);
                        partial.choices.rotate_right(1);
                    }
                    Grouped::Useless => partial.may_group = false,
                }
            }
            let Some(choice) = self.next_choice(&mut partial)? else {
                done.push(Alternative { atoms: partial.conjunction, groups: Vec::new() });
                continue;
            };
            let exclusive = match &choice.kind {
                ChoiceKind::One(pointer) if !self.probing => Some(pointer),
                _ => None,
            };
            // If a branch of an exclusive choice already holds, it is the only possible branch.
            let held = choice.branches.iter().any(|branch| partial.conjunction.contains(branch));
            let possible = |branch: AtomId, open: &Open| !held || open.conjunction.contains(&branch);
            self.spend(4 + partial.conjunction.len() + choice.branches.len())?;
            if let Some(pointer) = exclusive {
                self.drop_free_types(&choice.branches, &mut partial)?;
                self.exclude(node, &partial, &choice.branches, pointer)?;
            }
            if choice.kind == ChoiceKind::Optional {
                let mut none = partial.clone();
                if self.leave_out(&choice, choice.branches.len(), &mut none)? {
                    open.push(none);
                }
            }
            for (at, &branch) in choice.branches.iter().enumerate().rev() {
                if !possible(branch, &partial) {
                    continue;
                }
                if !self.probing && self.draft.tried.insert((node, branch)) {
                    self.atoms.ledger.hold(32)?;
                }
                let mut taken = partial.clone();
                self.include(&mut taken, branch)?;
                for mut taken in self.without_overlaps(&choice, at, taken)? {
                    if self.leave_out(&choice, at, &mut taken)? {
                        taken.choices.extend(choice.left(&taken, at + 1));
                        open.push(taken);
                    }
                }
                if done.len() + open.len() > ALTERNATIVES {
                    return Err(GrammarError::limit("alternatives", done.len() + open.len(), ALTERNATIVES));
                }
            }
            let bytes = open.last().map_or(0, Open::bytes) * (open.len() + done.len());
            self.atoms.ledger.hold(bytes)?;
            self.atoms.ledger.release(bytes);
        }
        Ok(done)
    }

    /// Removes and returns the next choice of `open` that is not already decided. Drops decided
    /// choices. Returns `None` if no choice remains.
    fn next_choice(&mut self, open: &mut Open) -> Result<Option<Choice>, GrammarError> {
        let mut facts = None;
        while let Some(choice) = open.choices.pop_front() {
            if matches!(choice.kind, ChoiceKind::One(_)) && !self.probing {
                return Ok(Some(choice));
            }
            self.atoms.ledger.spend(4 + choice.branches.len() * (1 + open.conjunction.len() / 64))?;
            if choice.branches.iter().any(|branch| open.conjunction.contains(branch)) {
                open.choices.extend(choice.left(open, 0));
                continue;
            }
            if choice.counts(open) || choice.kind == ChoiceKind::Optional {
                return Ok(Some(choice));
            }
            // Not for objects: a branch may declare members even if another branch accepts every object.
            if !open.types.has(Types::OBJECT) && self.takes_all(&choice.branches, open.types)? {
                continue;
            }
            if open.types == Types::OBJECT {
                let known = match &mut facts {
                    Some(known) => known,
                    none => none.insert(self.atoms.facts(open)?),
                };
                if self.atoms.implied(known, &choice.branches)? {
                    continue;
                }
            }
            return Ok(Some(choice));
        }
        Ok(None)
    }

    /// Returns true if one of the `branches` certainly accepts every value of `types`.
    fn takes_all(&mut self, branches: &[AtomId], types: Types) -> Result<bool, Problem> {
        for &branch in branches {
            self.atoms.check_grounded(branch)?;
            if types.without(self.atoms.free_types(branch, 0)?).is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Excludes the branches of `choice` with an index below `end`, if it matters that they do not
    /// hold. Adds their negations to `open` for this purpose. Returns false if `open` accepts no
    /// value afterwards.
    fn leave_out(&mut self, choice: &Choice, end: usize, open: &mut Open) -> Result<bool, GrammarError> {
        if self.atoms.asks_for_unevaluated && choice.counts(open) {
            for &branch in &choice.branches[..end] {
                let negation = self.atoms.negate(branch);
                self.include(open, negation)?;
            }
        }
        if !open.types.is_empty() {
            self.atoms.narrow(open)?;
        }
        Ok(!open.types.is_empty())
    }

    /// Returns true if a quick check finds that no value satisfies all of the `atoms`.
    pub(super) fn is_contradiction(&mut self, atoms: &[AtomId]) -> Result<bool, GrammarError> {
        let mut all = Open::new(false);
        for &atom in atoms {
            self.include(&mut all, atom)?;
        }
        self.atoms.narrow(&mut all)?;
        Ok(all.types.is_empty() || self.atoms.contradict(&all)?)
    }

    /// Adds the atom `id` to `open`, with all atoms that must hold in addition.
    pub(super) fn include(&mut self, open: &mut Open, id: AtomId) -> Result<(), GrammarError> {
        let mut todo = vec![id];
        while let Some(id) = todo.pop() {
            self.atoms.ledger.spend(4 + open.conjunction.len() / 64)?;
            if open.conjunction.contains(&id) {
                continue;
            }
            self.atoms.check_grounded(id)?;
            let atom = self.atoms.get(id)?;
            open.conjunction.push(id);
            open.types = open.types & atom.types;
            open.unevaluated |= atom.has_unevaluated();
            open.choices.extend(atom.any.iter().cloned());
            todo.extend(atom.all.iter().rev());
        }
        Ok(())
    }
}
