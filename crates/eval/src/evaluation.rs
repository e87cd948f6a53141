use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, Stream, StreamExt};
use serde_json::Value;

use super::error::Kind;
use super::judge::judge_calls;
use super::recorder::{Recorded, Recorder};
use super::{
    Checks, EVAL_VERSION, EvalError, EvalMode, EvalModel, EvalSettings, Exchange, Failure, Harness, Strategy,
    Trial, TrialKey, directives, select_scenarios, tools,
};
use formwork_backend::{BackendError, Body, ChatBackend, PromptRunner};

/// An evaluation that is ready to run. It consists of the settings and a backend for each model.
///
/// ```
/// # use std::collections::BTreeMap;
/// # use std::sync::Arc;
/// use formwork_protocol::ScriptedBackend;
/// use formwork_eval::{EvalModel, EvalProfile, EvalSettings, Evaluation, Harness, Summary};
/// use futures_util::{FutureExt, StreamExt};
///
/// let profile = EvalProfile { name: "default".to_owned(), sampling: Default::default() };
/// let settings = EvalSettings {
///     models: vec![EvalModel::new("m", "script", vec![profile])],
///     scenarios: vec!["chat_only".to_owned()],
///     ..EvalSettings::new(Harness::Tools)
/// };
/// let backend = Arc::new(ScriptedBackend::new([Ok(ScriptedBackend::says("Done."))]));
/// let evaluation = Evaluation::new(settings, BTreeMap::from([("m".to_owned(), backend as _)]))?;
/// let trials: Vec<_> = evaluation
///     .trials(&Default::default(), 1)
///     .collect()
///     .now_or_never()
///     .expect("a script answers at once");
/// let trials = trials.into_iter().collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(Summary::of(evaluation.settings(), &trials).overall.runs.ok, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Evaluation {
    settings: EvalSettings,
    backends: BTreeMap<String, Arc<dyn ChatBackend>>,
}

/// Result of one run. `failure` is `None` if the run succeeded or does not count. `answered` is the
/// mode of the answer that counted, and `None` for tools. `not_exercised` is the reason why the run
/// does not count.
pub(super) struct AttemptResult {
    pub(super) failure: Option<Failure>,
    pub(super) answered: Option<EvalMode>,
    pub(super) not_exercised: Option<String>,
}

/// Everything that is needed to run one trial.
pub(super) struct Attempt<'a> {
    pub(super) runner: PromptRunner,
    pub(super) settings: &'a EvalSettings,
    pub(super) model: &'a EvalModel,
    pub(super) key: &'a TrialKey,
}

impl Attempt<'_> {
    /// Reports whether the trial applies the workarounds of the model.
    pub(super) fn works_around(&self) -> bool {
        self.key.strategy == Strategy::Production
    }
}

impl Evaluation {
    /// Creates an evaluation. `backends` maps the name of each model to its backend.
    ///
    /// # Errors
    /// Returns an error if:
    ///
    /// - the settings have another version than [`EVAL_VERSION`],
    /// - the settings name an unknown scenario,
    /// - two models have the same name,
    /// - a model has no backend.
    pub fn new(
        settings: EvalSettings,
        backends: BTreeMap<String, Arc<dyn ChatBackend>>,
    ) -> Result<Self, EvalError> {
        if settings.version != EVAL_VERSION {
            return Err(Kind::Version { given: settings.version, known: EVAL_VERSION }.into());
        }
        select_scenarios(settings.harness, &settings.scenarios).map_err(Kind::Scenario)?;
        check_models(&settings.models, &backends)?;
        Ok(Self { settings, backends })
    }

    /// Returns the settings that the evaluation was created with.
    pub const fn settings(&self) -> &EvalSettings {
        &self.settings
    }

