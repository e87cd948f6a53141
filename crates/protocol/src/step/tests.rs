mod constraints;
mod endings;
mod files;
mod interruptions;
mod isolation;
mod traces;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::config::Aros;
use crate::precheck::{Judgement, PlanRequest};
use crate::trace::{MemorySink, Status, Tracer};
use crate::{BackendError, Body, ScriptedBackend};

const SCHEMA: &str =
    r#"{"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}"#;

fn schema() -> Value {
    serde_json::from_str(SCHEMA).expect("JSON")
}

fn body(value: Value) -> Body {
    serde_json::from_value(value).expect("an object")
}

/// Returns a `processing` block with the schema.
fn processing(block: &Value) -> Processing {
    let mut given = json!({ "schema": schema() });
    for (name, value) in block.as_object().into_iter().flatten() {
        given[name] = value.clone();
    }
    serde_json::from_value(given).expect("a block")
}

fn says(texts: &[&str]) -> Arc<ScriptedBackend> {
    Arc::new(ScriptedBackend::new(texts.iter().map(|text| Ok(ScriptedBackend::says(text)))))
}

fn prompts(backend: &Arc<ScriptedBackend>) -> PromptRunner {
    PromptRunner::new(backend.clone(), "m")
}

fn step(backend: &Arc<ScriptedBackend>, block: &Value) -> Step {
    let step = Step::new("s", prompts(backend));
    step.with_processing(&processing(block), &Aros::default()).expect("a block")
}

/// Runs a step with an empty context and returns the result and the events.
async fn ran(step: &Step) -> (Result<StepOutput, StepError>, Vec<(String, Value)>) {
    let memory = MemorySink::default();
    let run = Tracer::default().with_sink(memory.clone()).run("r");
    let output = step.run(&StepInput::of_user("Count."), &mut Body::new(), &run).await;
    run.end(Status::Ok);
    (output, events(&memory))
}

fn events(memory: &MemorySink) -> Vec<(String, Value)> {
    let event = |event: Arc<crate::trace::EventRecord>| (event.name.to_string(), json!(event.attributes));
    memory.events().into_iter().map(event).collect()
}

fn named<'a>(events: &'a [(String, Value)], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|(known, _)| known == name).map(|(_, attributes)| attributes).collect()
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

