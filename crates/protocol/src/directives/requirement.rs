use serde_json::{Value, json};

use super::{Envelope, StructuredOutputOptions};

/// Number of directives of one type that an answer must contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Canonical name of the type.
    pub kind: String,
    /// Minimum number of directives of the type.
    pub min: usize,
    /// Maximum number of directives of the type. `None` sets no maximum.
    pub max: Option<usize>,
}

impl Requirement {
    /// Requires at least one directive of the type `kind`.
    pub fn at_least_one(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), min: 1, max: None }
    }

    /// Requires exactly one directive of the type `kind`.
    pub fn exactly_one(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), min: 1, max: Some(1) }
    }

    /// Returns the keywords that require the directives in the schema of an array of directives.
    pub(super) fn schema(&self) -> Value {
        let kind = json!({ "type": "string", "const": self.kind });
        let of_type = json!({ "type": "object", "properties": { "type": kind }, "required": ["type"] });
        let mut schema = json!({ "contains": of_type, "minContains": self.min });
        if let Some(max) = self.max {
            schema["maxContains"] = max.into();
        }
        schema
    }

    /// Returns the instruction for the model.
    pub(super) fn instruction(&self) -> String {
        let (kind, min) = (&self.kind, self.min);
        let plural = |count: usize| if count == 1 { "directive" } else { "directives" };
        match self.max {
            Some(max) if max == min => format!("exactly {max} {} of type {kind}", plural(max)),
            Some(max) => format!("{min} to {max} directives of type {kind}"),
            None => format!("at least {min} {} of type {kind}", plural(min)),
        }
    }

    /// Returns the reason why `found` directives of the type do not meet the requirement, or `None`
    /// if they do.
    fn unmet(&self, found: usize) -> Option<String> {
        if found >= self.min && self.max.is_none_or(|max| found <= max) {
            return None;
        }
        Some(match (found, self.min, self.max) {
            (0, 1, None | Some(1)) => format!("missing {}", self.kind),
            _ => format!("{found} directives of type {}; expected {}", self.kind, self.instruction()),
        })
    }
}

impl StructuredOutputOptions {
    /// Returns the reasons why `envelope` does not meet the requirements of these options. Empty if
    /// all of them are met.
    pub fn unmet(&self, envelope: &Envelope) -> Vec<String> {
        let count = |kind: &str| envelope.directives.iter().filter(|found| found.kind == kind).count();
        let mut reasons: Vec<String> =
            self.required().iter().filter_map(|required| required.unmet(count(&required.kind))).collect();
        let directives = envelope.directives.len();
        if let Some(limit) = self.max_directives.filter(|&limit| directives > limit) {
            reasons.push(format!("{directives} directives; at most {limit} are allowed"));
        }
        let length = envelope.assistant_text.chars().count();
        if let Some(limit) = self.max_text_length.filter(|&limit| length > limit) {
            reasons.push(format!("assistant_text has {length} characters; at most {limit} are allowed"));
        }
        reasons
    }
}
