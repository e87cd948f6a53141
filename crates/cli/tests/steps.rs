//! Runs `formwork step run` as a process against a scripted server.
#![cfg(unix)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Starts a server that enforces schemas and takes no `max_tokens`. Returns its URL and the bodies
/// of its requests.
fn server() -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let body = read(&mut stream);
            let (status, answer) = if body.get("max_tokens").is_some() {
                (400, json!({ "error": { "message": "max_tokens is not supported" } }))
            } else {
                let is_probe = body["response_format"]["json_schema"]["name"] == "probe";
                let text = if is_probe { r#"{"sign": 7419}"# } else { r#"{"count": 2}"# };
                let message = json!({ "role": "assistant", "content": text });
                (200, json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] }))
            };
            seen.lock().expect("a lock").push(body);
            let answer = answer.to_string();
            let length = answer.len();
            let head =
                format!("HTTP/1.1 {status} Status\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all((head + &answer).as_bytes());
        }
    });
    (url, requests)
}

fn read(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            if body.len() >= length.parse::<usize>().expect("a number") {
                return serde_json::from_str(body).expect("JSON");
            }
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).expect("a request");
        assert!(count > 0, "the request broke off");
        bytes.extend_from_slice(&piece[..count]);
    }
}

const STEPS: &str = "
agents:
  count:
    model: counter
    prompt: Count.
    options: { max_tokens: 50 }
    processing:
      schema: { type: object, properties: { count: { type: integer } }, required: [count] }
";

/// Runs a command in the folder, which also holds the cache.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_formwork"));
    command.current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache")).args(arguments);
    command.output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_step_calls_the_model_that_it_names() {
    let (url, requests) = server();
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "[providers.p]\nbase_url = \"{url}\"\n[models.counter]\nprovider = \"p\"\nmodel = \"count-1\"\n[traces]\ndatabase = \"t.db\"\n"
    );
    std::fs::write(folder.path().join("formwork.toml"), config).expect("written");
    std::fs::write(folder.path().join("steps.yaml"), STEPS).expect("written");
    let step = ["step", "run", "--steps", "steps.yaml", "--step", "count"];
    // The refused probe, the probe, and the request; later processes send the request alone.
    for count in [3, 4] {
        let output = run(folder.path(), &step);
        let told = text(&output.stderr);
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(0), "{\"count\":2}\n"),
            "{told}"
        );
        assert!(told.contains("step count: attempt 1/2: asking count-1 with json_schema"), "{told}");
        assert_eq!(requests.lock().expect("a lock").len(), count, "{told}");
    }
    let last = requests.lock().expect("a lock").pop().expect("a request");
    assert_eq!((&last["model"], &last["max_completion_tokens"]), (&json!("count-1"), &json!(50)));
    let output = run(folder.path(), &["dev", "health-check", "--json"]);
    let health: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&health["overall"]["runs"], &health["overall"]["cost"]["requests"]), (&json!(2), &json!(2)));
}

#[test]
fn a_server_that_is_down_ends_the_command() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    drop(listener);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("steps.yaml"), STEPS).expect("written");
    let step = [
        "step",
        "run",
        "--steps",
        "steps.yaml",
        "--step",
        "count",
        "--base-url",
        &url,
        "-m",
        "counter",
        "--retry-deadline",
        "0",
    ];
    let output = run(folder.path(), &step);
    let told = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{told}");
    assert!(told.contains("the backend could not be reached"), "{told}");
}

#[test]
fn an_unknown_model_is_reported_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("steps.yaml"), STEPS).expect("written");
    let output = run(folder.path(), &["step", "run", "--steps", "steps.yaml", "--step", "count"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("unknown model `counter`; expected a name in `[models]`"), "{told}");
}
