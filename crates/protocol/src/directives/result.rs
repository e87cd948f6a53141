use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Mode;
use crate::{BackendError, Plan};

/// An action for the app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Directive {
    /// Canonical name of the directive's type, such as `ui.toast`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Arguments of the action.
    pub payload: Map<String, Value>,
}

/// A problem with a payload, found by the payload schema, the patch check or the app's own check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Issue {
    /// Code of the problem, such as `MISSING_FORM_ID`.
    pub code: String,
    /// One-line message for a person or a model, if the code alone does not explain the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Machine-readable data, whose form depends on `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl Issue {
    /// Creates an issue with the code `code`, without message and details.
    pub fn new(code: impl Into<String>) -> Self {
        Self { code: code.into(), message: None, details: None }
    }

    /// Sets the message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// Report of a dropped directive, a dropped field or a cut-off answer. The rest of the envelope can
/// be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// Code of the warning, such as `UNKNOWN_TYPE` or `TRUNCATED`, or the code of an [`Issue`].
    pub code: String,
    /// One-line message for a person or a model.
    pub message: String,
    /// Index of the directive in the answer's `directives`, from 0. `None` if the warning is about
    /// the envelope as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Canonical name of the directive's type, or the name in the answer if the type is unknown.
    /// `None` if the directive has no `type` or if the warning is not about a directive.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Machine-readable data, whose form depends on `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.index {
            write!(f, "directives[{index}]")?;
            if let Some(kind) = &self.kind {
                write!(f, " (`{kind}`)")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// Stage at which an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCategory {
    /// The backend returned an error that is not about the mode, or refused a repair request.
    Transport,
    /// The backend refused the first request in a mode, or all modes were skipped.
    Unsupported,
    /// The answer contains no readable JSON object.
    Parse,
    /// The object is not an envelope: a field is missing or has the wrong type.
    Envelope,
    /// The envelope is valid but does not meet the caller's requirements
    /// ([`RunRequest::result_validator`](super::RunRequest::result_validator)).
    Semantic,
    /// The run reached its limit of requests
    /// ([`Preset::max_requests`](super::Preset::max_requests)).
    Limit,
}

/// Reason for the failure of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Stage at which the attempt failed.
    pub category: ProblemCategory,
    /// Code such as `INVALID_JSON`, `TRUNCATED` or `RATE_LIMITED`.
    pub code: String,
    /// One-line message for a person.
    pub message: String,
    /// Machine-readable data, whose form depends on `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Value>>,
}

impl Problem {
    pub(super) fn new(category: ProblemCategory, code: &str, message: impl Into<String>) -> Self {
        Self { category, code: code.to_owned(), message: message.into(), details: None }
    }

    pub(super) fn parse(code: &str, message: impl Into<String>) -> Self {
        Self::new(ProblemCategory::Parse, code, message)
    }

    pub(super) fn with(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Creates a problem from a backend error. Its details are the error's status, code and retry
    /// delay, if they are known.
    pub(super) fn transport(error: &BackendError) -> Self {
        let mut details = Map::new();
        let mut tell = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                details.insert(name.to_owned(), value);
            }
        };
        tell("status", error.status().map(Value::from));
        tell("code", error.code().map(Value::from));
        tell("retry_after_s", error.retry_after().map(|pause| pause.as_secs_f64().into()));
        let problem = Self::new(ProblemCategory::Transport, error.category().name(), error.to_string());
        if details.is_empty() { problem } else { problem.with(details.into()) }
    }
}

/// Purpose of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptKind {
    /// First attempt in its mode.
    First,
    /// Repair of an answer that contains no valid envelope.
    Repair,
    /// Repair of a valid envelope that does not meet the caller's requirements.
    SemanticRepair,
}

/// Record of one request and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Mode of the request.
    pub mode: Mode,
    /// Purpose of the request.
    pub kind: AttemptKind,
    /// Messages and options of the request. The runner always sets this field, but a stored record
    /// may omit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Text of the answer, which may be empty. `None` if the backend returned an error.
    pub content: Option<String>,
    /// Reason why the answer ended, as reported by the backend, such as `stop` or `length`. `None`
    /// if there is no answer or no reported reason.
    pub finish_reason: Option<String>,
    /// Reason for the failure. `None` if the attempt succeeded.
    pub error: Option<Problem>,
    /// Warnings about the valid envelope in the answer. Empty if the answer contains none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Number of times the request was sent, including retries. `None` if the backend returned an
    /// error.
    pub sent: Option<u32>,
    /// Category of the error that caused each retry of the request, such as `RATE_LIMITED`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retried: Vec<String>,
    /// Duration of the attempt, including retries, in milliseconds.
    pub latency_ms: u64,
    /// Object `usage` of the answer, with token counts. `None` if the backend did not report usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

/// Record of a mode that the runner skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The skipped mode.
    pub mode: Mode,
    /// Reason for skipping the mode, as a message for a person.
    pub reason: String,
}

/// Decision about the type of the directives, made before the model wrote them
/// ([`Preset::type_by_decision`](super::Preset::type_by_decision)).
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct TypeDecision {
    /// The likeliest type, the only one that was then allowed. `None` if there was no decision, so that
    /// all types stayed allowed.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Confidence of the decision, from 0 to 1. `None` without a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Probability of each allowed type. Empty without a decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probabilities: Vec<TypeProbability>,
    /// Reason why there is no decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// Probability of a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeProbability {
    /// Name of the type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Probability, from 0 to 1.
    pub probability: f64,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectiveResult {
    /// True if an answer contained a valid envelope that meets the caller's requirements.
    pub ok: bool,
    /// Mode that produced the envelope. `None` if `ok` is false.
    pub mode: Option<Mode>,
    /// Message for the user. If `ok` is false, this is the best text that could be recovered from
    /// the answers, and may be empty.
    pub assistant_text: String,
    /// Actions for the app. Empty if `ok` is false.
    pub directives: Vec<Directive>,
    /// Warnings about the envelope. Empty if `ok` is false.
    pub warnings: Vec<Warning>,
    /// Reason for the failure of each attempt, in order, if `ok` is false. If no mode was tried,
    /// the list has one problem with the code `NO_MODE`. Empty if `ok` is true.
    pub errors: Vec<Problem>,
    /// All attempts, in order.
    pub attempts: Vec<Attempt>,
    /// Modes that were skipped because the backend does not support them or refused them in an
    /// earlier run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// Decision about the type of the directives. `None` if none was asked for, or if there was nothing
    /// to decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_decision: Option<TypeDecision>,
}
