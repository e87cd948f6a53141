use serde_json::{Map, Value, json};

use super::names::{Meaning, Names};
use super::parser::{FIELDS, kind_of};
use super::{
    Directive, Issue, Problem, ProblemCategory, StructuredOutputOptions, Warning, patch, shortened, text,
};

/// Maximum number of characters of a type or field name in a warning.
const NAME: usize = 80;
/// Maximum number of unknown fields listed in a warning.
const FIELDS_TOLD: usize = 8;

/// A checked envelope that contains only valid directives.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Message for the user.
    pub assistant_text: String,
    /// Valid directives, in the order of the answer. Their types are canonical names, not aliases.
    pub directives: Vec<Directive>,
    /// Warnings about dropped directives, dropped fields and a cut-off answer.
    pub warnings: Vec<Warning>,
}

/// Checks that a JSON object is an envelope.
///
/// The object must have a string `assistant_text` and an array `directives`. An invalid directive
/// is dropped, and a [`Warning`] gives its index and one of these codes: `NOT_AN_OBJECT`,
/// `MISSING_TYPE`, `INVALID_TYPE`, `UNKNOWN_TYPE`, `TYPE_NOT_ALLOWED`, `MISSING_PAYLOAD`,
/// `INVALID_PAYLOAD`, `PAYLOAD_SCHEMA`, a code of [`patch::validate_patch_ops`], or a code of the
/// app's own check ([`PayloadValidator`](super::PayloadValidator)). Unknown fields outside payloads
/// are dropped, with the warning `UNKNOWN_FIELD`. A thought at the beginning of `assistant_text`
/// (`<think>…</think>`) is dropped, with the warning `THOUGHT_REMOVED`. A text of mere brackets and
/// quotes becomes empty.
pub struct Validator<'a> {
    options: &'a StructuredOutputOptions,
    names: Names,
}

impl<'a> Validator<'a> {
    /// Creates a validator that checks envelopes as `options` requires.
    pub fn new(options: &'a StructuredOutputOptions) -> Self {
        Self { options, names: Names::new(options) }
    }

    /// Checks the envelope with the fields `members`, which [`parser::parse`](super::parser::parse)
    /// returns.
    ///
    /// # Errors
    /// Returns an error if `assistant_text` or `directives` is missing (`MISSING_FIELD`) or has the
    /// wrong type (`INVALID_FIELD`).
    pub fn validate(&self, mut members: Map<String, Value>) -> Result<Envelope, Problem> {
        let (assistant_text, cleaned) = match field(&mut members, FIELDS[0])? {
            Value::String(text) => cleaned(text),
            other => return Err(wrong(FIELDS[0], "a string", &other)),
        };
        let items = match field(&mut members, FIELDS[1])? {
            Value::Array(items) => items,
            other => return Err(wrong(FIELDS[1], "an array", &other)),
        };
        let mut warnings: Vec<Warning> = cleaned.into_iter().chain(unknown(&members, None, None)).collect();
        let mut directives = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            match self.directive(index, item, &mut warnings) {
                Ok(directive) => directives.push(directive),
                Err(dropped) => warnings.extend(dropped),
            }
        }
        Ok(Envelope { assistant_text, directives, warnings })
    }

    /// Checks `item`, the directive at `index`. A valid directive may still add to `warnings`. If
    /// the directive must be dropped, returns the warnings as an error.
    pub(super) fn directive(
        &self,
        index: usize,
        item: Value,
        warnings: &mut Vec<Warning>,
    ) -> Result<Directive, Vec<Warning>> {
        let told = |kind: Option<&str>, code: &str, message: String| {
            let kind = kind.map(|kind| shortened(kind, NAME));
            vec![Warning { code: code.to_owned(), message, index: Some(index), kind, details: None }]
        };
        let Value::Object(mut members) = item else {
            return Err(told(
                None,
                "NOT_AN_OBJECT",
                format!("a directive is an object, not {}", kind_of(&item)),
            ));
        };
        let given = match members.shift_remove("type") {
            Some(Value::String(given)) => given,
            None => return Err(told(None, "MISSING_TYPE", "missing `type`".to_owned())),
            Some(other) => {
                let message = format!("`type` is {}, not a string", kind_of(&other));
                return Err(told(None, "INVALID_TYPE", message));
            }
        };
        let kind = match self.names.meaning(&given) {
            Meaning::Type(kind) => kind,
            Meaning::NotAllowed(kind) => {
                return Err(told(
                    Some(&kind),
                    "TYPE_NOT_ALLOWED",
                    "this type is not allowed here".to_owned(),
                ));
            }
            Meaning::Unknown => {
                return Err(told(Some(&given), "UNKNOWN_TYPE", "unknown type".to_owned()));
            }
        };
        let is_patch = self.options.registry().get(&kind).is_some_and(|definition| definition.patch);
        let mut payload = match members.shift_remove("payload").map(|payload| decoded(payload, is_patch)) {
            Some(Value::Object(payload)) => payload,
            None => return Err(told(Some(&kind), "MISSING_PAYLOAD", "missing `payload`".to_owned())),
            Some(other) => {
                let message = format!("`payload` is {}, not an object", kind_of(&other));
                return Err(told(Some(&kind), "INVALID_PAYLOAD", message));
            }
        };
        let issues = self.check(&kind, &mut payload);
        if !issues.is_empty() {
            let warning = |issue: Issue| Warning {
                message: issue.message.unwrap_or_else(|| "invalid payload".to_owned()),
                code: issue.code,
                index: Some(index),
                kind: Some(kind.clone()),
                details: issue.details,
            };
            return Err(issues.into_iter().map(warning).collect());
        }
        warnings.extend(unknown(&members, Some(index), Some(&kind)));
        Ok(Directive { kind, payload })
    }

    /// Normalizes `payload` and checks it. The checks are the payload schema of the type `kind`,
    /// the patch check if the type holds patches, and the app's own check. Returns the issues of
    /// the first check that fails.
    fn check(&self, kind: &str, payload: &mut Map<String, Value>) -> Vec<Issue> {
        let registry = self.options.registry();
        let is_patch = registry.get(kind).is_some_and(|definition| definition.patch);
        if is_patch {
            patch::normalize_payload(payload);
        }
        if let Some(change) = &self.options.payload_normalizer {
            change(kind, payload);
        }
        let violations = registry.violations(kind, payload);
        if let Some((place, message)) = violations.first() {
            let place = if place.is_empty() { "the payload" } else { place };
            let all: Vec<_> = violations
                .iter()
                .map(|(pointer, message)| json!({ "pointer": pointer, "message": message }))
                .collect();
            let issue = Issue::new("PAYLOAD_SCHEMA").with_message(format!("{place}: {message}"));
            return vec![Issue { details: Some(json!({ "violations": all })), ..issue }];
        }
        if is_patch {
            let issues = patch::validate_patch_ops(payload.get("ops").unwrap_or(&Value::Null));
            if !issues.is_empty() {
                return issues;
            }
        }
        self.options.payload_validator.as_ref().map(|check| check(kind, payload)).unwrap_or_default()
    }
}

