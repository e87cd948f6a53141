//! Tables for each keyword: schemas with texts that they accept and texts that they reject.

use serde_json::{Value, json};

use super::{accepts, close, machine, run};
use crate::frontend::json_schema::{Remotes, compile};
use crate::limits::Limits;
use crate::machine::Machine;
use crate::options::{Layout, Order, SchemaOptions, Undeclared};

const DRAFT_4: &str = "http://json-schema.org/draft-04/schema#";
const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

fn generate() -> SchemaOptions {
    SchemaOptions::default()
}

fn accept() -> SchemaOptions {
    SchemaOptions::accept()
}

type Row = (Value, SchemaOptions, &'static [&'static str], &'static [&'static str]);

pub(super) fn check(rows: Vec<Row>) {
    for (schema, options, accepted, rejected) in rows {
        let mut machine = machine(&schema, options).unwrap_or_else(|error| panic!("{schema}: {error}"));
        for text in accepted {
            assert!(accepts(&mut machine, text), "{schema} {options:?}: should accept {text}");
        }
        for text in rejected {
            assert!(!accepts(&mut machine, text), "{schema} {options:?}: should reject {text}");
        }
    }
}

#[test]
fn types_and_values() {
    check(vec![
        (json!(true), generate(), &["null", "[]", "{\"a\": [1, \"\"]}"], &["", "nul", "[1,2]", " 1", "1 "]),
        (json!({}), accept(), &[" { \"a\" : [ 1 ,\t2 ] }\r\n"], &["[1,]", "{,}", "[1 2]", "{\"a\"}", "[}"]),
        (json!({"type": ["null", "boolean"]}), generate(), &["null", "true", "false"], &["0", "truefalse"]),
        (
            json!({"type": "integer"}),
            generate(),
            &["0", "-1", "123456789012345"],
            &["1.0", "1e3", "-0", "01", "1234567890123456"],
        ),
        (
            json!({"type": "integer"}),
            accept(),
            &["-0", "5.0", "5.00", "1e3", "2.0E+2"],
            &["5.1", "5.", "1e-1"],
        ),
        (json!({"type": "integer", "$schema": DRAFT_4}), accept(), &["5", "-0"], &["5.0", "5e0"]),
        (
            json!({"type": "number"}),
            generate(),
            &["0.5", "-0.5", "1.50", "-10.25"],
            &["-0", "-0.0", "1e5", ".5"],
        ),
        (json!({"type": "number"}), accept(), &["-0.0e-5", "1E400"], &["1e", "1e+", "+1", "0x1"]),
        (
            json!({"enum": [1, "a", null, [1, {"b": 2}]]}),
            generate(),
            &["1", "\"a\"", "[1, {\"b\": 2}]"],
            &["1.0", "\"b\"", "[1,{\"b\":2}]", "[1]"],
        ),
        (
            json!({"enum": [1, 2.5]}),
            accept(),
            &["1", "1.0", "2.500", "1e0", "2.5E-0"],
            &["25e-1", "1e1", "1.5", "2", "25"],
        ),
        (json!({"const": {"a": 1, "b": [true]}}), accept(), &["{\"b\":[true],\"a\":1.0}"], &["{\"a\":1}"]),
        (
            json!({"const": {"a": 1, "b": 2}}),
            generate(),
            &["{\"a\": 1, \"b\": 2}"],
            &["{\"b\": 2, \"a\": 1}"],
        ),
        (
            json!({"enum": ["a", "abc", 7, 70], "type": "string", "minLength": 2}),
            generate(),
            &["\"abc\""],
            &["\"a\"", "7"],
        ),
        (
            json!({"enum": [1, 7, 70], "minimum": 5, "multipleOf": 7, "maximum": 69}),
            generate(),
            &["7"],
            &["70", "1"],
        ),
    ]);
}