#[tokio::test]
async fn valid_outputs_need_no_adaptation() {
    let backend = says(&[r#"{"count": 2}"#]);
    let (output, events) = ran(&step(&backend, &json!({}))).await;
    let output = output.expect("an output");
    assert_eq!((output.value, output.attempts, output.repairs), (json!({ "count": 2 }), 1, 0));
    assert_eq!(names(&events), ["aros.soe.enabled", "grammar.applied"], "nobody intervenes");
}

#[tokio::test]
async fn adapts_nearly_valid_outputs_and_records_the_change() {
    for text in ["Sure:\n```json\n{\"count\": \"2\"}\n```", r#""{\"count\": \"2\"}""#] {
        let backend = says(&[text]);
        let (output, events) = ran(&step(&backend, &json!({ "structured_output": "off" }))).await;
        assert_eq!(output.expect("an output").value, json!({ "count": 2 }), "{text}");
        let stages = |name: &str| -> Vec<&str> {
            named(&events, name).into_iter().filter_map(|attributes| attributes["stage"].as_str()).collect()
        };
        assert_eq!(stages("output.coercion.attempt"), stages("output.coercion.success"));
        assert!(stages("output.coercion.success").ends_with(&["semantic"]), "{events:?}");
        let semantic = named(&events, "output.coercion.success").pop().expect("a success");
        assert_eq!(semantic["transforms"], json!(["str->int"]));
        assert_eq!(named(&events, "aros.aop.coercion.success").len(), 1);
        let attempt = named(&events, "output.coercion.attempt").pop().expect("an attempt");
        assert_eq!(
            (&attempt["expected_type"], &attempt["actual_type"]),
            (&json!("integer"), &json!("string"))
        );
    }
}

#[tokio::test]
async fn records_the_chosen_branch() {
    let schema = json!({ "anyOf": [{ "type": "array" }, schema()] });
    let backend = says(&[r#"{"count": "2"}"#]);
    let (output, events) = ran(&step(&backend, &json!({ "aop": "full", "schema": schema }))).await;
    assert_eq!(output.expect("an output").value, json!({ "count": 2 }));
    assert_eq!(named(&events, "output.coercion.success")[0]["branch_index"], 1);
}

#[tokio::test]
async fn marks_failures_that_a_later_stage_recovers() {
    let block = json!({ "structured_output": "off", "aop": "full" });
    let mended = |events: &[(String, Value)]| -> Vec<(Value, Value)> {
        let fails = named(events, "output.coercion.fail").into_iter();
        fails.map(|fail| (fail["stage"].clone(), fail["recovered"].clone())).collect()
    };
    let (output, events) = ran(&step(&says(&["{\"count\": 2,}"]), &block)).await;
    assert_eq!(output.expect("an output").value, json!({ "count": 2 }));
    assert_eq!(mended(&events), [(json!("extract"), json!(true))]);
    // The text was parsed, though the value does not match the schema.
    let (_, events) = ran(&step(&says(&["{\"count\": [],}"]), &block).with_retries(0)).await;
    assert_eq!(mended(&events), [(json!("extract"), json!(true)), (json!("semantic"), Value::Null)]);
    // The caller's processor makes the value valid.
    let counts = |_: crate::adapt::Input<'_>, _: &Context| Ok(Some(json!({ "count": 0 })));
    let (output, events) = ran(&step(&says(&["{\"count\": []}"]), &block).with_processor(counts)).await;
    assert!(output.is_ok());
    assert_eq!(mended(&events), [(json!("semantic"), json!(true))]);
    // No stage recovered the failure.
    let (_, events) = ran(&step(&says(&["no"]), &block).with_retries(0)).await;
    assert_eq!(mended(&events), [(json!("extract"), Value::Null)]);
}

#[tokio::test]
async fn the_next_attempt_gets_the_errors_of_the_last() {
    let backend = says(&[r#"{"count": "two"}"#, r#"{"count": 2}"#]);
    let (output, events) = ran(&step(&backend, &json!({}))).await;
    assert_eq!(output.expect("an output").attempts, 2);
    let messages = &backend.asked()[1]["messages"];
    assert_eq!(messages[1], json!({ "role": "assistant", "content": "{\"count\": \"two\"}" }));
    let told = "Your previous answer could not be used:\n- Field \"count\": Expected integer, got string\n\n\
                Answer again, without these errors.";
    assert_eq!(messages[2]["content"], told);
    assert_eq!(named(&events, "grammar.applied").len(), 2, "in each attempt");
    assert_eq!(named(&events, "output.coercion.fail").len(), 1);
}

#[tokio::test]
async fn returns_the_errors_by_place_after_the_last_attempt() {
    let backend = says(&["no", "no", "no"]);
    let (output, _) = ran(&step(&backend, &json!({})).with_retries(2)).await;
    let error = output.expect_err("no output");
    assert_eq!((error.attempts(), backend.asked().len(), error.interruption()), (3, 3, None));
    assert!(!error.errors().is_empty() && error.backend().is_none(), "{error}");
}

#[tokio::test]
async fn repairs_run_before_the_next_attempt() {
    let block = json!({ "repair": {} });
    let backend = says(&["{\"count\": \"two\"}", "```\n{\"count\": \"2\"}\n```"]);
    let repaired = step(&backend, &block);
    let (output, events) = ran(&repaired).await;
    let output = output.expect("an output");
    assert_eq!((output.value, output.attempts, output.repairs), (json!({ "count": 2 }), 1, 1));
    assert!(backend.asked()[1]["messages"][2]["content"].as_str().expect("a text").contains("Attempt 1/2"));
    assert_eq!(backend.asked()[1]["response_format"]["type"], "json_schema", "held to the schema as before");
    let semantic = named(&events, "output.coercion.success").pop().expect("a success");
    assert_eq!(semantic["transforms"], json!(["str->int"]), "what is repaired is adapted");

    let backend = says(&["no", "no", "no", r#"{"count": 2}"#]);
    let (output, _) = ran(&step(&backend, &block)).await;
    assert_eq!(output.expect("an output").attempts, 2);
    assert_eq!(
        backend.asked()[3]["messages"].as_array().map(Vec::len),
        Some(3),
        "repairs leave nothing behind"
    );
}

#[tokio::test]
async fn counts_attempts_and_repairs() {
    let counters = Arc::new(Counters::default());
    let fits = r#"{"count": 2}"#;
    // Valid at once; valid after two repairs; valid in the second attempt; never, with and without
    // a value.
    for texts in [&[fits][..], &["no", "no", fits], &["no", "no", "no", fits], &["{}"; 6], &["no"; 6]] {
        let step = step(&says(texts), &json!({ "repair": {} })).with_counters(Arc::clone(&counters));
        drop(ran(&step).await);
    }
    let stats = counters.stats();
    assert_eq!((stats.runs, stats.parsed, stats.valid, stats.valid_at_first), (5, 4, 3, 1));
    assert_eq!((stats.repaired, stats.repairs, stats.plain_text), (4, 2 + 3 + 5 + 5, 1));
    // Backend failures and steps without a schema count nothing.
    let unanswered = step(&says(&[]), &json!({})).with_counters(Arc::clone(&counters));
    assert!(ran(&unanswered).await.0.is_err());
    drop(ran(&Step::new("s", prompts(&says(&["Hello."]))).with_counters(Arc::clone(&counters))).await);
    assert_eq!(counters.stats(), stats);
}

#[tokio::test]
async fn a_block_without_a_schema_keeps_the_existing_schema() {
    let backend = says(&["```\n{\"count\": \"2\"}\n```"]);
    let block: Processing = serde_json::from_value(json!({ "aop": "full" })).expect("a block");
    let step = Step::new("s", prompts(&backend)).with_schema(&schema()).expect("a schema");
    let step = step.with_processing(&block, &Aros::default()).expect("a block");
    assert_eq!(ran(&step).await.0.expect("an output").value, json!({ "count": 2 }));
}

#[tokio::test]
async fn planners_use_the_system_message_of_their_agent() {
    let file = "
agents:
  planner: { system: Plan in French. }
  s:
    prompt: Count.
    processing:
      schema: { type: object }
      reasoning_precheck: { enabled: true, planner_agent: planner, consensus_samples: 2 }
";
    let backend = says(&["lire", "lire", "{}"]);
    let file = StepsFile::parse(file, Format::Yaml).expect("a file");
    let step = file.build("s", &Aros::default(), &|_| prompts(&backend)).expect("a step");
    step.run(&StepInput::default(), &mut Body::new(), &Tracer::default().run("r")).await.expect("an output");
    assert_eq!(backend.asked()[0]["messages"][0]["content"], "Plan in French.");
}

#[tokio::test]
async fn validators_run_last() {
    let backend = says(&[r#"{"count": -1}"#, r#"{"count": 1}"#]);
    let positive = |value: &Value, _: &Context| match value["count"].as_i64() {
        Some(count) if count < 0 => {
            Err(crate::adapt::ProcessorError::fault("/count", "it must not be negative"))
        }
        _ => Ok(()),
    };
    let (output, _) = ran(&step(&backend, &json!({})).with_validator(positive)).await;
    assert_eq!(output.expect("an output").value, json!({ "count": 1 }));
    let told = backend.asked()[1]["messages"][2]["content"].to_string();
    assert!(told.contains("Field \\\"count\\\": it must not be negative"), "{told}");
}

#[tokio::test]
async fn without_a_schema_returns_the_text() {
    let backend = says(&["Hello."]);
    let (output, events) = ran(&Step::new("s", prompts(&backend))).await;
    assert_eq!(output.expect("an output").value, json!("Hello."));
    assert!(events.is_empty() && !backend.asked()[0].contains_key("response_format"));
}

#[tokio::test]
async fn shadow_mode_records_but_does_not_adapt() {
    let backend = says(&["```\n{\"count\": \"2\"}\n```", r#"{"count": 2}"#]);
    let (output, events) = ran(&step(&backend, &json!({ "shadow": true }))).await;
    assert_eq!(output.expect("an output").attempts, 2);
    assert!(named(&events, "output.coercion.success").iter().all(|event| event["shadow"] == true));
    assert!(!named(&events, "output.coercion.success").is_empty());
}

#[tokio::test]
async fn keeps_corrections_if_enabled() {
    for (is_kept, count) in [(false, 0), (true, 2)] {
        let backend = says(&["```\n{\"count\": \"2\"}\n```"]);
        let aros = Aros { correction_ledger_enabled: is_kept, ..Aros::default() };
        let step = Step::new("s", prompts(&backend)).with_processing(&processing(&json!({})), &aros);
        let memory = MemorySink::default();
        let run = Tracer::default().with_sink(memory.clone()).run("r");
        let input = StepInput::of_user("Count.");
        step.expect("a block").run(&input, &mut Body::new(), &run).await.expect("an output");
        let kept = memory.corrections();
        assert_eq!(kept.len(), count, "{kept:?}");
        if let Some(last) = kept.last() {
            assert_eq!(last.correction.transforms_applied, ["str->int"]);
            assert_eq!(last.correction.schema_hash.as_deref().map(str::len), Some(64));
        }
    }
}

#[tokio::test]
async fn spans_name_agent_step_and_model() {
    let backend = says(&["```\n{\"count\": \"x\"}\n```", r#"{"count": 2}"#]);
    let memory = MemorySink::default();
    let run = Tracer::default().with_sink(memory.clone()).run("r");
    let step = step(&backend, &json!({})).with_agent("counter");
    step.run(&StepInput::of_user("Count."), &mut Body::new(), &run).await.expect("an output");
    run.end(Status::Ok);
    let outline = memory.outline().remove(0);
    let step = &outline.spans[0];
    assert_eq!((step.name.as_str(), step.status), ("s", Status::Ok));
    assert_eq!((step.subject.model.as_deref(), step.subject.agent.as_deref()), (Some("m"), Some("counter")));
    assert_eq!(step.attributes["aros.model_id"], "m");
    let attempts: Vec<_> = step.spans.iter().map(|span| (span.name.as_str(), span.status)).collect();
    assert_eq!(attempts, [("attempt 1", Status::Error), ("attempt 2", Status::Ok)]);
    assert_eq!(step.spans[0].attributes["errors"], json!(["Field \"count\": Expected integer, got string"]));
}

/// Creates a step whose plans get this judgement.
fn judged(backend: &Arc<ScriptedBackend>, inject: &Value, judgement: Judgement) -> Step {
    let mut block = json!({ "enabled": true });
    block["inject_feedback"] = inject.clone();
    let validator = move |_: &PlanRequest<'_>| Ok::<_, BackendError>(judgement.clone());
    step(
        backend,
        &json!({ "structured_output": "off", "schema_in_prompt": false, "reasoning_precheck": block }),
    )
    .with_precheck(|precheck| precheck.with_validator(validator))
}

#[tokio::test]
async fn a_failed_precheck_guides_the_generation() {
    for (inject, prompt, key) in [
        (json!("prepend"), "Guidance: Ask first.\n\nCount. <plan>guess</plan>", None),
        (json!("context_key"), "Count. <plan>guess</plan>", Some(json!("Ask first."))),
        (Value::Null, "Count. <plan>guess</plan>", None),
    ] {
        let backend = says(&[r#"{"count": 2}"#]);
        let step =
            judged(&backend, &inject, Judgement { score: Some(0.2), ..Judgement::failed("Ask first.") });
        let memory = MemorySink::default();
        let run = Tracer::default().with_sink(memory.clone()).run("r");
        let mut context = Body::new();
        let input = StepInput::of_user("Count. <plan>guess</plan>");
        step.run(&input, &mut context, &run).await.expect("an output");
        assert_eq!(backend.asked()[0]["messages"][0]["content"], prompt);
        assert_eq!(context.get("_aros_retry_guidance").cloned(), key);
        let expected = [
            ("reasoning.validation".to_owned(), json!({ "result": "fail", "score": 0.2 })),
            (
                "aros.reasoning.precheck.fail".to_owned(),
                json!({ "reason": "validator", "score": 0.2, "feedback": "Ask first." }),
            ),
        ];
        assert_eq!(events(&memory), expected);
    }
}

#[tokio::test]
async fn a_prompt_may_use_the_guidance() {
    let file = "steps:
  s:
    prompt: \"{{ _aros_retry_guidance }}Count.\"
    processing:
      schema: { type: object, required: [count] }
      reasoning_precheck: { enabled: true, required_context_keys: [text], inject_feedback: context_key }
";
    let backend = says(&[r#"{"count": 2}"#, r#"{"count": 2}"#]);
    let file = StepsFile::parse(file, Format::Yaml).expect("a file");
    let step = file.build("s", &Aros::default(), &|_| prompts(&backend)).expect("a step");
    let run = Tracer::default().run("r");
    let mut context = Body::new();
    step.run(&StepInput::default(), &mut context, &run).await.expect("an output");
    assert_eq!(
        backend.asked()[0]["messages"][0]["content"],
        "The context is missing these keys: text.Count."
    );
    // The precheck now passes, so the guidance of the first run is gone.
    context.insert("text".to_owned(), json!("two words"));
    step.run(&StepInput::default(), &mut context, &run).await.expect("an output");
    assert_eq!(backend.asked()[1]["messages"][0]["content"], "Count.");
    assert_eq!(context.get("_aros_retry_guidance"), None);
}

#[tokio::test]
async fn skips_a_precheck_without_a_plan() {
    let backend = says(&[r#"{"count": 2}"#]);
    let (output, events) = ran(&judged(&backend, &json!("prepend"), Judgement::failed("No."))).await;
    assert!(output.is_ok());
    assert_eq!(events, [("aros.reasoning.precheck.skipped".to_owned(), json!({ "reason": "no_plan" }))]);
    assert_eq!(backend.asked()[0]["messages"][0]["content"], "Count.");
}

#[tokio::test]
async fn does_not_judge_a_draft_that_lacks_required_fields() {
    let backend = says(&["{}", r#"{"count": 2}"#]);
    let step = judged(&backend, &Value::Null, Judgement::passed());
    let memory = MemorySink::default();
    let run = Tracer::default().with_sink(memory.clone()).run("r");
    let input = StepInput { plan: Some("count".to_owned()), ..StepInput::of_user("Count.") };
    step.run(&input, &mut Body::new(), &run).await.expect("an output");
    let told = events(&memory);
    assert_eq!(named(&told, "aros.reasoning.precheck.pass"), [&json!({ "reason": "validator" })]);
    assert_eq!(named(&told, "aros.reasoning.precheck.skipped"), [&json!({ "reason": "draft_lacks_basics" })]);
}

#[tokio::test]
async fn renders_prompts_from_the_context() {
    let file = "steps:\n  s:\n    system: Be brief.\n    prompt: Say {{ word }}.\n    options: { temperature: 0.5 }\n";
    let backend = says(&["Hello."]);
    let file = StepsFile::parse(file, Format::Yaml).expect("a file");
    let step = file.build("s", &Aros::default(), &|_| prompts(&backend)).expect("a step");
    let run = Tracer::default().run("r");
    let mut context = body(json!({ "word": "hello" }));
    step.run(&StepInput::default(), &mut context, &run).await.expect("an output");
    let asked = &backend.asked()[0];
    let messages =
        json!([{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Say hello." }]);
    assert_eq!((&asked["messages"], &asked["temperature"]), (&messages, &json!(0.5)));
    let error = step.run(&StepInput::default(), &mut Body::new(), &run).await.expect_err("no word");
    assert!(error.to_string().starts_with("the prompt template cannot be rendered: "), "{error}");
}

#[tokio::test]
async fn the_agent_of_the_file_judges_plans() {
    let file = "
agents:
  plan_checker:
    model: judge
    system: You judge.
  s:
    prompt: Count. <plan>guess</plan>
    processing:
      schema: { type: object }
      reasoning_precheck: { enabled: true, validator_agent: agents.plan_checker, max_tokens: 50, inject_feedback: prepend }
";
    let backend = says(&[r#"{"pass": false, "score": 0.1, "feedback": "Count them."}"#, "{}"]);
    let file = StepsFile::parse(file, Format::Yaml).expect("a file");
    let by_name = |name: Option<&str>| PromptRunner::new(backend.clone(), name.unwrap_or("usual"));
    let step = file.build("s", &Aros::default(), &by_name).expect("a step");
    step.run(&StepInput::default(), &mut Body::new(), &Tracer::default().run("r")).await.expect("an output");
    let asked = backend.asked();
    assert_eq!((&asked[0]["model"], &asked[0]["max_tokens"]), (&json!("judge"), &json!(50)));
    assert_eq!(asked[0]["messages"][0]["content"], "You judge.");
    assert_eq!(asked[1]["model"], "usual");
    assert_eq!(asked[1]["messages"][0]["content"], "Guidance: Count them.\n\nCount. <plan>guess</plan>");
}
