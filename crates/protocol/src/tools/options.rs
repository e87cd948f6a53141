use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::transforms::TextCallFormat;
use crate::Body;

/// Names of the request fields that only the loop sets. They are ignored in
/// [`ToolCallingOptions::request_overrides`] and in the default fields of the prompt runner.
///
/// `functions` and `function_call` are the deprecated forms of `tools` and `tool_choice`. The two
/// `stream` fields are reserved because the loop does not read streamed answers.
pub const RESERVED: [&str; 9] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "response_format",
    "stream",
    "stream_options",
];

/// Requirement on a run to call tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolUseMode {
    /// Requires at least one call; without any, the run fails with `NO_TOOL_CALLS`.
    Enforced,
    /// Calls are optional.
    #[default]
    Relaxed,
    /// Tools are never sent, and calls are ignored.
    Disabled,
}

/// Condition on the results of calls under which a run in the mode `enforced` succeeds. In other
/// modes, no result of a call makes a run fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFailurePolicy {
    /// For each name that the model called, the last call must succeed. Earlier calls with the same
    /// name may fail.
    ///
    /// The reason of a failure does not matter: a result with `ok: false`, refused arguments, a
    /// result that is too large, or a name that is masked or unknown.
    #[default]
    Fatal,
    /// At least one call must succeed.
    Tolerated,
}

/// Reaction to a call that has the name and the arguments of the call before it, in the same turn or
/// in the turn before. The order of the members of arguments does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatedCalls {
    /// The call is executed. The turn gets a warning with the code `REPEATED_CALL`.
    #[default]
    Warn,
    /// The call is not executed, and the run fails with the code `REPEATED_CALL`.
    Stop,
}

/// Way to choose the tool of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextTool {
    /// The model calls a tool or answers, as `tool_choice` allows.
    #[default]
    Model,
    /// A decision with probabilities comes before each request that offers tools: the next tool, or the
    /// answer. The request then forces a call of this tool, or forbids calls. Each decision is a request
    /// to `/v1/decisions`. After a decision that failed, the model chooses.
    Decision,
}

