//! Tests random array schemas over a few values against an enumeration of all their texts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::oracle::Random;
use super::{accepts, close, machine, run};
use crate::machine::{Config, Machine};
use crate::options::{Layout, SchemaOptions};

const VALUES: [&str; 9] = ["true", "false", "1", "10", "\"a\"", "\"ab\"", "[]", "[1]", "{}"];

/// Maximum number of items of an enumerated array.
const ITEMS: usize = 4;

fn some_values(random: &mut Random) -> Value {
    let most = *random.pick(&[1, 2, 2, 3, 4]);
    let mut values: Vec<Value> = Vec::new();
    for _ in 0..most {
        let value = serde_json::from_str(random.pick::<&'static str>(&VALUES)).unwrap();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    json!({"enum": values})
}

fn count(random: &mut Random) -> usize {
    *random.pick(&[0, 1, 2, 3, ITEMS])
}

fn array(random: &mut Random) -> Value {
    let mut schema = json!({"type": "array", "items": some_values(random), "maxItems": ITEMS});
    if *random.pick(&[true, false]) {
        schema["prefixItems"] = (0..count(random).max(1)).map(|_| some_values(random)).collect();
    }
    if *random.pick(&[true, false, false, false]) {
        schema["items"] = false.into();
    }
    if *random.pick(&[true, true, false]) {
        schema["minItems"] = count(random).into();
    }
    if *random.pick(&[true, false, false]) {
        schema["maxItems"] = count(random).into();
    }
    match random.pick(&[0, 1, 1, 1, 1, 2]) {
        0 => {}
        1 => schema["uniqueItems"] = true.into(),
        _ => schema["not"] = json!({"uniqueItems": true}),
    }
    if *random.pick(&[true, false]) {
        let mut all = Vec::new();
        for _ in 0..*random.pick(&[1, 2, 3]) {
            let mut contains = json!({"contains": some_values(random)});
            if *random.pick(&[true, false, false]) {
                contains["minContains"] = count(random).into();
            }
            if *random.pick(&[true, false, false, false]) {
                contains["maxContains"] = count(random).into();
            }
            all.push(contains);
        }
        schema["allOf"] = all.into();
    }
    schema
}

/// Returns the prefixes of all valid texts with at most [`ITEMS`] items. Each prefix maps to the
/// least number of bytes that complete it.
fn beginnings(schema: &Value) -> BTreeMap<String, usize> {
    let validator = jsonschema::draft202012::new(schema).unwrap();
    let mut beginnings = BTreeMap::new();
    let mut arrays = vec![Vec::new()];
    for len in 0..=ITEMS {
        for items in &arrays {
            let text = format!("[{}]", items.join(","));
            if validator.is_valid(&serde_json::from_str(&text).unwrap()) {
                for end in 0..=text.len() {
                    let least = beginnings.entry(text[..end].to_owned()).or_insert(usize::MAX);
                    *least = (*least).min(text.len() - end);
                }
            }
        }
        if len < ITEMS {
            let longer = |items: &Vec<&'static str>| VALUES.map(|value| [&items[..], &[value]].concat());
            arrays = arrays.iter().flat_map(longer).collect();
        }
    }
    beginnings
}

/// After every prefix of a valid text, each byte is accepted or rejected correctly, and completions
/// are no longer than computed.
///
/// The computed length is at most a quarter above the least possible length.
#[test]
fn arrays_are_exact() {
    let random = &mut Random(0x1234_5678_9abc_def1);
    let (mut compiled, mut compared, mut refused) = (0, 0, BTreeMap::<String, usize>::new());
    for _ in 0..240 {
        let schema = array(random);
        let beginnings = beginnings(&schema);
        let options = SchemaOptions { layout: Layout::Compact, ..SchemaOptions::default() };
        let mut machine = match machine(&schema, options) {
            Ok(machine) => machine,
            Err(error) => {
                let problem = error.problem();
                assert!(!problem.contains("no value") || beginnings.is_empty(), "{schema}: {error}");
                *refused.entry(problem).or_default() += 1;
                continue;
            }
        };
        compiled += 1;
        let all: Vec<_> = beginnings.keys().collect();
        for _ in 0..60.min(all.len()) {
            let text = *random.pick(&all);
            let (config, _) = run(&mut machine, text.as_bytes());
            assert_ne!(config, Config::DEAD, "{schema}\n{text}");
            for byte in b" !\"[]{},0123456789abtrufls.e".iter().copied() {
                let longer = format!("{text}{}", char::from(byte));
                let alive = machine.step(config, byte) != Config::DEAD;
                assert_eq!(alive, beginnings.contains_key(&longer), "{schema}\n{longer}");
                compared += 1;
            }
            let (least, promised) = (beginnings[text], machine.closing_len(config) as usize);
            // The promise may be longer if two items must be equal, since any two will do.
            let near = schema.get("not").is_some() || promised <= least + least / 4;
            assert!(least <= promised && near, "{schema}\n{text}: {promised} promised, {least} needed");
            let rest = String::from_utf8(close(&mut machine, config)).unwrap();
            assert!(accepts(&mut machine, format!("{text}{rest}")), "{schema}\n{text}{rest}");
        }
    }
    assert!(compiled > 60 && compared > 50_000, "{compiled} schemas, {compared} bytes, refused: {refused:?}");
}
