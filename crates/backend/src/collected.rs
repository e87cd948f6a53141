//! Collects the chunks of a streamed answer.

use std::ops::ControlFlow;

use futures_util::{Stream, StreamExt};
use serde_json::{Value, json};

use super::{BackendError, Body};

/// Event of a request whose answer is reported while it arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StreamEvent<'c> {
    /// The request is sent again. The chunks so far are void.
    Restarted,
    /// A `chat.completion.chunk` object.
    Chunk(&'c Value),
}

/// Receiver of the events of a streamed request. A receiver that needs no more of the answer returns
/// [`ControlFlow::Break`].
pub type StreamReceiver<'a> = &'a (dyn Fn(StreamEvent<'_>) -> ControlFlow<()> + Send + Sync);

/// The parts of an answer's first choice so far.
#[derive(Default)]
struct Collected {
    content: String,
    refusal: String,
    has_calls: bool,
    finish_reason: Option<String>,
    closed_by_budget: bool,
    usage: Option<Value>,
}

/// Reports each chunk, and returns the answer in the form of an answer that was not streamed. If the
/// receiver stops, the answer has no `finish_reason`.
///
/// # Errors
/// Returns the error that interrupts the stream.
pub async fn collect_stream(
    mut chunks: impl Stream<Item = Result<Value, BackendError>> + Send + Unpin,
    receiver: StreamReceiver<'_>,
) -> Result<Value, BackendError> {
    let mut answer = Collected::default();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        answer.take(&chunk);
        if receiver(StreamEvent::Chunk(&chunk)).is_break() {
            break;
        }
    }
    Ok(answer.body())
}

/// Returns a whole answer as a single chunk.
pub(super) fn as_chunk(mut answer: Value) -> Value {
    answer["object"] = json!("chat.completion.chunk");
    for choice in answer["choices"].as_array_mut().into_iter().flatten().filter(|choice| choice.is_object()) {
        choice["delta"] = choice["message"].take();
    }
    answer
}

impl Collected {
    /// Adds a chunk of the first choice.
    fn take(&mut self, chunk: &Value) {
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage.clone());
        }
        let Some(choice) = chunk.pointer("/choices/0") else { return };
        let text = |name: &str| choice["delta"][name].as_str().unwrap_or_default();
        self.content += text("content");
        self.refusal += text("refusal");
        self.has_calls |= choice["delta"]["tool_calls"].is_array();
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish_reason = Some(reason.to_owned());
        }
        self.closed_by_budget |= choice["closed_by_budget"] == true;
    }

    fn body(self) -> Value {
        let mut message = Body::new();
        message.insert("role".to_owned(), "assistant".into());
        message.insert("content".to_owned(), self.content.into());
        if !self.refusal.is_empty() {
            message.insert("refusal".to_owned(), self.refusal.into());
        }
        if self.has_calls {
            message.insert("tool_calls".to_owned(), json!([]));
        }
        let mut choice = json!({ "index": 0, "message": message, "finish_reason": self.finish_reason });
        if self.closed_by_budget {
            choice["closed_by_budget"] = true.into();
        }
        let mut body = json!({ "choices": [choice] });
        if let Some(usage) = self.usage {
            body["usage"] = usage;
        }
        body
    }
}
