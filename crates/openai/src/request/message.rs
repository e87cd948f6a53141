use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::fields::{Fields, Place};
use super::neutral;
use crate::RequestError;
use crate::error::Problem;

/// Author of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Instructions for the model. On the wire, `developer` means the same as `system`.
    System,
    /// The user.
    User,
    /// The model, in an earlier answer.
    Assistant,
    /// A tool, with the result of a call.
    Tool,
}

impl Role {
    /// Returns the name of the role in chat templates, such as `user`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "system" | "developer" => Some(Self::System),
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            // `function` is the older name of `tool`.
            "tool" | "function" => Some(Self::Tool),
            _ => None,
        }
    }
}

/// Message of a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatMessage {
    /// Author of the message.
    pub role: Role,
    /// Text of the message. If the request has several text parts, they are joined by line breaks.
    /// `None` for an assistant message that only calls tools.
    pub content: Option<String>,
    /// Reasoning that precedes the message. Only for assistant messages.
    pub reasoning: Option<String>,
    /// Tool calls in the message. Only for assistant messages.
    pub tool_calls: Vec<ToolCall>,
    /// Id of the call whose result the message is. Only for tool messages.
    pub tool_call_id: Option<String>,
    /// Name of the author or of the tool. `None` if the request has no name.
    pub name: Option<String>,
}

/// Tool call in an assistant message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCall {
    /// Id of the call, unique within the conversation. Empty if the request has none.
    pub id: String,
    /// Name of the called function.
    pub name: String,
    /// Arguments of the call as JSON text, exactly as the assistant wrote them.
    pub arguments: String,
}

impl ToolCall {
    /// Creates the call of a custom tool. In the prompt it is the call of a function with the argument
    /// `input`, spelt as a model spells it.
    pub(crate) fn custom(id: String, name: String, input: String) -> Self {
        Self { id, name, arguments: format!("{{\"input\": {}}}", Value::from(input)) }
    }
}

impl ChatMessage {
    /// Creates a message with the text `content` and no other fields.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        let content = Some(content.into());
        Self { role, content, reasoning: None, tool_calls: Vec::new(), tool_call_id: None, name: None }
    }

    /// Returns true if the message can be the beginning of an answer.
    pub(crate) fn may_be_continued(&self) -> bool {
        self.role == Role::Assistant && self.content.is_some() && self.tool_calls.is_empty()
    }
}

/// Messages of a conversation.
pub(super) struct Messages {
    pub(super) all: Vec<ChatMessage>,
    /// True if the last message is marked as the beginning of the answer.
    pub(super) is_begun: bool,
}

/// Parses the array `messages`, which must not be empty.
pub(super) fn read_all(at: Place) -> Result<Messages, RequestError> {
    let places = at.list("an array of messages")?;
    let Some(last) = places.len().checked_sub(1) else {
        return Err(RequestError::field("messages", Problem::Empty));
    };
    let mut messages = Messages { all: Vec::with_capacity(places.len()), is_begun: false };
    let mut open_calls = OpenCalls::default();
    // True from the result of a tool to the next message of the assistant.
    let mut is_after_result = false;
    for (index, place) in places.iter().enumerate() {
        let mut fields = place.clone().fields()?;
        // Names of DeepSeek and Mistral, and of Moonshot.
        for name in ["prefix", "partial"] {
            let Some(at) = fields.take(name) else { continue };
            let marks = at.clone().bool()?;
            let is_answer = index == last && fields.get("role").is_some_and(|role| role == "assistant");
            if marks && !is_answer {
                return Err(at.error(Problem::NotAnAnswer));
            }
            messages.is_begun |= marks;
        }
        let images = Images::after_result(is_after_result);
        let message = read(place, fields, (index, images), &mut open_calls)?;
        match message.role {
            Role::Tool => is_after_result = true,
            Role::Assistant => is_after_result = false,
            _ => {}
        }
        if !message.tool_calls.is_empty() {
            open_calls.clear();
            for call in &message.tool_calls {
                open_calls.entry(call.name.clone()).or_default().push_back(call.id.clone());
            }
        }
        messages.all.push(message);
    }
    Ok(messages)
}

/// Ids of calls by the names of their functions.
type OpenCalls = HashMap<String, VecDeque<String>>;

/// Parses the message at an index. `images` applies to messages of users. `open_calls` has the calls of the
/// last message with calls.
fn read(
    at: &Place,
    mut fields: Fields,
    (index, images): (usize, Images),
    open_calls: &mut OpenCalls,
) -> Result<ChatMessage, RequestError> {
    let role = fields
        .required("role")?
        .one_of(Role::from_name, "system, developer, user, assistant, tool and function")?;
    let mut message = ChatMessage { content: None, ..ChatMessage::new(role, "") };
    message.name = fields.read("name", Place::string)?;
    neutral::check(&mut fields, &neutral::MESSAGE)?;
    if role == Role::Assistant {
        neutral::check(&mut fields, &neutral::ASSISTANT)?;
        // Clients send back what they derived from an answer, and what other servers had added to it.
        for name in ["parsed", "provider_specific_fields", "annotations"] {
            fields.take(name);
        }
        fields.ignore("refusal");
        message.tool_calls = fields.read("tool_calls", read_calls)?.unwrap_or_default();
        if let Some(at) = fields.take("function_call") {
            let id = format!("call_{index}");
            message.tool_calls.push(read_function_call(at, id)?);
        }
        let reasoning = fields.read("reasoning_content", Place::string)?;
        message.reasoning = reasoning.or(fields.read("reasoning", Place::string)?);
        message.content = fields.read("content", read_content)?;
        if message.content.is_none() && message.tool_calls.is_empty() {
            return Err(at.error(Problem::SaysNothing));
        }
    } else if role == Role::Tool {
        // A tool may have nothing to say, and an image of a tool must not end the conversation.
        let content = fields.read("content", |at| read_parts(at, Images::Placeholder))?;
        message.content = Some(content.unwrap_or_default());
        let id = fields.read("tool_call_id", Place::string)?;
        // Results without ids belong to the calls of their function, in this order.
        // Further results belong to the last one.
        let called = || {
            let ids = open_calls.get_mut(message.name.as_ref()?)?;
            if ids.len() > 1 { ids.pop_front() } else { ids.front().cloned() }
        };
        message.tool_call_id = Some(id.or_else(called).unwrap_or_default());
    } else {
        message.content = Some(read_parts(fields.required("content")?, images)?);
    }
    fields.finish()?;
    Ok(message)
}

