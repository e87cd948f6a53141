//! Regular expressions of ECMA-262, with the meaning that the `u` flag gives them, as languages.
//!
//! JSON Schema's `pattern` asks whether the expression is *found* in the text, so the language of a pattern holds every
//! text with a match in it. Matching by code points, `\d` and `\w` ASCII only, `.` without line terminators, `^` and `$`
//! at the ends of the text only: what a validator on an ECMA engine does.
//!
//! Look-around, anchors and word boundaries are exact wherever they stand, in loops and in each other too.
//! Mostly look-ahead is an intersection with what follows, and look-behind one with what went before
//! ([`build`]). Where the two mix, what may follow depends on a context of the text so far ([`general`]).
//! Back-references are not regular and refused.
//!
//! # Leniency
//! Like the validators in use we read some expressions that ECMA-262 with `u` calls errors but that can only mean one thing:
//! a `{`, `}` or `]` alone, escaped characters that need no escape (`\-`, `\@`), flags for all or a part (`(?i)`, `(?i:a)`),
//! `(?P<name>a)`, and sets where a range ends in a class (`[\w-.]`). Escaped letters without a meaning
//! (`\A`, `\Z`, `\h`) are errors, since engines disagree about them.
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

/// The deepest nesting of groups.
const NESTING: usize = 250;

/// The texts in which a pattern is found.
pub(crate) fn pattern(expressions: &mut Expressions, source: &str) -> Result<ExprId, PatternError> {
    let ast = parse::parse(source)?;
    match build::search(expressions, &ast) {
        // Assertions in some places need contexts, and cost more.
        Err(PatternError { reason, .. }) if reason.needs_contexts() => {
            general::texts(expressions, &ast, general::Scope::Anywhere)
        }
        built => built,
    }
}

/// Reads a pattern that is to match as a whole, with escapes that other engines have.
pub(crate) fn read(source: &str) -> Result<Read, PatternError> {
    parse::read(source, parse::Dialect::Extended)
}

/// The texts that a pattern matches from their start to their end.
pub(crate) fn whole(expressions: &mut Expressions, ast: &Ast) -> Result<ExprId, PatternError> {
    match build::whole(expressions, ast) {
        Err(PatternError { reason, .. }) if reason.needs_contexts() => {
            general::texts(expressions, ast, general::Scope::Whole)
        }
        built => built,
    }
}

/// The texts in which a pattern is found, and those that it matches as a whole, by the general construction.
#[cfg(test)]
pub(super) fn general_texts(expressions: &mut Expressions, ast: &Ast) -> Result<[ExprId; 2], PatternError> {
    let found = general::texts(expressions, ast, general::Scope::Anywhere)?;
    Ok([found, general::texts(expressions, ast, general::Scope::Whole)?])
}

/// What `\d`, `\w` or `\s` stands for, by its letter.
pub(crate) fn set_of_escape(letter: char) -> Option<CharSet> {
    class::of_escape(letter)
}

/// Why a pattern has no language here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}, at offset {offset}")]
pub(crate) struct PatternError {
    /// In bytes, into the pattern.
    pub(crate) offset: usize,
    pub(crate) reason: PatternProblem,
}

/// What is wrong with a pattern, or not supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum PatternProblem {
    #[error("a group is not closed")]
    UnclosedGroup,
    #[error("a parenthesis closes no group")]
    UnopenedGroup,
    #[error("a character class is not closed")]
    UnclosedClass,
    #[error("groups are nested deeper than {limit} levels", limit = NESTING)]
    TooDeep,
    #[error("there is nothing to repeat")]
    NothingToRepeat,
    #[error("the numbers of a repetition are out of order")]
    CountsOutOfOrder,
    #[error("the count of a repetition is too large")]
    CountTooLarge,
    #[error("a repetition without its least count means different things to different engines")]
    CountWithoutMinimum,
    #[error("the ends of a range are out of order")]
    RangeOutOfOrder,
    #[error("the expression ends in a backslash")]
    TrailingBackslash,
    #[error("the escape is unknown")]
    UnknownEscape,
    #[error("the escape needs more hexadecimal digits")]
    HexadecimalDigits,
    #[error("there is no such code point")]
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
    #[error("look-around and anchors are repeated too often")]
    TooManyRounds,
}

impl PatternProblem {
    /// Whether the general construction may do what the first one cannot.
    fn needs_contexts(self) -> bool {
        matches!(
            self,
            Self::NestedLookBehind | Self::LookBehindAfterAssertion | Self::EmptyRound | Self::TooManyRounds
        )
    }

    /// This problem at a place.
    fn at(self, offset: usize) -> PatternError {
        PatternError { offset, reason: self }
    }
}
