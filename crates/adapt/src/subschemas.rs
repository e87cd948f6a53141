//! Access to the subschemas nested in a JSON Schema.

use serde_json::Value;

/// Keywords with a schema or a list of schemas as value.
const SCHEMAS: [&str; 17] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "extends",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords with an object of named schemas as value.
const MAPS: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Returns the schemas directly in the value of `keyword`.
pub fn subschemas<'s>(keyword: &str, value: &'s Value) -> Vec<&'s Value> {
    match value {
        Value::Object(members) if MAPS.contains(&keyword) => members.values().collect(),
        Value::Array(items) if SCHEMAS.contains(&keyword) => items.iter().collect(),
        value if SCHEMAS.contains(&keyword) => vec![value],
        _ => Vec::new(),
    }
}

/// Returns mutable references to the schemas directly in the value of `keyword`.
///
/// Each schema comes with its member name or list index, or `None` if it is the whole value.
pub fn subschemas_mut<'s>(keyword: &str, value: &'s mut Value) -> Vec<(Option<String>, &'s mut Value)> {
    let is_schema = SCHEMAS.contains(&keyword);
    if is_schema && !value.is_array() {
        return vec![(None, value)];
    }
    match value {
        Value::Object(members) if MAPS.contains(&keyword) => {
            members.iter_mut().map(|(name, schema)| (Some(name.clone()), schema)).collect()
        }
        Value::Array(items) if is_schema => {
            items.iter_mut().enumerate().map(|(index, schema)| (Some(index.to_string()), schema)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_subschemas_in_lists_objects_and_alone() {
        for (keyword, value, places) in [
            (
                "properties",
                json!({ "a/b": { "type": "null" }, "not": true }),
                &[Some("a/b"), Some("not")][..],
            ),
            ("anyOf", json!([{}, true]), &[Some("0"), Some("1")]),
            ("items", json!([{}]), &[Some("0")]),
            ("items", json!({ "properties": {} }), &[None]),
            ("enum", json!([{}]), &[]),
            ("const", json!({}), &[]),
        ] {
            let mut copy = value.clone();
            let found: Vec<(Option<String>, Value)> = subschemas_mut(keyword, &mut copy)
                .into_iter()
                .map(|(at, schema)| (at, schema.clone()))
                .collect();
            assert_eq!(found.iter().map(|(at, _)| at.as_deref()).collect::<Vec<_>>(), places, "{keyword}");
            assert_eq!(
                found.iter().map(|(_, schema)| schema).collect::<Vec<_>>(),
                subschemas(keyword, &value)
            );
        }
    }
}
