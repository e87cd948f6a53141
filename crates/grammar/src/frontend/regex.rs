//! Regular expressions that match the whole output.
//!
//! Patterns have the syntax of JSON Schema's `pattern` ([`ecma`]), plus escapes of other engines such as
//! `\A` and `\z`. Look-around and word boundaries are supported, and `\d` is ASCII only. The expression
//! is anchored at both ends, so `^`, `$`, `\A` and `\z` at the ends have no effect. Elsewhere they are
//! enforced like all other assertions. Greediness does not affect whether the whole output matches.
//!
//! An expression becomes one rule with counted loops if its only assertions are anchors at its
//! ends. Any other expression becomes an automaton over characters, and each state becomes a rule.
//!
//! The syntax of the `regex` crate ([`extended`]) applies in two cases: an ECMA-262 parser rejects
//! the expression, or the two syntaxes disagree about its meaning. They disagree about nested
//! classes, class operators and counts with blanks (`a{ 2 }`). Such an expression must not contain
//! assertions other than anchors at its ends.

pub(super) mod extended;

use std::rc::Rc;

use crate::error::{Kind, RegexProblem};
use crate::ir::expr::{Expr, RuleId, Rules};
use crate::ledger::Ledger;
use crate::regular::ecma::{self, Ast, AstKind, PatternError};
use crate::regular::{Expressions, TextDfa};
use crate::{GrammarError, Limits};

/// Maximum length of a pattern in bytes. The parsed form takes many times the memory of the pattern.
pub(super) const BYTES: usize = 1 << 17;

/// Cost of one range of a character class, in ledger steps.
pub(super) const RANGE: usize = 8;

/// Maximum number of states of the automaton over characters.
const STATES: usize = 1 << 14;

/// Compiles `pattern` into one rule, or into one rule for each state of an automaton.
pub(crate) fn parse(pattern: &str, limits: &Limits, ledger: &Rc<Ledger>) -> Result<Rules, GrammarError> {
    let limit = limits.source_bytes.min(BYTES);
    if pattern.len() > limit {
        return Err(GrammarError::limit("bytes of source", pattern.len(), limit));
    }
    let read = match ecma::read(pattern) {
        Ok(read) => read,
        Err(error) => {
            let otherwise = extended::read(pattern, limits);
            return otherwise.map(Rules::of).ok_or_else(|| problem(&error));
        }
    };
    if let Some(offset) = read.ambiguous {
        if let Some(expr) = extended::read(pattern, limits) {
            return Ok(Rules::of(expr));
        }
        // `[[:alfa:]]` is almost certainly a misspelt POSIX class and not a class of these characters.
        let is_posix = pattern[offset..].trim_start_matches(['[', '^']).starts_with(':');
        if read.has_assertions() || is_posix {
            return Err(Kind::Regex { offset, problem: RegexProblem::Ambiguous }.into());
        }
    }
    // The compiled form takes time and memory in proportion to the ranges of its classes.
    let ranges = ranges(&read.ast);
    ledger.spend(RANGE * ranges)?;
    ledger.hold(3 * size_of::<(char, char)>() * ranges)?;
    match translate(&read.ast, Edges { start: true, end: true }) {
        Some(expr) => Ok(Rules::of(expr)),
        None => with_assertions(&read.ast, limits, ledger),
    }
}

/// Returns the size of a syntax tree: the number of ranges in its classes, plus the number of its
/// other nodes.
fn ranges(ast: &Ast) -> usize {
    match &ast.kind {
        AstKind::Class(set) => set.ranges().len(),
        AstKind::Concat(parts) | AstKind::Alternatives(parts) => 1 + parts.iter().map(ranges).sum::<usize>(),
        AstKind::Repeat { inner, .. }
        | AstKind::LookAhead { inner, .. }
        | AstKind::LookBehind { inner, .. } => 1 + ranges(inner),
        AstKind::Start | AstKind::End | AstKind::WordBoundary { .. } => 1,
    }
}

fn problem(error: &PatternError) -> GrammarError {
    let problem = RegexProblem::Syntax { message: error.reason.to_string() };
    Kind::Regex { offset: error.offset, problem }.into()
}

