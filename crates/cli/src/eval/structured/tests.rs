use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::super::tests::{json, lines, run, server};
use super::*;

/// A server on a loopback port that answers by a function from request to status and answer text.
struct Scripted {
    url: String,
    asked: Arc<AtomicUsize>,
}

fn scripted(answer: fn(&Value) -> (u16, String)) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.unwrap(), answer, &counter);
        }
    });
    Scripted { url, asked }
}

/// Answers one request and closes the connection.
fn serve(mut stream: TcpStream, answer: fn(&Value) -> (u16, String), asked: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 {
            return;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    asked.fetch_add(1, Ordering::Relaxed);
    let (status, text) = answer(&serde_json::from_slice(&body).unwrap());
    let body = match status {
        200 => {
            let message = json!({ "role": "assistant", "content": text });
            let choice = json!({ "index": 0, "finish_reason": "stop", "message": message });
            let usage = json!({ "prompt_tokens": 11, "completion_tokens": 3 });
            json!({ "choices": [choice], "usage": usage }).to_string()
        }
        _ => json!({ "error": { "message": text, "type": "invalid_request_error" } }).to_string(),
    };
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
}

/// Returns what the prompt of a built-in case asks for.
fn wanted(body: &Value) -> String {
    let prompt = body["messages"][0]["content"].as_str().unwrap();
    prompt.split_once(": ").unwrap().1.to_owned()
}

fn schema(body: &Value) -> &Value {
    &body["response_format"]["json_schema"]["schema"]["properties"]["value"]
}

/// Refuses `pattern`, enforces `maximum` and `const`, and drops all other keywords.
fn mixed(body: &Value) -> (u16, String) {
    let schema = schema(body);
    if schema.get("pattern").is_some() {
        (400, "schema keyword `pattern` is not supported".to_owned())
    } else if schema.get("maximum").is_some() {
        (200, r#"{"value": 10}"#.to_owned())
    } else if let Some(constant) = schema.get("const") {
        (200, json!({ "value": constant }).to_string())
    } else {
        (200, wanted(body))
    }
}

fn verdict(summary: &Value, keyword: &str) -> String {
    let rows = summary["keywords"].as_array().unwrap();
    let row = rows.iter().find(|row| row["keyword"] == keyword).unwrap();
    row["verdict"].as_str().unwrap().to_owned()
}

#[test]
fn the_table_of_a_server_says_enforced_refused_or_ignored() -> Result<()> {
    let (server, folder) = (scripted(mixed), tempfile::tempdir()?);
    let out = folder.path().join("kit");
    let args = ["structured", "--keywords", "-m", "m", "--base-url", &server.url, "--out"];
    let args = [&args[..], &[out.to_str().unwrap(), "--trials", "2"]].concat();
    assert!(run(&args)?);
    let summary = json(&out, "summary.json");
    for (keyword, wanted) in [
        ("pattern", "refused"),
        ("maximum", "enforced"),
        ("const", "enforced"),
        ("minimum", "ignored"),
        ("format: date", "ignored"),
        ("if/then/else", "ignored"),
        ("$ref", "ignored"),
        ("(any schema)", "ignored"),
    ] {
        assert_eq!(verdict(&summary, keyword), wanted, "{keyword}");
    }
    assert_eq!(summary["planned"], 110);
    assert_eq!(summary["overall"]["completion_tokens"], 3 * 108);
    let page = std::fs::read_to_string(out.join("report.html"))?;
    assert!(page.contains("<h2>Keywords</h2>") && page.contains("refused"));
    // Finished trials are not repeated, and a killed run resumes.
    let asked = server.asked.load(Ordering::Relaxed);
    assert_eq!(asked, 110);
    let whole = lines(&out);
    std::fs::write(out.join("trials.jsonl"), format!("{}\n{}", whole[..100].join("\n"), &whole[100][..9]))?;
    assert!(run(&args)?);
    assert_eq!((server.asked.load(Ordering::Relaxed), lines(&out).len()), (asked + 10, 110));
    assert_eq!(json(&out, "summary.json")["keywords"], summary["keywords"]);
    let error = run(&[&args[..], &["--strict", "omit"]].concat()).unwrap_err();
    assert!(error.to_string().contains("`strict` differs"), "{error:#}");
    Ok(())
}

#[test]
fn runs_any_folder_of_cases() -> Result<()> {
    fn answer(body: &Value) -> (u16, String) {
        (200, body["messages"][0]["content"].as_str().unwrap().to_owned())
    }
    let (server, folder) = (scripted(answer), tempfile::tempdir()?);
    let cases = folder.path().join("cases");
    std::fs::create_dir_all(cases.join("more"))?;
    let number = json!({ "type": "object", "properties": { "n": { "type": "integer", "maximum": 9 } }, "required": ["n"] });
    let case =
        |prompt: &str| json!({ "schema": number, "prompt": prompt, "expected": { "n": 3 } }).to_string();
    std::fs::write(cases.join("good.json"), case(r#"{"n": 3}"#))?;
    std::fs::write(cases.join("more/open.json"), case("Three: {\"n\": 3}"))?;
    std::fs::write(
        cases.join("list.jsonl"),
        format!("{}\n\n{}\n", case(r#"{"n": 4}"#), case(r#"{"n": 40}"#)),
    )?;
    std::fs::write(cases.join("README.md"), "no case")?;
    let out = folder.path().join("out");
    let args =
        ["structured", "--cases", cases.to_str().unwrap(), "-m", "m", "--base-url", &server.url, "--out"];
    let args = [&args[..], &[out.to_str().unwrap()]].concat();
    assert!(run(&args)?);
    let summary = json(&out, "summary.json");
    let of = |name: &str| (summary["overall"][name]["ok"].as_u64(), summary["overall"][name]["of"].as_u64());
    assert_eq!(summary["overall"]["ok"], 1);
    assert_eq!((of("valid"), of("complete")), ((Some(3), Some(4)), (Some(4), Some(4))));
    assert_eq!((of("closed"), of("equal")), ((Some(3), Some(4)), (Some(2), Some(4))));
    let ids: Vec<_> =
        summary["cases"].as_array().unwrap().iter().map(|row| row["case"].as_str().unwrap()).collect();
    assert_eq!(ids, ["good", "list#1", "list#3", "more/open"]);
    assert_eq!(verdict(&summary, "maximum"), "ignored");
    assert_eq!(verdict(&summary, "required"), "kept");
    assert!(!run(&[&args[..], &["--min-ok", "0.5"]].concat())?);
    Ok(())
}

#[test]
fn errors_in_cases_name_file_and_place_before_anything_runs() {
    let server = scripted(mixed);
    let error = |files: &[(&str, &str)]| -> String {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let out = folder.path().join("out");
        let path = folder.path().to_str().unwrap();
        let args = ["structured", "--cases", path, "-m", "m", "--base-url", &server.url, "--out"];
        let error = run(&[&args[..], &[out.to_str().unwrap()]].concat()).unwrap_err();
        assert!(!out.exists(), "nothing is written");
        format!("{error:#}").replace(path, "DIR")
    };
    let good = r#"{"schema": {}, "prompt": "?"}"#;
    for (files, told) in [
        (
            vec![("a.json", good), ("b.json", "{\n  \"schema\": {},\n  \"prompt\": ?\n}")],
            "--cases: DIR/b.json: line 3 column 13: ",
        ),
        (
            vec![("a.json", r#"{"schema": {"type": "int"}, "prompt": "?"}"#)],
            "--cases: DIR/a.json: /schema/type: ",
        ),
        (
            vec![("a.jsonl", &format!("{good}\n{{\"schema\": {{}}}}\n"))],
            "--cases: DIR/a.jsonl:2: missing key `prompt`",
        ),
        (vec![("a.txt", good)], "--cases: DIR has no cases"),
        (
            vec![
                ("a.json", r#"{"schema": {}, "prompt": "?", "id": "x"}"#),
                ("b.json", r#"{"schema": {}, "prompt": "?", "id": "x"}"#),
            ],
            "--cases: DIR/b.json: duplicate id `x`, first in DIR/a.json",
        ),
    ] {
        let found = error(&files);
        assert!(found.starts_with(told), "{found}");
    }
    assert_eq!(server.asked.load(Ordering::Relaxed), 0);
    let missing = run(&["structured", "--cases", "/no/such/folder", "-m", "m", "--base-url", &server.url]);
    assert!(format!("{:#}", missing.unwrap_err()).starts_with("--cases: /no/such/folder: "));
}

#[test]
fn an_unreachable_server_is_an_error_and_no_result() -> Result<()> {
    let server = scripted(|_| (401, "wrong key".to_owned()));
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let args =
        ["structured", "--keywords", "-m", "m", "--base-url", &server.url, "--out", out.to_str().unwrap()];
    let error = run(&args).unwrap_err();
    assert!(error.to_string().contains("wrong key"), "{error:#}");
    assert_eq!(server.asked.load(Ordering::Relaxed), 1);
    assert!(Path::new(&out).join("trials.jsonl").exists() && lines(&out).is_empty());
    Ok(())
}

#[test]
fn this_engine_ignores_no_keyword() -> Result<()> {
    let (url, folder) = (server(), tempfile::tempdir()?);
    let out = folder.path().join("out");
    let args = ["structured", "--keywords", "-m", "m", "--base-url", &url, "--max-tokens", "100", "--out"];
    run(&[&args[..], &[out.to_str().unwrap()]].concat())?;
    let summary = json(&out, "summary.json");
    let of = |wanted: &str| -> Vec<&Value> {
        summary["keywords"].as_array().unwrap().iter().filter(|row| row["verdict"] == wanted).collect()
    };
    assert_eq!(of("ignored"), Vec::<&Value>::new());
    assert_eq!(of("refused"), Vec::<&Value>::new());
    // The model knows no end, so some answers are cut off.
    assert!(of("enforced").len() > 10, "{:?}", of("inconclusive"));
    Ok(())
}
