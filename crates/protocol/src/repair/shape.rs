use std::cmp::Reverse;
use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::content::{Content, Marks, says_something};
use super::error::Kind;
use super::{RepairError, envelope, schema, words, xml};
use crate::adapt::strict::{self, Unreadable};
use crate::adapt::{AdaptOptions, Adapter, Flat, Tolerance, in_one_line, pointer_token};
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
    /// What tells errors, made when there is one.
    flat: OnceLock<Option<Flat>>,
    /// What makes out what a broken text says, made when there is one.
    tolerant: OnceLock<Option<Adapter>>,
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
            flat: OnceLock::new(),
            tolerant: OnceLock::new(),
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
        let (flat, tolerant) = (OnceLock::new(), OnceLock::new());
        let is_envelope = false;
        Ok(Self(Arc::new(Inner { schema, validator, flat, tolerant, name, fields, telling, is_envelope })))
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

    /// What a text comes to: wrappers of XML are made JSON, the value is found in it, and checked. Nothing of it is lost: a name that
    /// comes twice in an object, and a number that neither 64 bits nor a double hold, are errors.
    pub fn read(&self, text: &str) -> Reading {
        if text.len() > BYTES {
            let told = format!("{} bytes are more than the limit of {BYTES}", text.len());
            return Reading::of_nothing(vec![told]);
        }
        let unwrapped = if self.0.is_envelope { xml::normalized(text, &self.fields()) } else { Ok(None) };
        let read = match &unwrapped {
            Ok(Some(envelope)) => self.find(envelope),
            Ok(None) => self.find(text),
            Err(problem) => Err(problem.clone()),
        };
        match read {
            Ok((value, text)) => Reading { written: Some(in_one_line(text)), ..self.check(value) },
            Err(Problem { message, number: None }) => self.unread(text, vec![message]),
            Err(Problem { message, number: Some(number) }) => {
                Reading { content: Content::of_number(number), ..Reading::of_nothing(vec![message]) }
            }
        }
    }

    /// What a text comes to that is no value, for these reasons. What can be made out of it all the same must be in what takes its place.
    pub(crate) fn unread(&self, text: &str, errors: Vec<String>) -> Reading {
        Reading { content: self.made_out(text).unwrap_or(Content::NONE), ..Reading::of_nothing(errors) }
    }

    /// What a broken text says, as far as it can be told without a guess; of one that was cut off, all but a value that may go on.
    fn made_out(&self, text: &str) -> Option<Content> {
        let text = parser::without_thoughts(text).trim_end();
        let adapter =
            || Adapter::new(&self.0.schema, AdaptOptions::full().with_tolerance(Tolerance::Repair)).ok();
        let adaptation = self.0.tolerant.get_or_init(adapter).as_ref()?.adapt(text);
        let was = |mend: &str| adaptation.transforms().any(|made| made == mend);
        // Any text can be read as a string, or as a list of what stands in it, and words in braces may be anything.
        let value = adaptation.value().filter(|value| value.is_object() && !was("bare-value"))?;
        let mut marks = if adaptation.is_valid() { Marks::default() } else { self.told(value).marks };
        let is_cut = was("cut-value") && !was("cut-member") && !text.ends_with(',');
        if is_cut || (was("missing-closer") && text.ends_with(|c: char| c.is_ascii_digit())) {
            marks.unwanted.insert(place_of_last(value));
        }
        Some(Content::of(&self.0.schema, value, &marks))
    }

    fn told(&self, value: &Value) -> words::Told {
        words::told(self.0.flat.get_or_init(|| Flat::new(&self.0.schema)).as_ref(), value)
    }

    /// What a value comes to.
    pub fn check(&self, value: Value) -> Reading {
        let tells = |name: &&String| value.get(name.as_str()).is_some_and(says_something);
        let telling = self.0.telling.iter().filter(tells).count();
        let Some(validator) = &self.0.validator else {
            return Reading::of_nothing(vec!["the schema cannot be checked".to_owned()]);
        };
        if validator.is_valid(&value) {
            return Reading { telling, ..Reading::of_nothing(Vec::new()).with_value(value) };
        }
        let words::Told { errors, marks } = self.told(&value);
        let content = Content::of(&self.0.schema, &value, &marks);
        Reading { telling, content, ..Reading::of_nothing(errors).with_value(value) }
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

    /// The value in a text, and its own text.
    fn find<'a>(&self, text: &'a str) -> Result<(Value, &'a str), Problem> {
        let text = parser::without_thoughts(text);
        let is_of_objects = self.kind() == Some("object");
        match strict::read(text) {
            Ok(value) if value.is_object() || !is_of_objects || self.takes(&value) => Ok((value, text)),
            Err(error) if error.refusal.is_some() => Err(Problem::from(*error)),
            Err(error) if !is_of_objects => block_in(text, *error),
            _ => {
                let found = parser::object_in(text, BYTES, &self.fields());
                let object = found.map_err(|problem| Problem::unread(&problem.message))?;
                Ok((strict::read(object).map_err(|error| Problem::from(*error))?, object))
            }
        }
    }

    fn takes(&self, value: &Value) -> bool {
        self.0.validator.as_ref().is_some_and(|validator| validator.is_valid(value))
    }
}

