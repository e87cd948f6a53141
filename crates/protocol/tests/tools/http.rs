//! The tool loop over HTTP, against a scripted server.

use std::sync::Mutex;
use std::time::Duration;

use formwork_protocol::{RemoteBackend, RetryPolicy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Returns an HTTP response as text.
pub(super) fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

pub(super) fn good(answer: &Value) -> String {
    response("200 OK", "content-type: application/json\r\n", &answer.to_string())
}

/// Starts a server that responds to each request with the result of `answer`. Returns its URL.
pub(super) async fn serve(mut answer: impl FnMut(String) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let Some(request) = read(&mut stream).await else { continue };
            // The client may have disconnected.
            let _ = stream.write_all(answer(request).as_bytes()).await;
        }
    });
    format!("http://{address}")
}

/// Reads a whole request.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if length.is_none_or(|length| length.parse::<usize>().expect("a length") <= body.len()) {
                return Some(text.into_owned());
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
}

/// Runs over a server with these responses in order. Returns the run and the number of responses
/// sent.
async fn run_over(responses: Vec<String>, given: Value) -> (ToolRun, usize) {
    let left = Arc::new(Mutex::new(responses.into_iter()));
    let total = left.lock().expect("a lock").len();
    let script = Arc::clone(&left);
    let url = serve(move |_| script.lock().expect("a lock").next().expect("a response")).await;
    let retry = RetryPolicy { first: Duration::from_millis(1), ..RetryPolicy::default() };
    let backend = RemoteBackend::new(&url).expect("a URL").with_retry(retry);
    let prompt = PromptRunner::new(Arc::new(backend), "m");
    let runner = ToolLoopRunner::new(prompt, Arc::new(registry()), options(given)).expect("a runner");
    let run = runner.run(question()).await.expect("not cancelled");
    let left = left.lock().expect("a lock").len();
    (run, total - left)
}

#[tokio::test]
async fn retries_transient_errors_and_records_them() {
    let busy = response("429 Too Many Requests", "retry-after: 0\r\n", r#"{"error": {"message": "busy"}}"#);
    let broken = response("503 Service Unavailable", "", "oops");
    let gateway = good(&json!({ "error": { "message": "upstream", "code": 502 } }));
    let responses = vec![busy, broken.clone(), good(&calls("a", "echo", "")), gateway, good(&says("Done."))];
    let (run, given) = run_over(responses, json!({ "tool_use_mode": "enforced" })).await;
    assert!(run.ok, "{:?}", run.errors);
    assert_eq!(run.turns[0].retried, ["RATE_LIMITED", "SERVER_ERROR"]);
    assert_eq!(run.turns[1].retried, ["SERVER_ERROR"]);
    assert_eq!((run.stats.attempts, given), (5, 5));
    assert_eq!(
        formwork_protocol::tools::replay(&run, &formwork_protocol::tools::Transforms::default())
            .expect("a replay"),
        run
    );
}

#[tokio::test]
async fn permanent_errors_end_the_run() {
    let busy = response("429 Too Many Requests", "retry-after: 0\r\n", r#"{"error": {"message": "busy"}}"#);
    let (run, given) = run_over(vec![busy; 4], json!({})).await;
    assert_eq!((errors(&run), given), (vec!["RATE_LIMITED"], 4));
    assert_eq!(run.errors[0].details["retry_after_seconds"], 0.0);
    let refused = response("400 Bad Request", "", r#"{"error": {"message": "no tools here"}}"#);
    let (run, given) = run_over(vec![refused], json!({})).await;
    assert_eq!((errors(&run), given), (vec!["INVALID_REQUEST"], 1));
    assert_eq!(run.errors[0].message, "the backend answered 400: no tools here");
    let (run, _) = run_over(vec![response("200 OK", "", "<html>")], json!({})).await;
    assert_eq!(errors(&run), ["MALFORMED_RESPONSE"]);
}

#[tokio::test]
async fn sends_only_the_conversation_to_a_server() {
    // Probing the capabilities of the model would take additional requests.
    let (run, given) = run_over(
        vec![good(&calls("a", "echo", "")), good(&says("Done."))],
        json!({ "tool_use_mode": "enforced" }),
    )
    .await;
    assert_eq!((run.ok, given), (true, 2));
    assert!(!run.plan(0).expect("a turn").options.contains_key("tool_choice"));
}
