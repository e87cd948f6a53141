//! Responses to chat completions, whole and streamed.

use crate::{OutputDecision, TokenMask};
use serde::{Deserialize, Serialize};

/// Response to a chat request that is not streamed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChatCompletion {
    /// Unique id that starts with `chatcmpl-`.
    pub id: String,
    /// Always `chat.completion`.
    pub object: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Name under which the server offers the model.
    pub model: String,
    /// The answers, in the order of their indices. Their number is the request's `n`.
    pub choices: Vec<ChatChoice>,
    /// Token counts of the prompt and of all answers.
    pub usage: Usage,
    /// Fingerprint of the backend. With a seed, equal requests get equal outputs as long as the
    /// fingerprint is the same.
    pub system_fingerprint: Option<String>,
    /// Names of tools whose schemas could not be enforced. The arguments of calls to these tools
    /// are any JSON object. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_schemas: Vec<String>,
}

/// One answer to a chat request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChatChoice {
    /// Index of the answer, starting at 0.
    pub index: u32,
    /// Message that the model wrote.
    pub message: AssistantMessage,
    /// Log-probabilities of the tokens. `null` unless requested.
    pub logprobs: Option<Logprobs>,
    /// Effect of the constraint on each token of the output, thoughts and calls included. Absent unless
    /// requested. An extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_view: Option<Vec<TokenMask>>,
    /// Probabilities of the choices within the content, in the order in which they were made. Absent unless
    /// requested. An extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Vec<OutputDecision>>,
    /// Reason why choices of the content have no probabilities. An extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions_error: Option<String>,
    /// Reason why the output ended.
    pub finish_reason: FinishReason,
    /// True if a constrained output was closed early to stay within the token limit. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
}

/// Message of the assistant in a response.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Always `assistant`.
    pub role: String,
    /// Text of the message. `null` if the message only calls tools.
    pub content: Option<String>,
    /// Always `null`: the server reports no refusals.
    pub refusal: Option<String>,
    /// Reasoning of the model. Absent if the model has written no reasoning. An extension that other
    /// servers have too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Tool calls of the model. Absent if the model calls no tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<MessageCall>,
    /// Call of a function from the request's `functions`. Absent if the model calls none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_call: Option<CalledFunction>,
}

/// A tool call in a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageCall {
    /// Unique id that starts with `call_`.
    pub id: String,
    /// `function` or `custom`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The called tool: the field `function` or `custom`.
    #[serde(flatten)]
    pub called: Called,
}

/// A called tool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Called {
    /// A function.
    Function(CalledFunction),
    /// A custom tool.
    Custom(CalledCustom),
}

/// Name and input of a called custom tool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CalledCustom {
    /// Name of the tool.
    pub name: String,
    /// Text for the tool.
    pub input: String,
}

impl MessageCall {
    /// Creates the call of a function.
    pub fn function(id: String, name: String, arguments: String) -> Self {
        let called = Called::Function(CalledFunction { name, arguments });
        Self { id, kind: "function".to_owned(), called }
    }

    /// Creates the call of a custom tool.
    pub fn custom(id: String, name: String, input: String) -> Self {
        Self { id, kind: "custom".to_owned(), called: Called::Custom(CalledCustom { name, input }) }
    }
}

/// Name and arguments of a called function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CalledFunction {
    /// Name of the function.
    pub name: String,
    /// Arguments of the call: the text of a JSON object.
    pub arguments: String,
}

impl AssistantMessage {
    /// Creates a message with the text `content`, without reasoning and tool calls.
    pub fn new(content: String) -> Self {
        let (reasoning_content, tool_calls) = (None, Vec::new());
        Self {
            role: "assistant".to_owned(),
            content: Some(content),
            refusal: None,
            reasoning_content,
            tool_calls,
            function_call: None,
        }
    }
}

/// Log-probabilities of the tokens of an answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Logprobs {
    /// One entry for each token of the answer's text.
    pub content: Vec<TokenLogprob>,
    /// Always `null`: the server reports no refusals.
    pub refusal: Option<()>,
}

/// Log-probability of a generated token.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// Text of the token. Bytes that are not valid UTF-8 on their own are replaced by U+FFFD.
    pub token: String,
    /// Natural logarithm of the token's probability. The probability is computed from the model's
    /// own logits, before masks, penalties and temperature are applied.
    pub logprob: f32,
    /// Bytes of the token.
    pub bytes: Vec<u8>,
    /// Most likely tokens at this position. Their number is the request's `top_logprobs`.
    pub top_logprobs: Vec<LikelyToken>,
}

