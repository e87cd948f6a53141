use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::directives::{Definition, Directive, Registry, Requirement, parser};
use crate::{Body, ScriptedBackend};

const GOOD: &str = r#"{"assistant_text": "Please upload it.", "directives": [{"type": "ui.request_upload", "payload": {"purpose": "avatar"}}]}"#;
const EMPTY: &str = r#"{"assistant_text": "Sure.", "directives": []}"#;

fn options() -> StructuredOutputOptions {
    let upload = json!({ "properties": { "purpose": { "type": "string" } }, "required": ["purpose"] });
    let definitions = vec![
        Definition { description: "Shows a message.".to_owned(), ..Definition::new("ui.toast") },
        Definition {
            payload_schema: Some(upload),
            aliases: vec!["upload".to_owned()],
            ..Definition::new("ui.request_upload")
        },
    ];
    StructuredOutputOptions::new(Registry::new(definitions).expect("a registry"))
}

fn request() -> RunRequest {
    RunRequest::new("I want a new avatar.", options())
}

fn requiring_upload() -> RunRequest {
    request().with_result_validator(require_types(vec!["ui.request_upload".to_owned()]))
}

#[allow(clippy::unnecessary_wraps, reason = "scripts have errors, too")]
fn says(content: &str) -> Result<Value, BackendError> {
    Ok(ScriptedBackend::says(content))
}

#[allow(clippy::unnecessary_wraps, reason = "scripts have errors, too")]
fn cut(content: &str) -> Result<Value, BackendError> {
    let mut answer = ScriptedBackend::says(content);
    answer["choices"][0]["finish_reason"] = json!("length");
    Ok(answer)
}