/// Compiles an expression with assertions into one rule for each state of its automaton.
fn with_assertions(ast: &Ast, limits: &Limits, ledger: &Rc<Ledger>) -> Result<Rules, GrammarError> {
    let mut expressions = Expressions::with_ledger(ledger);
    let language = ecma::whole(&mut expressions, ast).map_err(|error| problem(&error))?;
    let dfa = TextDfa::new(&mut expressions, &[language], STATES.min(limits.states))?;
    let count = dfa.len() as u32;
    let exprs = (0..count).map(|state| {
        let mut targets: Vec<(u32, Vec<(char, char)>)> = Vec::new();
        for &(low, high, target) in dfa.transitions(state) {
            let Some(range) = char::from_u32(low).zip(char::from_u32(high)) else { continue };
            match targets.iter_mut().find(|(known, _)| *known == target) {
                Some((_, ranges)) => ranges.push(range),
                None => targets.push((target, vec![range])),
            }
        }
        let way = |(target, ranges)| Expr::Sequence(vec![Expr::Class(ranges), Expr::Rule(RuleId(target))]);
        let mut ways: Vec<Expr> = targets.into_iter().map(way).collect();
        if dfa.label(state) != 0 {
            ways.push(Expr::empty());
        }
        Expr::Alternatives(ways)
    });
    let name = |state| if state == dfa.start() { "root".to_owned() } else { format!("state-{state}") };
    let names = (0..count).map(name).collect();
    Ok(Rules::new(exprs.collect(), names, RuleId(dfa.start())))
}

/// Position of a part within the whole expression. `start` is true if no text can precede the part,
/// and `end` is true if no text can follow the part.
#[derive(Clone, Copy)]
struct Edges {
    start: bool,
    end: bool,
}

impl Edges {
    /// Returns the position of the body of a repetition with at most `max` rounds. The body of more
    /// than one round is not at an end, because another round may precede or follow it.
    const fn in_repetition(self, max: Option<u32>) -> Self {
        if matches!(max, Some(1)) { self } else { Self { start: false, end: false } }
    }

    /// Returns the position of the part with index `at` in a concatenation of `count` parts. The
    /// first `leading` parts and the last `trailing` parts match only empty text.
    const fn of_part(self, at: usize, count: usize, leading: usize, trailing: usize) -> Self {
        Self { start: self.start && at <= leading, end: self.end && at + 1 + trailing >= count }
    }
}

