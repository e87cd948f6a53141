//! Cases, and the judgement of single answers.

use std::collections::BTreeSet;

use super::super::judge::judge;
use super::*;

#[test]
fn errors_in_cases_name_the_place() {
    let schema = r#""schema": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}}"#;
    for (text, told) in [
        ("", "line 1 column 0: "),
        ("{\n \"schema\": {},\n \"prompt\": x\n}", "line 3 column 12: "),
        ("[]", "line 1 column "),
        (
            r#"{"schema": {}, "promt": "?"}"#,
            "unknown key `promt`; expected one of id, schema, prompt, expected, violates",
        ),
        (r#"{"schema": {}, "prompt": "?", "prompt": "!"}"#, "the key `prompt` occurs twice"),
        (r#"{"prompt": "?"}"#, "missing key `schema`"),
        (r#"{"schema": {}}"#, "missing key `prompt`"),
        (r#"{"schema": {}, "prompt": ["?"]}"#, "/prompt: expected a string, not an array"),
        (r#"{"schema": true, "prompt": "?"}"#, "/schema: expected a schema as an object, not a boolean"),
        (
            r#"{"schema": {"properties": {"a": {"type": "int"}}}, "prompt": "?"}"#,
            "/schema/properties/a/type: ",
        ),
        (r#"{"schema": {"$ref": "https://example.com/s"}, "prompt": "?"}"#, "/schema"),
        (r#"{"schema": {"pattern": "("}, "prompt": "?"}"#, "/schema/pattern: "),
        (&format!(r#"{{{schema}, "prompt": "?", "expected": {{"n": 10}}}}"#), "/expected/n: "),
        (
            &format!(r#"{{{schema}, "prompt": "?", "violates": "minimum"}}"#),
            "/violates: the schema has no keyword `minimum`; it has ",
        ),
        (&format!(r#"{{{schema}, "prompt": "?", "violates": "maximum", "expected": {{}}}}"#), "/expected: "),
        (r#"{"schema": {}, "prompt": "?", "id": " "}"#, "/id: expected a name"),
    ] {
        let error = Case::parse(text, "c").expect_err(text).to_string();
        assert!(error.starts_with(told), "{text}: {error}");
    }
    let deep = format!(r#"{{"schema": {}1{}, "prompt": "?"}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(Case::parse(&deep, "c").is_err());
}

#[test]
fn a_case_may_name_a_keyword_in_several_ways() {
    for (schema, given, found) in [
        (json!({ "format": "date" }), "format", "format: date"),
        (json!({ "format": "date" }), "format: date", "format: date"),
        (json!({ "if": {}, "then": {} }), "then", "if/then/else"),
        (json!({ "items": { "maximum": 1 } }), "maximum", "maximum"),
    ] {
        assert_eq!(case(&schema, &json!({ "violates": given })).violates.as_deref(), Some(found));
    }
}

#[test]
fn judges_validity_completeness_closure_and_equality_apart() {
    let schema = json!({
        "type": "object",
        "properties": { "n": { "type": "number", "maximum": 9 }, "d": { "type": "string", "format": "date" } },
        "required": ["n"],
    });
    let case = case(&schema, &json!({ "expected": { "n": 1 } }));
    let validator = case.validator().expect("a schema");
    let t = true;
    for (text, complete, valid, closed, equal, category) in [
        (r#"{"n": 1}"#, t, t, t, t, "ok"),
        (" {\"n\": 1.0}\n", t, t, t, t, "ok"),
        (r#"{"n": 2}"#, t, t, t, false, "NOT_EQUAL"),
        (r#"{"n": 10}"#, t, false, t, false, "INVALID"),
        (r#"{"n": 1, "d": "May"}"#, t, false, t, false, "INVALID"),
        ("```json\n{\"n\": 1}\n```", t, t, false, t, "NOT_CLOSED"),
        (r#"{"n": 1} Done."#, t, t, false, t, "NOT_CLOSED"),
        (r#"{"n": 1}{"n": 1}"#, t, t, false, t, "NOT_CLOSED"),
        ("One.", t, false, false, false, "NOT_JSON"),
        (r#"{"n": 1"#, false, false, false, false, "TRUNCATED"),
        (r#"{"n": 1}"#, false, t, t, t, "TRUNCATED"),
        ("", t, false, false, false, "EMPTY"),
    ] {
        let judged = judge(&case, &validator, text, complete);
        let found = (judged.valid, judged.complete, judged.closed, judged.equal);
        assert_eq!(found, (valid, complete, closed, Some(equal)), "{text}");
        assert_eq!(judged.failure.map_or("ok".to_owned(), |failure| failure.category), category, "{text}");
    }
    let keywords = |text: &str| -> Vec<String> {
        judge(&case, &validator, text, true).violations.into_iter().map(|found| found.keyword).collect()
    };
    assert_eq!(keywords(r#"{"n": 10}"#), ["maximum"]);
    assert_eq!(keywords(r#"{"n": 1, "d": "May"}"#), ["format: date"]);
    assert_eq!(keywords("{}"), ["required"]);
}

#[test]
fn the_answer_decides_on_the_keyword_of_a_probe() {
    let schema = json!({
        "type": "object",
        "properties": { "value": { "type": "integer", "maximum": 9 } },
        "required": ["value"],
    });
    let case = case(&schema, &json!({ "violates": "maximum" }));
    let validator = case.validator().expect("a schema");
    for (text, complete, verdict) in [
        (r#"{"value": 9}"#, true, Verdict::Enforced),
        (r#"{"value": 10}"#, true, Verdict::Ignored),
        ("Ten.", true, Verdict::Ignored),
        (r#"Sure: {"value": 9}"#, true, Verdict::Enforced),
        ("```json\n{\"value\": 9}\n```", true, Verdict::Enforced),
        (r#"{"value": 9} I hope that this helps."#, true, Verdict::Enforced),
        (r#"<think>{"value": 10}?</think>{"value": 9}"#, true, Verdict::Enforced),
        (r#"So {"value": 10}?</think>{"value": 9}"#, true, Verdict::Enforced),
        (r#"[THINK]{"value": 9}?[/THINK]{"value": 10}"#, true, Verdict::Ignored),
        ("```json\n{\"value\": 10}\n```", true, Verdict::Ignored),
        (r#"Sure: {"value": "ten"}"#, true, Verdict::Inconclusive),
        (r#"<think>{"value": 9}?"#, true, Verdict::Ignored),
        ("{}", true, Verdict::Ignored),
        (r#"{"value": "ten"}"#, true, Verdict::Inconclusive),
        (r#"{"value": 1"#, false, Verdict::Inconclusive),
        ("", true, Verdict::Inconclusive),
    ] {
        assert_eq!(judge(&case, &validator, text, complete).verdict, Some(verdict), "{text}");
    }
}

#[test]
fn a_violation_of_another_keyword_says_nothing_about_the_probed_one() {
    let schema = json!({ "type": "object", "required": ["a"], "maxProperties": 1 });
    let case = case(&schema, &json!({ "violates": "maxProperties" }));
    let validator = case.validator().expect("a schema");
    for (text, verdict) in [
        (r#"{"a": 1}"#, Verdict::Enforced),
        (r#"{"a": 1, "b": 2}"#, Verdict::Ignored),
        (r#"{"b": 1, "c": 2}"#, Verdict::Ignored),
        ("{}", Verdict::Inconclusive),
        ("[]", Verdict::Inconclusive),
    ] {
        assert_eq!(judge(&case, &validator, text, true).verdict, Some(verdict), "{text}");
    }
}

#[test]
fn each_probe_distinguishes_its_keyword() {
    assert!(PROBES.len() > 50);
    let cases = keyword_probes();
    let ids: BTreeSet<_> = cases.iter().map(|case| &case.id).collect();
    assert_eq!(ids.len(), cases.len());
    for (probe, case) in PROBES.iter().zip(&cases[1..]) {
        let text = serde_json::to_string(case).expect("JSON");
        assert_eq!(Case::parse(&text, "").as_ref(), Ok(case), "a probe is a case");
        let validator = case.validator().expect("a schema");
        let verdict =
            |value: &Value| judge(case, &validator, &json!({ "value": value }).to_string(), true).verdict;
        assert_eq!(verdict(&probe.wrong), Some(Verdict::Ignored), "{}", case.id);
        assert_eq!(verdict(&probe.right), Some(Verdict::Enforced), "{}", case.id);
        // No other keyword of the probe is violated.
        let judged = judge(case, &validator, &json!({ "value": probe.wrong }).to_string(), true);
        let keywords: BTreeSet<&str> = judged.violations.iter().map(|found| found.keyword.as_str()).collect();
        assert_eq!(keywords.len(), 1, "{}: {:?}", case.id, judged.violations);
    }
    let probed: BTreeSet<&str> = PROBES.iter().map(|probe| probe.keyword.as_str()).collect();
    for keyword in [
        "type",
        "enum",
        "const",
        "required",
        "properties",
        "additionalProperties",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if/then/else",
        "$ref",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedProperties",
        "unevaluatedItems",
        "format: date-time",
        "format: date",
        "format: time",
        "format: email",
        "format: uuid",
        "format: uri",
        "format: ipv4",
    ] {
        assert!(probed.contains(keyword), "{keyword}");
    }
}
