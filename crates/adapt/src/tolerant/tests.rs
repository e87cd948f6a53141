use serde_json::{Value, json};

use super::*;
use crate::tape::{Fault, Syntax, Tape};

const JSON5: Mends = Mends::NOTATIONS;
const START: Place = Place { line: 1, column: 1 };

fn repair() -> Mends {
    Mends::of(Tolerance::Repair)
}

/// Returns the value of a text with the given mends, and the names of the applied mends.
fn read(text: &str, mends: Mends) -> Result<(Value, Vec<&'static str>), Fault> {
    let rewritten = rewrite(text, mends, 128).map_err(|error| error.fault)?;
    let tape = Tape::parse(&rewritten.text, Syntax::up_to(128)).map_err(|error| error.fault)?;
    Ok((tape.value(), rewritten.names().collect()))
}

fn good(text: &str, mends: Mends) -> Value {
    read(text, mends).unwrap_or_else(|fault| panic!("{text}: {fault}")).0
}

#[test]
fn keeps_valid_json_unchanged() {
    for text in [r#"{"a": [1, -2.5e3, true, null, "x\"\u00e9\n"], "b": {}}"#, "[]", "\"a, b\"", "12"] {
        for mends in [Mends(0), Mends::SYNTACTIC, JSON5, repair()] {
            let rewritten = rewrite(text, mends, 128).unwrap_or_else(|error| panic!("{}", error.fault));
            assert_eq!((rewritten.text.as_str(), rewritten.names().count()), (text, 0));
            assert_eq!(rewritten.patch(text, START), None);
        }
    }
}

#[test]
fn reads_json5_at_tolerance_1_but_not_0() {
    for (text, value, mend) in [
        ("{a: 1, $b_2: 2, ünder: 3}", json!({ "a": 1, "$b_2": 2, "ünder": 3 }), "bare-name"),
        ("{'a': 'it\\'s \"b\"'}", json!({ "a": "it's \"b\"" }), "single-quotes"),
        ("[1, 2,]", json!([1, 2]), "trailing-comma"),
        ("[1, 2, ]", json!([1, 2]), "trailing-comma"),
        ("{\"a\": 1,\n}", json!({ "a": 1 }), "trailing-comma"),
        ("[1, // one\n /* two */ 2]", json!([1, 2]), "comment"),
        ("[0x1F, -0xff, +7, .5, 5., -.5e3]", json!([31, -255, 7, 0.5, 5.0, -500.0]), "number-form"),
        ("0xFFFFFFFFFFFFFFFF", json!(u64::MAX), "number-form"),
        (
            r"['\x41\v\0\'', 'a\
b']",
            json!(["A\u{b}\0'", "ab"]),
            "escape-form",
        ),
        ("[1,\u{a0}2]", json!([1, 2]), "blank"),
        ("{\"a\": 1, # one\n \"b\": 2 # two\n}", json!({ "a": 1, "b": 2 }), "comment"),
        ("{\"a\": 1, <!-- two --> \"b\": 2}", json!({ "a": 1, "b": 2 }), "comment"),
        ("{“a”: “b’s”, „c“: „d“, «e»: ‘f’}", json!({ "a": "b’s", "c": "d", "e": "f" }), "smart-quotes"),
        (
            "{\"a\": \"\"\"b \"c\"\nd\"\"\", \"e\": \"\"}",
            json!({ "a": "b \"c\"\nd", "e": "" }),
            "triple-quotes",
        ),
        ("{\"a\" => 1, b => 2}", json!({ "a": 1, "b": 2 }), "arrow"),
        ("{\"a\": \"x\"; \"b\": [1; 2];}", json!({ "a": "x", "b": [1, 2] }), "semicolon"),
        ("[1_200, -3_0.5, 0x1F_FF]", json!([1200, -30.5, 0x1fff]), "number-form"),
        ("{{\"a\": {{\"b\": 1}}, \"c\": {}}}", json!({ "a": { "b": 1 }, "c": {} }), "doubled-braces"),
        ("{\"a\": 1, \"b\": [2], \"a\": 1, \"b\": [2]}", json!({ "a": 1, "b": [2] }), "equal-member"),
    ] {
        let (read_value, mends) = read(text, JSON5).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        assert_eq!(read_value, value, "{text}");
        assert!(mends.contains(&mend), "{text}: {mends:?}");
        assert!(read(text, Mends(0)).is_err(), "{text}");
        // Repair reads the text in the same way, with the same mends.
        assert_eq!(read(text, repair()), Ok((value, mends)), "{text}");
    }
}

