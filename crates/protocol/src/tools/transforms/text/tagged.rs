//! Calls with one element for each argument, in the markup of several model families.
//!
//! | form | families |
//! |---|---|
//! | `<invoke name="f"><parameter name="a">v</parameter></invoke>` | `MiniMax` M2, `DeepSeek` V3.2, Claude |
//! | `<function=f><parameter=a>v</parameter></function>` | Qwen3-Coder, Nemotron 3, Step 3.5, Seed |
//! | `<function name="f"><param name="a">v</param></function>` | `MiniCPM5` |
//! | `f<arg_key>a</arg_key><arg_value>v</arg_value>` | GLM, Ling, Hunyuan 3 |
//!
//! Tags may have a namespace (`<minimax:tool_call>`, `<｜DSML｜invoke …>`) or Hunyuan's suffix
//! `:opensource`.

use serde_json::{Map, Value};

use super::super::super::registry::ToolSource;
use super::values::{literal, typed};
use super::{Call, is_known};

/// Tag at the start of a text.
pub(super) struct Tag<'a> {
    /// Name without namespace.
    pub(super) name: &'a str,
    /// Text after the name, such as ` name="f"` or `=f`.
    attributes: &'a str,
    pub(super) is_closing: bool,
    /// Length of the tag in bytes.
    pub(super) len: usize,
}

/// Maximum length of a tag in bytes.
const TAG: usize = 512;

/// Reads the tag at the start of `text`, which begins with `<`.
pub(super) fn tag(text: &str) -> Option<Tag<'_>> {
    let inner = text.strip_prefix('<')?;
    let end = inner.bytes().take(TAG).position(|byte| byte == b'>')?;
    let inner = &inner[..end];
    let (is_closing, inner) = inner.strip_prefix('/').map_or((false, inner), |inner| (true, inner));
    let inner = inner.strip_prefix("｜DSML｜").map_or_else(|| without_space(inner), str::trim_start);
    let split = inner.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(inner.len());
    let (qualified, attributes) = inner.split_at(split);
    let name = match qualified.rsplit_once(':') {
        Some((name, "opensource") | (_, name)) => name,
        None => qualified,
    };
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(Tag { name, attributes, is_closing, len: end + 2 })
}

/// Removes the space before the names of `DeepSeek` V4.1, whose token before the space a server removed.
fn without_space(inner: &str) -> &str {
    let name = inner.strip_prefix(' ').unwrap_or(inner);
    let is_own = ["invoke", "parameter", "calls"].iter().any(|own| name.starts_with(own));
    if is_own { name } else { inner }
}

impl<'a> Tag<'a> {
    /// Returns the name of the call or the argument: `=f` or `name="f"`.
    fn subject(&self) -> Option<&'a str> {
        if let Some(name) = self.attributes.strip_prefix('=') {
            let name = name.trim().trim_matches('"');
            return (!name.is_empty()).then_some(name);
        }
        self.attribute("name")
    }

    fn attribute(&self, wanted: &str) -> Option<&'a str> {
        let mut rest = self.attributes;
        while let Some((name, after)) = rest.split_once('=') {
            let after = after.trim_start();
            let quote = after.chars().next().filter(|c| ['"', '\''].contains(c))?;
            let (value, next) = after[1..].split_once(quote)?;
            if name.trim() == wanted {
                return (!value.is_empty()).then_some(value);
            }
            rest = next;
        }
        None
    }

    /// Reports whether the tag opens a call: `<invoke …>` or `<function…>`.
    pub(super) fn opens_call(&self) -> bool {
        !self.is_closing && ["invoke", "function"].contains(&self.name) && self.subject().is_some()
    }
}

/// Finds the closing tag called `name`. Returns its position and length.
pub(super) fn closing(text: &str, name: &str) -> Option<(usize, usize)> {
    text.match_indices("</").find_map(|(at, _)| {
        let tag = tag(&text[at..]).filter(|tag| tag.is_closing && tag.name == name)?;
        Some((at, tag.len))
    })
}

/// Finds the first opening tag in `text` that may begin a call.
pub(super) fn next_open(text: &str) -> Option<usize> {
    let opens = |at: usize| {
        tag(&text[at..])
            .is_some_and(|tag| !tag.is_closing && (tag.opens_call() || super::WRAPPERS.contains(&tag.name)))
    };
    text.match_indices('<').map(|(at, _)| at).find(|at| opens(*at))
}

/// Parses a call with the element `<invoke>` or `<function>` at the start of `text`. Returns the
/// call and the number of bytes read.
///
/// A call without its closing tag is complete only if `text` ends after a complete argument.
pub(super) fn element(text: &str, tools: &dyn ToolSource) -> Option<(Call, usize)> {
    let open = tag(text).filter(Tag::opens_call)?;
    let name = open.subject()?;
    let mut arguments = Map::new();
    if open.attributes.trim_end().ends_with('/') {
        return Some((Call::of_object(name, arguments), open.len));
    }
    let mut at = open.len;
    loop {
        at = text.len() - text[at..].trim_start().len();
        let rest = &text[at..];
        if rest.is_empty() {
            return (!arguments.is_empty()).then(|| (Call::of_object(name, arguments), at));
        }
        if rest.starts_with('{') && arguments.is_empty() {
            // Some models write JSON inside the element.
            let (value, len) = super::json::first(rest)?;
            let Value::Object(members) = value.value() else { return None };
            if !value.repeated().is_empty() {
                return None;
            }
            arguments = members;
            at += len;
            continue;
        }
        let next = tag(rest)?;
        if next.is_closing {
            return (next.name == open.name).then(|| (Call::of_object(name, arguments), at + next.len));
        }
        // MiniMax M3 has an element called like the argument.
        let is_parameter = ["parameter", "param"].contains(&next.name);
        let key = if is_parameter { next.subject()? } else { next.name };
        if !is_parameter && (open.name != "invoke" || !next.attributes.is_empty()) {
            return None;
        }
        let (end, close) = closing(&rest[next.len..], next.name)?;
        // Of the families, only Qwen has layout around values.
        let has_layout = next.attributes.starts_with('=');
        let value = raw(&rest[next.len..next.len + end], has_layout);
        let value = match next.attribute("string") {
            Some("true") => value.into(),
            Some("false") => literal(value).unwrap_or_else(|| value.into()),
            _ if !is_parameter => nested(value, 0).unwrap_or_else(|| typed(tools, name, key, value)),
            _ => typed(tools, name, key, value),
        };
        if arguments.insert(key.to_owned(), value).is_some() {
            return None;
        }
        at += next.len + end + close;
    }
}

