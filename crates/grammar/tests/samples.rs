//! Validates random outputs of schemas, in the generate profile, with the `jsonschema` crate. The
//! crate asserts formats.

use std::path::PathBuf;

use formwork_grammar::{Grammar, Layout, Limits, Order, SchemaOptions};
use jsonschema::Validator;
use serde_json::{Value, json};

/// Maximum number of `MaskBench` schemas to test. Only schemas that both crates can compile count.
const SCHEMAS: usize = 2000;
const SAMPLES: usize = 10;

/// Files with valid samples that the `jsonschema` crate rejects, each with the reason.
const DIFFERENCES: [(&str, &str); 2] = [
    // In ECMA-262, `.` excludes all four line terminators. In the crate's regular expressions, `.`
    // excludes only `\n`.
    ("Github_easy---o37070.json", "a name with a carriage return does not match `^.*$`"),
    ("Github_hard---o35186.json", "a name with a carriage return does not match `^.*$`"),
];

fn validator(schema: &Value) -> Option<Validator> {
    jsonschema::options().should_validate_formats(true).build(schema).ok()
}

/// Returns the validator's first error for `output`, or `None` if the output is valid.
fn complaint(validator: &Validator, output: &[u8]) -> Option<String> {
    let value: Value = match serde_json::from_slice(output) {
        Ok(value) => value,
        Err(error) => return Some(error.to_string()),
    };
    let error = validator.iter_errors(&value).next()?;
    Some(format!("{} at `{}`, by `{}`", error, error.instance_path(), error.schema_path()))
}

fn schemas() -> Vec<Value> {
    vec![
        json!({}),
        json!({"type": "integer", "minimum": -3, "maximum": 70000}),
        json!({"type": "number", "exclusiveMinimum": 0.5, "multipleOf": 0.25, "maximum": 1e6}),
        json!({"type": "string", "minLength": 2, "maxLength": 5}),
        json!({"type": "string", "pattern": "^[A-Z]{3}-\\d+$"}),
        json!({"type": "string", "pattern": "(foo|bar)+", "maxLength": 12}),
        json!({"type": "string", "format": "date-time"}),
        json!({"type": "string", "format": "ipv6"}),
        json!({"type": "string", "format": "uuid"}),
        json!({"enum": ["a", 1, null, {"b": [true]}]}),
        json!({"anyOf": [{"const": "x"}, {"type": "string", "minLength": 3}, {"type": "boolean"}]}),
        json!({"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5}]}),
        json!({"not": {"type": ["object", "array", "string"]}}),
        json!({"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "integer"}, "maxItems": 4}),
        json!({"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 3}),
        json!({"properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}}, "required": ["age"]}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}, "properties": {"a": {"type": "null"}}}),
        json!({"type": "object", "patternProperties": {"^x-": {"type": "boolean"}}, "additionalProperties": false}),
        json!({"type": "object", "propertyNames": {"maxLength": 3}, "maxProperties": 2}),
        json!({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "additionalProperties": false, "minProperties": 2}),
        json!({"type": "object", "properties": {"card": {"type": "integer"}}, "dependentRequired": {"card": ["address"]}}),
        json!({
            "type": "object",
            "properties": {"kind": {"enum": ["circle", "square"]}},
            "required": ["kind"],
            "if": {"properties": {"kind": {"const": "circle"}}},
            "then": {"required": ["radius"], "properties": {"radius": {"type": "number"}}},
            "else": {"required": ["side"]},
        }),
        json!({"type": "object", "required": ["next"], "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}),
        json!({"allOf": [{"properties": {"a": {"type": "string"}}}], "unevaluatedProperties": false, "type": "object"}),
    ]
}

#[test]
fn samples_of_each_kind_of_schema_are_valid() {
    for schema in schemas() {
        let validator = validator(&schema).expect("a good schema");
        for (layout, order) in
            [(Layout::Spaced, Order::Declared), (Layout::Pretty, Order::Any), (Layout::Flexible, Order::Any)]
        {
            let options = SchemaOptions { layout, order, ..SchemaOptions::default() };
            let grammar = Grammar::json_schema(&schema, &options, &Limits::default()).expect("supported");
            for output in grammar.samples(1).take(40) {
                let text = String::from_utf8_lossy(&output);
                assert_eq!(complaint(&validator, &output), None, "{schema}: {text}");
                assert!(grammar.accepts(&output), "{schema}: {text}");
            }
        }
    }
}

fn files() -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("FORMWORK_MASKBENCH") else { return Vec::new() };
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    files
}

/// Runs only if `FORMWORK_MASKBENCH` names a folder with the files of `MaskBench`.
#[test]
fn samples_of_mask_bench_are_valid() {
    let (mut schemas, mut samples, mut distinct, mut unread) = (0, 0, 0, Vec::new());
    let mut differences = Vec::new();
    for path in files() {
        let name = path.file_name().unwrap_or_default().display().to_string();
        let file = std::fs::read(&path).expect("readable");
        let schema = serde_json::from_slice::<Value>(&file).expect("JSON")["schema"].take();
        let options = SchemaOptions::default();
        let Ok(grammar) = Grammar::json_schema(&schema, &options, &Limits::default()) else { continue };
        let Some(validator) = validator(&schema) else {
            unread.push(name);
            continue;
        };
        let outputs: Vec<Vec<u8>> = grammar.samples(1).take(SAMPLES).collect();
        for output in &outputs {
            assert!(grammar.accepts(output), "{name}");
            if let Some(complaint) = complaint(&validator, output) {
                let text: String = String::from_utf8_lossy(output).chars().take(300).collect();
                differences.push((name.clone(), format!("{complaint}: {text}")));
            }
        }
        samples += outputs.len();
        distinct += outputs.iter().collect::<std::collections::BTreeSet<_>>().len();
        schemas += 1;
        if schemas == SCHEMAS {
            break;
        }
    }
    println!(
        "{samples} samples of {schemas} schemas, {distinct} distinct; {} not read: {unread:?}",
        unread.len()
    );
    println!("{} differ", differences.len());
    differences.retain(|(name, _)| DIFFERENCES.iter().all(|(known, _)| known != name));
    for (name, difference) in &differences {
        println!("  {name}: {difference}");
    }
    assert_eq!(differences.len(), 0);
}
