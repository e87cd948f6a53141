//! Conversion of tool calls in other forms of JSON to the envelope's form.
//!
//! | answer | call |
//! |---|---|
//! | `{"name": …, "arguments": …}` | the answer |
//! | `[{"name": …, "arguments": …}]` | each item |
//! | `{"tool_calls": […], "content": …}` | each item, also as `{"function": {…}}` |
//! | `{"function_call": {…}}` | the member |
//!
//! The name may also be called `tool` or `function`, and the arguments `parameters`, `input` or
//! `args`. Arguments may be a string of JSON. A call may have an id, a type and an index, but no
//! further members, because they would be lost.

use serde_json::{Map, Value, json};

use super::shape::Problem;
use crate::object::range_in;
use crate::strict;
use crate::tape::pointer_token;

/// Names of a call's name.
const NAMES: [&str; 3] = ["name", "tool", "function"];
/// Names of a call's arguments.
const ARGUMENTS: [&str; 4] = ["arguments", "parameters", "input", "args"];
/// Names of the members with calls.
const LISTS: [&str; 3] = ["toolCalls", "tool_calls", "function_call"];
/// Types of calls.
const TYPES: [&str; 4] = ["function", "function_call", "tool_call", "tool_use"];
/// Maximum number of repetitions of a value that are recognized.
const REPEATED: usize = 8;

/// Returns the names of members that distinguish a call in another form from other objects.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    LISTS.into_iter().chain(ARGUMENTS).chain(["function"])
}

/// Converts an answer to an envelope. Returns `None` if the answer has no calls in another form.
///
/// # Errors
/// Returns an error if some of the calls cannot be converted, because they would be lost.
pub(super) fn enveloped(answer: &Value) -> Result<Option<Value>, Problem> {
    match answer {
        Value::Array(items) if !items.is_empty() && items.iter().all(is_call) => {
            Ok(Some(json!({ "toolCalls": calls(items, "")? })))
        }
        Value::Object(members) => of_object(answer, members),
        _ => Ok(None),
    }
}

fn of_object(answer: &Value, members: &Map<String, Value>) -> Result<Option<Value>, Problem> {
    let is_given = |name: &&str| members.get(*name).is_some_and(|calls| !calls.is_null());
    let mut given = LISTS.into_iter().filter(is_given);
    let (first, second) = (given.next(), given.next());
    if let Some(first) = first {
        // Two lists of calls have no clear meaning.
        let twice = |place: &str| Problem::of_place(place, &format!("Expected no calls besides {first}"));
        if let Some(second) = second {
            return Err(twice(&format!("/{second}")));
        }
        if is_call(answer) {
            return Err(twice(""));
        }
        if first == LISTS[0] {
            let items = answer[first].as_array().into_iter().flatten();
            return items.enumerate().try_for_each(nothing_twice).map(|()| None);
        }
    }
    let is_single = is_call(answer);
    if !is_single && !LISTS[1..].iter().any(|name| members.contains_key(*name)) {
        return Ok(None);
    }
    let mut envelope = members.clone();
    let found = match first {
        Some(name) => {
            let place = format!("/{name}");
            match envelope.remove(name).unwrap_or_default() {
                Value::Array(items) => calls(&items, &place)?,
                single => vec![call(single, &place)?.ok_or_else(|| not_a_call(&place))?],
            }
        }
        None => Vec::new(),
    };
    for name in LISTS {
        envelope.remove(name);
    }
    if envelope.get("content").is_some_and(Value::is_null) {
        envelope.remove("content");
    }
    if !is_single {
        envelope.insert("toolCalls".to_owned(), found.into());
        return Ok(Some(envelope.into()));
    }
    let rest = ["content", "needsMoreWork"].into_iter();
    let rest: Vec<_> = rest.filter_map(|name| envelope.remove_entry(name)).collect();
    let Some(call) = call(envelope.into(), "")? else { return Ok(None) };
    let mut envelope = json!({ "toolCalls": [call] });
    for (name, value) in rest {
        envelope[name] = value;
    }
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

/// Reports whether a value is a call: it has a name and arguments, or a function with a name.
fn is_call(value: &Value) -> bool {
    let is_named = |value: &Value| NAMES.iter().any(|name| value.get(name).is_some_and(Value::is_string));
    value.get("function").is_some_and(is_named)
        || (is_named(value) && ARGUMENTS.iter().any(|name| value.get(name).is_some()))
}

/// Converts a call at `place`, a JSON pointer, to the envelope's form. Returns `None` if the value has
/// no name.
///
/// # Errors
/// Returns an error if the arguments are a string of JSON that is refused, or if the call has further
/// members.
pub(super) fn call(value: Value, place: &str) -> Result<Option<Value>, Problem> {
    let Value::Object(mut members) = value else { return Ok(None) };
    let mut place = place.to_owned();
    if members.get("function").is_some_and(Value::is_object)
        && let Some(Value::Object(inner)) = members.remove("function")
    {
        nothing_else(members, &place)?;
        members = inner;
        place.push_str("/function");
    }
    let name = NAMES.into_iter().find_map(|name| members.remove(name));
    let Some(name) = name else { return Ok(None) };
    let arguments = ARGUMENTS.into_iter().find_map(|name| members.remove_entry(name));
    nothing_else(members, &place)?;
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
        Some((name, arguments)) if name == "parameters" && is_schema(&arguments) => {
            let told = "Expected the arguments of a call, got the schema of a tool";
            return Err(Problem::of_place(&format!("{place}/{name}"), told));
        }
        Some((_, arguments)) => arguments,
        None => json!({}),
    };
    Ok(Some(json!({ "name": name, "arguments": arguments })))
}

