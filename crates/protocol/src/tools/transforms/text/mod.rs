//! Calls that a model wrote in the text of its message, in the formats of several model families.
//!
//! Servers that do not know a model's format leave its calls in the content. Some also remove the
//! control tokens. A format without any marker is a call only if it is the whole text and names a
//! known tool.

mod gemma;
mod json;
mod markers;
mod python;
mod tagged;
mod values;

use serde_json::{Value, json};

use super::super::arguments::fence;
use super::super::registry::{Lookup, ToolSource};
use super::super::shapes;
use super::super::thoughts::after_thoughts_of_prompt;
use crate::Body;
use markers::MARKERS;

/// Elements around calls.
const WRAPPERS: [&str; 7] =
    ["tool_call", "tool_calls", "function_call", "function_calls", "toolcall", "calls", "TOOLCALL"];
/// Maximum size of a content that is searched for calls, in bytes.
const BYTES: usize = 4 << 20;
/// Maximum number of marks without a call, which bounds the time. The text after them is kept.
const MISSES: usize = 256;
/// Maximum depth of wrappers in wrappers.
const WRAPPED: usize = 4;
/// Token before each tag of `MiniMax` M3.
const MINIMAX: &str = "]<]minimax[>[";

/// Call found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    name: String,
    /// The arguments as the model wrote them. Empty if the model wrote none.
    arguments: String,
}

/// Converts calls in the content to `tool_calls`, if the message has no calls.
///
/// Models trained on the Hermes format write
/// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`. Some servers leave this in the content.
/// The formats of other families are read as well (see [`markers`] and [`tagged`]). The text around
/// the calls is kept.
///
/// Also accepted are:
/// - an array of calls in one tag,
/// - a fence inside the tag or instead of it (` ```tool_call `),
/// - a last tag that is not closed,
/// - `parameters` instead of `arguments`.
///
/// Calls in thoughts stay in the text.
pub(super) fn tags(message: &mut Body, tools: &dyn ToolSource) {
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
    let Some(content) = shapes::text(message.get("content")).filter(|text| text.len() <= BYTES) else {
        return;
    };
    let start = after_thoughts(&content);
    let (thoughts, said) = content.split_at(start);
    let said = said.replace(MINIMAX, "");
    let Some((calls, rest)) = marked(&said, tools).or_else(|| whole(&said, tools)) else { return };
    let calls: Vec<Value> = calls.into_iter().map(Call::entry).collect();
    let content = format!("{thoughts}{rest}").trim().to_owned();
    message.insert("content".to_owned(), if content.is_empty() { Value::Null } else { content.into() });
    message.insert("tool_calls".to_owned(), calls.into());
}

impl Call {
    fn entry(self) -> Value {
        json!({ "type": "function", "function": { "name": self.name, "arguments": self.arguments } })
    }
}

/// Reports whether `name` is a tool of the run.
fn is_known(tools: &dyn ToolSource, name: &str) -> bool {
    matches!(tools.find(name), Lookup::Found(_))
}

/// Returns the end of the thoughts at the start of the content.
fn after_thoughts(content: &str) -> usize {
    let closed = content.rfind("</think>").map_or(0, |at| at + "</think>".len());
    closed.max(after_thoughts_of_prompt(content))
}

/// Returns the calls with markers and the text around them, or `None` if there are no calls. Marks
/// without a call stay in the text.
fn marked(said: &str, tools: &dyn ToolSource) -> Option<(Vec<Call>, String)> {
    let (mut calls, mut rest, mut left) = (Vec::new(), String::new(), said);
    let mut misses = 0;
    let markers: Vec<_> = MARKERS.iter().filter(|marker| said.contains(marker.open)).collect();
    while let Some(mark) = next_mark(left, &markers).filter(|_| misses < MISSES) {
        let (before, after) = left.split_at(mark.at);
        if let Some((read, end)) = mark.read(after, tools) {
            rest.push_str(without_header(before));
            calls.extend(read);
            left = &after[end..];
        } else {
            misses += 1;
            let end = mark.skipped(after);
            rest.push_str(&left[..mark.at + end]);
            left = &after[end..];
        }
    }
    rest.push_str(left);
    (!calls.is_empty()).then_some((calls, rest))
}

