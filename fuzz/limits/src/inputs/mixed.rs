//! Schemas that mix all keywords at all depths.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::{pick, size};

/// Member names. There are only a few, so that keywords apply to the same members.
pub(super) const NAMES: &[&str] = &[
    "a",
    "b",
    "c",
    "aa",
    "ab",
    "id",
    "name",
    "kind",
    "type",
    "é",
    "a/b",
    "x-1",
    "",
    "\"",
    "long_name_0123456789",
];

pub(super) const FORMATS: &[&str] = &[
    "date",
    "time",
    "date-time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uri-template",
    "uuid",
    "json-pointer",
    "relative-json-pointer",
    "regex",
];

const PATTERNS: &[&str] = &[
    "a",
    "^a",
    "b$",
    "^[a-z]+$",
    "^.{2,5}$",
    "(.*a){3}",
    "^(a|b)*$",
    "[0-9]{3,}",
    "^\\w+$",
    "\\d",
    "(?=.*a)b",
    "(?!ab)^a",
    "(?<=a)b",
    "(?<!a)b$",
    "\\bfoo\\b",
    "^$",
    "\\p{L}",
    "^\\P{Lu}*$",
    "^(?:[a-z]{1,8}-){1,4}z$",
    "a{0,200}b",
    "^[^a]*$",
    "^x-",
    "^(?=.{3,9}$)[a-c]*$",
    "\\u00e9|ü",
    "[\\s\\S]*",
    "^a.{12}b",
    "(a{0,9}b?){0,9}$",
];

/// Generates a random schema, often with definitions that refer to each other.
pub(super) fn schema(rng: &mut Rng) -> Value {
    let definitions = if rng.bool() { size(rng, 12) } else { 0 };
    let mut maker = Maker { left: size(rng, 300) + 4, definitions };
    let mut schema = maker.schema(rng, 0);
    if definitions > 0 {
        let defs: Map<_, _> = (0..definitions).map(|at| (format!("d{at}"), maker.schema(rng, 1))).collect();
        match &mut schema {
            Value::Object(object) => drop(object.insert("$defs".to_owned(), Value::Object(defs))),
            other => *other = json!({"$ref": "#/$defs/d0", "$defs": defs}),
        }
    }
    if let (Value::Object(object), 0) = (&mut schema, rng.u32(..5)) {
        let draft = pick(
            rng,
            &[
                "http://json-schema.org/draft-04/schema#",
                "http://json-schema.org/draft-06/schema#",
                "http://json-schema.org/draft-07/schema#",
                "https://json-schema.org/draft/2019-09/schema",
                "https://json-schema.org/draft/2020-12/schema",
            ],
        );
        object.insert("$schema".to_owned(), json!(draft));
    }
    schema
}

/// Generates a small random schema without references.
pub(super) fn small(rng: &mut Rng) -> Value {
    Maker { left: 6, definitions: 0 }.schema(rng, 0)
}

struct Maker {
    /// Number of subschemas that may still be generated.
    left: usize,
    definitions: usize,
}

impl Maker {
    fn schema(&mut self, rng: &mut Rng, depth: usize) -> Value {
        if self.left == 0 || depth > 24 {
            return self.leaf(rng);
        }
        self.left -= 1;
        let mut object = Map::new();
        if rng.u32(..3) > 0 {
            object.insert("type".to_owned(), types(rng));
        }
        for _ in 0..=rng.usize(..5) {
            self.keyword(rng, depth + 1, &mut object);
        }
        Value::Object(object)
    }

    fn leaf(&self, rng: &mut Rng) -> Value {
        match rng.u32(..9) {
            0 => json!(true),
            1 => json!(rng.u32(..6) > 0),
            2 if self.definitions > 0 => self.reference(rng),
            3 => json!({"const": value(rng, 2)}),
            4 => json!({"type": "string", "pattern": pattern(rng)}),
            5 => number_rule(rng),
            _ => json!({"type": types(rng)}),
        }
    }

