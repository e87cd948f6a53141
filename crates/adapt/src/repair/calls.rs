//! Conversion of tool calls in other forms of JSON to the envelope's form.
//!
//! | answer | call |
//! |---|---|
//! | `{"name": …, "arguments": …}` | the answer |
//! | `[{"name": …, "arguments": …}]` | each item |
//! | `{"tool_calls": […], "content": …}` | each item, also as `{"function": {…}}` |
//! | `{"function_call": {…}}` | the member |
//!
//! The name may also be called `tool`, and the arguments `parameters` or `input`. Arguments may be a
//! string of JSON.

use serde_json::{Map, Value, json};

use super::shape::Problem;
use crate::strict;

/// Names of a call's arguments.
const ARGUMENTS: [&str; 3] = ["arguments", "parameters", "input"];

/// Converts an answer to an envelope. Returns `None` if the answer has no calls in another form.
///
/// # Errors
/// Returns an error if some of the calls cannot be converted, because they would be lost.
pub(super) fn enveloped(answer: &Value) -> Result<Option<Value>, Problem> {
    match answer {
        Value::Array(items) if !items.is_empty() && items.iter().all(is_call) => {
            Ok(Some(json!({ "toolCalls": calls(items, "")? })))
        }
        Value::Object(members) => of_object(members),
        _ => Ok(None),
    }
}

fn of_object(members: &Map<String, Value>) -> Result<Option<Value>, Problem> {
    let other = ["tool_calls", "function_call"].into_iter().find(|name| members.contains_key(*name));
    if members.contains_key("toolCalls") {
        // Two lists of calls have no clear meaning.
        let twice = |name| Problem::of_place(&format!("/{name}"), "Expected no calls besides toolCalls");
        return other.map_or(Ok(None), |name| Err(twice(name)));
    }
    let mut envelope = members.clone();
    if let Some(name) = other {
        let place = format!("/{name}");
        let found = match envelope.remove(name).unwrap_or_default() {
            Value::Array(items) => calls(&items, &place)?,
            Value::Null => Vec::new(),
            single => vec![call(single, &place)?.ok_or_else(|| not_a_call(&place))?],
        };
        if envelope.get("content").is_some_and(Value::is_null) {
            envelope.remove("content");
        }
        envelope.insert("toolCalls".to_owned(), found.into());
        return Ok(Some(envelope.into()));
    }
    if !is_call(&members.clone().into()) {
        return Ok(None);
    }
    let rest = ["content", "needsMoreWork"].into_iter();
    let rest: Vec<_> = rest.filter_map(|name| envelope.remove_entry(name)).collect();
    let Some(call) = call(envelope.into(), "")? else { return Ok(None) };
    let mut envelope = json!({ "toolCalls": [call] });
    rest.into_iter().for_each(|(name, value)| envelope[name] = value);
    Ok(Some(envelope))
}

fn calls(items: &[Value], place: &str) -> Result<Vec<Value>, Problem> {
    let convert = |(at, item): (usize, &Value)| {
        let place = format!("{place}/{at}");
        call(item.clone(), &place)?.ok_or_else(|| not_a_call(&place))
    };
    items.iter().enumerate().map(convert).collect()
}

fn not_a_call(place: &str) -> Problem {
    Problem::of_place(place, "Expected a call with `name` and `arguments`")
}

/// Reports whether a value is a call: it has a name and arguments.
fn is_call(value: &Value) -> bool {
    let inner = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value);
    let name = inner.get("name").or_else(|| inner.get("tool"));
    name.is_some_and(Value::is_string) && ARGUMENTS.iter().any(|name| inner.get(name).is_some())
}

/// Converts a call at `place`, a JSON pointer, to the envelope's form. Returns `None` if the value is
/// not a call.
///
/// # Errors
/// Returns an error if the arguments are a string of JSON that is refused.
pub(super) fn call(value: Value, place: &str) -> Result<Option<Value>, Problem> {
    let Value::Object(mut members) = value else { return Ok(None) };
    if let Some(Value::Object(inner)) = members.remove("function") {
        members = inner;
    }
    let Some(name) = members.remove("name").or_else(|| members.remove("tool")) else { return Ok(None) };
    let mut given = ARGUMENTS.into_iter().filter_map(|name| Some((name, members.remove(name)?)));
    let arguments = given.next();
    if given.next().is_some() {
        return Ok(None);
    }
    let arguments = match arguments {
        // Some models write the arguments as a string of JSON.
        Some((name, Value::String(text))) => match strict::read(&text) {
            Ok(value) => value,
            Err(error) if error.refusal.is_some() => {
                return Err(Problem::within(&format!("{place}/{name}"), *error));
            }
            Err(_) if text.trim().is_empty() => json!({}),
            Err(_) => Value::String(text),
        },
        Some((_, arguments)) => arguments,
        None => json!({}),
    };
    Ok(Some(json!({ "name": name, "arguments": arguments })))
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;

    #[test]
    fn reads_calls_of_every_form() {
        let shape = Shape::tool_calls();
        let call = json!({ "name": "now", "arguments": { "zone": "UTC" } });
        let expected = json!({ "toolCalls": [call] });
        for text in [
            r#"{"name": "now", "arguments": {"zone": "UTC"}}"#,
            r#"{"tool": "now", "input": {"zone": "UTC"}}"#,
            r#"[{"name": "now", "parameters": {"zone": "UTC"}}]"#,
            r#"{"tool_calls": [{"name": "now", "arguments": {"zone": "UTC"}}], "content": null}"#,
            r#"{"tool_calls": [{"id": "1", "type": "function", "function": {"name": "now", "arguments": "{\"zone\": \"UTC\"}"}}]}"#,
            r#"{"function_call": {"name": "now", "arguments": "{\"zone\": \"UTC\"}"}}"#,
            r#"I call: {"name": "now", "arguments": {"zone": "UTC"}}"#,
        ] {
            let reading = shape.read(text);
            assert_eq!(reading.value.as_ref(), Some(&expected), "{text}: {:?}", reading.errors);
            assert!(reading.is_valid() && reading.is_telling(), "{text}");
            assert_eq!(reading.adapted(), ["tool-calls"], "{text}");
        }
        let both = shape.read(r#"{"name": "now", "arguments": {}, "content": "I look."}"#).value;
        let expected = json!({ "toolCalls": [{ "name": "now", "arguments": {} }], "content": "I look." });
        assert_eq!(both, Some(expected));
    }

    #[test]
    fn loses_no_call_without_an_error() {
        let shape = Shape::tool_calls();
        for (text, error) in [
            (
                r#"{"tool_calls": [{"name": "now", "arguments": {}}, {"call": "then"}]}"#,
                "Field \"tool_calls.1\": Expected a call with `name` and `arguments`",
            ),
            (
                r#"{"tool_calls": "now()"}"#,
                "Field \"tool_calls\": Expected a call with `name` and `arguments`",
            ),
            (
                r#"{"toolCalls": [], "tool_calls": [{"name": "now", "arguments": {}}]}"#,
                "Field \"tool_calls\": Expected no calls besides toolCalls",
            ),
            (
                r#"{"name": "pay", "arguments": "{\"to\": 1, \"to\": 2}"}"#,
                "Field \"arguments.to\": duplicate name `to`",
            ),
        ] {
            let reading = shape.read(text);
            assert_eq!(reading.errors, [error], "{text}");
        }
        for text in [r#"{"name": "Emma"}"#, "{}", r#"{"arguments": {}}"#] {
            assert!(shape.read(text).adapted().is_empty(), "{text}");
        }
    }
}
