//! Requests that name a provider of the configuration.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use formwork_server::{App, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{self, Answer, app, request, says_in, send};
use crate::upstream::{Reply, Upstream};

const SAVED: &str =
    r#"{"assistant_text": "Saved.", "directives": [{"type": "toast", "payload": {"message": "Saved"}}]}"#;

async fn ask(app: &App, fields: &Value) -> Answer {
    let mut fields = fields.clone();
    fields["registry"] = json!({ "definitions": [{ "type": "ui.toast", "aliases": ["toast"] }] });
    send(app, request(Method::POST, "/v1/directives", fixture::ask(&fields).to_string())).await
}

#[tokio::test]
async fn the_ladder_runs_over_a_provider() {
    let replies =
        vec![Reply::fails(400, "no json_schema"), Reply::fails(422, "no json_object"), Reply::Says(SAVED)];
    let upstream = Upstream::start(replies).await;
    let app = upstream.app(
        "api_key_env = \"KEY\"\nheaders = { X-Title = \"Test\" }\npreset = \"openrouter\"\nllm_options_defaults = { top_p = 0.5, seed = 1 }",
    );
    let fields =
        json!({ "provider": "up", "temperature": 0.25, "request_overrides": { "top_a": 0.1, "seed": 2 } });
    let answer = ask(&app, &fields).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let result = answer.json();
    assert_eq!((&result["ok"], &result["mode"]), (&json!(true), &json!("prompt_only")));
    assert_eq!(result["directives"], json!([{ "type": "ui.toast", "payload": { "message": "Saved" } }]));
    let codes: Vec<_> =
        result["attempts"].as_array().unwrap().iter().map(|at| &at["error"]["code"]).collect();
    assert_eq!(codes, [&json!("UNSUPPORTED_MODE"), &json!("UNSUPPORTED_MODE"), &Value::Null]);
    let asked = upstream.asked();
    let formats: Vec<_> = asked.iter().map(|body| &body["response_format"]["type"]).collect();
    assert_eq!(formats, [&json!("json_schema"), &json!("json_object"), &Value::Null]);
    // The preset of the provider, its defaults and the fields of the request.
    assert_eq!(asked[0]["provider"], json!({ "require_parameters": true }));
    assert_eq!(asked[2]["provider"], json!({ "require_parameters": false }));
    for (name, value) in [("model", json!("m")), ("temperature", json!(0.25)), ("top_p", json!(0.5))] {
        assert_eq!(asked[0][name], value, "{name}");
    }
    assert_eq!((&asked[0]["top_a"], &asked[0]["seed"]), (&json!(0.1), &json!(2)));
    assert!(asked[0].get("request_overrides").is_none() && asked[0].get("registry").is_none());
    let headers = upstream.headers();
    assert!(headers["authorization"] == "Bearer secret" && headers["x-title"] == "Test");
}

#[tokio::test]
async fn a_model_of_a_provider_has_its_sampling_profile() {
    let upstream = Upstream::start(vec![Reply::Says(SAVED), Reply::Says(SAVED)]).await;
    let app = upstream.app(
        "[models.mine]\nprovider = \"up\"\nmodel = \"m\"\nprofile = \"warm\"\n[sampling_profiles.warm]\ntemperature = 0.9\ntop_p = 0.8",
    );
    for fields in [json!({ "provider": "up" }), json!({ "provider": "up", "temperature": 0.25 })] {
        let answer = ask(&app, &fields).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    }
    let sampling = upstream
        .asked()
        .iter()
        .map(|body| (body["temperature"].clone(), body["top_p"].clone()))
        .collect::<Vec<_>>();
    assert_eq!(sampling, [(json!(0.9), json!(0.8)), (json!(0.25), json!(0.8))]);
}

#[tokio::test]
async fn messages_to_a_provider_may_have_any_content() {
    let upstream = Upstream::start(vec![Reply::Says(SAVED)]).await;
    let messages =
        json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "data:," } }] }]);
    let answer = ask(&upstream.app(""), &json!({ "provider": "up", "messages": messages })).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert_eq!(upstream.asked()[0]["messages"][1], messages[0]);
    for (messages, told) in [
        (json!([]), "`messages`: must not be empty"),
        (json!(["Hi"]), "`messages[0]`: expected an object, found a string"),
        (json!([{ "content": "Hi" }]), "`messages[0].role`: this field is required"),
    ] {
        let answer = ask(&upstream.app(""), &json!({ "provider": "up", "messages": messages })).await;
        assert_eq!(answer.json()["error"]["message"], told);
    }
}

