use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::time::Instant;

use super::{Cost, Quota, Reservation};
use crate::error::Kind;
use crate::sse::until;
use crate::{
    Answer, BackendError, Body, Capabilities, ChatBackend, Chunks, Feature, StreamEvent, StreamReceiver,
};

/// Tokens assumed for an answer if the request sets no limit.
const ANSWER: u64 = 1024;
/// Assumed bytes of a request per token. Most texts have more, so the estimate is rarely too low.
const BYTES: u64 = 3;
/// Time reserved for a request without a time limit. It is the smallest unit, so that no request
/// starts when the time quota is used up.
const LEAST: Duration = Duration::from_millis(1);

/// Wrapper of a backend that charges every request to a quota. Requests of repairs, prechecks and
/// tool loops are charged as well if they use the wrapper as their backend.
///
/// Each request reserves tokens for its prompt, estimated from the size in bytes, and for the
/// longest possible answer of each requested choice (`n`). If requests have a time limit, the limit
/// is reserved as well.
///
/// The quota is then charged as follows:
/// - Time: the elapsed time, however the request ended.
/// - Tokens: the usage reported by the backend, or the reservation if the backend reports none.
/// - A cancelled request, or one that timed out, is charged its reservation, because the backend's
///   progress is unknown.
/// - A request that did not reach the backend, or that the backend refused, is charged no tokens.
/// - A stream without reported usage is charged its estimated prompt and one token for each
///   received chunk.
///
/// A capability probe is charged its time, but no tokens.
///
/// A request, with all its retries, is stopped when the time quota is used up. It then fails with an
/// interruption.
pub struct Metered {
    backend: Arc<dyn ChatBackend>,
    quota: Quota,
    answer: u64,
    time: Option<Duration>,
}

impl Metered {
    /// Wraps `backend` and charges its requests to `quota`.
    pub fn new(backend: Arc<dyn ChatBackend>, quota: Quota) -> Self {
        Self { backend, quota, answer: ANSWER, time: None }
    }

    /// Sets the number of tokens assumed for an answer if the request sets no limit. The default is
    /// 1024.
    #[must_use]
    pub const fn with_answer(mut self, tokens: u64) -> Self {
        self.answer = tokens;
        self
    }

    /// Sets a time limit for each request. The limit is reserved, and a request that exceeds the
    /// limit fails with a timeout.
    #[must_use]
    pub const fn with_time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// Reserves the maximum cost of a request. The meter charges the reserved tokens unless the
    /// actual cost becomes known.
    fn reserve(&self, body: &Body) -> Result<Meter, BackendError> {
        let limit =
            ["max_completion_tokens", "max_tokens"].into_iter().find_map(|name| body.get(name)?.as_u64());
        let answers = body.get("n").and_then(Value::as_u64).unwrap_or(1).max(1);
        let tokens = prompt(body).saturating_add(limit.unwrap_or(self.answer).saturating_mul(answers));
        self.begin(tokens)
    }

    /// Reserves tokens, and the time of a request.
    fn begin(&self, tokens: u64) -> Result<Meter, BackendError> {
        // A request with a limit reserves the limit, so the quota has at least that much.
        let left = self.quota.left().time.map(|left| (left, Kind::TimeSpent.into()));
        let limit = self.time.map(|limit| (limit, BackendError::timeout(limit))).or(left);
        let reservation = self.quota.reserve(Cost { tokens, time: self.time.unwrap_or(LEAST) })?;
        let started = Instant::now();
        Ok(Meter { reservation: Some(reservation), started, limit, tokens, told: None })
    }
}

/// Estimates the number of tokens in a request from its size in bytes.
fn prompt(body: &Body) -> u64 {
    let names = ["messages", "tools", "response_format", "input", "questions"];
    let parts = names.into_iter().filter_map(|name| body.get(name));
    parts.map(|part| part.to_string().len() as u64).sum::<u64>().div_ceil(BYTES)
}

/// Returns the total number of tokens reported in the `usage` of an answer or chunk.
fn told(answer: &Value) -> Option<u64> {
    let usage = answer.get("usage")?;
    let tokens = |name: &str| usage.get(name)?.as_u64();
    tokens("total_tokens")
        .or_else(|| Some(tokens("prompt_tokens")?.saturating_add(tokens("completion_tokens")?)))
}

