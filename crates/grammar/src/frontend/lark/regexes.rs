//! Regular expressions between slashes, in the syntax of the `regex` crate.
//!
//! A line break inside an expression needs the flag `x`, so a missing slash is found on its line. `\d`,
//! `\w` and `\s` are Unicode classes, as in that crate. Anchors have no effect at the ends of an
//! expression, because a lexeme matches as a whole; elsewhere they are refused. Lazy repetition is
//! refused, because every reading of a text counts.

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    AssertionKind, Ast, ClassSet, ClassSetItem, ErrorKind, Flag, Flags, FlagsItemKind, GroupKind, Span,
};
use regex_syntax::hir::translate::TranslatorBuilder;

use super::super::regex::{self, BYTES, RANGE};
use super::Parser;
use crate::GrammarError;
use crate::error::{GbnfProblem, LarkProblem};
use crate::ir::expr::Expr;

/// Upper bound for the number of ranges of a Unicode class.
const UNICODE: usize = 800;

/// Cost of folding the case of a class, as a number of ranges.
const FOLD: usize = 3000;

/// Cost of one byte of a pattern, in ledger steps.
const BYTE: usize = 16;

impl<'s> Parser<'s> {
    /// Parses `/pattern/flags`.
    pub(super) fn regex(&mut self) -> Result<Expr, GrammarError> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.next() {
                Some('/') => break,
                Some('\\') => _ = self.next(),
                Some(_) => {}
                None => return Err(self.unclosed_regex(start)),
            }
        }
        let end = self.at - 1;
        let flags = self.flags();
        let pattern = &self.source[start + 1..end];
        if pattern.contains(['\n', '\r']) && !flags.contains('x') {
            return Err(self.unclosed_regex(start));
        }
        if let Some(flag) = flags.find(|flag| !"imsux".contains(flag)) {
            let (flag, at) = (&flags[flag..=flag], end + 1 + flag);
            if flag == "l" {
                let instead = "remove it, because characters do not depend on a locale";
                return Err(self.unsupported(at, "the flag `l` is", instead));
            }
            let problem = LarkProblem::Flag { flag: flag.to_owned(), known: "i, m, s, u and x" };
            return Err(self.error(at, problem));
        }
        self.compile(pattern, flags, start + 1)
    }

    fn unclosed_regex(&self, start: usize) -> GrammarError {
        self.error(start, GbnfProblem::Unterminated { what: "regular expression" })
    }

    /// Compiles a pattern. An error inside the pattern is at the byte offset `at` plus the offset in the
    /// pattern, if the pattern is part of the source.
    pub(super) fn compile(&self, pattern: &str, flags: &str, at: usize) -> Result<Expr, GrammarError> {
        let is_quoted = self.source[at..].starts_with(pattern);
        let place = |span: &Span| at + if is_quoted { span.start.offset } else { 0 };
        let refused = |span: &Span, problem: RegexRefusal| self.error(place(span), problem.problem());
        let limit = self.limits.source_bytes.min(BYTES);
        if pattern.len() > limit {
            return Err(GrammarError::limit("bytes of a regular expression", pattern.len(), limit));
        }
        let ledger = self.reading.ledger;
        ledger.spend(BYTE * pattern.len())?;
        let has = |flag| flags.contains(flag);
        let nesting = self.limits.nesting - self.depth;
        let mut parser = ParserBuilder::new().nest_limit(nesting as u32).ignore_whitespace(has('x')).build();
        let ast = parser.parse(pattern).map_err(|error| match error.kind() {
            ErrorKind::NestLimitExceeded(_) => {
                self.error(place(error.span()), GbnfProblem::Nesting { limit: self.limits.nesting })
            }
            ErrorKind::UnsupportedLookAround => refused(error.span(), RegexRefusal::LookAround),
            ErrorKind::UnsupportedBackreference => refused(error.span(), RegexRefusal::BackReference),
            kind => self.error(place(error.span()), LarkProblem::Regex { message: kind.to_string() }),
        })?;
        let mut check = Check { folds: has('i'), classes: 0, ranges: 0, anchor: None };
        check.ast(&ast).map_err(|(span, problem)| refused(&span, problem))?;
        ledger.spend(RANGE * check.cost())?;
        let mut translator = TranslatorBuilder::new();
        translator.case_insensitive(has('i')).multi_line(has('m')).dot_matches_new_line(has('s'));
        let hir = translator.build().translate(pattern, &ast).map_err(|error| {
            self.error(place(error.span()), LarkProblem::Regex { message: error.kind().to_string() })
        })?;
        let Some(expr) = regex::extended::of_whole(&hir) else {
            let start = Span::splat(ast.span().start);
            return Err(refused(&check.anchor.unwrap_or(start), RegexRefusal::Anchor));
        };
        let (parts, ranges) = size(&expr);
        ledger.spend(RANGE * ranges)?;
        ledger.hold(size_of::<Expr>() * parts + 3 * size_of::<(char, char)>() * ranges)?;
        Ok(expr)
    }

    /// Takes the letters that directly follow a string or a regular expression.
    pub(super) fn flags(&mut self) -> &'s str {
        let rest = &self.source[self.at..];
        let len = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let flags = &rest[..len];
        self.at += len;
        flags
    }
}

