use serde_json::Value;

use crate::adapt::schema::{kind, properties, required, resolved};

/// Maximum nesting depth of the objects that are checked; the draft itself has depth 1.
const DEPTH: usize = 4;

/// Returns the paths of all fields that `schema` requires and `draft` lacks, such as `at.x` for the
/// field `x` of the object `at`. Fields in arrays, and in objects below the fourth level, are not
/// checked. The types of values are not checked either.
///
/// If `draft` itself must be an object or array and is not, the result is only `an object` or `an
/// array`.
///
/// ```
/// use formwork_protocol::precheck::checklist;
/// use serde_json::json;
/// let schema = json!({
///     "type": "object",
///     "properties": {"name": {"type": "string"}, "at": {"required": ["x"]}},
///     "required": ["name", "at"],
/// });
/// assert_eq!(checklist(&schema, &json!({"at": {}})), ["name", "at.x"]);
/// assert_eq!(checklist(&schema, &json!({"name": 7, "at": {"x": 1}})), [""; 0]);
/// assert_eq!(checklist(&schema, &json!([])), ["an object"]);
/// ```
pub fn checklist(schema: &Value, draft: &Value) -> Vec<String> {
    match (kind(schema, schema), draft) {
        (Some("object"), Value::Object(_)) | (Some("array"), Value::Array(_)) => {}
        (Some("object"), _) => return vec!["an object".to_owned()],
        (Some("array"), _) => return vec!["an array".to_owned()],
        _ => {}
    }
    let mut missing = Vec::new();
    collect((schema, schema), draft, "", DEPTH, &mut missing);
    missing
}

/// Adds the missing fields of `draft` to `missing`. `place` is the path of `draft`, and `depth` is
/// the number of levels still to check.
fn collect(
    (root, schema): (&Value, &Value),
    draft: &Value,
    place: &str,
    depth: usize,
    missing: &mut Vec<String>,
) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let Value::Object(members) = draft else { return };
    let schema = resolved(root, schema);
    let at = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    missing.extend(required(root, schema).into_iter().filter(|name| !members.contains_key(*name)).map(at));
    for (name, field) in properties(root, schema) {
        if let Some(value) = members.get(name) {
            collect((root, field), value, &at(name), depth, missing);
        }
    }
}
