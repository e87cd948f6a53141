//! Context-free grammars as rules over expressions. The front ends for GBNF, Lark, regular
//! expressions, choices and structural tags all translate into this form.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use crate::Warning;
use crate::ir::json::JsonProgram;
use crate::ir::json::program::NodeId;
use crate::ir::text::TextProgram;
use crate::tokens::TokenTerminal;

/// Index of a rule in [`Rules`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct RuleId(pub(crate) u32);

impl RuleId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An expression that matches a set of byte strings.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Expr {
    /// Matches these bytes, possibly none.
    Literal(Vec<u8>),
    /// Matches the UTF-8 encoding of one character in the given ranges. The ranges are inclusive,
    /// sorted and disjoint. An empty list matches nothing.
    Class(Vec<(char, char)>),
    /// Matches one byte in the given ranges, which are inclusive, sorted and disjoint.
    Bytes(Vec<(u8, u8)>),
    /// Matches every text that the rule matches.
    Rule(RuleId),
    /// Matches all expressions, one after the other.
    Sequence(Vec<Expr>),
    /// Matches any one of the expressions. An empty list matches nothing.
    Alternatives(Vec<Expr>),
    /// Matches `expr` at least `min` times and at most `max` times. `None` means no maximum.
    Repeat { expr: Box<Expr>, min: u32, max: Option<u32> },
}

impl Expr {
    /// Returns the expression that matches only the empty string.
    pub(crate) const fn empty() -> Self {
        Self::Literal(Vec::new())
    }
}

/// A context-free grammar: one expression per rule, indexed by [`RuleId`].
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) exprs: Vec<Expr>,
    /// Name of each rule.
    pub(crate) names: Vec<String>,
    pub(crate) root: RuleId,
    /// For each rule, the line of its definition in the GBNF or Lark source, starting at 1. Empty
    /// for other sources.
    pub(crate) lines: Vec<usize>,
    /// The JSON Schemas of the rules that match JSON text. The entries of these rules in `exprs`
    /// are placeholders and must not be used.
    pub(crate) schemas: FxHashMap<RuleId, EmbeddedSchema>,
    /// Programs of the rules that match raw strings. The entries of these rules in `exprs` are
    /// placeholders, too.
    pub(crate) texts: FxHashMap<RuleId, Arc<TextProgram>>,
    /// Rules that are compiled separately. Their entries in `exprs` are placeholders, too.
    pub(crate) linked: FxHashSet<RuleId>,
    /// Rules that keep an automaton of their own, instead of a copy in each of their callers.
    pub(crate) sealed: FxHashSet<RuleId>,
    /// The token terminals. An expression refers to a terminal by a literal that has the
    /// [spelling](crate::tokens::spelling) of the terminal's index in this list.
    pub(crate) tokens: Vec<TokenTerminal>,
    /// Warnings about the grammar itself. Warnings about schemas are in `schemas`.
    pub(crate) warnings: Vec<Warning>,
}

/// A JSON Schema inside a grammar.
#[derive(Clone, Debug)]
pub(crate) struct EmbeddedSchema {
    /// The schema. `None` if the rule matches only a part of a larger schema.
    pub(crate) source: Option<SchemaSource>,
    pub(crate) program: Arc<JsonProgram>,
    /// The node of `program` whose values the rule matches.
    pub(crate) root: NodeId,
    pub(crate) warnings: Vec<Warning>,
}

/// Source of an embedded schema.
#[derive(Clone, Debug)]
pub(crate) enum SchemaSource {
    /// Its text in the source of the grammar.
    Text(String),
    /// Its value.
    Value(Arc<Value>),
}

impl Display for SchemaSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Value(schema) => schema.fmt(f),
        }
    }
}

/// Returns one flag for each rule in `exprs`: true if `root` refers to the rule, directly or
/// through other rules.
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
    /// Creates a grammar without embedded schemas, token terminals and warnings.
    pub(crate) fn new(exprs: Vec<Expr>, names: Vec<String>, root: RuleId) -> Self {
        Self {
            exprs,
            names,
            root,
            lines: Vec::new(),
            schemas: FxHashMap::default(),
            texts: FxHashMap::default(),
            linked: FxHashSet::default(),
            sealed: FxHashSet::default(),
            tokens: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Reports whether the expression of `rule` is a placeholder.
    pub(crate) fn is_placeholder(&self, rule: RuleId) -> bool {
        self.schemas.contains_key(&rule) || self.texts.contains_key(&rule) || self.linked.contains(&rule)
    }

    /// Creates a grammar with a single rule, which is named `root` and matches `expr`.
    pub(crate) fn of(expr: Expr) -> Self {
        Self::new(vec![expr], vec!["root".to_owned()], RuleId(0))
    }
}

/// Sorts inclusive ranges, and joins ranges that overlap or are adjacent. `next` returns the
/// successor of a value, or `None` for the last value.
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

/// Returns the character after `c`, skipping the surrogates. Returns `None` for the last character.
pub(crate) fn next_char(c: char) -> Option<char> {
    match c {
        '\u{d7ff}' => Some('\u{e000}'),
        _ => char::from_u32(c as u32 + 1),
    }
}

/// Returns the character before `c`, skipping the surrogates. Returns `None` for the first
/// character.
fn previous_char(c: char) -> Option<char> {
    match c {
        '\u{e000}' => Some('\u{d7ff}'),
        _ => char::from_u32((c as u32).checked_sub(1)?),
    }
}

/// Returns the ranges of all characters outside `ranges`, which must be sorted and disjoint.
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