    fn reference(&self, rng: &mut Rng) -> Value {
        match rng.u32(..8) {
            0 => json!({"$ref": "#"}),
            1 => json!({"$dynamicRef": pick(rng, &["#node", "#other"])}),
            _ => json!({"$ref": format!("#/$defs/d{}", rng.usize(..self.definitions.max(1)))}),
        }
    }

    fn list(&mut self, rng: &mut Rng, depth: usize, most: usize) -> Value {
        (0..size(rng, most)).map(|_| self.schema(rng, depth)).collect()
    }

    fn members(&mut self, rng: &mut Rng, depth: usize, most: usize) -> Value {
        let count = size(rng, most);
        let members = (0..count).map(|_| {
            let name = pick(rng, NAMES).to_string();
            (name, self.schema(rng, depth))
        });
        Value::Object(members.collect())
    }

    fn keyword(&mut self, rng: &mut Rng, depth: usize, object: &mut Map<String, Value>) {
        let mut add = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
        match rng.u32(..46) {
            0..3 => add("properties", self.members(rng, depth, 8)),
            3 => add("patternProperties", {
                let count = size(rng, 5);
                let members = (0..count).map(|_| (pattern(rng), self.schema(rng, depth)));
                Value::Object(members.collect())
            }),
            4 | 5 => {
                add("additionalProperties", if rng.bool() { json!(false) } else { self.schema(rng, depth) });
            }
            6 => add("propertyNames", self.schema(rng, depth)),
            7 | 8 => add("required", (0..size(rng, 6)).map(|_| json!(pick(rng, NAMES))).collect()),
            9 => add("minProperties", count(rng)),
            10 => add("maxProperties", count(rng)),
            11 => add("dependentRequired", {
                let members = (0..size(rng, 6)).map(|_| {
                    let needs: Value = (0..size(rng, 3)).map(|_| json!(pick(rng, NAMES))).collect();
                    (pick(rng, NAMES).to_string(), needs)
                });
                Value::Object(members.collect())
            }),
            12 => add("dependentSchemas", self.members(rng, depth, 4)),
            13 => {
                add("unevaluatedProperties", if rng.bool() { json!(false) } else { self.schema(rng, depth) });
            }
            14 | 15 => add("items", self.schema(rng, depth)),
            16 => add("prefixItems", self.list(rng, depth, 5)),
            17 => {
                add("contains", self.schema(rng, depth));
                if rng.bool() {
                    add("minContains", count(rng));
                }
                if rng.bool() {
                    add("maxContains", count(rng));
                }
            }
            18 => add("minItems", count(rng)),
            19 => add("maxItems", count(rng)),
            20 => add("uniqueItems", json!(rng.u32(..4) > 0)),
            21 => add("unevaluatedItems", if rng.bool() { json!(false) } else { self.schema(rng, depth) }),
            22 | 23 => {
                for (name, value) in number_rule(rng).as_object().into_iter().flatten() {
                    add(name, value.clone());
                }
            }
            24 => add("minLength", count(rng)),
            25 => add("maxLength", count(rng)),
            26 | 27 => add("pattern", json!(pattern(rng))),
            28 => add("format", json!(pick(rng, FORMATS))),
            29 => add("enum", (0..size(rng, 20)).map(|_| value(rng, 2)).collect()),
            30 => add("const", value(rng, 3)),
            31..34 => add("anyOf", self.list(rng, depth, 6)),
            34..36 => add("oneOf", self.list(rng, depth, 6)),
            36..38 => add("allOf", self.list(rng, depth, 6)),
            38..40 => add("not", self.schema(rng, depth)),
            40..42 => {
                add("if", self.schema(rng, depth));
                if rng.u32(..4) > 0 {
                    add("then", self.schema(rng, depth));
                }
                if rng.bool() {
                    add("else", self.schema(rng, depth));
                }
            }
            42 => add("$dynamicAnchor", json!(pick(rng, &["node", "other"]))),
            _ => {
                for (name, value) in self.reference(rng).as_object().into_iter().flatten() {
                    add(name, value.clone());
                }
            }
        }
    }
}

