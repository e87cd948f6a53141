use serde_json::{Value, json};

use super::super::arguments::fence;
use crate::Body;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

/// Converts calls in the content to `tool_calls`, if the message has no calls.
///
/// Models trained on the Hermes format write
/// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`. Some servers leave this in the content.
/// The text around the tags is kept.
///
/// Also accepted are:
/// - an array of calls in one tag,
/// - a fence inside the tag or instead of it (` ```tool_call `),
/// - a last tag that is not closed,
/// - `parameters` instead of `arguments`.
///
/// Tags before the last `</think>` belong to the thoughts and stay in the text.
pub(super) fn tags(message: &mut Body) {
    let has_calls = |name: &str| {
        message.get(name).is_some_and(|calls| match calls {
            Value::Array(calls) => !calls.is_empty(),
            Value::Object(calls) => !calls.is_empty(),
            _ => false,
        })
    };
    if has_calls("tool_calls") || has_calls("function_call") {
        return;
    }
    let Some(content) = message.get("content").and_then(Value::as_str) else { return };
    let start = content.rfind("</think>").map_or(0, |at| at + "</think>".len());
    let (thoughts, said) = content.split_at(start);
    let Some((calls, rest)) = tagged(said).or_else(|| whole_fence(said)) else { return };
    let content = format!("{thoughts}{rest}").trim().to_owned();
    message.insert("content".to_owned(), if content.is_empty() { Value::Null } else { content.into() });
    message.insert("tool_calls".to_owned(), calls.into());
}

/// Returns the calls in `<tool_call>` tags and the text around the tags, or `None` if there are no
/// calls. A tag that does not contain a call stays in the text.
fn tagged(said: &str) -> Option<(Vec<Value>, String)> {
    let (mut calls, mut rest, mut left) = (Vec::new(), String::new(), said);
    while let Some((before, after)) = left.split_once(OPEN) {
        let (inside, next) = after.split_once(CLOSE).unwrap_or((after, ""));
        rest.push_str(before);
        match read(inside) {
            Some(read) => calls.extend(read),
            None => rest.push_str(&left[before.len()..left.len() - next.len()]),
        }
        left = next;
    }
    rest.push_str(left);
    (!calls.is_empty()).then_some((calls, rest))
}

/// Returns the calls in `said` if it is a single fence with the info string `tool_call` or
/// `tool_calls`. The remaining text is empty.
fn whole_fence(said: &str) -> Option<(Vec<Value>, String)> {
    let (info, inside) = fence(said)?;
    let calls = ["tool_call", "tool_calls"].contains(&info).then(|| read(inside))??;
    Some((calls, String::new()))
}

fn read(inside: &str) -> Option<Vec<Value>> {
    let inside = fence(inside).map_or(inside, |(_, inside)| inside);
    match serde_json::from_str(inside.trim()).ok()? {
        Value::Array(calls) if !calls.is_empty() => calls.iter().map(call).collect(),
        one => Some(vec![call(&one)?]),
    }
}

fn call(value: &Value) -> Option<Value> {
    // Some models write the call in the API's shape.
    let function = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let name = function.get("name")?.as_str()?;
    let arguments = function.get("arguments").or_else(|| function.get("parameters"));
    let arguments = match arguments {
        Some(Value::String(text)) => text.clone(),
        Some(arguments) => arguments.to_string(),
        None => String::new(),
    };
    Some(json!({ "type": "function", "function": { "name": name, "arguments": arguments } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the calls as name and arguments, and the remaining content.
    fn after(content: &str) -> (Vec<(String, String)>, Value) {
        let mut message = json!({ "role": "assistant", "content": content, "tool_calls": [] });
        tags(message.as_object_mut().expect("an object"));
        let text = |call: &Value, name: &str| call["function"][name].as_str().unwrap_or_default().to_owned();
        let calls = message["tool_calls"].as_array().expect("calls").iter();
        (
            calls.map(|call| (text(call, "name"), text(call, "arguments"))).collect(),
            message["content"].clone(),
        )
    }

    #[test]
    fn converts_tags_to_calls() {
        for (content, rest) in [
            (r#"<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>"#, json!(null)),
            (
                "Well.\n<tool_call>\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}\n</tool_call>\n",
                json!("Well."),
            ),
            (r#"<tool_call>{"name": "f", "arguments": "{\"a\":1}"}"#, json!(null)),
            (
                "<tool_call>```json\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n```</tool_call>",
                json!(null),
            ),
            ("```tool_call\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n```", json!(null)),
            (r#"<tool_call>{"function": {"name": "f", "arguments": {"a": 1}}}</tool_call>"#, json!(null)),
            (
                "<think>I <tool_call>{\"name\": \"g\"}</tool_call></think><tool_call>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]</tool_call>",
                json!("<think>I <tool_call>{\"name\": \"g\"}</tool_call></think>"),
            ),
        ] {
            assert_eq!(after(content), (vec![("f".to_owned(), "{\"a\":1}".to_owned())], rest), "{content}");
        }
        let two = "<tool_call>{\"name\": \"f\"}</tool_call> and <tool_call>{\"name\": \"g\"}</tool_call>";
        let calls = [("f", ""), ("g", "")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(after(two), (calls.to_vec(), json!("and")));
    }

    #[test]
    fn keeps_other_content_as_text() {
        for content in [
            "",
            "no tags",
            "<tool_call>get_weather(Paris)</tool_call> x",
            "<tool_call>{\"arguments\": {}}</tool_call>",
            "<tool_call>{\"name\": \"f\", \"argum",
            "</tool_call>",
            "<tool_call>[]</tool_call>",
            "```json\n{\"name\": \"f\", \"arguments\": {}}\n```",
        ] {
            assert_eq!(after(content), (vec![], json!(content)), "{content}");
        }
        let mixed = "<tool_call>x</tool_call><tool_call>{\"name\": \"f\"}</tool_call>";
        assert_eq!(after(mixed), (vec![("f".to_owned(), String::new())], json!("<tool_call>x</tool_call>")));
    }

    #[test]
    fn keeps_existing_calls_unchanged() {
        let tag = "<tool_call>{\"name\": \"f\"}</tool_call>";
        for message in [
            json!({ "content": tag, "tool_calls": [{ "function": { "name": "g" } }] }),
            json!({ "content": tag, "tool_calls": { "function": { "name": "g" } } }),
            json!({ "content": tag, "function_call": { "name": "g" } }),
            json!({ "content": null }),
        ] {
            let mut after = message.clone();
            tags(after.as_object_mut().expect("an object"));
            assert_eq!(after, message);
        }
    }
}
