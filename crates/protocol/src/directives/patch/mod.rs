//! Small patches that are easier for models to write than JSON Patch (RFC 6902).
//!
//! A patch is a list of operations, such as `{"op": "set", "path": "/draft/name", "value": "Ava"}`:
//!
//! - `set` sets `value` at `path`, and creates missing parent objects.
//! - `delete` deletes the member or item at `path`.
//! - `append` appends `value` to the array at `path`, and creates a missing array.
//! - `insert` inserts `value` into the array at `path`, before the item at `index`. If `index` is
//!   the length of the array, `value` becomes the last item.
//!
//! A path is a JSON pointer (RFC 6901) that begins with `/draft/` or `/ui_state/`.
//! [`normalize_patch_ops`] corrects common deviations of models, [`validate_patch_ops`] reports
//! invalid operations, and [`apply`] applies a patch.

mod apply;

use serde_json::{Map, Value, json};

use super::parser::kind_of;
use super::{Issue, shortened};

pub use apply::{PatchError, apply};

/// Allowed first parts of a path, without the leading slash.
const ROOTS: [&str; 2] = ["draft/", "ui_state/"];
/// Maximum number of characters that a message quotes from the input.
const TOLD: usize = 80;

/// Corrects the operations in `ops` that a model wrote in another form. Valid operations stay
/// unchanged.
///
/// - A single object becomes a list with one operation.
/// - `add` and `replace` become `set`, `remove` becomes `delete`, and `push` becomes `append`. An
///   operation with a `value` at the end of an array (`/-`) becomes `append`. Case and surrounding whitespace of a
///   name are ignored.
/// - A missing, null or blank `op` becomes `set` if there is a `value`, and `delete` otherwise.
/// - A path that does not begin with `/` is trimmed. A trimmed path that begins with `draft/` or
///   `ui_state/` gets a leading slash. Any other path without a slash at the start is placed below
///   `/draft/`: `name` becomes `/draft/name`.
///
/// ```
/// use formwork_protocol::directives::patch::normalize_patch_ops;
/// use serde_json::json;
/// let ops = normalize_patch_ops(json!({ "op": "replace", "path": "name", "value": "Ava" }));
/// assert_eq!(ops, json!([{ "op": "set", "path": "/draft/name", "value": "Ava" }]));
/// ```
#[must_use]
pub fn normalize_patch_ops(ops: Value) -> Value {
    match ops {
        Value::Object(_) => json!([normalize(ops)]),
        Value::Array(ops) => ops.into_iter().map(normalize).collect(),
        other => other,
    }
}

/// Applies [`normalize_patch_ops`] to the field `ops` of `payload`. Before that, other forms of the
/// payload are corrected:
///
/// - If `payload` has no `ops`, a field `operations` or `patch` with operations becomes `ops`.
/// - Operations may be a string with the JSON text of a list or an object.
/// - Operations may be an object whose only field is again `ops`, `operations` or `patch`.
/// - If `payload` has none of these fields but a string `path`, its fields `op`, `path`, `value` and
///   `index` become one operation.
pub fn normalize_payload(payload: &mut Map<String, Value>) {
    if !payload.contains_key("ops") {
        let found = LISTS[1..].iter().find(|&&name| payload.get(name).and_then(operations).is_some());
        if let Some(value) = found.and_then(|&name| payload.shift_remove(name)) {
            payload.insert("ops".to_owned(), value);
        }
    }
    if let Some(ops) = payload.get("ops").and_then(operations) {
        payload.insert("ops".to_owned(), ops);
    }
    if !payload.contains_key("ops") && payload.get("path").is_some_and(Value::is_string) {
        let names = ["op", "path", "value", "index"];
        let member = |name: &str| Some((name.to_owned(), payload.shift_remove(name)?));
        let op: Map<_, _> = names.into_iter().filter_map(member).collect();
        payload.insert("ops".to_owned(), op.into());
    }
    if let Some(ops) = payload.get_mut("ops") {
        *ops = normalize_patch_ops(ops.take());
    }
}

/// Names of the field with the operations, the normal one first.
const LISTS: [&str; 3] = ["ops", "operations", "patch"];

/// Returns the list or the single operation in `value`, which may be JSON text or an object around
/// the list. Returns `None` if `value` has no operations.
fn operations(value: &Value) -> Option<Value> {
    let decoded = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let value = decoded.as_ref().unwrap_or(value);
    match value {
        Value::Array(_) => Some(value.clone()),
        Value::Object(members) if members.len() == 1 => {
            let inner = LISTS.iter().find_map(|&name| members.get(name))?;
            inner.is_array().then(|| inner.clone())
        }
        Value::Object(members) => members.contains_key("path").then(|| value.clone()),
        _ => None,
    }
}

