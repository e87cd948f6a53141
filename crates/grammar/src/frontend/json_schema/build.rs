//! Builds the graph of nodes. Each node stands for a set of atoms that apply to one value together.

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
    /// Automata that give each undeclared name a label, for [`DraftObject::labels`].
    pub(super) languages: Vec<Arc<Texts>>,
    /// The branches that were tried for choices, each with the node of the choice.
    pub(super) tried: FxHashSet<(NodeId, AtomId)>,
}

/// Two branches of a `oneOf` that may share a value: the place of the `oneOf`, and the indices of
/// the branches. The larger index comes first.
pub(super) type Overlap = (Rc<str>, usize, usize);

/// For each pair of branches of a `oneOf`, the types of the values that the branches share. The
/// outer key is the place of the `oneOf`.
#[derive(Clone, Default)]
pub(super) struct Overlaps(FxHashMap<Rc<str>, Pairs>);

/// For each pair of branches of one `oneOf`, the types of the values that the branches share. The
/// key has the indices of the branches, the larger one first.
pub(super) type Pairs = FxHashMap<(usize, usize), Types>;

impl Overlaps {
    /// Returns the pairs of the `oneOf` at the place `pointer`.
    pub(super) fn of(&self, pointer: &str) -> Option<&Pairs> {
        self.0.get(pointer)
    }

    /// Adds `types` to the types of the values that two branches share.
    pub(super) fn add(&mut self, (pointer, first, second): Overlap, types: Types) {
        let known = self.0.entry(pointer).or_default().entry((first, second)).or_insert(Types::NONE);
        *known = *known | types;
    }

    /// Removes and returns the pairs of the `oneOf` at the place `pointer`. The caller must [put
    /// them back](Self::put_back).
    pub(super) fn take(&mut self, pointer: &str) -> Pairs {
        self.0.get_mut(pointer).map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn put_back(&mut self, pointer: &Rc<str>, pairs: Pairs) {
        if !pairs.is_empty() {
            self.0.insert(Rc::clone(pointer), pairs);
        }
    }
}

/// The values that satisfy a set of atoms: all values that at least one of the fields accepts.
#[derive(Default)]
pub(super) struct DraftNode {
    /// The atoms whose conjunction is this node.
    pub(super) atoms: Box<[AtomId]>,
    /// The alternatives of the atoms, each with its part of the fields below.
    pub(super) alternatives: Vec<DraftAlternative>,
    pub(super) null: bool,
    /// True for each accepted boolean: `false` first, then `true`.
    pub(super) bools: [bool; 2],
    pub(super) numbers: Vec<NumberRule>,
    /// Place of the first `multipleOf` that applies to `numbers`.
    pub(super) divisor: Option<String>,
    /// Strings by language and length.
    pub(super) texts: Vec<StringSet>,
    /// Strings that `enum` or `const` lists.
    pub(super) words: Vec<String>,
    pub(super) arrays: Vec<DraftArray>,
    pub(super) objects: Vec<DraftObject>,
}

/// One alternative of a node, with its part of the node's values.
pub(super) struct DraftAlternative {
    pub(super) atoms: Box<[AtomId]>,
    /// True if the alternative has a value that is neither an array nor an object.
    pub(super) scalars: bool,
    /// Indices of the alternative's arrays in [`DraftNode::arrays`].
    pub(super) arrays: Vec<usize>,
    /// Indices of the alternative's objects in [`DraftNode::objects`].
    pub(super) objects: Vec<usize>,
}

/// The arrays that one alternative accepts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct DraftArray {
    /// For each of the first items, its choices.
    pub(super) prefix: Vec<Vec<NodeChoice>>,
    /// The choices for every later item.
    pub(super) rest: Vec<NodeChoice>,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    pub(super) counters: Vec<Counter>,
    /// Place of the `contains` of the first counter, for error messages.
    pub(super) counted: Option<String>,
    /// If no two items may be equal, the place of the `uniqueItems` that requires this.
    pub(super) unique: Option<String>,
    /// If two items must be equal, the place of the negated `uniqueItems` that requires this.
    pub(super) repeated: Option<String>,
}

