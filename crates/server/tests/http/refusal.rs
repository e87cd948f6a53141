use std::sync::mpsc::channel;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, StatusCode};
use formwork_engine::{Engine, EngineOptions};
use formwork_lm::{LanguageModel, ScriptedModel};
use formwork_server::{App, ServerOptions, router};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::fixture::{
    Answer, CONTEXT, END, app, ask, chat, get, request, says, send, served, start, tokenizer,
};

/// Returns status, type, param, code and message of an error, after checking that there is nothing
/// else.
fn error(answer: &Answer) -> String {
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 1);
    let error = body["error"].as_object().unwrap();
    let keys: Vec<_> = error.keys().map(String::as_str).collect();
    assert_eq!(keys, ["message", "type", "param", "code"]);
    let text = |key: &str| error[key].as_str().unwrap_or("null");
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("application/json"));
    let status = answer.status.as_u16();
    format!("{status} {} {} {}: {}", text("type"), text("param"), text("code"), text("message"))
}

#[tokio::test]
async fn rejects_invalid_requests() {
    let app = app(says("ok"));
    let long = "x".repeat(CONTEXT);
    let cases = [
        (
            json!({"model": "gpt-4o"}),
            "404 invalid_request_error model model_not_found: unknown model `gpt-4o`; expected one of m",
        ),
        (json!({"n": 0}), "400 invalid_request_error n null: `n`: 0 is out of range; expected 1..=128"),
        (
            json!({"logit_bias": {"400": 1}}),
            "400 invalid_request_error logit_bias null: logit_bias: token 400 is out of range (vocabulary size 257)",
        ),
        (
            json!({"stop_token_ids": [3, 400]}),
            "400 invalid_request_error stop_token_ids null: stop_token_ids: token 400 is out of range (vocabulary size 257)",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}),
            "400 invalid_request_error messages[0].content[0].type null: `messages[0].content[0].type`: unsupported value `image_url`; supported values: text",
        ),
        (
            json!({"messages": [{"role": "user", "content": long}]}),
            "400 invalid_request_error messages context_length_exceeded: this model's maximum context length is 400 tokens; the prompt has 417 tokens, and the output needs at least 1",
        ),
        (
            json!({"messages": [{"role": "user", "content": "raise"}]}),
            "400 invalid_request_error messages null: chat template: roles must alternate (line 3)",
        ),
        (
            json!({"grammar": "root ::= \"a\"", "guided_regex": "a"}),
            "400 invalid_request_error guided_regex null: `guided_regex`: cannot be combined with `grammar`",
        ),
    ];
    for (fields, expected) in cases {
        assert_eq!(error(&chat(&app, &fields).await), expected);
    }
    let malformed = request(Method::POST, "/v1/chat/completions", "{\"model\": \"m\",\n \"messages\": [}");
    assert_eq!(
        error(&send(&app, malformed).await),
        "400 invalid_request_error null null: the body is not valid JSON: expected value at line 2 column 15"
    );
}

#[tokio::test]
async fn rejects_unknown_routes() {
    let app = app(says("ok"));
    assert_eq!(
        error(&get(&app, "/v1/images?q=1").await),
        "404 invalid_request_error null unknown_url: unknown path /v1/images"
    );
    let wrong = get(&app, "/v1/chat/completions").await;
    assert_eq!(
        error(&wrong),
        "405 invalid_request_error null method_not_allowed: method GET is not allowed for /v1/chat/completions"
    );
    assert_eq!(wrong.headers["allow"], "POST");
    assert_eq!(
        error(&send(&app, request(Method::DELETE, "/v1/models/m", "")).await),
        "405 invalid_request_error null method_not_allowed: method DELETE is not allowed for /v1/models/m"
    );
}

