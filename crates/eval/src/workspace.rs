//! Workspace for the evaluation of tool calling: a JSON document in memory, with tools that read
//! and change it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use formwork_backend::Body;
use formwork_protocol::directives::patch;
use formwork_protocol::tools::{Closure, Problem, ToolDefinition, ToolRegistry, ToolsError};

/// Id of the workspace, which each tool call must give.
pub(super) const ID: &str = "ws_4f1c";

/// A JSON document with the members `draft` and `ui_state`. Clones share the document.
#[derive(Clone)]
pub(super) struct Workspace {
    state: Arc<Mutex<Value>>,
}

impl Workspace {
    pub(super) fn new() -> Self {
        let state = json!({ "draft": { "title": "Untitled" }, "ui_state": {} });
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the value at a JSON pointer into the document, or `None` if there is no such value.
    pub(super) fn get(&self, pointer: &str) -> Option<Value> {
        self.lock().pointer(pointer).cloned()
    }

    /// Returns the tools `state_get` and `state_patch`, which work on this document.
    ///
    /// # Errors
    /// Returns an error if the definition of a tool is invalid.
    pub(super) fn tools(&self) -> Result<ToolRegistry, ToolsError> {
        let mut registry = ToolRegistry::new();
        let id = json!({ "type": "string", "description": "The id of the workspace." });
        let parameters = json!({ "type": "object", "properties": { "workspace_id": id } });
        let get = ToolDefinition::new("state_get", "Reads the state of a workspace.", parameters);
        let this = self.clone();
        registry.add(get, Closure::new(move |arguments: &Body| this.read(arguments)))?;
        let op = json!({
            "type": "object",
            "properties": {
                "op": { "type": "string", "enum": ["set", "delete", "append", "insert"] },
                "path": { "type": "string", "description": "Where, such as /draft/title." },
                "value": { "description": "The value, for all but delete." },
                "index": { "type": "integer", "description": "Before which item, for insert." },
            },
            "required": ["op", "path"],
        });
        let ops = json!({ "type": "array", "items": op, "minItems": 1 });
        let parameters = json!({
            "type": "object",
            "properties": { "workspace_id": id, "ops": ops },
            "required": ["ops"],
        });
        let change = ToolDefinition::new("state_patch", "Changes the state of a workspace.", parameters);
        let this = self.clone();
        registry.add(change, Closure::new(move |arguments: &Body| this.patch(arguments)))?;
        Ok(registry)
    }

    fn read(&self, arguments: &Body) -> Result<Value, Problem> {
        check_id(arguments)?;
        Ok(self.lock().clone())
    }

    /// Implements `state_patch`: applies all operations, or none if one of them fails.
    fn patch(&self, arguments: &Body) -> Result<Value, Problem> {
        check_id(arguments)?;
        let ops = arguments.get("ops").cloned().unwrap_or_default();
        let mut state = self.lock();
        let mut changed = state.clone();
        patch::apply(&mut changed, &patch::normalize_patch_ops(ops))
            .map_err(|error| Problem::new(error.code(), error.to_string()))?;
        check_age(&changed)?;
        *state = changed;
        Ok(state.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Value> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_id(arguments: &Body) -> Result<(), Problem> {
    match arguments.get("workspace_id").and_then(Value::as_str) {
        Some(ID) => Ok(()),
        None | Some("") => {
            let message = format!("workspace_id is missing; the open workspace is \"{ID}\"");
            Err(Problem::new("MISSING_WORKSPACE_ID", message))
        }
        Some(given) => {
            let message = format!("there is no workspace \"{given}\"; the open workspace is \"{ID}\"");
            Err(Problem::new("WORKSPACE_NOT_FOUND", message))
        }
    }
}

/// Checks that `/draft/age`, if present, is an integer. Other values of the draft may have any
/// type.
fn check_age(state: &Value) -> Result<(), Problem> {
    match &state["draft"]["age"] {
        Value::Null => Ok(()),
        age if age.is_i64() => Ok(()),
        age => {
            let message = format!("/draft/age must be an integer such as 42, not {age}");
            Err(Problem::new("TYPE_ERROR", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(value: &Value) -> Body {
        value.as_object().cloned().expect("an object")
    }

    #[test]
    fn only_the_open_workspace_is_accessible() {
        let workspace = Workspace::new();
        let code = |given| workspace.read(&arguments(&given)).map_err(|problem| problem.code);
        assert_eq!(code(json!({})), Err("MISSING_WORKSPACE_ID".to_owned()));
        assert_eq!(code(json!({ "workspace_id": "ws" })), Err("WORKSPACE_NOT_FOUND".to_owned()));
        assert_eq!(code(json!({ "workspace_id": ID })).expect("the state")["draft"]["title"], "Untitled");
    }

    #[test]
    fn patches_are_atomic() {
        let workspace = Workspace::new();
        let patch = |ops| workspace.patch(&arguments(&json!({ "workspace_id": ID, "ops": ops })));
        let state =
            patch(json!([{ "op": "set", "path": "draft/title", "value": "Harbour" }])).expect("a patch");
        assert_eq!(
            (state["draft"]["title"].as_str(), workspace.get("/draft/title")),
            (Some("Harbour"), Some("Harbour".into()))
        );
        let refused = patch(json!([
            { "op": "delete", "path": "/draft/title" },
            { "op": "set", "path": "/draft/age", "value": "42" },
        ]));
        let problem = refused.expect_err("a string");
        assert_eq!(
            (problem.code.as_str(), problem.message.as_str()),
            ("TYPE_ERROR", "/draft/age must be an integer such as 42, not \"42\"")
        );
        assert_eq!(workspace.get("/draft"), Some(json!({ "title": "Harbour" })));
        let outside = patch(json!([{ "op": "set", "path": "/etc/passwd", "value": 1 }]));
        assert_eq!(outside.expect_err("outside").code, "INVALID_PATH");
    }
}
