//! Tests of the remote backend against a scripted HTTP server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use formwork_protocol::directives::{Mode, Registry, RunRequest, Runner, StructuredOutputOptions};
use formwork_protocol::{
    BackendError, Body, Capabilities, Category, ChatBackend, Feature, PromptRunner, RemoteBackend,
    RetryPolicy, ScriptedBackend,
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Returns an HTTP response as text.
fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

fn good(answer: &Value) -> String {
    response("200 OK", "content-type: application/json\r\n", &answer.to_string())
}

/// Starts a server that sends one response per connection and then ends. Returns the requests it
/// received, too.
async fn server(responses: Vec<String>) -> (RemoteBackend, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let backend = RemoteBackend::new(&format!("http://{}", listener.local_addr().expect("an address")));
    let got = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&got);
    tokio::spawn(async move {
        for response in responses {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let request = read(&mut stream).await;
            requests.lock().expect("a lock").push(request);
            stream.write_all(response.as_bytes()).await.expect("a reader");
        }
    });
    let retry = RetryPolicy { first: Duration::from_millis(1), ..RetryPolicy::default() };
    (backend.expect("a URL").with_retry(retry), got)
}

/// Reads a whole request.
async fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if length.is_none_or(|length| length.parse::<usize>().expect("a length") <= body.len()) {
                return text.into_owned();
            }
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.expect("a request");
        assert!(count > 0, "the request broke off");
        bytes.extend_from_slice(&piece[..count]);
    }
}

fn body() -> Body {
    json!({ "model": "m", "messages": [] }).as_object().cloned().expect("an object")
}

async fn fails(response: String) -> BackendError {
    let (backend, _) = server(vec![response]).await;
    backend.with_retry(RetryPolicy::never()).chat(&body()).await.expect_err("refused")
}

