use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Mode;
use crate::{BackendError, Plan};

/// Something that the app is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Directive {
    /// Its type, by the type's own name.
    #[serde(rename = "type")]
    pub kind: String,
    /// What there is to know about it.
    pub payload: Map<String, Value>,
}

/// Something wrong with a payload, as the app's own check tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Issue {
    /// Its name, such as `MISSING_FORM_ID`.
    pub code: String,
    /// One line for a person or a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What else is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl Issue {
    /// An issue of which only the name is known.
    pub fn new(code: impl Into<String>) -> Self {
        Self { code: code.into(), message: None, details: None }
    }

    /// With a line about it.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// Something in an envelope that could not be used, while the rest could.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// What: `UNKNOWN_TYPE`, `INVALID_PAYLOAD`, …, or the code of an [`Issue`].
    pub code: String,
    /// One line for a person or a model.
    pub message: String,
    /// Which directive was dropped, from 0; none where it is about the envelope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The directive's type, as far as it is known.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What else is known.
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

/// The stages at which an attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCategory {
    /// The backend did not answer, and would not in another mode.
    Transport,
    /// The backend refused the request in this mode.
    Unsupported,
    /// The answer has no JSON object that can be read.
    Parse,
    /// The object is no envelope.
    Envelope,
    /// The envelope is not what the caller requires.
    Semantic,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// At which stage.
    pub category: ProblemCategory,
    /// What: `INVALID_JSON`, `TRUNCATED`, `RATE_LIMITED`, …
    pub code: String,
    /// One line for a person.
    pub message: String,
    /// What else is known.
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

    /// What a backend's error comes to, with all that it tells.
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

/// Why an attempt was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptKind {
    /// It is the first in its mode.
    First,
    /// The answer before could not be read.
    Repair,
    /// The answer before was an envelope that is not what the caller requires.
    SemanticRepair,
}

/// One request, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// In which mode.
    pub mode: Mode,
    /// Why.
    pub kind: AttemptKind,
    /// What was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// The text that came; none where nothing came.
    pub content: Option<String>,
    /// Why it ended, in the backend's word.
    pub finish_reason: Option<String>,
    /// Why it failed, if it did.
    pub error: Option<Problem>,
    /// What of the envelope could not be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// How often the request was sent before an answer came.
    pub sent: Option<u32>,
    /// Why it was sent again, each time: `RATE_LIMITED`, …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retried: Vec<String>,
    /// How long it took, with all of that.
    pub latency_ms: u64,
    /// The tokens used, as the backend tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

/// A mode in which nothing was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Which.
    pub mode: Mode,
    /// Why not.
    pub reason: String,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectiveResult {
    /// Whether there is an envelope that is what the caller requires.
    pub ok: bool,
    /// The mode that it came in.
    pub mode: Option<Mode>,
    /// What is said to the user; where there is no envelope, as much of it as can be made out.
    pub assistant_text: String,
    /// What the app is to do; nothing where there is no envelope.
    pub directives: Vec<Directive>,
    /// What of the envelope could not be used.
    pub warnings: Vec<Warning>,
    /// Where there is no envelope: why each attempt failed, in order.
    pub errors: Vec<Problem>,
    /// All requests, in order.
    pub attempts: Vec<Attempt>,
    /// Modes in which nothing was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
}
