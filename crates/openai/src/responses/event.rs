use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::{ContentPart, Item, Response};

/// An event of a streamed response. On the wire, each event also has its sequence number in the
/// stream, from 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type")]
#[allow(
    missing_docs,
    reason = "the fields are those of every event: which item, which part of it, what is new or whole"
)]
pub enum ResponseEvent {
    /// First event of the stream.
    #[serde(rename = "response.created")]
    Created { response: Response },
    /// Second event of the stream.
    #[serde(rename = "response.in_progress")]
    InProgress { response: Response },
    /// Start of an item.
    #[serde(rename = "response.output_item.added")]
    ItemAdded { output_index: usize, item: Item },
    /// Start of a content part.
    #[serde(rename = "response.content_part.added")]
    PartAdded { item_id: String, output_index: usize, content_index: usize, part: ContentPart },
    /// New text of a message.
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        item_id: String,
        output_index: usize,
        content_index: usize,
        delta: String,
        logprobs: Vec<Value>,
    },
    /// Whole text of a message.
    #[serde(rename = "response.output_text.done")]
    TextDone {
        item_id: String,
        output_index: usize,
        content_index: usize,
        text: String,
        logprobs: Vec<Value>,
    },
    /// New reasoning text.
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta { item_id: String, output_index: usize, content_index: usize, delta: String },
    /// Whole reasoning text.
    #[serde(rename = "response.reasoning_text.done")]
    ReasoningDone { item_id: String, output_index: usize, content_index: usize, text: String },
    /// End of a content part.
    #[serde(rename = "response.content_part.done")]
    PartDone { item_id: String, output_index: usize, content_index: usize, part: ContentPart },
    /// New part of a call's arguments.
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta { item_id: String, output_index: usize, delta: String },
    /// Whole arguments of a call.
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone { item_id: String, output_index: usize, name: String, arguments: String },
    /// End of an item.
    #[serde(rename = "response.output_item.done")]
    ItemDone { output_index: usize, item: Item },
    /// Last event of a complete response.
    #[serde(rename = "response.completed")]
    Completed { response: Response },
    /// Last event of a response that reached its token limit.
    #[serde(rename = "response.incomplete")]
    Incomplete { response: Response },
    /// Last event of a response that ended with an error.
    #[serde(rename = "response.failed")]
    Failed { response: Response },
}

impl ResponseEvent {
    /// Returns the event's name, which is also its `type`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "response.created",
            Self::InProgress { .. } => "response.in_progress",
            Self::ItemAdded { .. } => "response.output_item.added",
            Self::PartAdded { .. } => "response.content_part.added",
            Self::TextDelta { .. } => "response.output_text.delta",
            Self::TextDone { .. } => "response.output_text.done",
            Self::ReasoningDelta { .. } => "response.reasoning_text.delta",
            Self::ReasoningDone { .. } => "response.reasoning_text.done",
            Self::PartDone { .. } => "response.content_part.done",
            Self::ArgumentsDelta { .. } => "response.function_call_arguments.delta",
            Self::ArgumentsDone { .. } => "response.function_call_arguments.done",
            Self::ItemDone { .. } => "response.output_item.done",
            Self::Completed { .. } => "response.completed",
            Self::Incomplete { .. } => "response.incomplete",
            Self::Failed { .. } => "response.failed",
        }
    }
}
