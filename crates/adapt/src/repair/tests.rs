mod beside;
mod bounds;
mod exact;
mod kept;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const GOOD: &str = r#"{"toolCalls": [{"name": "now", "arguments": {}}], "content": "I look."}"#;

#[test]
fn the_envelope_matches_its_specification() {
    let shape = Shape::tool_calls();
    for good in [
        json!({}),
        json!({ "toolCalls": [{ "name": "test", "arguments": {} }] }),
        json!({ "content": "Hi", "needsMoreWork": false, "more": 1 }),
    ] {
        let reading = shape.check(good.clone());
        assert!(reading.is_valid(), "{good}: {:?}", reading.errors);
        serde_json::from_value::<Envelope>(good).expect("an envelope");
    }
    for (bad, errors) in [
        (
            json!({ "toolCalls": [{ "name": 123 }] }),
            vec![
                "Field \"toolCalls.0.name\": Expected string, got number",
                "Field \"toolCalls.0.arguments\": Expected object, got undefined",
            ],
        ),
        (json!({ "content": 123 }), vec!["Field \"content\": Expected string, got number"]),
        (
            json!({ "toolCalls": [{ "name": "", "arguments": {} }] }),
            vec!["Field \"toolCalls.0.name\": Value is too small (min: 1)"],
        ),
        (json!({ "toolCalls": {} }), vec!["Field \"toolCalls\": Expected array, got object"]),
        (json!([]), vec!["The whole value: Expected object, got array"]),
    ] {
        let mut told = shape.check(bad.clone()).errors;
        told.sort_by_key(|error| errors.iter().position(|known| known == error));
        assert_eq!(told, errors, "{bad}");
    }
}

#[test]
fn reports_errors_of_any_schema_by_place() {
    let schema = json!({
        "type": "object",
        "properties": {
            "n": { "type": "integer", "minimum": 1, "maximum": 9 },
            "kind": { "enum": ["a", "b"] },
            "a/b": { "type": "array", "maxItems": 1, "items": { "const": 1 } },
            "what": { "anyOf": [{ "type": "object", "properties": { "x": { "type": "string" } }, "required": ["x"] }, { "type": "null" }] },
            "either": { "type": ["string", "null"], "pattern": "^x" },
        },
        "additionalProperties": false,
    });
    let shape = Shape::of_schema(schema, "s").expect("a schema");
    for (value, error) in [
        (json!({ "n": 0 }), "Field \"n\": Value is too small (min: 1)"),
        (json!({ "n": 10 }), "Field \"n\": Value is too large (max: 9)"),
        (json!({ "n": 1.5 }), "Field \"n\": Expected integer, got number"),
        (json!({ "kind": "c" }), "Field \"kind\": Expected one of \"a\", \"b\", got \"c\""),
        (json!({ "a/b": [1, 1] }), "Field \"a/b\": Value is too large (max: 1)"),
        (json!({ "a/b": [2] }), "Field \"a/b.0\": Expected 1, got 2"),
        (json!({ "what": { "x": 1 } }), "Field \"what.x\": Expected string, got number"),
        (json!({ "either": 1 }), "Field \"either\": Expected null or string, got number"),
        (json!({ "either": "y" }), "Field \"either\": Value does not match the pattern ^x"),
        (json!({ "p": 1, "q": 2 }), "Object has unrecognized keys: p, q"),
    ] {
        assert_eq!(shape.check(value.clone()).errors, [error], "{value}");
    }
    let error = Shape::of_schema(json!({ "type": "text" }), "s").expect_err("no schema");
    assert!(error.to_string().starts_with("invalid JSON Schema: "), "{error}");
}

#[test]
fn finds_the_value_anywhere_in_the_text() {
    let shape = Shape::tool_calls();
    let good: Value = serde_json::from_str(GOOD).expect("JSON");
    for text in [
        GOOD.to_owned(),
        format!("```json\n{GOOD}\n```"),
        format!("Let me see {{\"note\": 1}}: {GOOD} That is all."),
        format!("<function_calls>{GOOD}</function_calls>"),
    ] {
        assert_eq!(shape.read(&text).value, Some(good.clone()), "{text}");
    }
    let xml = "I look.<function_calls><invoke name=\"now\"></invoke></function_calls>";
    assert_eq!(shape.read(xml).value, Some(good));
    let list =
        Shape::of_schema(json!({ "type": "array", "items": { "type": "integer" } }), "s").expect("a schema");
    assert_eq!(list.read("```\n[1, 2]\n```").value, Some(json!([1, 2])));
    assert!(!list.read("[1, 2").is_valid());
}

