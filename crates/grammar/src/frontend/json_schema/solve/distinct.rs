//! The required items of arrays whose items must differ.
//!
//! What different items cost together, and whether there are as many, depends on the values of their nodes. So these are
//! listed, the shortest first, by the machine of the program so far. In it such an array has no value at first. One whose
//! items are found to exist is added, and the values are listed again: a least fixpoint around that of the costs.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Solver;
use crate::error::{GrammarError, SchemaProblem};
use crate::frontend::json_schema::Problem;
use crate::frontend::json_schema::build::{Draft, DraftArray};
use crate::ir::json::cost::Cost;
use crate::ir::json::program::{After, ArrayRule, ItemText, JsonProgram, NodeId, Repeats, Required};
use crate::ir::json::values::Values;
use crate::machine::json::required::{Assignment, Candidate};
use crate::options::SchemaOptions;

/// The most required items that must differ.
const REQUIRED: u32 = 64;

/// The most values that are listed for one array.
const CANDIDATES: usize = 1 << 14;

/// How deep arrays with required items that must differ may be needed inside each other.
const ROUNDS: usize = 16;

/// By node and number: as many of its values, or all.
type Pools = FxHashMap<(NodeId, u32), Arc<[ItemText]>>;

impl Solver<'_> {
    /// Whether the required items of an array have to be listed.
    pub(super) fn lists_items(rule: &ArrayRule) -> bool {
        rule.needs_different() && !is_single(rule)
    }

    /// Finds the costs of all nodes where items must differ.
    pub(super) fn find_distinct(&mut self, draft: &Draft) -> Result<(), GrammarError> {
        for _ in 0..ROUNDS {
            if !self.find_required(draft)? {
                return self.find_repeated(draft);
            }
            self.settle_costs(draft)?;
        }
        let limit = ROUNDS;
        Err(GrammarError::limit("levels of required items that must differ", limit + 1, limit))
    }

    /// Lists what required items can be; returns whether that changes what is known.
    fn find_required(&mut self, draft: &Draft) -> Result<bool, GrammarError> {
        let mut needy = Vec::new();
        for array in draft.nodes.iter().flat_map(|node| &node.arrays) {
            let Some(pointer) = &array.unique else { continue };
            if let Some(rule) = self.array_of_any(array)?.filter(Self::lists_items).filter(counts_can_be_met)
            {
                check(&rule, pointer)?;
                needy.push((array, rule, pointer));
            }
        }
        if needy.is_empty() {
            return Ok(false);
        }
        let wanted = |(_, rule, pointer): &(&DraftArray, ArrayRule, &String)| {
            let (count, pointer) = (rule.most_required() + 1, (*pointer).clone());
            required_nodes(rule).into_iter().map(move |node| ((node, count), pointer.clone()))
        };
        let wanted: FxHashMap<_, _> = needy.iter().flat_map(wanted).collect();
        let pools = self.list_values(draft, wanted)?;
        let mut changed = false;
        for (array, rule, _) in needy {
            let count = rule.most_required() + 1;
            let nodes = required_nodes(&rule).into_iter();
            let pools = nodes.map(|node| (node, Arc::clone(&pools[&(node, count)]))).collect();
            let required = Required { pools };
            let candidates = required.candidates(&mut Values::default());
            let Some(cost) = self.different_items(&rule, &candidates) else { continue };
            let known = self.required.get(array);
            if known.is_none_or(|(known, _)| *known != required) {
                self.required.insert(array.clone(), (required, cost));
                changed = true;
            }
        }
        Ok(changed)
    }

    /// How two items of an array can be equal, if there is room for them.
    pub(super) fn repeats(&self, rule: &ArrayRule, pointer: &str) -> Result<Option<Repeats>, Problem> {
        if rule.max.is_some_and(|max| max < 2) {
            return Ok(None);
        }
        let last = rule.max.map_or(rule.prefix.len() as u32, |max| max - 1);
        let ways = rule.item(last);
        let from = (0..last).rev().take_while(|&index| rule.item(index) == ways).last().unwrap_or(last);
        let room = rule.max.is_none_or(|max| max >= from + 2);
        let (&[way], true, true) = (ways, room, rule.counters.is_empty()) else {
            let reason = "its negation is supported where the last two items at least have the same subschema, and \
                          without `contains`";
            let problem = SchemaProblem::UnsupportedForm { reason };
            return Err(Problem::new(pointer, "uniqueItems", problem));
        };
        let cheapest = self.shortest.get(&way.node).cloned().unwrap_or_default();
        Ok(Some(Repeats { from, cheapest }))
    }

    /// Lists the shortest values of the items that are to be equal.
    fn find_repeated(&mut self, draft: &Draft) -> Result<(), GrammarError> {
        let mut wanted = FxHashMap::default();
        for array in draft.nodes.iter().flat_map(|node| &node.arrays) {
            let Some(pointer) = &array.repeated else { continue };
            if let Some(rule) = self.array(array)?
                && let Some(repeats) = &rule.repeats
            {
                let nodes = rule.item(repeats.from).iter().map(|way| way.node);
                // Whether a nested value can still become equal to another one takes too long to search at each byte.
                let nested = |node: NodeId| {
                    let node = &draft.nodes[node as usize];
                    !node.arrays.is_empty() || !node.objects.is_empty()
                };
                if nodes.clone().any(nested) {
                    let reason = "its negation is supported for items that are neither arrays nor objects";
                    let problem = SchemaProblem::UnsupportedForm { reason };
                    return Err(Problem::new(pointer, "uniqueItems", problem).into());
                }
                wanted.extend(nodes.map(|node| ((node, 1), pointer.clone())));
            }
        }
        if !wanted.is_empty() {
            let pools = self.list_values(draft, wanted)?;
            let shortest = pools
                .into_iter()
                .filter_map(|((node, _), texts)| Some((node, texts.first()?.compact.clone())));
            self.shortest = shortest.collect();
        }
        Ok(())
    }

    /// The cost of an array with as few items as possible, all of them different, if there are as many.
    fn different_items(&self, rule: &ArrayRule, candidates: &[Candidate]) -> Option<Cost> {
        let demands = rule.demands(0, &[])?;
        let candidates: Vec<_> = candidates.iter().collect();
        let assignment = Assignment::new(&demands, &candidates)?;
        let count: u32 = demands.iter().map(|demand| demand.count).sum();
        let spacing = &self.program.spacing;
        let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
        let mut cost = Cost::new(1, b'[').and(&spacing.bracket_cost(1)).and(&comma.times(count - 1));
        for item in assignment.taken().map(|at| candidates[at]) {
            cost = cost.and(&Cost::gap((item.bytes, item.lines), 1));
        }
        Some(cost.and(&spacing.bracket_cost(0)).and(&Cost::new(1, b']')))
    }

    /// Lists values of nodes, as many as are wanted of each, with the place that they are wanted for.
    fn list_values(
        &mut self,
        draft: &Draft,
        wanted: FxHashMap<(NodeId, u32), String>,
    ) -> Result<Pools, GrammarError> {
        let added = self.add_below(draft, &wanted.keys().map(|(node, _)| *node).collect::<Vec<_>>())?;
        let empty = JsonProgram::empty(SchemaOptions::default());
        let program = Arc::new(std::mem::replace(&mut self.program, empty));
        let mut pools = Pools::default();
        let mut failed = None;
        let mut machine = program.machine();
        for ((node, count), pointer) in wanted {
            if let Some(texts) = machine.cheapest(node, count as usize) {
                pools.insert((node, count), texts.into());
            } else {
                let reason = "the values of required items that must differ are too long to look for";
                let problem = SchemaProblem::UnsupportedForm { reason };
                failed = Some(Problem::new(&pointer, "uniqueItems", problem));
                break;
            }
        }
        drop(machine);
        self.program = Arc::into_inner(program).expect("the machine was the only other owner");
        for node in added {
            let node = &mut self.program.nodes[node as usize];
            node.arrays.clear();
            node.objects.clear();
        }
        self.program.arrays.clear();
        self.program.objects.clear();
        failed.map_or(Ok(pools), |problem| Err(problem.into()))
    }

    /// Adds the arrays and objects of some nodes and of all that they lead to; returns these nodes.
    fn add_below(&mut self, draft: &Draft, nodes: &[NodeId]) -> Result<Vec<NodeId>, GrammarError> {
        let mut met: FxHashSet<NodeId> = nodes.iter().copied().collect();
        let mut todo: Vec<NodeId> = met.iter().copied().collect();
        let mut added = Vec::new();
        while let Some(id) = todo.pop() {
            let node = &draft.nodes[id as usize];
            let mut arrays = Vec::new();
            for array in &node.arrays {
                if !self.array_cost(array)?.is_none() {
                    arrays.extend(self.array(array)?);
                }
            }
            let mut objects = Vec::new();
            for object in &node.objects {
                if !self.object_cost(object).is_none() {
                    objects.push(self.object(object)?);
                }
            }
            let items = arrays.iter().flat_map(|rule| rule.prefix.iter().flatten().chain(&rule.rest));
            let others = objects.iter().flat_map(|rule| rule.others.iter().flatten());
            let members = objects.iter().flat_map(|rule| &rule.members).filter_map(|member| member.node);
            let below: Vec<_> = items.chain(others).map(|way| way.node).chain(members).collect();
            todo.extend(below.into_iter().filter(|&child| met.insert(child)));
            let program = &mut self.program;
            let ids = |first: usize, count: usize| (first..first + count).map(|id| id as u32);
            program.nodes[id as usize].arrays = ids(program.arrays.len(), arrays.len()).collect();
            program.nodes[id as usize].objects = ids(program.objects.len(), objects.len()).collect();
            program.arrays.extend(arrays);
            program.objects.extend(objects);
            added.push(id);
        }
        Ok(added)
    }
}

