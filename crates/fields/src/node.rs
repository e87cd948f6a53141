//! Tree of the values that JSON, YAML and TOML have in common. Maps preserve the order of their
//! members.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Value read from JSON, YAML or TOML, or to be written in one of these formats.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Node {
    Null,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    String(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

impl Node {
    /// Returns the type of the value with its article, such as `a list`, for error messages.
    pub(crate) const fn what(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Boolean(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Number(value) => serializer.serialize_f64(*value),
            Self::String(value) => serializer.serialize_str(value),
            Self::List(items) => items.serialize(serializer),
            Self::Map(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

/// Type that values of all formats can be deserialized into.
pub(crate) trait Tree: Sized {
    /// True if a map with a repeated key is an error.
    const UNIQUE: bool;

    fn null() -> Self;
    fn boolean(value: bool) -> Self;
    fn integer(value: i64) -> Self;
    /// Creates a value for an integer above `i64::MAX`.
    fn large(value: u64) -> Self;
    fn number(value: f64) -> Self;
    fn string(value: String) -> Self;
    fn list(items: Vec<Self>) -> Self;
    fn map(members: Vec<(String, Self)>) -> Self;
}

impl Tree for Node {
    const UNIQUE: bool = true;

    fn null() -> Self {
        Self::Null
    }

    fn boolean(value: bool) -> Self {
        Self::Boolean(value)
    }

    fn integer(value: i64) -> Self {
        Self::Integer(value)
    }

    /// Converts the integer to a float, which may round it. The rounding is harmless, because
    /// numbers of this size are rejected later.
    fn large(value: u64) -> Self {
        Self::Number(value as f64)
    }

    fn number(value: f64) -> Self {
        Self::Number(value)
    }

    fn string(value: String) -> Self {
        Self::String(value)
    }

    fn list(items: Vec<Self>) -> Self {
        Self::List(items)
    }

    fn map(members: Vec<(String, Self)>) -> Self {
        Self::Map(members)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor(PhantomData))
    }
}

/// Visitor that builds a tree of type `T`.
pub(crate) struct TreeVisitor<T>(pub(crate) PhantomData<T>);

impl<'de, T: Tree + Deserialize<'de>> Visitor<'de> for TreeVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::null())
    }

    fn visit_none<E: Error>(self) -> Result<T, E> {
        Ok(T::null())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        Ok(T::boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        Ok(T::integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        Ok(i64::try_from(value).map_or_else(|_| T::large(value), T::integer))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        Ok(T::number(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<T, E> {
        Ok(T::string(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<T, E> {
        Ok(T::string(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<T, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(T::list(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<T, A::Error> {
        let (mut map, mut known) = (Vec::new(), HashSet::new());
        while let Some(key) = members.next_key::<String>()? {
            if T::UNIQUE && !known.insert(key.clone()) {
                return Err(A::Error::custom(format_args!("duplicate key `{key}`")));
            }
            map.push((key, members.next_value()?));
        }
        Ok(T::map(map))
    }
}
