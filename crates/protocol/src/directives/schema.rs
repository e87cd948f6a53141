//! JSON Schema of the envelope, and the `response_format` that requests it.

use serde_json::{Value, json};

use super::embed::embedded;
use super::{Definition, Mode, Requirement, StructuredOutputOptions};

/// Default value of `json_schema.name` in requests.
pub const NAME: &str = "directives";

/// Level of detail of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// True to describe each payload by the schema of its type, and to include the required
    /// directives, their maximum number and the maximum length of the text. If false, the schema
    /// accepts any envelope of the allowed types, which every provider supports.
    pub payloads: bool,
    /// Value of `json_schema.strict` in requests.
    pub strict: bool,
}

/// Returns the `response_format` of requests in `mode`, or `None` for prompt-only mode.
pub fn response_format(options: &StructuredOutputOptions, mode: Mode, detail: Detail) -> Option<Value> {
    match mode {
        Mode::JsonSchema => {
            let schema = envelope(options, detail.payloads);
            let named = json!({ "name": options.schema_name(), "strict": detail.strict, "schema": schema });
            Some(json!({ "type": "json_schema", "json_schema": named }))
        }
        Mode::JsonObject => Some(json!({ "type": "json_object" })),
        Mode::PromptOnly => None,
    }
}

/// Returns the JSON Schema of the envelope. The `type` of a directive must be one of
/// [`StructuredOutputOptions::allowed()`]. If all types are allowed, `type` may be any string.
///
/// If `payloads` is false, a payload may be any object. If true, `anyOf` has one alternative for
/// each type with a payload schema, and one alternative for all other types. The payload schemas
/// are under `$defs`, with their references rewritten for that position. If true, the schema also
/// requires the directives of [`StructuredOutputOptions::required`], in any order, and limits the
/// number of directives and the length of `assistant_text`.
pub fn envelope(options: &StructuredOutputOptions, payloads: bool) -> Value {
    let (mut directives, definitions) = match options.allowed() {
        // `enum` must not be empty, so the schema of no allowed types is an empty array.
        Some(allowed) if allowed.is_empty() => (json!({ "type": "array", "maxItems": 0 }), json!({})),
        allowed => {
            let (items, definitions) = items(options, allowed.as_deref(), payloads);
            (json!({ "type": "array", "items": items }), definitions)
        }
    };
    let mut text = json!({ "type": "string" });
    if let Some(limit) = options.max_text_length.filter(|_| payloads) {
        text["maxLength"] = limit.into();
    }
    if payloads {
        require(&mut directives, options);
        if let Some(limit) = options.max_directives {
            let of_types = directives["maxItems"].as_u64().unwrap_or(u64::MAX);
            directives["maxItems"] = of_types.min(limit as u64).into();
        }
    }
    let mut schema = json!({
        "type": "object",
        "properties": { "assistant_text": text, "directives": directives },
        "required": ["assistant_text", "directives"],
        "additionalProperties": false,
    });
    if definitions.as_object().is_some_and(|definitions| !definitions.is_empty()) {
        schema["$defs"] = definitions;
    }
    schema
}

/// Adds the required directives to the schema of the array.
fn require(directives: &mut Value, options: &StructuredOutputOptions) {
    let mut required: Vec<Value> = options.required().iter().map(Requirement::schema).collect();
    match (directives.as_object_mut(), required.len()) {
        (_, 0) | (None, _) => {}
        (Some(directives), 1) => {
            directives.extend(required.remove(0).as_object().cloned().unwrap_or_default());
        }
        (Some(directives), _) => {
            directives.insert("allOf".to_owned(), required.into());
        }
    }
}

/// Returns the schema of one directive, and the definitions for `$defs` that the schema refers to.
/// Only types in `allowed` are accepted; `None` accepts any type. `payloads` is true to describe
/// payloads.
fn items(options: &StructuredOutputOptions, allowed: Option<&[String]>, payloads: bool) -> (Value, Value) {
    let Some(allowed) = allowed else {
        return (directive(&json!({ "type": "string" }), &json!({ "type": "object" })), json!({}));
    };
    let schema_of = |kind: &String| {
        let definition: Option<&Definition> = options.registry().get(kind);
        definition.and_then(|definition| definition.payload_schema.as_ref()).filter(|_| payloads)
    };
    let mut definitions = json!({});
    let mut alternatives = Vec::new();
    let plain: Vec<&String> = allowed.iter().filter(|kind| schema_of(kind).is_none()).collect();
    for (number, kind) in allowed.iter().enumerate() {
        let Some(schema) = schema_of(kind) else { continue };
        let name = format!("payload_{number}");
        definitions[&name] = embedded(schema, &format!("/$defs/{name}"));
        let reference = json!({ "$ref": format!("#/$defs/{name}") });
        alternatives.push(directive(&json!({ "type": "string", "enum": [kind] }), &reference));
    }
    if !plain.is_empty() {
        let kind = json!({ "type": "string", "enum": plain });
        alternatives.push(directive(&kind, &json!({ "type": "object" })));
    }
    if alternatives.len() == 1 {
        return (alternatives.remove(0), definitions);
    }
    (json!({ "anyOf": alternatives }), definitions)
}

/// Returns the schema of a directive from the schemas of its `type` and `payload`.
fn directive(kind: &Value, payload: &Value) -> Value {
    json!({
        "type": "object",
        "properties": { "type": kind, "payload": payload },
        "required": ["type", "payload"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests;
