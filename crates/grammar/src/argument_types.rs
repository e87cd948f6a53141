use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Type of a JSON value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ValueType {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number, with or without a fraction.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl ValueType {
    /// All types.
    pub const ALL: [Self; 6] =
        [Self::Null, Self::Boolean, Self::Number, Self::String, Self::Array, Self::Object];

    /// Returns the type of `value`.
    pub const fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }
}

/// A set of types of JSON values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ValueTypes(u8);

impl ValueTypes {
    /// The set of all types.
    pub const ALL: Self = Self(0b11_1111);
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns true if the set contains `kind`.
    pub const fn has(self, kind: ValueType) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }

    /// Returns the set with `kind` added.
    #[must_use]
    pub const fn with(self, kind: ValueType) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Returns the set without `kind`.
    #[must_use]
    pub const fn without(self, kind: ValueType) -> Self {
        Self(self.0 & !(1 << kind as u8))
    }

    /// Returns true if `other` contains all types of this set.
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<ValueType> for ValueTypes {
    fn from_iter<I: IntoIterator<Item = ValueType>>(types: I) -> Self {
        types.into_iter().fold(Self::NONE, Self::with)
    }
}

/// Names of members that a notation can write.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Names {
    /// Names without control characters and without these characters.
    Without(String),
    /// Identifiers of Python: letters, digits and `_`.
    Identifiers,
}

/// The types that each argument of a tool may have.
///
/// Some formats write a string as raw text, so that `5` may stand for the string or the number.
/// These types decide: a text is read as a string only if no other admitted type has this text.
///
/// The types are found in the keywords that state them, without solving the schema. A set may
/// therefore have a type that no valid value has, but never lacks a type that some valid value has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ArgumentTypes(BTreeMap<String, ValueTypes>);

/// Maximum number of subschemas that are visited for one schema. Types that are not found by then
/// are unrestricted.
const VISITS: usize = 4096;

/// Maximum nesting depth of the visits.
const DEPTH: usize = 64;

impl ArgumentTypes {
    /// Finds the types of the properties that `schema`, the schema of a tool's arguments, describes.
    pub fn of(schema: &Value) -> Self {
        let mut reader = TypeReader { root: schema, visits: VISITS, has_ids: has_ids(schema, DEPTH) };
        let mut names = BTreeSet::new();
        reader.names(schema, &mut names, DEPTH);
        let types = names.into_iter().map(|name| {
            let types = reader.property(schema, name, DEPTH);
            (name.to_owned(), types)
        });
        Self(types.collect())
    }

    /// Returns the types that the argument `name` may have. All types if the schema does not mention
    /// the name.
    pub fn get(&self, name: &str) -> ValueTypes {
        self.0.get(name).copied().unwrap_or(ValueTypes::ALL)
    }
}

/// Reports whether a subschema has a URI of its own, which changes the meaning of references in it.
fn has_ids(schema: &Value, depth: usize) -> bool {
    let below = |value: &Value| match value {
        Value::Object(object) => object.values().any(|value| depth == 0 || has_ids_in(value, depth - 1)),
        _ => false,
    };
    below(schema)
}

fn has_ids_in(value: &Value, depth: usize) -> bool {
    match value {
        Value::Object(object) => {
            let has_id = ["$id", "id"].iter().any(|key| object.get(*key).is_some_and(Value::is_string));
            has_id || object.values().any(|value| depth == 0 || has_ids_in(value, depth - 1))
        }
        Value::Array(items) => items.iter().any(|value| depth == 0 || has_ids_in(value, depth - 1)),
        _ => false,
    }
}

struct TypeReader<'s> {
    root: &'s Value,
    visits: usize,
    has_ids: bool,
}

/// Keywords with a list of subschemas that apply to the same value.
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

impl<'s> TypeReader<'s> {
    /// Returns false once the schema has been visited too often or too deeply.
    const fn visits(&mut self, depth: usize) -> bool {
        self.visits = self.visits.saturating_sub(1);
        self.visits > 0 && depth > 0
    }

    /// Collects the names of declared properties in `schema` and in the subschemas that apply to the
    /// same object.
    fn names(&mut self, schema: &'s Value, names: &mut BTreeSet<&'s str>, depth: usize) {
        let Some(object) = schema.as_object().filter(|_| self.visits(depth)) else { return };
        if let Some(Value::Object(properties)) = object.get("properties") {
            names.extend(properties.keys().map(String::as_str));
        }
        for part in LISTS.iter().filter_map(|key| object.get(*key)?.as_array()).flatten() {
            self.names(part, names, depth - 1);
        }
        if let Some(target) = self.target(object) {
            self.names(target, names, depth - 1);
        }
    }

    /// Returns the types that the property `name` of an object with `schema` may have.
    fn property(&mut self, schema: &'s Value, name: &str, depth: usize) -> ValueTypes {
        let Some(object) = schema.as_object().filter(|_| self.visits(depth)) else { return ValueTypes::ALL };
        if object.contains_key("$ref") {
            return match self.target(object) {
                Some(target) => self.property(target, name, depth - 1),
                None => ValueTypes::ALL,
            };
        }
        let declared = object.get("properties").and_then(|properties| properties.get(name));
        let own = declared.map_or(ValueTypes::ALL, |schema| self.types(schema, depth - 1));
        self.combined(object, own, |reader, part| reader.property(part, name, depth - 1))
    }

