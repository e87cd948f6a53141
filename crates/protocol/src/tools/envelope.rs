use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Body, Interruption};

/// Codes of failed calls and runs. Tools may use codes of their own.
pub mod codes {
    /// No tool has this name.
    pub const TOOL_NOT_FOUND: &str = "TOOL_NOT_FOUND";
    /// The tool exists but is masked.
    pub const TOOL_NOT_ALLOWED: &str = "TOOL_NOT_ALLOWED";
    /// The arguments are larger than `max_tool_args_bytes`; the tool did not run.
    pub const ARGUMENTS_TOO_LARGE: &str = "ARGUMENTS_TOO_LARGE";
    /// The arguments are not JSON; the tool did not run.
    pub const ARGUMENTS_JSON_PARSE_ERROR: &str = "ARGUMENTS_JSON_PARSE_ERROR";
    /// The arguments do not match the tool's schema; the tool did not run.
    pub const ARGUMENTS_INVALID: &str = "ARGUMENTS_INVALID";
    /// The result is larger than `max_tool_output_bytes` or than the executor's own limit.
    pub const TOOL_OUTPUT_TOO_LARGE: &str = "TOOL_OUTPUT_TOO_LARGE";
    /// The tool panicked, or failed without a code of its own.
    ///
    /// For runs: the mode is `enforced`, the policy is `fatal`, and the last call of at least one
    /// tool failed.
    pub const TOOL_ERROR: &str = "TOOL_ERROR";
    /// The tool did not finish within its timeout.
    pub const TIMEOUT: &str = "TIMEOUT";
    /// The connection to the server that runs the tool is lost.
    pub const TOOL_UNAVAILABLE: &str = "TOOL_UNAVAILABLE";

    /// For runs: the mode is `enforced`, and the model made no call.
    pub const NO_TOOL_CALLS: &str = "NO_TOOL_CALLS";
    /// For runs: the mode is `enforced`, and there are no tools.
    pub const NO_TOOLS: &str = "NO_TOOLS";
    /// For runs: the mode is `enforced`, the policy is `tolerated`, and all calls failed.
    pub const NO_SUCCESSFUL_TOOL_CALL: &str = "NO_SUCCESSFUL_TOOL_CALL";
    /// For runs, and for turns as a warning: the last message is empty.
    pub const EMPTY_FINAL: &str = "EMPTY_FINAL";
    /// For runs, and for turns as a warning: the model called a tool twice in a row with the same
    /// arguments. A run ends with this code only if `repeated_calls` is `stop`.
    pub const REPEATED_CALL: &str = "REPEATED_CALL";
    /// For runs and turns, as a warning: the token limit cut off the answer.
    pub const TRUNCATED: &str = "TRUNCATED";
    /// For runs: the model refused to answer.
    pub const REFUSED: &str = "REFUSED";
    /// For runs: the provider's content filter withheld the answer, or refused the request.
    pub const CONTENT_FILTER: &str = "CONTENT_FILTER";
    /// For runs: the provider's content filter cut off the final text. The run has the part before.
    pub const CONTENT_FILTER_CUT: &str = "CONTENT_FILTER_CUT";
    /// For runs: the messages are larger than `max_conversation_bytes`.
    pub const CONVERSATION_TOO_LARGE: &str = "CONVERSATION_TOO_LARGE";
    /// For runs: the model still called tools in the last permitted turn.
    pub const MAX_TURNS: &str = "MAX_TURNS";
}

/// Error or warning with a code for programs and a message for models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Code, such as [`codes::ARGUMENTS_INVALID`].
    pub code: String,
    /// Description of the problem and a possible correction.
    pub message: String,
    /// Further details by name, such as `limit`. In JSON, they are next to `code` and `message`.
    #[serde(flatten)]
    pub details: Body,
}

impl Problem {
    /// Creates a problem without details.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), details: Body::new() }
    }

    /// Adds a detail, or replaces the detail with this name.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

impl From<String> for Problem {
    /// Creates a problem with the code [`codes::TOOL_ERROR`].
    fn from(message: String) -> Self {
        Self::new(codes::TOOL_ERROR, message)
    }
}

