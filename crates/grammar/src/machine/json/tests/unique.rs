//! Tests of `uniqueItems`: tables, shortest completions, and refused schemas.

use serde_json::{Value, json};

use super::tables::check;
use super::{close, machine, run};
use crate::machine::{Config, Machine};
use crate::options::{Layout, SchemaOptions};

fn generate() -> SchemaOptions {
    SchemaOptions::default()
}

fn accept() -> SchemaOptions {
    SchemaOptions::accept()
}

fn unique(items: &Value) -> Value {
    json!({"type": "array", "items": items, "uniqueItems": true})
}

#[test]
fn items_differ() {
    check(vec![
        (
            unique(&json!({})),
            accept(),
            &[
                "[]",
                "[1]",
                "[1, true, \"1\", [1], {\"a\": 1}, null, false, 0]",
                "[[1, 2], [2, 1]]",
                "[{\"a\": 1}, {\"a\": 2}, {\"b\": 1}, {\"a\": 1, \"b\": 1}]",
                "[[[1], \"a\"], [[1], \"b\"]]",
                "[[], {}, \"\", [[]]]",
                "[1e1, 1]",
                "[[1, 1], {\"a\": [2, 2]}]",
            ],
            &[
                "[1, 1]",
                "[1, 2, 1]",
                "[1, 1.0]",
                "[10, 1e1]",
                "[0, -0]",
                "[\"a\", \"\\u0061\"]",
                "[null, null]",
                "[[1, 2], [1 , 2.0]]",
                "[{\"a\": 1, \"b\": [2]}, {\"b\": [2e0], \"a\": 1}]",
                "[[], []]",
                "[{}, { }]",
                "[1, 1",
                "[1, 1 ",
            ],
        ),
        (
            unique(&json!({"enum": ["a", "ab", "b", 1]})),
            generate(),
            &["[\"a\", \"ab\", \"b\", 1]", "[]"],
            &["[\"a\", \"a", "[\"b\", \"b", "[\"ab\", \"ab\"]", "[\"a\", \"ab\", \"b\", 1,", "[1, 1"],
        ),
        (
            unique(&json!({"type": "boolean"})),
            generate(),
            &["[true, false]"],
            &["[true, false,", "[true, t", "[false, f"],
        ),
        (
            unique(&json!({"type": "integer", "minimum": 0, "maximum": 3})),
            accept(),
            &["[0, 1, 2, 3]", "[0, 1.0]"],
            &["[0, 1, 2, 3,", "[0, 0.0]", "[3, 2, 3"],
        ),
        (
            unique(&json!({"type": "string", "maxLength": 1, "pattern": "^[ab]?$"})),
            accept(),
            &["[\"\", \"a\", \"b\"]"],
            &["[\"a\", \"a", "[\"\", \"\"", "[\"\", \"a\", \"b\","],
        ),
        (
            unique(&unique(&json!({"type": "string"}))),
            accept(),
            &["[[\"a\", \"b\"], [\"b\", \"a\"], []]", "[[\"a\"], [\"a\", \"b\"]]"],
            &["[[\"a\", \"a\"", "[[\"a\", \"b\"], [\"a\", \"b\"]]", "[[], []]"],
        ),
        (
            json!({"uniqueItems": true, "prefixItems": [{"type": "string"}, {"enum": ["a", "b"]}], "items": false}),
            accept(),
            &["[\"c\", \"a\"]", "[\"a\", \"b\"]", "{}"],
            &["[\"a\", \"a\"", "[\"a\", \"a", "[\"a\", \"b\","],
        ),
        (
            json!({"uniqueItems": true, "contains": {"const": 1}, "items": {"enum": [1, 2, 3]}}),
            accept(),
            &["[1]", "[2, 1]", "[2, 3, 1]"],
            &["[2]", "[2, 2", "[1, 1"],
        ),
        (json!({"uniqueItems": true, "maxItems": 2}), accept(), &["[1, 2]", "1"], &["[1, 1]", "[1, 2, 3"]),
        (
            json!({"uniqueItems": true, "minItems": 2, "items": {"type": "string"}}),
            accept(),
            &["[\"a\", \"b\"]"],
            &["[\"a\"]", "[\"a\", \"a\"]"],
        ),
        (json!({"anyOf": [{"uniqueItems": true}, {"maxItems": 2}]}), accept(), &["[1, 1]"], &["[1, 1, 2]"]),
        (json!({"uniqueItems": false}), accept(), &["[1, 1]"], &[]),
    ]);
}

