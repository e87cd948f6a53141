//! Property tests of the whole chain, with random schemas and values.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::{Value, json};

use super::tape::tests::any_value;
use super::*;

/// A schema and a value of the schema, with the ways in which the value's text is corrupted.
#[derive(Clone, Debug)]
struct Spoiled {
    schema: Value,
    value: Value,
    /// True if numbers and booleans are written as strings.
    stringified: bool,
    syntax: SpoiledSyntax,
    encoded: usize,
    wrap: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpoiledSyntax {
    Json,
    TrailingCommas,
    SingleQuotes,
    Comments,
    MissingClosers,
}

/// Generates a schema and a value of the schema.
fn pair() -> impl Strategy<Value = (Value, Value)> {
    let text = "[a-zA-Z0-9 .:;!?(){}\\[\\]#/*éß“-]{0,16}";
    let leaf = prop_oneof![
        any::<i64>().prop_map(|n| (json!({ "type": "integer" }), json!(n))),
        (-1000..1000_i64).prop_map(|n| (json!({ "type": "integer", "minimum": -1000 }), json!(n))),
        (-1e6..1e6_f64).prop_map(|n| (json!({ "type": "number" }), json!(n))),
        any::<bool>().prop_map(|b| (json!({ "type": "boolean" }), json!(b))),
        text.prop_map(|s| (json!({ "type": "string" }), json!(s))),
        "[a-z]{1,8}".prop_map(|s| (json!({ "enum": [s, "other"] }), json!(s))),
    ];
    let tree = leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            object(inner.clone()),
            (inner.clone(), inner.clone()).prop_map(|((schema, value), (other, _))| {
                // The type of the other branch is never one that the value could be converted to.
                let other = json!({ "allOf": [other, { "type": "null" }] });
                (json!({ "anyOf": [other, schema] }), value)
            }),
            inner.prop_map(|(schema, value)| (
                json!({ "type": "array", "items": schema }),
                json!([value, value])
            )),
        ]
    });
    object(tree)
}

fn object(inner: impl Strategy<Value = (Value, Value)>) -> impl Strategy<Value = (Value, Value)> {
    proptest::collection::btree_map("[a-z_]{1,8}", inner, 1..5).prop_map(|members| {
        let required: Vec<&String> = members.keys().collect();
        let properties: Value = members.iter().map(|(name, (schema, _))| (name.clone(), schema.clone())).collect();
        let value: Value = members.iter().map(|(name, (_, value))| (name.clone(), value.clone())).collect();
        let schema = json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        (schema, value)
    })
}

fn spoiled() -> impl Strategy<Value = Spoiled> {
    let syntax = prop_oneof![
        Just(SpoiledSyntax::Json),
        Just(SpoiledSyntax::TrailingCommas),
        Just(SpoiledSyntax::SingleQuotes),
        Just(SpoiledSyntax::Comments),
        Just(SpoiledSyntax::MissingClosers),
    ];
    (pair(), any::<bool>(), syntax, 0..3_usize, 0..5_usize).prop_map(
        |((schema, value), stringified, syntax, encoded, wrap)| Spoiled {
            schema,
            value,
            stringified,
            syntax,
            encoded,
            wrap,
        },
    )
}

impl Spoiled {
    fn text(&self) -> String {
        let value = if self.stringified { stringify(&self.value) } else { self.value.clone() };
        let mut text = String::new();
        write(&value, self.syntax, &mut text);
        if self.syntax == SpoiledSyntax::MissingClosers {
            let closers = text.bytes().rev().take_while(|byte| b"}]".contains(byte)).count();
            text.truncate(text.len() - closers.div_ceil(2));
        }
        // Truncated texts are not encoded as strings: models do not do that, and the string would
        // not end.
        for _ in 0..if self.syntax == SpoiledSyntax::MissingClosers { 0 } else { self.encoded } {
            text = Value::from(text).to_string();
        }
        match self.wrap {
            0 => text,
            1 => format!("Sure! Here's what you asked for:\n\n{text}"),
            2 => format!("```json\n{text}\n```"),
            3 => format!("Here it is (see [1]):\n```\n{text}\n```\nI hope that's what you want!"),
            _ => format!("<think>It's easy.</think>\n{text}\n\nThat is it."),
        }
    }
}

fn stringify(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), stringify(value))).collect()
        }
        Value::Array(items) => items.iter().map(stringify).collect(),
        Value::Number(_) | Value::Bool(_) => value.to_string().into(),
        other => other.clone(),
    }
}

fn quoted(text: &str, syntax: SpoiledSyntax) -> String {
    let json = Value::from(text).to_string();
    match syntax {
        SpoiledSyntax::SingleQuotes => {
            format!("'{}'", json[1..json.len() - 1].replace("\\\"", "\"").replace('\'', "\\'"))
        }
        _ => json,
    }
}