#[tokio::test]
async fn rejects_too_large_bodies() {
    let options = ServerOptions { body_limit: 100, ..ServerOptions::default() };
    let small = App::new(vec![served("m", start(says("ok")))], options).unwrap();
    assert_eq!(chat(&small, &json!({})).await.status, StatusCode::OK);
    assert_eq!(
        error(&chat(&small, &json!({"user": "x".repeat(100)})).await),
        "413 invalid_request_error null request_too_large: the body is larger than the limit of 100 bytes"
    );
    // The default limit allows a body of 5 MiB.
    assert_eq!(chat(&app(says("ok")), &json!({"user": "x".repeat(5 << 20)})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn checks_api_keys() {
    let options =
        ServerOptions { api_keys: vec!["other".to_owned(), "secret".to_owned()], ..ServerOptions::default() };
    let app = App::new(vec![served("m", start(says("ok")))], options).unwrap();
    let with_key = async |path: &str, header: Option<&str>| {
        let mut request = request(Method::GET, path, "");
        if let Some(header) = header {
            request.headers_mut().insert("authorization", header.parse().unwrap());
        }
        send(&app, request).await
    };
    assert_eq!(with_key("/health", None).await.status, StatusCode::OK);
    for right in ["Bearer secret", "bearer secret", "Bearer other"] {
        assert_eq!(with_key("/v1/models", Some(right)).await.status, StatusCode::OK, "{right}");
    }
    for wrong in
        [None, Some("secret"), Some("Bearer "), Some("Bearer secreT"), Some("Bearer secrets"), Some("B")]
    {
        for path in ["/v1/models", "/elsewhere"] {
            let answer = with_key(path, wrong).await;
            assert_eq!(
                error(&answer),
                "401 invalid_request_error null invalid_api_key: Incorrect API key provided; expected the header `authorization: Bearer KEY`"
            );
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
    }
}

#[tokio::test]
async fn a_full_queue_is_busy() {
    let (release, gate) = channel::<()>();
    let model = ScriptedModel::new(END + 1, CONTEXT, move |_, row| {
        // Returns at once after the test drops the sender.
        let _ = gate.recv();
        row[END] = 1000.0;
    });
    let options = EngineOptions { parallel: 1, queue: 1, ..EngineOptions::default() };
    let engine = Engine::start(Box::new(model), tokenizer(), options);
    let app = App::new(vec![served("m", engine)], ServerOptions::default()).unwrap();
    let body = Body::from(ask(&json!({"stream": true})).to_string());
    let running =
        router(app.clone()).oneshot(request(Method::POST, "/v1/chat/completions", body)).await.unwrap();
    assert_eq!(running.status(), StatusCode::OK);
    let busy = chat(&app, &json!({})).await;
    assert_eq!(
        error(&busy),
        "503 server_error null overloaded: queue full: 1 requests are waiting (limit 1); try again later"
    );
    assert_eq!(busy.headers["retry-after"], "1");
    drop(release);
}

#[tokio::test]
async fn an_engine_that_died_is_unavailable() {
    let app = app(Dies);
    let first = chat(&app, &json!({})).await;
    assert_eq!(error(&first), "500 server_error null null: the generation failed: the engine stopped");
    // The engine's thread may still be unwinding.
    for _ in 0..1000 {
        let next = chat(&app, &json!({})).await;
        if next.status == StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!(error(&next), "503 server_error null stopped: the engine has stopped");
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the engine still takes requests");
}

/// A model that panics outside of any generation, which ends the engine's thread.
struct Dies;

impl LanguageModel for Dies {
    fn vocab_size(&self) -> usize {
        END + 1
    }
    fn context_len(&self) -> usize {
        CONTEXT
    }
    fn open(&mut self) -> formwork_lm::SequenceId {
        panic!("as the test wants it")
    }
    fn close(&mut self, _: formwork_lm::SequenceId) {}
    fn truncate(&mut self, _: formwork_lm::SequenceId, _: usize) -> Result<(), formwork_lm::ModelError> {
        Ok(())
    }
    fn forward(
        &mut self,
        _: &formwork_lm::Batch<'_>,
    ) -> Result<formwork_lm::Logits, formwork_lm::ModelError> {
        Ok(formwork_lm::Logits::default())
    }
}

#[tokio::test]
async fn times_out_slow_requests() {
    let options = ServerOptions { request_timeout: Some(Duration::ZERO), ..ServerOptions::default() };
    let app = App::new(vec![served("m", start(says("Hello")))], options).unwrap();
    let message = "request timeout: the deadline has passed";
    for (path, mut body) in [
        ("/v1/chat/completions", ask(&json!({"n": 2}))),
        ("/v1/completions", json!({"model": "m", "prompt": ["a", "b"]})),
        ("/v1/responses", json!({"model": "m", "input": "Hi"})),
    ] {
        let answer = send(&app, request(Method::POST, path, body.to_string())).await;
        assert_eq!(error(&answer), format!("504 server_error null timeout: {message}"), "{path}");
        // A stream has already started when the error occurs.
        body["stream"] = true.into();
        let answer = send(&app, request(Method::POST, path, body.to_string())).await;
        assert_eq!(answer.status, StatusCode::OK);
        let last = answer.text.split_terminator("\n\n").last().unwrap();
        let (name, data) = last.split_once("data: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        let failure = if path == "/v1/responses" {
            assert_eq!((name, &data["response"]["status"]), ("event: response.failed\n", &json!("failed")));
            &data["response"]["error"]
        } else {
            assert_eq!((name, &data["error"]["type"]), ("", &json!("server_error")));
            &data["error"]
        };
        assert_eq!((&failure["code"], &failure["message"]), (&json!("timeout"), &json!(message)), "{path}");
    }
}
