use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, ready};
use futures_util::stream::{self, StreamExt};
use futures_util::{FutureExt, TryFutureExt};
use serde_json::{Value, json};

use super::collected::as_chunk;
use super::error::Kind;
use super::{Answer, BackendError, Body, Capabilities, ChatBackend, Chunks};

/// A backend with a fixed list of answers, which also records the requests.
///
/// ```
/// use formwork_backend::{ChatBackend, ScriptedBackend};
/// use serde_json::json;
///
/// let backend = ScriptedBackend::new([Ok(ScriptedBackend::says("Hi"))]);
/// let body = json!({"model": "m", "messages": []}).as_object().cloned().unwrap_or_default();
/// let answer = futures_util::FutureExt::now_or_never(backend.chat(&body)).expect("at once")?;
/// assert_eq!(answer.body["choices"][0]["message"]["content"], "Hi");
/// assert_eq!(backend.asked(), [body]);
/// # Ok::<(), formwork_backend::BackendError>(())
/// ```
pub struct ScriptedBackend {
    answers: Mutex<VecDeque<Result<Value, BackendError>>>,
    asked: Mutex<Vec<Body>>,
    capabilities: Capabilities,
}

impl ScriptedBackend {
    /// Creates a backend that returns `answers` in order, one for each request. Requests after the
    /// last answer fail.
    pub fn new(answers: impl IntoIterator<Item = Result<Value, BackendError>>) -> Self {
        let (answers, asked) = (Mutex::new(answers.into_iter().collect()), Mutex::default());
        Self { answers, asked, capabilities: Capabilities::all() }
    }

    /// Sets the capabilities that the backend reports. The default is all of them.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Creates the body of an answer with one choice, which has `message`.
    pub fn message(message: Value) -> Value {
        let called = message.get("tool_calls").is_some_and(|calls| !calls.is_null());
        let finish_reason = if called { "tool_calls" } else { "stop" };
        let mut choice = json!({ "index": 0, "finish_reason": finish_reason });
        choice["message"] = message;
        json!({ "id": "chatcmpl-script", "object": "chat.completion", "created": 0, "model": "script", "choices": [choice] })
    }

    /// Creates the body of an answer with a text message from the assistant.
    pub fn says(content: &str) -> Value {
        Self::message(json!({ "role": "assistant", "content": content }))
    }

    /// Creates the body of an answer with one call of the tool `name`. `id` is the ID of the call,
    /// and `arguments` is JSON text.
    pub fn calls(id: &str, name: &str, arguments: &str) -> Value {
        let function = json!({ "name": name, "arguments": arguments });
        let call = json!({ "id": id, "type": "function", "function": function });
        Self::message(json!({ "role": "assistant", "content": null, "tool_calls": [call] }))
    }

    /// Returns the bodies of all requests received so far, in order.
    pub fn asked(&self) -> Vec<Body> {
        lock(&self.asked).clone()
    }

    fn answer(&self, body: &Body) -> Result<Value, BackendError> {
        lock(&self.asked).push(body.clone());
        lock(&self.answers).pop_front().unwrap_or_else(|| Err(Kind::ScriptOver.into()))
    }
}

impl ChatBackend for ScriptedBackend {
    fn name(&self) -> &'static str {
        "script"
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        let answer = self.answer(body).map(|body| Answer { body, attempts: 1, retried: Vec::new() });
        ready(answer).boxed()
    }

    /// Streams the whole message as a single chunk.
    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        let chunk = |answer: Value| stream::iter([Ok(as_chunk(answer))]).boxed();
        ready(self.answer(body)).map_ok(chunk).boxed()
    }

    fn decide<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Value, BackendError>> {
        ready(self.answer(body)).boxed()
    }

    fn known_capabilities(&self, _: &str) -> Option<Capabilities> {
        Some(self.capabilities)
    }

    fn capabilities<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        ready(Ok(self.capabilities)).boxed()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
