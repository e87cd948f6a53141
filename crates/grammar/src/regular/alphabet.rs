//! The letters that a set of expressions cannot tell apart, as one.
//!
//! `\p{L}` has 650 ranges, yet an automaton for `\p{L}{1,255}` needs two letters: in the class and not. Derivatives
//! never look at a code point other than through the classes of the expression, so it is enough to step on one
//! representative of each non-empty combination of these classes.

use rustc_hash::{FxHashMap, FxHashSet};

use super::CharSet;
use super::automaton::TooLarge;
use super::charset::{LAST, after};
use super::expression::{ExprId, Expressions, Node};

/// The most that the numbers of sets which hold a range add up to, over all ranges that the sets cut.
const OVERLAPS: usize = 1 << 21;

/// Classes of code points, numbered from 0 in the order of their first members.
#[derive(Debug)]
pub(super) struct Alphabet {
    /// The code points of each class.
    pub(super) classes: Vec<Vec<(u32, u32)>>,
    /// A member of each class.
    representatives: Vec<char>,
}

impl Alphabet {
    /// The coarsest alphabet for these expressions and all their derivatives.
    pub(super) fn new(expressions: &Expressions, languages: &[ExprId]) -> Result<Self, TooLarge> {
        let sets = sets_in(expressions, languages);
        let mut edges = Vec::new();
        for (set, ranges) in sets.iter().enumerate() {
            for &(low, high) in ranges.ranges() {
                edges.push((low, set));
                edges.push((after(high), set));
            }
        }
        for &(low, high) in CharSet::any().ranges() {
            edges.push((low, sets.len()));
            edges.push((after(high), sets.len()));
        }
        edges.sort_unstable();
        let mut alphabet = Self { classes: Vec::new(), representatives: Vec::new() };
        let mut ids = FxHashMap::default();
        // The sets that hold the current code point, sorted. A range that starts where another of its set ends cannot
        // be, except behind the surrogates, where both edges cancel out.
        let mut inside: Vec<usize> = Vec::new();
        let mut at = 0;
        let mut overlaps = 0;
        while at < edges.len() && edges[at].0 <= LAST {
            let low = edges[at].0;
            while edges.get(at).is_some_and(|edge| edge.0 == low) {
                let set = edges[at].1;
                match inside.binary_search(&set) {
                    Ok(place) => drop(inside.remove(place)),
                    Err(place) => inside.insert(place, set),
                }
                at += 1;
            }
            let high = edges.get(at).map_or(LAST, |edge| before(edge.0));
            overlaps += inside.len();
            if overlaps > OVERLAPS {
                return Err(TooLarge {
                    what: "overlaps of its character classes",
                    given: overlaps,
                    limit: OVERLAPS,
                });
            }
            let class = *ids.entry(inside.clone()).or_insert(alphabet.classes.len());
            if class == alphabet.classes.len() {
                alphabet.classes.push(Vec::new());
                alphabet.representatives.extend(char::from_u32(low));
            }
            push_adjacent(&mut alphabet.classes[class], low, high);
        }
        Ok(alphabet)
    }

    /// The number of classes.
    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    /// The inclusive ranges of classes that make up a set of code points.
    pub(super) fn classes_of(&self, set: &CharSet) -> Vec<(u32, u32)> {
        let mut ranges = Vec::new();
        for (class, &c) in self.representatives.iter().enumerate() {
            if set.contains(c) {
                push_adjacent(&mut ranges, class as u32, class as u32);
            }
        }
        ranges
    }
}

/// The code point before `first`, where a range may end: the set of everything has an edge behind the surrogates.
fn before(first: u32) -> u32 {
    if first == 0xE000 { 0xD7FF } else { first - 1 }
}

fn push_adjacent(ranges: &mut Vec<(u32, u32)>, low: u32, high: u32) {
    match ranges.last_mut() {
        Some(last) if last.1 + 1 == low => last.1 = high,
        _ => ranges.push((low, high)),
    }
}

/// Every class that occurs, once.
fn sets_in(expressions: &Expressions, languages: &[ExprId]) -> Vec<CharSet> {
    let mut seen: FxHashSet<ExprId> = languages.iter().copied().collect();
    let mut pending = seen.iter().copied().collect::<Vec<_>>();
    let mut sets = Vec::new();
    while let Some(expr) = pending.pop() {
        let mut visit = |expr: ExprId| {
            if seen.insert(expr) {
                pending.push(expr);
            }
        };
        match expressions.node(expr) {
            Node::Nothing | Node::Empty => {}
            Node::Class(set) => sets.push(set.clone()),
            Node::Concat(a, b) => [*a, *b].into_iter().for_each(visit),
            Node::Repeat { inner, .. } | Node::Not(inner) => visit(*inner),
            Node::AnyOf(items) | Node::AllOf(items) => items.iter().copied().for_each(visit),
            Node::Recursive(index) => visit(expressions.definition(*index)),
        }
    }
    sets
}
