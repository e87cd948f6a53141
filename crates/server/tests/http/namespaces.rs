//! Tools in namespaces, as Codex sends those of MCP servers.

use std::sync::Arc;

use formwork_server::{App, ServedModel, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{Native, get, says_in, served, start};
use crate::stored_responses::{LONG, id, ok, respond, stream};

fn app() -> App {
    let call = |name: &str, arguments: &str| {
        format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
    };
    let text =
        [call("mcp__tides__high", "{\"place\": \"Brest\"}"), call("mcp__tides__note", "{\"input\": \"x\"}")];
    let engine = start(says_in(LONG, text.concat().leak()));
    let model = ServedModel { template: Arc::new(Native), ..served("m", engine) };
    App::new(vec![model], ServerOptions::default()).expect("an app")
}

fn tides() -> Value {
    json!({"type": "namespace", "name": "mcp__tides", "description": "Tides of the sea.", "tools": [
        {"type": "function", "name": "high", "strict": false, "parameters":
            {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}},
        {"type": "custom", "name": "note"}]})
}

#[tokio::test]
async fn a_call_has_its_namespace_and_its_own_name() {
    let app = app();
    let body = json!({"input": "When is high tide?", "tools": [tides()]});
    let response = respond(&app, &body).await;
    let [high, note] = response["output"].as_array().unwrap().as_slice() else { panic!("{response}") };
    for (item, kind, name) in [(high, "function_call", "high"), (note, "custom_tool_call", "note")] {
        assert_eq!(
            (&item["type"], &item["name"], &item["namespace"]),
            (&json!(kind), &json!(name), &json!("mcp__tides"))
        );
    }
    assert_eq!((&high["arguments"], &note["input"]), (&json!("{\"place\": \"Brest\"}"), &json!("x")));
    assert_eq!(response["tools"], json!([tides()]));

    let events = stream(&app, &body).await;
    let added = events.iter().filter(|event| event["type"] == "response.output_item.added");
    let names: Vec<_> = added.map(|event| (&event["item"]["namespace"], &event["item"]["name"])).collect();
    assert_eq!(names, [(&json!("mcp__tides"), &json!("high")), (&json!("mcp__tides"), &json!("note"))]);
    let done = events.iter().find(|event| event["type"] == "response.function_call_arguments.done");
    assert_eq!(done.unwrap()["name"], "high");
}

#[tokio::test]
async fn tools_that_an_item_adds_stay_for_later_responses() {
    let app = app();
    let first = respond(
        &app,
        &json!({"input": [
        {"role": "user", "content": "When is high tide?"},
        {"type": "additional_tools", "role": "developer", "tools": [tides()]}]}),
    )
    .await;
    let call = &first["output"][0];
    assert_eq!((&call["namespace"], &call["name"]), (&json!("mcp__tides"), &json!("high")));
    let path = format!("/v1/responses/{}/input_items?order=asc", id(&first));
    let listed = ok(&get(&app, &path).await);
    let item = &listed["data"][1];
    assert!(id(item).starts_with("at_"), "{listed}");
    assert_eq!((&item["type"], &item["tools"]), (&json!("additional_tools"), &json!([tides()])));

    let results: Vec<Value> = first["output"].as_array().unwrap().iter().map(|call| {
        json!({"type": format!("{}_output", call["type"].as_str().unwrap()), "call_id": call["call_id"], "output": "noon"})
    }).collect();
    let second = respond(&app, &json!({"input": results, "previous_response_id": id(&first)})).await;
    assert_eq!(
        (&second["output"][0]["namespace"], &second["output"][0]["name"]),
        (&json!("mcp__tides"), &json!("high"))
    );
}
