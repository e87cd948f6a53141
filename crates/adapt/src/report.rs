use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::tape::{Document, in_one_line};

/// Stages of the chain, in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Extracts JSON from the text and unescapes JSON inside strings.
    Extract,
    /// Reads text that is not strict JSON.
    Tolerant,
    /// Mends syntax that has only one meaning.
    Syntactic,
    /// Converts values to the types of the schema.
    Semantic,
    /// A processor of the caller.
    Custom,
}

impl Stage {
    /// Returns the name used in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Extract => "extract",
            Self::Tolerant => "tolerant",
            Self::Syntactic => "syntactic",
            Self::Semantic => "semantic",
            Self::Custom => "custom",
        }
    }
}

/// Outcome of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The stage changed the text or the value.
    Success,
    /// There was nothing to do, or the stage is disabled.
    Skip,
    /// The stage could not make a necessary change.
    Fail,
}

impl Outcome {
    /// Returns the name used in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Skip => "skip",
            Self::Fail => "fail",
        }
    }
}

/// Report of one stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageReport {
    /// The stage.
    pub stage: Stage,
    /// Outcome of the stage.
    pub outcome: Outcome,
    /// Reason for the outcome, for people.
    pub reason: String,
    /// Names of the applied transforms without repetition, such as `json.loads` and `str->int`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<String>,
    /// Type expected by the schema at the first value that was converted or could not be converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_type: Option<String>,
    /// Actual type of the same value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual_type: Option<String>,
    /// Index of the first chosen branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_index: Option<usize>,
    /// All chosen branches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub branch_choices: Vec<BranchChoice>,
    /// Description of the failure, with its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_preview: Option<String>,
    /// Place of the failure, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Changed part of the text, before and after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
}

impl StageReport {
    pub(super) fn new(stage: Stage, outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            stage,
            outcome,
            reason: reason.into(),
            transforms: Vec::new(),
            expected_type: None,
            actual_type: None,
            branch_index: None,
            branch_choices: Vec::new(),
            error_preview: None,
            path: None,
            patch: None,
        }
    }

    pub(super) fn skip(stage: Stage, reason: impl Into<String>) -> Self {
        Self::new(stage, Outcome::Skip, reason)
    }

    pub(super) fn fail(stage: Stage, violation: &Violation) -> Self {
        Self {
            error_preview: Some(violation.to_string()),
            path: Some(violation.path.clone()),
            ..Self::new(stage, Outcome::Fail, violation.message.clone())
        }
    }

    /// Adds a transform to the report, without duplicates.
    pub(super) fn did(&mut self, transform: &str) {
        if !self.transforms.iter().any(|known| known == transform) {
            self.transforms.push(transform.to_owned());
        }
    }
}

/// A chosen branch of `anyOf` or `oneOf`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BranchChoice {
    /// Place of the value, as a JSON pointer.
    pub path: String,
    /// Index of the branch, from 0.
    pub index: usize,
}

/// The changed part of a text, shortened. If the text was inside a string, the position counts
/// within that string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Patch {
    /// Line of the first change, from 1.
    pub line: usize,
    /// Column of the first change, in characters from 1.
    pub column: usize,
    /// Text before the change.
    pub before: String,
    /// Text after the change.
    pub after: String,
}

/// A violation of the schema in a value, or of the JSON syntax in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Place in the value, as a JSON pointer.
    pub path: String,
    /// Keyword of the schema, or `syntax`, `limit`, `ambiguous`, `truncated`, `custom` or
    /// `schema`.
    pub keyword: String,
    /// Description of the violation, without the value itself.
    pub message: String,
    /// Expected type, if the type is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Actual type, if the type is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
}

impl Violation {
    pub(super) fn new(path: impl Into<String>, keyword: &str, message: impl Into<String>) -> Self {
        let (path, message) = (path.into(), message.into());
        Self { path, keyword: keyword.to_owned(), message, expected: None, actual: None }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Result of adapting a text.
///
/// If no conversion was needed, the value is only built on first access. Callers that need only the
/// verdict, or decode into their own type, do not pay for the value.
#[derive(Clone, Debug)]
pub struct Adaptation {
    pub(super) held: Held,
    pub(super) is_valid: bool,
    pub(super) is_truncated: bool,
    pub(super) stages: Vec<StageReport>,
    pub(super) violations: Vec<Violation>,
    pub(super) elapsed: Duration,
    pub(super) shadow: Option<Box<Adaptation>>,
}

#[derive(Clone, Debug)]
pub(super) enum Held {
    None,
    Document(Box<Document>, OnceLock<Value>),
    Value(Value),
}

impl Adaptation {
    /// Returns the value, if any. An invalid value is returned as read, without any conversion.
    pub fn value(&self) -> Option<&Value> {
        match &self.held {
            Held::None => None,
            Held::Document(document, built) => Some(built.get_or_init(|| document.value())),
            Held::Value(value) => Some(value),
        }
    }

    /// Consumes the adaptation and returns the value, if any.
    pub fn into_value(self) -> Option<Value> {
        match self.held {
            Held::None => None,
            Held::Document(document, built) => Some(built.into_inner().unwrap_or_else(|| document.value())),
            Held::Value(value) => Some(value),
        }
    }

    /// Returns the source text of a valid value on a single line, with all digits of its numbers.
    /// Returns `None` if the value was converted.
    pub fn written(&self) -> Option<String> {
        match &self.held {
            Held::Document(document, _) => Some(in_one_line(document.text())),
            Held::None | Held::Value(_) => None,
        }
    }

    /// Reports whether the value matches the schema. A truncated value is invalid, unless
    /// [`allow_truncated`](super::AdaptOptions::allow_truncated) accepts it.
    pub const fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Reports whether the text ended inside the value, so that some of the value may be missing.
    pub const fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Reports whether any stage changed the text or the value.
    pub fn is_adapted(&self) -> bool {
        self.stages.iter().any(|stage| stage.outcome == Outcome::Success)
    }

    /// Returns the reports of all stages, in order. Empty for the built-in stages in shadow mode.
    pub fn stages(&self) -> &[StageReport] {
        &self.stages
    }

    /// Returns the reports of all stages. In shadow mode, returns the reports of the recorded
    /// adaptation.
    pub fn observed(&self) -> &[StageReport] {
        self.shadow.as_ref().map_or(&self.stages, |shadow| &shadow.stages)
    }

    /// Returns the violations. Empty if the value is valid.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Returns the time that the adaptation took.
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the recorded adaptation in shadow mode, otherwise `None`.
    pub fn shadow(&self) -> Option<&Self> {
        self.shadow.as_deref()
    }

    /// Returns the transforms of all stages, in order.
    pub fn transforms(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().flat_map(|stage| stage.transforms.iter().map(String::as_str))
    }
}

/// Serializes the report without the value.
impl Serialize for Adaptation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("valid", &self.is_valid)?;
        map.serialize_entry("adapted", &self.is_adapted())?;
        map.serialize_entry("truncated", &self.is_truncated)?;
        map.serialize_entry("stages", &self.stages)?;
        map.serialize_entry("violations", &self.violations)?;
        map.serialize_entry("elapsed_us", &(self.elapsed.as_nanos() as f64 / 1e3))?;
        if let Some(shadow) = &self.shadow {
            map.serialize_entry("shadow", shadow)?;
        }
        map.end()
    }
}
