//! Turns the sets of atoms for items and members into nodes.
//!
//! Some keywords require an item or member without fixing its index or name: `contains`, and the
//! negations of `items`, `additionalProperties` and related keywords.
//! - In an array, each item then has several choices. A choice raises the counters of the atoms
//!   that the item satisfies. The array may end only if all counters are in bounds.
//! - In an object, a declared member can meet the requirement, with one alternative for each such member.
//!   Otherwise an undeclared member must meet the requirement, which is an *obligation* of the object.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Problem;
use super::atom::{AtomId, Contains, SomeMember};
use super::build::{Builder, DraftArray, DraftGroup, DraftObject};
use super::conjoin::{ArraySets, ObjectSets};
use super::groups::Group;
use super::solve::LANGUAGE_STATES;

use crate::error::{GrammarError, SchemaProblem};
use crate::ir::json::program::{COUNTERS, Counter, NodeChoice};
use crate::ir::json::texts::Texts;
use crate::regular::{ExprId, Expressions, TextDfa};

/// Largest minimum or maximum of a counter.
const COUNT: u32 = 1 << 12;

/// Maximum number of combinations of counted subschemas that one item may satisfy.
const WAYS: usize = 256;

/// Maximum number of obligations of one object that only undeclared members can meet.
const OBLIGATIONS: usize = 4;

