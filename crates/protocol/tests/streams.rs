//! Streamed answers of servers that behave in unusual ways, compared with whole answers.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use formwork_protocol::directives::{
    DirectiveResult, Mode, Preset, Registry, RunEvent, RunRequest, Runner, StructuredOutputOptions,
};
use formwork_protocol::{
    Answer, BackendError, Body, Category, ChatBackend, PromptRunner, RemoteBackend, RetryPolicy,
    ScriptedBackend, StreamEvent,
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Response of a server to one request.
#[derive(Clone)]
enum Response {
    /// The text, after which the connection is closed.
    Text(String),
    /// The head, and then the text again and again.
    Endless { head: String, text: String, pause: Duration },
}

/// Starts a server that sends one response to each connection, and the last one to all further
/// connections. Returns the bodies of the requests, too.
async fn server(responses: Vec<Response>) -> (RemoteBackend, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let backend = RemoteBackend::new(&format!("http://{}", listener.local_addr().expect("an address")));
    let got = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&got);
    tokio::spawn(async move {
        for at in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else { break };
            let body = request(&mut stream).await;
            requests.lock().expect("a lock").push(body);
            let response = responses[at.min(responses.len() - 1)].clone();
            tokio::spawn(async move {
                match response {
                    Response::Text(text) => drop(stream.write_all(text.as_bytes()).await),
                    Response::Endless { head, text, pause } => {
                        let mut sent = stream.write_all(head.as_bytes()).await;
                        while sent.is_ok() {
                            sent = stream.write_all(text.as_bytes()).await;
                            tokio::time::sleep(pause).await;
                        }
                    }
                }
            });
        }
    });
    let retry = RetryPolicy { first: Duration::from_millis(1), ..RetryPolicy::default() };
    (backend.expect("a URL").with_retry(retry), got)
}

/// Reads a request and returns its body.
async fn request(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n")
            && let Ok(body) = serde_json::from_slice(&bytes[at + 4..])
        {
            return body;
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.expect("a request");
        assert!(count > 0, "the request broke off");
        bytes.extend_from_slice(&piece[..count]);
    }
}

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

fn events(text: &str) -> Response {
    Response::Text(format!("{EVENTS}{text}"))
}

fn json_body(status: u16, body: &Value) -> Response {
    plain(status, &body.to_string())
}

fn plain(status: u16, body: &str) -> Response {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {length}\r\nconnection: close\r\n");
    Response::Text(format!("{head}retry-after: 0\r\n\r\n{body}"))
}

fn delta(text: &str) -> String {
    let choice = json!({ "index": 0, "delta": { "content": text }, "finish_reason": null });
    format!("data: {}\n\n", json!({ "choices": [choice] }))
}

fn end() -> String {
    let choice = json!({ "index": 0, "delta": {}, "finish_reason": "stop" });
    format!("data: {}\n\n", json!({ "choices": [choice] }))
}

const DONE: &str = "data: [DONE]\n\n";
const GOOD: &str = r#"{"assistant_text": "Hello there", "directives": []}"#;

fn body() -> Body {
    json!({ "model": "m", "messages": [] }).as_object().cloned().expect("an object")
}

/// Requests a streamed answer. Returns it with the pieces of its text; "|" marks a restart.
async fn asked(backend: &RemoteBackend) -> (Result<Answer, BackendError>, String) {
    let text = Mutex::new(String::new());
    let receive = |event: StreamEvent<'_>| {
        *text.lock().expect("a lock") += match event {
            StreamEvent::Restarted => "|",
            StreamEvent::Chunk(chunk) => chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default(),
        };
        ControlFlow::Continue(())
    };
    let answer = backend.chat_streamed(&body(), &receive).await;
    (answer, text.into_inner().expect("a lock"))
}

