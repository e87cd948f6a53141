use std::fmt;

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::keywords;

/// A schema and a prompt that asks for a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name of the case in results. Must be unique.
    pub id: String,
    /// JSON Schema that is sent as `response_format`.
    pub schema: Value,
    /// Text of the user message.
    pub prompt: String,
    /// Value that the answer must equal, as JSON Schema's `const` compares values. `None` if any valid
    /// value will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// Keyword of the schema that the prompt asks to violate, such as `maximum` or `format: date`.
    /// `None` if the case is not a probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violates: Option<String>,
}

/// Error in the text of a case.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct CaseError {
    place: Place,
    problem: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Line and column, from 1. Columns count bytes.
    Text(usize, usize),
    /// JSON pointer into the case.
    Pointer(String),
}

impl CaseError {
    fn at(pointer: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: Place::Pointer(pointer.into()), problem: problem.into() }
    }
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Text(line, column) => write!(f, "line {line} column {column}: {}", self.problem),
            Place::Pointer(pointer) if pointer.is_empty() => f.write_str(&self.problem),
            Place::Pointer(pointer) => write!(f, "{pointer}: {}", self.problem),
        }
    }
}

const KEYS: [&str; 5] = ["id", "schema", "prompt", "expected", "violates"];

impl Case {
    /// Parses a case: an object with `schema` and `prompt`, and possibly `expected`, `violates` and
    /// `id`. `id` is the name of a case that has none.
    ///
    /// ```
    /// use formwork_eval::Case;
    /// let text = r#"{"schema": {"type": "integer", "maximum": 9}, "prompt": "Say 3.", "expected": 3}"#;
    /// assert_eq!(Case::parse(text, "three")?.id, "three");
    /// let error = Case::parse(r#"{"schema": {"type": "int"}, "prompt": ""}"#, "a").unwrap_err();
    /// assert!(error.to_string().starts_with("/schema/type: "));
    /// # Ok::<(), formwork_eval::CaseError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error with its place if:
    ///
    /// - the text is not a JSON object, or repeats a key of the case,
    /// - a key is unknown, missing or has a value of the wrong type,
    /// - the schema is not an object, is not a valid JSON Schema or refers to other documents,
    /// - `expected` violates the schema,
    /// - `violates` is not a keyword of the schema.
    pub fn parse(text: &str, id: &str) -> Result<Self, CaseError> {
        let fault = |error: formwork_json::JsonError| {
            let (line, column) = error.place();
            CaseError { place: Place::Text(line, column), problem: error.problem() }
        };
        let Members(members) = formwork_json::from_str(text).map_err(fault)?;
        let mut case = Map::new();
        for (key, value) in members {
            if !KEYS.contains(&key.as_str()) {
                let known = KEYS.join(", ");
                return Err(CaseError::at("", format!("unknown key `{key}`; expected one of {known}")));
            }
            if case.insert(key.clone(), value).is_some() {
                return Err(CaseError::at("", format!("the key `{key}` occurs twice")));
            }
        }
        let text_of = |key: &str| match case.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => {
                Err(CaseError::at(format!("/{key}"), format!("expected a string, not {}", kind(other))))
            }
        };
        let missing = |key: &str| CaseError::at("", format!("missing key `{key}`"));
        let case = Self {
            id: text_of("id")?.unwrap_or_else(|| id.to_owned()),
            schema: case.get("schema").cloned().ok_or_else(|| missing("schema"))?,
            prompt: text_of("prompt")?.ok_or_else(|| missing("prompt"))?,
            expected: case.get("expected").cloned(),
            violates: text_of("violates")?,
        };
        case.checked()
    }

    /// Checks the schema, `expected` and `violates`.
    fn checked(mut self) -> Result<Self, CaseError> {
        if self.id.trim().is_empty() {
            return Err(CaseError::at("/id", "expected a name"));
        }
        let validator = self.validator()?;
        if let Some(error) =
            self.expected.as_ref().and_then(|expected| validator.iter_errors(expected).next())
        {
            let place = format!("/expected{}", error.instance_path());
            return Err(CaseError::at(place, format!("the expected value violates the schema: {error}")));
        }
        if let Some(wanted) = self.violates.take() {
            let known = keywords::of_schema(&self.schema);
            let found = known.iter().find(|known| keywords::is_called(known, &wanted));
            let Some(found) = found else {
                let known: Vec<_> = known.into_iter().collect();
                let problem = format!(
                    "the schema has no keyword `{wanted}`; it has {}",
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                );
                return Err(CaseError::at("/violates", problem));
            };
            if self.expected.is_some() {
                let problem = "a case that asks for a violation has no expected value";
                return Err(CaseError::at("/expected", problem));
            }
            self.violates = Some(found.clone());
        }
        Ok(self)
    }

    /// Compiles the schema. Formats are asserted.
    pub(super) fn validator(&self) -> Result<Validator, CaseError> {
        if !self.schema.is_object() {
            let problem = format!("expected a schema as an object, not {}", kind(&self.schema));
            return Err(CaseError::at("/schema", problem));
        }
        let built = formwork_protocol::adapt::schema::validator(&self.schema);
        built.map_err(|error| {
            CaseError::at(format!("/schema{}", error.path), format!("invalid schema: {}", error.reason))
        })
    }

    /// Reports whether a value equals the expected one. `None` if the case expects no value.
    pub(super) fn is_expected(&self, value: &Value) -> Option<bool> {
        let expected = self.expected.as_ref()?;
        let same = || jsonschema::is_valid(&json!({ "const": expected }), value);
        Some(expected == value || same())
    }
}

/// Members of an object in their order, with repeated keys.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with `schema` and `prompt`")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
