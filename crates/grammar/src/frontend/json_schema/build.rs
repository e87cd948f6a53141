//! The graph of nodes: one for each set of atoms that applies to one place.

use std::collections::VecDeque;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::Warning;
use super::atom::{Atom, AtomId, Choice, Types};
use super::conjoin::{ArraySets, Conjunction, ObjectSets, conjoin};
use super::document::Document;
use super::options::Order;
use super::read::Atoms;
use crate::error::GrammarError;
use crate::limits::Limits;
use crate::machine::json::number::NumberRule;
use crate::machine::json::program::{ArrayRule, NodeId, TextRule};

/// Alternatives that one node may have: the product of its choices.
const ALTERNATIVES: usize = 4096;

/// The graph before it is known what can be satisfied.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) nodes: Vec<DraftNode>,
    /// Conjunctions of two branches of a `oneOf`, which must have no value: the node whose values the `oneOf` is
    /// about, the conjunction, and where the keyword stands.
    pub(super) exclusions: Vec<(NodeId, NodeId, String)>,
}

/// The values at one place: any of these.
#[derive(Default)]
pub(super) struct DraftNode {
    pub(super) null: bool,
    pub(super) bools: [bool; 2],
    pub(super) numbers: Vec<NumberRule>,
    pub(super) texts: Vec<TextRule>,
    pub(super) words: Vec<String>,
    pub(super) arrays: Vec<ArrayRule>,
    pub(super) objects: Vec<DraftObject>,
}

#[derive(PartialEq)]
pub(super) struct DraftObject {
    pub(super) members: Vec<(String, NodeId, bool)>,
    pub(super) additional: NodeId,
    pub(super) min: u32,
    pub(super) min_pointer: String,
    pub(super) max: Option<u32>,
}

pub(super) struct Builder<'a> {
    atoms: Atoms<'a>,
    order: Order,
    limits: &'a Limits,
    draft: Draft,
    ids: FxHashMap<Box<[AtomId]>, NodeId>,
    /// Nodes with an id and no content yet.
    queue: VecDeque<(NodeId, Box<[AtomId]>)>,
    /// Atoms, alternatives and members gone through.
    work: usize,
}

/// A conjunction on the way to an alternative: its choices are still to be made.
#[derive(Clone)]
struct Open {
    conjunction: Vec<AtomId>,
    types: Types,
    choices: VecDeque<Choice>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(document: Document<'a>, order: Order, limits: &'a Limits) -> Self {
        Self {
            atoms: Atoms::new(document),
            order,
            limits,
            draft: Draft::default(),
            ids: FxHashMap::default(),
            queue: VecDeque::new(),
            work: 0,
        }
    }

    /// Builds everything that the root leads to, and returns the root.
    pub(super) fn build(&mut self) -> Result<NodeId, GrammarError> {
        let root = self.atoms.at("");
        let root = self.node(vec![root])?;
        while let Some((node, key)) = self.queue.pop_front() {
            for alternative in self.alternatives(node, &key)? {
                self.add_alternative(node, &alternative)?;
            }
        }
        Ok(root)
    }

    pub(super) fn finish(self) -> (Draft, Vec<Warning>) {
        (self.draft, self.atoms.into_warnings())
    }

    fn spend(&mut self, work: usize) -> Result<(), GrammarError> {
        self.work += work;
        if self.work > self.limits.states {
            return Err(GrammarError::limit("steps of schema conjunction", self.work, self.limits.states));
        }
        Ok(())
    }

    /// The node of a set of atoms.
    fn node(&mut self, atoms: Vec<AtomId>) -> Result<NodeId, GrammarError> {
        let mut key: Vec<AtomId> = Vec::with_capacity(atoms.len());
        for id in atoms {
            let atom = self.atoms.get(id)?;
            if atom.types.is_empty() {
                key = vec![id];
                break;
            }
            if !atom.is_any() && !key.contains(&id) {
                key.push(id);
            }
        }
        if self.order == Order::Any {
            key.sort_unstable();
        }
        if let Some(&node) = self.ids.get(key.as_slice()) {
            return Ok(node);
        }
        let node = self.draft.nodes.len() as NodeId;
        self.spend(1 + self.atoms.len() / 1024)?;
        self.draft.nodes.push(DraftNode::default());
        self.ids.insert(key.clone().into(), node);
        self.queue.push_back((node, key.into()));
        Ok(node)
    }

