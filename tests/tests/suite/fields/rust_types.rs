//! Rust types as fields: values of a type's fields match the type's schema and deserialize to the
//! type.

use formwork_fields::Definition;
use formwork_grammar::Limits;
use formwork_tests::random::Random;
use formwork_tests::random::fields::{self, Values};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

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
        r#""<choice between [\"warrior\", \"mage\", \"rogue\"] (\"rogue\": Not to be trusted.)>""#
    );
    assert!(
        template(Definition::of::<Act>()).contains("{ \\\"Battle\\\": { \\\"level\\\": <0–4294967295> } }")
    );
}

#[test]
fn comments_become_hints() {
    let template = Definition::of::<Hero>().expect("expressible").template();
    assert!(
        template.contains("\"name\": \"<string of 3–20 characters (What others call them.)>\""),
        "{template}"
    );
    let act = Definition::of::<Act>().expect("expressible");
    let hint = "With a tag around the structure, and one without a structure.";
    assert_eq!((act.root().description(), &act.schema()["description"]), (Some(hint), &hint.into()));
}

/// Rejects schemas for which fields would allow additional values.
#[test]
fn what_fields_would_widen_is_refused() {
    let error = |schema: Value| Definition::from_schema(&schema).expect_err("refused").to_string();
    let beyond = "#: unsupported: integers of more than 64 bits";
    for (keyword, bound) in [
        ("minimum", json!(1e19)),
        ("minimum", json!(9_223_372_036_854_775_808u64)),
        ("exclusiveMinimum", json!(i64::MAX)),
        ("exclusiveMaximum", json!(i64::MIN)),
        ("maximum", json!(-1e19)),
    ] {
        assert_eq!(error(json!({ "type": "integer", keyword: bound })), beyond, "{keyword}: {bound}");
    }
    for (keyword, bound) in
        [("maximum", json!(1e19)), ("minimum", json!(-1e19)), ("exclusiveMinimum", json!(-1e300))]
    {
        let schema = json!({ "type": "integer", keyword: bound });
        let definition = Definition::from_schema(&schema).expect("all integers of 64 bits");
        assert_eq!(definition.template(), "\"<integer>\"");
    }
    let nested = json!({ "$id": "https://example.org/a", "$ref": "#/$defs/b" });
    let schema = json!({
        "$id": "https://example.org/",
        "type": "object",
        "properties": { "a": nested },
        "$defs": { "b": { "type": "integer" } },
    });
    assert_eq!(error(schema), "#/properties/a: unsupported keyword `$id`");
    let within = json!({
        "$ref": "#/$defs/b/items",
        "$defs": { "b": { "$id": "https://example.org/b", "type": "array", "items": { "type": "integer" } } },
    });
    assert_eq!(error(within), "#: unsupported: a reference into a schema with an `$id`");
}

