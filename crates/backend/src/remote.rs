use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::error::{Cause, Kind};
use super::{
    Answer, BackendError, Body, Capabilities, Category, ChatBackend, Chunks, Retry, RetryPolicy, sse,
};

/// Maximum size of an answer, in bytes.
const ANSWER: usize = 64 << 20;
/// Maximum size of an error body, in bytes.
const ERROR: usize = 64 << 10;

/// A server that speaks OpenAI's chat protocol.
///
/// The address has three parts, as providers document it: a base URL, a prefix and the endpoint
/// `/chat/completions`. The default prefix is `/v1`, or empty if the base URL already ends in a
/// version. Both `https://api.openai.com` and `https://api.openai.com/v1` therefore work.
///
/// ```
/// use formwork_backend::RemoteBackend;
/// let backend = RemoteBackend::new("http://127.0.0.1:8080")?.with_key("secret")?;
/// assert_eq!(backend.endpoint(), "http://127.0.0.1:8080/v1/chat/completions");
/// let backend = RemoteBackend::with_prefix("https://openrouter.ai/api", "/v1")?;
/// assert_eq!(backend.endpoint(), "https://openrouter.ai/api/v1/chat/completions");
/// # Ok::<(), formwork_backend::BackendError>(())
/// ```
pub struct RemoteBackend {
    client: Client,
    endpoint: Url,
    name: String,
    headers: HeaderMap,
    timeout: Duration,
    retry: RetryPolicy,
    progress: Arc<dyn Fn(&Retry) + Send + Sync>,
    /// Probed capabilities, by model name.
    probed: Mutex<HashMap<String, Capabilities>>,
}

impl RemoteBackend {
    /// Creates a backend from a base URL, with or without a version at the end.
    ///
    /// # Errors
    /// Returns an error if `base` is not the URL of an HTTP server.
    pub fn new(base: &str) -> Result<Self, BackendError> {
        let last = base.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let version =
            last.strip_prefix('v').is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit()));
        Self::with_prefix(base, if version { "" } else { "/v1" })
    }

    /// Creates a backend from a base URL and the prefix of its endpoints.
    ///
    /// # Errors
    /// Returns an error if `base` and `prefix` do not form the URL of an HTTP server.
    pub fn with_prefix(base: &str, prefix: &str) -> Result<Self, BackendError> {
        let invalid = |source: Cause| Kind::Url { given: base.to_owned(), source };
        let parts = [base, prefix].map(|part| part.trim_matches('/'));
        let given: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let endpoint = Url::parse(&format!("{}/chat/completions", given.join("/")))
            .map_err(|error| invalid(Cause::new(error)))?;
        if !matches!(endpoint.scheme(), "http" | "https") {
            let (given, scheme) = (base.to_owned(), endpoint.scheme().to_owned());
            return Err(Kind::Scheme { given, scheme }.into());
        }
        // Installation fails if the process already has a TLS provider. That provider works as
        // well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client =
            Client::builder().connect_timeout(Duration::from_secs(10)).redirect(Policy::none()).build();
        Ok(Self {
            client: client.map_err(|error| invalid(Cause::new(error)))?,
            name: endpoint.host_str().unwrap_or_default().to_owned(),
            endpoint,
            headers: HeaderMap::new(),
            timeout: Duration::from_secs(600),
            retry: RetryPolicy::default(),
            progress: Arc::new(|_| {}),
            probed: Mutex::default(),
        })
    }

    /// Sends a key with every request, as `authorization: Bearer KEY`.
    ///
    /// # Errors
    /// Returns an error if the key contains characters that are not allowed in a header.
    pub fn with_key(mut self, key: &str) -> Result<Self, BackendError> {
        let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| Kind::Key)?;
        value.set_sensitive(true);
        self.headers.insert(AUTHORIZATION, value);
        Ok(self)
    }

    /// Adds a header to every request.
    ///
    /// # Errors
    /// Returns an error if the name or the value is not valid in a header.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, BackendError> {
        let fault = || Kind::Header { name: name.to_owned() };
        let value = HeaderValue::try_from(value).map_err(|_| fault())?;
        self.headers.insert(HeaderName::try_from(name).map_err(|_| fault())?, value);
        Ok(self)
    }

    /// Sets the timeout for an answer, and for the wait between two chunks of a stream. The default
    /// is 10 minutes.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the retry policy.
    #[must_use]
    pub const fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets a callback that is called before the pause of each retry.
    #[must_use]
    pub fn on_retry(mut self, progress: impl Fn(&Retry) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Returns the URL to which requests are sent.
    pub fn endpoint(&self) -> &str {
        self.endpoint.as_str()
    }

    /// Runs `attempt` until it succeeds or the retry policy ends the retries. Returns the result
    /// with the category of the error that caused each retry, in order.
    async fn retried<'a, T>(
        &self,
        attempt: impl Fn() -> BoxFuture<'a, Result<T, BackendError>>,
    ) -> Result<(T, Vec<Category>), BackendError> {
        let started = Instant::now();
        let mut retried = Vec::new();
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok((done, retried)),
                Err(error) => error,
            };
            let attempts = retried.len() as u32 + 1;
            let Some(retry) = self.retry.next(&error, attempts, started) else { return Err(error) };
            tracing::info!(backend = self.name, attempt = retry.attempt, pause = ?retry.pause, %error, "retrying the request");
            (self.progress)(&retry);
            tokio::time::sleep(retry.pause).await;
            retried.push(error.category());
        }
    }

    /// Sends `body` and returns the response if its status is 2xx.
    async fn send(&self, body: &Body) -> Result<Response, BackendError> {
        let request = self.client.post(self.endpoint.clone()).headers(self.headers.clone()).json(body);
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

    async fn whole(&self, body: &Body) -> Result<Value, BackendError> {
        let bytes = read(self.send(body).await?, ANSWER).await?;
        check(serde_json::from_slice(&bytes).map_err(malformed)?)
    }

    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let limit = self.timeout;
        tokio::time::timeout(limit, work).await.map_err(|_| Kind::Timeout { limit })?
    }
}

