mod adapted;
mod better;
mod endings;
mod refusals;

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::directives::Mode;
use crate::{BackendError, Body, Category, Interruption, Plan, PromptRunner, RetryCause, ScriptedBackend};

const GOOD: &str = r#"{"toolCalls": [{"name": "now", "arguments": {}}], "content": "I look."}"#;
/// A call with two errors.
const BAD: &str = r#"{"toolCalls": [{"name": 7}], "content": "I look."}"#;
/// A call with one error.
const BETTER: &str = r#"{"toolCalls": [{"name": "now"}], "content": "I look."}"#;
const NONE: &str = "I would look at the clock.";

fn says(texts: &[&str]) -> Arc<ScriptedBackend> {
    Arc::new(ScriptedBackend::new(texts.iter().map(|text| Ok(ScriptedBackend::says(text)))))
}

fn repairer(backend: &Arc<ScriptedBackend>) -> Repairer {
    Repairer::new(PromptRunner::new(backend.clone(), "m"), Shape::tool_calls())
}

fn question() -> Plan {
    Plan { messages: vec![json!({ "role": "user", "content": "What time is it?" })], ..Plan::default() }
}

async fn asked(backend: &Arc<ScriptedBackend>, options: RepairOptions) -> Answer {
    repairer(backend).with_options(options).ask(&question()).await.expect("an answer")
}

fn strict() -> RepairOptions {
    RepairOptions { strict: true, ..RepairOptions::default() }
}

/// Returns the response format and the number of messages of each request.
fn formats(backend: &ScriptedBackend) -> Vec<(String, usize)> {
    let format = |body: &Body| match body.get("response_format") {
        Some(format) => format["type"].as_str().unwrap_or_default().to_owned(),
        None => "text".to_owned(),
    };
    let messages = |body: &Body| body["messages"].as_array().map_or(0, Vec::len);
    backend.asked().iter().map(|body| (format(body), messages(body))).collect()
}

fn formats_are(backend: &ScriptedBackend, expected: &[(&str, usize)]) {
    let expected: Vec<_> =
        expected.iter().map(|(format, messages)| ((*format).to_owned(), *messages)).collect();
    assert_eq!(formats(backend), expected);
}

#[tokio::test]
async fn a_valid_answer_needs_no_repair() {
    let backend = says(&[GOOD]);
    let answer = asked(&backend, RepairOptions::default()).await;
    assert_eq!((answer.verdict, answer.repairs, answer.mode), (Verdict::Valid, 0, Some(Mode::JsonSchema)));
    assert_eq!(answer.value, serde_json::from_str(GOOD).ok());
    formats_are(&backend, &[("json_schema", 1)]);
    assert_eq!(backend.asked()[0]["response_format"]["json_schema"]["schema"], *Shape::tool_calls().schema());
}

#[tokio::test]
async fn succeeds_at_the_first_repair() {
    let backend = says(&[BAD, GOOD]);
    let answer = asked(&backend, RepairOptions::default()).await;
    assert_eq!((answer.verdict, answer.repairs), (Verdict::Valid, 1));
    formats_are(&backend, &[("json_schema", 1), ("json_schema", 3)]);
    let repair = &backend.asked()[1];
    assert_eq!(repair["temperature"], 0);
    assert_eq!(repair["messages"][1], json!({ "role": "assistant", "content": BAD }));
}

#[tokio::test]
async fn the_second_repair_sees_the_first() {
    let backend = says(&[BAD, BETTER, GOOD]);
    let answer = asked(&backend, RepairOptions::default()).await;
    assert_eq!((answer.verdict, answer.repairs), (Verdict::Valid, 2));
    let second = &backend.asked()[2]["messages"];
    assert_eq!(second.as_array().map(Vec::len), Some(5));
    assert_eq!((&second[1]["content"], &second[3]["content"]), (&json!(BAD), &json!(BETTER)));
    assert!(
        second[4]["content"]
            .as_str()
            .expect("a text")
            .ends_with("Attempt 2/2 - Please provide corrected JSON:")
    );
}

#[tokio::test]
async fn discards_a_repair_that_validates_less() {
    let backend = says(&[BETTER, BAD, NONE]);
    let answer = asked(&backend, RepairOptions::default()).await;
    assert_eq!((answer.verdict, answer.text.as_str()), (Verdict::Partial, BETTER));
    assert_eq!(
        answer.attempts.iter().map(|attempt| attempt.is_discarded).collect::<Vec<_>>(),
        [false, true, true]
    );
    let messages = &backend.asked()[2]["messages"];
    assert_eq!((&messages[1]["content"], &messages[3]["content"]), (&json!(BETTER), &json!(BAD)));
}

#[tokio::test]
async fn returns_the_best_answer_if_no_repair_succeeds() {
    let backend = says(&[BAD, BETTER, BETTER]);
    let answer = asked(&backend, RepairOptions::default()).await;
    assert_eq!((answer.verdict, answer.repairs, answer.text.as_str()), (Verdict::Partial, 2, BETTER));
    assert_eq!(answer.errors, ["Field \"toolCalls.0.arguments\": Expected object, got undefined"]);
    assert_eq!(backend.asked().len(), 3, "no more than two repairs, and no other mode");
}

