use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::TokenLogprob;

/// Reply to `/api/chat` or `/api/generate`, or one line of a streamed reply.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// Name under which the server offers the model.
    pub model: String,
    /// Time at which the reply was created, as [`timestamp`](super::timestamp) writes it.
    pub created_at: String,
    /// The message. In a stream, only its new part. Absent in replies to `/api/generate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<ReplyMessage>,
    /// The text. In a stream, only its new part. Absent in replies to `/api/chat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// Reasoning of the model. In a stream, only its new part. Absent in replies to `/api/chat`, where
    /// [`ReplyMessage::thinking`] is the reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Log-probabilities of the tokens of the text. Absent unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
    /// True in the last line of a stream, and in a whole reply.
    pub done: bool,
    /// End of the output. Only present if `done` is true.
    #[serde(flatten)]
    pub end: Option<ReplyEnd>,
}

/// Message of the assistant in a reply.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReplyMessage {
    /// Always `assistant`.
    pub role: String,
    /// Text of the message.
    pub content: String,
    /// Reasoning of the model. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Tool calls of the model. Absent if the model calls no tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ReplyCall>,
}

/// A tool call in a reply. A stream sends a call as a whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReplyCall {
    /// Unique id that starts with `call_`.
    pub id: String,
    /// Name and arguments of the called function.
    pub function: ReplyFunction,
}

/// Name and arguments of a called function.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReplyFunction {
    /// Index of the call in the message, starting at 0.
    pub index: usize,
    /// Name of the function.
    pub name: String,
    /// Arguments of the call: an object. A text if they are not JSON, or are nested too deeply.
    pub arguments: Value,
}

/// Reason why an output ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The output is complete, with or without calls.
    Stop,
    /// The token limit was reached.
    Length,
    /// The request only asked to load the model.
    Load,
    /// The request only asked to unload the model.
    Unload,
}

/// End of an output.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReplyEnd {
    /// Reason why the output ended.
    pub done_reason: EndReason,
    /// Times and token counts. Absent if the request only asked to load or unload the model.
    #[serde(flatten)]
    pub metrics: Option<Metrics>,
    /// True if a constrained output was closed early to stay within the token limit. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
    /// Names of tools whose schemas could not be enforced. The arguments of calls to these tools
    /// are any JSON object. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_schemas: Vec<String>,
}

/// Times in nanoseconds, and token counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Metrics {
    /// Time from the request to the end of the output.
    pub total_duration: u64,
    /// Time until the model was loaded.
    pub load_duration: u64,
    /// Number of tokens of the prompt.
    pub prompt_eval_count: usize,
    /// Time in which the model read the prompt.
    pub prompt_eval_duration: u64,
    /// Number of tokens of the output.
    pub eval_count: usize,
    /// Time in which the model wrote the output.
    pub eval_duration: u64,
}

impl ReplyMessage {
    /// Creates a message of the assistant. Empty reasoning is left out.
    pub fn new(content: String, thinking: String, tool_calls: Vec<ReplyCall>) -> Self {
        let thinking = Some(thinking).filter(|text| !text.is_empty());
        Self { role: "assistant".to_owned(), content, thinking, tool_calls }
    }
}

impl ReplyCall {
    /// Creates a call, whose arguments are given as JSON text.
    pub fn new(index: usize, id: String, name: String, arguments: String) -> Self {
        let arguments = formwork_json::from_str(&arguments).unwrap_or(Value::String(arguments));
        Self { id, function: ReplyFunction { index, name, arguments } }
    }
}
