//! Ollama's API: chats and prompts.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_lm::LanguageModel;
use formwork_server::{App, ServedModel, ServerOptions};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::fixture::{
    Answer, FailsAfter, Lines, Native, app, babbles, request, says, says_in, send, served, start,
};

const LONG: usize = 4000;
const CALLS: &str = "Sure.<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"in\": \"Ulm\"}}\n</tool_call>\
                     <tool_call>\n{\"name\": \"weather\", \"arguments\": {\"in\": \"Rom\"}}\n</tool_call>";

/// Creates an app with a template that supports tools and thoughts.
fn native(model: impl LanguageModel + 'static) -> App {
    let model = ServedModel { template: Arc::new(Native), ..served("m", start(model)) };
    App::new(vec![model], ServerOptions::default()).unwrap()
}

fn weather() -> Value {
    json!({"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"in": {"enum": ["Ulm", "Rom"]}}, "required": ["in"],
        "additionalProperties": false}}})
}

pub(crate) async fn post(app: &App, path: &str, fields: &Value) -> Answer {
    let mut body = fields.clone();
    body["model"] = "m".into();
    send(app, request(Method::POST, path, body.to_string())).await
}

/// Sends a request, which is a chat unless it has a prompt.
async fn ask(app: &App, fields: &Value) -> Answer {
    if fields.get("prompt").is_some() {
        return post(app, "/api/generate", fields).await;
    }
    let mut body = fields.clone();
    if body.get("messages").is_none() {
        body["messages"] = json!([{"role": "user", "content": "Hi"}]);
    }
    post(app, "/api/chat", &body).await
}

/// Returns the whole reply, without values that vary between calls.
async fn whole(app: &App, fields: &Value) -> Value {
    let mut body = fields.clone();
    body["stream"] = false.into();
    let answer = ask(app, &body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "application/json");
    redacted(&answer.text)
}

/// Returns the lines of a streamed reply, without values that vary between calls.
async fn stream(app: &App, fields: &Value) -> Vec<Value> {
    let answer = ask(app, fields).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    assert!(answer.text.ends_with('\n'));
    answer.text.lines().map(redacted).collect()
}

/// Removes values that vary between calls.
fn redacted(text: &str) -> Value {
    let mut reply: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    if reply.get("error").is_some() {
        return reply;
    }
    let created = reply["created_at"].as_str().unwrap();
    assert!(created.starts_with("20") && created.ends_with('Z') && created.len() == 30, "{created}");
    reply["created_at"] = "NOW".into();
    for name in ["total_duration", "load_duration", "prompt_eval_duration", "eval_duration"] {
        if let Some(time) = reply.get_mut(name) {
            assert!(time.is_u64());
            *time = 0.into();
        }
    }
    for call in reply.pointer_mut("/message/tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        assert!(call["id"].as_str().unwrap().starts_with("call_"));
        call["id"] = "ID".into();
    }
    reply
}

fn lines(replies: &[Value]) -> String {
    let lines: Vec<String> = replies.iter().map(Value::to_string).collect();
    lines.join("\n")
}

async fn refused(app: &App, fields: &Value) -> String {
    let answer = ask(app, fields).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{fields}: {}", answer.text);
    let error = answer.json()["error"].clone();
    error["message"].as_str().or(error.as_str()).unwrap().to_owned()
}

