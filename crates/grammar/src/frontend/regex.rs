//! Regular expressions, in the syntax of the `regex` crate, matched against the whole output.
//!
//! The expression is anchored at both ends by itself, so `^` and `$` (and `\A`, `\z`) are accepted where they change
//! nothing: at the very start and the very end. Word boundaries, multi-line anchors, look-around and backreferences are
//! refused by name. Repetition is counted as written; greediness has no meaning for a whole match.

use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::expr::{Expr, Rules};
use crate::error::{Kind, RegexProblem};
use crate::{GrammarError, Limits};

/// Parses `pattern` into a one-rule grammar.
pub(crate) fn parse(pattern: &str, limits: &Limits) -> Result<Rules, GrammarError> {
    if pattern.len() > limits.source_bytes {
        return Err(GrammarError::limit("bytes of source", pattern.len(), limits.source_bytes));
    }
    let hir = regex_syntax::ParserBuilder::new()
        .nest_limit(limits.nesting as u32)
        .build()
        .parse(pattern)
        .map_err(|error| syntax_error(&error))?;
    let expr = anchored(&hir)?;
    Ok(Rules::of(expr))
}

fn syntax_error(error: &regex_syntax::Error) -> GrammarError {
    let (offset, message) = match error {
        regex_syntax::Error::Parse(error) => (error.span().start.offset, error.kind().to_string()),
        regex_syntax::Error::Translate(error) => (error.span().start.offset, error.kind().to_string()),
        other => (0, other.to_string()),
    };
    Kind::Regex { offset, problem: RegexProblem::Syntax { message } }.into()
}

/// Translates the whole expression, dropping the anchors at its ends.
fn anchored(hir: &Hir) -> Result<Expr, GrammarError> {
    match hir.kind() {
        HirKind::Look(Look::Start | Look::End) => Ok(Expr::empty()),
        HirKind::Capture(capture) => anchored(&capture.sub),
        HirKind::Alternation(parts) => {
            Ok(Expr::Alternatives(parts.iter().map(anchored).collect::<Result<_, _>>()?))
        }
        HirKind::Concat(parts) => {
            let leading = |hir: &&Hir| matches!(hir.kind(), HirKind::Look(Look::Start));
            let trailing = |hir: &&Hir| matches!(hir.kind(), HirKind::Look(Look::End));
            let start = parts.iter().take_while(leading).count();
            let end = parts.len() - parts[start..].iter().rev().take_while(trailing).count();
            Ok(Expr::Sequence(parts[start..end].iter().map(translate).collect::<Result<_, _>>()?))
        }
        _ => translate(hir),
    }
}

fn translate(hir: &Hir) -> Result<Expr, GrammarError> {
    Ok(match hir.kind() {
        HirKind::Empty => Expr::empty(),
        HirKind::Literal(literal) => Expr::Literal(literal.0.to_vec()),
        HirKind::Class(Class::Unicode(class)) => {
            Expr::Class(class.iter().map(|range| (range.start(), range.end())).collect())
        }
        HirKind::Class(Class::Bytes(class)) => {
            Expr::Bytes(class.iter().map(|range| (range.start(), range.end())).collect())
        }
        HirKind::Look(look) => return Err(unsupported(*look)),
        HirKind::Repetition(repetition) => Expr::Repeat {
            expr: Box::new(translate(&repetition.sub)?),
            min: repetition.min,
            max: repetition.max,
        },
        HirKind::Capture(capture) => translate(&capture.sub)?,
        HirKind::Concat(parts) => Expr::Sequence(parts.iter().map(translate).collect::<Result<_, _>>()?),
        HirKind::Alternation(parts) => {
            Expr::Alternatives(parts.iter().map(translate).collect::<Result<_, _>>()?)
        }
    })
}

fn unsupported(look: Look) -> GrammarError {
    let what = match look {
        Look::Start => "a start anchor inside the expression",
        Look::End => "an end anchor inside the expression",
        Look::StartLF | Look::StartCRLF | Look::EndLF | Look::EndCRLF => "a multi-line anchor",
        _ => "a word boundary",
    };
    Kind::Regex { offset: 0, problem: RegexProblem::Unsupported { what } }.into()
}
