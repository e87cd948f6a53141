//! Calls whose arguments are JSON.

use super::super::super::arguments::fence;
use super::super::super::members::Tree;
use super::super::super::registry::ToolSource;
use super::{Call, is_known};

/// Parses the JSON value at the start of `text`. Returns the value and the number of bytes read.
pub(super) fn first(text: &str) -> Option<(Tree, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Tree>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// Parses calls at the start of `text`: an array of calls, or calls one after the other. Returns the
/// calls and the number of bytes read.
pub(super) fn calls(text: &str, tools: &dyn ToolSource) -> Option<(Vec<Call>, usize)> {
    let mut calls = Vec::new();
    let mut at = 0;
    loop {
        let start = text.len() - text[at..].trim_start().len();
        let separated = text[start..].strip_prefix([',', ';']).filter(|_| !calls.is_empty());
        let start = separated.map_or(start, |rest| text.len() - rest.trim_start().len());
        if !text[start..].starts_with(['{', '[']) {
            break;
        }
        let Some((value, len)) = first(&text[start..]) else { break };
        match value {
            Tree::Array(items) if !items.is_empty() => {
                let read: Option<Vec<Call>> = items.iter().map(|item| call(item, tools)).collect();
                calls.extend(read?);
            }
            one => calls.push(call(&one, tools)?),
        }
        at = start + len;
    }
    (!calls.is_empty()).then_some((calls, at))
}

/// Parses calls that are the whole text, with or without a Markdown fence.
pub(super) fn whole(text: &str, tools: &dyn ToolSource) -> Option<Vec<Call>> {
    let inner = fence(text).map_or(text, |(_, inner)| inner);
    let (calls, end) = calls(inner, tools)?;
    inner[end..].trim().is_empty().then_some(calls)
}

/// Converts a call. Models use several names for its fields, and some use the tool's name as the
/// key of the arguments. The arguments keep repeated members, which are checked before the tool runs.
pub(super) fn call(value: &Tree, tools: &dyn ToolSource) -> Option<Call> {
    // Some models write the call in the API's shape.
    let function = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let name = ["name", "tool_name", "tool", "function"].iter().find_map(|name| function.get(name)?.as_str());
    let Some(name) = name.map(str::trim).filter(|name| !name.is_empty()) else {
        let Tree::Object(members) = value else { return None };
        let [(name, arguments)] = members.as_slice() else { return None };
        let is_call = arguments.is_object() && is_known(tools, name);
        return is_call.then(|| Call { name: name.clone(), arguments: arguments.text() });
    };
    let arguments = ["arguments", "parameters", "input", "args"].iter().find_map(|name| function.get(name));
    let arguments = match arguments {
        Some(arguments) => arguments.as_str().map_or_else(|| arguments.text(), str::to_owned),
        None => String::new(),
    };
    Some(Call { name: name.to_owned(), arguments })
}
