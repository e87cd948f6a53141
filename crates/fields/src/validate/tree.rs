//! JSON values with all of their members, also those that come twice.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::number::Number;
use crate::field::Scalar;

/// The most characters of a value that an error shows.
const SHOWN: usize = 60;

/// A JSON value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Json {
    Null,
    Boolean(bool),
    Number(Number),
    String(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Json {
    pub(super) const fn is_boolean(&self) -> bool {
        matches!(self, Self::Boolean(_))
    }

    pub(super) const fn as_number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(string) => Some(string),
            _ => None,
        }
    }

    pub(super) fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn as_object(&self) -> Option<&[(String, Self)]> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Whether it is this value; numbers are compared as such, so `2.0` is 2.
    pub(super) fn is(&self, value: &Scalar) -> bool {
        match (self, value) {
            (Self::Boolean(given), Scalar::Boolean(value)) => given == value,
            (Self::String(given), Scalar::String(value)) => given == value,
            (Self::Number(given), Scalar::Integer(value)) => given.equals(Number::Integer((*value).into())),
            (Self::Number(given), Scalar::Number(value)) => given.equals(Number::Float(*value)),
            _ => false,
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => value.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::String(string) => {
                let shown: String = string.chars().take(SHOWN).collect();
                let more = if shown.len() < string.len() { "…" } else { "" };
                write!(f, "{shown:?}{more}")
            }
            Self::Array(items) => write!(f, "a list of {}", items.len()),
            Self::Object(members) if members.len() == 1 => {
                write!(f, "an object with the member {:?}", members[0].0)
            }
            Self::Object(members) => write!(f, "an object with {} members", members.len()),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(Number::Integer(value.into())))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(Number::Integer(value.into())))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Number(Number::Float(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Json::Object(object))
    }
}
