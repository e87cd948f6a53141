//! Messages of the assistant that the answer continues.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::fixture::{Native, app, babbles, chat, says, served, start};
use formwork_server::{App, ServerOptions};
use std::sync::Arc;

/// Creates an app whose template writes messages as they are, up to the end of the text.
fn native(text: &'static str) -> App {
    let mut model = served("m", start(says(text)));
    model.template = Arc::new(Native);
    App::new(vec![model], ServerOptions::default()).unwrap()
}

fn begun(text: &str, fields: Value) -> Value {
    let mut body = fields;
    body["messages"] = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": text}]);
    body
}

#[tokio::test]
async fn an_answer_continues_the_last_message() {
    let app = native("Once upon a time.");
    for fields in [
        json!({"continue_final_message": true, "add_generation_prompt": false}),
        json!({"continue_final_message": true}),
        json!({"add_generation_prompt": false}),
    ] {
        for (start, rest) in [("Once upon a", " time."), ("Once upon a time.", ""), ("", "Once upon a time.")]
        {
            assert_eq!(chat(&app, &begun(start, fields.clone())).await.content(), rest, "{fields}");
        }
    }
    for mark in ["prefix", "partial"] {
        let mut body = begun("Once", json!({}));
        body["messages"][1][mark] = true.into();
        assert_eq!(chat(&app, &body).await.content(), " upon a time.");
    }
    let body = json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Once"},
        {"role": "user", "content": "Hi"}]});
    assert_eq!(chat(&app, &body).await.content(), "Once upon a time.");
}

#[tokio::test]
async fn a_constraint_covers_the_begun_message() {
    let app = app(babbles(400));
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}, "b": {"type": "boolean"}},
        "required": ["a", "b"], "additionalProperties": false});
    for seed in 0..8 {
        for start in ["{", "{\"a\": 4", "{\"a\": 4, \"b\": t", "{\"a\": 4, \"b\": true}"] {
            let fields = json!({"seed": seed, "continue_final_message": true, "guided_json": schema});
            let answer = chat(&app, &begun(start, fields)).await.content();
            let whole: Value = serde_json::from_str(&format!("{start}{answer}")).unwrap();
            assert!(whole["a"].as_i64() <= Some(9) && whole["b"].is_boolean(), "{whole}");
        }
    }
    let refused =
        chat(&app, &begun("Sure: {", json!({"continue_final_message": true, "guided_json": schema}))).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let error = &refused.json()["error"];
    assert_eq!(error["message"], "the beginning of the answer does not match the constraint");
    assert_eq!(error["param"], "messages");
}

#[tokio::test]
async fn a_call_follows_a_begun_message() {
    let app = native("I look. <tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>");
    let add = json!({"type": "function", "function": {"name": "add", "parameters": {
        "type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": false}}});
    for start in ["I lo", "I look. ", "I look. <tool"] {
        let answer =
            chat(&app, &begun(start, json!({"continue_final_message": true, "tools": [add.clone()]}))).await;
        let message = &answer.json()["choices"][0]["message"];
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}", "{}", answer.text);
        let said = message["content"].as_str().unwrap_or_default();
        assert!("I look.".ends_with(said) && said.len() <= 3, "{said:?}");
    }
}

#[tokio::test]
async fn a_begun_call_is_refused_and_nothing_is_repeated() {
    let add = json!({"type": "function", "function": {"name": "add", "parameters": {
        "type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": false}}});
    let fields = json!({"continue_final_message": true, "tools": [add]});
    let app = native("I lo<to and no call");
    let start = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\"";
    let refused = chat(&app, &begun(start, fields.clone())).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
    assert_eq!(refused.json()["error"]["param"], "messages");
    for (start, rest) in
        [("I lo<", "to and no call"), ("I lo<to", " and no call"), ("I lo<to and no call", "")]
    {
        assert_eq!(chat(&app, &begun(start, fields.clone())).await.content(), rest);
    }
}

#[tokio::test]
async fn only_a_message_of_the_assistant_can_be_continued() {
    let app = native("a");
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let user = json!({"role": "user", "content": "Hi"});
    for (messages, fields, param) in [
        (json!([user]), json!({"continue_final_message": true}), "continue_final_message"),
        (json!([user]), json!({"add_generation_prompt": false}), "add_generation_prompt"),
        (
            json!([user, {"role": "assistant", "content": "", "tool_calls": [call]}]),
            json!({"continue_final_message": true}),
            "continue_final_message",
        ),
        (json!([{"role": "user", "content": "Hi", "prefix": true}]), json!({}), "messages[0].prefix"),
        (
            json!([{"role": "assistant", "content": "a", "prefix": true}, user]),
            json!({}),
            "messages[0].prefix",
        ),
        (
            json!([user, {"role": "assistant", "content": "a"}]),
            json!({"continue_final_message": true, "add_generation_prompt": true}),
            "continue_final_message",
        ),
    ] {
        let mut body = fields;
        body["messages"] = messages;
        let answer = chat(&app, &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        assert_eq!(answer.json()["error"]["param"], param, "{body}");
    }
}
