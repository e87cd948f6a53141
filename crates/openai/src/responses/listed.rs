//! The form in which items of requests are listed.

use serde_json::{Map, Value, json};

use crate::request::IMAGE;

/// Returns a valid item of a request in the form in which it is listed: with a type, a status, and texts
/// as parts. The `id` is empty if the item has none. Returns `None` for an item that adds nothing.
pub(super) fn listed_form(item: &Value) -> Option<Map<String, Value>> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = if text("type").is_empty() { "message" } else { text("type") };
    let status = match text("status") {
        known @ ("in_progress" | "incomplete") => known,
        _ => "completed",
    };
    let mut form = Map::new();
    let mut set = |name: &str, value: Value| form.insert(name.to_owned(), value);
    set("type", kind.into());
    set("id", text("id").into());
    match kind {
        "message" => {
            let role = text("role");
            set("role", role.into());
            let kind = if role == "assistant" { "output_text" } else { "input_text" };
            set("content", parts(item.get("content"), kind));
        }
        "function_call" => {
            let arguments = item.get("arguments").unwrap_or(&Value::Null);
            let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
            set("call_id", text("call_id").into());
            set("name", text("name").into());
            set("arguments", arguments.into());
            set_namespace(&mut form, item);
        }
        "custom_tool_call" => {
            for name in ["call_id", "name", "input"] {
                set(name, text(name).into());
            }
            set_namespace(&mut form, item);
        }
        "additional_tools" => {
            set("role", "developer".into());
            set("tools", item.get("tools").cloned().unwrap_or_default());
            // Such an item has no status.
            return Some(form);
        }
        "function_call_output" | "custom_tool_call_output" => {
            set("call_id", text("call_id").into());
            let output = item.get("output").filter(|output| output.is_array());
            set("output", output.map_or_else(|| text("output").into(), |all| parts(Some(all), "input_text")));
        }
        "reasoning" => {
            set("summary", parts(item.get("summary"), "summary_text"));
            set("content", parts(item.get("content"), "reasoning_text"));
        }
        _ => return None,
    }
    form.insert("status".to_owned(), status.into());
    Some(form)
}

/// Adds the namespace of a call, if it has one.
fn set_namespace(form: &mut Map<String, Value>, call: &Value) {
    if let Some(namespace) = call.get("namespace").filter(|namespace| !namespace.is_null()) {
        form.insert("namespace".to_owned(), namespace.clone());
    }
}

/// Returns the text of a part. `None` for an image.
fn said(part: &Value) -> Option<&str> {
    part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str)
}

/// Returns a text or a list of parts as a list of parts of one type.
fn parts(content: Option<&Value>, kind: &str) -> Value {
    let part = |text: &str| match kind {
        "output_text" => json!({ "type": kind, "text": text, "annotations": [], "logprobs": [] }),
        _ => json!({ "type": kind, "text": text }),
    };
    match content {
        Some(Value::String(text)) => json!([part(text)]),
        Some(Value::Array(parts)) => parts.iter().map(|given| part(said(given).unwrap_or(IMAGE))).collect(),
        _ => json!([]),
    }
}
