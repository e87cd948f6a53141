//! Responses to chat completions, whole and streamed.

use serde::{Deserialize, Serialize};

/// A whole chat completion.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChatCompletion {
    /// Unique id that starts with `chatcmpl-`.
    pub id: String,
    /// Always `chat.completion`.
    pub object: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Served name of the model that answered.
    pub model: String,
    /// The answers; the request's `n` sets their number.
    pub choices: Vec<ChatChoice>,
    /// Token counts.
    pub usage: Usage,
    /// Fingerprint of the backend. A seeded output depends on it and on the request.
    pub system_fingerprint: Option<String>,
    /// Tools whose schemas could not be enforced; calls to them take any object. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_schemas: Vec<String>,
}

/// One answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChatChoice {
    /// Index among the choices.
    pub index: u32,
    /// The assistant's message.
    pub message: AssistantMessage,
    /// Log-probabilities, if requested.
    pub logprobs: Option<Logprobs>,
    /// Reason why the output ended.
    pub finish_reason: FinishReason,
    /// True if the output was closed early to stay within its token budget. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
}

/// A message of the assistant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Always `assistant`.
    pub role: String,
    /// Text of the message; `null` if the message only calls tools.
    pub content: Option<String>,
    /// Always `null`: the server reports no refusals.
    pub refusal: Option<String>,
    /// Reasoning of the model. An extension that other servers share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Tool calls of the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<MessageCall>,
}

/// A tool call in a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageCall {
    /// Unique id that starts with `call_`.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The called function.
    pub function: CalledFunction,
}

/// A called function with its arguments.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CalledFunction {
    /// Name of the function.
    pub name: String,
    /// The arguments: a JSON object, as text.
    pub arguments: String,
}

impl AssistantMessage {
    /// Creates a message with text and without reasoning or tool calls.
    pub fn new(content: String) -> Self {
        let (reasoning_content, tool_calls) = (None, Vec::new());
        Self {
            role: "assistant".to_owned(),
            content: Some(content),
            refusal: None,
            reasoning_content,
            tool_calls,
        }
    }
}

/// The log-probabilities of an answer's content.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Logprobs {
    /// One entry per token.
    pub content: Vec<TokenLogprob>,
    /// Always `null`: the server reports no refusals.
    pub refusal: Option<()>,
}

/// The log-probability of a generated token.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// Text of the token; bytes that are not valid UTF-8 on their own are replaced.
    pub token: String,
    /// Natural logarithm of the token's probability from the model's own logits, before masks,
    /// penalties and temperature.
    pub logprob: f32,
    /// Bytes of the token.
    pub bytes: Vec<u8>,
    /// Likeliest tokens at this position; the request's `top_logprobs` sets their number.
    pub top_logprobs: Vec<LikelyToken>,
}

/// One of the likeliest tokens at a position.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LikelyToken {
    /// Text of the token; bytes that are not valid UTF-8 on their own are replaced.
    pub token: String,
    /// Natural logarithm of the token's probability.
    pub logprob: f32,
    /// Bytes of the token.
    pub bytes: Vec<u8>,
}

/// Reason why an output ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The output is complete.
    Stop,
    /// The token limit was reached.
    Length,
    /// The model called tools.
    ToolCalls,
}

/// Token counts of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of all outputs.
    pub completion_tokens: usize,
    /// Sum of prompt and completion tokens.
    pub total_tokens: usize,
    /// Details about the prompt.
    pub prompt_tokens_details: PromptDetails,
    /// Details about the outputs.
    pub completion_tokens_details: CompletionDetails,
}

/// Details about a prompt's tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PromptDetails {
    /// Prompt tokens taken from the prefix cache.
    pub cached_tokens: usize,
}

/// Details about the tokens of outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CompletionDetails {
    /// Tokens of the model's reasoning.
    pub reasoning_tokens: usize,
}

impl Usage {
    /// Creates the counts of a prompt and an output. `cached` counts prompt tokens, `reasoning`
    /// counts completion tokens.
    pub const fn new(prompt: usize, completion: usize, cached: usize, reasoning: usize) -> Self {
        Self {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: prompt + completion,
            prompt_tokens_details: PromptDetails { cached_tokens: cached },
            completion_tokens_details: CompletionDetails { reasoning_tokens: reasoning },
        }
    }

