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
}

impl Role {
    /// The name that chat templates know.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "system" | "developer" => Some(Self::System),
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            _ => None,
        }
    }
}

/// One message of the conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said. Text parts are joined by line breaks.
    pub content: String,
}

/// Reads `messages`.
pub(super) fn read_all(at: Place) -> Result<Vec<ChatMessage>, RequestError> {
    let messages = at.list("an array of messages")?;
    if messages.is_empty() {
        return Err(RequestError::field("messages", Problem::Empty));
    }
    messages.into_iter().map(|message| read(message.fields()?)).collect()
}

fn read(mut fields: Fields) -> Result<ChatMessage, RequestError> {
    let role = fields.required("role")?.one_of(Role::from_name, "system, developer, user and assistant")?;
    if role == Role::Assistant {
        neutral::check(&mut fields, &neutral::ASSISTANT)?;
    }
    let content = read_content(fields.required("content")?)?;
    fields.finish()?;
    Ok(ChatMessage { role, content })
}

fn read_content(at: Place) -> Result<String, RequestError> {
    if at.is_string() {
        return at.string();
    }
    let parts = at.list("a string or an array of text parts")?;
    let texts: Vec<String> =
        parts.into_iter().map(|part| read_part(part.fields()?)).collect::<Result<_, _>>()?;
    Ok(texts.join("\n"))
}

fn read_part(mut fields: Fields) -> Result<String, RequestError> {
    fields.required("type")?.one_of(|name| (name == "text").then_some(()), "text")?;
    let text = fields.required("text")?.string()?;
    fields.finish()?;
    Ok(text)
}
