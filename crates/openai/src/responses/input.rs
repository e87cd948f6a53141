use serde_json::{Map, Value, json};

use crate::error::Problem;
use crate::request::{
    ChatMessage, Fields, Images, Parameters, Place, Role, TokenLimit, ToolCall, ToolForm, add_verbosity,
    check_neutral_response, read_any_object, read_arguments, read_content, read_json_schema, read_model,
    read_parts, read_thinking, read_tools, read_undeclared, take_without_effect,
};
use crate::{ChatRequest, Format, IgnoredFields, RequestError, StreamOptions};

/// Request to `/v1/responses`.
#[derive(Clone, PartialEq, Debug)]
pub struct ResponseRequest {
    /// The request, converted to a chat request.
    pub chat: ChatRequest,
    /// Fields that the response repeats. Fields that the request lacks have their default values.
    pub repeated: Map<String, Value>,
}

/// Item of the conversation in a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InputItem {
    /// Message of any role.
    Message(ChatMessage),
    /// Function call of the assistant.
    Call(ToolCall),
    /// Text of the assistant's reasoning.
    Reasoning(String),
    /// Item that adds nothing to the conversation.
    Nothing,
}

/// Returns the default values of the fields that the response repeats.
fn repeated_defaults() -> Map<String, Value> {
    let defaults = json!({
        "instructions": null, "max_output_tokens": null, "metadata": {}, "parallel_tool_calls": true,
        "previous_response_id": null, "reasoning": { "effort": null, "summary": null }, "temperature": 1.0,
        "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "truncation": "disabled", "user": null,
    });
    match defaults {
        Value::Object(defaults) => defaults,
        _ => Map::new(),
    }
}

impl ResponseRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown or
    /// unsupported field or value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let mut repeated = repeated_defaults();
        for (name, value) in &mut repeated {
            if let Some(given) = fields.get(name) {
                value.clone_from(given);
            }
        }
        let model = read_model(&mut fields)?;
        let mut messages = Vec::new();
        if let Some(instructions) = fields.read("instructions", Place::string)? {
            messages.push(ChatMessage::new(Role::System, instructions));
        }
        let input = fields.required("input")?;
        let place = input.clone();
        let said = as_messages(read_input(input)?);
        if said.is_empty() {
            return Err(place.error(Problem::Empty));
        }
        messages.extend(said);
        let mut variables = fields.read("chat_template_kwargs", Place::map)?.unwrap_or_default();
        let budget = read_thinking(&mut fields, &mut variables)?;
        let format = fields.read("text", |at| read_text(at, &mut variables))?.flatten();
        let limit = fields.read("max_output_tokens", Place::positive)?;
        let mut chat = ChatRequest {
            model,
            messages,
            continues: false,
            has_functions: false,
            stream: fields.read("stream", Place::bool)?.unwrap_or(false).then(StreamOptions::default),
            parameters: Parameters::read(&mut fields)?,
            logprobs: None,
            tools: read_tools(&mut fields, ToolForm::Flat)?,
            any_object: read_any_object(&mut fields)?,
            format,
            undeclared: read_undeclared(&mut fields)?,
            schema_in_prompt: fields.read("schema_in_prompt", Place::bool)?.unwrap_or(true),
            chat_template_kwargs: variables,
            ignored: IgnoredFields::default(),
        };
        chat.parameters.reasoning_budget = chat.parameters.reasoning_budget.or(budget);
        let field = "max_output_tokens";
        chat.parameters.max_tokens =
            limit.map(|tokens| TokenLimit { tokens, field }).or(chat.parameters.max_tokens);
        take_neutral(&mut fields)?;
        chat.ignored = fields.finish_request()?;
        if chat.parameters.n != 1 {
            return Err(RequestError::field("n", Problem::NotNeutral { accepted: "1", hint: "" }));
        }
        Ok(Self { chat, repeated })
    }
}

/// Marks the fields without effect and the unsupported fields as read.
///
/// # Errors
/// Returns an error if the value of an unsupported field is not neutral.
fn take_neutral(fields: &mut Fields) -> Result<(), RequestError> {
    type Check = fn(&Value) -> bool;
    let neutral: [(&str, Check, &str); 8] = [
        ("previous_response_id", |_| false, "null"),
        ("conversation", |_| false, "null"),
        ("prompt", |_| false, "null"),
        ("background", |value| *value == false, "false"),
        // A prompt that fits is never cut off. One that does not fit is an error.
        ("truncation", |value| value == "disabled" || value == "auto", "\"disabled\" and \"auto\""),
        (
            "include",
            |value| value.as_array().is_some_and(|all| all.iter().all(adds_nothing)),
            "entries about reasoning and hosted tools",
        ),
        ("max_tool_calls", |_| false, "null"),
        ("top_logprobs", |value| *value == 0, "0"),
    ];
    for (name, check, accepted) in neutral {
        if let Some(at) = fields.take(name)
            && !check(at.value())
        {
            let needs_store = matches!(name, "previous_response_id" | "conversation");
            let hint = if needs_store { "nothing is stored" } else { "" };
            return Err(at.error(Problem::NotNeutral { accepted, hint }));
        }
    }
    // Obfuscation pads a stream against observers who measure packet sizes, which are none here.
    fields.ignore("stream_options");
    take_without_effect(fields);
    check_neutral_response(fields)
}

