//! Typed access to the values of a request. Each value carries its path, so that errors can name
//! the field.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::ignored::IgnoredFields;
use crate::RequestError;
use crate::error::Problem;

/// Fields without effect that have been found so far, shared by all parts of a request. `None` if an
/// unknown field is an error.
type Ignored = Option<Rc<RefCell<IgnoredFields>>>;

/// Value in a request, with its path such as `messages[0].content`.
#[derive(Clone)]
pub(crate) struct Place {
    path: String,
    value: Value,
    ignored: Ignored,
}

/// Fields of a JSON object that have not been read yet. Fields that are `null` are dropped.
pub(crate) struct Fields {
    /// Path of the object. Empty for the body of the request.
    path: String,
    unread: Map<String, Value>,
    ignored: Ignored,
}

impl Fields {
    pub(crate) fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        Self::of_body(formwork_json::from_slice(body).map_err(RequestError::syntax)?)
    }

    fn of_body(body: Value) -> Result<Self, RequestError> {
        match body {
            Value::Object(fields) => Ok(Self::of_fields(fields)),
            other => Err(RequestError::not_an_object(type_name(&other))),
        }
    }

    pub(crate) fn of_fields(fields: Map<String, Value>) -> Self {
        Self::new(String::new(), fields, None)
    }

    fn new(path: String, mut unread: Map<String, Value>, ignored: Ignored) -> Self {
        unread.retain(|_, value| !value.is_null());
        Self { path, unread, ignored }
    }

    /// Makes unknown fields of the request no errors, here and in all parts that are read from now on.
    #[must_use]
    pub(crate) fn ignoring(self) -> Self {
        Self { ignored: Some(Rc::default()), ..self }
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Place> {
        let value = self.unread.shift_remove(name)?;
        Some(Place { path: self.path_of(name), value, ignored: self.ignored.clone() })
    }

    /// Returns an empty object at the path of a field.
    pub(crate) fn inner(&self, name: &str) -> Self {
        Self::new(self.path_of(name), Map::new(), self.ignored.clone())
    }

    /// Adds a value that stands elsewhere in the request. Errors name it as a field of this object.
    pub(crate) fn put(&mut self, name: &str, at: Place) {
        self.unread.insert(name.to_owned(), at.value);
    }

    /// Marks a field as read that is known to have no effect.
    pub(crate) fn ignore(&mut self, name: &str) {
        if let Some(at) = self.take(name) {
            at.ignore();
        }
    }

    /// Returns the value of a field without marking the field as read.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.unread.get(name)
    }

    /// Returns the fields that have not been read yet, as the caller sent them.
    pub(crate) const fn unread(&self) -> &Map<String, Value> {
        &self.unread
    }

    /// Parses a field with `read` and marks the field as read. Returns `None` if the field is
    /// absent.
    pub(crate) fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Place) -> Result<T, RequestError>,
    ) -> Result<Option<T>, RequestError> {
        self.take(name).map(read).transpose()
    }

    pub(crate) fn required(&mut self, name: &str) -> Result<Place, RequestError> {
        self.take(name).ok_or_else(|| RequestError::field(self.path_of(name), Problem::Missing))
    }

    /// Checks that all fields have been read, or that the others have no effect.
    ///
    /// # Errors
    /// Returns an error that names the first unread field, unless [unknown fields are
    /// ignored](Self::ignoring). Then it names the first field that may change the output.
    pub(crate) fn finish(self) -> Result<(), RequestError> {
        self.finish_request().map(drop)
    }

    /// Checks the fields of a whole request like [`Fields::finish`]. Returns the fields without effect.
    pub(crate) fn finish_request(self) -> Result<IgnoredFields, RequestError> {
        let Some(ignored) = &self.ignored else {
            self.finish_strictly()?;
            return Ok(IgnoredFields::default());
        };
        for (name, value) in &self.unread {
            let path = self.path_of(name);
            let added = ignored.borrow_mut().add_unknown(&path, name, value);
            added.map_err(|problem| RequestError::field(path, problem))?;
        }
        if !self.path.is_empty() {
            return Ok(IgnoredFields::default());
        }
        Ok(ignored.take())
    }

    /// Checks that all fields have been read. For objects in which each field may be a constraint.
    ///
    /// # Errors
    /// Returns an error that names the first unread field.
    pub(crate) fn finish_strictly(self) -> Result<(), RequestError> {
        match self.unread.keys().next() {
            Some(name) => Err(RequestError::field(self.path_of(name), Problem::Unrecognized)),
            None => Ok(()),
        }
    }

    /// Creates an error for the field `name`, which may be absent.
    pub(crate) fn error(&self, name: &str, problem: Problem) -> RequestError {
        RequestError::field(self.path_of(name), problem)
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

impl Place {
    /// Creates a value of this program, which stands at `path`. Its unknown fields are errors.
    pub(crate) fn of_value(path: &str, value: Value) -> Self {
        Self { path: path.to_owned(), value, ignored: None }
    }

    /// Parses a JSON text that was accepted before, which stands at `path`. Its unknown fields have no effect.
    pub(crate) fn of_accepted(path: &str, text: &str) -> Result<Self, RequestError> {
        let place = Self { ignored: Some(Rc::default()), ..Self::of_value(path, Value::from(text)) };
        place.decoded()
    }

    /// Replaces the value by a JSON text of this program, at the same path.
    pub(crate) fn replaced(self, text: &str) -> Result<Self, RequestError> {
        Self { value: Value::from(text), ..self }.decoded()
    }

    pub(crate) fn error(&self, problem: Problem) -> RequestError {
        RequestError::field(self.path.clone(), problem)
    }

    fn wrong_type(&self, expected: &'static str) -> RequestError {
        self.error(Problem::Type { expected, found: type_name(&self.value) })
    }

    pub(crate) fn is_string(&self) -> bool {
        self.value.is_string()
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) const fn value(&self) -> &Value {
        &self.value
    }

    /// Notes that the field has no effect.
    pub(crate) fn ignore(self) {
        if let Some(ignored) = &self.ignored {
            ignored.borrow_mut().add_known(&self.path);
        }
    }

    /// Returns the value that the text of this field encodes as JSON, at the same path.
    pub(crate) fn decoded(self) -> Result<Self, RequestError> {
        let Some(text) = self.value.as_str() else { return Ok(self) };
        match formwork_json::from_str(text) {
            Ok(value) => Ok(Self { value, ..self }),
            Err(source) => Err(self.error(Problem::EmbeddedJson(source))),
        }
    }

    pub(crate) fn string(self) -> Result<String, RequestError> {
        match self.value {
            Value::String(text) => Ok(text),
            _ => Err(self.wrong_type("a string")),
        }
    }

    pub(crate) fn non_empty_string(self) -> Result<String, RequestError> {
        if self.value.as_str() == Some("") {
            return Err(self.error(Problem::Empty));
        }
        self.string()
    }

    /// Parses a string with the function `known`, which returns `None` for unsupported values.
    /// `supported` lists the supported values for the error message.
    pub(crate) fn one_of<T>(
        &self,
        known: impl FnOnce(&str) -> Option<T>,
        supported: &'static str,
    ) -> Result<T, RequestError> {
        let given = self.value.as_str().ok_or_else(|| self.wrong_type("a string"))?;
        known(given).ok_or_else(|| self.error(Problem::Value { given: shortened(given), supported }))
    }

    pub(crate) fn bool(self) -> Result<bool, RequestError> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("a boolean"))
    }

    pub(crate) fn number(
        self,
        allowed: RangeInclusive<f32>,
        range: &'static str,
    ) -> Result<f32, RequestError> {
        let given = self.value.as_f64().ok_or_else(|| self.wrong_type("a number"))? as f32;
        if allowed.contains(&given) {
            return Ok(given);
        }
        Err(self.error(Problem::Range { given: self.value.to_string(), range }))
    }

    /// Parses a number as `f64`. `range` describes the allowed numbers for the error message.
    pub(crate) fn double(
        self,
        allowed: RangeInclusive<f64>,
        range: &'static str,
    ) -> Result<f64, RequestError> {
        let given = self.value.as_f64().ok_or_else(|| self.wrong_type("a number"))?;
        if allowed.contains(&given) {
            return Ok(given);
        }
        Err(self.error(Problem::Range { given: self.value.to_string(), range }))
    }

    /// Parses an integer of at least `min`. Integers above `i64::MAX` become `i64::MAX`. `range`
    /// describes the allowed integers for the error message.
    pub(crate) fn integer(&self, min: i64, range: &'static str) -> Result<i64, RequestError> {
        // Some clients send an integer as a float, such as `16.0`.
        let whole =
            |given: f64| (given.fract() == 0.0 && given.abs() < 2f64.powi(53)).then_some(given as i64);
        let given = match (self.value.as_i64(), self.value.as_u64()) {
            (Some(given), _) => given,
            (None, Some(_)) => i64::MAX,
            (None, None) => {
                self.value.as_f64().and_then(whole).ok_or_else(|| self.wrong_type("an integer"))?
            }
        };
        if given >= min {
            return Ok(given);
        }
        Err(self.error(Problem::Range { given: given.to_string(), range }))
    }

    pub(crate) fn positive(self) -> Result<usize, RequestError> {
        Ok(self.integer(1, "at least 1")? as usize)
    }

    /// Parses a token id: an integer in the range of `u32`.
    pub(crate) fn token(&self) -> Result<u32, RequestError> {
        let given = self.integer(0, "at least 0")?;
        let range = "0..=4294967295";
        u32::try_from(given).map_err(|_| self.error(Problem::Range { given: given.to_string(), range }))
    }

    /// Parses an integer from 0 to `limit`. `range` describes these integers for the error message.
    pub(crate) fn up_to(&self, limit: usize, range: &'static str) -> Result<usize, RequestError> {
        let given = self.integer(0, range)?;
        match usize::try_from(given) {
            Ok(given) if given <= limit => Ok(given),
            _ => Err(self.error(Problem::Range { given: given.to_string(), range })),
        }
    }

    /// Parses an integer from 1 to `limit`. `range` describes these integers for the error message.
    pub(crate) fn at_most(&self, limit: usize, range: &'static str) -> Result<usize, RequestError> {
        let given = self.integer(1, range)?;
        match usize::try_from(given) {
            Ok(given) if given <= limit => Ok(given),
            _ => Err(self.error(Problem::Range { given: given.to_string(), range })),
        }
    }

    /// Parses a string of at most `limit` bytes.
    pub(crate) fn string_within(self, limit: usize) -> Result<String, RequestError> {
        match self.value.as_str().map(str::len) {
            Some(given) if given > limit => Err(self.error(Problem::TooLong { given, limit })),
            _ => self.string(),
        }
    }

    /// Parses a signed or unsigned 64-bit integer. A negative seed becomes the unsigned integer
    /// with the same bits, because a seed only matters by being equal or different.
    pub(crate) fn seed(self) -> Result<u64, RequestError> {
        let signed = self.value.as_i64().map(i64::cast_unsigned);
        signed.or_else(|| self.value.as_u64()).ok_or_else(|| self.wrong_type("a 64-bit integer"))
    }

    pub(crate) fn list(self, expected: &'static str) -> Result<Vec<Self>, RequestError> {
        let Value::Array(items) = self.value else { return Err(self.wrong_type(expected)) };
        let place = |(index, value)| {
            let (path, ignored) = (format!("{}[{index}]", self.path), self.ignored.clone());
            Self { path, value, ignored }
        };
        Ok(items.into_iter().enumerate().map(place).collect())
    }

    pub(crate) fn map(self) -> Result<Map<String, Value>, RequestError> {
        match self.value {
            Value::Object(map) => Ok(map),
            _ => Err(self.wrong_type("an object")),
        }
    }

    /// Returns the members of an object, as pairs of name and value.
    pub(crate) fn entries(self) -> Result<Vec<(String, Self)>, RequestError> {
        let (path, ignored) = (self.path.clone(), self.ignored.clone());
        let entry = |(name, value)| {
            let path = format!("{path}.{name}");
            (name, Self { path, value, ignored: ignored.clone() })
        };
        Ok(self.map()?.into_iter().map(entry).collect())
    }

    pub(crate) fn fields(self) -> Result<Fields, RequestError> {
        let (path, ignored) = (self.path.clone(), self.ignored.clone());
        Ok(Fields::new(path, self.map()?, ignored))
    }

    /// Parses a JSON Schema, which must be an object or a boolean.
    pub(crate) fn schema(self) -> Result<Value, RequestError> {
        match self.value {
            Value::Object(_) | Value::Bool(_) => Ok(self.value),
            _ => Err(self.wrong_type("a JSON Schema")),
        }
    }

    /// Returns the text of a definition of fields: an object as JSON, or a string.
    pub(crate) fn definition(&self) -> Result<String, RequestError> {
        match &self.value {
            Value::Object(_) => Ok(self.value.to_string()),
            Value::String(text) => Ok(text.clone()),
            other => {
                let expected = "an object, or a string with YAML or JSON";
                Err(self.error(Problem::Type { expected, found: type_name(other) }))
            }
        }
    }

    /// Parses a JSON Schema, or a string with the JSON text of a schema.
    pub(crate) fn schema_or_text(self) -> Result<Value, RequestError> {
        self.decoded()?.schema()
    }
}

/// Shortens a text of the caller to 40 characters, for an error message.
pub(crate) fn shortened(text: &str) -> String {
    const MAX: usize = 40;
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
