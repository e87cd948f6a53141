//! Access to hyperparameters under their names in GGUF files and in `config.json`.

use std::fmt::Display;

use serde_json::{Map, Value as Json};

use crate::error::Kind;
use crate::gguf::{Array, Gguf, Value};

/// A hyperparameter: its key in a GGUF file, without the architecture's prefix, and its key in a
/// `config.json`.
///
/// A key is empty if the format does not have the field.
#[derive(Clone, Copy)]
pub(crate) struct Field(pub(crate) &'static str, pub(crate) &'static str);

/// The hyperparameters of a checkpoint.
#[derive(Clone, Copy)]
pub(crate) enum Fields<'a> {
    /// A GGUF file, and the name of the architecture that prefixes its keys.
    Gguf(&'a Gguf, &'a str),
    /// A `config.json`, or an object in it.
    Config(&'a Map<String, Json>),
}

impl<'a> Fields<'a> {
    pub(crate) const fn is_config(self) -> bool {
        matches!(self, Self::Config(_))
    }

    /// Returns the full key, for error messages.
    pub(crate) fn name(self, field: Field) -> String {
        match self {
            Self::Gguf(_, architecture) => format!("{architecture}.{}", field.0),
            Self::Config(_) => field.1.to_owned(),
        }
    }

    /// Returns the value of a field, of any type. A JSON `null` counts as absent.
    fn look_up(self, field: Field) -> Option<Found<'a>> {
        match self {
            Self::Gguf(..) if field.0.is_empty() => None,
            Self::Gguf(file, _) => file.value(&self.name(field)).map(Found::Gguf),
            Self::Config(config) => config.get(field.1).filter(|value| !value.is_null()).map(Found::Json),
        }
    }

    fn wrong_type(self, field: Field, found: Found<'_>, expected: &'static str) -> Kind {
        Kind::KeyType { key: self.name(field), given: found.kind_name(), expected }
    }

    pub(crate) fn text(self, field: Field) -> Result<Option<&'a str>, Kind> {
        match self.look_up(field) {
            None => Ok(None),
            Some(Found::Gguf(Value::String(text)) | Found::Json(Json::String(text))) => Ok(Some(text)),
            Some(other) => Err(self.wrong_type(field, other, "a string")),
        }
    }

    pub(crate) fn truth(self, field: Field) -> Result<Option<bool>, Kind> {
        match self.look_up(field) {
            None => Ok(None),
            Some(Found::Gguf(&Value::Bool(truth)) | Found::Json(&Json::Bool(truth))) => Ok(Some(truth)),
            Some(other) => Err(self.wrong_type(field, other, "a bool")),
        }
    }

    pub(crate) fn size(self, field: Field) -> Result<usize, Kind> {
        self.optional_size(field)?.ok_or_else(|| self.missing(field))
    }

    pub(crate) fn missing(self, field: Field) -> Kind {
        Kind::MissingKey { key: self.name(field) }
    }

    /// Reads a size. The value 0 counts as absent.
    pub(crate) fn size_or_none(self, field: Field) -> Result<Option<usize>, Kind> {
        match self.look_up(field) {
            Some(Found::Gguf(Value::Unsigned(0) | Value::Signed(0))) => Ok(None),
            Some(Found::Json(Json::Number(given))) if given.as_u64() == Some(0) => Ok(None),
            _ => self.optional_size(field),
        }
    }

    /// Reads a size from 1 to 2³¹ - 1, so that the product of two sizes does not overflow.
    ///
    /// A GGUF file may have an array with one size per layer, if all are equal.
    pub(crate) fn optional_size(self, field: Field) -> Result<Option<usize>, Kind> {
        let Some(found) = self.look_up(field) else { return Ok(None) };
        let given = match found {
            Found::Gguf(&Value::Unsigned(given)) => given,
            Found::Gguf(&Value::Signed(given)) => given.max(0) as u64,
            Found::Gguf(Value::Array(array)) => self.same_everywhere(field, array)?,
            Found::Json(Json::Number(given)) if given.is_i64() => given.as_i64().unwrap_or(0).max(0) as u64,
            Found::Json(Json::Number(given)) if given.is_u64() => u64::MAX,
            other => return Err(self.wrong_type(field, other, "an unsigned integer")),
        };
        if !(1..1 << 31).contains(&given) {
            let rule = "it must be positive and below 2^31";
            return Err(Kind::KeyValue { key: self.name(field), given: given.to_string(), rule });
        }
        Ok(Some(given as usize))
    }

    /// Reads the sizes of `layers` layers: an array with one size per layer, or one size for all. The
    /// value 0 is allowed in an array.
    pub(crate) fn sizes(self, field: Field, layers: usize) -> Result<Option<Vec<usize>>, Kind> {
        let given: Vec<u64> = match self.look_up(field) {
            Some(Found::Gguf(Value::Array(array))) => self.integers(field, array)?,
            Some(found @ Found::Json(Json::Array(values))) => {
                let integer = |value: &Json| value.as_u64();
                let integers = values.iter().map(integer).collect::<Option<_>>();
                integers.ok_or_else(|| self.wrong_type(field, found, "unsigned integers"))?
            }
            _ => return Ok(self.optional_size(field)?.map(|size| vec![size; layers])),
        };
        self.rule(given.len() == layers, field, given.len(), "expected one entry per layer")?;
        let odd = given.iter().find(|size| **size >= 1 << 31);
        self.rule(odd.is_none(), field, odd.copied().unwrap_or(0), "it must be below 2^31")?;
        Ok(Some(given.into_iter().map(|size| size as usize).collect()))
    }

    fn same_everywhere(self, field: Field, array: &Array) -> Result<u64, Kind> {
        let given = self.integers(field, array)?;
        let differs = given.iter().find(|size| **size != given[0]);
        let rule = "the value must be the same in all layers";
        self.rule(differs.is_none(), field, differs.copied().unwrap_or(0), rule)?;
        Ok(given.first().copied().unwrap_or(0))
    }

    /// Returns the integers in an array of a GGUF file. Negative ones count as 0.
    fn integers(self, field: Field, array: &Array) -> Result<Vec<u64>, Kind> {
        let Self::Gguf(file, _) = self else { return Err(self.missing(field)) };
        let integer = |value| match value {
            Ok(Value::Unsigned(given)) => Ok(given),
            Ok(Value::Signed(given)) => Ok(given.max(0) as u64),
            _ => {
                Err(self.wrong_type(field, Found::Gguf(&Value::Array(array.clone())), "an unsigned integer"))
            }
        };
        file.array_values(array).map(integer).collect()
    }

    pub(crate) fn float(self, field: Field) -> Result<Option<f32>, Kind> {
        let given = match self.look_up(field) {
            None => return Ok(None),
            Some(Found::Gguf(&Value::Float(given))) => given,
            Some(Found::Json(Json::Number(given))) => given.as_f64().unwrap_or(f64::NAN),
            Some(other) => return Err(self.wrong_type(field, other, "a float")),
        };
        if !(given as f32).is_finite() {
            let rule = "it must be finite";
            return Err(Kind::KeyValue { key: self.name(field), given: given.to_string(), rule });
        }
        Ok(Some(given as f32))
    }

    /// Reads a number above 0.
    pub(crate) fn positive(self, field: Field) -> Result<Option<f32>, Kind> {
        let given = self.float(field)?;
        self.rule(given.is_none_or(|given| given > 0.0), field, given.unwrap_or(0.0), "it must be positive")?;
        Ok(given)
    }

    pub(crate) fn rule(
        self,
        holds: bool,
        field: Field,
        given: impl Display,
        rule: &'static str,
    ) -> Result<(), Kind> {
        if holds {
            return Ok(());
        }
        Err(Kind::KeyValue { key: self.name(field), given: given.to_string(), rule })
    }

    /// Returns the fields of a nested object of a `config.json`.
    pub(crate) fn within(self, key: &str) -> Option<Self> {
        match self {
            Self::Config(config) => Some(Self::Config(config.get(key)?.as_object()?)),
            Self::Gguf(..) => None,
        }
    }

    /// Returns the numbers in an array of a `config.json`. Infinity, for which JSON has no number, is
    /// the string `Infinity` or `{"__float__": "Infinity"}`.
    pub(crate) fn numbers_or_infinity(self, key: &'static str) -> Result<Option<Vec<f32>>, Kind> {
        match self {
            Self::Config(config) => match config.get(key) {
                Some(Json::Array(numbers)) => {
                    let number = |value: &Json| match value.get("__float__").unwrap_or(value) {
                        Json::String(text) if text == "Infinity" => Some(f32::INFINITY),
                        other => other.as_f64().map(|number| number as f32),
                    };
                    let expected = "an array of numbers";
                    let wrong = || Kind::KeyType {
                        key: key.to_owned(),
                        given: "an array with other values",
                        expected,
                    };
                    numbers.iter().map(number).collect::<Option<_>>().map(Some).ok_or_else(wrong)
                }
                _ => self.numbers(key),
            },
            Self::Gguf(..) => Ok(None),
        }
    }

    /// Returns the numbers in an array of a `config.json`.
    pub(crate) fn numbers(self, key: &'static str) -> Result<Option<Vec<f32>>, Kind> {
        let Self::Config(config) = self else { return Ok(None) };
        let expected = "an array of numbers";
        match config.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Array(numbers)) => {
                let number = |value: &Json| value.as_f64().map(|number| number as f32);
                let wrong =
                    || Kind::KeyType { key: key.to_owned(), given: "an array with other values", expected };
                numbers.iter().map(number).collect::<Option<_>>().map(Some).ok_or_else(wrong)
            }
            Some(other) => Err(self.wrong_type(Field("", key), Found::Json(other), expected)),
        }
    }

    /// Returns the flags in an array of a GGUF file, one per layer. Returns `None` if the value is
    /// not such an array.
    pub(crate) fn flags(self, field: Field) -> Option<Vec<bool>> {
        let (Self::Gguf(file, _), Some(Found::Gguf(Value::Array(array)))) = (self, self.look_up(field))
        else {
            return None;
        };
        let flag = |value| match value {
            Ok(Value::Bool(flag)) => Some(flag),
            Ok(Value::Unsigned(flag)) => Some(flag != 0),
            Ok(Value::Signed(flag)) => Some(flag != 0),
            _ => None,
        };
        file.array_values(array).map(flag).collect()
    }

    /// Returns the strings in an array of a `config.json`.
    pub(crate) fn texts(self, key: &'static str) -> Result<Option<Vec<&'a str>>, Kind> {
        let Self::Config(config) = self else { return Ok(None) };
        let expected = "an array of strings";
        match config.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Array(texts)) => {
                let wrong =
                    || Kind::KeyType { key: key.to_owned(), given: "an array with other values", expected };
                texts.iter().map(Json::as_str).collect::<Option<_>>().map(Some).ok_or_else(wrong)
            }
            Some(other) => Err(self.wrong_type(Field("", key), Found::Json(other), expected)),
        }
    }
}

#[derive(Clone, Copy)]
enum Found<'a> {
    Gguf(&'a Value),
    Json(&'a Json),
}

impl Found<'_> {
    const fn kind_name(self) -> &'static str {
        match self {
            Self::Gguf(value) => value.kind_name(),
            Self::Json(Json::Null) => "null",
            Self::Json(Json::Bool(_)) => "a bool",
            Self::Json(Json::Number(_)) => "a number",
            Self::Json(Json::String(_)) => "a string",
            Self::Json(Json::Array(_)) => "an array",
            Self::Json(Json::Object(_)) => "an object",
        }
    }
}
