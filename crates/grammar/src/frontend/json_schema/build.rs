//! Builds the graph of nodes, with one node for each set of atoms that applies to one place.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::atom::{Atom, AtomId, Types};
use super::child_pointer;
use super::conjoin::{Conjunction, StringSet, conjoin};
use super::document::Document;
use super::groups::{Alternative, Group};
use super::read::{Atoms, Strings};
use crate::Warning;
use crate::error::GrammarError;
use crate::ir::json::number::{NumberRule, normalize};
use crate::ir::json::program::{Counter, NodeChoice, NodeId};
use crate::ir::json::texts::Texts;
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::options::{Order, SchemaOptions, Undeclared};
use crate::regular::ExprId;

/// Cost of visiting an atom or a member, in ledger steps.
const STEP: usize = 4;

/// The graph before it is known which nodes can be satisfied.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) nodes: Vec<DraftNode>,
    /// Conjunctions of two branches of a `oneOf`, which should have no value. Each entry holds the
    /// node with the `oneOf`, the node of the conjunction, and the branches.
    pub(super) exclusions: Vec<(NodeId, NodeId, Overlap)>,
    /// Languages that classify undeclared names.
    pub(super) languages: Vec<Arc<Texts>>,
    /// Branches of choices that were tried, with the node of the choice.
    pub(super) tried: FxHashSet<(NodeId, AtomId)>,
}

/// Two branches of the `oneOf` at a place that may share a value. The larger index comes first.
pub(super) type Overlap = (Rc<str>, usize, usize);

/// The types of the values that two branches of a `oneOf` share, by the place of the `oneOf`.
#[derive(Clone, Default)]
pub(super) struct Overlaps(FxHashMap<Rc<str>, Pairs>);

/// The types of shared values, by the indices of two branches. The larger index comes first.
pub(super) type Pairs = FxHashMap<(usize, usize), Types>;

impl Overlaps {
    pub(super) fn of(&self, pointer: &str) -> Option<&Pairs> {
        self.0.get(pointer)
    }

    pub(super) fn add(&mut self, (pointer, first, second): Overlap, types: Types) {
        let known = self.0.entry(pointer).or_default().entry((first, second)).or_insert(Types::NONE);
        *known = *known | types;
    }

    /// Takes the pairs of one `oneOf`. The caller must [put them back](Self::put_back).
    pub(super) fn take(&mut self, pointer: &str) -> Pairs {
        self.0.get_mut(pointer).map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn put_back(&mut self, pointer: &Rc<str>, pairs: Pairs) {
        if !pairs.is_empty() {
            self.0.insert(Rc::clone(pointer), pairs);
        }
    }
}

/// The values at one place: the union of all fields.
#[derive(Default)]
pub(super) struct DraftNode {
    /// The atoms whose conjunction is this node.
    pub(super) atoms: Box<[AtomId]>,
    /// The contribution of each alternative.
    pub(super) alternatives: Vec<DraftAlternative>,
    pub(super) null: bool,
    pub(super) bools: [bool; 2],
    pub(super) numbers: Vec<NumberRule>,
    /// Place of the first `multipleOf` that applies to `numbers`.
    pub(super) divisor: Option<String>,
    pub(super) texts: Vec<StringSet>,
    pub(super) words: Vec<String>,
    pub(super) arrays: Vec<DraftArray>,
    pub(super) objects: Vec<DraftObject>,
}

/// The contribution of one alternative to its node.
pub(super) struct DraftAlternative {
    pub(super) atoms: Box<[AtomId]>,
    /// True if the alternative has a value that is neither an array nor an object.
    pub(super) scalars: bool,
    /// Indices into the arrays and the objects of the node.
    pub(super) arrays: Vec<usize>,
    pub(super) objects: Vec<usize>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct DraftArray {
    pub(super) prefix: Vec<Vec<NodeChoice>>,
    pub(super) rest: Vec<NodeChoice>,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    pub(super) counters: Vec<Counter>,
    /// Place of the keyword of the first counter.
    pub(super) counted: Option<String>,
    /// Place of a `uniqueItems`: no two items may be equal.
    pub(super) unique: Option<String>,
    /// Place of a negated `uniqueItems`: two items must be equal.
    pub(super) repeated: Option<String>,
}

#[derive(PartialEq, Eq, Hash)]
pub(super) struct DraftObject {
    pub(super) members: Vec<(String, NodeId, bool)>,
    /// Choices for an undeclared member, by the label of its name.
    pub(super) others: Vec<Vec<NodeChoice>>,
    /// Index of the language that labels undeclared names. `None` if all of them have label 0.
    pub(super) labels: Option<u32>,
    /// True if undeclared members are omitted: see [`Undeclared`](crate::options::Undeclared).
    pub(super) omits: bool,
    pub(super) obligations: u8,
    pub(super) min: u32,
    pub(super) min_pointer: String,
    pub(super) max: Option<u32>,
    pub(super) groups: Vec<DraftGroup>,
}

/// Members of an object that depend on each other, as indices.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct DraftGroup {
    pub(super) members: Vec<u32>,
    /// For each alternative, the node of each member, and true if the member is required.
    pub(super) alternatives: Vec<Vec<(NodeId, bool)>>,
}

pub(super) struct Builder<'a> {
    pub(super) atoms: Atoms<'a>,
    order: Order,
    undeclared: Undeclared,
    pub(super) limits: &'a Limits,
    pub(super) draft: Draft,
    ids: FxHashMap<NodeKey, NodeId>,
    /// Nodes that have an id but no content yet.
    queue: VecDeque<(NodeId, NodeKey)>,
    /// True if the node under construction is a probe, as [`NodeKey`] defines it.
    pub(super) probing: bool,
    /// Known overlaps between branches of `oneOf`s. Two branches exclude each other for the types
    /// in which they overlap.
    pub(super) overlaps: Overlaps,
    /// Indices of the languages that classify undeclared names, by the expressions of a language.
    pub(super) languages: FxHashMap<Vec<ExprId>, u32>,
}

