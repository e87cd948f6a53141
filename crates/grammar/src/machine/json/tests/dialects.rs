//! Tests of schemas in the syntax of all drafts and of `OpenAPI`.

use serde_json::{Value, json};

use super::tables::check;
use super::{accepts, machine, machine_among};
use crate::frontend::json_schema::{Remotes, compile};
use crate::limits::Limits;
use crate::options::SchemaOptions;

const DRAFT_3: &str = "http://json-schema.org/draft-03/schema#";
const DRAFT_4: &str = "http://json-schema.org/draft-04/schema#";
const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";
const DRAFT_2020: &str = "https://json-schema.org/draft/2020-12/schema";

fn generate() -> SchemaOptions {
    SchemaOptions::default()
}

fn warnings(schema: &Value) -> Vec<String> {
    let compiled = compile(schema, &Remotes::new(), generate(), &Limits::default());
    compiled.unwrap().warnings.iter().map(ToString::to_string).collect()
}

fn error(schema: &Value) -> String {
    compile(schema, &Remotes::new(), generate(), &Limits::default()).unwrap_err().to_string()
}

#[test]
fn reads_spellings_of_other_drafts() {
    let pair = json!([{"type": "integer"}, {"type": "string"}]);
    check(vec![
        (json!({"type": "integer", "minimum": 3, "exclusiveMinimum": true}), generate(), &["4"], &["3"]),
        (json!({"type": "integer", "maximum": 3, "exclusiveMaximum": true}), generate(), &["2"], &["3"]),
        (json!({"type": "integer", "minimum": 3, "exclusiveMinimum": false}), generate(), &["3"], &["2"]),
        (
            json!({"$schema": DRAFT_7, "type": "integer", "minimum": 3, "exclusiveMinimum": true}),
            generate(),
            &["4"],
            &["3"],
        ),
        (json!({"$schema": DRAFT_4, "type": "integer", "exclusiveMinimum": 3}), generate(), &["4"], &["3"]),
        (json!({"type": "array", "items": pair}), generate(), &["[1, \"a\", null]", "[]"], &["[\"a\"]"]),
        (
            json!({"type": "array", "items": pair, "additionalItems": false, "minItems": 2}),
            generate(),
            &["[1, \"a\"]"],
            &["[1]", "[1, \"a\", 1]"],
        ),
        (
            json!({"$schema": "https://example.com/own", "type": "array", "items": pair, "additionalItems": {"type": "null"}}),
            generate(),
            &["[1, \"a\", null]"],
            &["[1, \"a\", 1]"],
        ),
        (json!({"type": "integer", "divisibleBy": 5}), generate(), &["10"], &["11"]),
        (json!({"type": "any"}), generate(), &["1", "{}"], &[]),
        (
            json!({"type": "object", "properties": {"a": {"type": "null", "required": true}, "b": {"required": false}}}),
            generate(),
            &["{\"a\": null}"],
            &["{}"],
        ),
        (
            json!({"$schema": DRAFT_3, "type": ["string", {"type": "array", "items": {"type": "null"}}]}),
            generate(),
            &["\"a\"", "[null]"],
            &["1", "[1]"],
        ),
        (json!({"$schema": DRAFT_3, "disallow": ["string", "null"]}), generate(), &["1"], &["null", "\"\""]),
        (
            json!({"$schema": DRAFT_3, "extends": {"type": "integer"}, "minimum": 1}),
            generate(),
            &["1"],
            &["0", "\"\""],
        ),
        (
            json!({"dependencies": {"a": "b"}, "type": "object", "additionalProperties": {"type": "null"}}),
            generate(),
            &["{\"a\": null, \"b\": null}", "{}"],
            &["{\"a\": null}"],
        ),
    ]);
}

