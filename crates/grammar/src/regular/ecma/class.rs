//! Parses escapes and bracketed character classes.

use regex_syntax::hir::{Class, ClassUnicode, HirKind};

use super::parse::{Dialect, Parser};
use super::{PatternError, PatternProblem};
use crate::regular::CharSet;

/// The meaning of an escape or of a member of a bracketed class: one code point, or a set.
pub(super) enum Atom {
    /// A code point, possibly a surrogate. No text contains surrogates, but a range in a class may
    /// start or end at a surrogate.
    Char(u32),
    Set(CharSet),
}

impl Atom {
    pub(super) fn into_set(self) -> CharSet {
        match self {
            Self::Char(c) => CharSet::from_code_points([(c, c)]),
            Self::Set(set) => set,
        }
    }
}

/// Returns the set of line terminators: `\n`, `\r`, U+2028 and U+2029 (ECMA-262 §12.3).
pub(super) fn line_terminators() -> CharSet {
    CharSet::new([('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')])
}

/// Returns the set of `\s`: white space and line terminators (ECMA-262 §12.2 and §12.3).
fn spaces() -> CharSet {
    CharSet::new([
        ('\t', '\r'),
        (' ', ' '),
        ('\u{A0}', '\u{A0}'),
        ('\u{1680}', '\u{1680}'),
        ('\u{2000}', '\u{200A}'),
        ('\u{2028}', '\u{2029}'),
        ('\u{202F}', '\u{202F}'),
        ('\u{205F}', '\u{205F}'),
        ('\u{3000}', '\u{3000}'),
        ('\u{FEFF}', '\u{FEFF}'),
    ])
}

fn digits() -> CharSet {
    CharSet::new([('0', '9')])
}

/// Returns the set of `\d`, `\w` or `\s`, if `letter` is `d`, `w` or `s`. Otherwise returns `None`.
pub(super) fn of_escape(letter: char) -> Option<CharSet> {
    match letter {
        'd' => Some(digits()),
        'w' => Some(word_chars()),
        's' => Some(spaces()),
        _ => None,
    }
}

/// Returns the set of `\w`: the characters that count as word characters for `\b`.
pub(super) fn word_chars() -> CharSet {
    CharSet::new([('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')])
}

pub(super) fn from_unicode(class: &ClassUnicode) -> CharSet {
    CharSet::new(class.iter().map(|range| (range.start(), range.end())))
}

