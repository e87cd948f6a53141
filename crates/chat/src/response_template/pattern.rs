//! Regular expressions as texts: a text that a pattern matches, with the places of named groups.
//!
//! The text has no optional parts, the fewest repetitions, and the first of several alternatives.

use regex_syntax::hir::{Class, Hir, HirKind, Look};

use crate::tags::{ID, NUMBER};

/// Maximum length of a pattern in bytes.
const LONGEST: usize = 1 << 12;

/// Maximum number of bytes of a text and of parts of the pattern that are visited for it.
const STEPS: usize = 1 << 14;

/// Part of the text of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    Text(String),
    Group(Group),
}

/// A named group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Group {
    Name,
    Key,
    Value,
}

/// Returns a text of a pattern in pieces. `None` if the pattern is not valid, has look-around or a reserved
/// character, or needs one of several characters that are not white space.
pub(super) fn pieces(pattern: &str) -> Option<Vec<Piece>> {
    if pattern.len() > LONGEST {
        return None;
    }
    let mut parser = regex_syntax::ParserBuilder::new().dot_matches_new_line(true).build();
    let mut writer = Writer { pieces: Vec::new(), steps: STEPS };
    writer.add(&parser.parse(pattern).ok()?)?;
    // These characters are placeholders in texts of calls.
    let is_reserved = |piece: &Piece| matches!(piece, Piece::Text(text) if text.contains([NUMBER, ID]));
    (!writer.pieces.iter().any(is_reserved)).then_some(writer.pieces)
}

/// Joins pieces without groups. `None` if there is a group.
pub(super) fn joined(pieces: &[Piece]) -> Option<String> {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Group(_) => None,
        })
        .collect()
}

struct Writer {
    pieces: Vec<Piece>,
    /// Number of steps that are left.
    steps: usize,
}

impl Writer {
    /// Appends the pieces of `hir`. Returns `None` if `hir` has no text or takes too many steps. The parser's
    /// limit of nesting bounds the recursion.
    fn add(&mut self, hir: &Hir) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        match hir.kind() {
            HirKind::Empty | HirKind::Look(Look::Start | Look::End) => {}
            HirKind::Look(_) => return None,
            HirKind::Literal(literal) => {
                self.steps = self.steps.checked_sub(literal.0.len())?;
                let text = std::str::from_utf8(&literal.0).ok()?;
                self.pieces.push(Piece::Text(text.to_owned()));
            }
            HirKind::Class(class) => self.pieces.push(Piece::Text(only_char(class)?.into())),
            HirKind::Repetition(repetition) => {
                (0..repetition.min).try_for_each(|_| self.add(&repetition.sub))?;
            }
            HirKind::Capture(capture) => match capture.name.as_deref() {
                Some("name") => self.pieces.push(Piece::Group(Group::Name)),
                Some("key") => self.pieces.push(Piece::Group(Group::Key)),
                Some("value") => self.pieces.push(Piece::Group(Group::Value)),
                _ => self.add(&capture.sub)?,
            },
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.add(part))?,
            HirKind::Alternation(parts) => self.add(parts.first()?)?,
        }
        Some(())
    }
}

/// Returns the only character of a class, or a blank if the class has nothing but white space.
fn only_char(class: &Class) -> Option<char> {
    let Class::Unicode(class) = class else { return None };
    match class.ranges() {
        [range] if range.start() == range.end() => Some(range.start()),
        ranges => {
            let is_white = ranges.iter().all(|range| (range.start()..=range.end()).all(char::is_whitespace));
            let has_blank = ranges.iter().any(|range| (range.start()..=range.end()).contains(&' '));
            (is_white && has_blank).then_some(' ')
        }
    }
}
