//! Finds the nodes of the graph that some value satisfies and their shortest values, and builds the
//! program.

mod ample;
mod arrays;
mod dead;
mod distinct;
mod few_names;
mod groups;
mod objects;
mod scalars;

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::atom::Types;
use super::build::{Draft, DraftArray, DraftNode, DraftObject, Overlap};
use super::read::Strings;
use crate::error::GrammarError;
use crate::ir::json::cost::Cost;
use crate::ir::json::needs::NameCounts;
use crate::ir::json::number::NumberRule;
use crate::ir::json::program::{FREE, JsonProgram, Node, NodeChoice, NodeId, Required, TextRule};
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::options::SchemaOptions;
use crate::regular::ExprId;
use ample::mark_ample;

/// The result of solving the graph.
pub(super) enum Solved {
    /// The program, and the places of the subschemas of members and branches that no value can
    /// have.
    Program(Box<JsonProgram>, Vec<String>),
    /// No value satisfies the root. Holds the chain of unsatisfiable nodes from the root to the
    /// innermost cause, which is last: for each node, the places of its subschemas.
    Unsatisfiable(Vec<Vec<String>>),
    /// Some branches of a `oneOf` share values of these types. The graph must be built again, and
    /// the branches must exclude each other.
    Overlapping(Vec<(Overlap, Types)>),
}

/// Turns the graph into a program, or returns the reason why there is no program.
pub(super) fn solve(
    mut draft: Draft,
    mut strings: Strings,
    root: NodeId,
    options: SchemaOptions,
    (limits, ledger): (&Limits, &Rc<Ledger>),
) -> Result<Solved, GrammarError> {
    let program = JsonProgram {
        nodes: Vec::with_capacity(draft.nodes.len()),
        root,
        texts: vec![TextRule::ANY],
        languages: std::mem::take(&mut draft.languages),
        ..JsonProgram::empty(options)
    };
    let mut solver = Solver {
        program,
        limits,
        ledger: Rc::clone(ledger),
        automata: FxHashMap::default(),
        texts: FxHashMap::from_iter([(TextRule::ANY, FREE)]),
        languages: FxHashMap::default(),
        arrays: FxHashMap::default(),
        objects: FxHashMap::default(),
        states: 0,
        name_counts: RefCell::default(),
        uncounted: RefCell::default(),
        required: FxHashMap::default(),
        shortest: FxHashMap::default(),
    };
    for node in &draft.nodes {
        let first = node.atoms.first();
        let place = first.and_then(|atom| strings.places.get(atom)).cloned().unwrap_or_default();
        solver.add_scalars(node, &mut strings).map_err(|error| error.at(&place))?;
    }
    solver.settle_costs(&draft)?;
    solver.find_distinct(&draft)?;
    solver.find_costs(&mut draft)?;
    solver.find_distinct(&draft)?;
    solver.check_counted()?;
    if solver.cost(root).is_none() {
        let to_blame = solver.to_blame(&draft, root).into_iter().map(|node| {
            let atoms = draft.nodes[node as usize].atoms.iter();
            atoms.filter_map(|atom| strings.places.get(atom).cloned()).collect()
        });
        return Ok(Solved::Unsatisfiable(to_blame.collect()));
    }
    let life = solver.life(&draft)?;
    for (id, node) in draft.nodes.into_iter().enumerate() {
        solver.add_containers(id, node)?;
    }
    let Solver { mut program, .. } = solver;
    mark_ample(&mut program);
    let reached = reached(&program);
    let overlapping = draft
        .exclusions
        .into_iter()
        .filter(|(owner, pair, _)| reached.contains(owner) && !program.nodes[*pair as usize].cost.is_none());
    let overlapping: Vec<_> =
        overlapping.map(|(_, pair, overlap)| (overlap, types(&program.nodes[pair as usize]))).collect();
    if !overlapping.is_empty() {
        return Ok(Solved::Overlapping(overlapping));
    }
    let dead = dead::dead(&life, &draft.tried, &reached, &strings);
    Ok(Solved::Program(Box::new(program), dead))
}

