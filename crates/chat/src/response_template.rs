//! Formats from the response template of a tokenizer's configuration.
//!
//! A [response template](https://huggingface.co/docs/transformers/main/chat_response_parsing) describes how
//! `transformers` reads an answer. Each field of the message has texts or patterns before and after it, and a
//! parser of its content. This module derives from these how calls and thoughts are written.
//!
//! A pattern stands for one of its texts, without optional parts, so the layout may lack white space that the
//! model writes. The chat template shows exactly what the model saw. The response template therefore counts
//! only if the chat template shows no calls or no thoughts. A field with an unknown setting, parser or
//! pattern is ignored.

mod pattern;

use formwork_vocab::TokenId;
use pattern::{Group, Piece};
use serde_json::Value;

use crate::format::CallFormat;
use crate::named::Form;
use crate::tags::{ID, Marked, NUMBER};

/// Fields of a message that have its thoughts.
const THOUGHTS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// Settings of the field with the calls. A field with other settings is ignored.
const SETTINGS: [&str; 11] = [
    "open",
    "open_pattern",
    "close",
    "close_pattern",
    "content",
    "content_args",
    "repeats",
    "join",
    "optional",
    "transform",
    "transform_each",
];

/// A response template of version 1.
#[derive(Clone, Copy)]
pub(crate) struct ResponseTemplate<'t>(&'t Value);

/// The field with the calls.
struct CallField<'t> {
    /// Texts before the content, and the group that captures a name.
    open: Vec<Piece>,
    /// Text after the content.
    close: String,
    repeats: bool,
    /// Member `function` of the transform.
    function: &'t Value,
    /// Settings of the parser.
    arguments: &'t Value,
    /// The field as it is.
    field: &'t Value,
}

/// Texts of a call.
struct CallTexts<'f> {
    open: String,
    between: String,
    separator: Option<String>,
    close: String,
    form: Form<'f>,
}

impl<'t> ResponseTemplate<'t> {
    /// Returns the template in `value`. `None` if it has another version.
    pub(crate) fn of(value: &'t Value) -> Option<Self> {
        let is_known = value.get("version").is_none_or(|version| version.as_u64() == Some(1));
        (is_known && value["fields"].is_object()).then_some(Self(value))
    }

    /// Returns the texts before and after thoughts, without white space around them.
    pub(crate) fn thoughts(self) -> Option<(String, String)> {
        let field = THOUGHTS.iter().find_map(|name| self.0["fields"].get(name))?;
        let [open, close] = [text(field, "open")?, text(field, "close")?].map(|text| text.trim().to_owned());
        (!open.is_empty() && !close.is_empty()).then_some((open, close))
    }

    /// Returns the layout of calls. `ends` are the spellings of the end-of-sequence tokens, which end a turn
    /// and belong to no call.
    pub(crate) fn calls(self, controls: &[(TokenId, String)], ends: &[String]) -> Option<CallFormat> {
        let field = &self.0["fields"]["tool_calls"];
        has_only(field, &SETTINGS).then_some(())?;
        let function = &field["transform"]["function"];
        let close = text(field, "close")?;
        let end = ends.iter().filter_map(|end| close.find(end.as_str())).min();
        let field = CallField {
            open: pieces(field, "open")?,
            close: close[..end.unwrap_or(close.len())].trim_end().to_owned(),
            repeats: field["repeats"] == true,
            function,
            arguments: &field["content_args"],
            field,
        };
        let attributes;
        let texts = match field.field["content"].as_str()? {
            "json" => field.json()?,
            "python-call-list" => field.python_calls()?,
            "xml-inline" => {
                attributes = field.attributes()?;
                field.tagged(&attributes)?
            }
            _ => return None,
        };
        let marked = |text: &str| Marked::new(text, controls);
        Some(CallFormat {
            arguments: texts.form.layout(controls),
            open: marked(texts.open.trim_start()),
            between: marked(&texts.between),
            separator: texts.separator.as_deref().map(marked),
            close: marked(&texts.close),
            ..CallFormat::fallback()
        })
    }
}