/// One of the most likely tokens at a position.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LikelyToken {
    /// Text of the token. Bytes that are not valid UTF-8 on their own are replaced by U+FFFD.
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
    /// The output is complete: the model ended it, or a stop string or stop token was generated.
    Stop,
    /// The token limit was reached.
    Length,
    /// The model called one or more tools.
    ToolCalls,
    /// The model called a function from the request's `functions`.
    FunctionCall,
}

/// Token counts of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Number of tokens of the prompt.
    pub prompt_tokens: usize,
    /// Number of tokens of all outputs.
    pub completion_tokens: usize,
    /// Sum of prompt and completion tokens.
    pub total_tokens: usize,
    /// Details about the prompt's tokens.
    pub prompt_tokens_details: PromptDetails,
    /// Details about the tokens of outputs.
    pub completion_tokens_details: CompletionDetails,
}

/// Details about the tokens of a prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PromptDetails {
    /// Number of prompt tokens that were taken from the prefix cache.
    pub cached_tokens: usize,
}

/// Details about the tokens of outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CompletionDetails {
    /// Number of tokens of the model's reasoning.
    pub reasoning_tokens: usize,
}

impl Usage {
    /// Creates the counts of a request with one output. `cached` is the part of the `prompt` tokens
    /// that was taken from the prefix cache. `reasoning` is the part of the `completion` tokens
    /// that is reasoning.
    pub const fn new(prompt: usize, completion: usize, cached: usize, reasoning: usize) -> Self {
        Self {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: prompt + completion,
            prompt_tokens_details: PromptDetails { cached_tokens: cached },
            completion_tokens_details: CompletionDetails { reasoning_tokens: reasoning },
        }
    }

    /// Returns the counts of this request together with another output of the same prompt. The
    /// tokens of the prompt are counted once.
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
/// 2. any number of [`Delta::reasoning`], [`Delta::content`], [`Delta::call`], [`Delta::arguments`],
///    [`Delta::custom_call`] and [`Delta::input`],
/// 3. one [`Delta::closing`] with the finish reason.
///
/// After all choices, a chunk without choices reports the usage, if requested.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChatChunk {
    /// Id of the completion. All chunks of a stream have the same id.
    pub id: String,
    /// Always `chat.completion.chunk`.
    pub object: String,
    /// Creation time of the completion, in seconds since 1970. All chunks of a stream have the same
    /// time.
    pub created: u64,
    /// Name under which the server offers the model.
    pub model: String,
    /// Fingerprint of the backend. With a seed, equal requests get equal outputs as long as the
    /// fingerprint is the same.
    pub system_fingerprint: Option<String>,
    /// One choice. Empty in the chunk that reports the usage.
    pub choices: Vec<ChunkChoice>,
    /// Token counts. Absent unless requested. If requested, `null` in all chunks except the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChunkUsage>,
    /// Names of tools whose schemas could not be enforced. The arguments of calls to these tools
    /// are any JSON object. Only present in the first chunk. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported_schemas: Vec<String>,
}

/// New part of one choice in a stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChunkChoice {
    /// Index of the choice, starting at 0.
    pub index: u32,
    /// New part of the message.
    pub delta: Delta,
    /// Log-probabilities of the new tokens. `null` unless requested.
    pub logprobs: Option<Logprobs>,
    /// Effect of the constraint on the new tokens. Absent unless requested. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mask_view: Vec<TokenMask>,
    /// Probabilities of the choices that this chunk of the content completes. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<OutputDecision>,
    /// Reason why choices of the content have no probabilities. Only in the last chunk of the choice. An
    /// extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions_error: Option<String>,
    /// Reason why the output ended. `null` in all chunks of the choice except the last.
    pub finish_reason: Option<FinishReason>,
    /// True if a constrained output was closed early to stay within the token limit. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
}

/// New part of a message in a stream. Clients concatenate the parts, so each part is sent only
/// once.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Delta {
    /// `assistant` in the first chunk of a choice. Absent in all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// New text of the message. Absent if the chunk adds no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<DeltaContent>,
    /// New reasoning text. Absent if the chunk adds no reasoning. An extension that other servers
    /// have too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// New part of a tool call: at most one element.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<CallDelta>,
    /// New part of a call of a function from the request's `functions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_call: Option<FunctionDelta>,
}

