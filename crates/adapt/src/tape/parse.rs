//! Parser that turns strict JSON into an index, in one pass and without recursion.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;

use thiserror::Error;

use super::text::{double, escape, number, number_length};
use super::{Cell, CellKind, is_string, string};

/// Number of names in an object up to which names are compared one by one. Larger objects use a
/// set.
const FEW_NAMES: usize = 32;
/// Upper bound on the nesting depth, because values are built and validated recursively.
pub(crate) const DEEPEST: usize = 128;
/// Length up to which a number without an exponent always fits a double.
const SURE_DIGITS: usize = 300;
/// Length up to which an integer always fits 64 bits.
const SURE_INTEGER: usize = 18;

/// Limits of the syntax.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syntax {
    /// Maximum nesting depth, at most [`DEEPEST`].
    pub(crate) max_depth: usize,
    /// True to accept integers of more than 64 bits. Values have the nearest double.
    pub(crate) wide_integers: bool,
}

impl Syntax {
    /// Accepts nesting up to a depth, and no integers of more than 64 bits.
    pub(crate) const fn up_to(max_depth: usize) -> Self {
        Self { max_depth, wide_integers: false }
    }
}

/// Error of a text that is not JSON or is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Byte offset of the error.
    pub(crate) offset: usize,
    /// Place in the value, as a JSON pointer.
    pub(crate) path: String,
    pub(crate) fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Fault {
    #[error("expected {0}")]
    Expected(&'static str),
    #[error("the text ends before the value is complete")]
    End,
    #[error("`...` stands for text that is missing")]
    Ellipsis,
    #[error("unexpected text after the value")]
    Trailing,
    #[error("unescaped control character in a string")]
    Control,
    #[error("invalid escape sequence")]
    Escape,
    #[error("duplicate name `{name}`")]
    Twice { name: String },
    #[error("the number fits neither a 64-bit integer nor a double")]
    Number,
    #[error("the nesting exceeds {limit} levels")]
    Depth { limit: usize },
    #[error("the text is larger than 4 GiB")]
    Size,
}

impl Fault {
    /// Reports whether the text is well-formed up to the error and is refused because of its
    /// content or size.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self, Self::Twice { .. } | Self::Number | Self::Depth { .. } | Self::Size)
    }
}

/// Line and column of an offset, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        // In UTF-8, all bytes of a character except the first are `0b10xx_xxxx`.
        let column = 1 + before[start..].iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        Self { line: before.split(|&byte| byte == b'\n').count(), column }
    }

    /// Converts a position in a part of a text to a position in the text. The part begins at
    /// `self`.
    pub(crate) const fn then(self, within: Self) -> Self {
        let column = if within.line == 1 { self.column + within.column - 1 } else { within.column };
        Self { line: self.line + within.line - 1, column }
    }
}

pub(super) fn parse(text: &str, syntax: Syntax) -> Result<Vec<Cell>, SyntaxError> {
    if u32::try_from(text.len()).is_err() {
        return Err(SyntaxError { offset: 0, path: String::new(), fault: Fault::Size });
    }
    let mut parser = Parser {
        text,
        bytes: text.as_bytes(),
        at: 0,
        cells: Vec::with_capacity(text.len() / 8 + 1),
        open: Vec::new(),
        names: Vec::new(),
        max_depth: syntax.max_depth.min(DEEPEST),
        wide_integers: syntax.wide_integers,
    };
    match parser.document() {
        Ok(()) => Ok(parser.cells),
        Err(fault) => Err(SyntaxError { offset: parser.at, path: parser.path(), fault }),
    }
}

/// An array or object that is not closed yet.
struct Open {
    cell: usize,
    is_object: bool,
    count: u32,
    /// Index of its first name in the list of all names.
    names: usize,
    /// Bit set of the hashes of its names. A name whose bit is not set is new.
    seen: u64,
    /// All names, if there are many or if some have escapes.
    set: Option<HashSet<String>>,
}