#[tokio::test]
async fn strict_mode_tries_the_next_mode_after_a_partial_answer() {
    let backend = says(&[BAD, BAD, BAD, BAD, BETTER]);
    let answer = asked(&backend, strict()).await;
    formats_are(
        &backend,
        &[("json_schema", 1), ("json_schema", 3), ("json_schema", 5), ("json_object", 1), ("text", 1)],
    );
    assert_eq!((answer.verdict, answer.mode), (Verdict::Text, Some(Mode::PromptOnly)));
    assert_eq!(answer.value, Some(json!({ "content": BETTER })));
    let backend = says(&[BAD, BAD, BAD, GOOD]);
    let answer = asked(&backend, strict()).await;
    assert_eq!((answer.verdict, answer.mode), (Verdict::Valid, Some(Mode::JsonObject)));
}

#[tokio::test]
async fn falls_back_to_plain_text() {
    let backend = says(&[NONE; 5]);
    let answer = asked(&backend, RepairOptions::default()).await;
    assert_eq!((answer.verdict, answer.mode, answer.repairs), (Verdict::Text, Some(Mode::PromptOnly), 2));
    assert_eq!(answer.value, Some(json!({ "content": NONE })));
    let any = Shape::of_schema(json!({ "type": "object" }), "any").expect("a schema");
    let backend = says(&[NONE; 5]);
    let repairer = Repairer::new(PromptRunner::new(backend.clone(), "m"), any);
    let answer = repairer.ask(&question()).await.expect("an answer");
    assert_eq!((answer.verdict, answer.value, answer.text.as_str()), (Verdict::Text, None, NONE));
}

#[tokio::test]
async fn refused_modes_lead_to_the_next() {
    let refused = || Err(BackendError::from_status(400, "no such response_format"));
    let answers = [refused(), refused(), Ok(ScriptedBackend::says(BAD)), Ok(ScriptedBackend::says(GOOD))];
    let backend = Arc::new(ScriptedBackend::new(answers));
    let answer = asked(&backend, RepairOptions::default()).await;
    formats_are(&backend, &[("json_schema", 1), ("json_object", 1), ("text", 1), ("text", 3)]);
    assert_eq!(
        (answer.verdict, answer.mode, answer.attempts.len()),
        (Verdict::Valid, Some(Mode::PromptOnly), 4)
    );
}

#[tokio::test]
async fn without_repair_only_validates_answers() {
    let backend = says(&[BAD]);
    let options = RepairOptions { enabled: false, ..RepairOptions::default() };
    let answer = asked(&backend, options).await;
    assert_eq!((answer.verdict, answer.repairs, backend.asked().len()), (Verdict::Partial, 0, 1));
}

#[tokio::test]
async fn an_unanswered_repair_loses_nothing() {
    let down = || Err(BackendError::from_status(503, "down"));
    let backend = Arc::new(ScriptedBackend::new([Ok(ScriptedBackend::says(BAD)), down()]));
    let answer = asked(&backend, RepairOptions::default()).await;
    assert_eq!((answer.verdict, answer.text.as_str(), answer.repairs), (Verdict::Partial, BAD, 1));
    let backend = Arc::new(ScriptedBackend::new([down()]));
    let error = repairer(&backend).ask(&question()).await.expect_err("no answer");
    assert_eq!(error.category(), Category::Server);
}

#[tokio::test]
async fn omits_a_refused_format_in_a_repair() {
    let refused = Err(BackendError::from_status(400, "no such response_format"));
    let backend = Arc::new(ScriptedBackend::new([refused, Ok(ScriptedBackend::says(GOOD))]));
    let format = response_format(&Shape::tool_calls(), Mode::JsonSchema).expect("a format");
    let plan = Plan { options: [("response_format".to_owned(), format)].into_iter().collect(), ..question() };
    let answer = repairer(&backend).repair(&plan, BAD).await.expect("an answer");
    assert_eq!((answer.verdict, answer.repairs), (Verdict::Valid, 1));
    formats_are(&backend, &[("json_schema", 3), ("text", 3)]);
}

#[tokio::test]
async fn interruptions_pass_through_at_any_point() {
    for interruption in [Interruption::Cancelled, Interruption::Paused, Interruption::BudgetExhausted] {
        for before in 0..5 {
            let answers = (0..before).map(|_| Ok(ScriptedBackend::says(NONE)));
            let backend = Arc::new(ScriptedBackend::new(answers.chain([Err(interruption.into())])));
            let error = repairer(&backend).ask(&question()).await.expect_err("interrupted");
            assert_eq!((error, backend.asked().len()), (BackendError::from(interruption), before + 1));
        }
    }
}