/// New text of a message in a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DeltaContent {
    /// The text.
    Text(String),
    /// No text, in the first chunk of an answer that does not start with text. Serialized as `null`.
    Nothing,
}

/// New part of a tool call in a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallDelta {
    /// Index of the call in the message, starting at 0.
    pub index: usize,
    /// Id of the call. Only present in the first part of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function` or `custom`. Only present in the first part of a call.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// New part of the called tool: the field `function` or `custom`.
    #[serde(flatten)]
    pub called: CalledDelta,
}

/// New part of a called tool in a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CalledDelta {
    /// Part of a function call.
    Function(FunctionDelta),
    /// Part of the call of a custom tool.
    Custom(CustomDelta),
}

/// New part of the call of a custom tool in a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CustomDelta {
    /// Name of the tool. Only present in the first part of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// New part of the text for the tool.
    pub input: String,
}

/// New part of a function call in a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionDelta {
    /// Name of the function. Only present in the first part of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// New part of the text of the arguments.
    pub arguments: String,
}

impl Delta {
    /// Creates the first delta of a choice, which contains the role. The content is an empty text, or
    /// `null` if the answer does not start with text.
    pub fn opening(has_text: bool) -> Self {
        let content = if has_text { DeltaContent::Text(String::new()) } else { DeltaContent::Nothing };
        Self { role: Some("assistant".to_owned()), content: Some(content), ..Self::default() }
    }

    /// Creates a delta with new text.
    pub fn content(text: String) -> Self {
        Self { content: Some(DeltaContent::Text(text)), ..Self::default() }
    }

    /// Creates a delta with new reasoning text.
    pub fn reasoning(text: String) -> Self {
        Self { reasoning_content: Some(text), ..Self::default() }
    }

    /// Creates the first delta of a tool call, with its id and the name of the function. `index` is
    /// the index of the call in the message.
    pub fn call(index: usize, id: String, name: String) -> Self {
        let called = CalledDelta::Function(FunctionDelta { name: Some(name), arguments: String::new() });
        let call = CallDelta { index, id: Some(id), kind: Some("function".to_owned()), called };
        Self { tool_calls: vec![call], ..Self::default() }
    }

    /// Creates a delta with a new part of the arguments of the call at `index`.
    pub fn arguments(index: usize, text: String) -> Self {
        let called = CalledDelta::Function(FunctionDelta { name: None, arguments: text });
        let call = CallDelta { index, id: None, kind: None, called };
        Self { tool_calls: vec![call], ..Self::default() }
    }

    /// Creates the first delta of the call of a custom tool, with its id and the name of the tool. `index`
    /// is the index of the call in the message.
    pub fn custom_call(index: usize, id: String, name: String) -> Self {
        let called = CalledDelta::Custom(CustomDelta { name: Some(name), input: String::new() });
        let call = CallDelta { index, id: Some(id), kind: Some("custom".to_owned()), called };
        Self { tool_calls: vec![call], ..Self::default() }
    }

    /// Creates a delta with a new part of the input of the custom tool's call at `index`.
    pub fn input(index: usize, text: String) -> Self {
        let called = CalledDelta::Custom(CustomDelta { name: None, input: text });
        let call = CallDelta { index, id: None, kind: None, called };
        Self { tool_calls: vec![call], ..Self::default() }
    }

    /// Creates the first delta of a call of a function from the request's `functions`.
    pub fn function(name: String) -> Self {
        let function = FunctionDelta { name: Some(name), arguments: String::new() };
        Self { function_call: Some(function), ..Self::default() }
    }

    /// Creates a delta with a new part of the arguments of a call of a function.
    pub fn function_arguments(text: String) -> Self {
        let function = FunctionDelta { name: None, arguments: text };
        Self { function_call: Some(function), ..Self::default() }
    }

    /// Creates the last delta of a choice, which is empty.
    pub fn closing() -> Self {
        Self::default()
    }
}

/// Value of the field `usage` in a chunk, if the usage was requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChunkUsage {
    /// Token counts of the whole request, in the last chunk.
    Total(Usage),
    /// Token counts that are not known yet. Serialized as `null`.
    Pending,
}
