use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use super::{Cost, Quota, Reservation};
use crate::Chunks;
use crate::{Answer, BackendError, Body, Capabilities, ChatBackend, Feature};

/// Tokens assumed for an answer if the request sets no limit.
const ANSWER: u64 = 1024;
/// Assumed bytes of a request per token. Most texts have more, so the estimate is rarely too low.
const BYTES: u64 = 3;
/// Time reserved for a request without a time limit. It is the smallest unit, so that no request
/// starts once the time quota is used up.
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
/// Capability probes are not metered.
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
        let reservation = self.quota.reserve(Cost { tokens, time: self.time.unwrap_or(LEAST) })?;
        Ok(Meter { reservation: Some(reservation), started: Instant::now(), tokens, told: None })
    }

    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let Some(limit) = self.time else { return work.await };
        tokio::time::timeout(limit, work).await.map_err(|_| BackendError::timeout(limit))?
    }
}

/// Estimates the number of tokens in a request from its size in bytes.
fn prompt(body: &Body) -> u64 {
    let parts = ["messages", "tools", "response_format"].into_iter().filter_map(|name| body.get(name));
    parts.map(|part| part.to_string().len() as u64).sum::<u64>().div_ceil(BYTES)
}

/// Returns the total number of tokens reported in the `usage` of an answer or chunk.
fn told(answer: &Value) -> Option<u64> {
    let usage = answer.get("usage")?;
    let tokens = |name: &str| usage.get(name)?.as_u64();
    tokens("total_tokens")
        .or_else(|| Some(tokens("prompt_tokens")?.saturating_add(tokens("completion_tokens")?)))
}

/// Ends a stream with a timeout error at `end`.
fn until(chunks: Chunks, end: Instant, limit: Duration) -> Chunks {
    let next = move |chunks: Option<Chunks>| async move {
        let mut chunks = chunks?;
        match tokio::time::timeout_at(end, chunks.next()).await {
            Ok(chunk) => Some((chunk?, Some(chunks))),
            Err(_) => Some((Err(BackendError::timeout(limit)), None)),
        }
    };
    stream::unfold(Some(chunks), next).boxed()
}

impl ChatBackend for Metered {
    fn name(&self) -> &str {
        self.backend.name()
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        async move {
            let mut meter = self.reserve(body)?;
            let answered = self.within(self.backend.chat(body)).await;
            match &answered {
                Ok(answer) => meter.told = told(&answer.body),
                Err(error) => meter.fail(error),
            }
            answered
        }
        .boxed()
    }

    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        async move {
            let mut meter = self.reserve(body)?;
            let opened = self.within(self.backend.stream(body)).await;
            let chunks = opened.inspect_err(|error| meter.fail(error))?;
            meter.tokens = prompt(body);
            let end = self.time.and_then(|limit| Some((meter.started.checked_add(limit)?, limit)));
            let chunks = match end {
                Some((end, limit)) => until(chunks, end, limit),
                None => chunks,
            };
            Ok(chunks.inspect(move |chunk| meter.see(chunk)).boxed())
        }
        .boxed()
    }

    fn known_capabilities(&self, model: &str) -> Option<Capabilities> {
        self.backend.known_capabilities(model)
    }

    fn supports<'a>(&'a self, model: &'a str, feature: Feature) -> BoxFuture<'a, Result<bool, BackendError>> {
        self.backend.supports(model, feature)
    }

    fn refute(&self, model: &str, feature: Feature) {
        self.backend.refute(model, feature);
    }

    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        self.backend.capabilities(model)
    }
}

/// Cost of one running request, charged to the quota when the meter is dropped.
struct Meter {
    reservation: Option<Reservation>,
    started: Instant,
    /// Estimate used if the backend reports no usage. Initially the reserved tokens; for a stream,
    /// the prompt plus one token for each chunk.
    tokens: u64,
    told: Option<u64>,
}

impl Meter {
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
