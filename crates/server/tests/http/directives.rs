use axum::http::{Method, StatusCode};
use formwork_protocol::PromptRunner;
use formwork_protocol::directives::{
    Definition, Mode, Registry, RunRequest, Runner, StructuredOutputOptions,
};
use formwork_server::{App, LocalBackend, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{
    self, Answer, FailsAfter, app, babbles, request, says, says_in, send, served, start, varied,
};

async fn ask(app: &App, fields: &Value) -> Answer {
    send(app, request(Method::POST, "/v1/directives", fixture::ask(fields).to_string())).await
}

async fn ok(app: &App, fields: &Value) -> Value {
    let answer = ask(app, fields).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

/// Returns the status, the field and the message of an error.
async fn refused(app: &App, fields: &Value) -> (StatusCode, String, String) {
    let answer = ask(app, fields).await;
    let error = answer.json()["error"].clone();
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (answer.status, text("param"), text("message"))
}

fn registry() -> Value {
    let toast = json!({
        "type": "object",
        "properties": { "message": { "type": "string", "maxLength": 12 }, "level": { "$ref": "#/$defs/level" } },
        "required": ["message", "level"],
        "additionalProperties": false,
        "$defs": { "level": { "enum": ["info", "error"] } },
    });
    let form = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": { "form_id": { "$ref": "#/definitions/id" } },
        "required": ["form_id"],
        "definitions": { "id": { "type": "string", "pattern": "^[a-z]{2,6}_v[0-9]$" } },
    });
    json!({ "definitions": [
        { "type": "ui.toast", "payload_schema": toast, "aliases": ["toast"] },
        { "type": "ui.show_form", "payload_schema": form },
        { "type": "ui.close" },
    ] })
}

#[tokio::test]
async fn reads_directives_of_the_model() {
    let app = app(says_in(
        4000,
        r#"{"assistant_text": "Hi", "directives": [{"type": "ui.toast", "payload": {"message": "Saved", "level": "info"}}]}"#,
    ));
    let mut result = ok(&app, &json!({ "registry": registry() })).await;
    result["attempts"][0]["latency_ms"] = json!(0);
    insta::assert_snapshot!(format!("{result:#}"));
    let with_plans = ok(&app, &json!({ "registry": registry(), "include_plans": true })).await;
    let plan = &with_plans["attempts"][0]["plan"];
    assert_eq!(plan["messages"][1], json!({ "role": "user", "content": "Hi" }));
    assert_eq!(plan["options"]["response_format"]["type"], "json_schema");
}