/// The first fenced block that is a value, where the whole text is none for this reason.
fn block_in(text: &str, error: Unreadable) -> Result<(Value, &str), Problem> {
    for block in parser::fenced(text) {
        match strict::read(block) {
            Ok(value) => return Ok((value, block)),
            Err(error) if error.refusal.is_some() => return Err(Problem::from(*error)),
            Err(_) => {}
        }
    }
    Err(Problem::from(error))
}

/// The place of what was written last in a value, as a JSON pointer.
fn place_of_last(mut value: &Value) -> String {
    let mut place = String::new();
    loop {
        let (token, inner) = match value {
            Value::Object(members) => match members.iter().next_back() {
                Some((name, inner)) => (pointer_token(name).into_owned(), inner),
                None => return place,
            },
            Value::Array(items) => match items.last() {
                Some(inner) => ((items.len() - 1).to_string(), inner),
                None => return place,
            },
            _ => return place,
        };
        place = place + "/" + &token;
        value = inner;
    }
}

/// Why there is no value in a text.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    message: String,
    /// The number that fits nowhere, where that is the reason.
    number: Option<String>,
}

impl Problem {
    /// It cannot be read as JSON.
    pub(super) fn unread(reason: &str) -> Self {
        Self { message: format!("The JSON cannot be read: {reason}"), number: None }
    }

    /// The same, of a part that is at `place`, a JSON pointer.
    pub(super) fn within(place: &str, error: Unreadable) -> Self {
        let Unreadable { violation, refusal, number } = error;
        let path = format!("{place}{}", violation.path);
        match refusal {
            Some(reason) if !path.is_empty() => {
                let message = format!("Field \"{}\": {reason}", words::named(&path));
                Self { message, number }
            }
            Some(reason) => Self { message: format!("The whole value: {reason}"), number },
            None => Self::unread(&violation.message),
        }
    }
}

impl From<Unreadable> for Problem {
    fn from(error: Unreadable) -> Self {
        Self::within("", error)
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
    /// What takes its place must have.
    content: Content,
    /// The value's text in one line, where it needed no conversion.
    pub(super) written: Option<String>,
    /// What was done to the text to make it the value.
    pub(super) adapted: Vec<String>,
}

impl Reading {
    /// A text without a value, for these reasons.
    pub const fn of_nothing(errors: Vec<String>) -> Self {
        Self { value: None, errors, telling: 0, content: Content::NONE, written: None, adapted: Vec::new() }
    }

    fn with_value(self, value: Value) -> Self {
        Self { value: Some(value), ..self }
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

    /// The value as it was written, in one line, if no conversion made it: numbers in it have all their digits.
    pub fn written(&self) -> Option<&str> {
        self.written.as_deref()
    }

    /// What was done to the text to make it the value, by the names of the [transforms](crate::adapt::Adaptation::transforms).
    pub fn adapted(&self) -> &[String] {
        &self.adapted
    }

    /// Whether it has any of the fields by which a value is worth something.
    pub(super) const fn is_telling(&self) -> bool {
        self.telling > 0
    }

    /// The better one is greater: it fits, or there is a value at all, or one that is worth something, or less is wrong, or more is there.
    fn rank(&self) -> (bool, bool, bool, Reverse<usize>, usize) {
        let errors = Reverse(self.errors.len());
        (self.is_valid(), self.value.is_some(), self.is_partial(), errors, self.telling)
    }

    /// Whether this validates less than `other`.
    pub fn is_worse_than(&self, other: &Self) -> bool {
        self.rank() < other.rank()
    }

    /// Whether something is not here that `before` says and that is right there, or wrong only as it is written. What fits may have
    /// been made so by leaving out what did not.
    ///
    /// ```
    /// use formwork_protocol::repair::Shape;
    /// let shape = Shape::tool_calls();
    /// let read = |text: &str| shape.read(text);
    /// let before = read(r#"{"toolCalls": [{"name": 7, "arguments": {}}], "content": "I look."}"#);
    /// assert!(read(r#"{"content": "I look."}"#).loses(&before));
    /// assert!(!read(r#"{"toolCalls": [{"name": "now", "arguments": {}}], "content": "I look."}"#).loses(&before));
    /// ```
    pub fn loses(&self, before: &Self) -> bool {
        match &self.value {
            Some(value) => !before.content.is_in(value),
            None => !before.content.is_empty(),
        }
    }
}
