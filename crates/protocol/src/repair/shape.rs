use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::{Value, json};

use super::error::Kind;
use super::{RepairError, envelope, schema, words, xml};
use crate::directives::{Mode, parser};

/// The most bytes of an answer that are looked at.
const BYTES: usize = 1 << 20;

/// What an answer must be: a JSON Schema, with what is made of it. Clones share it.
#[derive(Clone)]
pub struct Shape(Arc<Inner>);

struct Inner {
    schema: Value,
    /// None would be for a schema of our own that is none, which a test rules out.
    validator: Option<Validator>,
    name: String,
    /// The fields by which an object is told from others in a text.
    fields: Vec<String>,
    /// Those with one of which an answer that does not fit is still worth something.
    telling: Vec<String>,
    is_envelope: bool,
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shape").field(&self.0.name).field(&self.0.schema).finish()
    }
}

impl Shape {
    /// The envelope `{toolCalls, content, needsMoreWork}`.
    pub fn tool_calls() -> Self {
        let schema = envelope::schema();
        let validator = jsonschema::validator_for(&schema).ok();
        let fields = ["toolCalls", "content", "needsMoreWork"].map(str::to_owned).to_vec();
        Self(Arc::new(Inner {
            schema,
            validator,
            name: envelope::NAME.to_owned(),
            telling: fields[..2].to_vec(),
            fields,
            is_envelope: true,
        }))
    }

    /// Any schema, by a name of 1 to 64 letters, digits, `_` and `-`.
    ///
    /// # Errors
    /// When it is none.
    pub fn of_schema(schema: Value, name: &str) -> Result<Self, RepairError> {
        let fault = |error: jsonschema::ValidationError<'_>| Kind::Schema { reason: error.to_string() };
        let validator = Some(jsonschema::validator_for(&schema).map_err(fault)?);
        let fields: Vec<String> =
            schema::properties(&schema, &schema).into_iter().map(|(name, _)| name.to_owned()).collect();
        let (telling, name) = (fields.clone(), name.to_owned());
        Ok(Self(Arc::new(Inner { schema, validator, name, fields, telling, is_envelope: false })))
    }

    /// The schema.
    pub fn schema(&self) -> &Value {
        &self.0.schema
    }

    /// Its name in requests.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The `response_format` of a mode; none where the prompt alone asks.
    pub fn response_format(&self, mode: Mode) -> Option<Value> {
        match mode {
            Mode::JsonSchema => {
                let strict = !schema::is_open(&self.0.schema);
                let named = json!({ "name": self.0.name, "strict": strict, "schema": self.0.schema });
                Some(json!({ "type": "json_schema", "json_schema": named }))
            }
            Mode::JsonObject => Some(json!({ "type": "json_object" })),
            Mode::PromptOnly => None,
        }
    }

    /// What a text comes to: wrappers of XML are made JSON, the value is found in it, and checked.
    pub fn read(&self, text: &str) -> Reading {
        let fields = self.fields();
        let unwrapped = if self.0.is_envelope { xml::normalized(text, &fields) } else { None };
        match self.find(unwrapped.as_deref().unwrap_or(text)) {
            Ok(value) => self.check(value),
            Err(error) => Reading::of_nothing(vec![error]),
        }
    }

    /// What a value comes to.
    pub fn check(&self, value: Value) -> Reading {
        let unchecked = || vec!["the schema cannot be checked".to_owned()];
        let errors =
            self.0.validator.as_ref().map_or_else(unchecked, |validator| words::errors(validator, &value));
        let tells = |name: &&String| value.get(name.as_str()).is_some_and(says_something);
        let telling = self.0.telling.iter().filter(tells).count();
        Reading { value: Some(value), errors, telling }
    }

    /// What stands for an answer that is plain text.
    pub fn of_text(&self, text: &str) -> Option<Value> {
        self.0.is_envelope.then(|| json!({ "content": text }))
    }

    /// The type of all values, where it is one.
    pub(super) fn kind(&self) -> Option<&str> {
        schema::kind(&self.0.schema, &self.0.schema)
    }

    fn fields(&self) -> Vec<&str> {
        self.0.fields.iter().map(String::as_str).collect()
    }

    fn find(&self, text: &str) -> Result<Value, String> {
        if self.kind() == Some("object") {
            let object = parser::parse_with(text, BYTES, &self.fields()).map(Value::Object);
            return object.map_err(|problem| format!("The JSON cannot be read: {}", problem.message));
        }
        if text.len() > BYTES {
            return Err(format!("{} bytes are more than the limit of {BYTES}", text.len()));
        }
        let text = parser::without_thoughts(text);
        let whole = serde_json::from_str(text);
        let mut blocks =
            parser::fenced(text).into_iter().filter_map(|block| serde_json::from_str(block).ok());
        whole.or_else(|error| blocks.next().ok_or_else(|| format!("The JSON cannot be read: {error}")))
    }
}

/// Whether a model has put anything there.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// What a text comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The value in it, if there is one.
    pub value: Option<Value>,
    /// What is wrong, by its place; nothing, if the value fits.
    pub errors: Vec<String>,
    /// How many of the fields by which a value is worth something it has.
    telling: usize,
}

impl Reading {
    /// A text without a value, for these reasons.
    pub const fn of_nothing(errors: Vec<String>) -> Self {
        Self { value: None, errors, telling: 0 }
    }

    /// The same value with other errors.
    #[must_use]
    pub fn with_errors(self, errors: Vec<String>) -> Self {
        Self { errors, ..self }
    }

    /// Whether there is a value that fits.
    pub fn is_valid(&self) -> bool {
        self.value.is_some() && self.errors.is_empty()
    }

    /// Whether there is a value that does not fit and is still worth something.
    pub fn is_partial(&self) -> bool {
        self.value.is_some() && !self.errors.is_empty() && self.telling > 0
    }

    /// The better one is greater: it fits, or there is a value at all, or less is wrong, or more is there.
    fn rank(&self) -> (bool, bool, Reverse<usize>, usize) {
        (self.is_valid(), self.value.is_some(), Reverse(self.errors.len()), self.telling)
    }

    /// Whether this validates less than `other`.
    pub fn is_worse_than(&self, other: &Self) -> bool {
        self.rank() < other.rank()
    }
}
