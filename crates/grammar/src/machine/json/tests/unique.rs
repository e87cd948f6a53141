//! `uniqueItems`: tables, shortest completions, and what is refused.

use serde_json::{Value, json};

use super::tables::check;
use super::{close, machine, run};
use crate::frontend::json_schema::{Layout, SchemaOptions};
use crate::machine::Config;

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

/// From every prefix of a text the shortest completion is as long as promised, byte by byte.
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

#[test]
fn what_is_refused() {
    let rows = [
        json!({"not": {"uniqueItems": true}}),
        json!({"type": "array", "uniqueItems": true, "minItems": 65}),
        json!({"type": "array", "uniqueItems": true, "minItems": 3, "items": {"type": "boolean"}}),
        json!({"type": "array", "uniqueItems": true, "minItems": 2, "items": {"type": "object"}}),
        json!({"type": "array", "uniqueItems": true, "minItems": 2, "contains": {"const": 1}}),
    ];
    let errors = rows.iter().filter_map(|schema| Some(machine(schema, accept()).err()?.to_string()));
    insta::assert_snapshot!(errors.collect::<Vec<_>>().join("\n"), @r"
    #/not/uniqueItems: `uniqueItems`: the negation of this keyword is not supported
    #/uniqueItems: `uniqueItems`: more than 64 required items that must differ are not supported
    #: `schema`: no value can satisfy this schema
    #/uniqueItems: `uniqueItems`: several required items that must differ are supported if they are scalars of one kind
    #/uniqueItems: `uniqueItems`: items that must differ, and several of which must satisfy other subschemas
    ");
}
