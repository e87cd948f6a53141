use serde_json::{Map, Value};
use thiserror::Error;

use super::validate_patch_ops;

/// Error in the first operation of a patch that is invalid or cannot be applied. The document stays
/// unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("ops[{op}]: {problem}")]
pub struct PatchError {
    op: usize,
    problem: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum Fault {
    #[error("{message}")]
    NotAnOperation { code: String, message: String },
    #[error("nothing found at {path}")]
    Nothing { path: String },
    #[error("the value at {path} is not an array")]
    NotAnArray { path: String },
    #[error("the value at {path} is not an object or array")]
    NoParts { path: String },
    #[error("index {given} is out of range for the array at {path} ({length} items)")]
    Index { path: String, given: String, length: usize },
}

impl PatchError {
    /// Returns the index of the failed operation, from 0. Also returns 0 if the patch is not an
    /// array.
    pub const fn op(&self) -> usize {
        self.op
    }

    /// Returns the error code: a code of [`validate_patch_ops`], `PATH_NOT_FOUND`, `NOT_AN_ARRAY`,
    /// `NOT_A_CONTAINER` or `INDEX_OUT_OF_RANGE`.
    pub fn code(&self) -> &str {
        match &self.problem {
            Fault::NotAnOperation { code, .. } => code,
            Fault::Nothing { .. } => "PATH_NOT_FOUND",
            Fault::NotAnArray { .. } => "NOT_AN_ARRAY",
            Fault::NoParts { .. } => "NOT_A_CONTAINER",
            Fault::Index { .. } => "INDEX_OUT_OF_RANGE",
        }
    }
}

/// Applies the operations in `ops` to `document`, an object with the members `draft` and
/// `ui_state`. If an operation fails, no operation is applied.
///
/// ```
/// use formwork_protocol::directives::patch::apply;
/// use serde_json::json;
/// let mut document = json!({ "draft": { "name": "A" } });
/// apply(&mut document, &json!([
///     { "op": "set", "path": "/draft/name", "value": "Ava" },
///     { "op": "append", "path": "/draft/tags", "value": "new" },
/// ]))?;
/// assert_eq!(document, json!({ "draft": { "name": "Ava", "tags": ["new"] } }));
/// # Ok::<(), formwork_protocol::directives::patch::PatchError>(())
/// ```
///
/// # Errors
/// Returns an error for the first operation that is invalid or cannot be applied.
pub fn apply(document: &mut Value, ops: &Value) -> Result<(), PatchError> {
    if let Some(issue) = validate_patch_ops(ops).into_iter().next() {
        let op = issue.details.and_then(|details| details["op"].as_u64()).unwrap_or_default() as usize;
        let message = issue.message.unwrap_or_default();
        let message = message.split_once(": ").map_or(message.as_str(), |(_, message)| message).to_owned();
        return Err(PatchError { op, problem: Fault::NotAnOperation { code: issue.code, message } });
    }
    let mut patched = document.clone();
    for (at, op) in ops.as_array().into_iter().flatten().enumerate() {
        step(&mut patched, op).map_err(|problem| PatchError { op: at, problem })?;
    }
    *document = patched;
    Ok(())
}

/// Applies `op`, which must be a valid operation.
fn step(document: &mut Value, op: &Value) -> Result<(), Fault> {
    let path = Path::new(op["path"].as_str().unwrap_or_default());
    let value = || op["value"].clone();
    match op["op"].as_str() {
        Some("set") => path.set(document, value()),
        Some("delete") => path.delete(document),
        Some("append") => {
            path.make(document, path.parts.len(), || Value::Array(Vec::new()))?;
            let array = path.array(document)?;
            array.push(value());
            Ok(())
        }
        _ => {
            let index = op["index"].as_u64().and_then(|index| usize::try_from(index).ok());
            let array = path.array(document)?;
            let Some(index) = index.filter(|&index| index <= array.len()) else {
                let (given, length) = (op["index"].to_string(), array.len());
                return Err(Fault::Index { path: path.to(path.parts.len()), given, length });
            };
            array.insert(index, value());
            Ok(())
        }
    }
}

/// A JSON pointer, split into unescaped parts.
struct Path {
    parts: Vec<String>,
}

impl Path {
    fn new(pointer: &str) -> Self {
        let part = |part: &str| part.replace("~1", "/").replace("~0", "~");
        Self { parts: pointer.split('/').skip(1).map(part).collect() }
    }

