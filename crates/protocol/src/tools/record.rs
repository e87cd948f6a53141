use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::envelope::{Problem, ToolResult, codes};
use super::options::ToolCallingOptions;
use super::plans::{self, PlanDelta};
use super::registry::ToolDefinition;
use super::shapes::ToolCall;
use crate::{Body, Plan};

/// Record of one run of a tool loop with all its requests and results, for audits and for
/// [`replay`](super::replay).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRun {
    /// True if the run succeeded: it ended with a text and met the requirements of `tool_use_mode`
    /// and `tool_failure_policy`.
    pub ok: bool,
    /// Text of the final message without thoughts, or `None` if the run ended without a text. A failed run may also
    /// have a text, for example if the model answered without a required call.
    pub text: Option<String>,
    /// Reasons why the run failed; empty if `ok` is true.
    pub errors: Vec<Problem>,
    /// Warnings about the result: `TRUNCATED` if the token limit cut off `text`, and `REFUSED` if the
    /// model also states a refusal. Warnings about single turns are in [`Turn::warnings`].
    #[serde(default)]
    pub warnings: Vec<Problem>,
    /// Totals of the run.
    pub stats: RunStats,
    /// Input of the run, from which [`replay`](super::replay) repeats it.
    pub setup: RunSetup,
    /// Requests with their answers and calls, in the order in which they were sent.
    #[serde(deserialize_with = "plans::read")]
    pub turns: Vec<Turn>,
    /// Conversation at the end of the run: the initial messages, then the messages of the model and
    /// the results of its calls. Message transforms are not applied, so another run can continue
    /// the conversation.
    pub messages: Vec<Value>,
}

/// Input of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSetup {
    /// Name of the backend, such as `local` or the host of a server.
    pub backend: String,
    /// Name of the model.
    pub model: String,
    /// Default request fields of the prompt runner.
    pub defaults: Body,
    /// Options of the loop, with `force_first_call` resolved for the backend.
    pub options: ToolCallingOptions,
    /// Definitions of the tools that the model could call, without masked tools.
    pub tools: Vec<ToolDefinition>,
    /// Names of the masked tools, which were neither sent nor allowed to run.
    pub masked: Vec<String>,
    /// Conversation at the start of the run.
    pub messages: Vec<Value>,
}

/// A request, its answer and the calls in the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The request after all transforms, without the model and the default fields, as the difference
    /// from the turn before.
    pub plan: PlanDelta,
    /// Decision about the tool of the request ([`NextTool`](super::NextTool)). `None` if none was asked for,
    /// or after a turn without a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_tool: Option<ToolDecision>,
    /// True if this is the additional request for a text after the final message was empty.
    pub is_finalization: bool,
    /// Time until the answer in milliseconds, including retries.
    pub latency_ms: u64,
    /// Body of the answer; `None` after an error.
    pub reply: Option<Value>,
    /// Reason why the answer ended, as reported by the backend, such as `stop`. `None` if not
    /// reported.
    pub finish_reason: Option<String>,
    /// Name of the error [`Category`](crate::Category) that caused each retry, such as
    /// `RATE_LIMITED`, in order. Empty if the request failed.
    pub retried: Vec<String>,
    /// Error of the backend; `None` if the request was answered.
    pub error: Option<Problem>,
    /// Calls with their results, in order. A call is refused without running the tool if the tool
    /// is unknown or masked, or if the arguments are invalid.
    pub calls: Vec<CallRecord>,
    /// Number of calls ignored because of the limit per message or because no tools were sent.
    pub ignored_tool_calls_count: usize,
    /// Warnings: corrected deviations in the format of the answer, a truncated answer, an empty
    /// final message, a repeated call, and ignored overrides.
    pub warnings: Vec<Problem>,
}

/// Decision about the next tool.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolDecision {
    /// Name of the likeliest tool. `None` for an answer without a call, or if `error` is set.
    pub tool: Option<String>,
    /// Probability of each tool, in the order of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probabilities: Vec<ToolProbability>,
    /// Probability of an answer without a call. `None` if a call is required, or without a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<f64>,
    /// Confidence of the decision, from 0 to 1. `None` if the backend reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Number of tokens that the model read, as reported by the backend; 0 if not reported.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Time until the decision in milliseconds.
    #[serde(default)]
    pub latency_ms: u64,
    /// Reason why there is no decision. The model then chose the tool, and in all later turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// Probability of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolProbability {
    /// Name of the tool.
    pub tool: String,
    /// Probability, from 0 to 1.
    pub probability: f64,
}

