//! Field definitions in JSON, YAML and TOML.

use std::fmt::Write;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::notations::mutate;
use super::{pick, size, text_of};

const JSON: &str = include_str!("../../grammars/fields/character.json");
const YAML: &str = include_str!("../../grammars/fields/scene-event.yaml");
const TOML: &str = include_str!("../../grammars/fields/quest-log.toml");

/// Generates a definition in JSON.
pub(super) fn json(rng: &mut Rng) -> (&'static str, String) {
    if rng.u32(..4) == 0 {
        return ("mutated definition", mutate(rng, JSON.to_owned()));
    }
    ("definition", text_of(&definition(rng)))
}

/// Generates a definition in YAML, including JSON, which is valid YAML.
pub(super) fn yaml(rng: &mut Rng) -> (&'static str, String) {
    match rng.u32(..5) {
        0 => ("mutated definition", mutate(rng, YAML.to_owned())),
        1 => ("aliases that double", aliases(rng)),
        2 => {
            let depth = size(rng, 20_000);
            let open = pick(rng, &["[", "{a: ", "- ", "? ", "!!x "]);
            ("nested collections", format!("fields: {}", open.repeat(depth)))
        }
        _ => ("definition", text_of(&definition(rng))),
    }
}

/// Generates a definition in TOML.
pub(super) fn toml(rng: &mut Rng) -> (&'static str, String) {
    match rng.u32(..5) {
        0 => ("mutated definition", mutate(rng, TOML.to_owned())),
        1 => {
            let depth = size(rng, 20_000);
            let text = match rng.u32(..3) {
                0 => format!("fields = {}", "[".repeat(depth)),
                1 => format!("fields = {}", "{a = ".repeat(depth)),
                _ => format!("[{}]\nname = 1", vec!["a"; depth].join(".")),
            };
            ("nested collections", text)
        }
        _ => {
            let Value::Object(members) = definition(rng) else { return ("definition", String::new()) };
            let lines = members
                .iter()
                .map(|(name, value)| format!("{} = {}\n", toml_string(name), toml_value(value)));
            ("definition", lines.collect())
        }
    }
}

