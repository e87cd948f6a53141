//! Comparison of readings and detection of lost content.

use super::*;

const BOOK: &str =
    r#"{"title": "The Old Man and the Sea", "year": "1952", "tags": ["sea", "fish"], "note": ""}"#;

fn book() -> Shape {
    let schema = json!({
        "type": "object",
        "properties": {
            "title": { "type": "string" },
            "year": { "type": "integer" },
            "tags": { "type": "array", "items": { "type": "string", "minLength": 1 } },
            "note": { "type": "string", "minLength": 1 },
            "person": { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] },
        },
    });
    Shape::of_schema(schema, "book").expect("a schema")
}

/// Returns the final text after the only repair gave `answer`, and whether the repair was
/// discarded.
async fn mended(shape: Shape, text: &str, answer: &str) -> (String, bool) {
    let repairer = Repairer::new(PromptRunner::new(says(&[answer]), "m"), shape)
        .with_options(RepairOptions { max_attempts: 1, ..RepairOptions::default() });
    let answer = repairer.repair(&Plan::default(), text).await.expect("an answer");
    (answer.text, answer.attempts[0].is_discarded)
}

#[tokio::test]
async fn discards_repairs_that_drop_correct_values() {
    for (lost, answer) in [
        ("all of it", "{}"),
        ("the title", r#"{"year": 1952, "tags": ["sea", "fish"]}"#),
        ("a part of the title", r#"{"title": "The Old Man", "year": 1952, "tags": ["sea", "fish"]}"#),
        ("the year", r#"{"title": "The Old Man and the Sea", "tags": ["sea", "fish"]}"#),
        ("a tag", r#"{"title": "The Old Man and the Sea", "year": 1952, "tags": ["sea"]}"#),
        ("the tags", r#"{"title": "The Old Man and the Sea", "year": 1952, "tags": []}"#),
    ] {
        let (text, is_discarded) = mended(book(), BOOK, answer).await;
        assert!(is_discarded && text == BOOK, "{lost}: {text}");
    }
}

#[tokio::test]
async fn accepts_repairs_that_keep_all_values() {
    let whole = r#"{"title": "The Old Man and the Sea", "year": 1952, "tags": ["sea", "fish"]}"#;
    let (text, is_discarded) = mended(book(), BOOK, whole).await;
    assert!(!is_discarded && text == whole, "what says nothing may go: {text}");
    for (what, before, after) in [
        ("what no part of the schema names may go", r#"{"title": 7, "thought": "Hm."}"#, r#"{"title": "7"}"#),
        (
            "blanks may change",
            r#"{"title": "The  Old\nMan", "year": "1"}"#,
            r#"{"title": "The Old Man", "year": 1}"#,
        ),
        ("what is wrong may change", r#"{"year": "nineteen"}"#, r#"{"year": 1919}"#),
        ("null may go", r#"{"title": "A", "year": null}"#, r#"{"title": "A"}"#),
        (
            "it may be elsewhere",
            r#"{"person": {"name": 1}, "tags": ["Bob"]}"#,
            r#"{"title": "Bob", "person": {"name": "1"}, "tags": ["x"]}"#,
        ),
    ] {
        let (text, is_discarded) = mended(book(), before, after).await;
        assert!(!is_discarded && text == after, "{what}: {text}");
    }
    let renamed = json!({ "type": "object", "properties": {}, "required": ["name"] });
    let renamed = Shape::of_schema(renamed, "named").expect("a schema");
    let (text, _) = mended(renamed, r#"{"nme": "Bob"}"#, r#"{"name": "Bob"}"#).await;
    assert_eq!(text, r#"{"name": "Bob"}"#);
}

#[tokio::test]
async fn discards_repairs_that_drop_calls() {
    for (answer, is_lost) in [
        ("{}", true),
        (r#"{"content": "I look."}"#, true),
        (r#"{"toolCalls": [], "content": "I look."}"#, true),
        (r#"{"toolCalls": [{"name": "now", "arguments": {}}]}"#, true),
        (GOOD, false),
    ] {
        assert_eq!(mended(Shape::tool_calls(), BAD, answer).await.1, is_lost, "{answer}");
    }
    let calls = |names: &[&str], last: Value| {
        let mut calls: Vec<Value> =
            names.iter().map(|name| json!({ "name": name, "arguments": { "to": "Ann" } })).collect();
        calls.push(json!({ "name": "end", "arguments": last }));
        json!({ "toolCalls": calls }).to_string()
    };
    let before = calls(&["pay", "pay"], json!("now"));
    for (after, is_lost) in [
        (calls(&["pay", "pay"], json!({ "when": "now" })), false),
        (calls(&["pay"], json!({ "when": "now" })), true),
    ] {
        assert_eq!(mended(Shape::tool_calls(), &before, &after).await.1, is_lost, "{after}");
    }
    // Without JSON, the text itself is the answer.
    assert!(mended(Shape::tool_calls(), NONE, "{}").await.1);
    assert!(!mended(Shape::tool_calls(), NONE, GOOD).await.1);
}

#[tokio::test]
async fn discards_repairs_that_round_a_large_number() {
    let shape =
        Shape::of_schema(json!({ "type": "object", "properties": { "id": {} } }), "s").expect("a schema");
    let text = r#"{"id": 12345678901234567890123}"#;
    assert!(mended(shape.clone(), text, r#"{"id": 12345678901234567}"#).await.1);
    assert!(mended(shape.clone(), text, r#"{"id": 1.2345678901234568e22}"#).await.1);
    assert!(!mended(shape, text, r#"{"id": "12345678901234567890123"}"#).await.1);
}

#[tokio::test]
async fn keeps_the_first_text_if_no_answer_has_a_value() {
    let backend = says(&["Sorry, I cannot.", "Sorry."]);
    let answer = repairer(&backend).repair(&Plan::default(), NONE).await.expect("an answer");
    assert_eq!((answer.verdict, answer.text.as_str()), (Verdict::Text, NONE));
    assert_eq!(answer.value, Some(json!({ "content": NONE })));
}
