//! Conversion of tool calls in XML to the JSON envelope. Some models write such calls because of
//! their training.
//!
//! A `<function_calls>` element contains JSON, or one `<invoke name="…">` element per call with a
//! `<parameter name="…">` for each argument. A `<tool_call>` element contains JSON. Names may have
//! a prefix, as in `<x:invoke>`.
//!
//! A wrapper may lack its closing tag. An `<invoke>` or `<parameter>` without a closing tag is cut
//! off and is not a call. Tags inside a JSON envelope are text. The running time is linear in the
//! length of the text.

use serde_json::{Map, Value, json};

use super::calls::{self, call};
use super::shape::Problem;
use crate::object::{is_blank, range_in};
use crate::strict;
use crate::tape::pointer_token;
use crate::thoughts;

/// Elements that contain calls.
pub(super) const WRAPPERS: [&str; 4] = ["function_calls", "tool_calls", "tool_call", "invoke"];

/// Converts calls in XML to the text of an envelope. Returns `None` if the text has no such calls
/// or is JSON itself. Calls in reasoning are drafts: they are removed together with the reasoning.
///
/// # Errors
/// Returns an error if one of several calls is invalid or cut off, if JSON in a call is refused, or if
/// the text beside the calls has calls or an envelope in JSON.
pub(super) fn normalized(text: &str, fields: &[&str]) -> Result<Option<String>, Problem> {
    let mentions = |tag: &str| text.contains(tag);
    if !mentions("function_calls") && !mentions("tool_call") && !mentions("invoke") {
        return Ok(None);
    }
    if is_envelope(text, fields) {
        return Ok(None);
    }
    let said = super::drafts::without_drafts(text)?;
    let was_changed = said.len() < text.len();
    if element(&said, &WRAPPERS).is_none() || is_envelope(&said, fields) {
        return Ok(was_changed.then_some(said.into_owned()));
    }
    of_calls(&said, fields)
}

/// Reports whether a text is JSON, or its first call is inside of an envelope.
fn is_envelope(text: &str, fields: &[&str]) -> bool {
    let is_json = text.trim_start_matches(is_blank).starts_with(['{', '['])
        && serde_json::from_str::<serde::de::IgnoredAny>(text.trim_matches(is_blank)).is_ok();
    let is_inside = || {
        let first = element(text, &WRAPPERS).map(|first| first.before.len());
        first.is_some_and(|first| range_in(text, fields).is_some_and(|envelope| envelope.contains(&first)))
    };
    is_json || is_inside()
}

/// Converts the calls in a text with at least one wrapper.
fn of_calls(text: &str, fields: &[&str]) -> Result<Option<String>, Problem> {
    let has_json = |text: &str| text.contains(['{', '[']);
    let invalid = || Problem::unread("one of several XML calls is invalid or cut off");
    let mut said = String::new();
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(wrapped) = element(rest, &WRAPPERS) {
        said.push_str(wrapped.before);
        let inner = match wrapped.name {
            "invoke" => vec![invocation(&wrapped, calls.len())?],
            _ => within(wrapped.inner, calls.len(), &mut said)?,
        };
        match inner.into_iter().collect::<Option<Vec<Value>>>() {
            Some(found) if !found.is_empty() => calls.extend(found),
            // A single wrapper without calls is replaced by its inner text.
            _ if calls.is_empty() && element(wrapped.after, &WRAPPERS).is_none() => {
                if wrapped.name != "invoke" && attribute(wrapped.attributes, "name").is_some() {
                    return Err(Problem::of_place(
                        &place_of(0),
                        "Expected a call with `name` and `arguments`",
                    ));
                }
                let inner = wrapped.inner;
                if !has_json(wrapped.before) && !has_json(wrapped.after) {
                    return Ok(Some(inner.to_owned()));
                }
                // JSON beside the wrapper counts as well.
                if wrapped.name == "invoke" || json_of(inner, 0)?.is_none() {
                    return Err(invalid());
                }
                return Ok(Some(format!("{}\n{inner}\n{}", wrapped.before, wrapped.after)));
            }
            _ => return Err(invalid()),
        }
        rest = wrapped.after;
    }
    said.push_str(rest);
    let said = said.trim_matches(is_blank);
    if calls::position(said, true).is_some() || range_in(said, fields).is_some() {
        let told = format!("Expected no JSON beside the {} calls in XML", calls.len());
        return Err(Problem::of_place("/toolCalls", &told));
    }
    let mut envelope = json!({ "toolCalls": calls });
    if !said.is_empty() {
        envelope["content"] = said.into();
    }
    Ok(Some(envelope.to_string()))
}