/// Options of the tool loop. Each field has a default.
///
/// ```
/// use formwork_protocol::tools::{ToolCallingOptions, ToolUseMode};
/// let options: ToolCallingOptions = serde_json::from_str(r#"{"tool_use_mode": "enforced"}"#)?;
/// assert_eq!((options.tool_use_mode, options.max_tool_args_bytes), (ToolUseMode::Enforced, 200_000));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolCallingOptions {
    /// Requirement to call tools; `relaxed` by default.
    pub tool_use_mode: ToolUseMode,
    /// Condition on the results of calls under which a run in the mode `enforced` succeeds; `fatal`
    /// by default.
    pub tool_failure_policy: ToolFailurePolicy,
    /// Maximum number of bytes of a call's arguments; 200,000 by default. A call with larger
    /// arguments is refused with the code `ARGUMENTS_TOO_LARGE`.
    pub max_tool_args_bytes: usize,
    /// Maximum number of bytes of a call's result as sent to the model; 200,000 by default. A
    /// larger result is replaced by a failure with the code `TOOL_OUTPUT_TOO_LARGE`.
    pub max_tool_output_bytes: usize,
    /// Maximum number of calls that are executed per message. Further calls of the message are
    /// ignored and counted.
    ///
    /// If `None`, only the first call is executed if requests have `parallel_tool_calls: false`.
    /// Otherwise all calls are executed, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls_per_turn: Option<NonZeroUsize>,
    /// True to send one more request if the final message has neither calls nor text; true by
    /// default.
    pub fix_empty_final: bool,
    /// True to omit the tools from the request after an empty final message, to avoid accidental
    /// calls; true by default.
    pub fix_empty_final_disable_tools: bool,
    /// Text of the user message that the request after an empty final message ends with.
    pub fix_empty_final_prompt: String,
    /// Maximum number of requests of a run, not counting the request after an empty final message;
    /// 12 by default.
    pub max_turns: NonZeroUsize,
    /// Maximum number of bytes of the messages of a conversation, as JSON; 8,000,000 by default. A
    /// larger conversation ends the run with the code `CONVERSATION_TOO_LARGE`.
    pub max_conversation_bytes: usize,
    /// Reaction to the same call twice in a row; `warn` by default.
    pub repeated_calls: RepeatedCalls,
    /// Timeout of each call in milliseconds, in addition to the executor's own timeout. `None` for
    /// no timeout, which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_timeout_ms: Option<u64>,
    /// Value of `tool_choice` in requests, such as `auto`. If `None`, `force_first_call` decides.
    ///
    /// A choice that forces a call (`required` or a function) is sent only until the first call. If
    /// every request forced a call, the run would not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// True to send `tool_choice: required` until the first call. This applies only in the mode
    /// `enforced`, and only if `tool_choice` is `None`.
    ///
    /// If `None`, the option is true if the backend is already known to enforce calls, as the local
    /// engine does. Servers are not probed for this option, since a probe takes extra requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_first_call: Option<bool>,
    /// Way to choose the tool of each request; `model` by default. `decision` applies to requests whose
    /// `tool_choice` is absent, `auto` or `required`.
    pub next_tool: NextTool,
    /// Additional request fields, such as `temperature`. They override the defaults of the prompt
    /// runner. Fields in [`RESERVED`] are ignored.
    pub request_overrides: Body,
    /// Names of the [`Transforms`](super::Transforms) to apply, in order, to the messages of every
    /// request.
    pub message_transforms: Vec<String>,
    /// Names of the transforms to apply, in order, to the definitions of tools before they are
    /// sent.
    pub tool_transforms: Vec<String>,
    /// Names of the transforms to apply, in order, to the message of an answer before its calls are
    /// parsed.
    pub response_transforms: Vec<String>,
    /// Format of calls in the text of answers; `auto` by default. With `auto`, calls in the text are read
    /// only if `response_transforms` has `assistant_content_tool_call_tags_to_tool_calls`. A named format
    /// is read without the transform as well, and other formats stay text.
    pub text_call_format: TextCallFormat,
    /// Names of the transforms to apply, in order, to each call before it is executed.
    pub tool_call_transforms: Vec<String>,
    /// Names of the transforms to apply, in order, to each result before it is sent.
    pub tool_result_transforms: Vec<String>,
}

impl Default for ToolCallingOptions {
    fn default() -> Self {
        Self {
            tool_use_mode: ToolUseMode::default(),
            tool_failure_policy: ToolFailurePolicy::default(),
            max_tool_args_bytes: 200_000,
            max_tool_output_bytes: 200_000,
            max_tool_calls_per_turn: None,
            fix_empty_final: true,
            fix_empty_final_disable_tools: true,
            fix_empty_final_prompt: "Your last message was empty. Answer now, from the results above."
                .to_owned(),
            max_turns: const { NonZeroUsize::new(12).expect("not zero") },
            max_conversation_bytes: Self::MAX_CONVERSATION_BYTES,
            repeated_calls: RepeatedCalls::default(),
            tool_timeout_ms: None,
            tool_choice: None,
            force_first_call: None,
            next_tool: NextTool::default(),
            request_overrides: Body::new(),
            message_transforms: Vec::new(),
            tool_transforms: Vec::new(),
            response_transforms: Vec::new(),
            text_call_format: TextCallFormat::default(),
            tool_call_transforms: Vec::new(),
            tool_result_transforms: Vec::new(),
        }
    }
}

impl ToolCallingOptions {
    /// Default of `max_conversation_bytes`.
    pub const MAX_CONVERSATION_BYTES: usize = 8_000_000;