impl ChatBackend for Metered {
    fn name(&self) -> &str {
        self.backend.name()
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        async move {
            let mut meter = self.reserve(body)?;
            let answered = meter.within(self.backend.chat(body)).await;
            meter.settle(&answered);
            answered
        }
        .boxed()
    }

    fn chat_streamed<'a>(
        &'a self,
        body: &'a Body,
        receiver: StreamReceiver<'a>,
    ) -> BoxFuture<'a, Result<Answer, BackendError>> {
        async move {
            let mut meter = self.reserve(body)?;
            let seen = AtomicU64::new(0);
            let counted = |event: StreamEvent<'_>| {
                seen.fetch_add(u64::from(matches!(event, StreamEvent::Chunk(_))), Ordering::Relaxed);
                receiver(event)
            };
            let answered = meter.within(self.backend.chat_streamed(body, &counted)).await;
            if answered.is_ok() {
                meter.tokens = prompt(body).saturating_add(seen.into_inner());
            }
            meter.settle(&answered);
            answered
        }
        .boxed()
    }

    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        async move {
            let mut meter = self.reserve(body)?;
            let opened = meter.within(self.backend.stream(body)).await;
            let chunks = opened.inspect_err(|error| meter.fail(error))?;
            meter.tokens = prompt(body);
            let chunks = match meter.limit.clone() {
                Some((limit, error)) => until(chunks, meter.started, limit, error),
                None => chunks,
            };
            Ok(chunks.inspect(move |chunk| meter.see(chunk)).boxed())
        }
        .boxed()
    }

    fn decide<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Value, BackendError>> {
        async move {
            // A decision writes no text.
            let mut meter = self.begin(prompt(body))?;
            let answered = meter.within(self.backend.decide(body)).await;
            let answered = answered.map(|body| Answer { body, attempts: 1, retried: Vec::new() });
            meter.settle(&answered);
            answered.map(|answer| answer.body)
        }
        .boxed()
    }

    fn known_capabilities(&self, model: &str) -> Option<Capabilities> {
        self.backend.known_capabilities(model)
    }

    fn supports<'a>(&'a self, model: &'a str, feature: Feature) -> BoxFuture<'a, Result<bool, BackendError>> {
        async move { self.begin(0)?.within(self.backend.supports(model, feature)).await }.boxed()
    }

    fn refute(&self, model: &str, feature: Feature) {
        self.backend.refute(model, feature);
    }

    fn remembered_in(&self, model: &str) -> Option<String> {
        self.backend.remembered_in(model)
    }

    fn confirm(&self, model: &str, feature: Feature) {
        self.backend.confirm(model, feature);
    }

    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        async move { self.begin(0)?.within(self.backend.capabilities(model)).await }.boxed()
    }
}

/// Cost of one running request, charged to the quota when the meter is dropped.
struct Meter {
    reservation: Option<Reservation>,
    started: Instant,
    /// Time after which the request is stopped, and the error that it then fails with.
    limit: Option<(Duration, BackendError)>,
    /// Estimate used if the backend reports no usage. Initially the reserved tokens; for a stream,
    /// the prompt plus one token for each chunk.
    tokens: u64,
    told: Option<u64>,
}

impl Meter {
    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let Some((limit, error)) = &self.limit else { return work.await };
        tokio::time::timeout(*limit, work).await.map_err(|_| error.clone())?
    }

    fn settle(&mut self, answered: &Result<Answer, BackendError>) {
        match answered {
            Ok(answer) => self.told = told(&answer.body),
            Err(error) => self.fail(error),
        }
    }

    fn see(&mut self, chunk: &Result<Value, BackendError>) {
        if let Ok(chunk) = chunk {
            self.tokens += 1;
            self.told = told(chunk).or(self.told);
        }
    }

    /// Charges no tokens if the error shows that no model processed the request.
    fn fail(&mut self, error: &BackendError) {
        if !error.may_have_cost() {
            self.tokens = 0;
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            let tokens = self.told.unwrap_or(self.tokens);
            reservation.reconcile(Cost { tokens, time: self.started.elapsed() });
        }
    }
}