#[tokio::test]
async fn whatever_the_model_likes_the_envelope_and_its_payloads_are_valid() {
    let app = app(babbles(8000));
    let mut kinds = std::collections::BTreeMap::new();
    for seed in 0..40 {
        let fields = json!({ "registry": registry(), "seed": seed, "max_tokens": 400, "modes": ["json_schema"], "repair_retries": 0 });
        let result = ok(&app, &fields).await;
        assert_eq!((&result["ok"], &result["mode"]), (&json!(true), &json!("json_schema")), "{result:#}");
        // A random model continues until its budget closes the output, so this warning is expected.
        let warnings = result["warnings"].as_array().unwrap();
        assert!(warnings.iter().all(|warning| warning["code"] == "CLOSED_BY_BUDGET"), "{result:#}");
        for directive in result["directives"].as_array().unwrap() {
            *kinds.entry(directive["type"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
    }
    assert_eq!(kinds.len(), 3, "{kinds:?}");
}

#[tokio::test]
async fn classifies_output_without_a_schema() {
    let app = app(says_in(
        4000,
        r#"Sure! {"assistant_text": "Done", "directives": [{"type": "Toast", "payload": {"message": "a", "level": "loud"}}, {"type": "ui-close", "payload": {}}]} Bye"#,
    ));
    let fields = json!({ "registry": registry(), "modes": ["prompt_only"] });
    let result = ok(&app, &fields).await;
    assert_eq!((&result["ok"], &result["mode"]), (&json!(true), &json!("prompt_only")));
    assert_eq!(result["directives"], json!([{ "type": "ui.close", "payload": {} }]));
    let warning = &result["warnings"][0];
    assert_eq!(
        (&warning["code"], &warning["index"], &warning["type"]),
        (&json!("PAYLOAD_SCHEMA"), &json!(0), &json!("ui.toast"))
    );
    let options = json!({ "type_aliases": { "Toast": "ui.close" }, "allowed_types": ["ui.close"] });
    let mut fields = fields;
    fields.as_object_mut().unwrap().extend(options.as_object().cloned().unwrap());
    let result = ok(&app, &fields).await;
    assert_eq!(result["directives"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn returns_a_result_if_a_required_type_is_missing() {
    let app = app(says_in(8000, r#"{"assistant_text": "No.", "directives": []}"#));
    let fields = json!({ "registry": registry(), "require": ["ui.show_form"], "modes": ["json_object", "prompt_only"] });
    let result = ok(&app, &fields).await;
    assert_eq!(
        (&result["ok"], &result["mode"], &result["assistant_text"]),
        (&json!(false), &Value::Null, &json!("No."))
    );
    let kinds: Vec<_> = result["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| (attempt["mode"].clone(), attempt["kind"].clone()))
        .collect();
    let expected = [
        ("json_object", "first"),
        ("json_object", "semantic_repair"),
        ("prompt_only", "first"),
        ("prompt_only", "semantic_repair"),
    ];
    assert_eq!(kinds, expected.map(|(mode, kind)| (json!(mode), json!(kind))));
    assert!(result["errors"].as_array().unwrap().iter().all(|error| error["code"] == "REQUIREMENT_NOT_MET"));
}

#[tokio::test]
async fn reports_the_place_of_an_invalid_field() {
    let app = app(says_in(4000, ""));
    let definitions = |definitions: Value| json!({ "registry": { "definitions": definitions } });
    for (fields, param, told) in [
        (
            definitions(json!([{ "type": "a" }, { "type": "a" }])),
            "registry.definitions[1].type",
            "`registry.definitions[1].type`: `a` is already defined",
        ),
        (
            definitions(json!([{ "type": "a", "payload_schema": { "type": "array" } }])),
            "registry.definitions[0].payload_schema",
            "a payload schema must be an object",
        ),
        (
            definitions(
                json!([{ "type": "a", "payload_schema": { "properties": { "b": { "type": "text" } } } }]),
            ),
            "registry.definitions[0].payload_schema",
            "/properties/b/type",
        ),
        (
            definitions(
                json!([{ "type": "a" }, { "type": "b", "payload_schema": { "$ref": "https://example.com/x" } }]),
            ),
            "registry.definitions[1].payload_schema",
            "$ref",
        ),
        (
            json!({ "registry": registry(), "allowed_types": ["toast"] }),
            "allowed_types[0]",
            "unknown type `toast`; expected a type of the registry",
        ),
        (
            json!({ "registry": registry(), "require": ["x"] }),
            "require[0]",
            "unknown type `x`; expected a type of the registry",
        ),
        (
            json!({ "registry": registry(), "allowed_types": ["ui.toast"], "require": ["ui.close"] }),
            "require[0]",
            "type `ui.close` is required but not allowed",
        ),
        (
            json!({ "registry": registry(), "type_aliases": { "x": "y" } }),
            "type_aliases.x",
            "unknown type `y`; expected a type of the registry",
        ),
        (json!({ "schema_name": "a b" }), "schema_name", "expected 1 to 64 letters"),
        (json!({ "response_format": { "type": "text" } }), "response_format", "set by directives"),
        (json!({ "max_tokens": 3 }), "max_tokens", "tokens"),
        (json!({ "stop": [1] }), "stop[0]", "expected a string"),
    ] {
        let (status, given, message) = refused(&app, &fields).await;
        assert_eq!((status, given.as_str()), (StatusCode::BAD_REQUEST, param), "{fields}: {message}");
        assert!(message.contains(told), "{message}");
    }
    // A payload schema that cannot be enforced is rejected.
    let open = json!({ "registry": { "definitions": [{ "type": "a", "payload_schema": { "pattern": "(x)\\1" } }] } });
    assert_eq!(refused(&app, &open).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn other_errors_match_those_of_chat() {
    let lost = ask(&app(says("")), &json!({ "model": "other" })).await;
    assert_eq!(
        (lost.status, &lost.json()["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("model_not_found"))
    );
    let narrow = ask(&app(says("")), &json!({ "registry": registry() })).await;
    assert_eq!(narrow.status, StatusCode::BAD_REQUEST);
    assert_eq!(narrow.json()["error"]["code"], "context_length_exceeded");
    let broken = App::new(
        vec![served("m", start(FailsAfter { inner: says_in(4000, "x"), left: 0 }))],
        ServerOptions::default(),
    );
    let failed = ask(&broken.unwrap(), &json!({})).await;
    assert_eq!(failed.status, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn requires_an_api_key() {
    let options = ServerOptions { api_keys: vec!["secret".to_owned()], ..ServerOptions::default() };
    let app = App::new(vec![served("m", start(says("")))], options).unwrap();
    assert_eq!(ask(&app, &json!({})).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn the_local_engine_is_a_backend() {
    let app = app(babbles(8000));
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 1, "maximum": 3 } }, "required": ["n"], "additionalProperties": false });
    let definition = Definition { payload_schema: Some(schema), ..Definition::new("x.count") };
    let registry = Registry::new(vec![definition]).unwrap();
    let runner = Runner::new(PromptRunner::new(std::sync::Arc::new(LocalBackend::new(app)), "m"));
    let mut request = RunRequest::new("Count.", StructuredOutputOptions::new(registry));
    let mut count = 0;
    for seed in 0..20 {
        request.overrides = json!({ "seed": seed, "max_tokens": 300 }).as_object().cloned().unwrap();
        let result = runner.run_once(&request, Mode::JsonSchema).await.unwrap();
        assert!(result.ok, "{result:?}");
        assert!(result.warnings.iter().all(|warning| warning.code == "CLOSED_BY_BUDGET"), "{result:?}");
        count += result.directives.len();
    }
    assert!(count > 0);
}

#[tokio::test]
async fn whatever_the_model_likes_it_writes_what_is_required() {
    let app = app(babbles(8000));
    for (require, count) in [
        (json!(["ui.show_form"]), "at least one"),
        (json!([{ "type": "ui.show_form", "max": 1 }, "ui.toast"]), "exactly one"),
    ] {
        for seed in 0..12 {
            let fields = json!({ "registry": registry(), "seed": seed, "max_tokens": 400, "require": require, "max_text_length": 12, "repair_retries": 0 });
            let result = ok(&app, &fields).await;
            assert_eq!((&result["ok"], &result["mode"]), (&json!(true), &json!("json_schema")), "{result:#}");
            assert_eq!(result["attempts"].as_array().unwrap().len(), 1);
            assert!(result["assistant_text"].as_str().unwrap().chars().count() <= 12);
            let directives = result["directives"].as_array().unwrap();
            let forms = directives.iter().filter(|directive| directive["type"] == "ui.show_form").count();
            assert!(forms == 1 || (forms > 1 && count == "at least one"), "{result:#}");
        }
    }
}

#[tokio::test]
async fn the_only_mode_of_the_engine_is_json_schema() {
    let app = app(says_in(8000, r#"{"assistant_text": "Hi", "directives": []}"#));
    let result = ok(&app, &json!({ "registry": registry(), "max_bytes": 5 })).await;
    let modes: Vec<_> = result["attempts"].as_array().unwrap().iter().map(|at| at["mode"].clone()).collect();
    assert_eq!(modes, ["json_schema", "json_schema"]);
    let result = ok(&app, &json!({ "registry": registry(), "max_bytes": 5, "max_requests": 1 })).await;
    assert_eq!(result["attempts"].as_array().map(Vec::len), Some(1));
    assert_eq!(result["errors"][1]["code"], "REQUEST_LIMIT");
}

/// Returns the names and the data of the events in a stream.
fn events(text: &str) -> Vec<(String, Value)> {
    let event = |event: &str| {
        let (name, data) = event.split_once('\n').unwrap();
        let data = data.strip_prefix("data: ").unwrap();
        (name.strip_prefix("event: ").unwrap().to_owned(), serde_json::from_str(data).unwrap())
    };
    text.split_terminator("\n\n").filter(|event| !event.starts_with(':')).map(event).collect()
}

#[tokio::test]
async fn streams_the_text_the_directives_and_the_result() {
    let app = app(says_in(
        4000,
        r#"{"assistant_text": "Hi \"you\"", "directives": [{"type": "ui.close", "payload": {}}, {"type": "ui.toast", "payload": {"message": "Saved", "level": "info"}}]}"#,
    ));
    let fields = json!({ "registry": registry(), "stream": true });
    let answer = ask(&app, &fields).await;
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    let events = events(&answer.text);
    assert_eq!(events[0], ("attempt".to_owned(), json!({ "mode": "json_schema", "kind": "first" })));
    let text =
        events.iter().filter(|(name, _)| name == "text").map(|(_, data)| data["delta"].as_str().unwrap());
    assert_eq!(text.collect::<String>(), "Hi \"you\"");
    let directives: Vec<_> =
        events.iter().filter(|(name, _)| name == "directive").map(|(_, data)| data).collect();
    assert_eq!(
        directives,
        [
            &json!({ "index": 0, "type": "ui.close", "payload": {} }),
            &json!({ "index": 1, "type": "ui.toast", "payload": { "message": "Saved", "level": "info" } }),
        ]
    );
    let (name, mut result) = events.last().unwrap().clone();
    assert_eq!(name, "result");
    let mut whole = ok(&app, &json!({ "registry": registry() })).await;
    for result in [&mut result, &mut whole] {
        result["attempts"][0]["latency_ms"] = json!(0);
        // The second run finds the prompt of the first in the cache.
        result["attempts"][0]["usage"]["prompt_tokens_details"] = json!(null);
    }
    assert_eq!(result, whole, "the result is the same as without streaming");
}

#[tokio::test]
async fn an_error_after_the_beginning_of_a_stream_is_an_event() {
    let broken = App::new(
        vec![served("m", start(FailsAfter { inner: says_in(4000, "x"), left: 0 }))],
        ServerOptions::default(),
    );
    let answer = ask(&broken.unwrap(), &json!({ "stream": true })).await;
    assert_eq!(answer.status, StatusCode::OK);
    let events = events(&answer.text);
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["attempt", "error"]);
    assert_eq!(events[1].1["error"]["type"], "server_error");
    let lost = ask(&app(says("")), &json!({ "model": "other", "stream": true })).await;
    assert_eq!(lost.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_decision_narrows_the_types() {
    let fields = json!({ "registry": registry(), "type_by_decision": true, "include_plans": true });
    let result = ok(&app(varied(4000)), &fields).await;
    let decision = &result["type_decision"];
    let probabilities = decision["probabilities"].as_array().unwrap();
    let sum: f64 = probabilities.iter().map(|of| of["probability"].as_f64().unwrap()).sum();
    assert!(probabilities.len() == 3 && (sum - 1.0).abs() < 1e-12, "{decision}");
    let kind = decision["type"].as_str().unwrap();
    let format = result["attempts"][0]["plan"]["options"]["response_format"].to_string();
    for name in ["ui.toast", "ui.show_form", "ui.close"] {
        assert_eq!(format.contains(name), name == kind, "{format}");
    }
}

#[tokio::test]
async fn parses_a_text_without_a_model() {
    let app = app(says(""));
    let parse = async |fields: &Value| {
        send(&app, request(Method::POST, "/v1/directives/parse", fields.to_string())).await
    };
    let text = r#"<think>{}</think> ```json
{"assistant_text": "Done", "directives": [{"type": "Toast", "payload": {"message": "a", "level": "info"}}, {"type": "no", "payload": {}}]}
```"#;
    let result =
        parse(&json!({ "text": text, "registry": registry(), "require": ["ui.toast"] })).await.json();
    assert_eq!(
        (&result["ok"], &result["mode"], &result["attempts"]),
        (&json!(true), &Value::Null, &json!([]))
    );
    assert_eq!(result["directives"][0]["type"], "ui.toast");
    assert_eq!(result["warnings"][0]["code"], "UNKNOWN_TYPE");
    let result =
        parse(&json!({ "text": text, "registry": registry(), "require": ["ui.close"] })).await.json();
    assert_eq!((&result["ok"], &result["errors"][0]["code"]), (&json!(false), &json!("REQUIREMENT_NOT_MET")));
    let result = parse(&json!({ "text": "Sorry, no." })).await.json();
    assert_eq!(
        (&result["assistant_text"], &result["errors"][0]["code"]),
        (&json!("Sorry, no."), &json!("NO_JSON"))
    );
    let answer = parse(&json!({ "text": "", "registry": { "definitions": [{ "type": "" }] } })).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}
