//! Reads the object in a model's answer and names each error with a code.
//!
//! An object with the fields of the envelope is preferred over any other object, and several
//! different ones are an error. See
//! [`object`](crate::adapt::object) for the order of the candidates.

use serde_json::{Map, Value, json};

use super::{Envelope, Problem, Validator, Warning, shortened};
pub(super) use crate::adapt::object::kind_of;
use crate::adapt::object::{self, Object, ObjectError};

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
/// Error code: the text contains several different envelopes.
pub const AMBIGUOUS: &str = "AMBIGUOUS";
/// Error code: the text ends in the middle of the object.
pub const TRUNCATED: &str = "TRUNCATED";
/// Error code: a field of the envelope occurs twice, so its value is ambiguous.
pub const DUPLICATE_FIELD: &str = "DUPLICATE_FIELD";

/// Warning code: the answer has text beside the object.
pub const TEXT_OUTSIDE: &str = "TEXT_OUTSIDE";
/// Maximum number of characters of the text that the warning shows.
const SHOWN: usize = 200;

/// Names of the envelope's fields.
pub(super) const FIELDS: [&str; 2] = ["assistant_text", "directives"];

/// Finds the JSON object in `content`, the text of an answer, and returns the object's members.
/// Content of more than `max_bytes` bytes is rejected.
///
/// ```
/// use formwork_protocol::directives::parser;
/// let answer = "Sure!\n```json\n{\"assistant_text\": \"Hi\", \"directives\": []}\n```";
/// let object = parser::parse(answer, 1000)?;
/// assert_eq!(object["assistant_text"], "Hi");
/// let broken = "{\"assistant_text\": \"Hi\" \"directives\": []}";
/// let problem = parser::parse(broken, 1000).unwrap_err();
/// assert_eq!(problem.code, parser::INVALID_JSON);
/// assert_eq!(problem.message, "line 1, column 25: expected `,` or `}`");
/// # Ok::<(), formwork_protocol::directives::Problem>(())
/// ```
///
/// # Errors
/// Returns an error with a `code` that this module defines, such as [`NO_JSON`].
pub fn parse(content: &str, max_bytes: usize) -> Result<Map<String, Value>, Problem> {
    Ok(found(content, max_bytes)?.members)
}

/// Reads the answer `content` as `validator` does with the object that [`parse`] finds. Text outside
/// of the object becomes the warning [`TEXT_OUTSIDE`].
pub(super) fn envelope(
    content: &str,
    max_bytes: usize,
    validator: &Validator<'_>,
) -> Result<Envelope, Problem> {
    let object = found(content, max_bytes)?;
    let mut envelope = validator.validate(object.members)?;
    if !object.outside.is_empty() {
        envelope.warnings.push(Warning {
            code: TEXT_OUTSIDE.to_owned(),
            message: format!("text outside of the object is dropped: {}", shortened(&object.outside, SHOWN)),
            index: None,
            kind: None,
            details: None,
        });
    }
    Ok(envelope)
}

fn found(content: &str, max_bytes: usize) -> Result<Object<'_>, Problem> {
    let object = object::find(content, max_bytes, &FIELDS)?;
    let ambiguous = object.duplicates.iter().find(|name| FIELDS.contains(&name.as_str()));
    let Some(field) = ambiguous else { return Ok(object) };
    let problem = Problem::parse(DUPLICATE_FIELD, format!("duplicate field `{field}`"));
    Err(problem.with(json!({ "field": field })))
}

impl From<ObjectError> for Problem {
    fn from(error: ObjectError) -> Self {
        let (code, details) = match &error {
            ObjectError::Empty => (EMPTY, None),
            ObjectError::TooLarge { given, limit } => {
                (TOO_LARGE, Some(json!({ "given": given, "limit": limit })))
            }
            ObjectError::NoJson => (NO_JSON, None),
            ObjectError::NotAnObject { found } => (NOT_AN_OBJECT, Some(json!({ "found": found }))),
            ObjectError::Truncated { line, column } => {
                (TRUNCATED, Some(json!({ "line": line, "column": column })))
            }
            ObjectError::Ambiguous { positions } => {
                let places = positions.iter().map(|(line, column)| json!({ "line": line, "column": column }));
                (AMBIGUOUS, Some(json!({ "objects": places.collect::<Vec<_>>() })))
            }
            ObjectError::Invalid { line, column, .. } => {
                (INVALID_JSON, Some(json!({ "line": line, "column": column })))
            }
        };
        let problem = Self::parse(code, error.to_string());
        match details {
            Some(details) => problem.with(details),
            None => problem,
        }
    }
}

#[cfg(test)]
mod tests;
