//! Tables for keywords about languages, for keywords that require items or members, and for
//! negations.

use serde_json::json;

use super::tables::check;
use super::{machine, run};
use crate::machine::{Config, Machine};
use crate::options::{Formats, SchemaOptions, Undeclared};

fn generate() -> SchemaOptions {
    SchemaOptions::default()
}

fn accept() -> SchemaOptions {
    SchemaOptions::accept()
}

#[test]
fn patterns() {
    check(vec![
        (
            json!({"type": "string", "pattern": "^[a-c]+$"}),
            accept(),
            &[r#""abc""#, r#""\u0061""#],
            &[r#""""#, r#""ad""#, r#""A""#, "1"],
        ),
        (json!({"type": "string", "pattern": "b"}), generate(), &[r#""abc""#, r#""€b""#], &[r#""ac""#]),
        (
            json!({"type": "string", "pattern": "^[é-ü]*$", "minLength": 2, "maxLength": 3}),
            generate(),
            &[r#""éé""#, r#""éüé""#],
            &[r#""é""#, r#""éééé""#, r#""ee""#],
        ),
        (
            json!({"type": "string", "pattern": "^\"\\\\\n$"}),
            generate(),
            &[r#""\"\\\n""#],
            &[r#""\"\\n""#, r#""\"""#],
        ),
        (
            json!({"type": "string", "pattern": "^a", "not": {"pattern": "b$"}}),
            generate(),
            &[r#""a""#, r#""aba""#],
            &[r#""ab""#, r#""b""#],
        ),
        (
            json!({"type": "string", "pattern": "^(ab)*$", "maxLength": 1_000_000}),
            generate(),
            &[r#""""#, r#""abab""#],
            &[r#""aba""#],
        ),
        (
            json!({"type": "string", "format": "email", "pattern": "^[^@]{1,64}@[^@]{1,255}$"}),
            generate(),
            &[r#""a.b@example.com""#, r#""a@[127.0.0.1]""#],
            &[r#""a@b@c""#, r#""a""#, r#""@b""#, r#""\"@\"@b""#],
        ),
        (
            json!({"type": "string", "format": "email", "pattern": "@example\\.com$", "minLength": 6, "maxLength": 254}),
            generate(),
            &[r#""a.b@example.com""#],
            &[r#""a@b.com""#],
        ),
        (
            json!({"type": "string", "pattern": "^(?!.*--)(?!-)[a-z0-9-]{3,63}(?<!-)$"}),
            generate(),
            &[r#""abc""#, r#""a-b-0""#],
            &[r#""a--b""#, r#""-ab""#, r#""ab-""#, r#""ab""#],
        ),
        (json!({"enum": ["ab", "b", 1], "pattern": "^a"}), generate(), &[r#""ab""#, "1"], &[r#""b""#]),
        (
            json!({"type": "string", "not": {"enum": ["a", "b"]}}),
            generate(),
            &[r#""""#, r#""ab""#, r#""c""#],
            &[r#""a""#, r#""b""#],
        ),
    ]);
}

#[test]
fn formats() {
    let annotate = SchemaOptions { formats: Formats::Annotate, ..generate() };
    let date = json!({"type": "string", "format": "date"});
    check(vec![
        (date.clone(), generate(), &[r#""2024-02-29""#], &[r#""2023-02-29""#, r#""2024-2-9""#]),
        (date, annotate, &[r#""yesterday""#], &["1"]),
        (
            json!({"type": "string", "format": "email", "maxLength": 5}),
            generate(),
            &[r#""a@b.c""#],
            &[r#""ab@b.c""#, r#""a""#],
        ),
    ]);
}

#[test]
fn names() {
    check(vec![
        (
            json!({"type": "object", "patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": false}),
            accept(),
            &["{}", r#"{"n": 1, "no": 2}"#, r#"{"\u006e": 1}"#],
            &[r#"{"n": true}"#, r#"{"m": 1}"#],
        ),
        (
            json!({
                "type": "object",
                "properties": {"nb": {"minimum": 5}, "x": {}},
                "patternProperties": {"^n": {"type": "integer"}, "b$": {"maximum": 7}},
                "additionalProperties": {"type": "null"},
            }),
            accept(),
            &[r#"{"nb": 6, "n": 1, "b": true, "x": "", "y": null}"#, r#"{"xb": 7}"#],
            &[r#"{"nb": 4}"#, r#"{"nb": 8}"#, r#"{"nb": "6"}"#, r#"{"y": 1}"#, r#"{"nab": 8}"#],
        ),
        (
            json!({"type": "object", "propertyNames": {"maxLength": 2}, "required": ["ab"]}),
            accept(),
            &[r#"{"ab": 1}"#, r#"{"é": 1, "ab": 2}"#],
            &[r#"{"abc": 1}"#, r#"{"ab": 1, "abc": 1}"#, "{}"],
        ),
        (
            json!({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "minProperties": 2}),
            accept(),
            &[r#"{"a": 1, "b": 2}"#],
            &[r#"{"a": 1}"#, r#"{"a": 1, "a": 2}"#, r#"{"c": 1}"#],
        ),
    ]);
}

#[test]
fn contained_items() {
    check(vec![
        (
            json!({"type": "array", "contains": {"type": "null"}}),
            accept(),
            &["[null]", "[1, null, 2]"],
            &["[]", "[1]"],
        ),
        (
            json!({"type": "array", "contains": {"type": "null"}, "minContains": 2, "maxContains": 3, "maxItems": 4}),
            accept(),
            &["[null, null]", "[1, null, null, null]"],
            &["[null]", "[null, null, null, null]", "[1, 2, 3, null]"],
        ),
        (
            json!({"type": "array", "not": {"items": {"type": "integer"}}}),
            accept(),
            &["[1, true]", "[\"\"]"],
            &["[]", "[1, 2]"],
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "null"}], "not": {"prefixItems": [{}, {"const": 1}], "items": {"const": 2}}}),
            accept(),
            &["[null, 2]", "[null, 1, 3]", "[null, 1, 2, 1]"],
            &["[]", "[null]", "[null, 1]", "[null, 1, 2]", "[1, 2]"],
        ),
    ]);
}

#[test]
fn negations() {
    check(vec![
        (json!({"not": {"type": ["string", "number"]}}), accept(), &["null", "[1]"], &["1", "\"\""]),
        (json!({"not": {"type": "integer"}}), accept(), &["1.5", "null"], &["1", "1.0", "1e2"]),
        (
            json!({"type": "integer", "not": {"multipleOf": 3}}),
            accept(),
            &["1", "-2", "4"],
            &["0", "3", "-9", "1.5"],
        ),
        (json!({"type": "number", "not": {"multipleOf": 0.5}}), accept(), &["0.2", "1.55"], &["0.5", "2"]),
        (
            json!({"type": "number", "not": {"minimum": 1, "maximum": 3}}),
            accept(),
            &["0", "4"],
            &["1", "2", "3"],
        ),
        (
            json!({"type": "number", "not": {"enum": [1, 2.5]}}),
            accept(),
            &["1.5", "2", "25"],
            &["1.0", "2.50"],
        ),
        (
            json!({"type": "object", "not": {"properties": {"a": {"type": "null"}}, "required": ["b"]}}),
            accept(),
            &["{}", r#"{"a": 1, "b": 2}"#, r#"{"a": null}"#],
            &[r#"{"b": 1}"#, r#"{"b": 1, "a": null}"#],
        ),
        (
            json!({"type": "object", "not": {"additionalProperties": {"type": "null"}, "properties": {"a": true}}}),
            accept(),
            &[r#"{"b": 1}"#, r#"{"a": 1, "c": null, "b": 2}"#],
            &["{}", r#"{"a": 1}"#, r#"{"b": null}"#],
        ),
        (
            json!({"type": "object", "not": {"propertyNames": {"pattern": "^x"}}, "additionalProperties": {"type": "null"}}),
            accept(),
            &[r#"{"a": null}"#, r#"{"x": null, "a": null}"#],
            &["{}", r#"{"x": null}"#],
        ),
        (json!({"not": {"const": {"a": [1]}}}), accept(), &[r#"{"a": [2]}"#, "{}", "1"], &[r#"{"a": [1]}"#]),
        (json!({"not": {"not": {"type": "null"}}}), accept(), &["null"], &["1"]),
    ]);
}

#[test]
fn exclusive_branches() {
    check(vec![
        (json!({"oneOf": [{"minimum": 1}, {"maximum": 2}]}), accept(), &["0", "3"], &["1", "2", "null"]),
        (
            json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            accept(),
            &[r#"{"a": 1}"#, r#"{"b": 1, "c": 1}"#],
            &["{}", r#"{"a": 1, "b": 1}"#, "1"],
        ),
        (
            json!({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}, {"multipleOf": 5}], "type": "integer"}),
            accept(),
            &["2", "9", "25"],
            &["6", "10", "30", "7", "0"],
        ),
        (
            json!({"allOf": [{"$ref": "#/$defs/a"}, {"oneOf": [{"$ref": "#/$defs/a"}, {"minimum": 5}]}],
                   "type": "number", "$defs": {"a": {"maximum": 7}}}),
            accept(),
            &["4"],
            &["6", "8"],
        ),
    ]);
}

#[test]
fn conditions() {
    let schema = json!({
        "type": "object",
        "if": {"properties": {"kind": {"const": "x"}}, "required": ["kind"]},
        "then": {"required": ["x"]},
        "else": {"not": {"required": ["x"]}},
    });
    check(vec![(
        schema,
        accept(),
        &["{}", r#"{"kind": "x", "x": 1}"#, r#"{"kind": "y"}"#],
        &[r#"{"kind": "x"}"#, r#"{"x": 1}"#, r#"{"kind": "y", "x": 1}"#],
    )]);
}

#[test]
fn describes_what_may_come_next() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 3},
            "kind": {"enum": ["a", "b", null]},
            "sizes": {"type": "array", "items": {"type": "integer"}, "minItems": 1}
        },
        "required": ["name"]
    });
    let mut machine =
        machine(&schema, SchemaOptions { undeclared: Undeclared::Allow, ..generate() }).unwrap();
    let mut at = |text: &str| {
        let (config, _) = run(&mut machine, text.as_bytes());
        let following = (0..=u8::MAX).filter(|&byte| machine.step(config, byte) != Config::DEAD).collect();
        machine.expected(config, following)
    };
    assert_eq!(at(""), ["an object"]);
    assert_eq!(at("{"), ["the name \"name\""]);
    assert_eq!(at("{\"name\": "), ["a string of at most 3 characters"]);
    assert_eq!(at("{\"name\": \"xy"), ["the rest of a string of at most 1 more characters"]);
    assert_eq!(at("{\"name\": \"x\""), ["`,` and another member", "`}`"]);
    assert_eq!(at("{\"name\": \"x\", "), ["the name \"kind\", \"sizes\"", "another name"]);
    assert_eq!(at("{\"name\": \"x\", \"kind\": "), ["`null`", "\"a\", \"b\""]);
    assert_eq!(at("{\"name\": \"x\", \"sizes\": ["), ["a number"]);
    assert_eq!(at("{\"name\": \"x\", \"sizes\": [1"), ["more of the number", "`,` and another item", "`]`"]);
}

#[test]
fn property_names_may_refer_to_their_own_schema() {
    const OBJECT: &str = r#"{"a": {"b": 1}}"#;
    check(vec![
        (json!({"propertyNames": {"$ref": "#"}}), accept(), &[OBJECT, "1"], &["{"]),
        (json!({"propertyNames": {"$ref": "#"}, "maxLength": 1}), accept(), &[OBJECT], &[r#"{"ab": 1}"#]),
        (json!({"not": {"propertyNames": {"$ref": "#"}}}), accept(), &[r#"{"a": 1}"#], &["{}", "1"]),
        (
            json!({"propertyNames": {"anyOf": [{"const": "a"}, {"not": {"$ref": "#"}}]}}),
            accept(),
            &[r#"{"a": 1}"#, "{}"],
            &[r#"{"b": 1}"#],
        ),
    ]);
    let deep = (0..200).fold(json!({"pattern": "^a"}), |schema, _| json!({"propertyNames": schema}));
    check(vec![(deep, accept(), &[r#"{"b": 1}"#], &["{"])]);
}
