use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};

use super::*;
use formwork_backend::{Answer, BackendError, Body, Capabilities, ChatBackend, Chunks, ScriptedBackend};
use formwork_protocol::catalogue::Workaround;
use formwork_protocol::sampling::Sampling;

mod counting;
mod report;

pub(crate) use report::check_page;

type Script = Vec<Result<Value, BackendError>>;

#[allow(clippy::unnecessary_wraps, reason = "scripts have errors, too")]
fn says(content: &str) -> Result<Value, BackendError> {
    Ok(ScriptedBackend::says(content))
}

fn settings(harness: Harness, scenario: &str) -> EvalSettings {
    let profile = EvalProfile { name: "default".to_owned(), sampling: Sampling::default() };
    EvalSettings {
        models: vec![EvalModel::new("m", "script", vec![profile])],
        scenarios: vec![scenario.to_owned()],
        ..EvalSettings::new(harness)
    }
}

fn evaluation(settings: EvalSettings, backend: impl ChatBackend + 'static) -> Evaluation {
    let backend: Arc<dyn ChatBackend> = Arc::new(backend);
    let names = settings.models.iter().map(|model| model.name.clone());
    let backends: BTreeMap<_, _> = names.map(|name| (name, Arc::clone(&backend))).collect();
    Evaluation::new(settings, backends).expect("good settings")
}

async fn all(evaluation: &Evaluation, journal: &Journal, parallel: usize) -> Vec<Trial> {
    let made: Vec<_> = evaluation.trials(&journal.done(), parallel).collect().await;
    made.into_iter().collect::<Result<_, _>>().expect("not cancelled")
}

/// Runs an evaluation of a single trial with scripted answers, and returns the trial.
async fn only(settings: EvalSettings, script: Script) -> Trial {
    let evaluation = evaluation(settings, ScriptedBackend::new(script));
    let mut trials = all(&evaluation, &Journal::default(), 1).await;
    assert_eq!(trials.len(), 1);
    trials.remove(0)
}

fn category(trial: &Trial) -> &str {
    assert_eq!(trial.ok, trial.failure.is_none() && trial.not_exercised.is_none());
    let other = if trial.ok { "ok" } else { "not exercised" };
    trial.failure.as_ref().map_or(other, |failure| failure.category.as_str())
}

fn envelope(kind: &str, payload: &Value) -> String {
    json!({ "assistant_text": "Here.", "directives": [{ "type": kind, "payload": payload }] }).to_string()
}

fn patch(op: &Value) -> Value {
    json!({ "ops": [op] })
}

#[tokio::test]
async fn distinguishes_the_wanted_directive_from_others() {
    let right = [
        ("show_form", "ui.show_form", json!({ "form_id": "character_form_v1", "title": "New" })),
        ("toast", "ui.toast", json!({ "message": "Saved!", "level": "success" })),
        ("patch_draft", "ui.patch", patch(&json!({ "op": "set", "path": "/draft/foo", "value": "bar" }))),
        ("request_upload", "ui.request_upload", json!({ "purpose": "portrait", "max_bytes": 2_000_000 })),
    ];
    for mode in [EvalMode::JsonSchema, EvalMode::JsonObject, EvalMode::PromptOnly] {
        for (scenario, kind, payload) in &right {
            let settings = EvalSettings { modes: vec![mode], ..settings(Harness::Directives, scenario) };
            let run = |content: String| only(settings.clone(), vec![says(&content), says(&content)]);
            let trial = run(envelope(kind, payload)).await;
            assert_eq!(
                (category(&trial), trial.answered),
                ("ok", Some(mode)),
                "{scenario}: {:?}",
                trial.failure
            );
            let checks = trial.exchanges[0].checks;
            let whole = Rate { ok: 1, of: 1 };
            assert_eq!(
                (checks.envelopes, checks.types, checks.payloads),
                (whole, whole, whole),
                "{scenario}"
            );
            assert_eq!(trial.exchanges[0].mode, Some(mode));

            let none = r#"{"assistant_text": "", "directives": []}"#.to_owned();
            assert_eq!(category(&run(none).await), "MISSING_DIRECTIVE", "{scenario}");
            let (_, other, payload) = right.iter().find(|(_, other, _)| other != kind).expect("another");
            let trial = run(envelope(other, payload)).await;
            let failure = trial.failure.expect("a failure");
            assert_eq!(failure.category, "MISSING_DIRECTIVE", "{scenario}");
            assert_eq!(failure.message, format!("missing {kind}; received [{other}]"));
        }
    }
}

