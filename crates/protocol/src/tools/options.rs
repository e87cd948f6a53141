use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Body;

/// Fields that a request has from the loop alone, whatever `request_overrides` say. The last two are not reserved words of the
/// protocol, but a streamed answer is not what the loop reads.
pub const RESERVED: [&str; 7] =
    ["model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options"];

/// Whether a run must call tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolUseMode {
    /// At least once, or the run fails with `NO_TOOL_CALLS`.
    Enforced,
    /// It may or may not.
    #[default]
    Relaxed,
    /// Tools are never sent, and calls are ignored.
    Disabled,
}

/// What failed calls mean for an enforced run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFailurePolicy {
    /// The last call of each tool must have succeeded: a tool may fail and be called again, but must not end with a failure.
    #[default]
    Fatal,
    /// Some call must have succeeded.
    Tolerated,
}

/// How the loop behaves. All of it is data, with a default for each field.
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
    /// Whether the run must call tools.
    pub tool_use_mode: ToolUseMode,
    /// What failed calls mean where it must.
    pub tool_failure_policy: ToolFailurePolicy,
    /// The most bytes of a call's arguments; larger ones are refused before the tool runs (`ARGUMENTS_TOO_LARGE`).
    pub max_tool_args_bytes: usize,
    /// The most bytes of a result as it is sent; a larger one is replaced by a failure (`TOOL_OUTPUT_TOO_LARGE`).
    pub max_tool_output_bytes: usize,
    /// How many calls of one message are executed, the first ones; the others are ignored and counted. Without it all are, one
    /// after the other, or only the first where requests have `parallel_tool_calls: false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls_per_turn: Option<NonZeroUsize>,
    /// Whether a last message that says nothing is asked for once more.
    pub fix_empty_final: bool,
    /// Whether tools are left out when it is, so that none is called again by accident.
    pub fix_empty_final_disable_tools: bool,
    /// What the model is told then, as the user.
    pub fix_empty_final_prompt: String,
    /// The most requests of a run, not counting that one.
    pub max_turns: NonZeroUsize,
    /// How long a tool may take, whatever runs it, in milliseconds; without it as long as its executor lets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_timeout_ms: Option<u64>,
    /// `tool_choice` of the requests. One that forces a call (`required`, or a function) is sent until a call was made, and then
    /// left out: a run that must call in every turn has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// Whether an enforced run without a `tool_choice` sends `required` until a call was made. Without it, it does where the backend
    /// is known to hold models to it, as the local engine does; a server is not asked, since that takes requests of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_first_call: Option<bool>,
    /// Further fields of the requests; those in [`RESERVED`] are ignored.
    pub request_overrides: Body,
    /// What is done to the messages of every request, by the names of [`Transforms`](super::Transforms).
    pub message_transforms: Vec<String>,
    /// What is done to the definitions of tools before they are sent.
    pub tool_transforms: Vec<String>,
    /// What is done to an answer's message before its calls are read.
    pub response_transforms: Vec<String>,
    /// What is done to a call before it is dispatched.
    pub tool_call_transforms: Vec<String>,
    /// What is done to a result before it is sent.
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
            tool_timeout_ms: None,
            tool_choice: None,
            force_first_call: None,
            request_overrides: Body::new(),
            message_transforms: Vec::new(),
            tool_transforms: Vec::new(),
            response_transforms: Vec::new(),
            tool_call_transforms: Vec::new(),
            tool_result_transforms: Vec::new(),
        }
    }
}

impl ToolCallingOptions {
    /// How many calls of a message are executed, where requests have `parallel_tool_calls` as given.
    pub(super) fn calls_per_turn(&self, parallel: Option<&Value>) -> usize {
        let serial = parallel == Some(&Value::Bool(false));
        self.max_tool_calls_per_turn.map_or(if serial { 1 } else { usize::MAX }, NonZeroUsize::get)
    }

    /// The `tool_choice` of a request, before the first call or after it.
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
    fn defaults_are_those_of_production() {
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
          "request_overrides": {},
          "message_transforms": [],
          "tool_transforms": [],
          "response_transforms": [],
          "tool_call_transforms": [],
          "tool_result_transforms": []
        }
        "#);
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_name() {
        let fault =
            |given| serde_json::from_value::<ToolCallingOptions>(given).expect_err("refused").to_string();
        assert!(fault(json!({ "max_turn": 1 })).starts_with("unknown field `max_turn`"));
        assert!(fault(json!({ "tool_use_mode": "always" })).starts_with("unknown variant `always`"));
        assert!(fault(json!({ "max_tool_calls_per_turn": 0 })).contains("nonzero"));
    }

    #[test]
    fn calls_are_one_by_one_where_parallel_calls_are_off() {
        let unset = options(json!({}));
        assert_eq!(unset.calls_per_turn(None), usize::MAX);
        assert_eq!(unset.calls_per_turn(Some(&json!(true))), usize::MAX);
        assert_eq!(unset.calls_per_turn(Some(&json!(false))), 1);
        assert_eq!(options(json!({ "max_tool_calls_per_turn": 3 })).calls_per_turn(Some(&json!(false))), 3);
    }

    #[test]
    fn what_forces_a_call_does_so_once() {
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
