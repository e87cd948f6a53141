//! Finds the JSON object in a model's answer.
//!
//! Reasoning text before the answer is skipped. The candidates are the whole text, then fenced
//! blocks, then any other part of the text. An object with a field of the envelope is preferred
//! over any other object. Broken JSON is not repaired. The time is linear in the length of the
//! text, and objects may nest at most 128 levels deep.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value, json};

use super::Problem;

/// Error code: the answer has no text.
pub const EMPTY: &str = "EMPTY";
/// Error code: the text exceeds the size limit.
pub const TOO_LARGE: &str = "TOO_LARGE";
/// Error code: the text contains no object.
pub const NO_JSON: &str = "NO_JSON";
/// Error code: the text contains an object with a syntax error.
pub const INVALID_JSON: &str = "INVALID_JSON";
/// Error code: the text is JSON, but not an object.
pub const NOT_AN_OBJECT: &str = "NOT_AN_OBJECT";
/// Error code: the text ends in the middle of the object.
pub const TRUNCATED: &str = "TRUNCATED";
/// Error code: a field of the envelope occurs twice, so its value is ambiguous.
pub const DUPLICATE_FIELD: &str = "DUPLICATE_FIELD";

/// Names of the envelope's fields.
pub(super) const FIELDS: [&str; 2] = ["assistant_text", "directives"];

/// Maximum number of bytes read in broken objects, as a multiple of the text's length.
const EFFORT: usize = 8;

/// Finds the JSON object in `content`, the text of an answer, and returns the object's members.
/// Content of more than `max_bytes` bytes is rejected.
///
/// ```
/// use formwork_protocol::directives::parser;
/// let object = parser::parse("Sure!\n```json\n{\"assistant_text\": \"Hi\", \"directives\": []}\n```", 1000)?;
/// assert_eq!(object["assistant_text"], "Hi");
/// let problem = parser::parse("{\"assistant_text\": \"Hi\" \"directives\": []}", 1000).unwrap_err();
/// assert_eq!(problem.code, parser::INVALID_JSON);
/// assert_eq!(problem.message, "line 1, column 25: expected `,` or `}`");
/// # Ok::<(), formwork_protocol::directives::Problem>(())
/// ```
///
/// # Errors
/// Returns an error with a `code` that this module defines, such as [`NO_JSON`].
pub fn parse(content: &str, max_bytes: usize) -> Result<Map<String, Value>, Problem> {
    found(content, max_bytes, &FIELDS)?.0.unambiguous(&FIELDS)
}

/// Finds the JSON object in `content` and returns its source text. An object that has at least one
/// of `fields` is preferred over other objects.
pub(crate) fn object_in<'a>(content: &'a str, max_bytes: usize, fields: &[&str]) -> Result<&'a str, Problem> {
    found(content, max_bytes, fields).map(|(_, text)| text)
}

/// Finds the JSON object in `content`. Returns its members and its source text.
fn found<'a>(content: &'a str, max_bytes: usize, fields: &[&str]) -> Result<(Members, &'a str), Problem> {
    let given = content.len();
    if given > max_bytes {
        let message = format!("the answer has {given} bytes; the limit is {max_bytes}");
        return Err(Problem::parse(TOO_LARGE, message).with(json!({ "given": given, "limit": max_bytes })));
    }
    let text = without_thoughts(content);
    if text.is_empty() {
        return Err(Problem::parse(EMPTY, "the answer has no text"));
    }
    match serde_json::from_str::<Members>(text) {
        Ok(members) => return Ok((members, text)),
        Err(error) if error.classify() == Category::Data => {
            if let Ok(other) = serde_json::from_str::<Value>(text) {
                let found = kind_of(&other);
                let message = format!("the JSON is {found}, not an object");
                return Err(Problem::parse(NOT_AN_OBJECT, message).with(json!({ "found": found })));
            }
        }
        Err(_) => {}
    }
    find(content, text, fields)
}

/// Returns the text after `</think>`, trimmed. Some servers leave a model's reasoning in the
/// answer, with or without the opening `<think>` tag. Content that begins with `{` or has no such
/// tag is only trimmed.
pub(crate) fn without_thoughts(content: &str) -> &str {
    let text = content.trim_matches(is_blank);
    match text.split_once("</think>") {
        Some((_, after)) if !text.starts_with('{') => after.trim_matches(is_blank),
        _ => text,
    }
}

/// Reports whether `c` is whitespace or a byte order mark, which some servers leave in the text.
pub(crate) fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// Returns the type of a JSON value with an article, such as `an array`, for messages.
pub(crate) const fn kind_of(value: &Value) -> &'static str {
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
fn find<'a>(content: &str, text: &'a str, fields: &[&str]) -> Result<(Members, &'a str), Problem> {
    let mut first = None;
    let mut furthest: Option<Broken> = None;
    for part in fenced(text).into_iter().chain([text]) {
        let found = scan(part, fields);
        if let Some((envelope, place)) = found.envelope {
            return Ok((envelope, &part[place]));
        }
        first = first.or(found.first.map(|(first, place)| (first, &part[place])));
        if let Some(broken) = found.furthest
            && furthest.as_ref().is_none_or(|other| broken.read > other.read)
        {
            furthest = Some(broken);
        }
    }
    match (first, furthest) {
        (Some(first), _) => Ok(first),
        (None, Some(broken)) => Err(broken.problem(content)),
        (None, None) => Err(Problem::parse(NO_JSON, "no JSON object found in the answer")),
    }
}

