//! Kinds of values that a schema accepts, derived from the schema alone.

use std::collections::HashMap;
use std::ops::{BitAnd, BitOr};

use serde_json::{Map, Value};

/// Maximum nesting depth of subschemas that are inspected.
const DEPTH: usize = 16;
/// Keywords that apply to objects only.
const OF_OBJECTS: [&str; 11] = [
    "additionalProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "maxProperties",
    "minProperties",
    "patternProperties",
    "properties",
    "propertyNames",
    "required",
    "unevaluatedProperties",
];
/// Keywords that apply to arrays only.
const OF_ARRAYS: [&str; 10] = [
    "additionalItems",
    "contains",
    "items",
    "maxContains",
    "maxItems",
    "minContains",
    "minItems",
    "prefixItems",
    "unevaluatedItems",
    "uniqueItems",
];

/// A set of kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const OBJECT: Self = Self(1);
    pub(super) const ARRAY: Self = Self(2);
    pub(super) const STRING: Self = Self(4);
    pub(super) const OTHER: Self = Self(8);
    pub(super) const ANY: Self = Self(15);

    /// Returns the kinds of values that `schema` accepts. The result may be too large, but never
    /// too small.
    pub(super) fn of(schema: &Value) -> Self {
        Reader { root: schema, by_keywords: false, known: HashMap::new() }.kinds(schema, DEPTH)
    }

    /// Returns the kinds of values that the author of `schema` most likely meant.
    ///
    /// If the schema names no type, the kinds follow from its keywords. For example, a schema with
    /// only `properties` accepts any string, but describes objects.
    pub(super) fn meant(schema: &Value) -> Self {
        Reader { root: schema, by_keywords: true, known: HashMap::new() }.kinds(schema, DEPTH)
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

struct Reader<'s> {
    root: &'s Value,
    by_keywords: bool,
    /// Kinds by reference, so that each reference is resolved once. A reference being resolved has
    /// [`Kinds::ANY`].
    known: HashMap<&'s str, Kinds>,
}

impl<'s> Reader<'s> {
    fn kinds(&mut self, schema: &'s Value, depth: usize) -> Kinds {
        let (Value::Object(keywords), Some(depth)) = (schema, depth.checked_sub(1)) else {
            return Kinds::ANY;
        };
        let mut kinds = Kinds::ANY;
        for (keyword, value) in keywords {
            kinds = kinds & self.of_keyword(keyword, value, depth);
        }
        let judged = if self.by_keywords && kinds == Kinds::ANY { judged(keywords) } else { Kinds(0) };
        if judged == Kinds(0) { kinds } else { judged }
    }

    fn of_keyword(&mut self, keyword: &str, value: &'s Value, depth: usize) -> Kinds {
        match (keyword, value) {
            ("type", Value::String(name)) => of_name(name),
            ("type", Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).map(of_name).fold(Kinds(0), Kinds::bitor)
            }
            ("const", value) => of_value(value),
            ("enum", Value::Array(values)) => values.iter().map(of_value).fold(Kinds(0), Kinds::bitor),
            ("anyOf" | "oneOf", Value::Array(schemas)) => {
                schemas.iter().map(|schema| self.kinds(schema, depth)).fold(Kinds(0), Kinds::bitor)
            }
            ("allOf", Value::Array(schemas)) => {
                schemas.iter().map(|schema| self.kinds(schema, depth)).fold(Kinds::ANY, Kinds::bitand)
            }
            ("$ref", Value::String(reference)) => self.referenced(reference, depth),
            _ => Kinds::ANY,
        }
    }

    fn referenced(&mut self, reference: &'s str, depth: usize) -> Kinds {
        if let Some(&known) = self.known.get(reference) {
            return known;
        }
        let pointer = reference.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(schema) = pointer.and_then(|pointer| self.root.pointer(pointer)) else { return Kinds::ANY };
        self.known.insert(reference, Kinds::ANY);
        let kinds = self.kinds(schema, depth);
        self.known.insert(reference, kinds);
        kinds
    }
}

/// Returns the kinds to which at least one of the keywords applies.
fn judged(keywords: &Map<String, Value>) -> Kinds {
    let has = |names: &[&str]| keywords.keys().any(|keyword| names.contains(&keyword.as_str()));
    let of = |kind: Kinds, names: &[&str]| if has(names) { kind } else { Kinds(0) };
    of(Kinds::OBJECT, &OF_OBJECTS) | of(Kinds::ARRAY, &OF_ARRAYS)
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
    fn finds_kinds_behind_references_and_branches() {
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
            assert_eq!(Kinds::meant(&schema), kinds, "{schema}");
        }
    }

    #[test]
    fn infers_kinds_from_keywords_without_a_type() {
        for (schema, kinds) in [
            (json!({ "properties": {} }), Kinds::OBJECT),
            (json!({ "items": {}, "minLength": 1 }), Kinds::ARRAY),
            (json!({ "required": ["a"], "minItems": 1 }), Kinds::OBJECT | Kinds::ARRAY),
            (json!({ "minLength": 1 }), Kinds::ANY),
            (json!({ "type": "array", "properties": {} }), Kinds::ARRAY),
            (json!({ "anyOf": [{ "required": ["a"] }, { "type": "null" }] }), Kinds::OBJECT | Kinds::OTHER),
            (json!({ "allOf": [{ "required": ["a"] }, {}] }), Kinds::OBJECT),
            (
                json!({ "properties": {}, "$ref": "#/$defs/a", "$defs": { "a": { "items": {} } } }),
                Kinds::ARRAY,
            ),
        ] {
            assert_eq!(Kinds::meant(&schema), kinds, "{schema}");
        }
        assert_eq!(Kinds::of(&json!({ "properties": {} })), Kinds::ANY);
    }

    #[test]
    fn follows_references_once() {
        // Each of the ten definitions refers to all ten. Resolving every reference again would take
        // 100 million steps.
        let all: Vec<Value> = (0..10).map(|n| json!({ "$ref": format!("#/$defs/{n}") })).collect();
        let defs: Map<String, Value> = (0..10).map(|n| (n.to_string(), json!({ "anyOf": all }))).collect();
        assert_eq!(Kinds::of(&json!({ "anyOf": all, "$defs": defs })), Kinds::ANY);
    }
}
