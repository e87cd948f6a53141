//! Runs `formwork repair` as a process and checks its output streams and exit codes.
#![cfg(unix)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

const SCHEMA: &str =
    r#"{"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}"#;

/// Creates a folder that contains the schema; returns the folder and the schema's path.
fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("schema.json");
    std::fs::write(&path, SCHEMA).expect("written");
    let path = path.display().to_string();
    (folder, path)
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_formwork"));
    command.arg("repair").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command on an input and returns its output.
fn repaired(arguments: &[&str], input: &str) -> Output {
    let mut child = command(arguments).spawn().expect("it runs");
    // A process that ends before reading its input has already reported why.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the URL of a port on which no server listens.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}/v1", listener.local_addr().expect("an address"))
}

#[test]
fn prints_valid_values_to_stdout_and_errors_to_stderr() {
    let (_folder, schema) = folder();
    let only_checked = ["--schema", &schema, "--max-attempts", "0"];
    let output = repaired(&only_checked, r#"{"count": 1}"#);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "{\"count\":1}\n"));
    let output = repaired(&only_checked, r#"{"count": "two"}"#);
    let told = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""), "{told}");
    assert!(told.contains(r#"not accepted: {"count":"two"}"#) && told.contains("Expected integer"), "{told}");
}

#[test]
fn exits_with_2_if_the_server_cannot_be_reached() {
    let (_folder, schema) = folder();
    let url = nowhere();
    let remote = ["--schema", &schema, "--base-url", &url, "-m", "m", "--retry-deadline", "0"];
    let output = repaired(&remote, r#"{"count": "two"}"#);
    let told = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{told}");
    assert!(told.contains("standard input: the backend could not be reached: "), "{told}");
    assert!(!told.contains("not accepted"), "{told}");
    // A valid answer needs no backend.
    assert_eq!(repaired(&remote, r#"{"count": 1}"#).status.code(), Some(0));
}

#[test]
fn rejects_conflicting_options() {
    for arguments in
        [&["--schema", "a", "--step", "b"][..], &["--schema", "a", "--config", "b"], &["--step", "b"]]
    {
        let output = repaired(arguments, "{}");
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{arguments:?}");
    }
}

#[test]
fn exits_with_141_if_stdout_is_closed() {
    let (_folder, schema) = folder();
    let mut child = command(&["--schema", &schema, "--max-attempts", "0"]).spawn().expect("it runs");
    drop(child.stdout.take());
    child.stdin.take().expect("a pipe").write_all(br#"{"count": 1}"#).expect("a reader");
    let mut told = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut told).expect("a text");
    assert_eq!((child.wait().expect("it ends").code(), told.as_str()), (Some(141), ""));
}
