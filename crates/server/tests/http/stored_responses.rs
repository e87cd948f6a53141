//! Stored responses: chains, retrieval, deletion and bounds.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_server::{App, ServedModel, ServerOptions, StoreLimits};
use serde_json::{Value, json};

use crate::fixture::{Answer, FailsAfter, Lines, Native, get, request, says, says_in, send, served, start};

pub(crate) const LONG: usize = 4000;

/// Creates an app whose model says `Yes.`, with a template that remembers the last prompt.
pub(crate) fn with_limits(responses_store: StoreLimits) -> (App, Arc<Lines>) {
    let template = Arc::new(Lines::default());
    let model =
        ServedModel { template: Arc::clone(&template) as _, ..served("m", start(says_in(LONG, "Yes."))) };
    let options = ServerOptions { responses_store, ..ServerOptions::default() };
    (App::new(vec![model], options).unwrap(), template)
}

pub(crate) fn app() -> (App, Arc<Lines>) {
    with_limits(StoreLimits::default())
}

pub(crate) fn prompt(template: &Lines) -> String {
    template.last.lock().unwrap().clone()
}

pub(crate) async fn post(app: &App, path: &str, body: &Value) -> Answer {
    send(app, request(Method::POST, path, body.to_string())).await
}

pub(crate) async fn delete(app: &App, path: &str) -> Answer {
    send(app, request(Method::DELETE, path, "")).await
}