impl ChatBackend for RemoteBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        async move {
            let (body, retried) = self.retried(|| self.within(self.whole(body)).boxed()).await?;
            Ok(Answer { body, attempts: retried.len() as u32 + 1, retried })
        }
        .boxed()
    }

    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        async move {
            let mut body = body.clone();
            body.insert("stream".to_owned(), true.into());
            let (response, _) = self.retried(|| self.within(self.send(&body)).boxed()).await?;
            Ok(sse::chunks(response, self.timeout).boxed())
        }
        .boxed()
    }

    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        async move {
            // The lock is held while probing, so that concurrent callers wait instead of probing
            // too.
            let mut probed = self.probed.lock().await;
            if let Some(&known) = probed.get(model) {
                return Ok(known);
            }
            let found = Capabilities::probe(self, model).await?;
            tracing::info!(backend = self.name, model, %found, "probed the capabilities");
            probed.insert(model.to_owned(), found);
            Ok(found)
        }
        .boxed()
    }

    fn known_capabilities(&self, model: &str) -> Option<Capabilities> {
        self.probed.try_lock().ok()?.get(model).copied()
    }
}

/// Returns `body` if it has the shape of an answer. Otherwise returns an error, since some gateways
/// send status 200 with an error in the body.
fn check(body: Value) -> Result<Value, BackendError> {
    if body.get("choices").is_some_and(Value::is_array) {
        return Ok(body);
    }
    match body.get("error") {
        Some(error) if !error.is_null() => {
            let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            let status = status.filter(|status| (400..600).contains(status)).unwrap_or(502);
            Err(BackendError::from_status(status, &body.to_string()))
        }
        _ => Err(Kind::NoChoices.into()),
    }
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

fn unreachable(error: reqwest::Error) -> BackendError {
    Kind::Connection { source: Cause::new(error) }.into()
}

fn broken(error: reqwest::Error) -> BackendError {
    Kind::Broken { source: Cause::new(error) }.into()
}

pub(super) fn malformed(error: serde_json::Error) -> BackendError {
    Kind::Malformed { source: Cause::new(error) }.into()
}