/// Returns the byte range of the first object in `text` that has at least one of `fields`.
pub(crate) fn envelope_in(text: &str, fields: &[&str]) -> Option<Range<usize>> {
    scan(text, fields).envelope.map(|(_, place)| place)
}

/// Returns the contents of the fenced code blocks in `text`, without the fences. An unclosed block
/// extends to the end of `text`.
pub(crate) fn fenced(text: &str) -> Vec<&str> {
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

/// Objects that [`scan`] found in a text.
#[derive(Default)]
struct Found<'a> {
    /// First object that has a field of the envelope, and its byte range.
    envelope: Option<(Members, Range<usize>)>,
    /// First object without such a field, and its byte range.
    first: Option<(Members, Range<usize>)>,
    /// Broken object with the largest number of bytes read before the error.
    furthest: Option<Broken<'a>>,
}

/// Tries to read an object at each opening brace of `text`. Stops at the first object that has at
/// least one of `fields`.
fn scan<'a>(text: &'a str, fields: &[&str]) -> Found<'a> {
    let mut found = Found::default();
    let (mut at, mut effort) = (0, text.len().saturating_mul(EFFORT));
    // Ends of the last broken object: `read` is where reading failed, and `within` is where its
    // braces close. Objects before `within` are only parts of the broken object and cannot replace
    // it. An unclosed quote can put `within` too far, so an envelope that ends beyond `read` still
    // counts.
    let (mut read, mut within) = (0, 0);
    while let Some(start) = text.as_bytes()[at..].iter().position(|&byte| byte == b'{') {
        let start = at + start;
        match Members::begin(&text[start..]) {
            Ok((_, length)) if start + length <= read => at = start + length,
            Ok((members, length)) if members.is_envelope(fields) => {
                return Found { envelope: Some((members, start..start + length)), ..found };
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
                // The budget bounds repeated reading of the same bytes. Once the budget is spent,
                // the scan resumes behind the bytes already read.
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

/// Returns the length in bytes of the broken object at the start of `text`, up to its closing brace
/// or the end of `text`. Returns 0 if the brace is not followed by a member name or a comment.
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

/// Members of an object. If a field is repeated, `map` has the last value and `duplicates` has the
/// name.
struct Members {
    map: Map<String, Value>,
    duplicates: Vec<String>,
}

impl Members {
    /// Reads the object at the start of `text`. Returns its members and its length in bytes.
    fn begin(text: &str) -> Result<(Self, usize), Broken<'_>> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Self>();
        match values.next() {
            Some(Ok(members)) => Ok((members, values.byte_offset())),
            Some(Err(error)) => Err(Broken::new(text, &error)),
            None => Err(Broken { text, read: 0, truncated: true, reason: String::new() }),
        }
    }

    /// Reports whether the object has at least one of `fields`.
    fn is_envelope(&self, fields: &[&str]) -> bool {
        fields.iter().any(|&field| self.map.contains_key(field))
    }

    /// Returns the members, or an error if one of `fields` is repeated.
    fn unambiguous(self, fields: &[&str]) -> Result<Map<String, Value>, Problem> {
        let ambiguous = self.duplicates.iter().find(|name| fields.contains(&name.as_str()));
        let Some(field) = ambiguous else { return Ok(self.map) };
        let problem = Problem::parse(DUPLICATE_FIELD, format!("duplicate field `{field}`"));
        Err(problem.with(json!({ "field": field })))
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Members, A::Error> {
                let mut members = Members { map: Map::new(), duplicates: Vec::new() };
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

/// Text that starts with an opening brace but is not a valid object.
struct Broken<'a> {
    text: &'a str,
    /// Number of bytes of `text` that were read before the error.
    read: usize,
    /// True if `text` ended before the object was complete.
    truncated: bool,
    /// Message of the JSON parser, without the position.
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

    /// Returns a problem that gives the line and column of the error in `content`, counted from 1.
    /// `self.text` must be a slice of `content`.
    fn problem(&self, content: &str) -> Problem {
        let start = self.text.as_ptr() as usize - content.as_ptr() as usize;
        let before = &content.as_bytes()[..start + self.read];
        let line = before.split(|&byte| byte == b'\n').count();
        let last = before.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        let column = String::from_utf8_lossy(last).chars().count();
        let place = json!({ "line": line, "column": column });
        if self.truncated {
            let message = format!("the JSON is cut off at line {line}, column {column}");
            return Problem::parse(TRUNCATED, message).with(place);
        }
        Problem::parse(INVALID_JSON, format!("line {line}, column {column}: {}", self.reason)).with(place)
    }
}

#[cfg(test)]
mod tests;
