//! Content of broken texts that a repair must preserve.

use super::*;

fn order() -> Shape {
    let schema = json!({
        "type": "object",
        "properties": {
            "count": { "type": "integer" },
            "name": { "type": "string" },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["count"],
    });
    Shape::of_schema(schema, "order").expect("a schema")
}

#[test]
fn protects_values_in_a_broken_text() {
    let shape = order();
    for (text, kept, lost) in [
        (
            r#"{"count": 2 "name": "pen", "tags": ["a", "b"]"#,
            r#"{"count": 2, "name": "pen", "tags": ["a", "b"]}"#,
            r#"{"count": 0, "name": "pen", "tags": ["a", "b"]}"#,
        ),
        // A value that was cut off may continue in any way.
        (
            r#"{"count": 2, "name": "a red pe"#,
            r#"{"count": 2, "name": "a red pen"}"#,
            r#"{"name": "a red pe"}"#,
        ),
        (
            r#"{"count": 2, "tags": ["a", "b"#,
            r#"{"count": 2, "tags": ["a", "blue"]}"#,
            r#"{"count": 2, "tags": []}"#,
        ),
        // Members that the schema does not name may be dropped.
        (r#"{"type": "integer", "count": 2,"#, r#"{"count": 2}"#, r#"{"count": 3}"#),
    ] {
        let before = shape.read(text);
        assert_eq!(before.value, None, "{text}");
        assert!(!shape.read(kept).loses(&before), "{text}: {kept}");
        assert!(shape.read(lost).loses(&before), "{text}: {lost}");
    }
}

#[test]
fn does_not_protect_prose() {
    let value = order().read(r#"{"count": 2}"#);
    for text in [
        "The format is {name: string, count: integer}.",
        "I have 2 pens, \"red\" and 'blue'.",
        "Use {braces} or [1, 2]: it is yours",
        "",
        "\"count\"",
    ] {
        assert!(!value.loses(&order().read(text)), "{text}");
    }
}

#[test]
fn only_truncated_values_may_be_extended() {
    let shape = order();
    for (text, repair, is_lost) in [
        // A number at the end of the text may have more digits, unless something follows it.
        (r#"{"name": "pen", "count": 12"#, r#"{"name": "pen", "count": 129}"#, false),
        (r#"{"count": 2, "na"#, r#"{"count": 7, "name": "x"}"#, true),
        (r#"{"count": 2, "na"#, r#"{"count": 2, "name": "x"}"#, false),
        (r#"{"count": 2, "tags": ["a", "b", "#, r#"{"count": 2, "tags": ["a"]}"#, true),
        (r#"{"count": 2, "tags": ["a", "b", "#, r#"{"count": 2, "tags": ["a", "b"]}"#, false),
    ] {
        assert_eq!(shape.read(repair).loses(&shape.read(text)), is_lost, "{text}: {repair}");
    }
}

#[test]
fn does_not_protect_drafts_in_reasoning() {
    let text = r#"Draft {"count": 5, "name": "a draft"}</think>{"count": 2 "name": "pen"}"#;
    let (repair, draft) = (r#"{"count": 2, "name": "pen"}"#, r#"{"count": 5, "name": "a draft"}"#);
    let before = order().read(text);
    assert!(!order().read(repair).loses(&before) && order().read(draft).loses(&before));
}
