//! Tools: calls, streamed calls, and rejected requests.

use axum::http::StatusCode;
use formwork_server::App;
use insta::assert_snapshot;
use serde_json::{Map, Value, json};

use crate::fixture::{Lines, app, babbles, chat, says_in, served, start};

const CONTEXT: usize = 6000;

fn weather() -> Value {
    json!({"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 10}, "days": {"type": "integer"}},
        "required": ["city"], "additionalProperties": false}}})
}

fn add() -> Value {
    json!({"type": "function", "function": {"name": "add", "parameters": {
        "type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": false}}})
}

fn says(text: &'static str) -> App {
    app(says_in(CONTEXT, text))
}

async fn deltas(app: &App, fields: Value) -> String {
    let mut fields = fields;
    fields["stream"] = true.into();
    let answer = chat(app, &fields).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let mut lines = Vec::new();
    for data in answer.text.split_terminator("\n\n").filter_map(|event| event.strip_prefix("data: ")) {
        let Ok(mut event) = serde_json::from_str::<Value>(data) else {
            lines.push(data.to_owned());
            continue;
        };
        let choice = &mut event["choices"][0];
        if let Some(id) = choice.pointer_mut("/delta/tool_calls/0/id") {
            assert!(id.as_str().is_some_and(|id| id.starts_with("call_") && id.len() == 29), "{id}");
            *id = "ID".into();
        }
        lines.push(format!("{} {}", choice["delta"], choice["finish_reason"]));
    }
    lines.join("\n")
}

#[tokio::test]
async fn a_call_is_streamed_piece_by_piece() {
    let text = "Wait.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
    assert_snapshot!(deltas(&says(text), json!({"tools": [weather(), add()]})).await, @r#"
    {"role":"assistant","content":""} null
    {"content":"W"} null
    {"content":"a"} null
    {"content":"i"} null
    {"content":"t"} null
    {"content":"."} null
    {"tool_calls":[{"index":0,"id":"ID","type":"function","function":{"name":"add","arguments":""}}]} null
    {"tool_calls":[{"index":0,"function":{"arguments":"{"}}]} null
    {"tool_calls":[{"index":0,"function":{"arguments":"\""}}]} null
    {"tool_calls":[{"index":0,"function":{"arguments":"a"}}]} null
    {"tool_calls":[{"index":0,"function":{"arguments":"\""}}]} null
    {"tool_calls":[{"index":0,"function":{"arguments":":"}}]} null
    {"tool_calls":[{"index":0,"function":{"arguments":" "}}]} null
    {"tool_calls":[{"index":0,"function":{"arguments":"1"}}]} null
    {"tool_calls":[{"index":0,"function":{"arguments":"}"}}]} null
    {} "tool_calls"
    [DONE]
    "#);
}

#[tokio::test]
async fn several_calls_at_once_have_their_own_index() {
    let text = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>";
    let tools = json!([weather(), add()]);
    let answer = chat(&says(text), &json!({"tools": tools})).await;
    let choice = answer.json()["choices"][0].clone();
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&Value::Null, &json!("tool_calls"))
    );
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    let called: Vec<_> = calls.iter().map(|call| call["function"].clone()).collect();
    assert_eq!(
        called,
        [
            json!({"name": "add", "arguments": "{\"a\": 1}"}),
            json!({"name": "get_weather", "arguments": "{\"city\": \"Ulm\"}"})
        ]
    );
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    let streamed = deltas(&says(text), json!({"tools": tools})).await;
    assert_eq!(streamed.matches("\"index\":1,\"id\"").count(), 1, "{streamed}");
    // Without parallel calls, the mask forbids a second call.
    let answer = chat(&says(text), &json!({"tools": tools, "parallel_tool_calls": false})).await;
    assert_eq!(answer.json()["choices"][0]["message"]["tool_calls"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn tool_choice_is_always_respected() {
    let named = json!({"type": "function", "function": {"name": "add"}});
    let allowed = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}});
    for choice in [json!("required"), named.clone(), allowed] {
        let fields = json!({"tools": [weather(), add()], "tool_choice": choice, "temperature": 0});
        let answer = chat(&says("No, thanks."), &fields).await;
        let message = answer.json()["choices"][0]["message"].clone();
        let call = &message["tool_calls"][0]["function"];
        if choice != "required" {
            assert_eq!(call["name"], "add", "{choice}");
        }
        let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert!(arguments.is_object(), "{arguments}");
    }
    // With `tool_choice: none`, text that looks like a call is content.
    let text = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
    let answer = chat(&says(text), &json!({"tools": [add()], "tool_choice": "none"})).await;
    assert_eq!(answer.content(), text);
}

