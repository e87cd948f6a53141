//! Tests laws on random schemas, with random walks through their machines.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{close, machine, run};
use crate::machine::{Config, Machine};
use crate::options::{Layout, Order, Profile, SchemaOptions, Undeclared};

fn options() -> impl Strategy<Value = SchemaOptions> {
    let profile = prop_oneof![Just(Profile::Generate), Just(Profile::Accept)];
    let layout = prop_oneof![
        Just(Layout::Spaced),
        Just(Layout::Compact),
        Just(Layout::Pretty),
        Just(Layout::Flexible),
        Just(Layout::Inside)
    ];
    let order = prop_oneof![Just(Order::Declared), Just(Order::Any)];
    let undeclared = prop_oneof![Just(Undeclared::Omit), Just(Undeclared::Allow)];
    (profile, layout, order, undeclared).prop_map(|(profile, layout, order, undeclared)| SchemaOptions {
        profile,
        layout,
        order,
        undeclared,
        ..SchemaOptions::default()
    })
}

/// Returns a strategy for names and strings that share first letters and need escapes, so that
/// walks stop inside tries and decoders.
fn word() -> impl Strategy<Value = String> {
    let words = ["", "a", "ab", "abc", "b", "é", "ê", "a\n", "\u{1}", "\"", "😀"];
    prop::sample::select(words.to_vec()).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-30i64..30).prop_map(Value::from),
        (-30i64..30).prop_map(|n| json!(n as f64 / 4.0)),
        word().prop_map(Value::from),
    ]
}