struct Parser<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    cells: Vec<Cell>,
    open: Vec<Open>,
    /// Cells of the names of all open objects.
    names: Vec<u32>,
    max_depth: usize,
    wide_integers: bool,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        loop {
            if self.value()? {
                continue;
            }
            if !self.after_value()? {
                break;
            }
        }
        self.blanks();
        if self.at < self.bytes.len() { Err(Fault::Trailing) } else { Ok(()) }
    }

    /// Reads a scalar, or the beginning of an array or object. Returns true if a value must follow.
    #[inline]
    fn value(&mut self) -> Result<bool, Fault> {
        self.blanks();
        match self.bytes.get(self.at) {
            Some(b'"') => self.string(),
            Some(b'{') => return self.begin(true),
            Some(b'[') => return self.begin(false),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", CellKind::True),
            Some(b'f') => self.literal("false", CellKind::False),
            Some(b'n') => self.literal("null", CellKind::Null),
            Some(_) => Err(Fault::Expected("a value")),
            None => Err(Fault::End),
        }?;
        Ok(false)
    }

    fn begin(&mut self, is_object: bool) -> Result<bool, Fault> {
        if self.open.len() >= self.max_depth {
            return Err(Fault::Depth { limit: self.max_depth });
        }
        let kind = if is_object { CellKind::Object } else { CellKind::Array };
        let cell = self.cells.len();
        self.push(kind, self.at, 0);
        self.open.push(Open { cell, is_object, count: 0, names: self.names.len(), seen: 0, set: None });
        self.at += 1;
        self.blanks();
        match self.bytes.get(self.at) {
            Some(b'}') if is_object => self.end(),
            Some(b']') if !is_object => self.end(),
            _ => {
                if is_object {
                    self.name()?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the separator or the closing brackets after a value. Returns true if a value must
    /// follow.
    #[inline]
    fn after_value(&mut self) -> Result<bool, Fault> {
        while let Some(open) = self.open.last_mut() {
            open.count += 1;
            let is_object = open.is_object;
            self.blanks();
            match (self.bytes.get(self.at), is_object) {
                (Some(b','), _) => {
                    self.at += 1;
                    if is_object {
                        self.blanks();
                        self.name()?;
                    }
                    return Ok(true);
                }
                (Some(b'}'), true) | (Some(b']'), false) => self.end(),
                (None, _) => return Err(Fault::End),
                (_, true) => return Err(Fault::Expected("`,` or `}`")),
                (_, false) => return Err(Fault::Expected("`,` or `]`")),
            }
        }
        Ok(false)
    }

    fn end(&mut self) {
        self.at += 1;
        if let Some(open) = self.open.pop() {
            let next = self.cells.len() as u32;
            let cell = &mut self.cells[open.cell];
            (cell.end, cell.next) = (open.count, next);
            self.names.truncate(open.names);
        }
    }

    /// Reads a name and the colon after the name.
    #[inline]
    fn name(&mut self) -> Result<(), Fault> {
        match self.bytes.get(self.at) {
            Some(b'"') => {}
            Some(_) => return Err(Fault::Expected("a name in double quotes")),
            None => return Err(Fault::End),
        }
        let start = self.at;
        self.string()?;
        if let Some(name) = self.repeated() {
            self.at = start;
            return Err(Fault::Twice { name });
        }
        self.blanks();
        match self.bytes.get(self.at) {
            Some(b':') => self.at += 1,
            Some(_) => return Err(Fault::Expected("`:`")),
            None => return Err(Fault::End),
        }
        Ok(())
    }

    /// Records the last string as a name. Returns the name if it is repeated in the object.
    #[inline]
    fn repeated(&mut self) -> Option<String> {
        let last = self.cells.len() - 1;
        let name = self.cells.get(last)?;
        let open = self.open.last_mut()?;
        let before = &self.names[open.names..];
        let is_known = if name.kind == CellKind::String && before.len() < FEW_NAMES {
            let name = &self.text[name.start as usize..name.end as usize];
            let bit = 1 << (hash(name.as_bytes()) & 63);
            // A name with escapes sets all bits, because its hash is unknown.
            let is_new = open.seen & bit == 0;
            open.seen |= bit;
            !is_new && before.iter().any(|&cell| is_string(self.text, &self.cells[cell as usize], name))
        } else {
            open.seen = u64::MAX;
            let of = |&cell: &u32| string(self.text, &self.cells[cell as usize]).map(Cow::into_owned);
            let name = string(self.text, name)?.into_owned();
            let set = open.set.get_or_insert_with(HashSet::new);
            if set.len() < before.len() {
                set.extend(before.iter().skip(set.len()).filter_map(of));
            }
            !set.insert(name)
        };
        let repeated = is_known.then(|| string(self.text, &self.cells[last]).map(Cow::into_owned));
        self.names.push(last as u32);
        repeated?
    }

    #[inline]
    fn string(&mut self) -> Result<(), Fault> {
        let start = self.at + 1;
        let mut kind = CellKind::String;
        self.at = start;
        loop {
            self.at = plain_until(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    let (read, _) = escape(&self.text[self.at..]).ok_or(Fault::Escape)?;
                    (kind, self.at) = (CellKind::Escaped, self.at + read);
                }
                Some(_) => return Err(Fault::Control),
                None => return Err(Fault::End),
            }
        }
        self.push(kind, start, self.at);
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn number(&mut self) -> Result<(), Fault> {
        let (length, is_integer) =
            number_length(&self.bytes[self.at..]).ok_or(Fault::Expected("a valid JSON number"))?;
        let literal = &self.text[self.at..self.at + length];
        let is_sure = if is_integer {
            length <= SURE_INTEGER
        } else {
            length <= SURE_DIGITS && !literal.bytes().any(|byte| matches!(byte, b'e' | b'E'))
        };
        let is_wide = || is_integer && self.wide_integers && double(literal).is_some();
        if !is_sure && number(literal).is_none() && !is_wide() {
            return Err(Fault::Number);
        }
        let kind = if is_integer { CellKind::Integer } else { CellKind::Float };
        self.push(kind, self.at, self.at + length);
        self.at += length;
        Ok(())
    }

    #[inline]
    fn literal(&mut self, word: &'static str, kind: CellKind) -> Result<(), Fault> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(Fault::Expected("a value"));
        }
        self.push(kind, self.at, self.at + word.len());
        self.at += word.len();
        Ok(())
    }

    #[inline]
    fn push(&mut self, kind: CellKind, start: usize, end: usize) {
        let next = self.cells.len() as u32 + 1;
        self.cells.push(Cell { kind, start: start as u32, end: end as u32, next });
    }

    #[inline]
    fn blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    /// Returns the JSON pointer of the current position.
    fn path(&self) -> String {
        let mut path = String::new();
        for (depth, open) in self.open.iter().enumerate() {
            if !open.is_object {
                let _ = write!(path, "/{}", open.count);
                continue;
            }
            let end = self.open.get(depth + 1).map_or(self.names.len(), |inner| inner.names);
            // The last name of an object belongs to the current member, unless that member has
            // ended.
            let known = end - open.names;
            if known > open.count as usize
                && let Some(name) = string(self.text, &self.cells[self.names[end - 1] as usize])
            {
                path.push('/');
                path.push_str(&pointer_token(&name));
            }
        }
        path
    }
}

/// Escapes a name for use in a JSON pointer.
pub(crate) fn pointer_token(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) {
        return Cow::Owned(name.replace('~', "~0").replace('/', "~1"));
    }
    Cow::Borrowed(name)
}

/// Hashes a name cheaply, from its length and three of its bytes.
#[inline]
fn hash(name: &[u8]) -> usize {
    let first = name.first().copied().unwrap_or_default();
    let last = name.last().copied().unwrap_or_default();
    let middle = name.get(name.len() / 2).copied().unwrap_or_default();
    let sum = usize::from(first) * 31 + usize::from(last) * 131 + usize::from(middle) * 7 + name.len() * 17;
    sum ^ (sum >> 6)
}

/// Returns the offset of the first quote, backslash or control character from `at` on. Processes
/// eight bytes at a time.
#[inline]
pub(crate) fn plain_until(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The lowest set bit marks the first zero byte. The last line of `found` marks bytes below 32
    // in the same way.
    let zeros = |word: u64| (word.wrapping_sub(ONES) & !word) & HIGH;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ (ONES * 0x22))
            | zeros(word ^ (ONES * 0x5C))
            | ((word.wrapping_sub(ONES * 0x20) & !word) & HIGH);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|&byte| byte != b'"' && byte != b'\\' && byte >= 0x20) {
        at += 1;
    }
    at
}
