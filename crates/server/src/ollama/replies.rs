//! Replies to one request, whole or in parts.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use formwork_engine::FinishReason;
use formwork_openai::TokenLogprob;
use formwork_openai::ollama::{EndReason, Metrics, Reply, ReplyCall, ReplyEnd, ReplyMessage, timestamp};

use crate::answer::Answer;
use crate::choice::End;

/// Route of a request, on which the form of its replies depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Api {
    Chat,
    Generate,
}

/// Facts that all replies to a request have in common.
pub(super) struct Replies {
    pub(super) api: Api,
    pub(super) answer: Answer,
    /// Time at which the request arrived.
    pub(super) begun: Instant,
    /// Time until the model was loaded.
    pub(super) load: Duration,
    /// Names of the tools that accept any object because their schemas cannot be enforced.
    pub(super) unsupported: Vec<String>,
}

/// New part of an answer, or a whole answer.
#[derive(Default)]
pub(super) struct Part {
    pub(super) thinking: String,
    pub(super) content: String,
    pub(super) logprobs: Vec<TokenLogprob>,
    pub(super) calls: Vec<ReplyCall>,
}

impl Replies {
    /// Creates the reply to a request that only loads or unloads a model.
    pub(super) fn loaded(&self, unload: bool) -> Reply {
        let done_reason = if unload { EndReason::Unload } else { EndReason::Load };
        let end =
            ReplyEnd { done_reason, metrics: None, closed_by_budget: false, unsupported_schemas: Vec::new() };
        Reply { done: true, end: Some(end), ..self.part(Part::default()) }
    }

    /// Creates a reply that others follow.
    pub(super) fn part(&self, part: Part) -> Reply {
        let Part { thinking, content, logprobs, calls } = part;
        let mut reply = Reply {
            model: self.answer.model.clone(),
            created_at: timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
            message: None,
            response: None,
            thinking: None,
            logprobs,
            done: false,
            end: None,
        };
        match self.api {
            Api::Chat => reply.message = Some(ReplyMessage::new(content, thinking, calls)),
            Api::Generate => {
                reply.response = Some(content);
                reply.thinking = Some(thinking).filter(|text| !text.is_empty());
            }
        }
        reply
    }

    /// Creates the last reply, and logs the end of the output.
    pub(super) fn last(&self, part: Part, end: &End) -> Reply {
        self.answer.log(&end.finish);
        let (usage, timings) = (end.finish.usage, end.finish.timings);
        let metrics = Metrics {
            total_duration: nanos(self.begun.elapsed()),
            load_duration: nanos(self.load),
            prompt_eval_count: usage.prompt_tokens,
            prompt_eval_duration: nanos(timings.prompt),
            eval_count: usage.completion_tokens,
            eval_duration: nanos(timings.decode),
        };
        let done_reason = match end.finish.reason {
            FinishReason::Stop => EndReason::Stop,
            FinishReason::Length => EndReason::Length,
        };
        let end = ReplyEnd {
            done_reason,
            metrics: Some(metrics),
            closed_by_budget: end.finish.closed_by_budget,
            unsupported_schemas: self.unsupported.clone(),
        };
        Reply { done: true, end: Some(end), ..self.part(part) }
    }
}

impl End {
    /// Returns true if the output ended within the arguments of a call. Such arguments are no object.
    pub(super) fn cuts_off(&self, call: &ReplyCall) -> bool {
        self.finish.reason == FinishReason::Length && !call.function.arguments.is_object()
    }
}

/// Returns a time in nanoseconds.
pub(super) fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}