#[test]
fn nullable_adds_null_to_the_type_beside_it() {
    check(vec![
        (
            json!({"type": "object", "properties": {"nick": {"type": "string", "nullable": true}}, "required": ["nick"]}),
            generate(),
            &["{\"nick\": null}", "{\"nick\": \"a\"}"],
            &["{\"nick\": 1}", "{}"],
        ),
        (json!({"type": "string", "nullable": false}), generate(), &["\"\""], &["null"]),
        (json!({"type": "string", "nullable": true, "enum": ["a"]}), generate(), &["\"a\""], &["null"]),
        (
            json!({"type": "string", "nullable": true, "enum": ["a", null]}),
            generate(),
            &["\"a\"", "null"],
            &["\"b\""],
        ),
        (json!({"allOf": [{"type": "string"}], "nullable": true}), generate(), &["\"a\""], &["null"]),
        (
            json!({"type": "integer", "minimum": 5, "nullable": true}),
            generate(),
            &["5", "null"],
            &["4", "\"\""],
        ),
    ]);
    let beside_enum = json!({"type": "string", "nullable": true, "enum": ["a"]});
    let expected =
        "#/nullable: `nullable` does not add null to the values of `enum` or `const`, as in OpenAPI 3.0";
    assert_eq!(warnings(&beside_enum), [expected]);
    let alone = json!({"allOf": [{"type": "string"}], "nullable": true});
    assert_eq!(
        warnings(&alone),
        ["#/nullable: `nullable` has no effect without `type` beside it, as in OpenAPI 3.0"]
    );
}