    /// Runs all planned trials whose keys are not in `done`. At most `parallel` trials run at the
    /// same time. Yields each trial when it has ended.
    ///
    /// # Errors
    /// Yields an error if a run was cancelled. Any other failure is recorded in its trial.
    pub fn trials<'a>(
        &'a self,
        done: &HashSet<TrialKey>,
        parallel: usize,
    ) -> impl Stream<Item = Result<Trial, BackendError>> + use<'a> {
        let left: Vec<_> = self.settings.plan().into_iter().filter(|key| !done.contains(key)).collect();
        stream::iter(left).map(|key| self.trial(key)).buffer_unordered(parallel.max(1))
    }

    async fn trial(&self, key: TrialKey) -> Result<Trial, BackendError> {
        let subject = self.settings.subject(&key).zip(self.backends.get(&key.model));
        // Cannot happen: the plan comes from the settings, and all their models have backends.
        let Some(((model, profile), backend)) = subject else { return Err(BackendError::cancelled()) };
        let recorder = Arc::new(Recorder::new(Arc::clone(backend)));
        let options = self.settings.options(model, profile, &key);
        let runner = PromptRunner::new(Arc::clone(&recorder) as _, model.id.clone()).with_defaults(options);
        let attempt = Attempt { runner, settings: &self.settings, model, key: &key };
        let started = Instant::now();
        let outcome = match self.settings.harness {
            Harness::Directives => directives::run(&attempt).await?,
            Harness::Tools => tools::run(&attempt).await?,
        };
        let latency_ms = milliseconds(started.elapsed());
        Ok(Trial {
            seed: self.settings.seed_of(&key),
            ok: outcome.failure.is_none() && outcome.not_exercised.is_none(),
            failure: outcome.failure,
            not_exercised: outcome.not_exercised,
            answered: outcome.answered,
            latency_ms,
            exchanges: exchanges(self.settings.harness, &recorder.take()),
            key,
        })
    }
}

/// Checks that model names are unique and that each model has a backend.
pub(super) fn check_models(
    models: &[EvalModel],
    backends: &BTreeMap<String, Arc<dyn ChatBackend>>,
) -> Result<(), EvalError> {
    let mut names = HashSet::new();
    for EvalModel { name, .. } in models {
        if !backends.contains_key(name) {
            return Err(Kind::NoBackend { model: name.clone() }.into());
        }
        if !names.insert(name) {
            return Err(Kind::SameModel { model: name.clone() }.into());
        }
    }
    Ok(())
}

/// Converts recorded requests and answers to exchanges. If a request repeats the messages of the
/// previous request, only the new messages are stored.
fn exchanges(harness: Harness, recorded: &[Recorded]) -> Vec<Exchange> {
    let mut before: Vec<Value> = Vec::new();
    let exchange = |recorded: &Recorded| {
        let messages = recorded.messages();
        let continued = !before.is_empty() && messages.starts_with(&before);
        let new = if continued { &messages[before.len()..] } else { messages };
        before = messages.to_vec();
        Exchange {
            mode: (harness == Harness::Directives).then(|| mode_of(&recorded.body)),
            continued,
            messages: new.to_vec(),
            answer: recorded.message().cloned(),
            finish_reason: recorded.finish_reason().map(str::to_owned),
            error: recorded.answer.as_ref().err().map(ToString::to_string),
            latency_ms: milliseconds(recorded.latency),
            checks: checks(harness, recorded),
        }
    };
    recorded.iter().map(exchange).collect()
}

fn checks(harness: Harness, recorded: &Recorded) -> Checks {
    let Some(message) = recorded.message() else { return Checks::default() };
    match harness {
        Harness::Directives => directives::judge(message["content"].as_str().unwrap_or_default()),
        Harness::Tools => judge_calls(&recorded.body, message),
    }
}

/// Returns the mode of a directives request, derived from its `response_format`.
fn mode_of(body: &Body) -> EvalMode {
    match body.get("response_format").and_then(|format| format["type"].as_str()) {
        Some("json_schema") => EvalMode::JsonSchema,
        Some("json_object") => EvalMode::JsonObject,
        _ => EvalMode::PromptOnly,
    }
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    // Rounds to microseconds.
    (time.as_secs_f64() * 1e6).round() / 1e3
}