/// Returns `text` without thoughts and lone brackets, and a warning if a thought was removed.
fn cleaned(text: String) -> (String, Option<Warning>) {
    let (clean, _) = text::without_leading_thoughts(&text);
    let warning = (clean.len() < text.len()).then(|| Warning {
        code: "THOUGHT_REMOVED".to_owned(),
        message: "removed a thought from `assistant_text`".to_owned(),
        index: None,
        kind: None,
        details: None,
    });
    match warning {
        _ if text::is_marks(clean) => (String::new(), warning),
        None => (text, None),
        Some(_) => (clean.to_owned(), warning),
    }
}

/// Returns the object of a payload that is a string with the JSON text of an object. A patch may
/// also be a list of operations, which becomes the field `ops`. Other payloads stay unchanged.
fn decoded(payload: Value, is_patch: bool) -> Value {
    let payload = match &payload {
        Value::String(text) => serde_json::from_str(text)
            .ok()
            .filter(|value: &Value| value.is_object() || (is_patch && value.is_array()))
            .unwrap_or(payload),
        _ => payload,
    };
    if is_patch && payload.is_array() { json!({ "ops": payload }) } else { payload }
}

/// Removes the envelope's field `name` and returns its value, or an error if the field is missing.
fn field(members: &mut Map<String, Value>, name: &str) -> Result<Value, Problem> {
    members.shift_remove(name).ok_or_else(|| {
        let problem = Problem::new(ProblemCategory::Envelope, "MISSING_FIELD", format!("missing `{name}`"));
        problem.with(json!({ "field": name }))
    })
}

/// Returns the problem of an envelope's field `name` that has the wrong type.
fn wrong(name: &str, expected: &str, found: &Value) -> Problem {
    let found = kind_of(found);
    let message = format!("`{name}` is {found}, not {expected}");
    Problem::new(ProblemCategory::Envelope, "INVALID_FIELD", message)
        .with(json!({ "field": name, "expected": expected, "found": found }))
}

/// Returns a warning that lists `members`, the unknown fields of an envelope or directive. Returns
/// `None` if there are no unknown fields.
fn unknown(members: &Map<String, Value>, index: Option<usize>, kind: Option<&str>) -> Option<Warning> {
    let names: Vec<_> = members.keys().take(FIELDS_TOLD).map(|name| shortened(name, NAME)).collect();
    let message = format!("dropped unknown fields: `{}`", names.join("`, `"));
    let kind = kind.map(str::to_owned);
    let details = Some(json!({ "fields": names }));
    (!members.is_empty()).then(|| Warning { code: "UNKNOWN_FIELD".to_owned(), message, index, kind, details })
}

#[cfg(test)]
mod tests;
