//! Anthropic's API: messages, streams, tools, thoughts, counted tokens and errors.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_server::{App, ServedModel, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{Answer, Native, app, babbles, get, request, says, says_in, send, served, start};

const CALL: &str = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";

/// Creates an app whose template has tools and thoughts.
fn native(text: &'static str) -> App {
    let mut model = served("m", start(says_in(6000, text)));
    model.template = Arc::new(Native);
    App::new(vec![model], ServerOptions::default()).unwrap()
}

fn add() -> Value {
    json!({"name": "add", "input_schema": {
        "type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": false}})
}

/// Creates a short request with additional `fields`.
fn ask(fields: &Value) -> Value {
    let mut body = json!({"model": "m", "max_tokens": 300, "messages": [{"role": "user", "content": "Hi"}]});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn post(app: &App, path: &str, body: &Value) -> Answer {
    send(app, request(Method::POST, path, body.to_string())).await
}

async fn message(app: &App, fields: Value) -> Value {
    let answer = post(app, "/v1/messages", &ask(&fields)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert!(answer.headers["request-id"].to_str().unwrap().starts_with("req_"));
    answer.json()
}

/// Returns the events of a stream, and the message that they add up to, as clients join them.
async fn streamed(app: &App, fields: Value) -> (Vec<String>, Value) {
    let mut fields = fields;
    fields["stream"] = true.into();
    let answer = post(app, "/v1/messages", &ask(&fields)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let (mut names, mut whole, mut inputs) = (Vec::new(), Value::Null, String::new());
    for event in answer.text.split_terminator("\n\n") {
        let (name, data) = event.split_once('\n').unwrap();
        let name = name.strip_prefix("event: ").unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data["type"], name);
        if names.last().is_none_or(|last| last != name) {
            names.push(name.to_owned());
        }
        let index = data["index"].as_u64().unwrap_or_default() as usize;
        match name {
            "message_start" => whole = data["message"].clone(),
            "content_block_start" => {
                assert_eq!(whole["content"].as_array().unwrap().len(), index);
                whole["content"].as_array_mut().unwrap().push(data["content_block"].clone());
                inputs.clear();
            }
            "content_block_delta" => {
                let delta = &data["delta"];
                let (field, text) = match delta["type"].as_str().unwrap() {
                    "text_delta" => ("text", &delta["text"]),
                    "thinking_delta" => ("thinking", &delta["thinking"]),
                    other => {
                        assert_eq!(other, "input_json_delta");
                        inputs.push_str(delta["partial_json"].as_str().unwrap());
                        continue;
                    }
                };
                let before = whole["content"][index][field].as_str().unwrap();
                whole["content"][index][field] = format!("{before}{}", text.as_str().unwrap()).into();
            }
            "content_block_stop" if !inputs.is_empty() => {
                whole["content"][index]["input"] = serde_json::from_str(&inputs).unwrap();
            }
            "message_delta" => {
                for name in ["stop_reason", "stop_sequence"] {
                    whole[name] = data["delta"][name].clone();
                }
                whole["usage"] = data["usage"].clone();
            }
            _ => {}
        }
    }
    (names, whole)
}

/// Checks that a stream adds up to the whole message, apart from ids and counts of the cache.
async fn both(app: &App, fields: Value) -> Value {
    let (mut whole, (_, mut joined)) =
        (message(app, fields.clone()).await, streamed(app, fields.clone()).await);
    for one in [&mut whole, &mut joined] {
        assert!(one["id"].as_str().unwrap().starts_with("msg_"));
        one["id"] = "ID".into();
        one["usage"] = Value::Null;
        for block in one["content"].as_array_mut().unwrap() {
            if let Some(id) = block.get_mut("id") {
                assert!(id.as_str().unwrap().starts_with("toolu_"));
                *id = "ID".into();
            }
        }
    }
    assert_eq!(whole, joined, "{fields}");
    whole
}

#[tokio::test]
async fn a_text_is_answered() {
    let app = native("Hello, you.");
    let answer = message(&app, json!({})).await;
    assert_eq!(answer["content"], json!([{"type": "text", "text": "Hello, you.", "citations": null}]));
    assert_eq!((&answer["stop_reason"], &answer["stop_sequence"]), (&json!("end_turn"), &Value::Null));
    assert_eq!(
        (&answer["role"], &answer["model"], &answer["type"]),
        (&json!("assistant"), &json!("m"), &json!("message"))
    );
    assert_eq!(answer["usage"]["output_tokens"], 11);
    let (names, _) = streamed(&app, json!({})).await;
    let expected = [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, expected);
    both(&app, json!({})).await;
}

#[tokio::test]
async fn an_answer_has_the_reason_of_its_end() {
    let app = native("Hello, you.");
    let cut = both(&app, json!({"max_tokens": 3})).await;
    assert_eq!((&cut["stop_reason"], &cut["content"][0]["text"]), (&json!("max_tokens"), &json!("Hel")));
    let stopped = both(&app, json!({"stop_sequences": ["x", "o, "]})).await;
    assert_eq!(
        (&stopped["stop_reason"], &stopped["stop_sequence"]),
        (&json!("stop_sequence"), &json!("o, "))
    );
    assert_eq!(stopped["content"][0]["text"], "Hell");
}

#[tokio::test]
async fn tools_are_called_and_their_results_are_read() {
    let app = native(CALL);
    for choice in [json!({"type": "any"}), json!({"type": "tool", "name": "add"}), json!({"type": "auto"})] {
        let answer = both(&app, json!({"tools": [add()], "tool_choice": choice})).await;
        assert_eq!(answer["stop_reason"], "tool_use");
        assert_eq!(
            answer["content"],
            json!([{"type": "tool_use", "id": "ID", "name": "add", "input": {"a": 1}}])
        );
    }
    let none = both(&app, json!({"tools": [add()], "tool_choice": {"type": "none"}})).await;
    assert_eq!(none["content"][0]["text"], CALL);
    let said = native(
        "<think>\nSo.\n</think>\n\nI add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2}}\n</tool_call>",
    );
    let answer = both(&said, json!({"tools": [add()]})).await;
    let kinds: Vec<&Value> =
        answer["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"]);
    let hidden =
        both(&said, json!({"tools": [add()], "thinking": {"type": "adaptive", "display": "omitted"}})).await;
    assert_eq!(hidden["content"][0], json!({"type": "thinking", "thinking": "", "signature": ""}));
    let turns = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "ID", "content": "3"}]}]);
    let after = message(&native("Done."), json!({"messages": turns, "tools": [add()]})).await;
    assert_eq!(after["content"][0]["text"], "Done.");
}

