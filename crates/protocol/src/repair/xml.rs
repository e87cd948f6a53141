//! Calls that some models wrap in XML of their training, made the JSON of the envelope.
//!
//! `<function_calls>` has calls as `<invoke name="…">` with a `<parameter name="…">` for each argument, or JSON; `<tool_call>` has a call as
//! JSON. Names may have a prefix, as in `<x:invoke>`. A wrapper may lack its end; a call or an argument that does is cut off, and none.
//! Tags within an envelope of JSON are text. The time is linear in the length of the text.

use serde_json::{Map, Value, json};

use crate::directives::parser::{envelope_in, is_blank};

/// What calls may stand in.
const WRAPPERS: [&str; 4] = ["function_calls", "tool_calls", "tool_call", "invoke"];

/// The text as an envelope, if it has calls in XML and is no JSON itself.
pub(super) fn normalized(text: &str, fields: &[&str]) -> Option<String> {
    let mentions = |tag: &str| text.contains(tag);
    if !mentions("function_calls") && !mentions("tool_call") && !mentions("invoke") {
        return None;
    }
    let is_json = text.trim_start_matches(is_blank).starts_with(['{', '['])
        && serde_json::from_str::<serde::de::IgnoredAny>(text.trim_matches(is_blank)).is_ok();
    if is_json {
        return None;
    }
    let first = element(text, &WRAPPERS)?.before.len();
    if envelope_in(text, fields).is_some_and(|envelope| envelope.contains(&first)) {
        return None;
    }
    let mut said = String::new();
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(wrapped) = element(rest, &WRAPPERS) {
        said.push_str(wrapped.before);
        let inner = match wrapped.name {
            "invoke" => vec![invocation(&wrapped)],
            _ => within(wrapped.inner),
        };
        match inner.into_iter().collect::<Option<Vec<Value>>>() {
            Some(found) if !found.is_empty() => calls.extend(found),
            // No calls: what is in it speaks for itself.
            _ => return Some(wrapped.inner.to_owned()),
        }
        rest = wrapped.after;
    }
    if calls.is_empty() {
        return None;
    }
    said.push_str(rest);
    let mut envelope = json!({ "toolCalls": calls });
    let said = said.trim_matches(is_blank);
    if !said.is_empty() {
        envelope["content"] = said.into();
    }
    Some(envelope.to_string())
}

/// The calls in a wrapper; none for those that are none.
fn within(text: &str) -> Vec<Option<Value>> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(wrapped) = element(rest, &["invoke", "tool_call"]) {
        calls.push(match wrapped.name {
            "invoke" => invocation(&wrapped),
            _ => json_of(wrapped.inner).and_then(call),
        });
        rest = wrapped.after;
    }
    if !calls.is_empty() {
        return calls;
    }
    match json_of(text) {
        Some(Value::Array(items)) => items.into_iter().map(call).collect(),
        Some(other) => vec![call(other)],
        None => vec![None],
    }
}

/// JSON, fenced or not.
fn json_of(text: &str) -> Option<Value> {
    let text = text.trim_matches(is_blank);
    let text = text.strip_prefix("```json").or_else(|| text.strip_prefix("```")).unwrap_or(text);
    serde_json::from_str(text.strip_suffix("```").unwrap_or(text)).ok()
}

/// A call as models write it, in the envelope's words.
fn call(value: Value) -> Option<Value> {
    let Value::Object(mut members) = value else { return None };
    let name = members.remove("name").or_else(|| members.remove("tool"))?;
    let arguments = ["arguments", "parameters", "input"].into_iter().find_map(|name| members.remove(name));
    let arguments = match arguments {
        // Some write the object as text.
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        Some(arguments) => arguments,
        None => json!({}),
    };
    Some(json!({ "name": name, "arguments": arguments }))
}

fn invocation(element: &Element<'_>) -> Option<Value> {
    if !element.is_closed {
        return None;
    }
    let name = attribute(element.attributes, "name")?;
    let mut arguments = Map::new();
    let mut rest = element.inner;
    while let Some(parameter) = element_of(rest, "parameter") {
        let value = argument(parameter.inner.trim_matches(is_blank));
        let earlier = arguments.insert(attribute(parameter.attributes, "name")?, value);
        if earlier.is_some() || !parameter.is_closed {
            return None;
        }
        rest = parameter.after;
    }
    Some(json!({ "name": name, "arguments": arguments }))
}

/// Lists, objects, booleans and numbers that are written as we would; all else is text, as most arguments are.
fn argument(text: &str) -> Value {
    let read = serde_json::from_str::<Value>(text).ok().filter(|value| match value {
        Value::Array(_) | Value::Object(_) | Value::Bool(_) => true,
        Value::Number(number) => number.to_string() == text,
        Value::Null | Value::String(_) => false,
    });
    read.unwrap_or_else(|| Value::String(unescaped(text)))
}

struct Element<'a> {
    before: &'a str,
    name: &'static str,
    attributes: &'a str,
    inner: &'a str,
    after: &'a str,
    is_closed: bool,
}

fn element_of<'a>(text: &'a str, name: &'static str) -> Option<Element<'a>> {
    element(text, &[name])
}

