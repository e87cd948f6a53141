use serde_json::{Value, json};

use super::{Base, Coercer, Deadline, Done};
use crate::{AdaptLimits, AdaptOptions, Adaptation, Adapter, Allow, AnyOfStrategy, Conversion};

fn all() -> AdaptOptions {
    AdaptOptions { allow: Conversion::ALL.into_iter().collect(), ..AdaptOptions::full() }
}

fn adapt(schema: &Value, value: &Value, options: AdaptOptions) -> Adaptation {
    Adapter::new(schema, options).expect("a schema").adapt(&value.to_string())
}

/// Returns the converted value, or `None` if it stays invalid.
#[allow(clippy::needless_pass_by_value, reason = "cases are written where they are used")]
fn to(schema: Value, value: Value, options: AdaptOptions) -> Option<Value> {
    let adaptation = adapt(&schema, &value, options);
    if adaptation.is_valid() { adaptation.into_value() } else { None }
}

/// Returns the reason that a value could not be converted, with its place.
#[allow(clippy::needless_pass_by_value, reason = "cases are written where they are used")]
fn why(schema: Value, value: Value, options: AdaptOptions) -> String {
    let adaptation = adapt(&schema, &value, options);
    assert!(!adaptation.is_valid(), "{value} fits {schema}");
    assert_eq!(adaptation.value(), Some(&value), "what is not valid is given as it was");
    adaptation.stages().last().and_then(|stage| stage.error_preview.clone()).expect("a reason")
}

fn of(kind: &str) -> Value {
    json!({ "type": kind })
}

#[test]
fn converts_strings_with_the_text_of_a_value() {
    for (kind, text, value) in [
        ("integer", "42", json!(42)),
        ("integer", "-7", json!(-7)),
        ("integer", "18446744073709551615", json!(u64::MAX)),
        ("number", "3.25", json!(3.25)),
        ("number", "42", json!(42)),
        ("number", "-1e3", json!(-1000.0)),
        ("boolean", "true", json!(true)),
        ("boolean", "false", json!(false)),
        ("boolean", "0", json!(false)),
        ("boolean", "1", json!(true)),
        ("array", "[1, \"2\"]", json!([1, "2"])),
        ("array", " [] ", json!([])),
    ] {
        // The string is wrapped in an array, because a text that is a single string is unescaped
        // instead.
        let schema = || json!({ "items": of(kind) });
        assert_eq!(to(schema(), json!([text]), all()), Some(json!([value])), "{kind} {text}");
        assert_eq!(to(schema(), json!([text]), AdaptOptions { allow: Allow::none(), ..all() }), None);
        let is_scalar = kind != "array";
        assert_eq!(
            to(schema(), json!([text]), AdaptOptions::minimal()).is_some(),
            is_scalar,
            "{kind} {text}"
        );
    }
}

#[test]
fn does_not_convert_similar_strings() {
    for (kind, texts) in [
        (
            "integer",
            &[
                "",
                " 42",
                "42 ",
                "+42",
                "042",
                "42.0",
                "4.2e1",
                "1e3",
                "0x2a",
                "1_000",
                "1,000",
                "forty",
                "99999999999999999999",
                "٤٢",
            ][..],
        ),
        ("number", &["", "3,14", ".5", "5.", "1e400", "NaN", "Infinity", "--1", "1e"]),
        ("boolean", &["", "True", "TRUE", "yes", "on", "2", "00", " true"]),
        ("null", &["null", ""]),
        ("object", &["{}", "{\"a\": 1}"]),
    ] {
        for text in texts {
            let schema = json!({ "items": of(kind) });
            assert_eq!(to(schema, json!([text]), AdaptOptions::full()), None, "{kind} {text}");
        }
    }
    // Only strings are parsed, and no value becomes a string.
    for (kind, value) in [
        ("boolean", json!(1)),
        ("integer", json!(true)),
        ("string", json!(42)),
        ("integer", json!(1.5)),
        ("number", json!(null)),
    ] {
        assert_eq!(to(of(kind), value, AdaptOptions::full()), None, "{kind}");
    }
}

