use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const ENVELOPE: &str = r#"{"assistant_text": "a ``` b { c } \" d", "directives": []}"#;

fn found(content: &str) -> String {
    match parse(content, 200_000) {
        Ok(members) => Value::Object(members).to_string(),
        Err(problem) => problem.code,
    }
}

#[test]
fn finds_the_envelope_anywhere_in_the_text() {
    let expected = serde_json::from_str::<Value>(ENVELOPE).expect("JSON").to_string();
    for content in [
        ENVELOPE.to_owned(),
        format!("\u{feff}\n {ENVELOPE}\r\n"),
        format!("```json\n{ENVELOPE}\n```"),
        format!("```\n{ENVELOPE}\n```"),
        format!("~~~JSON5 title=\"x\"\r\n{ENVELOPE}\r\n~~~\r\n"),
        format!("Sure, here it is:\n\n  ```json\n  {ENVELOPE}\n  ```\nAnything else?"),
        format!("```json\n{ENVELOPE}"),
        format!("```json {ENVELOPE} ```"),
        format!(
            "First some code:\n```rust\nfn main() {{ let a = {{}}; }}\n```\nand then\n```json\n{ENVELOPE}\n```"
        ),
        format!(
            "An empty one is {{\"assistant_text\": \"\", \"directives\": []}}, and mine:\n```json\n{ENVELOPE}\n```"
        ),
        format!("Here: {ENVELOPE} (that was it)"),
        format!("{{so}} I say {{\"note\": 1}} and {ENVELOPE}"),
        format!("{{\"a quote that goes on {ENVELOPE}"),
        format!("{ENVELOPE}{{\"assistant_text\": \"another\"}}"),
        format!("<b>{{{{ template }}}}</b> {ENVELOPE}"),
        format!("[1, 2] {ENVELOPE}"),
        format!("<think>\nMaybe {{\"assistant_text\": \"no\"}}?\n</think>\n\n{ENVELOPE}"),
        format!("Maybe {{\"assistant_text\": \"no\"}}?</think>```json\n{ENVELOPE}\n```"),
    ] {
        assert_eq!(found(&content), expected, "{content}");
    }
}

#[test]
fn falls_back_to_an_object_of_another_kind() {
    assert_eq!(found("It is {\"a\": 1}, or {\"b\": 2}."), r#"{"a":1}"#);
    assert_eq!(found("{}"), "{}");
}

#[test]
fn each_parse_error_has_a_code() {
    for (content, code) in [
        ("", EMPTY),
        (" \n\u{feff}", EMPTY),
        ("I cannot do that.", NO_JSON),
        ("```\n```", NO_JSON),
        ("<think>{}</think>\n", EMPTY),
        ("[{\"type\": \"a\"}]", NOT_AN_OBJECT),
        ("\"{}\"", NOT_AN_OBJECT),
        ("null", NOT_AN_OBJECT),
        ("{'assistant_text': 'a'}", INVALID_JSON),
        ("{\"assistant_text\": \"a\",}", INVALID_JSON),
        ("{\"assistant_text\": \"two\nlines\", \"directives\": []}", INVALID_JSON),
        ("{\"assistant_text\": \"a", TRUNCATED),
        ("{\"assistant_text\": \"a\", \"directives\": [{\"type\": \"x\", \"payload\": {}}", TRUNCATED),
        ("```json\n{\"assistant_text\": \"a\"\n", TRUNCATED),
        ("{", TRUNCATED),
        ("{\"assistant_text\": \"a\", \"directives\": [], \"directives\": [1]}", DUPLICATE_FIELD),
        ("so: {\"assistant_text\": \"a\", \"assistant_text\": \"b\"}", DUPLICATE_FIELD),
    ] {
        assert_eq!(found(content), code, "{content}");
    }
    assert_eq!(found("{\"a\": 1, \"a\": 2}"), r#"{"a":2}"#, "others are the caller's");
}

#[test]
fn positions_refer_to_the_whole_text() {
    let problem = parse("Hé!\n```json\n{\n  \"é\": oops\n}\n```", 1000).expect_err("broken");
    assert_eq!(problem.message, "line 4, column 8: expected value");
    assert_eq!(problem.details.as_deref(), Some(&json!({ "line": 4, "column": 8 })));
    let problem = parse("{\"a\": [1,\n2", 1000).expect_err("broken");
    assert_eq!(problem.message, "the JSON is cut off at line 2, column 1");
}

#[test]
fn limits_the_size_in_bytes() {
    let content = "é".repeat(5);
    assert_eq!(parse(&content, 10).expect_err("prose").code, NO_JSON);
    let problem = parse(&content, 9).expect_err("too large");
    assert_eq!(
        (problem.code.as_str(), problem.details.as_deref()),
        (TOO_LARGE, Some(&json!({ "given": 10, "limit": 9 })))
    );
}

#[test]
fn parses_hostile_texts_in_linear_time() {
    let length = 200_000;
    for piece in [
        "{",
        "[",
        "{\"a\":",
        "{\"a\":{\"b\":0,\"c\":",
        "{\"",
        "{\"{",
        "{\"a\":\"{",
        "{}",
        "```\n{",
        "```\n",
        "{\"a\":[0,0,0,0,0,0,0,0,0,0],\"b\":x",
        "\\\"{",
    ] {
        let started = Instant::now();
        found(&piece.repeat(length / piece.len()));
        // The limit is seconds. Reading from each brace to the end would take minutes.
        assert!(started.elapsed() < Duration::from_secs(5), "{piece} took {:?}", started.elapsed());
    }
    let deep = format!("{{\"assistant_text\": {}1{}}}", "[".repeat(1000), "]".repeat(1000));
    assert_eq!(found(&deep), INVALID_JSON);
}

proptest! {
    #[test]
    fn nothing_panics(content in "([{}\\[\\]\":,a`~\n\u{e9}\\\\0]|```|\"assistant_text\"){0,60}", limit in 0usize..80) {
        let _ = parse(&content, limit);
    }

    #[test]
    fn ignores_surrounding_text_without_braces(before in "[a-z \n\"'`,:\\[]{0,40}", after in "[a-z \n\"'`,:{\\]]{0,40}") {
        prop_assert_eq!(found(&format!("{before}{ENVELOPE}{after}")), found(ENVELOPE));
    }
}
