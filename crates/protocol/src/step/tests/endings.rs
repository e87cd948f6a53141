//! Answers that are cut off or withheld, and processors that fail.

use std::sync::Mutex;

use super::*;

/// Creates a backend with these choices as answers.
fn backend(choices: Vec<Value>) -> Arc<ScriptedBackend> {
    Arc::new(ScriptedBackend::new(choices.into_iter().map(|choice| Ok(json!({ "choices": [choice] })))))
}

fn choice(message: &Value, finish_reason: &str) -> Value {
    json!({ "message": message, "finish_reason": finish_reason })
}

fn cut(text: &str) -> Value {
    choice(&json!({ "content": text }), "length")
}

/// Adds a list of what the step reports.
fn reported(step: Step) -> (Step, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&told);
    let step = step.on_progress(move |progress| list.lock().expect("a list").push(progress.to_string()));
    (step, told)
}

#[tokio::test]
async fn a_value_that_may_be_cut_off_is_not_accepted() {
    let integer = json!({ "schema": { "type": "integer" }, "structured_output": "off" });
    let backend = backend(vec![cut("12"), cut("12")]);
    let (output, _) = ran(&step(&backend, &integer)).await;
    let error = output.expect_err("digits may be missing");
    assert!(error.is_truncated(), "{error}");
    assert_eq!(error.errors(), ["the answer was cut off at its length limit"]);
    // A later attempt or a repair may be whole.
    for repair in [json!({ "repair": {} }), json!({})] {
        let backend = self::backend(vec![cut("12"), choice(&json!({ "content": "12" }), "stop")]);
        let mut block = integer.clone();
        block["repair"] = repair["repair"].clone();
        let (output, _) = ran(&step(&backend, &block)).await;
        assert_eq!(output.expect("an output").value, json!(12));
    }
    let backend = self::backend(vec![cut("12"); 3]);
    let block = json!({ "schema": { "type": "integer" }, "structured_output": "off", "repair": {} });
    let (output, _) = ran(&step(&backend, &block).with_retries(0)).await;
    assert!(output.expect_err("cut off repairs").is_truncated());
    let permits = json!({
        "schema": { "type": "integer" }, "structured_output": "off", "aop": "full",
        "coercion": { "tolerant_level": 2, "allow_truncated": true },
    });
    let (output, _) = ran(&step(&self::backend(vec![cut("12")]), &permits)).await;
    assert_eq!(output.expect("a permitted value").value, json!(12));
}

#[tokio::test]
async fn reports_a_cut_after_the_value_and_cut_texts() {
    let backend = backend(vec![cut("{\"count\": 2} That is all that I co")]);
    let (step, told) = reported(step(&backend, &json!({ "structured_output": "off" })));
    let output = ran(&step).await.0.expect("a whole value");
    assert!(output.is_truncated && output.value == json!({ "count": 2 }));
    let told = told.lock().expect("a list").join("\n");
    assert!(told.contains("cut off at its length limit, after its value"), "{told}");
    let backend = self::backend(vec![cut("Once upon a ti")]);
    let (step, told) = reported(Step::new("s", prompts(&backend)));
    let output = ran(&step).await.0.expect("a text");
    assert!(output.is_truncated);
    assert!(told.lock().expect("a list").join("\n").contains("the answer was cut off at its length limit"));
    let mut closed = choice(&json!({ "content": "{\"count\": 2}" }), "stop");
    closed["closed_by_budget"] = json!(true);
    let (step, told) = reported(super::step(&self::backend(vec![closed]), &json!({})));
    assert!(!ran(&step).await.0.expect("a value").is_truncated);
    assert!(told.lock().expect("a list").join("\n").contains("forced the answer to close early"));
}

