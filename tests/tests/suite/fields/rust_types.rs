//! Rust types as fields: what is made of a type's schema fits the schema, and the type.

use formwork_fields::Definition;
use formwork_grammar::Limits;
use formwork_tests::random::Random;
use formwork_tests::random::fields::{self, Values};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "read by serde")]
struct Hero {
    /// What others call them.
    #[schemars(length(min = 3, max = 20))]
    name: String,
    #[schemars(range(min = 0, max = 120))]
    age: u8,
    class: Class,
    title: Option<String>,
    rank: Option<Class>,
    items: Vec<Item>,
    #[schemars(range(min = 0.0, max = 1.0))]
    luck: f64,
    alive: bool,
    mentor: Option<Box<Hero>>,
    act: Act,
    goal: Goal,
    amount: Amount,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Class {
    Warrior,
    Mage,
    /// Not to be trusted.
    Rogue,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "read by serde")]
struct Item {
    label: String,
    count: i32,
}

/// With a tag around the structure, and one without a structure.
#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "read by serde")]
enum Act {
    Battle { level: u32 },
    Talk(Item),
    Rest,
}

/// With a tag within the structure.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind")]
#[allow(dead_code, reason = "read by serde")]
enum Goal {
    Find { what: String },
    Reach { place: String, day: i16 },
}

/// Without a tag.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "read by serde")]
enum Amount {
    Number(i64),
    Text(String),
}

fn check<T: JsonSchema + DeserializeOwned>(seed: u64) {
    let definition = Definition::of::<T>().expect("it has fields for all of it");
    let schema = SchemaGenerator::default().into_root_schema_for::<T>().to_value();
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let mut values = Values::new(&definition, Random::new(seed), 0);
    for _ in 0..300 {
        let value = values.value();
        assert!(definition.validate(&value.to_string()).is_empty(), "{value}");
        assert!(schema.is_valid(&value), "{value}");
        serde_json::from_value::<T>(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"));
    }
    let grammar = definition.grammar(&Limits::default()).expect("within limits");
    for output in grammar.samples(seed).take(100) {
        let text = String::from_utf8(output).expect("UTF-8");
        serde_json::from_str::<T>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    }
}

#[test]
fn what_fits_the_fields_of_a_type_is_of_the_type() {
    check::<Hero>(1);
    check::<Class>(2);
    check::<Act>(3);
    check::<Goal>(4);
    check::<Amount>(5);
    check::<Vec<u64>>(6);
}

#[test]
fn enums_become_choices_and_variants() {
    let template = |definition: Result<Definition, _>| definition.expect("expressible").template();
    assert_eq!(
        template(Definition::of::<Class>()),
        r#""<choice between [\"warrior\", \"mage\", \"rogue\"]>""#
    );
    assert!(
        template(Definition::of::<Act>()).contains("{ \\\"Battle\\\": { \\\"level\\\": <0–4294967295> } }")
    );
}

#[test]
fn what_has_no_fields_is_told_with_its_pointer() {
    let error = |schema: Value| Definition::from_schema(&schema).expect_err("refused").to_string();
    let member = |schema: Value| error(json!({ "type": "object", "properties": { "a/b": schema } }));
    assert_eq!(member(json!({})), "#/properties/a~1b: fields have nothing for any value");
    assert_eq!(member(json!(true)), "#/properties/a~1b: fields have nothing for any value");
    assert_eq!(
        member(json!({ "type": "string", "format": "date" })),
        "#/properties/a~1b: fields have nothing for `format`"
    );
    assert_eq!(
        member(json!({ "type": "string", "pattern": "^a+$" })),
        "#/properties/a~1b: fields have nothing for `pattern`"
    );
    assert_eq!(
        member(json!({ "type": "object", "additionalProperties": { "type": "string" } })),
        "#/properties/a~1b: fields have nothing for `additionalProperties`"
    );
    assert_eq!(
        member(json!({ "$ref": "#/$defs/none" })),
        "#/properties/a~1b: nothing is found at `#/$defs/none`"
    );
    assert_eq!(
        member(json!({ "$ref": "other.json" })),
        "#/properties/a~1b: nothing is found at `other.json`"
    );
    assert_eq!(
        error(json!({ "type": "array", "items": { "type": ["string", "null"] } })),
        "#/items: fields have nothing for null"
    );
    assert_eq!(
        error(json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] })),
        "#/oneOf: fields have nothing for a `oneOf` of which two may hold"
    );
    assert_eq!(
        error(json!({ "type": "integer", "multipleOf": 5 })),
        "#: fields have nothing for `multipleOf`"
    );
    assert_eq!(
        error(json!({ "type": "object", "required": ["a"] })),
        "#: fields have nothing for a required member without a schema"
    );
    let endless =
        error(json!({ "type": "object", "properties": { "next": { "$ref": "#" } }, "required": ["next"] }));
    assert!(endless.contains("recursion without end"), "{endless}");
    let mut deep = json!({ "type": "boolean" });
    for _ in 0..200 {
        deep = json!({ "type": "array", "items": deep });
    }
    assert!(error(deep).contains("nested deeper"));
}

/// Schemas that are made of fields lead back to fields with the same schema.
#[test]
fn schemas_of_fields_are_read_back() {
    let mut read = 0;
    for seed in 0..2000 {
        let definition = fields::definition(&mut Random::new(seed));
        let schema = definition.schema();
        let Ok(again) = Definition::from_schema(&schema) else { continue };
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let mut values = Values::new(&again, Random::new(seed), 0);
        for _ in 0..3 {
            let value = values.value();
            assert!(validator.is_valid(&value), "seed {seed}: {value}");
        }
        read += 1;
    }
    assert!(read > 1000, "{read}");
}
