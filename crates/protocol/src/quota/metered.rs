use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use super::{Cost, Quota, Reservation};
use crate::backend::Chunks;
use crate::{Answer, BackendError, Body, Capabilities, ChatBackend};

/// The tokens of an answer whose request sets no limit.
const ANSWER: u64 = 1024;
/// How many bytes of a request a token has at least, in most texts.
const BYTES: u64 = 3;
/// The time that is reserved where requests have none of their own: the least there is, so that none begins when all is used.
const LEAST: Duration = Duration::from_millis(1);

/// A backend each of whose requests is within a quota, whatever asks it: steps, repairs, prechecks and tool loops alike.
///
/// Reserved are the request's size in tokens, as far as that can be told from its bytes, and the most tokens of its answers; and, where
/// requests have a time, that. What is booked is the time that it took, however it ended, and the tokens that the backend says that it used; where it does
/// not say, those that were reserved. So it is with a request that is given up or has timed out, too: nobody knows how far it came. One that did not reach
/// the backend, or that it refused, costs no tokens. A stream costs its prompt and the chunks that came. Asking for capabilities is not metered.
pub struct Metered {
    backend: Arc<dyn ChatBackend>,
    quota: Quota,
    answer: u64,
    time: Option<Duration>,
}

impl Metered {
    /// Within `quota`.
    pub fn new(backend: Arc<dyn ChatBackend>, quota: Quota) -> Self {
        Self { backend, quota, answer: ANSWER, time: None }
    }

    /// With another guess at the tokens of answers whose requests set no limit. It is 1024, if nothing else is said.
    #[must_use]
    pub const fn with_answer(mut self, tokens: u64) -> Self {
        self.answer = tokens;
        self
    }

    /// With at most so much time for each request: so much is reserved, and a request that takes longer has timed out.
    #[must_use]
    pub const fn with_time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// Reserves what a request may cost. It costs that, unless something else is known when it is over.
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

/// The tokens of a request, guessed.
fn prompt(body: &Body) -> u64 {
    let parts = ["messages", "tools", "response_format"].into_iter().filter_map(|name| body.get(name));
    parts.map(|part| part.to_string().len() as u64).sum::<u64>().div_ceil(BYTES)
}

/// The tokens that a backend says it used.
fn told(answer: &Value) -> Option<u64> {
    let usage = answer.get("usage")?;
    let tokens = |name: &str| usage.get(name)?.as_u64();
    tokens("total_tokens")
        .or_else(|| Some(tokens("prompt_tokens")?.saturating_add(tokens("completion_tokens")?)))
}

/// A stream that ends with an error when its time is over.
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

    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        self.backend.capabilities(model)
    }
}

/// What a request costs, booked when it is over or given up.
struct Meter {
    reservation: Option<Reservation>,
    started: Instant,
    /// As far as can be told from outside: what was reserved; of a stream the prompt's, and one for each chunk.
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

    /// Nothing came of it.
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
