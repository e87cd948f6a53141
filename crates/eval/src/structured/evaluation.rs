use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{self, Stream, StreamExt};
use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::judge::judge;
use super::{Case, StructuredKey, StructuredTrial, Verdict, keywords};
use crate::error::Kind;
use crate::evaluation::{check_models, milliseconds};
use crate::settings::{difference, request_options, seed_of};
use crate::{EvalError, EvalModel, EvalProfile, Failure};
use formwork_backend::{BackendError, Body, Category, ChatBackend, Plan, PromptRunner, Reply};
use formwork_protocol::sampling::Sampling;

/// Version of the built-in cases and of the written files. An evaluation cannot be resumed by a
/// program with another version.
pub const STRUCTURED_VERSION: u32 = 1;

/// Settings that define the trials of an evaluation of structured outputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StructuredSettings {
    /// Version of the settings. Must be [`STRUCTURED_VERSION`].
    pub version: u32,
    /// Models to evaluate. Their workarounds are not applied.
    pub models: Vec<EvalModel>,
    /// Cases to run.
    pub cases: Vec<Case>,
    /// Number of trials for each combination of model, profile and case.
    pub trials: u32,
    /// Base seed, from which the seed of each trial is derived. If `None`, or if the server refuses
    /// `seed`, requests have no seed.
    pub seed: Option<u64>,
    /// Maximum number of tokens in an answer. If `None`, requests have no such limit.
    pub max_tokens: Option<u32>,
    /// Fields that are added to all requests. They override the defaults of a model.
    pub defaults: Body,
    /// Sampling values that replace the values of every profile.
    pub overrides: Sampling,
    /// Value of `strict` in the `response_format`. If `None`, requests have no such field.
    pub strict: Option<bool>,
    /// Time limit of a trial with its retries, in seconds.
    pub timeout_seconds: u64,
}

impl StructuredSettings {
    /// Creates settings without models and cases: one trial per case, the base seed 0, `strict` and a
    /// time limit of 300 seconds.
    pub fn new() -> Self {
        Self {
            version: STRUCTURED_VERSION,
            models: Vec::new(),
            cases: Vec::new(),
            trials: 1,
            seed: Some(0),
            max_tokens: None,
            defaults: Body::new(),
            overrides: Sampling::default(),
            strict: Some(true),
            timeout_seconds: 300,
        }
    }

    /// Returns the keys of all trials, in the order in which they start.
    pub fn plan(&self) -> Vec<StructuredKey> {
        let mut plan = Vec::new();
        for (model, profile) in
            self.models.iter().flat_map(|model| model.profiles.iter().map(move |of| (model, of)))
        {
            for case in &self.cases {
                plan.extend((0..self.trials).map(|trial| StructuredKey {
                    model: model.name.clone(),
                    profile: profile.name.clone(),
                    case: case.id.clone(),
                    trial,
                }));
            }
        }
        plan
    }

    /// Returns the seed of a trial: a hash of the base seed, the case and the index of the trial.
    /// All models and profiles get the same seeds. The seed is below 2^31.
    pub fn seed_of(&self, key: &StructuredKey) -> u64 {
        seed_of(self.seed.unwrap_or_default(), &key.case, key.trial)
    }

    /// Returns the name of the first field whose value differs in `other`. Returns `None` if the
    /// settings are equal.
    pub fn difference(&self, other: &Self) -> Option<String> {
        difference(self, other)
    }

    fn options(&self, model: &EvalModel, profile: &EvalProfile, key: &StructuredKey) -> Body {
        let seed = self.seed.map(|_| self.seed_of(key));
        let numbers = [("max_tokens", self.max_tokens.map(u64::from)), ("seed", seed)];
        request_options(model, &self.defaults, profile, self.overrides, numbers)
    }

    fn response_format(&self, case: &Case) -> Value {
        let mut format = json!({ "name": "answer", "schema": case.schema });
        if let Some(strict) = self.strict {
            format["strict"] = strict.into();
        }
        json!({ "type": "json_schema", "json_schema": format })
    }
}

impl Default for StructuredSettings {
    fn default() -> Self {
        Self::new()
    }
}

/// A model to evaluate, with its backend.
struct Subject {
    model: EvalModel,
    backend: Arc<dyn ChatBackend>,
    /// True after the first answer or refusal.
    is_reached: AtomicBool,
    /// True after the server refused `seed`: later requests have none.
    refuses_seed: AtomicBool,
}

