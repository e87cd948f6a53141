//! Rewrites expressions so that their automata are small, and computes the size of an automaton in
//! advance.
//!
//! If a repeated part may be empty, each round can be skipped, so an automaton has quadratically
//! many edges between the rounds. Such a repetition is therefore rewritten. If `r` matches the
//! empty text, `r{m,n}` equals `s{0,n}`, where `s` matches the same texts as `r`, with or without
//! the empty text. An `s` that does not match the empty text is usually easy to find.
//!
//! A repetition of a repetition becomes a single repetition if the counts leave no gap:
//! `(r{0,a}){0,b}` is `r{0,ab}`.
//!
//! An automaton has a copy of the repeated part for each round, so [`size`] computes the number of
//! nodes before the automaton is built.

use std::borrow::Cow;

use regex_syntax::utf8::Utf8Sequences;

use super::nfa::split_literal;
use crate::ir::expr::{Expr, RuleId};

/// Maximum number of expression nodes that rewriting may copy.
const COPIES: usize = 1 << 12;

/// Maximum number of parts of a sequence of optional parts that is rewritten. Rewriting copies each
/// part once for each part before it.
const PARTS: usize = 4;

/// Returns an expression for the same language with a smaller automaton.
pub(super) fn simplified(expr: &Expr) -> Cow<'_, Expr> {
    if is_simple(expr) {
        return Cow::Borrowed(expr);
    }
    Cow::Owned(Simplifier { copies: COPIES }.simplified(expr))
}

/// Reports whether no repetition in an expression needs to be rewritten.
fn is_simple(expr: &Expr) -> bool {
    match expr {
        Expr::Sequence(parts) | Expr::Alternatives(parts) => parts.iter().all(is_simple),
        Expr::Repeat { expr, min, max } => {
            let may_stay = match &**expr {
                Expr::Repeat { .. } => false,
                Expr::Alternatives(parts) => !parts.is_empty(),
                _ => true,
            };
            let counts = (*min, *max) != (1, Some(1)) && *max != Some(0);
            may_stay && counts && !is_nullable(expr) && is_simple(expr)
        }
        Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) | Expr::Rule(_) => true,
    }
}

struct Simplifier {
    /// Number of expression nodes that may still be copied.
    copies: usize,
}

impl Simplifier {
    /// Simplifies an expression. The nesting limit of the front ends bounds the recursion, here and
    /// in the functions below.
    fn simplified(&mut self, expr: &Expr) -> Expr {
        match expr {
            Expr::Sequence(parts) => Expr::Sequence(parts.iter().map(|part| self.simplified(part)).collect()),
            Expr::Alternatives(parts) => {
                Expr::Alternatives(parts.iter().map(|part| self.simplified(part)).collect())
            }
            Expr::Repeat { expr, min, max } => {
                let inner = self.simplified(expr);
                self.repeat(inner, *min, *max)
            }
            other => other.clone(),
        }
    }

    fn repeat(&mut self, mut inner: Expr, mut min: u32, max: Option<u32>) -> Expr {
        if is_nullable(&inner) {
            min = 0;
            inner = self.without_empty(inner);
        }
        let is_nothing = matches!(&inner, Expr::Alternatives(parts) if parts.is_empty());
        if max == Some(0) || (is_nothing && min == 0) {
            return Expr::empty();
        }
        if let Expr::Repeat { expr, min: least @ 0..=1, max: most } = &inner {
            let joined = match (most, max) {
                (Some(most), Some(max)) => most.checked_mul(max).map(Some),
                _ => Some(None),
            };
            if let Some(joined) = joined {
                return Expr::Repeat { expr: expr.clone(), min: least * min, max: joined };
            }
        }
        if (min, max) == (1, Some(1)) { inner } else { Expr::Repeat { expr: Box::new(inner), min, max } }
    }

    /// Returns an expression that matches the same texts as `expr`, except possibly the empty text.
    /// The result usually does not match the empty text.
    fn without_empty(&mut self, expr: Expr) -> Expr {
        match expr {
            Expr::Literal(bytes) if bytes.is_empty() => Expr::Alternatives(Vec::new()),
            Expr::Alternatives(parts) => {
                let parts = parts.into_iter().map(|part| self.without_empty(part));
                Expr::Alternatives(parts.filter(|part| *part != Expr::Alternatives(Vec::new())).collect())
            }
            Expr::Repeat { expr, min: 0, max } => Expr::Repeat { expr, min: 1, max },
            Expr::Sequence(parts) if parts.len() <= PARTS && parts.iter().all(is_nullable) => {
                let copied = parts.iter().map(count).sum();
                let Some(left) = self.copies.checked_sub(copied) else { return Expr::Sequence(parts) };
                self.copies = left;
                let from = |at: usize| {
                    let mut rest = parts[at..].to_vec();
                    rest[0] = self.without_empty(rest[0].clone());
                    Expr::Sequence(rest)
                };
                Expr::Alternatives((0..parts.len()).map(from).collect())
            }
            other => other,
        }
    }
}