#[tokio::test]
async fn rejects_wrong_payloads() {
    for (scenario, kind, payload) in [
        ("show_form", "ui.show_form", json!({ "form_id": "another" })),
        ("toast", "ui.toast", json!({ "message": "Hello" })),
        ("patch_draft", "ui.patch", patch(&json!({ "op": "set", "path": "/draft/bar", "value": "foo" }))),
        ("patch_draft", "ui.patch", patch(&json!({ "op": "delete", "path": "/draft/foo" }))),
        ("request_upload", "ui.request_upload", json!({ "purpose": " " })),
    ] {
        let content = envelope(kind, &payload);
        let trial = only(settings(Harness::Directives, scenario), vec![says(&content)]).await;
        assert_eq!(category(&trial), "WRONG_PAYLOAD", "{scenario} {payload}");
        assert_eq!(trial.exchanges[0].checks.payloads, Rate { ok: 1, of: 1 }, "it is one by its schema");
    }
}

#[tokio::test]
async fn judges_normalized_answers_in_their_original_form() {
    let odd = patch(&json!({ "op": "add", "path": "draft/foo", "value": "bar" }));
    let fenced = format!("Sure!\n```json\n{}\n```", envelope("ui_patch", &odd));
    let trial = only(settings(Harness::Directives, "patch_draft"), vec![says(&fenced)]).await;
    assert_eq!(category(&trial), "ok", "{:?}", trial.failure);
    assert_eq!(trial.exchanges[0].checks.envelopes, Rate { ok: 0, of: 1 });
}

#[tokio::test]
async fn answers_without_an_envelope_fail_by_category() {
    let settings =
        EvalSettings { modes: vec![EvalMode::PromptOnly], ..settings(Harness::Directives, "toast") };
    let trial = only(settings.clone(), vec![says("Saved!"), says("I said: saved!")]).await;
    assert!(!trial.ok && trial.exchanges.len() == 2, "{trial:?}");
    assert_eq!(trial.exchanges[1].checks.envelopes, Rate { ok: 0, of: 1 });
    assert!(trial.exchanges[1].continued, "a repair goes on from what was said");
    for (status, expected) in
        [(401, "AUTHENTICATION"), (429, "RATE_LIMITED"), (504, "TIMEOUT"), (500, "SERVER_ERROR")]
    {
        let script = vec![Err(BackendError::from_status(status, "no"))];
        let trial = only(settings.clone(), script).await;
        assert_eq!((category(&trial), trial.answered), (expected, None));
        assert_eq!(
            trial.exchanges[0].error.as_deref(),
            Some(format!("the backend answered {status}: no").as_str())
        );
    }
}

#[tokio::test]
async fn records_each_mode_of_the_ladder() {
    let refused = Err(BackendError::from_status(400, "response_format is not supported"));
    let good = envelope("ui.toast", &json!({ "message": "Saved" }));
    let script = vec![refused.clone(), refused, says(&good)];
    let trial = only(settings(Harness::Directives, "toast"), script).await;
    assert_eq!((category(&trial), trial.answered), ("ok", Some(EvalMode::PromptOnly)));
    let modes: Vec<_> = trial.exchanges.iter().map(|exchange| exchange.mode).collect();
    assert_eq!(modes, [EvalMode::JsonSchema, EvalMode::JsonObject, EvalMode::PromptOnly].map(Some));
}

