//! Parsing of the arguments that a model wrote.

use serde_json::Value;

use super::envelope::{Problem, codes};
use super::members::Tree;
use crate::Body;

/// Maximum number of characters of invalid arguments quoted in an error.
const TOLD: usize = 200;

/// Parsed arguments of a call.
#[derive(Debug, PartialEq)]
pub(super) struct Arguments {
    pub(super) object: Body,
    /// `object` as JSON text, for the conversation that is sent back to the model.
    pub(super) text: String,
    /// Warnings about deviations from the expected format that were corrected, such as a Markdown
    /// fence.
    pub(super) warnings: Vec<Problem>,
}

impl Arguments {
    fn of(object: Body) -> Self {
        let text = Value::Object(object.clone()).to_string();
        Self { object, text, warnings: Vec::new() }
    }

    /// Parses an object that was written as `given`. Equal members that occur twice are a warning.
    /// With different values, the arguments are a problem.
    fn of_tree(tree: &Tree, given: &str) -> Option<Result<Self, Problem>> {
        let Value::Object(object) = tree.value() else { return None };
        let repeated = tree.repeated();
        if repeated.is_empty() {
            return Some(Ok(Self { object, text: given.to_owned(), warnings: Vec::new() }));
        }
        if let Some(member) = repeated.iter().find(|member| !member.is_equal) {
            let name = &member.name;
            let message = format!(
                "the arguments have `{name}` twice with different values; call the tool again with each name once"
            );
            let problem = Problem::new(codes::ARGUMENTS_INVALID, message);
            return Some(Err(problem.with("name", name.as_str()).with("given", excerpt(given))));
        }
        let warn = |arguments: Self, name: &String| {
            let message = format!("the arguments have `{name}` twice with equal values");
            arguments.warn("ARGUMENTS_MEMBER_REPEATED", &message)
        };
        Some(Ok(repeated.iter().map(|member| &member.name).fold(Self::of(object), warn)))
    }

    fn warn(mut self, code: &str, message: &str) -> Self {
        self.warnings.push(Problem::new(code, message));
        self
    }
}

/// Parses `given`, the text of a call's arguments, which may have at most `limit` bytes. Besides a
/// JSON object, three deviations are accepted: blank text or `null` as an empty object, an object
/// in a Markdown fence, and an object that is encoded as a JSON string.
///
/// Anything else is returned as a problem that the model can correct. `is_cut` is true if the token
/// limit may have cut off the arguments. Blank text is then a problem as well, since the intended
/// arguments are unknown.
pub(super) fn read(given: &str, is_cut: bool, limit: usize) -> Result<Arguments, Problem> {
    if given.len() > limit {
        let message = format!(
            "the arguments have {} bytes, but the limit is {limit}; call the tool again with shorter arguments",
            given.len()
        );
        return Err(Problem::new(codes::ARGUMENTS_TOO_LARGE, message)
            .with("bytes", given.len())
            .with("limit", limit));
    }
    let text = given.trim();
    if text.is_empty() && !is_cut {
        return Ok(none());
    }
    let tree = match serde_json::from_str::<Tree>(text) {
        Ok(tree) => tree,
        Err(error) => return fenced(text).unwrap_or_else(|| Err(no_json(&error, text, is_cut))),
    };
    if let Some(read) = Arguments::of_tree(&tree, text) {
        return read;
    }
    match tree.value() {
        Value::Null => Ok(none()),
        Value::String(inner) => twice(&inner).unwrap_or_else(|| Err(no_object("a string", text))),
        Value::Array(_) => Err(no_object("an array", text)),
        Value::Bool(_) => Err(no_object("a boolean", text)),
        _ => Err(no_object("a number", text)),
    }
}

fn none() -> Arguments {
    Arguments::of(Body::new()).warn("ARGUMENTS_BLANK", "blank arguments were read as an empty object")
}

/// Parses `inner`, the content of a JSON string, as an object. Blank text is an empty object.
/// Returns `None` for any other content.
fn twice(inner: &str) -> Option<Result<Arguments, Problem>> {
    let inner = inner.trim();
    if inner.is_empty() {
        return Some(Ok(none()));
    }
    let read = Arguments::of_tree(&serde_json::from_str(inner).ok()?, inner)?;
    let warn = |read: Arguments| {
        read.warn("ARGUMENTS_ENCODED_TWICE", "the arguments were an object encoded as a string")
    };
    Some(read.map(warn))
}

/// Parses `text` if it is a single Markdown fence around one JSON object. Otherwise returns `None`.
fn fenced(text: &str) -> Option<Result<Arguments, Problem>> {
    let inner = fence(text)?.1.trim();
    let read = Arguments::of_tree(&serde_json::from_str(inner).ok()?, inner)?;
    Some(read.map(|read| read.warn("ARGUMENTS_FENCED", "the arguments were in a Markdown fence")))
}

/// Returns the info string (such as `json`) and the content of `text` if it is a single Markdown
/// fence. Otherwise returns `None`.
pub(super) fn fence(text: &str) -> Option<(&str, &str)> {
    let inner = text.trim().strip_prefix("```")?.strip_suffix("```")?;
    let (info, inner) = inner.split_once('\n')?;
    (!inner.contains("```")).then_some((info.trim(), inner))
}

fn no_object(kind: &str, text: &str) -> Problem {
    let message = format!("the arguments are {kind}; expected a JSON object");
    Problem::new(codes::ARGUMENTS_INVALID, message).with("given", excerpt(text))
}