#[test]
fn warns_how_a_spelling_of_another_draft_is_read() {
    let cases = [
        (
            json!({"type": "array", "items": [{}]}),
            "#/items: an array is read as in draft 7; in 2020-12, use `prefixItems`",
        ),
        (
            json!({"minimum": 1, "exclusiveMinimum": true}),
            "#/exclusiveMinimum: a boolean is read as in draft 4: `true` makes the bound beside it exclusive",
        ),
        (
            json!({"exclusiveMaximum": true}),
            "#/exclusiveMaximum: `true` has no effect without `minimum` or `maximum` beside it",
        ),
        (
            json!({"$schema": DRAFT_4, "exclusiveMaximum": 1}),
            "#/exclusiveMaximum: a number is read as in draft 6: an exclusive bound",
        ),
        (
            json!({"type": "string", "nullable": true}),
            "#/nullable: read as in OpenAPI 3.0: null is accepted beside the `type`",
        ),
        (
            json!({"$schema": "https://raw.githubusercontent.com/a/b.json#"}),
            "#/$schema: this dialect is unknown; without its metaschema it is read as 2020-12",
        ),
        (json!({"$schema": DRAFT_3}), "#/$schema: draft 3 is read as draft 4 with the keywords of draft 3"),
        (
            json!({"$schema": DRAFT_7, "$ref": "#/definitions/a", "minimum": 1, "title": "t", "definitions": {"a": {}}}),
            "#/minimum: ignored: up to draft 7, keywords beside `$ref` have no effect",
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(warnings(&schema), [expected], "{schema}");
    }
    assert_eq!(warnings(&json!({"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": true})), [""; 0]);
}

#[test]
fn a_stated_draft_has_only_its_own_arrays_of_items() {
    let message = error(&json!({"$schema": DRAFT_2020, "items": [{}]}));
    assert_eq!(
        message,
        "#/items: `items`: expected a schema for all items (use `prefixItems` for an array of schemas), \
         found an array"
    );
    assert!(
        error(&json!({"prefixItems": [{}], "items": [{}]}))
            .contains("`prefixItems` for an array of schemas), found an array")
    );
}

#[test]
fn reports_the_value_of_a_malformed_keyword() {
    let cases = [
        (
            json!({"properties": {"s": {"type": "str"}}}),
            "#/properties/s/type: `type`: unknown type `str`; expected string, number, integer, boolean, object, \
             array or null (did you mean `string`?)",
        ),
        (
            json!({"type": ["null", "file"]}),
            "#/type/1: `type`: unknown type `file`; expected string, number, integer, boolean, object, array or null",
        ),
        (
            json!({"type": ["null", 1]}),
            "#/type/1: `type`: expected the name of a type, or an array of such names, found 1",
        ),
        (json!({"type": []}), "#/type: `type`: expected at least one type, found an array"),
        (json!({"minimum": "5"}), "#/minimum: `minimum`: expected a number, found the string \"5\""),
        (json!({"minLength": -1}), "#/minLength: `minLength`: expected a non-negative integer, found -1"),
        (json!({"required": ["a", 1]}), "#/required/1: `required`: expected a string, found 1"),
        (
            json!({"required": "a"}),
            "#/required: `required`: expected an array of strings, found the string \"a\"",
        ),
        (
            json!({"dependentRequired": {"a": "b"}}),
            "#/dependentRequired/a: `dependentRequired`: expected an array of strings, found the string \"b\"",
        ),
        (
            json!({"properties": {"a": null}}),
            "#/properties/a: `a`: expected a schema: an object or a boolean, found null",
        ),
        (json!({"properties": []}), "#/properties: `properties`: expected an object, found an array"),
    ];
    for (schema, expected) in cases {
        assert_eq!(error(&schema), expected, "{schema}");
    }
}

#[test]
fn bounds_of_any_size_are_exact() {
    let wide = |low: Value, high: Value| json!({"type": "integer", "minimum": low, "maximum": high});
    check(vec![
        (
            wide(json!(-9_223_372_036_854_776_000.0), json!(9_223_372_036_854_776_000_u64)),
            generate(),
            &["9223372036854776000", "-9223372036854776000", "0"],
            &["9223372036854776001", "-9223372036854776001", "10000000000000000000"],
        ),
        (
            wide(json!(i64::MIN), json!(i64::MAX)),
            generate(),
            &["9223372036854775807", "-9223372036854775808"],
            &["9223372036854775808", "-9223372036854775809"],
        ),
        (
            json!({"type": "integer", "minimum": 1e22, "maximum": 1e22}),
            generate(),
            &["10000000000000000000000"],
            &["1", "10000000000000000000001"],
        ),
        (json!({"enum": [1e21]}), generate(), &["1000000000000000000000"], &["1", "1000000000000000000001"]),
    ]);
    let largest = format!("17976931348623157{}", "0".repeat(292));
    let mut machine = machine(&wide(json!(0), json!(f64::MAX)), generate()).unwrap();
    assert!(accepts(&mut machine, &largest) && !accepts(&mut machine, format!("{largest}0")));
    assert!(!accepts(&mut machine, largest.replacen('7', "8", 1)));
}

#[test]
fn repairs_a_pointer_to_nothing_and_warns() {
    let definitions = json!({"a b": {"type": "null"}, "c%d": {"type": "null"}});
    let cases = [
        json!({"$ref": "#/definitions/a%20b"}),
        json!({"$ref": "#/definitions/a b"}),
        json!({"$ref": "#definitions/a%20b"}),
        json!({"$ref": "#/definitions/c%25d"}),
        json!({"$id": "inner.json", "allOf": [{"$ref": "#/definitions/a%20b"}]}),
    ];
    for member in cases {
        let schema = json!({"$id": "https://e.example/s.json", "definitions": definitions, "type": "array", "items": member, "minItems": 1});
        let mut machine = machine(&schema, generate()).unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert!(accepts(&mut machine, "[null]") && !accepts(&mut machine, "[1]"), "{schema}");
    }
    let lost = json!({"properties": {"a": {"$ref": "#/definitions/b"}}});
    assert_eq!(error(&lost), "#/properties/a/$ref: `$ref`: unresolved reference `#/definitions/b`");
    let anchored = json!({"$ref": "#a", "definitions": {"x": {"id": "#a", "type": "null"}}});
    check(vec![(anchored, generate(), &["null"], &["1"])]);
}

#[test]
fn finds_documents_by_absolute_uri_identifier_and_spelling() {
    let text = json!({"definitions": {"path": {"type": "null"}}});
    let cases = [
        ("https://s.example/base.json", text.clone(), "base.json#/definitions/path"),
        ("http://s.example/base.json", text.clone(), "base.json#/definitions/path"),
        ("https://s.example/base.json", text.clone(), "base#/definitions/path"),
        ("base.json", text.clone(), "base.json#/definitions/path"),
        ("base.json", text.clone(), "./base.json#/definitions/path"),
        ("types/base.json", text.clone(), "types/base.json#/definitions/path"),
        (
            "any name",
            json!({"$id": "https://s.example/base.json", "definitions": {"path": {"type": "null"}}}),
            "base.json#/definitions/path",
        ),
        (
            "any name",
            json!({"$schema": DRAFT_4, "id": "https://s.example/base.json#", "definitions": {"path": {"type": "null"}}}),
            "base.json#/definitions/path",
        ),
    ];
    for (name, document, reference) in cases {
        let remotes = Remotes::from([(name.to_owned(), document)]);
        let schema =
            json!({"$schema": DRAFT_7, "$id": "https://s.example/app.json", "allOf": [{"$ref": reference}]});
        let mut machine = machine_among(&schema, &remotes, generate())
            .unwrap_or_else(|error| panic!("{name} {reference}: {error}"));
        assert!(accepts(&mut machine, "null") && !accepts(&mut machine, "1"), "{name}");
    }
    // References in a document that was found by name are resolved by name, too.
    let remotes = Remotes::from([
        (
            "types/a.json".to_owned(),
            json!({"$id": "https://t.example/a.json", "items": {"$ref": "b.json"}, "type": "array"}),
        ),
        ("types/b.json".to_owned(), json!({"type": "null"})),
    ]);
    let mut machine = machine_among(&json!({"$ref": "types/a.json"}), &remotes, generate()).unwrap();
    assert!(accepts(&mut machine, "[null]") && !accepts(&mut machine, "[1]"));
    let missing = json!({"$id": "https://s.example/app.json", "$ref": "base.json#/x"});
    let error = compile(&missing, &Remotes::new(), generate(), &Limits::default()).unwrap_err();
    assert_eq!(error.missing_document(), Some("https://s.example/base.json"));
    assert_eq!(
        error.to_string(),
        "#/$ref: `$ref`: `base.json#/x` is in another document, `https://s.example/base.json`, which was not given"
    );
}

#[test]
fn metaschemas_of_the_drafts_are_built_in() {
    let uris = [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ];
    for uri in uris {
        let schema = json!({"type": "object", "properties": {"configSchema": {"$ref": uri}}});
        let mut machine =
            machine(&schema, SchemaOptions::accept()).unwrap_or_else(|error| panic!("{uri}: {error}"));
        let is = |text: &str, machine: &mut _| accepts(machine, format!("{{\"configSchema\": {text}}}"));
        assert!(is(r#"{"type": "object", "properties": {"a": {"minLength": 1}}}"#, &mut machine), "{uri}");
        assert!(!is(r#"{"type": "object", "properties": {"a": {"minLength": -1}}}"#, &mut machine), "{uri}");
    }
}

#[test]
fn a_dialect_is_read_through_its_metaschema() {
    let schema = json!({"$schema": "https://e.example/meta", "type": "array", "items": [{"type": "null"}]});
    let meta = |value: Value| Remotes::from([("https://e.example/meta".to_owned(), value)]);
    let draft_7 = meta(json!({"$schema": DRAFT_7}));
    let mut machine = machine_among(&schema, &draft_7, generate()).unwrap();
    assert!(accepts(&mut machine, "[null]") && !accepts(&mut machine, "[1]"));
    let message = |remotes: &Remotes| {
        compile(&schema, remotes, generate(), &Limits::default()).unwrap_err().to_string()
    };
    let vocabulary = "https://json-schema.org/draft/2020-12/vocab";
    let required = meta(json!({"$schema": DRAFT_2020, "$vocabulary": {"https://e.example/units": true}}));
    assert!(message(&required).contains("requires a vocabulary that is unknown"));
    let part = meta(json!({"$schema": DRAFT_2020, "$vocabulary": {format!("{vocabulary}/core"): true}}));
    assert!(message(&part).contains("without the vocabularies `applicator` and `validation`"));
}

#[test]
fn values_are_nested_up_to_the_limit_of_schemas() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let mut machine = machine(&json!({"const": nested(256)}), generate()).unwrap();
    assert!(accepts(&mut machine, nested(256).to_string()));
    assert_eq!(
        error(&json!({"properties": {"a": {"enum": [1, nested(257)]}}})),
        "#/properties/a/enum: `enum`: nested deeper than the limit of 256"
    );
}