    /// Returns the types that a value with `schema` may have.
    fn types(&mut self, schema: &'s Value, depth: usize) -> ValueTypes {
        let Some(object) = schema.as_object().filter(|_| self.visits(depth)) else { return ValueTypes::ALL };
        if object.contains_key("$ref") {
            return match self.target(object) {
                Some(target) => self.types(target, depth - 1),
                None => ValueTypes::ALL,
            };
        }
        let own = [
            object.get("type").map(named),
            object.get("const").map(|value| ValueTypes::NONE.with(ValueType::of(value))),
            object.get("enum").and_then(Value::as_array).map(|all| all.iter().map(ValueType::of).collect()),
        ];
        let own = own.into_iter().flatten().fold(ValueTypes::ALL, ValueTypes::and);
        let own = match object.get("nullable") {
            Some(Value::Bool(true)) => own.with(ValueType::Null),
            _ => own,
        };
        self.combined(object, own, |reader, part| reader.types(part, depth - 1))
    }

    /// Combines the types `own` with those of the subschemas that apply to the same value.
    fn combined(
        &mut self,
        object: &'s Map<String, Value>,
        own: ValueTypes,
        mut types: impl FnMut(&mut Self, &'s Value) -> ValueTypes,
    ) -> ValueTypes {
        let list = |key: &str| object.get(key).and_then(Value::as_array);
        let all = list("allOf").into_iter().flatten();
        let mut result = all.fold(own, |result, part| result.and(types(self, part)));
        for ways in ["anyOf", "oneOf"].into_iter().filter_map(list) {
            result = result.and(ways.iter().fold(ValueTypes::NONE, |any, part| any.or(types(self, part))));
        }
        result
    }

    /// Returns the schema that the reference of `object` leads to, if it is a pointer into this
    /// document.
    fn target(&self, object: &'s Map<String, Value>) -> Option<&'s Value> {
        let pointer = object.get("$ref")?.as_str()?.strip_prefix('#').filter(|_| !self.has_ids)?;
        let is_plain = !pointer.contains('%') && (pointer.is_empty() || pointer.starts_with('/'));
        self.root.pointer(pointer).filter(|_| is_plain)
    }
}

/// Returns the types that a value of the keyword `type` names.
fn named(names: &Value) -> ValueTypes {
    match names {
        Value::Array(names) => names.iter().map(named).fold(ValueTypes::NONE, ValueTypes::or),
        Value::String(name) => match name.as_str() {
            "null" => ValueTypes::NONE.with(ValueType::Null),
            "boolean" => ValueTypes::NONE.with(ValueType::Boolean),
            "number" | "integer" => ValueTypes::NONE.with(ValueType::Number),
            "string" => ValueTypes::NONE.with(ValueType::String),
            "array" => ValueTypes::NONE.with(ValueType::Array),
            "object" => ValueTypes::NONE.with(ValueType::Object),
            _ => ValueTypes::ALL,
        },
        _ => ValueTypes::ALL,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ValueType::{Array, Boolean, Null, Number, Object, String};
    use super::*;

    #[test]
    fn finds_the_types_of_arguments() {
        let types = ArgumentTypes::of(&json!({
            "type": "object",
            "$defs": { "size": { "type": ["integer", "null"] }, "loop": { "$ref": "#/$defs/loop" } },
            "properties": {
                "text": { "type": "string" },
                "size": { "$ref": "#/$defs/size", "description": "ignored" },
                "flag": { "anyOf": [{ "type": "boolean" }, { "const": "auto" }] },
                "list": { "allOf": [{ "type": ["array", "object"] }, { "type": ["object", "string"] }] },
                "loop": { "$ref": "#/$defs/loop" },
                "open": {},
                "old": { "type": "string", "nullable": true },
                "far": { "$ref": "https://example.com/schema" },
            },
            "oneOf": [
                { "properties": { "either": { "type": "number" } } },
                { "properties": { "either": { "enum": [[1], "a"] } } },
            ],
        }));
        let set = |types: &[ValueType]| types.iter().copied().collect::<ValueTypes>();
        for (name, expected) in [
            ("text", set(&[String])),
            ("size", set(&[Number, Null])),
            ("flag", set(&[Boolean, String])),
            ("list", set(&[Object])),
            ("loop", ValueTypes::ALL),
            ("open", ValueTypes::ALL),
            ("old", set(&[String, Null])),
            ("far", ValueTypes::ALL),
            ("either", set(&[Number, Array, String])),
            ("unknown", ValueTypes::ALL),
        ] {
            assert_eq!(types.get(name), expected, "{name}");
        }
    }

    #[test]
    fn a_schema_that_multiplies_is_visited_a_bounded_number_of_times() {
        let mut schema = json!({ "type": "string" });
        for _ in 0..60 {
            schema = json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }], "properties": { "a": schema } });
        }
        assert_eq!(ArgumentTypes::of(&schema).get("a"), ValueTypes::ALL);
    }
}