/// Corrects one operation, as [`normalize_patch_ops`] describes.
fn normalize(op: Value) -> Value {
    let Value::Object(mut op) = op else { return op };
    if let Some(Value::String(path)) = op.get_mut("path")
        && let Some(normal) = normal_path(path)
    {
        *path = normal;
    }
    let given = match op.get("op") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(name)) => name.trim().to_lowercase(),
        Some(_) => return op.into(),
    };
    let name = match given.as_str() {
        "" | "add" | "replace" | "set" | "insert" | "append" | "push" if at_the_end(&mut op) => "append",
        "" if op.contains_key("value") => "set",
        "" | "remove" => "delete",
        "add" | "replace" => "set",
        "push" => "append",
        other => other,
    };
    // A missing `op` is inserted first, where models write it.
    if !op.contains_key("op") {
        op.shift_insert(0, "op".to_owned(), name.into());
    } else if NAMES.contains(&name) {
        op.insert("op".to_owned(), name.into());
    }
    op.into()
}

/// Values of `op` in valid operations.
const NAMES: [&str; 4] = ["set", "delete", "append", "insert"];

/// Removes `/-`, which stands for the end of an array, from the end of the path of an operation with
/// a value. Returns true if the path ended in `/-`.
fn at_the_end(op: &mut Map<String, Value>) -> bool {
    if !op.contains_key("value") {
        return false;
    }
    let Some(Value::String(path)) = op.get_mut("path") else { return false };
    let array = path.trim_end_matches("/-").len();
    let is_at_the_end = array < path.len();
    path.truncate(array);
    is_at_the_end
}

/// Returns the corrected form of the path `given`, or `None` if the path stays unchanged.
fn normal_path(given: &str) -> Option<String> {
    let path = given.trim();
    if path.is_empty() || given.starts_with('/') {
        return None;
    }
    let rooted = ROOTS.iter().any(|root| path.starts_with(root));
    Some(match path {
        path if path.starts_with('/') => path.to_owned(),
        path if rooted => format!("/{path}"),
        path => format!("/draft/{path}"),
    })
}

/// Returns an issue for each invalid operation in `ops`. The issue's details give the index of the
/// operation, as in `{"op": 1}`. If `ops` is not an array, the result is a single issue.
///
/// The codes are `OPS_NOT_AN_ARRAY`, `OP_NOT_AN_OBJECT`, `UNKNOWN_OP`, `MISSING_PATH`,
/// `INVALID_PATH`, `MISSING_VALUE`, `MISSING_INDEX` and `INVALID_INDEX`.
pub fn validate_patch_ops(ops: &Value) -> Vec<Issue> {
    let Value::Array(ops) = ops else {
        let message = format!("`ops` is {}, not an array", kind_of(ops));
        return vec![Issue::new("OPS_NOT_AN_ARRAY").with_message(message)];
    };
    let wrong = |(index, op): (usize, &Value)| {
        let (code, message) = fault(op)?;
        let issue = Issue::new(code).with_message(format!("ops[{index}]: {message}"));
        Some(Issue { details: Some(json!({ "op": index })), ..issue })
    };
    ops.iter().enumerate().filter_map(wrong).collect()
}

/// Returns the code and message of the first error in the operation `op`, or `None` if the
/// operation is valid.
fn fault(op: &Value) -> Option<(&'static str, String)> {
    let Value::Object(op) = op else {
        return Some(("OP_NOT_AN_OBJECT", format!("an operation is an object, not {}", kind_of(op))));
    };
    let name = op.get("op").and_then(Value::as_str).filter(|name| NAMES.contains(name));
    let Some(name) = name else {
        let given = op.get("op").unwrap_or(&Value::Null);
        let given = shortened(&given.to_string(), TOLD);
        return Some(("UNKNOWN_OP", format!("unknown `op` {given}; expected one of {}", NAMES.join(", "))));
    };
    let Some(path) = op.get("path") else { return Some(("MISSING_PATH", "missing `path`".to_owned())) };
    let Some(path) = path.as_str() else {
        return Some(("INVALID_PATH", format!("`path` is {}, not a string", kind_of(path))));
    };
    if let Some(reason) = path_fault(path) {
        return Some(("INVALID_PATH", format!("`{}` {reason}", shortened(path, TOLD))));
    }
    if name != "delete" && path.ends_with("/-") {
        let path = shortened(path, TOLD);
        return Some(("INVALID_PATH", format!("`{path}` ends with `/-`; expected `append` at the array")));
    }
    if name != "delete" && !op.contains_key("value") {
        return Some(("MISSING_VALUE", format!("`{name}` needs a `value`")));
    }
    match op.get("index") {
        _ if name != "insert" => None,
        None => Some(("MISSING_INDEX", "`insert` needs an `index`".to_owned())),
        Some(index) if index.as_u64().is_some() => None,
        Some(index) => {
            let given = shortened(&index.to_string(), TOLD);
            Some(("INVALID_INDEX", format!("`index` is {given}; expected a non-negative integer")))
        }
    }
}

/// Returns the reason why a path is invalid, or `None` if the path is valid.
fn path_fault(path: &str) -> Option<&'static str> {
    let within =
        path.strip_prefix('/').and_then(|path| ROOTS.iter().find_map(|root| path.strip_prefix(root)));
    let Some(within) = within else { return Some("does not begin with `/draft/` or `/ui_state/`") };
    if within.split('/').any(str::is_empty) {
        return Some("contains an empty segment");
    }
    let escapes = within.split('~').skip(1);
    let bad = escapes.into_iter().any(|rest| !rest.starts_with(['0', '1']));
    bad.then_some("contains a `~` other than `~0` or `~1`")
}

#[cfg(test)]
mod tests;