#[test]
fn wraps_single_values_if_allowed() {
    let integers = json!({ "type": "array", "items": { "type": "integer" } });
    assert_eq!(to(integers.clone(), json!(5), all()), Some(json!([5])));
    assert_eq!(to(integers.clone(), json!("5"), all()), Some(json!([5])));
    assert_eq!(to(integers.clone(), json!("[\"5\", 6]"), all()), Some(json!([5, 6])));
    assert_eq!(to(integers.clone(), json!(5), AdaptOptions::full()), None);
    let objects = json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "object" } } } });
    assert_eq!(to(objects, json!({ "a": { "b": 1 } }), all()), Some(json!({ "a": [{ "b": 1 }] })));
    // Conversion ends even if every array requires another array inside.
    let endless = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "array", "items": { "$ref": "#/$defs/a" } } } });
    assert!(why(endless, json!(5), all()).contains("rounds"));
}

#[test]
fn rejects_ambiguous_values_with_their_place() {
    let within = |schema: Value| json!({ "properties": { "a": { "items": schema } } });
    let value = |value: Value| json!({ "a": [value] });
    for (schema, given, reason) in [
        (
            json!({ "type": ["integer", "boolean"] }),
            json!("1"),
            "/a/0: ambiguous: the value could mean 1 or true, and the schema accepts both",
        ),
        (
            json!({ "type": ["boolean", "number"] }),
            json!("0"),
            "/a/0: ambiguous: the value could mean 0 or false, and the schema accepts both",
        ),
        (
            json!({ "type": ["array", "integer"] }),
            json!("7"),
            "/a/0: ambiguous: the value could mean 7 or an array, and the schema accepts both",
        ),
        (json!({ "type": "array" }), json!(null), "/a/0: ambiguous: null could mean [] or [null]"),
        (
            json!({ "type": "array" }),
            json!("[one, two]"),
            "/a/0: the text looks like an array, but is not a JSON array",
        ),
        (
            json!({ "enum": [1, true] }),
            json!("1"),
            "/a/0: ambiguous: the value could mean 1 or true, and the schema accepts both",
        ),
    ] {
        assert_eq!(why(within(schema), value(given), all()), reason);
    }
    assert_eq!(
        to(within(json!({ "type": ["integer", "boolean"] })), value(json!("true")), all()),
        Some(value(json!(true)))
    );
    assert_eq!(
        to(within(json!({ "type": ["integer", "number"] })), value(json!("7")), all()),
        Some(value(json!(7)))
    );
}

#[test]
fn converts_values_anywhere_in_the_schema() {
    let integer = of("integer");
    let schema = json!({
        "$defs": { "count": integer, "node": { "properties": { "n": { "$ref": "#/$defs/count" }, "next": { "$ref": "#/$defs/node" } } } },
        "properties": {
            "node": { "$ref": "#/$defs/node" },
            "list": { "type": "array", "prefixItems": [{ "type": "boolean" }], "items": integer },
            "all": { "allOf": [{ "type": "integer" }, { "minimum": 3 }, { "type": "number" }] },
            "one": { "enum": [1, 2, "3"] },
            "same": { "const": true },
        },
        "patternProperties": { "^x_": integer },
        "additionalProperties": { "type": "number" },
        "dependentSchemas": { "list": { "properties": { "late": of("boolean") } } },
        "if": { "required": ["one"] },
        "then": { "properties": { "then": integer } },
    });
    let given = json!({
        "node": { "n": "1", "next": { "n": "2", "next": { "n": 3 } } }, "list": ["true", "4", 5], "all": "6", "one": "2", "same": "true",
        "x_/~": "7", "other": "8.5", "then": "10",
    });
    let wanted = json!({
        "node": { "n": 1, "next": { "n": 2, "next": { "n": 3 } } }, "list": [true, 4, 5], "all": 6, "one": 2, "same": true,
        "x_/~": 7, "other": 8.5, "then": 10,
    });
    let adaptation = adapt(&schema, &given, AdaptOptions::minimal());
    assert_eq!(adaptation.value(), Some(&wanted), "{:?}", adaptation.stages());
    // The string "3" is a listed value, so it is not converted.
    assert_eq!(
        to(schema, json!({ "one": "3", "x_a": "1" }), AdaptOptions::minimal()),
        Some(json!({ "one": "3", "x_a": 1 }))
    );
    let old = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "definitions": { "a": integer }, "items": { "$ref": "#/definitions/a" } });
    assert_eq!(to(old, json!(["1", 2]), AdaptOptions::minimal()), Some(json!([1, 2])));
}

