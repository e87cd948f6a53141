use formwork_grammar::{Grammar, Limits, SchemaOptions};

use super::*;
use crate::directives::{Registry, Validator, parser};

fn options(definitions: Value) -> StructuredOutputOptions {
    let data = serde_json::Map::from_iter([("definitions".to_owned(), definitions)]);
    let registry = serde_json::from_value::<Registry>(data.into());
    StructuredOutputOptions::new(registry.expect("a registry"))
}

#[test]
fn the_schema_includes_payloads_only_on_request() {
    let options = options(json!([
        { "type": "ui.toast", "payload_schema": { "required": ["message"] } },
        { "type": "ui.show_form" },
    ]));
    insta::assert_snapshot!(format!("{:#}", envelope(&options, false)));
    insta::assert_snapshot!(format!("{:#}", envelope(&options, true)));
}

#[test]
fn each_mode_has_its_response_format() {
    let options = options(json!([{ "type": "a" }])).with_schema_name("reply").expect("a name");
    let detail = Detail { payloads: false, strict: true };
    let schema = envelope(&options, false);
    assert_eq!(
        response_format(&options, Mode::JsonSchema, detail),
        Some(
            json!({ "type": "json_schema", "json_schema": { "name": "reply", "strict": true, "schema": schema } })
        )
    );
    assert_eq!(response_format(&options, Mode::JsonObject, detail), Some(json!({ "type": "json_object" })));
    assert_eq!(response_format(&options, Mode::PromptOnly, detail), None);
    let loose = response_format(&options, Mode::JsonSchema, Detail { strict: false, ..detail });
    assert_eq!(loose.expect("a format")["json_schema"]["strict"], false);
}

#[test]
fn the_schema_lists_only_allowed_types() {
    let kind = |options: &StructuredOutputOptions| {
        envelope(options, false)["properties"]["directives"]["items"]["properties"]["type"].clone()
    };
    let options = options(json!([{ "type": "a", "aliases": ["x"] }, { "type": "b" }, { "type": "c" }]));
    assert_eq!(kind(&options), json!({ "type": "string", "enum": ["a", "b", "c"] }));
    let two = options.clone().with_allowed_types(["c", "a"]).expect("types");
    assert_eq!(kind(&two), json!({ "type": "string", "enum": ["c", "a"] }));
    let none = options.with_allowed_types(Vec::<String>::new()).expect("none");
    assert_eq!(envelope(&none, true)["properties"]["directives"], json!({ "type": "array", "maxItems": 0 }));
    assert_eq!(kind(&StructuredOutputOptions::new(Registry::default())), json!({ "type": "string" }));
}

/// Returns payload schemas with references, anchors, older dialects and identifiers, which must
/// keep their meaning inside the envelope schema.
fn payload_schemas() -> Vec<Value> {
    let node = json!({
        "type": "object",
        "properties": { "name": { "$ref": "#/$defs/name" }, "next": { "anyOf": [{ "$ref": "#" }, { "type": "null" }] } },
        "required": ["name", "next"],
        "additionalProperties": false,
        "$defs": { "name": { "type": "string", "maxLength": 5 } },
    });
    let referring = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "object", "required": ["x"] } } });
    let anchored = json!({
        "properties": { "a": { "$ref": "#small" } },
        "required": ["a"],
        "$defs": { "a": { "$anchor": "small", "type": "integer", "minimum": 0, "maximum": 9 } },
    });
    let draft_7 = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": { "pair": { "$ref": "#/definitions/pair" } },
        "required": ["pair"],
        "definitions": { "pair": { "type": "array", "items": [{ "const": 1 }, { "const": 2 }], "additionalItems": false, "minItems": 2 } },
    });
    let named = json!({
        "$id": "https://example.com/named",
        "type": "object",
        "properties": { "a": { "$ref": "named#/$defs/flag" } },
        "required": ["a"],
        "$defs": { "flag": { "type": "boolean" } },
    });
    let hidden = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/a",
        "definitions": { "a": { "type": "object", "properties": { "b": { "$ref": "#/definitions/b" } }, "required": ["b"] }, "b": { "const": 7 } },
    });
    vec![
        node,
        referring,
        anchored,
        draft_7,
        named,
        hidden,
        json!(true),
        json!({ "type": ["object", "null"], "minProperties": 1 }),
    ]
}

