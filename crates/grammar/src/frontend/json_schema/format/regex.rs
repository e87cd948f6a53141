//! Regular expressions of ECMA-262 that are certainly valid, with the `u` flag and without.
//!
//! Valid expressions are no regular language, since their groups nest; nor is it regular that a range's ends and the
//! counts of a repetition are in order, in general. Here groups nest to a depth, ranges are of digits, or of ASCII letters
//! of one case from the first on, and counts have few digits.

use super::Abnf;
use crate::regular::ExprId;

/// The deepest nesting of groups.
const DEPTH: usize = 2;

/// Escapes that mean the same everywhere (§22.2.1).
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

/// A class in brackets: a hyphen is a range's, or stands at an end.
fn class(rules: &mut Abnf<'_>) -> ExprId {
    let digits = (0..=8).map(|low| format!("{low}-[{low}-9]")).collect::<Vec<_>>().join("|");
    let single = format!(r"[^\]\\\-]|\\-|{ESCAPE}");
    rules.pattern(&format!(r"\[\^?-?(?:{digits}|a-[a-z]|A-[A-Z]|{single})*-?\]"))
}

/// Quantifiers whose counts are in order because they are equal, or because the second has more digits.
fn quantifier(rules: &mut Abnf<'_>) -> ExprId {
    let number = r"(?:0|[1-9][0-9]{0,2})";
    let ordered = r"[0-9],[1-9][0-9]{1,2}|[1-9][0-9],[1-9][0-9]{2}";
    let in_order = (0..=9).map(|low| format!("{low},[{low}-9]")).collect::<Vec<_>>().join("|");
    rules.pattern(&format!(r"(?:[*+?]|\{{(?:{number},?|{ordered}|{in_order})\}})\??"))
}
