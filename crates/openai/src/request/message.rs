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
            "tool" => Some(Self::Tool),
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
    /// Id of the call, unique within the conversation.
    pub id: String,
    /// Name of the called function.
    pub name: String,
    /// Arguments of the call as JSON text, exactly as the assistant wrote them.
    pub arguments: String,
}

impl ChatMessage {
    /// Creates a message with the text `content` and no other fields.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        let content = Some(content.into());
        Self { role, content, reasoning: None, tool_calls: Vec::new(), tool_call_id: None, name: None }
    }
}

/// Parses the array `messages`, which must not be empty.
pub(super) fn read_all(at: Place) -> Result<Vec<ChatMessage>, RequestError> {
    let messages = at.list("an array of messages")?;
    if messages.is_empty() {
        return Err(RequestError::field("messages", Problem::Empty));
    }
    messages.iter().map(read).collect()
}

fn read(at: &Place) -> Result<ChatMessage, RequestError> {
    let mut fields = at.clone().fields()?;
    let role =
        fields.required("role")?.one_of(Role::from_name, "system, developer, user, assistant and tool")?;
    let mut message = ChatMessage { content: None, ..ChatMessage::new(role, "") };
    message.name = fields.read("name", Place::string)?;
    if role == Role::Assistant {
        neutral::check(&mut fields, &neutral::ASSISTANT)?;
        // Official clients send back their parsed form of the content.
        fields.take("parsed");
        // LiteLLM stores data of other providers here.
        fields.take("provider_specific_fields");
        message.tool_calls = fields.read("tool_calls", read_calls)?.unwrap_or_default();
        let reasoning = fields.read("reasoning_content", Place::string)?;
        message.reasoning = reasoning.or(fields.read("reasoning", Place::string)?);
        message.content = fields.read("content", read_content)?;
        if message.content.is_none() && message.tool_calls.is_empty() {
            return Err(at.error(Problem::SaysNothing));
        }
    } else {
        message.content = Some(read_content(fields.required("content")?)?);
    }
    if role == Role::Tool {
        message.tool_call_id = Some(fields.required("tool_call_id")?.string()?);
    }
    fields.finish()?;
    Ok(message)
}

fn read_calls(at: Place) -> Result<Vec<ToolCall>, RequestError> {
    let call = |at: Place| {
        let mut fields = at.fields()?;
        // Some clients send back the `index` of streamed calls.
        fields.take("index");
        fields.take("provider_specific_fields");
        if let Some(kind) = fields.take("type") {
            kind.one_of(|name| (name == "function").then_some(()), "function")?;
        }
        let id = fields.required("id")?.string()?;
        let mut function = fields.required("function")?.fields()?;
        let name = function.required("name")?.string()?;
        let arguments = function.read("arguments", Place::string)?.unwrap_or_else(|| "{}".to_owned());
        function.take("parsed_arguments");
        function.take("provider_specific_fields");
        function.finish()?;
        fields.finish()?;
        Ok(ToolCall { id, name, arguments })
    };
    at.list("an array of calls")?.into_iter().map(call).collect()
}

pub(crate) fn read_content(at: Place) -> Result<String, RequestError> {
    if at.is_string() {
        return at.string();
    }
    let parts = at.list("a string or an array of text parts")?;
    let texts: Vec<String> =
        parts.into_iter().map(|part| read_part(part.fields()?)).collect::<Result<_, _>>()?;
    Ok(texts.join("\n"))
}

/// Parses a text part and returns its text. The type of the part may be `text`, `input_text` or
/// `output_text`.
fn read_part(mut fields: Fields) -> Result<String, RequestError> {
    let known = |name: &str| ["text", "input_text", "output_text"].contains(&name).then_some(());
    fields.required("type")?.one_of(known, "text")?;
    let text = fields.required("text")?.string()?;
    for name in ["annotations", "logprobs", "parsed"] {
        fields.take(name);
    }
    fields.finish()?;
    Ok(text)
}
