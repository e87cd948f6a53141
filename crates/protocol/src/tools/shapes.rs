//! Normalization of the shapes in which providers send an assistant's message.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::envelope::Problem;
use crate::Body;

/// Tool call of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// ID, unique within the run. Generated if the provider sent no ID or the ID of an earlier
    /// call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The arguments as JSON text, not yet parsed or checked.
    pub arguments: String,
}

/// Tool call with additional fields that the provider sent. Some providers expect these fields in
/// the history.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReceivedCall {
    pub(super) call: ToolCall,
    beside: Body,
}

/// Message in the normalized shape.
#[derive(Debug, PartialEq)]
pub(super) struct Shaped {
    /// The message without its calls.
    message: Body,
    pub(super) calls: Vec<ReceivedCall>,
    pub(super) warnings: Vec<Problem>,
}

/// Normalizes an assistant's `message` of any provider. In the result, the content is text or
/// `null`, and the calls are a list.
///
/// `taken` has the IDs of all earlier calls of the run. Each call gets an ID that is not in
/// `taken`, and the ID is added. Generated IDs are deterministic, for example `call_3_0` for the
/// first call of turn 3, so a replay generates the same IDs.
pub(super) fn shape(message: &Body, turn: usize, taken: &mut HashSet<String>) -> Shaped {
    let mut warnings = Vec::new();
    let mut shaped: Body = message.clone();
    let called = shaped.shift_remove("tool_calls").unwrap_or_default();
    let legacy = shaped.shift_remove("function_call").unwrap_or_default();
    shaped.retain(|_, value| !value.is_null());
    shaped.insert("role".to_owned(), "assistant".into());
    let content = text(message.get("content")).filter(|text| !text.is_empty());
    shaped.insert("content".to_owned(), content.into());

    let mut entries = entries(called, &mut warnings);
    let is_legacy = entries.is_empty() && !legacy.is_null();
    if is_legacy {
        warnings.push(Problem::new("FUNCTION_CALL_SHAPE", "the call uses the deprecated function_call"));
        entries.push(json!({ "function": legacy }));
    }
    let mut calls = Vec::new();
    for entry in entries {
        let made_up = format!("call_{turn}_{}", calls.len());
        match read(entry, &mut warnings) {
            Some((id, mut called)) => {
                called.call.id = unique(id, made_up, is_legacy, taken, &mut warnings);
                calls.push(called);
            }
            None => warnings.push(Problem::new("TOOL_CALL_MALFORMED", "a call without a name was skipped")),
        }
    }
    Shaped { message: shaped, calls, warnings }
}

impl Shaped {
    /// Returns the text of the message, or `None` if it has no text.
    pub(super) fn content(&self) -> Option<&str> {
        self.message.get("content").and_then(Value::as_str)
    }

    /// Returns the reason for which the model refused to answer, if the message states one.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.message.get("refusal").and_then(Value::as_str)
    }

    /// Returns the message for the history, with the given calls in `tool_calls`. The text next to
    /// each call is its arguments, which must be a JSON object.
    pub(super) fn with_calls(&self, calls: &[(&ReceivedCall, &str)]) -> Value {
        let mut message = self.message.clone();
        if !calls.is_empty() {
            let calls: Value = calls.iter().map(|(called, arguments)| called.entry(arguments)).collect();
            message.insert("tool_calls".to_owned(), calls);
        }
        message.into()
    }
}

impl ReceivedCall {
    /// Returns the call as an entry of `tool_calls` in OpenAI's shape, with `arguments` as JSON
    /// text. In the name, each character that providers reject is replaced by `_`.
    fn entry(&self, arguments: &str) -> Value {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let name: String =
            self.call.name.chars().map(|c| if is_fine(c) { c } else { '_' }).take(64).collect();
        let mut entry = self.beside.clone();
        entry.insert("id".to_owned(), self.call.id.clone().into());
        entry.insert("type".to_owned(), "function".into());
        entry.insert("function".to_owned(), json!({ "name": name, "arguments": arguments }));
        entry.into()
    }
}

/// Returns the text of a message's content, or `None` if it has no text. If the content is an array
/// of parts, their texts are concatenated.
pub(super) fn text(content: Option<&Value>) -> Option<String> {
    let of_part = |part: &Value| part.as_str().or_else(|| part.get("text")?.as_str()).map(str::to_owned);
    match content? {
        Value::Array(parts) => Some(parts.iter().filter_map(of_part).collect()),
        other => of_part(other),
    }
}

