//! Tools of Anthropic's API that the client runs, and whose arguments the API defines.
//!
//! The arguments of the memory tool are those of the Python package `anthropic` 2.14
//! (`types/beta/beta_memory_tool_20250818_*_command.py`). The other tools are those of Anthropic's
//! documentation. Its name of the text that `insert` adds is wrong for version 20250728, as issue 1155 of
//! `anthropic-sdk-python` shows.

use serde_json::{Value, json};

/// Description and schema of a tool that the client runs.
pub(super) struct ClientTool {
    pub(super) description: &'static str,
    pub(super) parameters: Value,
}

/// Returns the tool of a type such as `bash_20250124`. `None` for types whose arguments are not known.
pub(super) fn find(kind: &str) -> Option<ClientTool> {
    let (name, version) = kind.rsplit_once('_')?;
    if version.len() != 8 || !version.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match name {
        "bash" => Some(ClientTool {
            description: "Runs a command in a persistent bash session and returns its output. `restart` starts a new session.",
            parameters: one_of(&[
                json!({ "command": { "type": "string" } }),
                json!({ "restart": { "const": true } }),
            ]),
        }),
        "text_editor" => Some(ClientTool {
            description: "Views, creates and edits text files. `view` of a directory lists it. `str_replace` replaces a text that occurs exactly once. `insert` adds a text after a line.",
            // Version 20250728 has another name for the text to insert.
            parameters: one_of(&files(if version >= "20250728" { "insert_text" } else { "new_str" })),
        }),
        "memory" => {
            let mut commands = files("insert_text").to_vec();
            commands.push(command("delete", &json!({ "path": { "type": "string" } })));
            let rename = json!({ "old_path": { "type": "string" }, "new_path": { "type": "string" } });
            commands.push(command("rename", &rename));
            Some(ClientTool {
                description: "Keeps notes in files below `/memories`: views, creates, edits, renames and deletes them.",
                parameters: one_of(&commands),
            })
        }
        _ => None,
    }
}

/// Returns the commands on text files, with the name of the text that `insert` adds.
fn files(inserted: &str) -> [Value; 4] {
    let text = || json!({ "type": "string" });
    let line = || json!({ "type": "integer", "minimum": 0 });
    // An end of -1 is the last line.
    let range = json!({ "type": "array", "items": { "type": "integer", "minimum": -1 }, "minItems": 2, "maxItems": 2 });
    let mut view = command("view", &json!({ "path": text() }));
    view["view_range"] = range;
    [
        view,
        command("create", &json!({ "path": text(), "file_text": text() })),
        command("str_replace", &json!({ "path": text(), "old_str": text(), "new_str": text() })),
        command("insert", &json!({ "path": text(), "insert_line": line(), inserted: text() })),
    ]
}

/// Returns the properties of a command, with its name first.
fn command(name: &str, arguments: &Value) -> Value {
    let mut properties = json!({ "command": { "const": name } });
    for (name, schema) in arguments.as_object().into_iter().flatten() {
        properties[name] = schema.clone();
    }
    properties
}

/// Returns the schema of objects with one of these sets of properties. All but `view_range` are required.
fn one_of(all: &[Value]) -> Value {
    let object = |properties: &Value| {
        let names = properties.as_object().into_iter().flatten().map(|(name, _)| name);
        let required: Vec<&String> = names.filter(|name| *name != "view_range").collect();
        json!({ "properties": properties, "required": required, "additionalProperties": false })
    };
    json!({ "type": "object", "anyOf": all.iter().map(object).collect::<Vec<_>>() })
}
