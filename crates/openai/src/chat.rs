//! What a chat completion answers, whole and in pieces.

use serde::{Deserialize, Serialize};

/// A whole answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChatCompletion {
    /// Unique, beginning with `chatcmpl-`.
    pub id: String,
    /// Always `chat.completion`.
    pub object: String,
    /// When it began, in seconds since 1970.
    pub created: u64,
    /// The model that answered, by the name under which it is served.
    pub model: String,
    /// The answers, as many as were asked for.
    pub choices: Vec<ChatChoice>,
    /// Tokens that were used.
    pub usage: Usage,
    /// What the output of a seed depends on besides the request.
    pub system_fingerprint: Option<String>,
    /// The tools whose schemas could not be enforced, so that any object was taken. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_schemas: Vec<String>,
}

/// One answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChatChoice {
    /// Its place among the choices.
    pub index: u32,
    /// What was said.
    pub message: AssistantMessage,
    /// Log-probabilities, where they were asked for.
    pub logprobs: Option<Logprobs>,
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
    /// What was said; `null` where tools are called without a word.
    pub content: Option<String>,
    /// Always `null`: nothing is refused.
    pub refusal: Option<String>,
    /// What the model thought. An extension, as other servers have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// What the model called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<MessageCall>,
}

/// A call in a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageCall {
    /// Unique, beginning with `call_`.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What was called.
    pub function: CalledFunction,
}

/// A function with its arguments.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CalledFunction {
    /// Its name.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

impl AssistantMessage {
    /// The assistant says `content`.
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
    /// Token by token.
    pub content: Vec<TokenLogprob>,
    /// Always `null`: nothing is refused.
    pub refusal: Option<()>,
}

/// How likely a token was.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// Its text; what is no UTF-8 alone is replaced.
    pub token: String,
    /// The natural logarithm of its probability, by the model alone.
    pub logprob: f32,
    /// What it spells.
    pub bytes: Vec<u8>,
    /// The likeliest tokens in its place, as many as were asked for.
    pub top_logprobs: Vec<LikelyToken>,
}

/// One of the likeliest tokens at a place.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LikelyToken {
    /// Its text; what is no UTF-8 alone is replaced.
    pub token: String,
    /// The natural logarithm of its probability.
    pub logprob: f32,
    /// What it spells.
    pub bytes: Vec<u8>,
}

/// Why an output ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The output is complete.
    Stop,
    /// The token budget ran out.
    Length,
    /// The model called tools.
    ToolCalls,
}

/// Tokens that a request used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of all outputs.
    pub completion_tokens: usize,
    /// Their sum.
    pub total_tokens: usize,
    /// More about the prompt.
    pub prompt_tokens_details: PromptDetails,
    /// More about the outputs.
    pub completion_tokens_details: CompletionDetails,
}

/// More about a prompt's tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PromptDetails {
    /// Those that had been computed before.
    pub cached_tokens: usize,
}

/// More about outputs' tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CompletionDetails {
    /// Those that the model thought.
    pub reasoning_tokens: usize,
}

impl Usage {
    /// The usage of a prompt and an output of these lengths, with the tokens that were cached and thought.
    pub const fn new(prompt: usize, completion: usize, cached: usize, reasoning: usize) -> Self {
        Self {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: prompt + completion,
            prompt_tokens_details: PromptDetails { cached_tokens: cached },
            completion_tokens_details: CompletionDetails { reasoning_tokens: reasoning },
        }
    }

    /// With another output for the same prompt.
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

/// A piece of a streamed answer.
///
/// The pieces of a choice come in this order: one [`Delta::opening`], any number of [`Delta::reasoning`], [`Delta::content`],
/// [`Delta::call`] and [`Delta::arguments`], one [`Delta::closing`] with the finish reason. After all choices, when asked for, comes
/// one without choices that has the usage.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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
    /// On the first chunk: the tools whose schemas could not be enforced, so that any object is taken. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_schemas: Vec<String>,
}

/// A piece of one answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChunkChoice {
    /// Its place among the choices.
    pub index: u32,
    /// What is new.
    pub delta: Delta,
    /// Log-probabilities, where they were asked for.
    pub logprobs: Option<Logprobs>,
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
    /// More of what the model thinks. An extension, as other servers have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// More of a call; one at a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<CallDelta>,
}

/// What a chunk adds to a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallDelta {
    /// Which call, from 0.
    pub index: usize,
    /// Its id, when it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`, when it begins.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The function.
    pub function: FunctionDelta,
}

/// What a chunk adds to a call's function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionDelta {
    /// Its name, when the call begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// More of the arguments' text.
    pub arguments: String,
}

impl Delta {
    /// The first: who speaks.
    pub fn opening() -> Self {
        Self { role: Some("assistant".to_owned()), content: Some(String::new()), ..Self::default() }
    }

    /// More text.
    pub fn content(text: String) -> Self {
        Self { content: Some(text), ..Self::default() }
    }

    /// More of what the model thinks.
    pub fn reasoning(text: String) -> Self {
        Self { reasoning_content: Some(text), ..Self::default() }
    }

    /// A call begins.
    pub fn call(index: usize, id: String, name: String) -> Self {
        let function = FunctionDelta { name: Some(name), arguments: String::new() };
        let call = CallDelta { index, id: Some(id), kind: Some("function".to_owned()), function };
        Self { tool_calls: vec![call], ..Self::default() }
    }

    /// More of a call's arguments.
    pub fn arguments(index: usize, text: String) -> Self {
        let function = FunctionDelta { name: None, arguments: text };
        let call = CallDelta { index, id: None, kind: None, function };
        Self { tool_calls: vec![call], ..Self::default() }
    }

    /// The last: nothing.
    pub fn closing() -> Self {
        Self::default()
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
