//! Evaluation of structured directives: the scenarios, the simulated app and the run of a trial.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::{Value, json};

use super::evaluation::{Attempt, AttemptResult};
use super::judge::EnvelopeJudge;
use super::{Checks, EvalMode, Failure};
use formwork_backend::{BackendError, Body, merge};
use formwork_protocol::catalogue::Workaround;
use formwork_protocol::directives::{
    Definition, Directive, DirectiveResult, Mode, Preset, ProblemCategory, Registry, Requirement, RunRequest,
    Runner, StructuredOutputOptions, patch, presets,
};

const SYSTEM: &str =
    "You are the assistant of an app. Answer the user, and have the app do what they ask for by directives.";

/// Id of the form that the scenario `show_form` requests.
const FORM: &str = "character_form_v1";

struct Scenario {
    name: &'static str,
    user: &'static str,
    /// Type of the directive that the answer must contain.
    wanted: &'static str,
    /// Reports whether the directive's payload is what the user message asks for.
    is_right: fn(&Value) -> bool,
}

const SCENARIOS: [Scenario; 4] = [
    Scenario {
        name: "show_form",
        user: "Show me the form for a new character. Its form_id is \"character_form_v1\".",
        wanted: "ui.show_form",
        is_right: |payload| payload["form_id"] == FORM,
    },
    Scenario {
        name: "toast",
        user: "Show me a toast of level success with the message \"Saved\".",
        wanted: "ui.toast",
        is_right: |payload| {
            payload["message"].as_str().is_some_and(|said| said.to_lowercase().contains("saved"))
        },
    },
    Scenario {
        name: "patch_draft",
        user: "Patch the draft: set the value at \"/draft/foo\" to \"bar\".",
        wanted: "ui.patch",
        is_right: |payload| {
            let mut document = json!({ "draft": {}, "ui_state": {} });
            patch::apply(&mut document, &payload["ops"]).is_ok() && document["draft"]["foo"] == "bar"
        },
    },
    Scenario {
        name: "request_upload",
        user: "I want to give my character a portrait. Ask me to upload the image file, a PNG or JPEG of at most 2 MB.",
        wanted: "ui.request_upload",
        is_right: |payload| payload["purpose"].as_str().is_some_and(|purpose| !purpose.trim().is_empty()),
    },
];

/// Returns the directive types of the simulated app, each with its name, description and payload
/// schema.
fn types() -> [(&'static str, &'static str, Value); 4] {
    let text = json!({ "type": "string", "minLength": 1 });
    // The required members depend on the operation, so that any valid operation can be applied.
    let op = |names: &[&str], needs: Value| {
        let path = json!({ "type": "string", "pattern": "^/(draft|ui_state)/[^/]+" });
        let properties = merge(&body(&json!({ "op": { "enum": names }, "path": path })), &body(&needs));
        let required: Vec<&String> = properties.keys().collect();
        json!({ "type": "object", "properties": properties, "required": required })
    };
    let index = json!({ "type": "integer", "minimum": 0 });
    let op = json!({ "anyOf": [
        op(&["set", "append"], json!({ "value": {} })),
        op(&["delete"], json!({})),
        op(&["insert"], json!({ "value": {}, "index": index })),
    ] });
    let of = |properties: Value, required: &str| json!({ "type": "object", "properties": properties, "required": [required] });
    let levels = json!({ "type": "string", "enum": ["info", "success", "warning", "error"] });
    let accept = json!({ "type": "array", "items": { "type": "string" } });
    let max_bytes = json!({ "type": "integer", "minimum": 1 });
    [
        ("ui.show_form", "Shows a form, by its form_id.", of(json!({ "form_id": text }), "form_id")),
        ("ui.toast", "Shows a short message.", of(json!({ "message": text, "level": levels }), "message")),
        (
            "ui.patch",
            "Changes the draft (paths begin with /draft/) or the state of the UI (/ui_state/).",
            of(json!({ "ops": { "type": "array", "items": op, "minItems": 1 } }), "ops"),
        ),
        (
            "ui.request_upload",
            "Asks the user to upload a file.",
            of(json!({ "purpose": text, "accept": accept, "max_bytes": max_bytes }), "purpose"),
        ),
    ]
}

fn body(value: &Value) -> Body {
    value.as_object().cloned().unwrap_or_default()
}

static JUDGE: LazyLock<Option<EnvelopeJudge>> = LazyLock::new(|| {
    let types = types().map(|(name, _, schema)| (name, schema));
    EnvelopeJudge::new(&types)
});

static OPTIONS: LazyLock<Option<StructuredOutputOptions>> = LazyLock::new(|| {
    let definition = |(name, description, schema): (&'static str, &str, Value)| Definition {
        description: description.to_owned(),
        aliases: name.strip_prefix("ui.").map(str::to_owned).into_iter().collect(),
        payload_schema: Some(schema),
        patch: name == "ui.patch",
        ..Definition::new(name)
    };
    let registry = Registry::new(types().map(definition).into()).ok()?;
    Some(StructuredOutputOptions::new(registry))
});