fn toml_string(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

fn toml_value(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(toml_value).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let members =
                members.iter().map(|(name, value)| format!("{} = {}", toml_string(name), toml_value(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Null => "\"\"".to_owned(),
        scalar => scalar.to_string(),
    }
}

/// Generates YAML aliases whose expansion multiplies at each level.
fn aliases(rng: &mut Rng) -> String {
    let (levels, each) = (size(rng, 60), 1 + size(rng, 20));
    let mut text = String::from("name: x\na0: &a0 { name: n, type: int }\n");
    for level in 1..=levels {
        let items = vec![format!("*a{}", level - 1); each].join(", ");
        let _ = writeln!(text, "a{level}: &a{level} [{items}]");
    }
    let _ = writeln!(text, "fields: *a{levels}");
    text
}

fn definition(rng: &mut Rng) -> Value {
    let structures = if rng.bool() { size(rng, 1200) } else { 0 };
    let mut left = size(rng, 20_000);
    let mut whole = match rng.u32(..3) {
        0 => many(rng),
        _ => field(rng, &mut left, structures, size(&mut rng.clone(), 70)),
    };
    if structures > 0 {
        let names = (0..structures).map(|at| {
            let fields = json!([
                {"name": "next", "type": "ref", "to": format!("d{}", (at * 7 + 1) % structures), "optional": true},
                {"name": "other", "type": "ref", "to": format!("d{}", (at + 1) % structures), "optional": rng.u32(..9) > 0},
            ]);
            (format!("d{at}"), json!({"type": "composite", "fields": fields}))
        });
        let names: Map<_, _> = names.collect();
        whole["definitions"] = Value::Object(names);
    }
    whole["name"] = json!("Whole");
    whole
}

/// Generates many fields of one kind, or one large field.
fn many(rng: &mut Rng) -> Value {
    let count = size(rng, 20_000);
    match rng.u32(..7) {
        0 => {
            json!({"fields": (0..count).map(|at| json!({"name": format!("f{at}"), "type": "int", "optional": at % 2 == 0})).collect::<Value>()})
        }
        1 => {
            json!({"type": "choice", "options": (0..count).map(|at| json!(format!("option {at}"))).collect::<Value>()})
        }
        2 => {
            json!({"type": "choice", "options": (0..count.min(2000)).map(|at| json!(at * 7)).collect::<Value>(),
            "weights": (0..count.min(2000)).map(|at| json!(at + 1)).collect::<Value>()})
        }
        3 => {
            json!({"type": "variant", "untagged": rng.bool(), "variants": (0..count.min(5000)).map(|at| json!({
            "name": format!("v{at}"), "fields": [{"name": format!("k{}", at % 9), "type": "string"}, {"name": "x", "type": "float"}]})).collect::<Value>()})
        }
        4 => {
            json!({"type": "template", "template": "say <generated>, ".repeat(count.min(20_000)), "max_length": size(rng, 5000)})
        }
        5 => json!({"type": "constant", "value": "é\"a".repeat(count * 10)}),
        _ => {
            json!({"type": "array", "element": {"type": "string", "min_length": size(rng, 1_000_000), "max_length": 1_000_000,
            "characters": pick(rng, &["a-z", "^a", "\\u{100}-\\u{FFFF}", "a-zA-Z0-9 _-"])}, "min_items": size(rng, 1_000_000), "max_items": 1_000_000})
        }
    }
}

fn field(rng: &mut Rng, left: &mut usize, structures: usize, depth: usize) -> Value {
    *left = left.saturating_sub(1);
    let deep = if *left == 0 || depth == 0 { 0 } else { 4 };
    match rng.u32(..8 + deep * 2) {
        0 => json!({"type": "int", "min": rng.i64(-1000..1000), "max": rng.i64(1000..i64::MAX)}),
        1 => json!({"type": "int"}),
        2 => {
            let (min, max) = (rng.i32(-10_000..100), rng.i32(100..1_000_000));
            json!({"type": "float", "min": f64::from(min) / 100.0, "max": f64::from(max) / 8.0, "decimals": rng.u32(..12)})
        }
        3 => json!({"type": "string", "max_length": size(rng, 1_000_000)}),
        4 => {
            let min = size(rng, 300);
            json!({"type": "string", "min_length": min, "max_length": min + size(rng, 3000), "characters": pick(rng, &["a-z", "^\"", "0-9a-f", "é-ü日-月"])})
        }
        5 => json!({"type": "boolean"}),
        6 if structures > 0 => json!({"type": "ref", "to": format!("d{}", rng.usize(..structures))}),
        7 => {
            let place = "<generated>";
            let texts = size(rng, 40);
            json!({"type": "template", "template": format!("a{place}").repeat(texts), "min_length": 1, "max_length": size(rng, 200)})
        }
        8..12 => {
            let count = size(rng, 30);
            let fields = (0..count).map(|at| {
                let mut member = field(rng, left, structures, depth - 1);
                member["name"] = json!(format!("m{at}"));
                if rng.bool() {
                    member["optional"] = json!(true);
                }
                member
            });
            json!({"type": "composite", "fields": fields.collect::<Value>()})
        }
        12 | 13 => {
            let count = size(rng, 12);
            let variants = (0..count).map(|at| {
                let mut member = field(rng, left, structures, depth - 1);
                member["name"] = json!(format!("v{at}"));
                member
            });
            let variants: Value = variants.collect();
            json!({"type": "variant", "untagged": rng.bool(), "variants": variants})
        }
        14 | 15 => {
            let min = size(rng, 40);
            let element = field(rng, left, structures, depth - 1);
            json!({"type": "array", "element": element, "min_items": min, "max_items": min + size(rng, 2000)})
        }
        _ => json!({"type": "choice", "options": ["a", 1, true, 2.5, "bb"]}),
    }
}