#[tokio::test]
async fn returns_the_answer_unchanged() {
    let answer = ScriptedBackend::says("Hi");
    let (backend, requests) = server(vec![good(&answer)]).await;
    let given = backend.with_key("k").expect("a key").chat(&body()).await.expect("an answer");
    assert_eq!((given.body, given.attempts), (answer, 1));
    let request = requests.lock().expect("a lock").remove(0);
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("authorization: Bearer k\r\n"), "{request}");
    assert!(request.ends_with(r#"{"model":"m","messages":[]}"#), "{request}");
}

#[tokio::test]
async fn retries_transient_errors() {
    let busy = response("429 Too Many Requests", "retry-after: 0\r\n", r#"{"error": {"message": "busy"}}"#);
    let broken = response("500 Internal Server Error", "", "oops");
    let (backend, requests) = server(vec![busy, broken, good(&ScriptedBackend::says("Hi"))]).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let backend = backend.on_retry(move |retry| {
        log.lock().expect("a lock").push((retry.cause.name(), retry.attempt, retry.max_attempts));
        assert!(!retry.is_schema_repair && retry.started_at <= std::time::SystemTime::now());
    });
    let answer = backend.chat(&body()).await.expect("an answer");
    assert_eq!((answer.attempts, answer.retried), (3, vec![Category::RateLimited, Category::Server]));
    assert_eq!(requests.lock().expect("a lock").len(), 3);
    let expected = [("RATE_LIMITED", 2, Some(4)), ("SERVER_ERROR", 3, Some(4))];
    assert_eq!(*told.lock().expect("a lock"), expected);
}

#[tokio::test]
async fn does_not_retry_other_errors() {
    let refused = response("400 Bad Request", "", r#"{"error": {"message": "no", "code": "bad"}}"#);
    let (backend, requests) = server(vec![refused]).await;
    let error = backend.chat(&body()).await.expect_err("refused");
    assert_eq!((error.category(), error.code()), (Category::InvalidRequest, Some("bad")));
    assert_eq!(requests.lock().expect("a lock").len(), 1);
}

#[tokio::test]
async fn every_failed_answer_has_a_category() {
    let date = httpdate(Duration::from_secs(100));
    let error = fails(response("503 Service Unavailable", &format!("retry-after: {date}\r\n"), "")).await;
    assert_eq!(error.category(), Category::Server);
    let pause = error.retry_after().expect("a pause").as_secs();
    assert!((90..=100).contains(&pause), "{pause}");

    for (given, category) in [
        (good(&json!({ "error": { "message": "no", "code": 429 } })), Category::RateLimited),
        (good(&json!({ "error": "no" })), Category::Server),
        (good(&json!({ "object": "list" })), Category::Malformed),
        (good(&json!([1])), Category::Malformed),
        (response("200 OK", "", "<html>"), Category::Malformed),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_owned(), Category::Connection),
        (String::new(), Category::Connection),
        (response("302 Found", "location: ftp://x\r\n", ""), Category::InvalidRequest),
    ] {
        assert_eq!(fails(given.clone()).await.category(), category, "{given}");
    }
}

fn httpdate(from_now: Duration) -> String {
    httpdate::fmt_http_date(std::time::SystemTime::now() + from_now)
}

#[tokio::test]
async fn reports_an_unreachable_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let backend =
        RemoteBackend::new(&format!("http://{address}")).expect("a URL").with_retry(RetryPolicy::never());
    let error = backend.chat(&body()).await.expect_err("nobody");
    assert_eq!(error.category(), Category::Connection);
    let told = format!("the backend could not be reached: http://{address}/v1/chat/completions: ");
    assert!(error.to_string().starts_with(&told), "{error}");
    assert!(error.to_string().contains("Connection refused"), "{error}");
    let secret = RemoteBackend::new(&format!("http://me:secret@{address}/api/v1")).expect("a URL");
    let error = secret.with_retry(RetryPolicy::never()).chat(&body()).await.expect_err("nobody");
    assert!(!error.to_string().contains("secret"), "{error}");
    assert!(error.to_string().contains(&format!("http://{address}/api/v1/chat/completions: ")), "{error}");
}

#[tokio::test]
async fn stops_waiting_for_a_server_at_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let backend = RemoteBackend::new(&format!("http://{}", listener.local_addr().expect("an address")));
    let backend =
        backend.expect("a URL").with_retry(RetryPolicy::never()).with_timeout(Duration::from_millis(50));
    let error = backend.chat(&body()).await.expect_err("late");
    assert_eq!(error.category(), Category::Timeout);
    assert_eq!(error.to_string(), "the backend did not answer within 0.05 seconds");
}

