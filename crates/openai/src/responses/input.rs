use serde_json::{Map, Value, json};

use crate::error::Problem;
use crate::request::{
    ChatMessage, Fields, Parameters, Place, Role, TokenLimit, ToolCall, ToolForm, add_effort,
    read_any_object, read_content, read_json_schema, read_tools, read_undeclared, take_without_effect,
};
use crate::{ChatRequest, Format, RequestError, StreamOptions};

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
        let mut fields = Fields::from_json(body)?;
        let mut repeated = repeated_defaults();
        for (name, value) in &mut repeated {
            if let Some(given) = fields.get(name) {
                value.clone_from(given);
            }
        }
        let model = fields.required("model")?.string()?;
        let mut messages = Vec::new();
        if let Some(instructions) = fields.read("instructions", Place::string)? {
            messages.push(ChatMessage::new(Role::System, instructions));
        }
        messages.extend(as_messages(read_input(fields.required("input")?)?));
        let mut variables = fields.read("chat_template_kwargs", Place::map)?.unwrap_or_default();
        fields.read("reasoning", |at| read_reasoning(at, &mut variables))?;
        let limit = fields.read("max_output_tokens", Place::positive)?;
        let mut chat = ChatRequest {
            model,
            messages,
            stream: fields.read("stream", Place::bool)?.unwrap_or(false).then(StreamOptions::default),
            parameters: Parameters::read(&mut fields)?,
            logprobs: None,
            tools: read_tools(&mut fields, ToolForm::Flat)?,
            any_object: read_any_object(&mut fields)?,
            format: fields.read("text", read_text)?.flatten(),
            undeclared: read_undeclared(&mut fields)?,
            schema_in_prompt: fields.read("schema_in_prompt", Place::bool)?.unwrap_or(true),
            chat_template_kwargs: variables,
        };
        let field = "max_output_tokens";
        chat.parameters.max_tokens =
            limit.map(|tokens| TokenLimit { tokens, field }).or(chat.parameters.max_tokens);
        take_neutral(&mut fields)?;
        fields.finish()?;
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
    // Obfuscation pads a stream against observers who measure packet sizes. Here it would only add
    // bytes, so it may only be false.
    let neutral: [(&str, Check, &str); 9] = [
        ("previous_response_id", |_| false, "null"),
        ("conversation", |_| false, "null"),
        ("prompt", |_| false, "null"),
        ("background", |value| *value == false, "false"),
        ("truncation", |value| value == "disabled", "\"disabled\""),
        (
            "include",
            |value| value.as_array().is_some_and(|all| all.iter().all(adds_nothing)),
            "[] and \"reasoning.encrypted_content\"",
        ),
        ("max_tool_calls", |_| false, "null"),
        ("top_logprobs", |value| *value == 0, "0"),
        (
            "stream_options",
            |value| value.as_object().is_some_and(|all| all.values().all(|v| *v == false)),
            "options that are false",
        ),
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
    take_without_effect(fields);
    Ok(())
}

/// Reports whether an entry of `include` has no effect on the response. The server never encrypts
/// reasoning, so there is no encrypted reasoning that could be included.
fn adds_nothing(included: &Value) -> bool {
    included == "reasoning.encrypted_content"
}

fn read_reasoning(at: Place, variables: &mut Map<String, Value>) -> Result<(), RequestError> {
    let mut fields = at.fields()?;
    if let Some(effort) = fields.take("effort") {
        add_effort(&effort, variables)?;
    }
    // Reasoning is sent in full, so summaries are not needed.
    for name in ["summary", "generate_summary"] {
        fields.take(name);
    }
    fields.finish()
}

/// Parses the field `text`. Its `format` corresponds to the `response_format` of a chat request,
/// but without the object `json_schema` around the schema.
fn read_text(at: Place) -> Result<Option<Format>, RequestError> {
    let mut fields = at.fields()?;
    if let Some(verbosity) = fields.take("verbosity") {
        verbosity.one_of(|name| (name == "medium").then_some(()), "medium")?;
    }
    let format = fields.read("format", |at| {
        let mut format = at.fields()?;
        let known =
            |name: &str| ["text", "json_object", "json_schema"].into_iter().find(|known| *known == name);
        let kind = format.required("type")?.one_of(known, "text, json_object and json_schema")?;
        Ok(match kind {
            "json_schema" => Some(Format::json_schema(read_json_schema(format)?, "text.format.schema")),
            kind => {
                format.finish()?;
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
            _ => None,
        }
    };
    let mut fields = at.fields()?;
    let kind = fields
        .read("type", |at| at.one_of(known, "message, function_call, function_call_output and reasoning"))?;
    let item = kind.unwrap_or(read_message)(&mut fields)?;
    for name in ["id", "status", "parsed_arguments"] {
        fields.take(name);
    }
    fields.finish()?;
    Ok(item)
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
        arguments: fields.required("arguments")?.string()?,
    }))
}

fn read_result(fields: &mut Fields) -> Result<InputItem, RequestError> {
    let id = fields.required("call_id")?.string()?;
    let output = read_content(fields.required("output")?)?;
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
        return Err(encrypted.error(Problem::NotNeutral { accepted: "null", hint: "" }));
    }
    Ok(InputItem::Reasoning(if content.is_empty() { summary } else { content }.join("\n")))
}

/// Converts the items of a conversation to messages. Reasoning is added to the assistant message
/// that follows. Calls are added to the assistant message before, or form a new assistant message.
fn as_messages(items: Vec<InputItem>) -> Vec<ChatMessage> {
    let mut messages: Vec<ChatMessage> = Vec::new();
    let mut thought: Option<String> = None;
    for item in items {
        match item {
            InputItem::Reasoning(text) => thought = Some(text),
            InputItem::Message(mut message) => {
                if message.role == Role::Assistant {
                    message.reasoning = thought.take();
                }
                messages.push(message);
            }
            InputItem::Call(call) => {
                let open =
                    messages.last_mut().filter(|last| last.role == Role::Assistant && thought.is_none());
                match open {
                    Some(last) => last.tool_calls.push(call),
                    None => messages.push(ChatMessage {
                        content: None,
                        reasoning: thought.take(),
                        tool_calls: vec![call],
                        ..ChatMessage::new(Role::Assistant, "")
                    }),
                }
            }
        }
    }
    messages
}
