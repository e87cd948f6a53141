//! The graph of nodes: one for each set of atoms that applies to one place.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::atom::{Atom, AtomId, Choice, ChoiceKind, Types};
use super::conjoin::{Conjunction, StringSet, conjoin};
use super::document::Document;
use super::options::{Order, SchemaOptions};
use super::read::{Atoms, Strings};
use crate::Warning;
use crate::error::GrammarError;
use crate::limits::Limits;
use crate::machine::json::number::NumberRule;
use crate::machine::json::program::{Counter, NodeId, Way};
use crate::machine::json::texts::Texts;
use crate::regular::ExprId;

/// Alternatives that one node may have: the product of its choices.
const ALTERNATIVES: usize = 4096;

/// Steps of conjunction for each state that the limits allow.
const STEPS: usize = 8;

/// The graph before it is known what can be satisfied.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) nodes: Vec<DraftNode>,
    /// Conjunctions of two branches of a `oneOf`, which are hoped to have no value: the node whose values the `oneOf`
    /// is about, and the conjunction.
    pub(super) exclusions: Vec<(NodeId, NodeId, Overlap)>,
    /// Languages of undeclared names.
    pub(super) languages: Vec<Arc<Texts>>,
}

/// Two branches of the `oneOf` at a place that some value may satisfy both, the larger index first.
pub(super) type Overlap = (String, usize, usize);

/// The values at one place: any of these.
#[derive(Default)]
pub(super) struct DraftNode {
    /// The first of its atoms.
    pub(super) place: Option<AtomId>,
    pub(super) null: bool,
    pub(super) bools: [bool; 2],
    pub(super) numbers: Vec<NumberRule>,
    pub(super) texts: Vec<StringSet>,
    pub(super) words: Vec<String>,
    pub(super) arrays: Vec<DraftArray>,
    pub(super) objects: Vec<DraftObject>,
}

#[derive(PartialEq, Eq, Hash)]
pub(super) struct DraftArray {
    pub(super) prefix: Vec<Vec<Way>>,
    pub(super) rest: Vec<Way>,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    pub(super) counters: Vec<Counter>,
    /// Where it stands that no two items may be equal.
    pub(super) unique: Option<String>,
}

#[derive(PartialEq, Eq, Hash)]
pub(super) struct DraftObject {
    pub(super) members: Vec<(String, NodeId, bool)>,
    /// By the label of an undeclared name.
    pub(super) others: Vec<Vec<Way>>,
    /// The index of the language that gives the labels.
    pub(super) labels: Option<u32>,
    pub(super) obligations: u8,
    pub(super) min: u32,
    pub(super) min_pointer: String,
    pub(super) max: Option<u32>,
}

pub(super) struct Builder<'a> {
    pub(super) atoms: Atoms<'a>,
    order: Order,
    pub(super) limits: &'a Limits,
    pub(super) draft: Draft,
    ids: FxHashMap<NodeKey, NodeId>,
    /// Nodes with an id and no content yet.
    queue: VecDeque<(NodeId, NodeKey)>,
    /// Whether the node being built is one that only tells whether some value exists.
    probing: bool,
    /// Branches of `oneOf`s that are known to overlap: of these, each keeps out the other.
    overlaps: FxHashSet<Overlap>,
    /// By what tells undeclared names apart.
    pub(super) languages: FxHashMap<Vec<ExprId>, u32>,
    /// Atoms, alternatives and members gone through.
    work: usize,
}

/// What makes a node: a set of atoms, and whether it is only to tell if some value satisfies all of them. In such a
/// probe `oneOf` is read as `anyOf`: branches that are found to overlap although they do not are only kept apart twice.
type NodeKey = (Box<[AtomId]>, bool);

/// A conjunction on the way to an alternative: its choices are still to be made.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) conjunction: Vec<AtomId>,
    pub(super) types: Types,
    choices: VecDeque<Choice>,
    /// Whether it matters what has been evaluated.
    unevaluated: bool,
}

impl Choice {
    /// Whether it matters for a conjunction which of the branches hold.
    fn counts(&self, open: &Open) -> bool {
        open.unevaluated && matches!(self.kind, ChoiceKind::Each | ChoiceKind::Optional)
    }

