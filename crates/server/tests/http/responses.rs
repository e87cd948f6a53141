//! `/v1/responses`: items of whole and streamed answers.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_lm::LanguageModel;
use formwork_server::{App, ServedModel, ServerOptions};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::fixture::{Answer, FailsAfter, Native, app, babbles, request, says, says_in, send, served, start};

const LONG: usize = 4000;

/// Creates an app with a template that supports tools and thoughts.
fn native(model: impl LanguageModel + 'static) -> App {
    let model = ServedModel { template: Arc::new(Native), ..served("m", start(model)) };
    App::new(vec![model], ServerOptions::default()).unwrap()
}

fn weather() -> Value {
    json!({"type": "function", "name": "weather", "parameters": {
        "type": "object", "properties": {"in": {"enum": ["Ulm", "Rom"]}}, "required": ["in"],
        "additionalProperties": false}})
}

async fn respond(app: &App, fields: &Value) -> Answer {
    let mut body = json!({"model": "m", "input": "Hi"});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    send(app, request(Method::POST, "/v1/responses", body.to_string())).await
}

async fn whole(app: &App, fields: &Value) -> Value {
    let answer = respond(app, fields).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    redacted(&answer.text)
}

/// Removes values that vary between calls.
fn redacted(text: &str) -> Value {
    let mut value: Value = serde_json::from_str(text).unwrap();
    redact(&mut value);
    value
}

fn redact(value: &mut Value) {
    const PREFIXES: [(&str, usize); 5] =
        [("resp_", 32), ("msg_", 32), ("rs_", 32), ("fc_", 32), ("call_", 24)];
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(redact);
            if let Some(created) = members.get_mut("created_at") {
                assert!(created.as_u64().unwrap() > 1_700_000_000);
                *created = 0.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::String(text) => {
            let known = PREFIXES.into_iter().find(|(prefix, len)| {
                let rest = text.strip_prefix(prefix);
                rest.is_some_and(|rest| rest.len() == *len && rest.bytes().all(|b| b.is_ascii_hexdigit()))
            });
            if let Some((prefix, _)) = known {
                *text = format!("{prefix}ID");
            }
        }
        _ => {}
    }
}

/// Returns the data of a stream's events, after checking their names and sequence numbers.
async fn stream(app: &App, fields: &Value) -> Vec<Value> {
    let mut fields = fields.clone();
    fields["stream"] = true.into();
    let answer = respond(app, &fields).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    let event = |(number, text): (usize, &str)| {
        let (name, data) = text.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data = redacted(data);
        assert_eq!((&data["type"], &data["sequence_number"]), (&json!(name), &json!(number)));
        data
    };
    answer.text.split_terminator("\n\n").enumerate().map(event).collect()
}

/// Formats events as lines. After the first event, omits the response fields that repeat the
/// request.
fn lines(mut events: Vec<Value>) -> String {
    for event in events.iter_mut().skip(1).filter(|event| event.get("response").is_some()) {
        let response = event["response"].as_object_mut().unwrap();
        response.retain(|name, _| {
            ["status", "error", "incomplete_details", "output", "usage", "closed_by_budget"]
                .contains(&name.as_str())
        });
    }
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    lines.join("\n")
}

fn output(response: &Value) -> String {
    lines(response["output"].as_array().unwrap().clone())
}

#[tokio::test]
async fn text() {
    let app = app(says("Hé!"));
    assert_snapshot!(whole(&app, &json!({"instructions": "Be brief.", "metadata": {"k": "v"}})).await, @r#"{"id":"resp_ID","object":"response","created_at":0,"status":"completed","error":null,"incomplete_details":null,"model":"m","output":[{"type":"message","id":"msg_ID","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hé!","annotations":[],"logprobs":[]}]}],"store":true,"usage":{"input_tokens":37,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":41},"instructions":"Be brief.","max_output_tokens":null,"metadata":{"k":"v"},"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,"top_logprobs":0,"truncation":"disabled","user":null}"#);
    assert_snapshot!(lines(stream(&app, &json!({})).await), @r#"
    {"type":"response.created","response":{"id":"resp_ID","object":"response","created_at":0,"status":"in_progress","error":null,"incomplete_details":null,"model":"m","output":[],"store":true,"usage":null,"instructions":null,"max_output_tokens":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,"top_logprobs":0,"truncation":"disabled","user":null},"sequence_number":0}
    {"type":"response.in_progress","response":{"status":"in_progress","error":null,"incomplete_details":null,"output":[],"usage":null},"sequence_number":1}
    {"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_ID","role":"assistant","status":"in_progress","content":[]},"sequence_number":2}
    {"type":"response.content_part.added","item_id":"msg_ID","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]},"sequence_number":3}
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":0,"content_index":0,"delta":"H","logprobs":[],"sequence_number":4}
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":0,"content_index":0,"delta":"é","logprobs":[],"sequence_number":5}
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":0,"content_index":0,"delta":"!","logprobs":[],"sequence_number":6}
    {"type":"response.output_text.done","item_id":"msg_ID","output_index":0,"content_index":0,"text":"Hé!","logprobs":[],"sequence_number":7}
    {"type":"response.content_part.done","item_id":"msg_ID","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Hé!","annotations":[],"logprobs":[]},"sequence_number":8}
    {"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_ID","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hé!","annotations":[],"logprobs":[]}]},"sequence_number":9}
    {"type":"response.completed","response":{"status":"completed","error":null,"incomplete_details":null,"output":[{"type":"message","id":"msg_ID","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hé!","annotations":[],"logprobs":[]}]}],"usage":{"input_tokens":19,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":23}},"sequence_number":10}
    "#);
}

