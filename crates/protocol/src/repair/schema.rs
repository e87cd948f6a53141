//! What can be read off a schema without a value.

use serde_json::Value;

/// The deepest chain of references and combinations that is followed.
const DEPTH: usize = 8;

/// The schema that a reference within the document `root` leads to, or the schema itself.
pub(crate) fn resolved<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..DEPTH {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        let Some(found) = target.and_then(|pointer| root.pointer(pointer)) else { break };
        schema = found;
    }
    schema
}

/// The properties that an object of this schema may have by name, those of `allOf`, `anyOf` and `oneOf` included.
pub(crate) fn properties<'a>(root: &'a Value, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
    let mut found = Vec::new();
    collect(root, schema, DEPTH, &mut |part| {
        for (name, value) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if !found.iter().any(|(known, _)| known == name) {
                found.push((name.as_str(), value));
            }
        }
    });
    found
}

/// The names that an object of this schema must have, whatever branch it takes.
pub(crate) fn required<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a str> {
    let mut found = Vec::new();
    visit_all(root, schema, DEPTH, &mut |part| {
        let names = part.get("required").and_then(Value::as_array).into_iter().flatten();
        found.extend(names.filter_map(Value::as_str));
    });
    found
}

/// The type that values of this schema have, if it is one.
pub(crate) fn kind<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a str> {
    let mut found = None;
    visit_all(root, schema, DEPTH, &mut |part| {
        found = found.or_else(|| part.get("type").and_then(Value::as_str));
        if found.is_none() && part.get("properties").is_some() {
            found = Some("object");
        }
    });
    found
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

/// The schema and what holds along with it.
fn visit_all<'a>(root: &'a Value, schema: &'a Value, depth: usize, see: &mut impl FnMut(&'a Value)) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let schema = resolved(root, schema);
    see(schema);
    for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        visit_all(root, part, depth, see);
    }
}

/// The schema with all of its branches.
fn collect<'a>(root: &'a Value, schema: &'a Value, depth: usize, see: &mut impl FnMut(&'a Value)) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let schema = resolved(root, schema);
    see(schema);
    for name in ["allOf", "anyOf", "oneOf"] {
        for part in schema.get(name).and_then(Value::as_array).into_iter().flatten() {
            collect(root, part, depth, see);
        }
    }
}
