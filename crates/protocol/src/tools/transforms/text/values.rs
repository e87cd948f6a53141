//! Types of arguments that a model wrote as raw text.

use serde_json::Value;

use super::super::super::members::Tree;
use super::super::super::registry::{Lookup, ToolSource};
use super::python;

/// Types that a schema admits, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Types(u8);

impl Types {
    const STRING: Self = Self(1);
    const ALL: Self = Self(0x3f);

    fn of_name(name: &str) -> Self {
        Self(match name {
            "string" => 1,
            "integer" | "number" => 2,
            "boolean" => 4,
            "null" => 8,
            "array" => 16,
            "object" => 32,
            _ => 0,
        })
    }

    fn of_value(value: &Value) -> Self {
        Self::of_name(match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        })
    }

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the types that `schema` admits at its top level, or all types if this is not clear.
    fn of_schema(schema: &Value, depth: usize) -> Self {
        let union = |types: &mut dyn Iterator<Item = Self>| Self(types.fold(0, |bits, types| bits | types.0));
        if depth == 0 {
            return Self::ALL;
        }
        match schema.get("type") {
            Some(Value::String(name)) => return Self::of_name(name),
            Some(Value::Array(names)) => {
                return union(&mut names.iter().filter_map(Value::as_str).map(Self::of_name));
            }
            _ => {}
        }
        if let Some(value) = schema.get("const") {
            return Self::of_value(value);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return union(&mut values.iter().map(Self::of_value));
        }
        for name in ["anyOf", "oneOf"] {
            if let Some(branches) = schema.get(name).and_then(Value::as_array) {
                return union(&mut branches.iter().map(|branch| Self::of_schema(branch, depth - 1)));
            }
        }
        Self::ALL
    }
}

/// Returns the value of the argument `name` of `tool` that was written as `text`.
///
/// If the schema admits a type other than string and `text` is the JSON or Python spelling of such a
/// value, the result is this value. Any other text is a string.
pub(super) fn typed(tools: &dyn ToolSource, tool: &str, name: &str, text: &str) -> Value {
    let types = match tools.find(tool) {
        Lookup::Found(found) => found
            .definition()
            .parameters
            .get("properties")
            .and_then(|properties| properties.get(name))
            .map_or(Types::ALL, |schema| Types::of_schema(schema, 8)),
        _ => Types::ALL,
    };
    if types == Types::STRING {
        return text.into();
    }
    let other = literal(text).filter(|value| !value.is_string());
    match other {
        Some(value) if types.has(Types::of_value(&value)) || !types.has(Types::STRING) => value,
        _ => text.into(),
    }
}

/// Reads `text` as a JSON or Python value. JSON in which a member occurs twice with different values
/// stays text.
pub(super) fn literal(text: &str) -> Option<Value> {
    let text = text.trim();
    match serde_json::from_str::<Tree>(text) {
        Ok(tree) => tree.repeated().iter().all(|member| member.is_equal).then(|| tree.value()),
        Err(_) => python::value(text),
    }
}