#[tokio::test]
async fn a_call() {
    let app = native(says_in(
        LONG,
        "Wait.<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"in\": \"Ulm\"}}\n</tool_call>",
    ));
    let fields = json!({"tools": [weather()]});
    assert_snapshot!(output(&whole(&app, &fields).await), @r#"
    {"type":"message","id":"msg_ID","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Wait.","annotations":[],"logprobs":[]}]}
    {"type":"function_call","id":"fc_ID","call_id":"call_ID","name":"weather","arguments":"{\"in\": \"Ulm\"}","status":"completed"}
    "#);
    assert_snapshot!(lines(stream(&app, &fields).await), @r#"
    {"type":"response.created","response":{"id":"resp_ID","object":"response","created_at":0,"status":"in_progress","error":null,"incomplete_details":null,"model":"m","output":[],"store":true,"usage":null,"instructions":null,"max_output_tokens":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[{"type":"function","name":"weather","parameters":{"type":"object","properties":{"in":{"enum":["Ulm","Rom"]}},"required":["in"],"additionalProperties":false}}],"top_p":1.0,"top_logprobs":0,"truncation":"disabled","user":null},"sequence_number":0}
    {"type":"response.in_progress","response":{"status":"in_progress","error":null,"incomplete_details":null,"output":[],"usage":null},"sequence_number":1}
    {"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_ID","role":"assistant","status":"in_progress","content":[]},"sequence_number":2}
    {"type":"response.content_part.added","item_id":"msg_ID","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]},"sequence_number":3}
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":0,"content_index":0,"delta":"W","logprobs":[],"sequence_number":4}
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":0,"content_index":0,"delta":"a","logprobs":[],"sequence_number":5}
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":0,"content_index":0,"delta":"i","logprobs":[],"sequence_number":6}
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":0,"content_index":0,"delta":"t","logprobs":[],"sequence_number":7}
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":0,"content_index":0,"delta":".","logprobs":[],"sequence_number":8}
    {"type":"response.output_text.done","item_id":"msg_ID","output_index":0,"content_index":0,"text":"Wait.","logprobs":[],"sequence_number":9}
    {"type":"response.content_part.done","item_id":"msg_ID","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Wait.","annotations":[],"logprobs":[]},"sequence_number":10}
    {"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_ID","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Wait.","annotations":[],"logprobs":[]}]},"sequence_number":11}
    {"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_ID","call_id":"call_ID","name":"weather","arguments":"","status":"in_progress"},"sequence_number":12}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":"{","sequence_number":13}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":"\"","sequence_number":14}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":"i","sequence_number":15}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":"n","sequence_number":16}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":"\"","sequence_number":17}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":":","sequence_number":18}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":" ","sequence_number":19}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":"\"","sequence_number":20}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":"U","sequence_number":21}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":"l","sequence_number":22}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":"m","sequence_number":23}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":"\"","sequence_number":24}
    {"type":"response.function_call_arguments.delta","item_id":"fc_ID","output_index":1,"delta":"}","sequence_number":25}
    {"type":"response.function_call_arguments.done","item_id":"fc_ID","output_index":1,"name":"weather","arguments":"{\"in\": \"Ulm\"}","sequence_number":26}
    {"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_ID","call_id":"call_ID","name":"weather","arguments":"{\"in\": \"Ulm\"}","status":"completed"},"sequence_number":27}
    {"type":"response.completed","response":{"status":"completed","error":null,"incomplete_details":null,"output":[{"type":"message","id":"msg_ID","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Wait.","annotations":[],"logprobs":[]}]},{"type":"function_call","id":"fc_ID","call_id":"call_ID","name":"weather","arguments":"{\"in\": \"Ulm\"}","status":"completed"}],"usage":{"input_tokens":214,"input_tokens_details":{"cached_tokens":192,"cache_write_tokens":0},"output_tokens":77,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":291}},"sequence_number":28}
    "#);
}