#[test]
fn rejects_values_without_a_json_form_at_every_level() {
    for text in [
        "Infinity",
        "[-Infinity]",
        "{a: NaN}",
        "[undefined]",
        "0x1FFFFFFFFFFFFFFFF",
        "[1e400]",
        "[007]",
        "{a: 1, a: 2}",
    ] {
        for mends in [JSON5, repair()] {
            assert!(read(text, mends).is_err(), "{text}");
        }
    }
    let error = rewrite("{a: [1, {b: NaN}]}", JSON5, 128).err().expect("no number");
    assert_eq!((error.offset, error.path.as_str()), (12, "/a/1/b"));
    assert_eq!(error.fault.to_string(), "expected a value that JSON can represent");
}

#[test]
fn underscores_stand_between_digits() {
    for text in ["[1__0]", "[1_]", "[1_.5]", "[1._5]", "[0x_1]"] {
        assert!(read(text, JSON5).is_err(), "{text}");
    }
}

#[test]
fn decides_about_backslashes_for_a_whole_string() {
    for (text, value) in [
        (r#"{"a": "\frac{1}{2} \theta",}"#, "\\frac{1}{2} \\theta"),
        (r#"{"a": "\alpha\times\beta"}"#, "\\alpha\\times\\beta"),
        (r#"{"a": "\bfoo\b \d"}"#, "\\bfoo\\b \\d"),
        (r#"{"a": "D:\temp\x\report"}"#, "D:\\temp\\x\\report"),
        (r#"{"a": "C:\a \"x\" b"}"#, "C:\\a \"x\" b"),
        (r#"{"a": "C:\users\bin\new",}"#, "C:\\users\\bin\\new"),
        (r#"{"a": "C:\\Users\new",}"#, "C:\\Users\new"),
        (r#"{"a": "\f",}"#, "\u{c}"),
        (r#"{"a": "\u00e9\n",}"#, "é\n"),
    ] {
        assert_eq!(good(text, repair()), json!({ "a": value }), "{text}");
    }
}

#[test]
fn rejects_strings_that_mix_backslashes_and_escapes() {
    for inside in [
        r"\frac{1}{2} \theta\n",
        r"\\server\share",
        r"\alpha \\ \beta",
        r"Price \u20ac5 for \d",
        r"\u{20ac}5 for \d",
        r"\x41 \d",
        r"Line one\nMatch \d+",
        r"100\% sure\nyes",
        r"\$5 \n \$6",
        r"\s*\t*",
        r"\d{2}\r\n",
        r"C:\dir\nThen stop",
        r"see C:\a\d\new",
        r"C:\a\u1234",
        r"a\/b \d",
        r"it\'s 100\% sure",
        "a \\\n \\d",
    ] {
        assert_eq!(read(&format!("{{\"a\": \"{inside}\"}}"), repair()), Err(Fault::Escape), "{inside}");
    }
}

#[test]
fn keeps_the_backslash_of_unknown_escapes() {
    assert_eq!(read(r#"{"a": "\d+",}"#, JSON5), Err(Fault::Escape));
    assert_eq!(good(r#"{"a": "\d+",}"#, repair()), json!({ "a": "\\d+" }));
}

#[test]
fn repairs_broken_json_at_tolerance_2_but_not_1() {
    for (text, value, mend) in [
        ("{\"a\": [1, {\"b\": 2", json!({ "a": [1, { "b": 2 }] }), "missing-closer"),
        ("{\"a\": [1, 2}", json!({ "a": [1, 2] }), "missing-closer"),
        (
            "{\"a\": {\"b\": 1, \"c\": [1}, \"d\": 2}",
            json!({ "a": { "b": 1, "c": [1] }, "d": 2 }),
            "missing-closer",
        ),
        ("{\"a\": 1]}", json!({ "a": 1 }), "stray-closer"),
        ("{\"a\": 1 \"b\": 2}", json!({ "a": 1, "b": 2 }), "missing-comma"),
        ("{\"a\": \"x\" \"b\": 2}", json!({ "a": "x", "b": 2 }), "missing-comma"),
        ("{\"a\": \"x\"\n \"b\": \"y\"}", json!({ "a": "x", "b": "y" }), "missing-comma"),
        ("[1 2 {\"a\": 1} \"b\" \"c\"]", json!([1, 2, { "a": 1 }, "b", "c"]), "missing-comma"),
        ("[,1,, 2]", json!([1, 2]), "extra-comma"),
        ("{\"a\" = 1, \"b\" => 2, \"c\" 3}", json!({ "a": 1, "b": 2, "c": 3 }), "colon"),
        (
            "{\"a\": \"he said \"hi\" to me\", \"b\": 1}",
            json!({ "a": "he said \"hi\" to me", "b": 1 }),
            "inner-quote",
        ),
        ("{\"a\": \"say \"hi\"\"}", json!({ "a": "say \"hi\"" }), "inner-quote"),
        ("{\"item: \"lamp\", \"n\": 2}", json!({ "item": "lamp", "n": 2 }), "missing-quote"),
        ("{item\": \"lamp\", \"n\": 2}", json!({ "item": "lamp", "n": 2 }), "missing-quote"),
        ("{\"item\": \"lamp, \"n\": 2}", json!({ "item": "lamp", "n": 2 }), "missing-quote"),
        ("{\"item\": \"lamp; \"n\": 2}", json!({ "item": "lamp", "n": 2 }), "missing-quote"),
        ("{\"item\": \"lamp\n \"n\": 2}", json!({ "item": "lamp", "n": 2 }), "missing-quote"),
        ("{\"item\": lamp\", \"n\": 2}", json!({ "item": "lamp", "n": 2 }), "missing-quote"),
        ("{\"\"item\"\": \"\"lamp\"\", \"n\": \"\"}", json!({ "item": "lamp", "n": "" }), "doubled-quotes"),
        (r#"{"a": "C:\Users\new", "b": "x\ty"}"#, json!({ "a": "C:\\Users\\new", "b": "x\ty" }), "backslash"),
        (r#"{"a": "\d+ \"x\""}"#, json!({ "a": "\\d+ \"x\"" }), "backslash"),
        ("{\"a\": \"one two", json!({ "a": "one two" }), "cut-value"),
        ("{\"a\": \"one \\u00", json!({ "a": "one " }), "cut-value"),
        ("{\"a\": \"one \\", json!({ "a": "one " }), "cut-value"),
        ("[1, tru", json!([1, true]), "cut-value"),
        ("[1, 12.", json!([1, 12.0]), "missing-closer"),
        ("[1, 1e", json!([1]), "cut-value"),
        ("[1, 1.5e-", json!([1]), "cut-value"),
        ("[1, -", json!([1]), "cut-value"),
        ("{\"a\": 1, \"b", json!({ "a": 1 }), "cut-member"),
        ("{\"a\": 1, \"b\"", json!({ "a": 1 }), "cut-member"),
        ("{\"a\": 1, \"b\":", json!({ "a": 1 }), "cut-member"),
        ("{\"a\": 1,", json!({ "a": 1 }), "cut-member"),
        ("[1, 2, ", json!([1, 2]), "cut-value"),
        ("{\"a\": [1, 2,], ", json!({ "a": [1, 2] }), "trailing-comma"),
        ("{\"a\": yes, please, \"b\": 1}", Value::Null, ""),
        (
            "{\"a\": yes please, \"b\": 2024-01-31}",
            json!({ "a": "yes please", "b": "2024-01-31" }),
            "bare-value",
        ),
        ("{\"a\": 1} and more", json!({ "a": 1 }), "trailing-text"),
        ("{\"a\": [1, 2\n\nI hope that helps!", json!({ "a": [1, 2] }), "trailing-text"),
        ("{\"a\": True, \"b\": None}", json!({ "a": true, "b": null }), "python-literal"),
        ("{'a': 'x', b: [1, 2,], // c\n \"d\": \"e", json!({ "a": "x", "b": [1, 2], "d": "e" }), "comment"),
        ("{\"a\": \"x\ny\"}", json!({ "a": "x\ny" }), "control-character"),
    ] {
        if value.is_null() {
            assert!(read(text, repair()).is_err(), "{text}");
            continue;
        }
        let (read_value, mends) = read(text, repair()).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        assert_eq!(read_value, value, "{text}");
        assert!(mends.contains(&mend), "{text}: {mends:?}");
        assert!(read(text, JSON5).is_err(), "{text}");
    }
}

#[test]
fn the_syntactic_stage_repairs_only_unambiguous_errors() {
    for (text, value) in [
        ("{\"a\": 1,}", json!({ "a": 1 })),
        ("[True, False, None,]", json!([true, false, null])),
        ("{\"a\":\u{a0}\"b\tc\"}", json!({ "a": "b\tc" })),
    ] {
        assert_eq!(good(text, Mends::SYNTACTIC), value, "{text}");
    }
    for text in [
        "{\"a\": 1",
        "{a: 1}",
        "['a']",
        "[1 2]",
        "[1,, 2]",
        "{\"a\": \"b\"c\"}",
        "[1] x",
        "{\"a\": x}",
        "[,]",
        "{,}",
    ] {
        assert!(read(text, Mends::SYNTACTIC).is_err(), "{text}");
    }
}

#[test]
fn does_not_invent_missing_values() {
    for text in [
        "{\"a\": 1, ...}",
        "[...]",
        "{\"a\": 1, \"a\": 2}",
        "{{\"a\": 1}",
        "",
        "{\"a\": }",
        "{\"a\":, \"b\": 1}",
        "{\"a\", \"b\"}",
        "{\"a\": ...}",
        "[1, ...]",
        "}",
        "//",
    ] {
        assert!(read(text, repair()).is_err(), "{text}");
    }
}

#[test]
fn patches_show_what_changed() {
    let text = "{\"first\": 1, \"second\": True, \"third\": 3}";
    let rewritten = rewrite(text, repair(), 128).unwrap_or_else(|error| panic!("{}", error.fault));
    let patch = rewritten.patch(text, START).expect("a change");
    assert_eq!((patch.line, patch.column), (1, 24));
    assert_eq!(patch.before, ", \"second\": True, \"third\"");
    assert_eq!(patch.after, ", \"second\": true, \"third\"");
    let long = format!("[{}", "1, ".repeat(1000));
    let rewritten = rewrite(&long, repair(), 128).unwrap_or_else(|error| panic!("{}", error.fault));
    assert!(rewritten.patch(&long, START).expect("a change").after.chars().count() <= SHOWN + 3);
}

#[test]
fn limits_the_nesting() {
    let error = rewrite(&"[".repeat(1 << 20), repair(), 128).err().expect("too deep");
    assert_eq!(error.fault, Fault::Depth { limit: 128 });
}

#[test]
fn keeps_every_member_of_confusing_texts() {
    for (text, value) in [
        ("{'a': ''tis the season', 'b': ''}", json!({ "a": "'tis the season", "b": "" })),
        ("{\"a\": \"abc\\\n\"b\": 2}", json!({ "a": "abc", "b": 2 })),
        (r"{'pat': '\d+\'', 'b': 2}", json!({ "pat": "\\d+'", "b": 2 })),
        ("{\"a\": 1, \"b\": [1, 2\n\nI hope that helps!", json!({ "a": 1, "b": [1, 2] })),
    ] {
        assert_eq!(good(text, repair()), value, "{text}");
    }
    let long = "k".repeat(300);
    let text = format!("{{\"a\": \"x\", \"{long}\": 1,}}");
    assert_eq!(good(&text, repair()), json!({ "a": "x", long: 1 }));
    for text in ["{\"tags\": [\n#rust,\n#json\n]}", "[1_e5]", "[1e_5]", "{\"a\": \"\"\"x\\n\"\"\"}"] {
        assert!(read(text, JSON5).is_err(), "{text}");
    }
}

#[test]
fn rewrites_hostile_texts_in_linear_time() {
    let count = 1 << 19;
    let texts = [
        format!("[{}]", "\"".repeat(count)),
        format!("{{\"a\": \u{201e}x{}}}", "\u{201c} x".repeat(count / 4)),
        format!("{{\"x\":1,{}\"z\":1}}", "a=>1\"\u{a0}".repeat(count / 8)),
        format!("[{}", "a\", /* ".repeat(count / 8)),
        format!("{{\"a\": \"{}", "\" /* ".repeat(count / 8)),
        format!("{{\"a\": {}", "''a".repeat(count / 4)),
        format!("{{\"a\": \"{}\"}}", "5\" ".repeat(count / 4)),
        format!("{{\"a\": \"{}\"}}", "5\", \"b\" ".repeat(count / 8)),
        format!("{{\"a\": \"{}\"}}", "\\\", ".repeat(count / 8)),
        format!("{{\"a\": \"x{}, \"b\": 1}}", "\n(".repeat(count / 8)),
        format!("{{\"a\": '{}'}}", "x\", ".repeat(count / 8)),
        format!("{{\"a\": '{}'}}", "dogs' ".repeat(count / 8)),
        format!("{{a: {}}}", "x//".repeat(count / 4)),
        format!("{{a: {}}}", "x # ".repeat(count / 4)),
        format!("{{a: {}}}", "x: ".repeat(count / 4)),
        format!("[{}]", "1 ".repeat(count / 2)),
        format!("{{\"a\": 1{}", "\n \n".repeat(count / 4)),
    ];
    for text in texts {
        let start = std::time::Instant::now();
        let _ = rewrite(&text, repair(), 128);
        let elapsed = start.elapsed();
        assert!(elapsed.as_secs() < 5, "{elapsed:?} for {}", &text[..20]);
    }
}
