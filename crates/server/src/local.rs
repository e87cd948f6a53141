use formwork_openai::ChatRequest;
use formwork_protocol::{Answer as Answered, BackendError, Body, Capabilities, ChatBackend, Chunks};
use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use serde_json::Value;

use crate::answer::Answer;
use crate::app::App;
use crate::chat::{Started, collect};
use crate::decisions;
use crate::error::ApiError;
use crate::stream::{self, Frame};

/// A chat request whose generation has started.
struct Begun {
    started: Started,
    answer: Answer,
    request: ChatRequest,
}

/// In-process backend for the models of an [`App`]. Requests get the same answers as over HTTP.
#[derive(Clone)]
pub struct LocalBackend {
    app: App,
}

impl LocalBackend {
    /// Creates a backend for the models of `app`.
    pub const fn new(app: App) -> Self {
        Self { app }
    }

    async fn start(&self, body: &Body) -> Result<Begun, ApiError> {
        let request = ChatRequest::from_fields(body.clone())?;
        self.app.check_ignored(&request.ignored)?;
        let served = self.app.model(&request.model).await?;
        let answer = Answer::new("chatcmpl-", &served.model.id);
        let started = Started::new(&self.app, served, request.clone()).await?;
        Ok(Begun { started, answer, request })
    }

    /// Starts an answer and returns its chunks.
    pub(crate) async fn chunks(
        &self,
        body: &Body,
    ) -> Result<BoxStream<'static, Result<Value, ApiError>>, ApiError> {
        let Begun { started, answer, request } = self.start(body).await?;
        let frames = stream::frames(started, answer, request.stream.unwrap_or_default());
        let chunks = frames.filter_map(|frame| {
            ready(match frame {
                Frame::Chunk(chunk) => Some(Ok(json(&chunk))),
                Frame::Failed(error) => Some(Err(error)),
                Frame::Done => None,
            })
        });
        Ok(chunks.boxed())
    }

    pub(crate) async fn answer(&self, body: &Body) -> Result<Value, ApiError> {
        let Begun { started, answer, request } = self.start(body).await?;
        let completion = collect(started, &answer, request.logprobs.is_some()).await?;
        Ok(json(&completion))
    }
}

impl ChatBackend for LocalBackend {
    fn name(&self) -> &'static str {
        "local"
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answered, BackendError>> {
        async move {
            let body = self.answer(body).await.map_err(|error| refusal(&error))?;
            Ok(Answered { body, attempts: 1, retried: Vec::new() })
        }
        .boxed()
    }

    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        async move {
            let chunks = self.chunks(body).await.map_err(|error| refusal(&error))?;
            Ok(chunks.map_err(|error| refusal(&error)).boxed())
        }
        .boxed()
    }

    fn decide<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Value, BackendError>> {
        async move {
            let request = serde_json::to_vec(body).unwrap_or_default();
            let answered = decisions::answer(&self.app, &request).await;
            let (answer, _) = answered.map_err(|error| refusal(&error))?;
            Ok(json(&answer))
        }
        .boxed()
    }

    fn known_capabilities(&self, _: &str) -> Option<Capabilities> {
        Some(Capabilities::all())
    }

    fn capabilities<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        ready(Ok(Capabilities::all())).boxed()
    }
}

/// Converts a wire type to JSON. Wire types are plain data, so serialization cannot fail.
fn json(data: &impl serde::Serialize) -> Value {
    serde_json::to_value(data).unwrap_or_default()
}

/// Converts an API error to the backend error that an HTTP client would see.
pub(crate) fn refusal(error: &ApiError) -> BackendError {
    BackendError::from_status(error.status().as_u16(), &json(&error.body()).to_string())
}
