//! Finding of the JSON object in a model's answer.
//!
//! Reasoning text before the answer is skipped. The candidates are the whole text, then fenced
//! blocks, then any other part of the text. An object with one of the expected fields is preferred
//! over any other object. Broken JSON is not repaired. The time is linear in the length of the
//! text, and objects may nest at most 128 levels deep.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::thoughts;

/// Budget for reading broken objects, as a multiple of the text's length.
const EFFORT: usize = 8;

/// Object in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Object<'a> {
    /// Members of the object. A repeated name has its last value.
    pub members: Map<String, Value>,
    /// Names that occur repeatedly, once for each repetition.
    pub duplicates: Vec<String>,
    /// Source text of the object.
    pub text: &'a str,
}

/// Error of a text without a readable object. Lines and columns refer to the whole text and start
/// at 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ObjectError {
    /// The text exceeds the size limit. Both sizes are in bytes.
    #[error("the answer has {given} bytes; the limit is {limit}")]
    TooLarge {
        /// Size of the text.
        given: usize,
        /// Maximum size of a text.
        limit: usize,
    },
    /// The text is empty or contains only reasoning.
    #[error("the answer has no text")]
    Empty,
    /// The text contains no object.
    #[error("no JSON object found in the answer")]
    NoJson,
    /// The text is JSON, but not an object.
    #[error("the JSON is {found}, not an object")]
    NotAnObject {
        /// Kind of the value with its article, as [`kind_of`] returns it.
        found: &'static str,
    },
    /// The text ends in the middle of the object.
    #[error("the JSON is cut off at line {line}, column {column}")]
    Truncated {
        /// Line of the end.
        line: usize,
        /// Column of the end, in characters.
        column: usize,
    },
    /// The text contains an object with a syntax error.
    #[error("line {line}, column {column}: {reason}")]
    Invalid {
        /// Line of the error.
        line: usize,
        /// Column of the error, in characters.
        column: usize,
        /// Description of the error without its position.
        reason: String,
    },
}

/// Finds the object in `content`. An object with any of `fields` is preferred over others.
///
/// ```
/// use formwork_adapt::object::{self, ObjectError};
/// let object = object::find("Sure!\n```json\n{\"name\": \"Emma\"}\n```", 1000, &["name"])?;
/// assert_eq!((object.text, &object.members["name"]), ("{\"name\": \"Emma\"}", &"Emma".into()));
/// let error = object::find("{\"name\": \"Emma\" \"age\": 41}", 1000, &["name"]).unwrap_err();
/// assert_eq!(error.to_string(), "line 1, column 17: expected `,` or `}`");
/// # Ok::<(), ObjectError>(())
/// ```
///
/// # Errors
/// Returns an error if `content` has more than `max_bytes` bytes or has no readable object.
pub fn find<'a>(content: &'a str, max_bytes: usize, fields: &[&str]) -> Result<Object<'a>, ObjectError> {
    let given = content.len();
    if given > max_bytes {
        return Err(ObjectError::TooLarge { given, limit: max_bytes });
    }
    let text = without_thoughts(content);
    if text.is_empty() {
        return Err(ObjectError::Empty);
    }
    match serde_json::from_str::<Parsed>(text) {
        Ok(members) => return Ok(members.of(text)),
        Err(error) if error.classify() == Category::Data => {
            if let Ok(other) = serde_json::from_str::<Value>(text) {
                return Err(ObjectError::NotAnObject { found: kind_of(&other) });
            }
        }
        Err(_) => {}
    }
    find_part(content, text, fields)
}

/// Returns the text after a model's reasoning, trimmed. Some servers leave the reasoning in the
/// answer, between `<think>` or `<thinking>` tags.
///
/// The opening tag may be missing. If the reasoning does not end, the result is empty. Tags after
/// the first bracket are text.
pub fn without_thoughts(content: &str) -> &str {
    thoughts::without_thoughts(content.trim_matches(is_blank)).trim_matches(is_blank)
}

/// Reports whether `c` is whitespace or a byte order mark, which some servers leave in the text.
pub fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// Returns the kind of a JSON value with its article, for messages.
pub const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Finds an object in the fenced blocks of `text`, or else anywhere in `text`. `text` must be a
/// slice of `content`, because errors give their position in `content`.
fn find_part<'a>(content: &str, text: &'a str, fields: &[&str]) -> Result<Object<'a>, ObjectError> {
    let mut first = None;
    let mut furthest: Option<Broken> = None;
    for part in fenced(text).into_iter().chain([text]) {
        let found = scan(part, fields);
        if let Some((expected, place)) = found.expected {
            return Ok(expected.of(&part[place]));
        }
        first = first.or(found.first.map(|(first, place)| first.of(&part[place])));
        if let Some(broken) = found.furthest
            && furthest.as_ref().is_none_or(|other| broken.read > other.read)
        {
            furthest = Some(broken);
        }
    }
    match (first, furthest) {
        (Some(first), _) => Ok(first),
        (None, Some(broken)) => Err(broken.error(content)),
        (None, None) => Err(ObjectError::NoJson),
    }
}

/// Returns the byte range of the first object in `text` that has at least one of `fields`.
pub fn range_in(text: &str, fields: &[&str]) -> Option<Range<usize>> {
    scan(text, fields).expected.map(|(_, place)| place)
}

/// Returns the contents of the fenced code blocks in `text`, without the fences. An unclosed block
/// extends to the end of `text`.
pub fn fenced(text: &str) -> Vec<&str> {
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
struct Candidates<'a> {
    /// First object with an expected field.
    expected: Option<(Parsed, Range<usize>)>,
    /// First object.
    first: Option<(Parsed, Range<usize>)>,
    /// Broken object that was read furthest before the error.
    furthest: Option<Broken<'a>>,
}

/// Tries to read an object at each opening brace of `text`. Stops at the first object that has at
/// least one of `fields`.
fn scan<'a>(text: &'a str, fields: &[&str]) -> Candidates<'a> {
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
                return Candidates { expected: Some((members, start..start + length)), ..found };
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
struct Parsed {
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

    fn has_any(&self, fields: &[&str]) -> bool {
        fields.iter().any(|&field| self.map.contains_key(field))
    }

    fn of(self, text: &str) -> Object<'_> {
        Object { members: self.map, duplicates: self.duplicates, text }
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
struct Broken<'a> {
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

    /// Describes the error with its line and column in `content`. The broken text must be a slice
    /// of `content`.
    fn error(self, content: &str) -> ObjectError {
        let start = self.text.as_ptr() as usize - content.as_ptr() as usize;
        let before = &content.as_bytes()[..start + self.read];
        let line = before.split(|&byte| byte == b'\n').count();
        let last = before.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        let column = String::from_utf8_lossy(last).chars().count();
        if self.truncated {
            return ObjectError::Truncated { line, column };
        }
        ObjectError::Invalid { line, column, reason: self.reason }
    }
}

#[cfg(test)]
mod tests;