impl Builder<'_> {
    /// Turns the sets of atoms for items into nodes.
    pub(super) fn array(&mut self, sets: &ArraySets) -> Result<DraftArray, GrammarError> {
        let (contains, banned) = counted(&sets.contains);
        let counters = counters(&contains)?;
        // Contradictory bounds leave no array.
        let possible = contains.iter().all(|counted| counted.max.is_none_or(|max| counted.min <= max));
        let (min, max) = if possible { (sets.min, sets.max) } else { (1, Some(0)) };
        let ignored = sets.contains.iter().map(|counted| counted.from).max().unwrap_or(0) as usize;
        let mut prefix = Vec::with_capacity(sets.prefix.len().max(ignored));
        for index in 0..sets.prefix.len().max(ignored) {
            let set = sets.prefix.get(index).unwrap_or(&sets.rest);
            prefix.push(self.item(set, (&contains, &banned), index)?);
        }
        self.spend(prefix.len())?;
        let rest = self.item(&sets.rest, (&contains, &banned), usize::MAX)?;
        let unique = sets.unique.clone().filter(|_| max.is_none_or(|max| max > 1));
        let counted = contains.first().map(|counted| counted.pointer.clone());
        let repeated = sets.repeated.clone();
        Ok(DraftArray { prefix, rest, min, max, counters, counted, unique, repeated })
    }

    /// Returns the choices for the item at `index`: for each set of counters, the node of an item
    /// that raises these counters. `base` has the atoms of the item. `contains` has the counted
    /// atoms, and `banned` has the atoms that no item may satisfy.
    fn item(
        &mut self,
        base: &[AtomId],
        (contains, banned): (&[Contains], &[Contains]),
        index: usize,
    ) -> Result<Vec<NodeChoice>, GrammarError> {
        let counts = |counted: &&Contains| index >= counted.from as usize;
        let mut base = base.to_vec();
        for counted in banned.iter().filter(counts) {
            base.push(self.atoms.negate(counted.atom));
        }
        let mut sets = vec![(0, base)];
        for (at, counted) in contains.iter().enumerate().filter(|(_, counted)| counts(counted)) {
            let mut split = Vec::with_capacity(sets.len() + 1);
            for (bits, set) in sets {
                let with = [&set[..], &[counted.atom]].concat();
                self.spend(with.len())?;
                if !self.is_contradiction(&with)? {
                    split.push((bits | 1 << at, with));
                }
                let mut without = set;
                if counted.max.is_some() {
                    without.push(self.atoms.negate(counted.atom));
                }
                split.push((bits, without));
            }
            if split.len() > WAYS {
                let problem = SchemaProblem::Limit {
                    what: "combinations of subschemas that one item may satisfy",
                    given: split.len(),
                    limit: WAYS,
                };
                return Err(Problem::new(&counted.pointer, "contains", problem).into());
            }
            sets = split;
        }
        sets.sort_unstable_by_key(|(bits, _)| *bits);
        let mut ways = Vec::with_capacity(sets.len());
        for (bits, set) in sets {
            ways.push(NodeChoice { bits, node: self.node(set)? });
        }
        Ok(ways)
    }

    /// Turns the sets of atoms for members into nodes.
    pub(super) fn object(
        &mut self,
        sets: &ObjectSets,
        groups: &[Group],
    ) -> Result<DraftObject, GrammarError> {
        let mut members = Vec::with_capacity(sets.members.len());
        let mut required = 0;
        for member in &sets.members {
            let nothing = self.atoms.nothing();
            let set = if member.allowed { member.atoms.clone() } else { vec![nothing] };
            members.push((member.name.clone(), self.node(set)?, member.required));
            required += u32::from(member.required);
        }
        self.spend(members.len())?;
        let names: usize = members.iter().map(|(name, ..)| name.len()).sum();
        self.atoms.ledger.hold(64 * members.len() + names + size_of::<DraftObject>())?;
        if let Some(obligation) = sets.some.get(OBLIGATIONS) {
            let reason = "more than 4 negations that require undeclared members are not supported";
            let problem = SchemaProblem::UnsupportedForm { reason };
            return Err(Problem::new(&obligation.pointer, "not", problem).into());
        }
        let (labels, others) = self.others(sets)?;
        let min = if sets.min <= required { 0 } else { sets.min };
        let obligations = (1u8 << sets.some.len()) - 1;
        let min_pointer = sets.min_pointer.clone();
        let omits = self.omits_undeclared() && sets.silent && sets.some.is_empty();
        let groups = self.groups(sets, groups, omits)?;
        Ok(DraftObject {
            members,
            others,
            labels,
            omits,
            obligations,
            min,
            min_pointer,
            max: sets.max,
            groups,
        })
    }

    /// Turns the groups of an object into nodes. `omits` is true if undeclared members are omitted.
    fn groups(
        &mut self,
        sets: &ObjectSets,
        groups: &[Group],
        omits: bool,
    ) -> Result<Vec<DraftGroup>, GrammarError> {
        let indexes: FxHashMap<&str, u32> =
            sets.members.iter().map(|member| member.name.as_str()).zip(0..).collect();
        let mut drafts = Vec::with_capacity(groups.len());
        for group in groups {
            let mut members: Vec<u32> =
                group.names.iter().filter_map(|name| indexes.get(name.as_str()).copied()).collect();
            members.sort_unstable();
            let mut alternatives = Vec::with_capacity(group.alternatives.len());
            for atoms in &group.alternatives {
                let mut alternative = Vec::with_capacity(members.len());
                for &index in &members {
                    let member = &sets.members[index as usize];
                    let (mut set, mut required) = (member.atoms.clone(), member.required);
                    let mut declared = !member.only_grouped;
                    for &atom in atoms {
                        let atom = self.atoms.get(atom)?;
                        self.spend(atom.object.properties.len() + atom.object.required.len())?;
                        let own = atom.object.properties.iter().filter(|(name, _)| *name == member.name);
                        let before = set.len();
                        set.extend(own.map(|&(_, value)| value));
                        required |= atom.object.required.contains(&member.name);
                        declared |= required || set.len() > before;
                    }
                    if !member.allowed || (omits && !declared) {
                        set = vec![self.atoms.nothing()];
                    }
                    alternative.push((self.node(set)?, required));
                }
                alternatives.push(alternative);
            }
            drafts.push(DraftGroup { members, alternatives });
        }
        Ok(drafts)
    }

    /// Returns the index of the automaton that labels undeclared names, and the choices for an
    /// undeclared member by the label of its name. Returns no automaton if one label is enough.
    fn others(&mut self, sets: &ObjectSets) -> Result<(Option<u32>, Vec<Vec<NodeChoice>>), GrammarError> {
        if sets.patterns.is_empty() && sets.some.is_empty() && sets.names == Expressions::EVERYTHING {
            let node = self.node(sets.of_name(|_| false))?;
            return Ok((None, vec![vec![NodeChoice { bits: 0, node }]]));
        }
        let language = self.language(sets)?;
        let labels = self.draft.languages[language as usize].dfa().labels().to_vec();
        let mut others = Vec::with_capacity(labels.len());
        for label in labels {
            let Some((&true, label)) = label.split_first() else {
                others.push(Vec::new());
                continue;
            };
            let (matched, meets) = label.split_at(sets.patterns.len());
            let base = sets.of_name(|pattern| matched[pattern]);
            others.push(self.ways(&base, &sets.some, meets)?);
        }
        Ok((Some(language), others))
    }

    /// Returns the choices for an undeclared member: for each set of obligations that it meets, its
    /// node. `base` has the atoms of the member, and `meets` has one flag for each obligation,
    /// which is true if the name can meet it.
    fn ways(
        &mut self,
        base: &[AtomId],
        some: &[SomeMember],
        meets: &[bool],
    ) -> Result<Vec<NodeChoice>, GrammarError> {
        let mut ways = Vec::new();
        for bits in 0..1u32 << some.len() {
            let met = |at: usize| bits >> at & 1 == 1;
            if (0..some.len()).all(|at| meets[at] || !met(at)) {
                let mut set = base.to_vec();
                set.extend(some.iter().enumerate().filter(|&(at, _)| met(at)).map(|(_, some)| some.atom));
                ways.push(NodeChoice { bits, node: self.node(set)? });
            }
        }
        Ok(ways)
    }

    /// Returns the index of the automaton that labels undeclared names. A label consists of these
    /// flags:
    /// - one flag that is true if the name is undeclared and allowed;
    /// - one flag for each pattern, true if the pattern matches the name;
    /// - one flag for each obligation, true if the name can meet the obligation.
    fn language(&mut self, sets: &ObjectSets) -> Result<u32, GrammarError> {
        let expressions = &mut self.atoms.expressions;
        let declared: FxHashSet<ExprId> =
            sets.members.iter().map(|member| expressions.literal(&member.name)).collect();
        let declared = expressions.any_of(declared.into_iter().collect());
        let undeclared = expressions.not(declared);
        let undeclared = expressions.all_of(vec![undeclared, sets.names]);
        let mut languages = vec![undeclared];
        for language in sets.patterns.iter().copied().chain(sets.some.iter().map(|some| some.names)) {
            languages.push(expressions.all_of(vec![undeclared, language]));
        }
        if let Some(&known) = self.languages.get(&languages) {
            return Ok(known);
        }
        let limit = LANGUAGE_STATES.min(self.limits.states);
        let dfa = TextDfa::new(expressions, &languages, limit)?;
        self.spend(dfa.len() * dfa.labels().len())?;
        self.atoms.ledger.hold(Texts::bytes_for(&dfa))?;
        let id = self.draft.languages.len() as u32;
        self.draft.languages.push(Arc::new(Texts::new(dfa)));
        self.languages.insert(languages, id);
        Ok(id)
    }
}

