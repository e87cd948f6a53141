use std::time::{SystemTime, UNIX_EPOCH};

use formwork_engine::Finish;
use formwork_openai::{FinishReason, Usage};
use tracing::Span;

use crate::choice::End;
use crate::random::random;

/// What with the request's seed decides the output: the program that computes it.
pub(crate) const FINGERPRINT: &str = concat!("formwork-", env!("CARGO_PKG_VERSION"));

/// What is the same on all parts of one answer.
pub(crate) struct Answer {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    /// The request's: a streamed answer outlives it.
    span: Span,
}

impl Answer {
    /// A new answer by `model`, within the current span, with an id that begins with `prefix`.
    pub(crate) fn new(prefix: &str, model: &str) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { id: new_id(prefix), created, model: model.to_owned(), span: Span::current() }
    }

    /// Logs how an output ended.
    pub(crate) fn log(&self, finish: &Finish) {
        let Finish { reason, closed_by_budget, usage, timings, .. } = finish;
        let [first_ms, prompt_ms, decode_ms] =
            [timings.first_token, timings.prompt, timings.decode].map(|time| time.as_millis());
        self.span.in_scope(|| {
            tracing::info!(?reason, closed_by_budget, ?usage, first_ms, prompt_ms, decode_ms, "generated");
        });
    }
}

/// An id that nothing else has.
pub(crate) fn new_id(prefix: &str) -> String {
    format!("{prefix}{:016x}{:016x}", random(), random())
}

impl End {
    pub(crate) const fn reason(&self) -> FinishReason {
        match self.finish.reason {
            formwork_engine::FinishReason::Length => FinishReason::Length,
            formwork_engine::FinishReason::Stop if self.called => FinishReason::ToolCalls,
            formwork_engine::FinishReason::Stop => FinishReason::Stop,
        }
    }
}

/// What an output used.
pub(crate) const fn usage(finish: &Finish) -> Usage {
    let used = finish.usage;
    Usage::new(used.prompt_tokens, used.completion_tokens, used.cached_tokens, used.reasoning_tokens)
}
