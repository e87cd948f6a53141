use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rate;

/// Protocol that an evaluation tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Harness {
    /// Structured directives: each trial needs one answer, which must be an envelope with
    /// directives.
    Directives,
    /// Tool calling: each trial has several turns, in which the model calls tools.
    Tools,
}

/// Mode in which directives are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvalMode {
    /// All modes in turn, strictest first, until an answer is valid. With [`Strategy::Production`],
    /// a model with the workaround `prompt_only` uses only the mode [`EvalMode::PromptOnly`].
    Ladder,
    /// Only requests that constrain the answer by a JSON Schema.
    JsonSchema,
    /// Only requests that constrain the answer to a JSON object.
    JsonObject,
    /// Only requests without a constraint. The prompt describes the expected form.
    PromptOnly,
}

/// Strategy for known problems of a model: with or without workarounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The settings for the provider apply, but not the workarounds of the model.
    Baseline,
    /// The settings for the provider and the workarounds of the model apply.
    Production,
}

/// Key that identifies a trial within an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrialKey {
    /// Name of the model in the settings.
    pub model: String,
    /// Name of the sampling profile.
    pub profile: String,
    /// Strategy of the trial.
    pub strategy: Strategy,
    /// Mode in which directives are requested. `None` for tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<EvalMode>,
    /// Name of the scenario.
    pub scenario: String,
    /// Index of the trial among the trials with otherwise equal keys, starting at 0.
    pub trial: u32,
}

/// Result of a trial. Stored as a line of `trials.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Key of the trial.
    #[serde(flatten)]
    pub key: TrialKey,
    /// Seed of the trial's requests, equal for all models, profiles, strategies and modes. Not sent if
    /// the settings have no seed.
    pub seed: u64,
    /// True if the run succeeded.
    pub ok: bool,
    /// Reason for the failure. `None` if the run succeeded, or if it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Reason why the trial counts neither as a success nor as a failure: the scenario is about an
    /// error that never occurred. `None` if the trial counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_exercised: Option<String>,
    /// Mode of the answer that was used, or else of the last answer. `None` for tools, and if there
    /// was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<EvalMode>,
    /// Duration of the run, in milliseconds.
    pub latency_ms: f64,
    /// Requests and their answers, in order.
    pub exchanges: Vec<Exchange>,
}

/// Reason for a failed trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Category of the failure: `ASSERTION_FAILED` and similar, or the code of the run's error.
    pub category: String,
    /// Description of the failure.
    pub message: String,
}

impl Failure {
    pub(super) fn new(category: impl Into<String>, message: impl Into<String>) -> Self {
        Self { category: category.into(), message: message.into() }
    }
}

/// A request and its answer, as recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Mode of the request. `None` for tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<EvalMode>,
    /// True if the request repeats all messages of the previous request and adds others.
    pub continued: bool,
    /// Messages of the request. If `continued` is true, only the messages that the previous request
    /// does not have.
    pub messages: Vec<Value>,
    /// Message of the answer. `None` if there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// `finish_reason` of the answer, such as `stop`. `None` if the answer has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Error of the request. `None` if there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Duration of the request, in milliseconds.
    pub latency_ms: f64,
    /// Judgement of the answer by the independent judge.
    pub checks: Checks,
}

/// Judgement of one or more answers by the independent judge. A rate without cases does not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checks {
    /// Answers whose complete text is a JSON envelope, among all answers with a message.
    #[serde(skip_serializing_if = "is_none")]
    pub envelopes: Rate,
    /// Directives of a known type, among all directives.
    #[serde(skip_serializing_if = "is_none")]
    pub types: Rate,
    /// Payloads that match the schema of their type, among all payloads of known types.
    #[serde(skip_serializing_if = "is_none")]
    pub payloads: Rate,
    /// Calls of a known tool with a JSON object as arguments, among all calls.
    #[serde(skip_serializing_if = "is_none")]
    pub calls: Rate,
    /// Calls whose arguments match the schema of the tool, among all calls.
    #[serde(skip_serializing_if = "is_none")]
    pub arguments: Rate,
}

const fn is_none(rate: &Rate) -> bool {
    rate.of == 0
}

impl Checks {
    /// Adds the counts of `other`.
    pub const fn merge(&mut self, other: &Self) {
        self.envelopes.merge(other.envelopes);
        self.types.merge(other.types);
        self.payloads.merge(other.payloads);
        self.calls.merge(other.calls);
        self.arguments.merge(other.arguments);
    }

    /// Returns the rates that have cases, each with its name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, Rate)> {
        let all = [
            ("valid envelopes", self.envelopes),
            ("allowed types", self.types),
            ("valid payloads", self.payloads),
            ("well-formed calls", self.calls),
            ("valid arguments", self.arguments),
        ];
        all.into_iter().filter(|(_, rate)| rate.of > 0)
    }
}

impl Harness {
    /// Returns the name of the harness on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Directives => "directives",
            Self::Tools => "tools",
        }
    }
}

impl EvalMode {
    /// Returns the name of the mode on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::JsonSchema => "json_schema",
            Self::JsonObject => "json_object",
            Self::PromptOnly => "prompt_only",
        }
    }
}

impl Strategy {
    /// Returns the name of the strategy on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Production => "production",
        }
    }
}

impl fmt::Display for TrialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, profile, strategy, mode, scenario, trial } = self;
        let mode = mode.map(|mode| format!(" {}", mode.name())).unwrap_or_default();
        write!(f, "{model} {profile} {}{mode} {scenario} #{trial}", strategy.name())
    }
}