    /// The atoms of each way to satisfy all of `key`, every choice made.
    fn alternatives(&mut self, node: NodeId, key: &[AtomId]) -> Result<Vec<Vec<AtomId>>, GrammarError> {
        let mut done = Vec::new();
        let mut start = Open { conjunction: Vec::new(), types: Types::ALL, choices: VecDeque::new() };
        for &id in key {
            self.include(&mut start, id)?;
        }
        let mut open = vec![start];
        while let Some(mut partial) = open.pop() {
            let Some(choice) = partial.choices.pop_front() else {
                done.push(partial.conjunction);
                continue;
            };
            if choice.branches.iter().any(|branch| partial.conjunction.contains(branch)) {
                open.push(partial); // made already
                continue;
            }
            self.spend(partial.conjunction.len() + choice.branches.len())?;
            if let Some(pointer) = &choice.exclusive {
                self.exclude(node, &partial, &choice.branches, pointer)?;
            }
            for &branch in choice.branches.iter().rev() {
                let mut taken = partial.clone();
                self.include(&mut taken, branch)?;
                if !taken.types.is_empty() {
                    open.push(taken);
                }
            }
            if done.len() + open.len() > ALTERNATIVES {
                return Err(GrammarError::limit(
                    "alternatives at one place",
                    done.len() + open.len(),
                    ALTERNATIVES,
                ));
            }
        }
        Ok(done)
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
            for &b in &branches[..at] {
                if a == b || self.types(a)?.has(self.types(b)?) {
                    let pair = open.conjunction.iter().copied().chain([b, a]).collect();
                    let pair = self.node(pair)?;
                    self.draft.exclusions.push((node, pair, pointer.to_owned()));
                }
            }
        }
        Ok(())
    }

    fn types(&mut self, id: AtomId) -> Result<Types, GrammarError> {
        Ok(self.atoms.get(id)?.types)
    }

    fn add_alternative(&mut self, node: NodeId, alternative: &[AtomId]) -> Result<(), GrammarError> {
        let mut atoms: Vec<Rc<Atom>> = Vec::with_capacity(alternative.len());
        for &id in alternative {
            atoms.push(self.atoms.get(id)?);
        }
        let Conjunction { null, bools, numbers, text, words, array, object } = conjoin(&atoms)?;
        let array = array.map(|array| self.array(array)).transpose()?;
        let object = object.map(|object| self.object(object)).transpose()?;
        let node = &mut self.draft.nodes[node as usize];
        node.null |= null;
        node.bools = [node.bools[0] | bools[0], node.bools[1] | bools[1]];
        add_new(&mut node.numbers, numbers);
        add_new(&mut node.texts, text);
        add_new(&mut node.arrays, array);
        add_new(&mut node.objects, object);
        node.words.extend(words);
        Ok(())
    }

    fn array(&mut self, sets: ArraySets) -> Result<ArrayRule, GrammarError> {
        let mut prefix = Vec::with_capacity(sets.prefix.len());
        for set in sets.prefix {
            prefix.push(self.node(set)?);
        }
        self.spend(prefix.len())?;
        let rest = Some(self.node(sets.rest)?);
        Ok(ArrayRule { prefix, rest, min: sets.min, max: sets.max })
    }

    fn object(&mut self, sets: ObjectSets) -> Result<DraftObject, GrammarError> {
        let mut members = Vec::with_capacity(sets.members.len());
        let mut required = 0;
        for (name, set, is_required) in sets.members {
            members.push((name, self.node(set)?, is_required));
            required += u32::from(is_required);
        }
        self.spend(members.len())?;
        let additional = self.node(sets.additional)?;
        let min = if sets.min <= required { 0 } else { sets.min };
        Ok(DraftObject { members, additional, min, min_pointer: sets.min_pointer, max: sets.max })
    }
}

fn add_new<T: PartialEq>(all: &mut Vec<T>, new: impl IntoIterator<Item = T>) {
    for one in new {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}