#[test]
fn makes_all_conversions_or_none() {
    let schema = json!({ "properties": { "a": of("integer"), "b": { "type": "integer", "maximum": 5 } } });
    assert_eq!(
        why(schema.clone(), json!({ "a": "1", "b": "6" }), all()),
        "/b: the value is greater than the maximum of 5"
    );
    assert_eq!(to(schema, json!({ "a": "1", "b": "5" }), all()), Some(json!({ "a": 1, "b": 5 })));
}

#[test]
fn tries_branches_in_order_at_level_full() {
    for keyword in ["anyOf", "oneOf"] {
        let schema = json!({ "properties": { "v": { keyword: [
            { "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n", "m"] },
            { "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false },
            { "type": "null" },
        ] } } });
        let value = json!({ "v": { "n": "7" } });
        let adaptation = adapt(&schema, &value, AdaptOptions::full());
        assert_eq!(adaptation.value(), Some(&json!({ "v": { "n": 7 } })), "{keyword}");
        let semantic = adaptation.stages().last().expect("a stage");
        assert_eq!(semantic.branch_index, Some(1));
        assert_eq!((semantic.branch_choices[0].path.as_str(), semantic.branch_choices[0].index), ("/v", 1));
        assert_eq!(semantic.transforms, ["str->int"]);
        assert_eq!(to(schema, value, AdaptOptions::minimal()), None, "branches are not for minimal");
    }
}

#[test]
fn reports_the_chosen_branch() {
    let schema = json!({ "properties": { "v": { "anyOf": [
        { "properties": { "n": of("boolean") }, "required": ["m"] },
        { "properties": { "n": of("integer") }, "required": ["n"] },
    ] } } });
    let adaptation = adapt(&schema, &json!({ "v": { "n": "7" } }), AdaptOptions::full());
    let semantic = adaptation.stages().last().expect("a stage");
    assert_eq!(semantic.transforms, ["str->int"]);
    assert_eq!(
        (semantic.expected_type.as_deref(), semantic.actual_type.as_deref()),
        (Some("integer"), Some("string"))
    );
}

#[test]
fn first_pass_uses_the_first_and_unique_the_only_branch() {
    let schema = json!({ "items": { "anyOf": [of("null"), of("integer"), of("boolean")] } });
    let unique = || AdaptOptions { anyof_strategy: AnyOfStrategy::Unique, ..AdaptOptions::full() };
    let adaptation = adapt(&schema, &json!([null, "1"]), AdaptOptions::full());
    assert_eq!(adaptation.value(), Some(&json!([null, 1])));
    assert_eq!(adaptation.stages().last().and_then(|stage| stage.branch_index), Some(1));
    assert_eq!(
        why(schema.clone(), json!([null, "1"]), unique()),
        "/1: branches 1 and 2 both accept the converted value"
    );
    assert_eq!(to(schema.clone(), json!(["7"]), unique()), Some(json!([7])));
    // A value that several branches accept without conversion is valid and stays unchanged.
    let both = json!({ "anyOf": [of("integer"), of("number")] });
    assert_eq!(to(both, json!(7), unique()), Some(json!(7)));
    // With `oneOf`, only one branch may accept the converted value.
    let one = json!({ "oneOf": [of("integer"), of("number")] });
    assert_eq!(to(one, json!("7"), AdaptOptions::full()), None);
}