#[tokio::test]
async fn reports_a_repair_before_its_request() {
    let backend = says(&[BAD, BETTER, GOOD]);
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let repairer = repairer(&backend).on_retry(move |retry| log.lock().expect("a lock").push(retry.clone()));
    repairer.ask(&question()).await.expect("an answer");
    let told = told.lock().expect("a lock");
    let seen: Vec<_> =
        told.iter().map(|retry| (retry.attempt, retry.max_attempts, retry.is_schema_repair)).collect();
    assert_eq!(seen, [(1, Some(2), true), (2, Some(2), true)]);
    let cause = RetryCause::Schema(vec![
        "Field \"toolCalls.0.arguments\": Expected object, got undefined".to_owned(),
    ]);
    assert_eq!(
        (&told[1].cause, told[1].cause.name(), told[1].pause.is_zero()),
        (&cause, "SCHEMA_VALIDATION", true)
    );
}

#[tokio::test]
async fn repairs_a_given_text() {
    let backend = says(&[GOOD]);
    let repairer = repairer(&backend);
    let answer = repairer.repair(&Plan::default(), BAD).await.expect("an answer");
    assert_eq!((answer.verdict, answer.mode, answer.attempts.len()), (Verdict::Valid, None, 1));
    let answer = repairer.repair(&Plan::default(), GOOD).await.expect("an answer");
    assert_eq!((answer.verdict, answer.attempts.len(), backend.asked().len()), (Verdict::Valid, 0, 1));
}

#[tokio::test]
async fn counts_outcomes_and_repairs() {
    let backend = says(&[GOOD, BAD, GOOD, BAD, BETTER, GOOD, NONE, NONE, NONE, NONE, NONE]);
    let repairer = repairer(&backend);
    assert!(
        repairer.counters().stats().targets().iter().all(|target| target.is_met),
        "nothing is missed yet"
    );
    for _ in 0..4 {
        repairer.ask(&question()).await.expect("an answer");
    }
    let stats = repairer.counters().stats();
    let expected = Stats {
        runs: 4,
        parsed: 3,
        valid_at_first: 1,
        valid: 3,
        repaired: 3,
        repairs: 5,
        discarded: 0,
        plain_text: 1,
    };
    assert_eq!(stats, expected);
    let rates =
        [stats.parse_rate(), stats.validation_rate(), stats.average_repairs(), stats.plain_text_rate()];
    assert_eq!(rates, [Some(0.75), Some(0.75), Some(5.0 / 3.0), Some(0.25)]);
    assert!(stats.targets().iter().all(|target| !target.is_met), "{:?}", stats.targets());
}

#[tokio::test]
async fn a_value_keeps_its_source_text() {
    let text = "So:\n```json\n{\n  \"id\": 0.12345678901234567890,\n  \"a\": \"b \\\" c\\\\\"  , \"d e\": [1.10, -0]\n}\n```";
    let written = r#"{"id":0.12345678901234567890,"a":"b \" c\\","d e":[1.10,-0]}"#;
    let schema = json!({ "type": "object", "properties": { "id": {}, "a": {} } });
    let shape = Shape::of_schema(schema, "any").expect("a schema");
    assert_eq!(shape.read(text).written(), Some(written));
    let answer = repairer(&says(&[])).repair(&Plan::default(), GOOD).await.expect("an answer");
    assert_eq!(answer.written, Some(GOOD.replace(": ", ":").replace(", ", ",")));
    let answer = repairer(&says(&[NONE; 2])).repair(&Plan::default(), NONE).await.expect("an answer");
    assert_eq!(answer.written, None);
}

#[test]
fn reads_options_by_both_names() {
    let read = |text: &str| serde_json::from_str::<RepairOptions>(text);
    let expected =
        RepairOptions { enabled: false, max_attempts: 5, strict: true, ..RepairOptions::default() };
    let documented =
        r#"{"schemaRepairEnabled": false, "schemaRepairMaxAttempts": 5, "schemaValidationStrict": true}"#;
    for text in [documented, r#"{"enabled": false, "max_attempts": 5, "strict": true}"#] {
        assert_eq!(read(text).expect("options"), expected);
    }
    assert!(read(r#"{"schemaRepairs": 5}"#).is_err());
    assert_eq!(
        (read("{}").expect("options"), RepairOptions::default().attempts()),
        (RepairOptions::default(), 2)
    );
}

proptest! {
    /// For any answers, the number of requests stays within the limit, and the result is not worse
    /// than the given text.
    #[test]
    fn repair_never_makes_an_answer_worse(texts in prop::collection::vec(prop::sample::select(vec![GOOD, BAD, BETTER, NONE, "", "{}", "[]", "{\"content\": 1"]), 3)) {
        let backend = says(&texts[1..]);
        let repairer = repairer(&backend);
        let answer = futures_util::FutureExt::now_or_never(repairer.repair(&Plan::default(), texts[0]));
        let answer = answer.expect("at once").expect("an answer");
        let read = |text: &str| repairer.read(text).expect("nothing interrupts");
        let (before, after) = (read(texts[0]), read(&answer.text));
        prop_assert!(!after.is_worse_than(&before), "{before:?} {after:?}");
        prop_assert!(backend.asked().len() <= 2);
    }
}