    /// Returns the first `count` parts as a JSON pointer.
    fn to(&self, count: usize) -> String {
        let part = |part: &String| format!("/{}", part.replace('~', "~0").replace('/', "~1"));
        self.parts[..count].iter().map(part).collect()
    }

    /// Returns the value in `document` at the first `count` parts of the path.
    fn get<'v>(&self, document: &'v mut Value, count: usize) -> Result<&'v mut Value, Fault> {
        let mut value = document;
        for at in 0..count {
            let here = || self.to(at);
            let part = &self.parts[at];
            value = match value {
                Value::Object(members) => {
                    members.get_mut(part).ok_or_else(|| Fault::Nothing { path: self.to(at + 1) })?
                }
                Value::Array(items) => {
                    let length = items.len();
                    let index = index(part).filter(|&index| index < length);
                    let index =
                        index.ok_or_else(|| Fault::Index { path: here(), given: part.clone(), length })?;
                    &mut items[index]
                }
                _ => return Err(Fault::NoParts { path: here() }),
            };
        }
        Ok(value)
    }

    /// Creates missing members of objects along the first `count` parts of the path. The member for
    /// the last of these parts gets the value `last()`, and the members before it become empty
    /// objects.
    fn make(&self, document: &mut Value, count: usize, last: impl Fn() -> Value) -> Result<(), Fault> {
        if document.is_null() {
            *document = Value::Object(Map::new());
        }
        for at in 0..count {
            let value = self.get(document, at)?;
            if let Value::Object(members) = value
                && !members.contains_key(&self.parts[at])
            {
                let new = if at + 1 == count { last() } else { Value::Object(Map::new()) };
                members.insert(self.parts[at].clone(), new);
            }
        }
        Ok(())
    }

    fn array<'v>(&self, document: &'v mut Value) -> Result<&'v mut Vec<Value>, Fault> {
        let value = self.get(document, self.parts.len())?;
        value.as_array_mut().ok_or_else(|| Fault::NotAnArray { path: self.to(self.parts.len()) })
    }

    fn set(&self, document: &mut Value, value: Value) -> Result<(), Fault> {
        self.make(document, self.parts.len(), || Value::Null)?;
        *self.get(document, self.parts.len())? = value;
        Ok(())
    }

    fn delete(&self, document: &mut Value) -> Result<(), Fault> {
        // Fails if there is nothing to delete.
        self.get(document, self.parts.len())?;
        let Some((last, parents)) = self.parts.split_last() else { return Ok(()) };
        match self.get(document, parents.len())? {
            Value::Object(members) => {
                members.shift_remove(last);
            }
            Value::Array(items) => {
                if let Some(index) = index(last) {
                    items.remove(index);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Parses an array index of a JSON pointer, which must not have leading zeros.
fn index(part: &str) -> Option<usize> {
    let plain = part == "0" || (!part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit()));
    part.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "cases are written where they are used")]
    fn applied(document: &Value, ops: Value) -> Result<Value, String> {
        let mut document = document.clone();
        let before = document.clone();
        match apply(&mut document, &ops) {
            Ok(()) => Ok(document),
            Err(error) => {
                assert_eq!(document, before, "nothing of it is applied");
                Err(format!("{} {error}", error.code()))
            }
        }
    }

    #[test]
    fn applies_each_operation() {
        let document = json!({ "draft": { "a": 1, "list": [1, 2], "deep": [{ "x": 1 }] }, "ui_state": {} });
        for (op, draft) in [
            (
                json!({ "op": "set", "path": "/draft/a", "value": null }),
                json!({ "a": null, "list": [1, 2], "deep": [{ "x": 1 }] }),
            ),
            (
                json!({ "op": "set", "path": "/draft/list/1", "value": 9 }),
                json!({ "a": 1, "list": [1, 9], "deep": [{ "x": 1 }] }),
            ),
            (
                json!({ "op": "set", "path": "/draft/deep/0/y", "value": 2 }),
                json!({ "a": 1, "list": [1, 2], "deep": [{ "x": 1, "y": 2 }] }),
            ),
            (json!({ "op": "delete", "path": "/draft/deep" }), json!({ "a": 1, "list": [1, 2] })),
            (
                json!({ "op": "delete", "path": "/draft/list/0" }),
                json!({ "a": 1, "list": [2], "deep": [{ "x": 1 }] }),
            ),
            (
                json!({ "op": "append", "path": "/draft/list", "value": 3 }),
                json!({ "a": 1, "list": [1, 2, 3], "deep": [{ "x": 1 }] }),
            ),
            (
                json!({ "op": "insert", "path": "/draft/list", "index": 0, "value": 0 }),
                json!({ "a": 1, "list": [0, 1, 2], "deep": [{ "x": 1 }] }),
            ),
            (
                json!({ "op": "insert", "path": "/draft/list", "index": 2, "value": 3 }),
                json!({ "a": 1, "list": [1, 2, 3], "deep": [{ "x": 1 }] }),
            ),
        ] {
            let patched = applied(&document, json!([op])).expect("applied");
            assert_eq!(patched["draft"], draft, "{op}");
        }
        let made = applied(
            &json!({}),
            json!([
                { "op": "set", "path": "/draft/a/b", "value": 1 },
                { "op": "append", "path": "/ui_state/x/y", "value": 2 },
                { "op": "set", "path": "/draft/a~1b~0", "value": 3 },
            ]),
        );
        assert_eq!(
            made,
            Ok(json!({ "draft": { "a": { "b": 1 }, "a/b~": 3 }, "ui_state": { "x": { "y": [2] } } }))
        );
    }

    #[test]
    fn a_failed_patch_leaves_the_document_unchanged() {
        let document = json!({ "draft": { "a": 1, "list": [1, 2] } });
        for (op, told) in [
            (
                json!({ "op": "delete", "path": "/draft/b" }),
                "PATH_NOT_FOUND ops[1]: nothing found at /draft/b",
            ),
            (
                json!({ "op": "delete", "path": "/draft/b/c" }),
                "PATH_NOT_FOUND ops[1]: nothing found at /draft/b",
            ),
            (
                json!({ "op": "append", "path": "/draft/a", "value": 1 }),
                "NOT_AN_ARRAY ops[1]: the value at /draft/a is not an array",
            ),
            (
                json!({ "op": "insert", "path": "/draft/b", "index": 0, "value": 1 }),
                "PATH_NOT_FOUND ops[1]: nothing found at /draft/b",
            ),
            (
                json!({ "op": "insert", "path": "/draft/list", "index": 3, "value": 1 }),
                "INDEX_OUT_OF_RANGE ops[1]: index 3 is out of range for the array at /draft/list (2 items)",
            ),
            (
                json!({ "op": "set", "path": "/draft/list/2", "value": 1 }),
                "INDEX_OUT_OF_RANGE ops[1]: index 2 is out of range for the array at /draft/list (2 items)",
            ),
            (
                json!({ "op": "set", "path": "/draft/list/01", "value": 1 }),
                "INDEX_OUT_OF_RANGE ops[1]: index 01 is out of range for the array at /draft/list (2 items)",
            ),
            (
                json!({ "op": "set", "path": "/draft/a/b", "value": 1 }),
                "NOT_A_CONTAINER ops[1]: the value at /draft/a is not an object or array",
            ),
            (
                json!({ "op": "move", "path": "/draft/a" }),
                "UNKNOWN_OP ops[1]: unknown `op` \"move\"; expected one of set, delete, append, insert",
            ),
        ] {
            let ops = json!([{ "op": "set", "path": "/draft/a", "value": 2 }, op]);
            assert_eq!(applied(&document, ops), Err(told.to_owned()));
        }
        assert_eq!(
            applied(&document, json!(7)),
            Err("OPS_NOT_AN_ARRAY ops[0]: `ops` is a number, not an array".to_owned())
        );
    }
}
