use serde_json::{Value, json};

use crate::builder::{
    array, composite, constant, field, float, int, reference, string, template, untagged, variant, weighted,
};
use crate::field::{Float, Int, Kind};
use crate::{Definition, DefinitionBuilder, SchemaOptions};

fn schema(kind: impl Into<Kind>) -> Value {
    portable(kind, true)
}

fn portable(kind: impl Into<Kind>, multiple_of: bool) -> Value {
    let definition = Definition::new("x", kind).expect("well-formed");
    let mut schema = definition.schema_with(SchemaOptions { multiple_of });
    let members = schema.as_object_mut().expect("an object");
    assert_eq!(members.shift_remove("$schema"), Some(json!("https://json-schema.org/draft/2020-12/schema")));
    assert_eq!(members.shift_remove("title"), Some(json!("x")));
    schema
}

#[test]
fn writes_numbers_as_given() {
    assert_eq!(schema(int(-1, 5)), json!({ "type": "integer", "minimum": -1, "maximum": 5 }));
    assert_eq!(
        schema(Int::default()),
        json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX })
    );
    let percent = schema(float(0.5, 1.0));
    assert_eq!(percent.to_string(), r#"{"type":"number","minimum":0.5,"maximum":1,"multipleOf":0.01}"#);
    assert_eq!(schema(float(0.0, 1.0).decimals(0))["multipleOf"], json!(1));
    let open = schema(Float { min: Some(0.0), ..Float::default() });
    assert_eq!(open["maximum"], json!(1e13));
}

#[test]
fn lists_the_values_of_a_number() {
    assert_eq!(
        portable(float(-0.1, 0.2).decimals(1), false),
        json!({ "type": "number", "enum": [-0.1, 0, 0.1, 0.2] })
    );
    assert_eq!(portable(float(0.0, 1.0).decimals(0), false)["multipleOf"], json!(1));
    let values = portable(float(0.0, 100.0), false)["enum"].as_array().map(Vec::len);
    assert_eq!(values, Some(10_001));
    let open = portable(float(0.0, 1e6).decimals(1), false);
    assert_eq!(
        open.to_string(),
        r#"{"type":"number","minimum":0,"maximum":1000000,"$comment":"at most 1 decimal"}"#
    );
    let many = composite((0..9).map(|index| field(format!("f{index}"), float(0.0, 400.0))));
    let many = Definition::new("x", many).expect("well-formed");
    assert_eq!(many.open_steps(), ["f4", "f5", "f6", "f7", "f8"]);
    assert!(many.schema().to_string().len() < 3_000_000);
}

/// Computes `multipleOf` and `enum` as validators with floats do, such as Python's `jsonschema`.
#[test]
fn validators_with_floats_read_the_same_values() {
    for (max, decimals) in [(100.0, 2), (1000.0, 1), (1.0, 4), (0.001, 6)] {
        let field = || float(0.0, max).decimals(decimals);
        let step = schema(field())["multipleOf"].as_f64().expect("a step");
        let values = portable(field(), false)["enum"].as_array().expect("a list").clone();
        let unit = 10f64.powi(decimals as i32);
        let count = (max * unit).round() as usize + 1;
        assert_eq!(values.len(), count);
        let definition = Definition::new("x", field()).expect("well-formed");
        let mut rejected = 0;
        for (index, value) in values.iter().enumerate() {
            let valid: f64 = format!("{index}e-{decimals}").parse().expect("a number");
            let quotient = valid / step;
            rejected += usize::from(quotient.fract() != 0.0);
            assert_eq!(value.as_f64(), Some(valid));
            assert!(definition.validate(&valid.to_string()).is_empty());
            for other in [valid.next_up(), valid.next_down(), valid + 0.5 / unit] {
                assert!(!definition.validate(&other.to_string()).is_empty(), "{other}");
                assert!(index + 1 == count || values[index + 1].as_f64() != Some(other));
            }
        }
        assert!(rejected > 0, "multipleOf would do for {max} with {decimals} decimals");
    }
}

#[test]
fn no_line_break_may_follow_the_end() {
    let letters = || string(0, 5).of("a-z".parse().expect("a set"));
    let not = json!({ "pattern": "\\n$" });
    assert_eq!(schema(letters())["not"], not);
    assert!(schema(string(0, 5)).get("not").is_none());
    for (source, least, is_open) in [
        ("a <generated>", 0, false),
        ("a\n<generated>", 0, true),
        ("a\n<generated>", 1, false),
        ("<generated>\n", 1, true),
        ("<generated>.", 1, false),
        ("<generated><generated>", 0, false),
    ] {
        let schema = schema(template(source, least, 9).of("a-z".parse().expect("a set")));
        assert_eq!(schema.get("not").is_none(), is_open, "{source:?}");
    }
    let read = Definition::from_schema(&schema(letters())).expect("read");
    assert_eq!(read.root(), &Kind::from(letters()));
}

#[test]
fn strings_become_patterns() {
    assert_eq!(
        schema(string(0, 5)),
        json!({ "type": "string", "maxLength": 5, "pattern": "^[^\\u0000-\\u0008\\u000B-\\u001F]*$" })
    );
    assert_eq!(schema(string(1, 5).of("a-z\\]^-".parse().expect("a set")))["pattern"], "^[\\-\\]-\\^a-z]*$");
    assert_eq!(
        schema(template("a.b <generated>?", 2, 5).of("a-z".parse().expect("a set"))),
        json!({
            "type": "string",
            "minLength": 7,
            "maxLength": 10,
            "pattern": "^a\\.b [a-z]*\\?$",
            "not": { "pattern": "\\n$" },
        })
    );
    assert_eq!(
        schema(template("<generated>-<generated>", 2, 5).of("a-z".parse().expect("a set")))["pattern"],
        "^[a-z]{2,5}-[a-z]{2,5}$"
    );
}

#[test]
fn objects_allow_no_undeclared_members() {
    let pair =
        composite([field("a", weighted([("x", 1.0), ("y", 2.0)])), field("b", constant(1)).optional()]);
    assert_eq!(
        schema(pair),
        json!({
            "type": "object",
            "properties": { "a": { "enum": ["x", "y"] }, "b": { "const": 1 } },
            "required": ["a"],
            "additionalProperties": false,
        })
    );
    let tagged = schema(variant([("a", Kind::Boolean), ("b", constant(1))]));
    assert_eq!(tagged["anyOf"][1]["properties"], json!({ "b": { "const": 1 } }));
    assert_eq!(
        schema(untagged([Kind::Boolean, constant(1)])),
        json!({ "anyOf": [{ "type": "boolean" }, { "const": 1 }] })
    );
    let list =
        DefinitionBuilder::new(reference("list")).define("list", array(0, 2, reference("list"))).build();
    let list = list.expect("it can end").schema();
    assert_eq!(list["$ref"], "#/$defs/list");
    assert_eq!(
        list["$defs"]["list"],
        json!({ "type": "array", "items": { "$ref": "#/$defs/list" }, "maxItems": 2 })
    );
}
