use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A response, finished or on its way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Response {
    /// Unique, beginning with `resp_`.
    pub id: String,
    /// Always `response`.
    pub object: String,
    /// When it began, in seconds since 1970.
    pub created_at: u64,
    /// How far it is.
    pub status: Status,
    /// Why it failed.
    pub error: Option<ResponseError>,
    /// Why it is not complete.
    pub incomplete_details: Option<IncompleteDetails>,
    /// The model that answers.
    pub model: String,
    /// What the model made.
    pub output: Vec<Item>,
    /// Always `false`: nothing is stored.
    pub store: bool,
    /// Tokens that were used; `null` before the end.
    pub usage: Option<ResponseUsage>,
    /// Set when the output was steered to its end to stay within its token budget. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
    /// The tools whose schemas could not be enforced, so that any object was taken. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_schemas: Vec<String>,
    /// What the request asked for.
    #[serde(flatten)]
    pub repeated: Map<String, Value>,
}

/// How far something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// On its way.
    InProgress,
    /// At its end.
    Completed,
    /// Cut off.
    Incomplete,
    /// Broken off.
    Failed,
}

/// Why a response failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResponseError {
    /// `server_error`, or the precise reason, where it has a name.
    pub code: String,
    /// One line for a person.
    pub message: String,
}

/// Why a response is not complete.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IncompleteDetails {
    /// `max_output_tokens`.
    pub reason: String,
}

/// One thing that the model made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// It thought.
    Reasoning {
        /// Unique, beginning with `rs_`.
        id: String,
        /// Always empty: thoughts come as they are.
        summary: Vec<Value>,
        /// The thoughts.
        content: Vec<ContentPart>,
        /// How far it is.
        status: Status,
    },
    /// It said something.
    Message {
        /// Unique, beginning with `msg_`.
        id: String,
        /// Always `assistant`.
        role: String,
        /// How far it is.
        status: Status,
        /// What it said.
        content: Vec<ContentPart>,
    },
    /// It called a function.
    FunctionCall {
        /// Unique, beginning with `fc_`.
        id: String,
        /// What the result refers to, beginning with `call_`.
        call_id: String,
        /// The function.
        name: String,
        /// A JSON object, as text.
        arguments: String,
        /// How far it is.
        status: Status,
    },
}

/// A part of a message or of thoughts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Of a message.
    OutputText(OutputText),
    /// Of thoughts.
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

/// Tokens that a response used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResponseUsage {
    /// Tokens of the prompt.
    pub input_tokens: usize,
    /// More about these.
    pub input_tokens_details: crate::chat::PromptDetails,
    /// Tokens of the output.
    pub output_tokens: usize,
    /// More about these.
    pub output_tokens_details: crate::chat::CompletionDetails,
    /// Their sum.
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
    /// The token limit was reached.
    pub fn max_output_tokens() -> Self {
        Self { reason: "max_output_tokens".to_owned() }
    }
}