#[tokio::test]
async fn chats_are_streamed_by_default() {
    let app = app(says("Ho"));
    assert_snapshot!(lines(&stream(&app, &json!({})).await), @r#"
    {"model":"m","created_at":"NOW","message":{"role":"assistant","content":"H"},"done":false}
    {"model":"m","created_at":"NOW","message":{"role":"assistant","content":"o"},"done":false}
    {"model":"m","created_at":"NOW","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":0,"load_duration":0,"prompt_eval_count":19,"prompt_eval_duration":0,"eval_count":2,"eval_duration":0}
    "#);
    assert_snapshot!(whole(&app, &json!({})).await, @r#"{"model":"m","created_at":"NOW","message":{"role":"assistant","content":"Ho"},"done":true,"done_reason":"stop","total_duration":0,"load_duration":0,"prompt_eval_count":19,"prompt_eval_duration":0,"eval_count":2,"eval_duration":0}"#);
    let cut = whole(&app, &json!({"options": {"num_predict": 1}})).await;
    assert_eq!((&cut["message"]["content"], &cut["done_reason"]), (&json!("H"), &json!("length")));
    let latest = json!({"model": "m:latest", "messages": [{"role": "user", "content": "Hi"}]}).to_string();
    assert_eq!(send(&app, request(Method::POST, "/api/chat/", latest)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn log_probabilities_come_with_the_text() {
    let fields = json!({"logprobs": true, "top_logprobs": 1});
    let reply = whole(&app(says("Ho")), &fields).await;
    assert_eq!(reply["logprobs"][0]["token"], "H");
    assert_eq!(reply["logprobs"][1]["top_logprobs"][0]["token"], "o");
    let replies = stream(&app(says("Ho")), &fields).await;
    assert_eq!(replies[1]["logprobs"], json!([reply["logprobs"][1]]));
    assert_eq!(replies[2].get("logprobs"), None);
}

#[tokio::test]
async fn a_stream_sends_each_call_as_a_whole() {
    let app = native(says_in(LONG, CALLS));
    let fields = json!({"tools": [weather()]});
    assert_snapshot!(whole(&app, &fields).await, @r#"{"model":"m","created_at":"NOW","message":{"role":"assistant","content":"Sure.","tool_calls":[{"id":"ID","function":{"index":0,"name":"weather","arguments":{"in":"Ulm"}}},{"id":"ID","function":{"index":1,"name":"weather","arguments":{"in":"Rom"}}}]},"done":true,"done_reason":"stop","total_duration":0,"load_duration":0,"prompt_eval_count":214,"prompt_eval_duration":0,"eval_count":149,"eval_duration":0}"#);
    let replies = stream(&app, &fields).await;
    let calls: Vec<&Value> =
        replies.iter().filter_map(|reply| reply.pointer("/message/tool_calls")).collect();
    assert_eq!(calls.len(), 2);
    for (index, city) in ["Ulm", "Rom"].into_iter().enumerate() {
        let function = json!({"index": index, "name": "weather", "arguments": {"in": city}});
        assert_eq!(*calls[index], json!([{"id": "ID", "function": function}]));
    }
    let end = replies.last().unwrap();
    assert_eq!((&end["done"], &end["done_reason"]), (&json!(true), &json!("stop")));
}

#[tokio::test]
async fn calls_and_results_are_sent_back_as_objects() {
    let template = Arc::new(Lines::default());
    let model = ServedModel { template: template.clone(), ..served("m", start(says_in(LONG, "Rain."))) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let messages = json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "weather", "arguments": {"in": "Ulm"}}}]},
        {"role": "tool", "tool_name": "weather", "content": "Rain"},
    ]);
    let reply = whole(&app, &json!({"messages": messages, "tools": [weather()]})).await;
    assert_eq!(reply["message"]["content"], "Rain.");
    let prompt = template.last.lock().unwrap().clone();
    assert!(prompt.contains(r#"{"name": "weather", "arguments": {"in":"Ulm"}}"#), "{prompt}");
    assert!(prompt.contains("user: <tool_response>\nRain\n</tool_response>"), "{prompt}");
}

#[tokio::test]
async fn a_call_that_the_limit_cuts_off_is_left_out() {
    let app = native(says_in(LONG, CALLS));
    let fields = json!({"tools": [weather()], "options": {"num_predict": 130, "on_budget": "length"}});
    let reply = whole(&app, &fields).await;
    assert_eq!(reply["done_reason"], "length");
    assert_eq!(reply["message"]["tool_calls"].as_array().unwrap().len(), 1);
    let replies = stream(&app, &fields).await;
    let calls = replies.iter().filter(|reply| reply.pointer("/message/tool_calls").is_some());
    assert_eq!(calls.count(), 1);
    assert_eq!(replies.last().unwrap()["done_reason"], "length");
}

#[tokio::test]
async fn formats_are_enforced() {
    let app = native(babbles(LONG));
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 99, "minimum": 0}},
                        "required": ["n"], "additionalProperties": false});
    for seed in 0..8 {
        let options = json!({"seed": seed, "num_predict": 60, "temperature": 1, "top_k": 0, "top_p": 1});
        for fields in [json!({"format": schema}), json!({"format": schema, "prompt": "Hi"})] {
            let mut body = fields;
            body["options"] = options.clone();
            let reply = whole(&app, &body).await;
            let text = reply.pointer("/message/content").unwrap_or(&reply["response"]).as_str().unwrap();
            let n: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!((0..=99).contains(&n["n"].as_i64().unwrap()), "{text}");
        }
        let raw = json!({"format": "json", "prompt": "Hi", "raw": true, "options": options});
        let text = whole(&app, &raw).await["response"].as_str().unwrap().to_owned();
        assert!(serde_json::from_str::<Value>(&text).unwrap().is_object(), "{text}");
        // Content has the format, or the answer calls tools.
        let both = json!({"format": schema, "tools": [weather()], "options": options});
        let message = whole(&app, &both).await["message"].clone();
        let has_calls = message.get("tool_calls").is_some();
        assert!(has_calls || serde_json::from_str::<Value>(message["content"].as_str().unwrap()).is_ok());
    }
}

