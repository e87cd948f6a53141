//! Backends that answer chat requests: the interface between protocols and models.
//!
//! A [`ChatBackend`] takes the JSON body of a chat request and returns the JSON body of the answer.
//! [`RemoteBackend`] sends requests to a server that speaks OpenAI's protocol, and retries by a
//! [`RetryPolicy`]. [`ScriptedBackend`] answers from a list, for tests. [`quota::Metered`] limits
//! the tokens and the time of any backend. A [`PromptRunner`] sends requests to one model of a
//! backend; a [`Plan`] has the messages and fields of a request. A
//! [`RequestBudget`] counts and limits the HTTP requests of a run.
//!
//! # Limits
//! The crate reads no environment variables and no files. Callers supply URLs, keys and limits.

mod capabilities;
mod collected;
mod decision;
mod dialect;
mod error;
mod prompt;
pub mod quota;
mod remote;
mod requests;
mod retry;
mod safety;
mod scripted;
mod sse;
mod subject;
mod support;

use futures_util::future::{BoxFuture, ready};
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};

pub use capabilities::{Capabilities, Feature};
pub use collected::{StreamEvent, StreamReceiver, collect_stream};
pub use decision::{Chosen, DecisionCost, DecisionOption, Predicted};
pub use dialect::{Adjustment, Dialect, TokenLimitField};
pub use error::{BackendError, Category, Interruption, innermost};
pub use prompt::{Plan, PromptRunner, Reply, merge};
pub use remote::RemoteBackend;
pub use requests::RequestBudget;
pub use retry::{Retry, RetryCause, RetryPolicy};
pub use scripted::ScriptedBackend;
pub use support::{ModelSupport, Notice, SupportMemory};

/// Body of a `POST /v1/chat/completions` request, without the `stream` field.
pub type Body = Map<String, Value>;

/// Chunks of a streamed answer, in the order of arrival. Each chunk is a `chat.completion.chunk`
/// object.
pub type Chunks = BoxStream<'static, Result<Value, BackendError>>;

/// Complete answer to a chat request.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// Body of the answer, unmodified. Callers must expect fields that a provider adds or omits.
    pub body: Value,
    /// Number of times the request was sent, at least 1.
    pub attempts: u32,
    /// Category of the error that caused each retry, in order.
    pub retried: Vec<Category>,
}

/// Answers chat requests.
///
/// Bodies are JSON instead of types, because providers differ in the fields that they add and in
/// the meaning of the common fields.
pub trait ChatBackend: Send + Sync {
    /// Returns the name of the backend for records, such as `local` or the host of a server.
    fn name(&self) -> &str;

    /// Sends the chat request `body` and waits for the complete answer.
    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>>;

    /// Sends the chat request `body` and returns the answer as a stream. Dropping the stream
    /// cancels the answer.
    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>>;

    /// Sends the chat request `body` and reports the answer while it arrives. Returns the whole
    /// answer. Where [`chat`](Self::chat) sends a request again, this method does the same, and
    /// reports [`StreamEvent::Restarted`].
    ///
    /// The default opens one stream and collects its first choice.
    fn chat_streamed<'a>(
        &'a self,
        body: &'a Body,
        receiver: StreamReceiver<'a>,
    ) -> BoxFuture<'a, Result<Answer, BackendError>> {
        Box::pin(async move {
            let body = collect_stream(self.stream(body).await?, receiver).await?;
            Ok(Answer { body, attempts: 1, retried: Vec::new() })
        })
    }

    /// Sends the body of a request to `/v1/decisions`, and returns the body of the response. The
    /// default refuses the request. The request is sent once, because its callers can go on without an
    /// answer.
    ///
    /// [`PromptRunner::choose`] and [`PromptRunner::predict`] build the request and read the
    /// response.
    fn decide<'a>(&'a self, _body: &'a Body) -> BoxFuture<'a, Result<Value, BackendError>> {
        Box::pin(ready(Err(error::Kind::DecisionsUnsupported.into())))
    }

    /// Returns the constraints that the backend can enforce on the output of `model`. Returns
    /// `None` if they are not known without sending a request.
    fn known_capabilities(&self, _model: &str) -> Option<Capabilities> {
        None
    }

    /// Returns the constraints that the backend can enforce on the output of `model`. The backend
    /// may send requests to determine them.
    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>>;

    /// Reports whether the backend can enforce `feature` on the output of `model`. The backend may
    /// send one request to determine this.
    fn supports<'a>(&'a self, model: &'a str, feature: Feature) -> BoxFuture<'a, Result<bool, BackendError>> {
        let known = self.known_capabilities(model);
        Box::pin(async move {
            match known {
                Some(known) => Ok(known.has(feature)),
                None => Ok(self.capabilities(model).await?.has(feature)),
            }
        })
    }

    /// Returns the place of the memory, such as a file, if what the backend knows about `model` comes
    /// from an earlier process.
    fn remembered_in(&self, _model: &str) -> Option<String> {
        None
    }

    /// Reports to the backend that an answer of `model` did not satisfy a constraint that the
    /// request set. If the next answer does not satisfy the constraint either, later requests need
    /// not rely on it.
    fn refute(&self, _model: &str, _feature: Feature) {}

    /// Reports to the backend that an answer of `model` satisfied a constraint that the request set.
    fn confirm(&self, _model: &str, _feature: Feature) {}
}