/// Call with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The call after call transforms.
    pub call: ToolCall,
    /// The result of the call before result transforms.
    pub result: ToolResult,
    /// Run time in milliseconds; 0 for refused calls.
    pub latency_ms: u64,
}

/// Totals of a run.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunStats {
    /// Number of requests, not counting retries.
    pub turns: usize,
    /// Number of times that requests were sent. Retries count, except those of a request that
    /// failed in the end.
    pub attempts: usize,
    /// Number of executed and refused calls.
    pub tool_calls: usize,
    /// Number of calls whose result has `ok` set to true.
    pub tool_calls_ok: usize,
    /// Number of calls ignored because of the limit per message or because no tools were sent.
    pub ignored_tool_calls_count: usize,
    /// Number of prompt tokens of all requests and decisions, as reported by the backend; 0 if not reported.
    pub prompt_tokens: u64,
    /// Number of completion tokens of all answers, as reported by the backend; 0 if not reported.
    pub completion_tokens: u64,
    /// Total time of all requests, decisions and tools in milliseconds.
    pub latency_ms: u64,
}

impl ToolRun {
    /// Returns the whole request of a turn, counted from 0. Returns `None` if there is no such turn.
    pub fn plan(&self, turn: usize) -> Option<Plan> {
        let mut plan = Plan::default();
        self.turns.get(..=turn)?.iter().for_each(|turn| turn.plan.apply(&mut plan));
        Some(plan)
    }

    /// Reports whether the token limit cut off the final text.
    pub fn is_truncated(&self) -> bool {
        self.warnings.iter().any(|warning| warning.code == codes::TRUNCATED)
    }

    /// Reports whether the run failed only because the provider's content filter cut off the final
    /// text.
    pub fn is_filtered(&self) -> bool {
        self.text.is_some()
            && !self.errors.is_empty()
            && self.errors.iter().all(|error| error.code == codes::CONTENT_FILTER_CUT)
    }

    /// Reports whether the run ended because the backend did not answer.
    pub fn is_unanswered(&self) -> bool {
        self.turns.last().is_some_and(|turn| turn.error.is_some())
    }
}

impl Turn {
    /// Reports whether the token limit cut off the answer: `finish_reason` is `length`.
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
            if let Some(decision) = &turn.next_tool {
                stats.prompt_tokens += decision.prompt_tokens;
                stats.latency_ms += decision.latency_ms;
            }
            stats.prompt_tokens += used("prompt_tokens");
            stats.completion_tokens += used("completion_tokens");
        }
        stats
    }
}

/// Event of a run, passed to the callback of [`on_event`](super::ToolLoopRunner::on_event) as it
/// happens. Turns count from 1.
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
        /// True if this is the additional request for a text after the final message was empty.
        is_finalization: bool,
    },
    /// The next tool was decided, before the request of the turn.
    Decided {
        /// Number of the turn.
        turn: usize,
        /// The decision.
        decision: ToolDecision,
    },
    /// The request was answered.
    Answered {
        /// Number of the turn.
        turn: usize,
        /// Reason why the answer ended, as reported by the backend, such as `stop`. `None` if not
        /// reported.
        finish_reason: Option<String>,
        /// Time until the answer in milliseconds, including retries.
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
    /// Calls were ignored because of the limit per message or because no tools were sent.
    Ignored {
        /// Number of the turn.
        turn: usize,
        /// Number of ignored calls.
        ignored_tool_calls_count: usize,
    },
    /// The model called a tool twice in a row with the same arguments.
    Repeated {
        /// Number of the turn.
        turn: usize,
        /// The second call.
        call: ToolCall,
    },
    /// The final message was empty: it has neither calls nor text.
    EmptyFinal {
        /// Number of the turn.
        turn: usize,
        /// True if another request will ask the model for a text; false if the run ends.
        is_asked_again: bool,
    },
    /// The run has ended.
    Finished {
        /// True if the run succeeded, as in [`ToolRun::ok`].
        ok: bool,
        /// Reasons why the run failed; empty if `ok` is true.
        errors: Vec<Problem>,
    },
}
