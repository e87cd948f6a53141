//! Valid schemas with a few changes that make them hostile.

use fastrand::Rng;
use serde_json::{Value, json};

use super::mixed::{self, NAMES, count, pattern};
use super::{pick, size};

/// Schemas from this repository.
const SEEDS: &[&str] = &[
    include_str!("../../grammars/address.schema.json"),
    include_str!("../../grammars/character.schema.json"),
    include_str!("../../grammars/command.schema.json"),
    include_str!("../../grammars/contact.schema.json"),
    include_str!("../../grammars/event.schema.json"),
    include_str!("../../grammars/points.schema.json"),
    include_str!("../../grammars/quest.schema.json"),
    include_str!("../../grammars/review.schema.json"),
    include_str!("../../grammars/settings.schema.json"),
];

/// Groups of keywords whose values have the same form, so that one can replace another.
const ALIKE: &[&[&str]] = &[
    &["anyOf", "oneOf", "allOf", "prefixItems"],
    &[
        "items",
        "contains",
        "additionalProperties",
        "propertyNames",
        "not",
        "unevaluatedItems",
        "unevaluatedProperties",
        "if",
        "then",
        "else",
    ],
    &["properties", "patternProperties", "dependentSchemas", "$defs"],
    &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
    &[
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minContains",
        "maxContains",
    ],
];

/// Generates a seed schema with a few changes.
pub(super) fn schema(rng: &mut Rng) -> Value {
    let mut schema = match rng.u32(..3) {
        0 => mixed::schema(rng),
        _ => serde_json::from_str(pick(rng, SEEDS)).unwrap_or_default(),
    };
    for _ in 0..size(rng, 12) {
        let places = places(&schema);
        let pointer = places[rng.usize(..places.len())].clone();
        let other = schema.pointer(&places[rng.usize(..places.len())]).cloned().unwrap_or_default();
        if let Some(place) = schema.pointer_mut(&pointer) {
            change(rng, place, other, &pointer);
        }
    }
    schema
}

/// Returns the JSON Pointers of all values.
fn places(schema: &Value) -> Vec<String> {
    let mut places = vec![String::new()];
    let mut at = 0;
    while at < places.len() && places.len() < 20_000 {
        let pointer = places[at].clone();
        match schema.pointer(&pointer) {
            Some(Value::Object(members)) => {
                let names = members.keys().map(|name| name.replace('~', "~0").replace('/', "~1"));
                places.extend(names.map(|name| format!("{pointer}/{name}")));
            }
            Some(Value::Array(items)) => places.extend((0..items.len()).map(|at| format!("{pointer}/{at}"))),
            _ => {}
        }
        at += 1;
    }
    places
}

fn change(rng: &mut Rng, place: &mut Value, other: Value, pointer: &str) {
    match place {
        Value::Object(members) => match rng.u32(..7) {
            0 => {
                let names: Vec<String> = members.keys().cloned().collect();
                let Some(name) = rng.choice(names) else { return };
                let group = ALIKE.iter().find(|group| group.contains(&name.as_str()));
                if let (Some(group), Some(value)) = (group, members.get(&name).cloned()) {
                    members.insert(pick(rng, group).to_string(), value);
                }
            }
            1 => {
                let keyword = pick(rng, ALIKE[0]).to_string();
                let branches = size(rng, 40);
                let one = Value::Object(members.clone());
                *place = json!({keyword: (0..branches).map(|at| varied(rng, &one, at)).collect::<Value>()});
            }
            2 => drop(members.insert("not".to_owned(), other)),
            3 => drop(members.insert(
                "$ref".to_owned(),
                json!(format!("#{}", pointer.rsplit_once('/').map_or("", |(up, _)| up))),
            )),
            4 => drop(members.insert("pattern".to_owned(), json!(pattern(rng)))),
            5 => {
                for (name, value) in mixed::small(rng).as_object().into_iter().flatten() {
                    members.insert(name.clone(), value.clone());
                }
            }
            _ => {
                let copies = size(rng, 200);
                let all: Vec<_> = members.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                for at in 0..copies.min(2000 / all.len().max(1)) {
                    for (name, value) in &all {
                        members.insert(format!("{name}{at}"), value.clone());
                    }
                }
            }
        },
        Value::Array(items) => match rng.u32(..3) {
            0 => {
                let all = items.clone();
                for at in 0..size(rng, 60) {
                    items.extend(all.iter().map(|item| varied(rng, item, at)));
                }
            }
            1 => items.push(other),
            _ => items.reverse(),
        },
        Value::Number(_) => *place = if rng.bool() { count(rng) } else { mixed::multiple(rng) },
        Value::String(text) => match rng.u32(..4) {
            0 => *text = text.repeat(size(rng, 3000)),
            1 => *text = pattern(rng),
            2 => *text = pick(rng, NAMES).to_string(),
            _ => text.push_str("{0,900}"),
        },
        Value::Bool(_) | Value::Null => *place = other,
    }
}

/// Returns the value with one number, string or object changed.
fn varied(rng: &mut Rng, value: &Value, by: usize) -> Value {
    let mut value = value.clone();
    let places = places(&value);
    let at = places[rng.usize(..places.len())].clone();
    match value.pointer_mut(&at) {
        Some(Value::Number(number)) => *number = by.into(),
        Some(Value::String(text)) => text.push_str(&by.to_string()),
        Some(Value::Object(members)) => drop(members.insert("minProperties".to_owned(), json!(by % 3))),
        _ => {}
    }
    value
}
