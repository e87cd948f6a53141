//! What is not quite JSON, written as JSON.
//!
//! One reader does for JSON5, for repair and for the syntactic stage: it copies the text and mends it on the way, where the mend is one of
//! those allowed. What comes out is read by the strict parser as everything is, so that no rule of JSON has an exception here, and
//! what was changed can be shown. Its time is linear in the text's length, and it does not recurse.
//!
//! JSON5 is taken but for three things: `Infinity` and `NaN`, for which JSON has no word; escapes such as `\d`, which JSON5 reads as
//! `d` and writers of patterns do not mean so; and numbers with zeros in front.

mod rewriter;
mod scalar;
mod string;

use std::ops::BitOr;

use super::options::Tolerance;
use super::report::Patch;
use super::tape::{Place, SyntaxError};

/// The most characters of a patch's sides that are shown.
const SHOWN: usize = 160;
/// How many characters around a change are shown with it.
const AROUND: usize = 12;

/// Something that is changed in a text to make it JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mend {
    /// A comment is left out.
    Comment,
    SingleQuotes,
    TrailingComma,
    /// A name without quotes.
    BareName,
    /// Numbers that JSON writes in another way: hexadecimal, with a plus, without a digit before or after the point.
    NumberForm,
    /// Escapes that JSON writes in another way.
    EscapeForm,
    /// Blanks that are none in JSON, a mark of byte order too.
    Blank,
    /// A line break or another control character in a string.
    ControlCharacter,
    /// `True`, `False`, `None`.
    PythonLiteral,
    /// Brackets that are not closed.
    MissingCloser,
    /// Brackets that close nothing.
    StrayCloser,
    MissingComma,
    /// Commas with nothing before them.
    ExtraComma,
    /// `=` or nothing in place of a colon.
    Colon,
    /// A quote in a string, without a backslash.
    InnerQuote,
    SmartQuotes,
    /// A backslash that escapes nothing.
    Backslash,
    /// A string, a literal or a number that the text ends in, or an element before which it ends, after the comma.
    CutValue,
    /// A name whose value the text ends before, or the comma before a name: it is left out.
    CutMember,
    /// A value without quotes that is nothing but text.
    BareValue,
    /// Text after the value is left out.
    TrailingText,
}

impl Mend {
    const ALL: [Self; 21] = [
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
        Self::InnerQuote,
        Self::SmartQuotes,
        Self::Backslash,
        Self::CutValue,
        Self::CutMember,
        Self::BareValue,
        Self::TrailingText,
    ];

    /// Its name in reports.
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
            Self::InnerQuote => "inner-quote",
            Self::SmartQuotes => "smart-quotes",
            Self::Backslash => "backslash",
            Self::CutValue => "cut-value",
            Self::CutMember => "cut-member",
            Self::BareValue => "bare-value",
            Self::TrailingText => "trailing-text",
        }
    }
}

/// A set of mends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mends(u32);

impl Mends {
    /// Those that have one meaning and lose nothing, which is why they need no tolerance: what they change cannot have been meant in
    /// another way.
    pub(super) const SYNTACTIC: Self =
        Self::all_of(&[Mend::TrailingComma, Mend::Blank, Mend::ControlCharacter, Mend::PythonLiteral]);

    const JSON5: Self = Self::all_of(&[
        Mend::Comment,
        Mend::SingleQuotes,
        Mend::TrailingComma,
        Mend::BareName,
        Mend::NumberForm,
        Mend::EscapeForm,
        Mend::Blank,
    ]);

    /// What is mended at a tolerance.
    pub(super) const fn of(tolerance: Tolerance) -> Self {
        match tolerance {
            Tolerance::Strict => Self(0),
            Tolerance::Json5 => Self::JSON5,
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
}

impl BitOr for Mends {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A text that is JSON, with what was changed to make it so.
pub(super) struct Rewritten {
    pub(super) text: String,
    made: Mends,
}

/// Writes `text` as JSON, with no other mends than those given. What comes out may still not be JSON: that is the strict parser's
/// question.
pub(super) fn rewrite(text: &str, mends: Mends, max_depth: usize) -> Result<Rewritten, SyntaxError> {
    rewriter::rewrite(text, mends, max_depth)
}

impl Rewritten {
    /// The names of what was done.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let made = self.made;
        Mend::ALL.into_iter().filter(move |&mend| made.has(mend)).map(Mend::name)
    }

    /// What was done, in words.
    pub(super) fn reason(&self) -> String {
        let names: Vec<&str> = self.names().collect();
        if names.is_empty() { "it is JSON".to_owned() } else { format!("mended: {}", names.join(", ")) }
    }

    /// From the first change to the last, with a little of what is around them; none if nothing was changed. `before` is what was
    /// read, and `begins` is its place in the text.
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

/// Beginning and end of what is too long to show.
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
