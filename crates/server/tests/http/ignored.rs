//! Fields without effect, and names of models and paths that clients send.

use axum::http::{Method, StatusCode};
use formwork_server::{App, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{chat, get, request, says, send, served, start};

fn app(refuse_unknown_fields: bool) -> App {
    let options = ServerOptions { refuse_unknown_fields, ..ServerOptions::default() };
    App::new(vec![served("m", start(says("ok")))], options).unwrap()
}

#[tokio::test]
async fn a_header_names_fields_without_effect() {
    let app = app(false);
    let header = |answer: &crate::fixture::Answer| {
        answer.headers.get("x-formwork-ignored").map(|value| value.to_str().unwrap().to_owned())
    };
    for stream in [false, true] {
        let fields = json!({"user": "u", "höhe": 1, "session": {"a": 1}, "stream": stream});
        let answer = chat(&app, &fields).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        assert_eq!(header(&answer).as_deref(), Some("user, h?he, session"));
    }
    assert_eq!(header(&chat(&app, &json!({})).await), None);
    for (path, mut body) in
        [("/v1/completions", json!({"prompt": "assistant:"})), ("/v1/responses", json!({"input": "a"}))]
    {
        body["num_ctx"] = 4096.into();
        let answer = send(&app, request(Method::POST, path, body.to_string())).await;
        assert_eq!((answer.status, header(&answer).as_deref()), (StatusCode::OK, Some("num_ctx")), "{path}");
    }
}

#[tokio::test]
async fn a_header_has_the_warnings_about_schemas() {
    let app = app(false);
    let schema = json!({"type": "object", "properties": {"v": {"type": "string", "maxlength": 3}}});
    let header = |answer: &crate::fixture::Answer| {
        answer.headers.get("x-formwork-warnings").map(|value| value.to_str().unwrap().to_owned())
    };
    let warning = "#/properties/v/maxlength: this keyword is unknown (did you mean `maxLength`?)";
    let format = json!({"type": "json_schema", "json_schema": {"name": "s", "schema": schema}});
    for stream in [false, true] {
        let answer = chat(&app, &json!({"response_format": format, "stream": stream})).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        assert_eq!(header(&answer).as_deref(), Some(warning));
    }
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": schema}}]);
    let answer = chat(&app, &json!({"tools": tools})).await;
    assert_eq!(header(&answer), Some(format!("tools[0].function.parameters: {warning}")));
    let described = json!({"title": "T", "description": "d", "type": "string", "default": "a"});
    let format = json!({"type": "json_schema", "json_schema": {"name": "s", "schema": described}});
    assert_eq!(header(&chat(&app, &json!({"response_format": format})).await), None);
}

#[tokio::test]
async fn unknown_fields_can_be_refused() {
    let app = app(true);
    assert_eq!(chat(&app, &json!({"user": "u", "num_ctx": 1})).await.status, StatusCode::OK);
    let answer = chat(&app, &json!({"user": "u", "session": {"a": 1}})).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(answer.json()["error"]["message"], "`session`: unrecognized request argument");
    assert_eq!(answer.json()["error"]["param"], "session");
}

#[tokio::test]
async fn a_placeholder_means_the_only_model() {
    let one = app(false);
    for model in [Value::Null, json!(""), json!("default"), json!("local-model"), json!("m:latest")] {
        let answer = chat(&one, &json!({"model": model})).await;
        assert_eq!((answer.status, &answer.json()["model"]), (StatusCode::OK, &json!("m")), "{model}");
    }
    assert_eq!(chat(&one, &json!({"model": "gpt-4o"})).await.status, StatusCode::NOT_FOUND);
    let models = ["m", "n"].map(|name| served(name, start(says("ok")))).into();
    let two = App::new(models, ServerOptions::default()).unwrap();
    let answer = chat(&two, &json!({"model": null})).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        answer.json()["error"]["message"],
        "`model` is required because several models are served; expected one of m, n"
    );
}

#[tokio::test]
async fn the_context_of_a_model_has_the_names_that_clients_read() {
    let model = get(&app(false), "/v1/models/m").await.json();
    assert_eq!((&model["max_model_len"], &model["context_length"]), (&json!(400), &json!(400)));
    assert_eq!(model["meta"], json!({"n_ctx": 400, "n_vocab": 257}));
}

#[tokio::test]
async fn paths_may_lack_a_version_and_end_in_a_slash() {
    let app = app(false);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"}]}).to_string();
    for path in ["/chat/completions", "/v1/chat/completions/", "/chat/completions/?a=b"] {
        let answer = send(&app, request(Method::POST, path, body.clone())).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
    }
    for path in ["/models", "/models/m", "/v1/models/", "/health/"] {
        assert_eq!(get(&app, path).await.status, StatusCode::OK, "{path}");
    }
    for path in ["//", "/v2/models", "/model"] {
        assert_eq!(get(&app, path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn a_key_comes_in_either_header() {
    let options = ServerOptions { api_keys: vec!["secret".to_owned()], ..ServerOptions::default() };
    let app = App::new(vec![served("m", start(says("ok")))], options).unwrap();
    for (name, value, status) in [
        ("authorization", "Bearer secret", StatusCode::OK),
        ("x-api-key", "secret", StatusCode::OK),
        ("x-api-key", "Bearer secret", StatusCode::UNAUTHORIZED),
        ("x-other", "secret", StatusCode::UNAUTHORIZED),
    ] {
        let mut request = request(Method::GET, "/v1/models", "");
        request.headers_mut().insert(name, value.parse().unwrap());
        assert_eq!(send(&app, request).await.status, status, "{name}: {value}");
    }
}

#[tokio::test]
async fn turns_are_merged_for_a_template_that_needs_it() {
    let messages = json!([
        {"role": "system", "content": "a"}, {"role": "user", "content": "b"}, {"role": "user", "content": "raise"},
    ]);
    // The template refuses a message that says only `raise`.
    let answer = chat(&app(false), &json!({"messages": messages})).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
}
