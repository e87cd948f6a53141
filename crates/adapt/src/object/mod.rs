//! Finding of the JSON object in a model's answer.
//!
//! Reasoning text before the answer is skipped. The candidates are the whole text, then fenced
//! blocks, then any other part of the text. An object with the expected fields is preferred over any
//! other object. If several different ones are left, the result is an error. Broken JSON is not repaired. The time is linear in the length of the
//! text, and objects may nest at most 128 levels deep.

use std::ops::Range;

use serde_json::error::Category;
use serde_json::{Map, Value};
use thiserror::Error;

use self::scan::{Broken, Parsed, fenced, scan};
use crate::{cues, thoughts};

mod scan;

/// Object in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Object<'a> {
    /// Members of the object. A repeated name has its last value.
    pub members: Map<String, Value>,
    /// Names that occur repeatedly, once for each repetition.
    pub duplicates: Vec<String>,
    /// Source text of the object.
    pub text: &'a str,
    /// Text outside of the object, reasoning and the lines of fences, trimmed.
    pub outside: String,
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
    /// The text contains several different objects with the expected fields.
    #[error("the answer has several objects, {}", listed(positions))]
    Ambiguous {
        /// Line and column of each object.
        positions: Vec<(usize, usize)>,
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

/// Finds the object in `content`. An object with all of `fields` is preferred over one with any of
/// them, and this one over others.
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
/// Returns an error if `content` has more than `max_bytes` bytes, has no readable object, or has
/// several different objects with the fields.
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
        Ok(object) => return Ok(object.of(text, 0..text.len())),
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
fn find_part<'a>(content: &'a str, text: &'a str, fields: &[&str]) -> Result<Object<'a>, ObjectError> {
    let mut first = None;
    let mut furthest: Option<Broken> = None;
    let mut expected = Vec::new();
    for part in fenced(text) {
        let offset = offset_in(text, part);
        let found = scan(part, fields);
        let moved =
            |(object, place): (Parsed, Range<usize>)| (object, place.start + offset..place.end + offset);
        expected.extend(found.expected.into_iter().map(moved));
        first = first.or(found.first.map(moved));
        furthest = Broken::further(furthest, found.furthest);
    }
    if expected.is_empty() {
        let found = scan(text, fields);
        expected = found.expected;
        first = first.or(found.first);
        furthest = Broken::further(furthest, found.furthest);
    }
    match (choose(content, text, expected, fields)?.or(first), furthest) {
        (Some((object, place)), _) => Ok(object.of(text, place)),
        (None, Some(broken)) => Err(broken.error(content)),
        (None, None) => Err(ObjectError::NoJson),
    }
}

/// Chooses among the objects with expected fields: objects with all of `fields` before others, each
/// value once, answers before examples and drafts, and a value that the text announces as the answer.
/// More than one remaining object is an error.
fn choose(
    content: &str,
    text: &str,
    expected: Vec<(Parsed, Range<usize>)>,
    fields: &[&str],
) -> Result<Option<(Parsed, Range<usize>)>, ObjectError> {
    let places: Vec<Range<usize>> = expected.iter().map(|(_, place)| place.clone()).collect();
    let has_whole = expected.iter().any(|(object, _)| object.has_all(fields));
    let mut left: Vec<(Parsed, Range<usize>)> = Vec::new();
    for (object, place) in expected {
        let is_repeated = left.iter().any(|(other, _)| other == &object);
        if !is_repeated && (!has_whole || object.has_all(fields)) {
            left.push((object, place));
        }
    }
    keep_if_any(&mut left, |place| !cues::is_example(text, place, &places));
    keep_if_any(&mut left, |place| cues::is_answer(text, place, &places));
    if left.len() > 1 {
        let offset = offset_in(content, text);
        let positions = left.iter().map(|(_, place)| position(content, offset + place.start)).collect();
        return Err(ObjectError::Ambiguous { positions });
    }
    Ok(left.pop())
}

/// Keeps the objects whose place meets `condition`, unless there is no such object.
fn keep_if_any(objects: &mut Vec<(Parsed, Range<usize>)>, condition: impl Fn(&Range<usize>) -> bool) {
    if objects.len() > 1 && objects.iter().any(|(_, place)| condition(place)) {
        objects.retain(|(_, place)| condition(place));
    }
}

/// Returns the offset of `part` in `whole`. `part` must be a slice of `whole`.
fn offset_in(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// Returns the line and column of byte `at` of `content`. Both start at 1; the column is in characters.
fn position(content: &str, at: usize) -> (usize, usize) {
    let before = &content.as_bytes()[..at];
    let line = before.split(|&byte| byte == b'\n').count();
    let last = before.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
    (line, String::from_utf8_lossy(last).chars().count() + 1)
}

/// Returns the positions as a list, at most eight of them.
fn listed(positions: &[(usize, usize)]) -> String {
    let shown = positions.iter().take(8).map(|(line, column)| format!("line {line}, column {column}"));
    let mut list = shown.collect::<Vec<_>>().join("; ");
    if positions.len() > 8 {
        list.push_str("; …");
    }
    list
}

/// Returns the byte range of the first object in `text` that has at least one of `fields`.
pub fn range_in(text: &str, fields: &[&str]) -> Option<Range<usize>> {
    scan(text, fields).expected.into_iter().next().map(|(_, place)| place)
}

#[cfg(test)]
mod tests;