/// Parses a call in the form that was used before `tool_calls`.
fn read_function_call(at: Place, id: String) -> Result<ToolCall, RequestError> {
    let mut fields = at.fields()?;
    let name = fields.required("name")?.string()?;
    let arguments = fields.read("arguments", read_arguments)?.unwrap_or_else(|| "{}".to_owned());
    fields.finish()?;
    Ok(ToolCall { id, name, arguments })
}

/// Parses the calls of an assistant message.
pub(crate) fn read_calls(at: Place) -> Result<Vec<ToolCall>, RequestError> {
    let call = |at: Place| {
        let mut fields = at.fields()?;
        // Some clients send back the `index` of streamed calls.
        for name in ["index", "provider_specific_fields"] {
            fields.take(name);
        }
        let is_custom = |name: &str| match name {
            "function" => Some(false),
            "custom" => Some(true),
            _ => None,
        };
        let is_custom = fields.read("type", |at| at.one_of(is_custom, "function and custom"))?;
        let id = fields.read("id", Place::string)?.unwrap_or_default();
        if is_custom == Some(true) {
            let mut custom = fields.required("custom")?.fields()?;
            let name = custom.required("name")?.string()?;
            let input = custom.required("input")?.string()?;
            custom.finish()?;
            fields.finish()?;
            return Ok(ToolCall::custom(id, name, input));
        }
        let mut function = fields.required("function")?.fields()?;
        let name = function.required("name")?.string()?;
        let arguments = function.read("arguments", read_arguments)?.unwrap_or_else(|| "{}".to_owned());
        // Ollama has the `index` of a call here.
        for name in ["index", "parsed_arguments", "provider_specific_fields"] {
            function.take(name);
        }
        function.finish()?;
        fields.finish()?;
        Ok(ToolCall { id, name, arguments })
    };
    at.list("an array of calls")?.into_iter().map(call).collect()
}

/// Parses the arguments of a call: a JSON text, or the object itself.
pub(crate) fn read_arguments(at: Place) -> Result<String, RequestError> {
    if at.value().is_object() {
        return Ok(at.value().to_string());
    }
    at.string()
}

/// Text that stands for an image.
pub(crate) const IMAGE: &str = "[An image, which this model cannot see.]";

/// Treatment of parts of a content that are images.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Images {
    Refused,
    /// A text stands for the image.
    Placeholder,
}

impl Images {
    /// Returns the treatment in a message of the user. Agents send the image that a tool has read in a
    /// message after the result, and it must not end the conversation.
    pub(crate) const fn after_result(is_after_result: bool) -> Self {
        if is_after_result { Self::Placeholder } else { Self::Refused }
    }
}

/// Parses the content of a message: a string or text parts.
pub(crate) fn read_content(at: Place) -> Result<String, RequestError> {
    read_parts(at, Images::Refused)
}

/// Parses a content: a string, or parts, of which images are treated as given.
pub(crate) fn read_parts(at: Place, images: Images) -> Result<String, RequestError> {
    if at.is_string() {
        return at.string();
    }
    let parts = at.list("a string or an array of text parts")?;
    let texts: Vec<String> =
        parts.into_iter().map(|part| read_part(part, images)).collect::<Result<_, _>>()?;
    Ok(texts.join("\n"))
}

/// Parses a part and returns its text. The type of a text part may be `text`, `input_text`,
/// `output_text` or `refusal`, which an assistant's answer may have.
fn read_part(at: Place, images: Images) -> Result<String, RequestError> {
    const TEXTS: [&str; 4] = ["text", "input_text", "output_text", "refusal"];
    const IMAGES: [&str; 3] = ["image_url", "input_image", "image"];
    let mut fields = at.clone().fields()?;
    let is_image = |name: &str| match name {
        name if TEXTS.contains(&name) => Some(false),
        name if IMAGES.contains(&name) && images == Images::Placeholder => Some(true),
        _ => None,
    };
    let kind = fields.required("type")?;
    if kind.one_of(is_image, "text")? {
        at.ignore();
        return Ok(IMAGE.to_owned());
    }
    let name = if kind.value() == "refusal" { "refusal" } else { "text" };
    let text = fields.required(name)?.string()?;
    for name in ["annotations", "logprobs", "parsed"] {
        fields.take(name);
    }
    fields.ignore("cache_control");
    fields.finish()?;
    Ok(text)
}
