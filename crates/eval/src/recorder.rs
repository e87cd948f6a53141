use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

use formwork_backend::{
    Answer, BackendError, Body, Capabilities, ChatBackend, Chunks, Feature, StreamReceiver,
};

/// A backend that passes requests to another backend and records all requests and answers. The
/// judge therefore sees the answers as they were received, before a runner interprets them.
pub(super) struct Recorder {
    inner: Arc<dyn ChatBackend>,
    seen: Mutex<Vec<Recorded>>,
}

/// A recorded request, its answer and the time until the answer.
pub(super) struct Recorded {
    pub(super) body: Body,
    pub(super) answer: Result<Answer, BackendError>,
    pub(super) latency: Duration,
}

impl Recorder {
    pub(super) fn new(inner: Arc<dyn ChatBackend>) -> Self {
        Self { inner, seen: Mutex::default() }
    }

    /// Returns everything recorded since the last call, in order, and removes it.
    pub(super) fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Recorded {
    /// Returns the message of the answer. Returns `None` if there was no answer, or an answer
    /// without a message.
    pub(super) fn message(&self) -> Option<&Value> {
        self.answer.as_ref().ok()?.body.get("choices")?.get(0)?.get("message")
    }

    pub(super) fn finish_reason(&self) -> Option<&str> {
        self.answer.as_ref().ok()?.body.get("choices")?.get(0)?.get("finish_reason")?.as_str()
    }

    pub(super) fn messages(&self) -> &[Value] {
        self.body.get("messages").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

impl ChatBackend for Recorder {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        async move {
            let started = Instant::now();
            let answer = self.inner.chat(body).await;
            let recorded =
                Recorded { body: body.clone(), answer: answer.clone(), latency: started.elapsed() };
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(recorded);
            answer
        }
        .boxed()
    }

    /// Passes the request on without recording it, because evaluations do not use streams.
    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        self.inner.stream(body)
    }

    fn chat_streamed<'a>(
        &'a self,
        body: &'a Body,
        receiver: StreamReceiver<'a>,
    ) -> BoxFuture<'a, Result<Answer, BackendError>> {
        self.inner.chat_streamed(body, receiver)
    }

    /// Passes the question on without recording it: its answer is no text of the model.
    fn decide<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Value, BackendError>> {
        self.inner.decide(body)
    }

    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        self.inner.capabilities(model)
    }

    fn known_capabilities(&self, model: &str) -> Option<Capabilities> {
        self.inner.known_capabilities(model)
    }

    fn supports<'a>(&'a self, model: &'a str, feature: Feature) -> BoxFuture<'a, Result<bool, BackendError>> {
        self.inner.supports(model, feature)
    }

    fn refute(&self, model: &str, feature: Feature) {
        self.inner.refute(model, feature);
    }

    fn remembered_in(&self, model: &str) -> Option<String> {
        self.inner.remembered_in(model)
    }

    fn confirm(&self, model: &str, feature: Feature) {
        self.inner.confirm(model, feature);
    }
}
