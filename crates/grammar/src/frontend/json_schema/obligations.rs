//! Members that must exist without a fixed name, as the negations of `additionalProperties` and
//! similar keywords require. Each such requirement is an *obligation*.
//!
//! A declared member can meet an obligation, with one alternative of the object for each such
//! member. An undeclared member can also meet an obligation. An obligation is dropped if a required
//! member meets it anyway, or if every way to meet another obligation also meets this one. The
//! obligation with the fewest ways is handled first.

use super::Problem;
use super::atom::{AtomId, SomeMember};
use super::build::{Builder, DraftObject};
use super::conjoin::ObjectSets;
use super::groups::Group;
use super::text::matches;
use crate::error::GrammarError;

/// Maximum number of alternatives of one object that its obligations may produce.
const ALTERNATIVES: usize = 4096;

/// An obligation and the ways to meet it.
#[derive(Clone)]
struct Obligation {
    some: SomeMember,
    /// Indices of the declared members that may meet the obligation.
    members: Vec<usize>,
    /// True if an undeclared member may meet the obligation.
    undeclared: bool,
    /// True if every value meets the obligation.
    any_value: bool,
}

/// An object under construction, with obligations that are not met yet.
#[derive(Clone)]
struct OpenObject {
    sets: ObjectSets,
    /// The obligations that are not met yet.
    left: Vec<Obligation>,
    /// Obligations that an undeclared member must meet.
    undeclared: Vec<SomeMember>,
}

impl Builder<'_> {
    /// Returns the alternatives of the object `sets`, one for each way to meet all of its
    /// obligations.
    pub(super) fn objects(
        &mut self,
        mut sets: ObjectSets,
        groups: &[Group],
    ) -> Result<Vec<DraftObject>, GrammarError> {
        let some = std::mem::take(&mut sets.some);
        if some.is_empty() {
            return Ok(vec![self.object(&sets, groups)?]);
        }
        let left = self.obligations(&sets, some)?;
        let mut done = Vec::new();
        let mut open = vec![OpenObject { sets, left, undeclared: Vec::new() }];
        while let Some(mut partial) = open.pop() {
            if !self.simplify(&mut partial)? {
                continue;
            }
            let Some(obligation) = partial.left.pop() else {
                partial.sets.some = partial.undeclared;
                done.push(self.object(&partial.sets, &[])?);
                continue;
            };
            self.spend(4 + (partial.sets.members.len() + partial.left.len()) * obligation.members.len())?;
            if obligation.undeclared {
                let mut met = partial.clone();
                met.undeclared.push(obligation.some.clone());
                open.push(met);
            }
            for &at in &obligation.members {
                let mut met = partial.clone();
                let member = &mut met.sets.members[at];
                member.required = true;
                if !obligation.any_value && !member.atoms.contains(&obligation.some.atom) {
                    member.atoms.push(obligation.some.atom);
                }
                open.push(met);
            }
            let given = done.len() + open.len();
            if given > ALTERNATIVES {
                return Err(GrammarError::limit("alternatives", given, ALTERNATIVES));
            }
            let bytes = given * (64 * partial.sets.members.len() + 128 * partial.left.len());
            self.atoms.ledger.hold(bytes)?;
            self.atoms.ledger.release(bytes);
        }
        Ok(done)
    }

    /// Returns an obligation for each entry of `some`, with the ways to meet it.
    fn obligations(
        &mut self,
        sets: &ObjectSets,
        some: Vec<SomeMember>,
    ) -> Result<Vec<Obligation>, GrammarError> {
        let mut possible = Vec::with_capacity(sets.members.len());
        for member in &sets.members {
            possible.push(member.allowed && !self.has_nothing(&member.atoms)?);
        }
        let closed = sets.patterns.is_empty() && self.has_nothing(&sets.of_name(|_| false))?;
        let mut obligations = Vec::with_capacity(some.len());
        for some in some {
            let mut members = Vec::new();
            for (at, member) in sets.members.iter().enumerate().filter(|&(at, _)| possible[at]) {
                self.spend(4 + member.name.len())?;
                if matches(&mut self.atoms.expressions, some.names, &member.name) {
                    members.push(at);
                }
            }
            let any_value = self.atoms.get(some.atom)?.is_any();
            obligations.push(Obligation { some, members, undeclared: !closed, any_value });
        }
        Ok(obligations)
    }

    /// Returns true if one of the `atoms` allows no type, so that no value satisfies all of them.
    fn has_nothing(&mut self, atoms: &[AtomId]) -> Result<bool, Problem> {
        for &atom in atoms {
            if self.atoms.get(atom)?.types.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops redundant obligations of `open` and sorts the others, so that the obligation with the
    /// fewest ways to meet it is last. Returns false if an obligation cannot be met.
    fn simplify(&self, open: &mut OpenObject) -> Result<bool, GrammarError> {
        let members = &open.sets.members;
        open.left.retain(|obligation| {
            !obligation.members.iter().any(|&at| {
                let member = &members[at];
                member.required && (obligation.any_value || member.atoms.contains(&obligation.some.atom))
            })
        });
        open.left.sort_by_key(|obligation| obligation.members.len() + usize::from(obligation.undeclared));
        let mut kept: Vec<Obligation> = Vec::with_capacity(open.left.len());
        for obligation in open.left.drain(..) {
            if obligation.members.is_empty() && !obligation.undeclared {
                return Ok(false);
            }
            self.spend(1 + kept.len())?;
            if !kept.iter().any(|other| obligation.follows_from(other)) {
                kept.push(obligation);
            }
        }
        kept.reverse();
        open.left = kept;
        Ok(true)
    }
}

impl Obligation {
    /// Returns true if every way to meet `other` also meets this obligation.
    fn follows_from(&self, other: &Self) -> bool {
        let value = self.any_value || self.some.atom == other.some.atom;
        let names = !other.undeclared || self.some.names == other.some.names;
        value && names && other.members.iter().all(|at| self.members.binary_search(at).is_ok())
    }
}