/// Translates a syntax tree at the position `edges`. Drops anchors that always hold there. Returns
/// `None` if the tree has any other assertion.
fn translate(ast: &Ast, edges: Edges) -> Option<Expr> {
    Some(match &ast.kind {
        AstKind::Start if edges.start => Expr::empty(),
        AstKind::End if edges.end => Expr::empty(),
        AstKind::Class(set) => {
            let chars = |&(low, high): &(u32, u32)| char::from_u32(low).zip(char::from_u32(high));
            match *set.ranges() {
                [(low, high)] if low == high => Expr::Literal(char::from_u32(low)?.to_string().into_bytes()),
                _ => Expr::Class(set.ranges().iter().filter_map(chars).collect()),
            }
        }
        &AstKind::Repeat { ref inner, min, max } => {
            let expr = Box::new(translate(inner, edges.in_repetition(max))?);
            Expr::Repeat { expr, min, max }
        }
        AstKind::Concat(parts) => {
            let leading = parts.iter().take_while(|part| is_empty(part)).count();
            let trailing = parts.iter().rev().take_while(|part| is_empty(part)).count();
            let mut joined: Vec<Expr> = Vec::new();
            for (at, part) in parts.iter().enumerate() {
                let part = translate(part, edges.of_part(at, parts.len(), leading, trailing))?;
                match (joined.last_mut(), part) {
                    (Some(Expr::Literal(before)), Expr::Literal(text)) => before.extend(text),
                    (_, part) => joined.push(part),
                }
            }
            match joined.len() {
                0 => Expr::empty(),
                1 => joined.swap_remove(0),
                _ => Expr::Sequence(joined),
            }
        }
        AstKind::Alternatives(parts) => {
            Expr::Alternatives(parts.iter().map(|part| translate(part, edges)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// Returns true if the part can match only the empty text, whether or not its anchors hold.
fn is_empty(ast: &Ast) -> bool {
    match &ast.kind {
        AstKind::Start | AstKind::End => true,
        AstKind::Concat(parts) | AstKind::Alternatives(parts) => parts.iter().all(is_empty),
        AstKind::Repeat { inner, max, .. } => *max == Some(0) || is_empty(inner),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grammar;

    fn grammar(pattern: &str) -> Grammar {
        Grammar::regex(pattern, &Limits::default()).expect(pattern)
    }

    fn error(pattern: &str) -> String {
        Grammar::regex(pattern, &Limits::default()).expect_err(pattern).to_string()
    }

    #[test]
    fn assertions_hold_for_the_whole_output() {
        let cases: [(&str, &[&str], &[&str]); 16] = [
            (r"\bfoo\b", &["foo"], &["foo ", "a foo", "fo"]),
            (r"\w+\b \b\w+", &["a b"], &["a  b", "a-"]),
            (r"(?=.*[0-9])(?=.*[a-z])[a-z0-9]{3,5}", &["ab1", "1abcd"], &["abc", "a1", "abcde1"]),
            (r"(?!.*--)[a-z-]+(?<!-)", &["a-b"], &["a--b", "a-"]),
            (r"a(?=b)b|(?<!x)c", &["ab", "c"], &["a", "xc", "abc"]),
            (r"(?:^a|b)+", &["ab", "bb"], &["ba", "aa", ""]),
            (r"(?:a$|b)*", &["ba", "b", ""], &["ab"]),
            (r"\A(?:a|b)\z", &["a"], &["ab"]),
            (r"\A(?!b)\w+\z", &["ab"], &["ba", "a-"]),
            (r"^(?:^(a|b)$)$", &["a"], &["ab", ""]),
            (r"(?i)(?!x)[a-z]", &["a", "A"], &["x", "X"]),
            (r"(?P<year>\d{4})(?<=20\d\d)", &["2024"], &["1999", "202"]),
            (r"\pL(?!\pN)\w*", &["AB"], &["A1", "1B"]),
            (r"a\B\w", &["ab"], &["a"]),
            (r"\d+", &["42"], &["\u{667}", ""]),
            (r"a.b", &["a-b"], &["a\nb", "a\rb"]),
        ];
        for (pattern, yes, no) in cases {
            let grammar = grammar(pattern);
            for text in yes {
                assert!(grammar.accepts(text.as_bytes()), "{pattern}: {text:?}");
            }
            for text in no {
                assert!(!grammar.accepts(text.as_bytes()), "{pattern}: {text:?}");
            }
        }
    }

    #[test]
    fn falls_back_to_the_syntax_of_the_regex_crate() {
        for (pattern, yes, no) in [
            ("[[:alpha:]]+", "aZ", "a1"),
            ("[a-z&&[^aeiou]]", "b", "a"),
            (r"[\w--_]", "a", "_"),
            (r"[[:digit:]\d]", "1", "\u{667}"),
            ("(?x) a b # c", "ab", "a b"),
            ("[]a]", "]", "["),
            ("a**", "aa", "b"),
            ("a{ 2 , 3 }", "aa", "a"),
            (r"\x{41}\U00000042\a", "AB\u{7}", "AB"),
            (r"(?-u:\s\w)", " a", "a "),
        ] {
            let grammar = grammar(pattern);
            assert!(grammar.accepts(yes.as_bytes()) && !grammar.accepts(no.as_bytes()), "{pattern}");
        }
    }

    #[test]
    fn rejects_ambiguous_syntax_beside_assertions() {
        for (pattern, offset) in [(r"\b[[:alpha:]]+", 2), ("(?=a)[a-z&&b]", 5), ("(?!b)a{ 2 }", 6)] {
            let expected = format!("regex, offset {offset}: regex engines disagree about this syntax");
            assert!(error(pattern).starts_with(&expected), "{}", error(pattern));
        }
        // The `regex` crate rejects this pattern, so the ECMA-262 reading is not ambiguous.
        assert!(grammar("[[(]").accepts(b"["));
    }

    #[test]
    fn errors_have_offsets() {
        for (pattern, message) in [
            ("a(b", "regex, offset 1: a group is not closed"),
            (r"(a)\1", "regex, offset 3: back-references are not supported"),
            ("(?m)^a$", "regex, offset 2: multi-line anchors are not supported"),
            (r"a\Z", "regex, offset 1: the escape is unknown"),
        ] {
            assert_eq!(error(pattern), message);
        }
        assert!(error("a^b").starts_with("no output can satisfy the grammar"));
    }
}
