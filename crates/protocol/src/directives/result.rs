use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Mode;
use crate::{BackendError, Plan};

/// An action for the app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Directive {
    /// Canonical name of the type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Arguments of the action.
    pub payload: Map<String, Value>,
}

/// A problem with a payload, reported by the app's own check or by the check of patches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Issue {
    /// Code of the problem, such as `MISSING_FORM_ID`.
    pub code: String,
    /// One-line message for a person or a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Machine-readable data, whose form depends on `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl Issue {
    /// Creates an issue that has only a code.
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

/// Report of a problem that leaves the rest of the envelope usable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// Code such as `UNKNOWN_TYPE` or `INVALID_PAYLOAD`, or the code of an [`Issue`].
    pub code: String,
    /// One-line message for a person or a model.
    pub message: String,
    /// Index of the directive in the answer, from 0. `None` if the warning is about the envelope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Type of the directive, if known.
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
    /// The backend did not answer, and another mode would not help.
    Transport,
    /// The backend refused the request in this mode.
    Unsupported,
    /// The answer contains no readable JSON object.
    Parse,
    /// The object is not an envelope.
    Envelope,
    /// The envelope does not meet the caller's requirements.
    Semantic,
}

/// Reason for a failed attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Stage of the failure.
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

    /// Converts a backend error, with its status, code and retry delay as details.
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
    /// Repair after an answer that could not be read.
    Repair,
    /// Repair after an envelope that did not meet the caller's requirements.
    SemanticRepair,
}

/// A request and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Mode of the request.
    pub mode: Mode,
    /// Purpose of the request.
    pub kind: AttemptKind,
    /// The request that was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Text of the answer; `None` if there was no answer.
    pub content: Option<String>,
    /// Reason why the answer ended, as reported by the backend.
    pub finish_reason: Option<String>,
    /// Reason for the failure, if the attempt failed.
    pub error: Option<Problem>,
    /// Warnings about the envelope.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Number of times the request was sent before an answer came. `None` if there was no answer.
    pub sent: Option<u32>,
    /// Reason for each retry of the request, such as `RATE_LIMITED`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retried: Vec<String>,
    /// Duration including retries, in milliseconds.
    pub latency_ms: u64,
    /// Token usage as reported by the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

/// A mode that was not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The mode.
    pub mode: Mode,
    /// Reason for skipping the mode.
    pub reason: String,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectiveResult {
    /// True if an envelope meets the caller's requirements.
    pub ok: bool,
    /// Mode in which the envelope was received.
    pub mode: Option<Mode>,
    /// Message for the user. Without a usable envelope, the best text that could be recovered.
    pub assistant_text: String,
    /// Actions for the app; empty without a usable envelope.
    pub directives: Vec<Directive>,
    /// Warnings about the envelope.
    pub warnings: Vec<Warning>,
    /// Without a usable envelope, the reason for each failed attempt, in order.
    pub errors: Vec<Problem>,
    /// All requests, in order.
    pub attempts: Vec<Attempt>,
    /// Modes that were not tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
}