#[tokio::test]
async fn semantic_repair_sends_another_request() {
    let none = r#"{"assistant_text": "", "directives": []}"#;
    let good = envelope("ui.toast", &json!({ "message": "Saved" }));
    let plain = settings(Harness::Directives, "toast");
    let trial = only(plain.clone(), vec![says(none), says(&good)]).await;
    assert_eq!((category(&trial), trial.exchanges.len()), ("MISSING_DIRECTIVE", 1));
    let repaired = EvalSettings { semantic_repair: true, ..plain };
    let trial = only(repaired.clone(), vec![says(none), says(&good)]).await;
    assert_eq!((category(&trial), trial.exchanges.len()), ("ok", 2));
    let never = EvalSettings { modes: vec![EvalMode::JsonSchema], ..repaired };
    let trial = only(never, vec![says(none), says(none)]).await;
    assert_eq!((category(&trial), trial.exchanges.len()), ("MISSING_DIRECTIVE", 2));
}

#[tokio::test]
async fn the_strategy_decides_on_workarounds() {
    let both = |workaround| {
        let mut settings = settings(Harness::Tools, "happy_path");
        settings.models[0].workarounds = vec![workaround];
        settings
    };
    let with =
        |strategy, settings: &EvalSettings| EvalSettings { strategies: vec![strategy], ..settings.clone() };
    let tagged = both(Workaround::ContentTagToolCallFallback);
    let call = |name: &str, arguments: &Value| {
        says(&format!("<tool_call>{}</tool_call>", json!({ "name": name, "arguments": arguments })))
    };
    let script = || vec![call("state_get", &id()), call("state_patch", &set("foo", "bar")), says("Done.")];
    assert_eq!(category(&only(with(Strategy::Production, &tagged), script()).await), "ok");
    assert_eq!(category(&only(with(Strategy::Baseline, &tagged), script()).await), "NO_TOOL_CALLS");

    let mut prompted = settings(Harness::Directives, "toast");
    prompted.models[0].workarounds = vec![Workaround::PromptOnly];
    let good = || vec![says(&envelope("ui.toast", &json!({ "message": "Saved" })))];
    let trial = only(with(Strategy::Production, &prompted), good()).await;
    assert_eq!(trial.answered, Some(EvalMode::PromptOnly));
    let trial = only(with(Strategy::Baseline, &prompted), good()).await;
    assert_eq!(trial.answered, Some(EvalMode::JsonSchema));
}

fn id() -> Value {
    json!({ "workspace_id": "ws_4f1c" })
}

fn set(name: &str, value: impl Into<Value>) -> Value {
    let op = json!({ "op": "set", "path": format!("/draft/{name}"), "value": value.into() });
    json!({ "workspace_id": "ws_4f1c", "ops": [op] })
}

#[allow(clippy::unnecessary_wraps, reason = "scripts have errors, too")]
fn call(name: &str, arguments: &Value) -> Result<Value, BackendError> {
    Ok(ScriptedBackend::calls("call_1", name, &arguments.to_string()))
}

#[tokio::test]
async fn each_tool_scenario_can_succeed() {
    let long = "long ".repeat(100);
    let without = json!({ "ops": set("foo", "bar")["ops"] });
    for (scenario, script) in [
        (
            "happy_path",
            vec![call("state_get", &id()), call("state_patch", &set("foo", "bar")), says("Done.")],
        ),
        (
            "missing_workspace_id",
            vec![
                call("state_get", &json!({})),
                call("state_get", &id()),
                call("state_patch", &without),
                call("state_patch", &set("foo", "bar")),
                says(" Done.\n"),
            ],
        ),
        (
            "type_error_recovery",
            vec![call("state_patch", &set("age", "42")), call("state_patch", &set("age", 42)), says("Done.")],
        ),
        (
            "long_arguments_guard",
            vec![
                call("state_patch", &set("summary", long)),
                call("state_patch", &set("summary", "short")),
                says("Done."),
            ],
        ),
        ("chat_only", vec![says("Done.")]),
    ] {
        let requests = script.len();
        let trial = only(settings(Harness::Tools, scenario), script).await;
        assert_eq!(
            (category(&trial), trial.exchanges.len()),
            ("ok", requests),
            "{scenario}: {:?}",
            trial.failure
        );
        let mut checks = Checks::default();
        trial.exchanges.iter().for_each(|exchange| checks.merge(&exchange.checks));
        let calls = Rate { ok: requests - 1, of: requests - 1 };
        assert_eq!((checks.calls, checks.arguments), (calls, calls), "{scenario}");
    }
}

