//! The field `mask_view` of chats and completions.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::fixture::{Answer, app, chat, request, says, send, varied};

fn fields(mask_view: &Value) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "team": { "enum": ["billing", "bugs", "sales"] },
            "tags": { "type": "array", "items": { "enum": ["a", 1, 12] }, "maxItems": 3 },
            "note": { "type": "object", "properties": { "té/xt": { "type": "string", "maxLength": 4 } } }
        },
        "required": ["team", "tags", "note"]
    });
    json!({
        "response_format": { "type": "json_schema", "json_schema": { "name": "s", "schema": schema } },
        "mask_view": mask_view, "seed": 5, "temperature": 0.9, "max_tokens": 300, "schema_in_prompt": false
    })
}

fn views(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()["choices"][0]["mask_view"].as_array().expect("views").clone()
}

/// Checks the views of all tokens of a JSON text.
fn check(views: &[Value], content: &str, top: usize) {
    let whole: Value = serde_json::from_str(content).expect("JSON");
    let mut at = 0;
    for view in views {
        let number = |name: &str| view[name].as_f64().unwrap_or_else(|| panic!("{name}: {view}"));
        let offset = |name: &str| view[name].as_u64().expect("an offset") as usize;
        let bytes: Vec<u8> = serde_json::from_value(view["bytes"].clone()).expect("bytes");
        assert_eq!((offset("start"), &content.as_bytes()[at..offset("end")]), (at, &bytes[..]), "{view}");
        at = offset("end");
        let (allowed, origin) = (view["allowed"].as_u64().expect("a count"), view["origin"].as_str());
        assert_eq!(origin == Some("only_token"), allowed == 1, "{view}");
        assert!((0.0..=1.0).contains(&number("probability")) && number("removed") > 0.0, "{view}");
        let likeliest = view["top"].as_array().expect("a list");
        assert_eq!(likeliest.len(), top);
        let forbidden = likeliest.iter().filter(|token| token["allowed"] == false);
        let forbidden: f64 = forbidden.map(|token| token["probability"].as_f64().expect("a number")).sum();
        assert!(forbidden <= number("removed") + 1e-9, "{view}");
        let path = view["path"].as_str().expect("a pointer");
        assert!(whole.pointer(path).is_some(), "{path} in {content}");
    }
    assert_eq!(at, content.len());
}

#[tokio::test]
async fn each_token_has_its_view_and_stays_the_same() {
    let app = app(varied(3000));
    let without = chat(&app, &fields(&json!(false))).await;
    assert!(without.json()["choices"][0].get("mask_view").is_none());
    for (given, top) in [(json!(true), 5), (json!({}), 5), (json!({ "top": 0 }), 0), (json!({ "top": 3 }), 3)]
    {
        let with = chat(&app, &fields(&given)).await;
        assert_eq!(with.content(), without.content());
        assert_eq!(with.json()["usage"], without.json()["usage"]);
        let views = views(&with);
        check(&views, &with.content(), top);
        let paths: Vec<&str> = views.iter().filter_map(|view| view["path"].as_str()).collect();
        for path in ["", "/team", "/tags", "/note"] {
            assert!(paths.contains(&path), "{path}: {paths:?}");
        }
    }
}

#[tokio::test]
async fn a_stream_has_the_views_of_its_new_tokens() {
    let app = app(varied(3000));
    let whole = chat(&app, &fields(&json!({ "top": 2 }))).await;
    let mut streamed = fields(&json!({ "top": 2 }));
    streamed["stream"] = json!(true);
    let (mut content, mut given) = (String::new(), Vec::new());
    for line in chat(&app, &streamed).await.text.lines() {
        let Some(data) = line.strip_prefix("data: ").filter(|data| *data != "[DONE]") else { continue };
        let event: Value = serde_json::from_str(data).expect("JSON");
        let choice = &event["choices"][0];
        content.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        given.extend(choice["mask_view"].as_array().cloned().unwrap_or_default());
        let end = given.last().map_or(0, |view: &Value| view["end"].as_u64().expect("an offset"));
        assert!(end as usize >= content.len());
    }
    assert_eq!((content, given), (whole.content(), views(&whole)));
}

#[tokio::test]
async fn text_without_a_constraint_has_no_masks() {
    let app = app(says("Hello"));
    let views = views(&chat(&app, &json!({ "mask_view": true })).await);
    assert_eq!(views.len(), 5);
    for view in views {
        assert_eq!(
            (&view["allowed"], &view["path"], &view["removed"]),
            (&json!(null), &json!(null), &json!(0.0))
        );
        assert_eq!(view["top"][0]["token"], view["token"]);
    }
}

#[tokio::test]
async fn completions_have_the_views_too() {
    let app = app(says("Hello"));
    let mut body = json!({
        "model": "m", "prompt": "assistant:", "guided_choice": ["Hello", "no"], "mask_view": { "top": 1 }, "echo": true
    });
    let answer = send(&app, request(Method::POST, "/v1/completions", body.to_string())).await;
    let views = views(&answer);
    let origins: Vec<&str> = views.iter().filter_map(|view| view["origin"].as_str()).collect();
    assert_eq!(origins, ["sampled", "only_token", "only_token", "only_token", "only_token"]);
    assert_eq!(
        (&views[0]["allowed"], &views[0]["start"], &views[4]["end"]),
        (&json!(2), &json!(0), &json!(5))
    );
    body["stream"] = json!(true);
    let text = send(&app, request(Method::POST, "/v1/completions", body.to_string())).await.text;
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let event =
        |data: &str| serde_json::from_str::<Value>(data).expect("JSON")["choices"][0]["mask_view"].clone();
    let given: Vec<Value> =
        data.flat_map(|data| event(data).as_array().cloned().unwrap_or_default()).collect();
    assert_eq!(given, views);
}

#[tokio::test]
async fn tokens_of_a_grammar_have_its_rules() {
    let app = app(says("12+3"));
    let grammar = "root ::= number (\"+\" number)*\nnumber ::= [0-9]+";
    let seen = |views: &[Value]| -> Vec<Value> { views.iter().map(|view| view["rules"].clone()).collect() };
    let expected = [json!(["number"]), json!(["number"]), json!(["root"]), json!(["number"])];
    let answer = chat(&app, &json!({ "grammar": grammar, "mask_view": true, "n": 2 })).await;
    for choice in answer.json()["choices"].as_array().expect("choices") {
        let views = choice["mask_view"].as_array().expect("views");
        assert_eq!(seen(views), expected);
        assert!(views.iter().all(|view| view["path"].is_null()));
    }
    let body = json!({ "model": "m", "prompt": "assistant:", "grammar": grammar, "mask_view": true });
    let answer = send(&app, request(Method::POST, "/v1/completions", body.to_string())).await;
    assert_eq!(seen(&views(&answer)), expected);
}

#[tokio::test]
async fn a_fault_is_named() {
    let app = app(says("Hello"));
    for (given, param, part) in [
        (json!(3), "mask_view", "object"),
        (json!({ "top": 21 }), "mask_view.top", "0..=20"),
        (json!({ "top": "x" }), "mask_view.top", "integer"),
        (json!({ "tip": 1 }), "mask_view.tip", "tip"),
    ] {
        let answer = chat(&app, &json!({ "mask_view": given })).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{given}");
        let error = answer.json()["error"].clone();
        assert_eq!(error["param"], param, "{error}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(part)), "{error}");
    }
}
