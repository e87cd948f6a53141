//! Runs `formwork tools run` as a process against a scripted server.
#![cfg(unix)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const TOOLS: &str = r#"
[[tools]]
name = "repeat"
description = "Gives back what it is given."
command = ["cat"]
parameters = { type = "object", properties = { text = { type = "string" } }, required = ["text"] }

[[tools]]
name = "break"
command = ["sh", "-c", "echo 'out of paper' >&2; exit 3"]
"#;

/// Creates a folder that contains the tools file.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tools.toml"), TOOLS).expect("written");
    folder
}

fn tools(folder: &Path) -> PathBuf {
    folder.join("tools.toml")
}

/// Starts a server that returns these answers in order; returns its URL, and a handle that yields
/// the received request bodies.
fn serve(answers: Vec<Value>) -> (String, std::thread::JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let asked = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a client");
            asked.push(read(&mut stream));
            let body = answer.to_string();
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).expect("a reader");
        }
        asked
    });
    (url, asked)
}

/// Reads the body of a request.
fn read(stream: &mut impl Read) -> Value {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            if length.parse::<usize>().expect("a number") <= body.len() {
                return serde_json::from_str(body).expect("JSON");
            }
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).expect("a request");
        bytes.extend_from_slice(&piece[..count]);
    }
}

fn message(message: &Value) -> Value {
    json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] })
}

fn says(text: &str) -> Value {
    message(&json!({ "role": "assistant", "content": text }))
}

fn calls(name: &str, arguments: &str) -> Value {
    let function = json!({ "name": name, "arguments": arguments });
    message(
        &json!({ "content": null, "tool_calls": [{ "id": "a", "type": "function", "function": function }] }),
    )
}

