//! Calls in another form, beside other values and in texts that are adapted.

use super::*;
use crate::{AdaptOptions, Adapter, Tolerance};

const TOLERANCES: [Tolerance; 3] = [Tolerance::Strict, Tolerance::Json5, Tolerance::Repair];

fn adapted(text: &str, tolerance: Tolerance) -> Reading {
    let shape = Shape::tool_calls();
    let options = AdaptOptions::full().with_tolerance(tolerance);
    shape.read_adapted(&Adapter::new(shape.schema(), options).expect("a schema"), text)
}

#[test]
fn refuses_calls_beside_the_answer() {
    let call = r#"{"name": "a", "arguments": {"x": 1}}"#;
    let list = format!("[{call}]");
    let named = format!(r#"{{"tool_calls": {list}}}"#);
    let answer = r#"{"content": "done"}"#.to_owned();
    let calls = r#"{"toolCalls": [{"name": "b", "arguments": {}}]}"#.to_owned();
    for (first, second) in [
        (call, &*answer),
        (&list, &answer),
        (&named, &answer),
        (call, &calls),
        (&list, &calls),
        (&named, &calls),
        (&list, r#"[{"name": "b", "arguments": {}}]"#),
        (r#"{"function_call": {"name": "a", "arguments": "{}"}}"#, &answer),
        (r#"{"function": {"name": "a"}}"#, &answer),
        (r#"{"tool": "a", "input": {}}"#, &answer),
        (r#"[{"name": "a", "arguments": {},}]"#, &answer),
        ("{'name': 'a', 'arguments': {}}", &answer),
        ("{name: \"a\", arguments: {}}", &answer),
        (call, r#"{"content": "done",}"#),
        (&list, r#"{"content": "done",}"#),
        (call, "{content: 'done'}"),
        (&list, r#"{"note": 1}"#),
        (r#""{\"name\": \"a\", \"arguments\": {}}""#, &answer),
    ] {
        for text in
            [format!("{first} {second}"), format!("{second}\n{first}"), format!("So: {first} and {second}.")]
        {
            for tolerance in TOLERANCES {
                let reading = adapted(&text, tolerance);
                assert!(!reading.is_valid(), "{text}: {:?}", reading.value);
                assert!(!reading.errors.is_empty(), "{text}");
            }
        }
    }
    let cut = r#"{"name": "a", "arguments": {"#;
    for text in [format!("{cut} {answer}"), format!("{answer} {cut}")] {
        for tolerance in TOLERANCES {
            assert!(!adapted(&text, tolerance).is_valid(), "{text}");
        }
    }
    let errors = Shape::tool_calls().read(&format!("{answer}\n {list}")).errors;
    assert_eq!(
        errors,
        [
            "The JSON cannot be read: ambiguous: the values at line 1, column 1 and at line 2, column 2 look like answers, and only the first matches the schema"
        ]
    );
}

#[test]
fn other_json_beside_the_answer_is_no_call() {
    let shape = Shape::tool_calls();
    for answer in [r#"{"content": "done"}"#, r#"{"name": "a", "arguments": {"x": 1}}"#] {
        let value = shape.read(answer).value.expect("a value");
        for text in [
            format!("I read {{\"name\": \"Emma\"}}. {answer}").replace(r#"{"name": "Emma"}"#, "{x}"),
            format!("{answer}\nAgain: {answer}"),
            format!("{answer}\n```json\n{}\n```", answer.replace(": ", ":\n  ")),
            format!("The name: input {{x}} {answer}"),
            format!("<think>{answer} or {{\"name\": \"b\", \"arguments\": {{}}}}</think>{answer}"),
            serde_json::to_string(answer).expect("a string"),
        ] {
            let reading = shape.read(&text);
            assert_eq!(reading.value.as_ref(), Some(&value), "{text}: {:?}", reading.errors);
        }
    }
    let read = |text: &str| shape.read(text).value;
    let done = Some(json!({ "content": "done" }));
    assert_eq!(read(r#"I read {"name": "Emma"}: {"content": "done"}"#), done);
    assert_eq!(
        read(r#"{"note": 1}: {"name": "a", "arguments": {}}"#),
        read(r#"{"name": "a", "arguments": {}}"#)
    );
}

#[test]
fn converts_calls_in_adapted_values() {
    let expected = json!({ "toolCalls": [{ "name": "a", "arguments": { "x": 1 } }] });
    for (text, least) in [
        (r#"{"tool_calls": [{"name": "a", "arguments": {"x": 1}}],}"#, Tolerance::Strict),
        (r#"{"name": "a", "arguments": {"x": 1},}"#, Tolerance::Strict),
        (r#"[{"name": "a", "arguments": {"x": 1}},]"#, Tolerance::Strict),
        (r#"{"tool_calls": [{"function": {"name": "a", "args": "{\"x\": 1}"}}],}"#, Tolerance::Strict),
        (r#"<tool_call>{"name": "a", "arguments": {"x": 1},}</tool_call>"#, Tolerance::Strict),
        ("{'name': 'a', 'arguments': {'x': 1}}", Tolerance::Json5),
        ("{name: \"a\", arguments: {x: 1}}", Tolerance::Json5),
        ("{\"name\": \"a\" \"arguments\": {\"x\": 1}}", Tolerance::Repair),
    ] {
        for tolerance in TOLERANCES.into_iter().filter(|tolerance| *tolerance >= least) {
            let reading = adapted(text, tolerance);
            assert_eq!(reading.value.as_ref(), Some(&expected), "{text}: {:?}", reading.errors);
            assert!(reading.is_valid() && reading.written().is_none(), "{text}");
            assert_eq!(reading.adapted().last().map(String::as_str), Some("tool-calls"), "{text}");
        }
    }
    let reading =
        adapted(r#"{"content":"x","tool_calls":[{"name": "a", "arguments": {"x": 1}}],}"#, Tolerance::Repair);
    let value = json!({ "content": "x", "toolCalls": [{ "name": "a", "arguments": { "x": 1 } }] });
    assert_eq!(reading.value, Some(value));
    for text in [
        r#"{"name": "a", "arguments": {"x": 1}, "to": "Bob",}"#,
        r#"{"tool_calls": [], "function_call": {"name": "a", "arguments": {}},}"#,
        r#"<tool_call>{"name": "a", "arguments": {},}</tool_call><tool_call>{"name": "b", "arguments": {}}</tool_call>"#,
        r#"<tool_call>{"name": "a", "arguments": {}}</tool_call> {"name": "b", "arguments": {}}"#,
    ] {
        for tolerance in TOLERANCES {
            let reading = adapted(text, tolerance);
            assert!(!reading.is_valid(), "{text}: {:?}", reading.value);
        }
    }
}

#[test]
fn finds_calls_beside_answers_in_linear_time() {
    let shape = Shape::tool_calls();
    for text in [
        "{\"content\": \"a\"} ".repeat(40_000),
        "{\"content\":  \"a\"} {\"content\": \"a\"} ".repeat(20_000),
        format!("{{\"content\": \"a\"}} {}", "name\": ".repeat(100_000)),
        format!("{{\"content\": \"a\"}} {}name", " ".repeat(900_000)),
        "<think></think><invoke ".repeat(40_000),
        "<invoke name=\"a\"></invoke><think>".repeat(25_000),
        "</think><invoke name=\"a\"/>".repeat(30_000),
        "<think><invoke></think>".repeat(30_000),
    ] {
        let start = std::time::Instant::now();
        let _ = shape.read(&text);
        assert!(start.elapsed().as_secs() < 4, "{}: {:?}", &text[..40], start.elapsed());
    }
}
