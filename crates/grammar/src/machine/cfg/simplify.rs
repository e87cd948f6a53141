//! Expressions rewritten so that their automata are small, and how large these will be.
//!
//! What may be empty and is repeated has an empty way from each round to all later ones, which makes quadratically many
//! edges. But where `r` holds the empty text `r{m,n}` is `s{0,n}` for any `s` that differs from `r` in the empty text
//! only, and such an `s` without the empty text is mostly at hand. And a repetition of a repetition is one, where the
//! counts leave no gap: `(r{0,a}){0,b}` is `r{0,ab}`.
//!
//! Counted repetition is unrolled by the automaton, so [`size`] says beforehand what it would come to.

use regex_syntax::utf8::Utf8Sequences;

use super::nfa::split_literal;
use crate::ir::expr::{Expr, RuleId};

/// The most parts that rewriting may copy.
const COPIES: usize = 1 << 12;

/// Sequences of so many parts that may all be empty are left as they are: each part is copied for those before it.
const PARTS: usize = 4;

/// The same language in other words.
pub(super) fn simplified(expr: &Expr) -> Expr {
    Simplifier { copies: COPIES }.simplified(expr)
}

struct Simplifier {
    /// How many may still be made.
    copies: usize,
}

impl Simplifier {
    /// Depth is bounded by the front ends' nesting limit, here and below.
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

    /// What differs from `expr` in the empty text only, and mostly does not hold it.
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

/// Whether the empty text is certainly one of its texts; of rules that is not known here.
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

/// The nodes that its automaton has at most, with repetitions unrolled.
pub(super) fn size(expr: &Expr) -> usize {
    size_with(expr, &|_| 1)
}

/// The same with what rules count that it calls.
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

/// How many bytes two texts begin with together.
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
    fn copies_are_bounded() {
        let nested =
            |depth: usize| (0..depth).fold("b?".to_owned(), |inner, _| format!("(a?{inner}){{0,2}}"));
        let ledger = crate::ledger::Ledger::new(&Limits::default());
        let parse = |source: &str| crate::frontend::regex::parse(source, &Limits::default(), &ledger);
        let expr = |depth| parse(&nested(depth)).expect("valid");
        assert!(count(&simplified(&expr(60).exprs[0])) < 10 * COPIES);
    }
}
