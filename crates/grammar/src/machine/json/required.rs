//! Plans the required items of arrays whose items must differ.
//!
//! An array may require items of several kinds: by the position of an item, or by the counter that
//! an item raises. To complete the array, each required item must get a value of its kind that
//! differs from all others and from the values seen. For each node that an item may have, the
//! program lists the shortest values: all values, or one more than the number of required items.
//! This number is enough, because only required items add to the values seen.
//!
//! The sets of values that can be assigned together form a transversal matroid, so a greedy choice
//! is optimal. The values are tried from the shortest on. A value is taken if the values taken
//! before can be moved between items so that there is room for the new one.
//!
//! A value that every assignment uses is *critical*: no earlier item may have it.

use super::JsonMachine;
use crate::ir::json::program::{ArrayRule, NodeId, Required};
use crate::ir::json::values::{SetId, ValueId, Values};

/// A requirement for `count` more items. Each of them must be a value of one of `nodes`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Demand {
    pub(crate) count: u32,
    nodes: Vec<NodeId>,
}

/// A value that a required item may have.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(super) value: ValueId,
    /// Length of the value's shortest text at depth 0, in bytes. `lines` is the number of line
    /// breaks in that text.
    pub(crate) bytes: u32,
    pub(crate) lines: u32,
    first: u8,
    /// Nodes that allow the value, sorted.
    nodes: Vec<NodeId>,
}

impl Candidate {
    /// Returns the number of bytes of the value's shortest text at `depth`.
    fn cost(&self, depth: u32) -> u32 {
        self.bytes.saturating_add(self.lines.saturating_mul(2).saturating_mul(depth))
    }
}

impl Required {
    /// Returns the values in all pools as candidates. A value that is in several pools becomes one
    /// candidate.
    pub(crate) fn candidates(&self, values: &mut Values) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut places = rustc_hash::FxHashMap::default();
        for (node, texts) in &self.pools {
            for text in texts.iter() {
                let Some(value) = values.value(&text.compact) else { continue };
                let at = *places.entry(value).or_insert(candidates.len());
                if let Some(known) = candidates.get_mut(at) {
                    known.nodes.push(*node);
                } else {
                    let (bytes, lines, first) = (text.bytes, text.lines, text.compact[0]);
                    candidates.push(Candidate { value, bytes, lines, first, nodes: vec![*node] });
                }
            }
        }
        candidates.sort_by_key(|candidate| candidate.bytes);
        candidates
    }
}

impl ArrayRule {
    /// Reports whether items must differ, and either several items or an item for a counter are
    /// required.
    pub(crate) fn needs_different(&self) -> bool {
        self.unique && (self.min > 1 || self.counters.iter().any(|counter| counter.min > 0))
    }

    /// Returns the items that must still follow after `items` items with the given counts. The
    /// first demand includes the next item.
    ///
    /// Returns `None` if the array has no room for these items.
    pub(crate) fn demands(&self, items: u32, counts: &[u16]) -> Option<Vec<Demand>> {
        let mut demands: Vec<Demand> = Vec::new();
        let mut add =
            |count: u32, nodes: Vec<NodeId>| match demands.iter_mut().find(|demand| demand.nodes == nodes) {
                Some(demand) => demand.count += count,
                None => demands.push(Demand { count, nodes }),
            };
        if self.counters.is_empty() {
            let nodes = |index| self.item(index).iter().map(|way| way.node).collect();
            let prefix = self.prefix.len() as u32;
            for index in items..self.min.min(prefix) {
                add(1, nodes(index));
            }
            let rest = self.min.saturating_sub(items.max(prefix));
            if rest > 0 {
                add(rest, nodes(prefix));
            }
            return Some(demands);
        }
        let (missing, others) = self.needed(items, counts)?;
        let ways = self.item(0);
        for (at, &count) in missing.iter().enumerate().filter(|(_, count)| **count > 0) {
            add(count, ways.iter().filter(|way| way.bits == 1 << at).map(|way| way.node).collect());
        }
        if others > 0 {
            let free = |bits: u32| bits == 0 || self.counters[bits.trailing_zeros() as usize].max.is_none();
            add(others, ways.iter().filter(|way| free(way.bits)).map(|way| way.node).collect());
        }
        Some(demands)
    }

    /// Returns the maximum number of items that are required together and must differ.
    pub(crate) fn most_required(&self) -> u32 {
        let counted = self.counters.iter().map(|counter| u32::from(counter.min)).sum();
        self.min.max(counted)
    }
}