#[tokio::test]
async fn tool_scenarios_fail_by_category() {
    let get = || call("state_get", &id());
    let wrong = || call("state_patch", &set("age", "42"));
    for (scenario, script, expected) in [
        ("happy_path", vec![says("Done.")], "NO_TOOL_CALLS"),
        ("happy_path", vec![get(), says("Done.")], "ASSERTION_FAILED"),
        ("happy_path", vec![call("state_patch", &set("foo", "bar")), says("I did it.")], "ASSERTION_FAILED"),
        ("happy_path", vec![call("state_patch", &set("foo", "bar")), says(""), says("")], "EMPTY_FINAL"),
        ("happy_path", (0..9).map(|_| get()).collect(), "MAX_TURNS"),
        ("happy_path", vec![get(), Err(BackendError::from_status(504, "late"))], "TIMEOUT"),
        ("missing_workspace_id", vec![call("state_get", &json!({})), says("Done.")], "TOOL_ERROR"),
        ("type_error_recovery", vec![wrong(), says("Done.")], "TOOL_ERROR"),
        (
            "long_arguments_guard",
            vec![call("state_patch", &set("summary", "x".repeat(400))), says("Done.")],
            "TOOL_ERROR",
        ),
        (
            "long_arguments_guard",
            vec![
                call("state_patch", &set("summary", "x".repeat(400))),
                call("state_patch", &set("summary", "")),
                says("Done."),
            ],
            "ASSERTION_FAILED",
        ),
        ("type_error_recovery", vec![Err(BackendError::from_status(504, "late"))], "TIMEOUT"),
        ("chat_only", vec![says("Done. Anything else?")], "ASSERTION_FAILED"),
    ] {
        let trial = only(settings(Harness::Tools, scenario), script).await;
        assert_eq!(category(&trial), expected, "{scenario}: {:?}", trial.failure);
    }
}

#[tokio::test]
async fn the_control_scenario_has_no_tools() {
    let backend = Arc::new(ScriptedBackend::new([says("Done.")]));
    let settings = settings(Harness::Tools, "chat_only");
    let backends = BTreeMap::from([("m".to_owned(), Arc::clone(&backend) as Arc<dyn ChatBackend>)]);
    let evaluation = Evaluation::new(settings, backends).expect("good settings");
    all(&evaluation, &Journal::default(), 1).await;
    assert!(backend.asked().iter().all(|body| !body.contains_key("tools")));
}

/// Backend whose answer depends only on the request's seed. Some answers are correct toasts, others
/// are wrong.
struct Fickle;

impl ChatBackend for Fickle {
    fn name(&self) -> &'static str {
        "fickle"
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        let content = match body["seed"].as_u64().unwrap_or_default() % 4 {
            0 => "Saved <script src=\"http://evil.example/x.js\"></script>".to_owned(),
            1 => envelope("ui.show_form", &json!({ "form_id": "character_form_v1" })),
            _ => envelope("ui.toast", &json!({ "message": "Saved" })),
        };
        let answer = ScriptedBackend::new([says(&content)]).chat(body).now_or_never();
        ready(answer.expect("a script answers at once")).boxed()
    }

    fn stream<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        ready(Err(BackendError::cancelled())).boxed()
    }

    fn capabilities<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        ready(Ok(Capabilities::all())).boxed()
    }
}

fn fickle() -> Evaluation {
    let mut settings = settings(Harness::Directives, "show_form");
    settings.scenarios.push("toast".to_owned());
    settings.modes = vec![EvalMode::JsonSchema, EvalMode::PromptOnly];
    settings.strategies.insert(0, Strategy::Baseline);
    let hot = Sampling { temperature: Some(1.5), ..Sampling::default() };
    settings.models[0].profiles.push(EvalProfile { name: "hot".to_owned(), sampling: hot });
    settings.trials = 4;
    evaluation(settings, Fickle)
}

