//! Where chats are answered.

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
pub(crate) use remote::innermost;
pub use retry::{Retry, RetryCause, RetryPolicy};
pub use scripted::ScriptedBackend;

/// The body of a chat request, as `POST /v1/chat/completions` takes it, without `stream`.
pub type Body = Map<String, Value>;

/// The chunks of a streamed answer, as far as they came.
pub type Chunks = BoxStream<'static, Result<Value, BackendError>>;

/// A whole answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The body of the answer, as it came: what providers add or leave out is for the caller to see.
    pub body: Value,
    /// How often the request was sent, at least once.
    pub attempts: u32,
    /// Why it was sent again, each time.
    pub retried: Vec<Category>,
}

/// What answers chats.
///
/// Bodies are JSON rather than types, since what providers want beside the common fields, and what they make of the common ones, differs
/// without end.
pub trait ChatBackend: Send + Sync {
    /// What to call it in records: `local`, or where it is.
    fn name(&self) -> &str;

    /// Answers a chat.
    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>>;

    /// Answers a chat by and by. Dropping the stream gives up the answer.
    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>>;

    /// What `model` can be held to, where that is known without asking it.
    fn known_capabilities(&self, _model: &str) -> Option<Capabilities> {
        None
    }

    /// What `model` can be held to.
    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>>;
}