fn write(value: &Value, syntax: SpoiledSyntax, out: &mut String) {
    let comment = if syntax == SpoiledSyntax::Comments { " // it's a \"note\" }\n " } else { "" };
    let comma = if syntax == SpoiledSyntax::TrailingCommas { "," } else { "" };
    match value {
        Value::Object(members) => {
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(comment);
                out.extend([quoted(name, syntax).as_str(), ": "]);
                write(value, syntax, out);
            }
            out.extend([comma, comment, "}"]);
        }
        Value::Array(items) => {
            out.push('[');
            for (at, value) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write(value, syntax, out);
            }
            out.extend([comma, comment, "]"]);
        }
        Value::String(text) => out.push_str(&quoted(text, syntax)),
        other => out.push_str(&other.to_string()),
    }
}

fn repairing(schema: &Value) -> Adapter {
    let options =
        AdaptOptions { allow_truncated: true, ..AdaptOptions::full().with_tolerance(Tolerance::Repair) };
    Adapter::new(schema, options).expect("a schema")
}

/// At least 99% of 2,000 corrupted random values are recovered exactly.
#[test]
fn recovers_99_percent_of_damaged_values() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut recovered, mut lost) = (0, Vec::new());
    for _ in 0..2_000 {
        let case = spoiled().new_tree(&mut runner).expect("a case").current();
        let text = case.text();
        let adaptation = repairing(&case.schema).adapt(&text);
        if adaptation.value() == Some(&case.value) && adaptation.is_valid() {
            recovered += 1;
        } else {
            lost.push((case.syntax, text, case.value.to_string(), adaptation.stages().last().cloned()));
        }
    }
    println!("{recovered} of 2000 recovered");
    let few: Vec<_> = lost.iter().take(8).collect();
    assert!(recovered >= 1_980, "{recovered} of 2000; lost are such as {few:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_value_is_never_changed((schema, value) in pair(), pretty in any::<bool>(), tolerance in 0..3_u8) {
        let text = if pretty { serde_json::to_string_pretty(&value).expect("JSON") } else { value.to_string() };
        let tolerance = Tolerance::try_from(tolerance).expect("a level");
        for options in [AdaptOptions::off(), AdaptOptions::minimal(), AdaptOptions::full().with_tolerance(tolerance)] {
            let options = AdaptOptions { allow: Conversion::ALL.into_iter().collect(), ..options };
            let adaptation = Adapter::new(&schema, options).expect("a schema").adapt(&text);
            prop_assert!(adaptation.is_valid() && !adaptation.is_adapted());
            prop_assert_eq!(adaptation.value(), Some(&value));
        }
    }

    #[test]
    fn valid_values_of_any_schema_are_unchanged(value in any_value()) {
        let adaptation = repairing(&json!({})).adapt(&value.to_string());
        prop_assert!(!adaptation.is_adapted());
        prop_assert_eq!(adaptation.value(), Some(&value));
    }

    #[test]
    fn adaptation_is_idempotent(case in spoiled()) {
        let adapter = repairing(&case.schema);
        if let Some(value) = adapter.adapt(&case.text()).value() {
            let again = adapter.adapt(&value.to_string());
            prop_assert_eq!(again.value(), Some(value));
        }
    }

    #[test]
    fn tolerance_0_reads_only_json(text in "[\\[\\]{}\",:0-9a-b'/ \n]{0,24}") {
        let adapter = Adapter::new(&json!({}), AdaptOptions { max_unescape_depth: 0, ..AdaptOptions::minimal() }).expect("a schema");
        // The value must occur in the text as JSON.
        if let Some(value) = adapter.adapt(&text).into_value() {
            let stands = |start: usize| {
                let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
                values.next().and_then(Result::ok).as_ref() == Some(&value)
            };
            prop_assert!((0..text.len()).filter(|&at| text.is_char_boundary(at)).any(stands), "{}", value);
        }
    }

    #[test]
    fn no_text_panics(text in "[\\[\\]{}\",:0-9a-zA-Z'/\\\\ \n`“”=+.é-]{0,60}") {
        for tolerance in [Tolerance::Strict, Tolerance::Json5, Tolerance::Repair] {
            let options = AdaptOptions { allow: Conversion::ALL.into_iter().collect(), ..AdaptOptions::full().with_tolerance(tolerance) };
            let adapter = Adapter::new(&json!({ "type": "object", "additionalProperties": { "anyOf": [{ "type": "integer" }, { "type": "array" }] } }), options).expect("a schema");
            let adaptation = adapter.adapt(&text);
            if let (true, Some(value)) = (adaptation.is_valid(), adaptation.value()) {
                prop_assert!(adapter.adapt(&value.to_string()).is_valid());
            }
        }
    }
}