#[tokio::test]
async fn content_with_a_shape_and_calls_are_alternatives() {
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {
        "type": "object", "properties": {"x": {"const": "<tool_call>"}}, "required": ["x"], "additionalProperties": false}}});
    let fields = json!({"tools": [add()], "response_format": format});
    let answer = chat(&says("{\"x\": \"<tool_call>\"}"), &fields).await;
    assert_eq!(answer.content(), "{\"x\": \"<tool_call>\"}");
    let answer =
        chat(&says("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2}}\n</tool_call>"), &fields)
            .await;
    let choice = answer.json()["choices"][0].clone();
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\": 2}");
}

#[tokio::test]
async fn reports_or_relaxes_an_unenforceable_schema() {
    let odd = json!({"type": "function", "function": {"name": "odd", "parameters": {
        "type": "object", "properties": {"x": {"type": "string", "pattern": "(a)\\1"}}}}});
    let fields =
        json!({"tools": [add(), odd], "tool_choice": {"type": "function", "function": {"name": "odd"}}});
    let both = json!({"tools": [add(), odd]});
    for fields in [&fields, &both] {
        let refused = chat(&says("Hi"), fields).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        let error = refused.json()["error"].clone();
        assert_eq!(error["param"], "tools[1].function.parameters");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with("tool `odd`: #/properties/x/pattern: "), "{message}");
    }
    let mut loose = fields.clone();
    loose["on_unsupported_schema"] = "json_object".into();
    let answer = chat(&says("Hi"), &loose).await.json();
    assert_eq!(answer["unsupported_schemas"], json!(["odd"]));
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "odd");
}

#[tokio::test]
async fn tools_and_results_are_in_the_prompt() {
    let template = std::sync::Arc::new(Lines::default());
    let model = formwork_server::ServedModel {
        template: template.clone(),
        ..served("m", start(says_in(CONTEXT, "4")))
    };
    let app = App::new(vec![model], formwork_server::ServerOptions::default()).unwrap();
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}});
    let messages = json!([
        {"role": "user", "content": "1 + 3?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
    ]);
    assert_eq!(chat(&app, &json!({"messages": messages, "tools": [add()]})).await.content(), "4");
    let prompt = template.last.lock().unwrap().clone();
    assert!(
        prompt.starts_with("system: You can call these functions:\n<tools>\n{\"type\":\"function\""),
        "{prompt}"
    );
    let calls = "user: 1 + 3?\nassistant: <tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\nuser: <tool_response>\n4\n</tool_response>\nassistant:";
    assert!(prompt.ends_with(calls), "{prompt}");
}

#[tokio::test]
async fn free_text_that_the_budget_ends_is_cut_off() {
    let app = says(
        "Well, what should I say? <tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>",
    );
    let choice = chat(&app, &json!({"tools": [add()], "max_tokens": 12})).await.json()["choices"][0].clone();
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("Well, what s"), &json!("length"))
    );
    assert_eq!(choice.get("closed_by_budget"), None);
    // A call is either completed within the budget or not started.
    for budget in 25..80 {
        let choice =
            chat(&app, &json!({"tools": [add()], "max_tokens": budget})).await.json()["choices"][0].clone();
        let called = choice["message"]["tool_calls"][0]["function"]["arguments"].clone();
        assert_eq!(
            choice["finish_reason"],
            if called.is_null() { "length" } else { "tool_calls" },
            "{choice}"
        );
        assert!(called.is_null() || called == "{\"a\": 1}", "{choice}");
    }
}

/// Creates a random request that varies all settings that shape an answer.
fn random_request(seed: u64) -> Value {
    let bit = |n: u64| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> n) & 3;
    let mut fields = json!({"seed": seed, "max_tokens": 40 + seed % 160, "n": 1 + u64::from(bit(8) == 0)});
    if bit(12) > 0 {
        fields["tools"] = json!([weather(), add()]);
        fields["tool_choice"] =
            [json!("auto"), json!("required"), json!("auto"), json!("none")][bit(16) as usize].clone();
        fields["parallel_tool_calls"] = (bit(20) > 1).into();
    }
    match bit(24) {
        0 => fields["response_format"] = json!({"type": "json_object"}),
        1 => {
            fields["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {
                "type": "object", "properties": {"é": {"type": "string"}, "b": {"type": "array", "items": {"type": "boolean"}}},
                "required": ["é"]}}});
        }
        _ => {}
    }
    if bit(28) > 1 {
        fields["stop"] = json!(["ab", "\u{e9}", "}}", "7"]);
    }
    if bit(32) == 0 {
        fields["on_budget"] = "length".into();
    }
    if bit(36) == 0 {
        (fields["logprobs"], fields["top_logprobs"]) = (true.into(), 2.into());
    }
    fields
}