/// Reason why a regular expression is refused.
enum RegexRefusal {
    LookAround,
    BackReference,
    Lazy,
    SwapGreed,
    WordBoundary,
    Anchor,
}

impl RegexRefusal {
    fn problem(&self) -> LarkProblem {
        let (what, instead) = match self {
            Self::LookAround => ("look-around is", "write the allowed text itself"),
            Self::BackReference => ("a back-reference is", "write one rule for each text"),
            Self::Lazy => {
                ("lazy repetition is", "repeat a class that excludes the text that follows, such as `[^\"]*`")
            }
            Self::SwapGreed => ("the flag `U` is", "remove it, because repetition cannot be lazy"),
            Self::WordBoundary => ("a word boundary is", "write the neighbouring characters"),
            Self::Anchor => {
                ("an anchor inside a regular expression is", "remove it, because a lexeme matches as a whole")
            }
        };
        LarkProblem::Unsupported { what: what.to_owned(), instead }
    }
}

/// Walks a pattern. Estimates the cost of its classes and finds what cannot be enforced.
struct Check {
    /// True if a part of the pattern ignores case.
    folds: bool,
    /// Number of classes.
    classes: usize,
    /// Upper bound for the number of ranges in classes.
    ranges: usize,
    /// Place of the first anchor.
    anchor: Option<Span>,
}

impl Check {
    /// Returns the cost of the translation, as a number of ranges.
    const fn cost(&self) -> usize {
        self.ranges.saturating_add(if self.folds { self.classes.saturating_mul(FOLD) } else { 0 })
    }

    /// Recursion is safe, because the parser limits the nesting depth.
    fn ast(&mut self, ast: &Ast) -> Result<(), (Span, RegexRefusal)> {
        match ast {
            Ast::Empty(_) | Ast::Literal(_) | Ast::Dot(_) => Ok(()),
            Ast::Flags(flags) => self.flags(&flags.flags),
            Ast::ClassUnicode(_) | Ast::ClassPerl(_) => {
                self.class(UNICODE);
                Ok(())
            }
            Ast::ClassBracketed(class) => {
                self.set(&class.kind);
                Ok(())
            }
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::StartLine
                | AssertionKind::EndLine
                | AssertionKind::StartText
                | AssertionKind::EndText => {
                    self.anchor.get_or_insert(assertion.span);
                    Ok(())
                }
                _ => Err((assertion.span, RegexRefusal::WordBoundary)),
            },
            Ast::Repetition(repetition) if !repetition.greedy => {
                Err((repetition.op.span, RegexRefusal::Lazy))
            }
            Ast::Repetition(repetition) => self.ast(&repetition.ast),
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    self.flags(flags)?;
                }
                self.ast(&group.ast)
            }
            Ast::Alternation(alternation) => alternation.asts.iter().try_for_each(|ast| self.ast(ast)),
            Ast::Concat(concat) => concat.asts.iter().try_for_each(|ast| self.ast(ast)),
        }
    }

    fn flags(&mut self, flags: &Flags) -> Result<(), (Span, RegexRefusal)> {
        for item in &flags.items {
            match item.kind {
                FlagsItemKind::Flag(Flag::SwapGreed) => return Err((item.span, RegexRefusal::SwapGreed)),
                FlagsItemKind::Flag(Flag::CaseInsensitive) => self.folds = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn class(&mut self, ranges: usize) -> usize {
        self.classes += 1;
        self.ranges += ranges;
        ranges
    }

    /// Returns an upper bound for the number of ranges of a set. Each level of a nested set costs as much
    /// as its members.
    fn set(&mut self, set: &ClassSet) -> usize {
        let ranges = match set {
            ClassSet::Item(item) => self.member(item),
            ClassSet::BinaryOp(operation) => self.set(&operation.lhs) + self.set(&operation.rhs),
        };
        self.class(ranges + 1)
    }

    fn member(&mut self, item: &ClassSetItem) -> usize {
        match item {
            ClassSetItem::Empty(_) => 0,
            ClassSetItem::Literal(_) | ClassSetItem::Range(_) => 1,
            ClassSetItem::Ascii(_) => 8,
            ClassSetItem::Unicode(_) | ClassSetItem::Perl(_) => UNICODE,
            ClassSetItem::Bracketed(class) => self.set(&class.kind),
            ClassSetItem::Union(union) => union.items.iter().map(|item| self.member(item)).sum(),
        }
    }
}

/// Returns the number of expressions in `expr` and the number of ranges and bytes in its terminals.
fn size(expr: &Expr) -> (usize, usize) {
    let mut open = vec![expr];
    let (mut parts, mut ranges) = (0, 0);
    while let Some(expr) = open.pop() {
        parts += 1;
        match expr {
            Expr::Literal(bytes) => ranges += bytes.len() / size_of::<(char, char)>(),
            Expr::Class(class) => ranges += class.len(),
            Expr::Bytes(class) => ranges += class.len(),
            Expr::Rule(_) => {}
            Expr::Sequence(list) | Expr::Alternatives(list) => open.extend(list),
            Expr::Repeat { expr, .. } => open.push(expr),
        }
    }
    (parts, ranges)
}