    /// Adds another output of the same prompt: prompt counts are kept, completion counts are
    /// summed.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let cached =
            if self.prompt_tokens == 0 { other.prompt_tokens_details } else { self.prompt_tokens_details };
        let prompt = if self.prompt_tokens == 0 { other.prompt_tokens } else { self.prompt_tokens };
        Self::new(
            prompt,
            self.completion_tokens + other.completion_tokens,
            cached.cached_tokens,
            self.completion_tokens_details.reasoning_tokens
                + other.completion_tokens_details.reasoning_tokens,
        )
    }
}

/// A chunk of a streamed chat completion.
///
/// Each choice sends its chunks in this order:
///
/// 1. one [`Delta::opening`],
/// 2. any number of [`Delta::reasoning`], [`Delta::content`], [`Delta::call`] and
///    [`Delta::arguments`],
/// 3. one [`Delta::closing`] with the finish reason.
///
/// After all choices, a chunk without choices reports the usage, if requested.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChatChunk {
    /// Id of the completion; the same on all chunks.
    pub id: String,
    /// Always `chat.completion.chunk`.
    pub object: String,
    /// Creation time of the completion, in seconds since 1970; the same on all chunks.
    pub created: u64,
    /// Served name of the model that answers.
    pub model: String,
    /// Fingerprint of the backend. A seeded output depends on it and on the request.
    pub system_fingerprint: Option<String>,
    /// One choice, or none on the chunk with the usage.
    pub choices: Vec<ChunkChoice>,
    /// Absent unless requested; `null` until the last chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChunkUsage>,
    /// Tools whose schemas could not be enforced; calls to them take any object. On the first chunk
    /// only. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_schemas: Vec<String>,
}

/// A chunk of one choice.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChunkChoice {
    /// Index among the choices.
    pub index: u32,
    /// The new part of the message.
    pub delta: Delta,
    /// Log-probabilities, if requested.
    pub logprobs: Option<Logprobs>,
    /// Reason why the output ended, on the last chunk of the choice.
    pub finish_reason: Option<FinishReason>,
    /// True if the output was closed early to stay within its token budget. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
}

/// The part of a message that a chunk adds. Clients concatenate deltas, so each part is sent only
/// once.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Delta {
    /// `assistant`, on the first chunk only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// New text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// New reasoning text. An extension that other servers share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// New part of a tool call; a delta has at most one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<CallDelta>,
}

/// The part of a tool call that a chunk adds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallDelta {
    /// Index of the call in the message, from 0.
    pub index: usize,
    /// Id of the call, on the first delta of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`, on the first delta of the call.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The new part of the function call.
    pub function: FunctionDelta,
}

/// The part of a function call that a chunk adds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionDelta {
    /// Name of the function, on the first delta of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// New part of the arguments' text.
    pub arguments: String,
}

impl Delta {
    /// Creates the first delta of a choice, which carries the role.
    pub fn opening() -> Self {
        Self { role: Some("assistant".to_owned()), content: Some(String::new()), ..Self::default() }
    }

    /// Creates a delta with new text.
    pub fn content(text: String) -> Self {
        Self { content: Some(text), ..Self::default() }
    }

    /// Creates a delta with new reasoning text.
    pub fn reasoning(text: String) -> Self {
        Self { reasoning_content: Some(text), ..Self::default() }
    }

    /// Creates the first delta of a tool call.
    pub fn call(index: usize, id: String, name: String) -> Self {
        let function = FunctionDelta { name: Some(name), arguments: String::new() };
        let call = CallDelta { index, id: Some(id), kind: Some("function".to_owned()), function };
        Self { tool_calls: vec![call], ..Self::default() }
    }

    /// Creates a delta with a new part of a call's arguments.
    pub fn arguments(index: usize, text: String) -> Self {
        let function = FunctionDelta { name: None, arguments: text };
        let call = CallDelta { index, id: None, kind: None, function };
        Self { tool_calls: vec![call], ..Self::default() }
    }

    /// Creates the last delta of a choice, which is empty.
    pub fn closing() -> Self {
        Self::default()
    }
}

/// The `usage` field of a chunk, if usage was requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChunkUsage {
    /// The totals, on the last chunk.
    Total(Usage),
    /// Not known yet; serialized as `null`.
    Pending,
}
