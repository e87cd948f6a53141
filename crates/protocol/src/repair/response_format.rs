use serde_json::{Value, json};

use super::Shape;
use crate::directives::Mode;

/// Returns the `response_format` that requests a shape in a mode, or `None` for prompt-only mode.
pub fn response_format(shape: &Shape, mode: Mode) -> Option<Value> {
    match mode {
        Mode::JsonSchema => {
            let strict = !is_open(shape.schema());
            let named = json!({ "name": shape.name(), "strict": strict, "schema": shape.schema() });
            Some(json!({ "type": "json_schema", "json_schema": named }))
        }
        Mode::JsonObject => Some(json!({ "type": "json_object" })),
        Mode::PromptOnly => None,
    }
}

/// Reports whether an object in the schema has optional or unnamed fields. Providers reject such a
/// schema in strict mode.
fn is_open(schema: &Value) -> bool {
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
