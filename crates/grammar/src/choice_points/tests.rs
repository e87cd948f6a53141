use serde_json::{Value, json};

use super::*;
use crate::{Layout, Limits, SchemaOptions};

/// Returns the choice points of an output, read in pieces of every size.
fn points(reader: impl Fn() -> ChoiceReader, output: &str) -> Vec<ChoicePoint> {
    let read = |size: usize| {
        let mut reader = reader();
        let mut points: Vec<_> =
            output.as_bytes().chunks(size).flat_map(|piece| reader.push(piece)).collect();
        points.extend(reader.finish());
        points
    };
    let whole = read(output.len().max(1));
    for size in 1..output.len() {
        assert_eq!(read(size), whole, "in pieces of {size} bytes");
    }
    whole
}

/// Describes the choice points of an output: the path, the options with their texts, and the chosen option.
fn described(reader: impl Fn() -> ChoiceReader, output: &str) -> Vec<String> {
    let describe = |point: ChoicePoint| {
        let options: Vec<String> = point
            .options
            .iter()
            .map(|option| match &option.value {
                OptionValue::Value(value) => format!("{value} {}", json!(option.texts)),
                OptionValue::Type(name) => format!("<{name}>"),
            })
            .collect();
        let written = &output[point.start..point.end];
        format!("{} {:?} {written:?} {}: {}", point.path, point.kind, point.chosen, options.join(", "))
    };
    points(reader, output).into_iter().map(describe).collect()
}

fn schema(schema: &Value, layout: Layout) -> Grammar {
    let options = SchemaOptions { layout, ..SchemaOptions::default() };
    Grammar::json_schema(schema, &options, &Limits::default()).expect("good")
}

fn of_schema(given: &Value, output: &str) -> Vec<String> {
    let grammar = schema(given, Layout::Spaced);
    assert!(grammar.accepts(output.as_bytes()), "{output}");
    described(|| ChoiceReader::json(&grammar), output)
}

fn of_gbnf(source: &str, output: &str) -> Vec<String> {
    let grammar = Grammar::gbnf(source, &Limits::default()).expect("good");
    assert!(grammar.accepts(output.as_bytes()), "{output}");
    described(|| ChoiceReader::text(&grammar), output)
}