#[tokio::test]
async fn a_withheld_answer_ends_the_step() {
    let refusal = json!({ "content": null, "refusal": "I can't help with that." });
    let calls = json!({ "content": null, "tool_calls": [{ "id": "1", "type": "function", "function": { "name": "f", "arguments": "{}" } }] });
    for (answer, code, text) in [
        (choice(&refusal, "stop"), "REFUSED", "I can't help with that."),
        (
            choice(&json!({ "content": "{\"count\": 2}" }), "content_filter"),
            "CONTENT_FILTER",
            "content filter",
        ),
        (choice(&json!({ "content": "" }), "content_filter"), "CONTENT_FILTER", "content filter"),
        (choice(&calls, "tool_calls"), "UNEXPECTED_TOOL_CALLS", "tool calls"),
    ] {
        for first in [None, Some("no JSON")] {
            let mut answers: Vec<Value> =
                first.map(|text| choice(&json!({ "content": text }), "stop")).into_iter().collect();
            answers.push(answer.clone());
            let expected = answers.len();
            let backend = backend(answers);
            let step = step(&backend, &json!({ "repair": { "max_attempts": 2 } })).with_retries(2);
            let (output, events) = ran(&step).await;
            let error = output.expect_err("no answer");
            let withheld = error.withheld().expect("a reason");
            assert_eq!(withheld.code, code);
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(backend.asked().len(), expected, "{code}: no retries, no repairs");
            assert_eq!(named(&events, "step.fail")[0]["reason"], "withheld");
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_processor_that_fails_fails_the_step() {
    let with = |processor: Value| {
        let backend = says(&[r#"{"count": 2}"#]);
        reported(step(&backend, &json!({ "processors": [processor] })))
    };
    for (processor, told) in [
        (json!({ "command": ["/no/such/program"] }), "`/no/such/program` could not be started"),
        (json!({ "command": ["sh", "-c", "echo bad >&2; exit 3"] }), "bad"),
        (json!({ "command": ["echo", "hello"] }), "wrote no JSON value"),
    ] {
        let error = ran(&with(processor.clone()).0).await.0.expect_err("a failed processor").to_string();
        assert!(error.starts_with("the processor `") && error.contains(told), "{error}");
        let mut optional = processor;
        optional["optional"] = json!(true);
        let (step, reports) = with(optional);
        assert_eq!(ran(&step).await.0.expect("the value").value, json!({ "count": 2 }));
        let reports = reports.lock().expect("a list").join("\n");
        assert!(reports.contains(told), "{reports}");
    }
    let started = std::time::Instant::now();
    let (step, _) = with(json!({ "command": ["sh", "-c", "sleep 60 & echo '{\"count\": 3}'"] }));
    assert_eq!(ran(&step).await.0.expect("a value").value, json!({ "count": 3 }));
    assert!(started.elapsed().as_secs() < 20);
}

#[tokio::test]
async fn shows_the_whole_answer_to_the_next_attempt() {
    let long = format!("{{\"count\": \"{}\"}}", "x".repeat(5000));
    let backend = says(&[&long, &long]);
    assert!(ran(&step(&backend, &json!({}))).await.0.is_err());
    let asked = backend.asked();
    let messages = asked[1]["messages"].as_array().expect("messages");
    assert!(messages.iter().any(|message| message["content"] == json!(long)), "{messages:?}");
}

#[tokio::test]
async fn names_undefined_variables_of_a_prompt() {
    let file = "agents:\n  s:\n    prompt: Count {{ user.name }}, {{ text }} and {{ known.text }}.\n";
    let file = StepsFile::parse(file, Format::Yaml).expect("a file");
    let step = file.build("s", &Aros::default(), &|_| prompts(&says(&[]))).expect("a step");
    let run = Tracer::default().run("r");
    let mut context = body(json!({ "known": { "text": "x" }, "user": {} }));
    let error = step.run(&StepInput::default(), &mut context, &run).await.expect_err("no values");
    assert_eq!(error.undefined(), ["text", "user.name"]);
    let told = file.undefined("s", error.undefined()).to_string();
    assert_eq!(
        told,
        "line 3, `agents.s.prompt`: undefined variable `text`, `user.name`; the context has no such value"
    );
}

#[test]
fn attempts_and_modes_of_a_file_have_limits() {
    for (text, told) in [
        ("agents: { a: { retries: 60 } }", "retries`: 60 is invalid; expected an integer from 0 to 8"),
        (
            "agents: { a: { processing: { schema: {}, repair: { max_attempts: 9 } } } }",
            "9 is invalid; expected an integer from 0 to 8",
        ),
        (
            "agents: { a: { processing: { schema: {}, modes: [json_object, json_object] } } }",
            "`json_object` occurs twice",
        ),
    ] {
        let error = StepsFile::parse(text, Format::Yaml).expect_err(text).to_string();
        assert!(error.contains(told), "{error}");
    }
}