#[tokio::test]
async fn a_streamed_request_is_sent_again_where_a_whole_one_is() {
    let whole = events(&(delta("Hel") + &delta("lo") + &end() + DONE));
    let busy = json_body(503, &json!({ "error": { "message": "busy" } }));
    let cut = events(&(delta("Hel") + &delta("l")));
    let late = events(&(delta("He") + "data: {\"error\": {\"message\": \"busy\", \"code\": 503}}\n\n"));
    let renamed = json_body(400, &json!({ "error": { "message": "max_tokens is not supported" } }));
    for (first, told, retried) in [
        (vec![whole.clone()], "Hello", vec![]),
        (vec![busy.clone(), busy.clone(), whole.clone()], "||Hello", vec![Category::Server; 2]),
        (vec![cut.clone(), whole.clone()], "Hell|Hello", vec![Category::Connection]),
        (vec![late, busy, whole.clone()], "He||Hello", vec![Category::Server; 2]),
    ] {
        let (backend, requests) = server(first).await;
        let (answer, text) = asked(&backend).await;
        let answer = answer.expect("an answer");
        assert_eq!((text.as_str(), &answer.retried), (told, &retried));
        assert_eq!(answer.body["choices"][0]["message"]["content"], "Hello");
        assert_eq!(answer.attempts as usize, requests.lock().expect("a lock").len());
    }
    let (backend, requests) = server(vec![cut]).await;
    let (answer, _) = asked(&backend).await;
    assert_eq!(answer.expect_err("cut").category(), Category::Connection);
    assert_eq!(requests.lock().expect("a lock").len(), 4, "as many as for a whole answer");
    let (backend, requests) = server(vec![renamed, whole]).await;
    let mut limited = body();
    limited.insert("max_tokens".to_owned(), 5.into());
    let ignore = |_: StreamEvent<'_>| ControlFlow::Continue(());
    assert_eq!(backend.chat_streamed(&limited, &ignore).await.expect("an answer").attempts, 2);
    assert_eq!(requests.lock().expect("a lock")[1]["max_completion_tokens"], 5);
}