#[tokio::test]
async fn hosted_tools_are_left_out() {
    let tools = json!([add(), {"type": "web_search_20250305", "name": "web_search"}, {"type": "custom", "name": "sub",
        "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}, "defer_loading": true}]);
    let answer = post(&native(CALL), "/v1/messages", &ask(&json!({"tools": tools}))).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert_eq!(
        answer.headers["x-formwork-ignored"],
        "tools[1], tools[2].cache_control, tools[2].defer_loading"
    );
}

#[tokio::test]
async fn an_output_follows_its_schema() {
    let app = app(babbles(400));
    let schema = json!({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false});
    for seed in 0..4 {
        let format = json!({"format": {"type": "json_schema", "schema": schema}});
        let answer = message(&app, json!({"output_config": format, "seed": seed})).await;
        let said: Value = serde_json::from_str(answer["content"][0]["text"].as_str().unwrap()).unwrap();
        assert!(said["a"].is_boolean(), "{said}");
    }
}

#[tokio::test]
async fn a_last_message_of_the_assistant_is_continued() {
    let messages = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]);
    let answer = both(&native("Hello, you."), json!({"messages": messages})).await;
    assert_eq!(answer["content"][0]["text"], ", you.");
}

#[tokio::test]
async fn counted_tokens_are_those_of_the_prompt() {
    let app = native("Hello");
    let fields = json!({"system": "Be brief.", "tools": [add()]});
    let counted = post(&app, "/v1/messages/count_tokens", &ask(&fields)).await.json();
    let usage = message(&app, fields).await["usage"].clone();
    assert_eq!(counted["input_tokens"], usage["input_tokens"]);
}

#[tokio::test]
async fn clients_learn_what_does_not_fit() {
    let (app, small) = (app(babbles(100)), app(babbles(40)));
    let long = post(&app, "/v1/messages", &ask(&json!({"system": "x".repeat(100)}))).await;
    assert_eq!(long.status, StatusCode::BAD_REQUEST);
    let message = long.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("prompt is too long: 1") && message.ends_with(" tokens > 100 maximum"),
        "{message}"
    );
    let thread = post(&app, "/v1/messages", &ask(&json!({"thread": {"type": "create"}}))).await;
    let details = json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]});
    assert_eq!((thread.status, &thread.json()["error"]["details"]), (StatusCode::BAD_REQUEST, &details));
    let full = both(&small, json!({"seed": 1})).await;
    assert_eq!(full["stop_reason"], "model_context_window_exceeded");
    let cut = both(&app, json!({"seed": 1, "max_tokens": 2})).await;
    assert_eq!(cut["stop_reason"], "max_tokens");
}

