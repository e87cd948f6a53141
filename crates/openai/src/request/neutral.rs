//! Unsupported fields with their neutral values. A neutral value requests only the default
//! behavior.
//!
//! Clients send many fields with their default values, so neutral values are accepted. Any other
//! value is an error, because ignoring it would silently change the output.

use serde_json::Value;

use super::fields::Fields;
use crate::RequestError;
use crate::error::Problem;

/// Unsupported field of a request.
///
/// `asks_nothing` reports whether a value is neutral. `accepted` describes the neutral values, and
/// `hint` names an alternative, both for the error message.
pub(super) struct Unsupported {
    name: &'static str,
    asks_nothing: fn(&Value) -> bool,
    accepted: &'static str,
    hint: &'static str,
}

const fn field(name: &'static str, asks_nothing: fn(&Value) -> bool, accepted: &'static str) -> Unsupported {
    Unsupported { name, asks_nothing, accepted, hint: "" }
}

/// llama.cpp's name for the field `repetition_penalty`, which is supported under this name only.
const REPEAT_PENALTY: Unsupported =
    Unsupported { hint: "use `repetition_penalty`", ..field("repeat_penalty", is_one, "1") };
const GUIDED_GRAMMAR: Unsupported =
    Unsupported { hint: "use `grammar`", ..field("guided_grammar", never, "null") };
/// Options of vLLM for the text of outputs. Only the defaults are accepted, because the server
/// behaves accordingly.
const STOP_STRING: Unsupported = field("include_stop_str_in_output", is_false, "false");
const SPECIAL_TOKENS: Unsupported = field("skip_special_tokens", is_true, "true");
const SPACES: Unsupported = field("spaces_between_special_tokens", is_true, "true");

/// Unsupported fields of a chat request.
pub(super) const CHAT: [Unsupported; 17] = [
    field("best_of", |value| *value == 1, "1"),
    REPEAT_PENALTY,
    field("functions", is_empty, "[]"),
    field("function_call", is_no_choice, "\"none\" or \"auto\""),
    field("modalities", |value| *value == serde_json::json!(["text"]), "[\"text\"]"),
    field("verbosity", |value| value == "medium", "\"medium\""),
    field("ignore_eos", is_false, "false"),
    field("echo", is_false, "false"),
    field("use_beam_search", is_false, "false"),
    field("audio", never, "null"),
    field("prediction", never, "null"),
    field("web_search_options", never, "null"),
    field("structural_tag", never, "null"),
    GUIDED_GRAMMAR,
    STOP_STRING,
    SPECIAL_TOKENS,
    SPACES,
];

/// Unsupported fields of a completions request.
pub(super) const COMPLETION: [Unsupported; 8] = [
    field("suffix", |value| value == "", "an empty string"),
    REPEAT_PENALTY,
    field("ignore_eos", is_false, "false"),
    field("use_beam_search", is_false, "false"),
    GUIDED_GRAMMAR,
    STOP_STRING,
    SPECIAL_TOKENS,
    SPACES,
];

/// Unsupported fields of `stream_options`.
pub(super) const STREAM_OPTIONS: [Unsupported; 1] = [field("include_obfuscation", is_false, "false")];

/// Unsupported fields of an assistant message. Clients send such messages back as they received
/// them.
pub(super) const ASSISTANT: [Unsupported; 4] = [
    field("function_call", never, "null"),
    field("annotations", is_empty, "[]"),
    field("refusal", never, "null"),
    field("audio", never, "null"),
];

/// Marks the fields in `table` as read.
///
/// # Errors
/// Returns an error if the value of one of these fields is not neutral.
pub(super) fn check(fields: &mut Fields, table: &[Unsupported]) -> Result<(), RequestError> {
    for known in table {
        if let Some(at) = fields.take(known.name)
            && !(known.asks_nothing)(at.value())
        {
            return Err(at.error(Problem::NotNeutral { accepted: known.accepted, hint: known.hint }));
        }
    }
    Ok(())
}

fn is_false(value: &Value) -> bool {
    *value == false
}

fn is_true(value: &Value) -> bool {
    *value == true
}

fn is_one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn is_no_choice(value: &Value) -> bool {
    value == "none" || value == "auto"
}

fn never(_: &Value) -> bool {
    false
}
