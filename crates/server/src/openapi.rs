//! `GET /openapi.json`: what the server takes and gives, as a document of `OpenAPI` 3.1.
//!
//! The files in `openapi/` are parts of it. Fields that several schemas have stand under `fields` in one of them, and a schema says
//! with `x-fields` which groups it takes, since tools that read such documents do not follow `unevaluatedProperties`.

use std::sync::LazyLock;

use axum::Json;
use serde_json::{Map, Value, json};

const PARTS: [&str; 11] = [
    include_str!("openapi/base.json"),
    include_str!("openapi/fields.json"),
    include_str!("openapi/chat.json"),
    include_str!("openapi/chat-answer.json"),
    include_str!("openapi/completions.json"),
    include_str!("openapi/responses.json"),
    include_str!("openapi/responses-answer.json"),
    include_str!("openapi/directives.json"),
    include_str!("openapi/embeddings.json"),
    include_str!("openapi/grammar.json"),
    include_str!("openapi/tokens.json"),
];

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

/// `GET /openapi.json`.
pub(crate) async fn get() -> Json<&'static Value> {
    Json(&DOCUMENT)
}

fn document() -> Value {
    let mut whole = json!({});
    for part in PARTS {
        // The tests read them all.
        merge(&mut whole, serde_json::from_str(part).unwrap_or_default());
    }
    let groups = whole.as_object_mut().and_then(|whole| whole.shift_remove("fields"));
    expand(&mut whole, groups.as_ref().and_then(Value::as_object).unwrap_or(&Map::new()));
    whole["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    whole
}

/// Adds the members of `part`, and theirs to those that are there.
fn merge(whole: &mut Value, part: Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (name, value) in part {
                merge(whole.entry(name).or_insert(Value::Null), value);
            }
        }
        (whole, part) => *whole = part,
    }
}

/// Gives each schema the fields of the groups that it names.
fn expand(value: &mut Value, groups: &Map<String, Value>) {
    if let Value::Object(members) = value
        && let Some(Value::Array(names)) = members.shift_remove("x-fields")
    {
        for name in names.iter().filter_map(Value::as_str) {
            let fields = groups.get(name).cloned().unwrap_or_default();
            merge(members.entry("properties").or_insert_with(|| json!({})), fields);
        }
    }
    match value {
        Value::Object(members) => members.values_mut().for_each(|member| expand(member, groups)),
        Value::Array(items) => items.iter_mut().for_each(|item| expand(item, groups)),
        _ => {}
    }
}