async fn streamed(events: &str) -> Vec<Result<Value, BackendError>> {
    let (backend, requests) =
        server(vec![response("200 OK", "content-type: text/event-stream\r\n", events)]).await;
    let chunks = backend.stream(&body()).await.expect("a stream").collect().await;
    assert!(requests.lock().expect("a lock")[0].ends_with(r#""stream":true}"#));
    chunks
}

#[tokio::test]
async fn streams_end_at_their_end_marker() {
    let chunks =
        streamed(": hello\n\ndata: {\"a\": 1}\n\ndata:{\"b\":\ndata: 2}\r\n\r\ndata: [DONE]\n\ndata: {}\n\n")
            .await;
    assert_eq!(chunks, [Ok(json!({ "a": 1 })), Ok(json!({ "b": 2 }))]);
}

#[tokio::test]
async fn reports_interrupted_streams() {
    for (events, category) in [
        ("data: {\"a\": 1}\n\n", Category::Connection),
        (
            "data: {\"a\": 1}\n\ndata: {\"error\": {\"message\": \"no\"}}\n\ndata: [DONE]\n\n",
            Category::Server,
        ),
        ("data: {\"a\": 1}\n\ndata: {\n\n", Category::Malformed),
    ] {
        let chunks = streamed(events).await;
        assert_eq!(chunks.len(), 2, "{events}");
        assert_eq!(chunks[1].as_ref().expect_err("broken").category(), category, "{events}");
    }
}

#[tokio::test]
async fn probes_a_model_once() {
    let refused = response("400 Bad Request", "", r#"{"error": {"message": "no"}}"#);
    let answers = vec![
        good(&ScriptedBackend::says(r#"{"sign": 7419}"#)),
        // A server that does not know the field ignores it.
        good(&ScriptedBackend::says("Hello!")),
        good(&ScriptedBackend::calls("1", "hello", "{}")),
        refused,
        good(&ScriptedBackend::says("Hello!")),
    ];
    let (backend, requests) = server(answers).await;
    let expected: Capabilities = [Feature::JsonSchema, Feature::Tools].into_iter().collect();
    for _ in 0..2 {
        assert_eq!(backend.capabilities("m").await.expect("an answer"), expected);
    }
    // The refusal of the grammar names no field, so the request was sent without the grammar, too.
    assert_eq!(requests.lock().expect("a lock").len(), 5);
}

#[test]
fn the_endpoint_has_the_prefix_once() {
    for (base, prefix, expected) in [
        ("https://x", None, "https://x/v1/chat/completions"),
        ("https://x/", None, "https://x/v1/chat/completions"),
        ("https://x/v1", None, "https://x/v1/chat/completions"),
        ("https://x/api/v1", None, "https://x/api/v1/chat/completions"),
        ("https://x/api/v1/", None, "https://x/api/v1/chat/completions"),
        ("https://x/api/v3", None, "https://x/api/v3/chat/completions"),
        ("https://x/api", None, "https://x/api/v1/chat/completions"),
        ("https://x/api/v1", Some(""), "https://x/api/v1/chat/completions"),
        ("https://x", Some(""), "https://x/chat/completions"),
        ("https://x/api", Some("v1"), "https://x/api/v1/chat/completions"),
        ("https://x/api/", Some("/v1/"), "https://x/api/v1/chat/completions"),
    ] {
        let backend = match prefix {
            Some(prefix) => RemoteBackend::with_prefix(base, prefix),
            None => RemoteBackend::new(base),
        };
        assert_eq!(backend.expect("a URL").endpoint(), expected, "{base} {prefix:?}");
    }
}

#[test]
fn rejects_invalid_urls() {
    for (given, told) in [
        ("", "invalid server URL ``: relative URL without a base"),
        (
            "localhost:8080",
            "invalid server URL `localhost:8080`: unsupported scheme `localhost`; expected http or https",
        ),
        ("ftp://x", "invalid server URL `ftp://x`: unsupported scheme `ftp`; expected http or https"),
    ] {
        assert_eq!(RemoteBackend::new(given).err().expect("refused").to_string(), told);
    }
    assert!(RemoteBackend::new("http://x").expect("a URL").with_key("a\nb").is_err());
}

#[tokio::test]
async fn records_the_reason_of_each_retry() {
    let envelope = "```json\n{\"assistant_text\": \"Hi\", \"directives\": []}\n```";
    let unknown = r#"{"error": {"message": "response_format is not supported", "code": null}}"#;
    let (backend, requests) = server(vec![
        response("429 Too Many Requests", "retry-after: 0\r\n", ""),
        response("400 Bad Request", "", unknown),
        response("503 Service Unavailable", "", ""),
        response("429 Too Many Requests", "retry-after: 0\r\n", ""),
        good(&ScriptedBackend::says(envelope)),
    ])
    .await;
    let runner = Runner::new(PromptRunner::new(Arc::new(backend), "m"));
    let request = RunRequest::new("Hello", StructuredOutputOptions::new(Registry::default()));
    let result = runner.run(&request).await.expect("not cancelled");
    assert_eq!(
        (result.ok, result.mode, result.assistant_text.as_str()),
        (true, Some(Mode::JsonObject), "Hi")
    );
    let error = result.attempts[0].error.as_ref().expect("refused");
    assert_eq!(error.code, "UNSUPPORTED_MODE");
    assert_eq!(error.message, "the backend answered 400: response_format is not supported");
    assert_eq!(
        (result.attempts[1].sent, &result.attempts[1].retried[..]),
        (Some(3), &["SERVER_ERROR".to_owned(), "RATE_LIMITED".to_owned()][..])
    );
    assert_eq!(requests.lock().expect("a lock").len(), 5);
}