/// Identity of a node: its atoms, and true for a probe.
///
/// A probe only tells whether some value satisfies all atoms, and reads `oneOf` as `anyOf`. So a probe may
/// report an overlap that does not exist. The branches then exclude each other twice, which does no harm.
type NodeKey = (Box<[AtomId]>, bool);

impl<'a> Builder<'a> {
    pub(super) fn new(
        document: Document<'a>,
        options: SchemaOptions,
        limits: &'a Limits,
        ledger: &Rc<Ledger>,
        overlaps: Overlaps,
    ) -> Self {
        Self {
            atoms: Atoms::new(document, options.formats, ledger),
            order: options.order,
            undeclared: options.undeclared,
            limits,
            draft: Draft::default(),
            ids: FxHashMap::default(),
            queue: VecDeque::new(),
            probing: false,
            overlaps,
            languages: FxHashMap::default(),
        }
    }

    /// Builds all nodes that are reachable from the root, and returns the root.
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

    /// Fills a node with the values of its alternatives.
    fn fill(&mut self, node: NodeId, atoms: &[AtomId]) -> Result<(), GrammarError> {
        let mut known: [Deduplicated; 4] = Default::default();
        for Alternative { atoms, groups } in self.alternatives(node, atoms)? {
            self.add_alternative(node, &atoms, &groups, &mut known)?;
        }
        let numbers = &mut self.draft.nodes[node as usize].numbers;
        *numbers = normalize(std::mem::take(numbers));
        Ok(())
    }

    /// Returns the graph, the languages of strings and the warnings.
    pub(super) fn finish(self) -> (Draft, Strings, Vec<Warning>) {
        let (strings, warnings) = self.atoms.finish();
        (self.draft, strings, warnings)
    }

    /// Returns true if undeclared members are omitted from objects whose schema does not mention them.
    ///
    /// Probes allow undeclared members, because they look for overlaps among all values of the
    /// schema. As a result, each remaining value satisfies exactly one branch of a `oneOf`.
    pub(super) fn omits_undeclared(&self) -> bool {
        self.undeclared == Undeclared::Omit && !self.probing
    }

    /// Charges the ledger for visiting a number of atoms or members.
    pub(super) fn spend(&self, steps: usize) -> Result<(), GrammarError> {
        self.atoms.ledger.spend(STEP * steps)
    }