#[test]
fn numbers() {
    check(vec![
        (
            json!({"type": "integer", "minimum": -5, "maximum": 120}),
            generate(),
            &["-5", "0", "99", "120"],
            &["-6", "121", "1000"],
        ),
        (
            json!({"minimum": 1.5, "type": "number"}),
            accept(),
            &["1.5", "1.50", "2", "1.51", "100", "2e0", "1E+9", "1.5e00"],
            &["1.49999", "1.4", "1", "-2", "20e-1", "9e-1", "-2e0"],
        ),
        (
            json!({"exclusiveMinimum": 0, "type": "number"}),
            accept(),
            &["0.001", "1"],
            &["0", "0.0", "-0", "-1"],
        ),
        (json!({"exclusiveMaximum": 0, "type": "number"}), accept(), &["-0.001", "-1"], &["0", "-0.0", "1"]),
        (json!({"minimum": 0, "type": "number"}), accept(), &["0", "-0", "-0.00"], &["-0.01"]),
        (
            json!({"minimum": 3, "exclusiveMinimum": true, "$schema": DRAFT_4}),
            accept(),
            &["3.1", "\"\""],
            &["3"],
        ),
        (json!({"maximum": 3, "exclusiveMaximum": false, "$schema": DRAFT_4}), accept(), &["3"], &["3.1"]),
        (
            json!({"minimum": 1e-7, "maximum": 2e-7}),
            accept(),
            &["0.0000001", "0.00000015"],
            &["0.0000003", "0"],
        ),
        (
            json!({"type": "integer", "minimum": 18_446_744_073_709_551_615u64}),
            generate(),
            &["18446744073709551615"],
            &["18446744073709551614"],
        ),
        (
            json!({"multipleOf": 0.25, "type": "number"}),
            accept(),
            &["0", "1", "-0.75", "1.500"],
            &["0.3", "1.255"],
        ),
        (
            json!({"multipleOf": 7, "type": "integer", "minimum": 1}),
            generate(),
            &["7", "14", "700007"],
            &["0", "15"],
        ),
        (
            json!({"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer"}),
            accept(),
            &["12", "0"],
            &["8"],
        ),
    ]);
}

#[test]
fn strings() {
    let ends = json!({"type": "string", "minLength": 2, "maxLength": 3});
    check(vec![
        (
            ends.clone(),
            generate(),
            &["\"ab\"", "\"éé\"", "\"😀😀😀\"", "\"\\n\\u0001\\\"\""],
            &["\"a\"", "\"abcd\""],
        ),
        (ends, accept(), &["\"\\ud83d\\ude00a\"", "\"\\u00E9\\/\""], &["\"\\ud83d\\ude00\"", "\"\\ud83da\""]),
        (
            json!({"type": "string"}),
            generate(),
            &["\"/\u{7f}\""],
            &["\"\\/\"", "\"\\u0041\"", "\"\\u000a\"", "\"\\u001F\"", "\"\n\""],
        ),
        (
            json!({"enum": ["é/😀\n"]}),
            accept(),
            &["\"\\u00e9\\/\\uD83D\\uDE00\\u000a\"", "\"é/😀\\n\""],
            &["\"é/😀\n\""],
        ),
        (json!({"maxLength": 1_000_000, "minLength": 3}), generate(), &["\"abc\"", "1"], &["\"ab\""]),
        (json!({"pattern": "^a", "type": "integer"}), generate(), &["1"], &["\"a\""]),
    ]);
}

#[test]
fn arrays() {
    let tuple = json!({"prefixItems": [{"type": "null"}, {"type": "string"}], "items": {"type": "integer"}, "type": "array"});
    check(vec![
        (
            tuple,
            generate(),
            &["[]", "[null]", "[null, \"\"]", "[null, \"\", 1, 2]"],
            &["[1]", "[null, 1]", "[null, ]"],
        ),
        (
            json!({"items": [{"const": 1}], "additionalItems": false, "$schema": DRAFT_7}),
            accept(),
            &["[]", "[1]"],
            &["[1,1]", "[2]"],
        ),
        (
            json!({"items": {"const": 1}, "additionalItems": false, "$schema": DRAFT_7}),
            accept(),
            &["[1,1]"],
            &["[2]"],
        ),
        (
            json!({"type": "array", "minItems": 2, "maxItems": 3}),
            generate(),
            &["[1, 2]", "[[], {}, 0]"],
            &["[1]", "[1, 2, 3, 4]"],
        ),
        (json!({"type": "array", "maxItems": 0}), accept(), &["[]", "[ ]"], &["[1]"]),
        (json!({"prefixItems": [true, false], "type": "array"}), generate(), &["[]", "[1]"], &["[1, 2]"]),
        (
            json!({"type": "array", "uniqueItems": false, "items": {"$ref": "#"}}),
            accept(),
            &["[[],[[]]]"],
            &["[1]"],
        ),
    ]);
}