/// Merges the bounds on equal atoms. Returns the bounds that need a counter, and then the bounds
/// that allow no item at all.
fn counted(contains: &[Contains]) -> (Vec<Contains>, Vec<Contains>) {
    let mut kept: Vec<Contains> = Vec::new();
    for counted in contains {
        match kept.iter_mut().find(|known| (known.from, known.atom) == (counted.from, counted.atom)) {
            Some(known) => {
                known.min = known.min.max(counted.min);
                known.max = [known.max, counted.max].into_iter().flatten().min();
            }
            None => kept.push(counted.clone()),
        }
    }
    kept.into_iter().partition(|counted| counted.min > 0 || counted.max != Some(0))
}

/// Returns the counters for `contains`.
fn counters(contains: &[Contains]) -> Result<Vec<Counter>, Problem> {
    let refused = |at: usize, reason| {
        Problem::new(&contains[at].pointer, "contains", SchemaProblem::UnsupportedForm { reason })
    };
    if let Some(counted) = contains.get(COUNTERS) {
        let what = "`contains` conditions for one array";
        let problem = SchemaProblem::Limit { what, given: contains.len(), limit: COUNTERS };
        return Err(Problem::new(&counted.pointer, "contains", problem));
    }
    let mut counters = Vec::new();
    for (at, counted) in contains.iter().enumerate() {
        if counted.min > COUNT || counted.max.is_some_and(|max| max > COUNT) {
            return Err(refused(at, "a count of items above 4096 is not supported"));
        }
        counters.push(Counter { min: counted.min as u16, max: counted.max.map(|max| max as u16) });
    }
    Ok(counters)
}