/// Returns the trials in the order of their keys, without latencies, which differ between runs.
fn sorted(mut trials: Vec<Trial>) -> Vec<Trial> {
    for trial in &mut trials {
        trial.latency_ms = 0.0;
        trial.exchanges.iter_mut().for_each(|exchange| exchange.latency_ms = 0.0);
    }
    trials.sort_by(|one, other| one.key.cmp(&other.key));
    trials
}

#[tokio::test]
async fn a_resumed_evaluation_gives_the_same_result() {
    let evaluation = fickle();
    let whole = all(&evaluation, &Journal::default(), 1).await;
    assert_eq!(whole.len(), 32);
    let lines: String = whole.iter().map(Journal::line).collect();
    let ends: Vec<usize> = lines.match_indices('\n').map(|(at, _)| at + 1).collect();
    // Lengths of the journal: empty, one line, several lines, a partial line, one byte short, and
    // complete.
    for at in [0, ends[0], ends[6], ends[6] + 40, lines.len() - 1, lines.len()] {
        let journal = Journal::parse(evaluation.settings(), &lines.as_bytes()[..at]).expect("a journal");
        assert_eq!(journal.len, ends.iter().copied().filter(|&end| end <= at).max().unwrap_or_default());
        let left = all(&evaluation, &journal, 5).await;
        assert_eq!(journal.trials.len() + left.len(), whole.len(), "each once");
        let both: Vec<_> = journal.trials.into_iter().chain(left).collect();
        let summary = Summary::of(evaluation.settings(), &sorted(both.clone()));
        assert_eq!(summary, Summary::of(evaluation.settings(), &sorted(whole.clone())));
        assert_eq!(sorted(both), sorted(whole.clone()));
    }
}

#[tokio::test]
async fn rejects_invalid_lines_of_a_journal() {
    let evaluation = fickle();
    let trials = all(&evaluation, &Journal::default(), 8).await;
    let line = Journal::line(&trials[0]);
    let error =
        |text: &str| Journal::parse(evaluation.settings(), text.as_bytes()).expect_err(text).to_string();
    assert!(error("{}\n").starts_with("line 1: invalid trial: "));
    assert!(error(&format!("{line}{line}")).starts_with("line 2: duplicate trial: m "));
    let other = EvalSettings { trials: 0, ..evaluation.settings().clone() };
    let error = Journal::parse(&other, line.as_bytes()).expect_err("another plan");
    assert!(error.to_string().starts_with("line 1: the trial is not in the plan: m "));
}

#[tokio::test]
async fn cancellation_gives_no_result() {
    let script = ScriptedBackend::new([Err(BackendError::cancelled())]);
    let evaluation = evaluation(settings(Harness::Tools, "chat_only"), script);
    let made: Vec<_> = evaluation.trials(&Journal::<Trial>::default().done(), 1).collect().await;
    assert!(matches!(&made[..], [Err(_)]));
}

#[test]
fn settings_are_checked() {
    let error = |settings| match Evaluation::new(settings, BTreeMap::new()) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    let good = settings(Harness::Tools, "chat_only");
    assert_eq!(error(good.clone()), "no backend is set for model `m`");
    assert_eq!(
        error(EvalSettings { version: 7, ..good }),
        format!("the settings have version 7; expected version {EVAL_VERSION}")
    );
    assert!(error(settings(Harness::Tools, "toast")).starts_with("unknown scenario or group `toast`"));
}