#[test]
fn objects() {
    let person = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "na": true},
        "required": ["age"],
    });
    let closed =
        json!({"properties": {"a": true, "b": true}, "additionalProperties": false, "type": "object"});
    check(vec![
        (
            person.clone(),
            SchemaOptions { undeclared: Undeclared::Allow, ..generate() },
            &["{\"name\": \"\", \"age\": 1}", "{\"age\": 1, \"na\": 0, \"x\": 0, \"nam\": 1}"],
            &[
                "{}",
                "{\"age\": 1, \"name\": \"\"}",
                "{\"x\": 1, \"age\": 1}",
                "{\"age\": 1, \"age\": 1}",
                "{\"age\": 1,}",
            ],
        ),
        (
            person,
            accept(),
            &["{\"x\":1,\"\\u0061ge\":1.0,\"name\":\"\"}"],
            &["{\"age\":1,\"\\u0061ge\":1}", "{\"name\":\"\"}"],
        ),
        (
            closed.clone(),
            generate(),
            &["{}", "{\"b\": 1}", "{\"a\": 1, \"b\": 2}"],
            &["{\"c\": 1}", "{\"a\"}", "{\"aa\": 1}"],
        ),
        (
            json!({"allOf": [closed, {"minProperties": 1, "maxProperties": 1}]}),
            accept(),
            &["{\"b\":1}"],
            &["{}", "{\"a\":1,\"b\":2}"],
        ),
        (
            json!({"type": "object", "properties": {"a": false, "b": {"const": 1}}}),
            generate(),
            &["{}", "{\"b\": 1}"],
            &["{\"a\": 1}"],
        ),
        (
            json!({"required": ["z", "y"], "type": "object"}),
            generate(),
            &["{\"z\": 1, \"y\": 2, \"a\": 3}"],
            &["{\"y\": 1, \"z\": 2}", "{\"a\": 1, \"z\": 1, \"y\": 2}"],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1}),
            generate(),
            &["{\"\": 1}"],
            &["{}", "{\"a\": \"\"}"],
        ),
        (
            json!({"dependentRequired": {"a": ["b"]}, "type": "object"}),
            accept(),
            &["{}", "{\"b\":1}", "{\"b\":1,\"a\":1}"],
            &["{\"a\":1}"],
        ),
        (
            json!({"dependencies": {"a": {"properties": {"b": {"const": 1}}}}}),
            accept(),
            &["{\"b\":2}", "{\"a\":0,\"b\":1}", "7"],
            &["{\"a\":0,\"b\":2}", "{\"b\":2,\"a\":0}"],
        ),
    ]);
}