impl CallField<'_> {
    /// Returns the texts of calls whose arguments, or calls as a whole, are JSON.
    fn json(&self) -> Option<CallTexts<'_>> {
        if let Some((open, between)) = self.captured_name() {
            return self.json_arguments(open, between);
        }
        has_only(self.arguments, &[]).then_some(())?;
        let open = self.plain_open()?;
        let (start, end) = if self.is_list() { ("[", "]") } else { ("", "") };
        let [name, arguments] = match self.function.as_str() {
            Some("{content}") => ["name".to_owned(), "arguments".to_owned()],
            _ => [self.key("name")?, self.key("arguments")?],
        };
        let first = format!("{{{}: \"", Value::from(name));
        let close = format!("}}{end}{}", self.close);
        let separator = match (self.is_list(), self.repeats) {
            (true, _) => Some(format!("}}, {first}")),
            (false, true) => Some(format!("{close}{open}{first}")),
            (false, false) => None,
        };
        let between = format!("\", {}: ", Value::from(arguments));
        Some(CallTexts { open: format!("{open}{start}{first}"), between, separator, close, form: Form::Json })
    }

    /// Returns the texts of calls whose name stands in the opening.
    fn json_arguments(&self, open: String, between: String) -> Option<CallTexts<'_>> {
        let is_known = has_only(self.arguments, &["string_delims", "unquoted_keys"]);
        if !is_known || self.is_list() || self.function["arguments"] != "{content}" {
            return None;
        }
        let quotes = self.arguments["string_delims"].as_array().map_or(&[][..], Vec::as_slice);
        let has_bare_names = self.arguments["unquoted_keys"] == true;
        let (start, form) = match quotes {
            [] if !has_bare_names => ("", Form::Json),
            [pair] if has_bare_names => {
                let quote = pair[0].as_str().filter(|quote| !quote.is_empty() && pair[1] == *quote)?;
                ("{", Form::Quoted(quote))
            }
            _ => return None,
        };
        let between = between + start;
        let close = format!("{}{}", if start.is_empty() { "" } else { "}" }, self.close);
        let separator = self.repeats.then(|| format!("{close}{open}"));
        (!between.is_empty()).then_some(CallTexts { open, between, separator, close, form })
    }

    /// Returns the texts of a list of Python calls.
    fn python_calls(&self) -> Option<CallTexts<'_>> {
        let is_known = self.is_list()
            && self.function["name"] == "{name}"
            && self.function["arguments"] == "{arguments}"
            && has_only(self.arguments, &[]);
        is_known.then_some(())?;
        Some(CallTexts {
            open: format!("{}[", self.plain_open()?),
            between: "(".to_owned(),
            separator: Some("), ".to_owned()),
            close: format!(")]{}", self.close),
            form: Form::Keywords,
        })
    }

    /// Returns the texts around the name and the value of an argument in tags.
    fn attributes(&self) -> Option<[String; 3]> {
        has_only(self.arguments, &["tag_pattern", "value_parser"]).then_some(())?;
        let parser = &self.arguments["value_parser"];
        let is_raw = match parser["name"].as_str() {
            None | Some("text") => true,
            Some("json") => parser["args"]["allow_non_json"] == true,
            Some(_) => false,
        };
        let pieces = pattern::pieces(self.arguments["tag_pattern"].as_str()?)?;
        let at = |group| pieces.iter().position(|piece| *piece == Piece::Group(group));
        let (key, value) = (at(Group::Key)?, at(Group::Value)?);
        let texts = [&pieces[..key], pieces.get(key + 1..value)?, &pieces[value + 1..]];
        let texts = texts.map(pattern::joined);
        let [Some(before), Some(between), Some(after)] = texts else { return None };
        (is_raw && [&before, &between, &after].iter().all(|text| !text.trim().is_empty()))
            .then_some([before, between, after])
    }

    /// Returns the texts of calls whose arguments stand in tags.
    fn tagged<'f>(&self, attributes: &'f [String; 3]) -> Option<CallTexts<'f>> {
        let (open, between) = self.captured_name()?;
        let close = self.close.clone();
        let separator = self.repeats.then(|| format!("{close}{open}"));
        let form = Form::Raw(attributes.each_ref().map(String::as_str));
        // A tag ends the name if no text does.
        let has_end = !between.trim().is_empty()
            || (attributes[0].trim_start().starts_with(['<', '[']) && close.starts_with(['<', '[']));
        let takes_all = self.function["arguments"] == "{content}" && !self.is_list();
        (has_end && takes_all).then_some(CallTexts { open, between, separator, close, form })
    }

    /// Returns the texts before and after the name in the opening.
    fn captured_name(&self) -> Option<(String, String)> {
        let at = self.open.iter().position(|piece| *piece == Piece::Group(Group::Name))?;
        let texts = (pattern::joined(&self.open[..at])?, pattern::joined(&self.open[at + 1..])?);
        (self.function["name"] == "{name}").then_some(texts)
    }

    /// Returns the opening if it captures nothing.
    fn plain_open(&self) -> Option<String> {
        pattern::joined(&self.open).filter(|open| !open.trim().is_empty())
    }

    /// Reports whether the content is a list of calls.
    fn is_list(&self) -> bool {
        self.field["transform_each"] == true
    }

    /// Returns the member of the content that becomes the member `name` of a call.
    fn key(&self, name: &str) -> Option<String> {
        let path = self.function[name].as_str()?.strip_prefix('{')?.strip_suffix('}')?;
        let key = if self.is_list() { path } else { path.strip_prefix("content.")? };
        (!key.contains('.')).then(|| key.to_owned())
    }
}

/// Reports whether an object has only the members `known`. True for a missing object.
fn has_only(object: &Value, known: &[&str]) -> bool {
    object
        .as_object()
        .map_or(object.is_null(), |object| object.keys().all(|key| known.contains(&key.as_str())))
}

/// Returns the pieces of an anchor of a field: the text `name`, the first of several texts, or the pattern
/// `name_pattern`.
fn pieces(field: &Value, name: &str) -> Option<Vec<Piece>> {
    let first = field.get(name).map(|given| given.get(0).unwrap_or(given));
    match first {
        Some(text) => {
            let text = text.as_str().filter(|text| !text.contains([NUMBER, ID]))?;
            Some(vec![Piece::Text(text.to_owned())])
        }
        None => pattern::pieces(field.get(format!("{name}_pattern"))?.as_str()?),
    }
}

/// Returns the text of an anchor that captures nothing.
fn text(field: &Value, name: &str) -> Option<String> {
    pattern::joined(&pieces(field, name)?)
}

#[cfg(test)]
mod tests;