/// Parses the calls in a wrapper. `at` is the index of the first call. An element that is not a
/// valid call becomes `None`. Text between the calls is added to `said`.
fn within(text: &str, at: usize, said: &mut String) -> Result<Vec<Option<Value>>, Problem> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(wrapped) = element(rest, &["invoke", "tool_call"]) {
        let at = at + calls.len();
        said.push_str(wrapped.before);
        calls.push(match wrapped.name {
            "invoke" => invocation(&wrapped, at)?,
            _ => match json_of(wrapped.inner, at)? {
                Some(value) => call(value, &place_of(at))?,
                None => None,
            },
        });
        rest = wrapped.after;
    }
    if !calls.is_empty() {
        said.push_str(rest);
        if thoughts::marks(said).next().is_some() {
            return Err(Problem::of_place(&place_of(at), "Expected no reasoning between calls"));
        }
        return Ok(calls);
    }
    match json_of(text, at)? {
        Some(Value::Array(items)) => {
            items.into_iter().enumerate().map(|(index, item)| call(item, &place_of(at + index))).collect()
        }
        Some(other) => Ok(vec![call(other, &place_of(at))?]),
        None => Ok(vec![None]),
    }
}

/// Parses JSON, with or without a Markdown fence.
fn json_of(text: &str, at: usize) -> Result<Option<Value>, Problem> {
    let text = text.trim_matches(is_blank);
    let text = text.strip_prefix("```json").or_else(|| text.strip_prefix("```")).unwrap_or(text);
    json(text.strip_suffix("```").unwrap_or(text), || place_of(at))
}

/// Parses JSON. Returns `None` if the text is not JSON.
///
/// # Errors
/// Returns an error if the text is JSON but is refused, for example because of a repeated name.
fn json(text: &str, place: impl FnOnce() -> String) -> Result<Option<Value>, Problem> {
    match strict::read(text) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.refusal.is_some() => Err(Problem::within(&place(), *error)),
        Err(_) => Ok(None),
    }
}

/// Returns the JSON pointer of a call.
fn place_of(at: usize) -> String {
    format!("/toolCalls/{at}")
}

/// Parses an `<invoke>` element. Returns `None` if it contains anything except arguments, because
/// it is then cut off or its text was misread as markup.
fn invocation(element: &Element<'_>, at: usize) -> Result<Option<Value>, Problem> {
    let Some(name) = attribute(element.attributes, "name").filter(|_| element.is_closed) else {
        return Ok(None);
    };
    let mut arguments = Map::new();
    let mut rest = element.inner;
    while let Some(parameter) = element_of(rest, "parameter") {
        let name = attribute(parameter.attributes, "name").filter(|name| !arguments.contains_key(name));
        let (Some(name), true, true) = (name, parameter.is_closed, is_nothing(parameter.before)) else {
            return Ok(None);
        };
        if element_of(parameter.inner, "parameter").is_some() {
            return Ok(None);
        }
        let place = || format!("{}/arguments/{}", place_of(at), pointer_token(&name));
        let value = argument(parameter.inner.trim_matches(is_blank), place)?;
        arguments.insert(name, value);
        rest = parameter.after;
    }
    if is_nothing(rest) {
        return Ok(Some(json!({ "name": name, "arguments": arguments })));
    }
    // Some models write all arguments as one JSON object.
    let all = if arguments.is_empty() {
        json(rest.trim_matches(is_blank), || format!("{}/arguments", place_of(at)))?
    } else {
        None
    };
    Ok(all.filter(Value::is_object).map(|arguments| json!({ "name": name, "arguments": arguments })))
}

fn is_nothing(text: &str) -> bool {
    text.trim_matches(is_blank).is_empty()
}

