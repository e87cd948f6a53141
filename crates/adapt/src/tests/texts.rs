//! Texts as models write them, with the value at each tolerance.

use serde_json::{Value, json};

use crate::{AdaptOptions, Adapter, Tolerance};

/// Returns the value of a text as JSON text, or `None` if the text is refused.
fn read(text: &str, tolerance: Tolerance) -> Option<Value> {
    let schema = json!({
        "type": "object",
        "properties": {
            "item": { "type": "string" },
            "quantity": { "type": "integer" },
            "gift": { "type": "boolean" },
            "notes": { "type": ["string", "null"] },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["item"],
        "additionalProperties": false,
    });
    let options = AdaptOptions::full().with_tolerance(tolerance);
    let adaptation = Adapter::new(&schema, options).expect("a schema").adapt(text);
    adaptation.is_valid().then(|| adaptation.into_value().unwrap_or_default())
}

#[test]
fn notations_with_one_meaning_are_read_at_tolerance_1() {
    for (text, value) in [
        ("{'item': u'lamp', u'notes': None}", json!({ "item": "lamp", "notes": null })),
        (
            "{\"item\": \"a\", \"gift\": TRUE, \"notes\": NULL}",
            json!({ "item": "a", "gift": true, "notes": null }),
        ),
        ("{\"item\": \"a\", \"notes\": nil}", json!({ "item": "a", "notes": null })),
        (
            "{\"item\"\u{ff1a}\"a {b}\"\u{ff0c}\"quantity\"\u{ff1a}2}",
            json!({ "item": "a {b}", "quantity": 2 }),
        ),
        ("{item\u{ff1a}\"a\"}", json!({ "item": "a" })),
        ("{\"item\": \"\\u{1F600}\", \"quantity\": 1_200}", json!({ "item": "\u{1f600}", "quantity": 1200 })),
        ("<o><item>01234</item></o>", json!({ "item": "01234" })),
    ] {
        assert_eq!(read(text, Tolerance::Json5).as_ref(), Some(&value), "{text}");
        assert_eq!(read(text, Tolerance::Repair).as_ref(), Some(&value), "{text}");
        assert_eq!(read(text, Tolerance::Strict), None, "{text}");
    }
}

#[test]
fn broken_texts_are_read_at_tolerance_2() {
    for (text, value) in [
        ("{\"item\": \"la\" \"mp\", \"quantity\": 2}", json!({ "item": "lamp", "quantity": 2 })),
        ("{\"item\": \"la\" +\n \"mp\" + \"s\"}", json!({ "item": "lamps" })),
        ("{\"item\": \"a\", \"tags\": [\"x\" + \"y\", \"z\"]}", json!({ "item": "a", "tags": ["xy", "z"] })),
        ("{\"item\": \"a\", \"tags\": [\"x\" \"y\"]}", json!({ "item": "a", "tags": ["x", "y"] })),
        ("+ {\n+ \"item\": \"a\"\n+ }", json!({ "item": "a" })),
        ("{&quot;item&quot;: &quot;a &amp; b&quot;}", json!({ "item": "a & b" })),
        ("{\"item\": \"6\" tall\"}", json!({ "item": "6\" tall" })),
    ] {
        assert_eq!(read(text, Tolerance::Repair).as_ref(), Some(&value), "{text}");
        assert_eq!(read(text, Tolerance::Json5), None, "{text}");
    }
}

#[test]
fn texts_with_several_meanings_are_refused() {
    for text in [
        "{\"item\": \"a\", \"tags\": [\"x\", ...]}",
        "{\"item\": \"a\", \"tags\": [\"x\", \u{2026}]}",
        "{\"item\": \"a\", \"tags\": [\"x\", \"y\", etc.]}",
        "{\"item\": \"a\",\n#notes\n\"quantity\": 2}",
        "{\"item\": Decimal('3')}",
        "{\"item\": <string>}",
        "{\"item\": `a`}",
        "{\"item\": \"a\", \"quantity\": 007}",
        "{\"item\": \"a\", \"item\": \"b\"}",
        "{\"item\": \"a\"}\n{\"item\": \"b\"}",
    ] {
        for tolerance in [Tolerance::Strict, Tolerance::Json5, Tolerance::Repair] {
            assert_eq!(read(text, tolerance), None, "{text}");
        }
    }
}

/// A string that would swallow the rest of the value is read again once, so that the time stays
/// linear.
#[test]
fn strings_that_swallow_a_value_take_linear_time() {
    let text = format!("[{}]}}", "\"a \"b, ".repeat(1 << 15));
    let start = std::time::Instant::now();
    let _ = read(&text, Tolerance::Repair);
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}
