use std::cmp::Reverse;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::content::{Content, Marks, says_something};
use super::error::Kind;
use super::{RepairError, calls, envelope, words, xml};
use crate::extract::Unread;
use crate::strict::Unreadable;
use crate::tape::{Document, Place, in_one_line, pointer_token};
use crate::{AdaptError, AdaptOptions, Adapter, Allow, Tolerance, object, schema};

/// Maximum size of a text that is read, in bytes.
const BYTES: usize = 1 << 20;

/// Required shape of an answer: a JSON Schema and the state derived from the schema. Clones share
/// it.
#[derive(Clone)]
pub struct Shape(Arc<Inner>);

struct Inner {
    schema: Value,
    /// Adapter that finds the value in a text and converts nothing. `None` only if the built-in
    /// envelope schema were invalid, which a test rules out.
    finder: Option<Adapter>,
    /// Adapter that recovers content from broken texts, created on first use.
    tolerant: OnceLock<Option<Adapter>>,
    name: String,
    /// Fields that distinguish the answer from other objects in a text.
    fields: Vec<String>,
    /// Key fields. An invalid answer is still usable if at least one of them has content.
    telling: Vec<String>,
    is_envelope: bool,
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shape").field(&self.0.name).field(&self.0.schema).finish()
    }
}

impl Shape {
    /// Returns the shape of the envelope `{toolCalls, content, needsMoreWork}`.
    pub fn tool_calls() -> Self {
        let schema = envelope::schema();
        let finder = Adapter::new(&schema, finding()).ok();
        let fields = ["toolCalls", "content", "needsMoreWork"].map(str::to_owned).to_vec();
        Self(Arc::new(Inner {
            schema,
            finder,
            tolerant: OnceLock::new(),
            name: envelope::NAME.to_owned(),
            telling: fields[..2].to_vec(),
            fields,
            is_envelope: true,
        }))
    }

    /// Creates a shape from a JSON Schema. The name is sent in requests and must have 1 to 64
    /// letters, digits, `_` and `-`.
    ///
    /// # Errors
    /// Returns an error if `schema` is not a valid JSON Schema.
    pub fn of_schema(schema: Value, name: &str) -> Result<Self, RepairError> {
        let fault = |error: AdaptError| Kind::Schema { reason: error.reason() };
        let finder = Some(Adapter::new(&schema, finding()).map_err(fault)?);
        let fields: Vec<String> =
            schema::properties(&schema, &schema).into_iter().map(|(name, _)| name.to_owned()).collect();
        let (telling, name) = (fields.clone(), name.to_owned());
        let tolerant = OnceLock::new();
        let is_envelope = false;
        Ok(Self(Arc::new(Inner { schema, finder, tolerant, name, fields, telling, is_envelope })))
    }

    /// Returns the JSON Schema.
    pub fn schema(&self) -> &Value {
        &self.0.schema
    }

    /// Returns the schema's name in requests.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Reads the value in a text and validates it. Tool calls in XML are first converted to JSON.
    ///
    /// A repeated name in an object is an error. A number that fits neither 64 bits nor a double is
    /// an error as well. No value therefore loses data.
    pub fn read(&self, text: &str) -> Reading {
        if text.len() > BYTES {
            let told = format!("the text has {} bytes; the limit is {BYTES}", text.len());
            return Reading::of_nothing(vec![told]);
        }
        let read = match self.unwrapped(text) {
            Ok(unwrapped) => self.find(unwrapped.as_deref().unwrap_or(text)),
            Err(problem) => Err(Problem { is_final: true, ..problem }),
        };
        match read {
            Ok(found) => self.of_document(text, &found),
            Err(Problem { message, number: None, is_final }) => {
                Reading { is_final, ..self.unread(text, vec![message]) }
            }
            Err(Problem { message, number: Some(number), is_final }) => {
                let content = Content::of_number(number);
                Reading { content, is_final, ..Reading::of_nothing(vec![message]) }
            }
        }
    }

    /// Converts calls in XML to JSON. Returns `None` if there are none.
    fn unwrapped(&self, text: &str) -> Result<Option<String>, Problem> {
        if self.0.is_envelope { xml::normalized(text, &self.fields()) } else { Ok(None) }
    }

    /// Validates the value that was found in a text. Calls in another form are converted to the
    /// envelope's form.
    fn of_document(&self, text: &str, found: &Document) -> Reading {
        match self.converted(found.value()) {
            Ok((value, false)) => Reading { written: Some(in_one_line(found.text())), ..self.check(value) },
            Ok((value, true)) => Reading { adapted: vec![TOOL_CALLS.to_owned()], ..self.check(value) },
            Err(problem) => Reading { is_final: true, ..self.unread(text, vec![problem.message]) },
        }
    }

    /// Converts calls in another form to the envelope's form. The flag is true if there are such calls.
    pub(super) fn converted(&self, value: Value) -> Result<(Value, bool), Problem> {
        match if self.0.is_envelope { calls::enveloped(&value)? } else { None } {
            Some(envelope) => Ok((envelope, true)),
            None => Ok((value, false)),
        }
    }

