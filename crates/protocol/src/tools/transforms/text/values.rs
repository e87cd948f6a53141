//! Types of arguments that a model wrote as raw text.

use serde_json::Value;

use super::super::super::members::Tree;
use super::super::super::registry::{Lookup, ToolSource};
use super::{python, short};

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

    /// Returns the types that `schema` admits. Keywords that are not clear admit all types.
    ///
    /// `budget` bounds the number of schemas that are visited.
    fn of_schema(root: &Value, schema: &Value, budget: &mut usize) -> Self {
        let Some(left) = budget.checked_sub(1) else { return Self::ALL };
        *budget = left;
        let union = |types: &mut dyn Iterator<Item = Self>| Self(types.fold(0, |bits, types| bits | types.0));
        let mut types = match schema.get("type") {
            Some(Value::String(name)) => Self::of_name(name),
            Some(Value::Array(names)) => {
                union(&mut names.iter().filter_map(Value::as_str).map(Self::of_name))
            }
            _ => Self::ALL,
        };
        if let Some(value) = schema.get("const") {
            types.0 &= Self::of_value(value).0;
        }
        let list = |name: &str| schema.get(name).and_then(Value::as_array);
        if let Some(values) = list("enum") {
            types.0 &= union(&mut values.iter().map(Self::of_value)).0;
        }
        for branches in ["anyOf", "oneOf"].into_iter().filter_map(list) {
            types.0 &= union(&mut branches.iter().map(|branch| Self::of_schema(root, branch, budget))).0;
        }
        for branch in list("allOf").into_iter().flatten() {
            types.0 &= Self::of_schema(root, branch, budget).0;
        }
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
        if let Some(target) = reference.and_then(|path| root.pointer(path)) {
            types.0 &= Self::of_schema(root, target, budget).0;
        }
        types
    }

    /// Returns the types of the argument `name` of a tool with these `parameters`.
    fn of_argument(parameters: &Value, name: &str) -> Self {
        let declared = parameters.get("properties").and_then(|properties| properties.get(name));
        let schema = declared.or_else(|| parameters.get("additionalProperties"));
        schema.map_or(Self::ALL, |schema| Self::of_schema(parameters, schema, &mut 64))
    }
}

/// Reports whether the argument `name` of `tool` may be a string.
pub(super) fn may_be_text(tools: &dyn ToolSource, tool: &str, name: &str) -> bool {
    types(tools, tool, name).has(Types::STRING)
}

/// Returns the types of the argument `name` of `tool`.
fn types(tools: &dyn ToolSource, tool: &str, name: &str) -> Types {
    let found = [tool, short(tool)].iter().find_map(|tool| match tools.find(tool) {
        Lookup::Found(found) => Some(Types::of_argument(&found.definition().parameters, name)),
        Lookup::Masked | Lookup::Unknown => None,
    });
    found.unwrap_or(Types::ALL)
}

/// Returns the value of the argument `name` of `tool` that was written as `text`.
///
/// If the schema admits a type other than string and `text` is the JSON or Python spelling of such a
/// value, the result is this value. Any other text is a string. Beside strings, the spelling must be exact.
pub(super) fn typed(tools: &dyn ToolSource, tool: &str, name: &str, text: &str) -> Value {
    let types = types(tools, tool, name);
    if types == Types::STRING {
        return text.into();
    }
    let may_be_text = types.has(Types::STRING);
    if may_be_text && text.trim().len() < text.len() {
        return text.into();
    }
    let other = literal(text).or_else(|| {
        // Some models write booleans in capitals.
        let word = text.trim();
        let of = |value: bool| word.eq_ignore_ascii_case(&value.to_string()).then(|| value.into());
        (!may_be_text).then(|| of(true).or_else(|| of(false))).flatten()
    });
    match other.filter(|value| !value.is_string()) {
        Some(value) if types.has(Types::of_value(&value)) || !may_be_text => value,
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