    /// Returns the node of a set of atoms. Adds the node if there is none.
    pub(super) fn node(&mut self, atoms: Vec<AtomId>) -> Result<NodeId, GrammarError> {
        let mut key: Vec<AtomId> = Vec::with_capacity(atoms.len());
        let mut todo: Vec<AtomId> = atoms.into_iter().rev().collect();
        let mut met = FxHashSet::default();
        while let Some(id) = todo.pop() {
            self.spend(2)?;
            if !met.insert(id) {
                continue;
            }
            self.atoms.check_grounded(id)?;
            let atom = self.atoms.get(id)?;
            if atom.types.is_empty() {
                key = vec![id];
                break;
            }
            // Replace a lone reference by its target, so that all references to a target share its
            // node. In a probe the reference stays if evaluation matters: another atom may lead to
            // the reference, and then its evaluated members count.
            let stays = self.probing && !atom.all.is_empty() && self.atoms.document.has_unevaluated();
            if atom.is_all() && !stays {
                todo.extend(atom.all.iter().rev());
            } else {
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
        self.spend(4 + key.0.len())?;
        self.atoms.ledger.hold(size_of::<DraftNode>() + 16 * key.0.len() + 128)?;
        self.draft.nodes.push(DraftNode { atoms: key.0.clone(), ..DraftNode::default() });
        self.ids.insert(key.clone(), node);
        self.queue.push_back((node, key));
        Ok(node)
    }

    fn add_alternative(
        &mut self,
        node: NodeId,
        alternative: &[AtomId],
        groups: &[Group],
        known: &mut [Deduplicated; 4],
    ) -> Result<(), GrammarError> {
        let mut atoms: Vec<Rc<Atom>> = Vec::with_capacity(alternative.len());
        for &id in alternative {
            atoms.push(self.atoms.get(id)?);
        }
        let size: usize = atoms.iter().map(|atom| atom.size()).sum();
        self.spend(4 + size)?;
        let Conjunction { null, bools, numbers, text, words, array, object } =
            conjoin(alternative, &atoms, groups, &mut self.atoms)?;
        let array = array.map(|array| self.array(&array)).transpose()?;
        let objects = object.map(|object| self.objects(object, groups)).transpose()?;
        let divided = alternative.iter().zip(&atoms).find(|(_, atom)| atom.number.has_divisors());
        let divisor = divided.filter(|_| !numbers.is_empty()).map(|(&id, _)| self.atoms.place(id));
        self.atoms.ledger.hold(size_of::<DraftAlternative>() + 4 * alternative.len() + 32)?;
        let scalars =
            null || bools.contains(&true) || !numbers.is_empty() || text.is_some() || !words.is_empty();
        let node = &mut self.draft.nodes[node as usize];
        node.divisor = node.divisor.take().or(divisor.map(|place| child_pointer(&place, "multipleOf")));
        node.null |= null;
        node.bools = [node.bools[0] | bools[0], node.bools[1] | bools[1]];
        let [known_numbers, known_texts, known_arrays, known_objects] = known;
        known_numbers.add_new(&mut node.numbers, numbers);
        known_texts.add_new(&mut node.texts, text);
        let arrays = known_arrays.add_new(&mut node.arrays, array);
        let objects = known_objects.add_new(&mut node.objects, objects.into_iter().flatten());
        // The alternatives of groups are not checked for values separately, so their atoms count as
        // part of this alternative.
        let in_groups = groups.iter().flat_map(|group| group.alternatives.iter().flatten());
        let atoms = alternative.iter().chain(in_groups).copied().collect();
        node.alternatives.push(DraftAlternative { atoms, scalars, arrays, objects });
        node.words.extend(words);
        Ok(())
    }
}

/// Finds duplicates in a list by hash, because alternatives are numerous and expensive to compare.
#[derive(Default)]
struct Deduplicated(FxHashMap<u64, Vec<usize>>);

impl Deduplicated {
    /// Appends the elements that are new, and returns the position of each element.
    fn add_new<T: Eq + Hash>(&mut self, all: &mut Vec<T>, new: impl IntoIterator<Item = T>) -> Vec<usize> {
        let mut places = Vec::new();
        for one in new {
            let same = self.0.entry(FxBuildHasher.hash_one(&one)).or_default();
            let known = same.iter().copied().find(|&at| all[at] == one);
            let place = known.unwrap_or(all.len());
            if known.is_none() {
                same.push(place);
                all.push(one);
            }
            places.push(place);
        }
        places
    }
}
