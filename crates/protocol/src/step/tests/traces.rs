//! Trace events, spans and ledger of adaptations.

use super::*;

async fn recorded(block: &Value, answer: &str, aros: Aros) -> MemorySink {
    let memory = MemorySink::default();
    let run = Tracer::default().with_sink(memory.clone()).run("r");
    let step = Step::new("s", prompts(&says(&[answer]))).with_retries(0);
    let step = step.with_processing(&processing(block), &aros).expect("a block");
    let _ = step.run(&StepInput::of_user("Count."), &mut Body::new(), &run).await;
    run.end(Status::Ok);
    memory
}

#[tokio::test]
async fn each_result_of_a_stage_has_its_event() {
    let full = json!({ "structured_output": "off", "aop": "full" });
    for (answer, expected) in [
        ("{\"count\": 2,}", &["aros.aop.syntactic.success", "aros.aop.coercion.skip"][..]),
        ("```\n{\"count\": \"2\"}\n```", &["aros.aop.syntactic.skip", "aros.aop.coercion.success"]),
        ("{\"count\": }", &["aros.aop.syntactic.fail"]),
        ("{\"count\": [],}", &["aros.aop.syntactic.success", "aros.aop.coercion.fail"]),
    ] {
        let memory = recorded(&full, answer, Aros::default()).await;
        let events = events(&memory);
        for name in expected {
            assert_eq!(named(&events, name).len(), 1, "{answer}: {name} in {:?}", names(&events));
        }
    }
}

#[tokio::test]
async fn traces_have_previews_branches_and_transforms() {
    let tolerant = json!({
        "structured_output": "off", "aop": "full", "coercion": { "tolerant_level": 2 },
        "schema": { "anyOf": [{ "type": "array" }, schema()] },
    });
    let memory = recorded(&tolerant, "{'count' \"2\"", Aros::default()).await;
    let memory_of_cut = memory.events().len();
    assert!(memory_of_cut > 0);
    let memory = recorded(&tolerant, "{'count' \"2\"}", Aros::default()).await;
    let events = events(&memory);
    let successes = named(&events, "output.coercion.success");
    assert!(successes.iter().any(|event| !event["patch_preview"].is_null()), "{successes:?}");
    let semantic = successes.iter().find(|event| event["stage"] == "semantic").expect("a conversion");
    assert_eq!(semantic["branch_index"], 1);
    assert!(semantic["branch_choices"].as_array().is_some_and(|choices| !choices.is_empty()), "{semantic}");
    let spans = memory.spans();
    let transforms: Vec<Value> =
        spans.iter().filter_map(|span| json!(span.attributes).get("aros.transforms").cloned()).collect();
    assert!(transforms.iter().any(|names| names.to_string().contains("str->int")), "{transforms:?}");
}

#[tokio::test]
async fn the_ledger_has_the_time_that_a_correction_saved() {
    let aros = Aros { correction_ledger_enabled: true, ..Aros::default() };
    let block = json!({ "structured_output": "off" });
    let memory = recorded(&block, "```\n{\"count\": \"2\"}\n```", aros).await;
    let saved: Vec<bool> =
        memory.corrections().iter().map(|kept| kept.correction.latency_ms_saved.is_some()).collect();
    assert_eq!(saved, [false, true], "the last stage saved the request");
}
