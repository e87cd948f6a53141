use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::adapt::{Input, ProcessorError};
use crate::tools::{Closure, ToolCallingOptions, ToolDefinition, ToolRegistry};

type Processed = Result<Option<Value>, ProcessorError<Interrupted>>;

/// Counts its own calls in the context.
#[allow(clippy::unnecessary_wraps, reason = "the shape of a processor")]
fn count(_: Input<'_>, context: &Context) -> Processed {
    let count = context.get("processed").as_ref().and_then(Value::as_u64).unwrap_or(0);
    context.set("processed", count + 1);
    context.remove("old");
    Ok(None)
}

async fn with_context(step: &Step, context: &mut Body) -> Result<StepOutput, StepError> {
    step.run(&StepInput::of_user("Count."), context, &Tracer::default().run("r")).await
}

#[tokio::test]
async fn a_failed_step_leaves_the_context_unchanged() {
    let backend = says(&["no"; 2]);
    let mut context = body(json!({ "old": 1 }));
    with_context(&step(&backend, &json!({})).with_processor(count), &mut context)
        .await
        .expect_err("no output");
    assert_eq!(context, body(json!({ "old": 1 })));
}

#[tokio::test]
async fn only_the_successful_attempt_changes_the_context() {
    let backend = says(&["no", "no", r#"{"count": 2}"#]);
    let mut context = body(json!({ "old": 1 }));
    let step = step(&backend, &json!({})).with_processor(count).with_retries(2);
    with_context(&step, &mut context).await.expect("an output");
    assert_eq!(context, body(json!({ "processed": 1 })));
}

#[tokio::test]
async fn rejected_texts_do_not_change_the_context() {
    let backend = says(&["no", "nor this", r#"{"count": 2}"#]);
    let mut context = Body::new();
    let step = step(&backend, &json!({ "repair": {} })).with_processor(count);
    let output = with_context(&step, &mut context).await.expect("an output");
    assert_eq!((output.repairs, context), (2, body(json!({ "processed": 1 }))));
}

#[tokio::test]
async fn validates_the_values_of_processors() {
    let backend = says(&[r#"{"number": 2}"#, r#"{"number": "x"}"#]);
    let rename = |input: Input<'_>, _: &Context| -> Processed {
        Ok(input.value.map(|value| json!({ "count": value["number"] })))
    };
    let step = step(&backend, &json!({ "structured_output": "off" })).with_processor(rename).with_retries(0);
    let (output, events) = ran(&step).await;
    assert_eq!(output.expect("an output").value, json!({ "count": 2 }));
    assert_eq!(named(&events, "output.coercion.success").last().expect("a success")["stage"], "custom");
    assert!(ran(&step).await.0.is_err());
}

#[tokio::test]
async fn changes_by_tools_belong_to_their_attempt() {
    let call = || Ok(ScriptedBackend::calls("1", "note", "{}"));
    let says = |text: &str| Ok(ScriptedBackend::says(text));
    let backend = Arc::new(ScriptedBackend::new([call(), says("no"), call(), says(r#"{"count": 2}"#)]));
    let runs = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&runs);
    let tools = move |context: &Context| {
        let (context, seen) = (context.clone(), Arc::clone(&seen));
        let note = Closure::new(move |_: &Body| {
            let run = seen.fetch_add(1, Ordering::Relaxed);
            context.set(format!("run {run}"), true);
            json!("noted")
        });
        let mut registry = ToolRegistry::new();
        registry.add(ToolDefinition::new("note", "Notes.", json!({})), note).expect("a tool");
        Arc::new(registry) as Arc<dyn ToolSource>
    };
    let step = step(&backend, &json!({})).with_tools(tools, ToolCallingOptions::default());
    let mut context = Body::new();
    with_context(&step, &mut context).await.expect("an output");
    assert_eq!((runs.load(Ordering::Relaxed), context), (2, body(json!({ "run 1": true }))));
}

#[tokio::test]
async fn the_next_attempt_gets_the_errors_of_a_failed_loop() {
    let call = || Ok(ScriptedBackend::calls("1", "broken", "{}"));
    let says = |text: &str| Ok(ScriptedBackend::says(text));
    let answers = [call(), says("It failed."), call(), says(r#"{"count": 2}"#)];
    let backend = Arc::new(ScriptedBackend::new(answers));
    let runs = Arc::new(AtomicU32::new(0));
    let tools = move |_: &Context| {
        let (mut registry, runs) = (ToolRegistry::new(), Arc::clone(&runs));
        let is_first = move || runs.fetch_add(1, Ordering::Relaxed) == 0;
        let broken =
            Closure::new(move |_: &Body| if is_first() { Err("out of order") } else { Ok(json!("fine")) });
        registry.add(ToolDefinition::new("broken", "", json!({})), broken).expect("a tool");
        Arc::new(registry) as Arc<dyn ToolSource>
    };
    let fatal =
        serde_json::from_value(json!({ "tool_use_mode": "enforced", "tool_failure_policy": "fatal" }))
            .expect("options");
    let step = step(&backend, &json!({})).with_tools(tools, fatal);
    let output = with_context(&step, &mut Body::new()).await.expect("an output");
    assert_eq!(output.attempts, 2);
    let told = backend.asked()[2]["messages"].to_string();
    assert!(told.contains("Your previous answer could not be used:\\n- TOOL_ERROR: "), "{told}");
}
