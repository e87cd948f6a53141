//! Backends that answer chat requests.

mod capabilities;
mod error;
mod remote;
mod retry;
mod scripted;
mod sse;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};

pub use capabilities::{Capabilities, Feature};
pub use error::{BackendError, Category, Interruption};
pub use remote::RemoteBackend;
#[cfg(feature = "mcp")]
pub(crate) use remote::innermost;
pub use retry::{Retry, RetryCause, RetryPolicy};
pub use scripted::ScriptedBackend;

/// Body of a `POST /v1/chat/completions` request, without the `stream` field.
pub type Body = Map<String, Value>;

/// Chunks of a streamed answer, in the order of arrival.
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
    /// Returns the backend's name in records: `local`, or the host of a server.
    fn name(&self) -> &str;

    /// Answers a chat request.
    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>>;

    /// Answers a chat request as a stream. Dropping the stream cancels the answer.
    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>>;

    /// Returns the constraints that `model` can be held to, if they are known without a request.
    fn known_capabilities(&self, _model: &str) -> Option<Capabilities> {
        None
    }

    /// Returns the constraints that `model` can be held to. The backend may send requests to find
    /// out.
    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>>;
}