/// Parses an argument. Lists, objects, booleans and numbers in canonical form are parsed as JSON.
/// Everything else is text.
fn argument(text: &str, place: impl FnOnce() -> String) -> Result<Value, Problem> {
    let is_scalar = !text.starts_with(['{', '[']);
    let read = match json(text, place) {
        Err(_) if is_scalar => None,
        read => read?,
    };
    let read = read.filter(|value| match value {
        Value::Array(_) | Value::Object(_) | Value::Bool(_) => true,
        Value::Number(number) => number.to_string() == text,
        Value::Null | Value::String(_) => false,
    });
    Ok(read.unwrap_or_else(|| Value::String(unescaped(text))))
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

/// Finds the first element with one of these names. An element without a closing tag extends to the
/// end of the text.
fn element<'a>(text: &'a str, names: &[&'static str]) -> Option<Element<'a>> {
    let Opening { start, name, attributes, end, is_empty } = opening(text, 0, names)?;
    let body = &text[end..];
    let closed = if is_empty { Some(("", body)) } else { closed(body, name) };
    let (inner, after) = closed.unwrap_or((body, ""));
    let is_closed = closed.is_some();
    Some(Element { before: &text[..start], name, attributes, inner, after, is_closed })
}

/// An opening tag.
pub(super) struct Opening<'a> {
    pub(super) start: usize,
    pub(super) name: &'static str,
    attributes: &'a str,
    pub(super) end: usize,
    /// True if the tag has no closing tag.
    pub(super) is_empty: bool,
}

/// Finds the first opening tag with one of these names, from `at` on.
pub(super) fn opening<'a>(text: &'a str, mut at: usize, names: &[&'static str]) -> Option<Opening<'a>> {
    while let Some((start, tag, end)) = tag_from(text, at) {
        let (local, attributes) = tag.split_once(is_blank).unwrap_or((tag, ""));
        let is_empty = tag.ends_with('/');
        let local = local.strip_suffix('/').unwrap_or(local).rsplit(':').next().unwrap_or_default();
        if let Some(&name) = names.iter().find(|&&name| name == local) {
            return Some(Opening { start, name, attributes, end, is_empty });
        }
        at = end;
    }
    None
}

/// Finds the next tag from `at` on. Returns its start, its content and its end. A `<` inside a tag
/// starts a new tag.
fn tag_from(text: &str, at: usize) -> Option<(usize, &str, usize)> {
    let mut start = at + text[at..].find('<')?;
    loop {
        let end = start + 1 + text[start + 1..].find(['<', '>'])?;
        if text.as_bytes()[end] == b'>' {
            return Some((start, &text[start + 1..end], end + 1));
        }
        start = end;
    }
}

/// Returns the text before and after the next closing tag with this name.
pub(super) fn closed<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let mut at = 0;
    while let Some((start, tag, after)) = tag_from(text, at) {
        let closing = tag.strip_prefix('/').and_then(|tag| tag.trim_matches(is_blank).rsplit(':').next());
        if closing == Some(name) {
            return Some((&text[..start], &text[after..]));
        }
        at = after;
    }
    None
}

/// Returns the value of the attribute with exactly this name.
fn attribute(attributes: &str, name: &str) -> Option<String> {
    let mut rest = attributes.trim_start_matches(is_blank);
    loop {
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start_matches(is_blank);
        let quote = after.chars().next().filter(|&c| c == '"' || c == '\'')?;
        let (value, after) = after[1..].split_once(quote)?;
        // Attributes without a value are ignored.
        if key.split_whitespace().next_back() == Some(name) {
            return Some(unescaped(value));
        }
        rest = after;
    }
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;

    fn read(text: &str) -> Option<Value> {
        normalized(text, &["toolCalls", "content"])
            .unwrap_or_else(|problem| panic!("{text}: {problem:?}"))
            .map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    fn calls(calls: &Value) -> Value {
        json!({ "toolCalls": calls })
    }

    #[test]
    fn converts_xml_wrappers_to_the_envelope() {
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
            "<tool_call>{\"name\": \"now\", \"args\": {}}</tool_call>",
            "<invoke name='now'></invoke>",
            "<function_calls><invoke name=\"now\"></invoke>",
        ] {
            assert_eq!(read(text), Some(calls(&now)), "{text}");
        }
    }

    #[test]
    fn keeps_several_calls_and_the_text_around_them() {
        let text = "I look.\n<tool_call>{\"name\": \"a\"}</tool_call>\n<tool_call>{\"name\": \"b\"}</tool_call> Done.";
        let expected = json!({
            "toolCalls": [{ "name": "a", "arguments": {} }, { "name": "b", "arguments": {} }],
            "content": "I look.\n\n Done.",
        });
        assert_eq!(read(text), Some(expected));
    }

    #[test]
    fn reads_an_envelope_inside_a_wrapper() {
        let inner = "{\"toolCalls\": [], \"content\": \"Hi\"}";
        let wrapped = format!("<function_calls>{inner}</function_calls>");
        let read = normalized(&wrapped, &["toolCalls"]).expect("an envelope");
        assert_eq!(read.as_deref(), Some(inner));
    }

    #[test]
    fn leaves_other_xml_unchanged() {
        for text in [
            "",
            "plain",
            "{\"content\": \"write <function_calls><invoke name=\\\"a\\\"></invoke></function_calls>\"}",
            "the tag invoke is <b>bold</b>",
            "function_calls < 3",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn tags_inside_an_envelope_are_text() {
        let envelope = "{\"content\": \"Write <invoke name='rm'></invoke>\"}";
        for text in [
            format!("```json\n{envelope}\n```"),
            format!("{envelope} Hope that helps"),
            format!("So: {envelope}"),
        ] {
            assert_eq!(read(&text), None, "{text}");
        }
    }

    #[test]
    fn rejects_truncated_calls() {
        for text in [
            "<function_calls><invoke name=\"delete\"><parameter name=\"path\">/home/us",
            "<function_calls><invoke name=\"delete\"><parameter name=\"path\">/home/user</parameter>",
            "<function_calls><invoke name=\"delete\">",
            "<invoke name=\"a\"><parameter name=\"to\">x</parameter><parameter name=\"to\">y</parameter></invoke>",
        ] {
            let read = read(text).map(|read| read.to_string()).unwrap_or_default();
            assert!(!read.contains("toolCalls"), "{read}");
        }
    }

    #[test]
    fn arguments_keep_their_text() {
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
            assert_eq!(argument(text, String::new).expect("a value"), value, "{text}");
        }
    }

    #[test]
    fn matches_only_whole_name_attributes() {
        let named = |attributes: &str| read(&format!("<invoke {attributes}></invoke>"));
        let expected = || Some(calls(&json!([{ "name": "now", "arguments": {} }])));
        for attributes in
            ["filename=\"x\" name=\"now\"", "id='a name=' name = 'now'", "x:name='y' flag name='now'"]
        {
            assert_eq!(named(attributes), expected(), "{attributes}");
        }
        assert_eq!(named("filename=\"x\""), Some(json!("")), "no call");
    }

    #[test]
    fn accepts_calls_without_content() {
        let expected = calls(&json!([{ "name": "a", "arguments": {} }, { "name": "b", "arguments": {} }]));
        for text in [
            "<invoke name=\"a\"/><invoke name=\"b\"></invoke>",
            "<function_calls><invoke name=\"a\" /><invoke name=\"b\"/></function_calls>",
        ] {
            assert_eq!(read(text), Some(expected.clone()), "{text}");
        }
    }

    #[test]
    fn rejects_calls_with_text_beside_the_arguments() {
        let text = "<invoke name=\"pay\">{\"to\": \"Ann\"}</invoke>";
        let expected = json!([{ "name": "pay", "arguments": { "to": "Ann" } }]);
        assert_eq!(read(text), Some(calls(&expected)));
        for inner in [
            "<parameter name=\"to\">Ann</parameter> and Bob",
            "<parameter name=\"text\">a </parameter> is its end</parameter>",
            "<parameter name=\"a\">1<parameter name=\"b\">2</parameter>",
            "to Ann",
            "[1]",
            "<invoke name=\"b\">",
        ] {
            let read = read(&format!("<invoke name=\"pay\">{inner}</invoke>")).map(|read| read.to_string());
            assert!(!read.unwrap_or_default().contains("toolCalls"), "{inner}");
        }
    }

    #[test]
    fn calls_in_reasoning_are_no_calls() {
        let shape = Shape::tool_calls();
        let (rm, hi) =
            ("<tool_call>{\"name\": \"rm\", \"arguments\": {}}</tool_call>", "{\"content\": \"hi\"}");
        let invoke = "<invoke name=\"rm\"></invoke>";
        for draft in [rm, invoke, "<invoke name=\"rm\">", "<tool_call> is a tag", "<function_calls>"] {
            for text in [
                format!("<think>I could {draft}</think>{hi}"),
                format!("<thinking>I could {draft}\n</thinking>\n```json\n{hi}\n```"),
                format!("<think>So.</think> Well <think>{draft}</think>{hi}"),
                format!("Well. <think>I could {draft}</think>{hi}"),
            ] {
                assert_eq!(shape.read(&text).value, Some(json!({ "content": "hi" })), "{text}");
            }
            let text = format!("<think>I could {draft}</think><tool_call>{{\"name\": \"ls\"}}</tool_call>");
            let value = json!({ "toolCalls": [{ "name": "ls", "arguments": {} }] });
            assert_eq!(shape.read(&text).value, Some(value), "{text}");
        }
        for text in [format!("I could {rm}</think>{hi}"), format!("{invoke} or not.</think>{hi}")] {
            assert_eq!(shape.read(&text).value, Some(json!({ "content": "hi" })), "{text}");
        }
        let both = format!("{invoke}<think>or <invoke name=\"ls\"></invoke></think>");
        let value = json!({ "toolCalls": [{ "name": "rm", "arguments": {} }] });
        assert_eq!(shape.read(&both).value, Some(value));
        // Tags in an argument are text.
        let text = "<invoke name=\"say\"><parameter name=\"text\"><think>a</think> b</parameter></invoke>";
        let value =
            json!({ "toolCalls": [{ "name": "say", "arguments": { "text": "<think>a</think> b" } }] });
        assert_eq!(shape.read(text).value, Some(value));
        for text in [
            format!("<think>I could {rm}"),
            format!("{rm}</think> I will not."),
            format!("<function_calls><think>{invoke}</think>{invoke}</function_calls>"),
            format!("{invoke}<think>or {rm}"),
        ] {
            assert_eq!(shape.read(&text).value, None, "{text}");
        }
    }

    #[test]
    fn refuses_json_beside_calls_in_xml() {
        let shape = Shape::tool_calls();
        let (a, b) = ("<tool_call>{\"name\": \"a\"}</tool_call>", "{\"name\": \"b\", \"arguments\": {}}");
        for beside in [
            b,
            "[{\"name\": \"b\", \"arguments\": {}}]",
            "{\"name\": \"b\", \"arguments\": {},}",
            "{name: 'b', arguments: {}}",
            "{\"tool_calls\": []}",
            "{\"content\": \"hi\"}",
        ] {
            for text in [format!("{a}\n{beside}"), format!("{beside} {a}"), format!("{a}{beside}{a}")] {
                let reading = shape.read(&text);
                assert_eq!(reading.value, None, "{text}");
                let told = "Field \"toolCalls\": Expected no JSON beside the ";
                assert!(reading.errors[0].starts_with(told), "{text}: {:?}", reading.errors);
            }
        }
        for text in [
            format!("<function_calls>{b}<invoke name=\"a\"></invoke></function_calls>"),
            format!("{b}<function_calls>{{\"toolCalls\": []}}</function_calls>"),
            "{\"content\": \"x\"}<tool_call>{\"name\": \"a\", </tool_call>".to_owned(),
            "{\"content\": \"x\"}<invoke name=\"a\"><parameter name=\"b\">cut".to_owned(),
            "<tool_call name=\"pay\">{\"amount\": 5}</tool_call>".to_owned(),
        ] {
            assert_eq!(shape.read(&text).value, None, "{text}");
        }
        let value = json!({ "toolCalls": [{ "name": "a", "arguments": {} }], "content": "Set {x}." });
        assert_eq!(shape.read(&format!("Set {{x}}.{a}")).value, Some(value));
    }

    #[test]
    fn one_invalid_call_rejects_all_calls() {
        let good = "<tool_call>{\"name\": \"a\"}</tool_call>";
        for other in [
            "<tool_call>{\"name\": </tool_call>",
            "<function_calls>{\"content\": \"Done.\"}</function_calls>",
            "<tool_call>{\"name\": \"b\", \"arguments\": {\"x\": 1}, \"input\": {}}</tool_call>",
        ] {
            for text in [format!("{good}{other}"), format!("{other}{good}")] {
                assert!(normalized(&text, &["toolCalls", "content"]).is_err(), "{text}");
            }
        }
    }
}
