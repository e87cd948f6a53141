use super::fields::{Fields, Place};
use super::neutral;
use crate::RequestError;
use crate::error::Problem;

/// Who speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Sets the scene. `developer` on the wire means the same.
    System,
    /// Asks.
    User,
    /// Answers.
    Assistant,
    /// Gives the result of a call.
    Tool,
}

impl Role {
    /// The name that chat templates know.
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

/// One message of the conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said; absent only beside calls. Text parts are joined by line breaks.
    pub content: Option<String>,
    /// What the assistant thought.
    pub reasoning: Option<String>,
    /// What the assistant called.
    pub tool_calls: Vec<ToolCall>,
    /// Which call this is the result of.
    pub tool_call_id: Option<String>,
    /// Who speaks, or which tool, by name.
    pub name: Option<String>,
}

/// A call that the assistant made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCall {
    /// Unique within the conversation.
    pub id: String,
    /// The function's name.
    pub name: String,
    /// Its arguments, as they were written.
    pub arguments: String,
}

impl ChatMessage {
    /// `role` says `content`.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        let content = Some(content.into());
        Self { role, content, reasoning: None, tool_calls: Vec::new(), tool_call_id: None, name: None }
    }
}

/// Reads `messages`.
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
        // What official clients made of the content, beside it.
        fields.take("parsed");
        // What LiteLLM keeps of other providers.
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
        // The index is a relic of streams that some clients send back.
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

/// `text`, or the names that responses have for text.
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
