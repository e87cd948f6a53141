//! The search for shortest texts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::program::{Program, Shortest};
use super::states::{CallEdge, Dot};
use crate::buckets::Buckets;
use crate::ledger::Ledger;
use crate::{GrammarError, Limits};

/// Memory charged for each state during the search, in bytes.
pub(super) const SEARCH_BYTES: usize = 96;
/// Memory charged for each edge during the search, in bytes.
const EDGE_BYTES: usize = 64;

/// Finds the shortest text from each of the first `own` dots to the end of its rule. Sets these texts
/// ([`Program::shortest`]), and the order in which they are candidate ([`Program::ranks`]). The texts of the
/// other dots must be known.
///
/// This is Knuth's generalisation of Dijkstra's algorithm. It settles each dot once, in order of
/// the length of the text. A call edge is followed once the start of the called rule and the dot
/// after the call are both settled.
pub(super) fn search(
    program: &mut Program,
    own: usize,
    limits: &Limits,
    ledger: &Ledger,
) -> Result<(), GrammarError> {
    let edges: usize =
        program.states.iter().take(own).map(|state| state.bytes.len() + 2 * state.calls.len()).sum();
    let held = ledger.held();
    ledger.hold(own * SEARCH_BYTES + edges * EDGE_BYTES)?;
    let mut settled = std::mem::take(&mut program.shortest);
    let mut ranks = std::mem::take(&mut program.ranks);
    // Linked texts were candidate before, so all others come after them.
    let known = ranks.iter().filter(|&&rank| rank != u32::MAX).max();
    let mut rank = known.map_or(0, |rank| rank + 1);
    let waiting = Waiting::new(program, own);
    let mut open = Queue::default();
    for (index, state) in program.states.iter().take(own).enumerate() {
        if state.accepting {
            open.push(Candidate::new(0, index as u32, 0));
        } else if let Some(embedded) = state.embedded {
            let mut machine = program.embedded[embedded as usize].machine();
            let start = machine.start();
            let (len, first) = (machine.closing_len(start), machine.closing_byte(start));
            open.push(Candidate::new(len, index as u32, first));
        }
    }
    while let Some(candidate) = open.pop() {
        let (len, index, first) = candidate.parts();
        let dot = index as usize;
        if settled[dot].len != Shortest::NEVER {
            continue;
        }
        if len as usize > limits.shortest_bytes {
            return Err(GrammarError::limit(
                "bytes in the shortest text of a rule",
                len as usize,
                limits.shortest_bytes,
            ));
        }
        settled[dot] = Shortest { len, first };
        ranks[dot] = rank;
        rank += 1;
        let (bytes, calls) = (waiting.bytes.of(index), waiting.calls.of(index));
        ledger.spend(4 + bytes.len() + calls.len())?;
        for &edge in bytes {
            let (from, byte) = waiting.byte_edges[edge as usize];
            open.push(Candidate::new(len.saturating_add(1), from, byte));
        }
        for &entry in calls {
            let (_, from, edge) = waiting.call_edges[entry as usize];
            let inside = settled[program.start(edge.rule).index()];
            let after = settled[edge.target.index()];
            if inside.len != Shortest::NEVER && after.len != Shortest::NEVER {
                let first = if inside.len > 0 { inside.first } else { after.first };
                open.push(Candidate::new(inside.len.saturating_add(after.len), from, first));
            }
        }
    }
    ledger.release_to(held);
    ledger.hold(own * SEARCH_BYTES)?;
    (program.shortest, program.ranks) = (settled, ranks);
    Ok(())
}

/// A text from a dot to the end of its rule: its length, the index of the dot, and its first byte, in one
/// number that has the order of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate(u128);

impl Candidate {
    fn new(len: u32, index: u32, first: u8) -> Self {
        Self(u128::from(len) << 64 | u128::from(index) << 32 | u128::from(first))
    }

    const fn parts(self) -> (u32, u32, u8) {
        ((self.0 >> 64) as u32, (self.0 >> 32) as u32, self.0 as u8)
    }
}

/// A queue of texts, the least one first.
#[derive(Default)]
struct Queue {
    /// The text that was added last, which is often the least one. It is not in `others`.
    last: Option<Candidate>,
    others: BinaryHeap<Reverse<Candidate>>,
}

impl Queue {
    fn push(&mut self, candidate: Candidate) {
        if let Some(other) = self.last.replace(candidate) {
            self.others.push(Reverse(other));
        }
    }

    fn pop(&mut self) -> Option<Candidate> {
        let Some(last) = self.last else { return self.others.pop().map(|Reverse(candidate)| candidate) };
        match self.others.peek_mut() {
            // Exchanging them orders the heap once.
            Some(mut least) if least.0 < last => {
                self.last = None;
                Some(std::mem::replace(&mut least.0, last))
            }
            _ => self.last.take(),
        }
    }
}

/// The edges that become usable when a dot is settled.
struct Waiting {
    /// For each dot, the indices of the byte edges that lead to the dot.
    bytes: Buckets,
    /// Source and lowest byte of each byte edge.
    byte_edges: Vec<(u32, u8)>,
    /// For each dot, the indices of its entries in `call_edges`.
    calls: Buckets,
    /// A dot, the source of a call edge, and the edge. The edge leads to the dot, or the called rule starts
    /// at the dot.
    call_edges: Vec<(Dot, u32, CallEdge)>,
}

impl Waiting {
    /// Collects the edges among the first `own` states.
    fn new(program: &Program, own: usize) -> Self {
        let mut byte_edges = Vec::new();
        let mut call_edges = Vec::new();
        for (index, state) in program.states.iter().take(own).enumerate() {
            let from = index as u32;
            byte_edges.extend(state.bytes.iter().map(|edge| (from, edge.low)));
            for edge in state.calls {
                call_edges.push((edge.target, from, *edge));
                // The text of a linked rule is known from the start.
                let start = program.start(edge.rule);
                if start.index() < own {
                    call_edges.push((start, from, *edge));
                }
            }
        }
        let (edges, _) = program.states.edges();
        let bytes = Buckets::by_key(byte_edges.len(), |edge| edges[edge].target.0);
        let calls = Buckets::by_key(call_edges.len(), |entry| call_edges[entry].0.0);
        Self { bytes, byte_edges, calls, call_edges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_yields_the_least_text_first() {
        let mut seed = 3_u64;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32 % below
        };
        let (mut queue, mut heap) = (Queue::default(), BinaryHeap::new());
        for _ in 0..10_000 {
            // Few different texts, so that many are equal.
            for _ in 0..next(3) {
                let candidate = Candidate::new(next(4), next(4), next(4) as u8);
                queue.push(candidate);
                heap.push(Reverse(candidate));
            }
            if next(2) == 0 {
                assert_eq!(
                    queue.pop().map(Candidate::parts),
                    heap.pop().map(|Reverse(candidate)| candidate.parts())
                );
            }
        }
    }
}