/// Place in a text where calls may begin.
struct Mark<'a> {
    at: usize,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Marker(&'static markers::Marker),
    /// `<invoke …>` or `<function…>`.
    Element,
    /// An element of [`WRAPPERS`], with the length of its opening tag.
    Wrapper(&'a str, usize),
}

fn next_mark<'a>(text: &'a str, markers: &[&'static markers::Marker]) -> Option<Mark<'a>> {
    let found = markers.iter().filter_map(|&marker| {
        let at = text.find(marker.open)?;
        // `functools` is also a word.
        (marker.open != "functools" || text[at + marker.open.len()..].starts_with('['))
            .then_some(Mark { at, kind: Kind::Marker(marker) })
    });
    let element = text.match_indices('<').find_map(|(at, _)| {
        let tag = tagged::tag(&text[at..])?;
        if tag.opens_call() {
            return Some(Mark { at, kind: Kind::Element });
        }
        let is_wrapper = !tag.is_closing && WRAPPERS.contains(&tag.name);
        is_wrapper.then_some(Mark { at, kind: Kind::Wrapper(tag.name, tag.len) })
    });
    // Of markers at one place, the first of the list is the longest.
    found.chain(element).min_by_key(|mark| mark.at)
}

impl Mark<'_> {
    fn read(&self, text: &str, tools: &dyn ToolSource) -> Option<(Vec<Call>, usize)> {
        match self.kind {
            Kind::Marker(marker) => {
                let (calls, end) = marker.read(&text[marker.open.len()..], tools)?;
                Some((calls, marker.open.len() + end))
            }
            Kind::Element => tagged::element(text, tools).map(|(call, end)| (vec![call], end)),
            Kind::Wrapper(name, len) => {
                let (calls, end) = wrapped(&text[len..], name, tools, 0)?;
                Some((calls, len + end))
            }
        }
    }

    /// Returns the length of the text to keep if the mark has no call.
    fn skipped(&self, text: &str) -> usize {
        match self.kind {
            Kind::Marker(marker) => marker.open.len(),
            Kind::Element => 1,
            Kind::Wrapper(name, len) => tagged::closing(&text[len..], name)
                .filter(|(end, _)| tagged::next_open(&text[len..len + end]).is_none())
                .map_or(len, |(end, close)| len + end + close),
        }
    }
}

/// Parses the calls in a wrapper, whose opening tag is already read. Returns the calls and the
/// number of bytes read, including the closing tag, which may be missing at the end.
fn wrapped(text: &str, name: &str, tools: &dyn ToolSource, depth: usize) -> Option<(Vec<Call>, usize)> {
    if depth > WRAPPED {
        return None;
    }
    let end = |at: usize| {
        let rest = text[at..].trim_start();
        match tagged::tag(rest) {
            Some(tag) if tag.is_closing && tag.name == name => Some(text.len() - rest.len() + tag.len),
            // The closing tag is missing before the next call.
            Some(tag) if !tag.is_closing && (WRAPPERS.contains(&tag.name) || tag.opens_call()) => Some(at),
            _ => rest.is_empty().then_some(text.len()),
        }
    };
    let start = text.len() - text.trim_start().len();
    if let Some((calls, len)) = json::calls(&text[start..], tools)
        && let Some(end) = end(start + len)
    {
        return Some((calls, end));
    }
    let mut calls = Vec::new();
    let mut at = 0;
    // Elements for calls, possibly in further wrappers.
    loop {
        let start = text.len() - text[at..].trim_start().len();
        let Some(tag) = tagged::tag(&text[start..]) else { break };
        let read = if tag.opens_call() {
            tagged::element(&text[start..], tools).map(|(call, len)| (vec![call], len))
        } else if !tag.is_closing && WRAPPERS.contains(&tag.name) && tag.name != name {
            wrapped(&text[start + tag.len..], tag.name, tools, depth + 1)
                .map(|(calls, len)| (calls, tag.len + len))
        } else {
            None
        };
        let Some((read, len)) = read else { break };
        calls.extend(read);
        at = start + len;
    }
    if !calls.is_empty() {
        // Some models leave out the closing tag.
        return Some((calls, end(at).unwrap_or(at)));
    }
    let (inside, end) = match tagged::closing(text, name) {
        Some((at, len)) => (&text[..at], at + len),
        None => (text, text.len()),
    };
    let calls =
        json::whole(inside, tools).or_else(|| tagged::pairs(inside, tools).map(|call| vec![call])).or_else(
            || python::calls(inside.trim()).filter(|(_, end)| *end == inside.trim().len()).map(|read| read.0),
        )?;
    Some((calls, end))
}

/// Removes the header of a harmony message at the end of the text before a call.
fn without_header(before: &str) -> &str {
    let text = before.trim_end();
    let text = text.strip_suffix("commentary").map_or(text, str::trim_end);
    let stripped = text.strip_suffix("<|channel|>").unwrap_or(text);
    let stripped = stripped.strip_suffix("<|start|>assistant").unwrap_or(stripped);
    if stripped.len() < text.len() { stripped } else { before }
}

/// Returns the calls in `said` if it consists of calls only: a fence with the info string
/// `tool_call`, or calls of known tools in JSON or Python. The remaining text is empty.
fn whole(said: &str, tools: &dyn ToolSource) -> Option<(Vec<Call>, String)> {
    let said = said.trim();
    let named = fence(said).is_some_and(|(info, _)| ["tool_call", "tool_calls"].contains(&info));
    if let Some(calls) = named.then(|| json::whole(said, tools)).flatten() {
        return Some((calls, String::new()));
    }
    let said = said.strip_prefix("Action:").map_or(said, str::trim_start);
    let ends = ["<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|im_end|>"];
    let said = ends.iter().find_map(|end| said.strip_suffix(end)).unwrap_or(said);
    let calls = json::whole(said, tools)
        .or_else(|| python::calls(said).filter(|(_, end)| said[*end..].trim().is_empty()).map(|read| read.0))
        .or_else(|| python::bare_calls(said))?;
    calls.iter().all(|call| is_known(tools, short(&call.name))).then_some((calls, String::new()))
}

/// Returns the name of a call without a namespace, such as `functions.`.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests;