    /// Creates the reading of a text without a value. Any content that can be recovered from the
    /// text must be preserved by a repair.
    pub fn unread(&self, text: &str, errors: Vec<String>) -> Reading {
        Reading { content: self.made_out(text).unwrap_or(Content::NONE), ..Reading::of_nothing(errors) }
    }

    /// Recovers the content of a broken text, as far as this needs no guess. If the text is cut
    /// off, an incomplete last value is omitted.
    fn made_out(&self, text: &str) -> Option<Content> {
        let text = object::without_thoughts(text).trim_end();
        let options =
            AdaptOptions { allow_truncated: true, ..AdaptOptions::full().with_tolerance(Tolerance::Repair) };
        let adapter = || Adapter::new(&self.0.schema, options).ok();
        let adaptation = self.0.tolerant.get_or_init(adapter).as_ref()?.adapt(text);
        let was = |mend: &str| adaptation.transforms().any(|made| made == mend);
        // Any text can be read as a string or a list, and bare words in braces may mean anything.
        // Only other objects are reliable.
        let value = adaptation.value().filter(|value| value.is_object() && !was("bare-value"))?;
        let mut marks = if adaptation.is_valid() { Marks::default() } else { self.told(value).marks };
        let is_cut = was("cut-value") && !was("cut-member") && !text.ends_with(',');
        if is_cut || (was("missing-closer") && text.ends_with(|c: char| c.is_ascii_digit())) {
            marks.unwanted.insert(place_of_last(value));
        }
        Some(Content::of(&self.0.schema, value, &marks))
    }

    fn told(&self, value: &Value) -> words::Told {
        words::told(self.0.finder.as_ref().and_then(Adapter::flat), value)
    }

    /// Validates a value.
    pub fn check(&self, value: Value) -> Reading {
        let tells = |name: &&String| value.get(name.as_str()).is_some_and(says_something);
        let telling = self.0.telling.iter().filter(tells).count();
        let Some(finder) = &self.0.finder else {
            return Reading::of_nothing(vec!["the schema could not be compiled".to_owned()]);
        };
        if finder.on_values.is_valid(&value) {
            return Reading { telling, ..Reading::of_nothing(Vec::new()).with_value(value) };
        }
        let words::Told { errors, marks } = self.told(&value);
        let content = Content::of(&self.0.schema, &value, &marks);
        Reading { telling, content, ..Reading::of_nothing(errors).with_value(value) }
    }

    /// Returns the value that stands for a plain text answer, or `None` if the shape has no such
    /// value.
    pub fn of_text(&self, text: &str) -> Option<Value> {
        self.0.is_envelope.then(|| json!({ "content": text }))
    }

    pub(super) fn is_envelope(&self) -> bool {
        self.0.is_envelope
    }

    /// Returns the type of all values, if there is a single type.
    pub(super) fn kind(&self) -> Option<&str> {
        schema::kind(&self.0.schema, &self.0.schema)
    }

    fn fields(&self) -> Vec<&str> {
        self.0.fields.iter().map(String::as_str).collect()
    }

    /// Finds the value in a text, in the same way as an adapter does. A text with calls beside the
    /// value has none, because the calls would be lost.
    fn find(&self, text: &str) -> Result<Document, Problem> {
        let Some(finder) = &self.0.finder else {
            return Err(Problem::unread("the schema could not be compiled"));
        };
        match finder.find(text).map_err(|unread| *unread) {
            Ok(found) => {
                let value = self.0.is_envelope.then(|| found.value());
                self.nothing_beside(text, found.text(), value.as_ref()).map(|()| found)
            }
            Err(Unread { region: Some(region), violation }) => {
                self.nothing_beside(text, &region.text, None)?;
                Err(Problem::from(Unreadable::new(violation, &region.text, &region.error)))
            }
            Err(Unread { region: None, violation }) => Err(Problem::unread(&violation.message)),
        }
    }

    /// Checks that a text has no calls beside the part `found`.
    fn nothing_beside(&self, text: &str, found: &str, value: Option<&Value>) -> Result<(), Problem> {
        if !self.0.is_envelope {
            return Ok(());
        }
        let body = object::without_thoughts(text);
        let start = body.as_ptr() as usize - text.as_ptr() as usize;
        calls::beside(body, found, value).map_or(Ok(()), |at| {
            let Place { line, column } = Place::of(text, start + at);
            let told = format!("line {line}, column {column}: expected no calls beside the answer");
            Err(Problem { is_final: true, ..Problem::unread(&told) })
        })
    }
}

/// Name of the transform that converts calls to the envelope's form.
pub(super) const TOOL_CALLS: &str = "tool-calls";

/// Returns the options of an adapter that only finds values.
fn finding() -> AdaptOptions {
    AdaptOptions { allow: Allow::none(), ..AdaptOptions::minimal() }
}

/// Returns the JSON pointer of the last scalar or empty container in a value.
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

/// Reason that a text contains no value.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    message: String,
    /// Number that fits neither 64 bits nor a double, if this is the reason.
    number: Option<String>,
    /// True if adaptation would lose a call.
    is_final: bool,
}

