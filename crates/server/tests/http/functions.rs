//! `functions` and `function_call`, the names that were used before `tools`.

use axum::http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::fixture::{Lines, app, chat, says_in, served, start};
use formwork_server::{App, ServerOptions};

const CALL: &str = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";

fn add() -> Value {
    json!({"name": "add", "parameters": {
        "type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": false}})
}

#[tokio::test]
async fn a_function_is_called() {
    let app = app(says_in(6000, CALL));
    for choice in [json!(null), json!("auto"), json!({"name": "add"})] {
        let answer = chat(&app, &json!({"functions": [add()], "function_call": choice})).await.json();
        let choice = &answer["choices"][0];
        assert_eq!(choice["message"]["function_call"], json!({"name": "add", "arguments": "{\"a\": 1}"}));
        assert_eq!(
            (&choice["finish_reason"], &choice["message"]["content"]),
            (&json!("function_call"), &json!(null))
        );
        assert!(choice["message"].get("tool_calls").is_none());
    }
    let both = json!({"functions": [add()], "tools": [], "tool_choice": "auto", "parallel_tool_calls": true});
    assert_eq!(chat(&app, &both).await.json()["choices"][0]["finish_reason"], "function_call");
    let none = chat(&app, &json!({"functions": [add()], "function_call": "none"})).await;
    assert_eq!(none.content(), CALL);
}

#[tokio::test]
async fn a_call_of_a_function_is_streamed() {
    let app = app(says_in(6000, CALL));
    let answer = chat(&app, &json!({"functions": [add()], "stream": true})).await;
    let chunks: Vec<Value> = answer
        .text
        .split_terminator("\n\n")
        .filter_map(|event| serde_json::from_str(event.strip_prefix("data: ")?).ok())
        .collect();
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": null}));
    let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]["function_call"]);
    let arguments: String = deltas.filter_map(|call| call["arguments"].as_str()).collect();
    assert_eq!(
        (chunks[1]["choices"][0]["delta"]["function_call"]["name"].as_str(), &*arguments),
        (Some("add"), "{\"a\": 1}")
    );
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "function_call");
}

#[tokio::test]
async fn results_of_functions_follow_their_calls() {
    let template = Arc::new(Lines::default());
    let mut model = served("m", start(says_in(6000, "ok")));
    model.template = Arc::clone(&template) as _;
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": null, "function_call": {"name": "add", "arguments": "{\"a\":1}"}},
        {"role": "function", "name": "add", "content": "2"},
    ]);
    assert_eq!(chat(&app, &json!({"messages": messages, "functions": [add()]})).await.content(), "ok");
    let prompt = template.last.lock().unwrap().clone();
    assert!(prompt.contains("\"arguments\": {\"a\":1}") && prompt.contains("<tool_response>\n2"), "{prompt}");
}

#[tokio::test]
async fn faulty_functions_are_refused_by_name() {
    let app = app(says_in(6000, "ok"));
    let tool = json!({"type": "function", "function": add()});
    for (fields, param) in [
        (json!({"functions": [add()], "function_call": {"name": "other"}}), "function_call"),
        (json!({"functions": [add()], "function_call": "required"}), "function_call"),
        (json!({"function_call": {"name": "add"}}), "function_call"),
        (json!({"functions": [add()], "tools": [tool]}), "functions"),
        (json!({"functions": [add(), add()]}), "functions[1].name"),
        (json!({"functions": [{"name": "a b"}]}), "functions[0].name"),
    ] {
        let answer = chat(&app, &fields).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{fields}: {}", answer.text);
        assert_eq!(answer.json()["error"]["param"], param, "{fields}");
    }
}
