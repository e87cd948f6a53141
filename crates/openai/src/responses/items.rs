//! Items of a request: parsed for the prompt, and in the form in which they are listed later.

use serde_json::{Map, Value};

use super::listed::listed_form;
use super::stored::{Earlier, StoredItems};
use crate::RequestError;
use crate::error::Problem;
use crate::request::{
    ChatMessage, DeclaredTools, Fields, Images, Place, Role, ToolCall, ToolForm, read_arguments,
    read_declared_tools, read_parts, read_tool_name, shortened,
};

/// Item of the conversation in a request.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum InputItem {
    /// Message of any role.
    Message(ChatMessage),
    /// Call of a function or of a custom tool by the assistant.
    Call(ToolCall),
    /// Text of the assistant's reasoning.
    Reasoning(String),
    /// Tools that the model may call from then on.
    Tools(DeclaredTools),
    /// Item that adds nothing to the conversation.
    Nothing,
}

/// The items of a request.
#[derive(Default)]
pub(super) struct Items {
    pub(super) parsed: Vec<InputItem>,
    /// The same items in the form in which they are listed, without the items that add nothing.
    pub(super) listed: Vec<Map<String, Value>>,
}

/// Parses items, and finds stored items by the ids in a request.
pub(super) struct ItemReader<'a> {
    stored: &'a mut dyn StoredItems,
    /// Number of bytes of the stored items so far.
    bytes: usize,
    /// True from the result of a tool to the next item of the assistant.
    is_after_result: bool,
}

impl<'a> ItemReader<'a> {
    pub(super) fn new(stored: &'a mut dyn StoredItems) -> Self {
        Self { stored, bytes: 0, is_after_result: false }
    }

    /// Returns the items that precede a request. The id of `earlier` stands at `at`.
    pub(super) fn before(&mut self, earlier: &Earlier, at: &Place) -> Result<Vec<InputItem>, RequestError> {
        if !self.stored.is_on() {
            return Err(at.error(Problem::StoreOff));
        }
        let texts = self.stored.before(earlier).ok_or_else(|| {
            at.error(match earlier {
                Earlier::Response(id) => Problem::NoResponse { id: shortened(id) },
                Earlier::Conversation(id) => Problem::NoConversation { id: shortened(id) },
            })
        })?;
        self.count(texts.iter().map(|text| text.len()).sum(), at)?;
        texts.iter().map(|text| self.item(Place::of_accepted("input", text)?)).collect()
    }

    /// Parses the array `input` or `items`, which must not be empty. A string is a message of the user.
    pub(super) fn read(&mut self, at: Place) -> Result<Items, RequestError> {
        let mut items = Items::default();
        if at.is_string() {
            let message = serde_json::json!({ "role": "user", "content": at.value() });
            items.listed.extend(listed_form(&message));
            items.parsed.push(InputItem::Message(ChatMessage::new(Role::User, at.string()?)));
            return Ok(items);
        }
        let places = at.clone().list("a string or an array of items")?;
        if places.is_empty() {
            return Err(at.error(Problem::Empty));
        }
        for place in places {
            let place = self.resolved(place)?;
            items.listed.extend(listed_form(place.value()));
            items.parsed.push(self.item(place)?);
        }
        Ok(items)
    }

    /// Parses the next item of the conversation.
    fn item(&mut self, at: Place) -> Result<InputItem, RequestError> {
        let item = read_item(at, Images::after_result(self.is_after_result))?;
        self.is_after_result = match &item {
            InputItem::Message(message) if message.role == Role::Tool => true,
            InputItem::Message(message) if message.role == Role::Assistant => false,
            InputItem::Call(_) | InputItem::Reasoning(_) => false,
            _ => self.is_after_result,
        };
        Ok(item)
    }

    /// Replaces a reference to a stored item by the item.
    fn resolved(&mut self, at: Place) -> Result<Place, RequestError> {
        let value = at.value();
        let id = value.get("id").and_then(Value::as_str);
        let (true, Some(id)) = (value.get("type").is_some_and(|kind| kind == "item_reference"), id) else {
            return Ok(at);
        };
        let Some(text) = self.stored.item(id) else { return Ok(at) };
        self.count(text.len(), &at)?;
        at.replaced(&text)
    }

    fn count(&mut self, bytes: usize, at: &Place) -> Result<(), RequestError> {
        self.bytes = self.bytes.saturating_add(bytes);
        let (given, limit) = (self.bytes, self.stored.max_bytes());
        if given > limit { Err(at.error(Problem::StoredTooLong { given, limit })) } else { Ok(()) }
    }
}

/// Parses an item. `images` applies to messages.
fn read_item(at: Place, images: Images) -> Result<InputItem, RequestError> {
    type Reader = fn(&mut Fields, Images) -> Result<InputItem, RequestError>;
    let known = |name: &str| -> Option<Reader> {
        match name {
            "message" => Some(read_message),
            "function_call" => Some(read_call),
            "custom_tool_call" => Some(read_custom_call),
            "function_call_output" | "custom_tool_call_output" => Some(read_result),
            "reasoning" => Some(read_thought),
            "item_reference" => Some(read_reference),
            "additional_tools" => Some(read_added_tools),
            _ => None,
        }
    };
    let place = at.clone();
    let mut fields = at.fields()?;
    let supported = "message, function_call, function_call_output, custom_tool_call, custom_tool_call_output, reasoning and additional_tools";
    let kind = fields.read("type", |at| at.one_of(known, supported))?;
    let item = kind.unwrap_or(read_message)(&mut fields, images)?;
    if item == InputItem::Nothing {
        place.ignore();
    }
    for name in ["id", "status", "parsed_arguments", "phase", "decisions", "decisions_error"] {
        fields.take(name);
    }
    fields.finish()?;
    Ok(item)
}