fn no_json(error: &serde_json::Error, text: &str, is_cut: bool) -> Problem {
    let message = if is_cut {
        "the answer was cut off at its token limit before the arguments ended; call the tool again with shorter \
         arguments"
            .to_owned()
    } else {
        format!("the arguments are not valid JSON: {error}; call the tool again with one JSON object")
    };
    Problem::new(codes::ARGUMENTS_JSON_PARSE_ERROR, message)
        .with("given", excerpt(text))
        .with("truncated", is_cut)
}

fn excerpt(text: &str) -> String {
    let mut excerpt: String = text.chars().take(TOLD).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(given: &str, is_cut: bool) -> String {
        read(given, is_cut, 100).expect_err(given).code
    }

    #[test]
    fn reads_objects_in_fences_and_strings() {
        for (given, object, warning) in [
            (r#" {"a": 1} "#, json!({ "a": 1 }), None),
            ("", json!({}), Some("ARGUMENTS_BLANK")),
            (" \n", json!({}), Some("ARGUMENTS_BLANK")),
            ("null", json!({}), Some("ARGUMENTS_BLANK")),
            (r#""""#, json!({}), Some("ARGUMENTS_BLANK")),
            (r#""{\"a\": 1}""#, json!({ "a": 1 }), Some("ARGUMENTS_ENCODED_TWICE")),
            ("```json\n{\"a\": 1}\n```", json!({ "a": 1 }), Some("ARGUMENTS_FENCED")),
            ("```\n{\"a\": 1}```\n", json!({ "a": 1 }), Some("ARGUMENTS_FENCED")),
        ] {
            let read = read(given, false, 100).expect(given);
            assert_eq!(Value::Object(read.object), object, "{given}");
            assert_eq!(serde_json::from_str::<Value>(&read.text).expect("JSON"), object, "{given}");
            assert_eq!(read.warnings.first().map(|warning| warning.code.as_str()), warning, "{given}");
        }
    }

    #[test]
    fn repeated_members_are_a_warning_only_if_they_are_equal() {
        for given in [
            r#"{"a": 1, "a": 1.0}"#,
            r#"{"b": {"a": [1], "a": [1]}}"#,
            r#""{\"a\": 1, \"a\": 1}""#,
            "```json\n{\"a\": 1, \"a\": 1}\n```",
        ] {
            let read = read(given, false, 100).expect(given);
            let warning = &read.warnings[0];
            assert_eq!(warning.code, "ARGUMENTS_MEMBER_REPEATED", "{given}");
            assert!(warning.message.contains("`a`"), "{given}");
        }
        for given in [
            r#"{"a": 1, "a": 2}"#,
            r#"{"b": [{"a": 1, "a": null}]}"#,
            r#""{\"a\": 1, \"a\": \"1\"}""#,
            "```json\n{\"a\": 1, \"a\": 2}\n```",
        ] {
            let problem = read(given, false, 100).expect_err(given);
            assert_eq!(
                (problem.code.as_str(), &problem.details["name"]),
                (codes::ARGUMENTS_INVALID, &json!("a"))
            );
            assert!(
                problem.message.starts_with("the arguments have `a` twice with different values"),
                "{given}"
            );
        }
    }

    #[test]
    fn reports_other_arguments_as_errors() {
        for (given, expected) in [
            ("[1]", codes::ARGUMENTS_INVALID),
            ("7", codes::ARGUMENTS_INVALID),
            ("true", codes::ARGUMENTS_INVALID),
            (r#""Paris""#, codes::ARGUMENTS_INVALID),
            (r#""\"{}\"""#, codes::ARGUMENTS_INVALID),
            ("{", codes::ARGUMENTS_JSON_PARSE_ERROR),
            ("{'a': 1}", codes::ARGUMENTS_JSON_PARSE_ERROR),
            (r#"{"a": 1}{"a": 2}"#, codes::ARGUMENTS_JSON_PARSE_ERROR),
            ("```json\n[1]\n```", codes::ARGUMENTS_JSON_PARSE_ERROR),
            ("```json\n{}\n```\n```json\n{}\n```", codes::ARGUMENTS_JSON_PARSE_ERROR),
        ] {
            assert_eq!(code(given, false), expected, "{given}");
        }
    }

    #[test]
    fn accepts_arguments_up_to_the_limit() {
        let arguments = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
        assert!(read(&arguments(100), false, 100).is_ok());
        let problem = read(&arguments(101), false, 100).expect_err("too large");
        assert_eq!(problem.code, codes::ARGUMENTS_TOO_LARGE);
        assert_eq!(Value::from(problem.details), json!({ "bytes": 101, "limit": 100 }));
        assert_eq!(code(&" ".repeat(101), false), codes::ARGUMENTS_TOO_LARGE);
    }

    #[test]
    fn does_not_read_truncated_arguments_as_empty() {
        for given in ["", "{\"a\": ", "\"{}"] {
            let problem = read(given, true, 100).expect_err("cut off");
            assert_eq!(problem.code, codes::ARGUMENTS_JSON_PARSE_ERROR);
            assert_eq!(problem.details["truncated"], true);
        }
        assert!(read("{}", true, 100).is_ok());
    }

    #[test]
    fn shortens_invalid_arguments_in_errors() {
        let problem = read(&"é".repeat(300), false, 1000).expect_err("no JSON");
        assert_eq!(problem.details["given"].as_str().map(|given| given.chars().count()), Some(201));
    }
}
