//! Tests of undeclared members, and of the objects in which they are not generated.

use serde_json::{Value, json};

use super::tables::check;
use super::{accepts, close, machine};
use crate::machine::Machine;
use crate::options::{Order, SchemaOptions, Undeclared};

fn generate() -> SchemaOptions {
    SchemaOptions::default()
}

fn city() -> Value {
    json!({
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The city"}},
        "required": ["city"]
    })
}

const PARIS: &str = r#"{"city": "Paris"}"#;
const INVENTED: &str = r#"{"city": "Paris", "type": 1}"#;

#[test]
fn generates_declared_members_only() {
    check(vec![
        (city(), generate(), &[PARIS], &["{}", INVENTED]),
        (city(), SchemaOptions { order: Order::Any, ..generate() }, &[PARIS], &[INVENTED]),
        (city(), SchemaOptions { undeclared: Undeclared::Allow, ..generate() }, &[PARIS, INVENTED], &["{}"]),
        (city(), SchemaOptions::accept(), &[PARIS, INVENTED], &["{}"]),
        (json!({"type": "object", "properties": {}}), generate(), &["{}", r#"{"a": 1}"#], &["[]"]),
        (
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
            generate(),
            &["{}"],
            &[r#"{"a": 1}"#],
        ),
        (json!({"items": city()}), generate(), &[r#"[{"city": ""}]"#], &[r#"[{"city": "", "a": 1}]"#]),
    ]);
}

#[test]
fn conjunctions_declare_together() {
    let dependent = json!({
        "properties": {"a": {"type": "integer"}, "kind": {"enum": ["x", "y"]}},
        "required": ["kind"],
        "type": "object",
        "if": {"properties": {"kind": {"const": "x"}}},
        "then": {"properties": {"size": {"type": "integer"}}, "required": ["size"]},
        "dependentRequired": {"a": ["b"]}
    });
    let both = json!({
        "type": "object",
        "allOf": [{"properties": {"a": true}}, {"$ref": "#/$defs/b"}],
        "$defs": {"b": {"properties": {"b": true}}}
    });
    check(vec![
        (both, generate(), &[r#"{"a": 1, "b": 1}"#, "{}"], &[r#"{"c": 1}"#]),
        (
            dependent,
            generate(),
            &[r#"{"kind": "y"}"#, r#"{"kind": "x", "size": 1}"#, r#"{"a": 1, "kind": "y", "b": 2}"#],
            &[r#"{"kind": "x"}"#, r#"{"kind": "y", "size": 1}"#, r#"{"kind": "y", "z": 1}"#],
        ),
        (
            json!({"type": "object", "properties": {"a": true}, "required": ["a", "z"]}),
            generate(),
            &[r#"{"a": 1, "z": 2}"#],
            &[r#"{"a": 1}"#, r#"{"a": 1, "z": 2, "y": 3}"#],
        ),
    ]);
}

#[test]
fn keywords_about_other_names_keep_objects_open() {
    let with = |keyword: &str, value: Value| json!({"type": "object", "properties": {"a": {"type": "null"}}, keyword: value});
    check(vec![
        (json!({"type": "object"}), generate(), &[r#"{"x": 1}"#], &[]),
        (with("additionalProperties", json!(true)), generate(), &[r#"{"x": 1}"#], &[]),
        (with("additionalProperties", json!({})), generate(), &[r#"{"x": 1}"#], &[]),
        (with("patternProperties", json!({"^x": {}})), generate(), &[r#"{"x": 1}"#], &[]),
        (with("unevaluatedProperties", json!({})), generate(), &[r#"{"x": 1}"#], &[]),
        (with("propertyNames", json!({"maxLength": 1})), generate(), &[r#"{"x": 1}"#], &[r#"{"xy": 1}"#]),
        (with("propertyNames", json!({"enum": ["a", "b"]})), generate(), &[r#"{"b": 1}"#], &[r#"{"c": 1}"#]),
        (with("allOf", json!([{"additionalProperties": true}])), generate(), &[r#"{"x": 1}"#], &[]),
    ]);
}

#[test]
fn objects_that_need_undeclared_members_keep_them() {
    check(vec![
        (
            json!({"type": "object", "properties": {"a": {}}, "minProperties": 1}),
            generate(),
            &[r#"{"a": 1}"#],
            &["{}", r#"{"x": 1}"#],
        ),
        (
            json!({"type": "object", "properties": {"a": false}, "minProperties": 1}),
            generate(),
            &[r#"{"x": 1}"#],
            &["{}", r#"{"a": 1}"#],
        ),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "minProperties": 1}),
            generate(),
            &[r#"{"x": 1}"#, r#"{"a": {"x": 1}}"#],
            &["{}", r#"{"a": {}}"#],
        ),
        (
            json!({
                "type": "object", "properties": {"a": {}},
                "not": {"additionalProperties": {"type": "null"}, "properties": {"a": true}}
            }),
            generate(),
            &[r#"{"a": 1, "b": 2}"#],
            &[r#"{"a": 1}"#],
        ),
        // The inner object keeps its undeclared members, and the outer object stays closed.
        (
            json!({
                "type": "object",
                "properties": {"in": {"type": "object", "properties": {"a": false}, "minProperties": 1}},
                "required": ["in"]
            }),
            generate(),
            &[r#"{"in": {"x": 1}}"#],
            &[r#"{"in": {"x": 1}, "y": 1}"#],
        ),
    ]);
}

/// Branches of `oneOf` are compared by all values that they allow, not only by the generated ones.
#[test]
fn one_of_is_about_all_values() {
    let either = json!({
        "oneOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            {"type": "object", "properties": {"b": {"type": "integer"}}},
        ],
    });
    let mut generated = machine(&either, generate()).unwrap();
    let start = generated.start();
    let shortest = close(&mut generated, start);
    let mut accepted = machine(&either, SchemaOptions::accept()).unwrap();
    assert!(accepts(&mut accepted, shortest));
    for text in [r#"{"a": 1}"#, r#"{"b": 1}"#, "{}"] {
        // Each of these satisfies both branches.
        assert!(!accepts(&mut accepted, text), "{text}");
        assert!(!accepts(&mut generated, text), "{text}");
    }
    for text in [r#"{"a": "", "b": 1}"#, r#"{"a": 1, "b": ""}"#] {
        assert!(accepts(&mut accepted, text), "{text}");
    }
}
