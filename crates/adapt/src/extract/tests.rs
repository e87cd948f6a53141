mod examples;

use std::fmt::Write;

use serde_json::{Value, json};

use super::region::{Region, escaped, only_block, regions};
use crate::thoughts::without_thoughts;
use crate::{AdaptOptions, Adapter, Prefer};

fn found(text: &str, wanted: Option<u8>) -> Option<&str> {
    regions(text, wanted).into_iter().max_by_key(Region::rank).map(|region| region.text)
}

fn adapted(schema: &Value, text: &str) -> Option<Value> {
    let options = AdaptOptions::minimal();
    let adaptation = Adapter::new(schema, options).expect("a schema").adapt(text);
    if adaptation.is_valid() { adaptation.into_value() } else { None }
}

#[test]
fn finds_the_largest_balanced_region() {
    for (text, region) in [
        ("a {\"b\": 1} c", Some("{\"b\": 1}")),
        ("{\"a\": 1} and {\"a\": 1, \"b\": 2}", Some("{\"a\": 1, \"b\": 2}")),
        ("see [1], [2]: {\"a\": [1]}", Some("{\"a\": [1]}")),
        ("{\"a\": \"}\", \"b\": \"\\\"]\"} x", Some("{\"a\": \"}\", \"b\": \"\\\"]\"}")),
        ("{'a': '}', b: \"x'}\"} x", Some("{'a': '}', b: \"x'}\"}")),
        ("{\"a\": 1, // }\n \"b\": [/* ] */]} x", Some("{\"a\": 1, // }\n \"b\": [/* ] */]}")),
        ("use { and [ as in {{name}} or [[link]] (see [the docs](x)): {\"a\": 1}", Some("{\"a\": 1}")),
        ("don't {\"a\": \"it's\"} \"", Some("{\"a\": \"it's\"}")),
        ("no braces", None),
        ("{placeholder}", None),
        ("cut {\"a\": [{\"b\": 1}, {\"b\": 2}", Some("{\"a\": [{\"b\": 1}, {\"b\": 2}")),
        ("```json\n{\"a\": [1,\n```\nBye.", Some("{\"a\": [1,")),
        ("```json\n{\"a\": \"cut\n```\nBye.", Some("{\"a\": \"cut")),
        ("{\"a\": [1, 2} x", Some("{\"a\": [1, 2}")),
    ] {
        assert_eq!(found(text, None), region, "{text}");
    }
}

#[test]
fn prefers_the_kind_of_the_schema_to_size() {
    let text = "[1, 2, 3, 4, 5, 6, 7, 8, 9] or {\"a\": 1}";
    assert_eq!(found(text, Some(b'{')), Some("{\"a\": 1}"));
    assert_eq!(found(text, Some(b'[')), Some("[1, 2, 3, 4, 5, 6, 7, 8, 9]"));
    assert_eq!(found("only [1]", Some(b'{')), Some("[1]"));
    assert_eq!(adapted(&json!({ "type": "object" }), text), Some(json!({ "a": 1 })));
    assert_eq!(adapted(&json!({ "type": "array" }), "{\"a\": [1, 2]} [3]"), Some(json!([3])));
}