/// Reports whether an entry of `include` adds nothing to the response. The server never encrypts
/// reasoning and runs no tools of its own, so there is nothing of them that could be included.
fn adds_nothing(included: &Value) -> bool {
    let of_hosts = ["web_search", "file_search", "code_interpreter", "computer_call", "reasoning."];
    included.as_str().is_some_and(|name| of_hosts.iter().any(|start| name.starts_with(start)))
}

/// Parses the field `text`. Its `format` corresponds to the `response_format` of a chat request,
/// but without the object `json_schema` around the schema. A `verbosity` becomes a variable of the
/// template.
fn read_text(at: Place, variables: &mut Map<String, Value>) -> Result<Option<Format>, RequestError> {
    let mut fields = at.fields()?;
    if let Some(verbosity) = fields.take("verbosity") {
        add_verbosity(&verbosity, variables)?;
    }
    let format = fields.read("format", |at| {
        let mut format = at.fields()?;
        let known =
            |name: &str| ["text", "json_object", "json_schema"].into_iter().find(|known| *known == name);
        let kind = format.required("type")?.one_of(known, "text, json_object and json_schema")?;
        Ok(match kind {
            "json_schema" => Some(Format::json_schema(read_json_schema(format)?, "text.format.schema")),
            kind => {
                format.finish_strictly()?;
                (kind == "json_object").then(Format::json_object)
            }
        })
    })?;
    fields.finish()?;
    Ok(format.flatten())
}

fn read_input(at: Place) -> Result<Vec<InputItem>, RequestError> {
    if at.is_string() {
        return Ok(vec![InputItem::Message(ChatMessage::new(Role::User, at.string()?))]);
    }
    let items = at.clone().list("a string or an array of items")?;
    if items.is_empty() {
        return Err(at.error(Problem::Empty));
    }
    items.into_iter().map(read_item).collect()
}

fn read_item(at: Place) -> Result<InputItem, RequestError> {
    type Reader = fn(&mut Fields) -> Result<InputItem, RequestError>;
    let known = |name: &str| -> Option<Reader> {
        match name {
            "message" => Some(read_message),
            "function_call" => Some(read_call),
            "function_call_output" => Some(read_result),
            "reasoning" => Some(read_thought),
            "item_reference" => Some(read_reference),
            _ => None,
        }
    };
    let place = at.clone();
    let mut fields = at.fields()?;
    let kind = fields
        .read("type", |at| at.one_of(known, "message, function_call, function_call_output and reasoning"))?;
    let item = kind.unwrap_or(read_message)(&mut fields)?;
    if item == InputItem::Nothing {
        place.ignore();
    }
    for name in ["id", "status", "parsed_arguments", "phase"] {
        fields.take(name);
    }
    fields.finish()?;
    Ok(item)
}

/// Parses a reference to an earlier item. Nothing is stored, so only a reference to reasoning can be left
/// out: an answer is the same to a reader without the reasoning that led to it.
fn read_reference(fields: &mut Fields) -> Result<InputItem, RequestError> {
    let id = fields.required("id")?;
    if !id.value().as_str().is_some_and(|id| id.starts_with("rs_")) {
        return Err(id.error(Problem::NotStored));
    }
    Ok(InputItem::Nothing)
}

fn read_message(fields: &mut Fields) -> Result<InputItem, RequestError> {
    let known = |name: &str| Role::from_name(name).filter(|role| *role != Role::Tool);
    let role = fields.required("role")?.one_of(known, "system, developer, user and assistant")?;
    Ok(InputItem::Message(ChatMessage::new(role, read_content(fields.required("content")?)?)))
}

fn read_call(fields: &mut Fields) -> Result<InputItem, RequestError> {
    Ok(InputItem::Call(ToolCall {
        id: fields.required("call_id")?.string()?,
        name: fields.required("name")?.string()?,
        arguments: read_arguments(fields.required("arguments")?)?,
    }))
}

fn read_result(fields: &mut Fields) -> Result<InputItem, RequestError> {
    let id = fields.required("call_id")?.string()?;
    let output = fields.read("output", |at| read_parts(at, Images::Placeholder))?.unwrap_or_default();
    let result = ChatMessage { tool_call_id: Some(id), ..ChatMessage::new(Role::Tool, output) };
    Ok(InputItem::Message(result))
}

fn read_thought(fields: &mut Fields) -> Result<InputItem, RequestError> {
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
    if let Some(encrypted) = fields.take("encrypted_content") {
        // Some servers send an empty string. What others encrypted cannot be read here.
        if encrypted.value() != "" {
            return Err(encrypted.error(Problem::NotNeutral { accepted: "an empty string", hint: "" }));
        }
    }
    Ok(InputItem::Reasoning(if content.is_empty() { summary } else { content }.join("\n")))
}

/// Converts the items of a conversation to messages. Items of the assistant in a row are one message:
/// texts are joined by line breaks, and calls come after them.
fn as_messages(items: Vec<InputItem>) -> Vec<ChatMessage> {
    let mut messages: Vec<ChatMessage> = Vec::new();
    for item in items {
        let (content, reasoning, calls) = match item {
            InputItem::Nothing => continue,
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
