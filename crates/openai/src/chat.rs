//! What a chat completion answers, whole and in pieces.

use serde::{Deserialize, Serialize};

/// A whole answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChatCompletion {
    /// Unique, beginning with `chatcmpl-`.
    pub id: String,
    /// Always `chat.completion`.
    pub object: String,
    /// When it began, in seconds since 1970.
    pub created: u64,
    /// The model that answered, by the name under which it is served.
    pub model: String,
    /// The answers; one.
    pub choices: Vec<ChatChoice>,
    /// Tokens that were used.
    pub usage: Usage,
    /// What the output of a seed depends on besides the request.
    pub system_fingerprint: Option<String>,
}

/// One answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChatChoice {
    /// Its place among the choices.
    pub index: u32,
    /// What was said.
    pub message: AssistantMessage,
    /// Always `null`: log probabilities are not supported.
    pub logprobs: Option<()>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Set when the output was steered to its end to stay within its token budget. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
}

/// The assistant's message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Always `assistant`.
    pub role: String,
    /// What was said.
    pub content: Option<String>,
    /// Always `null`: nothing is refused.
    pub refusal: Option<String>,
}

impl AssistantMessage {
    /// The assistant says `content`.
    pub fn new(content: String) -> Self {
        Self { role: "assistant".to_owned(), content: Some(content), refusal: None }
    }
}

/// Why an output ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The output is complete.
    Stop,
    /// The token budget ran out.
    Length,
}

/// Tokens that a request used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the output.
    pub completion_tokens: usize,
    /// Their sum.
    pub total_tokens: usize,
}

impl Usage {
    /// The usage of a prompt and an output of these lengths.
    pub const fn new(prompt_tokens: usize, completion_tokens: usize) -> Self {
        Self { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}

/// A piece of a streamed answer.
///
/// The pieces come in this order: one [`Delta::opening`], any number of [`Delta::content`], one [`Delta::closing`] with the
/// finish reason, and, when asked for, one without choices that has the usage.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChatChunk {
    /// The same on all chunks of an answer.
    pub id: String,
    /// Always `chat.completion.chunk`.
    pub object: String,
    /// The same on all chunks of an answer: when it began, in seconds since 1970.
    pub created: u64,
    /// The model that answers.
    pub model: String,
    /// What the output of a seed depends on besides the request.
    pub system_fingerprint: Option<String>,
    /// One, or none on the chunk with the usage.
    pub choices: Vec<ChunkChoice>,
    /// Absent unless it was asked for; `null` until the last chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChunkUsage>,
}

/// A piece of one answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChunkChoice {
    /// Its place among the choices.
    pub index: u32,
    /// What is new.
    pub delta: Delta,
    /// Always `null`: log probabilities are not supported.
    pub logprobs: Option<()>,
    /// Why it ended, on the last piece.
    pub finish_reason: Option<FinishReason>,
    /// Set when the output was steered to its end to stay within its token budget. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
}

/// What a chunk adds to the message. Clients concatenate what they get, so each thing is said once.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Delta {
    /// `assistant`, on the first chunk only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// More text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

impl Delta {
    /// The first: who speaks.
    pub fn opening() -> Self {
        Self { role: Some("assistant".to_owned()), content: Some(String::new()) }
    }

    /// More text.
    pub const fn content(text: String) -> Self {
        Self { role: None, content: Some(text) }
    }

    /// The last: nothing.
    pub const fn closing() -> Self {
        Self { role: None, content: None }
    }
}

/// The `usage` of a chunk when usage was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChunkUsage {
    /// The totals, on the last chunk.
    Total(Usage),
    /// Not known yet: `null`.
    Pending,
}