#[tokio::test]
async fn thoughts() {
    let app = native(says("<think>\nHm.\n</think>\n\nHi"));
    assert_snapshot!(output(&whole(&app, &json!({})).await), @r#"
    {"type":"reasoning","id":"rs_ID","summary":[],"content":[{"type":"reasoning_text","text":"\nHm.\n"}],"status":"completed"}
    {"type":"message","id":"msg_ID","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]}
    "#);
    assert_snapshot!(lines(stream(&app, &json!({})).await), @r#"
    {"type":"response.created","response":{"id":"resp_ID","object":"response","created_at":0,"status":"in_progress","error":null,"incomplete_details":null,"model":"m","output":[],"store":true,"usage":null,"instructions":null,"max_output_tokens":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,"top_logprobs":0,"truncation":"disabled","user":null},"sequence_number":0}
    {"type":"response.in_progress","response":{"status":"in_progress","error":null,"incomplete_details":null,"output":[],"usage":null},"sequence_number":1}
    {"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_ID","summary":[],"content":[],"status":"in_progress"},"sequence_number":2}
    {"type":"response.content_part.added","item_id":"rs_ID","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":""},"sequence_number":3}
    {"type":"response.reasoning_text.delta","item_id":"rs_ID","output_index":0,"content_index":0,"delta":"\n","sequence_number":4}
    {"type":"response.reasoning_text.delta","item_id":"rs_ID","output_index":0,"content_index":0,"delta":"H","sequence_number":5}
    {"type":"response.reasoning_text.delta","item_id":"rs_ID","output_index":0,"content_index":0,"delta":"m","sequence_number":6}
    {"type":"response.reasoning_text.delta","item_id":"rs_ID","output_index":0,"content_index":0,"delta":".","sequence_number":7}
    {"type":"response.reasoning_text.delta","item_id":"rs_ID","output_index":0,"content_index":0,"delta":"\n","sequence_number":8}
    {"type":"response.reasoning_text.done","item_id":"rs_ID","output_index":0,"content_index":0,"text":"\nHm.\n","sequence_number":9}
    {"type":"response.content_part.done","item_id":"rs_ID","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":"\nHm.\n"},"sequence_number":10}
    {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_ID","summary":[],"content":[{"type":"reasoning_text","text":"\nHm.\n"}],"status":"completed"},"sequence_number":11}
    {"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_ID","role":"assistant","status":"in_progress","content":[]},"sequence_number":12}
    {"type":"response.content_part.added","item_id":"msg_ID","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]},"sequence_number":13}
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":1,"content_index":0,"delta":"H","logprobs":[],"sequence_number":14}
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":1,"content_index":0,"delta":"i","logprobs":[],"sequence_number":15}
    {"type":"response.output_text.done","item_id":"msg_ID","output_index":1,"content_index":0,"text":"Hi","logprobs":[],"sequence_number":16}
    {"type":"response.content_part.done","item_id":"msg_ID","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]},"sequence_number":17}
    {"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_ID","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]},"sequence_number":18}
    {"type":"response.completed","response":{"status":"completed","error":null,"incomplete_details":null,"output":[{"type":"reasoning","id":"rs_ID","summary":[],"content":[{"type":"reasoning_text","text":"\nHm.\n"}],"status":"completed"},{"type":"message","id":"msg_ID","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]}],"usage":{"input_tokens":18,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":24,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":42}},"sequence_number":19}
    "#);
}

#[tokio::test]
async fn an_output_that_is_cut_off() {
    let app = app(says("[1, 1, 1, 1, 1, 1, 1, 1]"));
    let schema = json!({"type": "array", "items": {"const": 1}});
    let fields = json!({
        "text": {"format": {"type": "json_schema", "name": "n", "schema": schema}}, "schema_in_prompt": false,
        "max_output_tokens": 5, "on_budget": "length",
    });
    let answer = whole(&app, &fields).await;
    assert_eq!(answer["status"], "incomplete");
    assert_snapshot!(output(&answer), @r#"{"type":"message","id":"msg_ID","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"[1, 1","annotations":[],"logprobs":[]}]}"#);
    let events = stream(&app, &fields).await;
    assert_snapshot!(lines(events[events.len() - 4..].to_vec()), @r#"
    {"type":"response.output_text.done","item_id":"msg_ID","output_index":0,"content_index":0,"text":"[1, 1","logprobs":[],"sequence_number":9}
    {"type":"response.content_part.done","item_id":"msg_ID","output_index":0,"content_index":0,"part":{"type":"output_text","text":"[1, 1","annotations":[],"logprobs":[]},"sequence_number":10}
    {"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_ID","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"[1, 1","annotations":[],"logprobs":[]}]},"sequence_number":11}
    {"type":"response.incomplete","response":{"status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","id":"msg_ID","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"[1, 1","annotations":[],"logprobs":[]}]}],"usage":{"input_tokens":19,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":24}},"sequence_number":12}
    "#);
    let mut closed = fields;
    closed["on_budget"] = "close".into();
    let answer = whole(&app, &closed).await;
    assert_eq!((&answer["status"], &answer["closed_by_budget"]), (&json!("completed"), &json!(true)));
    assert_eq!(answer["output"][0]["content"][0]["text"], "[1]");
}

#[tokio::test]
async fn a_stream_that_fails() {
    let fails = || app(FailsAfter { inner: says("Hello"), left: 2 });
    let events = stream(&fails(), &json!({})).await;
    assert_snapshot!(lines(events[4..].to_vec()), @r#"
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":0,"content_index":0,"delta":"H","logprobs":[],"sequence_number":4}
    {"type":"response.output_text.delta","item_id":"msg_ID","output_index":0,"content_index":0,"delta":"e","logprobs":[],"sequence_number":5}
    {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"the generation failed: the forward pass failed"},"incomplete_details":null,"output":[],"usage":null},"sequence_number":6}
    "#);
    let answer = respond(&fails(), &json!({})).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn reports_unenforceable_schemas() {
    let odd = json!({"type": "function", "name": "odd", "parameters": {
        "type": "object", "properties": {"x": {"type": "string", "pattern": "(a)\\1"}}}});
    let app = native(says_in(LONG, "Hi"));
    let refused = respond(&app, &json!({"tools": [odd]})).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.json()["error"]["param"].as_str().unwrap().starts_with("tools[0].parameters"));
    let fields = json!({"tools": [odd], "on_unsupported_schema": "json_object"});
    assert_eq!(whole(&app, &fields).await["unsupported_schemas"], json!(["odd"]));
    let events = stream(&app, &fields).await;
    assert_eq!(events.last().unwrap()["response"]["unsupported_schemas"], json!(["odd"]));
}

/// Joins the deltas of a stream for each item.
fn joined(events: &[Value]) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for event in events {
        let index = || event["output_index"].as_u64().unwrap() as usize;
        match event["type"].as_str().unwrap() {
            "response.output_item.added" => {
                assert_eq!(index(), items.len());
                items.push(String::new());
            }
            kind if kind.rsplit('.').next() == Some("delta") => {
                items[index()] += event["delta"].as_str().unwrap();
            }
            _ => {}
        }
    }
    items
}

fn texts(response: &Value) -> Vec<String> {
    let text = |item: &Value| {
        let text =
            if item["type"] == "function_call" { &item["arguments"] } else { &item["content"][0]["text"] };
        text.as_str().unwrap().to_owned()
    };
    response["output"].as_array().unwrap().iter().map(text).collect()
}

#[tokio::test]
async fn events_add_up_to_the_whole() {
    let app = native(babbles(LONG));
    let mut called = 0;
    for seed in 0..60 {
        let mut fields = json!({
            "seed": seed, "max_output_tokens": 80 + seed, "tools": [weather()],
            "on_budget": if seed % 3 == 0 { "length" } else { "close" },
            "tool_choice": if seed % 2 == 0 { "auto" } else { "required" },
        });
        if seed % 5 == 0 {
            fields["text"] = json!({"format": {"type": "json_object"}});
        }
        let response = whole(&app, &fields).await;
        let events = stream(&app, &fields).await;
        assert_eq!(joined(&events), texts(&response), "{fields}");
        let mut last = events.last().unwrap()["response"].clone();
        // The prompt is cached only for the second request.
        last["usage"]["input_tokens_details"] = response["usage"]["input_tokens_details"].clone();
        assert_eq!(last, response);
        called += usize::from(response["output"].to_string().contains("function_call"));
    }
    assert!(called > 20, "{called}");
}
