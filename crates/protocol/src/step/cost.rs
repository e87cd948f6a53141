//! Cost of the requests of a step.

use std::time::Duration;

use serde_json::Value;

use crate::Body;
use crate::trace::Span;

/// Requests with their tokens and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Number of answered requests.
    pub(super) requests: u32,
    /// Number of tokens of prompts and answers, as reported by the backend.
    pub(super) tokens: u64,
    /// Time of the requests, with their retries and pauses.
    pub(super) time: Duration,
}

impl Cost {
    /// Returns the cost of one request with this `usage` in its answer.
    pub(super) fn of_usage(usage: Option<&Value>, time: Duration) -> Self {
        let tokens = |name: &str| usage.and_then(|usage| usage.get(name)?.as_u64());
        let parts = || Some(tokens("prompt_tokens")?.saturating_add(tokens("completion_tokens")?));
        Self { requests: 1, tokens: tokens("total_tokens").or_else(parts).unwrap_or_default(), time }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.requests = self.requests.saturating_add(more.requests);
        self.tokens = self.tokens.saturating_add(more.tokens);
        self.time = self.time.saturating_add(more.time);
    }

    /// Returns the time in milliseconds, rounded to microseconds.
    pub(super) fn milliseconds(&self) -> f64 {
        self.time.as_micros() as f64 / 1000.0
    }

    /// Adds the attributes `tokens` and `latency_ms`. Omits `tokens` if the backend reports none.
    pub(super) fn describe(&self, attributes: &mut Body) {
        if self.tokens > 0 {
            attributes.insert("tokens".to_owned(), self.tokens.into());
        }
        attributes.insert("latency_ms".to_owned(), self.milliseconds().into());
    }

    /// Sets the attributes `requests`, `tokens` and `latency_ms` of a span.
    pub(super) fn record(&self, span: &Span) {
        let mut attributes = Body::new();
        self.describe(&mut attributes);
        span.set("requests", self.requests);
        for (name, value) in attributes {
            span.set(name, value);
        }
    }
}