/// Judges the text of one answer with the independent judge.
pub(super) fn judge(text: &str) -> Checks {
    JUDGE.as_ref().map(|judge| judge.judge(text)).unwrap_or_default()
}

/// Runs the scenario of a trial once.
pub(super) async fn run(attempt: &Attempt<'_>) -> Result<AttemptResult, BackendError> {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == attempt.key.scenario);
    // Cannot happen: scenario names were checked, and a test checks the registry.
    let options = scenario.zip(OPTIONS.clone()).and_then(|(scenario, options)| {
        let required = attempt.settings.require.then(|| Requirement::exactly_one(scenario.wanted));
        let mut options = options.with_required(required).ok()?;
        options.max_directives = attempt.settings.require.then_some(1);
        Some((scenario, options))
    });
    let Some((scenario, options)) = options else { return Err(BackendError::cancelled()) };
    let mut request = RunRequest::new(scenario.user, options);
    request.system = Some(SYSTEM.to_owned());
    let missed = Arc::new(Mutex::new(None));
    if attempt.settings.semantic_repair {
        let missed = Arc::clone(&missed);
        request = request.with_result_validator(move |envelope| {
            let failure = check(scenario, &envelope.directives);
            let reasons = failure.iter().map(|failure| failure.message.clone()).collect();
            *missed.lock().unwrap_or_else(PoisonError::into_inner) = failure;
            reasons
        });
    }
    let result = Runner::build(attempt.runner.clone(), preset(attempt)).run(&request).await?;
    let missed = missed.lock().unwrap_or_else(PoisonError::into_inner).take();
    let failure =
        if result.ok { check(scenario, &result.directives) } else { Some(failure(&result, missed)) };
    Ok(AttemptResult { failure, answered: answered(&result), not_exercised: None })
}

/// Returns the preset of a trial: the settings for the provider, and the mode of the trial. In the
/// mode `ladder`, the preset has no mode, unless the model's workaround selects one.
fn preset(attempt: &Attempt<'_>) -> Preset {
    let provider = attempt.model.provider.as_deref().map(presets::provider_defaults).unwrap_or_default();
    let is_prompt_only = attempt.model.workarounds.contains(&Workaround::PromptOnly);
    let modes = match attempt.key.mode {
        Some(EvalMode::JsonSchema) => Some(Mode::JsonSchema),
        Some(EvalMode::JsonObject) => Some(Mode::JsonObject),
        Some(EvalMode::PromptOnly) => Some(Mode::PromptOnly),
        Some(EvalMode::Ladder) | None => {
            (is_prompt_only && attempt.works_around()).then_some(Mode::PromptOnly)
        }
    };
    let of_mode = modes.map(|mode| presets::directives([mode])).unwrap_or_default();
    presets::merge([provider, of_mode])
}

/// Returns a failure if no directive has the required type, or if none of these has a correct
/// payload.
fn check(scenario: &Scenario, directives: &[Directive]) -> Option<Failure> {
    let mut found = directives.iter().filter(|directive| directive.kind == scenario.wanted).peekable();
    if found.peek().is_none() {
        let kinds: Vec<_> = directives.iter().map(|directive| directive.kind.as_str()).collect();
        let message = format!("missing {}; received [{}]", scenario.wanted, kinds.join(", "));
        return Some(Failure::new("MISSING_DIRECTIVE", message));
    }
    let payloads: Vec<Value> = found.map(|directive| directive.payload.clone().into()).collect();
    let is_right = payloads.iter().any(scenario.is_right);
    let told = || payloads.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
    (!is_right).then(|| Failure::new("WRONG_PAYLOAD", format!("wrong payload: {}", told())))
}

/// Returns the failure of an unsuccessful run. The failure contains the last error of the run, or
/// `missed` if this error is semantic. `missed` is the last failed check of directives.
fn failure(result: &DirectiveResult, missed: Option<Failure>) -> Failure {
    match (result.errors.last(), missed) {
        (Some(problem), Some(missed)) if problem.category == ProblemCategory::Semantic => missed,
        (Some(problem), _) => Failure::new(problem.code.clone(), problem.message.clone()),
        (None, _) => Failure::new("NO_MODE", "the backend supports none of the modes"),
    }
}

/// Returns the mode of the answer that was used. If no answer was used, returns the mode of the
/// last answer. Returns `None` if there was no answer.
fn answered(result: &DirectiveResult) -> Option<EvalMode> {
    let last =
        || result.attempts.iter().rfind(|attempt| attempt.content.is_some()).map(|attempt| attempt.mode);
    result.mode.or_else(last).map(|mode| match mode {
        Mode::JsonSchema => EvalMode::JsonSchema,
        Mode::JsonObject => EvalMode::JsonObject,
        Mode::PromptOnly => EvalMode::PromptOnly,
    })
}