/// Reports whether an expression certainly matches the empty text. Called rules are unknown here,
/// so a call counts as not matching.
fn is_nullable(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(bytes) => bytes.is_empty(),
        Expr::Class(_) | Expr::Bytes(_) | Expr::Rule(_) => false,
        Expr::Sequence(parts) => parts.iter().all(is_nullable),
        Expr::Alternatives(parts) => parts.iter().any(is_nullable),
        Expr::Repeat { expr, min, .. } => *min == 0 || is_nullable(expr),
    }
}

fn count(expr: &Expr) -> usize {
    match expr {
        Expr::Sequence(parts) | Expr::Alternatives(parts) => 1 + parts.iter().map(count).sum::<usize>(),
        Expr::Repeat { expr, .. } => 1 + count(expr),
        _ => 1,
    }
}

/// Returns an upper bound on the number of nodes of an expression's Thompson automaton. A repeated
/// part counts once for each round.
pub(super) fn size(expr: &Expr) -> usize {
    size_with(expr, &|_| 1)
}

/// Returns the result of [`size`], except that a call of a rule counts as `of_rule(rule)` nodes.
pub(super) fn size_with(expr: &Expr, of_rule: &impl Fn(RuleId) -> usize) -> usize {
    let size = |expr: &Expr| size_with(expr, of_rule);
    let sum = |parts: &[Expr]| parts.iter().fold(0_usize, |sum, part| sum.saturating_add(size(part)));
    match expr {
        Expr::Literal(bytes) => bytes.len(),
        Expr::Class(ranges) => {
            let sequences = ranges.iter().flat_map(|&(low, high)| Utf8Sequences::new(low, high));
            1 + sequences.map(|sequence| sequence.len() - 1).sum::<usize>()
        }
        Expr::Bytes(_) => 1,
        Expr::Rule(rule) => of_rule(*rule),
        Expr::Sequence(parts) => sum(parts),
        Expr::Alternatives(parts) => {
            let (mut literals, rests): (Vec<_>, Vec<_>) = parts.iter().map(split_literal).unzip();
            literals.sort_unstable();
            let shared: usize = literals.windows(2).map(|pair| common(pair[0], pair[1])).sum();
            let all: usize = literals.iter().map(|literal| literal.len()).sum();
            rests
                .into_iter()
                .fold(2 + all - shared, |size, rest| size.saturating_add(1).saturating_add(sum(rest)))
        }
        Expr::Repeat { expr, min, max } => {
            let rounds = max.unwrap_or(min.saturating_add(1)) as usize;
            size(expr).saturating_mul(rounds).saturating_add(2)
        }
    }
}

/// Returns the length of the common prefix of two texts, in bytes.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grammar, Limits};

    #[test]
    fn repeated_parts_that_may_be_empty_take_one_edge_a_round() {
        for (pattern, yes, no) in [
            ("([a-c]?){0,40}", "abcabc", "abd"),
            ("( ?[a-c]?){0,40}", " a bc  c", "d"),
            ("(a?b?c?){3}", "abcbcab", "cbacba"),
            ("((a{0,3}){0,4}){2,5}", "aaaaaaaaaaa", "b"),
            ("((a?b*)*c?){2}", "aabbcbac", "cac c"),
            ("(|a|){3}", "aaa", "aaaa"),
            ("(a{1,2}){2,3}", "aaaaa", "a"),
            ("(a{2,3}){2}", "aaaaaa", "aaa"),
        ] {
            let grammar = Grammar::regex(pattern, &Limits::default()).expect(pattern);
            assert!(grammar.accepts(yes.as_bytes()), "{pattern} {yes}");
            assert!(!grammar.accepts(no.as_bytes()), "{pattern} {no}");
        }
        let grammar = Grammar::regex("(( ?[a-z]?){0,100}){0,50}", &Limits::default()).expect("small");
        assert!(grammar.size() < 20_000, "{}", grammar.size());
    }

    #[test]
    fn simple_expressions_are_those_that_stay() {
        let ledger = crate::ledger::Ledger::new(&Limits::default());
        let mut simple = 0;
        for pattern in [
            "a",
            "a*",
            "(ab){2,5}",
            "(a|b)?c+",
            "(a{1}|b)",
            "(a?)*",
            "(a*)*",
            "((a|b){2}c){0,3}",
            "(|a)+",
            "a{0}b",
            "(ab{1,1}|cd)",
            "[a-c]{3}(x|yz*)",
            "((a))",
            "(a?b?){2}",
        ] {
            let rules = crate::frontend::regex::parse(pattern, &Limits::default(), &ledger).expect(pattern);
            let expr = &rules.exprs[0];
            let rewritten = Simplifier { copies: COPIES }.simplified(expr);
            assert!(!is_simple(expr) || rewritten == *expr, "{pattern}");
            assert_eq!(*simplified(expr), rewritten, "{pattern}");
            simple += usize::from(is_simple(expr));
        }
        assert!(simple > 3);
    }

    #[test]
    fn copies_are_bounded() {
        let nested =
            |depth: usize| (0..depth).fold("b?".to_owned(), |inner, _| format!("(a?{inner}){{0,2}}"));
        let ledger = crate::ledger::Ledger::new(&Limits::default());
        let parse = |source: &str| crate::frontend::regex::parse(source, &Limits::default(), &ledger);
        let expr = |depth| parse(&nested(depth)).expect("valid");
        assert!(count(&simplified(&expr(60).exprs[0])) < 10 * COPIES);
    }
}
