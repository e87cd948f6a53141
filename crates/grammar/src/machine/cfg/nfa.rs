//! Thompson automata: expressions with empty edges, and the automata without these.

use std::rc::Rc;

use regex_syntax::utf8::Utf8Sequences;
use rustc_hash::FxHashMap;

use super::program::{ByteEdge, CallEdge, Dot, State};
use crate::ir::expr::{Expr, RuleId};
use crate::ledger::Ledger;
use crate::{GrammarError, Limits};

/// How many edges there may be for every state that the limits allow. Parts in a row that may all be empty have
/// quadratically many.
const EDGES: usize = 4;

/// A Thompson automaton with empty edges.
#[derive(Default)]
pub(super) struct Nfa {
    nodes: Vec<Node>,
    start: usize,
    end: usize,
    /// The classes met so far.
    shapes: FxHashMap<Vec<(char, char)>, Rc<[Link]>>,
}

#[derive(Default)]
struct Node {
    empty: Vec<usize>,
    bytes: Vec<(u8, u8, usize)>,
    calls: Vec<(RuleId, usize)>,
}

/// A byte edge of a class between nodes of its own: 0 is where the class begins, 1 where it ends.
type Link = (usize, (u8, u8), usize);

impl Nfa {
    /// The size of `expr` has been checked already.
    pub(super) fn new(expr: &Expr) -> Self {
        let mut nfa = Self::default();
        nfa.start = nfa.node();
        nfa.end = nfa.add(expr, nfa.start);
        nfa
    }

