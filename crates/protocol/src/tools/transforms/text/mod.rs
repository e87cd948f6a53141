//! Calls that a model wrote in the text of its message, in the formats of several model families.
//!
//! Servers that do not know a model's format leave its calls in the content. Some also remove the
//! control tokens. A format without any marker is a call only if it is the whole text and names a
//! known tool.

mod formats;
mod gemma;
mod json;
mod markers;
mod marks;
mod python;
mod reading;
mod tagged;
mod values;

pub use formats::TextCallFormat;
use serde_json::{Value, json};

use super::super::registry::{Lookup, ToolSource};
use super::super::shapes;
use crate::Body;

/// Elements around calls.
const WRAPPERS: [&str; 7] =
    ["tool_call", "tool_calls", "function_call", "function_calls", "toolcall", "calls", "TOOLCALL"];
/// Maximum size of a content that is searched for calls, in bytes.
const BYTES: usize = 4 << 20;
/// Maximum depth of wrappers in wrappers.
const WRAPPED: usize = 4;
/// Fields in which servers send thoughts.
const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];
/// Token before each tag of `MiniMax` M3.
const MINIMAX: &str = "]<]minimax[>[";

/// The answer that a text is from.
#[derive(Clone, Copy)]
pub(in crate::tools) struct Answer<'a> {
    /// Tools of the run.
    pub(in crate::tools) tools: &'a dyn ToolSource,
    /// Format of the calls.
    pub(in crate::tools) format: TextCallFormat,
    /// True if the answer was cut off at its token limit.
    pub(in crate::tools) is_truncated: bool,
}

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
/// Calls in thoughts and in Markdown code stay in the text: a text may show a call without making it. A
/// fence is a call if it is the whole text outside thoughts, or if its info string is `tool_call` or
/// `tool_code`.
///
/// Some models call inside their first thought. A call that ends the text ends this thought, unless the
/// answer was cut off. The same applies to thoughts in a field of their own if the content is empty.
///
/// Names that are not tools stay text, except in JSON in tags: there, the model learns of its mistake.
pub(super) fn tags(message: &mut Body, answer: &Answer<'_>) {
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
    let content = shapes::text(message.get("content")).unwrap_or_default();
    if content.trim().is_empty() {
        in_thoughts(message, answer);
        return;
    }
    if content.len() > BYTES {
        return;
    }
    let said = content.replace(MINIMAX, "");
    let Some((calls, rest)) = reading::read(&said, answer) else { return };
    let content = rest.trim().to_owned();
    message.insert("content".to_owned(), if content.is_empty() { Value::Null } else { content.into() });
    message.insert("tool_calls".to_owned(), calls.into_iter().map(Call::entry).collect());
}

/// Converts calls at the end of thoughts that the server put into a field of their own.
fn in_thoughts(message: &mut Body, answer: &Answer<'_>) {
    let thoughts = |name: &str| {
        let text = message.get(name)?.as_str()?;
        (!text.trim().is_empty() && text.len() <= BYTES).then(|| text.to_owned())
    };
    let Some(given) = THOUGHTS.iter().find_map(|name| thoughts(name)) else { return };
    let said = given.replace(MINIMAX, "");
    let Some((calls, end)) = reading::at_end(&said, answer) else { return };
    // Some servers send the same thoughts in two fields.
    for name in THOUGHTS {
        if let Some(text) = message.get_mut(name).filter(|text| **text == given) {
            *text = said[..end].trim_end().into();
        }
    }
    message.insert("tool_calls".to_owned(), calls.into_iter().map(Call::entry).collect());
}

impl Call {
    fn entry(self) -> Value {
        json!({ "type": "function", "function": { "name": self.name, "arguments": self.arguments } })
    }
}

/// Reports whether all calls name tools of the run, possibly masked ones or with a namespace.
fn are_named(tools: &dyn ToolSource, calls: &[Call]) -> bool {
    let is_named = |name: &str| !matches!(tools.find(name), Lookup::Unknown);
    calls.iter().all(|call| is_named(&call.name) || is_named(short(&call.name)))
}

/// Reports whether `name` is a tool of the run.
fn is_known(tools: &dyn ToolSource, name: &str) -> bool {
    matches!(tools.find(name), Lookup::Found(_))
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
        return are_named(tools, &calls).then(|| (calls, end(at).unwrap_or(at)));
    }
    let (inside, end) = match tagged::closing(text, name) {
        Some((at, len)) => (&text[..at], at + len),
        None => (text, text.len()),
    };
    let named = |calls: &Vec<Call>| are_named(tools, calls);
    let others = || {
        let pairs = tagged::pairs(inside, tools).map(|call| vec![call]);
        pairs.or_else(|| markers::stripped(inside)).or_else(|| {
            let inside = inside.trim();
            let listed = python::calls(inside).filter(|(_, end)| *end == inside.len());
            listed.map(|read| read.0).or_else(|| python::bare_calls(inside))
        })
    };
    let calls = json::whole(inside, tools).or_else(|| others().filter(named))?;
    Some((calls, end))
}

/// Control tokens that end a turn. Servers that keep control tokens leave them in the text.
const ENDS: [&str; 16] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|end|>",
    "</s>",
    "<|end_of_text|>",
    "<|end_of_msg|>",
    "<|observation|>",
    "<|role_end|>",
    "<|tool_response>",
    "<start_function_response>",
    "<turn|>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
    "[e~[",
];

/// Removes white space and tokens that end a turn from the end of a text.
fn without_ends(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some(rest) = ENDS.iter().find_map(|end| text.strip_suffix(end)) {
        text = rest.trim_end();
    }
    text
}

/// Returns the name of a call without a namespace, such as `functions.`.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests;
