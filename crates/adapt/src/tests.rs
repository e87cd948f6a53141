mod texts;

use std::convert::Infallible;

use serde_json::json;

use super::report::Outcome::{Fail, Skip, Success};
use super::*;

fn person() -> Value {
    json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "age": { "type": "integer" } },
        "required": ["name", "age"],
        "additionalProperties": false,
    })
}

fn adapter(schema: &Value, options: AdaptOptions) -> Adapter {
    Adapter::new(schema, options).expect("a schema")
}

fn minimal(schema: &Value) -> Adapter {
    adapter(schema, AdaptOptions::minimal())
}

fn full(schema: &Value, tolerance: Tolerance) -> Adapter {
    adapter(schema, AdaptOptions::full().with_tolerance(tolerance))
}

fn outcomes(adaptation: &Adaptation) -> Vec<(&'static str, Outcome)> {
    adaptation.observed().iter().map(|stage| (stage.stage.name(), stage.outcome)).collect()
}

fn transforms(adaptation: &Adaptation) -> Vec<&str> {
    adaptation.transforms().collect()
}

#[test]
fn valid_text_is_unchanged_at_every_level() {
    let text = " {\"name\": \"Emma\",\n \"age\": 41} ";
    for options in [AdaptOptions::off(), AdaptOptions::minimal(), AdaptOptions::full()] {
        let adaptation = adapter(&person(), options).adapt(text);
        assert!(adaptation.is_valid() && !adaptation.is_adapted());
        assert_eq!(adaptation.value(), Some(&json!({ "name": "Emma", "age": 41 })));
        assert_eq!(adaptation.violations(), []);
    }
    let stages = minimal(&person()).adapt(text).stages().to_vec();
    assert!(stages.iter().all(|stage| stage.outcome == Skip), "{stages:?}");
}

#[test]
fn adapters_can_be_shared_between_threads() {
    fn may_be_shared<T: Send + Sync>(_: &T) {}
    may_be_shared(&minimal(&person()));
}