#[test]
fn values_of_enums_literals_and_numbers_are_choices() {
    let given = json!({
        "type": "object",
        "properties": {
            "team": { "enum": ["a", "ab", null] },
            "ok": { "type": "boolean" },
            "n": { "enum": [1, 10] },
            "fixed": { "const": "x" },
            "text": { "type": "string" }
        },
        "required": ["team", "ok", "n", "fixed", "text"]
    });
    let found = of_schema(&given, r#"{"team": "ab", "ok": false, "n": 10, "fixed": "x", "text": "y"}"#);
    insta::assert_debug_snapshot!(found);
}

#[test]
fn types_are_choices_where_values_are_many() {
    let given = json!({
        "type": "array",
        "items": { "anyOf": [{ "const": "auto" }, { "type": "integer" }, { "type": "object" }] },
        "maxItems": 3
    });
    insta::assert_debug_snapshot!(of_schema(&given, r#"["auto", 12, {}]"#));
    insta::assert_debug_snapshot!(of_schema(&given, "[]"));
}

#[test]
fn members_that_may_be_absent_are_choices() {
    let given = json!({
        "type": "object",
        "properties": { "a/b": { "const": 1 }, "c": { "const": 2 }, "d": { "const": 3 } },
        "required": ["c"]
    });
    insta::assert_debug_snapshot!(of_schema(&given, r#"{"a/b": 1, "c": 2}"#));
    insta::assert_debug_snapshot!(of_schema(&given, r#"{"c": 2, "d": 3}"#));
    let open = json!({ "type": "object", "additionalProperties": { "enum": [true, "yes"] } });
    insta::assert_debug_snapshot!(of_schema(&open, r#"{"k": "yes"}"#));
}

#[test]
fn layouts_have_the_same_choices() {
    let given = json!({
        "type": "object",
        "properties": { "a": { "enum": [1, 2] }, "b": { "type": "array", "items": { "const": "i" } } },
        "required": ["b"]
    });
    let value = json!({ "a": 2, "b": ["i", "i"] });
    let outcomes = |layout: Layout, text: &str| {
        let grammar = schema(&given, layout);
        assert!(grammar.accepts(text.as_bytes()), "{text}");
        let outcome = |point: ChoicePoint| (point.path, point.options[point.chosen].value.clone());
        points(|| ChoiceReader::json(&grammar), text).into_iter().map(outcome).collect::<Vec<_>>()
    };
    let compact = outcomes(Layout::Compact, &value.to_string());
    assert_eq!(compact.len(), 5, "{compact:?}");
    assert_eq!(compact, outcomes(Layout::Spaced, r#"{"a": 2, "b": ["i", "i"]}"#));
    assert_eq!(compact, outcomes(Layout::Pretty, &serde_json::to_string_pretty(&value).expect("JSON")));
    assert_eq!(compact, outcomes(Layout::Flexible, "{\n\"a\": 2, \"b\": [ \"i\",\n\"i\"\n]}"));
}

#[test]
fn a_value_alone_is_a_choice() {
    assert_eq!(
        of_schema(&json!({ "enum": ["x", "y"] }), r#""y""#),
        [r#" Value "\"y\"" 1: "x" ["\"x\""], "y" ["\"y\""]"#]
    );
    let numbers = schema(&json!({ "enum": [1, 12, "x"] }), Layout::Spaced);
    let found = points(|| ChoiceReader::json(&numbers), "1");
    assert!(found.len() == 1 && found[0].to_end, "{found:?}");
}

#[test]
fn a_few_outputs_are_one_choice() {
    let found = of_gbnf("root ::= \"yes\" | \"yes, please\" | \"no\"", "yes");
    assert_eq!(found, [r#" Text "yes" 1: "no" ["no"], "yes" ["yes"], "yes, please" ["yes, please"]"#]);
}

#[test]
fn alternatives_within_a_grammar_are_choices() {
    let source = r#"
        root ::= "Color: " ("red" | "rust" | "é" | "è") "\n" note
        note ::= [a-z]+ (" " [a-z]+)* "."
    "#;
    insta::assert_debug_snapshot!(of_gbnf(source, "Color: rust\nwell done."));
    insta::assert_debug_snapshot!(of_gbnf(source, "Color: è\nx."));
}

#[test]
fn a_text_that_is_not_allowed_ends_the_search() {
    let grammar = schema(&json!({ "type": "array", "items": { "type": "boolean" } }), Layout::Spaced);
    let mut reader = ChoiceReader::json(&grammar);
    assert_eq!(reader.push(b"[true, maybe, false]").len(), 3);
    assert!(reader.finish().is_empty());
}

#[test]
fn an_alternative_that_ends_the_output_is_no_part_of_a_choice_within() {
    let percent = Grammar::regex("[0-9]{1,3}%", &Limits::default()).expect("good");
    for (output, rest) in [("4%", "%"), ("42%", "2%")] {
        let found = points(|| ChoiceReader::text(&percent), output);
        let counts: Vec<usize> = found.iter().map(|point| point.options.len()).collect();
        assert_eq!((counts, &output[found[1].start..found[1].end]), (vec![10, 111], rest));
    }
    assert_eq!(
        of_gbnf("root ::= \"no\" | (\"yes\" | \"maybe\") \" because \" [a-z]+", "yes because x"),
        [] as [&str; 0]
    );
    assert_eq!(of_gbnf("root ::= [\u{100}-\u{17f}] \"!\" [a-z]*", "\u{101}!").len(), 1);
}

#[test]
fn numbers_and_types_alone_are_compared_by_their_first_byte() {
    let given = json!({ "anyOf": [{ "enum": [1, 2] }, { "type": "object" }] });
    for (output, chosen) in [("{}", "<object>"), ("2", "<number>")] {
        let grammar = schema(&given, Layout::Spaced);
        let found = points(|| ChoiceReader::json(&grammar), output);
        assert!(!found[0].to_end);
        let OptionValue::Type(name) = found[0].options[found[0].chosen].value else { panic!("{found:?}") };
        assert_eq!(format!("<{name}>"), chosen);
    }
}

#[test]
fn flexible_white_space_is_that_of_the_output() {
    let given = json!({
        "type": "object",
        "properties": { "a": { "const": 1 }, "b": { "const": 2 }, "c": { "const": 3 } },
        "required": ["a"]
    });
    let grammar = schema(&given, Layout::Flexible);
    let found = points(|| ChoiceReader::json(&grammar), "{\"a\": 1,\n\"b\": 2}");
    let texts: Vec<&str> = found[0].options.iter().map(|option| option.texts[0].as_str()).collect();
    assert_eq!(texts, ["}", ",\n\"b\"", ",\n\"c\""]);
}

#[test]
fn faulty_texts_and_large_outputs_are_bounded() {
    let flag = schema(&json!({ "type": "boolean" }), Layout::Spaced);
    for text in ["{", "\"", "]", "tru}", "\u{e9}", "-"] {
        let mut reader = ChoiceReader::json(&flag);
        reader.push(text.as_bytes());
        assert!(reader.finish().is_empty(), "{text}");
    }
    let many = json!({ "type": "array", "items": { "enum": (0..200).collect::<Vec<_>>() } });
    let many = schema(&many, Layout::Compact);
    let mut reader = ChoiceReader::json(&many);
    let output = format!("[{}]", vec!["7"; 1000].join(","));
    let found = reader.push(output.as_bytes());
    assert!(reader.is_cut());
    assert!(found.iter().map(|point| point.options.len()).sum::<usize>() <= MAX_OPTIONS);
}