/// Maximum number of automaton states of one language, so that no pattern takes long.
pub(super) const LANGUAGE_STATES: usize = 1 << 16;

/// Factor by which all languages of one schema together may exceed the limit on states. Languages
/// are built one by one, and each is small.
const LANGUAGES: usize = 8;

/// Returns the types of a node's values.
fn types(node: &Node) -> Types {
    let strings = !(node.texts.is_empty() && node.languages.is_empty()) || node.words.is_some();
    let present = [
        (node.null, Types::NULL),
        (node.bools.contains(&true), Types::BOOL),
        (node.number.is_some(), Types::NUMBER),
        (strings, Types::STRING),
        (!node.arrays.is_empty(), Types::ARRAY),
        (!node.objects.is_empty(), Types::OBJECT),
    ];
    present.iter().filter(|(present, _)| *present).fold(Types::NONE, |all, &(_, one)| all | one)
}
/// Maximum number of rounds in which objects regain undeclared members: see [`Solver::find_costs`].
/// In the last round, all objects without a value regain them.
const REOPENINGS: usize = 16;

/// Returns the nodes of `program` that are reachable from its root.
fn reached(program: &JsonProgram) -> FxHashSet<NodeId> {
    let mut reached = FxHashSet::from_iter([program.root]);
    let mut todo = vec![program.root];
    while let Some(node) = todo.pop() {
        let node = &program.nodes[node as usize];
        let arrays = node.arrays.iter().map(|&rule| &program.arrays[rule as usize]);
        let items =
            arrays.flat_map(|rule| rule.prefix.iter().flatten().chain(&rule.rest)).map(|way| way.node);
        let objects = node.objects.iter().map(|&rule| &program.objects[rule as usize]);
        let members = objects.flat_map(|rule| {
            let others = rule.others.iter().flatten().map(|way| way.node);
            let alternatives = rule.groups.iter().flat_map(|group| group.alternatives.iter().flatten());
            rule.members.iter().chain(alternatives).filter_map(|member| member.node).chain(others)
        });
        todo.extend(items.chain(members).filter(|&child| reached.insert(child)));
    }
    reached
}

/// Turns a [`Draft`] into a program. The maps remember results, so that equal parts are solved
/// once.
struct Solver<'a> {
    program: JsonProgram,
    limits: &'a Limits,
    ledger: Rc<Ledger>,
    /// For each list of number rules, the index of the automaton. `None` if no number satisfies the
    /// rules.
    automata: FxHashMap<Vec<NumberRule>, Option<u32>>,
    /// The index of each text rule in the program.
    texts: FxHashMap<TextRule, u32>,
    /// The index of each language in the program. `None` if the language is empty.
    languages: FxHashMap<ExprId, Option<u32>>,
    /// The index of each array's rule in the program. `None` if no array is possible.
    arrays: FxHashMap<DraftArray, Option<u32>>,
    /// The index of each object's rule in the program. `None` if no object is possible.
    objects: FxHashMap<DraftObject, Option<u32>>,
    /// Number of automaton states so far.
    states: usize,
    /// The number of names of each length, by language and label.
    name_counts: RefCell<FxHashMap<(u32, u32), NameCounts>>,
    /// Place of the first `minProperties` found that needs more names than are counted.
    uncounted: RefCell<Option<String>>,
    /// For arrays whose items must differ: the possible required items, and the cost of the array.
    required: FxHashMap<DraftArray, (Required, Cost)>,
    /// For arrays in which two items must be equal: the shortest value of each node that such items
    /// have.
    shortest: FxHashMap<NodeId, Box<[u8]>>,
}

