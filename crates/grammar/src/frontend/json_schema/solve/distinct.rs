//! Required items of arrays whose items must differ.
//!
//! The cost of several different items depends on the values of their nodes. So does the question
//! whether enough values exist. The solver runs the program built so far to list these values, the
//! shortest first. In this program, an array whose items must differ has no value at first. If
//! enough different items are found, the array is added and the values are listed again. This is a
//! least fixpoint around the fixpoint of the costs.

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

/// Maximum number of required items of one array whose items must differ.
const REQUIRED: u32 = 64;

/// Maximum number of values listed for one array.
const CANDIDATES: usize = 1 << 14;

/// Maximum nesting depth of arrays with required items that must differ.
const ROUNDS: usize = 16;

/// For each node and count, the shortest values of the node, up to that count.
type Pools = FxHashMap<(NodeId, u32), Arc<[ItemText]>>;

impl Solver<'_> {
    /// Returns true if the values of the required items of `rule` must be listed.
    pub(super) fn lists_items(rule: &ArrayRule) -> bool {
        rule.needs_different() && !is_single(rule)
    }

    /// Computes the costs of all nodes, including arrays whose items must differ.
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

    /// Lists the values of the required items of all arrays whose items must differ. Returns true
    /// if some list differs from the known one.
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

    /// Returns the requirement that two items of an array are equal, for the negated `uniqueItems`
    /// at the place `pointer`. Returns `None` if there is no room for two items.
    pub(super) fn repeats(&self, rule: &ArrayRule, pointer: &str) -> Result<Option<Repeats>, Problem> {
        if rule.max.is_some_and(|max| max < 2) {
            return Ok(None);
        }
        let last = rule.max.map_or(rule.prefix.len() as u32, |max| max - 1);
        let ways = rule.item(last);
        let from = (0..last).rev().take_while(|&index| rule.item(index) == ways).last().unwrap_or(last);
        let room = rule.max.is_none_or(|max| max >= from + 2);
        let (&[way], true, true) = (ways, room, rule.counters.is_empty()) else {
            let reason = "the negation is supported only without `contains`, and if at least the last two items \
                          have the same subschema";
            let problem = SchemaProblem::UnsupportedForm { reason };
            return Err(Problem::new(pointer, "uniqueItems", problem));
        };
        let cheapest = self.shortest.get(&way.node).cloned().unwrap_or_default();
        Ok(Some(Repeats { from, cheapest }))
    }

    /// Finds the shortest value of each node that two equal items may have, and stores it in
    /// `shortest`.
    fn find_repeated(&mut self, draft: &Draft) -> Result<(), GrammarError> {
        let mut wanted = FxHashMap::default();
        for array in draft.nodes.iter().flat_map(|node| &node.arrays) {
            let Some(pointer) = &array.repeated else { continue };
            if let Some(rule) = self.array(array)?
                && let Some(repeats) = &rule.repeats
            {
                let nodes = rule.item(repeats.from).iter().map(|way| way.node);
                // For a nested value, a search at each byte would have to decide if the value can
                // still equal another one. This takes too long.
                let nested = |node: NodeId| {
                    let node = &draft.nodes[node as usize];
                    !node.arrays.is_empty() || !node.objects.is_empty()
                };
                if nodes.clone().any(nested) {
                    let reason =
                        "the negation is supported only for items that are neither arrays nor objects";
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

    /// Returns the cost of an array with as few items as possible, all of them different values
    /// from `candidates`. Returns `None` if there are not enough values.
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

    /// Lists the shortest values of nodes. Each key of `wanted` is a node and the number of values
    /// to list. The entry is the place that needs the values, for error messages.
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
                let reason = "the values of required items that must differ are too long to list";
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

    /// Adds to the program the arrays and objects of `nodes` and of all nodes below them. Returns
    /// all of these nodes.
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

/// Returns true if a single item meets all requirements of an array with counters. The machine then
/// searches for this item, and its values need not be listed.
fn is_single(rule: &ArrayRule) -> bool {
    let mut asked = (0..rule.counters.len()).filter(|&at| rule.counters[at].min > 0);
    let (Some(only), None) = (asked.next(), asked.next()) else { return false };
    let listed = matches!(rule.after, After::Listed(_)) && rule.min <= 1 && rule.counters[only].min == 1;
    listed && rule.item(0).iter().any(|way| way.bits >> only & 1 == 1)
}

/// Returns true if some items satisfy the counters of `rule`, ignoring that items must differ.
fn counts_can_be_met(rule: &ArrayRule) -> bool {
    let mut first = rule.item(0).iter().filter_map(|way| rule.raise(&[], way.bits));
    rule.counters.is_empty() || first.any(|counts| rule.to_end(rule.count(0), &counts, 0).is_some())
}

/// Returns the nodes that the required items of an array may have, sorted.
fn required_nodes(rule: &ArrayRule) -> Vec<NodeId> {
    let places = rule.min.max(1).min(rule.prefix.len() as u32 + 1);
    let mut nodes: Vec<_> = (0..places).flat_map(|index| rule.item(index)).map(|way| way.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Rejects an array whose required items cannot be listed.
fn check(rule: &ArrayRule, pointer: &str) -> Result<(), Problem> {
    let refused = |problem| Err(Problem::new(pointer, "uniqueItems", problem));
    if !rule.counters.is_empty() && matches!(rule.after, After::Listed(_)) {
        let reason = "if required items must differ, each `contains` must apply to all items and to other values than \
                      the rest, without `maxContains`";
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