/// An evaluation of structured outputs that is ready to run.
pub struct StructuredEvaluation {
    settings: StructuredSettings,
    subjects: Vec<Subject>,
    /// The cases with their compiled schemas, by id.
    cases: BTreeMap<String, (Case, Validator)>,
}

impl StructuredEvaluation {
    /// Creates an evaluation. `backends` maps the name of each model to its backend.
    ///
    /// # Errors
    /// Returns an error if:
    ///
    /// - the settings have another version than [`STRUCTURED_VERSION`],
    /// - there are no cases, or two cases have the same id,
    /// - a schema is invalid,
    /// - two models have the same name, or a model has no backend.
    pub fn new(
        settings: StructuredSettings,
        backends: &BTreeMap<String, Arc<dyn ChatBackend>>,
    ) -> Result<Self, EvalError> {
        if settings.version != STRUCTURED_VERSION {
            return Err(Kind::Version { given: settings.version, known: STRUCTURED_VERSION }.into());
        }
        check_models(&settings.models, backends)?;
        if settings.cases.is_empty() {
            return Err(Kind::NoCases.into());
        }
        let mut cases = BTreeMap::new();
        for case in &settings.cases {
            let id = case.id.clone();
            let validator =
                case.validator().map_err(|error| Kind::Case { id: id.clone(), reason: error.to_string() })?;
            if cases.insert(id.clone(), (case.clone(), validator)).is_some() {
                return Err(Kind::SameCase { id }.into());
            }
        }
        let subject = |model: &EvalModel| {
            let backend = Arc::clone(backends.get(&model.name)?);
            let (is_reached, refuses_seed) = (AtomicBool::new(false), AtomicBool::new(false));
            Some(Subject { model: model.clone(), backend, is_reached, refuses_seed })
        };
        let subjects = settings.models.iter().filter_map(subject).collect();
        Ok(Self { settings, subjects, cases })
    }

    /// Returns the settings that the evaluation was created with.
    pub const fn settings(&self) -> &StructuredSettings {
        &self.settings
    }

    /// Runs all planned trials whose keys are not in `done`. At most `parallel` trials run at the
    /// same time. Yields each trial when it has ended.
    ///
    /// # Errors
    /// Yields an error if a run was cancelled, or if a model was not reached even once: the server is
    /// unreachable, the key is wrong or the server does not have the model. Any other failure is
    /// recorded in its trial.
    pub fn trials<'a>(
        &'a self,
        done: &HashSet<StructuredKey>,
        parallel: usize,
    ) -> impl Stream<Item = Result<StructuredTrial, BackendError>> + use<'a> {
        let left: Vec<_> = self.settings.plan().into_iter().filter(|key| !done.contains(key)).collect();
        stream::iter(left).map(|key| self.trial(key)).buffer_unordered(parallel.max(1))
    }

    async fn trial(&self, key: StructuredKey) -> Result<StructuredTrial, BackendError> {
        let subject = self.subjects.iter().find(|subject| subject.model.name == key.model);
        let profile = subject.and_then(|of| of.model.profiles.iter().find(|of| of.name == key.profile));
        let parts = subject.zip(profile).zip(self.cases.get(&key.case));
        // Cannot happen: the plan comes from the settings, and all their models have backends.
        let Some(((subject, profile), (case, validator))) = parts else {
            return Err(BackendError::cancelled());
        };
        let mut options = self.settings.options(&subject.model, profile, &key);
        let runner = |options: &Body| {
            PromptRunner::new(Arc::clone(&subject.backend), subject.model.id.clone())
                .with_defaults(options.clone())
        };
        let mut plan =
            Plan { messages: vec![json!({ "role": "user", "content": case.prompt })], ..Plan::default() };
        plan.options.insert("response_format".to_owned(), self.settings.response_format(case));
        let started = Instant::now();
        let limit = Duration::from_secs(self.settings.timeout_seconds);
        let result = tokio::time::timeout(limit, async {
            if subject.refuses_seed.load(Ordering::Relaxed) {
                options.shift_remove("seed");
            }
            match runner(&options).run(&plan).await {
                Err(error) if options.contains_key("seed") && is_about_seed(&error) => {
                    subject.refuses_seed.store(true, Ordering::Relaxed);
                    options.shift_remove("seed");
                    runner(&options).run(&plan).await
                }
                result => result,
            }
        })
        .await;
        let latency_ms = milliseconds(started.elapsed());
        let seed = self.settings.seed_of(&key);
        let trial = match result {
            Ok(Ok(reply)) => {
                subject.is_reached.store(true, Ordering::Relaxed);
                answered(key, case, validator, &reply)
            }
            Ok(Err(error)) => failed(key, case, &subject.is_reached, error)?,
            Err(_) => {
                let message = format!("no answer within {} seconds", limit.as_secs());
                empty(key, case, Failure::new(Category::Timeout.name(), message))
            }
        };
        Ok(StructuredTrial { seed, latency_ms, ..trial })
    }
}

