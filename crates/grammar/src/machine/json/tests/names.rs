//! Tests of the names of undeclared members: no name occurs twice, and completions use names that
//! are left.

use serde_json::{Value, json};

use super::tables::check;
use super::{accepts, close, machine, run};
use crate::machine::{Config, Machine};
use crate::options::{Layout, Order, SchemaOptions};

fn generate() -> SchemaOptions {
    SchemaOptions::default()
}

fn accept() -> SchemaOptions {
    SchemaOptions::accept()
}

fn compact() -> SchemaOptions {
    SchemaOptions { layout: Layout::Compact, ..generate() }
}

#[test]
fn rejects_a_repeated_name() {
    let enumerated = json!({"type": "object", "properties": {"c": {"enum": ["x", "y"]}}, "required": ["c"]});
    let open = json!({"type": "object"});
    check(vec![
        (
            enumerated,
            accept(),
            &[r#"{"c": "x", "k": 1}"#, r#"{"c": "x", "k": 1, "kk": 2, "K": 3}"#],
            &[
                r#"{"c": "x", "k": 1, "k": 2}"#,
                r#"{"k": 1, "c": "x", "k": 2}"#,
                r#"{"c": "x", "k": 1, "\u006b": 2}"#,
                r#"{"c": "x", "\u006B": 1, "k": 2}"#,
                r#"{"c": "x", "k": 1, "l": 2, "m": 3, "l""#,
            ],
        ),
        (
            open.clone(),
            generate(),
            &[
                r#"{"a": {"a": 1}, "b": {"a": 1}}"#,
                r#"{"": 1, "a": 2, "ab": 3, "abc": 4}"#,
                r#"{"\n": 1, "\\n": 2, "n": 3}"#,
                r#"{"é": 1, "ê": 2, "e": 3}"#,
            ],
            &[
                r#"{"": 1, """#,
                r#"{"a": 1, "a""#,
                r#"{"ab": 1, "a": 2, "ab""#,
                r#"{"\n": 1, "\n""#,
                r#"{"é": 1, "é""#,
                r#"{"a": {"x": 1, "x""#,
                r#"{"a": {"b": 1}, "a""#,
                r#"{"a": [{"b": 1}, {"b": 1, "b""#,
            ],
        ),
        (
            open.clone(),
            SchemaOptions { layout: Layout::Pretty, ..generate() },
            &["{\n  \"a\": 1,\n  \"b\": 2\n}"],
            &["{\n  \"a\": 1,\n  \"a\""],
        ),
        (
            open.clone(),
            SchemaOptions { order: Order::Any, ..compact() },
            &[r#"{"a":1,"b":2}"#],
            &[r#"{"a":1,"a""#],
        ),
        (open, compact(), &[r#"{"a":1,"b":2}"#], &[r#"{"a":1,"a""#]),
        (
            json!({"items": {"type": "object"}, "uniqueItems": true}),
            accept(),
            &[r#"[{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"b": 1}]"#],
            &[
                r#"[{"a": 1, "a": 1}]"#,
                r#"[{"a": 1}, {"a": 1, "a""#,
                r#"[{"a": 1, "b": 2}, {"b": 2, "a": 1}"#,
            ],
        ),
        (
            json!({"anyOf": [{"additionalProperties": {"type": "integer"}}, {"additionalProperties": {"type": "string"}}]}),
            accept(),
            &[r#"{"a": 1, "b": 2}"#, r#"{"a": "", "b": ""}"#],
            &[r#"{"a": 1, "a": 2}"#, r#"{"a": "", "b": 1}"#],
        ),
    ]);
}

#[test]
fn names_of_a_finite_language_run_out() {
    let only_x = json!({"type": "object", "patternProperties": {"^x$": {}}, "additionalProperties": false});
    let few = json!({
        "type": "object",
        "patternProperties": {"^[ab]$": {"type": "integer"}, "^c?$": {"type": "null"}},
        "additionalProperties": false
    });
    check(vec![
        (only_x, generate(), &["{}", r#"{"x": 1}"#], &[r#"{"x": 1,"#, r#"{"y"#]),
        (
            few.clone(),
            generate(),
            &[r#"{"b": 1, "": null, "a": 2, "c": null}"#],
            &[
                r#"{"a": 1, "a"#,
                r#"{"b": 1, "": null, "a": 2, "c": null,"#,
                r#"{"c": null, "c"#,
                r#"{"c": null, "": null, "b": 1, "b"#,
            ],
        ),
        (
            json!({"allOf": [few.clone()], "minProperties": 4}),
            generate(),
            &[r#"{"b": 1, "": null, "a": 2, "c": null}"#],
            &[r#"{"b": 1, "": null, "a": 2}"#],
        ),
        (
            json!({"type": "object", "propertyNames": {"pattern": "^a{1,3}$"}, "maxProperties": 2}),
            accept(),
            &[r#"{"a": 1, "aaa": 2}"#],
            &[r#"{"a": 1, "a": 2}"#, r#"{"a": 1, "aa": 2, "#],
        ),
    ]);
    assert!(machine(&json!({"allOf": [few], "minProperties": 5}), generate()).is_err());
}

#[test]
fn several_undeclared_members_may_be_required() {
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 2});
    check(vec![
        (
            strings.clone(),
            generate(),
            &[r#"{"a": "", "b": ""}"#, r#"{"": "", " ": "", "x": ""}"#],
            &["{}", r#"{"a": ""}"#, r#"{"a": "", "a": ""}"#],
        ),
        (
            json!({"minProperties": 3, "properties": {"a": {"type": "null"}, "b": false}, "required": ["a"], "type": "object"}),
            accept(),
            &[r#"{"a": null, "c": 1, "d": 2}"#, r#"{"c": 1, "a": null, "d": 2}"#],
            &[
                r#"{"a": null, "c": 1}"#,
                r#"{"a": null, "c": 1, "c": 2}"#,
                r#"{"a": null, "b": 1, "c": 1, "d": 2}"#,
            ],
        ),
        (
            json!({
                "type": "object", "minProperties": 2, "maxProperties": 2,
                "propertyNames": {"pattern": "^[xy]$"}, "additionalProperties": {"type": "boolean"}
            }),
            accept(),
            &[r#"{"x": true, "y": false}"#],
            &[r#"{"x": true}"#, r#"{"x": true, "x""#],
        ),
    ]);
}

/// From every prefix of a text, the shortest completion has the computed length.
#[test]
fn completions_are_exact() {
    let map =
        |min: u32| json!({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": min});
    let rows: Vec<(Value, &str, &str)> = vec![
        (map(2), "", r#"{"":null," ":null}"#),
        (map(2), r#"{"x"#, r#"":null,"":null}"#),
        (map(2), "{\"", r#"":null," ":null}"#),
        (map(3), r#"{"":null,""#, r#"#":null,"!":null}"#),
        (map(1), r#"{"":null,"a":null,""#, r#"b":null}"#),
        (map(1), r#"{"a":null,"#, r#""":null}"#),
        (
            json!({"type": "object", "patternProperties": {"^[a-z]{3}$": {"const": 1}}, "additionalProperties": false, "minProperties": 2}),
            r#"{"abc":1,"ab"#,
            r#"d":1}"#,
        ),
        (
            json!({"type": "object", "patternProperties": {"^a*$": {"const": 1}}, "additionalProperties": false, "minProperties": 3}),
            r#"{"a":1"#,
            r#","":1,"aa":1}"#,
        ),
        (
            json!({"type": "object", "patternProperties": {"^.$": {"const": 1}}, "additionalProperties": {"const": 100}, "minProperties": 2}),
            "",
            r#"{"a":1,"b":1}"#,
        ),
        (
            json!({"type": "object", "properties": {"long": {"const": "xxxxx"}, "b": {"const": 0}}, "additionalProperties": {"const": 10}, "minProperties": 3}),
            "{",
            r#""b":0,"":10,"a":10}"#,
        ),
        (
            json!({"type": "object", "not": {"additionalProperties": {"type": "null"}}, "propertyNames": {"pattern": "^a{0,2}$"}}),
            r#"{"":null,"#,
            r#""a":0}"#,
        ),
        (
            json!({"type": "object", "not": {"additionalProperties": {"type": "null"}}, "propertyNames": {"pattern": "^a{0,2}$"}, "minProperties": 3}),
            "{",
            r#""":0,"a":0,"aa":0}"#,
        ),
    ];
    for (schema, prefix, rest) in rows {
        for order in [Order::Declared, Order::Any] {
            let options = SchemaOptions { order, ..compact() };
            let mut machine = machine(&schema, options).unwrap_or_else(|error| panic!("{schema}: {error}"));
            let (config, taken) = run(&mut machine, prefix.as_bytes());
            assert_ne!(config, Config::DEAD, "{schema}: {prefix} ({taken} bytes taken)");
            let shortest = close(&mut machine, config);
            let shown = String::from_utf8_lossy(&shortest).into_owned();
            assert_eq!(shortest.len(), rest.len(), "{schema}: {prefix} goes on with {shown}");
            let text = [prefix.as_bytes(), rest.as_bytes()].concat();
            for cut in 0..=text.len() {
                let (config, _) = run(&mut machine, &text[..cut]);
                assert_ne!(config, Config::DEAD, "{schema}: {:?}", String::from_utf8_lossy(&text[..cut]));
                close(&mut machine, config);
            }
        }
    }
}

#[test]
fn deeply_indented_members_are_counted_exactly() {
    let schema = json!({
        "type": "object",
        "minProperties": 3,
        "additionalProperties": {"anyOf": [{"const": [0]}, {"const": "twenty bytes of a text"}]}
    });
    let mut nested = schema;
    for _ in 0..12 {
        nested = json!({"type": "object", "properties": {"a": nested}, "required": ["a"]});
    }
    let mut machine = machine(&nested, SchemaOptions { layout: Layout::Pretty, ..generate() }).unwrap();
    let start = machine.start();
    let text = close(&mut machine, start);
    assert!(accepts(&mut machine, text));
}

/// If no undeclared name has been seen, the configs are the same as without tracking of names.
#[test]
fn declared_names_need_no_memory() {
    let schema =
        json!({"type": "object", "properties": {"name": {}, "size": {}}, "additionalProperties": true});
    let mut machine = machine(&schema, SchemaOptions { order: Order::Any, ..compact() }).unwrap();
    let (one, _) = run(&mut machine, br#"{"name":1,"size":2"#);
    let (other, _) = run(&mut machine, br#"{"size":1,"name":2"#);
    assert_eq!(one, other);
}

#[test]
fn a_thousand_names_are_remembered() {
    let mut machine = machine(&json!({"type": "object"}), compact()).unwrap();
    let text: Vec<String> = (0..1000).map(|at| format!("\"name {at}\":{at}")).collect();
    let text = format!("{{{}", text.join(","));
    let (config, _) = run(&mut machine, text.as_bytes());
    assert_ne!(config, Config::DEAD);
    assert_eq!(machine.closing_len(config), 1);
    for at in [0, 500, 999] {
        assert!(!accepts(&mut machine, format!("{text},\"name {at}\":0}}")));
    }
    assert!(accepts(&mut machine, format!("{text},\"name 1000\":0}}")));
    assert!(machine.byte_len() < 32 << 20, "{}", machine.byte_len());
}
