mod learned;
mod wire;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use serde_json::Value;
use tokio::time::Instant;

use super::error::{Cause, Kind};
use super::{
    Answer, BackendError, Body, Capabilities, Category, ChatBackend, Chunks, Dialect, Feature, ModelSupport,
    Notice, RequestBudget, Retry, RetryPolicy, StreamEvent, StreamReceiver, SupportMemory,
};
pub(super) use wire::{ANSWER, broken, check, malformed};

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
    notices: Arc<dyn Fn(&Notice) + Send + Sync>,
    /// Capabilities and dialect as declared by the caller.
    declared: Option<Capabilities>,
    dialect: Dialect,
    memory: Option<Arc<dyn SupportMemory>>,
    /// Findings from probes and refused requests, by model name.
    found: Mutex<HashMap<String, ModelSupport>>,
    /// Models whose findings come from the memory.
    recalled: Mutex<HashSet<String>>,
    /// Models for which the user knows that no temperature is sent.
    told: Mutex<HashSet<String>>,
    /// Held while probing, so that concurrent callers wait instead of probing too.
    probing: tokio::sync::Mutex<()>,
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
            notices: Arc::new(|_| {}),
            declared: None,
            dialect: Dialect::default(),
            memory: None,
            found: Mutex::default(),
            recalled: Mutex::default(),
            told: Mutex::default(),
            probing: tokio::sync::Mutex::default(),
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

    /// Sets the timeout for each whole answer, streamed or not. Each retry has the full timeout. The
    /// default is 10 minutes.
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

    /// Sets a callback for what a user should know although no request failed.
    #[must_use]
    pub fn on_notice(mut self, notices: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        self.notices = Arc::new(notices);
        self
    }

    /// Declares the constraints that the server enforces, for all models. Models are then not
    /// probed.
    #[must_use]
    pub const fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.declared = Some(capabilities);
        self
    }

    /// Declares the form of requests that the server accepts, for all models. Undeclared parts are
    /// learned from refused requests.
    #[must_use]
    pub const fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets a storage for what is found out about models.
    #[must_use]
    pub fn with_memory(mut self, memory: Arc<dyn SupportMemory>) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Returns the URL to which requests are sent.
    pub fn endpoint(&self) -> &str {
        self.endpoint.as_str()
    }

    /// Runs `attempt` until it succeeds or the retry policy ends the retries. Adds the category of
    /// the error that caused each retry to `retried`, in order.
    async fn retried<'a, T>(
        &self,
        attempt: impl Fn() -> BoxFuture<'a, Result<T, BackendError>>,
        retried: &mut Vec<Category>,
    ) -> Result<T, BackendError> {
        let started = Instant::now();
        let before = retried.len();
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let attempts = (retried.len() - before) as u32 + 1;
            let Some(retry) = self.retry.next(&error, attempts, started) else { return Err(error) };
            if RequestBudget::is_current_spent() {
                return Err(error);
            }
            tracing::info!(backend = self.name, attempt = retry.attempt, pause = ?retry.pause, %error, "retrying the request");
            (self.progress)(&retry);
            tokio::time::sleep(retry.pause).await;
            retried.push(error.category());
        }
    }

    /// Sends `body` by `attempt`, in the dialect of the server. If the server refuses a field that
    /// can be renamed or omitted, the request is sent again. The dialect is remembered if the server
    /// answers.
    async fn adjusted<'a, T>(
        &self,
        body: &Body,
        attempt: impl Fn(Arc<Body>) -> BoxFuture<'a, Result<T, BackendError>>,
    ) -> Result<(T, Vec<Category>), BackendError> {
        let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
        let mut dialect = self.dialect.or(self.support(model).dialect);
        if dialect.drops_temperature(body) {
            self.tell_once(model);
        }
        let (mut adjustments, mut retried, mut first) = (Vec::new(), Vec::new(), None);
        loop {
            let sent = Arc::new(dialect.spoken(body));
            let error = match self.retried(|| attempt(Arc::clone(&sent)), &mut retried).await {
                Ok(done) => {
                    self.learn(model, &adjustments, dialect);
                    return Ok((done, retried));
                }
                Err(error) => error,
            };
            let adjustment = dialect.adjust(&error, &sent).filter(|_| !RequestBudget::is_current_spent());
            let Some(adjustment) = adjustment else {
                let is_refused = adjustments.iter().any(|adjustment| adjustment.is_refused(&error));
                // The first error is about the request as the caller wrote it.
                return Err(first.filter(|_| is_refused).unwrap_or(error));
            };
            adjustments.push(adjustment);
            retried.push(error.category());
            first.get_or_insert(error);
        }
    }
}

impl ChatBackend for RemoteBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        async move {
            let send = |body: Arc<Body>| async move { self.within(self.whole(&body)).await }.boxed();
            let (body, retried) = self.adjusted(body, send).await?;
            Ok(Answer { body, attempts: retried.len() as u32 + 1, retried })
        }
        .boxed()
    }

    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        async move {
            let mut body = body.clone();
            body.insert("stream".to_owned(), true.into());
            let send = |body: Arc<Body>| async move { self.open(&body).await }.boxed();
            Ok(self.adjusted(&body, send).await?.0)
        }
        .boxed()
    }

    fn chat_streamed<'a>(
        &'a self,
        body: &'a Body,
        receiver: StreamReceiver<'a>,
    ) -> BoxFuture<'a, Result<Answer, BackendError>> {
        async move {
            let mut body = body.clone();
            body.insert("stream".to_owned(), true.into());
            let sent = AtomicBool::new(false);
            let send = |body: Arc<Body>| {
                let is_again = sent.swap(true, Ordering::Relaxed);
                async move {
                    if is_again {
                        let _ = receiver(StreamEvent::Restarted);
                    }
                    self.within(self.collected(&body, receiver)).await
                }
                .boxed()
            };
            let (body, retried) = self.adjusted(&body, send).await?;
            Ok(Answer { body, attempts: retried.len() as u32 + 1, retried })
        }
        .boxed()
    }

    fn decide<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Value, BackendError>> {
        self.within(self.decided(body)).boxed()
    }

    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        async move {
            let mut found = Vec::new();
            for feature in Feature::ALL {
                if self.supports(model, feature).await? {
                    found.push(feature);
                }
            }
            Ok(found.into_iter().collect())
        }
        .boxed()
    }

    fn known_capabilities(&self, model: &str) -> Option<Capabilities> {
        self.declared.or_else(|| self.support(model).capabilities())
    }

    fn supports<'a>(&'a self, model: &'a str, feature: Feature) -> BoxFuture<'a, Result<bool, BackendError>> {
        async move {
            if let Some(known) = self.known(model, feature) {
                return Ok(known);
            }
            let _probing = self.probing.lock().await;
            if let Some(known) = self.known(model, feature) {
                return Ok(known);
            }
            (self.notices)(&Notice::Probing { model: model.to_owned(), feature });
            let is_supported = feature.probe(self, model).await?;
            tracing::info!(backend = self.name, model, feature = feature.name(), is_supported, "probed");
            self.change(model, |support| support.set(feature, is_supported));
            Ok(is_supported)
        }
        .boxed()
    }

    fn remembered_in(&self, model: &str) -> Option<String> {
        let is_recalled = self.declared.is_none() && lock(&self.recalled).contains(model);
        self.memory.as_ref().filter(|_| is_recalled)?.place()
    }

    fn refute(&self, model: &str, feature: Feature) {
        self.doubt(model, feature);
    }

    fn confirm(&self, model: &str, feature: Feature) {
        self.trust(model, feature);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
