//! Texts that need no model.

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
