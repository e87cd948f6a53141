//! Runs the example programs in Python and JavaScript against `formwork serve` as a process, whose
//! provider is a scripted server.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use serde_json::{Value, json};

const SAVED: &str = r#"{"assistant_text": "It is saved.", "directives": [{"type": "toast", "payload": {"message": "Saved"}}]}"#;

/// Starts a server that refuses the first request and answers the second one, streamed if asked.
/// Returns its URL, and a handle that yields the requests.
fn upstream() -> (String, thread::JoinHandle<Vec<(String, Value)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let asked = thread::spawn(move || {
        let mut asked = Vec::new();
        for number in 0..2 {
            let (mut stream, _) = listener.accept().expect("a client");
            let (head, body) = read(&mut stream);
            let (status, kind, text) = if number == 0 {
                let refusal = json!({ "error": { "message": "json_schema is not supported" } });
                ("400 Bad Request", "application/json", refusal.to_string())
            } else if body["stream"] == true {
                ("200 OK", "text/event-stream", streamed())
            } else {
                let message = json!({ "role": "assistant", "content": SAVED });
                let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
                ("200 OK", "application/json", json!({ "choices": [choice] }).to_string())
            };
            asked.push((head, body));
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                text.len()
            );
            stream.write_all((head + &text).as_bytes()).expect("a reader");
        }
        asked
    });
    (url, asked)
}

/// Returns the answer in pieces that split words and escapes.
fn streamed() -> String {
    let characters: Vec<char> = SAVED.chars().collect();
    let pieces = characters.chunks(5).map(|piece| {
        let delta = json!({ "content": piece.iter().collect::<String>() });
        format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta }] }))
    });
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    pieces.collect::<String>() + &format!("data: {end}\n\ndata: [DONE]\n\n")
}

/// Reads the head and the body of a request.
fn read(stream: &mut impl Read) -> (String, Value) {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            if length.parse::<usize>().expect("a number") <= body.len() {
                return (head, serde_json::from_str(body).expect("JSON"));
            }
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).expect("a request");
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// A running `formwork serve`, which ends with this value.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    /// Starts the server in `folder`, where it finds `formwork.toml`.
    fn start(folder: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_formwork"))
            .args(["serve", "--providers-only", "--port", "0"])
            .current_dir(folder)
            .env("FORMWORK_TEST_KEY", "secret")
            .env_remove("FORMWORK_API_KEY")
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        let line = lines.next().expect("a line").expect("text");
        let url = line.split_once(" on ").expect("an address").1.trim_end_matches("/v1").to_owned();
        assert_eq!(line, format!("serving provider up on {url}/v1"));
        // Keeps reading, so that the server never waits for its standard error.
        thread::spawn(move || lines.for_each(drop));
        Self { process, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(path)
}

/// Runs an example program. Returns its output and the requests that the provider received, or
/// `None` if the interpreter is missing.
fn run(interpreter: &str, path: &str) -> Option<(Output, Vec<(String, Value)>)> {
    let is_there =
        Command::new(interpreter).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("skipped: {interpreter} is not installed");
        return None;
    }
    let (url, asked) = upstream();
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!("[providers.up]\nbase_url = \"{url}\"\napi_key_env = \"FORMWORK_TEST_KEY\"\n");
    std::fs::write(folder.path().join("formwork.toml"), config).expect("written");
    let server = Server::start(folder.path());
    let output = Command::new(interpreter)
        .arg(example(path))
        .args([&server.url, "up", "some/model", "Tell me that it is saved."])
        .output()
        .expect("a process");
    assert!(output.status.success(), "{output:?}");
    Some((output, asked.join().expect("requests")))
}

fn check_requests(asked: &[(String, Value)]) {
    let formats: Vec<_> = asked.iter().map(|(_, body)| body["response_format"]["type"].as_str()).collect();
    assert_eq!(formats, [Some("json_schema"), Some("json_object")]);
    let (head, body) = &asked[1];
    assert!(head.contains("authorization: bearer secret"), "{head}");
    assert_eq!(body["model"], "some/model");
    assert_eq!(body["messages"][1]["content"], "Tell me that it is saved.");
}

#[test]
fn a_python_program_gets_directives_over_a_provider() {
    let Some((output, asked)) = run("python3", "python/directives.py") else { return };
    check_requests(&asked);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "It is saved.\nui.toast {\"message\": \"Saved\"}\n");
}

#[test]
fn a_javascript_program_gets_directives_over_a_provider() {
    let Some((output, asked)) = run("node", "js/directives.mjs") else { return };
    check_requests(&asked);
    let expected = "It is saved.\n{\"index\":0,\"type\":\"ui.toast\",\"payload\":{\"message\":\"Saved\"}}\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
