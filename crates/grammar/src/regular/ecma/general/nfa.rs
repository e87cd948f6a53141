//! The automata of a pattern and of its look-arounds.

use super::super::ast::{Ast, Kind};
use super::Scope;
use crate::regular::CharSet;

/// Maximum number of states of all automata together.
const NODES: usize = 1 << 14;

/// A state of an automaton.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Reads one character of the set, and continues at the state with this index.
    Char(CharSet, usize),
    /// Continues at any of these states without reading a character.
    Empty(Vec<usize>),
    /// Continues at the state with this index without reading a character, if the condition holds.
    If(Condition, usize),
    /// The end of an automaton.
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    Start,
    End,
    WordBoundary {
        negated: bool,
    },
    LookAhead {
        body: Body,
        /// Indices of the look-behinds inside the look-ahead, as a half-open range in
        /// [`Nfa::behinds`].
        behinds: (usize, usize),
        negated: bool,
    },
    LookBehind {
        index: usize,
        negated: bool,
    },
}

/// The states at the start and the end of an automaton.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Body {
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug)]
pub(super) struct Nfa {
    pub(super) nodes: Vec<Node>,
    pub(super) main: Body,
    /// The automata of the look-behinds. Inner look-behinds come before outer ones. The match of a
    /// look-behind may start anywhere up to the current position.
    pub(super) behinds: Vec<Body>,
    /// True if the pattern contains `^`. `has_word` is true if the pattern contains `\b` or `\B`.
    pub(super) has_start: bool,
    pub(super) has_word: bool,
}

impl Nfa {
    /// Builds the automata of a pattern. Returns `None` if there would be more than [`NODES`]
    /// states.
    pub(super) fn new(ast: &Ast, scope: Scope) -> Option<Self> {
        let main = Body { start: 0, end: 0 };
        let mut nfa =
            Self { nodes: Vec::new(), main, behinds: Vec::new(), has_start: false, has_word: false };
        let end = nfa.push(Node::End)?;
        let (last, first) = match scope {
            Scope::Whole => (nfa.push(Node::If(Condition::End, end))?, None),
            Scope::Anywhere => (end, Some(nfa.push(Node::Empty(Vec::new()))?)),
        };
        let start = nfa.add(ast, last)?;
        let start = match first {
            None => start,
            Some(first) => {
                let any = nfa.push(Node::Char(CharSet::any(), first))?;
                nfa.nodes[first] = Node::Empty(vec![any, start]);
                first
            }
        };
        nfa.main = Body { start, end };
        Some(nfa)
    }

    fn push(&mut self, node: Node) -> Option<usize> {
        self.nodes.push(node);
        (self.nodes.len() <= NODES).then_some(self.nodes.len() - 1)
    }

    /// Adds the states of an expression that continues at the state `next`, and returns its start
    /// state. The nesting limit of the parser bounds the recursion.
    fn add(&mut self, ast: &Ast, next: usize) -> Option<usize> {
        match &ast.kind {
            Kind::Class(set) => self.push(Node::Char(set.clone(), next)),
            Kind::Concat(items) => items.iter().rev().try_fold(next, |next, item| self.add(item, next)),
            Kind::Alternatives(items) => {
                let starts = items.iter().map(|item| self.add(item, next)).collect::<Option<_>>()?;
                self.push(Node::Empty(starts))
            }
            &Kind::Repeat { ref inner, min, max } => self.repeat(inner, min, max, next),
            Kind::Start => {
                self.has_start = true;
                self.push(Node::If(Condition::Start, next))
            }
            Kind::End => self.push(Node::If(Condition::End, next)),
            &Kind::WordBoundary { negated } => {
                self.has_word = true;
                self.push(Node::If(Condition::WordBoundary { negated }, next))
            }
            &Kind::LookAhead { ref inner, negated } => {
                let first = self.behinds.len();
                let end = self.push(Node::End)?;
                let start = self.add(inner, end)?;
                let behinds = (first, self.behinds.len());
                let body = Body { start, end };
                self.push(Node::If(Condition::LookAhead { body, behinds, negated }, next))
            }
            &Kind::LookBehind { ref inner, negated } => {
                let end = self.push(Node::End)?;
                let start = self.add(inner, end)?;
                self.behinds.push(Body { start, end });
                let index = self.behinds.len() - 1;
                self.push(Node::If(Condition::LookBehind { index, negated }, next))
            }
        }
    }

    fn repeat(&mut self, inner: &Ast, min: u32, max: Option<u32>, next: usize) -> Option<usize> {
        // Repetitions are unrolled, so a count that is too large must be rejected before any round
        // is added, however small the round.
        let rounds = max.unwrap_or(min) as usize;
        if rounds > NODES {
            return None;
        }
        let mut start = next;
        match max {
            None => {
                start = self.push(Node::Empty(Vec::new()))?;
                let round = self.add(inner, start)?;
                self.nodes[start] = Node::Empty(vec![round, next]);
            }
            Some(max) => {
                for _ in min..max {
                    let round = self.add(inner, start)?;
                    start = self.push(Node::Empty(vec![round, next]))?;
                }
            }
        }
        (0..min).try_fold(start, |start, _| self.add(inner, start))
    }
}