#[test]
fn every_sample_is_a_valid_envelope_with_valid_payloads() {
    let mut sets: Vec<Vec<Value>> = payload_schemas().into_iter().map(|schema| vec![schema]).collect();
    sets.push(payload_schemas());
    for schemas in sets {
        let definition =
            |(at, schema): (usize, &Value)| json!({ "type": format!("t.{at}"), "payload_schema": schema });
        let mut definitions: Vec<Value> = schemas.iter().enumerate().map(definition).collect();
        definitions.push(json!({ "type": "plain" }));
        let options = options(definitions.into());
        let schema = envelope(&options, true);
        let checker = jsonschema::validator_for(&schema).expect("a schema");
        let grammar = Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default());
        let grammar = grammar.unwrap_or_else(|error| panic!("{error}: {schema}"));
        let mut directives = 0;
        for sample in grammar.samples(7).take(400) {
            let text = String::from_utf8(sample).expect("text");
            let value: Value = serde_json::from_str(&text).expect("JSON");
            assert!(checker.is_valid(&value), "{text}");
            let members = parser::parse(&text, usize::MAX).expect("an envelope");
            let envelope = Validator::new(&options).validate(members).expect("an envelope");
            assert_eq!(envelope.warnings, [], "{text}");
            directives += envelope.directives.len();
        }
        assert!(directives > 100, "{directives} directives of {schema}");
    }
}

#[test]
fn the_envelope_schema_rejects_invalid_payloads() {
    let refused = [
        json!({ "name": "longer than five", "next": null }),
        json!({}),
        json!({ "a": 10 }),
        json!({ "pair": [2, 1] }),
        json!({ "a": 1 }),
        json!({ "b": 8 }),
    ];
    let options = options(
        payload_schemas()
            .iter()
            .enumerate()
            .map(|(at, schema)| json!({ "type": format!("t.{at}"), "payload_schema": schema }))
            .collect(),
    );
    let schema = envelope(&options, true);
    let checker = jsonschema::validator_for(&schema).expect("a schema");
    let grammar =
        Grammar::json_schema(&schema, &SchemaOptions::accept(), &Limits::default()).expect("supported");
    for (at, payload) in refused.iter().enumerate() {
        let directive = json!({ "type": format!("t.{at}"), "payload": payload });
        let envelope = json!({ "assistant_text": "", "directives": [directive] });
        assert!(!checker.is_valid(&envelope), "{envelope}");
        assert!(!grammar.accepts(envelope.to_string().as_bytes()), "{envelope}");
    }
    let fine = json!({ "assistant_text": "", "directives": [{ "type": "t.0", "payload": { "name": "a", "next": { "name": "b", "next": null } } }] });
    assert!(checker.is_valid(&fine) && grammar.accepts(fine.to_string().as_bytes()));
}

#[test]
fn required_types_and_the_length_of_the_text_are_in_the_schema() {
    let definitions = json!([
        { "type": "a", "payload_schema": { "properties": { "n": { "enum": [1, 2] } }, "required": ["n"], "additionalProperties": false } },
        { "type": "b" },
        { "type": "c" },
    ]);
    let plain = envelope(&options(definitions.clone()), false);
    let required = [
        vec![Requirement::at_least_one("a")],
        vec![Requirement::exactly_one("b")],
        vec![
            Requirement::exactly_one("c"),
            Requirement::at_least_one("a"),
            Requirement { kind: "b".to_owned(), min: 0, max: Some(1) },
        ],
        vec![Requirement { kind: "b".to_owned(), min: 2, max: Some(3) }],
    ];
    for required in required {
        let mut options = options(definitions.clone()).with_required(required.clone()).expect("types");
        options.max_text_length = Some(5);
        options.max_directives = Some(5);
        assert_eq!(envelope(&options, false), plain);
        let schema = envelope(&options, true);
        let checker = jsonschema::validator_for(&schema).expect("a schema");
        let grammar = Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default());
        let grammar = grammar.expect("supported");
        assert!(grammar.warnings().is_empty(), "{:?}", grammar.warnings());
        let mut lengths = std::collections::BTreeSet::new();
        for sample in grammar.samples(7).take(150) {
            let text = String::from_utf8(sample).expect("text");
            assert!(checker.is_valid(&serde_json::from_str(&text).expect("JSON")), "{text}");
            let envelope =
                Validator::new(&options).validate(parser::parse(&text, usize::MAX).expect("an object"));
            let envelope = envelope.expect("an envelope");
            assert_eq!(options.unmet(&envelope), Vec::<String>::new(), "{required:?}: {text}");
            assert!(envelope.directives.len() <= 5, "{text}");
            lengths.insert(envelope.directives.len());
        }
        assert!(lengths.len() > 1, "{lengths:?}");
    }
}