/// Returns the calls in `called`, the value of `tool_calls`. The value may be an array, a single
/// call, an object with calls as values, or the JSON text of any of these.
fn entries(called: Value, warnings: &mut Vec<Problem>) -> Vec<Value> {
    match called {
        Value::Array(entries) => entries,
        Value::Object(object) if object.is_empty() => Vec::new(),
        Value::Object(object) => {
            warnings.push(Problem::new("TOOL_CALLS_OBJECT", "tool_calls is an object instead of an array"));
            let is_one = object.contains_key("function") || object.contains_key("name");
            if is_one { vec![object.into()] } else { object.into_iter().map(|(_, entry)| entry).collect() }
        }
        Value::String(text) if !text.trim().is_empty() => {
            warnings.push(Problem::new("TOOL_CALLS_TEXT", "tool_calls is text instead of an array"));
            match serde_json::from_str(&text) {
                Ok(called @ (Value::Array(_) | Value::Object(_))) => entries(called, warnings),
                _ => vec![Value::Null],
            }
        }
        _ => Vec::new(),
    }
}

/// Parses an entry of `tool_calls`. Returns the ID, if the entry has one, and the call. Returns
/// `None` if the entry has no tool name.
fn read(entry: Value, warnings: &mut Vec<Problem>) -> Option<(Option<String>, ReceivedCall)> {
    let Value::Object(mut entry) = entry else { return None };
    let id = match entry.shift_remove("id") {
        Some(Value::String(id)) if !id.trim().is_empty() => Some(id),
        Some(Value::Number(id)) => Some(id.to_string()),
        _ => None,
    };
    let mut function = match entry.shift_remove("function") {
        Some(Value::Object(function)) => function,
        // Some providers put the name and the arguments next to the ID instead of into `function`.
        other => {
            if let Some(name @ Value::String(_)) = other {
                entry.insert("name".to_owned(), name);
            }
            std::mem::take(&mut entry)
        }
    };
    entry.retain(|name, value| !value.is_null() && !["type", "index"].contains(&name.as_str()));
    let name = function.get("name").and_then(Value::as_str).map(str::trim).unwrap_or_default().to_owned();
    let arguments = ["arguments", "parameters", "input"].iter().find_map(|name| function.shift_remove(*name));
    let arguments = match arguments {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(other) => {
            warnings.push(Problem::new("ARGUMENTS_OBJECT", "the arguments are JSON instead of text"));
            other.to_string()
        }
    };
    let call = ToolCall { id: String::new(), name, arguments };
    (!call.name.is_empty()).then_some((id, ReceivedCall { call, beside: entry }))
}

