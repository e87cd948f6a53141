//! Compares the machine with another validator on random schemas that use every keyword.
//!
//! Both must give the same verdict on random values. The other validator must accept the
//! completions of random prefixes.

use serde_json::{Map, Value, json};

use super::laws::repeats_a_name;
use super::{accepts, close, machine, run};
use crate::machine::{Config, Machine};
use crate::options::SchemaOptions;

/// A small random number generator (`xorshift64*`). Equal seeds give equal inputs.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

const NAMES: [&str; 6] = ["a", "b", "ab", "ba", "é", "x\n"];
const PATTERNS: [&str; 8] = ["^a", "b$", "^[ab]*$", "é", "^.{2}$", "^(?!a)", "^$", "^(ab|ba)+$"];

fn scalar(random: &mut Random) -> Value {
    match random.below(5) {
        0 => Value::Null,
        1 => (random.below(2) == 0).into(),
        2 => (random.below(9) as i64 - 4).into(),
        3 => ((random.below(9) as f64 - 4.0) / 2.0).into(),
        _ => (*random.pick(&NAMES)).into(),
    }
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 1 } else { 3 }) {
        0 => scalar(random),
        1 => (0..random.below(4)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            let members =
                (0..random.below(4)).map(|_| ((*random.pick(&NAMES)).into(), value(random, depth - 1)));
            Value::Object(members.collect())
        }
    }
}

fn schemas(random: &mut Random, depth: usize) -> Value {
    (0..=random.below(2)).map(|_| schema(random, depth)).collect()
}

pub(super) fn schema(random: &mut Random, depth: usize) -> Value {
    if depth == 0 || random.below(8) == 0 {
        return match random.below(5) {
            0 => json!(true),
            1 => json!({"const": scalar(random)}),
            2 => json!({"enum": [scalar(random), value(random, 1)]}),
            _ => json!({"type": *random.pick(&["null", "boolean", "integer", "number", "string"])}),
        };
    }
    let mut keywords = Map::new();
    for _ in 0..=random.below(3) {
        let (name, value) = keyword(random, depth - 1);
        keywords.insert(name.to_owned(), value);
    }
    Value::Object(keywords)
}

fn keyword(random: &mut Random, depth: usize) -> (&'static str, Value) {
    let count = |random: &mut Random| Value::from(random.below(3));
    match random.below(36) {
        0 | 1 => ("type", json!(*random.pick(&["object", "array", "string", "number", "integer"]))),
        2 => ("type", json!([*random.pick(&["object", "array"]), *random.pick(&["string", "null"])])),
        3 => ("minimum", json!(random.below(5) as i64 - 2)),
        4 => ("exclusiveMaximum", json!((random.below(9) as f64 - 4.0) / 2.0)),
        5 => ("multipleOf", random.pick(&[json!(2), json!(0.5), json!(3)]).clone()),
        6 => ("minLength", count(random)),
        7 => ("maxLength", count(random)),
        8 => ("pattern", json!(*random.pick(&PATTERNS))),
        9 => ("minItems", count(random)),
        10 => ("maxItems", count(random)),
        11 => ("items", schema(random, depth)),
        12 => ("prefixItems", schemas(random, depth)),
        13 => ("contains", schema(random, depth)),
        14 => ("maxContains", json!(1 + random.below(2))),
        15 | 16 => {
            let members =
                (0..=random.below(2)).map(|_| ((*random.pick(&NAMES)).into(), schema(random, depth)));
            ("properties", Value::Object(members.collect()))
        }
        17 => ("required", json!([*random.pick(&NAMES)])),
        18 => ("additionalProperties", schema(random, depth)),
        19 => {
            let names = *random.pick(&PATTERNS);
            ("patternProperties", json!({names: schema(random, depth)}))
        }
        20 => ("propertyNames", json!({"pattern": *random.pick(&PATTERNS)})),
        21 => ("maxProperties", count(random)),
        22 => ("anyOf", schemas(random, depth)),
        23 => ("oneOf", schemas(random, depth)),
        24 => ("allOf", schemas(random, depth)),
        25 => ("not", schema(random, depth)),
        26 => ("unevaluatedItems", schema(random, depth)),
        27 | 28 => ("unevaluatedProperties", schema(random, depth)),
        29 => ("dependentSchemas", json!({*random.pick(&NAMES): schema(random, depth)})),
        30 => ("minContains", count(random)),
        31 => {
            let contains = |random: &mut Random| json!({"contains": schema(random, 0)});
            ("allOf", (0..2 + random.below(4)).map(|_| contains(random)).collect())
        }
        32 | 33 => ("uniqueItems", json!(random.below(4) > 0)),
        _ => {
            let (part, other) = (schema(random, depth), schema(random, depth));
            ("allOf", json!([{"if": schema(random, depth), "then": part, "else": other}]))
        }
    }
}

/// Reads random bytes from the start and then the shortest completion, and checks that the text is
/// valid.
pub(super) fn walk(
    random: &mut Random,
    schema: &Value,
    options: SchemaOptions,
    validator: &jsonschema::Validator,
) {
    let mut machine = machine(schema, options).unwrap();
    let mut config = machine.start();
    let mut text = Vec::new();
    for _ in 0..30 {
        let following: Vec<u8> =
            (0..=u8::MAX).filter(|&byte| machine.step(config, byte) != Config::DEAD).collect();
        let structural: Vec<u8> =
            following.iter().copied().filter(|byte| b"{}[]\",:abtn1".contains(byte)).collect();
        let from = if structural.is_empty() || random.below(4) == 0 { &following } else { &structural };
        if from.is_empty() {
            break;
        }
        let byte = *random.pick(from);
        text.push(byte);
        config = machine.step(config, byte);
    }
    text.extend(close(&mut machine, config));
    let shown = String::from_utf8_lossy(&text).into_owned();
    // The other validator reads numbers as doubles, so large numbers overflow and others are rounded.
    if text.split(|byte| !b"0123456789.eE+-".contains(byte)).any(|number| number.len() > 14) {
        return;
    }
    let Ok(value) = serde_json::from_slice::<Value>(&text) else {
        assert!(text.iter().any(|byte| b"eE".contains(byte)), "{schema} {shown}");
        return;
    };
    assert!(validator.is_valid(&value), "{schema} {options:?} {shown}");
    assert!(!repeats_a_name(&text, &value), "{schema} {options:?} {shown}");
}

#[test]
fn verdicts_agree_with_another_validator() {
    let random = &mut Random(0x9e37_79b9_7f4a_7c15);
    let (mut compiled, mut verdicts) = (0, 0);
    for round in 0..3000 {
        let mut schema = schema(random, 3);
        // Every third schema also has a keyword about unevaluated members or items.
        if let (Value::Object(keywords), 0) = (&mut schema, round % 3) {
            let keyword = *random.pick(&["unevaluatedProperties", "unevaluatedItems"]);
            keywords.insert(keyword.to_owned(), json!(false));
        }
        let Ok(mut machine) = machine(&schema, SchemaOptions::accept()) else { continue };
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        compiled += 1;
        for _ in 0..12 {
            let value = value(random, 3);
            let (text, valid) = (value.to_string(), validator.is_valid(&value));
            let (_, taken) = run(&mut machine, text.as_bytes());
            assert_eq!(accepts(&mut machine, &text), valid, "{schema}\n{text} ({taken} bytes taken)");
            verdicts += 1;
        }
        for options in [SchemaOptions::accept(), SchemaOptions::default()] {
            walk(random, &schema, options, &validator);
        }
    }
    assert!(compiled > 1500 && verdicts > 18_000, "{compiled} schemas, {verdicts} verdicts");
}