#[test]
fn level_off_changes_nothing() {
    let off = adapter(&person(), AdaptOptions::off());
    let fenced = off.adapt("```json\n{\"name\": \"Emma\", \"age\": 41}\n```");
    assert_eq!((fenced.value(), fenced.is_valid(), fenced.stages().len()), (None, false, 0));
    assert_eq!(fenced.violations()[0].to_string(), "line 1, column 1: expected a value");
    let wrong = off.adapt(r#"{"name": "Emma", "age": "41"}"#);
    assert_eq!(wrong.value(), Some(&json!({ "name": "Emma", "age": "41" })));
    let [violation] = wrong.violations() else { panic!("{:?}", wrong.violations()) };
    assert_eq!((violation.path.as_str(), violation.keyword.as_str()), ("/age", "type"));
    assert_eq!(
        (violation.expected.as_deref(), violation.actual.as_deref()),
        (Some("integer"), Some("string"))
    );
}

#[test]
fn level_minimal_extracts_parses_and_converts() {
    let minimal = minimal(&person());
    let adaptation =
        minimal.adapt("Sure!\n```json\n{\"name\": \"Emma\", \"age\": \"41\"}\n```\nAnything else?");
    assert_eq!(adaptation.value(), Some(&json!({ "name": "Emma", "age": 41 })));
    assert_eq!(
        outcomes(&adaptation),
        [("extract", Success), ("tolerant", Skip), ("syntactic", Skip), ("semantic", Success)]
    );
    assert_eq!(transforms(&adaptation), ["extract", "json.loads", "str->int"]);
    let semantic = &adaptation.stages()[3];
    assert_eq!(semantic.expected_type.as_deref(), Some("integer"));
    assert_eq!(semantic.actual_type.as_deref(), Some("string"));
    // Level `minimal` mends nothing, whatever the tolerance.
    let tolerant = adapter(&person(), AdaptOptions::minimal().with_tolerance(Tolerance::Repair));
    let adaptation = tolerant.adapt("{\"name\": \"Emma\", \"age\": 41,}");
    assert!(!adaptation.is_valid());
    assert_eq!(adaptation.violations()[0].to_string(), "line 1, column 28: expected a name in double quotes");
    assert_eq!(
        outcomes(&adaptation),
        [("extract", Fail), ("tolerant", Skip), ("syntactic", Skip), ("semantic", Skip)]
    );
}

#[test]
fn level_full_decodes_with_the_given_tolerance() {
    let json5 = "{name: 'Emma', /* years */ age: +41,}";
    let broken = "{\"name\": \"Emma\", \"age\": 41";
    let syntactic = "{\"name\": \"Em\nma\", \"age\": 41,}";
    for (text, least) in
        [(syntactic, Tolerance::Strict), (json5, Tolerance::Json5), (broken, Tolerance::Repair)]
    {
        for tolerance in [Tolerance::Strict, Tolerance::Json5, Tolerance::Repair] {
            let options = AdaptOptions { allow_truncated: true, ..AdaptOptions::full() };
            let adaptation = adapter(&person(), options.with_tolerance(tolerance)).adapt(text);
            assert_eq!(adaptation.is_valid(), tolerance >= least, "{text} at {tolerance:?}");
            let did = |stage: Stage| {
                adaptation.stages().iter().any(|report| report.stage == stage && report.outcome == Success)
            };
            let by_tolerance = tolerance >= least && !(text == syntactic && tolerance < Tolerance::Repair);
            assert_eq!(did(Stage::Tolerant), by_tolerance, "{text} at {tolerance:?}");
            assert_eq!(did(Stage::Syntactic), text == syntactic && tolerance < Tolerance::Repair);
        }
    }
    let adaptation = full(&person(), Tolerance::Repair).adapt(broken);
    let patch = adaptation.stages()[1].patch.as_ref().expect("a patch");
    assert_eq!((patch.before.as_str(), patch.after.as_str()), ("\", \"age\": 41", "\", \"age\": 41}"));
    assert_eq!((patch.line, patch.column), (1, 27));
}

#[test]
fn shadow_mode_only_reports() {
    let text = "Here: {\"name\": \"Emma\", \"age\": \"41\"}";
    let shadow = adapter(&person(), AdaptOptions::full().with_shadow(true)).adapt(text);
    assert_eq!((shadow.is_valid(), shadow.value()), (false, None));
    assert!(!shadow.is_adapted() && shadow.stages().is_empty());
    assert_eq!(outcomes(&shadow).first(), Some(&("extract", Success)));
    let would = shadow.shadow().expect("what would have come");
    assert!(would.is_valid());
    assert_eq!(would.value(), Some(&json!({ "name": "Emma", "age": 41 })));
    // A valid text needs no adaptation in shadow mode either.
    let right =
        adapter(&person(), AdaptOptions::minimal().with_shadow(true)).adapt(r#"{"name": "Emma", "age": 41}"#);
    assert!(right.is_valid() && right.observed().iter().all(|stage| stage.outcome == Skip));
}

#[test]
fn returns_invalid_values_unchanged() {
    let adaptation = minimal(&person()).adapt(r#"{"name": 7, "age": "41"}"#);
    assert_eq!(adaptation.value(), Some(&json!({ "name": 7, "age": "41" })));
    assert_eq!(adaptation.violations().len(), 2);
    assert!(transforms(&adaptation).is_empty());
    assert_eq!(adaptation.stages()[3].outcome, Fail);
    assert_eq!(adaptation.stages()[3].path.as_deref(), Some("/name"));
}

#[test]
fn processors_run_last_and_are_validated() {
    let upper = |input: Input<'_>| {
        let Some(mut value) = input.value.cloned() else { return Err(ProcessorError::fault("", "no value")) };
        value["name"] = value["name"].as_str().unwrap_or_default().to_uppercase().into();
        Ok(Some(value))
    };
    let minimal = minimal(&person());
    let adaptation = minimal
        .adapt_with::<Infallible>("x {\"name\": \"Emma\", \"age\": \"41\"}", &[&upper])
        .expect("not stopped");
    assert_eq!(adaptation.value(), Some(&json!({ "name": "EMMA", "age": 41 })));
    assert_eq!(outcomes(&adaptation).last(), Some(&("custom", Success)));
    let again = minimal.adapt_with(r#"{"name": "EMMA", "age": 41}"#, &[&upper]).expect("not stopped");
    assert_eq!(outcomes(&again).last(), Some(&("custom", Skip)));
    let nothing = minimal.adapt_with("no", &[&upper]).expect("not stopped");
    assert_eq!(outcomes(&nothing).last(), Some(&("custom", Fail)));
    let spoil = |_: Input<'_>| Ok(Some(json!(1)));
    let spoiled =
        minimal.adapt_with::<Infallible>(r#"{"name": "EMMA", "age": 41}"#, &[&spoil]).expect("not stopped");
    assert!(!spoiled.is_valid());
    assert_eq!(spoiled.violations()[0].keyword, "type");
}

#[test]
fn interruptions_pass_through_unchanged() {
    #[derive(Debug, PartialEq, Eq)]
    struct Left(u32);
    let stop = |_: Input<'_>| Err(ProcessorError::Interrupt(Left(3)));
    let never = |_: Input<'_>| panic!("nothing comes after");
    assert_eq!(minimal(&person()).adapt_with("{}", &[&stop, &never]).unwrap_err(), Left(3));
}

#[test]
fn a_block_replaces_the_options_that_it_sets() {
    let defaults = AdaptOptions::minimal();
    let block: Coercion = serde_json::from_value(json!({
        "tolerant_level": 2, "max_unescape_depth": 1, "anyof_strategy": "unique",
        "allow": { "integer": ["str->int"], "array": ["str->list", "wrap"] },
    }))
    .expect("a block");
    let options = defaults.clone().with_coercion(&block);
    assert_eq!((options.tolerance, options.max_unescape_depth), (Tolerance::Repair, 1));
    assert_eq!(options.anyof_strategy, AnyOfStrategy::Unique);
    assert!(options.allow.has(Conversion::Wrap) && !options.allow.has(Conversion::StrToBool));
    // Options that the block does not set keep their values.
    assert_eq!(defaults.clone().with_coercion(&Coercion::default()), defaults);
    for wrong in [
        json!({ "tolerant_level": 3 }),
        json!({ "max_unescape_depth": 9 }),
        json!({ "anyof_strategy": "last" }),
        json!({ "allow": { "integer": ["str->float"] } }),
        json!({ "allow": { "object": ["str->object"] } }),
        json!({ "tolerance": 1 }),
    ] {
        assert!(serde_json::from_value::<Coercion>(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn enforces_the_limits() {
    let limits = AdaptLimits { max_bytes: 20, ..AdaptLimits::default() };
    let small = adapter(&person(), AdaptOptions { limits, ..AdaptOptions::minimal() });
    let adaptation = small.adapt(&" ".repeat(21));
    assert_eq!(adaptation.violations()[0].to_string(), "the text has 21 bytes; the limit is 20");
    let limits = AdaptLimits { max_time: std::time::Duration::ZERO, ..AdaptLimits::default() };
    let late = adapter(&person(), AdaptOptions { limits, ..AdaptOptions::minimal() });
    let adaptation = late.adapt("x {\"name\": \"Emma\", \"age\": \"41\"}");
    assert_eq!(adaptation.violations()[0].keyword, "limit");
    // A text that needs no adaptation never exceeds the time limit.
    assert!(late.adapt(r#"{"name": "Emma", "age": 41}"#).is_valid());
    let deep = minimal(&json!({})).adapt(&("[".repeat(200) + &"]".repeat(200)));
    assert!(deep.violations()[0].message.contains("nesting exceeds 128 levels"), "{:?}", deep.violations());
}

#[test]
fn reports_every_syntax_repair_with_its_place() {
    let text = "Here you are:\n\n```json\n{\"name\": \"Emma\",\n \"age\": 41,}\n```";
    for (tolerance, stage) in [(Tolerance::Strict, 2), (Tolerance::Json5, 1), (Tolerance::Repair, 1)] {
        let adaptation = full(&person(), tolerance).adapt(text);
        assert!(adaptation.is_valid(), "{tolerance:?}");
        let report = &adaptation.stages()[stage];
        assert_eq!(report.reason, "repaired: trailing-comma", "{tolerance:?}");
        let patch = report.patch.as_ref().expect("a patch");
        assert_eq!((patch.line, patch.column), (5, 11), "{tolerance:?}");
    }
    let wrong = full(&person(), Tolerance::Json5).adapt("Here:\n  {name: 'Emma', age: 41 years\n}");
    assert_eq!(
        wrong.stages()[1].error_preview.as_deref(),
        Some("/age: line 2, column 26: expected `,` or `}`")
    );
}

#[test]
fn decodes_types_without_building_values() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Person {
        name: String,
        age: u8,
    }
    let minimal = minimal(&person());
    let emma = Person { name: "Emma".to_owned(), age: 41 };
    assert_eq!(minimal.decode::<Person>(r#"{"name": "Emma", "age": 41}"#).ok(), Some(emma));
    assert_eq!(
        minimal.decode::<Person>("{\"name\": \"\", \"age\": \"7\"}").map(|person| person.age).ok(),
        Some(7)
    );
    let refused = minimal.decode::<Person>(r#"{"name": "Emma", "age": 300}"#).expect_err("too old");
    assert!(refused.violations()[0].message.contains("expected u8"), "{:?}", refused.violations());
    assert!(minimal.decode::<Person>(r#"{"name": "Emma"}"#).is_err());
    assert!(minimal.holds(r#"{"name": "Emma", "age": 300}"#) && !minimal.holds("{}"));
}

#[test]
fn a_truncated_value_is_invalid_unless_allowed() {
    for (text, is_cut) in [
        ("{\"name\": \"Emma\", \"age\": 41", true),
        ("{\"name\": \"Emma\", \"age\": 4", true),
        ("{\"name\": \"Emma\", \"age\": 41, \"no", true),
        ("Here: {\"name\": \"Emma\", \"age\": 41", true),
        ("```json\n{\"name\": \"Emma\", \"age\": 41", true),
        // Text after the value shows that the model had finished.
        ("```json\n{\"name\": \"Emma\", \"age\": 41\n```", false),
        ("{\"name\": \"Emma\", \"age\": 41] }", false),
        ("```json\n{\"age\": 41, \"name\": \"Em\n```", true),
    ] {
        let strict = full(&person(), Tolerance::Repair).adapt(text);
        assert_eq!((strict.is_valid(), strict.is_truncated()), (!is_cut, is_cut), "{text}");
        if is_cut {
            assert_eq!(strict.violations()[0].keyword, "truncated", "{text}");
        }
        let options = AdaptOptions { allow_truncated: true, ..AdaptOptions::full() };
        let allowed = adapter(&person(), options.with_tolerance(Tolerance::Repair)).adapt(text);
        assert_eq!((allowed.is_valid(), allowed.is_truncated()), (true, is_cut), "{text}");
    }
}

#[test]
fn reports_serialize_to_json() {
    let adaptation = full(&person(), Tolerance::Repair).adapt("{'name': 'Emma', 'age': '41'] }");
    let mut report = serde_json::to_value(&adaptation).expect("JSON");
    assert!(report["elapsed_us"].take().is_number());
    let expected = json!({
        "valid": true,
        "adapted": true,
        "truncated": false,
        "stages": [
            { "stage": "extract", "outcome": "fail", "reason": "line 1, column 2: expected a name in double quotes",
              "error_preview": "line 1, column 2: expected a name in double quotes", "path": "" },
            { "stage": "tolerant", "outcome": "success", "reason": "repaired: single-quotes, stray-closer",
              "transforms": ["single-quotes", "stray-closer"],
              "patch": { "line": 1, "column": 2, "before": "{'name': 'Emma', 'age': '41'] }", "after": "{\"name\": \"Emma\", \"age\": \"41\" }" } },
            { "stage": "syntactic", "outcome": "skip", "reason": "the tolerant stage decoded the text" },
            { "stage": "semantic", "outcome": "success", "reason": "the value was converted to match the schema",
              "transforms": ["str->int"], "expected_type": "integer", "actual_type": "string" },
        ],
        "violations": [],
        "elapsed_us": null,
    });
    assert_eq!(report, expected);
}

#[derive(serde::Deserialize)]
struct Order {
    id: u128,
}

#[test]
fn wide_integers_keep_their_digits_where_admitted() {
    let schema = json!({
        "type": "object",
        "properties": { "id": { "type": "integer" }, "n": { "type": "integer" } },
        "required": ["id"],
    });
    let big = "12345678901234567890123";
    let options = AdaptOptions::full().with_tolerance(Tolerance::Json5);
    let wide = AdaptOptions { wide_integers: true, ..options.clone() };
    let refusing = Adapter::new(&schema, options).expect("a schema");
    let keeping = Adapter::new(&schema, wide).expect("a schema");
    for text in
        [format!("{{\"id\": {big}}}"), format!("{{\"id\":-{big},}}"), format!("So: {{\"id\": {big}}}.")]
    {
        let adaptation = keeping.adapt(&text);
        assert!(adaptation.is_valid(), "{text}: {:?}", adaptation.violations());
        let written = adaptation.written().expect("not converted");
        assert!(written.contains(big) && !written.contains(' '), "{written}");
        assert!(!refusing.adapt(&text).is_valid(), "{text}");
    }
    // A conversion of another member would round the integer.
    let adaptation = keeping.adapt(&format!("{{\"id\": {big}, \"n\": \"2\"}}"));
    assert!(!adaptation.is_valid() && adaptation.written().is_some_and(|written| written.contains(big)));
    // Integers that differ in their last digits are different values.
    let both = keeping.adapt(&format!("Draft {{\"id\": {big}1}}, final {{\"id\": {big}2}}"));
    assert!(both.violations()[0].message.contains("ambiguous"), "{:?}", both.violations());
    assert!(!keeping.adapt(&format!("{{\"id\": {}}}", "9".repeat(400))).is_valid());
    assert_eq!(
        keeping.decode::<Order>(&format!("{{\"id\": {big}}}")).map(|order| order.id).ok(),
        big.parse().ok()
    );
}

#[test]
fn formats_are_asserted() {
    let schema = json!({ "type": "object", "properties": { "to": { "type": "string", "format": "email" } } });
    let adapter = Adapter::new(&schema, AdaptOptions::full()).expect("a schema");
    assert!(adapter.adapt(r#"{"to": "emma@example.org"}"#).is_valid());
    let adaptation = adapter.adapt(r#"{"to": "emma"}"#);
    assert_eq!(adaptation.violations()[0].keyword, "format");
    assert!(!adapter.holds(r#"{"to": "emma"}"#));
}

#[test]
fn a_valid_example_does_not_hide_an_invalid_answer() {
    let schema = json!({
        "type": "object",
        "properties": { "count": { "type": "integer" }, "name": { "type": "string" } },
        "required": ["count"],
    });
    let adapter = Adapter::new(&schema, AdaptOptions::full()).expect("a schema");
    let adaptation = adapter.adapt("For example {\"count\": 5}. Mine:\n```json\n{\"count\": \"two\"}\n```");
    assert_eq!(
        adaptation.violations()[0].message,
        "ambiguous: the values at line 1, column 13 and at line 3, column 1 look like answers, and only the first matches the schema"
    );
    for text in [
        "Draft {\"count\": \"two\"}, final {\"count\": 5}",
        "{\"count\": 5}, and {\"name\": 7} alone would be wrong.",
    ] {
        assert_eq!(adapter.adapt(text).value(), Some(&json!({ "count": 5 })), "{text}");
    }
}

#[test]
fn an_object_with_named_properties_precedes_others() {
    let schema = json!({ "type": "object", "properties": { "reply": { "type": "string" } } });
    let adapter = Adapter::new(&schema, AdaptOptions::minimal()).expect("a schema");
    let reply = json!({ "reply": "Hi" });
    for text in [
        r#"I noted {"mood": "good", "longer": "than the answer"}: {"reply": "Hi"}"#,
        r#"{"reply": "Hi"} and {"reply_to": "x", "more": {"reply": "no"}}"#,
    ] {
        assert_eq!(adapter.adapt(text).value(), Some(&reply), "{text}");
    }
    let broken = adapter.adapt(r#"A note {"mood": "good", "longer": "than the answer"}: {"reply": }"#);
    assert!(broken.violations()[0].message.contains("column 65"), "{:?}", broken.violations());
}