/// Returns a trial without an answer.
fn empty(key: StructuredKey, case: &Case, failure: Failure) -> StructuredTrial {
    StructuredTrial {
        key,
        seed: 0,
        ok: false,
        verdict: case.violates.as_ref().map(|_| Verdict::Inconclusive),
        valid: None,
        complete: None,
        closed: None,
        equal: None,
        violations: Vec::new(),
        refused: false,
        failure: Some(failure),
        answer: None,
        finish_reason: None,
        prompt_tokens: None,
        completion_tokens: None,
        latency_ms: 0.0,
    }
}

fn answered(key: StructuredKey, case: &Case, validator: &Validator, reply: &Reply) -> StructuredTrial {
    let judged = judge(case, validator, &reply.content(), !reply.is_truncated());
    let tokens =
        |name: &str| reply.body.get("usage").and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    StructuredTrial {
        key,
        seed: 0,
        ok: judged.failure.is_none(),
        verdict: judged.verdict,
        valid: Some(judged.valid),
        complete: Some(judged.complete),
        closed: Some(judged.closed),
        equal: judged.equal,
        violations: judged.violations,
        refused: false,
        failure: judged.failure,
        answer: Some(reply.message.clone().into()),
        finish_reason: reply.finish_reason.clone(),
        prompt_tokens: tokens("prompt_tokens"),
        completion_tokens: tokens("completion_tokens"),
        latency_ms: 0.0,
    }
}

/// Returns the trial of a failed request.
///
/// # Errors
/// Returns the error if the run was cancelled, or if the model was never reached and the error says
/// that all other requests fail too.
fn failed(
    key: StructuredKey,
    case: &Case,
    is_reached: &AtomicBool,
    error: BackendError,
) -> Result<StructuredTrial, BackendError> {
    if error.interruption().is_some() {
        return Err(error);
    }
    let refused = is_refusal(case, &error);
    if refused {
        is_reached.store(true, Ordering::Relaxed);
    }
    let is_hopeless = matches!(error.category(), Category::Connection | Category::Authentication)
        || error.status() == Some(404);
    if is_hopeless && !is_reached.load(Ordering::Relaxed) {
        return Err(error);
    }
    let category = if refused { "REFUSED" } else { error.category().name() };
    let mut trial = empty(key, case, Failure::new(category, error.to_string()));
    trial.refused = refused;
    if refused {
        trial.verdict = trial.verdict.map(|_| Verdict::Refused);
    }
    Ok(trial)
}

/// Parts of messages, in lower case, that are about schemas.
const REFUSALS: [&str; 9] = [
    "schema",
    "grammar",
    "response_format",
    "response format",
    "keyword",
    "structured output",
    "guided",
    "regex",
    "json mode",
];

/// Reports whether a server refused a request because of its schema: by its status, and because its
/// message is about schemas or names a keyword of the schema.
fn is_refusal(case: &Case, error: &BackendError) -> bool {
    let message = error.to_string();
    let lower = message.to_lowercase();
    let is_about_schema = REFUSALS.iter().any(|part| lower.contains(part))
        || error.code().is_some_and(|code| code.contains("schema"))
        || keywords::of_schema(&case.schema).iter().any(|keyword| keywords::mentions(&message, keyword));
    error.is_of_mode() && is_about_schema
}

/// Reports whether a server refused a request because of its `seed`.
fn is_about_seed(error: &BackendError) -> bool {
    error.is_of_mode() && keywords::has_word(&error.to_string(), "seed")
}
