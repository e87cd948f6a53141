//! What can be read off a schema without a value. All of it is linear in the size of the schema, however it refers to itself.

use std::collections::HashSet;

use serde_json::Value;

/// The longest chain of references that is followed.
const CHAIN: usize = 8;

/// The schema that a reference within the document `root` leads to, or the schema itself.
pub(crate) fn resolved<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..CHAIN {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        let Some(found) = target.and_then(|pointer| root.pointer(pointer)) else { break };
        schema = found;
    }
    schema
}

/// The properties that an object of this schema may have by name, those of `allOf`, `anyOf` and `oneOf` included.
pub(crate) fn properties<'a>(root: &'a Value, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
    let mut known = HashSet::new();
    let parts = parts(root, [schema], &["allOf", "anyOf", "oneOf"]);
    let named = parts.into_iter().filter_map(|part| part.get("properties")?.as_object()).flatten();
    named.map(|(name, field)| (name.as_str(), field)).filter(|(name, _)| known.insert(*name)).collect()
}

/// The names that an object of this schema must have, whatever branch it takes.
pub(crate) fn required<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a str> {
    let mut known = HashSet::new();
    let parts = parts(root, [schema], &["allOf"]);
    let names = parts.into_iter().filter_map(|part| part.get("required")?.as_array()).flatten();
    names.filter_map(Value::as_str).filter(|name| known.insert(*name)).collect()
}

/// The type that values of this schema have, if it is one.
pub(crate) fn kind<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a str> {
    let named = |part: &'a Value| part.get("type").and_then(Value::as_str);
    let implied = |part: &Value| part.get("properties").map(|_| "object");
    parts(root, [schema], &["allOf"]).into_iter().find_map(|part| named(part).or_else(|| implied(part)))
}

/// Whether an object in it has a field that may be left out or a field that is not named, so that providers do not take it as strict.
pub(crate) fn is_open(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            let fields = members.get("properties").and_then(Value::as_object);
            let required = members.get("required").and_then(Value::as_array).map_or(0, Vec::len);
            let is_object = fields.is_some() || members.get("type").is_some_and(|kind| kind == "object");
            let closed = members.get("additionalProperties") == Some(&Value::Bool(false));
            (is_object && (!closed || required < fields.map_or(0, serde_json::Map::len)))
                || members.values().any(is_open)
        }
        Value::Array(parts) => parts.iter().any(is_open),
        _ => false,
    }
}

/// Schemas with what stands in them under these keywords, and in that again: each once, in the order of the text.
pub(super) fn parts<'a>(
    root: &'a Value,
    schemas: impl IntoIterator<Item = &'a Value>,
    keywords: &[&str],
) -> Vec<&'a Value> {
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    let mut open: Vec<&Value> = schemas.into_iter().collect();
    open.reverse();
    while let Some(schema) = open.pop() {
        let schema = resolved(root, schema);
        if !known.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        found.push(schema);
        for keyword in keywords.iter().rev() {
            match schema.get(keyword) {
                Some(Value::Array(schemas)) => open.extend(schemas.iter().rev()),
                Some(schema) => open.push(schema),
                None => {}
            }
        }
    }
    found
}
