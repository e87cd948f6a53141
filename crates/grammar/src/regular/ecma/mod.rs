//! Parses regular expressions of ECMA-262, with the meaning of the `u` flag, and builds their
//! languages.
//!
//! JSON Schema's `pattern` requires that the expression is *found* in the text. The language of a
//! pattern therefore contains every text with a match. The meaning of patterns follows validators
//! that use an ECMA engine. Patterns match by code points. `\d` and `\w` are ASCII only, `.`
//! excludes line terminators, and `^` and `$` match only at the ends of the text.
//!
//! Look-around, anchors and word boundaries are exact everywhere, including in loops and in each
//! other. Usually, look-ahead is an intersection with the following text, and look-behind is an
//! intersection with the preceding text ([`build`]). If a pattern mixes both, the texts that may
//! follow depend on a summary of the text so far ([`general`]). Back-references are not regular,
//! and are rejected.
//!
//! # Leniency
//! Like common validators, this module accepts some expressions that ECMA-262 with `u` rejects but
//! that can only mean one thing:
//!
//! - a lone `{`, `}` or `]`;
//! - escaped characters that need no escape (`\-`, `\@`);
//! - flags for all or part of the expression (`(?i)`, `(?i:a)`);
//! - `(?P<name>a)`;
//! - sets in which a range ends in a class (`[\w-.]`).
//!
//! Escaped letters without a meaning (`\A`, `\Z`, `\h`) are errors, because engines disagree about
//! them.
//!
//! (ECMA-262, 16th edition, §22.2 and annex B.1.2.)

mod ast;
mod build;
mod class;
mod general;
mod look_behind;
mod parse;

pub(crate) use ast::{Ast, Kind as AstKind};
pub(crate) use parse::Read;

use super::{CharSet, ExprId, Expressions};

/// Maximum nesting depth of groups.
const NESTING: usize = 250;

/// Parses a pattern and returns the language of all texts in which the pattern is found.
///
/// # Errors
/// Returns an error if the pattern is malformed, unsupported, or too large.
pub(crate) fn pattern(expressions: &mut Expressions, source: &str) -> Result<ExprId, PatternError> {
    let ast = parse::parse(source)?;
    match build::search(expressions, &ast) {
        // Assertions in some places need contexts, which cost more.
        Err(PatternError { reason, .. }) if reason.needs_contexts() => {
            general::texts(expressions, &ast, general::Scope::Anywhere)
        }
        built => built,
    }
}

/// Parses a pattern for [`whole`]. Also accepts some escapes of other engines
/// ([`parse::Dialect::Extended`]).
///
/// # Errors
/// Returns an error if the pattern is malformed or unsupported.
pub(crate) fn read(source: &str) -> Result<Read, PatternError> {
    parse::read(source, parse::Dialect::Extended)
}

/// Returns the language of all texts that a pattern matches from start to end.
///
/// # Errors
/// Returns an error if the pattern is too large.
pub(crate) fn whole(expressions: &mut Expressions, ast: &Ast) -> Result<ExprId, PatternError> {
    match build::whole(expressions, ast) {
        Err(PatternError { reason, .. }) if reason.needs_contexts() => {
            general::texts(expressions, ast, general::Scope::Whole)
        }
        built => built,
    }
}

/// Returns the language of the texts in which a pattern is found, and the language of the texts
/// that it matches as a whole. Both are built with the general construction.
#[cfg(test)]
pub(super) fn general_texts(expressions: &mut Expressions, ast: &Ast) -> Result<[ExprId; 2], PatternError> {
    let found = general::texts(expressions, ast, general::Scope::Anywhere)?;
    Ok([found, general::texts(expressions, ast, general::Scope::Whole)?])
}

/// Returns the set of `\d`, `\w` or `\s`, if `letter` is `d`, `w` or `s`. Otherwise returns `None`.
pub(crate) fn set_of_escape(letter: char) -> Option<CharSet> {
    class::of_escape(letter)
}

/// The reason why a pattern is rejected, and the position of the problem.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}, at offset {offset}")]
pub(crate) struct PatternError {
    /// Byte offset in the pattern.
    pub(crate) offset: usize,
    pub(crate) reason: PatternProblem,
}

/// A syntax error in a pattern, or an unsupported construct.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum PatternProblem {
    #[error("a group is not closed")]
    UnclosedGroup,
    #[error("unmatched closing parenthesis")]
    UnopenedGroup,
    #[error("a character class is not closed")]
    UnclosedClass,
    #[error("groups are nested deeper than {limit} levels", limit = NESTING)]
    TooDeep,
    #[error("nothing to repeat")]
    NothingToRepeat,
    #[error("the minimum of a repetition is greater than its maximum")]
    CountsOutOfOrder,
    #[error("the count of a repetition is too large")]
    CountTooLarge,
    #[error("regex engines disagree about a repetition without a minimum; write `{{0,n}}`")]
    CountWithoutMinimum,
    #[error("the start of a range is greater than its end")]
    RangeOutOfOrder,
    #[error("the expression ends in a backslash")]
    TrailingBackslash,
    #[error("the escape is unknown")]
    UnknownEscape,
    #[error("the escape needs more hexadecimal digits")]
    HexadecimalDigits,
    #[error("the code point is greater than 10FFFF")]
    CodePoint,
    #[error("a property needs braces and a name")]
    PropertySyntax,
    #[error("the Unicode property is unknown")]
    UnknownProperty,
    #[error("the kind of group is unknown")]
    UnknownGroup,
    #[error("a group's name is malformed")]
    GroupName,
    #[error("the flag is unknown")]
    UnknownFlag,
    #[error("multi-line anchors are not supported")]
    MultiLine,
    #[error("back-references are not supported")]
    BackReference,
    #[error("atomic groups are not supported")]
    AtomicGroup,
    #[error("look-behind is not supported in a group or a repetition")]
    NestedLookBehind,
    #[error("look-behind is not supported behind look-ahead, an end anchor or a word boundary")]
    LookBehindAfterAssertion,
    #[error("look-around and anchors are not supported in a repetition that may be empty")]
    EmptyRound,
    #[error("the pattern with look-around or anchors is too large")]
    TooManyRounds,
}

impl PatternProblem {
    /// Reports whether [`general`] may be able to build the language of the pattern.
    fn needs_contexts(self) -> bool {
        matches!(
            self,
            Self::NestedLookBehind | Self::LookBehindAfterAssertion | Self::EmptyRound | Self::TooManyRounds
        )
    }

    /// Returns the error for this problem at a byte offset of the pattern.
    fn at(self, offset: usize) -> PatternError {
        PatternError { offset, reason: self }
    }
}