/// The objects that one alternative accepts.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct DraftObject {
    /// The declared members: the name, the node of the value, and true if the member is required.
    pub(super) members: Vec<(String, NodeId, bool)>,
    /// For each label of names, the choices for an undeclared member with such a name.
    pub(super) others: Vec<Vec<NodeChoice>>,
    /// Index in [`Draft::languages`] of the automaton that labels undeclared names. If `None`, all
    /// undeclared names have label 0.
    pub(super) labels: Option<u32>,
    /// True if undeclared members are omitted: see [`Undeclared`](crate::options::Undeclared).
    pub(super) omits: bool,
    /// The obligations that undeclared members must meet, one bit for each.
    pub(super) obligations: u8,
    pub(super) min: u32,
    /// Place of the `minProperties` that gives `min`, for error messages.
    pub(super) min_pointer: String,
    pub(super) max: Option<u32>,
    pub(super) groups: Vec<DraftGroup>,
}

/// Members of an object that depend on each other.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct DraftGroup {
    /// Indices of the members in [`DraftObject::members`].
    pub(super) members: Vec<u32>,
    /// For each alternative of the group, and for each of its members: the node of the value, and
    /// true if the member is required.
    pub(super) alternatives: Vec<Vec<(NodeId, bool)>>,
}

/// Builds a [`Draft`].
pub(super) struct Builder<'a> {
    pub(super) atoms: Atoms<'a>,
    order: Order,
    undeclared: Undeclared,
    pub(super) limits: &'a Limits,
    pub(super) draft: Draft,
    /// The node of each key.
    ids: FxHashMap<NodeKey, NodeId>,
    /// Nodes that have an id but no content yet.
    queue: VecDeque<(NodeId, NodeKey)>,
    /// True if the node under construction is a probe, as [`NodeKey`] defines it.
    pub(super) probing: bool,
    /// Known overlaps between branches of `oneOf`s. Two branches exclude each other for the types
    /// in which they overlap.
    pub(super) overlaps: Overlaps,
    /// Index in [`Draft::languages`] of each automaton, by the expressions that it was built from.
    pub(super) languages: FxHashMap<Vec<ExprId>, u32>,
}

/// Identity of a node: its atoms, and true if the node is a probe.
///
/// A probe only answers whether some value satisfies all atoms. For this purpose, `oneOf` is read
/// as `anyOf`. So a probe may report an overlap that does not exist. The branches then exclude each
/// other twice, which does no harm.
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

    /// Adds the values of all alternatives to a new node. `atoms` are the atoms of the node.
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

    /// Charges the ledger for visiting `steps` atoms or members.
    pub(super) fn spend(&self, steps: usize) -> Result<(), GrammarError> {
        self.atoms.ledger.spend(STEP * steps)
    }

    /// Returns the node for the conjunction of `atoms`, and adds the node if it is new.
    pub(super) fn node(&mut self, atoms: Vec<AtomId>) -> Result<NodeId, GrammarError> {
        let mut key: Vec<AtomId> = Vec::with_capacity(atoms.len());
        let mut todo: Vec<AtomId> = atoms.into_iter().rev().collect();
        let mut met = Met::default();
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
        self.spend(48 + key.0.len())?;
        self.atoms.ledger.hold(size_of::<DraftNode>() + 16 * key.0.len() + 128)?;
        self.draft.nodes.push(DraftNode { atoms: key.0.clone(), ..DraftNode::default() });
        self.ids.insert(key.clone(), node);
        self.queue.push_back((node, key));
        Ok(node)
    }

    /// Adds the values of one alternative to `node`. `known` finds equal numbers, texts, arrays and
    /// objects.
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
        self.spend(32 + size)?;
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

/// A set of atoms, mostly of one.
#[derive(Default)]
struct Met {
    first: Option<AtomId>,
    others: FxHashSet<AtomId>,
}

impl Met {
    /// Adds an atom. Returns false if the set already has it.
    fn insert(&mut self, atom: AtomId) -> bool {
        match self.first {
            None => self.first.replace(atom).is_none(),
            Some(first) => first != atom && self.others.insert(atom),
        }
    }
}

/// Positions of the elements of a list, by hash. Finds duplicates without comparing all pairs,
/// because alternatives are numerous and expensive to compare. The positions of a list with one element are
/// not kept, because most lists have no more.
#[derive(Default)]
struct Deduplicated(FxHashMap<u64, Vec<usize>>);

impl Deduplicated {
    /// Appends to `all` those elements of `new` that `all` does not contain yet. Returns the
    /// position in `all` of each element of `new`.
    fn add_new<T: Eq + Hash>(&mut self, all: &mut Vec<T>, new: impl IntoIterator<Item = T>) -> Vec<usize> {
        let mut places = Vec::new();
        for one in new {
            if all.is_empty() {
                places.push(0);
                all.push(one);
                continue;
            }
            if self.0.is_empty() {
                self.0.insert(FxBuildHasher.hash_one(&all[0]), vec![0]);
            }
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
