//! The search for shortest texts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::program::{Program, Shortest};
use super::states::{CallEdge, Dot};
use crate::ledger::Ledger;
use crate::regular::minimize::Groups;
use crate::{GrammarError, Limits};

/// Memory charged for each state during the search, in bytes.
pub(super) const SEARCH_BYTES: usize = 96;

/// Finds the shortest text from each of the first `own` dots to the end of its rule. Sets these texts
/// ([`Program::shortest`]), and the order in which they are found ([`Program::ranks`]). The texts of the
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
    ledger.hold(own * SEARCH_BYTES)?;
    let mut settled = std::mem::take(&mut program.shortest);
    let mut ranks = std::mem::take(&mut program.ranks);
    // Linked texts were found before, so all others come after them.
    let known = ranks.iter().filter(|&&rank| rank != u32::MAX).max();
    let mut rank = known.map_or(0, |rank| rank + 1);
    let waiting = Waiting::new(program, own);
    let mut open = Open::default();
    for (index, state) in program.states.iter().take(own).enumerate() {
        if state.accepting {
            open.push(Found::new(0, index as u32, 0));
        } else if let Some(embedded) = state.embedded {
            let mut machine = program.embedded[embedded as usize].machine();
            let start = machine.start();
            let (len, first) = (machine.closing_len(start), machine.closing_byte(start));
            open.push(Found::new(len, index as u32, first));
        }
    }
    while let Some(found) = open.pop() {
        let (len, index, first) = found.parts();
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
            open.push(Found::new(len.saturating_add(1), from, byte));
        }
        for &entry in calls {
            let (_, from, edge) = waiting.call_edges[entry as usize];
            let inside = settled[program.start(edge.rule).index()];
            let after = settled[edge.target.index()];
            if inside.len != Shortest::NEVER && after.len != Shortest::NEVER {
                let first = if inside.len > 0 { inside.first } else { after.first };
                open.push(Found::new(inside.len.saturating_add(after.len), from, first));
            }
        }
    }
    (program.shortest, program.ranks) = (settled, ranks);
    Ok(())
}

/// A text from a dot to the end of its rule: its length, the index of the dot, and its first byte, in one number
/// that has the order of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Found(u128);

impl Found {
    fn new(len: u32, index: u32, first: u8) -> Self {
        Self(u128::from(len) << 64 | u128::from(index) << 32 | u128::from(first))
    }

    const fn parts(self) -> (u32, u32, u8) {
        ((self.0 >> 64) as u32, (self.0 >> 32) as u32, self.0 as u8)
    }
}

/// A queue of texts, the least one first.
#[derive(Default)]
struct Open {
    /// The text that was added last and is not in `others`. It is often the next, because most dots end one text.
    last: Option<Found>,
    others: BinaryHeap<Reverse<Found>>,
}

impl Open {
    fn push(&mut self, found: Found) {
        if let Some(other) = self.last.replace(found) {
            self.others.push(Reverse(other));
        }
    }

    fn pop(&mut self) -> Option<Found> {
        let Some(last) = self.last else { return self.others.pop().map(|Reverse(found)| found) };
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
    bytes: Groups,
    /// Source and lowest byte of each byte edge.
    byte_edges: Vec<(u32, u8)>,
    /// For each dot, the indices of its entries in `call_edges`.
    calls: Groups,
    /// A dot, the source of a call edge, and the edge. The edge leads to the dot, or the called rule starts at
    /// the dot.
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
        let bytes = Groups::by_key(byte_edges.len(), |edge| edges[edge].target.0);
        let calls = Groups::by_key(call_edges.len(), |entry| call_edges[entry].0.0);
        Self { bytes, byte_edges, calls, call_edges }
    }
}