fn leaf() -> impl Strategy<Value = Value> {
    let bound = || (-40i64..40).prop_map(|n| if n % 4 == 0 { json!(n / 4) } else { json!(n as f64 / 4.0) });
    let number = (prop::bool::ANY, prop::option::of(bound()), prop::option::of(bound()), 0..4u8).prop_map(
        |(integer, low, high, kind)| {
            let mut schema = json!({"type": if integer { "integer" } else { "number" }});
            let low_name = if kind & 1 == 0 { "minimum" } else { "exclusiveMinimum" };
            let high_name = if kind & 2 == 0 { "maximum" } else { "exclusiveMaximum" };
            if let Some(low) = low {
                schema[low_name] = low;
            }
            if let Some(high) = high {
                schema[high_name] = high;
            }
            schema
        },
    );
    let string = (0..3u32, prop::option::of(0..4u32)).prop_map(|(min, max)| match max {
        Some(max) => json!({"type": "string", "minLength": min, "maxLength": max}),
        None => json!({"type": "string", "minLength": min}),
    });
    let multiple = prop::sample::select(vec![2.0, 3.0, 0.5, 7.0, 0.25])
        .prop_map(|step| json!({"type": "number", "multipleOf": step, "minimum": -9}));
    prop_oneof![
        1 => Just(json!(true)),
        1 => Just(json!(false)),
        2 => Just(json!({"type": ["null", "boolean"]})),
        4 => number,
        4 => string,
        1 => multiple,
        3 => prop::collection::vec(scalar(), 1..4).prop_map(|values| json!({"enum": values})),
        1 => scalar().prop_map(|value| json!({"const": [value, {"a": value}]})),
        2 => Just(json!({"$ref": "#/$defs/other"})),
        1 => Just(json!({"$ref": "#"})),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let nested = leaf().prop_recursive(3, 12, 3, |inner| {
        let array =
            (prop::collection::vec(inner.clone(), 0..3), inner.clone(), 0..3u32, prop::option::of(0..4u32))
                .prop_map(|(prefix, rest, min, max)| {
                    let mut schema = json!({"type": "array", "items": rest, "minItems": min});
                    if !prefix.is_empty() {
                        schema["prefixItems"] = prefix.into();
                    }
                    if let Some(max) = max {
                        schema["maxItems"] = max.into();
                    }
                    schema
                });
        let members = prop::collection::vec((word(), inner.clone(), any::<bool>()), 0..4);
        let limits = (prop::option::of(0..4u32), 0..4u32);
        let names =
            prop::option::weighted(0.3, prop::sample::select(vec!["^a?$", "^[ab]$", "b", "^(?!a)", "^a*$"]));
        let object = (members, prop::option::of(inner.clone()), limits, names).prop_map(
            |(members, rest, (max, min), names)| {
                let mut schema = json!({"type": "object", "properties": {}, "required": []});
                for (name, value, required) in members {
                    if required && schema["properties"].get(&name).is_none() {
                        schema["required"].as_array_mut().unwrap().push(name.clone().into());
                    }
                    schema["properties"][name] = value;
                }
                if let Some(max) = max {
                    schema["maxProperties"] = max.into();
                }
                if let Some(names) = names {
                    schema["patternProperties"] = json!({names: rest.clone().unwrap_or_else(|| true.into())});
                }
                if rest == Some(json!(true)) {
                    schema["minProperties"] = min.into();
                } else if let Some(rest) = rest {
                    schema["additionalProperties"] = rest;
                    schema["minProperties"] = min.into();
                } else {
                    schema["additionalProperties"] = false.into();
                    schema["minProperties"] = min.into();
                }
                schema
            },
        );
        let any_of = prop::collection::vec(inner.clone(), 1..4).prop_map(|of| json!({"anyOf": of}));
        let one_of = prop::collection::vec(inner.clone(), 1..3).prop_map(|of| json!({"oneOf": of}));
        let all_of = prop::collection::vec(inner.clone(), 1..3).prop_map(|of| json!({"allOf": of}));
        let beside = (inner.clone(), inner).prop_map(|(one, other)| match (one, other) {
            (Value::Object(mut one), Value::Object(other)) => {
                one.insert("anyOf".to_owned(), json!([other, {"type": "null"}]));
                Value::Object(one)
            }
            (one, _) => one,
        });
        prop_oneof![3 => array, 4 => object, 2 => any_of, 1 => one_of, 1 => all_of, 2 => beside]
    });
    (nested, leaf()).prop_map(|(root, other)| {
        let mut schema =
            if let Value::Object(map) = root { Value::Object(map) } else { json!({"allOf": [root]}) };
        schema["$defs"] = json!({"other": other});
        schema
    })
}

/// Bytes that the machine treats differently. Bytes that lead deeper into a value come first.
const BYTES: &[u8] = b"{}[]\",: \n-.0123456789eE+abcdefnrtu\\/lsx\x01\xc3\xa9\xaa\xf0\x9f\x98\x80\xed\t";

/// Walks through the machine. Each number in `choices` picks one of the bytes that may come next.
fn walk(machine: &mut super::JsonMachine, choices: &[u16]) -> (Vec<u8>, Vec<Config>) {
    let (mut config, mut text, mut configs) = (machine.start(), Vec::new(), Vec::new());
    configs.push(config);
    for &choice in choices {
        let alive: Vec<_> =
            BYTES.iter().filter(|&&byte| machine.step(config, byte) != Config::DEAD).copied().collect();
        if alive.is_empty() {
            break;
        }
        let byte = alive[usize::from(choice) % alive.len()];
        config = machine.step(config, byte);
        text.push(byte);
        configs.push(config);
    }
    (text, configs)
}

/// Reports whether the text may contain a number that a double cannot represent exactly. The other
/// validator reads numbers as doubles.
fn beyond_doubles(text: &[u8]) -> bool {
    let digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let exponent = |pair: &[u8]| pair[0].is_ascii_digit() && matches!(pair[1], b'e' | b'E');
    text.split(|byte| !digit(byte)).any(|run| run.len() > 15) || text.windows(2).any(exponent)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every config can be completed within the computed number of bytes, and the result is valid.
    #[test]
    fn every_config_closes(schema in schema(), options in options(), choices in prop::collection::vec(any::<u16>(), 0..50)) {
        let Ok(mut machine) = machine(&schema, options) else { return Ok(()) };
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let (text, configs) = walk(&mut machine, &choices);
        for (at, &config) in configs.iter().enumerate() {
            let mut whole = text[..at].to_vec();
            whole.extend(close(&mut machine, config));
            let value = serde_json::from_slice::<Value>(&whole);
            prop_assert!(value.is_ok() || beyond_doubles(&whole), "{}", String::from_utf8_lossy(&whole));
            if let Ok(value) = value && !beyond_doubles(&whole) {
                prop_assert!(!repeats_a_name(&whole, &value), "{schema} {}", String::from_utf8_lossy(&whole));
                prop_assert!(validator.is_valid(&value), "{schema} {}", String::from_utf8_lossy(&whole));
            }
        }
    }

    /// No completion is shorter than the computed length: each byte lowers that length by at most
    /// one.
    #[test]
    fn no_byte_closes_faster(schema in schema(), options in options(), choices in prop::collection::vec(any::<u16>(), 0..50)) {
        let Ok(mut machine) = machine(&schema, options) else { return Ok(()) };
        let (_, configs) = walk(&mut machine, &choices);
        for &config in &configs {
            for byte in 0..=255 {
                let next = machine.step(config, byte);
                if next != Config::DEAD {
                    prop_assert!(machine.closing_len(next) + 1 >= machine.closing_len(config), "{schema} {byte}");
                }
            }
        }
    }

    /// Every value gets the verdict of the `jsonschema` crate, whatever the spelling of its
    /// scalars.
    #[test]
    fn verdicts_agree(schema in schema(), other in schema(), choices in prop::collection::vec(any::<u16>(), 0..30)) {
        // Instances come from the schema, from an unrelated schema, and from changing a byte.
        let mut texts = Vec::new();
        for source in [&schema, &other, &json!({})] {
            let Ok(mut machine) = machine(source, SchemaOptions::accept()) else { continue };
            let (mut text, configs) = walk(&mut machine, &choices);
            text.extend(close(&mut machine, configs[text.len()]));
            for (at, &byte) in choices.iter().zip(BYTES.iter().cycle()) {
                let mut changed = text.clone();
                let at = usize::from(*at) % changed.len();
                changed[at] = byte;
                texts.push(changed);
            }
            texts.push(text);
        }
        let Ok(mut machine) = machine(&schema, SchemaOptions::accept()) else { return Ok(()) };
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        for text in texts {
            let Ok(value) = serde_json::from_slice::<Value>(&text) else {
                prop_assert!(!super::accepts(&mut machine, &text) || beyond_doubles(&text), "{:?}", String::from_utf8_lossy(&text));
                continue;
            };
            if beyond_doubles(&text) {
                continue;
            }
            if repeats_a_name(&text, &value) {
                prop_assert!(!super::accepts(&mut machine, &text), "{:?}", String::from_utf8_lossy(&text));
                continue;
            }
            let (valid, text) = (validator.is_valid(&value), String::from_utf8_lossy(&text).into_owned());
            prop_assert_eq!(super::accepts(&mut machine, &text), valid, "{} {}", schema, text);
        }
    }
}

/// Reports whether parsing the text dropped a member because of a repeated name.
pub(super) fn repeats_a_name(text: &[u8], value: &Value) -> bool {
    fn count(value: &Value) -> usize {
        match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(members) => members.len() + members.values().map(count).sum::<usize>(),
            _ => 0,
        }
    }
    let mut colons = 0;
    let (mut inside, mut escaped) = (false, false);
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b':' if !inside => colons += 1,
            _ => {}
        }
    }
    colons != count(value)
}

#[test]
fn deep_nesting_does_not_recurse() {
    let mut machine = machine(&json!({}), SchemaOptions::accept()).unwrap();
    let deep = b"[".repeat(300_000);
    let (config, _) = run(&mut machine, &deep);
    assert_eq!(machine.closing_len(config), 300_000);
}
