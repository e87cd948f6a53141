use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const ENVELOPE: &str = r#"{"assistant_text": "a ``` b { c } \" d", "directives": []}"#;
const FIELDS: [&str; 2] = ["assistant_text", "directives"];

fn found(content: &str) -> Result<String, ObjectError> {
    find(content, 200_000, &FIELDS).map(|object| Value::Object(object.members).to_string())
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
        assert_eq!(found(&content).as_deref(), Ok(expected.as_str()), "{content}");
    }
}

#[test]
fn falls_back_to_an_object_of_another_kind() {
    assert_eq!(found("It is {\"a\": 1}, or {\"b\": 2}.").as_deref(), Ok(r#"{"a":1}"#));
    assert_eq!(found("{}").as_deref(), Ok("{}"));
}

#[test]
fn reports_repeated_names_and_the_source_text() {
    let object = find("So: {\"a\": 1, \"a\": 2, \"b\": [1.0]} ", 1000, &[]).expect("an object");
    assert_eq!((object.members["a"].clone(), object.duplicates), (2.into(), vec!["a".to_owned()]));
    assert_eq!(object.text, "{\"a\": 1, \"a\": 2, \"b\": [1.0]}");
}

#[test]
fn errors_have_the_position_in_the_whole_text() {
    let broken = found("Hé!\n```json\n{\n  \"é\": oops\n}\n```");
    let reason = "expected value".to_owned();
    assert_eq!(broken, Err(ObjectError::Invalid { line: 4, column: 8, reason }));
    assert_eq!(found("{\"a\": [1,\n2"), Err(ObjectError::Truncated { line: 2, column: 1 }));
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
        let _ = found(&piece.repeat(length / piece.len()));
        // The limit is seconds. Reading from each brace to the end would take minutes.
        assert!(started.elapsed() < Duration::from_secs(5), "{piece} took {:?}", started.elapsed());
    }
    let deep = format!("{{\"assistant_text\": {}1{}}}", "[".repeat(1000), "]".repeat(1000));
    assert!(matches!(found(&deep), Err(ObjectError::Invalid { .. })));
}

proptest! {
    #[test]
    fn nothing_panics(content in "([{}\\[\\]\":,a`~\n\u{e9}\\\\0]|```|\"assistant_text\"){0,60}", limit in 0usize..80) {
        let _ = find(&content, limit, &FIELDS);
    }

    #[test]
    fn ignores_surrounding_text_without_braces(before in "[a-z \n\"'`,:\\[]{0,40}", after in "[a-z \n\"'`,:{\\]]{0,40}") {
        prop_assert_eq!(found(&format!("{before}{ENVELOPE}{after}")), found(ENVELOPE));
    }
}

#[test]
fn several_different_envelopes_are_an_error_unless_the_text_says_which() {
    let envelope = |text: &str| format!("{{\"assistant_text\": \"{text}\", \"directives\": []}}");
    let (a, b) = (envelope("a"), envelope("b"));
    let chosen = |content: String| {
        find(&content, 200_000, &FIELDS).map(|object| object.members["assistant_text"].clone())
    };
    for content in [
        format!("{a}\n{a}"),
        format!("Draft: {b}\nFinal: {a}"),
        format!("The format is {b}. Answer: {a}"),
        format!("{{\"assistant_text\": \"c\"}} {a}"),
        format!("{b}\n```json\n{a}\n```"),
    ] {
        assert_eq!(chosen(content.clone()), Ok("a".into()), "{content}");
    }
    for (content, positions) in [
        (format!("{a}{b}"), vec![(1, 1), (1, 42)]),
        (format!("{a}\n{b}\n{a}"), vec![(1, 1), (2, 1)]),
        (format!("```json\n{a}\n```\nor\n```json\n{b}\n```"), vec![(2, 1), (6, 1)]),
    ] {
        assert_eq!(chosen(content.clone()), Err(ObjectError::Ambiguous { positions }), "{content}");
    }
}

#[test]
fn text_outside_of_the_object_is_kept() {
    let outside = |content: &str| find(content, 1000, &FIELDS).expect("an object").outside;
    assert_eq!(outside(&format!("<think>So.</think>\n```json\n{ENVELOPE}\n```")), "");
    assert_eq!(outside(&format!("Hello!\n```json\n{ENVELOPE}\n```\nCall me.")), "Hello!\nCall me.");
    assert_eq!(outside(&format!("Here: {ENVELOPE} PS: b")), "Here:\nPS: b");
}

#[test]
fn thoughts_of_every_family_are_skipped_and_mentions_are_not() {
    let draft = "{\"assistant_text\": \"no\", \"directives\": []}";
    for (open, close) in thoughts::TAGS {
        assert_eq!(found(&format!("{open}Maybe {draft}?{close}{ENVELOPE}")), found(ENVELOPE), "{open}");
        assert_eq!(found(&format!("{open}Maybe {draft}")), Err(ObjectError::Empty), "{open}");
    }
    assert_eq!(found(&format!("I use <think> tags. {ENVELOPE}")), found(ENVELOPE));
    assert_eq!(found(&format!("Sure. <think>Maybe {draft}")), Err(ObjectError::Empty));
}
