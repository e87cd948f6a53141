use proptest::prelude::*;
use serde_json::json;

use super::parse::Fault;
use super::*;

fn error(text: &str) -> (usize, String, Fault) {
    let error = Tape::parse(text, Syntax::up_to(128)).expect_err(text);
    (error.offset, error.path, error.fault)
}

#[test]
fn accepts_the_same_texts_as_serde_json() {
    for text in [
        "null",
        " true ",
        "[]",
        "{}",
        "[1, -2, 3.5, 1e3, -0, 0.0]",
        r#"{"a": {"b": [{}, [], ""]}, "c": "\u00e9\ud83e\udd80\n"}"#,
        "18446744073709551615",
        "-9223372036854775808",
        "\"é\"",
        "[[[[]]]]",
    ] {
        let expected: Value = serde_json::from_str(text).expect(text);
        assert_eq!(Tape::parse(text, Syntax::up_to(128)).expect(text).value(), expected, "{text}");
    }
}

#[test]
fn reports_the_place_of_a_syntax_error() {
    for (text, offset, path, fault) in [
        ("", 0, "", Fault::End),
        ("[1, 2", 5, "/2", Fault::End),
        ("[1,]", 3, "/1", Fault::Expected("a value")),
        (r#"{"a": 1,}"#, 8, "", Fault::Expected("a name in double quotes")),
        (r#"{"a": {"b/c": [1, x]}}"#, 18, "/a/b~1c/1", Fault::Expected("a value")),
        (r#"{"a" 1}"#, 5, "/a", Fault::Expected("`:`")),
        (r#"{"a": 1 "b": 2}"#, 8, "", Fault::Expected("`,` or `}`")),
        ("[1 2]", 3, "/1", Fault::Expected("`,` or `]`")),
        ("[01]", 1, "/0", Fault::Expected("a valid JSON number")),
        ("\"a\nb\"", 2, "", Fault::Control),
        (r#""\x""#, 1, "", Fault::Escape),
        (r#""\ud800""#, 1, "", Fault::Escape),
        ("1 2", 2, "", Fault::Trailing),
    ] {
        assert_eq!(error(text), (offset, path.to_owned(), fault), "{text}");
    }
}

#[test]
fn rejects_duplicate_names() {
    let twice = |name: &str| Fault::Twice { name: name.to_owned() };
    assert_eq!(error(r#"{"a": 1, "b": {"c": 1, "\u0063": 1}}"#), (23, "/b/c".to_owned(), twice("c")));
    let many = |last: &str| {
        let members: Vec<String> = (0..100).map(|n| format!("\"n{n}\": {n}, ")).collect();
        let members = members.concat();
        format!("{{{members}\"{last}\": 0}}")
    };
    assert!(Tape::parse(&many("n100"), Syntax::up_to(128)).is_ok());
    assert_eq!(error(&many("n7")).2, twice("n7"));
    // The same name in another object is not a repetition.
    assert!(Tape::parse(r#"{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}"#, Syntax::up_to(128)).is_ok());
}

#[test]
fn rejects_numbers_that_would_lose_precision() {
    for text in [
        "18446744073709551616",
        "-9223372036854775809",
        "1e400",
        "-1e400",
        "1e-400",
        "[123456789012345678901234567890]",
    ] {
        assert_eq!(error(text).2, Fault::Number, "{text}");
    }
    for (text, value) in [
        ("0e-999", json!(0.0)),
        ("0.1", json!(0.1)),
        ("1e22", json!(1e22)),
        ("9007199254740993", json!(9_007_199_254_740_993_u64)),
    ] {
        assert_eq!(Tape::parse(text, Syntax::up_to(128)).expect(text).value(), value, "{text}");
    }
}

#[test]
fn limits_the_nesting() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Tape::parse(&deep(128), Syntax::up_to(128)).is_ok());
    assert_eq!(error(&deep(129)).2, Fault::Depth { limit: 128 });
    assert_eq!(error(&"[".repeat(1 << 20)).2, Fault::Depth { limit: 128 });
}

/// Generates any JSON value.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e6..1e6_f64).prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        ".{0,12}".prop_map(Value::from),
        "[a-z ,:{}\\[\\]\"'\\\\/\n]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((".{0,6}", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn values_round_trip(value in any_value()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("JSON")] {
            prop_assert_eq!(&Tape::parse(&text, Syntax::up_to(128)).expect("JSON").value(), &value);
        }
    }

    #[test]
    fn nothing_panics(text in "[\\[\\]{}\",:0-9a-z\\\\ \n.eE+-]{0,40}") {
        let strict = serde_json::from_str::<Value>(&text);
        if let Ok(tape) = Tape::parse(&text, Syntax::up_to(128)) {
            prop_assert_eq!(tape.value(), strict.expect("what is JSON here is JSON there"));
        }
    }

    #[test]
    fn validates_a_tape_like_a_value(value in any_value(), other in any_value()) {
        let schema = json!({
            "type": ["object", "array"],
            "items": { "anyOf": [{ "type": "integer" }, { "const": other }, { "minLength": 3 }] },
            "additionalProperties": { "uniqueItems": true, "maximum": 100 },
            "propertyNames": { "maxLength": 4 },
            "minProperties": 1,
        });
        let on_values = jsonschema::validator_for(&schema).expect("a schema");
        let on_tapes = jsonschema::options_for::<OnTape>().build(&schema).expect("a schema");
        let text = value.to_string();
        let tape = Tape::parse(&text, Syntax::up_to(128)).expect("JSON");
        prop_assert_eq!(tape.is_valid(&on_tapes), on_values.is_valid(&value));
    }
}