/// Parses a reference to an item that is not stored. Only a reference to reasoning can be left out: an
/// answer is the same to a reader without the reasoning that led to it.
fn read_reference(fields: &mut Fields, _: Images) -> Result<InputItem, RequestError> {
    let at = fields.required("id")?;
    let id = at.clone().string()?;
    if !id.starts_with("rs_") {
        return Err(at.error(Problem::NoItem { id: shortened(&id) }));
    }
    Ok(InputItem::Nothing)
}

fn read_message(fields: &mut Fields, images: Images) -> Result<InputItem, RequestError> {
    let known = |name: &str| Role::from_name(name).filter(|role| *role != Role::Tool);
    let role = fields.required("role")?.one_of(known, "system, developer, user and assistant")?;
    Ok(InputItem::Message(ChatMessage::new(role, read_parts(fields.required("content")?, images)?)))
}

fn read_call(fields: &mut Fields, _: Images) -> Result<InputItem, RequestError> {
    Ok(InputItem::Call(ToolCall {
        id: fields.required("call_id")?.string()?,
        name: read_tool_name(fields)?,
        arguments: read_arguments(fields.required("arguments")?)?,
    }))
}

fn read_custom_call(fields: &mut Fields, _: Images) -> Result<InputItem, RequestError> {
    let id = fields.required("call_id")?.string()?;
    let name = read_tool_name(fields)?;
    let input = fields.required("input")?.string()?;
    Ok(InputItem::Call(ToolCall::custom(id, name, input)))
}

/// Parses tools that the model may call from the place of the item on.
fn read_added_tools(fields: &mut Fields, _: Images) -> Result<InputItem, RequestError> {
    fields.read("role", |at| at.one_of(|role| (role == "developer").then_some(()), "developer"))?;
    Ok(InputItem::Tools(read_declared_tools(fields.required("tools")?, ToolForm::Flat)?))
}

fn read_result(fields: &mut Fields, _: Images) -> Result<InputItem, RequestError> {
    let id = fields.required("call_id")?.string()?;
    let output = fields.read("output", |at| read_parts(at, Images::Placeholder))?.unwrap_or_default();
    let result = ChatMessage { tool_call_id: Some(id), ..ChatMessage::new(Role::Tool, output) };
    Ok(InputItem::Message(result))
}

fn read_thought(fields: &mut Fields, _: Images) -> Result<InputItem, RequestError> {
    let text = |at: Place| {
        let mut part = at.fields()?;
        part.take("type");
        let text = part.required("text")?.string()?;
        part.finish()?;
        Ok(text)
    };
    let texts =
        |at: Place| at.list("an array of parts")?.into_iter().map(text).collect::<Result<Vec<_>, _>>();
    let summary = fields.read("summary", texts)?.unwrap_or_default();
    let content = fields.read("content", texts)?.unwrap_or_default();
    // What another server encrypted cannot be read here.
    if let Some(encrypted) = fields.take("encrypted_content").filter(|at| at.value() != "") {
        encrypted.ignore();
    }
    Ok(InputItem::Reasoning(if content.is_empty() { summary } else { content }.join("\n")))
}

/// Removes the tools that items declare, and returns them.
pub(super) fn take_tools(items: &mut Vec<InputItem>) -> Vec<DeclaredTools> {
    let tools = items.extract_if(.., |item| matches!(item, InputItem::Tools(_)));
    tools.filter_map(|item| if let InputItem::Tools(tools) = item { Some(tools) } else { None }).collect()
}

/// Converts the items of a conversation to messages. Items of the assistant in a row are one message:
/// texts are joined by line breaks, and calls come after them.
pub(super) fn as_messages(items: Vec<InputItem>) -> Vec<ChatMessage> {
    let mut messages: Vec<ChatMessage> = Vec::new();
    for item in items {
        let (content, reasoning, calls) = match item {
            InputItem::Nothing | InputItem::Tools(_) => continue,
            InputItem::Message(message) if message.role != Role::Assistant => {
                messages.push(message);
                continue;
            }
            InputItem::Message(message) => (message.content, message.reasoning, message.tool_calls),
            InputItem::Reasoning(text) => (None, Some(text), Vec::new()),
            InputItem::Call(call) => (None, None, vec![call]),
        };
        if messages.last().is_none_or(|last| last.role != Role::Assistant) {
            messages.push(ChatMessage { content: None, ..ChatMessage::new(Role::Assistant, "") });
        }
        let Some(last) = messages.last_mut() else { continue };
        join(&mut last.content, content);
        join(&mut last.reasoning, reasoning);
        last.tool_calls.extend(calls);
    }
    // Reasoning without an answer leaves nothing to show to a model.
    messages.retain(|message| {
        message.role != Role::Assistant || message.content.is_some() || !message.tool_calls.is_empty()
    });
    messages
}

/// Adds a text to what there is, in a new line.
fn join(all: &mut Option<String>, text: Option<String>) {
    match (all, text) {
        (Some(all), Some(text)) if !all.is_empty() => {
            all.push('\n');
            all.push_str(&text);
        }
        (all, Some(text)) => *all = Some(text),
        (_, None) => {}
    }
}
