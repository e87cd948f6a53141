//! Sets of tools of real shapes, and the formats in which models call them.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use formwork_lm::{ChatInput, ChatTemplate, TemplateError};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A tool and an example of its arguments.
#[derive(Clone, Deserialize)]
pub struct ExampleTool {
    /// Name of the tool.
    pub name: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Arguments that match `parameters`.
    pub example: Map<String, Value>,
}

/// Returns `count` tools, all with different names and schemas.
///
/// The shapes repeat, but all arguments of a repeated shape have other names. Nothing can therefore be
/// gained by finding equal schemas.
///
/// # Errors
/// Returns an error if the file of shapes is not valid.
pub fn tools(count: usize) -> Result<Vec<ExampleTool>> {
    let shapes: Vec<ExampleTool> = serde_json::from_str(include_str!("../tools.json"))?;
    let copies =
        (0..count.div_ceil(shapes.len())).flat_map(|copy| shapes.iter().map(move |shape| (copy, shape)));
    copies
        .take(count)
        .map(|(copy, shape)| if copy == 0 { Ok(shape.clone()) } else { renamed(shape, copy) })
        .collect()
}

/// Returns a copy of `shape` whose name and arguments end in the number `copy`.
fn renamed(shape: &ExampleTool, copy: usize) -> Result<ExampleTool> {
    let rename = |members: &Map<String, Value>| -> Map<String, Value> {
        members.iter().map(|(name, value)| (format!("{name}_{copy}"), value.clone())).collect()
    };
    let mut parameters = shape.parameters.clone();
    let members = parameters.as_object_mut().context("a schema is an object")?;
    if let Some(properties) = members.get_mut("properties").and_then(Value::as_object_mut) {
        *properties = rename(properties);
    }
    if let Some(required) = members.get_mut("required").and_then(Value::as_array_mut) {
        for name in required {
            *name = format!("{}_{copy}", name.as_str().context("a name")?).into();
        }
    }
    Ok(ExampleTool { name: format!("{}_{copy}", shape.name), parameters, example: rename(&shape.example) })
}

/// A chat template that writes each argument of a call in tags, as Qwen3-Coder's template does.
pub struct TaggedTemplate;

impl ChatTemplate for TaggedTemplate {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let mut text = String::new();
        if let Some(tools) = input.variables.get("tools") {
            let _ = writeln!(text, "system: {tools}");
        }
        for message in &input.messages {
            let _ = write!(text, "{}: {}", message.role, message.text());
            for call in message.fields.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                text.push_str(&tagged_call(&call["function"]));
            }
            text.push('\n');
        }
        if input.add_generation_prompt {
            text.push_str("assistant: ");
        }
        Ok(text)
    }
}

/// Returns the text of a call in the format of [`TaggedTemplate`].
pub fn tagged_call(function: &Value) -> String {
    let name = function["name"].as_str().unwrap_or_default();
    let mut text = format!("\n<tool_call>\n<function={name}>\n");
    for (name, value) in function["arguments"].as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| spaced(value), str::to_owned);
        let _ = write!(text, "<parameter={name}>\n{value}\n</parameter>\n");
    }
    text + "</function>\n</tool_call>"
}

/// A chat template without calls, so that calls become JSON in tags.
pub struct PlainTemplate;

impl ChatTemplate for PlainTemplate {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let lines = input.messages.iter().map(|message| format!("{}: {}\n", message.role, message.text()));
        let text: String = lines.collect();
        Ok(if input.add_generation_prompt { text + "assistant: " } else { text })
    }
}

/// Returns the text of a call as JSON in tags.
pub fn json_call(function: &Value) -> String {
    let arguments = spaced(&function["arguments"]);
    format!("<tool_call>\n{{\"name\": {}, \"arguments\": {arguments}}}\n</tool_call>", function["name"])
}

/// Writes a value with a space after each comma and colon, as Python does.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| format!("{}: {}", Value::from(name.as_str()), spaced(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
