//! Items of responses: lists of them, references to them, their tokens and log-probabilities.

use axum::http::StatusCode;
use formwork_server::{App, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{get, says, says_in, served, start};
use crate::stored_responses::{LONG, app, delete, id, ok, post, prompt, refusal, respond, stream};

#[tokio::test]
async fn input_items_are_listed_in_pages() {
    let (app, _) = app();
    let parts = json!([{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}]);
    let response = respond(&app, &json!({"input": [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": parts, "cache_control": {}},
        {"id": "rs_1", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"id": "msg_1", "role": "assistant", "content": "Well."},
        {"type": "item_reference", "id": "rs_unknown"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": {"a": 1}},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_image", "image_url": "x"}]},
    ]}))
    .await;
    let path = format!("/v1/responses/{}/input_items", id(&response));
    let list = async |query: &str| ok(&get(&app, &format!("{path}?{query}")).await);
    let all = list("order=asc&limit=100").await;
    let mut items = all["data"].clone();
    for (index, prefix) in ["msg_", "msg_", "rs_", "msg_", "fc_", "fco_"].into_iter().enumerate() {
        let id = id(&items[index]);
        assert!(id.starts_with(prefix) && id.len() > 30, "{id}");
        items[index].as_object_mut().unwrap().shift_remove("id");
    }
    assert_eq!(
        items,
        json!([
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}], "status": "completed"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}], "status": "completed"},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}], "status": "completed"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well.", "annotations": [], "logprobs": []}], "status": "completed"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}", "status": "completed"},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "[An image, which this model cannot see.]"}], "status": "completed"},
        ])
    );
    let ids = |list: &Value| -> Vec<String> {
        list["data"].as_array().unwrap().iter().map(|item| id(item).to_owned()).collect()
    };
    let expected = ids(&all);
    let newest_first = list("").await;
    assert_eq!(ids(&newest_first), expected.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!((&newest_first["object"], &newest_first["has_more"]), (&json!("list"), &json!(false)));
    let (mut found, mut after) = (vec![], String::new());
    loop {
        let page = list(&format!("order=asc&limit=2{after}")).await;
        assert_eq!((&page["first_id"], &page["last_id"]), (&page["data"][0]["id"], &page["data"][1]["id"]));
        found.extend(ids(&page));
        after = format!("&after={}", page["last_id"].as_str().unwrap());
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(found, expected);
    let end = list(&format!("order=asc{after}")).await;
    assert_eq!(end, json!({"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": false}));
    for (query, param) in
        [("order=x", "order"), ("limit=0", "limit"), ("limit=101", "limit"), ("after=x", "after")]
    {
        let answer = get(&app, &format!("{path}?{query}")).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["param"]),
            (StatusCode::BAD_REQUEST, &json!(param))
        );
    }
}

/// Returns the id of the first item of a response's input.
async fn first_input(app: &App, response: &Value) -> Value {
    let path = format!("/v1/responses/{}/input_items?order=asc", id(response));
    ok(&get(app, &path).await)["data"][0]["id"].clone()
}

#[tokio::test]
async fn clients_cannot_choose_the_ids_of_their_items() {
    let (app, template) = app();
    let planted = json!({"role": "user", "content": "Planted.", "id": "msg_known"});
    let first =
        respond(&app, &json!({"input": [planted], "include": ["message.output_text.logprobs"]})).await;
    let conversation = ok(&post(&app, "/v1/conversations", &json!({"items": [planted, planted]})).await);
    let items = ok(&get(&app, &format!("/v1/conversations/{}/items", id(&conversation))).await);
    assert_ne!(items["first_id"], items["last_id"]);
    let reference = json!({"input": [{"type": "item_reference", "id": "msg_known"}]});
    let (status, _, message) = refusal(&post(&app, "/v1/responses", &reference).await);
    assert_eq!(status, 400, "{message}");
    // An item that is sent again keeps its id. A changed one does not.
    let answer = first["output"][0].clone();
    assert_ne!(answer["content"][0]["logprobs"], json!([]));
    let again = respond(&app, &json!({"input": [answer, {"role": "user", "content": "Two?"}]})).await;
    assert_eq!(first_input(&app, &again).await, answer["id"]);
    let mut changed = answer.clone();
    changed["content"][0]["text"] = json!("No.");
    let other = respond(&app, &json!({"input": [changed, {"role": "user", "content": "Two?"}]})).await;
    assert_ne!(first_input(&app, &other).await, answer["id"]);
    let reference = json!({"type": "item_reference", "id": answer["id"]});
    respond(&app, &json!({"input": [reference, {"role": "user", "content": "Three?"}]})).await;
    assert_eq!(prompt(&template), "assistant: Yes.\nuser: Three?\nassistant:");
}

