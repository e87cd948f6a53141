//! JSON whose objects repeat no key. `serde_json` would silently keep the last of several members.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::error::quoted;

/// A JSON value without repeated keys.
pub(super) struct UniqueKeys(pub(super) Value);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(UniqueKeys(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            match object.entry(key) {
                Entry::Occupied(entry) => {
                    let key = quoted(entry.key());
                    return Err(A::Error::custom(format_args!("the key {key} occurs twice")));
                }
                Entry::Vacant(entry) => {
                    let UniqueKeys(value) = members.next_value()?;
                    entry.insert(value);
                }
            }
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_same_values_as_serde_json() {
        let nested = format!("{}1{}", "[".repeat(1000), "]".repeat(1000));
        for text in [r#"{"a": [1, -2, 1.5, "b", true, null], "c": {"a": {}}}"#, "\"\\u00e9\"", &nested] {
            let UniqueKeys(value) = formwork_json::from_str(text).expect("JSON");
            assert_eq!(value, formwork_json::from_str::<Value>(text).expect("JSON"));
        }
    }

    #[test]
    fn rejects_a_repeated_key() {
        let error = formwork_json::from_str::<UniqueKeys>(r#"{"a": {"b": 1, "b": 2}}"#).err();
        assert_eq!(error.expect("an error").problem(), "the key \"b\" occurs twice");
    }
}
