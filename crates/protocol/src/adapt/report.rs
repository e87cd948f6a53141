use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::tape::{Document, in_one_line};

/// The parts of the chain, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// JSON is found in the text, and taken out of strings.
    Extract,
    /// What is not quite JSON is read.
    Tolerant,
    /// Syntax that has one meaning is mended.
    Syntactic,
    /// Values are made to fit the schema's types.
    Semantic,
    /// What the caller added.
    Custom,
}

impl Stage {
    /// Its name in records.
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

/// What came of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It changed something, as it should.
    Success,
    /// There was nothing to do, or it is not to do anything.
    Skip,
    /// There was something to do, and it could not.
    Fail,
}

impl Outcome {
    /// Its name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Skip => "skip",
            Self::Fail => "fail",
        }
    }
}

/// What a stage did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageReport {
    /// Which one.
    pub stage: Stage,
    /// What came of it.
    pub outcome: Outcome,
    /// Why, in words.
    pub reason: String,
    /// What it did, each by its name and once, such as `json.loads` and `str->int`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<String>,
    /// The type that the schema wanted where it first did something, or could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_type: Option<String>,
    /// The type that was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual_type: Option<String>,
    /// The first branch that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_index: Option<usize>,
    /// All branches that were chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub branch_choices: Vec<BranchChoice>,
    /// What it could not do, with the place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_preview: Option<String>,
    /// Where it could not, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What the text was, and what it became.
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

    /// Adds a name, once.
    pub(super) fn did(&mut self, transform: &str) {
        if !self.transforms.iter().any(|known| known == transform) {
            self.transforms.push(transform.to_owned());
        }
    }
}

/// A branch of `anyOf` or `oneOf` that was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BranchChoice {
    /// The value's place, as a JSON pointer.
    pub path: String,
    /// The branch, from 0.
    pub index: usize,
}

/// The part of a text that was changed, shortened. Of what was in a string the place is that in the string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Patch {
    /// The line where it begins, from 1.
    pub line: usize,
    /// The column, in characters from 1.
    pub column: usize,
    /// As it was.
    pub before: String,
    /// As it is.
    pub after: String,
}

/// What of a value is not as the schema asks, or of a text not as JSON is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The place, as a JSON pointer.
    pub path: String,
    /// The schema's keyword, or `syntax`, `limit` or `ambiguous`.
    pub keyword: String,
    /// What is wrong, without the value.
    pub message: String,
    /// The type that is wanted, where that is what is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The type that is there.
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

/// What came of a text.
///
/// The value of a text that was valid as it came is built when it is first asked for: who only wants the verdict, or decodes the text
/// into a type of their own, does not pay for it.
#[derive(Clone, Debug)]
pub struct Adaptation {
    pub(super) held: Held,
    pub(super) is_valid: bool,
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
    /// The value, if there is one: when it is not valid, what the text says, without any conversion.
    pub fn value(&self) -> Option<&Value> {
        match &self.held {
            Held::None => None,
            Held::Document(document, built) => Some(built.get_or_init(|| document.value())),
            Held::Value(value) => Some(value),
        }
    }

    /// The value, if there is one.
    pub fn into_value(self) -> Option<Value> {
        match self.held {
            Held::None => None,
            Held::Document(document, built) => Some(built.into_inner().unwrap_or_else(|| document.value())),
            Held::Value(value) => Some(value),
        }
    }

    /// The value's text in one line, where no conversion was needed to make it valid: numbers in it have all their digits.
    pub fn written(&self) -> Option<String> {
        match &self.held {
            Held::Document(document, _) => Some(in_one_line(document.text())),
            Held::None | Held::Value(_) => None,
        }
    }

    /// Whether the value is as the schema asks.
    pub const fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Whether anything was done; texts that are JSON as they came are not changed.
    pub fn is_adapted(&self) -> bool {
        self.stages.iter().any(|stage| stage.outcome == Outcome::Success)
    }

    /// What each stage did, in order. In shadow mode nothing was.
    pub fn stages(&self) -> &[StageReport] {
        &self.stages
    }

    /// What each stage did, or would have done in shadow mode.
    pub fn observed(&self) -> &[StageReport] {
        self.shadow.as_ref().map_or(&self.stages, |shadow| &shadow.stages)
    }

    /// What is wrong; nothing, if the value is valid.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// How long it took.
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// In shadow mode, what would have come.
    pub fn shadow(&self) -> Option<&Self> {
        self.shadow.as_deref()
    }

    /// The stages' transforms, in order.
    pub fn transforms(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().flat_map(|stage| stage.transforms.iter().map(String::as_str))
    }
}

/// Without the value: a report.
impl Serialize for Adaptation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("valid", &self.is_valid)?;
        map.serialize_entry("adapted", &self.is_adapted())?;
        map.serialize_entry("stages", &self.stages)?;
        map.serialize_entry("violations", &self.violations)?;
        map.serialize_entry("elapsed_us", &(self.elapsed.as_nanos() as f64 / 1e3))?;
        if let Some(shadow) = &self.shadow {
            map.serialize_entry("shadow", shadow)?;
        }
        map.end()
    }
}