#[test]
fn logic() {
    let tree = json!({
        "$defs": {"tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["kids"], "additionalProperties": false}},
        "$ref": "#/$defs/tree",
    });
    let tagged = json!({"oneOf": [
        {"type": "object", "properties": {"k": {"const": "a"}, "v": {"type": "integer"}}, "required": ["k"]},
        {"type": "object", "properties": {"k": {"const": "b"}, "v": {"type": "string"}}, "required": ["k"]},
        {"type": "null"},
    ]});
    check(vec![
        (tree, generate(), &["{\"kids\": []}", "{\"kids\": [{\"kids\": []}]}"], &["{\"kids\": [{}]}", "{}"]),
        (
            tagged,
            accept(),
            &["null", "{\"v\":1,\"k\":\"a\"}", "{\"k\":\"b\",\"v\":\"\"}"],
            &["{\"k\":\"b\",\"v\":1}", "{\"v\":\"\",\"k\":\"a\"}"],
        ),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}], "minimum": 3}),
            generate(),
            &["3", "\"a\""],
            &["2", "\"ab\"", "null"],
        ),
        (
            json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object", "properties": {"a": {"const": 1}}}),
            accept(),
            &["{\"b\":0}", "{\"a\":1}", "{\"b\":0,\"a\":1}"],
            &["{}", "{\"a\":2}", "{\"b\":0,\"a\":2}"],
        ),
        (
            json!({"allOf": [{"properties": {"a": {"minimum": 2}}}, {"properties": {"a": {"maximum": 3}}}], "required": ["a"], "type": "object"}),
            accept(),
            &["{\"a\":2}", "{\"a\":\"\"}"],
            &["{\"a\":1}", "{\"a\":4}", "{}"],
        ),
        (
            json!({"$ref": "#/definitions/n", "maximum": 3, "definitions": {"n": {"type": "integer"}}}),
            accept(),
            &["3"],
            &["4", "2.5"],
        ),
        (
            json!({"$ref": "#/definitions/n", "maximum": 3, "definitions": {"n": {"type": "integer"}}, "$schema": DRAFT_7}),
            accept(),
            &["4"],
            &["2.5"],
        ),
        (
            json!({"$defs": {"a": {"$anchor": "x", "type": "null"}}, "items": {"$ref": "#x"}, "type": "array"}),
            accept(),
            &["[null]"],
            &["[1]"],
        ),
        (
            json!({"$id": "http://e.example/s/root.json", "items": {"$ref": "item.json"}, "$defs": {"i": {"$id": "item.json", "type": "null"}}, "type": "array"}),
            accept(),
            &["[null]"],
            &["[1]"],
        ),
        (
            json!({"not": {"required": ["a"]}, "type": "object"}),
            accept(),
            &["{}", "{\"b\":1}"],
            &["{\"a\":1}"],
        ),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}, "type": "object"}),
            accept(),
            &["{\"a\":1,\"b\":1}", "{\"c\":1}"],
            &["{\"a\":1}", "{}", "{\"a\":1,\"c\":1}", "{\"b\":1}"],
        ),
    ]);
}

#[test]
fn layouts() {
    let layout = |layout| SchemaOptions { layout, ..SchemaOptions::default() };
    check(vec![
        (json!({}), layout(Layout::Compact), &["{\"a\":[1,{}]}"], &["{\"a\": 1}", "[1, 2]"]),
        (
            json!({}),
            layout(Layout::Pretty),
            &["[]", "{}", "{\n  \"a\": [\n    1,\n    2\n  ]\n}"],
            &["[\n]", "[\n  ]", "[ ]", "[\n1\n]", "[\n  1]", "[\n  1,2\n]"],
        ),
        (json!({}), layout(Layout::Flexible), &["[1,\n    2 ]", "{ \"a\": 1}", "[ ]"], &["[1 , 2]", " 1"]),
        (json!({}), layout(Layout::Inside), &["[1,\n    2 ]", "{ \"a\": 1}", "[ ]"], &["[1 , 2]", " 1"]),
        (json!({}), SchemaOptions::accept(), &["[1 ,\t2]", "\n[ ]\r"], &["[1\u{b}]"]),
        (
            json!({}),
            SchemaOptions { layout: Layout::Inside, ..SchemaOptions::accept() },
            &["[1 ,\t2]", "[ ]", "1"],
            &[" [1]", "[1]\n", " 1", "1 "],
        ),
        (json!({}), SchemaOptions { order: Order::Any, ..generate() }, &["[1, 2]"], &["[1,2]"]),
    ]);
}

