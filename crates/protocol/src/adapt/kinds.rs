//! What kinds of values a schema takes, as far as that can be seen.

use std::ops::{BitAnd, BitOr};

use serde_json::Value;

/// How deep schemas are looked into.
const DEPTH: usize = 16;

/// A set of kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const OBJECT: Self = Self(1);
    pub(super) const ARRAY: Self = Self(2);
    pub(super) const STRING: Self = Self(4);
    pub(super) const OTHER: Self = Self(8);
    pub(super) const ANY: Self = Self(15);

    /// The kinds of which a value of `schema` can be, and perhaps more.
    pub(super) fn of(schema: &Value) -> Self {
        of(schema, schema, DEPTH)
    }

    pub(super) const fn has(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }
}

impl BitOr for Kinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Kinds {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

fn of(root: &Value, schema: &Value, depth: usize) -> Kinds {
    let (Value::Object(keywords), Some(depth)) = (schema, depth.checked_sub(1)) else { return Kinds::ANY };
    let within = |schema: &Value| of(root, schema, depth);
    let either = |schemas: &[Value]| schemas.iter().map(within).fold(Kinds(0), Kinds::bitor);
    keywords.iter().fold(Kinds::ANY, |kinds, (keyword, value)| {
        kinds
            & match (keyword.as_str(), value) {
                ("type", Value::String(name)) => of_name(name),
                ("type", Value::Array(names)) => {
                    names.iter().filter_map(Value::as_str).map(of_name).fold(Kinds(0), Kinds::bitor)
                }
                ("const", value) => of_value(value),
                ("enum", Value::Array(values)) => values.iter().map(of_value).fold(Kinds(0), Kinds::bitor),
                ("anyOf" | "oneOf", Value::Array(schemas)) => either(schemas),
                ("allOf", Value::Array(schemas)) => {
                    schemas.iter().map(within).fold(Kinds::ANY, Kinds::bitand)
                }
                ("$ref", Value::String(reference)) => {
                    let pointer =
                        reference.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/'));
                    pointer.and_then(|pointer| root.pointer(pointer)).map_or(Kinds::ANY, within)
                }
                _ => Kinds::ANY,
            }
    })
}

fn of_name(name: &str) -> Kinds {
    match name {
        "object" => Kinds::OBJECT,
        "array" => Kinds::ARRAY,
        "string" => Kinds::STRING,
        _ => Kinds::OTHER,
    }
}

fn of_value(value: &Value) -> Kinds {
    match value {
        Value::Object(_) => Kinds::OBJECT,
        Value::Array(_) => Kinds::ARRAY,
        Value::String(_) => Kinds::STRING,
        _ => Kinds::OTHER,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_found_behind_references_and_branches() {
        let recursive = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "anyOf": [{ "type": "array" }, { "$ref": "#/$defs/a" }] } } });
        for (schema, kinds) in [
            (json!({}), Kinds::ANY),
            (json!(true), Kinds::ANY),
            (json!({ "type": "object" }), Kinds::OBJECT),
            (json!({ "type": ["array", "null"] }), Kinds::ARRAY | Kinds::OTHER),
            (
                json!({ "anyOf": [{ "type": "array" }, { "type": "object" }], "type": "object" }),
                Kinds::OBJECT,
            ),
            (
                json!({ "allOf": [{ "type": ["array", "object"] }, { "type": ["array", "string"] }] }),
                Kinds::ARRAY,
            ),
            (json!({ "enum": ["a", 1] }), Kinds::STRING | Kinds::OTHER),
            (json!({ "$ref": "#/$defs/a", "$defs": { "a": { "const": {} } } }), Kinds::OBJECT),
            (recursive, Kinds::ANY),
        ] {
            assert_eq!(Kinds::of(&schema), kinds, "{schema}");
        }
    }
}
