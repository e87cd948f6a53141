use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::{ContentPart, Item, Response};

/// What a streamed response is made of. Each event has the number of its place in the stream, from 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type")]
#[allow(
    missing_docs,
    reason = "the fields are those of every event: which item, which part of it, what is new or whole"
)]
pub enum ResponseEvent {
    /// The first.
    #[serde(rename = "response.created")]
    Created { response: Response },
    /// The second.
    #[serde(rename = "response.in_progress")]
    InProgress { response: Response },
    /// An item begins.
    #[serde(rename = "response.output_item.added")]
    ItemAdded { output_index: usize, item: Item },
    /// A part of an item begins.
    #[serde(rename = "response.content_part.added")]
    PartAdded { item_id: String, output_index: usize, content_index: usize, part: ContentPart },
    /// More text of a message.
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        item_id: String,
        output_index: usize,
        content_index: usize,
        delta: String,
        logprobs: Vec<Value>,
    },
    /// All text of a message.
    #[serde(rename = "response.output_text.done")]
    TextDone {
        item_id: String,
        output_index: usize,
        content_index: usize,
        text: String,
        logprobs: Vec<Value>,
    },
    /// More thoughts.
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta { item_id: String, output_index: usize, content_index: usize, delta: String },
    /// All thoughts.
    #[serde(rename = "response.reasoning_text.done")]
    ReasoningDone { item_id: String, output_index: usize, content_index: usize, text: String },
    /// A part of an item has ended.
    #[serde(rename = "response.content_part.done")]
    PartDone { item_id: String, output_index: usize, content_index: usize, part: ContentPart },
    /// More of a call's arguments.
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta { item_id: String, output_index: usize, delta: String },
    /// All of them.
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone { item_id: String, output_index: usize, name: String, arguments: String },
    /// An item has ended.
    #[serde(rename = "response.output_item.done")]
    ItemDone { output_index: usize, item: Item },
    /// The last: all is there.
    #[serde(rename = "response.completed")]
    Completed { response: Response },
    /// The last: the output was cut off.
    #[serde(rename = "response.incomplete")]
    Incomplete { response: Response },
    /// The last: the output was broken off.
    #[serde(rename = "response.failed")]
    Failed { response: Response },
}

impl ResponseEvent {
    /// The event's name, which is its `type`, too.
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