fn types(rng: &mut Rng) -> Value {
    const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
    if rng.u32(..5) > 0 {
        return json!(TYPES[rng.usize(..7).min(rng.usize(..7))]);
    }
    TYPES.iter().filter(|_| rng.bool()).map(|name| json!(name)).collect()
}

/// Generates a number of items, members or characters.
pub(super) fn count(rng: &mut Rng) -> Value {
    match rng.u32(..12) {
        0 => json!(size(rng, 100)),
        1 => json!(size(rng, 10_000)),
        2 => json!(size(rng, 1_000_000_000)),
        3 => json!(u64::MAX),
        _ => json!(rng.u32(..5)),
    }
}

/// Generates a pattern, sometimes composed of others.
pub(super) fn pattern(rng: &mut Rng) -> String {
    let one = pick(rng, PATTERNS);
    match rng.u32(..12) {
        0 => format!("({one}){{0,{}}}", size(rng, 300)),
        1 => format!("{one}|{}", pick(rng, PATTERNS)),
        2 => format!("(?={one}){}", pick(rng, PATTERNS)),
        3 => format!("(?!{one}).{{{}}}", size(rng, 60)),
        4 => format!("{one}.{{{}}}", size(rng, 100)),
        _ => one.to_string(),
    }
}

/// Generates a schema of one to three numeric keywords: bounds and `multipleOf`.
pub(super) fn number_rule(rng: &mut Rng) -> Value {
    let mut rule = Map::new();
    for _ in 0..=rng.u32(..3) {
        let (name, value) = match rng.u32(..6) {
            0 => ("minimum", bound(rng)),
            1 => ("maximum", bound(rng)),
            2 => ("exclusiveMinimum", bound(rng)),
            3 => ("exclusiveMaximum", bound(rng)),
            _ => ("multipleOf", multiple(rng)),
        };
        rule.insert(name.to_owned(), value);
    }
    Value::Object(rule)
}

fn bound(rng: &mut Rng) -> Value {
    let sign = if rng.bool() { "-" } else { "" };
    let text = match rng.u32(..8) {
        0 => format!("{sign}{}e{}", rng.u32(1..10), rng.i32(-300..300)),
        1 => format!("{sign}{}.{}", rng.u32(..1000), rng.u32(..1000)),
        2 => format!("{sign}{}", rng.u64(..)),
        3 => format!("{sign}0.{}{}", "0".repeat(size(rng, 200)), rng.u32(1..99)),
        _ => format!("{sign}{}", rng.u32(..200)),
    };
    serde_json::from_str(&text).unwrap_or(json!(0))
}

pub(super) fn multiple(rng: &mut Rng) -> Value {
    const PRIMES: [u32; 20] =
        [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 97, 101, 997, 7919, 65537, 999_983, 2_147_483_647];
    let prime = PRIMES[rng.usize(..20).min(rng.usize(..20))];
    let text = match rng.u32(..5) {
        0 => format!("{prime}e-{}", rng.u32(1..6)),
        1 => format!("0.{}{prime}", "0".repeat(size(rng, 40) - 1)),
        2 => format!("{prime}e{}", rng.u32(..20)),
        _ => prime.to_string(),
    };
    serde_json::from_str(&text).unwrap_or(json!(1))
}

/// Generates a random value.
pub(super) fn value(rng: &mut Rng, depth: usize) -> Value {
    match rng.u32(..if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => bound(rng),
        3 => json!(rng.u32(..20)),
        4 => json!(pick(rng, NAMES)),
        5 => json!("ab".repeat(size(rng, 50))),
        6 => (0..rng.u32(..4)).map(|_| value(rng, depth - 1)).collect(),
        _ => {
            let count = rng.u32(..5);
            let members = (0..count).map(|_| (pick(rng, NAMES).to_string(), value(rng, depth - 1)));
            Value::Object(members.collect())
        }
    }
}
