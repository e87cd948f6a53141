//! Texts as models write them, with the value at each tolerance.

use serde_json::{Value, json};

use crate::{AdaptOptions, Adapter, Tolerance};

/// Returns the value of an order, or `None` if the text is refused.
fn read(text: &str, tolerance: Tolerance) -> Option<Value> {
    let schema = json!({
        "type": "object",
        "properties": {
            "item": { "type": "string" },
            "quantity": { "type": "integer" },
            "price": { "type": "number" },
            "gift": { "type": "boolean" },
            "notes": { "type": ["string", "null"] },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["item"],
        "additionalProperties": false,
    });
    read_as(&schema, text, tolerance)
}

/// Returns the value of a text, or `None` if the text is refused.
fn read_as(schema: &Value, text: &str, tolerance: Tolerance) -> Option<Value> {
    let options = AdaptOptions::full().with_tolerance(tolerance);
    let adaptation = Adapter::new(schema, options).expect("a schema").adapt(text);
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

#[test]
fn a_string_never_swallows_other_text() {
    for item in [
        "\"lamp\" or \"chair\"",
        "\"a\", \"b\"",
        "\"a\" . \"b\"",
        "\"lamp\" (red)",
        "\"lamp\".strip()",
        "\"lamp\", unit price: \"5\"",
        "\"lamp\", `notes`: \"x\"",
        "\"lamp\", notes (optional): \"x\"",
        "\"lamp\", “notes\": \"x\"",
        "\"lamp\nnotes\": \"x\"",
        "\"lamp\", 2: \"x\"",
        "\"lamp\", -- the thing\n",
        "\"lamp 5\" or \"chair\"",
        "\"lamp 5\" (red)",
        "\"lamp 5\", unit price: 6\"",
        "\"lamp 5\", \"b\"",
        "\"lamp\" \"or\" chair\"",
        "\"lamp\"\"\"",
        "\"\"lamp\"",
        "\"lamp\" shade\"",
        "\"the \"lamp\"",
        "\"a \"b\": c\"",
        "\"\" or \"x\"",
        "\"C:\\\"",
    ] {
        let text = format!("{{\"item\": {item}, \"quantity\": 2}}");
        assert_eq!(read(&text, Tolerance::Repair), None, "{text}");
    }
    for text in [
        "{\"item\": \"a\" + 'b', \"quantity\": 2}",
        "{\"item\": \"lamp\", \"tags\": [\"a\"、\"b\"]}",
        "{\"item\": \"lamp\", \"tags\": [\"a\" and \"b\"]}",
        "{\"item\": \"lamp\", \"tags\": [\"a\" (x), \"b\"]}",
        "{\"item\": \"lamp\", \"tags\": [\"a\": \"b\"]}",
        "{\"item\": \"lamp\", \"tags\": [\"a, \"b\"]}",
        "{\"item\": \"lamp\", \"tags\": [\"a\", b\"]}",
        "{\"item\": \"lamp\", \"tags\": [\"1\"、\"2\"]}",
        "{'item': 'lamp' or 'chair', 'quantity': 2}",
        "{'item': 'lamps' or so, 'quantity': 2}",
        "{\"item\": “lamp” or “chair”, \"quantity\": 2}",
        "{\"item\": “lamp\", \"notes\": “x”, \"quantity\": 2}",
        "{\"item\": 'lamp\", \"quantity\": 2}",
        "{\"item\": \"lamp', \"quantity\": 2}",
        "{\"item\": \"lamp”, \"quantity\": 2}",
        "{\"item\": \"lamp\"、\"quantity\": 2}",
        "{\"item\": \"lamp\".\"quantity\": 2}",
        "{\"item\": \"lamp\" and \"quantity\": 2}",
        "{\"item\": \"lamp\" & \"quantity\": 2}",
        "{\"item\": \"lamp\")\"quantity\": 2}",
        "{\"item\": \"lamp\": \"quantity\": 2}",
        "{\"item\": \"lamp\",)\"quantity\": 2}",
    ] {
        for tolerance in [Tolerance::Json5, Tolerance::Repair] {
            assert_eq!(read(text, tolerance), None, "{text}");
        }
    }
}

#[test]
fn members_after_a_string_lack_a_quote_or_a_comma() {
    let lamp = |name: &str, value: Value| json!({ "item": "lamp", name: value, "quantity": 2 });
    for (text, value) in [
        ("\"lamp\", price\": 5", lamp("price", json!(5))),
        ("\"lamp\", \"price: \"5\"", lamp("price", json!(5))),
        ("\"lamp, \"price: \"5\"", lamp("price", json!(5))),
        ("\"lamp\", notes = \"x\"", lamp("notes", json!("x"))),
        ("\"lamp\", notes \"x\"", lamp("notes", json!("x"))),
        ("\"lamp\", \"notes\" \"x\"", lamp("notes", json!("x"))),
        ("\"lamp\", \"tags\": [\"a\", b, \"c\"]", lamp("tags", json!(["a", "b", "c"]))),
        ("\"lamp\n\"gift\": true", lamp("gift", json!(true))),
        ("\"lamp\u{ff0c}\"gift\": true", lamp("gift", json!(true))),
    ] {
        let text = format!("{{\"item\": {text}, \"quantity\": 2}}");
        assert_eq!(read(&text, Tolerance::Repair), Some(value), "{text}");
    }
}

#[test]
fn quoted_text_and_units_stay_in_a_string() {
    for notes in [
        "19\" rack",
        "5\", 6\", and 7\"",
        "he said \"a\", \"b\"",
        "f(\"a\", \"b\")",
        "\"yes\" he said",
        "he said \"hi\" to me",
        "he said \"yes\", then left",
        "\"Yes,\" he said",
        "<a href=\"x\" class=\"y\">hi</a>",
        "run \"x\" + \"y\"",
        "cmd: echo \"a\" \"b\"",
        "grep \"foo\" \"bar.txt\"",
        "5\" + \"6\"",
    ] {
        for text in [
            format!("{{\"item\": \"lamp\", \"notes\": \"{notes}\"}}"),
            format!("{{\"notes\": \"{notes}\", \"item\": \"lamp\"}}"),
        ] {
            let value = json!({ "item": "lamp", "notes": notes });
            assert_eq!(read(&text, Tolerance::Repair), Some(value), "{text}");
        }
    }
    for notes in
        ["'baker's dozen'", "'the dogs' bowl'", "'the '90s'", "'rock 'n' roll'", "“he said “hi” to me”"]
    {
        let text = format!("{{\"item\": \"lamp\", \"notes\": {notes}, \"gift\": true}}");
        let inside = notes.trim_start_matches(['\'', '“']);
        let inside = inside.strip_suffix(['\'', '”']).unwrap_or(inside);
        let value = json!({ "item": "lamp", "notes": inside, "gift": true });
        assert_eq!(read(&text, Tolerance::Repair), Some(value), "{text}");
    }
}

#[test]
fn json_in_a_string_is_not_torn_apart() {
    for text in [
        "{\"item\": \"lamp\", \"quantity\": 2, \"notes\": \"config: {\"price\": 5}\", \"gift\": true}",
        "{\"item\": \"lamp\", \"notes\": \"set {\"gift\": true} first\", \"tags\": [\"a\"]}",
        "{\"item\": \"lamp\", \"notes\": \"the \"gift\": true, \"quantity\": 2}",
        "{\"item\": \"lamp\", \"notes\": \"config: {price: 5, \"gift\": true}\", \"tags\": [\"a\"]}",
        "{\"item\": \"lamp\", \"notes\": \"a, \"gift\": true}\", \"tags\": [\"a\"]}",
        "{\"item\": \"lamp, notes: x, \"quantity\": 2}",
        "{\"item\": \"lamp \"quantity\": 2}",
        "{\"item\": \"f(x, \"quantity\": 2}",
    ] {
        assert_eq!(read(text, Tolerance::Repair), None, "{text}");
    }
    let code =
        json!({ "type": "object", "properties": { "code": { "type": "string" } }, "required": ["code"] });
    for text in [
        "{\"code\": \"d = {\"lang\": \"x\"}\", \"lang\": \"py\"}",
        "{\"code\": \"d = {a: 1,\n\"lang\": \"x\"}\", \"lang\": \"py\"}",
        "{\"code\": \"C:\\Program Files\\App\\\", \"lang\": \"c\"}",
        "{\"code\": \"{\\\"a\\\": 1}, \"b\\\"}, \"lang\": \"c\"}",
    ] {
        assert_eq!(read_as(&code, text, Tolerance::Repair), None, "{text}");
    }
}

#[test]
fn words_after_a_value_are_not_dropped() {
    for quantity in [
        "1 200",
        "2 * 3",
        "2:30",
        "2 million",
        "2 or 3",
        "2, \"price\": 19 . 99",
        "2, \"gift\": true unless Bob objects",
        "2, \"notes\": null and void",
        "2 dozen",
        "2\ndozen",
        "2\n\n3",
        "2\n\n(dozen)",
        "2 /* x */ or 3",
        "2, \"tags\": [\"a\"] or so",
    ] {
        for text in [
            format!("{{\"item\": \"lamp\", \"quantity\": {quantity}"),
            format!("Here:\n```json\n{{\"item\": \"lamp\", \"quantity\": {quantity}\n```\n"),
        ] {
            assert_eq!(read(&text, Tolerance::Repair), None, "{text}");
        }
    }
    let text = "{\"item\": \"lamp\", \"quantity\": 2 // two\n\nI hope that helps!";
    assert_eq!(read(text, Tolerance::Repair), Some(json!({ "item": "lamp", "quantity": 2 })));
}

#[test]
fn separators_and_signs_of_numbers_have_one_meaning() {
    let items = json!({ "type": "array", "items": { "type": "number" } });
    let schema = json!({ "type": "object", "properties": { "values": items }, "required": ["values"] });
    let values = |values: &str, tolerance| read_as(&schema, &format!("{{\"values\": {values}}}"), tolerance);
    for list in [
        "[1,5; 2,5]",
        "[1,200; 3,400]",
        "[1\u{ff0c}5\u{ff1b}2\u{ff0c}5]",
        "[1, 2;]",
        "[1 200.50, 3]",
        "[10 -5]",
        "[1 2, 3]",
        "[1, 2 3]",
        "[1 000 000]",
        "[1'200', 3]",
        "[.e5]",
        "[-.E2]",
        "[+-2]",
        "[-+2]",
        "[+-0x1]",
    ] {
        for tolerance in [Tolerance::Json5, Tolerance::Repair] {
            assert_eq!(values(list, tolerance), None, "{list}");
        }
    }
    for (list, numbers) in [
        ("[1; 2; 3]", json!([1, 2, 3])),
        ("[1 2 3]", json!([1, 2, 3])),
        ("[1\n-2, 3]", json!([1, -2, 3])),
        ("[5.e1, .5e1, -.5, +0x1F]", json!([50.0, 5.0, -0.5, 31])),
    ] {
        assert_eq!(values(list, Tolerance::Repair), Some(json!({ "values": numbers })), "{list}");
    }
}

#[test]
fn comments_end_bare_values() {
    for (item, value) in [
        ("lamp // the best\n", Some("lamp")),
        ("lamp # the thing\n", Some("lamp")),
        ("lamp /* x */", Some("lamp")),
        ("lamp <!-- x -->", Some("lamp")),
        ("lamp // say \"hi\", a\n", Some("lamp")),
        ("http://x.org/a", Some("http://x.org/a")),
        ("C# book", Some("C# book")),
        ("lamp #1", Some("lamp #1")),
        ("lamp at 10:30", Some("lamp at 10:30")),
        ("lamp//x\n", None),
        ("lamp notes: x", None),
        ("lamp notes: x\"", None),
        ("lamp = 2", None),
    ] {
        let text = format!("{{item: {item}, tags: [red // blue\n, green]}}");
        let value = value.map(|item| json!({ "item": item, "tags": ["red", "green"] }));
        assert_eq!(read(&text, Tolerance::Repair), value, "{text}");
    }
}
