use std::time::{SystemTime, UNIX_EPOCH};

use formwork_engine::Finish;
use formwork_openai::{FinishReason, Usage};
use tracing::Span;

use crate::choice::End;
use crate::random::random;

/// System fingerprint: identifies the program version that, together with the seed, determines the
/// output.
pub(crate) const FINGERPRINT: &str = concat!("formwork-", env!("CARGO_PKG_VERSION"));

/// Metadata common to all parts of one answer.
pub(crate) struct Answer {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    /// Span of the request. A streamed answer outlives the request's handler.
    span: Span,
}

impl Answer {
    /// Creates the metadata of an answer by `model`, with a new id that starts with `prefix`. Uses
    /// the current span.
    pub(crate) fn new(prefix: &str, model: &str) -> Self {
        Self { id: new_id(prefix), created: now(), model: model.to_owned(), span: Span::current() }
    }

    /// Logs the end of an output.
    pub(crate) fn log(&self, finish: &Finish) {
        let Finish { reason, closed_by_budget, usage, timings, .. } = finish;
        let [first_ms, prompt_ms, decode_ms] =
            [timings.first_token, timings.prompt, timings.decode].map(|time| time.as_millis());
        self.span.in_scope(|| {
            tracing::info!(?reason, closed_by_budget, ?usage, first_ms, prompt_ms, decode_ms, "generated");
        });
    }
}

/// Returns the time in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns a unique id that starts with `prefix`.
pub(crate) fn new_id(prefix: &str) -> String {
    format!("{prefix}{:016x}{:016x}", random(), random())
}

impl End {
    /// Returns the reason of the end. A call is that of a function if `has_functions` is true.
    pub(crate) const fn reason(&self, has_functions: bool) -> FinishReason {
        match self.finish.reason {
            formwork_engine::FinishReason::Length => FinishReason::Length,
            formwork_engine::FinishReason::Stop if self.called && has_functions => FinishReason::FunctionCall,
            formwork_engine::FinishReason::Stop if self.called => FinishReason::ToolCalls,
            formwork_engine::FinishReason::Stop => FinishReason::Stop,
        }
    }
}

/// Converts the token counts of an output to the wire type.
pub(crate) const fn usage(finish: &Finish) -> Usage {
    let used = finish.usage;
    Usage::new(used.prompt_tokens, used.completion_tokens, used.cached_tokens, used.reasoning_tokens)
}