pub(crate) fn ok(answer: &Answer) -> Value {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

pub(crate) async fn respond(app: &App, body: &Value) -> Value {
    ok(&post(app, "/v1/responses", body).await)
}

/// Streams a response, and returns its events.
pub(crate) async fn stream(app: &App, body: &Value) -> Vec<Value> {
    let mut body = body.clone();
    body["stream"] = true.into();
    let answer = post(app, "/v1/responses", &body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let data = |event: &str| serde_json::from_str(event.split_once("\ndata: ").unwrap().1).unwrap();
    answer.text.split_terminator("\n\n").map(data).collect()
}

pub(crate) fn id(object: &Value) -> &str {
    object["id"].as_str().unwrap()
}

/// Returns the status, code and message of an error.
pub(crate) fn refusal(answer: &Answer) -> (u16, Value, String) {
    let error = &answer.json()["error"];
    assert_eq!(error["type"], "invalid_request_error");
    (answer.status.as_u16(), error["code"].clone(), error["message"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_chain_has_the_turns_before_it() {
    let (app, template) = app();
    let first = json!({"input": "One?", "instructions": "Be brief."});
    for streamed in [false, true] {
        let first = if streamed {
            stream(&app, &first).await.pop().unwrap()["response"].clone()
        } else {
            respond(&app, &first).await
        };
        assert_eq!((&first["store"], &first["previous_response_id"]), (&json!(true), &Value::Null));
        let body = json!({"input": "Two?", "previous_response_id": id(&first)});
        let second = respond(&app, &body).await;
        assert_eq!(second["previous_response_id"], id(&first));
        // Instructions hold for one response only.
        assert_eq!(prompt(&template), "user: One?\nassistant: Yes.\nuser: Two?\nassistant:");
        assert_eq!(second["usage"]["input_tokens"], prompt(&template).len());
        let body = json!({"input": "Three?", "previous_response_id": id(&second), "truncation": "auto",
            "client_metadata": {"a": "b"}, "instructions": "Be kind."});
        let third = respond(&app, &body).await;
        assert!(prompt(&template).starts_with("system: Be kind.\nuser: One?\nassistant: Yes.\nuser: Two?"));
        assert_eq!(third["usage"]["input_tokens_details"]["cache_write_tokens"], 0);
        // A chain can branch.
        respond(&app, &json!({"input": "Else?", "previous_response_id": id(&first)})).await;
        assert_eq!(prompt(&template), "user: One?\nassistant: Yes.\nuser: Else?\nassistant:");
    }
}

#[tokio::test]
async fn a_tool_result_continues_its_call() {
    let call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>";
    let model = ServedModel { template: Arc::new(Native), ..served("m", start(says_in(LONG, call))) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let tools = json!([{"type": "function", "name": "weather"}]);
    let first = respond(&app, &json!({"input": "Rain?", "tools": tools})).await;
    let called = &first["output"][0];
    let result = json!({"type": "function_call_output", "call_id": called["call_id"], "output": "Rain."});
    let body = json!({"input": [result], "previous_response_id": id(&first), "tools": tools});
    let second = respond(&app, &body).await;
    let listed = ok(&get(&app, &format!("/v1/responses/{}/input_items?order=asc", id(&second))).await);
    let kinds: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "function_call", "function_call_output"]);
    assert_eq!(&listed["data"][1], called);
    assert_eq!(
        (&listed["data"][2]["output"], &listed["data"][2]["status"]),
        (&json!("Rain."), &json!("completed"))
    );
    assert!(id(&listed["data"][2]).starts_with("fco_"));
}

#[tokio::test]
async fn a_response_is_retrieved_and_deleted() {
    let (app, _) = app();
    let body = json!({"input": "One?", "metadata": {"k": "v"}, "temperature": 0.5});
    let whole = respond(&app, &body).await;
    let path = format!("/v1/responses/{}", id(&whole));
    assert_eq!(ok(&get(&app, &path).await), whole);
    assert_eq!(ok(&get(&app, &format!("{}/", &path[3..])).await), whole);
    let mut streamed = stream(&app, &body).await;
    let streamed = streamed.pop().unwrap()["response"].take();
    assert_eq!(ok(&get(&app, &format!("/v1/responses/{}", id(&streamed))).await), streamed);
    // A response that was cut off is stored too.
    let cut_off = respond(&app, &json!({"input": "One?", "max_output_tokens": 2})).await;
    assert_eq!((&cut_off["status"], &cut_off["store"]), (&json!("incomplete"), &json!(true)));
    assert_eq!(ok(&get(&app, &format!("/v1/responses/{}", id(&cut_off))).await), cut_off);

    let (status, code, message) = refusal(&get(&app, &format!("{path}?stream=true")).await);
    assert_eq!((status, code), (400, Value::Null), "{message}");
    let (status, code, message) = refusal(&post(&app, &format!("{path}/cancel"), &json!({})).await);
    assert_eq!((status, code), (400, Value::Null));
    assert!(
        message.ends_with("is complete; only a response in the background can be cancelled"),
        "{message}"
    );

    let continued = respond(&app, &json!({"input": "Two?", "previous_response_id": id(&whole)})).await;
    let deleted = ok(&delete(&app, &path).await);
    assert_eq!(deleted, json!({"id": id(&whole), "object": "response", "deleted": true}));
    for answer in [
        get(&app, &path).await,
        get(&app, &format!("{path}/input_items")).await,
        delete(&app, &path).await,
        post(&app, &format!("{path}/cancel"), &json!({})).await,
    ] {
        let (status, code, message) = refusal(&answer);
        assert_eq!((status, code), (404, json!("response_not_found")), "{message}");
        assert!(message.starts_with(&format!("unknown response `{}`", id(&whole))), "{message}");
    }
    let again = json!({"input": "Two?", "previous_response_id": id(&whole)});
    let answer = post(&app, "/v1/responses", &again).await;
    let (status, code, _) = refusal(&answer);
    assert_eq!((status, code), (400, json!("previous_response_not_found")));
    assert_eq!(answer.json()["error"]["param"], "previous_response_id");
    // A response that continues the deleted one keeps its items.
    let listed = ok(&get(&app, &format!("/v1/responses/{}/input_items", id(&continued))).await);
    assert_eq!(listed["data"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_deeply_nested_response_is_retrieved() {
    let (app, _) = app();
    let nested = (0..200).fold(json!("deep"), |inner, _| json!([inner]));
    let whole = respond(&app, &json!({"input": "One?", "metadata": {"k": nested}})).await;
    assert_eq!(whole["metadata"]["k"], nested);
    assert_eq!(ok(&get(&app, &format!("/v1/responses/{}", id(&whole))).await), whole);
}

#[tokio::test]
async fn a_response_may_not_be_stored() {
    let (app, template) = app();
    let kept = respond(&app, &json!({"input": "One?"})).await;
    let body = json!({"input": "Two?", "store": false, "previous_response_id": id(&kept)});
    let whole = respond(&app, &body).await;
    assert_eq!(whole["store"], false);
    assert!(prompt(&template).contains("One?"));
    let events = stream(&app, &body).await;
    let last = &events.last().unwrap()["response"];
    for response in [&whole, last, &events[0]["response"]] {
        assert_eq!(response["store"], false);
        assert_eq!(get(&app, &format!("/v1/responses/{}", id(response))).await.status, StatusCode::NOT_FOUND);
    }
    let fails = FailsAfter { inner: says("Hello"), left: 2 };
    let failing = App::new(vec![served("m", start(fails))], ServerOptions::default()).unwrap();
    let events = stream(&failing, &json!({"input": "One?"})).await;
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed");
    let answer = get(&failing, &format!("/v1/responses/{}", id(&last["response"]))).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_unread_stream_is_not_stored() {
    let (app, _) = with_limits(StoreLimits { entries: 1, ..StoreLimits::default() });
    let kept = respond(&app, &json!({"input": "One?"})).await;
    let body = json!({"input": "Two?", "stream": true}).to_string();
    let router = formwork_server::router(app.clone());
    let answer =
        tower::ServiceExt::oneshot(router, request(Method::POST, "/v1/responses", body)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    drop(answer);
    // The only place still has the first response.
    ok(&get(&app, &format!("/v1/responses/{}", id(&kept))).await);
}

#[tokio::test]
async fn the_oldest_responses_make_room() {
    let (app, template) = with_limits(StoreLimits { entries: 2, ..StoreLimits::default() });
    let mut ids = vec![];
    for text in ["One?", "Two?", "Three?"] {
        let body = json!({"input": text, "previous_response_id": ids.last()});
        ids.push(id(&respond(&app, &body).await).to_owned());
    }
    let mut statuses = vec![];
    for id in &ids {
        statuses.push(get(&app, &format!("/v1/responses/{id}")).await.status.as_u16());
    }
    assert_eq!(statuses, [404, 200, 200]);
    // A chain keeps the turns of responses that made room.
    respond(&app, &json!({"input": "Four?", "previous_response_id": ids[2]})).await;
    assert!(prompt(&template).starts_with("user: One?\nassistant: Yes.\nuser: Two?"));

    let (app, _) = with_limits(StoreLimits { bytes: 3000, ..StoreLimits::default() });
    let small = respond(&app, &json!({"input": "One?"})).await;
    // A response that could never fit is not stored, and removes nothing.
    let large = stream(&app, &json!({"input": "x".repeat(3000)})).await;
    let stored = |event: &Value| event["response"]["store"].clone();
    assert_eq!((stored(&large[0]), stored(large.last().unwrap())), (json!(true), json!(false)));
    let path = format!("/v1/responses/{}", id(&small));
    ok(&get(&app, &path).await);
    respond(&app, &json!({"input": "x".repeat(1000)})).await;
    assert_eq!(get(&app, &path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_store_can_be_off() {
    let (app, _) = with_limits(StoreLimits { entries: 0, ..StoreLimits::default() });
    let response = respond(&app, &json!({"input": "One?", "store": true})).await;
    assert_eq!(response["store"], false);
    for (field, value) in
        [("previous_response_id", response["id"].clone()), ("conversation", json!({"id": "conv_1"}))]
    {
        let (status, code, message) =
            refusal(&post(&app, "/v1/responses", &json!({"input": "Two?", field: value})).await);
        assert_eq!((status, code), (400, Value::Null));
        assert_eq!(message, format!("`{field}`: nothing is stored here; send the earlier items in `input`"));
    }
    let (status, code, _) = refusal(&post(&app, "/v1/conversations", &json!({})).await);
    assert_eq!((status, code), (400, json!("store_disabled")));
}