impl Parser<'_> {
    /// Parses a bracketed class up to its closing bracket. The opening bracket, at `offset`, has
    /// been read.
    pub(super) fn class(&mut self, offset: usize) -> Result<CharSet, PatternError> {
        let negated = self.eat("^");
        if self.peek() == Some(']') {
            self.note_ambiguous(offset);
        }
        let mut ranges = Vec::new();
        loop {
            let start = self.at;
            if self.peek() == Some('[') || ["&&", "--", "~~"].iter().any(|operator| self.is_next(operator)) {
                self.note_ambiguous(offset);
            }
            let Some(first) = self.member(offset)? else { break };
            let dash = self.at;
            if self.is_next("--") {
                self.note_ambiguous(offset);
            }
            // A dash before the closing bracket stands for itself.
            if self.eat("-") && self.peek() != Some(']') {
                let Some(last) = self.member(offset)? else { break };
                match (first, last) {
                    (Atom::Char(first), Atom::Char(last)) if first > last => {
                        return Err(PatternProblem::RangeOutOfOrder.at(start));
                    }
                    (Atom::Char(first), Atom::Char(last)) => ranges.push((first, last)),
                    (first, last) => {
                        for set in [first.into_set(), last.into_set(), CharSet::single('-')] {
                            ranges.extend_from_slice(set.ranges());
                        }
                    }
                }
            } else {
                self.at = dash;
                ranges.extend_from_slice(first.into_set().ranges());
            }
        }
        let set = self.folded(CharSet::from_code_points(ranges));
        Ok(if negated { set.complement() } else { set })
    }

    /// Parses the next member of the class that begins at offset `class`. Returns `None` at the
    /// closing bracket.
    fn member(&mut self, class: usize) -> Result<Option<Atom>, PatternError> {
        let offset = self.at;
        Ok(match self.next() {
            None => return Err(PatternProblem::UnclosedClass.at(class)),
            Some(']') => None,
            Some('\\') if self.eat("b") => Some(Atom::Char(8)),
            Some('\\') => Some(self.escape(offset)?),
            Some(c) => Some(Atom::Char(c.into())),
        })
    }

    /// Parses the rest of the escape whose backslash, at `offset`, has been read.
    pub(super) fn escape(&mut self, offset: usize) -> Result<Atom, PatternError> {
        let c = self.next().ok_or_else(|| PatternProblem::TrailingBackslash.at(offset))?;
        if let Some(set) = of_escape(c.to_ascii_lowercase()) {
            return Ok(Atom::Set(if c.is_ascii_uppercase() { set.complement() } else { set }));
        }
        let set = match c {
            'a' if self.dialect == Dialect::Extended => return Ok(Atom::Char(0x07)),
            'p' => self.property(offset)?,
            'P' => self.property(offset)?.complement(),
            _ => return self.escaped_char(c, offset).map(Atom::Char),
        };
        Ok(Atom::Set(set))
    }

    fn escaped_char(&mut self, c: char, offset: usize) -> Result<u32, PatternError> {
        let unknown = PatternProblem::UnknownEscape.at(offset);
        Ok(match c {
            't' => 0x09,
            'n' => 0x0A,
            'v' => 0x0B,
            'f' => 0x0C,
            'r' => 0x0D,
            '0' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => 0,
            '1'..='9' | 'k' => return Err(PatternProblem::BackReference.at(offset)),
            'c' => match self.next() {
                Some(letter) if letter.is_ascii_alphabetic() => u32::from(letter) % 32,
                _ => return Err(unknown),
            },
            'x' if self.dialect == Dialect::Extended && self.peek() == Some('{') => self.unicode(offset)?,
            'x' => self.hexadecimal(2, offset)?,
            'u' => self.unicode(offset)?,
            _ if c.is_ascii_alphanumeric() => return Err(unknown),
            _ => c.into(),
        })
    }

    /// Parses exactly `digits` hexadecimal digits of the escape at `offset`, and returns their
    /// value.
    fn hexadecimal(&mut self, digits: usize, offset: usize) -> Result<u32, PatternError> {
        let mut value = 0;
        for _ in 0..digits {
            let digit = self.next().and_then(|c| c.to_digit(16));
            value = value * 16 + digit.ok_or_else(|| PatternProblem::HexadecimalDigits.at(offset))?;
        }
        Ok(value)
    }

    /// Parses the rest of `\u` and returns the code point. The rest is four hexadecimal digits,
    /// digits in braces, or a surrogate pair such as `\ud83d\ude00`.
    fn unicode(&mut self, offset: usize) -> Result<u32, PatternError> {
        if self.eat("{") {
            let digits = self.until('}').ok_or_else(|| PatternProblem::HexadecimalDigits.at(offset))?;
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(PatternProblem::HexadecimalDigits.at(offset));
            }
            let value = u32::from_str_radix(digits, 16).ok().filter(|&value| value <= char::MAX.into());
            return value.ok_or_else(|| PatternProblem::CodePoint.at(offset));
        }
        let lead = self.hexadecimal(4, offset)?;
        let behind = self.at;
        if (0xD800..0xDC00).contains(&lead) && self.eat("\\u") {
            let trail = if self.peek() == Some('{') { Ok(0) } else { self.hexadecimal(4, behind) };
            if let Ok(trail @ 0xDC00..0xE000) = trail {
                return Ok(0x1_0000 + ((lead - 0xD800) << 10) + (trail - 0xDC00));
            }
            self.at = behind;
        }
        Ok(lead)
    }

    /// Parses the rest of `\p` and returns the set of the named general category, script or binary
    /// property.
    fn property(&mut self, offset: usize) -> Result<CharSet, PatternError> {
        let syntax = PatternProblem::PropertySyntax.at(offset);
        let name = if self.eat("{") {
            self.until('}').ok_or(syntax)?
        } else {
            let letter = self.letter().filter(|_| self.dialect == Dialect::Extended);
            letter.ok_or(syntax)?
        };
        if let Some(known) = self.properties.get(name) {
            return Ok(known.clone());
        }
        let set = named_property(name, offset)?;
        self.properties.insert(name, set.clone());
        Ok(set)
    }
}

/// Returns the set of the general category, script or binary property `name`, for example `Lu` or
/// `Script=Greek`.
fn named_property(name: &str, offset: usize) -> Result<CharSet, PatternError> {
    let syntax = PatternProblem::PropertySyntax.at(offset);
    let (key, value) = name.split_once('=').unwrap_or(("gc", name));
    let is_word =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_word(value) {
        return Err(syntax);
    }
    let is_known = matches!(key, "General_Category" | "gc" | "Script" | "sc" | "Script_Extensions" | "scx");
    let unknown = PatternProblem::UnknownProperty.at(offset);
    if !is_known {
        return Err(unknown);
    }
    // The tables are in the `regex-syntax` crate, and are accessible only through its parser.
    let hir = regex_syntax::parse(&format!("\\p{{{name}}}")).map_err(|_| unknown)?;
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => Ok(from_unicode(class)),
        // The parser returns a class of one code point as a literal.
        HirKind::Literal(literal) => {
            let chars = std::str::from_utf8(&literal.0).map_err(|_| unknown)?.chars();
            Ok(CharSet::new(chars.map(|c| (c, c))))
        }
        _ => Ok(CharSet::none()),
    }
}
