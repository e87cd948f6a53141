//! The conversation of a request to `/v1/decisions`.

use std::collections::HashSet;

use serde_json::Value;

use crate::RequestError;
use crate::error::Problem;
use crate::request::{ChatMessage, Fields, Place, Role, ToolCall};

/// Maximum nesting of the value of an `input_json` part.
const MAX_DEPTH: usize = 32;
/// Maximum number of values in an `input_json` part.
const MAX_VALUES: usize = 10_000;
/// Maximum length of an `input_json` part as compact JSON, in bytes.
const MAX_JSON: usize = 256 << 10;

/// Parses `input`, which is a string or an array of items.
pub(super) fn read(at: Place) -> Result<Vec<ChatMessage>, RequestError> {
    if at.is_string() {
        return Ok(vec![ChatMessage::new(Role::User, at.non_empty_string()?)]);
    }
    let empty = at.error(Problem::Empty);
    let (mut messages, mut calls) = (Vec::new(), HashSet::new());
    for item in at.list("a string or an array")? {
        read_item(item, &mut messages, &mut calls)?;
    }
    if messages.is_empty() { Err(empty) } else { Ok(messages) }
}

fn read_item(
    at: Place,
    messages: &mut Vec<ChatMessage>,
    calls: &mut HashSet<String>,
) -> Result<(), RequestError> {
    #[derive(Clone, Copy)]
    enum Kind {
        Message,
        Call { is_custom: bool },
        Output,
    }
    let known = |name: &str| match name {
        "message" => Some(Kind::Message),
        "function_call" => Some(Kind::Call { is_custom: false }),
        "custom_tool_call" => Some(Kind::Call { is_custom: true }),
        "function_call_output" | "custom_tool_call_output" => Some(Kind::Output),
        _ => None,
    };
    let supported =
        "message, function_call, function_call_output, custom_tool_call and custom_tool_call_output";
    let mut fields = at.fields()?;
    let kind = fields.read("type", |at| at.one_of(known, supported))?.unwrap_or(Kind::Message);
    fields.read("id", Place::string)?;
    fields.read("status", Place::string)?;
    match kind {
        Kind::Message => messages.push(read_message(&mut fields)?),
        Kind::Call { is_custom } => {
            let id = fields.required("call_id")?.non_empty_string()?;
            calls.insert(id.clone());
            let name = fields.required("name")?.non_empty_string()?;
            fields.read("namespace", Place::string)?;
            let call = if is_custom {
                ToolCall::custom(id, name, fields.required("input")?.string()?)
            } else {
                ToolCall { id, name, arguments: fields.required("arguments")?.string()? }
            };
            add_call(messages, call);
        }
        Kind::Output => {
            let at = fields.required("call_id")?;
            let unknown = at.error(Problem::NoCall);
            let id = at.string()?;
            if !calls.contains(&id) {
                return Err(unknown);
            }
            let output = read_content(fields.required("output")?, true)?;
            messages.push(ChatMessage { tool_call_id: Some(id), ..ChatMessage::new(Role::Tool, output) });
        }
    }
    fields.finish()
}

/// Adds a call to the assistant's message before it, or in a message of its own.
fn add_call(messages: &mut Vec<ChatMessage>, call: ToolCall) {
    match messages.last_mut() {
        Some(last) if last.role == Role::Assistant => last.tool_calls.push(call),
        _ => {
            let mut message = ChatMessage::new(Role::Assistant, "");
            message.content = None;
            message.tool_calls.push(call);
            messages.push(message);
        }
    }
}

fn read_message(fields: &mut Fields) -> Result<ChatMessage, RequestError> {
    let known = |name: &str| match name {
        "user" => Some(Role::User),
        "system" | "developer" => Some(Role::System),
        "assistant" => Some(Role::Assistant),
        _ => None,
    };
    let role = fields.required("role")?.one_of(known, "user, system, developer and assistant")?;
    if role == Role::Assistant {
        // Final answers and comments are messages of the assistant alike.
        let known = |name: &str| ["commentary", "final_answer"].contains(&name).then_some(());
        fields.read("phase", |at| at.one_of(known, "commentary and final_answer"))?;
    }
    Ok(ChatMessage::new(role, read_content(fields.required("content")?, role == Role::User)?))
}

/// Parses a string or an array of parts. Returns the texts of the parts, a line break between them.
pub(super) fn read_content(at: Place, allows_json: bool) -> Result<String, RequestError> {
    if at.is_string() {
        return at.string();
    }
    let parts = at.list("a string or an array of parts")?;
    let texts = parts.into_iter().map(|part| read_part(part, allows_json)).collect::<Result<Vec<_>, _>>()?;
    Ok(texts.join("\n"))
}

fn read_part(at: Place, allows_json: bool) -> Result<String, RequestError> {
    let known = |name: &str| match name {
        "input_text" | "output_text" | "text" => Some(true),
        "input_json" if allows_json => Some(false),
        _ => None,
    };
    let supported = if allows_json { "input_text and input_json" } else { "input_text" };
    let mut fields = at.fields()?;
    let text = if fields.required("type")?.one_of(known, supported)? {
        for name in ["annotations", "logprobs"] {
            fields.read(name, |at| at.list("an array").map(drop))?;
        }
        fields.required("text")?.string()?
    } else {
        read_json(&fields.required("data")?)?
    };
    // A hint for caches. The prefix cache needs none.
    fields.read("prompt_cache_breakpoint", |at| at.map().map(drop))?;
    fields.finish()?;
    Ok(text)
}

/// Parses the value of an `input_json` part. Returns its compact text.
fn read_json(at: &Place) -> Result<String, RequestError> {
    let is_list = at.value().as_array().is_some_and(|items| items.iter().all(Value::is_object));
    if !at.value().is_object() && !is_list {
        return Err(
            at.error(Problem::Type { expected: "an object or an array of objects", found: "another value" })
        );
    }
    let (depth, values) = measure(at.value());
    if depth > MAX_DEPTH {
        return Err(at.error(Problem::TooDeep { given: depth, limit: MAX_DEPTH }));
    }
    if values > MAX_VALUES {
        return Err(at.error(Problem::TooMany { given: values, limit: MAX_VALUES }));
    }
    let text = at.value().to_string();
    if text.len() > MAX_JSON {
        return Err(at.error(Problem::TooLong { given: text.len(), limit: MAX_JSON }));
    }
    Ok(text)
}

/// Returns the nesting of a value and the number of values in it, with the value itself.
fn measure(value: &Value) -> (usize, usize) {
    let of_all = |values: &mut dyn Iterator<Item = &Value>| {
        let inner = values.map(measure).fold((0, 0), |(depth, count), one| (depth.max(one.0), count + one.1));
        (inner.0 + 1, inner.1 + 1)
    };
    match value {
        Value::Array(items) => of_all(&mut items.iter()),
        Value::Object(members) => of_all(&mut members.values()),
        _ => (0, 1),
    }
}
