//! Search for the objects of a text in one pass.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{Object, ObjectError, is_blank, offset_in, position};

/// Budget for reading broken objects, as a multiple of the text's length.
const EFFORT: usize = 8;
/// Maximum number of objects with an expected field that are collected.
const MOST: usize = 64;

/// Returns the contents of the fenced code blocks in `text`, without the fences. An unclosed block
/// extends to the end of `text`.
pub(super) fn fenced(text: &str) -> Vec<&str> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (open, mark) {
            (None, Some(mark)) => open = Some((mark, end)),
            (Some((opened, start)), Some(mark)) if mark == opened => {
                blocks.push(&text[start..at]);
                open = None;
            }
            _ => {}
        }
        at = end;
    }
    blocks.extend(open.map(|(_, start)| &text[start..]));
    blocks
}

/// Objects in a part of a text.
#[derive(Default)]
pub(super) struct Candidates<'a> {
    /// Objects with an expected field, at most [`MOST`].
    pub(super) expected: Vec<(Parsed, Range<usize>)>,
    /// First object.
    pub(super) first: Option<(Parsed, Range<usize>)>,
    /// Broken object that was read furthest before the error.
    pub(super) furthest: Option<Broken<'a>>,
}

/// Tries to read an object at each opening brace of `text`. Stops after [`MOST`] objects that have at
/// least one of `fields`.
pub(super) fn scan<'a>(text: &'a str, fields: &[&str]) -> Candidates<'a> {
    let mut found = Candidates::default();
    let (mut at, mut effort) = (0, text.len().saturating_mul(EFFORT));
    // Ends of the last broken object: `read` is where reading failed, and `within` is where its
    // braces close. Objects inside are only parts of the broken object and cannot replace it. Its
    // braces mislead if a quote is unclosed, so an expected object that ends beyond `read` still counts.
    let (mut read, mut within) = (0, 0);
    while let Some(start) = text.as_bytes()[at..].iter().position(|&byte| byte == b'{') {
        let start = at + start;
        match Parsed::begin(&text[start..]) {
            Ok((_, length)) if start + length <= read => at = start + length,
            Ok((members, length)) if members.has_any(fields) => {
                found.expected.push((members, start..start + length));
                at = start + length;
                if found.expected.len() == MOST {
                    break;
                }
            }
            Ok((_, length)) if start < within => at = start + length,
            Ok((members, length)) => {
                found.first.get_or_insert((members, start..start + length));
                at = start + length;
            }
            Err(broken) => {
                if start >= within {
                    (read, within) = (start + broken.read, start + extent(&text[start..]));
                }
                // The budget bounds repeated reading. Once it is spent, the scan resumes behind the
                // bytes already read.
                effort = effort.saturating_sub(broken.read);
                at = if effort > 0 { start + 1 } else { start + broken.read.max(1) };
                // An object without an end contains the rest of the text.
                let ends = broken.truncated;
                if found.furthest.as_ref().is_none_or(|other| broken.read > other.read) {
                    found.furthest = Some(broken);
                }
                if ends {
                    break;
                }
            }
        }
    }
    found
}

/// Returns the length of a broken object, up to its closing brace or the end of the text. Returns 0
/// if the brace does not open an object.
fn extent(text: &str) -> usize {
    let inside = text[1..].trim_start_matches(is_blank);
    let name = inside.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == '-');
    let is_named = name.len() < inside.len() && name.trim_start_matches(is_blank).starts_with(':');
    if !inside.starts_with(['"', '\'', '/']) && !is_named {
        return 0;
    }
    let (mut depth, mut is_string, mut is_escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' if !is_string => depth += 1,
            b'}' if !is_string => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// An object and the names of its repeated fields.
#[derive(PartialEq)]
pub(super) struct Parsed {
    map: Map<String, Value>,
    duplicates: Vec<String>,
}

impl Parsed {
    /// Reads an object at the start of `text` and returns its length in bytes.
    fn begin(text: &str) -> Result<(Self, usize), Broken<'_>> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Self>();
        match values.next() {
            Some(Ok(members)) => Ok((members, values.byte_offset())),
            Some(Err(error)) => Err(Broken::new(text, &error)),
            None => Err(Broken { text, read: 0, truncated: true, reason: String::new() }),
        }
    }

    pub(super) fn has_any(&self, fields: &[&str]) -> bool {
        fields.iter().any(|&field| self.map.contains_key(field))
    }

    pub(super) fn has_all(&self, fields: &[&str]) -> bool {
        fields.iter().all(|&field| self.map.contains_key(field))
    }

    /// Returns the object at `place` of `text`.
    pub(super) fn of(self, text: &str, place: Range<usize>) -> Object<'_> {
        let is_fence =
            |line: &&str| line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        let around = [&text[..place.start], &text[place.end..]];
        let lines = around.iter().flat_map(|part| part.lines()).filter(|line| !is_fence(line));
        let lines = lines.map(|line| line.trim_matches(is_blank)).filter(|line| !line.is_empty());
        let outside = lines.collect::<Vec<_>>().join("\n");
        Object { members: self.map, duplicates: self.duplicates, text: &text[place], outside }
    }
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Parsed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Parsed, A::Error> {
                let mut members = Parsed { map: Map::new(), duplicates: Vec::new() };
                while let Some((name, value)) = entries.next_entry::<String, Value>()? {
                    if members.map.contains_key(&name) {
                        members.duplicates.push(name.clone());
                    }
                    members.map.insert(name, value);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Text that starts like an object but is not one.
pub(super) struct Broken<'a> {
    text: &'a str,
    /// Number of bytes read before the error.
    read: usize,
    truncated: bool,
    reason: String,
}

impl<'a> Broken<'a> {
    fn new(text: &'a str, error: &serde_json::Error) -> Self {
        let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let read = lines.map(str::len).sum::<usize>() + error.column();
        let reason = error.to_string();
        let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason).to_owned();
        Self { text, read: read.min(text.len()), truncated: error.is_eof(), reason }
    }

    /// Returns the object that was read further. On a tie, returns `one`.
    pub(super) fn further(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) if other.read > one.read => Some(other),
            (one, other) => one.or(other),
        }
    }

    /// Describes the error with its line and column in `content`. The broken text must be a slice
    /// of `content`.
    pub(super) fn error(self, content: &str) -> ObjectError {
        let (line, column) = position(content, offset_in(content, self.text) + self.read);
        // The position is that of the last character that was read.
        let column = column - 1;
        if self.truncated {
            return ObjectError::Truncated { line, column };
        }
        ObjectError::Invalid { line, column, reason: self.reason }
    }
}
