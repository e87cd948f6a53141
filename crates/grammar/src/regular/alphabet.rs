//! Groups the code points that a set of expressions cannot distinguish.
//!
//! `\p{L}` has 650 ranges, but an automaton for `\p{L}{1,255}` needs only two letters: inside and
//! outside the class. A derivative by a code point depends only on which character classes of the
//! expression contain the code point. All code points in the same classes therefore form one
//! letter, and derivatives are computed for one representative of each letter.

use rustc_hash::{FxHashMap, FxHashSet};

use super::CharSet;
use super::automaton::TooLarge;
use super::charset::{LAST, after};
use super::expression::{ExprId, Expressions, Node};

/// Maximum number of overlaps. The character classes cut the code points into ranges. Each range
/// counts once for every class that contains it.
const OVERLAPS: usize = 1 << 21;

/// A partition of the code points into classes, which serve as letters. The classes are numbered
/// from 0 in the order of their first members.
#[derive(Debug)]
pub(super) struct Alphabet {
    /// The code points of each class, as inclusive ranges.
    pub(super) classes: Vec<Vec<(u32, u32)>>,
    /// One code point of each class.
    representatives: Vec<char>,
}

impl Alphabet {
    /// Creates the alphabet with the fewest classes for `languages` and all their derivatives.
    ///
    /// # Errors
    /// Returns an error if there are more than [`OVERLAPS`] overlaps.
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
        // Sorted indices of the sets that contain the current code point. A range never starts
        // where another range of the same set ends, except after the surrogates. There, both edges
        // cancel out.
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
                    what: "overlaps of character classes",
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

    /// Returns the number of classes.
    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    /// Returns the classes that make up `set`, as inclusive ranges of class numbers. `set` must be
    /// a union of classes.
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

/// Returns the last code point before `first`. Skips the surrogates, which belong to no set.
fn before(first: u32) -> u32 {
    if first == 0xE000 { 0xD7FF } else { first - 1 }
}

fn push_adjacent(ranges: &mut Vec<(u32, u32)>, low: u32, high: u32) {
    match ranges.last_mut() {
        Some(last) if last.1 + 1 == low => last.1 = high,
        _ => ranges.push((low, high)),
    }
}

/// Returns the set of every [`Node::Class`] in `languages`.
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
