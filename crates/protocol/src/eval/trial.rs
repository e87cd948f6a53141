use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rate;

/// Which of the two protocols is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Harness {
    /// Structured directives: one answer that is an envelope.
    Directives,
    /// Tool calling: several turns with calls.
    Tools,
}

/// How an envelope is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvalMode {
    /// Whatever the backend can, and what is next where that fails.
    Ladder,
    /// By a JSON Schema alone.
    JsonSchema,
    /// As a JSON object alone.
    JsonObject,
    /// In the prompt alone.
    PromptOnly,
}

/// What is done about a model's quirks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Nothing that is for the model alone.
    Baseline,
    /// Its workarounds are used.
    Production,
}

/// One try of many, by what tells it from the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrialKey {
    /// The model's name in the settings.
    pub model: String,
    /// The sampling profile.
    pub profile: String,
    /// What is done about quirks.
    pub strategy: Strategy,
    /// How the envelope is asked for; none for tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<EvalMode>,
    /// What is to be done.
    pub scenario: String,
    /// Which of the tries that are the same but for their seeds, from 0.
    pub trial: u32,
}

/// What came of a try: a line of `trials.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which try it was.
    #[serde(flatten)]
    pub key: TrialKey,
    /// The seed of its requests.
    pub seed: u64,
    /// Whether all went as it should.
    pub ok: bool,
    /// What did not, otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The mode of the answer that counted, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<EvalMode>,
    /// How long all of it took, in milliseconds.
    pub latency_ms: f64,
    /// What was asked, and what came.
    pub exchanges: Vec<Exchange>,
}

/// Why a try failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Its class, such as `ASSERTION_FAILED`.
    pub category: String,
    /// In words.
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
    /// The mode, where it asks for an envelope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<EvalMode>,
    /// Whether its messages go on from the exchange before; else it begins anew.
    pub continued: bool,
    /// The messages, or those that were added.
    pub messages: Vec<Value>,
    /// The message that came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Why none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub latency_ms: f64,
    /// What an independent judge makes of the answer.
    pub checks: Checks,
}

/// What of answers is as it should be, to a judge that shares nothing with what is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checks {
    /// Answers whose whole text is the JSON of an envelope, of the answers that should be.
    #[serde(skip_serializing_if = "is_none")]
    pub envelopes: Rate,
    /// Directives of an allowed type, of all.
    #[serde(skip_serializing_if = "is_none")]
    pub types: Rate,
    /// Payloads that their type's schema allows, of those of directives of an allowed type.
    #[serde(skip_serializing_if = "is_none")]
    pub payloads: Rate,
    /// Calls of a tool that was sent, with a JSON object for arguments, of all.
    #[serde(skip_serializing_if = "is_none")]
    pub calls: Rate,
    /// Calls whose arguments their tool's schema allows, of all.
    #[serde(skip_serializing_if = "is_none")]
    pub arguments: Rate,
}

const fn is_none(rate: &Rate) -> bool {
    rate.of == 0
}

impl Checks {
    /// With those of `other`.
    pub const fn merge(&mut self, other: &Self) {
        self.envelopes.merge(other.envelopes);
        self.types.merge(other.types);
        self.payloads.merge(other.payloads);
        self.calls.merge(other.calls);
        self.arguments.merge(other.arguments);
    }

    /// Those that there are, with what they are called.
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
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Directives => "directives",
            Self::Tools => "tools",
        }
    }
}

impl EvalMode {
    /// Its name on the command line.
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
    /// Its name on the command line.
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
