//! The common form of the context-free front ends: rules over expressions.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::Warning;
use crate::ir::json::JsonProgram;
use crate::tokens::TokenTerminal;

/// The index of a rule in [`Rules`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct RuleId(pub(crate) u32);

impl RuleId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a rule matches.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Expr {
    /// These bytes, possibly none.
    Literal(Vec<u8>),
    /// One character out of sorted, disjoint ranges of code points, as UTF-8. Empty ranges match nothing.
    Class(Vec<(char, char)>),
    /// One byte out of sorted, disjoint ranges.
    Bytes(Vec<(u8, u8)>),
    /// Whatever the rule matches.
    Rule(RuleId),
    /// All, one after the other.
    Sequence(Vec<Expr>),
    /// Any one of these.
    Alternatives(Vec<Expr>),
    /// At least `min` and at most `max` times.
    Repeat { expr: Box<Expr>, min: u32, max: Option<u32> },
}

impl Expr {
    /// Matches the empty string only.
    pub(crate) const fn empty() -> Self {
        Self::Literal(Vec::new())
    }
}

/// A context-free grammar: one expression per rule, indexed by [`RuleId`].
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) exprs: Vec<Expr>,
    /// By rule.
    pub(crate) names: Vec<String>,
    pub(crate) root: RuleId,
    /// By rule, the line of its definition, from 1; empty where the source is no GBNF.
    pub(crate) lines: Vec<usize>,
    /// The rules that are JSON texts of a schema. Their expressions say nothing.
    pub(crate) schemas: FxHashMap<RuleId, EmbeddedSchema>,
    /// What the spellings of [`crate::tokens`] stand for.
    pub(crate) tokens: Vec<TokenTerminal>,
    /// Of the grammar's own; those of schemas are with these.
    pub(crate) warnings: Vec<Warning>,
}

/// A JSON Schema inside a grammar.
#[derive(Clone, Debug)]
pub(crate) struct EmbeddedSchema {
    /// As it was written.
    pub(crate) source: String,
    pub(crate) program: Arc<JsonProgram>,
    pub(crate) warnings: Vec<Warning>,
}

/// The rules that are met from `root` on.
pub(crate) fn reached(exprs: &[Expr], root: RuleId) -> Vec<bool> {
    let mut reached = vec![false; exprs.len()];
    reached[root.index()] = true;
    let mut open = vec![&exprs[root.index()]];
    while let Some(expr) = open.pop() {
        match expr {
            Expr::Rule(rule) if !std::mem::replace(&mut reached[rule.index()], true) => {
                open.push(&exprs[rule.index()]);
            }
            Expr::Sequence(parts) | Expr::Alternatives(parts) => open.extend(parts),
            Expr::Repeat { expr, .. } => open.push(expr),
            Expr::Rule(_) | Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) => {}
        }
    }
    reached
}

impl Rules {
    /// Rules without schemas and token terminals.
    pub(crate) fn new(exprs: Vec<Expr>, names: Vec<String>, root: RuleId) -> Self {
        Self {
            exprs,
            names,
            root,
            lines: Vec::new(),
            schemas: FxHashMap::default(),
            tokens: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// A root alone.
    pub(crate) fn of(expr: Expr) -> Self {
        Self::new(vec![expr], vec!["root".to_owned()], RuleId(0))
    }
}

/// Sorts ranges and joins those that touch; `next` is the successor of a value, if it has one.
pub(crate) fn normalise<T: Ord + Copy>(ranges: &mut Vec<(T, T)>, next: impl Fn(T) -> Option<T>) {
    ranges.sort_unstable();
    let mut joined: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for &(low, high) in ranges.iter() {
        match joined.last_mut() {
            Some((_, end)) if next(*end).is_none_or(|after| low <= after) => *end = (*end).max(high),
            _ => joined.push((low, high)),
        }
    }
    *ranges = joined;
}

/// The character after `c`, stepping over the surrogates.
pub(crate) fn next_char(c: char) -> Option<char> {
    match c {
        '\u{d7ff}' => Some('\u{e000}'),
        _ => char::from_u32(c as u32 + 1),
    }
}

/// The character before `c`, stepping over the surrogates.
fn previous_char(c: char) -> Option<char> {
    match c {
        '\u{e000}' => Some('\u{d7ff}'),
        _ => char::from_u32((c as u32).checked_sub(1)?),
    }
}

/// All characters outside sorted, disjoint `ranges`.
pub(crate) fn complement(ranges: &[(char, char)]) -> Vec<(char, char)> {
    let mut outside = Vec::with_capacity(ranges.len() + 1);
    let mut from = Some('\0');
    for &(low, high) in ranges {
        if let (Some(start), Some(end)) = (from, previous_char(low))
            && start <= end
        {
            outside.push((start, end));
        }
        from = next_char(high);
    }
    if let Some(start) = from {
        outside.push((start, char::MAX));
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complement_of_complement_is_the_same() {
        for ranges in [
            vec![],
            vec![('a', 'z')],
            vec![('\0', 'a'), ('c', 'c')],
            vec![('b', char::MAX)],
            vec![('\u{d7ff}', '\u{e000}')],
            vec![('\0', char::MAX)],
        ] {
            assert_eq!(complement(&complement(&ranges)), ranges);
        }
    }

    #[test]
    fn touching_ranges_join() {
        let mut ranges = vec![('d', 'f'), ('a', 'c'), ('x', 'z'), ('b', 'd')];
        normalise(&mut ranges, next_char);
        assert_eq!(ranges, [('a', 'f'), ('x', 'z')]);
    }
}