#[test]
fn finds_branches_within_branches_and_behind_references() {
    let schema = json!({
        "$ref": "#/$defs/tree",
        "$defs": { "tree": { "oneOf": [
            { "type": "integer" },
            { "type": "object", "properties": { "left": { "$ref": "#/$defs/tree" }, "right": { "$ref": "#/$defs/tree" } },
              "required": ["left", "right"], "additionalProperties": false },
        ] } },
    });
    let given = json!({ "left": { "left": "1", "right": 2 }, "right": "3" });
    let adaptation = adapt(&schema, &given, AdaptOptions::full());
    assert_eq!(adaptation.value(), Some(&json!({ "left": { "left": 1, "right": 2 }, "right": 3 })));
    let choices: Vec<(&str, usize)> = adaptation
        .stages()
        .last()
        .expect("a stage")
        .branch_choices
        .iter()
        .map(|choice| (choice.path.as_str(), choice.index))
        .collect();
    assert_eq!(choices, [("", 1), ("/left", 1), ("/left/left", 0), ("/right", 0)]);
    let lists = json!({ "anyOf": [{ "type": "array", "items": of("integer") }, of("null")] });
    assert_eq!(to(lists, json!("[\"1\", 2]"), AdaptOptions::full()), Some(json!([1, 2])));
    // The keywords beside the branches must accept the value as well.
    let beside = json!({ "anyOf": [of("integer"), of("boolean")], "maximum": 5, "not": { "const": 1 } });
    assert_eq!(to(beside, json!("1"), AdaptOptions::full()), Some(json!(true)));
}

#[test]
fn does_not_convert_a_value_that_two_branches_accept() {
    let within = |schema: Value| json!({ "properties": { "a": schema } });
    let short = json!({ "oneOf": [of("string"), { "type": "string", "maxLength": 3 }, of("integer")] });
    assert_eq!(
        why(within(short), json!({ "a": "7" }), AdaptOptions::full()),
        "/a: branches 0 and 1 of `oneOf` both accept the value"
    );
    let numbers = json!({ "oneOf": [of("integer"), of("number"), of("boolean")] });
    assert_eq!(
        why(within(numbers.clone()), json!({ "a": "1" }), AdaptOptions::full()),
        "/a: branches 0 and 1 of `oneOf` both accept the converted value"
    );
    assert_eq!(to(within(numbers), json!({ "a": "true" }), AdaptOptions::full()), Some(json!({ "a": true })));
    let objects = json!({ "oneOf": [
        { "properties": { "n": of("string") }, "required": ["n"] },
        { "properties": { "m": of("string") } },
        { "properties": { "n": of("integer") }, "required": ["n"] },
    ] });
    assert_eq!(
        why(within(objects), json!({ "a": { "n": "7" } }), AdaptOptions::full()),
        "/a: branches 0 and 1 of `oneOf` both accept the value"
    );
}

#[test]
fn limits_the_nesting_of_lists_in_strings() {
    let arrays = json!({ "$ref": "#/$defs/a", "$defs": { "a": {
        "anyOf": [{ "type": "array", "items": { "$ref": "#/$defs/a" } }, { "type": "object", "additionalProperties": { "$ref": "#/$defs/a" } }],
    } } });
    let list = |depth: usize| Value::from("[".repeat(depth) + &"]".repeat(depth));
    let limits = AdaptLimits { max_depth: 10, ..AdaptLimits::default() };
    let options = || AdaptOptions { limits, ..AdaptOptions::full() };
    let nested = (1..8).fold(json!([]), |inner, _| json!([inner]));
    assert_eq!(to(arrays.clone(), json!({ "a": [list(8)] }), options()), Some(json!({ "a": [nested] })));
    assert_eq!(
        why(arrays.clone(), json!({ "a": [list(9)] }), options()),
        "/a/0: the nesting exceeds 10 levels"
    );
    assert_eq!(
        why(json!({ "items": of("array") }), json!([list(128)]), all()),
        "/0: the nesting exceeds 128 levels"
    );
    // Wrapping adds one level of nesting.
    let options = || AdaptOptions { limits, ..all() };
    let wrapped = json!({ "items": { "items": { "type": "array" } } });
    let deep = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({ "a": inner }));
    assert!(to(wrapped.clone(), json!([[deep(7)]]), options()).is_some());
    assert_eq!(why(wrapped, json!([[deep(8)]]), options()), "/0/0: the nesting exceeds 10 levels");
}