    fn node(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    /// Adds `expr` from `from` on and gives the node after it. Depth is bounded by the front ends' nesting limit.
    fn add(&mut self, expr: &Expr, from: usize) -> usize {
        match expr {
            Expr::Literal(bytes) => bytes.iter().fold(from, |at, &byte| {
                let next = self.node();
                self.nodes[at].bytes.push((byte, byte, next));
                next
            }),
            Expr::Class(ranges) => self.class(ranges, from),
            Expr::Bytes(ranges) => {
                let to = self.node();
                self.nodes[from].bytes.extend(ranges.iter().map(|&(low, high)| (low, high, to)));
                to
            }
            Expr::Rule(rule) => {
                let to = self.node();
                self.nodes[from].calls.push((*rule, to));
                to
            }
            Expr::Sequence(parts) => parts.iter().fold(from, |at, part| self.add(part, at)),
            Expr::Alternatives(parts) => self.alternatives(parts, from),
            Expr::Repeat { expr, min, max } => self.repeat(expr, (*min, *max), from),
        }
    }

    /// Alternatives share what their leading literals have in common.
    fn alternatives(&mut self, parts: &[Expr], from: usize) -> usize {
        let to = self.node();
        let root = self.node();
        self.nodes[from].empty.push(root);
        let mut children: FxHashMap<(usize, u8), usize> = FxHashMap::default();
        for part in parts {
            let (leading, rest) = split_literal(part);
            let mut at = root;
            for &byte in leading {
                at = *children.entry((at, byte)).or_insert_with(|| {
                    let next = self.nodes.len();
                    self.nodes.push(Node::default());
                    self.nodes[at].bytes.push((byte, byte, next));
                    next
                });
            }
            if !rest.is_empty() {
                // Its own start, so that loops at the start of one alternative do not reach the others.
                let start = self.node();
                self.nodes[at].empty.push(start);
                at = rest.iter().fold(start, |at, part| self.add(part, at));
            }
            self.nodes[at].empty.push(to);
        }
        to
    }

    /// Characters as the UTF-8 byte sequences that encode them.
    fn class(&mut self, ranges: &[(char, char)], from: usize) -> usize {
        let shape = if let Some(known) = self.shapes.get(ranges) {
            Rc::clone(known)
        } else {
            let shape: Rc<[Link]> = shape(ranges).into();
            self.shapes.insert(ranges.to_vec(), Rc::clone(&shape));
            shape
        };
        let to = self.node();
        // The nodes between are numbered from 2 on, and `to` is the one before them.
        let place = |local: usize| if local == 0 { from } else { to + local - 1 };
        for &(start, (low, high), end) in &*shape {
            while self.nodes.len() <= place(start).max(place(end)) {
                self.node();
            }
            self.nodes[place(start)].bytes.push((low, high, place(end)));
        }
        to
    }

    fn repeat(&mut self, expr: &Expr, (min, max): (u32, Option<u32>), from: usize) -> usize {
        let mut at = from;
        for _ in 0..min {
            let next = self.add(expr, at);
            if next == at {
                break; // the empty text, however often
            }
            at = next;
        }
        let to = self.node();
        let Some(max) = max else {
            let head = self.node();
            self.nodes[at].empty.push(head);
            let end = self.add(expr, head);
            self.nodes[end].empty.push(head);
            self.nodes[head].empty.push(to);
            return to;
        };
        for _ in min..max {
            self.nodes[at].empty.push(to);
            let next = self.add(expr, at);
            if next == at {
                break;
            }
            at = next;
        }
        self.nodes[at].empty.push(to);
        to
    }

    /// The same automaton without empty edges; its start is state 0.
    ///
    /// States stand for nodes that are the start or that a byte or call edge enters; their edges are those of all nodes
    /// that empty edges reach.
    pub(super) fn without_empty_edges(
        &self,
        limits: &Limits,
        ledger: &Ledger,
    ) -> Result<Vec<State>, GrammarError> {
        const NONE: u32 = u32::MAX;
        let mut dots = vec![NONE; self.nodes.len()];
        let mut order = vec![self.start];
        dots[self.start] = 0;
        let mut states = Vec::new();
        let mut reached = vec![usize::MAX; self.nodes.len()];
        // Edges made, and empty edges followed to make them.
        let mut work = 0;
        while let Some(&node) = order.get(states.len()) {
            let mut state = State::default();
            let mut dot_of = |node: usize| {
                if dots[node] == NONE {
                    dots[node] = order.len() as u32;
                    order.push(node);
                }
                Dot(dots[node])
            };
            let mut open = vec![node];
            reached[node] = states.len();
            while let Some(at) = open.pop() {
                work += 1;
                state.accepting |= at == self.end;
                for &(low, high, to) in &self.nodes[at].bytes {
                    state.bytes.push(ByteEdge { low, high, target: dot_of(to) });
                }
                for &(rule, to) in &self.nodes[at].calls {
                    state.calls.push(CallEdge { rule, target: dot_of(to) });
                }
                for &to in &self.nodes[at].empty {
                    if reached[to] != states.len() {
                        reached[to] = states.len();
                        open.push(to);
                    }
                }
            }
            state.bytes.sort_unstable();
            state.bytes.dedup();
            state.calls.sort_unstable();
            state.calls.dedup();
            let edges = state.bytes.len() + state.calls.len();
            work += edges;
            ledger.spend(8 + 8 * edges)?;
            ledger.hold(12 * edges)?;
            if work > limits.states.saturating_mul(EDGES) {
                return Err(GrammarError::limit("edges", work, limits.states.saturating_mul(EDGES)));
            }
            states.push(state);
        }
        Ok(states)
    }
}

/// The literal that an expression begins with, and what comes after it.
pub(super) fn split_literal(expr: &Expr) -> (&[u8], &[Expr]) {
    match expr {
        Expr::Literal(bytes) => (bytes, &[]),
        Expr::Sequence(parts) => match parts.split_first() {
            Some((Expr::Literal(bytes), rest)) => (bytes, rest),
            _ => (&[], parts),
        },
        other => (&[], std::slice::from_ref(other)),
    }
}

/// The UTF-8 byte sequences of a class as edges; sequences share the ends that are equal.
fn shape(ranges: &[(char, char)]) -> Vec<Link> {
    let mut links = Vec::new();
    // What follows the first bytes of a sequence, by the node that it follows.
    let mut ends: FxHashMap<(usize, (u8, u8)), usize> = FxHashMap::default();
    for sequence in ranges.iter().flat_map(|&(low, high)| Utf8Sequences::new(low, high)) {
        let mut to = 1;
        let bytes: Vec<_> = sequence.as_slice().iter().map(|range| (range.start, range.end)).collect();
        for &byte in bytes[1..].iter().rev() {
            let next = ends.len() + 2;
            to = *ends.entry((to, byte)).or_insert_with(|| {
                links.push((next, byte, to));
                next
            });
        }
        links.push((0, bytes[0], to));
    }
    links
}