/// From every prefix of a text, the shortest completion has the computed length.
#[test]
fn completions_are_exact() {
    let objects = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"enum": [1, 2]}},
        "required": ["name", "size"]
    });
    let rows: Vec<(Value, &str, &str)> = vec![
        (unique(&json!({"type": "string"})), "[\"\",", "\" \"]"),
        (unique(&json!({"enum": ["a", "ab", "b"]})), "[\"a\",\"", "b\"]"),
        (unique(&json!({"enum": ["a", "ab", "b"]})), "[\"a\",\"b\",", "\"ab\"]"),
        (unique(&json!({"type": "integer"})), "[0,1,2,3,4,5,6,7,8,9,1", "0]"),
        (unique(&objects), "[{\"name\":\"\",\"size\":1},{", "\"name\":\"\",\"size\":2}]"),
        (unique(&objects), "[{\"name\":\"x\",\"size\":1},{\"name\":\"x\"", ",\"size\":2}]"),
        (unique(&objects), "[{\"name\":\"x\",\"size\":1},{\"name\":\"x", "\",\"size\":2}]"),
        (
            json!({"type": "array", "minItems": 3, "uniqueItems": true, "items": {"type": "integer"}}),
            "",
            "[0,1,2]",
        ),
        (json!({"type": "array", "minItems": 12, "uniqueItems": true}), "", "[0,1,2,3,4,5,6,7,8,9,\"\",-1]"),
        (
            json!({"type": "array", "minItems": 3, "uniqueItems": true, "items": {"enum": ["a", "b", "cc"]}}),
            "[\"cc\"",
            ",\"a\",\"b\"]",
        ),
    ];
    for (schema, prefix, rest) in rows {
        let options = SchemaOptions { layout: Layout::Compact, ..generate() };
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

/// Every prefix can be completed, even if there are only as many values as required items.
#[test]
fn required_items_of_several_kinds() {
    let tuple = |items: Value| {
        let count = items.as_array().unwrap().len();
        json!({"type": "array", "prefixItems": items, "items": false, "minItems": count, "uniqueItems": true})
    };
    let list = |items: Value, count: usize| json!({"type": "array", "items": items, "minItems": count, "uniqueItems": true});
    let object = |members: Value| json!({"type": "object", "properties": members});
    let rule = json!({"anyOf": [{"type": "string"}, object(json!({"name": {"type": "string"}}))]});
    check(vec![
        (
            tuple(json!([{"type": "boolean"}, {"type": "object"}])),
            generate(),
            &["[true, {}]", "[false, {\"a\": [1]}]"],
            &["[{}", "[true]", "[true, true"],
        ),
        (
            tuple(json!([{"enum": ["a", "b"]}, {"const": "a"}, {"type": "string"}])),
            generate(),
            &["[\"b\", \"a\", \"c\"]", "[\"b\", \"a\", \"\"]"],
            &["[\"a", "[\"b\", \"a\", \"a\"", "[\"b\", \"a\", \"b\""],
        ),
        (
            list(rule.clone(), 3),
            generate(),
            &["[\"\", {}, \"a\"]", "[{}, {\"name\": \"\"}, {\"name\": \"a\"}, \"\"]"],
            &["[\"\", {}]", "[\"\", {}, {}", "[{\"name\": \"\"}, {\"name\": \"\"}"],
        ),
        (
            list(list(json!({"type": "boolean"}), 1), 3),
            generate(),
            &["[[true], [false], [true, false], [false, true]]"],
            &["[[true], [true]", "[[true], [false], [true, false], [false, true],", "[[]"],
        ),
        (
            json!({"type": "array", "items": rule, "uniqueItems": true, "minItems": 2, "allOf": [
                {"contains": {"const": "a"}}, {"contains": {"const": "b"}}
            ]}),
            generate(),
            &["[\"a\", \"b\"]", "[\"b\", \"\", {}, \"a\"]"],
            &["[\"a\", \"a", "[\"a\", {}]", "[\"a\"]"],
        ),
        (
            json!({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2}, "uniqueItems": true,
                "contains": {"minimum": 2}, "maxItems": 2}),
            generate(),
            &["[2]", "[1, 2]", "[2, 0]"],
            &["[0, 1", "[1, 1", "[2, 2"],
        ),
    ]);
}