impl Problem {
    /// Creates the problem of a text that is not JSON.
    pub(super) fn unread(reason: &str) -> Self {
        Self { message: format!("The JSON cannot be read: {reason}"), number: None, is_final: false }
    }

    /// Creates the problem of a value at `place`, a JSON pointer.
    pub(super) fn of_place(place: &str, words: &str) -> Self {
        let message = match place {
            "" => format!("The whole value: {words}"),
            place => format!("Field \"{}\": {words}", words::dotted(place)),
        };
        Self { message, number: None, is_final: false }
    }

    /// Creates the problem of a part at `place`, a JSON pointer.
    pub(super) fn within(place: &str, error: Unreadable) -> Self {
        let Unreadable { violation, refusal, number } = error;
        let path = format!("{place}{}", violation.path);
        match refusal {
            Some(reason) if !path.is_empty() => {
                let message = format!("Field \"{}\": {reason}", words::dotted(&path));
                Self { message, number, is_final: false }
            }
            Some(reason) => Self { message: format!("The whole value: {reason}"), number, is_final: false },
            None => Self::unread(&violation.message),
        }
    }
}

impl From<Unreadable> for Problem {
    fn from(error: Unreadable) -> Self {
        Self::within("", error)
    }
}

/// Result of reading a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Value in the text, if any.
    pub value: Option<Value>,
    /// Validation errors with their places. Empty if the value is valid.
    pub errors: Vec<String>,
    /// Number of key fields with content.
    telling: usize,
    /// Content that a repair must preserve.
    pub(super) content: Content,
    /// Source text of the value on a single line, if no conversion was needed.
    pub(super) written: Option<String>,
    /// Transforms applied to the text.
    pub(super) adapted: Vec<String>,
    /// True if adaptation would lose a call of the text.
    pub(super) is_final: bool,
    /// True if the text ends inside the value, which was closed there.
    pub(super) is_truncated: bool,
}

impl Reading {
    /// Creates the reading of a text without a value.
    pub const fn of_nothing(errors: Vec<String>) -> Self {
        Self {
            value: None,
            errors,
            telling: 0,
            content: Content::NONE,
            written: None,
            adapted: Vec::new(),
            is_final: false,
            is_truncated: false,
        }
    }

    fn with_value(self, value: Value) -> Self {
        Self { value: Some(value), ..self }
    }

    /// Replaces the errors and keeps the value.
    #[must_use]
    pub fn with_errors(self, errors: Vec<String>) -> Self {
        Self { errors, ..self }
    }

    /// Reports whether there is a valid value.
    pub fn is_valid(&self) -> bool {
        self.value.is_some() && self.errors.is_empty()
    }

    /// Reports whether there is an invalid value that is still usable, because a key field has
    /// content.
    ///
    /// The key fields are the named properties of the schema. The key fields of the envelope are
    /// `toolCalls` and `content`.
    pub fn is_partial(&self) -> bool {
        self.value.is_some() && !self.errors.is_empty() && self.telling > 0
    }

    /// Reports whether the value is invalid because the text ends inside it, at tolerance 2. The
    /// value has everything up to the end of the text.
    pub const fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Returns the source text of the value on a single line, with all digits of its numbers.
    /// Returns `None` if a conversion changed the value.
    pub fn written(&self) -> Option<&str> {
        self.written.as_deref()
    }

    /// Returns the names of the [transforms](crate::Adaptation::transforms) applied to the
    /// text.
    pub fn adapted(&self) -> &[String] {
        &self.adapted
    }

    /// Reports whether at least one key field has content.
    pub const fn is_telling(&self) -> bool {
        self.telling > 0
    }

    /// Returns the sort key of a reading. A better reading is greater.
    ///
    /// The criteria are, in order: valid, has a value, usable, fewer errors, more key fields with
    /// content.
    fn rank(&self) -> (bool, bool, bool, Reverse<usize>, usize) {
        let errors = Reverse(self.errors.len());
        (self.is_valid(), self.value.is_some(), self.is_partial(), errors, self.telling)
    }

    /// Reports whether this reading is worse than `other`: less valid, more errors or fewer key
    /// fields with content.
    pub fn is_worse_than(&self, other: &Self) -> bool {
        self.rank() < other.rank()
    }

    /// Reports whether this reading lacks content of `before`.
    ///
    /// Correct scalars of `before` must still occur, and a wrong value needs a replacement. A valid
    /// reading can lose content as well, by leaving out the parts that were wrong.
    ///
    /// ```
    /// use formwork_adapt::repair::Shape;
    /// let shape = Shape::tool_calls();
    /// let read = |text: &str| shape.read(text);
    /// let before = read(r#"{"toolCalls": [{"name": 7, "arguments": {}}], "content": "I look."}"#);
    /// assert!(read(r#"{"content": "I look."}"#).loses(&before));
    /// let after = r#"{"toolCalls": [{"name": "now", "arguments": {}}], "content": "I look."}"#;
    /// assert!(!read(after).loses(&before));
    /// ```
    pub fn loses(&self, before: &Self) -> bool {
        match &self.value {
            Some(value) => !before.content.is_in(value),
            None => !before.content.is_empty(),
        }
    }
}