impl From<&str> for Problem {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// Result of a call. The model sees it as a JSON object with four fields, the envelope: `ok`,
/// `data`, `errors` and `warnings`.
///
/// All four fields are always present, so that every outcome has the same shape.
///
/// ```
/// use formwork_protocol::tools::{Problem, ToolResult};
/// let result = ToolResult::failed(Problem::new("NO_SUCH_CITY", "there is no such city"));
/// let text = serde_json::to_string(&result)?;
/// let expected = concat!(
///     r#"{"ok":false,"data":null,"#,
///     r#""errors":[{"code":"NO_SUCH_CITY","message":"there is no such city"}],"warnings":[]}"#
/// );
/// assert_eq!(text, expected);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// True if the call succeeded.
    pub ok: bool,
    /// Output of the tool; `null` if there is none.
    #[serde(default)]
    pub data: Value,
    /// Reasons why the call failed; empty if it succeeded.
    #[serde(default)]
    pub errors: Vec<Problem>,
    /// Warnings, which do not affect `ok`.
    #[serde(default)]
    pub warnings: Vec<Problem>,
    /// Set if the run must end although nothing failed, for example because the caller cancelled
    /// it. This field is not part of the envelope.
    #[serde(skip)]
    pub interruption: Option<Interruption>,
}

impl ToolResult {
    /// Creates the result of a successful call.
    pub fn ok(data: impl Into<Value>) -> Self {
        Self { ok: true, data: data.into(), errors: Vec::new(), warnings: Vec::new(), interruption: None }
    }

    /// Creates the result of a failed call.
    pub fn failed(problem: impl Into<Problem>) -> Self {
        Self { ok: false, errors: vec![problem.into()], ..Self::ok(Value::Null) }
    }

    /// Creates the result of a call that was not completed because of `interruption`. The result
    /// ends the run.
    pub fn interrupted(interruption: Interruption) -> Self {
        Self { interruption: Some(interruption), ..Self::failed(interruption.to_string()) }
    }

    /// Adds a warning.
    #[must_use]
    pub fn with_warning(mut self, warning: Problem) -> Self {
        self.warnings.push(warning);
        self
    }

    /// Converts the JSON output of a program. Output in the shape of an envelope is used as the
    /// result. Any other output becomes the data of a successful result.
    pub fn from_output(output: Value) -> Self {
        if !output.get("ok").is_some_and(Value::is_boolean) {
            return Self::ok(output);
        }
        match serde_json::from_value::<Self>(output.clone()) {
            Ok(mut result) => {
                if !result.ok && result.errors.is_empty() {
                    result.errors.push("the tool failed without a message".into());
                }
                result
            }
            Err(_) => Self::ok(output),
        }
    }
}

/// Conversion of a closure's return value to a [`ToolResult`]. The value may be a `ToolResult`,
/// JSON data, or a `Result` of either.
pub trait IntoToolResult {
    /// Converts the value to the result of a call.
    fn into_tool_result(self) -> ToolResult;
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> ToolResult {
        self
    }
}

impl IntoToolResult for Value {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::ok(self)
    }
}

impl<T: IntoToolResult, E: Into<Problem>> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> ToolResult {
        self.map_or_else(ToolResult::failed, T::into_tool_result)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_outputs_as_envelopes_or_data() {
        let read = ToolResult::from_output;
        assert_eq!(read(json!({ "ok": true, "data": 1 })), ToolResult::ok(1));
        assert_eq!(read(json!({ "ok": false })).errors[0].code, codes::TOOL_ERROR);
        let failed = json!({ "ok": false, "errors": [{ "code": "X", "message": "no", "at": 3 }] });
        assert_eq!(read(failed), ToolResult::failed(Problem::new("X", "no").with("at", 3)));
        for data in [json!({ "ok": "yes" }), json!({ "ok": true, "more": 1 }), json!([true]), json!(null)] {
            assert_eq!(read(data.clone()), ToolResult::ok(data));
        }
    }
}