#[test]
fn classes_are_read_escape_by_escape() {
    let set = |pattern: &str| {
        let schema = json!({ "type": "string", "maxLength": 1, "pattern": pattern });
        Definition::from_schema(&schema).map(|definition| definition.template())
    };
    assert_eq!(set("^[\\\\u0041]*$").expect("a class"), r#""<string of 0–1 characters of [014\\\\u]>""#);
    assert_eq!(set("^[\\u0041-\\u0043]*$").expect("a class"), r#""<string of 0–1 characters of [A-C]>""#);
    assert!(set("^[\\u004]*$").is_err() && set("^[\\d]*$").is_err() && set("^[\\u{41}]*$").is_err());
}

#[test]
fn errors_of_schemas_say_what_they_mean() {
    let error = |schema: Value| Definition::from_schema(&schema).expect_err("refused").to_string();
    assert_eq!(error(json!({ "anyOf": [] })), "#/anyOf: `anyOf`: expected a non-empty list");
    assert_eq!(error(json!({ "enum": ["a", null] })), "#/enum/1: unsupported: null");
    assert_eq!(
        error(json!({ "type": "object", "properties": {}, "required": [1] })),
        "#: `required`: expected a list of names"
    );
    let optional = json!({ "type": "object", "properties": { "a": { "enum": ["x", null] } } });
    let definition = Definition::from_schema(&optional).expect("null is left out");
    assert!(definition.template().contains(r#"<optional: <choice between [\"x\"]>>"#));
}

/// Generates a schema of keywords that fields support, and of some that they do not.
fn schema(random: &mut Random, depth: usize) -> Value {
    let bounds = [
        json!(0),
        json!(-3),
        json!(2.5),
        json!(7),
        json!(1e19),
        json!(-1e19),
        json!(i64::MAX),
        json!(i64::MIN),
    ];
    let values = [json!("a"), json!("b"), json!(1), json!(2.0), json!(0.5), json!(true), json!(null)];
    let mut schema = Map::new();
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0 | 1 => {
            schema.insert("type".to_owned(), json!(random.pick(&["integer", "number"])));
            for keyword in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
                if random.below(3) == 0 {
                    schema.insert(keyword.to_owned(), random.pick(&bounds).clone());
                }
            }
        }
        2 => {
            let patterns =
                ["^[ab]*$", "^[^a\"]*$", "^[\\\\u0041]*$", "^[\\u0041-\\u0043]*$", "^a", "^[\\d]*$"];
            schema.insert("type".to_owned(), json!("string"));
            schema.insert("maxLength".to_owned(), json!(random.below(4)));
            if random.below(2) == 0 {
                schema.insert("pattern".to_owned(), json!(random.pick(&patterns)));
            }
        }
        3 => {
            schema.insert("const".to_owned(), random.pick(&values).clone());
        }
        4 => {
            let options: Vec<&Value> = (0..=random.below(3)).map(|_| random.pick(&values)).collect();
            schema.insert("enum".to_owned(), json!(options));
        }
        5 => {
            schema.insert("$ref".to_owned(), json!(random.pick(&["#/$defs/a", "#/$defs/b"])));
        }
        6 => {
            schema.insert("type".to_owned(), json!("array"));
            schema.insert("items".to_owned(), self::schema(random, depth - 1));
            schema.insert("maxItems".to_owned(), json!(random.below(3)));
        }
        7 | 8 => {
            let names = ["a", "b", "kind"];
            let properties: Map<String, Value> = (0..random.below(3))
                .map(|_| ((*random.pick(&names)).to_owned(), self::schema(random, depth - 1)))
                .collect();
            let required: Vec<&String> = properties.keys().filter(|_| random.below(2) == 0).collect();
            schema.insert("required".to_owned(), json!(required));
            schema.insert("type".to_owned(), json!("object"));
            schema.insert("properties".to_owned(), json!(properties));
            if random.below(2) == 0 {
                schema.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        _ => {
            let branches: Vec<Value> =
                (0..=random.below(3)).map(|_| self::schema(random, depth - 1)).collect();
            let keyword = *random.pick(&["oneOf", "oneOf", "anyOf", "allOf"]);
            schema.insert(keyword.to_owned(), json!(branches));
        }
    }
    if random.below(6) == 0 {
        schema.insert("description".to_owned(), json!("a hint"));
    }
    schema.into()
}

/// Checks that fields made from other schemas lose no restriction of the schema.
#[test]
fn values_of_other_schemas_are_values_of_their_fields() {
    let mut read = 0;
    for seed in 0..10_000 {
        let random = &mut Random::new(seed);
        let mut schema = schema(random, 2);
        schema["$defs"] = json!({ "a": self::schema(random, 1), "b": self::schema(random, 0) });
        let Ok(definition) = Definition::from_schema(&schema) else { continue };
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let mut values = Values::new(&definition, Random::new(seed), 0);
        for _ in 0..5 {
            let value = values.value();
            assert!(validator.is_valid(&value), "seed {seed}: {value}\n{schema:#}");
        }
        read += 1;
    }
    assert!(read > 2000, "{read} of 10,000 schemas");
}

#[test]
fn what_has_no_fields_is_told_with_its_pointer() {
    let error = |schema: Value| Definition::from_schema(&schema).expect_err("refused").to_string();
    let member = |schema: Value| error(json!({ "type": "object", "properties": { "a/b": schema } }));
    assert_eq!(member(json!({})), "#/properties/a~1b: unsupported: a schema that accepts any value");
    assert_eq!(member(json!(true)), "#/properties/a~1b: unsupported: a schema that accepts any value");
    assert_eq!(
        member(json!({ "type": "string", "format": "date" })),
        "#/properties/a~1b: unsupported keyword `format`"
    );
    assert_eq!(
        member(json!({ "type": "string", "pattern": "^a+$" })),
        "#/properties/a~1b: unsupported keyword `pattern`"
    );
    assert_eq!(
        member(json!({ "type": "object", "additionalProperties": { "type": "string" } })),
        "#/properties/a~1b: unsupported keyword `additionalProperties`"
    );
    assert_eq!(
        member(json!({ "$ref": "#/$defs/none" })),
        "#/properties/a~1b: unresolved reference `#/$defs/none`"
    );
    assert_eq!(
        member(json!({ "$ref": "other.json" })),
        "#/properties/a~1b: unresolved reference `other.json`"
    );
    assert_eq!(
        error(json!({ "type": "array", "items": { "type": ["string", "null"] } })),
        "#/items: unsupported: null"
    );
    assert_eq!(
        error(json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] })),
        "#/oneOf: unsupported: a `oneOf` with branches that may overlap"
    );
    assert_eq!(error(json!({ "type": "integer", "multipleOf": 5 })), "#: unsupported keyword `multipleOf`");
    assert_eq!(
        error(json!({ "type": "object", "required": ["a"] })),
        "#: unsupported: a required member without a schema"
    );
    let endless =
        error(json!({ "type": "object", "properties": { "next": { "$ref": "#" } }, "required": ["next"] }));
    assert!(endless.contains("infinite recursion"), "{endless}");
    let mut deep = json!({ "type": "boolean" });
    for _ in 0..200 {
        deep = json!({ "type": "array", "items": deep });
    }
    assert!(error(deep).contains("nested deeper"));
}

/// Checks that schemas made from fields convert back to fields with the same values.
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
