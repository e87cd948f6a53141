use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::timestamp;

/// Answer to a request for a message, finished or in progress.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Message {
    /// Unique id that starts with `msg_`.
    pub id: String,
    /// Always `message`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Always `assistant`.
    pub role: String,
    /// Name under which the server offers the model.
    pub model: String,
    /// Content blocks, in order.
    pub content: Vec<Block>,
    /// Reason why the answer ended. `null` while it is in progress.
    pub stop_reason: Option<StopReason>,
    /// Stop sequence that ended the answer, if one did.
    pub stop_sequence: Option<String>,
    /// Token counts.
    pub usage: Usage,
    /// True if a constrained output was closed early to stay within the token limit. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
    /// Names of tools whose schemas could not be enforced. The inputs of calls to these tools are any
    /// JSON object. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_schemas: Vec<String>,
}

/// Content block of an answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Thoughts of the model.
    Thinking {
        /// Text of the thoughts.
        thinking: String,
        /// Always empty: thoughts are not signed.
        signature: String,
    },
    /// Text of the answer.
    Text {
        /// The text.
        text: String,
        /// Always `null`: the server quotes no documents.
        citations: Option<Value>,
    },
    /// Call of a tool.
    ToolUse {
        /// Unique id that starts with `toolu_`.
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments of the call, an object.
        input: Value,
    },
}

/// Reason why an answer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is complete.
    EndTurn,
    /// The token limit of the request was reached.
    MaxTokens,
    /// The end of the model's context was reached.
    ModelContextWindowExceeded,
    /// A stop sequence was generated.
    StopSequence,
    /// The model called one or more tools.
    ToolUse,
}

/// Token counts of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Number of tokens of the prompt that were not taken from the prefix cache.
    pub input_tokens: usize,
    /// Always 0: writing to the cache is not counted.
    pub cache_creation_input_tokens: usize,
    /// Number of tokens of the prompt that were taken from the prefix cache.
    pub cache_read_input_tokens: usize,
    /// Number of tokens of the answer.
    pub output_tokens: usize,
}

/// Event of a streamed message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessageEvent {
    /// The message begins, without content. First event of a stream.
    MessageStart {
        /// The empty message. Its token counts are those of the prompt.
        message: Message,
    },
    /// Keeps the connection alive.
    Ping,
    /// A content block begins.
    ContentBlockStart {
        /// Index of the block in the content of the message.
        index: usize,
        /// The empty block.
        content_block: Block,
    },
    /// A content block grows.
    ContentBlockDelta {
        /// Index of the block.
        index: usize,
        /// New part of the block.
        delta: BlockDelta,
    },
    /// A content block is complete.
    ContentBlockStop {
        /// Index of the block.
        index: usize,
    },
    /// The message is complete.
    MessageDelta {
        /// Reason of the end.
        delta: Ending,
        /// Token counts of the whole message.
        usage: Usage,
    },
    /// Last event of a stream.
    MessageStop,
    /// The message ended with an error. Last event of a stream.
    Error {
        /// The error.
        error: Failure,
    },
}

/// New part of a content block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BlockDelta {
    /// New text.
    TextDelta {
        /// The text.
        text: String,
    },
    /// New text of thoughts.
    ThinkingDelta {
        /// The text.
        thinking: String,
    },
    /// New part of the JSON text of a call's input.
    InputJsonDelta {
        /// The part.
        partial_json: String,
    },
}

/// End of a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ending {
    /// Reason of the end.
    pub stop_reason: StopReason,
    /// Stop sequence that ended the message, if one did.
    pub stop_sequence: Option<String>,
    /// True if a constrained output was closed early to stay within the token limit. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
}

impl MessageEvent {
    /// Returns the name of the event, which is also the value of its field `type`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::Ping => "ping",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
            Self::Error { .. } => "error",
        }
    }
}

/// Answer to a request to `/v1/messages/count_tokens`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CountedTokens {
    /// Number of tokens of the prompt.
    pub input_tokens: usize,
}

/// Body of an error response.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FailureBody {
    /// Always `error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The error.
    pub error: Failure,
    /// Id of the request, which the header `request-id` has too.
    pub request_id: String,
}

/// Error in Anthropic's format.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Class of the error, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub class: String,
    /// Message for a person, in one line.
    pub message: String,
    /// Details for programs. Absent unless the error has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// Code of an error about a conversation that the server should keep.
pub const THREADS: &str = "thread_unsupported_request";

impl Failure {
    /// Creates the error of a response with an HTTP status.
    pub fn new(status: u16, message: String) -> Self {
        let class = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            400..500 => "invalid_request_error",
            503 => "overloaded_error",
            504 => "timeout_error",
            _ => "api_error",
        };
        Self { class: class.to_owned(), message, details: None }
    }
}

/// Page of the list of models. There is only one page.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModelList {
    /// The models.
    pub data: Vec<Model>,
    /// Id of the first model.
    pub first_id: Option<String>,
    /// Id of the last model.
    pub last_id: Option<String>,
    /// Always `false`.
    pub has_more: bool,
}

/// A model in Anthropic's format.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Model {
    /// Always `model`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name under which the server offers the model.
    pub id: String,
    /// Name for a person: the id.
    pub display_name: String,
    /// Time at which the model became available, as RFC 3339 in UTC.
    pub created_at: String,
}

impl ModelList {
    /// Creates the list of all models.
    pub fn new(data: Vec<Model>) -> Self {
        let id = |model: Option<&Model>| model.map(|model| model.id.clone());
        Self { first_id: id(data.first()), last_id: id(data.last()), has_more: false, data }
    }
}

impl Model {
    /// Creates the entry of the model called `id`. `created` is the time since which it is
    /// available, in seconds since 1970.
    pub fn new(id: String, created: u64) -> Self {
        Self {
            kind: "model".to_owned(),
            display_name: id.clone(),
            id,
            created_at: timestamp(Duration::from_secs(created)),
        }
    }
}