#[test]
fn converts_thousands_of_errors_in_linear_time() {
    let limits = AdaptLimits { max_time: std::time::Duration::from_secs(60), ..AdaptLimits::default() };
    let count = 40_000;
    let strings: Value = (0..count).map(|n| n.to_string()).collect();
    let numbers: Value = (0..count).collect();
    let members: Value = (0..count).map(|n| (format!("n{n}"), json!({ "n": n.to_string() }))).collect();
    for (schema, given) in [
        (json!({ "items": of("integer") }), &strings),
        (json!({ "anyOf": [{ "type": "array", "items": of("integer") }, of("null")] }), &strings),
        (json!({ "additionalProperties": { "properties": { "n": of("integer") } } }), &members),
    ] {
        let options = AdaptOptions { limits, ..AdaptOptions::full() };
        let adaptation = adapt(&schema, given, options);
        assert!(adaptation.is_valid(), "{schema}: {:?}", adaptation.violations().first());
        assert!(given.is_object() || adaptation.value() == Some(&numbers));
        // Leaves room for an unoptimized build with parallel tests. A quadratic algorithm would
        // take minutes.
        assert!(adaptation.elapsed().as_secs() < 20, "{schema}: {:?}", adaptation.elapsed());
    }
}

#[test]
fn limits_the_memory_of_long_names() {
    let name = "n".repeat(1 << 20);
    let given = json!({ name: vec!["1"; 1000] });
    let schema = json!({ "additionalProperties": { "items": of("integer") } });
    assert_eq!(
        why(schema, given, AdaptOptions::full()),
        "the JSON pointers of all values exceed 64 MiB in total"
    );
}

#[test]
fn conversions_stop_at_the_time_limit() {
    let adapter = Adapter::new(&json!({ "items": of("integer") }), AdaptOptions::full()).expect("a schema");
    let given = json!(["1", "2"]);
    let errors: Vec<_> = adapter.flat().expect("errors").errors(&given).expect("short").collect();
    let mut coercion = Coercer {
        adapter: &adapter,
        tries_branches: true,
        deadline: Deadline::new(std::time::Duration::ZERO),
        trials: 0,
        done: Done::default(),
    };
    let late = coercion.convert_all(&errors, Base::default(), &mut given.clone()).expect_err("late");
    assert_eq!(late.keyword, "limit");
}

#[test]
fn limits_the_number_of_trials() {
    let schema = json!({ "items": { "anyOf": [of("null"), of("integer")] } });
    let many: Value = (0..100).map(|n| n.to_string()).collect();
    let limits = AdaptLimits { max_trials: 50, ..AdaptLimits::default() };
    assert!(
        why(schema, many, AdaptOptions { limits, ..AdaptOptions::full() }).contains("more than 50 branches")
    );
    // A number of branches that grows exponentially with the depth is bounded as well.
    let tree = json!({ "$ref": "#/$defs/t", "$defs": { "t": { "anyOf": [
        { "properties": { "a": { "$ref": "#/$defs/t" } }, "required": ["a", "x"] },
        { "properties": { "a": { "$ref": "#/$defs/t" } }, "required": ["a", "y"] },
        { "properties": { "a": { "$ref": "#/$defs/t" } }, "required": ["a", "z"] },
        of("integer"),
    ] } } });
    let deep = (0..40).fold(json!("1"), |inner, _| json!({ "a": inner }));
    let adaptation = adapt(&tree, &deep, AdaptOptions::full());
    assert!(!adaptation.is_valid() && adaptation.elapsed().as_secs() < 20);
}