impl Solver<'_> {
    /// Counts `states` automaton states. Returns an error if there are too many states.
    fn spend(&mut self, states: usize) -> Result<(), GrammarError> {
        self.states += states;
        let limit = self.states_limit();
        if self.states > limit {
            return Err(GrammarError::limit("automaton states", self.states, limit));
        }
        Ok(())
    }

    const fn states_limit(&self) -> usize {
        self.limits.states.saturating_mul(LANGUAGES)
    }

    /// Computes the least fixpoint of the costs, with undeclared members omitted from as many
    /// objects as possible.
    ///
    /// An object regains its undeclared members if the object has no value without them. Objects
    /// that immediately have a value with them come first.
    ///
    /// A node that has a value with undeclared members everywhere still has a value at the end.
    /// Otherwise some of these values would contain an object that lost its values although all its
    /// members still have values. With its undeclared members, the object would have a value, so it
    /// would have regained them.
    fn find_costs(&mut self, draft: &mut Draft) -> Result<(), GrammarError> {
        for round in 0..=REOPENINGS {
            self.settle_costs(draft)?;
            let mut changed = false;
            let objects = draft.nodes.iter_mut().flat_map(|node| &mut node.objects);
            for object in objects.filter(|object| object.omits) {
                if self.object_cost(object).is_none() {
                    object.omits = false;
                    let opened = round == REOPENINGS || !self.object_cost(object).is_none();
                    object.omits = !opened;
                    changed |= opened;
                }
            }
            if !changed {
                return Ok(());
            }
        }
        self.settle_costs(draft)
    }

    /// Computes the least fixpoint of the costs, in rounds over all nodes until no cost decreases.
    ///
    /// Children mostly come after their parents, so rounds run backwards and few are needed.
    fn settle_costs(&mut self, draft: &Draft) -> Result<(), GrammarError> {
        loop {
            let mut changed = false;
            for (id, node) in draft.nodes.iter().enumerate().rev() {
                let mut cost = self.program.nodes[id].cost.clone();
                for array in &node.arrays {
                    cost.or(&self.array_cost(array)?);
                }
                for object in &node.objects {
                    self.ledger.note(8 * (4 + object.members.len() + object.others.len()));
                    cost.or(&self.object_cost(object));
                }
                self.ledger.spend(4)?;
                if cost != self.program.nodes[id].cost {
                    self.program.nodes[id].cost = cost;
                    changed = true;
                }
            }
            if !changed {
                return Ok(());
            }
        }
    }

    fn cost(&self, node: NodeId) -> &Cost {
        &self.program.nodes[node as usize].cost
    }

    /// Returns the choices in `ways` whose node has a value.
    fn possible(&self, ways: &[NodeChoice]) -> Vec<NodeChoice> {
        ways.iter().copied().filter(|way| !self.cost(way.node).is_none()).collect()
    }

    /// Returns the least cost of the choices in `ways`.
    fn cheapest(&self, ways: &[NodeChoice]) -> Cost {
        let mut cost = Cost::NONE;
        for way in ways {
            cost.or(self.cost(way.node));
        }
        cost
    }

    /// Adds the satisfiable arrays and objects of `draft` to the node `id`. Nodes share equal
    /// rules, so the machine follows the continuations of a rule only once.
    fn add_containers(&mut self, id: usize, draft: DraftNode) -> Result<(), GrammarError> {
        for array in draft.arrays {
            let rule =
                if let Some(&known) = self.arrays.get(&array) { known } else { self.add_array(array)? };
            self.program.nodes[id].arrays.extend(rule);
        }
        for object in draft.objects {
            let rule =
                if let Some(&known) = self.objects.get(&object) { known } else { self.add_object(object)? };
            self.program.nodes[id].objects.extend(rule);
        }
        Ok(())
    }

    /// Adds the rule of an array and returns its index, or `None` if no array is possible.
    fn add_array(&mut self, array: DraftArray) -> Result<Option<u32>, GrammarError> {
        let rule = if self.array_cost(&array)?.is_none() { None } else { self.array(&array)? };
        let id = rule.as_ref().map(|_| self.program.arrays.len() as u32);
        self.program.arrays.extend(rule);
        self.arrays.insert(array, id);
        Ok(id)
    }

    /// Adds the rule of an object and returns its index, or `None` if no object is possible.
    fn add_object(&mut self, object: DraftObject) -> Result<Option<u32>, GrammarError> {
        let rule = if self.object_cost(&object).is_none() { None } else { Some(self.object(&object)?) };
        let id = rule.as_ref().map(|_| self.program.objects.len() as u32);
        self.program.objects.extend(rule);
        self.objects.insert(object, id);
        Ok(id)
    }
}
