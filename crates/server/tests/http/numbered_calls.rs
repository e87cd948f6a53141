//! Calls in a format whose ids have the function's name and a number, like Kimi K2's.

use std::fmt::Write;
use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_lm::{ChatInput, ChatTemplate, TemplateError};
use formwork_server::{App, ServedModel, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{Answer, babbles, request, send, served, start};

const CONTEXT: usize = 6000;

/// A template that writes the ids of calls instead of the names of functions.
struct Ids;

impl ChatTemplate for Ids {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let mut text = String::new();
        if let Some(tools) = input.variables.get("tools") {
            let _ = writeln!(text, "tools:{tools}");
        }
        for message in &input.messages {
            let field = |name: &str| message.fields.get(name).and_then(Value::as_str).unwrap_or_default();
            let _ = write!(text, "{}:{} {}", message.role, field("tool_call_id"), message.text());
            for call in message.fields.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                let id = call["id"].as_str().unwrap_or_default();
                let _ = write!(text, "<call>{id}<arguments>{}</call>", call["function"]["arguments"]);
            }
            text += "</s>\n";
        }
        if input.add_generation_prompt {
            text += "assistant: ";
        }
        Ok(text)
    }
}

fn fields() -> Value {
    let schema =
        json!({"type": "object", "properties": {"fast": {"type": "boolean"}}, "additionalProperties": false});
    let tool = json!({"type": "function", "function": {"name": "look", "parameters": schema}});
    let call =
        |id: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
    json!({
        "model": "m",
        "tools": [tool],
        "tool_choice": "required",
        "parallel_tool_calls": false,
        "messages": [
            {"role": "user", "content": "Look!"},
            {"role": "assistant", "content": null, "tool_calls": [call("call_a"), call("call_b")]},
            {"role": "tool", "tool_call_id": "call_b", "content": "b"},
            {"role": "tool", "tool_call_id": "call_a", "content": "a"},
        ],
    })
}

async fn post(app: &App, path: &str, fields: &Value) -> Answer {
    send(app, request(Method::POST, path, fields.to_string())).await
}

#[tokio::test]
async fn ids_go_on_through_the_conversation() {
    let model = ServedModel { template: Arc::new(Ids), ..served("m", start(babbles(CONTEXT))) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let prompt = post(&app, "/apply-template", &fields()).await;
    let prompt = prompt.json()["prompt"].as_str().unwrap().to_owned();
    let (_, turns) = prompt.split_once("Look!").unwrap();
    let calls = "<call>functions.look:0<arguments>{}</call><call>functions.look:1<arguments>{}</call>";
    let results = "tool:functions.look:0 a</s>\ntool:functions.look:1 b</s>\n";
    assert_eq!(turns, format!("</s>\nassistant: {calls}</s>\n{results}assistant: "));

    let answer = post(&app, "/v1/chat/completions", &fields()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let called = answer.json()["choices"][0]["message"]["tool_calls"].clone();
    assert_eq!(called[0]["id"], "functions.look:2", "{called}");
    assert_eq!(called[0]["function"]["name"], "look");

    // Anthropic's ids have no such characters.
    let fields = json!({"model": "m", "max_tokens": 200, "messages": [{"role": "user", "content": "Look!"}],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"}});
    let answer = post(&app, "/v1/messages", &fields).await;
    assert_eq!(answer.json()["content"][0]["id"], "toolu_functions_look_0", "{}", answer.text);
}