#[tokio::test]
async fn errors_have_anthropics_form() {
    let app = native("Hello");
    for (path, body, status, class, message) in [
        (
            "/v1/messages",
            ask(&json!({"model": "x"})),
            404,
            "not_found_error",
            "unknown model `x`; expected one of m",
        ),
        (
            "/v1/messages",
            ask(&json!({"max_tokens": "a"})),
            400,
            "invalid_request_error",
            "`max_tokens`: expected an integer, found a string",
        ),
        (
            "/v1/messages/count_tokens",
            json!({}),
            400,
            "invalid_request_error",
            "`messages`: this field is required",
        ),
        ("/v1/messages/batches", json!({}), 404, "not_found_error", "unknown path /v1/messages/batches"),
    ] {
        let answer = post(&app, path, &body).await;
        assert_eq!(answer.status.as_u16(), status, "{}", answer.text);
        let json = answer.json();
        assert_eq!(
            (&json["type"], &json["error"]),
            (&json!("error"), &json!({"type": class, "message": message}))
        );
        assert_eq!(json["request_id"].as_str().unwrap(), answer.headers["request-id"].to_str().unwrap());
    }
    let options = ServerOptions { api_keys: vec!["secret".to_owned()], ..ServerOptions::default() };
    let keyed = App::new(vec![served("m", start(says("ok")))], options).unwrap();
    let refused = post(&keyed, "/v1/messages", &ask(&json!({}))).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.json()["error"]["type"]),
        (401, &json!("authentication_error"))
    );
    let schema = json!({"type": "json_schema", "schema": {"type": "x"}});
    let faulty = post(&app, "/v1/messages", &ask(&json!({"output_config": {"format": schema}}))).await;
    let message = faulty.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("`output_config.format.schema`: #/type: "), "{message}");
    // Other paths keep OpenAI's form.
    assert!(post(&keyed, "/v1/responses", &json!({})).await.json()["error"]["code"].is_string());
}

#[tokio::test]
async fn a_model_of_anthropic_means_the_only_model() {
    let answer = message(&native("Hello"), json!({"model": "claude-haiku-4-5"})).await;
    assert_eq!(answer["model"], "m");
    let two = App::new(
        vec![served("a", start(says("ok"))), served("b", start(says("ok")))],
        ServerOptions::default(),
    );
    let refused = post(&two.unwrap(), "/v1/messages", &ask(&json!({"model": "claude-haiku-4-5"}))).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn models_are_listed_in_anthropics_form() {
    let aliases = vec!["org/alias".to_owned()];
    let model = ServedModel { aliases, ..served("m", start(says("ok"))) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let list = async |path: &str| {
        let mut request = request(Method::GET, path, "");
        request.headers_mut().insert("anthropic-version", "2023-06-01".parse().unwrap());
        send(&app, request).await
    };
    let entry = |id: &str| json!({"type": "model", "id": id, "display_name": id, "created_at": "1970-01-01T00:00:07.000000000Z"});
    let expected = json!({"data": [entry("m"), entry("org/alias")], "first_id": "m", "last_id": "org/alias", "has_more": false});
    for path in ["/v1/models", "/v1/models?limit=20", "/models/"] {
        assert_eq!(list(path).await.json(), expected, "{path}");
    }
    let one = list("/v1/models/org/alias").await;
    assert_eq!(one.json(), entry("org/alias"));
    assert!(one.headers["request-id"].to_str().unwrap().starts_with("req_"));
    let unknown = list("/v1/models/x").await;
    assert_eq!(
        (unknown.status, &unknown.json()["error"]["type"]),
        (StatusCode::NOT_FOUND, &json!("not_found_error"))
    );
    let usual = get(&app, "/v1/models").await;
    assert_eq!(usual.json()["object"], "list");
    assert!(!usual.headers.contains_key("request-id"));
    assert_eq!(get(&app, "/v1/models/x").await.json()["error"]["code"], "model_not_found");
}
