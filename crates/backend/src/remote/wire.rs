//! Sends one request and reads the response.

use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt};
use reqwest::header::{HeaderValue, RETRY_AFTER};
use reqwest::{Response, Url};
use serde_json::Value;
use tokio::time::Instant;

use super::RemoteBackend;
use crate::collected::{StreamEvent, StreamReceiver, as_chunk, collect_stream};
use crate::error::{Cause, Kind};
use crate::sse::{self, Opened, until};
use crate::{BackendError, Body, Chunks, RequestBudget};

/// Maximum size of an answer, whole or streamed, in bytes.
pub(crate) const ANSWER: usize = 64 << 20;
/// Maximum size of an error body, in bytes.
const ERROR: usize = 64 << 10;

impl RemoteBackend {
    /// Sends the chat request `body` and returns the response if its status is 2xx.
    async fn send(&self, body: &Body) -> Result<Response, BackendError> {
        self.send_to(&self.endpoint, body).await
    }

    /// Sends `body` to `endpoint` and returns the response if its status is 2xx.
    async fn send_to(&self, endpoint: &Url, body: &Body) -> Result<Response, BackendError> {
        RequestBudget::take()?;
        let request = self.client.post(endpoint.clone()).headers(self.headers.clone()).json(body);
        let unreachable = |error| Kind::Connection { url: address(endpoint), source: Cause::new(error) };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = response.headers().get(RETRY_AFTER).and_then(pause);
        // The status is enough for an error, so a failure to read the body is ignored.
        let body = read(response, ERROR).await.unwrap_or_default();
        Err(BackendError::of_status(status.as_u16(), &String::from_utf8_lossy(&body), retry_after))
    }

    /// Sends `body` and waits for the whole answer.
    pub(super) async fn whole(&self, body: &Body) -> Result<Value, BackendError> {
        let bytes = read(self.send(body).await?, ANSWER).await?;
        check(serde_json::from_slice(&bytes).map_err(malformed)?)
    }

    /// Sends the body of a decision and waits for the answer.
    pub(super) async fn decided(&self, body: &Body) -> Result<Value, BackendError> {
        let mut endpoint = self.endpoint.clone();
        let path = endpoint.path();
        let path = format!("{}/decisions", path.strip_suffix("/chat/completions").unwrap_or(path));
        endpoint.set_path(&path);
        let bytes = read(self.send_to(&endpoint, body).await?, ANSWER).await?;
        let answer: Value = serde_json::from_slice(&bytes).map_err(malformed)?;
        BackendError::in_body(&answer).map_or(Ok(answer), Err)
    }

    /// Sends `body` and returns the answer as a stream, which ends with an error after the timeout,
    /// counted from now.
    pub(super) async fn open(&self, body: &Body) -> Result<Chunks, BackendError> {
        let (limit, started) = (self.timeout, Instant::now());
        match self.within(async { sse::open(self.send(body).await?).await }).await? {
            Opened::Events(chunks) => Ok(until(chunks, started, limit, BackendError::timeout(limit))),
            Opened::Whole(answer) => Ok(stream::iter([Ok(as_chunk(answer))]).boxed()),
        }
    }

    /// Sends `body` and reports the answer while it arrives. Returns the whole answer.
    pub(super) async fn collected(
        &self,
        body: &Body,
        receiver: StreamReceiver<'_>,
    ) -> Result<Value, BackendError> {
        match sse::open(self.send(body).await?).await? {
            Opened::Events(chunks) => collect_stream(chunks, receiver).await,
            Opened::Whole(answer) => {
                let _ = receiver(StreamEvent::Chunk(&as_chunk(answer.clone())));
                Ok(answer)
            }
        }
    }

    pub(super) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let limit = self.timeout;
        tokio::time::timeout(limit, work).await.map_err(|_| Kind::Timeout { limit })?
    }
}

/// Returns an endpoint without credentials and parameters.
pub(super) fn address(endpoint: &Url) -> String {
    let mut url = endpoint.clone();
    // A URL with a host can be changed so.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// Returns `body` if it has the shape of an answer. Otherwise returns an error, since some gateways
/// send status 200 with an error in the body.
pub(crate) fn check(body: Value) -> Result<Value, BackendError> {
    if body.get("choices").is_some_and(Value::is_array) {
        return Ok(body);
    }
    Err(BackendError::in_body(&body).unwrap_or_else(|| Kind::NoChoices.into()))
}

async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, BackendError> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(broken)? {
        if piece.len() > limit - bytes.len() {
            return Err(Kind::TooLarge { limit }.into());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Parses a `Retry-After` header, which holds either seconds or an HTTP date.
fn pause(header: &HeaderValue) -> Option<Duration> {
    let text = header.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = httpdate::parse_http_date(text).ok()?;
    Some(until.duration_since(SystemTime::now()).unwrap_or_default())
}

pub(crate) fn broken(error: reqwest::Error) -> BackendError {
    Kind::Broken { source: Cause::new(error) }.into()
}

pub(crate) fn malformed(error: serde_json::Error) -> BackendError {
    Kind::Malformed { source: Cause::new(error) }.into()
}
