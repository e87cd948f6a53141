//! Regular expressions, in the syntax of the `regex` crate, matched against the whole output.
//!
//! The expression is anchored at both ends by itself, so `^` and `$` (and `\A`, `\z`) are accepted where they change
//! nothing: at the very start and the very end, in groups and alternatives too. Word boundaries, multi-line anchors,
//! look-around and backreferences are refused by name. Repetition is counted as written; greediness has no meaning for a
//! whole match.

use std::convert::Infallible;

use regex_syntax::ast::{self, AssertionKind, Ast, Visitor};
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::expr::{Expr, Rules};
use crate::error::{Kind, RegexProblem};
use crate::{GrammarError, Limits};

/// Bytes of a pattern. What the parser makes of one takes many times its length.
const BYTES: usize = 1 << 17;

/// Parses `pattern` into a one-rule grammar.
pub(crate) fn parse(pattern: &str, limits: &Limits) -> Result<Rules, GrammarError> {
    let limit = limits.source_bytes.min(BYTES);
    if pattern.len() > limit {
        return Err(GrammarError::limit("bytes of source", pattern.len(), limit));
    }
    let hir = regex_syntax::ParserBuilder::new()
        .nest_limit(limits.nesting as u32)
        .build()
        .parse(pattern)
        .map_err(|error| syntax_error(&error, pattern))?;
    let translated = translate(&hir, Edges { start: true, end: true });
    let expr = translated.map_err(|look| {
        let problem = RegexProblem::Unsupported { what: name(look) };
        GrammarError::from(Kind::Regex { offset: offset(pattern, look), problem })
    })?;
    Ok(Rules::of(expr))
}

fn syntax_error(error: &regex_syntax::Error, pattern: &str) -> GrammarError {
    // What the parser takes for flags that it does not know.
    for (group, what) in [("(?P=", "a backreference"), ("(?>", "an atomic group")] {
        if let Some(offset) = pattern.find(group)
            && matches!(error, regex_syntax::Error::Parse(error)
                if (offset..=offset + group.len()).contains(&error.span().start.offset))
        {
            return Kind::Regex { offset, problem: RegexProblem::Unsupported { what } }.into();
        }
    }
    let (offset, message) = match error {
        regex_syntax::Error::Parse(error) => (error.span().start.offset, error.kind().to_string()),
        regex_syntax::Error::Translate(error) => (error.span().start.offset, error.kind().to_string()),
        other => (0, other.to_string()),
    };
    Kind::Regex { offset, problem: RegexProblem::Syntax { message } }.into()
}

/// Whether nothing is before a part of the expression, and whether nothing is after it.
#[derive(Clone, Copy)]
struct Edges {
    start: bool,
    end: bool,
}

impl Edges {
    const INSIDE: Self = Self { start: false, end: false };
}

/// Translates a part, its anchors dropped where they are always met; else gives the look-around that cannot be.
fn translate(hir: &Hir, edges: Edges) -> Result<Expr, Look> {
    Ok(match hir.kind() {
        HirKind::Empty => Expr::empty(),
        HirKind::Look(Look::Start) if edges.start => Expr::empty(),
        HirKind::Look(Look::End) if edges.end => Expr::empty(),
        HirKind::Look(look) => return Err(*look),
        HirKind::Literal(literal) => Expr::Literal(literal.0.to_vec()),
        HirKind::Class(Class::Unicode(class)) => {
            Expr::Class(class.iter().map(|range| (range.start(), range.end())).collect())
        }
        HirKind::Class(Class::Bytes(class)) => {
            Expr::Bytes(class.iter().map(|range| (range.start(), range.end())).collect())
        }
        HirKind::Repetition(repetition) => {
            // The second round of more is not at the start, nor the first one at the end.
            let edges = if repetition.max == Some(1) { edges } else { Edges::INSIDE };
            let expr = Box::new(translate(&repetition.sub, edges)?);
            Expr::Repeat { expr, min: repetition.min, max: repetition.max }
        }
        HirKind::Capture(capture) => translate(&capture.sub, edges)?,
        HirKind::Concat(parts) => {
            let is_empty = |hir: &&Hir| hir.properties().maximum_len() == Some(0);
            let leading = parts.iter().take_while(is_empty).count();
            let trailing = parts.iter().rev().take_while(is_empty).count();
            let translated = parts.iter().enumerate().map(|(at, part)| {
                let start = edges.start && at <= leading;
                translate(part, Edges { start, end: edges.end && at + 1 + trailing >= parts.len() })
            });
            Expr::Sequence(translated.collect::<Result<_, _>>()?)
        }
        HirKind::Alternation(parts) => {
            let translated = parts.iter().map(|part| translate(part, edges));
            Expr::Alternatives(translated.collect::<Result<_, _>>()?)
        }
    })
}

const fn name(look: Look) -> &'static str {
    match look {
        Look::Start => "a start anchor inside the expression",
        Look::End => "an end anchor inside the expression",
        Look::StartLF | Look::StartCRLF | Look::EndLF | Look::EndCRLF => "a multi-line anchor",
        _ => "a word boundary",
    }
}

/// Where the first assertion of a kind stands inside a pattern, which has been parsed already.
fn offset(pattern: &str, look: Look) -> usize {
    struct Assertions {
        look: Look,
        first: Option<usize>,
    }
    impl Visitor for Assertions {
        type Output = usize;
        type Err = Infallible;

        fn finish(self) -> Result<usize, Infallible> {
            Ok(self.first.unwrap_or(0))
        }

        fn visit_pre(&mut self, ast: &Ast) -> Result<(), Infallible> {
            if let Ast::Assertion(assertion) = ast {
                let same = match assertion.kind {
                    AssertionKind::StartLine | AssertionKind::StartText => {
                        name(self.look) == name(Look::Start)
                    }
                    AssertionKind::EndLine | AssertionKind::EndText => name(self.look) == name(Look::End),
                    _ => name(self.look) == name(Look::WordUnicode),
                };
                let multi_line = matches!(assertion.kind, AssertionKind::StartLine | AssertionKind::EndLine)
                    && name(self.look) == name(Look::StartLF);
                let offset = assertion.span.start.offset;
                if (same && offset > 0) || multi_line {
                    self.first.get_or_insert(offset);
                }
            }
            Ok(())
        }
    }
    let Ok(ast) = ast::parse::Parser::new().parse(pattern) else { return 0 };
    let Ok(offset) = ast::visit(&ast, Assertions { look, first: None });
    offset
}
