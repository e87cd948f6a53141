//! Rewriting of text that is almost JSON as JSON.
//!
//! JSON5, repair and the syntactic stage share one rewriter. The rewriter copies the text and
//! applies the mends that are allowed. The strict parser then reads the result like any other text,
//! so no rule of JSON has an exception here. The changes can be shown as a patch. Rewriting takes
//! linear time in the length of the text and does not recurse.
//!
//! Tolerance 1 reads JSON5, and notations of other languages that have only one meaning: `#` and
//! HTML comments, typographic and triple quotes, `=>`, semicolons, full-width punctuation, `1_000`,
//! `NULL`, doubled braces, and equal members that occur twice. Tolerance 2 also repairs broken text.
//!
//! JSON5 is supported with three exceptions:
//! - `Infinity` and `NaN`, because JSON has no such values.
//! - Escapes such as `\d`. JSON5 reads `d`, but authors of patterns mean the backslash.
//! - Numbers with leading zeros.

mod escapes;
mod quotes;
mod rewriter;
mod scalar;
mod separators;
mod string;

use std::ops::BitOr;

pub(super) use self::scalar::closing_quotes;
pub(super) use self::string::begins_hash_comment;
use super::options::Tolerance;
use super::report::Patch;
use super::tape::{Place, SyntaxError};

/// Maximum number of characters on each side of a patch.
const SHOWN: usize = 160;
/// Number of characters shown around a change.
const AROUND: usize = 12;

/// A change that brings a text closer to JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mend {
    /// Removes a comment: `//`, `/* */`, `#` or `<!-- -->`.
    Comment,
    SingleQuotes,
    TrailingComma,
    /// Adds quotes around a name.
    BareName,
    /// Rewrites a number: hexadecimal, with a plus sign, with underscores between digits, or without
    /// a digit before or after the point.
    NumberForm,
    /// Rewrites an escape that JSON does not have.
    EscapeForm,
    /// Replaces Unicode whitespace or a byte order mark with a space.
    Blank,
    /// Escapes a line break or another control character in a string.
    ControlCharacter,
    /// Rewrites `True`, `False` and `None`.
    PythonLiteral,
    /// Adds a missing closing bracket.
    MissingCloser,
    /// Removes a closing bracket that closes nothing.
    StrayCloser,
    MissingComma,
    /// Removes a comma without an item before the comma.
    ExtraComma,
    /// Replaces `=` with a colon, or adds a missing colon.
    Colon,
    /// Replaces `=>` with a colon.
    Arrow,
    /// Replaces a semicolon with a comma.
    Semicolon,
    /// Replaces `{{` and `}}` with single braces.
    DoubledBraces,
    /// Replaces three quotes on each side of a string with one.
    TripleQuotes,
    /// Replaces two quotes on each side of a string with one.
    DoubledQuotes,
    /// Removes a member that has the name and the value of an earlier member.
    EqualMember,
    /// Adds a quote that is missing on one side of a string.
    MissingQuote,
    /// Escapes a quote inside a string.
    InnerQuote,
    SmartQuotes,
    /// Escapes the backslashes of a string that contains one that is not part of an escape.
    Backslash,
    /// Completes a string, literal or number that is cut off at the end of the text. Also removes a
    /// comma after which an element is missing.
    CutValue,
    /// Removes a member whose value is cut off at the end of the text. Also removes a comma after
    /// which a name is missing.
    CutMember,
    /// Rewrites `TRUE`, `FALSE`, `NULL` and `nil`, and removes the prefix of `u"text"`.
    LiteralForm,
    /// Replaces a full-width colon, comma or semicolon between values.
    WidePunctuation,
    /// Joins the pieces of a string: `"a" "b"` in an object, or `"a" + "b"`.
    StringPieces,
    /// Adds quotes around a value that is plain text.
    BareValue,
    /// Removes text after the value.
    TrailingText,
}

impl Mend {
    const ALL: [Self; 31] = [
        Self::Comment,
        Self::SingleQuotes,
        Self::TrailingComma,
        Self::BareName,
        Self::NumberForm,
        Self::EscapeForm,
        Self::Blank,
        Self::ControlCharacter,
        Self::PythonLiteral,
        Self::MissingCloser,
        Self::StrayCloser,
        Self::MissingComma,
        Self::ExtraComma,
        Self::Colon,
        Self::Arrow,
        Self::Semicolon,
        Self::DoubledBraces,
        Self::TripleQuotes,
        Self::DoubledQuotes,
        Self::EqualMember,
        Self::MissingQuote,
        Self::InnerQuote,
        Self::SmartQuotes,
        Self::Backslash,
        Self::CutValue,
        Self::CutMember,
        Self::LiteralForm,
        Self::WidePunctuation,
        Self::StringPieces,
        Self::BareValue,
        Self::TrailingText,
    ];

