use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Response to a request to `/v1/responses`, finished or in progress.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Response {
    /// Unique id that starts with `resp_`.
    pub id: String,
    /// Always `response`.
    pub object: String,
    /// Creation time, in seconds since 1970.
    pub created_at: u64,
    /// State of the response.
    pub status: Status,
    /// Reason why the response failed. `null` unless the status is `failed`.
    pub error: Option<ResponseError>,
    /// Reason why the response is incomplete. `null` unless the status is `incomplete`.
    pub incomplete_details: Option<IncompleteDetails>,
    /// Name under which the server offers the model.
    pub model: String,
    /// Output items so far, in order.
    pub output: Vec<Item>,
    /// True if the response can be retrieved and continued by its id.
    pub store: bool,
    /// Token counts. `null` while the response is in progress.
    pub usage: Option<ResponseUsage>,
    /// True if a constrained output was closed early to stay within the token limit. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
    /// Names of tools whose schemas could not be enforced. The arguments of calls to these tools
    /// are any JSON object. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_schemas: Vec<String>,
    /// Fields of the request that the response repeats, such as `temperature`.
    #[serde(flatten)]
    pub repeated: Map<String, Value>,
}

/// State of a response or of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The response or item is still being generated.
    InProgress,
    /// The response or item is complete.
    Completed,
    /// The response or item was cut off by the token limit.
    Incomplete,
    /// The response ended with an error.
    Failed,
}

/// Reason why a response failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResponseError {
    /// Machine-readable reason. `server_error` for errors without a more precise name.
    pub code: String,
    /// Message for a person, in one line.
    pub message: String,
}

/// Reason why a response is incomplete.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IncompleteDetails {
    /// Always `max_output_tokens`: the token limit is the only reason.
    pub reason: String,
}

/// Item of the output.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// Reasoning of the model.
    Reasoning {
        /// Unique id that starts with `rs_`.
        id: String,
        /// Always empty, because reasoning is not summarized but sent in full.
        summary: Vec<Value>,
        /// Text of the reasoning.
        content: Vec<ContentPart>,
        /// State of the item.
        status: Status,
    },
    /// A message of the model.
    Message {
        /// Unique id that starts with `msg_`.
        id: String,
        /// Always `assistant`.
        role: String,
        /// State of the item.
        status: Status,
        /// Text of the message.
        content: Vec<ContentPart>,
        /// Probabilities of the choices within the text, in the order in which they were made. Absent unless
        /// requested. An extension.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decisions: Option<Vec<crate::OutputDecision>>,
        /// Reason why choices of the text have no probabilities. An extension.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decisions_error: Option<String>,
    },
    /// A function call of the model.
    FunctionCall {
        /// Unique id that starts with `fc_`.
        id: String,
        /// Id of the call, which the message with the result must repeat. Starts with `call_`.
        call_id: String,
        /// Name of the function.
        name: String,
        /// Namespace of the function. Absent if it is in none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// Arguments of the call: the text of a JSON object.
        arguments: String,
        /// State of the item.
        status: Status,
    },
    /// A call of a custom tool.
    CustomToolCall {
        /// Unique id that starts with `ctc_`.
        id: String,
        /// Id of the call, which the item with the result must repeat. Starts with `call_`.
        call_id: String,
        /// Name of the tool.
        name: String,
        /// Namespace of the tool. Absent if it is in none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// Text for the tool.
        input: String,
        /// State of the item.
        status: Status,
    },
}

/// Part of the content of a message or of reasoning.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct OutputText {
    /// The text.
    pub text: String,
    /// Always empty, because the server does not annotate texts.
    pub annotations: Vec<Value>,
    /// Log-probabilities of the tokens of the text. Empty unless the request asks for them.
    pub logprobs: Vec<crate::TokenLogprob>,
}

/// Details about the tokens of a response's prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InputDetails {
    /// Number of prompt tokens that were taken from the prefix cache.
    pub cached_tokens: usize,
    /// Always 0: writing to the cache is not counted. Official clients require the field.
    #[serde(default)]
    pub cache_write_tokens: usize,
}

/// Token counts of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResponseUsage {
    /// Number of tokens of the prompt.
    pub input_tokens: usize,
    /// Details about the tokens of the prompt.
    pub input_tokens_details: InputDetails,
    /// Number of tokens of the output.
    pub output_tokens: usize,
    /// Details about the tokens of the output.
    pub output_tokens_details: crate::chat::CompletionDetails,
    /// Sum of input and output tokens.
    pub total_tokens: usize,
}

impl From<crate::Usage> for ResponseUsage {
    fn from(usage: crate::Usage) -> Self {
        Self {
            input_tokens: usage.prompt_tokens,
            input_tokens_details: InputDetails {
                cached_tokens: usage.prompt_tokens_details.cached_tokens,
                cache_write_tokens: 0,
            },
            output_tokens: usage.completion_tokens,
            output_tokens_details: usage.completion_tokens_details,
            total_tokens: usage.total_tokens,
        }
    }
}

impl IncompleteDetails {
    /// Creates the details for a response that reached its token limit.
    pub fn max_output_tokens() -> Self {
        Self { reason: "max_output_tokens".to_owned() }
    }
}
