//! Schemas and texts that would take a naive algorithm practically forever.

use std::time::{Duration, Instant};

use super::*;

/// Returns the shape of trees of three kinds that differ only in the type of their leaves.
fn trees() -> Shape {
    let branch = |kind: &str| {
        let children = json!({ "type": "array", "items": { "$ref": "#/$defs/tree" } });
        json!({ "type": "object", "properties": { "leaf": { "type": kind }, "children": children }, "required": ["children"] })
    };
    let tree = json!({ "anyOf": [branch("string"), branch("integer"), branch("boolean")] });
    let schema = json!({ "type": "object", "properties": { "tree": { "$ref": "#/$defs/tree" } }, "$defs": { "tree": tree } });
    Shape::of_schema(schema, "tree").expect("a schema")
}

#[test]
fn reports_errors_of_trees_in_polynomial_time() {
    let mut tree = json!({ "children": "none" });
    for _ in 0..60 {
        tree = json!({ "children": [tree] });
    }
    let start = Instant::now();
    let reading = trees().check(json!({ "tree": tree }));
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(!reading.is_valid() && reading.errors.len() == 1, "{:?}", reading.errors);
}

#[test]
fn reports_errors_of_the_closest_branch() {
    let tree = json!({ "tree": { "children": [{ "leaf": "a", "children": "none" }] } });
    assert_eq!(
        trees().check(tree).errors,
        ["Field \"tree.children.0.children\": Expected array, got string"]
    );
    let schema = json!({ "type": "object", "properties": {
        "one": { "oneOf": [{ "minimum": 1 }, { "maximum": 9 }] },
        "any": { "anyOf": [{ "type": "string" }, { "type": "boolean" }] },
    } });
    let shape = Shape::of_schema(schema, "s").expect("a schema");
    assert_eq!(
        shape.check(json!({ "one": 5 })).errors,
        ["Field \"one\": Value matches more than one of the 2 schemas of `oneOf`"]
    );
    assert_eq!(
        shape.check(json!({ "any": 5 })).errors,
        ["Field \"any\": Value matches none of the 2 schemas of `anyOf`"]
    );
}

#[test]
fn bounds_samples_of_wide_and_deep_schemas() {
    let fields: serde_json::Map<String, Value> =
        (0..200).map(|at| (format!("field_{at}"), json!({ "$ref": "#" }))).collect();
    let recursive = json!({ "type": "object", "properties": fields });
    let branches: Vec<Value> = (0..40).map(|_| json!({ "$ref": "#" })).collect();
    let branching = json!({ "anyOf": branches });
    let nested = json!({ "allOf": branches, "properties": { "x": { "anyOf": branches } } });
    for schema in [recursive, branching, nested] {
        let start = Instant::now();
        assert!(format::required(&schema, false).chars().count() <= 4003);
        assert!(start.elapsed() < Duration::from_secs(2));
    }
}

#[test]
fn reads_possible_xml_in_linear_time() {
    let shape = Shape::tool_calls();
    for text in [
        "<".repeat(1 << 19),
        "</".repeat(1 << 19),
        "<invoke name=\"a\">".repeat(1 << 15),
        "<invoke name=\"a\"><parameter name=\"b\">".repeat(1 << 14),
    ] {
        let start = Instant::now();
        let text = format!("<function_calls>{text} >");
        assert!(!shape.read(&text).is_valid());
        assert!(start.elapsed() < Duration::from_secs(2), "{}", &text[..40]);
    }
}