/// An assignment of candidates to demands. Each candidate meets at most one demand.
pub(crate) struct Assignment {
    /// For each candidate, the index of the demand that it is assigned to, if any.
    demand: Vec<Option<usize>>,
    /// For each candidate, the indices of the demands that it could be assigned to.
    allowed: Vec<Vec<usize>>,
    /// For each demand, the indices of the candidates that are assigned to it.
    held: Vec<Vec<usize>>,
}

impl Assignment {
    /// Creates an assignment that meets all demands with different candidates of the least total
    /// cost. Returns `None` if that is impossible.
    ///
    /// The candidates must be sorted by cost.
    pub(crate) fn new(demands: &[Demand], candidates: &[&Candidate]) -> Option<Self> {
        let meets = |candidate: &Candidate, demand: &Demand| {
            demand.nodes.iter().any(|node| candidate.nodes.binary_search(node).is_ok())
        };
        let allowed = candidates
            .iter()
            .map(|candidate| (0..demands.len()).filter(|&at| meets(candidate, &demands[at])).collect());
        let mut assignment = Self {
            demand: vec![None; candidates.len()],
            allowed: allowed.collect(),
            held: vec![Vec::new(); demands.len()],
        };
        let mut missing: u32 = demands.iter().map(|demand| demand.count).sum();
        for candidate in 0..candidates.len() {
            if missing == 0 {
                break;
            }
            missing -= u32::from(assignment.take(candidate, demands));
        }
        (missing == 0).then_some(assignment)
    }

    /// Assigns a candidate to a demand, if necessary after moving other candidates between demands.
    /// Reports whether that was possible.
    fn take(&mut self, candidate: usize, demands: &[Demand]) -> bool {
        let mut before: Vec<Option<(usize, usize)>> = vec![None; demands.len()];
        let mut queue = self.allowed[candidate].clone();
        let mut met = vec![false; demands.len()];
        for &demand in &queue {
            met[demand] = true;
        }
        let mut done = 0;
        while let Some(&demand) = queue.get(done) {
            done += 1;
            if self.held[demand].len() < demands[demand].count as usize {
                let mut free = demand;
                while let Some((from, moved)) = before[free] {
                    self.held[from].retain(|&other| other != moved);
                    self.put(moved, free);
                    free = from;
                }
                self.put(candidate, free);
                return true;
            }
            for &moved in &self.held[demand] {
                for &next in &self.allowed[moved] {
                    if !std::mem::replace(&mut met[next], true) {
                        before[next] = Some((demand, moved));
                        queue.push(next);
                    }
                }
            }
        }
        false
    }

    fn put(&mut self, candidate: usize, demand: usize) {
        self.held[demand].push(candidate);
        self.demand[candidate] = Some(demand);
    }

    /// Returns the indices of the candidates that are assigned to a demand.
    pub(crate) fn taken(&self) -> impl Iterator<Item = usize> {
        self.held.iter().flatten().copied()
    }

    /// Returns the indices of the candidates without which the demands cannot be met.
    fn critical(&self) -> Vec<usize> {
        // Demands for which another candidate can replace one of theirs.
        let mut met = vec![false; self.held.len()];
        let mut queue = Vec::new();
        let free = self.allowed.iter().zip(&self.demand).filter(|(_, demand)| demand.is_none());
        for &demand in free.flat_map(|(allowed, _)| allowed) {
            if !std::mem::replace(&mut met[demand], true) {
                queue.push(demand);
            }
        }
        while let Some(demand) = queue.pop() {
            for &next in self.held[demand].iter().flat_map(|&moved| &self.allowed[moved]) {
                if !std::mem::replace(&mut met[next], true) {
                    queue.push(next);
                }
            }
        }
        self.held.iter().zip(met).filter(|(_, met)| !met).flat_map(|(held, _)| held).copied().collect()
    }
}

/// A choice of values for the required items of an array, with the least number of bytes.
pub(super) struct Plan {
    /// Number of items that the plan adds.
    pub(super) items: u32,
    /// Total number of bytes of these items, without commas and white space between them.
    pub(super) bytes: u32,
    /// First byte of the next item, or `]` if no item is required.
    pub(super) first: u8,
    /// Values that no item before the planned ones may have, sorted.
    pub(super) critical: Vec<ValueId>,
}

