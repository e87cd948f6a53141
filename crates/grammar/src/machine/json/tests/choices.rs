//! Choices whose alternatives must not multiply: `oneOf`, independent implications, and unions of
//! numbers.

use serde_json::{Map, Value, json};

use super::oracle::{Random, walk};
use super::{accepts, machine};
use crate::options::SchemaOptions;

/// Returns an object schema with string properties: `count` for each letter in `letters`.
fn strings(letters: &str, count: usize) -> Value {
    let names = letters.chars().flat_map(|letter| (0..count).map(move |at| format!("{letter}{at}")));
    let properties: Map<String, Value> = names.map(|name| (name, json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// Checks in both profiles that the schema accepts the values `accepted` and rejects the values
/// `rejected`, in the spelling of the generate profile.
fn check(name: &str, schema: &Value, accepted: &[Value], rejected: &[Value]) {
    for options in [SchemaOptions::default(), SchemaOptions::accept()] {
        let mut machine = machine(schema, options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = |value: &Value| value.to_string().replace(':', ": ").replace(',', ", ");
        for value in accepted {
            assert!(accepts(&mut machine, text(value)), "{name} {options:?}: {value}");
        }
        for value in rejected {
            assert!(!accepts(&mut machine, text(value)), "{name} {options:?}: {value}");
        }
    }
}

#[test]
fn independent_implications_do_not_multiply() {
    let mut schema = strings("ab", 40);
    schema["dependentRequired"] =
        (0..40).map(|at| (format!("a{at}"), json!([format!("b{at}")]))).collect::<Map<_, _>>().into();
    let accepted = [json!({}), json!({"b3": ""}), json!({"a3": "", "a20": "", "b3": "", "b20": ""})];
    let rejected = [json!({"a3": ""}), json!({"a3": "", "a20": "", "b20": ""}), json!({"a0": "", "b1": ""})];
    check("dependentRequired", &schema, &accepted, &rejected);

    // A name that only an implication mentions may occur only if the implication requires it.
    let mut schema = strings("a", 20);
    schema.as_object_mut().unwrap().shift_remove("additionalProperties");
    schema["dependentRequired"] =
        (0..20).map(|at| (format!("a{at}"), json!([format!("x{at}")]))).collect::<Map<_, _>>().into();
    let mut generated = machine(&schema, SchemaOptions::default()).unwrap();
    assert!(accepts(&mut generated, r#"{"a3": "", "x3": 1}"#) && accepts(&mut generated, "{}"));
    assert!(!accepts(&mut generated, r#"{"x3": 1}"#) && !accepts(&mut generated, r#"{"a3": ""}"#));

    let mut schema = strings("ab", 30);
    schema["dependentSchemas"] = (0..30)
        .map(|at| (format!("a{at}"), json!({"properties": {format!("b{at}"): {"const": "x"}}})))
        .collect::<Map<_, _>>()
        .into();
    let accepted = [json!({"a3": ""}), json!({"a3": "", "b3": "x", "b4": "y"}), json!({"b3": "y"})];
    check("dependentSchemas", &schema, &accepted, &[json!({"a3": "", "b3": "y"})]);

    let mut schema = strings("ab", 25);
    schema["allOf"] = (0..25)
        .map(|at| {
            json!({
                "if": {"properties": {format!("a{at}"): {"const": "x"}}, "required": [format!("a{at}")]},
                "then": {"required": [format!("b{at}")]},
                "else": {"properties": {format!("b{at}"): {"maxLength": 1}}}
            })
        })
        .collect();
    let accepted = [json!({}), json!({"a1": "y"}), json!({"a1": "x", "b1": "long"}), json!({"b1": "s"})];
    let rejected = [json!({"a1": "x"}), json!({"b1": "long"}), json!({"a1": "y", "b1": "long"})];
    check("if", &schema, &accepted, &rejected);

    let mut schema = strings("ab", 12);
    schema["allOf"] = (0..12)
        .map(|at| json!({"oneOf": [{"required": [format!("a{at}")]}, {"required": [format!("b{at}")]}]}))
        .collect();
    let all = |letter: char| (0..12).map(|at| (format!("{letter}{at}"), json!(""))).collect::<Map<_, _>>();
    let mut mixed = all('a');
    mixed.shift_remove("a4");
    let short = mixed.clone();
    mixed.insert("b4".to_owned(), json!(""));
    check("oneOf", &schema, &[all('a').into(), all('b').into(), mixed.into()], &[short.into(), json!({})]);
}

/// Branches that differ only in members have the same scalars and arrays, because only objects have
/// members.
#[test]
fn choices_without_a_type_do_not_multiply() {
    let one =
        |at: usize| json!({"anyOf": [{"required": [format!("a{at}")]}, {"required": [format!("b{at}")]}]});
    let schema = json!({"allOf": (0..40).map(one).collect::<Vec<_>>(), "minLength": 2});
    let all = (0..40).map(|at| (format!("{}{at}", ["a", "b"][at % 2]), json!(at))).collect::<Map<_, _>>();
    let mut lacking = all.clone();
    lacking.shift_remove("a20");
    let (accepted, rejected) =
        ([json!(3), json!("ab"), json!([1]), json!(null)], [json!("a"), lacking.into()]);
    check("anyOf", &schema, &accepted, &rejected);
    let mut machine = machine(&schema, SchemaOptions::accept()).unwrap();
    assert!(accepts(&mut machine, Value::from(all).to_string()));

    // A choice about strings among choices about objects.
    let long = json!({"anyOf": [{"minLength": 2}, {"pattern": "^x"}]});
    let schema =
        json!({"allOf": (0..40).map(|at| if at == 20 { long.clone() } else { one(at) }).collect::<Vec<_>>()});
    check("strings", &schema, &[json!("ab"), json!("x"), json!(true)], &[json!("a"), json!({})]);
}

/// The members of a branch count as declared even if another branch accepts every object.
#[test]
fn a_branch_declares_members_beside_a_free_one() {
    let email = json!({"properties": {"email": {"type": "string"}}, "required": ["email"]});
    let schema = json!({"type": "object", "properties": {"id": {"type": "integer"}}, "anyOf": [email, {}]});
    let mut generated = machine(&schema, SchemaOptions::default()).unwrap();
    assert!(accepts(&mut generated, r#"{"id": 3, "email": "x"}"#) && accepts(&mut generated, r#"{"id": 3}"#));
}

#[test]
fn branches_of_one_of_do_not_multiply() {
    let branches = |branch: &dyn Fn(usize) -> Value| -> Value { (0..60).map(branch).collect() };
    let untyped = json!({"oneOf": branches(&|at| json!({
        "properties": {"kind": {"const": format!("k{at}")}, format!("v{at}"): {"type": "string"}},
        "required": ["kind"], "additionalProperties": false
    }))});
    let rejected = [json!(1), json!({}), json!({"kind": "k1", "v2": ""}), json!([])];
    check("untyped", &untyped, &[json!({"kind": "k7", "v7": "x"}), json!({"kind": "k0"})], &rejected);

    let optional = json!({"type": "object", "oneOf": branches(&|at| json!({
        "properties": {format!("m{at}"): {"type": "object"}}, "additionalProperties": false
    }))});
    check("optional", &optional, &[json!({"m5": {}})], &[json!({}), json!({"m5": {}, "m6": {}}), json!(0)]);

    let names = json!({"type": "object", "oneOf": branches(&|at| json!({"required": [format!("v{at}")]}))});
    check("names", &names, &[json!({"v5": 1})], &[json!({}), json!({"v5": 1, "v6": 1})]);

    let own = json!({"type": "object", "oneOf": branches(&|at| json!({
        "properties": {format!("v{at}"): {"type": "string"}}, "required": [format!("v{at}")]
    }))});
    let accepted = [json!({"v5": ""}), json!({"v5": "", "v6": 1})];
    check("own keys", &own, &accepted, &[json!({}), json!({"v5": 1}), json!({"v5": "", "v6": ""})]);

    let kinds = json!({"type": "object", "oneOf": branches(&|at| json!({
        "properties": {"kind": {"const": at}, format!("v{at}"): {}}, "additionalProperties": false
    }))});
    let accepted = [json!({"kind": 3}), json!({"kind": 3, "v3": 1}), json!({"v3": 1})];
    check(
        "optional kinds",
        &kinds,
        &accepted,
        &[json!({}), json!({"kind": 3, "v4": 1}), json!({"kind": 99})],
    );
}

#[test]
fn implications_agree_with_another_validator() {
    let random = &mut Random(0x1234_5678_9abc_def1);
    let name = |random: &mut Random| format!("n{}", random.below(9));
    let value = |random: &mut Random| random.pick(&[json!("x"), json!("y"), json!(1), json!(null)]).clone();
    for round in 0..150 {
        let mut all = Vec::new();
        for _ in 0..4 + random.below(4) {
            let (a, b) = loop {
                let (a, b) = (name(random), name(random));
                if a != b {
                    break (a, b);
                }
            };
            let is = json!({"properties": {&a: {"const": value(random)}}, "required": [&a]});
            let has = json!({"properties": {&b: {"enum": [value(random), value(random)]}}});
            all.push(match random.below(6) {
                0 => json!({"dependentRequired": {a: [b]}}),
                1 => json!({"dependentSchemas": {a: has}}),
                2 => json!({"if": is, "then": has, "else": {"not": {"required": [b]}}}),
                3 => json!({"anyOf": [{"required": [a]}, has]}),
                4 => json!({"oneOf": [{"required": [a]}, {"required": [b]}]}),
                _ => json!({"not": {"required": [a, b]}}),
            });
        }
        let mut schema = json!({"allOf": all});
        if random.below(2) == 0 {
            schema["properties"] = json!({"n0": {"type": ["string", "null"]}, "n5": {"type": "integer"}});
        }
        if random.below(3) == 0 {
            schema["type"] = json!("object");
        }
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let mut machine = match machine(&schema, SchemaOptions::accept()) {
            Ok(machine) => machine,
            Err(error) => {
                let expected = ["no value can satisfy", "more than the limit"];
                assert!(expected.iter().any(|text| error.to_string().contains(text)), "{schema} {error}");
                continue;
            }
        };
        for _ in 0..40 {
            let members = (0..random.below(6)).map(|_| (name(random), value(random))).collect::<Map<_, _>>();
            let value = Value::Object(members);
            let valid = validator.is_valid(&value);
            assert_eq!(accepts(&mut machine, value.to_string()), valid, "{round} {schema}\n{value}");
        }
        for options in [SchemaOptions::accept(), SchemaOptions::default()] {
            walk(random, &schema, options, &validator);
        }
    }
}

#[test]
fn unions_of_numbers_agree_with_another_validator() {
    let random = &mut Random(0xfeed_beef_1234_5678);
    for _ in 0..200 {
        let number = |random: &mut Random| {
            let mut rule = Map::new();
            for _ in 0..=random.below(2) {
                let bound = json!((random.below(400) as f64 - 200.0) / 4.0);
                match random.below(6) {
                    0 => rule.insert("minimum".to_owned(), bound),
                    1 => rule.insert("exclusiveMaximum".to_owned(), bound),
                    2 => rule.insert("type".to_owned(), json!("integer")),
                    3 => rule.insert("not".to_owned(), json!({"multipleOf": 1 + random.below(4)})),
                    _ => rule.insert("multipleOf".to_owned(), json!((1 + random.below(14)) as f64 / 2.0)),
                };
            }
            Value::Object(rule)
        };
        let union = |random: &mut Random, keyword: &str| {
            let all: Vec<Value> = (0..2 + random.below(2)).map(|_| number(random)).collect();
            json!({keyword: all})
        };
        let schema = match random.below(3) {
            0 => json!({"type": "number", "allOf": [union(random, "anyOf"), union(random, "anyOf")]}),
            1 => json!({"type": "number", "not": union(random, "anyOf"), "minimum": -100}),
            _ => json!({"type": "number", "allOf": [union(random, "anyOf"), union(random, "oneOf")]}),
        };
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        for options in [SchemaOptions::accept(), SchemaOptions::default()] {
            let mut machine = match machine(&schema, options) {
                Ok(machine) => machine,
                Err(error) => {
                    let expected = ["no value can satisfy", "more than the limit"];
                    assert!(expected.iter().any(|text| error.to_string().contains(text)), "{schema} {error}");
                    continue;
                }
            };
            for _ in 0..60 {
                let quarter = random.below(1000) as f64 / 4.0 - 125.0;
                let value = if random.below(2) == 0 { json!(quarter.trunc() as i64) } else { json!(quarter) };
                // Generated texts have only one spelling of each integer.
                if options == SchemaOptions::default() && value.to_string().ends_with(".0") {
                    continue;
                }
                let valid = validator.is_valid(&value);
                assert_eq!(accepts(&mut machine, value.to_string()), valid, "{options:?} {schema}\n{value}");
            }
            walk(random, &schema, options, &validator);
        }
    }
}

#[test]
fn reports_contradictions_at_the_innermost_place() {
    let cases = [
        (
            json!({"type": "object", "properties": {"order": {"type": "object", "properties": {"qty":
                {"type": "integer", "minimum": 5, "maximum": 2}}, "required": ["qty"]}}, "required": ["order"]}),
            "#/properties/order/properties/qty: `minimum`: no value can satisfy both this and `maximum`",
        ),
        (
            json!({"allOf": [{"type": "string"}, {"type": "integer"}]}),
            "#/allOf/0: `type`: no value can satisfy both this and `type` at #/allOf/1",
        ),
        (
            json!({"type": "array", "minItems": 1, "items": {"enum": []}}),
            "#/items: `enum`: no value can satisfy this schema",
        ),
        (
            json!({"type": "object", "properties": {"a": true}, "additionalProperties": false, "required": ["b"]}),
            "#: `additionalProperties`: no value can satisfy both this and `required`",
        ),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}),
            "#: `required`: no value can satisfy both this and `properties`",
        ),
    ];
    for (schema, expected) in cases {
        let error = machine(&schema, SchemaOptions::default()).expect_err("no value").to_string();
        assert!(error.ends_with(expected) || error.contains(expected), "{error}\n{expected}");
    }
}

#[test]
fn warns_about_members_and_branches_without_values() {
    use crate::frontend::json_schema::{Remotes, compile};
    use crate::limits::Limits;
    let schema = json!({
        "type": "object",
        "properties": {
            "code": {"type": "string", "minLength": 5, "maxLength": 2},
            "shape": {"anyOf": [{"type": "string"}, {"type": "number", "minimum": 3, "exclusiveMaximum": 3}]},
            "gone": false,
            "n": {"type": "integer"}
        }
    });
    let compiled = compile(&schema, &Remotes::new(), SchemaOptions::default(), &Limits::default()).unwrap();
    let warnings: Vec<String> = compiled.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("#/properties/code: no value") && warnings[0].contains("`minLength`"));
    assert!(warnings[1].starts_with("#/properties/shape/anyOf/1: no value"));
}

/// Returns a schema shaped like FHIR R4.
///
/// Resources differ in a constant, and none states its type. They refer to data types and, through
/// `contained`, to all resources.
fn resources(count: usize, fields: usize) -> Value {
    let reference = |name: String| json!({"$ref": format!("#/definitions/{name}")});
    let mut definitions = Map::new();
    for at in 0..60 {
        let mut properties = Map::new();
        for field in 0..12 {
            properties.insert(format!("value{field}"), reference(format!("Type{}", (at * 7 + field) % 60)));
            properties.insert(format!("_value{field}"), reference("Element".to_owned()));
        }
        properties.insert("code".to_owned(), json!({"type": "string", "pattern": "^[^\\s]+(\\s[^\\s]+)*$"}));
        properties.insert("count".to_owned(), json!({"type": "number", "pattern": "^[1-9][0-9]*$"}));
        definitions
            .insert(format!("Type{at}"), json!({"properties": properties, "additionalProperties": false}));
    }
    let element = json!({"properties": {"id": {"type": "string"}, "extension": {"type": "array",
        "items": {"$ref": "#/definitions/Type0"}}}, "additionalProperties": false});
    definitions.insert("Element".to_owned(), element);
    let names: Vec<String> = (0..count).map(|at| format!("Resource{at}")).collect();
    for (at, name) in names.iter().enumerate() {
        let mut properties = Map::new();
        properties.insert("resourceType".to_owned(), json!({"const": name}));
        let contained = json!({"type": "array", "items": reference("ResourceList".to_owned())});
        properties.insert("contained".to_owned(), contained);
        for field in 0..fields {
            let item = reference(format!("Type{}", (at + field) % 60));
            properties.insert(format!("list{field}"), json!({"type": "array", "items": item}));
            properties.insert(format!("_list{field}"), reference("Element".to_owned()));
        }
        let resource =
            json!({"properties": properties, "additionalProperties": false, "required": ["resourceType"]});
        definitions.insert(name.clone(), resource);
    }
    let all: Vec<Value> = names.into_iter().map(reference).collect();
    definitions.insert("ResourceList".to_owned(), json!({"oneOf": all}));
    json!({"$schema": "http://json-schema.org/draft-06/schema#", "oneOf": all, "definitions": definitions})
}

#[test]
fn schemas_of_the_shape_of_fhir_compile() {
    let schema = resources(150, 20);
    for options in [SchemaOptions::default(), SchemaOptions::accept()] {
        let mut machine = machine(&schema, options).unwrap();
        let text = r#"{"resourceType": "Resource7", "contained": [{"resourceType": "Resource149", "#;
        let accepted = format!("{text}\"list0\": [{{\"value0\": {{\"code\": \"a b\"}}}}]}}]}}");
        assert!(accepts(&mut machine, &accepted), "{accepted}");
        assert!(!accepts(&mut machine, format!("{text}\"unknown\": []}}]}}")));
        assert!(!accepts(&mut machine, r#"{"resourceType": "Resource150"}"#));
        assert!(!accepts(&mut machine, "1"));
    }
}
