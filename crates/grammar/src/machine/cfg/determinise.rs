//! The subset construction over bytes and calls.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::states::{ByteEdge, CallEdge, Dot, States};
use crate::GrammarError;
use crate::ledger::Ledger;

/// Determinisation may multiply the number of states of a rule by this factor, and may always
/// create `SMALL` states. If it needs more, the rule stays nondeterministic, which only costs a
/// little time per byte.
const GROWTH: usize = 2;
const SMALL: usize = 64;

/// Number of steps for each allowed edge that determinisation may spend on splitting byte ranges.
const STEPS: usize = 8;

/// Memory charged for each state, in bytes.
const STATE_BYTES: usize = 192;
/// Memory charged for each edge, in bytes.
const EDGE_BYTES: usize = 8;

/// States of a nondeterministic automaton that stand for one state of a deterministic one, in order.
type Subset = SmallVec<[Dot; 4]>;

/// The subsets that a subset construction has found, in the order of their ids.
struct Subsets {
    order: Vec<Subset>,
    ids: FxHashMap<Subset, Dot>,
    /// For each dot, the id of the subset that has this dot alone.
    ones: Vec<Option<Dot>>,
}

impl Subsets {
    /// Creates the subsets of an automaton with `states` states. The first one has the start alone.
    fn new(states: usize) -> Self {
        let mut subsets =
            Self { order: Vec::with_capacity(states), ids: FxHashMap::default(), ones: vec![None; states] };
        subsets.id_of_one(Dot(0));
        subsets
    }

    fn id_of_one(&mut self, dot: Dot) -> Dot {
        *self.ones[dot.index()].get_or_insert_with(|| {
            self.order.push(Subset::from_slice(&[dot]));
            Dot(self.order.len() as u32 - 1)
        })
    }

    fn id_of(&mut self, mut subset: Subset) -> Dot {
        subset.sort_unstable();
        subset.dedup();
        if let [only] = *subset {
            return self.id_of_one(only);
        }
        *self.ids.entry(subset).or_insert_with_key(|subset| {
            self.order.push(subset.clone());
            Dot(self.order.len() as u32 - 1)
        })
    }
}

/// Determinises an automaton. Returns `None` if it would grow too much.
pub(super) fn determinise(states: &States, ledger: &Ledger) -> Result<Option<States>, GrammarError> {
    let limit = (states.len() * GROWTH).max(SMALL);
    let (bytes, calls) = states.edges();
    let edge_limit = (bytes.len() + calls.len()) * GROWTH + SMALL * SMALL;
    let (mut work, mut steps) = (0, 0);
    let mut subsets = Subsets::new(states.len());
    let mut result = States::with_capacity(states.len());
    while let Some(subset) = subsets.order.get(result.len()).cloned() {
        let edges = match *subset {
            // Most states of long texts are alone.
            [only] if states.get(only.index()).has_one_target() => {
                let state = states.get(only.index());
                result.push_mapped(state, |target| subsets.id_of_one(target));
                let edges = state.bytes.len() + state.calls.len();
                ledger.spend(8 + 4 * edges)?;
                work += edges;
                steps += edges;
                edges
            }
            _ => {
                let members = || subset.iter().map(|dot| states.get(dot.index()));
                let bytes: SmallVec<[ByteEdge; 16]> =
                    members().flat_map(|member| member.bytes).copied().collect();
                ledger.spend(8 * subset.len() + 4 * bytes.len())?;
                let before = result.edges().0.len();
                split(&bytes, |low, high, targets| {
                    result.push_byte(ByteEdge { low, high, target: subsets.id_of(targets) });
                });
                let mut calls: SmallVec<[CallEdge; 8]> =
                    members().flat_map(|member| member.calls).copied().collect();
                calls.sort_unstable();
                for group in calls.chunk_by(|a, b| a.rule == b.rule) {
                    let target = subsets.id_of(group.iter().map(|edge| edge.target).collect());
                    result.push_call(CallEdge { rule: group[0].rule, target });
                }
                let ranges = result.edges().0.len() - before;
                result.finish_state(members().any(|member| member.accepting), None);
                work += bytes.len() + calls.len();
                steps += bytes.len() * ranges;
                ledger.spend(bytes.len() * ranges / 4)?;
                ranges + calls.len()
            }
        };
        ledger.hold(STATE_BYTES + 16 * subset.len() + EDGE_BYTES * edges)?;
        if subsets.order.len() > limit || work > edge_limit || steps > STEPS * edge_limit {
            return Ok(None);
        }
    }
    Ok(Some(result))
}

/// Cuts overlapping edges into disjoint byte ranges. Calls `each` with `(low, high, targets)` for each range,
/// where `targets` has the targets of all edges over the range.
fn split(edges: &[ByteEdge], mut each: impl FnMut(u8, u8, Subset)) {
    let mut cuts: SmallVec<[u16; 32]> =
        edges.iter().flat_map(|edge| [u16::from(edge.low), u16::from(edge.high) + 1]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    for window in cuts.windows(2) {
        let (low, high) = (window[0] as u8, (window[1] - 1) as u8);
        let covers = |edge: &&ByteEdge| edge.low <= low && high <= edge.high;
        let targets: Subset = edges.iter().filter(covers).map(|edge| edge.target).collect();
        if !targets.is_empty() {
            each(low, high, targets);
        }
    }
}