impl JsonMachine {
    /// Plans the items that an array of rule `rule` still needs after `items` items with the counts
    /// `counts`. The items stand at `depth` and must differ from the values `seen`.
    ///
    /// If `node` is given, the next item must be a value of `node`. Returns `None` if there are not
    /// enough different values.
    pub(super) fn plan(
        &self,
        (rule, seen): (u32, SetId),
        (items, counts): (u32, u32),
        depth: u32,
        node: Option<NodeId>,
    ) -> Option<Plan> {
        let array = &self.program.arrays[rule as usize];
        let mut demands = array.demands(items, self.interner.counts(counts))?;
        demands.splice(0..0, node.map(|node| Demand { count: 1, nodes: vec![node] }));
        let values = &self.items.values;
        let all = self.items.candidates.get(&rule)?;
        if let Some(plan) = alike(&demands, all, |value| values.has(seen, value)) {
            return plan;
        }
        let mut free: Vec<_> = all.iter().filter(|candidate| !values.has(seen, candidate.value)).collect();
        free.sort_by_key(|candidate| candidate.cost(depth));
        let assignment = Assignment::new(&demands, &free)?;
        let bytes = assignment.taken().map(|at| free[at].cost(depth));
        let bytes = bytes.fold(0, u32::saturating_add);
        let mut critical: Vec<_> = assignment.critical().into_iter().map(|at| free[at].value).collect();
        critical.sort_unstable();
        let next = assignment.held.first().and_then(|held| held.first());
        Some(Plan {
            items: demands.iter().map(|demand| demand.count).sum(),
            bytes,
            first: next.map_or(b']', |&at| free[at].first),
            critical,
        })
    }
}

/// Returns the plan for the simple case in which all demands and all candidates have the same
/// nodes. The plan then consists of the cheapest candidates that have not been seen.
///
/// Returns `None` in all other cases, and `Some(None)` if there are too few candidates.
#[expect(clippy::option_option, reason = "whether there is such a plan, and whether it can be met")]
fn alike(demands: &[Demand], all: &[Candidate], seen: impl Fn(ValueId) -> bool) -> Option<Option<Plan>> {
    let (first, rest) = demands.split_first()?;
    let of_first = |candidate: &Candidate| candidate.lines == 0 && candidate.nodes == first.nodes;
    if rest.iter().any(|demand| demand.nodes != first.nodes) || !all.iter().all(of_first) {
        return None;
    }
    let items: u32 = demands.iter().map(|demand| demand.count).sum();
    let mut free = all.iter().filter(|candidate| !seen(candidate.value));
    let mut taken = free.by_ref().take(items as usize).peekable();
    let next = taken.peek().map_or(b']', |candidate| candidate.first);
    let (mut count, mut bytes) = (0, 0u32);
    for candidate in taken {
        (count, bytes) = (count + 1, bytes.saturating_add(candidate.bytes));
    }
    if count < items {
        return Some(None);
    }
    // If no other candidate is free, each one taken is critical.
    let mut critical = Vec::new();
    if free.next().is_none() {
        let needed = all.iter().filter(|candidate| !seen(candidate.value)).take(items as usize);
        critical = needed.map(|candidate| candidate.value).collect();
        critical.sort_unstable();
    }
    Some(Some(Plan { items, bytes, first: next, critical }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(value: ValueId, nodes: &[NodeId]) -> Candidate {
        Candidate { value, bytes: value, lines: 0, first: b'0', nodes: nodes.to_vec() }
    }

    fn demand(count: u32, nodes: &[NodeId]) -> Demand {
        Demand { count, nodes: nodes.to_vec() }
    }

    #[test]
    fn values_are_moved_to_make_room() {
        let candidates = [candidate(1, &[0, 1]), candidate(2, &[1]), candidate(3, &[0, 2])];
        let candidates: Vec<_> = candidates.iter().collect();
        let demands = [demand(1, &[0]), demand(1, &[1]), demand(1, &[2])];
        let assignment = Assignment::new(&demands, &candidates).unwrap();
        assert_eq!(assignment.demand, [Some(0), Some(1), Some(2)]);
        assert_eq!(assignment.critical(), [0, 1, 2]);
        assert!(Assignment::new(&[demand(2, &[2])], &candidates).is_none());
        assert!(Assignment::new(&[demand(2, &[2]), demand(1, &[1])], &candidates).is_none());
    }

    #[test]
    fn a_replaceable_value_is_not_critical() {
        let candidates = [candidate(1, &[0]), candidate(2, &[0, 1]), candidate(3, &[1]), candidate(4, &[2])];
        let candidates: Vec<_> = candidates.iter().collect();
        let demands = [demand(1, &[0]), demand(1, &[1]), demand(1, &[2])];
        let assignment = Assignment::new(&demands, &candidates).unwrap();
        assert_eq!(assignment.taken().map(|at| candidates[at].bytes).sum::<u32>(), 7);
        assert_eq!(assignment.critical(), [3]);
    }
}
