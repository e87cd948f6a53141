//! Messages whose content is a list of blocks.

use serde_json::Value;

use crate::RequestError;
use crate::request::{ChatMessage, Fields, IMAGE, Images, Place, Role, ToolCall, read_arguments, read_parts};

/// Parses `messages`. A message of the user with results of tools becomes several messages.
pub(super) fn read_messages(at: Place) -> Result<Vec<ChatMessage>, RequestError> {
    let mut messages: Vec<ChatMessage> = Vec::new();
    // True from the result of a tool to the next message of the assistant. Agents send what a tool has read
    // after its result.
    let mut is_after_result = false;
    for place in at.list("an array of messages")? {
        let mut fields = place.clone().fields()?;
        let known = |name: &str| match name {
            "user" => Some(Role::User),
            "assistant" => Some(Role::Assistant),
            // Anthropic's newer models take instructions between messages.
            "system" => Some(Role::System),
            _ => None,
        };
        let role = fields.required("role")?.one_of(known, "user, assistant and system")?;
        let content = fields.required("content")?;
        fields.finish()?;
        let blocks = if content.is_string() {
            vec![Block::Text(content.string()?)]
        } else {
            let mut blocks: Vec<Block> = Vec::new();
            for place in content.list("a string or an array of content blocks")? {
                let block = read_block(place, role, Images::after_result(is_after_result))?;
                is_after_result |= matches!(block, Block::Result { .. });
                blocks.push(block);
            }
            blocks
        };
        match role {
            Role::Assistant => {
                is_after_result = false;
                match assistant(blocks) {
                    Some(message) => messages.push(message),
                    // Thoughts without an answer leave nothing to show to a model.
                    None => place.ignore(),
                }
            }
            _ => add_user(&mut messages, role, blocks),
        }
    }
    Ok(messages)
}

/// Content block of a message.
enum Block {
    Text(String),
    Thought(String),
    Call(ToolCall),
    Result {
        id: String,
        text: String,
    },
    /// Block that adds nothing to the conversation.
    Nothing,
}

/// Parses a block of a message. `images` also applies to documents that cannot be read.
fn read_block(at: Place, role: Role, images: Images) -> Result<Block, RequestError> {
    type Reader = fn(&mut Fields) -> Result<Block, RequestError>;
    let user = |name: &str| -> Option<Reader> {
        match name {
            "text" => Some(read_text),
            "tool_result" => Some(read_result),
            "document" => Some(read_document),
            "search_result" => Some(read_search_result),
            _ => None,
        }
    };
    let assistant = |name: &str| -> Option<Reader> {
        match name {
            "text" => Some(read_text),
            "thinking" => Some(read_thought),
            // Thoughts that another server encrypted. They cannot be read here, and are not needed to read
            // the answer.
            "redacted_thinking" => Some(|fields| {
                fields.ignore("data");
                Ok(Block::Nothing)
            }),
            "tool_use" => Some(read_call),
            _ => None,
        }
    };
    if images == Images::Placeholder
        && role != Role::Assistant
        && let Some(text) = placeholder(at.value())
    {
        at.ignore();
        return Ok(Block::Text(text.to_owned()));
    }
    let mut fields = at.fields()?;
    let kind = fields.required("type")?;
    let read = if role == Role::Assistant {
        kind.one_of(assistant, "text, thinking, redacted_thinking and tool_use")?
    } else {
        kind.one_of(user, "text, tool_result, search_result and document")?
    };
    let block = read(&mut fields)?;
    // Caches and sources of quotations change nothing that a model reads.
    for name in ["cache_control", "citations"] {
        fields.ignore(name);
    }
    fields.finish()?;
    Ok(block)
}

/// Text that stands for a document.
const DOCUMENT: &str = "[A document, which this model cannot read.]";

/// Returns the text that stands for an image, or for a document whose text is not part of the request.
/// `None` for other blocks.
fn placeholder(block: &Value) -> Option<&'static str> {
    match block.get("type")?.as_str()? {
        "image" => Some(IMAGE),
        "document" => {
            let kind = block.get("source")?.get("type")?;
            ["base64", "url", "file"].iter().any(|known| kind == known).then_some(DOCUMENT)
        }
        _ => None,
    }
}

fn read_text(fields: &mut Fields) -> Result<Block, RequestError> {
    Ok(Block::Text(fields.required("text")?.string()?))
}

fn read_thought(fields: &mut Fields) -> Result<Block, RequestError> {
    // Answers of this server have an empty signature, which needs no check.
    fields.take("signature");
    Ok(Block::Thought(fields.required("thinking")?.string()?))
}

