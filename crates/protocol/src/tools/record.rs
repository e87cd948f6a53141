use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::envelope::{Problem, ToolResult};
use super::options::ToolCallingOptions;
use super::registry::ToolDefinition;
use super::shapes::ToolCall;
use crate::{Body, Plan};

/// What came of a run, with everything that led to it: enough to audit it, and to [`replay`](super::replay) it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRun {
    /// Whether it ended as its mode and policy ask.
    pub ok: bool,
    /// The last message's text; of a run that failed as well, if there was one.
    pub text: Option<String>,
    /// Why it failed.
    pub errors: Vec<Problem>,
    /// How much it took.
    pub stats: RunStats,
    /// What it was asked to do.
    pub setup: RunSetup,
    /// Its requests, in order.
    pub turns: Vec<Turn>,
    /// The conversation as it is in the end, without what transforms made of it; another run can go on from there.
    pub messages: Vec<Value>,
}

/// What a run was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSetup {
    /// The backend, by its name.
    pub backend: String,
    /// The model.
    pub model: String,
    /// Fields that requests had unless they said otherwise.
    pub defaults: Body,
    /// How the loop behaved, with what it found out about the backend.
    pub options: ToolCallingOptions,
    /// The tools that could be called.
    pub tools: Vec<ToolDefinition>,
    /// The names of those that were masked.
    pub masked: Vec<String>,
    /// The conversation at the start.
    pub messages: Vec<Value>,
}

/// One request and what followed from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The request, as it was sent but for model and defaults.
    pub plan: Plan,
    /// Whether it asked once more for a last message that was empty.
    pub is_finalization: bool,
    /// How long the answer took, with all attempts, in milliseconds.
    pub latency_ms: u64,
    /// The answer's body, as it came; none where there is an error.
    pub reply: Option<Value>,
    /// Why the answer ended, in the backend's word.
    pub finish_reason: Option<String>,
    /// Why the request was sent again, each time, by the names of [`Category`](crate::Category).
    pub retried: Vec<String>,
    /// Why there was no answer.
    pub error: Option<Problem>,
    /// The calls that were executed, or refused, with their results.
    pub calls: Vec<CallRecord>,
    /// How many further calls there were.
    pub ignored_tool_calls_count: usize,
    /// What had to be made good, by its code.
    pub warnings: Vec<Problem>,
}

/// A call with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The call, as it was dispatched.
    pub call: ToolCall,
    /// What came of it, before transforms.
    pub result: ToolResult,
    /// How long it ran, in milliseconds; 0 for what was refused.
    pub latency_ms: u64,
}

/// How much a run took.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunStats {
    /// Requests.
    pub turns: usize,
    /// How often they were sent, retries included.
    pub attempts: usize,
    /// Calls that were executed or refused.
    pub tool_calls: usize,
    /// Those of them that succeeded.
    pub tool_calls_ok: usize,
    /// Calls that were ignored.
    pub ignored_tool_calls_count: usize,
    /// Tokens of prompts, as the backend counts.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub completion_tokens: u64,
    /// Milliseconds of answers and tools.
    pub latency_ms: u64,
}

impl Turn {
    /// Whether the token limit cut the answer off.
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

/// Something that happened in a run, as it happens. Turns count from 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolEvent {
    /// A request is about to be sent.
    Asking {
        /// Which.
        turn: usize,
        /// How many tools it has.
        tools: usize,
        /// Whether it asks once more for a last message that was empty.
        is_finalization: bool,
    },
    /// It was answered.
    Answered {
        /// Which.
        turn: usize,
        /// Why the answer ended, in the backend's word.
        finish_reason: Option<String>,
        /// After how long, in milliseconds.
        latency_ms: u64,
    },
    /// It was not.
    Failed {
        /// Which.
        turn: usize,
        /// Why.
        error: Problem,
    },
    /// A call is about to be dispatched.
    Calling {
        /// In which turn.
        turn: usize,
        /// The call.
        call: ToolCall,
    },
    /// It has a result.
    Called {
        /// In which turn.
        turn: usize,
        /// The call and the result.
        record: CallRecord,
    },
    /// Some calls were ignored.
    Ignored {
        /// In which turn.
        turn: usize,
        /// How many.
        ignored_tool_calls_count: usize,
    },
    /// The last message was empty.
    EmptyFinal {
        /// In which turn.
        turn: usize,
        /// Whether it is asked for once more.
        is_asked_again: bool,
    },
    /// The run is over.
    Finished {
        /// Whether it ended as its mode and policy ask.
        ok: bool,
        /// Why not.
        errors: Vec<Problem>,
    },
}
