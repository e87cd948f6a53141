use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rate;

/// Evaluated protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Harness {
    /// Structured directives: one answer with an envelope.
    Directives,
    /// Tool calling: several turns with calls.
    Tools,
}

/// Mode in which an envelope is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvalMode {
    /// All modes, strictest first, until one succeeds. In production, a model with the workaround
    /// `prompt_only` uses only that mode.
    Ladder,
    /// JSON Schema only.
    JsonSchema,
    /// JSON object only.
    JsonObject,
    /// Prompt only.
    PromptOnly,
}

/// Strategy for a model's quirks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Settings for the provider, without the model's workarounds.
    Baseline,
    /// Settings for the provider and the model's workarounds.
    Production,
}

/// Key that identifies a trial within an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrialKey {
    /// Name of the model in the settings.
    pub model: String,
    /// Name of the sampling profile.
    pub profile: String,
    /// Strategy for quirks.
    pub strategy: Strategy,
    /// Mode in which the envelope is requested; `None` for tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<EvalMode>,
    /// Name of the scenario.
    pub scenario: String,
    /// Index among the trials that differ only in their seeds, from 0.
    pub trial: u32,
}

/// Result of a trial, a line of `trials.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Key of the trial.
    #[serde(flatten)]
    pub key: TrialKey,
    /// Seed of the requests.
    pub seed: u64,
    /// True if the run succeeded.
    pub ok: bool,
    /// Reason for the failure, if the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Mode of the answer that counted, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<EvalMode>,
    /// Duration of the run, in milliseconds.
    pub latency_ms: f64,
    /// Requests and answers, in order.
    pub exchanges: Vec<Exchange>,
}

/// Reason for a failed trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Category, such as `ASSERTION_FAILED`.
    pub category: String,
    /// Message for a person.
    pub message: String,
}

impl Failure {
    pub(super) fn new(category: impl Into<String>, message: impl Into<String>) -> Self {
        Self { category: category.into(), message: message.into() }
    }
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Mode of the request, if it asks for an envelope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<EvalMode>,
    /// True if the messages extend those of the previous exchange.
    pub continued: bool,
    /// New messages if `continued` is true, otherwise all messages.
    pub messages: Vec<Value>,
    /// Message of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Reason why the answer ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Error, if there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Duration of the request, in milliseconds.
    pub latency_ms: f64,
    /// Judgement of the answer by the independent judge.
    pub checks: Checks,
}

/// Results of the independent judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checks {
    /// Answers whose complete text is a JSON envelope, out of all answers with a message.
    #[serde(skip_serializing_if = "is_none")]
    pub envelopes: Rate,
    /// Directives of an allowed type, out of all directives.
    #[serde(skip_serializing_if = "is_none")]
    pub types: Rate,
    /// Payloads that match their schema, out of all payloads of allowed types.
    #[serde(skip_serializing_if = "is_none")]
    pub payloads: Rate,
    /// Calls of a known tool with a JSON object as arguments, out of all calls.
    #[serde(skip_serializing_if = "is_none")]
    pub calls: Rate,
    /// Calls whose arguments match the tool's schema, out of all calls.
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

    /// Returns the rates with a nonzero total and their names.
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
    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Directives => "directives",
            Self::Tools => "tools",
        }
    }
}

impl EvalMode {
    /// Returns the name on the command line.
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
    /// Returns the name on the command line.
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