/// Maximum depth of nested elements.
const DEPTH: usize = 32;

/// Parses `text` as elements: `<item>`s are an array, other names are the members of an object.
/// Returns `None` if the text is not elements only.
fn nested(text: &str, depth: usize) -> Option<Value> {
    let mut rest = text.trim();
    if depth > DEPTH || !rest.starts_with('<') {
        return None;
    }
    let (mut members, mut items) = (Map::new(), Vec::new());
    while !rest.is_empty() {
        let name = tag(rest).filter(|tag| !tag.is_closing && tag.attributes.is_empty())?.name;
        let (inside, after) = child(rest, name)?;
        let value =
            nested(inside, depth + 1).unwrap_or_else(|| literal(inside).unwrap_or_else(|| inside.into()));
        match name {
            "item" => items.push(value),
            // A repeated member has no clear meaning.
            name => members.insert(name.to_owned(), value).is_none().then_some(())?,
        }
        rest = after.trim_start();
    }
    match (members.is_empty(), items.is_empty()) {
        (true, false) => Some(items.into()),
        (false, true) => Some(members.into()),
        _ => None,
    }
}

/// Parses a call of the form `f<arg_key>a</arg_key><arg_value>v</arg_value>` as the whole text. A
/// call without arguments is only the name, which must be the name of a tool.
pub(super) fn pairs(text: &str, tools: &dyn ToolSource) -> Option<Call> {
    let end = text.find('<').unwrap_or(text.len());
    let name = text[..end].trim();
    let mut rest = text[end..].trim_start();
    // Hunyuan 3 separates the name from the arguments.
    if let Some(separator) = tag(rest).filter(|tag| tag.name == "tool_sep") {
        rest = rest[separator.len..].trim_start();
    }
    if name.is_empty() || name.contains(char::is_whitespace) || (rest.is_empty() && !is_known(tools, name)) {
        return None;
    }
    let mut arguments = Map::new();
    while !rest.is_empty() {
        let (key, after) = child(rest, "arg_key")?;
        let (value, after) = child(after.trim_start(), "arg_value")?;
        let key = key.trim();
        let value = typed(tools, name, key, raw(value, false));
        if key.is_empty() || arguments.insert(key.to_owned(), value).is_some() {
            return None;
        }
        rest = after.trim_start();
    }
    Some(Call::of_object(name, arguments))
}

/// Reads the element called `name` at the start of `text`. Returns its content and the text after it.
fn child<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let open = tag(text).filter(|tag| !tag.is_closing && tag.name == name)?;
    let inside = &text[open.len..];
    let (end, close) = closing(inside, name)?;
    Some((&inside[..end], &inside[end + close..]))
}

/// Returns the text of a value without `CDATA`. With `has_layout`, a newline before the text is layout,
/// and a newline after such a text as well.
fn raw(text: &str, has_layout: bool) -> &str {
    let data = text.trim().strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>"));
    let inner = || {
        let inner = text.strip_prefix('\n').filter(|_| has_layout)?;
        Some(inner.strip_suffix('\n').unwrap_or(inner))
    };
    data.or_else(inner).unwrap_or(text)
}

/// Parses the call of a Kimi K3 message: `<|open|>call tool="f" index="1"<|sep|>…`, of which the
/// first tag is already removed.
pub(super) fn kimi(text: &str) -> Option<(Call, usize)> {
    const SEPARATOR: &str = "<|sep|>";
    const CLOSE: &str = "<|close|>";
    let (head, _) = text.split_once(SEPARATOR)?;
    let quoted = |head: &str, wanted: &str| {
        let (_, after) = head.split_once(&format!("{wanted}=\""))?;
        Some(after.split_once('"')?.0.replace("&quot;", "\"").replace("&amp;", "&"))
    };
    let name = quoted(head, "tool")?;
    let mut arguments = Map::new();
    let mut at = head.len() + SEPARATOR.len();
    while let Some(argument) = text[at..].strip_prefix("<|open|>argument ") {
        let (head, after) = argument.split_once(SEPARATOR)?;
        let (value, _) = after.split_once(CLOSE)?;
        let (key, kind) = (quoted(head, "key")?, quoted(head, "type")?);
        let argument = if kind == "string" { value.into() } else { literal(value)? };
        if arguments.insert(key, argument).is_some() {
            return None;
        }
        at = text.len() - after.len() + value.len() + CLOSE.len();
        at += text[at..].strip_prefix("argument<|sep|>").map(|_| "argument<|sep|>".len())?;
    }
    let end = "<|close|>call<|sep|>";
    text[at..].starts_with(end).then(|| (Call::of_object(&name, arguments), at + end.len()))
}

impl Call {
    pub(super) fn of_object(name: &str, arguments: Map<String, Value>) -> Self {
        Self { name: name.to_owned(), arguments: Value::Object(arguments).to_string() }
    }
}
