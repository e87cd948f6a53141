use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::time::Instant;

use super::{Cost, Quota, Reservation};
use crate::backend::Chunks;
use crate::{Answer, BackendError, Body, Capabilities, ChatBackend};

/// The tokens of an answer whose request sets no limit.
const ANSWER: u64 = 1024;
/// How many bytes of a request a token has at least, in most texts.
const BYTES: u64 = 3;

/// A backend each of whose requests is within a quota, whatever asks it: steps, repairs, prechecks and tool loops alike.
///
/// Reserved are the request's size in tokens, as far as that can be told from its bytes, and the most tokens of its answer; and, where
/// requests have a time, that. What is booked is what the backend says that it used; where it does not say, what was reserved. A request that fails
/// costs nothing. A stream that is given up costs its prompt and the chunks that came. Asking for capabilities is not metered.
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

    fn reserve(&self, body: &Body) -> Result<Reservation, BackendError> {
        let limit =
            ["max_completion_tokens", "max_tokens"].into_iter().find_map(|name| body.get(name)?.as_u64());
        let tokens = prompt(body).saturating_add(limit.unwrap_or(self.answer));
        Ok(self.quota.reserve(Cost { tokens, time: self.time.unwrap_or_default() })?)
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
    answer.get("usage")?.get("total_tokens")?.as_u64()
}

impl ChatBackend for Metered {
    fn name(&self) -> &str {
        self.backend.name()
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        async move {
            let reservation = self.reserve(body)?;
            let started = Instant::now();
            let answer = self.within(self.backend.chat(body)).await?;
            let tokens = told(&answer.body).unwrap_or(reservation.cost().tokens);
            reservation.reconcile(Cost { tokens, time: started.elapsed() });
            Ok(answer)
        }
        .boxed()
    }

    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        async move {
            let reservation = Some(self.reserve(body)?);
            let mut meter = Meter { reservation, started: Instant::now(), tokens: prompt(body), told: None };
            let chunks = match self.within(self.backend.stream(body)).await {
                Ok(chunks) => chunks,
                Err(error) => {
                    meter.reservation = None;
                    return Err(error);
                }
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

/// What a stream costs, booked when it ends or is given up.
struct Meter {
    reservation: Option<Reservation>,
    started: Instant,
    /// The prompt's, and one for each chunk.
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
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            let tokens = self.told.unwrap_or(self.tokens);
            reservation.reconcile(Cost { tokens, time: self.started.elapsed() });
        }
    }
}
