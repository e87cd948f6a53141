//! Definitions that contradict themselves cause an error with the path of the field.

use formwork_fields::builder::{choice, composite, constant, field, float, reference};
use formwork_fields::field::Scalar;
use formwork_fields::{Definition, DefinitionBuilder, FieldsError, Format, Kind};

fn error(definition: &str, format: Format) -> String {
    Definition::parse(definition, format).expect_err(definition).to_string()
}

fn in_json(definition: &str) -> String {
    error(definition, Format::Json)
}

#[test]
fn contradictions_are_told_with_their_paths() {
    let cases = [
        (
            r#"{"fields": [{"name": "stats", "fields": [{"name": "strength", "type": "int", "min": 10, "max": 1}]}]}"#,
            "stats.strength: min (10) is greater than max (1)",
        ),
        (r#"{"name": "class", "type": "choice", "options": []}"#, "$: the choice has no options"),
        (
            r#"{"fields": [{"name": "a", "type": "boolean"}, {"name": "a", "type": "int"}]}"#,
            "a: duplicate name",
        ),
        (
            r#"{"fields": [{"name": "content", "type": "variant", "variants": [{"name": "dialogue", "fields": [
                {"name": "text", "type": "template", "template": "says nothing"}]}]}]}"#,
            "content.dialogue.text: the template must contain at least one `<generated>`",
        ),
        (
            r#"{"fields": [{"name": "items", "type": "array", "element": {"type": "string", "min_length": -1}}]}"#,
            "items[]: `min_length` is -1; expected 0 or more",
        ),
        (
            r#"{"fields": [{"name": "items", "type": "array", "min_items": 3, "max_items": 2, "element": {"type": "int"}}]}"#,
            "items: min_items (3) is greater than max_items (2)",
        ),
        (
            r#"{"type": "string", "min_length": 5, "max_length": 4}"#,
            "$: min_length (5) is greater than max_length (4)",
        ),
        (r#"{"type": "float", "min": 0.6, "max": 0.4}"#, "$: min (0.6) is greater than max (0.4)"),
        (
            r#"{"type": "float", "min": 0.11, "max": 0.19, "decimals": 1}"#,
            "$: no number with at most 1 decimals lies between 0.11 and 0.19",
        ),
        (r#"{"type": "choice", "options": ["a", "b", "a"]}"#, "$: duplicate option \"a\""),
        (r#"{"type": "choice", "options": [2, 2.0]}"#, "$: duplicate option 2"),
        (
            r#"{"type": "choice", "options": [1, [2]]}"#,
            "$: `options`: expected a string, a number or a boolean, found a list",
        ),
        (
            r#"{"type": "choice", "options": ["a", "b"], "weights": [1]}"#,
            "$: expected 2 weights, one for each option; found 1",
        ),
        (
            r#"{"type": "choice", "options": ["a", "b"], "weights": []}"#,
            "$: expected 2 weights, one for each option; found 0",
        ),
        (
            r#"{"type": "choice", "options": ["a", "b"], "weights": [1, 0]}"#,
            "$: the weight 0 is not between 1e-9 and 1e9",
        ),
        (r#"{"type": "variant", "variants": []}"#, "$: the variant has no structures"),
        (
            r#"{"name": "event", "type": "variant", "variants": [{"type": "int"}]}"#,
            "[0]: every structure of a tagged variant needs a name",
        ),
        (
            r#"{"type": "variant", "untagged": true, "variants": [{"name": "a", "type": "int"}, {"name": "a", "type": "boolean"}]}"#,
            "a: duplicate name",
        ),
        (r#"{"fields": [{"name": "", "type": "int"}]}"#, "[0]: the name is empty"),
        (
            r#"{"fields": [{"name": "odd name", "type": "integer"}]}"#,
            "[\"odd name\"]: unknown type `integer`; expected one of ",
        ),
        (r#"{"type": "string", "characters": "z-a"}"#, "$: the range z-a runs backwards"),
        (r#"{"type": "int", "min": 1.5}"#, "$: `min`: expected a 64-bit integer, found a number"),
        (r#"{"type": "int", "max": 9223372036854775808}"#, "$: `max`: expected a 64-bit integer"),
        (
            r#"{"type": "constant", "value": null}"#,
            "$: `value`: expected a string, a number or a boolean, found null",
        ),
        (
            r#"{"type": "constant", "value": 1e300}"#,
            "$: 1e300 is too large; 64-bit floats are exact for integers up to 9007199254740991",
        ),
        (r#"{"name": "x"}"#, "$: `type` is missing"),
        (r#"{"fields": [3]}"#, "[0]: expected a map with the keys of a field, found an integer"),
        ("[]", "$: expected a map with the keys of a field, found a list"),
    ];
    for (definition, expected) in cases {
        let error = in_json(definition);
        assert!(error.starts_with(expected), "{definition}\n{error}\n{expected}");
    }
}

#[test]
fn paths_and_bounds_are_told_exactly() {
    let cases = [
        (r#"{"type": "int", "description": ""}"#, "$: the description is empty"),
        (r#"{"type": "float", "decimals": 5000000000}"#, "$: decimals is 5000000000; the maximum is 15"),
        (
            r#"{"type": "float", "min": 0, "max": 80000000000000.01}"#,
            "$: 80000000000000.02 has too many digits; with 2 decimals, 64-bit floats are exact up to 10000000000000",
        ),
        (
            r#"{"name": "a", "fields": [{"name": "a", "type": "choice", "options": []}], "type": "composite"}"#,
            "a: the choice has no options",
        ),
        (
            r#"{"fields": [{"name": "definitions", "fields": [{"name": "a", "type": "choice", "options": []}]}]}"#,
            "[\"definitions\"].a: the choice has no options",
        ),
        (
            r#"{"type": "boolean", "definitions": {"é": {"type": "int"}}}"#,
            "definitions.é: invalid structure name; expected only ASCII letters",
        ),
        (
            r#"{"type": "constant", "value": 9007199254740993.0}"#,
            "$: 9.007199254740992e15 is too large; 64-bit floats are exact for integers up to 9007199254740991",
        ),
    ];
    for (definition, expected) in cases {
        let error = in_json(definition);
        assert!(error.starts_with(expected), "{definition}\n{error}\n{expected}");
    }
}

#[test]
fn recursion_without_end_is_told_where_it_begins() {
    let with = |kind: &str| {
        in_json(&format!(r#"{{"type": "ref", "to": "node", "definitions": {{"node": {kind}}}}}"#))
    };
    let endless = "infinite recursion: every value of `node` would be infinitely large";
    assert_eq!(
        with(
            r#"{"fields": [{"name": "value", "type": "int"}, {"name": "next", "type": "ref", "to": "node"}]}"#
        ),
        format!("definitions.node.next: {endless}")
    );
    assert_eq!(
        with(
            r#"{"fields": [{"name": "all", "type": "array", "min_items": 1, "element": {"type": "ref", "to": "node"}}]}"#
        ),
        format!("definitions.node.all[]: {endless}")
    );
    assert_eq!(
        with(
            r#"{"type": "variant", "variants": [{"name": "a", "type": "ref", "to": "node"}, {"name": "b", "type": "ref", "to": "node"}]}"#
        ),
        format!("definitions.node.a: {endless}")
    );
    assert_eq!(with(r#"{"type": "ref", "to": "node"}"#), format!("definitions.node: {endless}"));
    assert_eq!(
        with(
            r#"{"type": "variant", "untagged": true, "variants": [{"type": "ref", "to": "node"}, {"type": "int"}]}"#
        ),
        "definitions.node: circular reference: `node` refers to itself"
    );
    assert_eq!(
        with(r#"{"type": "ref", "to": "other"}"#),
        "definitions.node: unknown structure `other`; expected a name from `definitions`"
    );
    let circle = r#"{"type": "ref", "to": "a", "definitions": {
        "a": {"fields": [{"name": "b", "type": "ref", "to": "b"}]}, "b": {"fields": [{"name": "a", "type": "ref", "to": "a"}]}}}"#;
    assert_eq!(
        in_json(circle),
        "definitions.a.b: infinite recursion: every value of `b` would be infinitely large"
    );
}

#[test]
fn recursion_that_can_end_is_fine() {
    for way_out in [
        r#"{"fields": [{"name": "next", "type": "ref", "to": "node", "optional": true}]}"#,
        r#"{"fields": [{"name": "all", "type": "array", "max_items": 2, "element": {"type": "ref", "to": "node"}}]}"#,
        r#"{"type": "variant", "variants": [{"name": "leaf", "type": "int"}, {"name": "node", "type": "ref", "to": "node"}]}"#,
        r#"{"type": "variant", "untagged": true, "variants": [{"type": "int"}, {"fields": [{"name": "n", "type": "ref", "to": "node"}]}]}"#,
    ] {
        let definition = format!(r#"{{"type": "ref", "to": "node", "definitions": {{"node": {way_out}}}}}"#);
        let definition = Definition::parse(&definition, Format::Json).expect("it can end");
        assert!(definition.gbnf().contains("node ::="));
        assert!(definition.schema()["$defs"]["node"].is_object());
        assert!(definition.template().contains("<the same as the whole"), "{}", definition.template());
    }
}

/// Builds a definition with a structure of `levels` nested fields; each level is two levels in JSON
/// and YAML.
fn nested(levels: usize) -> Result<Definition, FieldsError> {
    let mut kind = Kind::from(choice(["a", "b"]));
    for _ in 0..levels {
        kind = composite([field("fields", kind)]).into();
    }
    DefinitionBuilder::new(reference("deep")).define("deep", kind).build()
}

#[test]
fn all_formats_are_read_as_deep_as_fields_nest() {
    let deepest = nested(60).expect("well-formed");
    for format in [Format::Json, Format::Yaml, Format::Toml] {
        let text = deepest.to_text(format).expect("written");
        assert_eq!(Definition::parse(&text, format).as_ref(), Ok(&deepest), "{format:?}");
    }
    assert!(deepest.template().contains("choice between"));
    assert!(!deepest.schema().is_null() && deepest.validate("1").len() == 1);
    assert!(nested(61).unwrap_err().to_string().ends_with("nested deeper than the limit of 60"));
}

#[test]
fn equal_values_are_written_in_one_way() {
    let number = |value: f64| Definition::new("x", constant(Scalar::Number(value))).expect("well-formed");
    assert_eq!(number(2.0), Definition::new("x", constant(2)).expect("well-formed"));
    assert_eq!(number(-0.0).gbnf(), "root ::= x\nx ::= \"0\"\n");
    let float = Definition::new("x", float(-0.0, 1.0)).expect("well-formed");
    assert_eq!(float.template(), "\"<number between 0–1>\"");
}

#[test]
fn unknown_and_doubled_keys_are_told_with_their_places() {
    let told = in_json(r#"{"fields": [{"name": "age", "type": "int", "mni": 1}]}"#);
    assert_eq!(
        told,
        "age: unknown key `mni`; int accepts `type`, `description`, `name`, `optional`, `probability`, `min`, `max`"
    );
    let told = in_json(r#"{"type": "array", "element": {"name": "x", "type": "int"}}"#);
    assert_eq!(told, "[]: unknown key `name`; int accepts `type`, `description`, `min`, `max`");
    let told = in_json("{\"type\": \"int\",\n \"min\": 1, \"min\": 2}");
    assert!(told.starts_with("JSON, line 2, column "), "{told}");
    assert!(told.contains("duplicate key `min`"), "{told}");
    assert!(error("type: int\nmin: 1\nmin: 2", Format::Yaml).starts_with("YAML, line 3, column 1: "));
    assert!(error("type = \"int\"\nmin = 1\nmin = 2", Format::Toml).starts_with("TOML, line 3, column 1: "));
    assert!(in_json("{\"type\": }").starts_with("JSON, line 1, column 10: "));
    assert!(error("a: [", Format::Yaml).starts_with("YAML, line "));
    assert!(error("a = ", Format::Toml).starts_with("TOML, line 1, column "));
}

#[test]
fn yaml_means_what_it_looks_like() {
    let definition = Definition::parse("type: choice\noptions: [yes, no, on, 010, 1_0, 1:30]", Format::Yaml)
        .expect("a choice");
    assert_eq!(
        definition.template(),
        r#""<choice between [\"yes\", \"no\", \"on\", \"010\", \"1_0\", \"1:30\"]>""#
    );
}

#[test]
fn hostile_definitions_end_in_errors() {
    let deep =
        format!("{}{{\"type\": \"int\"}}{}", r#"{"type": "array", "element": "#.repeat(500), "}".repeat(500));
    assert!(in_json(&deep).contains("recursion limit") || in_json(&deep).contains("nested deeper"));
    let deep =
        format!("{}{{\"type\": \"int\"}}{}", r#"{"type": "array", "element": "#.repeat(100), "}".repeat(100));
    assert!(in_json(&deep).contains("nested deeper than the limit of 60"), "{}", in_json(&deep));
    assert!(in_json(r#"{"type": "string", "max_length": 1000000000}"#).contains("the maximum is 1000000"));
    let many: Vec<String> =
        (0..30_000).map(|index| format!(r#"{{"name": "f{index}", "type": "boolean"}}"#)).collect();
    assert!(
        in_json(&format!(r#"{{"fields": [{}]}}"#, many.join(",")))
            .contains("more than 20000 fields and options")
    );
    let bomb: Vec<String> = (0..40)
        .map(|index| {
            let next = index + 1;
            format!(r#""d{index}": {{"fields": [{{"name": "a", "type": "ref", "to": "d{next}"}}, {{"name": "b", "type": "ref", "to": "d{next}"}}]}}"#)
        })
        .collect();
    let bomb = format!(
        r#"{{"type": "ref", "to": "d0", "definitions": {{{}, "d40": {{"type": "int"}}}}}}"#,
        bomb.join(",")
    );
    let bomb = Definition::parse(&bomb, Format::Json).expect("it is finite");
    assert!(bomb.template().len() < 1 << 20);
    assert!(bomb.gbnf().lines().count() < 60);
    let aliases = (0..60).map(|i| format!("b{i}: &b{i} [*a, *a]")).collect::<Vec<_>>().join("\n");
    let aliases = format!("a: &a [x, x]\n{aliases}\n");
    assert!(!error(&aliases, Format::Yaml).is_empty());
}