#[tokio::test]
async fn a_reference_names_any_stored_item() {
    let (app, template) = app();
    let first = respond(&app, &json!({"input": "One?"})).await;
    let mine = first_input(&app, &first).await;
    let reference = |id: &Value| json!({"type": "item_reference", "id": id});
    let input =
        json!([reference(&mine), reference(&first["output"][0]["id"]), {"role": "user", "content": "Two?"}]);
    let second = respond(&app, &json!({"input": input})).await;
    assert_eq!(prompt(&template), "user: One?\nassistant: Yes.\nuser: Two?\nassistant:");
    // The item is now part of the second response.
    ok(&delete(&app, &format!("/v1/responses/{}", id(&first))).await);
    let listed = ok(&get(&app, &format!("/v1/responses/{}/input_items?order=asc", id(&second))).await);
    assert_eq!((&listed["data"][0]["id"], &listed["data"][1]), (&mine, &first["output"][0]));
    respond(&app, &json!({"input": [reference(&mine)]})).await;
    assert_eq!(prompt(&template), "user: One?\nassistant:");
    let unknown = json!({"input": [reference(&json!("msg_other")), {"role": "user", "content": "Two?"}]});
    let (status, _, message) = refusal(&post(&app, "/v1/responses", &unknown).await);
    assert_eq!(
        (status, message.as_str()),
        (400, "`input[0].id`: unknown item `msg_other`; send the item itself")
    );
}

#[tokio::test]
async fn stored_items_of_a_request_are_bounded() {
    let options = ServerOptions { body_limit: 2000, ..ServerOptions::default() };
    let app = App::new(vec![served("m", start(says_in(LONG, "Yes.")))], options).unwrap();
    let first = respond(&app, &json!({"input": "x".repeat(800)})).await;
    let reference = json!({"type": "item_reference", "id": first_input(&app, &first).await});
    respond(&app, &json!({"input": [reference, reference]})).await;
    let body = json!({"input": [reference], "previous_response_id": id(&first)});
    let (status, _, message) = refusal(&post(&app, "/v1/responses", &body).await);
    assert_eq!(status, 400);
    assert!(message.starts_with("`input[0]`: stored items of 2"), "{message}");
    assert!(message.ends_with("bytes exceed the limit of 2000"), "{message}");
}

#[tokio::test]
async fn input_tokens_are_those_of_the_response() {
    let (app, _) = app();
    let first = respond(&app, &json!({"input": "One?"})).await;
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let tool = json!({"type": "function", "name": "f", "parameters": {"type": "object"}});
    for fields in [
        json!({}),
        json!({"instructions": "Be brief.", "previous_response_id": id(&first)}),
        json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": schema}}}),
        json!({"tools": [tool], "stream": false}),
    ] {
        let mut body = json!({"input": "Two?", "max_output_tokens": 40});
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let counted = ok(&post(&app, "/v1/responses/input_tokens", &body).await);
        let used = respond(&app, &body).await["usage"]["input_tokens"].clone();
        assert_eq!(counted, json!({"object": "response.input_tokens", "input_tokens": used}), "{fields}");
    }
    let answer = post(&app, "/v1/responses/input_tokens", &json!({"input": []})).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn log_probabilities_are_the_same_in_events() {
    let app = App::new(vec![served("m", start(says("Hé!")))], ServerOptions::default()).unwrap();
    let include = json!(["message.output_text.logprobs", "web_search_call.action.sources"]);
    for (fields, top) in [
        (json!({"include": include}), 0),
        (json!({"include": include, "top_logprobs": 2}), 2),
        (json!({"top_logprobs": 1}), 1),
    ] {
        let mut body = json!({"input": "One?"});
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let whole = respond(&app, &body).await;
        assert_eq!(whole["top_logprobs"], top);
        let logprobs = whole["output"][0]["content"][0]["logprobs"].as_array().unwrap();
        let tokens: Vec<&str> = logprobs.iter().map(|entry| entry["token"].as_str().unwrap()).collect();
        assert_eq!(tokens, ["H", "\u{fffd}", "\u{fffd}", "!"]);
        assert_eq!(logprobs[1]["bytes"], json!([195]));
        assert_eq!(logprobs[0]["logprob"], 0.0);
        assert!(logprobs.iter().all(|entry| entry["top_logprobs"].as_array().unwrap().len() == top));
        let events = stream(&app, &body).await;
        let of =
            |kind: &str| -> Vec<&Value> { events.iter().filter(|event| event["type"] == kind).collect() };
        let deltas: Vec<&Value> = of("response.output_text.delta")
            .into_iter()
            .flat_map(|event| event["logprobs"].as_array().unwrap())
            .collect();
        assert_eq!(deltas, logprobs.iter().collect::<Vec<_>>());
        assert_eq!(of("response.output_text.done")[0]["logprobs"], json!(logprobs));
        assert_eq!(of("response.content_part.done")[0]["part"]["logprobs"], json!(logprobs));
        assert_eq!(
            events.last().unwrap()["response"]["output"][0]["content"][0]["logprobs"],
            json!(logprobs)
        );
        // Log-probabilities of an answer add nothing to the next prompt.
        let next = json!({"input": "Two?", "previous_response_id": id(&whole)});
        assert_eq!(respond(&app, &next).await["output"][0]["content"][0]["logprobs"], json!([]));
    }
    let none = respond(
        &app,
        &json!({"input": "One?", "top_logprobs": 0, "include": ["reasoning.encrypted_content"]}),
    )
    .await;
    assert_eq!(none["output"][0]["content"][0]["logprobs"], json!([]));
    for (fields, param) in [
        (json!({"include": ["message.output_text.logprobs", "x"]}), "include[1]"),
        (json!({"include": ["message.input_image.image_url"]}), "include[0]"),
        (json!({"top_logprobs": 21}), "top_logprobs"),
    ] {
        let mut body = json!({"input": "One?"});
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = post(&app, "/v1/responses", &body).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["param"]),
            (StatusCode::BAD_REQUEST, &json!(param))
        );
    }
}
