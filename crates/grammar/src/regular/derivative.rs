//! Computes Brzozowski derivatives by all letters of an alphabet at once.
//!
//! The derivative of a language by a letter is the set of texts that may follow that letter in
//! texts of the language. The derivatives of an expression by all letters are stored together as
//! [`Pieces`]: sorted pairs `(first letter, derivative)`. Each pair holds up to the next pair's
//! first letter, and the first pair starts at letter 0. A letter is a code point, or a class of an
//! [`Alphabet`].
//!
//! (Brzozowski, *Derivatives of Regular Expressions*, 1964; Owens, Reppy and Turon,
//! *Regular-expression derivatives re-examined*, 2009, for classes.)

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::CharSet;
use super::alphabet::Alphabet;
use super::charset::after;
use super::expression::{ExprId, Expressions, Node};

/// A piecewise constant function from letters to expressions: sorted pairs of the first letter of a
/// piece and the value in the piece.
pub(super) type Pieces = Arc<[(u32, ExprId)]>;

/// The derivatives computed so far.
#[derive(Debug)]
pub(super) struct Derivatives {
    /// The alphabet whose classes are the letters. `None` if letters are code points.
    alphabet: Option<Alphabet>,
    known: FxHashMap<ExprId, Pieces>,
}

impl Derivatives {
    pub(super) fn over_code_points() -> Self {
        Self { alphabet: None, known: FxHashMap::default() }
    }

    pub(super) fn over(alphabet: Alphabet) -> Self {
        Self { alphabet: Some(alphabet), known: FxHashMap::default() }
    }

    pub(super) fn alphabet(&self) -> Option<&Alphabet> {
        self.alphabet.as_ref()
    }

    /// Returns the derivatives of `expr` by all letters.
    pub(super) fn of(&mut self, expressions: &mut Expressions, expr: ExprId) -> Pieces {
        // Depth first, without recursion: expressions may be as deep as they are long. Each
        // expression is popped twice; the second time, the derivatives that it needs are known.
        let mut pending = vec![(expr, false)];
        while let Some((expr, is_ready)) = pending.pop() {
            if self.known.contains_key(&expr) {
                continue;
            }
            if is_ready {
                let pieces = self.compute(expressions, expr);
                expressions.spend(pieces.len());
                expressions.keep(Self::charge(&pieces));
                self.known.insert(expr, pieces);
            } else {
                pending.push((expr, true));
                let mut need = |expr| pending.push((expr, false));
                match expressions.node(expr) {
                    Node::Nothing | Node::Empty | Node::Class(_) => {}
                    Node::Concat(a, b) => {
                        need(*a);
                        if expressions.nullable(*a) {
                            need(*b);
                        }
                    }
                    Node::Repeat { inner, .. } | Node::Not(inner) => need(*inner),
                    Node::AnyOf(items) | Node::AllOf(items) => items.iter().copied().for_each(need),
                    Node::Recursive(index) => need(expressions.definition(*index)),
                }
            }
        }
        self.known(expr)
    }

    /// Returns the memory of one expression's derivatives in bytes, including their table entry.
    fn charge(pieces: &Pieces) -> usize {
        size_of_val(&**pieces) + 2 * size_of::<(ExprId, Pieces)>()
    }

    /// Returns the memory of all derivatives, in bytes.
    pub(super) fn byte_len(&self) -> usize {
        self.known.values().map(Self::charge).sum()
    }

    /// Returns the computed derivatives of `expr`. If they are still being computed, `expr` depends
    /// on itself without reading a letter, so its least solution is ∅.
    fn known(&self, expr: ExprId) -> Pieces {
        let nothing = || Arc::from([(0, Expressions::NOTHING)]);
        self.known.get(&expr).map_or_else(nothing, Arc::clone)
    }

