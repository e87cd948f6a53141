//! Long answers, and answers that are cut off or withheld.

use super::*;
use crate::adapt::{AdaptOptions, Tolerance};

fn backend(choices: &[Value]) -> Arc<ScriptedBackend> {
    Arc::new(ScriptedBackend::new(choices.iter().map(|choice| Ok(json!({ "choices": [choice] })))))
}

fn choice(message: &Value, finish_reason: &str) -> Value {
    json!({ "message": message, "finish_reason": finish_reason })
}

#[tokio::test]
async fn sends_the_whole_answer_and_shortens_the_prompt() {
    let long = format!(r#"{{"toolCalls": [{{"name": 7}}], "content": "{}"}}"#, "x".repeat(150_000));
    let backend = says(&["no"]);
    let once = RepairOptions { max_attempts: 1, ..RepairOptions::default() };
    repairer(&backend).with_options(once).repair(&question(), &long).await.expect("an answer");
    let messages = backend.asked()[0]["messages"].clone();
    assert_eq!((&messages[1]["role"], &messages[1]["content"]), (&json!("assistant"), &json!(long)));
    assert!(messages[2]["content"].as_str().is_some_and(|prompt| prompt.len() < 10_000));
    // The length is bounded.
    let huge = format!(r#"{{"content": 7, "x": "{}"}}"#, "x".repeat(300_000));
    let backend = says(&["no"]);
    let once = RepairOptions { max_attempts: 1, ..RepairOptions::default() };
    repairer(&backend).with_options(once).repair(&question(), &huge).await.expect("an answer");
    let sent = backend.asked()[0]["messages"][1]["content"].as_str().map(str::len);
    assert_eq!(sent, Some(SENT + "...".len()));
}

#[tokio::test]
async fn a_withheld_answer_ends_the_run() {
    for (answer, told) in [
        (
            choice(&json!({ "content": null, "refusal": "I can't." }), "stop"),
            "REFUSED: the model refused to answer: I can't.",
        ),
        (
            choice(&json!({ "content": GOOD }), "content_filter"),
            "CONTENT_FILTER: the provider's content filter withheld the answer",
        ),
    ] {
        let backend = backend(std::slice::from_ref(&answer));
        let given = repairer(&backend).ask(&question()).await.expect("a result");
        assert_eq!(
            (given.verdict, &given.value, given.errors.as_slice()),
            (Verdict::Text, &None, &[told.to_owned()][..])
        );
        assert_eq!(backend.asked().len(), 1, "no repair, no other mode");
        // A refused repair keeps the text before.
        let backend = self::backend(&[answer]);
        let given = repairer(&backend).repair(&question(), BETTER).await.expect("a result");
        assert_eq!((given.verdict, given.text.as_str(), given.repairs), (Verdict::Partial, BETTER, 1));
        assert!(given.withheld.is_some() && given.attempts[0].is_discarded);
    }
}

#[tokio::test]
async fn an_answer_that_may_be_cut_off_is_repaired() {
    let shape = || Shape::of_schema(json!({ "type": "integer" }), "count").expect("a schema");
    let cut = choice(&json!({ "content": "12" }), "length");
    let backend = backend(&[cut.clone(), choice(&json!({ "content": "123" }), "stop")]);
    let repairer = Repairer::new(PromptRunner::new(backend, "m"), shape());
    let answer = repairer.ask(&question()).await.expect("an answer");
    assert_eq!((answer.verdict, answer.value, answer.repairs), (Verdict::Valid, Some(json!(123)), 1));
    let options =
        RepairOptions { max_attempts: 0, modes: vec![Mode::PromptOnly], ..RepairOptions::default() };
    let repairer =
        Repairer::new(PromptRunner::new(self::backend(&[cut]), "m"), shape()).with_options(options);
    let answer = repairer.ask(&question()).await.expect("an answer");
    assert!(answer.verdict != Verdict::Valid && answer.is_truncated, "{answer:?}");
}

#[tokio::test]
async fn no_model_completes_a_text_that_was_closed_at_its_end() {
    let schema = json!({
        "type": "object",
        "properties": { "item": { "type": "string" }, "quantity": { "type": "integer" } },
        "required": ["item", "quantity"],
    });
    let read = async |text: &str, allow_truncated: bool| {
        let backend = says(&[]);
        let shape = Shape::of_schema(schema.clone(), "order").expect("a schema");
        let options = AdaptOptions::full().with_tolerance(Tolerance::Repair);
        let options = AdaptOptions { allow_truncated, ..options };
        let repairer = Repairer::new(PromptRunner::new(backend, "m"), shape);
        let repairer = repairer.with_adaptation(options).expect("options");
        let answer = repairer.repair(&question(), text).await.expect("an answer");
        assert_eq!(answer.repairs, 0, "{text}");
        answer
    };
    let text = r#"{"item":"lamp","quantity":2"#;
    let answer = read(text, false).await;
    assert!(answer.verdict != Verdict::Valid && answer.is_truncated, "{answer:?}");
    assert!(answer.errors[0].contains("the text ends inside the value"), "{answer:?}");
    let answer = read(text, true).await;
    assert_eq!(
        (answer.verdict, answer.value),
        (Verdict::Valid, Some(json!({ "item": "lamp", "quantity": 2 })))
    );
    let answer = read(r#"{"item":"lamp""#, false).await;
    assert!(answer.verdict != Verdict::Valid && !answer.is_truncated, "a member is missing too: {answer:?}");
}

#[tokio::test]
async fn a_usable_answer_ends_the_modes_unless_strict() {
    let options = RepairOptions { max_attempts: 0, ..RepairOptions::default() };
    let backend = says(&[BETTER]);
    let answer = asked(&backend, options.clone()).await;
    assert_eq!((answer.verdict, backend.asked().len()), (Verdict::Partial, 1));
    let backend = says(&[BETTER, BETTER, GOOD]);
    let answer = asked(&backend, RepairOptions { strict: true, ..options }).await;
    assert_eq!((answer.verdict, backend.asked().len()), (Verdict::Valid, 3));
}

#[tokio::test]
async fn a_failed_repair_request_keeps_the_repair_before() {
    let answers = [Ok(ScriptedBackend::says(BETTER)), Err(BackendError::from_status(503, "busy"))];
    let backend = Arc::new(ScriptedBackend::new(answers));
    let answer = repairer(&backend).repair(&question(), BAD).await.expect("an answer");
    assert_eq!((answer.verdict, answer.text.as_str(), answer.repairs), (Verdict::Partial, BETTER, 2));
    assert_eq!(answer.unanswered.map(|error| error.category()), Some(Category::Server));
    assert!(answer.attempts[1].is_discarded && answer.attempts[1].text.is_none());
}
