use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::{Answer, BackendError, Body, Capabilities, ChatBackend, Chunks};

/// A backend that remembers what it was asked and what it answered. So what is judged is what went over the seam, whatever those
/// who sent it made of it.
pub(super) struct Recorder {
    inner: Arc<dyn ChatBackend>,
    seen: Mutex<Vec<Recorded>>,
}

/// A request with what came of it.
pub(super) struct Recorded {
    pub(super) body: Body,
    pub(super) answer: Result<Answer, BackendError>,
    pub(super) latency: Duration,
}

impl Recorder {
    pub(super) fn new(inner: Arc<dyn ChatBackend>) -> Self {
        Self { inner, seen: Mutex::default() }
    }

    /// What was seen so far, which is then forgotten.
    pub(super) fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Recorded {
    /// The answer's message.
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

    /// Evaluations stream nothing; what streams is not remembered.
    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        self.inner.stream(body)
    }

    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        self.inner.capabilities(model)
    }

    fn known_capabilities(&self, model: &str) -> Option<Capabilities> {
        self.inner.known_capabilities(model)
    }
}