    /// Returns the name used in reports.
    const fn name(self) -> &'static str {
        match self {
            Self::Comment => "comment",
            Self::SingleQuotes => "single-quotes",
            Self::TrailingComma => "trailing-comma",
            Self::BareName => "bare-name",
            Self::NumberForm => "number-form",
            Self::EscapeForm => "escape-form",
            Self::Blank => "blank",
            Self::ControlCharacter => "control-character",
            Self::PythonLiteral => "python-literal",
            Self::MissingCloser => "missing-closer",
            Self::StrayCloser => "stray-closer",
            Self::MissingComma => "missing-comma",
            Self::ExtraComma => "extra-comma",
            Self::Colon => "colon",
            Self::Arrow => "arrow",
            Self::Semicolon => "semicolon",
            Self::DoubledBraces => "doubled-braces",
            Self::TripleQuotes => "triple-quotes",
            Self::DoubledQuotes => "doubled-quotes",
            Self::EqualMember => "equal-member",
            Self::MissingQuote => "missing-quote",
            Self::InnerQuote => "inner-quote",
            Self::SmartQuotes => "smart-quotes",
            Self::Backslash => "backslash",
            Self::CutValue => "cut-value",
            Self::CutMember => "cut-member",
            Self::LiteralForm => "literal-form",
            Self::WidePunctuation => "wide-punctuation",
            Self::StringPieces => "string-pieces",
            Self::BareValue => "bare-value",
            Self::TrailingText => "trailing-text",
        }
    }
}

/// A set of mends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mends(u32);

impl Mends {
    /// Mends that have only one meaning and lose nothing. They are therefore allowed at every
    /// tolerance.
    pub(super) const SYNTACTIC: Self =
        Self::all_of(&[Mend::TrailingComma, Mend::Blank, Mend::ControlCharacter, Mend::PythonLiteral]);

    /// Mends of JSON5, and of other notations with only one meaning.
    const NOTATIONS: Self = Self::all_of(&[
        Mend::Comment,
        Mend::SingleQuotes,
        Mend::SmartQuotes,
        Mend::TripleQuotes,
        Mend::TrailingComma,
        Mend::BareName,
        Mend::NumberForm,
        Mend::EscapeForm,
        Mend::Blank,
        Mend::Arrow,
        Mend::Semicolon,
        Mend::DoubledBraces,
        Mend::EqualMember,
        Mend::LiteralForm,
        Mend::WidePunctuation,
    ]);

    /// Returns the mends that a tolerance allows.
    pub(super) const fn of(tolerance: Tolerance) -> Self {
        match tolerance {
            Tolerance::Strict => Self(0),
            Tolerance::Json5 => Self::NOTATIONS,
            Tolerance::Repair => Self::all_of(&Mend::ALL),
        }
    }

    const fn all_of(mends: &[Mend]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < mends.len() {
            set |= 1 << mends[at] as u32;
            at += 1;
        }
        Self(set)
    }

    const fn has(self, mend: Mend) -> bool {
        self.0 & 1 << mend as u32 != 0
    }

    const fn add(&mut self, mend: Mend) {
        self.0 |= 1 << mend as u32;
    }

    const fn remove(&mut self, mend: Mend) {
        self.0 &= !(1 << mend as u32);
    }
}

impl BitOr for Mends {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A rewritten text and the mends that were applied.
pub(super) struct Rewritten {
    pub(super) text: String,
    made: Mends,
    /// True if the text ended inside a scalar or a member.
    pub(super) is_cut: bool,
    /// True if an object or array was not closed at the end of the text.
    pub(super) is_unclosed: bool,
}

/// Rewrites `text` as JSON, with the given mends only. The result may still not be JSON, which the
/// strict parser decides.
pub(super) fn rewrite(text: &str, mends: Mends, max_depth: usize) -> Result<Rewritten, SyntaxError> {
    rewriter::rewrite(text, mends, max_depth)
}

impl Rewritten {
    /// Returns the names of the applied mends.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let made = self.made;
        Mend::ALL.into_iter().filter(move |&mend| made.has(mend)).map(Mend::name)
    }

    /// Reports whether the end of a string was found by its surroundings.
    pub(super) const fn has_guessed_quotes(&self) -> bool {
        self.made.has(Mend::InnerQuote) || self.made.has(Mend::MissingQuote)
    }

    /// Describes the applied mends.
    pub(super) fn reason(&self) -> String {
        let names: Vec<&str> = self.names().collect();
        if names.is_empty() {
            "nothing to repair".to_owned()
        } else {
            format!("repaired: {}", names.join(", "))
        }
    }

    /// Returns the part from the first change to the last, with some context, or `None` if nothing
    /// changed.
    ///
    /// `before` is the original text, and `begins` is its position in the whole text.
    pub(super) fn patch(&self, before: &str, begins: Place) -> Option<Patch> {
        let after = self.text.as_str();
        if before == after {
            return None;
        }
        let same = before.char_indices().zip(after.chars()).take_while(|((_, old), new)| old == new);
        let start = same.last().map_or(0, |((at, old), _)| at + old.len_utf8());
        let (old, new) = (&before[start..], &after[start..]);
        let same = old.chars().rev().zip(new.chars().rev()).take_while(|(old, new)| old == new);
        let tail: usize = same.map(|(old, _)| old.len_utf8()).sum();
        let lead = before[..start].char_indices().rev().nth(AROUND - 1).map_or(0, |(at, _)| at);
        let end = |text: &str| {
            let changed = text.len() - tail;
            changed + text[changed..].char_indices().nth(AROUND).map_or(tail, |(at, _)| at)
        };
        let Place { line, column } = begins.then(Place::of(before, start));
        let side = |text: &str| shortened(&text[lead..end(text)]);
        Some(Patch { line, column, before: side(before), after: side(after) })
    }
}

/// Shortens a text to its beginning and end if it is too long.
fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= SHOWN {
        return text.to_owned();
    }
    let half = SHOWN / 2;
    let first: String = text.chars().take(half).collect();
    let last: String = text.chars().skip(count - half).collect();
    format!("{first} … {last}")
}

#[cfg(test)]
mod tests;