#[tokio::test]
async fn thoughts_have_a_field_of_their_own() {
    let app = native(says_in(LONG, "<think>Hm.</think>Hi"));
    let reply = whole(&app, &json!({"think": true})).await;
    assert_eq!(reply["message"], json!({"role": "assistant", "content": "Hi", "thinking": "Hm."}));
    let reply = whole(&app, &json!({"prompt": "Hi"})).await;
    assert_eq!((&reply["response"], &reply["thinking"]), (&json!("Hi"), &json!("Hm.")));
    let replies = stream(&app, &json!({})).await;
    let thoughts: String = replies.iter().filter_map(|reply| reply["message"]["thinking"].as_str()).collect();
    assert_eq!(thoughts, "Hm.");
}

#[tokio::test]
async fn think_sets_variables_of_the_template() {
    let template = Arc::new(Lines::default());
    let model = ServedModel { template: template.clone(), ..served("m", start(says("Ho"))) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    for (think, lines) in [
        (json!(false), "enable_thinking=false\n"),
        (json!("high"), "enable_thinking=true\nreasoning_effort=\"high\"\n"),
        (Value::Null, ""),
    ] {
        whole(&app, &json!({"think": think})).await;
        assert_eq!(*template.last.lock().unwrap(), format!("{lines}user: Hi\nassistant:"));
    }
}

#[tokio::test]
async fn a_prompt_is_a_chat_or_raw() {
    let template = Arc::new(Lines::default());
    let model = ServedModel { template: template.clone(), ..served("m", start(says("Ho<think>"))) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    assert_snapshot!(lines(&stream(&app, &json!({"prompt": "Hi", "system": "Be kind."})).await[8..]), @r#"
    {"model":"m","created_at":"NOW","response":">","done":false}
    {"model":"m","created_at":"NOW","response":"","done":true,"done_reason":"stop","total_duration":0,"load_duration":0,"prompt_eval_count":36,"prompt_eval_duration":0,"eval_count":9,"eval_duration":0}
    "#);
    assert_eq!(*template.last.lock().unwrap(), "system: Be kind.\nuser: Hi\nassistant:");
    let raw = whole(&app, &json!({"prompt": "raw assistant:", "raw": true, "logprobs": true})).await;
    assert_eq!((&raw["response"], &raw["prompt_eval_count"]), (&json!("Ho<think>"), &json!(14)));
    assert_eq!(raw["logprobs"].as_array().unwrap().len(), 9);
    let long = json!({"prompt": "assistant:", "raw": true});
    let app = crate::fixture::app(says("A text of more than sixteen tokens."));
    assert_eq!(whole(&app, &long).await["response"], "A text of more than sixteen tokens.");
    let text: String =
        stream(&app, &long).await.iter().filter_map(|reply| reply["response"].as_str()).collect();
    assert_eq!(text, "A text of more than sixteen tokens.");
}

#[tokio::test]
async fn requests_without_text_load_the_model() {
    let app = app(says("Ho"));
    assert_snapshot!(redacted(&post(&app, "/api/chat", &json!({})).await.text), @r#"{"model":"m","created_at":"NOW","message":{"role":"assistant","content":""},"done":true,"done_reason":"load"}"#);
    assert_snapshot!(redacted(&post(&app, "/api/generate", &json!({"keep_alive": 0})).await.text), @r#"{"model":"m","created_at":"NOW","response":"","done":true,"done_reason":"unload"}"#);
    let unknown = request(Method::POST, "/api/generate", json!({"model": "x"}).to_string());
    assert_eq!(send(&app, unknown).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn refused_fields_are_named() {
    let app = app(says("Ho"));
    for (fields, message) in [
        (json!({"options": {"mirostat": 2}}), "`options.mirostat`: only 0 is supported here"),
        (
            json!({"options": {"temperature": -1}}),
            "`options.temperature`: -1 is out of range; expected 0..=10",
        ),
        (
            json!({"prompt": "a", "suffix": "b"}),
            "`suffix`: this model's vocabulary has no tokens for filling in text",
        ),
        (
            json!({"format": {"type": "strnig"}}),
            "`format`: #/type: `type`: unknown type `strnig`; expected string, number, integer, boolean, object, array or \
             null (did you mean `string`?)",
        ),
    ] {
        assert_eq!(refused(&app, &fields).await, message);
    }
    let answer = ask(&app, &json!({"keep_alive": "5m", "options": {"num_ctx": 8}, "truncate": true})).await;
    assert_eq!(answer.headers["x-formwork-ignored"], "options.num_ctx, truncate, keep_alive");
}

#[tokio::test]
async fn an_error_in_a_stream_is_a_line() {
    let replies = stream(&app(FailsAfter { inner: says("Hello"), left: 2 }), &json!({})).await;
    let error = json!({"error": "the generation failed: the forward pass failed"});
    assert_eq!(replies.last(), Some(&error));
    assert_eq!(replies.len(), 3);
}

#[tokio::test]
async fn unenforceable_schemas_are_reported() {
    let odd = json!({"type": "function", "function": {"name": "odd", "parameters": {
        "type": "object", "properties": {"x": {"type": "string", "pattern": "(a)\\1"}}}}});
    let app = native(says_in(LONG, "Hi"));
    refused(&app, &json!({"tools": [odd]})).await;
    let fields = json!({"tools": [odd], "on_unsupported_schema": "json_object"});
    assert_eq!(whole(&app, &fields).await["unsupported_schemas"], json!(["odd"]));
    assert_eq!(stream(&app, &fields).await.last().unwrap()["unsupported_schemas"], json!(["odd"]));
    let closed = json!({"format": {"type": "array", "items": {"const": 1}}, "schema_in_prompt": false,
                        "options": {"num_predict": 5}});
    let reply = whole(&crate::fixture::app(says("[1, 1, 1, 1, 1]")), &closed).await;
    assert_eq!((&reply["message"]["content"], &reply["closed_by_budget"]), (&json!("[1]"), &json!(true)));
}

#[tokio::test]
async fn parts_add_up_to_the_whole() {
    let app = native(babbles(LONG));
    let mut called = 0;
    for seed in 0..30 {
        let fields = json!({"tools": [weather()], "tool_choice": if seed % 2 == 0 { "auto" } else { "required" },
            "options": {"seed": seed, "num_predict": 90 + seed, "top_k": 0, "top_p": 1, "temperature": 1,
                        "on_budget": if seed % 3 == 0 { "length" } else { "close" }}});
        let reply = whole(&app, &fields).await;
        let replies = stream(&app, &fields).await;
        let texts = |name: &str| -> String {
            replies.iter().filter_map(|reply| reply["message"][name].as_str()).collect()
        };
        assert_eq!(texts("content"), reply["message"]["content"]);
        assert_eq!(texts("thinking"), reply["message"]["thinking"].as_str().unwrap_or_default());
        let calls: Vec<Value> = replies
            .iter()
            .filter_map(|reply| reply.pointer("/message/tool_calls").and_then(Value::as_array))
            .flatten()
            .cloned()
            .collect();
        assert_eq!(json!(calls), *reply.pointer("/message/tool_calls").unwrap_or(&json!([])));
        assert_eq!(replies.last().unwrap()["eval_count"], reply["eval_count"]);
        called += calls.len();
    }
    assert!(called > 10, "{called}");
}
