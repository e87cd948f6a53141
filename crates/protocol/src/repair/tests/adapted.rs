//! Texts that need no model, and content of broken texts that a repair must preserve.

use super::*;
use crate::adapt::{AdaptOptions, Tolerance};

fn order() -> Shape {
    let schema = json!({
        "type": "object",
        "properties": {
            "count": { "type": "integer" },
            "name": { "type": "string" },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["count"],
    });
    Shape::of_schema(schema, "order").expect("a schema")
}

async fn adapted(text: &str, answers: &[&str]) -> (usize, Answer) {
    let backend = says(answers);
    let repairer = Repairer::new(PromptRunner::new(backend.clone(), "m"), order());
    let options = AdaptOptions::full().with_tolerance(Tolerance::Json5);
    let repairer = repairer.with_adaptation(options).expect("options");
    let answer = repairer.repair(&Plan::default(), text).await.expect("an answer");
    (backend.asked().len(), answer)
}

#[tokio::test]
async fn adapts_unambiguous_texts_without_a_model() {
    for (text, value, done) in [
        (r#"{"count":"2",}"#, json!({ "count": 2 }), &["trailing-comma", "str->int"][..]),
        ("{count: 2, 'name': 'pen'}", json!({ "count": 2, "name": "pen" }), &["bare-name"]),
        ("{\"count\": 2, \"name\": \"a\nb\"}", json!({ "count": 2, "name": "a\nb" }), &["control-character"]),
    ] {
        let (asked, answer) = adapted(text, &[]).await;
        assert_eq!((asked, answer.verdict, &answer.value), (0, Verdict::Valid, &Some(value)), "{text}");
        for name in done {
            assert!(answer.adapted.iter().any(|transform| transform == name), "{text}: {:?}", answer.adapted);
        }
    }
}

#[tokio::test]
async fn adapted_numbers_keep_their_digits() {
    let schema = json!({ "type": "object", "properties": { "x": { "type": "number" } } });
    let shape = Shape::of_schema(schema, "any").expect("a schema");
    let repairer = Repairer::new(PromptRunner::new(says(&[]), "m"), shape);
    let repairer = repairer.with_adaptation(AdaptOptions::full()).expect("options");
    let text = "{ \"x\": 0.12345678901234567890, }";
    let answer = repairer.repair(&Plan::default(), text).await.expect("an answer");
    assert_eq!(answer.written.as_deref(), Some(r#"{"x":0.12345678901234567890}"#));
}

#[tokio::test]
async fn the_model_repairs_a_partly_adapted_value() {
    let (asked, answer) =
        adapted(r#"{"count": "two", "name": "pen",}"#, &[r#"{"count": 2, "name": "pen"}"#]).await;
    assert_eq!((asked, answer.verdict), (1, Verdict::Valid));
    let (asked, answer) = adapted(r#"{"count": "two", "name": "pen",}"#, &["I cannot."; 2]).await;
    assert_eq!((asked, answer.verdict), (2, Verdict::Partial), "the value is worth something");
    assert_eq!(answer.value, Some(json!({ "count": "two", "name": "pen" })));
    assert!(answer.errors[0].contains("Field \"count\""), "{:?}", answer.errors);
}

#[tokio::test]
async fn protects_values_in_a_broken_text() {
    let shape = order();
    for (text, kept, lost) in [
        (
            r#"{"count": 2 "name": "pen", "tags": ["a", "b"]"#,
            r#"{"count": 2, "name": "pen", "tags": ["a", "b"]}"#,
            r#"{"count": 0, "name": "pen", "tags": ["a", "b"]}"#,
        ),
        // A value that was cut off may continue in any way.
        (
            r#"{"count": 2, "name": "a red pe"#,
            r#"{"count": 2, "name": "a red pen"}"#,
            r#"{"name": "a red pe"}"#,
        ),
        (
            r#"{"count": 2, "tags": ["a", "b"#,
            r#"{"count": 2, "tags": ["a", "blue"]}"#,
            r#"{"count": 2, "tags": []}"#,
        ),
        // Members that the schema does not name may be dropped.
        (r#"{"type": "integer", "count": 2,"#, r#"{"count": 2}"#, r#"{"count": 3}"#),
    ] {
        let before = shape.read(text);
        assert_eq!(before.value, None, "{text}");
        assert!(!shape.read(kept).loses(&before), "{text}: {kept}");
        assert!(shape.read(lost).loses(&before), "{text}: {lost}");
    }
}

#[test]
fn does_not_protect_prose() {
    let value = order().read(r#"{"count": 2}"#);
    for text in [
        "The format is {name: string, count: integer}.",
        "I have 2 pens, \"red\" and 'blue'.",
        "Use {braces} or [1, 2]: it is yours",
        "",
        "\"count\"",
    ] {
        assert!(!value.loses(&order().read(text)), "{text}");
    }
}

#[test]
fn only_truncated_values_may_be_extended() {
    let shape = order();
    for (text, repair, is_lost) in [
        // A number at the end of the text may have more digits, unless something follows it.
        (r#"{"name": "pen", "count": 12"#, r#"{"name": "pen", "count": 129}"#, false),
        (r#"{"count": 2, "na"#, r#"{"count": 7, "name": "x"}"#, true),
        (r#"{"count": 2, "na"#, r#"{"count": 2, "name": "x"}"#, false),
        (r#"{"count": 2, "tags": ["a", "b", "#, r#"{"count": 2, "tags": ["a"]}"#, true),
        (r#"{"count": 2, "tags": ["a", "b", "#, r#"{"count": 2, "tags": ["a", "b"]}"#, false),
    ] {
        assert_eq!(shape.read(repair).loses(&shape.read(text)), is_lost, "{text}: {repair}");
    }
}

#[test]
fn does_not_protect_drafts_in_reasoning() {
    let text = r#"Draft {"count": 5, "name": "a draft"}</think>{"count": 2 "name": "pen"}"#;
    let (repair, draft) = (r#"{"count": 2, "name": "pen"}"#, r#"{"count": 5, "name": "a draft"}"#);
    let before = order().read(text);
    assert!(!order().read(repair).loses(&before) && order().read(draft).loses(&before));
}

#[tokio::test]
async fn ignores_values_outside_the_answer() {
    for text in [
        r#"I could say {"count": 5, "name": "draft"}, but no.</think>{"count": "two"}"#,
        "For example {\"count\": 5, \"name\": \"example\"}. Mine:\n```json\n{\"count\": \"two\"}\n```",
    ] {
        let (asked, answer) = adapted(text, &[r#"{"count": 2}"#]).await;
        assert_eq!((asked, answer.value), (1, Some(json!({ "count": 2 }))), "{text}");
    }
}

#[tokio::test]
async fn unadapted_numbers_keep_their_digits() {
    let text = r#"{"count": "two", "x": 0.12345678901234567890}"#;
    let (_, answer) = adapted(text, &["I cannot."; 2]).await;
    assert_eq!(answer.written.as_deref(), Some(r#"{"count":"two","x":0.12345678901234567890}"#));
}