    /// What is left to choose once one branch holds, of those from an index on: each other may hold too.
    fn left(&self, open: &Open, from: usize) -> Option<Self> {
        let branches = self.branches[from..].iter().copied();
        let branches: Vec<_> = branches.filter(|branch| !open.conjunction.contains(branch)).collect();
        let some = self.counts(open) && !branches.is_empty();
        some.then_some(Self { branches, kind: ChoiceKind::Optional })
    }
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        document: Document<'a>,
        options: SchemaOptions,
        limits: &'a Limits,
        overlaps: FxHashSet<Overlap>,
    ) -> Self {
        Self {
            atoms: Atoms::new(document, options.formats),
            order: options.order,
            limits,
            draft: Draft::default(),
            ids: FxHashMap::default(),
            queue: VecDeque::new(),
            probing: false,
            overlaps,
            languages: FxHashMap::default(),
            work: 0,
        }
    }

    /// Builds everything that the root leads to, and returns the root.
    pub(super) fn build(&mut self) -> Result<NodeId, GrammarError> {
        let root = self.atoms.at("");
        let root = self.node(vec![root])?;
        while let Some((node, (atoms, probe))) = self.queue.pop_front() {
            self.probing = probe;
            self.fill(node, &atoms).map_err(|error| {
                let place = atoms.first().map(|&atom| self.atoms.place(atom));
                error.at(&place.unwrap_or_default())
            })?;
        }
        Ok(root)
    }

    /// Gives a node its content.
    fn fill(&mut self, node: NodeId, atoms: &[AtomId]) -> Result<(), GrammarError> {
        let mut known: [Known; 4] = Default::default();
        for alternative in self.alternatives(node, atoms)? {
            self.add_alternative(node, &alternative, &mut known)?;
        }
        Ok(())
    }

    /// The graph, what its languages are written in, and the warnings.
    pub(super) fn finish(self) -> (Draft, Strings, Vec<Warning>) {
        let (strings, warnings) = self.atoms.finish();
        (self.draft, strings, warnings)
    }

    pub(super) fn spend(&mut self, work: usize) -> Result<(), GrammarError> {
        self.work += work;
        let limit = self.limits.states.saturating_mul(STEPS);
        if self.work > limit {
            return Err(GrammarError::limit("steps of schema conjunction", self.work, limit));
        }
        Ok(())
    }

    /// The node of a set of atoms.
    pub(super) fn node(&mut self, atoms: Vec<AtomId>) -> Result<NodeId, GrammarError> {
        let mut key: Vec<AtomId> = Vec::with_capacity(atoms.len());
        let mut todo: Vec<AtomId> = atoms.into_iter().rev().collect();
        while let Some(id) = todo.pop() {
            self.atoms.check_grounded(id)?;
            let atom = self.atoms.get(id)?;
            if atom.types.is_empty() {
                key = vec![id];
                break;
            }
            // A lone reference is what it leads to: so all that lead there share a node.
            if atom.is_all() {
                todo.extend(atom.all.iter().rev());
            } else if !key.contains(&id) {
                key.push(id);
            }
        }
        if self.order == Order::Any {
            key.sort_unstable();
        }
        let key: NodeKey = (key.into(), self.probing);
        if let Some(&node) = self.ids.get(&key) {
            return Ok(node);
        }
        let node = self.draft.nodes.len() as NodeId;
        self.spend(1 + self.atoms.len() / 1024)?;
        self.draft.nodes.push(DraftNode { place: key.0.first().copied(), ..DraftNode::default() });
        self.ids.insert(key.clone(), node);
        self.queue.push_back((node, key));
        Ok(node)
    }

    /// The atoms of each way to satisfy all of `key`, every choice made.
    fn alternatives(&mut self, node: NodeId, key: &[AtomId]) -> Result<Vec<Vec<AtomId>>, GrammarError> {
        let known = self.atoms.asks_for_unevaluated;
        let alternatives = self.choose(node, key)?;
        if known == self.atoms.asks_for_unevaluated {
            return Ok(alternatives);
        }
        // On the way an atom was read for which each choice has to be exact.
        self.choose(node, key)
    }

    fn choose(&mut self, node: NodeId, key: &[AtomId]) -> Result<Vec<Vec<AtomId>>, GrammarError> {
        let mut done = Vec::new();
        let mut start = Open {
            conjunction: Vec::new(),
            types: Types::ALL,
            choices: VecDeque::new(),
            unevaluated: self.atoms.asks_for_unevaluated,
        };
        for &id in key {
            self.include(&mut start, id)?;
        }
        let mut open = vec![start];
        while let Some(mut partial) = open.pop() {
            let Some(choice) = partial.choices.pop_front() else {
                done.push(partial.conjunction);
                continue;
            };
            let holds = |branch: &AtomId| partial.conjunction.contains(branch);
            let mut possible = choice.branches.iter().map(holds).collect::<Vec<_>>();
            let exclusive = match &choice.kind {
                ChoiceKind::One(pointer) if !self.probing => Some(pointer),
                _ => None,
            };
            match (possible.contains(&true), exclusive) {
                (true, None) => {
                    partial.choices.extend(choice.left(&partial, 0));
                    open.push(partial);
                    continue;
                }
                (false, _) => possible.fill(true),
                (true, Some(_)) => {}
            }
            self.spend(partial.conjunction.len() + choice.branches.len())?;
            if let Some(pointer) = exclusive {
                self.exclude(node, &partial, &choice.branches, pointer)?;
            }
            if choice.kind == ChoiceKind::Optional {
                let mut none = partial.clone();
                if self.leave_out(&choice, choice.branches.len(), &mut none)? {
                    open.push(none);
                }
            }
            for (at, &branch) in choice.branches.iter().enumerate().rev().filter(|&(at, _)| possible[at]) {
                let mut taken = partial.clone();
                self.include(&mut taken, branch)?;
                for other in self.overlapping(&choice, at) {
                    self.include(&mut taken, other)?;
                }
                if self.leave_out(&choice, at, &mut taken)? {
                    taken.choices.extend(choice.left(&taken, at + 1));
                    open.push(taken);
                }
                if done.len() + open.len() > ALTERNATIVES {
                    return Err(GrammarError::limit("alternatives", done.len() + open.len(), ALTERNATIVES));
                }
            }
        }
        Ok(done)
    }

    /// Has the branches before an index not hold, where it matters that they do not; returns whether anything is left.
    fn leave_out(&mut self, choice: &Choice, end: usize, open: &mut Open) -> Result<bool, GrammarError> {
        if self.atoms.asks_for_unevaluated && choice.counts(open) {
            for &branch in &choice.branches[..end] {
                let negation = self.atoms.negate(branch);
                self.include(open, negation)?;
            }
        }
        self.atoms.narrow(open)?;
        Ok(!open.types.is_empty())
    }

    /// Adds an atom and all that must hold beside it.
    fn include(&mut self, open: &mut Open, id: AtomId) -> Result<(), GrammarError> {
        let mut todo = vec![id];
        while let Some(id) = todo.pop() {
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

    /// Notes that no two branches may have a value in common, beside what holds already.
    fn exclude(
        &mut self,
        node: NodeId,
        open: &Open,
        branches: &[AtomId],
        pointer: &str,
    ) -> Result<(), GrammarError> {
        for (at, &a) in branches.iter().enumerate() {
            for (before, &b) in branches[..at].iter().enumerate() {
                let overlap = (pointer.to_owned(), at, before);
                if self.overlaps.contains(&overlap) {
                    continue;
                }
                if a == b || self.may_overlap(open, a, b)? {
                    let pair = open.conjunction.iter().copied().chain([b, a]).collect();
                    self.probing = true;
                    let pair = self.node(pair);
                    self.probing = false;
                    let pair = pair?;
                    self.draft.exclusions.push((node, pair, overlap));
                }
            }
        }
        Ok(())
    }

    /// The negations of the branches of a `oneOf` that may hold beside one of them.
    fn overlapping(&mut self, choice: &Choice, at: usize) -> Vec<AtomId> {
        let ChoiceKind::One(pointer) = &choice.kind else { return Vec::new() };
        if self.probing {
            return Vec::new();
        }
        let others = choice.branches.iter().enumerate().filter(|&(other, _)| other != at);
        let overlapping = others
            .filter(|&(other, _)| self.overlaps.contains(&(pointer.clone(), at.max(other), at.min(other))));
        let overlapping: Vec<_> = overlapping.map(|(_, &branch)| branch).collect();
        overlapping.into_iter().map(|branch| self.atoms.negate(branch)).collect()
    }

    /// Whether it cannot be told at once that nothing satisfies two branches, beside what holds already.
    fn may_overlap(&mut self, open: &Open, a: AtomId, b: AtomId) -> Result<bool, GrammarError> {
        let mut both = Open { choices: VecDeque::new(), ..open.clone() };
        self.include(&mut both, a)?;
        self.include(&mut both, b)?;
        self.atoms.narrow(&mut both)?;
        Ok(!both.types.is_empty())
    }

    fn add_alternative(
        &mut self,
        node: NodeId,
        alternative: &[AtomId],
        known: &mut [Known; 4],
    ) -> Result<(), GrammarError> {
        let mut atoms: Vec<Rc<Atom>> = Vec::with_capacity(alternative.len());
        for &id in alternative {
            atoms.push(self.atoms.get(id)?);
        }
        let Conjunction { null, bools, numbers, text, words, array, object } =
            conjoin(alternative, &atoms, &mut self.atoms)?;
        let array = array.map(|array| self.array(&array)).transpose()?;
        let objects = object.map(|object| self.objects(object)).transpose()?;
        let node = &mut self.draft.nodes[node as usize];
        node.null |= null;
        node.bools = [node.bools[0] | bools[0], node.bools[1] | bools[1]];
        let [known_numbers, known_texts, known_arrays, known_objects] = known;
        known_numbers.add_new(&mut node.numbers, numbers);
        known_texts.add_new(&mut node.texts, text);
        known_arrays.add_new(&mut node.arrays, array);
        known_objects.add_new(&mut node.objects, objects.into_iter().flatten());
        node.words.extend(words);
        Ok(())
    }
}

/// What is in a list already, by hash: alternatives are many, and long to compare.
#[derive(Default)]
struct Known(FxHashMap<u64, Vec<usize>>);

impl Known {
    fn add_new<T: Eq + Hash>(&mut self, all: &mut Vec<T>, new: impl IntoIterator<Item = T>) {
        for one in new {
            let same = self.0.entry(FxBuildHasher.hash_one(&one)).or_default();
            if !same.iter().any(|&at| all[at] == one) {
                same.push(all.len());
                all.push(one);
            }
        }
    }
}