#[tokio::test]
async fn requests_have_seed_limit_and_sampling_of_their_trial() {
    let mut settings = settings(Harness::Directives, "toast");
    settings.max_tokens = Some(99);
    settings.models[0].profiles[0].sampling.temperature = Some(0.3);
    let backend =
        Arc::new(ScriptedBackend::new([says(&envelope("ui.toast", &json!({ "message": "Saved" })))]));
    let backends = BTreeMap::from([("m".to_owned(), Arc::clone(&backend) as Arc<dyn ChatBackend>)]);
    let evaluation = Evaluation::new(settings.clone(), backends).expect("good settings");
    let trials = all(&evaluation, &Journal::default(), 1).await;
    let body = &backend.asked()[0];
    assert_eq!((&body["max_tokens"], &body["temperature"]), (&json!(99), &json!(0.3)));
    assert_eq!(body["seed"], trials[0].seed);
    let silent = EvalSettings { seed: None, ..settings };
    let backend = Arc::new(ScriptedBackend::new([says("no")]));
    let backends = BTreeMap::from([("m".to_owned(), Arc::clone(&backend) as Arc<dyn ChatBackend>)]);
    all(&Evaluation::new(silent, backends).expect("good settings"), &Journal::default(), 1).await;
    assert!(!backend.asked()[0].contains_key("seed"));
}

#[tokio::test]
async fn summaries_count_by_every_dimension() {
    let evaluation = fickle();
    let trials = all(&evaluation, &Journal::default(), 3).await;
    let summary = Summary::of(evaluation.settings(), &trials);
    let sums = |groups: &Groups| {
        groups.0.iter().fold(Rate::default(), |mut sum, (_, stats)| {
            sum.merge(stats.runs);
            sum
        })
    };
    let overall = summary.overall.runs;
    assert_eq!(overall.of, 32);
    assert!((1..overall.of).contains(&overall.ok), "{overall:?}");
    for groups in [&summary.by_scenario, &summary.by_mode, &summary.by_profile, &summary.by_model] {
        assert_eq!(sums(groups), overall, "{groups:?}");
    }
    assert!(summary.by_strategy.0.iter().all(|(_, stats)| stats.runs == overall), "no workaround applies");
    assert!(summary.by_answered_mode.0.is_empty(), "no mode is the ladder");
    let names = |groups: &Groups| groups.0.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&summary.by_mode), ["json_schema", "prompt_only"]);
    assert_eq!(names(&summary.by_strategy), ["baseline", "production"]);
    assert_eq!(summary.matrix.len(), 4);
    assert!(summary.matrix.iter().all(|row| row.stats.runs.of == 8 && row.control.is_none()));
    let failures: usize = summary.overall.failures.values().sum();
    assert_eq!(failures, overall.of - overall.ok);
    let written = serde_json::to_value(&summary).expect("JSON");
    assert_eq!(written["overall"]["ok_rate"], json!(overall.share()));
    assert_eq!(written["overall"]["ok_rate_95"], json!(overall.interval()));
    assert!(written["by_mode"]["json_schema"]["valid_envelopes"]["rate"].is_number());
    let by_scenario = Summary::by_scenario(evaluation.settings(), &trials);
    assert_eq!(by_scenario["toast"]["rows"].as_array().map(Vec::len), Some(4));
    let both = Summary::by_scenario_and_strategy(evaluation.settings(), &trials).expect("two strategies");
    assert_eq!(both["toast"]["baseline"]["runs"], 16);
    let one = EvalSettings { strategies: vec![Strategy::Baseline], ..evaluation.settings().clone() };
    assert_eq!(Summary::by_scenario_and_strategy(&one, &trials), None);
}

#[tokio::test]
async fn counts_the_control_separately() {
    let mut settings = settings(Harness::Tools, "happy_path");
    settings.scenarios.push("chat_only".to_owned());
    let script = vec![call("state_patch", &set("foo", "bar")), says("Done."), says("Hello")];
    let evaluation = evaluation(settings, ScriptedBackend::new(script));
    let trials = all(&evaluation, &Journal::default(), 1).await;
    let summary = Summary::of(evaluation.settings(), &trials);
    let tools = summary.tool_scenarios.as_ref().expect("tools");
    assert_eq!((summary.overall.runs, tools.runs), (Rate { ok: 1, of: 2 }, Rate { ok: 1, of: 1 }));
    assert_eq!(summary.matrix[0].control, Some(Rate { ok: 0, of: 1 }));
    assert!(summary.by_mode.0.is_empty());
}