fn formwork(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_formwork"))
        .args(["tools", "run"])
        .args(arguments)
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the command against a scripted server; returns the exit code, standard output, standard
/// error and the received request bodies.
fn run(answers: Vec<Value>, more: &[&str]) -> (Option<i32>, String, String, Vec<Value>) {
    let folder = folder();
    let file = tools(folder.path());
    let (url, asked) = serve(answers);
    let base = ["--base-url", &url, "-m", "m", "--tools", file.to_str().expect("a path")];
    let output = formwork(&[&base[..], more].concat());
    let asked = asked.join().expect("a server");
    (output.status.code(), text(&output.stdout), text(&output.stderr), asked)
}

#[test]
fn prints_the_answer_to_stdout_and_the_calls_to_stderr() {
    let answers = vec![calls("repeat", r#"{"text": "Hi"}"#), says("It says Hi.")];
    let more =
        ["--mode", "enforced", "--system", "Be brief.", "--max-tokens", "9", "--deny", "break", "Say Hi."];
    let (code, out, err, asked) = run(answers, &more);
    assert_eq!((code, out.as_str()), (Some(0), "It says Hi.\n"), "{err}");
    assert!(err.starts_with("turn 1: repeat({\"text\": \"Hi\"})\nturn 1: → {\"text\":\"Hi\"} ("), "{err}");
    assert_eq!(asked[0]["messages"][0], json!({ "role": "system", "content": "Be brief." }));
    assert_eq!(asked[0]["messages"][1], json!({ "role": "user", "content": "Say Hi." }));
    assert_eq!((&asked[0]["max_tokens"], &asked[0]["parallel_tool_calls"]), (&json!(9), &json!(false)));
    assert_eq!(asked[0]["tools"].as_array().map(Vec::len), Some(1));
    let result: Value =
        serde_json::from_str(asked[1]["messages"][3]["content"].as_str().expect("text")).expect("JSON");
    assert_eq!(result, json!({ "ok": true, "data": { "text": "Hi" }, "errors": [], "warnings": [] }));
}

#[test]
fn exits_with_1_if_the_failure_policy_is_violated() {
    let (code, out, err, _) = run(vec![says("No.")], &["--mode", "enforced", "Go."]);
    assert_eq!((code, out.as_str()), (Some(1), "No.\n"));
    assert!(err.contains("formwork: NO_TOOL_CALLS: "), "{err}");
    let failing = || vec![calls("break", ""), says("It broke.")];
    let (code, _, err, _) = run(failing(), &["--mode", "enforced", "Go."]);
    assert_eq!(code, Some(1));
    assert!(
        err.contains("failed: TOOL_ERROR: `sh` failed: exit status: 3")
            && err.contains("turn 1: | out of paper\n")
            && err.contains("formwork: TOOL_ERROR: the last call of these tools failed: break"),
        "{err}"
    );
    let (code, ..) = run(failing(), &["Go."]);
    assert_eq!(code, Some(0), "a relaxed run leaves it to the model");
    let mended = vec![calls("break", ""), calls("repeat", r#"{"text": "Hi"}"#), says("Half.")];
    let (code, ..) = run(mended, &["--mode", "enforced", "--failure-policy", "tolerated", "Go."]);
    assert_eq!(code, Some(0));
    let (code, _, err, _) = run(vec![calls("repeat", "")], &["--max-turns", "1", "Go."]);
    assert_eq!(code, Some(1));
    assert!(err.contains("MAX_TURNS"), "{err}");
}

#[test]
fn exit_codes_match_those_of_other_commands() {
    let cut = |text: &str| {
        let mut answer = says(text);
        answer["choices"][0]["finish_reason"] = json!("length");
        answer
    };
    // 3: the token limit cut off the text.
    let (code, out, err, _) = run(vec![cut("The weather is")], &["Go."]);
    assert_eq!((code, out.as_str()), (Some(3), "The weather is\n"), "{err}");
    assert!(err.contains("formwork: warning: TRUNCATED: the final text was cut off"), "{err}");
    // 3: a content filter cut off the text.
    let mut filtered = says("The weather is");
    filtered["choices"][0]["finish_reason"] = json!("content_filter");
    let (code, out, err, _) = run(vec![filtered], &["Go."]);
    assert_eq!((code, out.as_str()), (Some(3), "The weather is\n"), "{err}");
    assert!(err.contains("formwork: CONTENT_FILTER_CUT: ") && !err.contains("withheld"), "{err}");
    // 1: a negative result counts more than a cut.
    let (code, ..) = run(vec![cut("No.")], &["--mode", "enforced", "Go."]);
    assert_eq!(code, Some(1));
    // 2: the model did not answer.
    let (code, out, err, _) = run(vec![json!({ "error": { "message": "no", "code": 401 } })], &["Go."]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("formwork: AUTHENTICATION: "), "{err}");
    let flagged = json!({ "error": { "message": "Failed check: SAFETY_CHECK_TYPE_BIO", "code": 403 } });
    let (code, _, err, _) = run(vec![flagged], &["Go."]);
    assert_eq!(code, Some(2));
    assert!(err.contains("formwork: CONTENT_FILTER: "), "{err}");
    // A message without text is a negative result.
    let (code, ..) = run(vec![says("<think>Hm.</think>"), says("")], &["Go."]);
    assert_eq!(code, Some(1));
}

#[test]
fn options_reach_the_requests_and_the_loop() {
    let more = [
        "--temperature",
        "0.7",
        "--top-p",
        "0.9",
        "--top-k",
        "5",
        "--min-p",
        "0.1",
        "--request-override",
        "user=me",
        "--tool-transform",
        "tools_without_descriptions",
        "--repeated-calls",
        "stop",
        "Go.",
    ];
    let same = || calls("repeat", r#"{"text": "Hi"}"#);
    let (code, _, err, asked) = run(vec![same(), same()], &more);
    assert_eq!(code, Some(1));
    assert!(
        err.contains("turn 2: repeat repeats the call before it")
            && err.contains("formwork: REPEATED_CALL: "),
        "{err}"
    );
    for (name, value) in [
        ("temperature", json!(0.7)),
        ("top_p", json!(0.9)),
        ("top_k", json!(5)),
        ("min_p", json!(0.1)),
        ("user", json!("me")),
    ] {
        assert_eq!(asked[0][name], value, "{name}");
    }
    let parameters = asked[0]["tools"][0]["function"]["parameters"].to_string();
    assert!(!parameters.contains("description"), "{parameters}");
}

#[test]
fn a_model_of_the_configuration_has_its_provider_and_options() {
    let folder = folder();
    let file = tools(folder.path());
    let (url, asked) = serve(vec![calls("repeat", ""), says("Done.")]);
    let config = format!(
        "[providers.up]\nbase_url = \"{url}\"\nllm_options_defaults = {{ top_k = 3 }}\n[models.glm]\nprovider = \"up\"\n\
         model = \"z-ai/glm-4.7\"\n[tool_calling]\ntool_use_mode = \"enforced\"\ntool_failure_policy = \"fatal\""
    );
    let path = folder.path().join("formwork.toml");
    std::fs::write(&path, config).expect("written");
    let output = formwork(&[
        "--config",
        path.to_str().expect("a path"),
        "-m",
        "glm",
        "--tools",
        file.to_str().expect("a path"),
        "Go.",
    ]);
    // The call lacks its text, so the enforced run fails.
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let asked = asked.join().expect("a server");
    assert_eq!((&asked[0]["model"], &asked[0]["top_k"]), (&json!("z-ai/glm-4.7"), &json!(3)));
}

#[test]
fn the_address_has_the_given_prefix() {
    let folder = folder();
    let file = tools(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/api", listener.local_addr().expect("an address"));
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut head = [0; 64];
        let count = stream.read(&mut head).expect("a request");
        String::from_utf8_lossy(&head[..count]).into_owned()
    });
    let output = formwork(&[
        "--base-url",
        &url,
        "--api-prefix",
        "/beta",
        "--retry-deadline",
        "0",
        "-m",
        "m",
        "--tools",
        file.to_str().expect("a path"),
        "Go.",
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(asked.join().expect("a server").starts_with("POST /api/beta/chat/completions HTTP/1.1"));
}

#[test]
fn calls_a_tool_over_http() {
    let folder = folder();
    let file = folder.path().join("http.toml");
    let (tool, called) = serve(vec![json!({ "count": 12 })]);
    let text_of = format!("[[tools]]\nname = \"count\"\nurl = \"{tool}\"\n");
    std::fs::write(&file, text_of).expect("written");
    let (url, asked) = serve(vec![calls("count", r#"{"item": "lamp"}"#), says("12.")]);
    let output = formwork(&["--base-url", &url, "-m", "m", "--tools", file.to_str().expect("a path"), "Go."]);
    assert_eq!(text(&output.stdout), "12.\n", "{}", text(&output.stderr));
    assert_eq!(called.join().expect("a server"), [json!({ "item": "lamp" })]);
    assert_eq!(asked.join().expect("a server").len(), 2);
}

#[test]
fn applies_presets() {
    let tag = r#"<tool_call>{"name": "repeat", "arguments": {"text": "Hi"}}</tool_call>"#;
    let (code, out, ..) =
        run(vec![says(tag), says("Hi.")], &["--preset", "content_tag_tool_call_fallback", "Go."]);
    assert_eq!((code, out.as_str()), (Some(0), "Hi.\n"));
    let (code, _, _, asked) = run(vec![says("Hi.")], &["--preset", "tool_use_disabled", "Go."]);
    assert_eq!((code, asked[0].get("tools")), (Some(0), None));
}

#[test]
fn replays_a_record() {
    let folder = folder();
    let record = folder.path().join("run.json");
    let record = record.to_str().expect("a path");
    let answers = vec![calls("repeat", r#"{"text": "Hi"}"#), says("It says Hi.")];
    let (code, out, ..) = run(answers, &["--record", record, "--json", "Say Hi."]);
    let printed: Value = serde_json::from_str(&out).expect("JSON");
    let written = std::fs::read_to_string(record).expect("a record");
    assert_eq!((code, printed), (Some(0), serde_json::from_str(&written).expect("JSON")));

    let again = formwork(&["--replay", record]);
    assert_eq!((again.status.code(), text(&again.stdout).as_str()), (Some(0), "It says Hi.\n"));
    assert_eq!(text(&again.stderr), "replayed 2 turns: same result\n");
    std::fs::write(record, written.replace("Say Hi.", "Say Ho.")).expect("written");
    assert_eq!(formwork(&["--replay", record]).status.code(), Some(0), "another question, everywhere");
    std::fs::write(record, written.replacen("Say Hi.", "Say Ho.", 1)).expect("written");
    let other = formwork(&["--replay", record]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("differs from the record in turn 1"), "{}", text(&other.stderr));
}

#[test]
fn starts_an_mcp_server() {
    let script = r#"
while read -r line; do
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[{"type":"text","text":"hello from there"}]}}' ;;
    esac
done
"#;
    let folder = folder();
    let path = folder.path().join("server.sh");
    std::fs::write(&path, script).expect("written");
    let command = format!("sh '{}'", path.display());
    let (code, out, err, asked) = run(vec![calls("hello", ""), says("Hello.")], &["--mcp", &command, "Go."]);
    assert_eq!((code, out.as_str()), (Some(0), "Hello.\n"), "{err}");
    assert!(err.contains("→ \"hello from there\""), "{err}");
    assert_eq!(asked[0]["tools"].as_array().map(Vec::len), Some(3));
}

#[test]
fn reports_errors_in_one_line() {
    let folder = folder();
    let file = tools(folder.path());
    let file = file.to_str().expect("a path");
    let fails = |arguments: &[&str]| {
        let output = formwork(arguments);
        let told = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{told}");
        told
    };
    let remote = ["--base-url", "http://127.0.0.1:9", "-m", "m"];
    let all = |more: &[&'static str]| fails(&[&remote[..], &["--tools", file], more, &["Go."]].concat());
    assert!(
        all(&["--preset", "nothing"]).contains("--preset nothing: unknown preset; expected one of default_")
    );
    assert!(
        all(&["--allow", "nothing"]).contains("--allow nothing: unknown tool; expected one of repeat, break")
    );
    assert!(all(&["--api-key-env", "FORMWORK_NO_SUCH_KEY"]).contains("--api-key-env FORMWORK_NO_SUCH_KEY"));
    assert!(all(&["--tools", "/nowhere.json"]).contains("/nowhere.json"));
    assert!(
        all(&["--mcp", "/nowhere/server"]).contains("the MCP server `/nowhere/server` could not be started")
    );
    assert!(all(&["--mcp", "'open"]).contains("unclosed quote"));
    assert!(fails(&[&remote[..], &["Go."]].concat()).contains("no tools given; use --tools"));
    // The model's name is missing.
    assert!(fails(&["--base-url", "http://127.0.0.1:9", "--tools", file, "Go."]).contains("--model <MODEL>"));
    assert!(fails(&["--replay", file]).contains("not a record of a tool run"));
    std::fs::write(file, "[[tools]]\nname = \"a.b\"\ncommand = [\"cat\"]\n").expect("written");
    assert!(all(&[]).contains("invalid tool name `a.b`: providers reject `.`; use `_`"));
}

#[test]
fn a_step_without_an_answer_exits_as_a_tool_run_does() {
    let folder = folder();
    let steps = folder.path().join("steps.toml");
    std::fs::write(&steps, "[agents.say]\nprompt = \"Say something.\"\n").expect("written");
    let (url, asked) = serve(vec![json!({ "error": { "message": "no", "code": 401 } })]);
    let output = Command::new(env!("CARGO_BIN_EXE_formwork"))
        .args(["step", "run", "--base-url", &url, "-m", "m", "--step", "say"])
        .args([Path::new("--steps"), &steps])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    asked.join().expect("a server");
}