fn read_call(fields: &mut Fields) -> Result<Block, RequestError> {
    fields.ignore("caller");
    Ok(Block::Call(ToolCall {
        id: fields.required("id")?.string()?,
        name: fields.required("name")?.string()?,
        arguments: fields.read("input", read_arguments)?.unwrap_or_else(|| "{}".to_owned()),
    }))
}

fn read_result(fields: &mut Fields) -> Result<Block, RequestError> {
    let id = fields.required("tool_use_id")?.string()?;
    let text = fields.read("content", read_result_content)?.unwrap_or_default();
    let is_error = fields.read("is_error", Place::bool)?.unwrap_or(false);
    let text = match text.as_str() {
        "" if is_error => "Error".to_owned(),
        text if is_error && !text.to_lowercase().contains("error") => format!("Error: {text}"),
        _ => text,
    };
    Ok(Block::Result { id, text })
}

/// Parses the content of a result: a string, or blocks. An image or a document that cannot be read becomes
/// a placeholder, so that it does not end the conversation.
fn read_result_content(at: Place) -> Result<String, RequestError> {
    type Reader = fn(&mut Fields) -> Result<Block, RequestError>;
    if at.is_string() {
        return at.string();
    }
    let known = |name: &str| -> Option<Reader> {
        match name {
            "text" => Some(read_text),
            "document" => Some(read_document),
            "search_result" => Some(read_search_result),
            "tool_reference" => Some(|fields| Ok(Block::Text(fields.required("tool_name")?.string()?))),
            _ => None,
        }
    };
    let mut texts = Vec::new();
    for place in at.list("a string or an array of content blocks")? {
        if let Some(text) = placeholder(place.value()) {
            texts.push(text.to_owned());
            place.ignore();
            continue;
        }
        let mut fields = place.clone().fields()?;
        let kind = fields.required("type")?;
        let read = kind.one_of(known, "text, document, search_result, tool_reference and image")?;
        if let Block::Text(text) = read(&mut fields)? {
            texts.push(text);
        }
        for name in ["cache_control", "citations"] {
            fields.ignore(name);
        }
        fields.finish()?;
    }
    Ok(texts.join("\n"))
}

/// Parses a document whose text is part of the request.
fn read_document(fields: &mut Fields) -> Result<Block, RequestError> {
    let mut source = fields.required("source")?.fields()?;
    let known = |name: &str| ["text", "content"].into_iter().find(|known| *known == name);
    let text = match source.required("type")?.one_of(known, "text and content")? {
        "text" => {
            source.take("media_type");
            source.required("data")?.string()?
        }
        _ => read_parts(source.required("content")?, Images::Refused)?,
    };
    source.finish()?;
    let mut parts = Vec::new();
    for name in ["title", "context"] {
        parts.extend(fields.read(name, Place::string)?);
    }
    parts.push(text);
    Ok(Block::Text(parts.join("\n")))
}

fn read_search_result(fields: &mut Fields) -> Result<Block, RequestError> {
    let title = fields.required("title")?.string()?;
    let source = fields.required("source")?.string()?;
    let text = read_parts(fields.required("content")?, Images::Refused)?;
    Ok(Block::Text(format!("{title}\n{source}\n{text}")))
}

/// Joins the blocks of the assistant to one message. Returns `None` if they say nothing.
fn assistant(blocks: Vec<Block>) -> Option<ChatMessage> {
    let mut message = ChatMessage { content: None, ..ChatMessage::new(Role::Assistant, "") };
    for block in blocks {
        match block {
            Block::Text(text) => append(&mut message.content, "", &text),
            Block::Thought(text) => append(&mut message.reasoning, "\n", &text),
            Block::Call(call) => message.tool_calls.push(call),
            Block::Result { .. } | Block::Nothing => {}
        }
    }
    (message.content.is_some() || !message.tool_calls.is_empty()).then_some(message)
}

/// Adds the blocks of a user: results of tools as messages of their own, and texts around them.
fn add_user(messages: &mut Vec<ChatMessage>, role: Role, blocks: Vec<Block>) {
    let mut said: Option<String> = None;
    for block in blocks {
        match block {
            Block::Text(text) => append(&mut said, "\n", &text),
            Block::Result { id, text } => {
                messages.extend(said.take().map(|text| ChatMessage::new(role, text)));
                let result = ChatMessage::new(Role::Tool, text);
                messages.push(ChatMessage { tool_call_id: Some(id), ..result });
            }
            Block::Thought(_) | Block::Call(_) | Block::Nothing => {}
        }
    }
    messages.extend(said.map(|text| ChatMessage::new(role, text)));
}

