//! JSON values that keep all members, including duplicates.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer};

use super::number::Number;
use crate::field::Scalar;
use crate::node::{Tree, TreeVisitor};

/// Maximum number of characters of a string that an error message shows.
const SHOWN: usize = 60;

/// JSON value. An object keeps all its members in source order, including duplicates.
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

    /// Reports whether this value equals `value`. Numbers are compared by value, so `2.0` equals 2.
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
            Self::Array(items) => write!(f, "a list of length {}", items.len()),
            Self::Object(members) if members.len() == 1 => {
                write!(f, "an object with the member {:?}", members[0].0)
            }
            Self::Object(members) => write!(f, "an object with {} members", members.len()),
        }
    }
}

impl Tree for Json {
    const UNIQUE: bool = false;

    fn null() -> Self {
        Self::Null
    }

    fn boolean(value: bool) -> Self {
        Self::Boolean(value)
    }

    fn integer(value: i64) -> Self {
        Self::Number(Number::Integer(value.into()))
    }

    fn large(value: u64) -> Self {
        Self::Number(Number::Integer(value.into()))
    }

    fn number(value: f64) -> Self {
        Self::Number(Number::Float(value))
    }

    fn string(value: String) -> Self {
        Self::String(value)
    }

    fn list(items: Vec<Self>) -> Self {
        Self::Array(items)
    }

    fn map(members: Vec<(String, Self)>) -> Self {
        Self::Object(members)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor(PhantomData))
    }
}