/// The first element with one of these names. One that does not end goes to the end of the text.
fn element<'a>(text: &'a str, names: &[&'static str]) -> Option<Element<'a>> {
    let mut at = 0;
    while let Some(start) = text[at..].find('<').map(|found| at + found) {
        let tag = &text[start + 1..];
        let end = tag.find('>')?;
        let (local, attributes) = tag[..end].split_once(is_blank).unwrap_or((&tag[..end], ""));
        let local = local.rsplit(':').next().unwrap_or_default();
        if let Some(&name) = names.iter().find(|&&name| name == local) {
            let body = &tag[end + 1..];
            let closed = closed(body, name);
            let (inner, after) = closed.unwrap_or((body, ""));
            let is_closed = closed.is_some();
            return Some(Element { before: &text[..start], name, attributes, inner, after, is_closed });
        }
        at = start + 1;
    }
    None
}

/// What is before the closing tag of this name, and after it.
fn closed<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let mut at = 0;
    while let Some(start) = text[at..].find("</").map(|found| at + found) {
        let tag = &text[start + 2..];
        let end = tag.find('>')?;
        if tag[..end].trim_matches(is_blank).rsplit(':').next() == Some(name) {
            return Some((&text[..start], &tag[end + 1..]));
        }
        at = start + 2;
    }
    None
}

fn attribute(attributes: &str, name: &str) -> Option<String> {
    let value = attributes.split_once(name)?.1.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|&c| c == '"' || c == '\'')?;
    value[1..].split_once(quote).map(|(value, _)| unescaped(value))
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Value> {
        normalized(text, &["toolCalls", "content"])
            .map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    fn calls(calls: &Value) -> Value {
        json!({ "toolCalls": calls })
    }

    #[test]
    fn wrappers_become_the_envelope() {
        let invoked = "<function_calls>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris &amp; Rome</parameter>\n\
                       <parameter name=\"days\">3</parameter>\n</invoke>\n</function_calls>";
        let expected = json!([{ "name": "get_weather", "arguments": { "city": "Paris & Rome", "days": 3 } }]);
        assert_eq!(read(invoked), Some(calls(&expected)));
        let prefixed = invoked.replace('<', "<x:").replace("<x:/", "</x:");
        assert_eq!(read(&prefixed), Some(calls(&expected)));
        let now = json!([{ "name": "now", "arguments": {} }]);
        for text in [
            "<function_calls>[{\"name\": \"now\", \"arguments\": {}}]</function_calls>",
            "<function_calls>{\"name\": \"now\", \"parameters\": {}}</function_calls>",
            "<function_calls>```json\n{\"name\": \"now\", \"input\": \"{}\"}\n```</function_calls>",
            "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
            "<tool_calls><tool_call>{\"tool\": \"now\"}</tool_call></tool_calls>",
            "<invoke name='now'></invoke>",
            "<function_calls><invoke name=\"now\"></invoke>",
        ] {
            assert_eq!(read(text), Some(calls(&now)), "{text}");
        }
    }

    #[test]
    fn several_calls_and_the_words_around_them_are_kept() {
        let text = "I look.\n<tool_call>{\"name\": \"a\"}</tool_call>\n<tool_call>{\"name\": \"b\"}</tool_call> Done.";
        let expected = json!({
            "toolCalls": [{ "name": "a", "arguments": {} }, { "name": "b", "arguments": {} }],
            "content": "I look.\n\n Done.",
        });
        assert_eq!(read(text), Some(expected));
    }

    #[test]
    fn an_envelope_in_a_wrapper_is_the_envelope() {
        let inner = "{\"toolCalls\": [], \"content\": \"Hi\"}";
        let wrapped = format!("<function_calls>{inner}</function_calls>");
        assert_eq!(normalized(&wrapped, &["toolCalls"]).as_deref(), Some(inner));
    }

    #[test]
    fn what_is_no_wrapper_is_left_alone() {
        for text in [
            "",
            "plain",
            "{\"content\": \"write <function_calls><invoke name=\\\"a\\\"></invoke></function_calls>\"}",
            "the tag invoke is <b>bold</b>",
            "function_calls < 3",
        ] {
            assert_eq!(normalized(text, &["toolCalls", "content"]), None, "{text}");
        }
    }

    #[test]
    fn tags_in_an_envelope_are_text() {
        let envelope = "{\"content\": \"Write <invoke name='rm'></invoke>\"}";
        for text in [
            format!("```json\n{envelope}\n```"),
            format!("{envelope} Hope that helps"),
            format!("So: {envelope}"),
        ] {
            assert_eq!(normalized(&text, &["toolCalls", "content"]), None, "{text}");
        }
    }

    #[test]
    fn what_is_cut_off_is_no_call() {
        for text in [
            "<function_calls><invoke name=\"delete\"><parameter name=\"path\">/home/us",
            "<function_calls><invoke name=\"delete\"><parameter name=\"path\">/home/user</parameter>",
            "<function_calls><invoke name=\"delete\">",
            "<invoke name=\"a\"><parameter name=\"to\">x</parameter><parameter name=\"to\">y</parameter></invoke>",
        ] {
            let read = normalized(text, &["toolCalls", "content"]).unwrap();
            assert!(!read.contains("toolCalls"), "{read}");
        }
    }

    #[test]
    fn arguments_keep_what_is_written() {
        for (text, value) in [
            ("1.10", json!("1.10")),
            ("12345678901234567890123", json!("12345678901234567890123")),
            ("null", json!("null")),
            ("\"a\"", json!("\"a\"")),
            ("007", json!("007")),
            ("3", json!(3)),
            ("1.5", json!(1.5)),
            ("true", json!(true)),
            ("[1, 2]", json!([1, 2])),
            ("{\"a\": 1}", json!({ "a": 1 })),
        ] {
            assert_eq!(argument(text), value, "{text}");
        }
    }
}