    fn compute(&self, expressions: &mut Expressions, expr: ExprId) -> Pieces {
        match expressions.node(expr).clone() {
            Node::Nothing | Node::Empty => Arc::new([(0, Expressions::NOTHING)]),
            Node::Class(set) => self.class(&set),
            Node::Concat(a, b) => {
                let first = map(&self.known(a), |derivative| expressions.concat(derivative, b));
                if !expressions.nullable(a) {
                    return first;
                }
                overlay(&[first, self.known(b)], |derivatives| union(expressions, derivatives))
            }
            Node::Repeat { inner, min, max } => {
                let rest = expressions.repeat(inner, min.saturating_sub(1), max.map(|max| max - 1));
                map(&self.known(inner), |derivative| expressions.concat(derivative, rest))
            }
            Node::AnyOf(items) => {
                let members = items.iter().map(|&item| self.known(item)).collect::<Vec<_>>();
                overlay(&members, |derivatives| union(expressions, derivatives))
            }
            Node::AllOf(items) => {
                let members = items.iter().map(|&item| self.known(item)).collect::<Vec<_>>();
                overlay(&members, |derivatives| {
                    expressions.spend(derivatives.len());
                    if derivatives.contains(&Expressions::NOTHING) {
                        Expressions::NOTHING
                    } else {
                        expressions.all_of(derivatives.to_vec())
                    }
                })
            }
            Node::Not(inner) => map(&self.known(inner), |derivative| expressions.not(derivative)),
            Node::Recursive(index) => self.known(expressions.definition(index)),
        }
    }

    fn class(&self, set: &CharSet) -> Pieces {
        let mut pieces = vec![(0, Expressions::NOTHING)];
        let mut put = |low: u32, end: u32| {
            if low == pieces[pieces.len() - 1].0 {
                pieces.pop();
            }
            // Ranges touch only at the surrogates.
            push(&mut pieces, low, Expressions::EMPTY);
            pieces.push((end, Expressions::NOTHING));
        };
        let (ranges, letters) = match &self.alphabet {
            None => (set.ranges().to_vec(), super::charset::LAST + 1),
            Some(alphabet) => (alphabet.classes_of(set), alphabet.len() as u32),
        };
        for (low, high) in ranges {
            put(low, if self.alphabet.is_none() { after(high) } else { high + 1 });
        }
        pieces.retain(|&(start, _)| start < letters);
        pieces.into()
    }
}

fn union(expressions: &mut Expressions, derivatives: &[ExprId]) -> ExprId {
    expressions.spend(derivatives.len());
    let mut some = derivatives.iter().filter(|&&derivative| derivative != Expressions::NOTHING);
    match (some.next(), some.next()) {
        (None, _) => Expressions::NOTHING,
        (Some(&derivative), None) => derivative,
        _ => expressions.any_of(derivatives.to_vec()),
    }
}

fn push(pieces: &mut Vec<(u32, ExprId)>, start: u32, expr: ExprId) {
    if pieces.last().is_none_or(|last| last.1 != expr) {
        pieces.push((start, expr));
    }
}

/// Applies `f` to the value of each piece. Reuses the results for the last eight distinct values.
fn map(pieces: &Pieces, mut f: impl FnMut(ExprId) -> ExprId) -> Pieces {
    let mut done: Vec<(ExprId, ExprId)> = Vec::new();
    let mut mapped = Vec::with_capacity(pieces.len());
    for &(start, expr) in &**pieces {
        let recent = done.iter().rev().take(8).find(|pair| pair.0 == expr).map(|pair| pair.1);
        let value = recent.unwrap_or_else(|| {
            let value = f(expr);
            done.push((expr, value));
            value
        });
        push(&mut mapped, start, value);
    }
    mapped.into()
}

/// Combines several functions into one: `f` receives their values for the same letter, in order,
/// and returns the new value.
pub(super) fn overlay(functions: &[Pieces], mut f: impl FnMut(&[ExprId]) -> ExprId) -> Pieces {
    let mut combined = Vec::new();
    overlay_each(functions, |start, values| push(&mut combined, start, f(values)));
    combined.into()
}

/// Calls `f(start, values)` for each range of letters in which no function changes. `start` is the
/// first letter of the range, and `values` are the values of all functions there.
pub(super) fn overlay_each(functions: &[Pieces], mut f: impl FnMut(u32, &[ExprId])) {
    let mut places = vec![0; functions.len()];
    let mut values = vec![Expressions::NOTHING; functions.len()];
    let mut start = 0;
    loop {
        let mut next = u32::MAX;
        for ((place, value), pieces) in places.iter_mut().zip(&mut values).zip(functions) {
            if let Some(&(at, expr)) = pieces.get(*place)
                && at == start
            {
                *value = expr;
                *place += 1;
            }
            if let Some(&(at, _)) = pieces.get(*place) {
                next = next.min(at);
            }
        }
        f(start, &values);
        if next == u32::MAX {
            return;
        }
        start = next;
    }
}