#[test]
fn shortest_completions_are_shortest() {
    let rows = [
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": ["string", "integer"]}}}),
            "",
            "{\"a\": 0}",
        ),
        (json!({"type": "array", "minItems": 2, "items": {"enum": ["aa", "b"]}}), "[\"a", "a\", \"b\"]"),
        (json!({"enum": ["abcé", "ab"]}), "\"abc", "é\""),
        (json!({"type": "number", "minimum": 10, "maximum": 11}), "1", "0"),
        (
            json!({"type": "object", "minProperties": 2, "additionalProperties": false, "properties": {"long": {"const": "xxxx"}, "b": {"const": 0}, "c": {"const": 1}}}),
            "{",
            "\"b\": 0, \"c\": 1}",
        ),
    ];
    for (schema, prefix, rest) in rows {
        let mut machine = machine(&schema, generate()).unwrap();
        let (config, _) = run(&mut machine, prefix.as_bytes());
        assert_eq!(machine.closing_len(config) as usize, rest.len(), "{schema} {prefix}");
        close(&mut machine, config);
    }
}

#[test]
fn rejects_unsupported_keywords_with_their_place() {
    let cases = [
        (json!({"properties": {"a/b": {"pattern": "(x)\\1"}}}), "/properties/a~1b/pattern", "pattern"),
        (json!({"patternProperties": {"a(": {}}}), "/patternProperties/a(", "patternProperties"),
        (json!({"not": {"uniqueItems": true}, "contains": {"const": 1}}), "/not/uniqueItems", "uniqueItems"),
        (json!({"contains": {"const": 1}, "minContains": 5000}), "/contains", "contains"),
        (json!({"not": {"not": {"$ref": "#"}}}), "", "$ref"),
        (json!({"$ref": "http://e.example/x"}), "/$ref", "$ref"),
        (json!({"$ref": "#/$defs/x"}), "/$ref", "$ref"),
        (json!({"$ref": "#"}), "", "$ref"),
        (json!({"type": "text"}), "/type", "type"),
        (json!({"minLength": -1}), "/minLength", "minLength"),
        (
            json!({"minProperties": 5000, "propertyNames": {"pattern": "^x*$"}, "type": "object"}),
            "/minProperties",
            "minProperties",
        ),
        (json!({"type": "object", "required": ["a"], "properties": {"a": false}}), "", "properties"),
        (json!({"type": "array", "items": {"$ref": "#"}, "minItems": 1}), "", "items"),
    ];
    for (schema, pointer, keyword) in cases {
        let error = compile(&schema, &Remotes::new(), generate(), &Limits::default()).unwrap_err();
        assert_eq!(error.pointer(), Some(pointer), "{schema}: {error}");
        assert!(error.to_string().contains(&format!("`{keyword}`")), "{schema}: {error}");
    }
}

#[test]
fn keywords_without_effect_are_listed() {
    let schema =
        json!({"format": "colour", "x-note": 1, "title": "t", "items": {"$schema": DRAFT_7, "const": 1}});
    let warnings = compile(&schema, &Remotes::new(), generate(), &Limits::default()).unwrap().warnings;
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let expected = ["#/format: this format is unknown", "#/x-note: this keyword is unknown"];
    assert_eq!(warnings, expected);
}

#[test]
fn hostile_schemas_stop_at_a_limit() {
    let mut nested = json!({});
    for _ in 0..400 {
        nested = json!({"items": nested});
    }
    assert!(compile(&nested, &Remotes::new(), generate(), &Limits::default()).is_err());
    let pair = |name: String| json!({"anyOf": [{"required": [name]}, {"maxProperties": 3, "title": name}]});
    let product: Vec<_> = (0..40).map(|at| pair(format!("p{at}"))).collect();
    assert!(compile(&json!({"allOf": product}), &Remotes::new(), generate(), &Limits::default()).is_err());
    let words: Vec<_> = (0..50_000).map(|at| format!("word {at}")).collect();
    let mut machine = machine(&json!({"enum": words}), generate()).unwrap();
    assert!(accepts(&mut machine, "\"word 49999\""));
    let many = json!({"type": "array", "minItems": 3_000_000, "maxItems": 4_000_000, "items": {"const": 1}});
    let mut machine = super::machine(&many, generate()).unwrap();
    let start = machine.start();
    assert_eq!(machine.closing_len(start), 3 * 3_000_000);
}