#[test]
fn two_items_are_equal() {
    let repeated = |items: Value| json!({"type": "array", "items": items, "not": {"uniqueItems": true}});
    check(vec![
        (
            repeated(json!({"type": ["number", "string", "boolean"]})),
            accept(),
            &["[1, 1]", "[1, 2, 1.0]", "[0, -0]"],
            &["[]", "[1]", "[1, 2]", "1", "{}", "[1, \"1\", true]"],
        ),
        (
            json!({"maxItems": 3, "not": {"uniqueItems": true}, "type": "array",
                "items": {"type": ["number", "string"]}}),
            generate(),
            &["[1, 1]", "[1, 2, 2]", "[\"ab\", 1, \"ab\"]"],
            &["[1, 2, 3", "[\"ab\", 1, \"b", "[1, 1, 1,"],
        ),
        (
            repeated(json!({"enum": ["a", "b", "c"]})),
            generate(),
            &["[\"a\", \"b\", \"c\", \"b\"]"],
            &["[\"a\", \"b\"]"],
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "object"}],
                "items": {"type": "integer"}, "not": {"uniqueItems": true}}),
            generate(),
            &["[true, {}, 7, 7]", "[true, {\"a\": 1}, 7, 8, 7]"],
            &["[true, {}, 7]", "[true, true", "[true, {}, 7, 8]"],
        ),
        (
            json!({"oneOf": [{"type": "array", "uniqueItems": true}, {"type": "array", "items": {"type": "integer"}}]}),
            accept(),
            &["[\"a\"]", "[1, 1]", "[true, 1]"],
            &["[1]", "[]", "[\"a\", \"a\"", "[1, true, 1"],
        ),
        (
            json!({"type": "array", "items": {"type": ["number", "string"]}, "if": {"uniqueItems": true},
                "then": {"maxItems": 1}, "else": {"maxItems": 2}}),
            generate(),
            &["[]", "[1]", "[1, 1]"],
            &["[1, 2", "[\"ab\", \"b", "[1, 1,"],
        ),
    ]);
}

#[test]
fn many_required_items_are_found_quickly() {
    let numbers: Vec<u32> = (0..1000).collect();
    let rows = [
        json!({"type": "array", "uniqueItems": true, "minItems": 64, "items": {"enum": numbers}}),
        json!({"type": "array", "uniqueItems": true, "minItems": 60, "items": {"type": "string"}}),
        json!({"type": "array", "uniqueItems": true, "minItems": 40, "items": {"type": "object",
            "properties": {"name": {"type": "string"}, "kind": {"enum": ["a", "b"]}}, "required": ["name", "kind"]}}),
    ];
    for schema in rows {
        let begun = std::time::Instant::now();
        let mut machine = machine(&schema, generate()).unwrap_or_else(|error| panic!("{schema}: {error}"));
        let start = machine.start();
        close(&mut machine, start);
        assert!(begun.elapsed().as_secs() < 20, "{schema}: {:?}", begun.elapsed());
    }
}

#[test]
fn rejects_unsupported_uses_of_unique_items() {
    let rows = [
        json!({"prefixItems": [true, {"type": "string"}], "items": false, "not": {"uniqueItems": true}}),
        json!({"type": "array", "uniqueItems": true, "minItems": 4097}),
        json!({"type": "array", "uniqueItems": true, "minItems": 3, "items": {"type": "boolean"}}),
        json!({"type": "array", "uniqueItems": true, "minItems": 2, "prefixItems": [{"const": 1}, {"const": 1}]}),
        json!({"type": "array", "uniqueItems": true, "minItems": 2, "contains": {"const": 1}, "minContains": 2}),
        json!({"type": "array", "uniqueItems": true, "minItems": 2, "contains": {"const": 1},
            "prefixItems": [{"type": "string"}]}),
    ];
    let errors = rows.iter().filter_map(|schema| Some(machine(schema, accept()).err()?.to_string()));
    insta::assert_snapshot!(errors.collect::<Vec<_>>().join("\n"), @r"
    #/not/uniqueItems: `uniqueItems`: the negation is supported only without `contains`, and if at least the last two items have the same subschema
    #/uniqueItems: `uniqueItems`: 4097 required items that must differ, more than the limit of 64
    #: `uniqueItems`: no value can satisfy both this and `minItems` and `items`
    #: `uniqueItems`: no value can satisfy both this and `minItems` and `prefixItems`
    #: `uniqueItems`: no value can satisfy both this and `contains`
    #/uniqueItems: `uniqueItems`: if required items must differ, each `contains` must apply to all items and to other values than the rest, without `maxContains`
    ");
}
