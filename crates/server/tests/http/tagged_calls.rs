//! Calls in a format of the model's own, with a tag for each argument.

use std::fmt::Write;
use std::sync::Arc;

use axum::http::StatusCode;
use formwork_lm::{ChatInput, ChatTemplate, TemplateError};
use formwork_server::{App, ServedModel, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{Answer, babbles, chat, says_in, served, start};

const CONTEXT: usize = 6000;

/// A template that writes each argument in a tag: strings as they are, and other values as JSON.
struct Tags;

impl ChatTemplate for Tags {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let mut text = String::new();
        if let Some(tools) = input.variables.get("tools") {
            let _ = writeln!(text, "tools:{tools}");
        }
        for message in &input.messages {
            let _ = write!(text, "{}:{}", message.role, message.text());
            for call in message.fields.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                let function = &call["function"];
                let name = function["name"].as_str().unwrap_or_default();
                let _ = write!(text, "\n<tool_call>\n<function={name}>\n");
                for (name, value) in function["arguments"].as_object().into_iter().flatten() {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    let _ = write!(text, "<parameter={name}>\n{value}\n</parameter>\n");
                }
                text += "</function>\n</tool_call>";
            }
            text += "</s>\n";
        }
        if input.add_generation_prompt {
            text += "assistant:";
        }
        Ok(text)
    }
}

fn app(model: impl formwork_lm::LanguageModel + 'static) -> App {
    let model = ServedModel { template: Arc::new(Tags), ..served("m", start(model)) };
    App::new(vec![model], ServerOptions::default()).unwrap()
}

fn tool(name: &str, properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    json!({"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": properties, "required": required, "additionalProperties": false}}})
}

fn save() -> Value {
    tool(
        "save",
        &json!({"path": {"type": "string"}, "lines": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}),
    )
}

fn calls(answer: &Answer) -> Value {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let calls = answer.json()["choices"][0]["message"]["tool_calls"].clone();
    calls.as_array().into_iter().flatten().map(|call| call["function"].clone()).collect()
}

#[tokio::test]
async fn arguments_in_tags_become_json() {
    let text = "Done.\n\n<tool_call>\n<function=save>\n<parameter=path>\na \"b\" </x>\n</parameter>\n<parameter=lines>\n12\n</parameter>\n<parameter=tags>\n[\"x\"]\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>";
    let fields = json!({"tools": [save(), tool("now", &json!({}))]});
    let answer = chat(&app(says_in(CONTEXT, text)), &fields).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "Done.");
    let arguments = "{\"path\": \"a \\\"b\\\" </x>\", \"lines\": 12, \"tags\": [\"x\"]}";
    assert_eq!(
        calls(&answer),
        json!([{"name": "save", "arguments": arguments}, {"name": "now", "arguments": "{}"}])
    );
    assert!(answer.headers.get("x-formwork-tool-calls").is_none());
    // A string is streamed as it comes.
    let mut fields = fields;
    fields["stream"] = true.into();
    let streamed = chat(&app(says_in(CONTEXT, text)), &fields).await;
    let pieces = streamed.text.split_terminator("\n\n").filter_map(|event| {
        let event: Value = serde_json::from_str(event.strip_prefix("data: ")?).ok()?;
        Some(event.pointer("/choices/0/delta/tool_calls/0/function/arguments")?.as_str()?.to_owned())
    });
    let pieces: Vec<String> = pieces.collect();
    assert_eq!(pieces.concat(), format!("{arguments}{{}}"));
    assert!(pieces.iter().any(|piece| piece == "b"), "{pieces:?}");
}

#[tokio::test]
async fn the_grammar_holds_arguments_in_tags_to_their_schema() {
    let tools = json!([tool(
        "pick",
        &json!({
            "kind": {"enum": ["a", 1, null]},
            "note": {"type": "string", "maxLength": 5},
            "size": {"type": ["number", "string"], "maxLength": 3, "minimum": 0, "maximum": 9},
        })
    )]);
    for seed in 0..8 {
        let fields = json!({"tools": tools, "tool_choice": "required", "seed": seed, "max_tokens": 400});
        let answer = chat(&app(babbles(CONTEXT)), &fields).await;
        let calls = calls(&answer);
        assert_ne!(calls, json!([]));
        for call in calls.as_array().unwrap() {
            let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
            assert!([json!("a"), json!(1), json!(null)].contains(&arguments["kind"]), "{arguments}");
            assert!(arguments["note"].as_str().unwrap().chars().count() <= 5, "{arguments}");
            let size = &arguments["size"];
            let is_short = size.as_str().is_some_and(|text| text.chars().count() <= 3);
            assert!(is_short || size.as_f64().is_some_and(|size| (0.0..=9.0).contains(&size)), "{arguments}");
        }
    }
}

#[tokio::test]
async fn calls_are_json_where_tags_cannot_write_the_arguments() {
    let text = "<tool_call>\n{\"name\": \"odd\", \"arguments\": {\"a>b\": 1}}\n</tool_call>";
    let fields = json!({"tools": [tool("odd", &json!({"a>b": {"type": "integer"}}))]});
    let app = app(says_in(CONTEXT, text));
    for _ in 0..2 {
        let answer = chat(&app, &fields).await;
        assert_eq!(calls(&answer), json!([{"name": "odd", "arguments": "{\"a>b\": 1}"}]));
        assert_eq!(answer.headers["x-formwork-tool-calls"], "json");
    }
}
