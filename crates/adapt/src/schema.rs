//! Queries on a schema without a value. All queries take linear time in the size of the schema,
//! even if the schema is recursive.

use std::collections::HashSet;

use jsonschema::{ValidationError, Validator};
use serde_json::Value;
use thiserror::Error;

use crate::references;

/// Maximum number of references followed in a row.
const CHAIN: usize = 8;

/// Error of a schema that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{reason}", if path.is_empty() { String::new() } else { format!("at {path}: ") })]
pub struct SchemaError {
    /// JSON pointer to the part of the schema. Empty for the whole schema.
    pub path: String,
    /// Description of the error without its place.
    pub reason: String,
}

impl From<ValidationError<'_>> for SchemaError {
    fn from(error: ValidationError<'_>) -> Self {
        Self { path: error.instance_path().as_str().to_owned(), reason: error.to_string() }
    }
}

/// Compiles a schema to a validator that asserts formats, as the engine does. References to other
/// documents are not fetched.
///
/// ```
/// use formwork_adapt::schema;
/// let error = schema::validator(&serde_json::json!({"allOf": [{"$ref": "#"}]})).unwrap_err();
/// assert!(error.to_string().starts_with("`$ref` leads back to the schema itself"), "{error}");
/// ```
///
/// # Errors
/// Returns an error in these cases:
///
/// - `schema` is not a valid JSON Schema.
/// - A reference leads back to itself without a member or item between.
/// - More than 100,000 schemas apply to one value through references.
pub fn validator(schema: &Value) -> Result<Validator, SchemaError> {
    references::check(schema)?;
    Ok(jsonschema::options().should_validate_formats(true).build(schema)?)
}

/// Returns the target of the schema's reference within the document `root`. A schema without a
/// reference is returned unchanged.
pub fn resolved<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..CHAIN {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        let Some(found) = target.and_then(|pointer| root.pointer(pointer)) else { break };
        schema = found;
    }
    schema
}

/// Returns the named properties of an object of this schema, including properties in `allOf`,
/// `anyOf` and `oneOf`.
pub fn properties<'a>(root: &'a Value, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
    let mut known = HashSet::new();
    let parts = parts(root, [schema], &["allOf", "anyOf", "oneOf"]);
    let named = parts.into_iter().filter_map(|part| part.get("properties")?.as_object()).flatten();
    named.map(|(name, field)| (name.as_str(), field)).filter(|(name, _)| known.insert(*name)).collect()
}

/// Returns the properties that an object of this schema must have, whichever branches match.
pub fn required<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a str> {
    let mut known = HashSet::new();
    let parts = parts(root, [schema], &["allOf"]);
    let names = parts.into_iter().filter_map(|part| part.get("required")?.as_array()).flatten();
    names.filter_map(Value::as_str).filter(|name| known.insert(*name)).collect()
}

/// Returns the type of all values of this schema, if there is a single type.
pub fn kind<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a str> {
    let named = |part: &'a Value| part.get("type").and_then(Value::as_str);
    let implied = |part: &Value| part.get("properties").map(|_| "object");
    parts(root, [schema], &["allOf"]).into_iter().find_map(|part| named(part).or_else(|| implied(part)))
}

/// Returns the schemas and all schemas nested in them under these keywords. Each schema occurs
/// once, in document order.
pub(crate) fn parts<'a>(
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