/// Checks that only members are left that describe the call itself: its id, type and index.
fn nothing_else(members: Map<String, Value>, place: &str) -> Result<(), Problem> {
    let is_known = |name: &str, value: &Value| match name {
        "id" | "call_id" | "index" => value.is_string() || value.is_number() || value.is_null(),
        "type" => value.as_str().is_some_and(|kind| TYPES.contains(&kind)),
        _ => false,
    };
    let Some((name, _)) = members.into_iter().find(|(name, value)| !is_known(name, value)) else {
        return Ok(());
    };
    let place = format!("{place}/{}", pointer_token(&name));
    Err(Problem::of_place(&place, "Expected only the name and the arguments of a call"))
}

/// Checks that a call of the envelope has no second name and no second arguments.
fn nothing_twice((at, call): (usize, &Value)) -> Result<(), Problem> {
    let mut others = NAMES[1..].iter().chain(&ARGUMENTS[1..]);
    let is_complete = call.get(NAMES[0]).is_some() && call.get(ARGUMENTS[0]).is_some();
    match others.find(|name| is_complete && call.get(name).is_some()) {
        Some(name) => {
            let place = format!("/toolCalls/{at}/{name}");
            Err(Problem::of_place(&place, "Expected only the name and the arguments of a call"))
        }
        None => Ok(()),
    }
}

/// Reports whether a value is the JSON Schema of an object.
fn is_schema(value: &Value) -> bool {
    value.get("type").is_some_and(|kind| kind == "object")
        && value.get("properties").is_some_and(Value::is_object)
}

/// Returns the offset of a call in `text` that is not in the part `found`, whose value is `value`.
/// Parts with the same value are no further calls.
pub(super) fn beside(text: &str, found: &str, value: Option<&Value>) -> Option<usize> {
    let blank = |length: usize| " ".repeat(length);
    if !text.contains(found) {
        // The part was in a string.
        return position(text, false);
    }
    let mut outside =
        if found.is_empty() { text.to_owned() } else { text.replace(found, &blank(found.len())) };
    for _ in 0..REPEATED {
        let fields: Vec<&str> = names().chain(["content", "needsMoreWork"]).collect();
        let Some(range) = range_in(&outside, &fields) else { break };
        match serde_json::from_str::<Value>(&outside[range.clone()]) {
            Ok(other) if Some(&other) == value => outside.replace_range(range.clone(), &blank(range.len())),
            _ => break,
        }
    }
    position(&outside, true)
}

/// Returns the offset of something in `text` that may be meant as a call in JSON, even if the JSON is
/// broken. With `with_escaped`, names in escaped quotes count as well.
pub(super) fn position(text: &str, with_escaped: bool) -> Option<usize> {
    let first = |names: &[&str]| names.iter().filter_map(|name| member(text, name, with_escaped)).min();
    if !text.contains('{') {
        return None;
    }
    first(&LISTS).or_else(|| first(&NAMES).filter(|_| first(&ARGUMENTS).is_some()))
}

