//! `GET /openapi.json`: the server's API as an `OpenAPI` 3.1 document.
//!
//! The document is assembled from the files in `openapi/`. Groups of fields that several schemas
//! share are under `fields` in one of the files. A schema lists the groups to include in
//! `x-fields`, because many tools do not support `unevaluatedProperties`.

use std::sync::LazyLock;

use axum::Json;
use serde_json::{Map, Value, json};

const PARTS: [&str; 19] = [
    include_str!("openapi/base.json"),
    include_str!("openapi/fields.json"),
    include_str!("openapi/chat.json"),
    include_str!("openapi/chat-answer.json"),
    include_str!("openapi/completions.json"),
    include_str!("openapi/responses.json"),
    include_str!("openapi/responses-answer.json"),
    include_str!("openapi/responses-stored.json"),
    include_str!("openapi/directives.json"),
    include_str!("openapi/embeddings.json"),
    include_str!("openapi/decisions.json"),
    include_str!("openapi/rerank.json"),
    include_str!("openapi/grammar.json"),
    include_str!("openapi/infill.json"),
    include_str!("openapi/tokens.json"),
    include_str!("openapi/tools.json"),
    include_str!("openapi/messages.json"),
    include_str!("openapi/ollama.json"),
    include_str!("openapi/ollama-models.json"),
];

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

/// `GET /openapi.json`.
pub(crate) async fn get() -> Json<&'static Value> {
    Json(&DOCUMENT)
}

fn document() -> Value {
    let mut whole = json!({});
    for part in PARTS {
        // Cannot fail: the tests parse all parts.
        merge(&mut whole, serde_json::from_str(part).unwrap_or_default());
    }
    let groups = whole.as_object_mut().and_then(|whole| whole.shift_remove("fields"));
    expand(&mut whole, groups.as_ref().and_then(Value::as_object).unwrap_or(&Map::new()));
    whole["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    whole
}

/// Merges `part` into `whole`, object by object. Other values are replaced.
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

/// Adds the fields of the groups in `x-fields` to each schema, which may describe a field differently.
fn expand(value: &mut Value, groups: &Map<String, Value>) {
    if let Value::Object(members) = value
        && let Some(Value::Array(names)) = members.shift_remove("x-fields")
    {
        let own = members.get("properties").cloned().unwrap_or_else(|| json!({}));
        for name in names.iter().filter_map(Value::as_str) {
            let fields = groups.get(name).cloned().unwrap_or_default();
            merge(members.entry("properties").or_insert_with(|| json!({})), fields);
        }
        merge(members.entry("properties").or_insert_with(|| json!({})), own);
    }
    match value {
        Value::Object(members) => members.values_mut().for_each(|member| expand(member, groups)),
        Value::Array(items) => items.iter_mut().for_each(|item| expand(item, groups)),
        _ => {}
    }
}
