//! A backend that keeps its last error.

use std::sync::{Arc, Mutex, PoisonError};

use formwork_protocol::{
    Answer, BackendError, Body, Capabilities, ChatBackend, Chunks, Feature, StreamReceiver, collect_stream,
};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{StreamExt, TryStreamExt};
use serde_json::Value;

use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::local::{LocalBackend, refusal};
use crate::providers::RemoteProvider;

/// Wraps a backend and keeps its last error, so that the response can report the full error.
pub(super) struct Watched {
    inner: Inner,
    failed: Failed,
}

/// The last error, which streams outlive.
#[derive(Clone, Default)]
struct Failed(Arc<Mutex<Option<ApiError>>>);

impl Failed {
    fn keep(&self, error: ApiError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// Keeps the error and returns it as an error of a backend.
    fn refusal(&self, error: ApiError) -> BackendError {
        let told = refusal(&error);
        self.keep(error);
        told
    }
}

enum Inner {
    Local(LocalBackend),
    Remote { name: String, backend: Arc<dyn ChatBackend> },
}

impl Watched {
    /// Wraps the backend of `provider`, or of the models of `app`.
    pub(super) fn new(app: &App, provider: Option<&RemoteProvider>) -> Self {
        let inner = match provider {
            None => Inner::Local(LocalBackend::new(app.clone())),
            Some(provider) => {
                Inner::Remote { name: provider.name.clone(), backend: Arc::clone(&provider.backend) }
            }
        };
        Self { inner, failed: Failed::default() }
    }

    /// Returns the last error and forgets it.
    pub(super) fn take(&self) -> Option<ApiError> {
        self.failed.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) const fn is_remote(&self) -> bool {
        matches!(self.inner, Inner::Remote { .. })
    }

    fn backend(&self) -> &dyn ChatBackend {
        match &self.inner {
            Inner::Local(backend) => backend,
            Inner::Remote { backend, .. } => &**backend,
        }
    }
}

impl ChatBackend for Watched {
    fn name(&self) -> &str {
        self.backend().name()
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        async move {
            match &self.inner {
                Inner::Local(backend) => match backend.answer(body).await {
                    Ok(body) => Ok(Answer { body, attempts: 1, retried: Vec::new() }),
                    Err(error) => Err(self.failed.refusal(error)),
                },
                Inner::Remote { name, backend } => backend.chat(body).await.inspect_err(|source| {
                    self.failed.keep(Kind::Upstream { name: name.clone(), source: source.clone() }.into());
                }),
            }
        }
        .boxed()
    }

    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        async move {
            let failed = self.failed.clone();
            match &self.inner {
                Inner::Local(backend) => {
                    let chunks = backend.chunks(body).await.map_err(|error| self.failed.refusal(error))?;
                    Ok(chunks.map_err(move |error| failed.refusal(error)).boxed())
                }
                Inner::Remote { name, backend } => {
                    let name = name.clone();
                    let keep = move |source: &BackendError| {
                        failed.keep(Kind::Upstream { name: name.clone(), source: source.clone() }.into());
                    };
                    let chunks = backend.stream(body).await.inspect_err(&keep)?;
                    Ok(chunks.inspect_err(keep).boxed())
                }
            }
        }
        .boxed()
    }

    fn chat_streamed<'a>(
        &'a self,
        body: &'a Body,
        receiver: StreamReceiver<'a>,
    ) -> BoxFuture<'a, Result<Answer, BackendError>> {
        async move {
            match &self.inner {
                Inner::Local(_) => {
                    let body = collect_stream(self.stream(body).await?, receiver).await?;
                    Ok(Answer { body, attempts: 1, retried: Vec::new() })
                }
                Inner::Remote { name, backend } => {
                    backend.chat_streamed(body, receiver).await.inspect_err(|source| {
                        self.failed
                            .keep(Kind::Upstream { name: name.clone(), source: source.clone() }.into());
                    })
                }
            }
        }
        .boxed()
    }

    /// Passes the question on. Its error is not the error of the run, which goes on without an answer.
    fn decide<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Value, BackendError>> {
        self.backend().decide(body)
    }

    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        self.backend().capabilities(model)
    }

    fn known_capabilities(&self, model: &str) -> Option<Capabilities> {
        self.backend().known_capabilities(model)
    }

    fn supports<'a>(&'a self, model: &'a str, feature: Feature) -> BoxFuture<'a, Result<bool, BackendError>> {
        self.backend().supports(model, feature)
    }

    fn refute(&self, model: &str, feature: Feature) {
        self.backend().refute(model, feature);
    }

    fn remembered_in(&self, model: &str) -> Option<String> {
        self.backend().remembered_in(model)
    }

    fn confirm(&self, model: &str, feature: Feature) {
        self.backend().confirm(model, feature);
    }
}