/// Returns the offset of the first member with this name, in quotes or after a bracket or comma.
fn member(text: &str, name: &str, with_escaped: bool) -> Option<usize> {
    let is_quote =
        |c: char| matches!(c, '"' | '\'' | '`' | '\u{201c}' | '\u{201d}' | '\u{2018}' | '\u{2019}');
    let is_member = |(at, _): &(usize, &str)| {
        let (before, after) = (&text[..*at], &text[at + name.len()..]);
        let (begins, after) = match before.strip_suffix(is_quote) {
            Some(before) => {
                let after = after.strip_prefix('\\').unwrap_or(after).strip_prefix(is_quote);
                (with_escaped || !before.ends_with('\\'), after)
            }
            None => (before.trim_end().ends_with(['{', ',']), Some(after)),
        };
        begins && after.is_some_and(|after| after.trim_start().starts_with([':', '=', '\u{ff1a}']))
    };
    text.match_indices(name).find(is_member).map(|(at, _)| at)
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
            r#"{"function_call": null, "tool_calls": [{"name": "now", "args": {"zone": "UTC"}}]}"#,
            r#"{"type": "tool_use", "id": "1", "name": "now", "input": {"zone": "UTC"}}"#,
            r#"{"function": "now", "arguments": {"zone": "UTC"}}"#,
            r#"{"function": {"name": "now", "args": "{\"zone\": \"UTC\"}"}}"#,
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
                r#"{"tool_calls": [], "function_call": {"name": "now", "arguments": {}}}"#,
                "Field \"function_call\": Expected no calls besides tool_calls",
            ),
            (
                r#"{"toolCalls": [], "name": "now", "arguments": {}}"#,
                "The whole value: Expected no calls besides toolCalls",
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

    #[test]
    fn refuses_calls_whose_members_would_be_lost() {
        let shape = Shape::tool_calls();
        for (text, place) in [
            (r#"{"tool_calls": [{"name": "pay", "kwargs": {"amount": 5}}]}"#, "tool_calls.0.kwargs"),
            (
                r#"{"tool_calls": [{"function": {"name": "pay"}, "arguments": {"amount": 5}}]}"#,
                "tool_calls.0.arguments",
            ),
            (r#"{"name": "pay", "arguments": {"amount": 5}, "to": "Bob"}"#, "to"),
            (r#"{"name": "pay", "arguments": {"amount": 5}, "type": "refund"}"#, "type"),
            (r#"{"name": "pay", "arguments": {}, "id": {"amount": 5}}"#, "id"),
            (r#"{"name": "pay", "arguments": {}, "args": {"amount": 5}}"#, "args"),
            (r#"{"name": "pay", "tool": "refund", "arguments": {}}"#, "tool"),
            (r#"{"name": "pay", "function": "refund", "arguments": {}}"#, "function"),
            (r#"{"name": "pay", "arguments": {}, "function": {"name": "refund", "arguments": {}}}"#, "name"),
            (r#"{"function": {"name": "pay", "kwargs": {"amount": 5}}}"#, "function.kwargs"),
            (r#"{"toolCalls": [{"name": "a", "arguments": {}, "input": {"x": 1}}]}"#, "toolCalls.0.input"),
            (r#"{"name": "a", "description": "d", "parameters": {"type": "object"}}"#, "description"),
            (r#"{"name": "a", "parameters": {"type": "object", "properties": {}}}"#, "parameters"),
            (
                r#"[{"type": "function", "function": {"name": "a", "parameters": {"type": "object", "properties": {}}}}]"#,
                "0.function.parameters",
            ),
            (r#"<tool_call>{"name": "a", "arguments": {}, "to": "Bob"}</tool_call>"#, "toolCalls.0.to"),
        ] {
            let reading = shape.read(text);
            assert_eq!(reading.value, None, "{text}");
            let told = format!("Field \"{place}\": Expected ");
            assert!(reading.errors[0].starts_with(&told), "{text}: {:?}", reading.errors);
        }
    }
}
