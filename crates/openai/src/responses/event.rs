use serde::{Deserialize, Serialize};

use super::answer::{ContentPart, Item, Response};
use crate::{OutputDecision, TokenLogprob};

/// Event of a streamed response. In a stream, each event also has a field `sequence_number`, which
/// counts events from 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type")]
#[allow(
    missing_docs,
    reason = "the fields are those of every event: which item, which part of it, what is new or whole"
)]
pub enum ResponseEvent {
    /// The response has been created. First event of a stream.
    #[serde(rename = "response.created")]
    Created { response: Response },
    /// The response is being generated. Second event of a stream.
    #[serde(rename = "response.in_progress")]
    InProgress { response: Response },
    /// An item begins. `output_index` is its index in `Response::output`.
    #[serde(rename = "response.output_item.added")]
    ItemAdded { output_index: usize, item: Item },
    /// A content part begins. `content_index` is its index in the content of the item.
    #[serde(rename = "response.content_part.added")]
    PartAdded { item_id: String, output_index: usize, content_index: usize, part: ContentPart },
    /// New text of a message follows the text so far.
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        item_id: String,
        output_index: usize,
        content_index: usize,
        delta: String,
        logprobs: Vec<TokenLogprob>,
        /// Probabilities of the choices that the new text completes. An extension.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        decisions: Vec<OutputDecision>,
    },
    /// The text of a message part is complete.
    #[serde(rename = "response.output_text.done")]
    TextDone {
        item_id: String,
        output_index: usize,
        content_index: usize,
        text: String,
        logprobs: Vec<TokenLogprob>,
    },
    /// New reasoning text follows the text so far.
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta { item_id: String, output_index: usize, content_index: usize, delta: String },
    /// The text of a reasoning part is complete.
    #[serde(rename = "response.reasoning_text.done")]
    ReasoningDone { item_id: String, output_index: usize, content_index: usize, text: String },
    /// A content part is complete.
    #[serde(rename = "response.content_part.done")]
    PartDone { item_id: String, output_index: usize, content_index: usize, part: ContentPart },
    /// New text follows the arguments of a call so far.
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta { item_id: String, output_index: usize, delta: String },
    /// The arguments of a call are complete.
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone { item_id: String, output_index: usize, name: String, arguments: String },
    /// New text follows the input of a custom tool's call so far.
    #[serde(rename = "response.custom_tool_call_input.delta")]
    InputDelta { item_id: String, output_index: usize, delta: String },
    /// The input of a custom tool's call is complete.
    #[serde(rename = "response.custom_tool_call_input.done")]
    InputDone { item_id: String, output_index: usize, input: String },
    /// An item is complete.
    #[serde(rename = "response.output_item.done")]
    ItemDone { output_index: usize, item: Item },
    /// The response is complete. Last event of a stream.
    #[serde(rename = "response.completed")]
    Completed { response: Response },
    /// The response was cut off by its token limit. Last event of a stream.
    #[serde(rename = "response.incomplete")]
    Incomplete { response: Response },
    /// The response ended with an error. Last event of a stream.
    #[serde(rename = "response.failed")]
    Failed { response: Response },
}

impl ResponseEvent {
    /// Returns the name of the event, which is also the value of its field `type`.
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
            Self::InputDelta { .. } => "response.custom_tool_call_input.delta",
            Self::InputDone { .. } => "response.custom_tool_call_input.done",
            Self::ItemDone { .. } => "response.output_item.done",
            Self::Completed { .. } => "response.completed",
            Self::Incomplete { .. } => "response.incomplete",
            Self::Failed { .. } => "response.failed",
        }
    }
}