/// Whether one item makes up for all that an array with counters asks for, and nothing but a search is needed.
fn is_single(rule: &ArrayRule) -> bool {
    let mut asked = (0..rule.counters.len()).filter(|&at| rule.counters[at].min > 0);
    let (Some(only), None) = (asked.next(), asked.next()) else { return false };
    let listed = matches!(rule.after, After::Listed(_)) && rule.min <= 1 && rule.counters[only].min == 1;
    listed && rule.item(0).iter().any(|way| way.bits >> only & 1 == 1)
}

/// Whether some items make the counts of an array right, if they need not differ.
fn counts_can_be_met(rule: &ArrayRule) -> bool {
    let mut first = rule.item(0).iter().filter_map(|way| rule.raise(&[], way.bits));
    rule.counters.is_empty() || first.any(|counts| rule.to_end(rule.count(0), &counts, 0).is_some())
}

/// The nodes that the required items of an array may be of, sorted.
fn required_nodes(rule: &ArrayRule) -> Vec<NodeId> {
    let places = rule.min.max(1).min(rule.prefix.len() as u32 + 1);
    let mut nodes: Vec<_> = (0..places).flat_map(|index| rule.item(index)).map(|way| way.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Refuses arrays whose required items cannot be listed.
fn check(rule: &ArrayRule, pointer: &str) -> Result<(), Problem> {
    let refused = |problem| Err(Problem::new(pointer, "uniqueItems", problem));
    if !rule.counters.is_empty() && matches!(rule.after, After::Listed(_)) {
        let reason = "beside required items that must differ, each `contains` has to speak of all items, of other values \
                      than the rest, and have no `maxContains`";
        return refused(SchemaProblem::UnsupportedForm { reason });
    }
    let (given, limit) = (rule.most_required() as usize, REQUIRED as usize);
    if given > limit {
        return refused(SchemaProblem::Limit { what: "required items that must differ", given, limit });
    }
    let (given, limit) = (required_nodes(rule).len().saturating_mul(given), CANDIDATES);
    if given > limit {
        return refused(SchemaProblem::Limit { what: "values of items that must differ", given, limit });
    }
    Ok(())
}
