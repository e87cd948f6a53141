use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::envelope::{Problem, ToolResult};
use super::options::ToolCallingOptions;
use super::registry::ToolDefinition;
use super::shapes::ToolCall;
use crate::{Body, Plan};

/// Record of a run with all its requests and results, for audits and for [`replay`](super::replay).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRun {
    /// True if the run met the requirements of its mode and policy.
    pub ok: bool,
    /// Text of the last message, if any. A failed run may have one, too.
    pub text: Option<String>,
    /// Reasons for the failure.
    pub errors: Vec<Problem>,
    /// Totals of the run.
    pub stats: RunStats,
    /// Input of the run.
    pub setup: RunSetup,
    /// Requests in order.
    pub turns: Vec<Turn>,
    /// Final conversation. Message transforms do not affect it, so another run can continue the
    /// conversation.
    pub messages: Vec<Value>,
}

/// Input of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSetup {
    /// Name of the backend.
    pub backend: String,
    /// Name of the model.
    pub model: String,
    /// Default request fields of the prompt runner.
    pub defaults: Body,
    /// Options of the loop, with `force_first_call` resolved for the backend.
    pub options: ToolCallingOptions,
    /// Tools that could be called.
    pub tools: Vec<ToolDefinition>,
    /// Names of the masked tools.
    pub masked: Vec<String>,
    /// Initial conversation.
    pub messages: Vec<Value>,
}

/// A request, its answer and the calls that followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The request, without the model and the default fields.
    pub plan: Plan,
    /// True if this request was sent because the final message was empty.
    pub is_finalization: bool,
    /// Milliseconds until the answer, including retries.
    pub latency_ms: u64,
    /// Body of the answer; `None` after an error.
    pub reply: Option<Value>,
    /// Reason why the answer ended, as reported by the backend.
    pub finish_reason: Option<String>,
    /// Reason of each retry, by the name of its [`Category`](crate::Category).
    pub retried: Vec<String>,
    /// Reason why there was no answer.
    pub error: Option<Problem>,
    /// Executed and refused calls with their results.
    pub calls: Vec<CallRecord>,
    /// Number of calls ignored because of the limit per message or because no tools were sent.
    pub ignored_tool_calls_count: usize,
    /// Warnings about corrected deviations from the expected format.
    pub warnings: Vec<Problem>,
}

/// Call with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The dispatched call.
    pub call: ToolCall,
    /// The result before transforms.
    pub result: ToolResult,
    /// Run time in milliseconds; 0 for refused calls.
    pub latency_ms: u64,
}

/// Totals of a run.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunStats {
    /// Number of requests.
    pub turns: usize,
    /// Number of times requests were sent, including retries.
    pub attempts: usize,
    /// Number of executed and refused calls.
    pub tool_calls: usize,
    /// Number of successful calls.
    pub tool_calls_ok: usize,
    /// Number of ignored calls.
    pub ignored_tool_calls_count: usize,
    /// Number of prompt tokens, as reported by the backend.
    pub prompt_tokens: u64,
    /// Number of completion tokens, as reported by the backend.
    pub completion_tokens: u64,
    /// Total milliseconds of requests and tools.
    pub latency_ms: u64,
}

impl Turn {
    /// Reports whether the token limit cut off the answer.
    pub fn is_truncated(&self) -> bool {
        self.finish_reason.as_deref() == Some("length")
    }
}

impl RunStats {
    pub(super) fn of(turns: &[Turn]) -> Self {
        let mut stats = Self { turns: turns.len(), ..Self::default() };
        for turn in turns {
            stats.attempts += turn.retried.len() + 1;
            stats.tool_calls += turn.calls.len();
            stats.tool_calls_ok += turn.calls.iter().filter(|call| call.result.ok).count();
            stats.ignored_tool_calls_count += turn.ignored_tool_calls_count;
            stats.latency_ms += turn.latency_ms + turn.calls.iter().map(|call| call.latency_ms).sum::<u64>();
            let used = |name: &str| {
                turn.reply.as_ref().and_then(|reply| reply["usage"][name].as_u64()).unwrap_or_default()
            };
            stats.prompt_tokens += used("prompt_tokens");
            stats.completion_tokens += used("completion_tokens");
        }
        stats
    }
}

/// Event of a run, sent as it happens. Turns count from 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolEvent {
    /// A request is about to be sent.
    Asking {
        /// Number of the turn.
        turn: usize,
        /// Number of tools in the request.
        tools: usize,
        /// True if this request is sent because the final message was empty.
        is_finalization: bool,
    },
    /// The request was answered.
    Answered {
        /// Number of the turn.
        turn: usize,
        /// Reason why the answer ended, as reported by the backend.
        finish_reason: Option<String>,
        /// Milliseconds until the answer.
        latency_ms: u64,
    },
    /// The request failed.
    Failed {
        /// Number of the turn.
        turn: usize,
        /// Reason of the failure.
        error: Problem,
    },
    /// A call is about to be dispatched.
    Calling {
        /// Number of the turn.
        turn: usize,
        /// The call.
        call: ToolCall,
    },
    /// A call has a result.
    Called {
        /// Number of the turn.
        turn: usize,
        /// The call and its result.
        record: CallRecord,
    },
    /// Calls were ignored.
    Ignored {
        /// Number of the turn.
        turn: usize,
        /// Number of ignored calls.
        ignored_tool_calls_count: usize,
    },
    /// The final message was empty.
    EmptyFinal {
        /// Number of the turn.
        turn: usize,
        /// True if another request will ask for a message.
        is_asked_again: bool,
    },
    /// The run has ended.
    Finished {
        /// True if the run met the requirements of its mode and policy.
        ok: bool,
        /// Reasons for the failure.
        errors: Vec<Problem>,
    },
}
