//! Endings of replies: whole, cut off, or withheld by the model or its provider.

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::Reply;
use crate::adapt::repair::truncated;

/// Error of an answer that the token limit cut off inside its value.
pub(crate) const CUT: &str = "the answer was cut off at its length limit";
/// Maximum number of characters of a refusal that an error shows.
pub(crate) const SHOWN: usize = 500;

/// Reason why a reply has no answer: asking again would not give one.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[error("{code}: {message}")]
pub struct Withheld {
    /// `REFUSED`, `CONTENT_FILTER` or `UNEXPECTED_TOOL_CALLS`.
    pub code: String,
    /// Description, with the first 500 characters of a refusal's text.
    pub message: String,
}

impl Withheld {
    /// Returns the reason why a reply has no answer, or `None` if it has one.
    ///
    /// A content filter withholds an answer even if the text before the filter is valid JSON,
    /// because a part may be missing.
    pub fn of(reply: &Reply) -> Option<Self> {
        if reply.finish_reason.as_deref() == Some("content_filter") {
            return Some(Self::new("CONTENT_FILTER", "the provider's content filter withheld the answer"));
        }
        let refusal = reply.message.get("refusal").and_then(Value::as_str).map(str::trim);
        if let Some(refusal) = refusal.filter(|refusal| !refusal.is_empty()) {
            return Some(Self::new(
                "REFUSED",
                &format!("the model refused to answer: {}", truncated(refusal, SHOWN)),
            ));
        }
        let has_only_calls = reply.is_withheld() && reply.content().trim().is_empty();
        has_only_calls
            .then(|| Self::new("UNEXPECTED_TOOL_CALLS", "the answer contains tool calls instead of text"))
    }

    pub(crate) fn new(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.to_owned() }
    }
}

/// Reports whether a value in `text` is known to be whole, although the token limit cut off the
/// text.
///
/// All brackets must be closed. A number at the end is not whole, because digits may be missing.
pub(crate) fn is_whole(text: &str) -> bool {
    let (mut depth, mut has_brackets, mut is_string, mut is_escaped) = (0_usize, false, false, false);
    for c in text.chars() {
        if is_string {
            is_string = c != '"' || is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        match c {
            '"' if depth > 0 => is_string = true,
            '{' | '[' => (depth, has_brackets) = (depth + 1, true),
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    if has_brackets {
        return depth == 0;
    }
    let text = text.trim().trim_end_matches('`').trim_end();
    let is_quoted = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    is_quoted || ["true", "false", "null"].iter().any(|literal| text.ends_with(literal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_closed_values_are_whole() {
        for text in [
            r#"{"a": 1}"#,
            "```json\n[1, 2]\n```",
            r#"{"a": "}"} That is all that I co"#,
            r#""text""#,
            "true",
            "```\nnull\n```",
        ] {
            assert!(is_whole(text), "{text}");
        }
        for text in [
            "12",
            "```json\n12\n```",
            "",
            "plain text",
            r#"{"a": 1"#,
            r#""tex"#,
            "\"",
            r#"Draft {"a": 1}, final {"a": 2, "b"#,
            r#"{"a": "}"#,
            r#"{"a": "\"}"#,
        ] {
            assert!(!is_whole(text), "{text}");
        }
    }
}