    /// Returns the maximum number of calls to execute per message. `parallel` is the value of
    /// `parallel_tool_calls` in the requests.
    pub(super) fn calls_per_turn(&self, parallel: Option<&Value>) -> usize {
        let serial = parallel == Some(&Value::Bool(false));
        self.max_tool_calls_per_turn.map_or(if serial { 1 } else { usize::MAX }, NonZeroUsize::get)
    }

    /// Returns the `tool_choice` of the next request, or `None` to omit the field. `has_called` is
    /// true if the model has made a call before.
    pub(super) fn choice(&self, has_called: bool) -> Option<Value> {
        let forced = self.tool_use_mode == ToolUseMode::Enforced && self.force_first_call == Some(true);
        let choice = self.tool_choice.clone().or_else(|| forced.then(|| "required".into()))?;
        let forces = choice == "required" || choice.is_object();
        (!forces || !has_called).then_some(choice)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(given: Value) -> ToolCallingOptions {
        serde_json::from_value(given).expect("options")
    }

    #[test]
    fn has_production_defaults() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&ToolCallingOptions::default()).expect("JSON"), @r#"
        {
          "tool_use_mode": "relaxed",
          "tool_failure_policy": "fatal",
          "max_tool_args_bytes": 200000,
          "max_tool_output_bytes": 200000,
          "fix_empty_final": true,
          "fix_empty_final_disable_tools": true,
          "fix_empty_final_prompt": "Your last message was empty. Answer now, from the results above.",
          "max_turns": 12,
          "max_conversation_bytes": 8000000,
          "repeated_calls": "warn",
          "next_tool": "model",
          "request_overrides": {},
          "message_transforms": [],
          "tool_transforms": [],
          "response_transforms": [],
          "text_call_format": "auto",
          "tool_call_transforms": [],
          "tool_result_transforms": []
        }
        "#);
    }

    #[test]
    fn rejects_unknown_options_by_name() {
        let fault =
            |given| serde_json::from_value::<ToolCallingOptions>(given).expect_err("refused").to_string();
        assert!(fault(json!({ "max_turn": 1 })).starts_with("unknown field `max_turn`"));
        assert!(fault(json!({ "tool_use_mode": "always" })).starts_with("unknown variant `always`"));
        assert!(fault(json!({ "max_tool_calls_per_turn": 0 })).contains("nonzero"));
        let format = fault(json!({ "text_call_format": "qwen" }));
        let known =
            "unknown variant `qwen`, expected one of `auto`, `hermes`, `qwen3_coder`, `seed_oss`, `glm`";
        assert!(format.starts_with(known), "{format}");
    }

    #[test]
    fn allows_one_call_per_turn_without_parallel_calls() {
        let unset = options(json!({}));
        assert_eq!(unset.calls_per_turn(None), usize::MAX);
        assert_eq!(unset.calls_per_turn(Some(&json!(true))), usize::MAX);
        assert_eq!(unset.calls_per_turn(Some(&json!(false))), 1);
        assert_eq!(options(json!({ "max_tool_calls_per_turn": 3 })).calls_per_turn(Some(&json!(false))), 3);
    }

    #[test]
    fn forces_a_call_only_once() {
        let function = json!({ "type": "function", "function": { "name": "f" } });
        for (given, before, after) in [
            (json!({}), None, None),
            (json!({ "tool_choice": "auto" }), Some(json!("auto")), Some(json!("auto"))),
            (json!({ "tool_choice": "required" }), Some(json!("required")), None),
            (json!({ "tool_choice": function }), Some(function.clone()), None),
            (json!({ "force_first_call": true }), None, None),
            (json!({ "force_first_call": true, "tool_use_mode": "enforced" }), Some(json!("required")), None),
            (json!({ "tool_use_mode": "enforced" }), None, None),
            (
                json!({ "force_first_call": true, "tool_use_mode": "enforced", "tool_choice": "auto" }),
                Some(json!("auto")),
                Some(json!("auto")),
            ),
        ] {
            let options = options(given.clone());
            assert_eq!((options.choice(false), options.choice(true)), (before, after), "{given}");
        }
    }
}
