use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Body, Interruption};

/// The codes of what goes wrong with calls and runs. Tools have their own beside them.
pub mod codes {
    /// No tool has this name.
    pub const TOOL_NOT_FOUND: &str = "TOOL_NOT_FOUND";
    /// There is such a tool, but it is masked.
    pub const TOOL_NOT_ALLOWED: &str = "TOOL_NOT_ALLOWED";
    /// The arguments are larger than `max_tool_args_bytes`; the tool did not run.
    pub const ARGUMENTS_TOO_LARGE: &str = "ARGUMENTS_TOO_LARGE";
    /// The arguments are not JSON; the tool did not run.
    pub const ARGUMENTS_JSON_PARSE_ERROR: &str = "ARGUMENTS_JSON_PARSE_ERROR";
    /// The arguments are not what the tool's schema asks for; the tool did not run.
    pub const ARGUMENTS_INVALID: &str = "ARGUMENTS_INVALID";
    /// The result is larger than `max_tool_output_bytes`, or than what an executor reads.
    pub const TOOL_OUTPUT_TOO_LARGE: &str = "TOOL_OUTPUT_TOO_LARGE";
    /// The tool failed, in a way that it gave no code of its own, or panicked. Of runs: the last call of some tool failed, and the
    /// policy is `fatal`.
    pub const TOOL_ERROR: &str = "TOOL_ERROR";
    /// The tool did not end in time.
    pub const TIMEOUT: &str = "TIMEOUT";
    /// The server that runs the tool is gone.
    pub const TOOL_UNAVAILABLE: &str = "TOOL_UNAVAILABLE";

    /// Of runs: a call is enforced, and the model made none.
    pub const NO_TOOL_CALLS: &str = "NO_TOOL_CALLS";
    /// Of runs: a call is enforced, and there are no tools.
    pub const NO_TOOLS: &str = "NO_TOOLS";
    /// Of runs: all calls failed, and the policy is `tolerated`.
    pub const NO_SUCCESSFUL_TOOL_CALL: &str = "NO_SUCCESSFUL_TOOL_CALL";
    /// Of runs and, as a warning, of turns: the last message says nothing.
    pub const EMPTY_FINAL: &str = "EMPTY_FINAL";
    /// Of runs: the model still called tools in the last turn there may be.
    pub const MAX_TURNS: &str = "MAX_TURNS";
}

/// Something that went wrong or is worth knowing, for a program (the code) and for a model (the message).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Such as [`codes::ARGUMENTS_INVALID`].
    pub code: String,
    /// What it is, and what can be done about it.
    pub message: String,
    /// Figures and places.
    #[serde(flatten)]
    pub details: Body,
}

impl Problem {
    /// Without details.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), details: Body::new() }
    }

    /// With one more detail.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

impl From<String> for Problem {
    /// A failure without a code of its own.
    fn from(message: String) -> Self {
        Self::new(codes::TOOL_ERROR, message)
    }
}

impl From<&str> for Problem {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// What came of a call: the envelope in which the model sees it. All four fields are always there, so that models and
/// programs find the same shape whatever happened.
///
/// ```
/// use formwork_protocol::tools::{Problem, ToolResult};
/// let result = ToolResult::failed(Problem::new("NO_SUCH_CITY", "there is no such city"));
/// let text = serde_json::to_string(&result)?;
/// assert_eq!(text, r#"{"ok":false,"data":null,"errors":[{"code":"NO_SUCH_CITY","message":"there is no such city"}],"warnings":[]}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// Whether the tool did what it was called for.
    pub ok: bool,
    /// What it gives.
    #[serde(default)]
    pub data: Value,
    /// Why it failed.
    #[serde(default)]
    pub errors: Vec<Problem>,
    /// What else is worth knowing.
    #[serde(default)]
    pub warnings: Vec<Problem>,
    /// Why the run ends here, though nothing is wrong: the model is told nothing then.
    #[serde(skip)]
    pub interruption: Option<Interruption>,
}

impl ToolResult {
    /// It worked.
    pub fn ok(data: impl Into<Value>) -> Self {
        Self { ok: true, data: data.into(), errors: Vec::new(), warnings: Vec::new(), interruption: None }
    }

    /// It did not.
    pub fn failed(problem: impl Into<Problem>) -> Self {
        Self { ok: false, errors: vec![problem.into()], ..Self::ok(Value::Null) }
    }

    /// It was not done, and the run is to end here.
    pub fn interrupted(interruption: Interruption) -> Self {
        Self { interruption: Some(interruption), ..Self::failed(interruption.to_string()) }
    }

    /// With one more warning.
    #[must_use]
    pub fn with_warning(mut self, warning: Problem) -> Self {
        self.warnings.push(warning);
        self
    }

    /// What a program wrote: an envelope, if it has the shape of one, and else data.
    pub fn from_output(output: Value) -> Self {
        if !output.get("ok").is_some_and(Value::is_boolean) {
            return Self::ok(output);
        }
        match serde_json::from_value::<Self>(output.clone()) {
            Ok(mut result) => {
                if !result.ok && result.errors.is_empty() {
                    result.errors.push("the tool failed without saying why".into());
                }
                result
            }
            Err(_) => Self::ok(output),
        }
    }
}

/// What closures may return: an envelope, data, or a `Result` of them.
pub trait IntoToolResult {
    /// As an envelope.
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
    fn outputs_are_envelopes_or_data() {
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