/// Returns `given` if no earlier call has this ID, otherwise `made_up`. Appends `_` until the ID is
/// not in `taken`, and adds the ID to `taken`.
fn unique(
    given: Option<String>,
    made_up: String,
    is_legacy: bool,
    taken: &mut HashSet<String>,
    warnings: &mut Vec<Problem>,
) -> String {
    let mut id = match given {
        Some(id) if !taken.contains(&id) => id,
        Some(_) => {
            warnings.push(Problem::new("CALL_ID_REPEATED", "a call has the id of an earlier call"));
            made_up
        }
        None => {
            // `function_call` has no ID by design.
            if !is_legacy {
                warnings.push(Problem::new("CALL_ID_MISSING", "a call has no id"));
            }
            made_up
        }
    };
    while !taken.insert(id.clone()) {
        id.push('_');
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(message: &Value) -> Shaped {
        let message = message.as_object().expect("an object");
        shape(message, 3, &mut HashSet::from(["old".to_owned()]))
    }

    /// Returns ID, name and arguments of each call, and the codes of the warnings.
    fn calls(message: &Value) -> (Vec<[String; 3]>, Vec<String>) {
        let shaped = shaped(message);
        let calls =
            shaped.calls.into_iter().map(|ReceivedCall { call, .. }| [call.id, call.name, call.arguments]);
        (calls.collect(), shaped.warnings.into_iter().map(|warning| warning.code).collect())
    }

    fn called(message: &Value, expected: [&str; 3], warnings: &[&str]) {
        let (calls, codes) = calls(message);
        assert_eq!(calls, [expected.map(str::to_owned)], "{message}");
        assert_eq!(codes, warnings, "{message}");
    }

    #[test]
    fn keeps_the_standard_shape() {
        let call = json!({ "id": "a", "type": "function", "function": { "name": "f", "arguments": "{}" } });
        let message = json!({ "role": "assistant", "content": null, "refusal": null, "tool_calls": [call] });
        called(&message, ["a", "f", "{}"], &[]);
        let shaped = shaped(&message);
        let again = shaped.with_calls(&[(&shaped.calls[0], "{}")]);
        assert_eq!(again, json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
    }

    #[test]
    fn converts_function_call_to_a_call() {
        let message = json!({ "content": "", "function_call": { "name": "f", "arguments": "{\"a\":1}" } });
        called(&message, ["call_3_0", "f", "{\"a\":1}"], &["FUNCTION_CALL_SHAPE"]);
        let both = json!({ "function_call": { "name": "g" }, "tool_calls": [{ "id": "a", "function": { "name": "f" } }] });
        called(&both, ["a", "f", ""], &[]);
        assert_eq!(calls(&json!({ "function_call": null, "tool_calls": [] })), (vec![], vec![]));
    }

    #[test]
    fn converts_an_object_of_calls_to_an_array() {
        let call = json!({ "id": "a", "type": "function", "function": { "name": "f", "arguments": "{}" } });
        called(&json!({ "tool_calls": call }), ["a", "f", "{}"], &["TOOL_CALLS_OBJECT"]);
        called(&json!({ "tool_calls": { "0": call } }), ["a", "f", "{}"], &["TOOL_CALLS_OBJECT"]);
        let text = json!([call]).to_string();
        called(&json!({ "tool_calls": text }), ["a", "f", "{}"], &["TOOL_CALLS_TEXT"]);
        assert_eq!(calls(&json!({ "tool_calls": {} })), (vec![], vec![]));
        assert_eq!(calls(&json!({ "tool_calls": "" })), (vec![], vec![]));
    }

    #[test]
    fn converts_arguments_to_text() {
        let of = |function: Value| json!({ "tool_calls": [{ "id": "a", "function": function }] });
        called(
            &of(json!({ "name": "f", "arguments": { "a": 1 } })),
            ["a", "f", "{\"a\":1}"],
            &["ARGUMENTS_OBJECT"],
        );
        called(&of(json!({ "name": "f", "parameters": "{}" })), ["a", "f", "{}"], &[]);
        called(&of(json!({ "name": " f ", "arguments": null })), ["a", "f", ""], &[]);
        let flat = json!({ "tool_calls": [{ "id": "a", "name": "f", "arguments": "{}" }] });
        called(&flat, ["a", "f", "{}"], &[]);
        let named = json!({ "tool_calls": [{ "id": "a", "function": "f", "arguments": "{}" }] });
        called(&named, ["a", "f", "{}"], &[]);
    }

    #[test]
    fn generates_missing_and_repeated_ids() {
        let call = |id: Value| json!({ "id": id, "function": { "name": "f", "arguments": "{}" } });
        let given = [
            "a".into(),
            Value::Null,
            "".into(),
            "a".into(),
            7.into(),
            "old".into(),
            "call_3_6".into(),
            Value::Null,
        ];
        let message = json!({ "tool_calls": given.map(call) });
        let (calls, codes) = calls(&message);
        let ids: Vec<_> = calls.into_iter().map(|[id, ..]| id).collect();
        assert_eq!(ids, ["a", "call_3_1", "call_3_2", "call_3_3", "7", "call_3_5", "call_3_6", "call_3_7"]);
        let [missing, repeated] = ["CALL_ID_MISSING", "CALL_ID_REPEATED"];
        assert_eq!(codes, [missing, missing, repeated, repeated, missing]);
    }

    #[test]
    fn skips_calls_without_a_name() {
        let message = json!({ "tool_calls": [7, {}, { "function": { "arguments": "{}" } }, { "function": { "name": " " } }] });
        let (calls, codes) = calls(&message);
        assert_eq!(calls, Vec::<[String; 3]>::new());
        assert_eq!(codes, ["TOOL_CALL_MALFORMED"; 4]);
    }

    #[test]
    fn joins_content_parts_to_text() {
        let parts = json!([{ "type": "text", "text": "a" }, { "type": "image_url" }, "b"]);
        for (content, expected) in [
            (json!("a"), Some("a")),
            (json!(""), None),
            (json!(null), None),
            (parts, Some("ab")),
            (json!({ "type": "text", "text": "a" }), Some("a")),
            (json!(7), None),
        ] {
            assert_eq!(shaped(&json!({ "content": content })).content(), expected, "{content}");
        }
    }

    #[test]
    fn keeps_extra_fields_of_providers() {
        let call = json!({
            "id": "a", "index": 0, "extra_content": { "google": { "thought_signature": "s" } }, "beside": null,
            "function": { "name": "bad name!", "arguments": "{}" },
        });
        let message =
            json!({ "reasoning_details": [{ "signature": "t" }], "audio": null, "tool_calls": [call] });
        let shaped = shaped(&message);
        let expected = json!({
            "reasoning_details": [{ "signature": "t" }], "role": "assistant", "content": null,
            "tool_calls": [{
                "extra_content": { "google": { "thought_signature": "s" } }, "id": "a", "type": "function",
                "function": { "name": "bad_name_", "arguments": "{}" },
            }],
        });
        assert_eq!(shaped.with_calls(&[(&shaped.calls[0], "{}")]), expected);
    }
}
