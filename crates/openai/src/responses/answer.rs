use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A response, finished or in progress.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Response {
    /// Unique id that starts with `resp_`.
    pub id: String,
    /// Always `response`.
    pub object: String,
    /// Creation time, in seconds since 1970.
    pub created_at: u64,
    /// Progress of the response.
    pub status: Status,
    /// Reason why the response failed.
    pub error: Option<ResponseError>,
    /// Reason why the response is incomplete.
    pub incomplete_details: Option<IncompleteDetails>,
    /// The model that answers.
    pub model: String,
    /// The output items.
    pub output: Vec<Item>,
    /// Always `false`: the server stores nothing.
    pub store: bool,
    /// Token counts; `null` before the end.
    pub usage: Option<ResponseUsage>,
    /// True if the output was closed early to stay within its token budget. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
    /// Tools whose schemas could not be enforced; calls to them take any object. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_schemas: Vec<String>,
    /// Request fields that the response repeats.
    #[serde(flatten)]
    pub repeated: Map<String, Value>,
}

/// Progress of a response or an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Still being generated.
    InProgress,
    /// Finished.
    Completed,
    /// Cut off by the token limit.
    Incomplete,
    /// Ended by an error.
    Failed,
}

/// Reason why a response failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResponseError {
    /// `server_error`, or a more precise reason if it has a name.
    pub code: String,
    /// Human-readable message of one line.
    pub message: String,
}

/// Reason why a response is incomplete.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IncompleteDetails {
    /// Always `max_output_tokens`.
    pub reason: String,
}

/// One output item.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// Reasoning of the model.
    Reasoning {
        /// Unique id that starts with `rs_`.
        id: String,
        /// Always empty: reasoning is sent in full.
        summary: Vec<Value>,
        /// The reasoning text.
        content: Vec<ContentPart>,
        /// Progress of the item.
        status: Status,
    },
    /// A message of the model.
    Message {
        /// Unique id that starts with `msg_`.
        id: String,
        /// Always `assistant`.
        role: String,
        /// Progress of the item.
        status: Status,
        /// The text of the message.
        content: Vec<ContentPart>,
    },
    /// A function call of the model.
    FunctionCall {
        /// Unique id that starts with `fc_`.
        id: String,
        /// Id that the call's result refers to; starts with `call_`.
        call_id: String,
        /// Name of the function.
        name: String,
        /// The arguments: a JSON object, as text.
        arguments: String,
        /// Progress of the item.
        status: Status,
    },
}

/// A content part of a message or of reasoning.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Text of a message.
    OutputText(OutputText),
    /// Text of reasoning.
    ReasoningText {
        /// The text.
        text: String,
    },
}

/// Text of a message.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OutputText {
    /// The text.
    pub text: String,
    /// Always empty.
    pub annotations: Vec<Value>,
    /// Always empty.
    pub logprobs: Vec<Value>,
}

/// Token counts of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResponseUsage {
    /// Tokens of the prompt.
    pub input_tokens: usize,
    /// Details about the prompt.
    pub input_tokens_details: crate::chat::PromptDetails,
    /// Tokens of the output.
    pub output_tokens: usize,
    /// Details about the output.
    pub output_tokens_details: crate::chat::CompletionDetails,
    /// Sum of input and output tokens.
    pub total_tokens: usize,
}

impl From<crate::Usage> for ResponseUsage {
    fn from(usage: crate::Usage) -> Self {
        Self {
            input_tokens: usage.prompt_tokens,
            input_tokens_details: usage.prompt_tokens_details,
            output_tokens: usage.completion_tokens,
            output_tokens_details: usage.completion_tokens_details,
            total_tokens: usage.total_tokens,
        }
    }
}

impl IncompleteDetails {
    /// Creates the details of a response that reached its token limit.
    pub fn max_output_tokens() -> Self {
        Self { reason: "max_output_tokens".to_owned() }
    }
}
