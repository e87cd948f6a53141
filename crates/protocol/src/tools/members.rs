//! JSON with the repeated members of its objects.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// JSON value whose objects keep repeated members.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Object(Vec<(String, Tree)>),
    Array(Vec<Tree>),
    Leaf(Value),
}

/// Repeated member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    pub(super) name: String,
    /// True if the repetitions have equal values.
    pub(super) is_equal: bool,
}

impl Tree {
    /// Returns the last member of an object with this name.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        let Self::Leaf(value) = self else { return None };
        value.as_str()
    }

    pub(super) const fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Returns the JSON text, with repeated members.
    pub(super) fn text(&self) -> String {
        // Plain data, so the conversion cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the value. A repeated member has its last value.
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), value.value()));
                members.collect::<Map<_, _>>().into()
            }
            Self::Array(items) => items.iter().map(Self::value).collect(),
            Self::Leaf(value) => value.clone(),
        }
    }

    /// Returns the repeated members, at all levels.
    pub(super) fn repeated(&self) -> Vec<Repeated> {
        let mut found = Vec::new();
        self.add_repeated(&mut found);
        found
    }

    fn add_repeated(&self, found: &mut Vec<Repeated>) {
        match self {
            Self::Object(members) => {
                let mut first: std::collections::HashMap<&str, &Self> = std::collections::HashMap::new();
                for (name, value) in members {
                    value.add_repeated(found);
                    if let Some(before) = first.insert(name, value) {
                        let is_equal = normalized(before.value()) == normalized(value.value());
                        found.push(Repeated { name: name.clone(), is_equal });
                    }
                }
            }
            Self::Array(items) => items.iter().for_each(|item| item.add_repeated(found)),
            Self::Leaf(_) => {}
        }
    }
}

/// Returns a value in which equal numbers are written alike: 1.0 becomes 1.
pub(super) fn normalized(value: Value) -> Value {
    /// Limit below which each whole number is exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            #[expect(clippy::cast_possible_truncation, reason = "the number is whole and below the limit")]
            Some(float) if float.fract() == 0.0 && float.abs() < EXACT => (float as i64).into(),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(normalized).collect(),
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, normalized(value)));
            members.collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
            Self::Array(items) => items.serialize(serializer),
            Self::Leaf(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Tree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
                Ok(Tree::Leaf(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
                Ok(Tree::Leaf(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
                Ok(Tree::Leaf(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
                Ok(Tree::Leaf(value.into()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
                Ok(Tree::Leaf(value.into()))
            }

            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Leaf(Value::Null))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
                let mut read = Vec::new();
                while let Some(item) = items.next_element()? {
                    read.push(item);
                }
                Ok(Tree::Array(read))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
                let mut read = Vec::new();
                while let Some(member) = members.next_entry()? {
                    read.push(member);
                }
                Ok(Tree::Object(read))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keeps_repeated_members() {
        let text = r#"{"a":1,"b":{"c":"x","c":"y"},"a":1.0,"d":[{"e":null,"e":null}]}"#;
        let tree: Tree = serde_json::from_str(text).expect("JSON");
        assert_eq!(tree.text(), text);
        assert_eq!(tree.value(), json!({ "a": 1.0, "b": { "c": "y" }, "d": [{ "e": null }] }));
        let repeated: Vec<_> =
            tree.repeated().into_iter().map(|found| (found.name, found.is_equal)).collect();
        let expected = [("c", false), ("a", true), ("e", true)];
        assert_eq!(repeated, expected.map(|(name, is_equal)| (name.to_owned(), is_equal)));
    }

    #[test]
    fn equal_numbers_are_written_alike() {
        assert_eq!(
            normalized(json!([1.0, { "a": -2.0 }, 0.5, 1e300, "1.0"])),
            json!([1, { "a": -2 }, 0.5, 1e300, "1.0"])
        );
    }
}
