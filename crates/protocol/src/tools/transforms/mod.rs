//! Named transforms for the quirks of single providers and models.

mod calls;
mod messages;
mod results;
mod text;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::error::{Kind, ToolsError};
use super::options::ToolCallingOptions;
use super::registry::ToolSource;
use super::shapes::ToolCall;
use crate::Body;
use text::Answer;
pub use text::TextCallFormat;

/// Change of a value in place.
type Change<T> = Arc<dyn Fn(&mut T) + Send + Sync>;
/// Change of the message of an answer.
type Response = Arc<dyn Fn(&mut Body, &Answer<'_>) + Send + Sync>;
/// Changes of one kind by name.
type Named<T> = BTreeMap<String, T>;

/// Name of the transform that reads calls in the text.
const TEXT_CALLS: &str = "assistant_content_tool_call_tags_to_tool_calls";

/// Set of available transforms, of five kinds. Applications can add their own.
///
/// | kind | changes | name |
/// |---|---|---|
/// | message | the messages of a request | `assistant_tool_calls_reasoning_content_empty_if_missing` |
/// | message | the messages of a request | `assistant_tool_calls_content_empty_if_null` |
/// | message | the messages of a request | `assistant_tool_calls_signature_skip_validator_if_missing` |
/// | message | the messages of a request | `tool_messages_name_if_missing` |
/// | tool | the tools of a request | `tools_without_descriptions` |
/// | tool | the tools of a request | `tools_without_schema_annotations` |
/// | response | the message of an answer | `assistant_content_tool_call_tags_to_tool_calls` |
/// | call | a call before it is dispatched | `tool_call_name_without_namespace` |
/// | result | the envelope of a result before it is sent | `tool_result_compact_envelope` |
///
/// `assistant_content_tool_call_tags_to_tool_calls` reads calls that a server left in the text, in
/// the formats of all families: JSON, elements and Python calls in tags, between control tokens, or
/// as the whole text. [`ToolCallingOptions::text_call_format`] can name one format.
///
/// Common variations that affect every model need no transform: `function_call`, objects instead of
/// arrays, and missing IDs are always handled.
///
/// ```
/// use formwork_protocol::tools::{ToolCallingOptions, Transforms};
/// let transforms = Transforms::default().with_message("polite", |messages| {
///     messages.insert(0, serde_json::json!({"role": "system", "content": "Be polite."}));
/// });
/// let options = ToolCallingOptions { message_transforms: vec!["polite".to_owned()], ..Default::default() };
/// assert!(transforms.resolve(&options).is_ok() && Transforms::default().resolve(&options).is_err());
/// ```
#[derive(Clone)]
pub struct Transforms {
    message: Named<Change<Vec<Value>>>,
    tool: Named<Change<Vec<Value>>>,
    response: Named<Response>,
    call: Named<Change<ToolCall>>,
    result: Named<Change<Value>>,
}

/// Transforms selected by [`ToolCallingOptions`], in the order in which they are applied. Created
/// by [`Transforms::resolve`].
#[derive(Clone)]
pub struct Pipeline {
    message: Vec<Change<Vec<Value>>>,
    tool: Vec<Change<Vec<Value>>>,
    response: Vec<Response>,
    format: TextCallFormat,
    call: Vec<Change<ToolCall>>,
    result: Vec<Change<Value>>,
}

impl Default for Transforms {
    /// Returns the built-in transforms.
    fn default() -> Self {
        let tags: Response = Arc::new(text::tags);
        let none = Self {
            message: Named::new(),
            tool: Named::new(),
            response: [(TEXT_CALLS.to_owned(), tags)].into(),
            call: Named::new(),
            result: Named::new(),
        };
        none.with_message("assistant_tool_calls_reasoning_content_empty_if_missing", |messages| {
            messages::reasoning(messages);
        })
        .with_message("assistant_tool_calls_content_empty_if_null", |messages| messages::content(messages))
        .with_message("assistant_tool_calls_signature_skip_validator_if_missing", |messages| {
            messages::signature(messages);
        })
        .with_message("tool_messages_name_if_missing", |messages| messages::names(messages))
        .with_tool("tools_without_descriptions", |tools| tools::without_descriptions(tools))
        .with_tool("tools_without_schema_annotations", |tools| tools::without_annotations(tools))
        .with_call("tool_call_name_without_namespace", calls::without_namespace)
        .with_result("tool_result_compact_envelope", results::compact)
    }
}

impl Transforms {
    /// Adds a transform of the messages of a request. An existing transform of messages with this
    /// name is replaced.
    #[must_use]
    pub fn with_message(
        mut self,
        name: &str,
        change: impl Fn(&mut Vec<Value>) + Send + Sync + 'static,
    ) -> Self {
        self.message.insert(name.to_owned(), Arc::new(change));
        self
    }

    /// Adds a transform of the `tools` field of a request.
    #[must_use]
    pub fn with_tool(mut self, name: &str, change: impl Fn(&mut Vec<Value>) + Send + Sync + 'static) -> Self {
        self.tool.insert(name.to_owned(), Arc::new(change));
        self
    }

    /// Adds a transform of the message of an answer, applied before calls are parsed.
    #[must_use]
    pub fn with_response(mut self, name: &str, change: impl Fn(&mut Body) + Send + Sync + 'static) -> Self {
        self.response.insert(name.to_owned(), Arc::new(move |message, _| change(message)));
        self
    }

    /// Adds a transform of a call, applied before the call is executed.
    #[must_use]
    pub fn with_call(mut self, name: &str, change: impl Fn(&mut ToolCall) + Send + Sync + 'static) -> Self {
        self.call.insert(name.to_owned(), Arc::new(change));
        self
    }

    /// Adds a transform of the envelope of a result, applied before the result is sent.
    #[must_use]
    pub fn with_result(mut self, name: &str, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.result.insert(name.to_owned(), Arc::new(change));
        self
    }

    /// Returns the transforms that `options` names, in the given order.
    ///
    /// # Errors
    /// Returns an error if a name is unknown. The error lists the known names.
    pub fn resolve(&self, options: &ToolCallingOptions) -> Result<Pipeline, ToolsError> {
        let format = options.text_call_format;
        let mut responses = options.response_transforms.clone();
        let is_named = responses.iter().any(|name| name == TEXT_CALLS);
        if format != TextCallFormat::Auto && !is_named {
            responses.push(TEXT_CALLS.to_owned());
        }
        Ok(Pipeline {
            format,
            message: find("message", &self.message, &options.message_transforms)?,
            tool: find("tool", &self.tool, &options.tool_transforms)?,
            response: find("response", &self.response, &responses)?,
            call: find("tool_call", &self.call, &options.tool_call_transforms)?,
            result: find("tool_result", &self.result, &options.tool_result_transforms)?,
        })
    }
}

fn find<T: Clone>(kind: &'static str, known: &Named<T>, wanted: &[String]) -> Result<Vec<T>, ToolsError> {
    let find = |given: &String| {
        known.get(given).cloned().ok_or_else(|| {
            let known = known.keys().cloned().collect::<Vec<_>>().join(", ");
            Kind::Transform { kind, given: given.clone(), known }.into()
        })
    };
    wanted.iter().map(find).collect()
}

impl Pipeline {
    pub(super) fn messages(&self, messages: &mut Vec<Value>) {
        self.message.iter().for_each(|change| change(messages));
    }

    pub(super) fn tools(&self, tools: &mut Vec<Value>) {
        self.tool.iter().for_each(|change| change(tools));
    }

    pub(super) fn response(&self, message: &mut Body, tools: &dyn ToolSource, is_truncated: bool) {
        let answer = Answer { tools, format: self.format, is_truncated };
        self.response.iter().for_each(|change| change(message, &answer));
    }

    pub(super) fn call(&self, call: &mut ToolCall) {
        self.call.iter().for_each(|change| change(call));
    }

    pub(super) fn result(&self, envelope: &mut Value) {
        self.result.iter().for_each(|change| change(envelope));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_unknown_names_list_the_known_ones() {
        let names = || vec!["nothing".to_owned()];
        let fault = |options: ToolCallingOptions| {
            Transforms::default().resolve(&options).err().expect("refused").to_string()
        };
        let told = fault(ToolCallingOptions { tool_transforms: names(), ..Default::default() });
        let known = "tools_without_descriptions, tools_without_schema_annotations";
        assert_eq!(told, format!("unknown tool transform `nothing`; expected one of {known}"));
        for (told, kind) in [
            (fault(ToolCallingOptions { message_transforms: names(), ..Default::default() }), "message"),
            (fault(ToolCallingOptions { response_transforms: names(), ..Default::default() }), "response"),
            (fault(ToolCallingOptions { tool_call_transforms: names(), ..Default::default() }), "tool_call"),
            (
                fault(ToolCallingOptions { tool_result_transforms: names(), ..Default::default() }),
                "tool_result",
            ),
        ] {
            assert!(
                told.starts_with(&format!("unknown {kind} transform `nothing`; expected one of ")),
                "{told}"
            );
        }
    }

    #[test]
    fn applies_transforms_in_the_given_order() {
        let add = |text: &'static str| move |call: &mut ToolCall| call.name.push_str(text);
        let transforms = Transforms::default().with_call("a", add("1")).with_call("b", add("2"));
        let tool_call_transforms = vec!["b".to_owned(), "a".to_owned()];
        let options = ToolCallingOptions { tool_call_transforms, ..Default::default() };
        let mut call = ToolCall { id: String::new(), name: "f".to_owned(), arguments: String::new() };
        transforms.resolve(&options).expect("known").call(&mut call);
        assert_eq!(call.name, "f21");
    }
}
