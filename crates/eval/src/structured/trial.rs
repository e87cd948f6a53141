use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Failure;

/// Key that identifies a trial of a case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StructuredKey {
    /// Name of the model in the settings.
    pub model: String,
    /// Name of the sampling profile.
    pub profile: String,
    /// Name of the case.
    pub case: String,
    /// Index of the trial among the trials with otherwise equal keys, starting at 0.
    pub trial: u32,
}

/// Treatment of the keyword that the prompt of a probe asks to violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The value of the answer satisfies the schema, although the prompt asks for a violation. Text around
    /// the value does not matter.
    Enforced,
    /// The answer violates the keyword, or is not the schema's JSON at all.
    Ignored,
    /// The server refused the request, and its message is about the schema.
    Refused,
    /// The trial does not show whether the keyword is enforced: no complete answer, or a violation of another
    /// keyword only.
    Inconclusive,
}

impl Verdict {
    /// Returns the name in results, such as `enforced`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// A keyword that an answer violates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Keyword of the schema, such as `maximum` or `format: date`.
    pub keyword: String,
    /// JSON pointer into the answer.
    pub place: String,
    /// Description of the violation.
    pub message: String,
}

/// Result of a trial. Stored as a line of `trials.jsonl`.
///
/// The four judgements are `None` if there was no answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StructuredTrial {
    /// Key of the trial.
    #[serde(flatten)]
    pub key: StructuredKey,
    /// Seed of the request. Not sent if the settings have no seed, or if the server refuses `seed`.
    pub seed: u64,
    /// True if the answer is valid, complete and closed, and equals the expected value if there is one.
    pub ok: bool,
    /// Verdict about the keyword of a probe. `None` for other cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// True if the answer has a JSON value that satisfies the schema. Formats are asserted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid: Option<bool>,
    /// True if the answer was not cut off: `finish_reason` is not `length`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
    /// True if the answer is a single JSON value, without text before or after the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<bool>,
    /// True if the answer equals the expected value. `None` if no value is expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equal: Option<bool>,
    /// Keywords that the value of the answer violates, up to a limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// True if the server refused the request because of its schema.
    pub refused: bool,
    /// Reason why `ok` is false, or why the verdict is not `enforced`. `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Message of the answer. `None` if there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// `finish_reason` of the answer. `None` if the answer has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Number of prompt tokens, if the server reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Number of completion tokens, if the server reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Duration in milliseconds, with retries.
    pub latency_ms: f64,
}

impl fmt::Display for StructuredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, profile, case, trial } = self;
        write!(f, "{model} {profile} {case} #{trial}")
    }
}
