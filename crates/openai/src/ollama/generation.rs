use serde_json::Value;

use super::{message, options};
use crate::error::Problem;
use crate::request::{
    ChatMessage, Fields, Place, Role, StreamOptions, ToolForm, check_neutral_chat, check_neutral_generate,
    check_of_others, read_any_object, read_logprobs, read_model, read_thinking, read_tools, read_undeclared,
    take_without_effect,
};
use crate::{ChatRequest, CompletionPrompt, CompletionRequest, Format, IgnoredFields, RequestError};

/// Request to `/api/chat` or `/api/generate`, converted to the request of OpenAI's API that has the same
/// meaning.
#[derive(Clone, PartialEq, Debug)]
pub enum GenerationRequest {
    /// A request without messages or without a prompt.
    Load(LoadRequest),
    /// A conversation. The prompt of `/api/generate` is a conversation with one message of the user.
    Chat(ChatRequest),
    /// A prompt that is used without the chat template, because it is `raw` or has a `suffix`.
    Raw(CompletionRequest),
}

/// Request that only loads a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadRequest {
    /// Name under which the server offers the model. Empty if the request has none.
    pub model: String,
    /// True if the request asks to unload the model, with a `keep_alive` of 0.
    pub unload: bool,
    /// Fields of the request that have no effect.
    pub ignored: IgnoredFields,
}

impl GenerationRequest {
    /// Parses the body of a request to `/api/chat`.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown or
    /// unsupported field or value.
    pub fn chat_from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let unload = asks_to_unload(&fields);
        let messages = fields.read("messages", message::read_all)?.unwrap_or_default();
        let chat = read(&mut fields, messages)?;
        check_neutral_chat(&mut fields)?;
        let ignored = fields.finish_request()?;
        Ok(Self::of(ChatRequest { ignored, ..chat }, unload))
    }

    /// Parses the body of a request to `/api/generate`.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`GenerationRequest::chat_from_json`].
    pub fn generate_from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let unload = asks_to_unload(&fields);
        let suffix = fields.read("suffix", Place::string)?.filter(|suffix| !suffix.is_empty());
        let raw = fields.read("raw", Place::bool)?.unwrap_or(false) || suffix.is_some();
        let prompt = fields.read("prompt", Place::string)?.unwrap_or_default();
        let system = fields.take("system").filter(|at| at.value() != "");
        if let Some(at) = system.as_ref().filter(|_| raw) {
            let other = if suffix.is_some() { "suffix" } else { "raw" };
            return Err(at.error(Problem::Conflict { other }));
        }
        if raw {
            // These are about the chat template, which is not used.
            for name in ["think", "enable_thinking", "chat_template_kwargs", "schema_in_prompt"] {
                fields.ignore(name);
            }
        }
        let budget = budget_field(&fields);
        check_neutral_generate(&mut fields)?;
        let system = system.map(Place::string).transpose()?;
        let system = system.map(|text| ChatMessage::new(Role::System, text));
        let mut messages = Vec::new();
        if !prompt.is_empty() {
            messages.extend(system);
            messages.push(ChatMessage::new(Role::User, prompt.as_str()));
        }
        let chat = read(&mut fields, messages)?;
        check_of_others(&mut fields)?;
        let ignored = fields.finish_request()?;
        let request = Self::of(ChatRequest { ignored, ..chat }, unload);
        match request {
            // Without a conversation the server cannot tell which part of a text is reasoning.
            Self::Chat(chat) if raw && chat.parameters.reasoning_budget.is_some() => {
                let field = budget.unwrap_or("options.reasoning_budget");
                Err(RequestError::field(field, Problem::NotNeutral { accepted: "null", hint: "" }))
            }
            Self::Chat(chat) if raw => as_completion(chat, prompt, suffix).map(Self::Raw),
            request => Ok(request),
        }
    }

    /// Returns the request of a conversation, which loads the model if it has no messages.
    fn of(chat: ChatRequest, unload: bool) -> Self {
        if chat.messages.is_empty() {
            return Self::Load(LoadRequest { model: chat.model, unload, ignored: chat.ignored });
        }
        Self::Chat(chat)
    }

    /// Returns the name of the model. Empty if the request has none.
    pub fn model(&self) -> &str {
        match self {
            Self::Load(request) => &request.model,
            Self::Chat(request) => &request.model,
            Self::Raw(request) => &request.model,
        }
    }

    /// Returns true if the answer is streamed, which is the default.
    pub const fn is_streamed(&self) -> bool {
        match self {
            Self::Load(_) => false,
            Self::Chat(request) => request.stream.is_some(),
            Self::Raw(request) => request.stream.is_some(),
        }
    }

    /// Returns the fields of the request that have no effect.
    pub const fn ignored(&self) -> &IgnoredFields {
        match self {
            Self::Load(request) => &request.ignored,
            Self::Chat(request) => &request.ignored,
            Self::Raw(request) => &request.ignored,
        }
    }
}

