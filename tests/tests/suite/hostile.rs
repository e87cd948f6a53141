//! Grammars and schemas made to exhaust time or memory end at a named limit.

use formwork_grammar::{Grammar, Limits, SchemaOptions};
use serde_json::json;

fn gbnf_error(source: &str) -> String {
    Grammar::gbnf(source, &Limits::default()).expect_err("refused").to_string()
}

/// `levels` rules that each call the next one twice.
fn doubling(levels: usize) -> String {
    let rules = (0..levels).map(|level| format!("a{level} ::= a{} a{}\n", level + 1, level + 1));
    format!("root ::= a0\n{}a{levels} ::= \"x\"\n", rules.collect::<String>())
}

#[test]
fn outputs_that_must_be_huge_are_refused() {
    for source in [
        doubling(40),
        doubling(31),
        "root ::= \"x\"{1048576}".to_owned(),
        "root ::= \"x\"* a{4096}\na ::= \"x\"{1048576}".to_owned(),
    ] {
        assert!(gbnf_error(&source).contains("limit of"), "{source}");
    }
    for schema in [
        json!({"type": "string", "minLength": 100_000_000}),
        json!({"type": "array", "items": {"type": "integer"}, "minItems": 100_000_000}),
        json!({
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"type": "array", "items": {"type": "null"}, "minItems": 3_000_000}
        }),
    ] {
        let error = Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default());
        assert!(error.expect_err("refused").to_string().contains("limit of"), "{schema}");
    }
}

#[test]
fn deep_nesting_is_refused_however_it_is_spelt() {
    let groups = format!("root ::= {}\"a\"{}", "(".repeat(60_000), ")".repeat(60_000));
    let stacked = format!("root ::= {}\"a\"{}", "(".repeat(255), format!("){}", "*".repeat(255)).repeat(255));
    for source in [groups, stacked] {
        assert!(gbnf_error(&source).contains("nested deeper"));
    }
}

#[test]
fn repeated_optional_parts_are_refused_or_compile_in_time() {
    for source in [
        "root ::= ([a-z]?){0,5000}",
        "root ::= (\" \"? [a-z]?){0,1000}",
        "root ::= (\"a\"? (\"\"?){0,119}){0,5600}",
        "root ::= (\"a\" | \"a\")*",
        "root ::= ((\"a\"*)*)*",
        "root ::= (\"\"{1000000}){1000000}",
    ] {
        if let Ok(grammar) = Grammar::gbnf(source, &Limits::default()) {
            assert!(grammar.accepts(b"") || grammar.accepts(b"a"), "{source}");
        }
    }
}

#[test]
fn bounds_in_the_millions_cost_nothing_until_they_are_reached() {
    let schema = json!({"type": "string", "maxLength": 1_000_000});
    let grammar =
        Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default()).expect("supported");
    assert!(grammar.accepts(b"\"short\""));
    let choices: Vec<String> = (0..20_000).map(|number| format!("choice number {number}")).collect();
    let grammar = Grammar::choices(&choices, &Limits::default()).expect("small enough");
    assert!(grammar.accepts(b"choice number 19999") && !grammar.accepts(b"choice number 20000"));
}

#[test]
fn what_repetition_unrolls_to_is_told_before_it_is_unrolled() {
    for source in
        ["root ::= (\"a\"{0,1000}){0,1000}", "root ::= .{0,1000000}", "root ::= (([a-z]{9}){99}){999}"]
    {
        assert!(gbnf_error(source).contains("states, more than the limit of"), "{source}");
    }
    let pattern = "((ab{0,100}){0,100}){0,100}";
    let error = Grammar::regex(pattern, &Limits::default()).expect_err("refused").to_string();
    assert!(error.contains("states, more than the limit of"), "{error}");
}

#[test]
fn alternatives_of_a_recursive_schema_do_not_multiply() {
    let kind = |name: &str| json!({"type": "object", "properties": {"a": {"$ref": "#"}, name: {}}, "additionalProperties": false});
    let schema = json!({"anyOf": [kind("x"), kind("y"), kind("z"), kind("u"), kind("v"), kind("w")]});
    let grammar =
        Grammar::json_schema(&schema, &SchemaOptions::accept(), &Limits::default()).expect("supported");
    let text = |end: &str| format!("{}{{}}{}{end}", "{\"a\":".repeat(300), ",\"x\":1}".repeat(299));
    assert!(grammar.accepts(text(",\"w\":1}").as_bytes()));
    assert!(!grammar.accepts(text(",\"q\":1}").as_bytes()));
}

#[test]
fn long_lists_of_numbers_are_read_together() {
    let numbers: Vec<_> = (0..20_000).map(|at| at * 7919).collect();
    let grammar =
        Grammar::json_schema(&json!({"enum": numbers}), &SchemaOptions::accept(), &Limits::default())
            .expect("supported");
    assert!(grammar.accepts(b"15838") && grammar.accepts(b"158372081.0") && !grammar.accepts(b"15839"));
}