#[tokio::test]
async fn an_unknown_provider_is_refused_with_the_known_ones() {
    let upstream = Upstream::start(Vec::new()).await;
    let app = upstream.app("");
    for (fields, status, code, told) in [
        (
            json!({ "provider": "upp" }),
            StatusCode::NOT_FOUND,
            json!("provider_not_found"),
            "unknown provider `upp`; expected one of local, shut, up",
        ),
        (
            json!({ "provider": "http://127.0.0.1:1" }),
            StatusCode::NOT_FOUND,
            json!("provider_not_found"),
            "unknown provider `http://127.0.0.1:1`; expected one of local, shut, up",
        ),
        (
            json!({ "provider": "shut" }),
            StatusCode::SERVICE_UNAVAILABLE,
            json!("provider_unavailable"),
            "provider `shut` has no API key; the server's environment variable ABSENT is not set",
        ),
        (
            json!({}),
            StatusCode::NOT_FOUND,
            json!("model_not_found"),
            "unknown model `m`; this server has no models, so requests must name a `provider`",
        ),
        (json!({ "provider": "" }), StatusCode::BAD_REQUEST, Value::Null, "`provider`: must not be empty"),
        (
            json!({ "request_overrides": {} }),
            StatusCode::BAD_REQUEST,
            Value::Null,
            "`request_overrides`: requires `provider`",
        ),
        (
            json!({ "provider": "up", "request_overrides": { "tools": [] } }),
            StatusCode::BAD_REQUEST,
            Value::Null,
            "`request_overrides.tools`: this field is set by directives and cannot be given",
        ),
        (
            json!({ "provider": "up", "temprature": 1 }),
            StatusCode::BAD_REQUEST,
            Value::Null,
            "`temprature`: unrecognized request argument",
        ),
    ] {
        let answer = ask(&app, &fields).await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"], &error["message"]), (status, &code, &json!(told)));
    }
    assert!(upstream.asked().is_empty());
}

#[tokio::test]
async fn local_names_the_models_of_the_server() {
    let app = app(says_in(4000, SAVED));
    let answer = ask(&app, &json!({ "provider": "local" })).await;
    assert_eq!((answer.status, &answer.json()["ok"]), (StatusCode::OK, &json!(true)));
}

#[tokio::test]
async fn errors_of_a_provider_have_their_own_status() {
    for (reply, status, code, told) in [
        (
            Reply::fails(401, "bad key"),
            StatusCode::BAD_GATEWAY,
            "provider_failed",
            "provider `up`: the backend answered 401: bad key",
        ),
        (
            Reply::fails(503, "down"),
            StatusCode::BAD_GATEWAY,
            "provider_failed",
            "provider `up`: the backend answered 503: down",
        ),
        (
            Reply::Fails(429, json!({ "error": { "message": "slow" } }), vec![("retry-after", "7")]),
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limited",
            "provider `up`: the backend answered 429: slow",
        ),
        (
            Reply::fails(504, "late"),
            StatusCode::GATEWAY_TIMEOUT,
            "timeout",
            "provider `up`: the backend answered 504: late",
        ),
        (
            Reply::Fails(404, json!({ "error": { "message": "none", "code": "model_not_found" } }), vec![]),
            StatusCode::BAD_REQUEST,
            "provider_refused",
            "provider `up`: the backend answered 404: none",
        ),
    ] {
        let upstream = Upstream::start(vec![reply]).await;
        let answer = ask(&upstream.app(""), &json!({ "provider": "up" })).await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"], &error["message"]), (status, &json!(code), &json!(told)));
        let pause = answer.headers.get("retry-after").map(|pause| pause.to_str().unwrap());
        assert_eq!(pause, (status == StatusCode::TOO_MANY_REQUESTS).then_some("7"));
    }
    let upstream = Upstream::start(vec![Reply::Late(60_000, SAVED)]).await;
    let limit =
        ServerOptions { request_timeout: Some(Duration::from_millis(50)), ..ServerOptions::default() };
    let answer = ask(&upstream.app_with("", limit), &json!({ "provider": "up" })).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT, "{}", answer.text);
}

#[tokio::test]
async fn a_stream_over_a_provider_starts_anew_in_the_next_mode() {
    let pieces = vec![
        "{\"assistant_text\": \"Sa",
        "ved.\", \"directives\": [{\"type\": \"to",
        "ast\", \"payload\": {}}]}",
    ];
    let upstream = Upstream::start(vec![Reply::fails(400, "no"), Reply::Streams(pieces)]).await;
    let answer = ask(&upstream.app(""), &json!({ "provider": "up", "stream": true })).await;
    let names: Vec<_> = answer.text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, ["attempt", "attempt", "text", "text", "directive", "result"]);
    assert!(upstream.asked().iter().all(|body| body["stream"] == true));
    let upstream = Upstream::start(vec![Reply::fails(401, "bad key")]).await;
    let answer = ask(&upstream.app(""), &json!({ "provider": "up", "stream": true })).await;
    let last = answer.text.trim_end().rsplit("\n\n").next().unwrap();
    assert!(
        last.starts_with("event: error\ndata: {\"error\":") && last.contains("provider_failed"),
        "{last}"
    );
}

#[tokio::test]
async fn a_refusal_of_the_model_ends_the_run() {
    let refused = json!({ "choices": [{ "message": { "content": null, "refusal": "I can't." }, "finish_reason": "stop" }] });
    let upstream = Upstream::start(vec![Reply::Fails(200, refused, vec![])]).await;
    let result = ask(&upstream.app(""), &json!({ "provider": "up" })).await.json();
    assert_eq!(
        (&result["errors"][0]["code"], &result["assistant_text"]),
        (&json!("REFUSED"), &json!("I can't."))
    );
    assert_eq!(upstream.asked().len(), 1);
}

#[tokio::test]
async fn settings_of_the_configuration_are_tables() {
    let upstream = Upstream::start(vec![Reply::Says(SAVED)]).await;
    let app = upstream
        .app("[providers.up.directives]\nmodes = [\"json_object\"]\nrequest_overrides = { top_a = 1 }");
    let result = ask(&app, &json!({ "provider": "up" })).await.json();
    assert_eq!(result["mode"], "json_object");
    assert_eq!(upstream.asked()[0]["top_a"], 1);
}