/// Joins the deltas of a stream as official clients do.
fn joined(text: &str) -> Vec<Value> {
    let mut choices: Vec<Value> = Vec::new();
    for data in text.split_terminator("\n\n").filter_map(|event| event.strip_prefix("data: ")) {
        let Ok(event) = serde_json::from_str::<Value>(data) else { continue };
        for choice in event["choices"].as_array().unwrap() {
            let index = choice["index"].as_u64().unwrap() as usize;
            if choices.len() <= index {
                choices.resize(index + 1, json!({"index": index, "message": {}, "logprobs": null}));
                choices[index]["index"] = index.into();
            }
            let whole = &mut choices[index];
            add_delta(whole["message"].as_object_mut().unwrap(), &choice["delta"]);
            if let Some(tokens) = choice["logprobs"]["content"].as_array() {
                if whole["logprobs"].is_null() {
                    whole["logprobs"] = json!([]);
                }
                whole["logprobs"].as_array_mut().unwrap().extend(tokens.clone());
            }
            if !choice["finish_reason"].is_null() {
                assert!(whole.get("finish_reason").is_none(), "two ends");
                whole["finish_reason"] = choice["finish_reason"].clone();
            }
        }
    }
    choices
}

fn add_delta(message: &mut Map<String, Value>, delta: &Value) {
    for (name, value) in delta.as_object().unwrap() {
        match value {
            Value::String(text) => {
                let before = message.get(name).and_then(Value::as_str).unwrap_or_default();
                let text = format!("{before}{text}");
                message.insert(name.clone(), text.into());
            }
            Value::Array(calls) => {
                let whole = message.entry(name.as_str()).or_insert_with(|| json!([])).as_array_mut().unwrap();
                for call in calls {
                    let index = call["index"].as_u64().unwrap() as usize;
                    if call.get("id").is_some() {
                        assert_eq!(whole.len(), index, "calls open in order");
                        whole.push(json!({"name": call["function"]["name"], "arguments": ""}));
                    }
                    let before = whole[index]["arguments"].as_str().unwrap();
                    whole[index]["arguments"] =
                        format!("{before}{}", call["function"]["arguments"].as_str().unwrap()).into();
                }
            }
            // The content of an answer that does not start with text.
            Value::Null => assert!(name == "content" && message.get(name).is_none()),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn deltas_add_up_to_the_unstreamed_message() {
    let app = app(babbles(CONTEXT));
    let (mut called, mut shaped) = (0, 0);
    for seed in 0..500 {
        let mut fields = random_request(seed);
        let whole = chat(&app, &fields).await;
        fields["stream"] = true.into();
        let streamed = chat(&app, &fields).await;
        assert_eq!(whole.status, streamed.status, "{}", whole.text);
        if whole.status != StatusCode::OK {
            let message = whole.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.starts_with("a budget of"), "{message}");
            continue;
        }
        let streamed = joined(&streamed.text);
        for (choice, streamed) in whole.json()["choices"].as_array().unwrap().iter().zip(&streamed) {
            let message = &choice["message"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            assert_eq!(text(&message["content"]), text(&streamed["message"]["content"]), "{fields}");
            let calls: Vec<Value> = message["tool_calls"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|call| call["function"].clone())
                .collect();
            let streamed_calls = streamed["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
            assert_eq!(calls, streamed_calls, "{fields}");
            assert_eq!(choice["finish_reason"], streamed["finish_reason"], "{fields}");
            let logprobs = choice["logprobs"]["content"].as_array().cloned().unwrap_or_default();
            assert_eq!(logprobs, streamed["logprobs"].as_array().cloned().unwrap_or_default(), "{fields}");
            called += usize::from(!calls.is_empty());
            shaped += usize::from(fields.get("response_format").is_some());
        }
    }
    assert!(called > 60 && shaped > 100, "{called} called, {shaped} were shaped");
}