/// Parses the fields that chats and prompts have in common. Does not check the other fields.
fn read(fields: &mut Fields, messages: Vec<ChatMessage>) -> Result<ChatRequest, RequestError> {
    let mut variables = fields.read("chat_template_kwargs", Place::map)?.unwrap_or_default();
    let budget = read_thinking(fields, &mut variables)?.budget();
    let stream = fields.read("stream", Place::bool)?.unwrap_or(true);
    let mut chat = ChatRequest {
        model: read_model(fields)?,
        // Ollama continues a last message of the assistant.
        continues: messages.last().is_some_and(ChatMessage::may_be_continued),
        messages,
        stream: stream.then(StreamOptions::default),
        parameters: options::read(fields)?,
        logprobs: read_logprobs(fields)?,
        mask_view: None,
        tools: read_tools(fields, ToolForm::Ollama)?,
        has_functions: false,
        any_object: read_any_object(fields)?,
        format: fields.read("format", read_format)?.flatten(),
        undeclared: read_undeclared(fields)?,
        decisions: None,
        schema_in_prompt: fields.read("schema_in_prompt", Place::bool)?.unwrap_or(true),
        chat_template_kwargs: variables,
        ignored: IgnoredFields::default(),
    };
    chat.parameters.reasoning_budget = chat.parameters.reasoning_budget.or(budget);
    // No message is ever dropped. A conversation that does not fit is an error.
    for name in ["truncate", "shift"] {
        fields.ignore(name);
    }
    take_without_effect(fields);
    Ok(chat)
}

/// Parses `format`: `json` for any JSON object, a JSON Schema, or an empty string for any text.
fn read_format(at: Place) -> Result<Option<Format>, RequestError> {
    if at.is_string() {
        let known = |name: &str| match name {
            "" => Some(None),
            "json" => Some(Some(Format { field: "format", ..Format::json_object() })),
            _ => None,
        };
        return at.one_of(known, "json and a JSON Schema");
    }
    Ok(Some(Format::json_schema(at.schema()?, "format")))
}

/// Converts a chat to the completion of `prompt`.
fn as_completion(
    chat: ChatRequest,
    prompt: String,
    suffix: Option<String>,
) -> Result<CompletionRequest, RequestError> {
    let request = CompletionRequest {
        model: chat.model,
        prompts: vec![CompletionPrompt::Text(prompt)],
        parameters: chat.parameters,
        best_of: 1,
        suffix,
        echo: false,
        only_echo: false,
        logprobs: chat.logprobs,
        mask_view: chat.mask_view,
        stream: chat.stream,
        format: chat.format,
        undeclared: chat.undeclared,
        ignored: chat.ignored,
    };
    request.checked()
}

/// Returns the path of the field that limits the tokens of reasoning.
fn budget_field(fields: &Fields) -> Option<&'static str> {
    let paths = [
        "options.reasoning_budget",
        "options.thinking_token_budget",
        "thinking_budget",
        "thinking.budget_tokens",
        "reasoning.max_tokens",
    ];
    let is_given = |path: &&str| {
        let (name, inner) = path.split_once('.').unzip();
        let value = fields.get(name.unwrap_or(path));
        let value = inner.map_or(value, |inner| value?.get(inner));
        value.is_some_and(|value| !value.is_null())
    };
    paths.into_iter().find(is_given)
}

/// Reports whether `keep_alive` is 0: a number of seconds, or a text such as `0` and `0s`.
fn asks_to_unload(fields: &Fields) -> bool {
    match fields.get("keep_alive") {
        Some(Value::Number(seconds)) => seconds.as_f64() == Some(0.0),
        Some(Value::String(text)) => text.trim_end_matches(char::is_alphabetic) == "0",
        _ => false,
    }
}