#[tokio::test]
async fn a_stream_may_end_without_its_marker_after_the_finish_reason() {
    let answer = ScriptedBackend::says("Hello");
    for response in [
        events(&(delta("Hello") + &end())),
        // The connection breaks, but nothing of the answer is missing.
        Response::Text(format!("HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n{}{}", delta("Hello"), end())),
        // The server ignores `stream`.
        json_body(200, &answer),
        Response::Text(format!("{EVENTS}{answer}")),
    ] {
        let (backend, requests) = server(vec![response]).await;
        let (found, text) = asked(&backend).await;
        assert_eq!(text, "Hello");
        assert_eq!(found.expect("an answer").body["choices"][0]["message"]["content"], "Hello");
        assert_eq!(requests.lock().expect("a lock").len(), 1);
        let chunks: Vec<_> = backend.stream(&body()).await.expect("a stream").collect().await;
        assert!(chunks.iter().all(Result::is_ok), "{chunks:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_no_stream_has_the_error_of_a_whole_answer() {
    let refused = json!({ "error": { "message": "no json_schema", "code": 400 } });
    for response in [
        plain(200, "<html>"),
        plain(200, "default backend"),
        json_body(200, &json!({ "object": "list" })),
        json_body(200, &refused),
    ] {
        let (backend, _) = server(vec![response]).await;
        let whole = backend.chat(&body()).await.expect_err("no answer");
        let (streamed, _) = asked(&backend).await;
        assert_eq!(streamed.expect_err("no answer"), whole);
    }
    let (backend, _) = server(vec![plain(200, "<html>")]).await;
    let told = asked(&backend).await.0.expect_err("no answer").to_string();
    assert!(told.starts_with("the backend's answer is not a chat completion: "), "{told}");
    // An error inside a stream keeps its status.
    let (backend, _) = server(vec![events(&format!("data: {refused}\n\n"))]).await;
    let error = asked(&backend).await.0.expect_err("refused");
    assert_eq!((error.status(), error.is_of_mode()), (Some(400), true));
}

#[tokio::test]
async fn streams_are_bounded_in_size() {
    let piece = "x".repeat(1 << 20);
    let (pause, head) = (Duration::ZERO, EVENTS.to_owned());
    let refusal = format!("data: {{\"choices\": [{{\"delta\": {{\"refusal\": \"{piece}\"}}}}]}}\n\n");
    for response in [
        Response::Endless { head: format!("{head}data: "), text: piece, pause },
        Response::Endless { head, text: refusal, pause },
    ] {
        let (backend, _) = server(vec![response]).await;
        let error = asked(&backend).await.0.expect_err("too large");
        assert_eq!(
            error.to_string(),
            format!("the backend's answer is larger than the limit of {} bytes", 64 << 20)
        );
    }
}

#[tokio::test]
async fn streams_are_bounded_in_time() {
    let text = "data: {\"choices\": [{\"delta\": {\"reasoning\": \"hm\"}}]}\n\n".to_owned();
    let pause = Duration::from_millis(20);
    let (backend, _) = server(vec![Response::Endless { head: EVENTS.to_owned(), text, pause }]).await;
    let backend = backend.with_timeout(Duration::from_millis(300)).with_retry(RetryPolicy::never());
    let started = Instant::now();
    assert_eq!(asked(&backend).await.0.expect_err("late").category(), Category::Timeout);
    let chunks: Vec<_> = backend.stream(&body()).await.expect("a stream").collect().await;
    assert!(chunks.len() > 2, "{}", chunks.len());
    let last = chunks.last().expect("an end").as_ref().expect_err("late");
    assert_eq!(last.to_string(), "the backend did not answer within 0.3 seconds");
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// Runs directives, streamed or not. Returns the result and the events as text: a line per attempt.
async fn run(backend: RemoteBackend, preset: Preset, is_streamed: bool) -> (DirectiveResult, Vec<String>) {
    let runner = Runner::build(PromptRunner::new(Arc::new(backend), "m"), preset);
    let request = RunRequest::new("Hello", StructuredOutputOptions::new(Registry::default()));
    let lines = Mutex::new(Vec::new());
    let report = |event: RunEvent| {
        let mut lines = lines.lock().expect("a lock");
        match event {
            RunEvent::Attempt { mode, .. } => lines.push(format!("{}: ", mode.name())),
            RunEvent::Text(text) => lines.last_mut().expect("an attempt").push_str(&text),
            RunEvent::Directive { .. } => {}
        }
    };
    let result =
        if is_streamed { runner.run_streamed(&request, &report).await } else { runner.run(&request).await };
    (result.expect("not cancelled"), lines.into_inner().expect("a lock"))
}

#[tokio::test]
async fn a_connection_lost_in_a_run_voids_the_text_by_a_new_attempt() {
    let (begin, rest) = GOOD.split_at(25);
    let cut = events(&delta(begin));
    let whole = events(&(delta(begin) + &delta(rest) + &end() + DONE));
    let (backend, _) = server(vec![cut, whole]).await;
    let (result, lines) = run(backend, Preset::default(), true).await;
    assert!(result.ok);
    assert_eq!(lines, ["json_schema: Hello", "json_schema: Hello there"]);
    let attempt = &result.attempts[0];
    assert_eq!((attempt.sent, &attempt.retried[..]), (Some(2), &["CONNECTION".to_owned()][..]));
}

#[tokio::test]
async fn an_error_inside_a_stream_leads_to_the_next_mode() {
    let refused = json!({ "error": { "message": "json_schema unsupported", "code": 400 } });
    let whole = events(&(delta(GOOD) + &end() + DONE));
    let (backend, _) = server(vec![events(&format!("data: {refused}\n\n")), whole]).await;
    let (result, _) = run(backend, Preset::default(), true).await;
    assert_eq!((result.ok, result.mode), (true, Some(Mode::JsonObject)));
}

#[tokio::test]
async fn a_refusal_for_another_reason_ends_the_run_with_its_message() {
    for message in ["prompt is too long: 9 tokens > 8 maximum", "the model `m` does not exist"] {
        let refused = json_body(400, &json!({ "error": { "message": message } }));
        for is_streamed in [false, true] {
            let (backend, requests) = server(vec![refused.clone()]).await;
            let (result, _) = run(backend, Preset::default(), is_streamed).await;
            assert_eq!(requests.lock().expect("a lock").len(), 1, "{message}");
            assert!(result.errors[0].message.contains(message), "{:?}", result.errors);
        }
    }
}

#[tokio::test]
async fn each_request_of_a_run_counts_against_its_limit() {
    let busy = json_body(503, &json!({ "error": { "message": "busy" } }));
    let refused = json_body(400, &json!({ "error": { "message": "no" } }));
    for is_streamed in [false, true] {
        for limit in 1..=5 {
            // Retries.
            let preset = Preset { max_requests: Some(limit), ..Preset::default() };
            let (backend, requests) = server(vec![busy.clone()]).await;
            run(backend, preset.clone(), is_streamed).await;
            assert_eq!(requests.lock().expect("a lock").len(), limit.min(4) as usize, "retries");
            // Probes, each with a second request because the refusal names no field.
            let checked = Preset { check_capabilities: Some(true), ..preset };
            let (backend, requests) = server(vec![refused.clone()]).await;
            let (result, _) = run(backend, checked, is_streamed).await;
            assert_eq!(requests.lock().expect("a lock").len(), limit as usize, "probes");
            assert!(!result.ok && !result.errors.is_empty());
        }
    }
}

#[tokio::test]
async fn only_the_modes_that_a_run_tries_are_probed() {
    let signed = json_body(200, &ScriptedBackend::says(r#"{"sign": 7419}"#));
    let answers = vec![signed, json_body(200, &ScriptedBackend::says(GOOD))];
    let (backend, requests) = server(answers).await;
    let preset = Preset { check_capabilities: Some(true), ..Preset::default() };
    assert!(run(backend, preset, false).await.0.ok);
    let requests = requests.lock().expect("a lock");
    let formats: Vec<_> =
        requests.iter().map(|body| body["response_format"]["type"].as_str().unwrap_or("-")).collect();
    assert_eq!(formats, ["json_schema"; 2]);
}
