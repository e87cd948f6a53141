//! Thompson automata: their construction from expressions, and the removal of empty edges.

use std::rc::Rc;

use regex_syntax::utf8::Utf8Sequences;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::states::{ByteEdge, CallEdge, Dot, State, States};
use crate::ir::expr::{Expr, RuleId};
use crate::ledger::Ledger;
use crate::{GrammarError, Limits};

/// Maximum number of edges for each allowed state, after the removal of empty edges. Without the
/// limit, a sequence of optional parts would have quadratically many edges.
const EDGES: usize = 4;

/// A Thompson automaton with empty edges.
#[derive(Default)]
pub(super) struct Nfa {
    nodes: Vec<Node>,
    start: usize,
    end: usize,
    /// The edges of each class built so far, to be copied for the same class.
    shapes: FxHashMap<Vec<(char, char)>, Rc<[Link]>>,
}

#[derive(Default)]
struct Node {
    empty: SmallVec<[usize; 2]>,
    bytes: SmallVec<[(u8, u8, usize); 1]>,
    calls: SmallVec<[(RuleId, usize); 1]>,
}

/// A byte edge inside a class: source, byte range and target. The nodes of a class are numbered
/// locally: 0 is the start, 1 is the end, and inner nodes follow.
type Link = (usize, (u8, u8), usize);

impl Nfa {
    /// Builds the automaton of `expr`. `size` is the [`size`](super::simplify::size) of `expr`, which the
    /// caller must have checked.
    pub(super) fn new(expr: &Expr, size: usize) -> Self {
        let mut nfa = Self { nodes: Vec::with_capacity(size + 1), ..Self::default() };
        nfa.start = nfa.node();
        nfa.end = nfa.add(expr, nfa.start);
        nfa
    }

    fn node(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    /// Adds `expr` after the node `from`, and returns the node at its end. The nesting limit of the
    /// front ends bounds the recursion.
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

    /// Adds alternatives after the node `from`, and returns the node at their end. Literals at the
    /// start of the alternatives share the nodes of common prefixes.
    fn alternatives(&mut self, parts: &[Expr], from: usize) -> usize {
        let to = self.node();
        let root = self.node();
        self.nodes[from].empty.push(root);
        for part in parts {
            let (leading, rest) = split_literal(part);
            let mut at = root;
            for &byte in leading {
                // Nodes of prefixes have byte edges of literals only.
                let known = self.nodes[at].bytes.iter().find(|(low, ..)| *low == byte);
                at = if let Some(&(.., next)) = known {
                    next
                } else {
                    let next = self.node();
                    self.nodes[at].bytes.push((byte, byte, next));
                    next
                };
            }
            if !rest.is_empty() {
                // Each alternative has its own start, so that a loop at the start of one does not
                // reach the others.
                let start = self.node();
                self.nodes[at].empty.push(start);
                at = rest.iter().fold(start, |at, part| self.add(part, at));
            }
            self.nodes[at].empty.push(to);
        }
        to
    }

    /// Adds a class after the node `from`, as the UTF-8 byte sequences of its characters. Returns
    /// the node at its end.
    fn class(&mut self, ranges: &[(char, char)], from: usize) -> usize {
        let shape = if let Some(known) = self.shapes.get(ranges) {
            Rc::clone(known)
        } else {
            let shape: Rc<[Link]> = shape(ranges).into();
            self.shapes.insert(ranges.to_vec(), Rc::clone(&shape));
            shape
        };
        let to = self.node();
        // Inner nodes are numbered from 2, and follow `to`, which is number 1.
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
                break; // the part is empty, and so is any number of rounds
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

    /// Returns an equivalent automaton without empty edges. State 0 is the start.
    ///
    /// There is a state for the start, and a state for each node that a byte edge or call edge
    /// enters. The state has the edges of all nodes that are reached from its node over empty
    /// edges.
    ///
    /// # Errors
    /// Returns an error if there are too many edges, or if the ledger is over.
    pub(super) fn without_empty_edges(
        &self,
        limits: &Limits,
        ledger: &Ledger,
    ) -> Result<States, GrammarError> {
        const NONE: u32 = u32::MAX;
        let mut dots = vec![NONE; self.nodes.len()];
        let mut order = vec![self.start];
        dots[self.start] = 0;
        let mut states = States::with_capacity(self.nodes.len());
        let mut reached = vec![usize::MAX; self.nodes.len()];
        // Number of edges created and of nodes visited to create them.
        let mut work = 0;
        let mut open = Vec::new();
        let (mut bytes, mut calls) = (Vec::new(), Vec::new());
        while let Some(&node) = order.get(states.len()) {
            bytes.clear();
            calls.clear();
            let mut accepting = false;
            let mut dot_of = |node: usize| {
                if dots[node] == NONE {
                    dots[node] = order.len() as u32;
                    order.push(node);
                }
                Dot(dots[node])
            };
            open.push(node);
            reached[node] = states.len();
            while let Some(at) = open.pop() {
                work += 1;
                accepting |= at == self.end;
                for &(low, high, to) in &self.nodes[at].bytes {
                    bytes.push(ByteEdge { low, high, target: dot_of(to) });
                }
                for &(rule, to) in &self.nodes[at].calls {
                    calls.push(CallEdge { rule, target: dot_of(to) });
                }
                for &to in &self.nodes[at].empty {
                    if reached[to] != states.len() {
                        reached[to] = states.len();
                        open.push(to);
                    }
                }
            }
            if bytes.len() > 1 {
                bytes.sort_unstable();
                bytes.dedup();
            }
            if calls.len() > 1 {
                calls.sort_unstable();
                calls.dedup();
            }
            let edges = bytes.len() + calls.len();
            work += edges;
            ledger.spend(8 + 8 * edges)?;
            ledger.hold(12 * edges)?;
            if work > limits.states.saturating_mul(EDGES) {
                return Err(GrammarError::limit(
                    "automaton edges",
                    work,
                    limits.states.saturating_mul(EDGES),
                ));
            }
            states.push(State { accepting, bytes: &bytes, calls: &calls, embedded: None });
        }
        Ok(states)
    }
}

/// Splits an expression into the literal at its start and the parts after the literal. The literal
/// is empty if the expression does not start with one.
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

/// Returns the edges for the UTF-8 byte sequences of a class. Equal suffixes of the sequences share
/// their edges.
fn shape(ranges: &[(char, char)]) -> Vec<Link> {
    let mut links = Vec::new();
    // Nodes by the range of their only edge and the target of that edge.
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
