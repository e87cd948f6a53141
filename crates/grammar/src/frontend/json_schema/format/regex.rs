//! Regular expressions of ECMA-262 that are valid with and without the `u` flag.
//!
//! Valid expressions are not a regular language. Their groups nest, and the ends of a range and the
//! counts of a repetition must be in order. So this subset limits the nesting depth of groups and the
//! digits of counts. A range covers digits, or starts at `a` or `A` and covers letters of the same case.

use super::Abnf;
use crate::regular::ExprId;

/// Maximum nesting depth of groups.
const DEPTH: usize = 2;

/// A pattern for the escapes that are valid and have the same meaning with and without the `u` flag
/// (§22.2.1).
const ESCAPE: &str = r"\\(?:[dDwWsStnvfr]|[\^$\\.*+?()\[\]{}|/]|c[A-Za-z]|x[0-9A-Fa-f]{2}|u(?:[0-9A-CEFa-cef][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}))";

pub(super) fn regex(rules: &mut Abnf<'_>) -> ExprId {
    let literal = rules.pattern(r"[^\^$\\*+?()\[\]{}|]");
    let escape = rules.pattern(ESCAPE);
    let class = class(rules);
    let quantifier = quantifier(rules);
    let anchor = rules.pattern(r"\^|\$|\\[bB]");
    let bar = rules.text("|");
    let (open, close) = (rules.pattern(r"\((?:\?:)?"), rules.text(")"));
    let look = rules.pattern(r"\(\?<?[=!]");

    let single = rules.any([literal, escape, class]);
    let mut disjunction = None;
    for _ in 0..=DEPTH {
        let mut atoms = vec![single];
        let mut assertions = vec![anchor];
        if let Some(inner) = disjunction {
            atoms.push(rules.all([open, inner, close]));
            assertions.push(rules.all([look, inner, close]));
        }
        let atom = rules.any(atoms);
        let repeated = rules.all([atom, quantifier]);
        assertions.extend([atom, repeated]);
        let term = rules.any(assertions);
        let alternative = rules.many(term);
        let next = rules.all([bar, alternative]);
        let more = rules.many(next);
        disjunction = Some(rules.all([alternative, more]));
    }
    disjunction.unwrap_or(single)
}

/// Returns the language of classes in brackets. A hyphen forms a range or stands at either end.
fn class(rules: &mut Abnf<'_>) -> ExprId {
    let digits = (0..=8).map(|low| format!("{low}-[{low}-9]")).collect::<Vec<_>>().join("|");
    let single = format!(r"[^\]\\\-]|\\-|{ESCAPE}");
    rules.pattern(&format!(r"\[\^?-?(?:{digits}|a-[a-z]|A-[A-Z]|{single})*-?\]"))
}

/// Returns the language of quantifiers. Two counts are always in order: both are single digits, or
/// the second has more digits.
fn quantifier(rules: &mut Abnf<'_>) -> ExprId {
    let number = r"(?:0|[1-9][0-9]{0,2})";
    let ordered = r"[0-9],[1-9][0-9]{1,2}|[1-9][0-9],[1-9][0-9]{2}";
    let in_order = (0..=9).map(|low| format!("{low},[{low}-9]")).collect::<Vec<_>>().join("|");
    rules.pattern(&format!(r"(?:[*+?]|\{{(?:{number},?|{ordered}|{in_order})\}})\??"))
}
