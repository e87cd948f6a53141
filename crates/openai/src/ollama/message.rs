use crate::RequestError;
use crate::request::{ChatMessage, Images, Place, Role, check_neutral_message, read_calls, read_parts};

/// Parses the array `messages`. An empty array asks to load the model.
pub(super) fn read_all(at: Place) -> Result<Vec<ChatMessage>, RequestError> {
    at.list("an array of messages")?.into_iter().map(read).collect()
}

fn read(at: Place) -> Result<ChatMessage, RequestError> {
    let mut fields = at.fields()?;
    let role = fields.required("role")?.one_of(Role::from_name, "system, user, assistant and tool")?;
    check_neutral_message(&mut fields)?;
    // An image of a tool must not end the conversation.
    let images = if role == Role::Tool { Images::Placeholder } else { Images::Refused };
    let content = fields.read("content", |at| read_parts(at, images))?;
    let mut message = ChatMessage { content, ..ChatMessage::new(role, "") };
    let name = fields.read("tool_name", Place::string)?;
    message.name = name.or(fields.read("name", Place::string)?);
    if role == Role::Assistant {
        message.reasoning = fields.read("thinking", Place::string)?.filter(|text| !text.is_empty());
        message.tool_calls = fields.read("tool_calls", read_calls)?.unwrap_or_default();
    }
    if role == Role::Tool {
        // Most clients of Ollama send no ids.
        message.tool_call_id = Some(fields.read("tool_call_id", Place::string)?.unwrap_or_default());
    }
    if message.tool_calls.is_empty() {
        message.content.get_or_insert_default();
    }
    fields.finish()?;
    Ok(message)
}