fn fails(status: u16) -> Result<Value, BackendError> {
    Err(BackendError::from_status(status, r#"{"error": {"message": "no"}}"#))
}

struct Script {
    backend: Arc<ScriptedBackend>,
    runner: Runner,
}

fn script(answers: impl IntoIterator<Item = Result<Value, BackendError>>, preset: Preset) -> Script {
    script_of(ScriptedBackend::new(answers), preset)
}

fn script_of(backend: ScriptedBackend, preset: Preset) -> Script {
    let backend = Arc::new(backend);
    Script { runner: Runner::build(PromptRunner::new(backend.clone(), "m"), preset), backend }
}

impl Script {
    async fn run(&self, request: &RunRequest) -> DirectiveResult {
        let mut result = self.runner.run(request).await.expect("not cancelled");
        for attempt in &mut result.attempts {
            attempt.latency_ms = 0;
        }
        result
    }

    /// Returns the type of each request's `response_format`, or `-` if there is none.
    fn formats(&self) -> Vec<String> {
        let format = |body: Body| {
            body.get("response_format")
                .map_or("-".to_owned(), |format| format["type"].as_str().unwrap_or_default().to_owned())
        };
        self.backend.asked().into_iter().map(format).collect()
    }
}

/// Returns the mode, kind and error code of each attempt, such as `json_schema first ok`.
fn steps(result: &DirectiveResult) -> Vec<String> {
    let step = |attempt: &Attempt| {
        let code = attempt.error.as_ref().map_or("ok", |error| error.code.as_str());
        let kind = match attempt.kind {
            AttemptKind::First => "first",
            AttemptKind::Repair => "repair",
            AttemptKind::SemanticRepair => "semantic_repair",
        };
        format!("{} {kind} {code}", attempt.mode.name())
    };
    result.attempts.iter().map(step).collect()
}

fn pretty(value: &impl serde::Serialize) -> String {
    format!("{:#}", serde_json::to_value(value).expect("data"))
}

fn once() -> Preset {
    Preset { repair_retries: Some(0), ..Preset::default() }
}

#[tokio::test]
async fn a_valid_answer_needs_one_request() {
    let script = script([says(GOOD)], Preset::default());
    let result = script.run(&requiring_upload()).await;
    insta::assert_snapshot!(pretty(&result));
    assert_eq!(script.backend.asked().len(), 1);
}

#[tokio::test]
async fn a_refused_mode_leads_to_the_next_and_is_remembered() {
    for status in [400, 404, 405, 415, 422, 501] {
        let script = script([fails(status), says(GOOD), says(GOOD)], Preset::default());
        let result = script.run(&request()).await;
        assert!(result.ok);
        assert_eq!(result.mode, Some(Mode::JsonObject));
        assert_eq!(steps(&result), ["json_schema first UNSUPPORTED_MODE", "json_object first ok"]);
        let error = result.attempts[0].error.as_ref().expect("refused");
        assert_eq!(error.details.as_deref(), Some(&json!({ "status": status })));
        let again = script.run(&request()).await;
        assert_eq!(steps(&again), ["json_object first ok"]);
        assert_eq!(again.skipped[0].mode, Mode::JsonSchema);
        assert_eq!(script.formats(), ["json_schema", "json_object", "json_object"]);
    }
}

#[tokio::test]
async fn a_refusal_in_all_modes_is_not_remembered() {
    let script = script([fails(400), fails(400), fails(400), says(GOOD)], Preset::default());
    let result = script.run(&request()).await;
    let expected = [
        "json_schema first UNSUPPORTED_MODE",
        "json_object first UNSUPPORTED_MODE",
        "prompt_only first INVALID_REQUEST",
    ];
    assert_eq!(steps(&result), expected);
    assert_eq!((result.ok, result.mode, result.errors.len()), (false, None, 3));
    let again = script.run(&request()).await;
    assert_eq!(steps(&again), ["json_schema first ok"], "nothing was learnt");
    assert_eq!(script.formats(), ["json_schema", "json_object", "-", "json_schema"]);
}

#[tokio::test]
async fn an_error_unrelated_to_the_mode_ends_the_run() {
    for (status, code) in [
        (401, "AUTHENTICATION"),
        (403, "AUTHENTICATION"),
        (408, "TIMEOUT"),
        (413, "INVALID_REQUEST"),
        (429, "RATE_LIMITED"),
        (500, "SERVER_ERROR"),
        (503, "SERVER_ERROR"),
        (504, "TIMEOUT"),
    ] {
        let script = script([fails(status)], Preset::default());
        let result = script.run(&request()).await;
        assert!(!result.ok && result.directives.is_empty());
        assert_eq!(steps(&result), [format!("json_schema first {code}")]);
        assert_eq!(result.errors[0].category, ProblemCategory::Transport);
    }
    let busy = BackendError::of_status(
        429,
        r#"{"error": {"message": "slow", "code": "rate"}}"#,
        Some(Duration::from_secs(7)),
    );
    let result = script([Err(busy)], Preset::default()).run(&request()).await;
    insta::assert_snapshot!(pretty(&result.errors));
    let lost = BackendError::from_status(404, r#"{"error": {"message": "none", "code": "model_not_found"}}"#);
    let result = script([Err(lost)], Preset::default()).run(&request()).await;
    assert_eq!(steps(&result), ["json_schema first INVALID_REQUEST"]);
    let over = script([], Preset::default()).run(&request()).await;
    assert_eq!(steps(&over), ["json_schema first MALFORMED_RESPONSE"]);
}

#[tokio::test]
async fn a_refusal_ends_the_run_if_the_preset_says_so() {
    let preset = Preset { stop_on_refusal: Some(true), ..Preset::default() };
    let script = script([fails(400), says(GOOD)], preset);
    assert_eq!(steps(&script.run(&request()).await), ["json_schema first UNSUPPORTED_MODE"]);
}

#[tokio::test]
async fn cancellation_passes_through() {
    let script = script([says("oops"), Err(BackendError::cancelled()), says(GOOD)], Preset::default());
    let error = script.runner.run(&request()).await.expect_err("cancelled");
    assert_eq!(error, BackendError::cancelled());
    assert_eq!(script.backend.asked().len(), 2);
}

#[tokio::test]
async fn repairs_an_unreadable_answer_once_in_each_mode() {
    let answers = [
        says("I'd love to"),
        says("{oops}"),
        says(""),
        says("[]"),
        says("{\"a\": 1}"),
        cut("{\"assistant_text\": \"so f"),
    ];
    let script = script(answers, Preset::default());
    let result = script.run(&request()).await;
    let expected = [
        "json_schema first NO_JSON",
        "json_schema repair INVALID_JSON",
        "json_object first EMPTY",
        "json_object repair NOT_AN_OBJECT",
        "prompt_only first MISSING_FIELD",
        "prompt_only repair TRUNCATED",
    ];
    assert_eq!(steps(&result), expected);
    assert_eq!((result.ok, result.assistant_text.as_str()), (false, "so f"));
    assert_eq!(result.errors.len(), 6);
    insta::assert_snapshot!(pretty(&result.errors));
}

#[tokio::test]
async fn a_repair_request_describes_the_error() {
    let long = format!("{{\"assistant_text\": \"{}", "x".repeat(5000));
    let script = script([cut(&long), says(GOOD)], Preset::default());
    let result = script.run(&request()).await;
    assert_eq!(steps(&result), ["json_schema first TRUNCATED", "json_schema repair ok"]);
    assert_eq!(result.attempts[1].mode, Mode::JsonSchema);
    let asked = script.backend.asked();
    let messages = asked[1]["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 4);
    assert_eq!(messages[..2], asked[0]["messages"].as_array().expect("messages")[..]);
    assert_eq!(messages[2]["role"], "assistant");
    assert_eq!(messages[2]["content"].as_str().expect("text").chars().count(), 2001);
    insta::assert_snapshot!(messages[3]["content"].as_str().expect("text"));
    // A blank answer is not repeated to the model.
    let script = self::script([says(" "), says(GOOD)], Preset::default());
    script.run(&request()).await;
    let roles: Vec<_> = script.backend.asked()[1]["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(roles, ["system", "user", "user"]);
}

#[tokio::test]
async fn repairs_unmet_requirements_and_then_tries_the_next_mode() {
    let wrong = r#"{"assistant_text": "Here.", "directives": [{"type": "upload", "payload": {}}]}"#;
    let script = script([says(EMPTY), says(wrong), says(GOOD)], Preset::default());
    let result = script.run(&requiring_upload()).await;
    let expected = [
        "json_schema first REQUIREMENT_NOT_MET",
        "json_schema semantic_repair REQUIREMENT_NOT_MET",
        "json_object first ok",
    ];
    assert_eq!(steps(&result), expected);
    assert!(result.ok && result.errors.is_empty());
    assert_eq!(result.attempts[1].warnings[0].code, "PAYLOAD_SCHEMA");
    assert_eq!(
        result.attempts[0].error.as_ref().expect("a reason").details.as_deref(),
        Some(&json!({ "reasons": ["missing ui.request_upload"] }))
    );
    let asked = script.backend.asked();
    insta::assert_snapshot!(asked[1]["messages"][3]["content"].as_str().expect("text"));
}

#[tokio::test]
async fn keeps_the_text_if_the_requirement_is_not_met() {
    let script = script([says(EMPTY), says("I cannot."), fails(500)], Preset::default());
    let result = script.run(&requiring_upload()).await;
    assert_eq!(
        (result.ok, result.assistant_text.as_str()),
        (false, "Sure."),
        "an envelope's text goes first"
    );
    assert!(result.directives.is_empty());
    assert_eq!(steps(&result).last().expect("steps"), "json_object first SERVER_ERROR");
    assert_eq!(result.attempts[1].content.as_deref(), Some("I cannot."));
}

#[tokio::test]
async fn drops_invalid_directives_and_continues() {
    let mixed = r#"{"assistant_text": "Done.", "directives": [{"type": "nope", "payload": {}}, {"type": "UI-Toast", "payload": {"message": "Hi"}}]}"#;
    let result = script([says(mixed)], Preset::default()).run(&request()).await;
    assert!(result.ok);
    assert_eq!(
        result.directives,
        [Directive {
            kind: "ui.toast".to_owned(),
            payload: json!({ "message": "Hi" }).as_object().cloned().expect("an object")
        }]
    );
    assert_eq!((result.warnings[0].code.as_str(), result.warnings[0].index), ("UNKNOWN_TYPE", Some(0)));
    assert_eq!(result.attempts.len(), 1);
}

#[tokio::test]
async fn each_kind_of_missing_answer_has_a_code() {
    let choice = |message: Value, reason: &str| {
        Ok(json!({ "choices": [{ "message": message, "finish_reason": reason }] }))
    };
    for (answer, code, text) in [
        (choice(json!({ "content": null, "refusal": "I can't help." }), "stop"), "REFUSED", "I can't help."),
        (choice(json!({ "content": "" }), "content_filter"), "CONTENT_FILTER", ""),
        (Ok(ScriptedBackend::calls("1", "toast", "{}")), "UNEXPECTED_TOOL_CALLS", ""),
        (Ok(json!({ "choices": [] })), "EMPTY", ""),
        (cut("{\"assistant_text\": \"Hi\"}"), "TRUNCATED", "Hi"),
        (cut("Well, I"), "TRUNCATED", "Well, I"),
    ] {
        let result =
            script([answer], Preset { modes: Some(vec![Mode::PromptOnly]), ..once() }).run(&request()).await;
        assert_eq!(steps(&result), [format!("prompt_only first {code}")]);
        assert_eq!(result.assistant_text, text, "{code}");
    }
    // A complete envelope is used even if the answer was cut off, and a warning reports the cut.
    let result = script([cut(EMPTY)], Preset::default()).run(&request()).await;
    assert_eq!((result.ok, result.warnings[0].code.as_str()), (true, parser::TRUNCATED));
    let mut closed = ScriptedBackend::says(EMPTY);
    closed["choices"][0]["closed_by_budget"] = json!(true);
    let result = script([Ok(closed)], Preset::default()).run(&request()).await;
    assert_eq!((result.ok, result.warnings[0].code.as_str()), (true, "CLOSED_BY_BUDGET"));
    let parts = json!({ "content": [{ "type": "text", "text": "```json\n" }, { "type": "text", "text": format!("{EMPTY}\n```") }] });
    let result = script([Ok(ScriptedBackend::message(parts))], Preset::default()).run(&request()).await;
    assert!(result.ok);
}

#[tokio::test]
async fn each_mode_sends_its_request() {
    let script = script([says("x"), says("x"), says("x")], once());
    let system = Some("You are a helper.".to_owned());
    let history =
        vec![json!({ "role": "user", "content": "Hello" }), json!({ "role": "assistant", "content": "Hi!" })];
    let request = RunRequest { system, history, ..request() };
    let result = script.run(&request).await;
    assert_eq!(script.formats(), ["json_schema", "json_object", "-"]);
    let plans: Vec<_> = result.attempts.iter().map(|attempt| attempt.plan.clone().expect("a plan")).collect();
    for (plan, asked) in plans.iter().zip(script.backend.asked()) {
        assert_eq!(script.runner.prompts.body(plan), asked, "what is recorded is what was sent");
    }
    insta::assert_snapshot!(pretty(&plans));
}

#[tokio::test]
async fn sends_a_single_system_message() {
    for (system, history, expected) in [
        (None, json!([]), ""),
        (Some("A."), json!([]), "A.\n\n"),
        (None, json!([{ "role": "system", "content": "B." }]), "B.\n\n"),
        (
            None,
            json!([{ "role": "system", "content": [{ "type": "text", "text": "A." }, { "type": "text", "text": "B." }] }]),
            "A.\nB.\n\n",
        ),
        (None, json!([{ "role": "developer", "content": "B." }]), "B.\n\n"),
    ] {
        let script = script([says(GOOD)], Preset::default());
        let history = history.as_array().cloned().expect("messages");
        script.run(&RunRequest { system: system.map(str::to_owned), history, ..request() }).await;
        let messages = script.backend.asked().remove(0)["messages"].clone();
        assert_eq!(messages.as_array().expect("messages").len(), 2);
        let text = messages[0]["content"].as_str().expect("text");
        assert!(text.starts_with(&format!("{expected}Answer with one JSON object.")), "{text}");
    }
}

#[tokio::test]
async fn reserved_fields_never_reach_the_request() {
    let reserved: Body = json!({ "tools": [1], "tool_choice": "auto", "response_format": { "type": "text" }, "model": "x", "messages": [], "stream": true, "seed": 1 })
        .as_object()
        .cloned()
        .expect("an object");
    let backend = Arc::new(ScriptedBackend::new([says("x"), says("x"), says("x")]));
    let prompts = PromptRunner::new(backend.clone(), "m").with_defaults(reserved.clone());
    let preset = Preset { request_overrides: reserved.clone(), ..once() };
    let request = RunRequest { overrides: reserved, ..request() };
    Runner::build(prompts, preset).run(&request).await.expect("not cancelled");
    let asked = backend.asked();
    for body in &asked {
        assert!(
            !body.contains_key("tools") && !body.contains_key("tool_choice") && !body.contains_key("stream")
        );
        assert_eq!((&body["model"], &body["seed"]), (&json!("m"), &json!(1)));
        assert_eq!(body["messages"].as_array().map(Vec::len), Some(2));
    }
    assert_eq!(asked[1]["response_format"], json!({ "type": "json_object" }));
    assert!(!asked[2].contains_key("response_format"));
}

#[tokio::test]
async fn applies_provider_rules_by_mode() {
    let script = script(
        [says("x"), says("x"), says("x")],
        presets::merge([presets::provider_defaults("openrouter"), once()]),
    );
    script.run(&request()).await;
    let required: Vec<_> =
        script.backend.asked().iter().map(|body| body["provider"]["require_parameters"].clone()).collect();
    assert_eq!(required, [true, true, false]);
}

#[tokio::test]
async fn skips_unsupported_modes_if_the_preset_says_so() {
    let able = [Feature::JsonObject].into_iter().collect();
    let preset = Preset { check_capabilities: Some(true), ..Preset::default() };
    let script = script_of(ScriptedBackend::new([says(GOOD)]).with_capabilities(able), preset.clone());
    let result = script.run(&request()).await;
    assert_eq!(result.mode, Some(Mode::JsonObject));
    insta::assert_snapshot!(pretty(&result.skipped));
    let backend = ScriptedBackend::new([]).with_capabilities(Capabilities::NONE);
    let none = script_of(backend, presets::merge([preset, presets::directives([Mode::JsonSchema])]));
    let result = none.run(&request()).await;
    assert_eq!((result.ok, result.errors[0].code.as_str()), (false, "NO_MODE"));
}

#[tokio::test]
async fn sends_payload_schemas_to_backends_that_enforce_them() {
    let detailed =
        |asked: Vec<Body>| asked[0]["response_format"]["json_schema"]["schema"].get("$defs").is_some();
    let plain: Capabilities = [Feature::JsonSchema].into_iter().collect();
    for (able, setting, expected) in [
        (Capabilities::all(), PayloadSchemas::Auto, true),
        (plain, PayloadSchemas::Auto, false),
        (plain, PayloadSchemas::Always, true),
        (Capabilities::all(), PayloadSchemas::Never, false),
    ] {
        let preset = Preset { payload_schemas: Some(setting), strict: Some(expected), ..Preset::default() };
        let script = script_of(ScriptedBackend::new([says(GOOD)]).with_capabilities(able), preset);
        script.run(&request()).await;
        assert_eq!(script.backend.asked()[0]["response_format"]["json_schema"]["strict"], expected);
        assert_eq!(detailed(script.backend.asked()), expected, "{able} {setting:?}");
    }
}

#[tokio::test]
async fn makes_a_single_request_without_further_modes() {
    let script = script([says("oops"), says(GOOD)], Preset::default());
    let result = script.runner.run_once(&request(), Mode::JsonObject).await.expect("not cancelled");
    assert_eq!(steps(&result), ["json_object first NO_JSON"]);
    let mut plain = request();
    plain.options.inject_response_format = false;
    let result = script.runner.run_once(&plain, Mode::JsonSchema).await.expect("not cancelled");
    assert!(result.ok);
    assert_eq!(script.formats(), ["json_object", "-"]);
}

#[tokio::test]
async fn a_request_may_name_its_modes() {
    let script = script([says("oops"), says("oops"), says(GOOD)], once());
    let request = RunRequest { modes: Some(vec![Mode::PromptOnly, Mode::JsonObject]), ..request() };
    assert_eq!(
        steps(&script.run(&request).await),
        ["prompt_only first NO_JSON", "json_object first NO_JSON"]
    );
    let none = RunRequest { modes: Some(vec![]), ..request };
    assert_eq!(script.run(&none).await.errors[0].code, "NO_MODE");
}

#[tokio::test]
async fn records_round_trip_through_json() {
    let result = script([fails(429)], Preset::default()).run(&request()).await;
    let text = serde_json::to_string(&result).expect("data");
    assert_eq!(serde_json::from_str::<DirectiveResult>(&text).expect("a record"), result);
}

#[tokio::test]
async fn a_limit_of_requests_holds_for_all_modes_together() {
    for (limit, steps_expected, skipped) in [
        (1, vec!["json_schema first NO_JSON"], 2),
        (2, vec!["json_schema first NO_JSON", "json_schema repair NO_JSON"], 2),
        (3, vec!["json_schema first NO_JSON", "json_schema repair NO_JSON", "json_object first NO_JSON"], 1),
    ] {
        let answers = (0..6).map(|_| says("no"));
        let script = script(answers, Preset { max_requests: Some(limit), ..Preset::default() });
        let result = script.run(&request()).await;
        assert_eq!(steps(&result), steps_expected);
        assert_eq!(result.skipped.len(), skipped, "{:?}", result.skipped);
        let last = result.errors.last().expect("an error");
        assert_eq!((last.category, last.code.as_str()), (ProblemCategory::Limit, "REQUEST_LIMIT"));
        assert_eq!(script.backend.asked().len(), limit as usize);
    }
    let script = script([says(GOOD), says("no")], Preset { max_requests: Some(1), ..once() });
    assert!(script.run(&request()).await.ok);
    let lost = self::script([fails(401)], Preset { max_requests: Some(1), ..Preset::default() });
    let result = lost.run(&request()).await;
    assert_eq!((result.errors.len(), result.skipped.len()), (1, 0), "another error ended the run");
    let only = RunRequest { modes: Some(vec![Mode::PromptOnly]), ..request() };
    let codes: Vec<_> = script.run(&only).await.errors.into_iter().map(|error| error.code).collect();
    assert_eq!(codes, ["NO_JSON"], "the limit did not end the run");
}

#[tokio::test]
async fn refusals_and_filters_end_the_run() {
    let choice = |message: Value, reason: &str| {
        Ok(json!({ "choices": [{ "message": message, "finish_reason": reason }] }))
    };
    for answer in [
        choice(json!({ "content": null, "refusal": "I can't help." }), "stop"),
        choice(json!({ "content": "" }), "content_filter"),
    ] {
        let script = script([answer, says(GOOD)], Preset::default());
        let result = script.run(&request()).await;
        assert_eq!((result.ok, script.backend.asked().len()), (false, 1));
    }
}

#[tokio::test]
async fn the_repair_of_a_text_that_the_budget_ended_asks_for_brevity() {
    let mut closed = ScriptedBackend::says(EMPTY);
    closed["choices"][0]["closed_by_budget"] = json!(true);
    for answer in [Ok(closed), cut(EMPTY), cut("{\"assistant_text\": \"so")] {
        let script = script([answer, says(GOOD)], Preset::default());
        assert!(script.run(&requiring_upload()).await.ok);
        let told = script.backend.asked()[1]["messages"][3]["content"].to_string();
        assert!(told.contains("so be brief"), "{told}");
    }
    let script = script([says(EMPTY), says(GOOD)], Preset::default());
    script.run(&requiring_upload()).await;
    assert!(!script.backend.asked()[1]["messages"][3]["content"].to_string().contains("brief"));
}

#[tokio::test]
async fn requirements_are_in_the_instructions_and_are_checked() {
    let required = options().with_required([Requirement::exactly_one("ui.request_upload")]);
    let mut options = required.expect("a type");
    options.max_text_length = Some(40);
    options.max_directives = Some(2);
    let request = RunRequest::new("I want a new avatar.", options);
    let script = script([says(EMPTY), says(GOOD)], presets::directives([Mode::PromptOnly]));
    let result = script.run(&request).await;
    assert_eq!(steps(&result), ["prompt_only first REQUIREMENT_NOT_MET", "prompt_only semantic_repair ok"]);
    let told = script.backend.asked()[0]["messages"][0]["content"].as_str().expect("text").to_owned();
    assert!(
        told.contains("\"directives\" must have exactly 1 directive of type ui.request_upload."),
        "{told}"
    );
    assert!(told.contains("\"directives\" has at most 2 in all."), "{told}");
    assert!(told.contains("\"assistant_text\" has at most 40 characters."), "{told}");
}

#[tokio::test]
async fn a_streamed_run_reports_events_and_has_the_same_result() {
    let script = script([says("no"), says(GOOD), says("no"), says(GOOD)], Preset::default());
    let events = Mutex::new(Vec::new());
    let report = |event: RunEvent| events.lock().expect("a lock").push(event);
    let mut streamed = script.runner.run_streamed(&request(), &report).await.expect("not cancelled");
    for attempt in &mut streamed.attempts {
        attempt.latency_ms = 0;
    }
    let whole = script.run(&request()).await;
    assert_eq!(streamed, whole);
    let mode = Mode::JsonSchema;
    let expected = [
        RunEvent::Attempt { mode, kind: AttemptKind::First },
        RunEvent::Attempt { mode, kind: AttemptKind::Repair },
        RunEvent::Text("Please upload it.".to_owned()),
        RunEvent::Directive { index: 0, directive: whole.directives[0].clone() },
    ];
    assert_eq!(*events.lock().expect("a lock"), expected);
}

/// Returns the answer to the question which type fits.
fn decides(first: f64) -> Value {
    let types = ["ui.toast", "ui.request_upload"];
    let probabilities: Vec<Value> = types
        .into_iter()
        .zip([first, 1.0 - first])
        .map(|(kind, probability)| json!({ "value": kind, "probability": probability }))
        .collect();
    let choice = types[usize::from(first < 0.5)];
    json!({ "answers": [{ "type": "choice", "choice": choice, "confidence": 0.5, "probabilities": probabilities }] })
}

#[tokio::test]
async fn a_decision_leaves_the_likeliest_type() {
    let preset = Preset { type_by_decision: Some(true), ..Preset::default() };
    let script = script([Ok(decides(0.25)), says(GOOD)], preset);
    let result = script.run(&request()).await;
    let decision = result.type_decision.expect("a decision");
    assert_eq!(decision.kind.as_deref(), Some("ui.request_upload"));
    assert_eq!(decision.probabilities.iter().map(|of| of.probability).collect::<Vec<_>>(), [0.25, 0.75]);
    let asked = script.backend.asked();
    let choices =
        json!([{ "value": "ui.toast", "description": "Shows a message." }, { "value": "ui.request_upload" }]);
    assert_eq!(asked[0]["questions"][0]["choices"], choices);
    assert_eq!(asked[0]["input"], json!([{ "role": "user", "content": "I want a new avatar." }]));
    let format = asked[1]["response_format"].to_string();
    assert!(format.contains("ui.request_upload") && !format.contains("ui.toast"), "{format}");
    assert!(result.ok);
}

#[tokio::test]
async fn without_a_decision_all_types_stay_allowed() {
    let preset = Preset { type_by_decision: Some(true), max_requests: Some(2), ..Preset::default() };
    let script = script([fails(404), says(EMPTY)], preset.clone());
    let result = script.run(&request()).await;
    assert!(result.ok, "{:?}", result.errors);
    let decision = result.type_decision.expect("a record");
    assert_eq!(
        (decision.kind, decision.error.expect("a reason").category),
        (None, ProblemCategory::Transport)
    );
    assert!(script.backend.asked()[1]["response_format"].to_string().contains("ui.toast"));
    // The decision counts as a request.
    let script = self::script([Ok(decides(0.9)), says("no")], preset);
    let result = script.run(&request()).await;
    assert_eq!(result.errors.last().expect("a reason").code, "REQUEST_LIMIT");
}

#[tokio::test]
async fn required_types_leave_nothing_to_decide() {
    let preset = Preset { type_by_decision: Some(true), ..Preset::default() };
    let script = script([says(GOOD)], preset);
    let options = options().with_required([Requirement::at_least_one("ui.request_upload")]).expect("a type");
    let result = script.run(&RunRequest::new("I want a new avatar.", options)).await;
    assert!(result.ok && result.type_decision.is_none());
    let preset = Preset { type_by_decision: Some(true), ..Preset::default() };
    let result = self::script([says(GOOD)], preset.clone()).run(&requiring_upload()).await;
    assert!(result.ok && result.type_decision.is_none());
    // The only request is for the answer.
    let preset = Preset { max_requests: Some(1), ..preset };
    let result = self::script([says(GOOD)], preset).run(&request()).await;
    assert!(result.ok && result.type_decision.is_none());
}