fn append(all: &mut Option<String>, separator: &str, text: &str) {
    match all {
        Some(all) => {
            all.push_str(separator);
            all.push_str(text);
        }
        None => *all = Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::anthropic::MessagesRequest;

    fn read(body: &Value) -> Result<MessagesRequest, RequestError> {
        MessagesRequest::from_json(body.to_string().as_bytes())
    }

    #[test]
    fn results_become_messages_before_the_text() {
        let body = json!({"model": "m", "system": [{"type": "text", "text": "s", "cache_control": {}}], "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "x"}, {"type": "redacted_thinking", "data": "y"},
                {"type": "text", "text": "b"}, {"type": "tool_use", "id": "1", "name": "f", "input": {"c": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "no"}], "is_error": true},
                {"type": "text", "text": "d"}, {"type": "text", "text": "e"}]},
            {"role": "assistant", "content": "f"},
        ]});
        let MessagesRequest { chat, .. } = read(&body).unwrap();
        let roles: Vec<&str> = chat.messages.iter().map(|message| message.role.name()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "user", "assistant"]);
        let texts: Vec<_> = chat.messages.iter().map(|message| message.content.as_deref().unwrap()).collect();
        assert_eq!(texts, ["s", "a", "b", "Error: no", "d\ne", "f"]);
        let answer = &chat.messages[2];
        assert_eq!((answer.reasoning.as_deref(), &*answer.tool_calls[0].arguments), (Some("t"), "{\"c\":1}"));
        assert!(chat.continues);
        assert_eq!(chat.ignored.known, ["system[0].cache_control", "messages[].content[].data"]);
    }

    #[test]
    fn results_have_texts_documents_and_placeholders() {
        let document = json!({"type": "document", "title": "t", "source": {"type": "text", "data": "d", "media_type": "text/plain"}});
        let blocks = json!([{"type": "text", "text": "a"}, {"type": "image", "source": {}}, document,
            {"type": "tool_reference", "tool_name": "f"}]);
        let body = json!({"messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": blocks}]},
        ]});
        let MessagesRequest { chat, .. } = read(&body).unwrap();
        assert_eq!(chat.messages.len(), 2);
        let expected = "a\n[An image, which this model cannot see.]\nt\nd\nf";
        assert_eq!(chat.messages[1].content.as_deref(), Some(expected));
        assert_eq!(chat.ignored.known, ["messages[]", "messages[].content[].content[]"]);
    }

    #[test]
    fn faulty_blocks_are_named() {
        for (message, expected) in [
            (
                json!({"role": "user", "content": [{"type": "image", "source": {}}]}),
                "messages[0].content[0].type",
            ),
            (json!({"role": "user", "content": [{"type": "text"}]}), "messages[0].content[0].text"),
            (
                json!({"role": "user", "content": [{"type": "document", "source": {"type": "base64"}}]}),
                "messages[0].content[0].source.type",
            ),
            (
                json!({"role": "assistant", "content": [{"type": "tool_result"}]}),
                "messages[0].content[0].type",
            ),
            (json!({"role": "tool", "content": "a"}), "messages[0].role"),
            (json!({"role": "user"}), "messages[0].content"),
        ] {
            let error = read(&json!({"messages": [message]})).unwrap_err();
            assert_eq!(error.param(), Some(expected));
        }
    }

    #[test]
    fn constraints_and_thinking_are_read() {
        let body = |name: &str, value: Value| {
            let mut body = json!({"messages": [{"role": "user", "content": "a"}]});
            body[name] = value;
            body
        };
        let schema = json!({"type": "json_schema", "schema": {"type": "object"}});
        let config = read(&body("output_config", json!({"format": schema, "effort": "max"}))).unwrap().chat;
        assert_eq!(config.format.unwrap().field, "output_config.format.schema");
        assert_eq!(config.chat_template_kwargs["reasoning_effort"], "max");
        assert!(read(&body("output_format", schema.clone())).unwrap().chat.format.is_some());
        let mut both = body("output_format", schema);
        both["guided_regex"] = "a".into();
        assert_eq!(read(&both).unwrap_err().param(), Some("guided_regex"));
        let thinking = json!({"type": "enabled", "budget_tokens": 1024, "display": "omitted"});
        let request = read(&body("thinking", thinking)).unwrap();
        assert!(request.hides_thoughts && request.chat.parameters.reasoning_budget == Some(1024));
        assert!(request.chat.ignored.known.is_empty());
        let display = json!({"type": "enabled", "display": "none"});
        assert_eq!(read(&body("thinking", display)).unwrap_err().param(), Some("thinking.display"));
        let stops = read(&body("stop_sequences", json!(["a", "b"]))).unwrap();
        assert_eq!(stops.chat.parameters.stop, ["a", "b"]);
        assert_eq!(read(&body("stop_sequences", json!([1]))).unwrap_err().param(), Some("stop_sequences[0]"));
    }
}
