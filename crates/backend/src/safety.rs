//! Recognition of errors in which a provider's safety check refused the content of a request.

use serde_json::Value;

/// Codes of safety refusals, in lower case.
const CODES: [&str; 9] = [
    "content_filter",
    "content_filtered",
    "content_policy_violation",
    "content_violation",
    "moderation",
    "moderation_blocked",
    "responsibleaipolicyviolation",
    "safety",
    "sensitive_words_detected",
];

/// Phrases in the messages of safety refusals, in lower case.
const PHRASES: [&str; 11] = [
    "blocked by our safety",
    "blocked for safety",
    "content filter",
    "content management policy",
    "content policy",
    "content violates",
    "responsible ai policy",
    "safety check",
    "safety filter",
    "safety system",
    "safety_check",
];

/// Words that state a safety refusal in a 403. In a 400, they may be names of fields.
const WORDS: [&str; 2] = ["flagged", "moderation"];

/// Maximum depth at which the error object is searched.
const DEPTH: usize = 6;

/// Reports whether a response states that a safety check refused the request. `code` and `error`
/// are the error's code and object, if the body has them, and `message` is its message.
///
/// Only statuses that reject a single request count. A 401 is always about the key, and so is an
/// error whose code names the key.
pub(crate) fn is_refusal(status: u16, code: Option<&str>, error: Option<&Value>, message: &str) -> bool {
    if status == 451 {
        return true;
    }
    let is_about_key = code.is_some_and(|code| code.contains("key") || code.contains("auth"));
    if !matches!(status, 400 | 403 | 422) || is_about_key {
        return false;
    }
    let has_word = status == 403 && {
        let message = message.to_lowercase();
        WORDS.iter().any(|word| message.contains(word))
    };
    has_word
        || code.is_some_and(is_code)
        || is_phrase(message)
        || error.is_some_and(|error| mentions(error, DEPTH))
}

/// Searches the values of an error object. Providers behind a router put their own error into a
/// string, for example in `metadata.raw`.
fn mentions(value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| {
            let is_flag = name == "flagged_input" && !value.is_null();
            let is_told =
                ["code", "type", "status"].contains(&name.as_str()) && value.as_str().is_some_and(is_code);
            // The input of the caller may mention anything.
            is_flag || is_told || (name != "param" && mentions(value, depth))
        }),
        Value::Array(items) => items.iter().any(|item| mentions(item, depth)),
        Value::String(text) => is_phrase(text),
        _ => false,
    }
}

fn is_code(code: &str) -> bool {
    CODES.contains(&code.to_lowercase().as_str())
}

fn is_phrase(text: &str) -> bool {
    let text = text.to_lowercase();
    PHRASES.iter().any(|phrase| text.contains(phrase))
}
