//! Embeds a payload schema in a larger schema without changing its meaning.

use serde_json::{Map, Value, json};

use crate::adapt::subschemas::{subschemas, subschemas_mut};

/// Keywords that change how references are resolved. A schema with one of these keywords cannot be
/// moved by rewriting its pointers alone.
const IDENTIFIERS: [&str; 8] =
    ["$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "$schema", "id"];
/// End of the URI of the dialect that applies to schemas without `$schema`.
const DEFAULT: &str = "json-schema.org/draft/2020-12/schema";

/// Rewrites `schema` so that its meaning stays the same at the position `pointer` of a larger
/// schema. `pointer` is a JSON pointer, such as `/$defs/payload_0`, and the larger schema has no
/// `$schema`. The result accepts only objects.
///
/// References by pointer are rewritten: `#/$defs/a` becomes `#/$defs/payload_0/$defs/a`. Older
/// drafts, anchors and dynamic references also depend on the position. A schema with such features
/// becomes a schema resource with its own `$id`, in which references stay unchanged.
pub(super) fn embedded(schema: &Value, pointer: &str) -> Value {
    let Value::Object(schema) = schema else { return json!({ "type": "object" }) };
    let mut schema = schema.clone();
    if dialect(&schema).trim_end_matches('#').ends_with(DEFAULT) {
        schema.shift_remove("$schema");
    }
    if has_identifiers(&schema) {
        schema = resource(schema, pointer);
        // Older dialects ignore all keywords beside `$ref`, so `type` must not stand beside `$ref`.
        return if schema.contains_key("$ref") { both(schema) } else { of_objects(schema) };
    }
    let apart = schema.contains_key("$ref");
    let place = if apart { format!("{pointer}/allOf/0") } else { pointer.to_owned() };
    schema.iter_mut().for_each(|(name, value)| rewrite(name, value, &place));
    if apart { both(schema) } else { of_objects(schema) }
}

fn dialect(schema: &Map<String, Value>) -> &str {
    schema.get("$schema").and_then(Value::as_str).unwrap_or_default()
}

/// Sets the `type` of a schema to `object`.
fn of_objects(mut schema: Map<String, Value>) -> Value {
    schema.insert("type".to_owned(), "object".into());
    schema.into()
}

/// Returns a schema that accepts only the objects that `schema` accepts, with `schema` inside
/// `allOf`.
fn both(schema: Map<String, Value>) -> Value {
    let schema = Value::Object(schema);
    json!({ "type": "object", "allOf": [schema] })
}

/// Turns `schema` into a schema resource: adds an `$id` derived from `pointer`, unless the schema
/// has one. Local references are then resolved inside the schema.
fn resource(mut schema: Map<String, Value>, pointer: &str) -> Map<String, Value> {
    let id = format!("urn:formwork:payload{}", pointer.replace(['/', '$'], ":"));
    let old = ["draft-04", "draft-06", "draft-07"].into_iter().find(|draft| dialect(&schema).contains(draft));
    if old.is_some()
        && let Some(reference) = schema.shift_remove("$ref")
    {
        // Drafts 4 to 7 ignore everything beside `$ref`, including an identifier. So the reference
        // moves into `allOf`, and the ignored keywords are dropped.
        schema.retain(|name, _| ["$schema", "definitions", "$defs"].contains(&name.as_str()));
        schema.insert("allOf".to_owned(), json!([{ "$ref": reference }]));
    }
    // Draft 4 calls the identifier `id`. `$id` is set as well, because validators honour `$schema`
    // inside a larger schema only beside `$id`.
    if old == Some("draft-04") && !schema.contains_key("id") {
        schema.insert("id".to_owned(), id.clone().into());
    }
    schema.entry("$id").or_insert_with(|| id.into());
    schema
}

/// Reports whether a schema or one of its subschemas has a keyword of [`IDENTIFIERS`], or a `$ref`
/// that is not a pointer into the schema itself.
fn has_identifiers(schema: &Map<String, Value>) -> bool {
    let own = IDENTIFIERS.iter().any(|&name| schema.get(name).is_some_and(|value| !value.is_object()));
    let named = schema.get("$ref").and_then(Value::as_str).is_some_and(|reference| {
        reference.strip_prefix('#').is_none_or(|rest| !rest.is_empty() && !rest.starts_with('/'))
    });
    let mut within = schema.iter().flat_map(|(name, value)| subschemas(name, value));
    own || named || within.any(|schema| schema.as_object().is_some_and(has_identifiers))
}

/// Rewrites the local references in `value`, the value of the keyword `name`: `#/$defs/a` becomes
/// `#{pointer}/$defs/a`.
fn rewrite(name: &str, value: &mut Value, pointer: &str) {
    match value {
        Value::String(reference) if name == "$ref" => {
            if let Some(place) = reference.strip_prefix('#') {
                *reference = format!("#{pointer}{place}");
            }
        }
        value => {
            let schemas = subschemas_mut(name, value).into_iter();
            let members = schemas.filter_map(|(_, schema)| schema.as_object_mut()).flatten();
            members.for_each(|(name, value)| rewrite(name, value, pointer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "cases are written where they are used")]
    fn at(schema: Value) -> Value {
        embedded(&schema, "/$defs/p1")
    }

    #[test]
    fn embedded_pointers_keep_their_targets() {
        let schema = json!({
            "type": "object",
            "properties": {
                "$ref": { "$ref": "#/$defs/a" },
                "rest": { "type": "array", "items": { "$ref": "#" } },
                "either": { "anyOf": [{ "$ref": "#/$defs/a" }, { "const": { "$ref": "#/$defs/a" } }] },
            },
            "$defs": { "a": { "type": "string" } },
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "$ref": { "$ref": "#/$defs/p1/$defs/a" },
                "rest": { "type": "array", "items": { "$ref": "#/$defs/p1" } },
                "either": { "anyOf": [{ "$ref": "#/$defs/p1/$defs/a" }, { "const": { "$ref": "#/$defs/a" } }] },
            },
            "$defs": { "a": { "type": "string" } },
        });
        assert_eq!(at(schema), expected);
    }

    #[test]
    fn location_dependent_schemas_become_resources() {
        for schema in [
            json!({ "type": "object", "$schema": "http://json-schema.org/draft-07/schema#" }),
            json!({ "type": "object", "$defs": { "a": { "$anchor": "x" } } }),
            json!({ "type": "object", "properties": { "a": { "$ref": "#x" } } }),
        ] {
            assert_eq!(at(schema)["$id"], "urn:formwork:payload::defs:p1");
        }
        let own = json!({ "type": "object", "$id": "https://example.com/a" });
        assert_eq!(at(own.clone()), own);
        let old = at(json!({ "type": "object", "$schema": "http://json-schema.org/draft-04/schema#" }));
        assert_eq!(old["id"], old["$id"]);
        let hidden = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "title": "A", "definitions": { "a": {} } });
        let expected = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": { "a": {} },
            "allOf": [{ "$ref": "#/definitions/a" }],
            "$id": "urn:formwork:payload::defs:p1",
            "type": "object",
        });
        assert_eq!(at(hidden), expected);
        let usual = json!({ "type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema" });
        assert_eq!(at(usual), json!({ "type": "object" }));
        // A property name is not a keyword.
        let named = json!({ "type": "object", "properties": { "id": { "type": "string" }, "$id": {} } });
        assert_eq!(at(named.clone()), named);
    }

    #[test]
    fn payload_schemas_require_objects() {
        assert_eq!(at(json!(true)), json!({ "type": "object" }));
        assert_eq!(at(json!({ "minProperties": 1 })), json!({ "minProperties": 1, "type": "object" }));
        assert_eq!(at(json!({ "type": ["object", "null"] })), json!({ "type": "object" }));
        assert_eq!(
            at(json!({ "$ref": "#/$defs/a", "$defs": { "a": {} } })),
            json!({ "type": "object", "allOf": [{ "$ref": "#/$defs/p1/allOf/0/$defs/a", "$defs": { "a": {} } }] })
        );
    }
}