#[test]
fn does_not_replace_a_broken_region_by_a_smaller_one() {
    let schema = json!({ "type": "object" });
    assert_eq!(adapted(&schema, "For example {\"a\": 1}. Here: {\"a\": 2, \"b\": 3,}"), None);
    assert_eq!(adapted(&schema, "{\"items\": [{\"a\": 1}, {\"a\": 2}"), None);
    // An extra closing bracket does not end the region if another member follows.
    let full = AdaptOptions::full().with_tolerance(2.try_into().expect("a level"));
    let repairing = Adapter::new(&schema, full).expect("a schema");
    for text in [
        r#"{"a": {"x": 1}}, "b": 2}"#,
        r#"Here: {"a": {"x": 1}},
  "b": {"y": 2}}, "c": "}"} and so on"#,
        r#"{"a": [1, 2}, "b": 3]}"#,
    ] {
        assert_eq!(adapted(&schema, text), None, "{text}");
        assert!(!repairing.adapt(text).is_valid(), "{text}");
    }
    assert_eq!(adapted(&schema, r#"{"a": 1}, "b" is not there."#), Some(json!({ "a": 1 })));
    // Nothing is extracted from inside a JSON value either.
    assert_eq!(adapted(&schema, "[{\"a\": 1}]"), None);
    assert_eq!(adapted(&schema, "Here: [{\"a\": 1}]"), None);
}

/// Returns the reason that nothing was extracted.
fn refused(schema: &Value, text: &str) -> String {
    let adaptation = Adapter::new(schema, AdaptOptions::minimal()).expect("a schema").adapt(text);
    assert!(!adaptation.is_valid(), "{text}: {:?}", adaptation.value());
    assert_eq!(adaptation.value(), None, "{text}");
    adaptation.violations()[0].to_string()
}

#[test]
fn ignores_values_inside_brackets_that_are_not_json() {
    let object = json!({ "type": "object" });
    for schema in [object.clone(), json!({ "type": ["array", "object"] }), json!({ "properties": {} })] {
        for text in [
            "{a = 1, b = {\"c\": 2}}",
            "Here: {a = 1, b = {\"c\": 2}}.",
            "Here: {a = 1, b = {\"c\": 2}",
            "Here: {a => {\"c\": 2}}",
            "Here: {{\"c\": 2}}",
            "Here: [a, {\"c\": 2}]",
            "Here: {x; [y {\"c\": 2}]}",
            "```\n{ return {\"c\": 2}; }\n```",
        ] {
            let told = refused(&schema, text);
            assert!(told.contains("line ") && told.contains("expected"), "{text}: {told}");
        }
    }
    // A region beside the bracket is extracted, and a bracket that is never closed is prose.
    for text in [
        "f() { return {\"c\": 2, \"d\": [3, 4]}; } gives {\"a\": 1}",
        "Objects begin with { and arrays with [, so {\"a\": 1}",
        "It begins with {:\n```json\n{\"a\": 1}\n```\nand ends with }.",
        "[see the docs] {\"a\": 1} [1]",
    ] {
        assert_eq!(adapted(&object, text), Some(json!({ "a": 1 })), "{text}");
    }
    // Repair reads an equals sign as a colon.
    let full = AdaptOptions::full().with_tolerance(2.try_into().expect("a level"));
    let adaptation = Adapter::new(&object, full).expect("a schema").adapt("So: {a = 1, b = {\"c\": 2}}");
    assert_eq!(adaptation.value(), Some(&json!({ "a": 1, "b": { "c": 2 } })));
}

#[test]
fn ignores_values_inside_strings_of_a_region() {
    let array = json!({ "type": "array" });
    for text in [
        r#"Here: {"x": "[1, 2]"}"#,
        r#"Here: {"x": "[1, 2]", "y": [}"#,
        r#"Here: {"x": "[\"a\"]", y: 1}"#,
        r#"Here: {"x": 1, "y": {"z": "[\"a\", 1]"}} and no more"#,
    ] {
        let adaptation = Adapter::new(&array, AdaptOptions::minimal()).expect("a schema").adapt(text);
        assert!(!adaptation.is_valid(), "{text}: {:?}", adaptation.value());
    }
    // A closing quote in prose does not begin a string.
    for text in [
        r#"The word "yes" {"a": 1}"#,
        r#"The word "yes" and "no": {"a": [1, "b"]}."#,
        r#"What you call "JSON" [{"a": 1}]"#,
    ] {
        let schema = json!({ "type": ["array", "object"] });
        assert!(adapted(&schema, text).is_some(), "{text}");
    }
    assert_eq!(
        adapted(&json!({ "type": "object" }), r#"See [1], "yes" and: "{\"k\": [1, {\"l\": 2}]}""#),
        Some(json!({ "k": [1, { "l": 2 }] }))
    );
}

#[test]
fn rejects_ambiguous_regions() {
    let schema = json!({ "type": "object", "required": ["a"] });
    assert_eq!(
        refused(&schema, "{\"a\": 1} or\n {\"a\": 2}"),
        "ambiguous: the values at line 1, column 1 and at line 2, column 2 match the schema"
    );
    assert!(refused(&schema, "It is {\"a\": 1, }, no, {\"a\": 2, }").contains("have the same size"));
    assert!(refused(&schema, "{\"a\": 1} or {\"a\": 22}").contains("match the schema"));
    // The region of the schema's kind and the only valid region are unambiguous. Equal values are
    // unambiguous as well.
    for (text, value) in [
        ("{\"a\": 1} or [1, 2, 3]", json!({ "a": 1 })),
        ("{\"b\": 1} or {\"a\": 2}", json!({ "a": 2 })),
        ("{\"a\" ,1} or {\"a\": 22}", json!({ "a": 22 })),
        ("{\"b\": 1, \"c\": [1, 2, 3, 4]} or {\"a\": 2}", json!({ "a": 2 })),
        ("Schema {\"type\": \"object\", \"required\": [\"a\"]}. Answer: {\"a\": 2}", json!({ "a": 2 })),
        ("{\"a\": 1} or {\"a\": 1}", json!({ "a": 1 })),
        ("{\"a\":1,\"b\":2} or {\"b\":2,\"a\":1}", json!({ "a": 1, "b": 2 })),
    ] {
        assert_eq!(adapted(&schema, text), Some(value), "{text}");
    }
}

#[test]
fn takes_the_preferred_of_several_valid_values() {
    let schema = json!({ "type": "object", "required": ["a"] });
    let text = "Draft {\"a\": 1}, better {\"a\": [2, 2]}. No: {\"a\": 3}, says {\"b\": [4, 5, 6, 7]}.";
    for (prefer, value) in [
        (Prefer::Only, None),
        (Prefer::First, Some(json!({ "a": 1 }))),
        (Prefer::Last, Some(json!({ "a": 3 }))),
        (Prefer::Largest, Some(json!({ "a": [2, 2] }))),
    ] {
        let options = AdaptOptions { prefer, ..AdaptOptions::minimal() };
        let adaptation = Adapter::new(&schema, options).expect("a schema").adapt(text);
        assert_eq!(adaptation.value(), value.as_ref(), "{prefer:?}");
    }
    let options = AdaptOptions { prefer: Prefer::Largest, ..AdaptOptions::minimal() };
    let adaptation = Adapter::new(&schema, options).expect("a schema").adapt("{\"a\": 1} {\"a\": 2}");
    assert!(adaptation.violations()[0].message.contains("have the same size"));
}

#[test]
fn takes_the_only_item_where_an_object_is_wanted() {
    let schema = json!({ "type": "object", "required": ["a"] });
    let full = Adapter::new(&schema, AdaptOptions::full()).expect("a schema");
    assert_eq!(full.adapt("[{\"a\": 1}]").value(), Some(&json!({ "a": 1 })));
    assert!(full.adapt("[{\"a\": 1}]").transforms().any(|made| made == "unwrap"));
    for text in ["[{\"a\": 1}, {\"a\": 2}]", "[{\"b\": 1}]", "[[{\"a\": 1}]]", "[]"] {
        assert!(!full.adapt(text).is_valid(), "{text}");
    }
    let minimal = Adapter::new(&schema, AdaptOptions::minimal()).expect("a schema");
    assert!(!minimal.adapt("[{\"a\": 1}]").is_valid());
}

#[test]
fn prefers_the_kind_inferred_from_keywords() {
    let text = "[1, 2, 3, 4, 5, 6, 7] or {\"a\": 1}";
    let (array, object) = (json!([1, 2, 3, 4, 5, 6, 7]), json!({ "a": 1 }));
    for (schema, value) in [
        (json!({ "properties": { "a": {} } }), &object),
        (json!({ "required": ["a"] }), &object),
        (json!({ "additionalProperties": { "type": "integer" } }), &object),
        (json!({ "items": { "type": "integer" } }), &array),
        (json!({ "minItems": 1 }), &array),
        (json!({ "anyOf": [{ "properties": { "a": {} } }, { "type": "null" }] }), &object),
        (json!({ "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] }), &object),
        (json!({ "allOf": [{ "properties": { "a": {} } }, { "required": ["a"] }] }), &object),
        (json!({ "$ref": "#/$defs/x", "$defs": { "x": { "required": ["a"] } } }), &object),
        (json!({ "enum": [{ "a": 1 }, null] }), &object),
        (json!({ "const": { "a": 1 } }), &object),
    ] {
        assert_eq!(adapted(&schema, text).as_ref(), Some(value), "{schema}");
    }
    // With both kinds or neither, both values match.
    for schema in [json!({ "properties": {}, "items": {} }), json!({ "title": "anything" })] {
        assert!(refused(&schema, text).contains("match the schema"), "{schema}");
    }
}

#[test]
fn unclosed_reasoning_has_no_answer() {
    let schema = json!({ "type": "object" });
    for text in [
        "<think> {\"a\": 1} would do, but",
        "<think>\n```json\n{\"a\": 1}\n```\nNo, since",
        "Well. <think>{\"a\": 1}",
        "<think>{\"a\": 1}</think>",
        "<thinking>{\"a\": 1}</thinking>\n",
        "<think>So.</think><think>{\"a\": 1}",
    ] {
        assert_eq!(refused(&schema, text), "the text contains only reasoning and no answer", "{text}");
    }
    for text in [
        "<thinking>{\"b\": \"a draft that is longer\"}</thinking>{\"a\": 1}",
        "<think>{\"b\": 1, \"c\": 2}</think> Wait. <think>{\"c\": 2, \"d\": 3}</think>{\"a\": 1}",
        "{\"a\": 1} <think>Was that right?",
        "I have been thinking. {\"a\": 1}",
    ] {
        assert_eq!(adapted(&schema, text), Some(json!({ "a": 1 })), "{text}");
    }
}

#[test]
fn positions_refer_to_the_enclosing_text() {
    let schema = json!({ "type": "object" });
    assert_eq!(
        refused(&schema, r#"Here: "{\"a\": 1,, }""#),
        "in the string, line 1, column 9: expected a name in double quotes"
    );
}

#[test]
fn skips_fences_reasoning_and_byte_order_marks() {
    let schema = json!({ "type": "object", "required": ["a"] });
    for text in [
        "```json\n{\"a\": 1}\n```",
        "~~~\n{\"a\": 1}\n~~~",
        "```{\"a\": 1}```",
        "`{\"a\": 1}`",
        "\u{feff}{\"a\": 1}",
        "\u{a0}{\"a\": 1}\u{2003}",
        "<think>{\"a\": \"or not? Let me think of it.\"}</think>{\"a\": 1}",
        "No braces, then</think>\n\n{\"a\": 1}",
        "<answer>{\"a\": 1}</answer>",
        "Result: **{\"a\": 1}**.",
    ] {
        assert_eq!(adapted(&schema, text), Some(json!({ "a": 1 })), "{text}");
    }
    assert_eq!(without_thoughts("{\"a\": \"</think>\"} x"), "{\"a\": \"</think>\"} x");
    assert_eq!(only_block("a\n```json\n7\n```\n"), Some("7\n"));
    assert_eq!(only_block("```\n7\n```\n```\n8\n```"), None);
    assert_eq!(adapted(&json!({ "type": "integer" }), "It is\n```\n42\n```\n"), Some(json!(42)));
    assert_eq!(adapted(&json!({ "type": "integer" }), "It is 42."), None);
}

#[test]
fn unescapes_strings_up_to_the_limit() {
    let schema = json!({ "type": "object", "required": ["k"] });
    let value = json!({ "k": "a \"b\" \\ \n ü" });
    let mut text = value.to_string();
    for depth in 0..=4_u8 {
        for (depth, is_taken) in [(depth, depth <= 2)] {
            for text in [text.clone(), format!("The answer: {text}."), format!("```json\n{text}\n```")] {
                assert_eq!(adapted(&schema, &text).is_some(), is_taken, "{depth}: {text}");
            }
        }
        text = Value::from(text).to_string();
    }
    for text in [
        r#"{\"k\": 1}"#,
        r#"{\n  \"k\": 1\n}"#,
        r#"Here: "{\"k\":1}""#,
        r#"{\\\"k\\\": 1}"#,
        r#""```json\n{\"k\": 1}\n```""#,
        r#""Sure: {\"k\": 1}""#,
        r#"See [1]: "{\"k\": 1}""#,
    ] {
        assert_eq!(adapted(&schema, text), Some(json!({ "k": 1 })), "{text}");
    }
    assert_eq!(escaped(r#"[{\"a\": 1}, {\"a\": 2}] x"#), Some(r#"[{\"a\": 1}, {\"a\": 2}]"#));
    assert_eq!(escaped("{\"a\": 1}"), None);
    // A string that the schema accepts is not unescaped.
    let text = Value::from("{\"k\": 1}").to_string();
    assert_eq!(adapted(&json!({ "type": "string" }), &text), Some(json!("{\"k\": 1}")));
    assert_eq!(adapted(&json!({}), &text), Some(json!("{\"k\": 1}")));
    let never = AdaptOptions { max_unescape_depth: 0, ..AdaptOptions::minimal() };
    assert!(!Adapter::new(&schema, never).expect("a schema").adapt(&text).is_valid());
}

#[test]
fn rejects_duplicate_names_and_inexact_numbers_anywhere() {
    let schema = json!({ "type": "object" });
    let told = |text: &str| {
        Adapter::new(&schema, AdaptOptions::minimal()).expect("a schema").adapt(text).violations()[0]
            .to_string()
    };
    assert_eq!(told("{\"a\": {\"b\": 1, \"b\": 2}}"), "/a/b: line 1, column 16: duplicate name `b`");
    assert_eq!(
        told("x {\"a\": [1, 98765432109876543210]}"),
        "/a/1: line 1, column 13: the number fits neither a 64-bit integer nor a double"
    );
}

/// Hostile texts are handled in linear time.
#[test]
fn extracts_from_hostile_texts_in_linear_time() {
    let schema = json!({ "type": "object" });
    let size = 1 << 20;
    let of = |part: &str| part.repeat(size / part.len());
    let mut escapes = "{\"a\": 1}".to_owned();
    for _ in 0..14 {
        escapes = Value::from(escapes).to_string();
    }
    for text in [
        of("{"),
        of("["),
        of("}"),
        of("{\"a\":"),
        of("[1,"),
        of("{\""),
        of("{'"),
        of("{/*"),
        of("{/*\n```\n"),
        of("{//"),
        of("\\"),
        of("\\\""),
        of("{\\\""),
        of("```\n"),
        of("{} "),
        of("[] "),
        of("{\"\n```\n{'"),
        of("{a:"),
        of("{\"a\" \"b\""),
        of("[\"a\" "),
        of("[\"\" \"\""),
        of("[{ "),
        of("[         "),
        of("{a "),
        of("\"{"),
        of("[1 /"),
        of("{x "),
        of("{x}"),
        of("{x {\"a\": 1} "),
        of("[x {\"a\": 1}]"),
        of("{x {} ") + &of("}"),
        of("</think>"),
        of("<think></think>"),
        of("<think>"),
        of("{\"a\": 1} {\"a\": 2} "),
        of("\"[1\" "),
        of("{}, \"a\": "),
        of("{}, \"a\": 1}"),
        of("{}, \"a\" "),
        "[".to_owned() + &of(" ") + "x",
        "[1,".repeat(100) + &of(" "),
        escapes,
    ] {
        for options in
            [AdaptOptions::minimal(), AdaptOptions::full().with_tolerance(2.try_into().expect("a level"))]
        {
            let adapter = Adapter::new(&schema, options).expect("a schema");
            let adaptation = adapter.adapt(&text);
            let taken = adaptation.elapsed();
            // Leaves room for an unoptimized build with parallel tests. The time limit itself is 1
            // second.
            assert!(taken.as_secs() < 5, "{taken:?} for {}…", &text[..20]);
        }
    }
}

#[test]
fn extracts_from_ten_thousand_braces_in_linear_time() {
    let mut text = String::new();
    for n in 0..10_000 {
        let open = ["{", "}", "{x} ", "[y", "{\"a\": [", "{{"][n % 6];
        write!(text, "word {n} of a long text, {open}, and what comes after it. ").expect("a string");
        text.push_str(&" ".repeat(40));
    }
    text.push_str("\n```\nResult: {\"ok\": true}");
    let adapter = Adapter::new(&json!({ "type": "object" }), AdaptOptions::minimal()).expect("a schema");
    assert!(adapter.adapt(&text).elapsed().as_secs() < 2);
}

#[test]
fn a_readable_value_wins_over_an_equal_unreadable_one() {
    let schema = json!({ "type": "object", "required": ["a"] });
    let strict = Adapter::new(&schema, AdaptOptions::minimal()).expect("a schema");
    let value = json!({ "a": 1, "b": 2 });
    assert_eq!(
        strict.adapt("I wrote {\"a\": 1 \"b\": 2}, corrected: {\"a\": 1, \"b\": 2}.").value(),
        Some(&value)
    );
    for prefer in [Prefer::First, Prefer::Last, Prefer::Largest] {
        let options = AdaptOptions { prefer, ..AdaptOptions::minimal() };
        let adapter = Adapter::new(&schema, options).expect("a schema");
        let adaptation = adapter.adapt("{\"a\": 2 \"b\": 3} then {\"a\": 1, \"b\": 2}");
        assert_eq!(adaptation.value(), Some(&value), "{prefer:?}");
    }
}

#[test]
fn regions_end_outside_of_comments_and_strings_of_other_notations() {
    for (text, region) in [
        ("Here: [{\"a\": 1} # first ]\n, {\"a\": 2}] Bye", "[{\"a\": 1} # first ]\n, {\"a\": 2}]"),
        ("{\"a\": 1, <!-- } --> \"b\": 2} x", "{\"a\": 1, <!-- } --> \"b\": 2}"),
        (
            "{\u{201c}a\u{201d}: \u{201c}x } y\u{201d}, \"b\": 1} x",
            "{\u{201c}a\u{201d}: \u{201c}x } y\u{201d}, \"b\": 1}",
        ),
        ("See {\u{201d}a\u{201d}: 1}.", "{\u{201d}a\u{201d}: 1}"),
    ] {
        assert_eq!(found(text, None), Some(region), "{text}");
    }
}