#[test]
fn does_not_use_parts_of_a_broken_object() {
    let shape = Shape::tool_calls();
    for text in [
        r#"{"toolCalls": [{"name": "pay", "arguments": {}}],}"#,
        r#"{'toolCalls': [{"name": "pay", "arguments": {}}]}"#,
        r#"{toolCalls: [{"name": "pay", "arguments": {"content": "x"}}]}"#,
        "{ // the call\n\"toolCalls\": [{\"name\": \"pay\", \"arguments\": {}}]}",
        "```json\n{\"toolCalls\": [{\"name\": \"pay\", \"arguments\": {}}],}\n```",
    ] {
        assert!(!shape.read(text).is_valid(), "{text}");
    }
    // A brace in the prose is not an object.
    let good: Value = serde_json::from_str(GOOD).expect("JSON");
    assert_eq!(shape.read(&format!("Use {{ and {{curly}} braces: {GOOD}")).value, Some(good));
}

#[test]
fn the_prompt_has_errors_answer_and_format() {
    let shape = Shape::tool_calls();
    let text = "```json\n{\"bad\": json,}\n```";
    insta::assert_snapshot!(repair_prompt(&shape, text, &shape.read(text), (1, 2)));
}

#[test]
fn derives_required_fields_from_the_schema() {
    let schema = json!({ "type": "array", "items": { "type": "object", "properties": { "count": { "type": "integer" } }, "required": ["count"] } });
    let shape = Shape::of_schema(schema, "s").expect("a schema");
    let prompt = repair_prompt(&shape, "[]", &shape.read("x"), (2, 3));
    assert!(prompt.contains("Return ONLY a JSON array with this exact structure (no markdown, no explanation):\n[{\"count\": <integer>}]\n"), "{prompt}");
    assert!(prompt.contains("5. Return ONLY the JSON array, nothing else"));
    assert!(prompt.ends_with("Attempt 2/3 - Please provide corrected JSON:"));
}

#[test]
fn shortens_the_original_to_2000_characters() {
    let shape = Shape::tool_calls();
    let cut = |text: &str| {
        let prompt = repair_prompt(&shape, text, &shape.read(text), (1, 2));
        prompt.split("```\n").nth(1).expect("the original").trim_end().to_owned()
    };
    let long = "é".repeat(2001);
    assert_eq!(cut(&long), format!("{}...", "é".repeat(2000)));
    assert_eq!(cut(&"é".repeat(2000)), "é".repeat(2000));
}

#[test]
fn counts_errors_beyond_the_limit() {
    let calls: Vec<Value> = (0..20).map(|_| json!({ "name": "a" })).collect();
    let shape = Shape::tool_calls();
    let text = json!({ "toolCalls": calls }).to_string();
    let prompt = repair_prompt(&shape, &text, &shape.read(&text), (1, 2));
    assert!(
        prompt.contains("Field \"toolCalls.9.arguments\"") && prompt.contains("- and 10 more\n"),
        "{prompt}"
    );
}

#[test]
fn ranks_readings_by_quality() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": "integer" }, "c": { "type": "string" } },
        "required": ["a", "b"],
    });
    let shape = Shape::of_schema(schema, "s").expect("a schema");
    let reads = [
        "none",
        "{}",
        r#"{"a": "x", "b": "y", "c": 7}"#,
        r#"{"a": "x", "b": "y"}"#,
        r#"{"a": 1}"#,
        r#"{"a": 1, "b": "y"}"#,
        r#"{"a": 1, "b": 2}"#,
    ];
    for pair in reads.windows(2) {
        let [less, more] = [pair[0], pair[1]].map(|text| shape.read(text));
        assert!(less.is_worse_than(&more) && !more.is_worse_than(&less), "{pair:?}");
    }
}

proptest! {
    /// No text causes a panic.
    #[test]
    fn nothing_panics(text in "\\PC*|[\\[\\]{}\"':,/\\\\\n a<>=é]{0,60}") {
        let shape = Shape::tool_calls();
        let text = format!("<function_calls {text}");
        let reading = shape.read(&text);
        let _ = repair_prompt(&shape, &text, &reading, (1, 2));
    }
}

#[test]
fn names_unrecognized_keys_of_inner_objects() {
    let inner = json!({ "type": "object", "properties": { "b": {} }, "additionalProperties": false });
    let schema =
        json!({ "type": "object", "properties": { "a": inner.clone(), "list": { "items": inner } } });
    let shape = Shape::of_schema(schema, "outer").expect("a schema");
    let errors = |text: &str| shape.read(text).errors;
    assert_eq!(errors(r#"{"a": {"x": 1}}"#), [r#"Field "a": Object has unrecognized keys: x"#]);
    assert_eq!(
        errors(r#"{"list": [{}, {"x": 1, "y": 2}]}"#),
        [r#"Field "list.1": Object has unrecognized keys: x, y"#]
    );
}
