//! Schemas designed to multiply automata, alternatives or conjunctions, each with one kind of
//! attack.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::mixed::{self, FORMATS, NAMES, count, number_rule, pattern, value};
use super::{pick, size};

/// Generates a random attack; returns its name and schema.
pub(super) fn schema(rng: &mut Rng) -> (&'static str, Value) {
    type Attack = (&'static str, fn(&mut Rng) -> Value);
    const ATTACKS: &[Attack] = &[
        ("choices side by side", choices),
        ("choices side by side", choices),
        ("choices side by side", choices),
        ("one choice of many", one_choice),
        ("number rules", numbers),
        ("number rules", numbers),
        ("dependents", dependents),
        ("patterned names", names),
        ("patterned names", names),
        ("unevaluated", unevaluated),
        ("unevaluated", unevaluated),
        ("contains and unique", arrays),
        ("contains and unique", arrays),
        ("large values", large_values),
        ("long strings", long_strings),
        ("patterns", patterns),
        ("patterns", patterns),
        ("formats and patterns", formats),
        ("references", references),
        ("references", references),
        ("dynamic references", dynamic),
        ("nesting", nesting),
        ("nesting", nesting),
        ("nesting that doubles", doubling),
        ("huge counts", huge),
        ("many members", members),
        ("chains of additionalProperties", chains),
        ("negations", negations),
    ];
    let (name, attack) = pick(rng, ATTACKS);
    (name, attack(rng))
}

fn list(rng: &mut Rng, count: usize, mut make: impl FnMut(&mut Rng, usize) -> Value) -> Value {
    (0..count).map(|at| make(rng, at)).collect()
}

fn map(rng: &mut Rng, count: usize, mut make: impl FnMut(&mut Rng, usize) -> (String, Value)) -> Value {
    Value::Object((0..count).map(|at| make(rng, at)).collect::<Map<_, _>>())
}

/// Subject of the branches of choices.
#[derive(Clone, Copy)]
enum Family {
    Numbers,
    Required,
    Members,
    SameMember,
    Patterns,
    Lengths,
    Formats,
    Items,
    Contains,
    PatternNames,
    Unevaluated,
    Constants,
    Mixed,
}

fn family(rng: &mut Rng) -> Family {
    use Family::{
        Constants, Contains, Formats, Items, Lengths, Members, Mixed, Numbers, PatternNames, Patterns,
        Required, SameMember, Unevaluated,
    };
    pick(
        rng,
        &[
            Numbers,
            Required,
            Members,
            SameMember,
            Patterns,
            Lengths,
            Formats,
            Items,
            Contains,
            PatternNames,
            Unevaluated,
            Constants,
            Mixed,
        ],
    )
}

fn type_of(family: Family) -> Option<&'static str> {
    match family {
        Family::Numbers => Some("number"),
        Family::Patterns | Family::Lengths | Family::Formats => Some("string"),
        Family::Items | Family::Contains => Some("array"),
        Family::Constants | Family::Mixed => None,
        _ => Some("object"),
    }
}

/// Generates one branch. `at` numbers the choice, `branch` the branch within the choice.
fn branch(rng: &mut Rng, family: Family, at: usize, branch: usize) -> Value {
    let name = format!("p{at}");
    match family {
        Family::Numbers => number_rule(rng),
        Family::Required => json!({"required": [format!("{}{at}", char::from(b'a' + (branch % 26) as u8))]}),
        Family::Members => {
            let kind = ["integer", "string", "null", "boolean", "array", "object"][branch % 6];
            json!({"properties": {name: {"type": kind}}})
        }
        Family::SameMember => json!({"properties": {"k": number_rule(rng), "id": {"const": at + branch}}}),
        Family::Patterns => json!({"pattern": pattern(rng)}),
        Family::Lengths => match branch % 2 {
            0 => json!({"minLength": at + 1}),
            _ => json!({"maxLength": at * 2 + branch}),
        },
        Family::Formats => json!({"format": pick(rng, FORMATS)}),
        Family::Items => json!({"items": small_or_type(rng), "minItems": branch}),
        Family::Contains => json!({"contains": small_or_type(rng), "minContains": rng.u32(..4)}),
        Family::PatternNames => {
            json!({"patternProperties": {pattern(rng): small_or_type(rng)}, "required": [format!("a{branch}")]})
        }
        Family::Unevaluated => {
            json!({"properties": {name: {}}, "required": [format!("p{}", at + branch)]})
        }
        Family::Constants => json!({"const": value(rng, 2)}),
        Family::Mixed => mixed::small(rng),
    }
}

fn small_or_type(rng: &mut Rng) -> Value {
    match rng.u32(..4) {
        0 => mixed::small(rng),
        1 => number_rule(rng),
        2 => json!({"const": rng.u32(..8)}),
        _ => json!({"type": pick(rng, &["integer", "string", "null", "boolean", "object", "array"])}),
    }
}

fn choices(rng: &mut Rng) -> Value {
    let (one, kind) = (family(rng), rng.u32(..9));
    let branches = if rng.u32(..4) == 0 { size(rng, 40) + 1 } else { 2 + rng.usize(..3) };
    let count = size(rng, 300).max(rng.usize(..20) + 1);
    let side_by_side = list(rng, count, |rng, at| {
        let kind = if kind < 6 { kind } else { rng.u32(..6) };
        match kind {
            0 => json!({"anyOf": list(rng, branches, |rng, b| branch(rng, one, at, b))}),
            1 => json!({"oneOf": list(rng, branches, |rng, b| branch(rng, one, at, b))}),
            2 => json!({"not": branch(rng, one, at, 0)}),
            3 => {
                json!({"if": branch(rng, one, at, 0), "then": branch(rng, one, at, 1), "else": branch(rng, one, at, 2)})
            }
            4 => json!({"not": {"allOf": list(rng, branches, |rng, b| branch(rng, one, at, b))}}),
            _ => json!({"not": {"oneOf": list(rng, branches, |rng, b| branch(rng, one, at, b))}}),
        }
    });
    let mut schema = json!({"allOf": side_by_side});
    if let (Some(name), true) = (type_of(one), rng.u32(..4) > 0) {
        schema["type"] = json!(name);
    }
    match rng.u32(..8) {
        0 => schema["unevaluatedProperties"] = json!(false),
        1 => schema["additionalProperties"] = json!(false),
        2 => return json!({"items": schema, "uniqueItems": rng.bool()}),
        3 => return json!({"properties": {"a": schema.clone(), "b": schema}}),
        _ => {}
    }
    schema
}

fn one_choice(rng: &mut Rng) -> Value {
    let (one, keyword) = (family(rng), pick(rng, &["anyOf", "oneOf", "oneOf", "allOf"]));
    let count = size(rng, 2000);
    let spread = rng.usize(1..40);
    let branches = list(rng, count, |rng, at| {
        let mut made = branch(rng, one, at / spread, at % spread);
        if let (Some(object), 0) = (made.as_object_mut(), rng.u32(..3)) {
            object.insert("type".to_owned(), json!(type_of(one).unwrap_or("object")));
        }
        made
    });
    json!({keyword: branches})
}

fn numbers(rng: &mut Rng) -> Value {
    let count = size(rng, 200);
    let keyword = pick(rng, &["allOf", "anyOf", "oneOf"]);
    let inner = pick(rng, &["not", "anyOf", "oneOf", "allOf", ""]);
    let multiples = rng.bool();
    let rules = list(rng, count, |rng, _| {
        let mut rule =
            || if multiples { json!({"multipleOf": mixed::multiple(rng)}) } else { number_rule(rng) };
        match inner {
            "" => rule(),
            "not" => json!({"not": rule()}),
            _ => json!({inner: [rule(), rule(), {"not": rule()}]}),
        }
    });
    json!({"type": pick(rng, &["number", "integer"]), keyword: rules})
}

fn dependents(rng: &mut Rng) -> Value {
    let count = size(rng, 300);
    let mut schema = Map::new();
    let chained = rng.bool();
    let to = |rng: &mut Rng, at: usize| {
        if chained { format!("n{}", at + 1) } else { format!("n{}", rng.usize(..count)) }
    };
    if rng.bool() {
        let needs = map(rng, count, |rng, at| (format!("n{at}"), json!([to(rng, at)])));
        schema.insert("dependentRequired".to_owned(), needs);
    }
    if rng.bool() {
        let needs = map(rng, count, |rng, at| {
            let made = match rng.u32(..3) {
                0 => json!({"required": [to(rng, at)]}),
                1 => json!({"properties": {to(rng, at): small_or_type(rng)}}),
                _ => json!({"anyOf": [{"required": [to(rng, at)]}, {"maxProperties": 3}]}),
            };
            (format!("n{at}"), made)
        });
        schema.insert("dependentSchemas".to_owned(), needs);
    }
    if rng.bool() {
        let rules = list(rng, count, |rng, at| {
            json!({"if": {"properties": {format!("n{at}"): {"const": at}}, "required": [format!("n{at}")]},
                "then": {"required": [to(rng, at)]}, "else": {"properties": {to(rng, at): {"type": "null"}}}})
        });
        schema.insert("allOf".to_owned(), rules);
    }
    if rng.bool() {
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("additionalProperties".to_owned(), json!(rng.bool()));
        schema.insert("properties".to_owned(), map(rng, count, |_, at| (format!("n{at}"), json!({}))));
    }
    Value::Object(schema)
}

fn names(rng: &mut Rng) -> Value {
    let (patterned, declared) = (size(rng, 60), size(rng, 400));
    let mut schema = json!({
        "type": "object",
        "patternProperties": map(rng, patterned, |rng, at| {
            let letter = char::from(b'a' + (at % 26) as u8);
            let key = match rng.u32(..6) {
                0 => pattern(rng),
                1 => format!("{letter}.{{{}}}$", rng.u32(..10)),
                2 => format!("^(?!{letter})"),
                3 => format!("^.*{letter}.{{{at}}}"),
                _ => letter.to_string(),
            };
            (key, if rng.bool() { small_or_type(rng) } else { json!({"minLength": at}) })
        }),
        "properties": map(rng, declared, |rng, at| (format!("{}{at}", pick(rng, NAMES)), small_or_type(rng))),
    });
    if rng.bool() {
        schema["propertyNames"] = match rng.u32(..3) {
            0 => json!({"pattern": pattern(rng)}),
            1 => json!({"format": pick(rng, FORMATS)}),
            _ => json!({"anyOf": list(rng, 5, |rng, _| json!({"pattern": pattern(rng)}))}),
        };
    }
    match rng.u32(..4) {
        0 => schema["additionalProperties"] = json!(false),
        1 => schema["additionalProperties"] = small_or_type(rng),
        2 => schema["unevaluatedProperties"] = json!(false),
        _ => {}
    }
    match rng.u32(..4) {
        0 => schema["minProperties"] = count(rng),
        1 => schema["maxProperties"] = count(rng),
        2 => {
            schema["required"] =
                list(rng, declared / 2 + 1, |rng, at| json!(format!("{}{at}", pick(rng, NAMES))));
        }
        _ => {}
    }
    if rng.u32(..4) == 0 { json!({"allOf": [schema, {"not": names(rng)}]}) } else { schema }
}

fn unevaluated(rng: &mut Rng) -> Value {
    let (levels, count) = (size(rng, 6), size(rng, 80));
    let arrays = rng.u32(..3) == 0;
    let mut schema = json!({});
    for level in 0..levels {
        let keyword = pick(rng, &["anyOf", "oneOf", "allOf"]);
        let branches = list(rng, count, |rng, at| {
            if arrays {
                match rng.u32(..3) {
                    0 => json!({"prefixItems": list(rng, at % 5 + 1, |rng, _| small_or_type(rng))}),
                    1 => json!({"contains": small_or_type(rng)}),
                    _ => json!({"items": small_or_type(rng), "unevaluatedItems": false}),
                }
            } else {
                let name = format!("l{level}m{at}");
                match rng.u32(..4) {
                    0 => json!({"required": [name.clone()], "properties": {name: small_or_type(rng)}}),
                    1 => json!({"patternProperties": {pattern(rng): small_or_type(rng)}}),
                    2 => json!({"if": {"required": [name.clone()]}, "then": {"properties": {name: {}}}}),
                    _ => {
                        json!({"properties": {name: small_or_type(rng)}, "unevaluatedProperties": rng.bool()})
                    }
                }
            }
        });
        schema = json!({"allOf": [schema], keyword: branches});
    }
    schema[if arrays { "unevaluatedItems" } else { "unevaluatedProperties" }] = match rng.u32(..3) {
        0 => small_or_type(rng),
        _ => json!(false),
    };
    schema["type"] = json!(if arrays { "array" } else { "object" });
    if rng.u32(..3) == 0 { json!({"not": schema, "type": schema["type"].clone()}) } else { schema }
}

fn arrays(rng: &mut Rng) -> Value {
    let several = if rng.bool() { size(rng, 6) } else { size(rng, 300) };
    let rules = list(rng, several, |rng, at| {
        let mut rule = json!({"contains": match rng.u32(..4) {
            0 => json!({"minimum": at * 10, "maximum": at * 10 + rng.usize(..20)}),
            1 => json!({"const": at}),
            _ => small_or_type(rng),
        }});
        if rng.bool() {
            rule["minContains"] = count(rng);
        }
        if rng.bool() {
            rule["maxContains"] = count(rng);
        }
        rule
    });
    let mut schema = json!({"type": "array", "allOf": rules});
    if rng.bool() {
        schema["items"] = match rng.u32(..4) {
            0 => json!({"enum": list(rng, 200, |_, at| json!(at))}),
            1 => json!({"anyOf": list(rng, 6, |rng, _| small_or_type(rng))}),
            2 => json!({"type": ["integer", "string"]}),
            _ => small_or_type(rng),
        };
    }
    if rng.bool() {
        let length = size(rng, 300);
        schema["prefixItems"] = list(rng, length, |rng, _| small_or_type(rng));
    }
    if rng.bool() {
        schema["uniqueItems"] = json!(true);
    }
    if rng.bool() {
        schema["minItems"] = count(rng);
    }
    if rng.bool() {
        schema["maxItems"] = count(rng);
    }
    if rng.u32(..4) == 0 {
        schema["unevaluatedItems"] = json!(false);
    }
    schema
}

fn large_values(rng: &mut Rng) -> Value {
    let (values, width) = (size(rng, 5000), size(rng, 20));
    let large = |rng: &mut Rng, at: usize| match rng.u32(..3) {
        0 => map(rng, width, |rng, member| (format!("m{member}"), json!(at * rng.usize(..100)))),
        1 => list(rng, width, |rng, _| value(rng, 1)),
        _ => json!({"id": at, "name": format!("n{at}"), "list": [at, {"a": at}]}),
    };
    let values = list(rng, values, large);
    match rng.u32(..5) {
        0 => json!({"const": values}),
        1 => json!({"not": {"enum": values}}),
        2 => json!({"oneOf": [{"enum": values.clone()}, {"not": {"enum": values}}]}),
        3 => json!({"enum": values, "properties": {"id": {"minimum": 10}}, "minProperties": 2}),
        _ => json!({"enum": values}),
    }
}

fn long_strings(rng: &mut Rng) -> Value {
    let (total, count) = (size(rng, 900_000), size(rng, 400));
    let length = (total / count).max(1);
    let alike = rng.bool();
    let words = list(rng, count, |rng, at| {
        let unit = if alike { "ab" } else { pick(rng, &["ab", "é", "a\"", "xyz", "0"]) };
        let word = unit.repeat(length / unit.len());
        json!(if rng.bool() { format!("{word}{at}") } else { format!("{at}{word}") })
    });
    match rng.u32(..6) {
        0 => json!({"type": "string", "not": {"enum": words}}),
        1 => json!({"enum": words, "pattern": pattern(rng)}),
        2 => json!({"enum": words, "minLength": length}),
        3 => json!({"properties": {"a": {"const": words[0]}}, "required": [words[0]]}),
        4 => json!({"pattern": words[0], "maxLength": length * 2}),
        _ => json!({"enum": words}),
    }
}

fn patterns(rng: &mut Rng) -> Value {
    let count = size(rng, 40);
    let mut made = list(rng, count, |rng, at| {
        let letter = char::from(b'a' + (at % 26) as u8);
        let many = size(rng, 1000);
        let pattern = match rng.u32(..10) {
            0 => format!("^(.*{letter}){{{many}}}$"),
            1 => format!("{letter}.{{{}}}", many.min(60)),
            2 => format!("(?=.*{letter})(?=.{{{many}}}).*"),
            3 => format!("(?!.*{letter}.{{{}}})", many.min(30)),
            4 => format!("^(({letter}b{{0,{many}}}){{0,9}}c){{0,{}}}$", size(rng, 100)),
            5 => format!("(?<={letter}.{{{}}})b(?<!cd)", many.min(12)),
            6 => format!("^(?=(\\w{{1,{many}}}-?)+$)"),
            7 => format!("\\p{{L}}{{1,{many}}}\\P{{Lu}}?$"),
            8 => (0..many.min(60)).map(|at| format!("(?=.*{at})")).collect::<Vec<_>>().concat(),
            _ => pattern(rng),
        };
        json!({"pattern": pattern})
    });
    for rule in made.as_array_mut().into_iter().flatten() {
        match rng.u32(..6) {
            0 => *rule = json!({"not": rule.take()}),
            1 => rule["maxLength"] = mixed::count(rng),
            _ => {}
        }
    }
    json!({"type": "string", pick(rng, &["allOf", "anyOf", "oneOf", "allOf"]).to_string(): made})
}

fn formats(rng: &mut Rng) -> Value {
    let count = size(rng, 8);
    let rules = list(rng, count, |rng, _| {
        let mut rule = json!({"format": pick(rng, FORMATS)});
        if rng.bool() {
            rule["pattern"] = json!(pattern(rng));
        }
        if rng.u32(..3) == 0 {
            rule["maxLength"] = json!(size(rng, 5000));
        }
        if rng.u32(..3) == 0 {
            rule["minLength"] = json!(size(rng, 300));
        }
        if rng.u32(..4) == 0 { json!({"not": rule}) } else { rule }
    });
    match rng.u32(..3) {
        0 => json!({"propertyNames": {"allOf": rules}, "type": "object"}),
        1 => json!({"type": "string", "oneOf": rules}),
        _ => json!({"type": "string", "allOf": rules}),
    }
}

fn references(rng: &mut Rng) -> Value {
    let count = size(rng, 20_000);
    let to = |at: usize| json!({"$ref": format!("#/$defs/d{}", at % count)});
    let shape = rng.u32(..8);
    let (step, fan) = (rng.usize(1..50), size(rng, 6));
    let defs = map(rng, count, |rng, at| {
        let schema = match shape {
            0 if at + 1 < count => to(at + 1),
            1 => to(at + 1),
            2 if at + 1 < count => json!({"allOf": [to(at + 1), {"minimum": at}]}),
            3 => json!({"properties": {"a": to(at * 3 + 1), "b": to(at * 7 + step)}}),
            4 => json!({"anyOf": list(rng, fan, |_, by| to(at + by * step + 1))}),
            5 if at + 1 < count => json!({"not": to(at + 1)}),
            6 => {
                json!({"items": to(at + 1), "properties": {"x": {"allOf": list(rng, fan, |_, by| to(at * by + 1))}}})
            }
            7 => json!({"oneOf": [to(at + 1), to(at + step), {"type": "null"}], "items": to(at * 5 + 3)}),
            _ => json!({"type": "integer"}),
        };
        (format!("d{at}"), schema)
    });
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

fn dynamic(rng: &mut Rng) -> Value {
    let count = size(rng, 80);
    let defs = map(rng, count, |rng, at| {
        let schema = json!({
            "$id": format!("https://example.com/s{at}"),
            "$dynamicAnchor": "node",
            "$ref": format!("https://example.com/s{}", rng.usize(..count)),
            "properties": {"a": {"$dynamicRef": "#node"}, format!("b{at}"): {"$dynamicRef": "#node"}},
            "anyOf": [{"$ref": format!("https://example.com/s{}", (at + 1) % count)}, {"items": {"$dynamicRef": "#node"}}],
        });
        (format!("d{at}"), schema)
    });
    json!({"$id": "https://example.com/root", "$dynamicAnchor": "node", "$ref": "https://example.com/s0", "$defs": defs})
}

fn wrap(rng: &mut Rng, how: u32, inner: &Value, other: &Value) -> Value {
    match how {
        0 => json!({"allOf": [inner, other]}),
        1 => json!({"anyOf": [inner, other]}),
        2 => json!({"oneOf": [inner, other]}),
        3 => json!({"not": inner}),
        4 => json!({"if": inner, "then": other, "else": {"maxLength": 3}}),
        5 => json!({"properties": {"a": inner}, "required": ["a"]}),
        6 => json!({"items": inner}),
        7 => json!({"additionalProperties": inner}),
        8 => json!({"contains": inner}),
        9 => json!({"propertyNames": inner}),
        10 => json!({"patternProperties": {pick(rng, &["a", "^b", "c$"]).to_string(): inner}}),
        11 => json!({"dependentSchemas": {"a": inner}}),
        12 => json!({"prefixItems": [other, inner]}),
        13 => json!({"unevaluatedProperties": inner, "properties": {"b": other}}),
        14 => json!({"unevaluatedItems": inner, "prefixItems": [other]}),
        _ => json!({"properties": {"a": inner}, "unevaluatedProperties": false, "anyOf": [other, {}]}),
    }
}

fn nesting(rng: &mut Rng) -> Value {
    // The JSON parser rejects deeper nesting.
    let depth = if rng.u32(..5) == 0 { size(rng, 2000) } else { size(rng, 60) };
    let how = rng.u32(..20);
    (0..depth).fold(small_or_type(rng), |inner, _| {
        let how = if how < 16 { how } else { rng.u32(..16) };
        let other = if rng.u32(..3) == 0 { small_or_type(rng) } else { json!({"type": "null"}) };
        wrap(rng, how, &inner, &other)
    })
}

fn doubling(rng: &mut Rng) -> Value {
    let depth = size(rng, 10);
    let how = rng.u32(..20);
    (0..depth).fold(small_or_type(rng), |inner, _| {
        let how = if how < 16 { how } else { rng.u32(..16) };
        let other = if rng.bool() { inner.clone() } else { json!({"not": inner}) };
        wrap(rng, how, &inner, &other)
    })
}

fn huge(rng: &mut Rng) -> Value {
    let large = |rng: &mut Rng| json!(size(rng, 4_000_000_000));
    let mut schema = json!({"type": pick(rng, &["string", "array", "object"])});
    for name in ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"] {
        if rng.u32(..3) == 0 {
            schema[name] = large(rng);
        }
    }
    if rng.bool() {
        schema["pattern"] = json!(pattern(rng));
    }
    if rng.u32(..3) == 0 {
        schema["uniqueItems"] = json!(true);
    }
    if rng.u32(..3) == 0 {
        schema["contains"] = small_or_type(rng);
        schema["minContains"] = large(rng);
    }
    if rng.bool() {
        schema["items"] = if rng.bool() { small_or_type(rng) } else { huge(rng) };
    }
    if rng.u32(..3) == 0 {
        schema["additionalProperties"] = if rng.bool() { small_or_type(rng) } else { huge(rng) };
    }
    if rng.u32(..3) == 0 {
        schema["propertyNames"] = json!({"minLength": large(rng)});
    }
    if rng.u32(..5) == 0 { json!({"not": schema}) } else { schema }
}

fn members(rng: &mut Rng) -> Value {
    let count = size(rng, 20_000);
    let mut schema = json!({
        "type": "object",
        "properties": map(rng, count, |rng, at| (format!("property{at}"), match rng.u32(..3) {
            0 => json!({}),
            1 => json!({"type": "integer", "minimum": at}),
            _ => json!({"enum": [at, "a"]}),
        })),
    });
    match rng.u32(..3) {
        0 => schema["required"] = list(rng, count, |_, at| json!(format!("property{at}"))),
        1 => schema["required"] = list(rng, count / 2 + 1, |_, at| json!(format!("property{}", at * 2))),
        _ => {}
    }
    match rng.u32(..4) {
        0 => schema["minProperties"] = json!(count / 2),
        1 => schema["maxProperties"] = json!(count / 2),
        _ => {}
    }
    match rng.u32(..4) {
        0 => schema["additionalProperties"] = json!(false),
        1 => schema["patternProperties"] = json!({pattern(rng): small_or_type(rng)}),
        2 => schema["propertyNames"] = json!({"pattern": pattern(rng)}),
        _ => {}
    }
    if rng.u32(..4) == 0 {
        let few = size(rng, 20);
        schema["anyOf"] =
            list(rng, few, |rng, _| json!({"required": [format!("property{}", rng.usize(..count))]}));
    }
    schema
}

fn chains(rng: &mut Rng) -> Value {
    let depth = size(rng, 60);
    (0..depth).fold(small_or_type(rng), |inner, at| {
        let mut schema =
            json!({"additionalProperties": inner, "properties": {format!("p{at}"): small_or_type(rng)}});
        if rng.u32(..3) == 0 {
            schema["minProperties"] = count(rng);
        }
        if rng.u32(..3) == 0 {
            schema = json!({"allOf": [schema, {"additionalProperties": small_or_type(rng)}]});
        }
        schema
    })
}

fn negations(rng: &mut Rng) -> Value {
    let count = size(rng, 60);
    let rules = list(rng, count, |rng, at| {
        let one = family(rng);
        let mut inner = branch(rng, one, at, 0);
        for (name, value) in branch(rng, one, at, 1).as_object().into_iter().flatten() {
            inner[name] = value.clone();
        }
        if inner.is_object() && rng.bool() {
            inner["properties"] = json!({format!("p{at}"): {"type": "null"}, "q": {"minimum": at}});
        }
        json!({"not": inner})
    });
    match rng.u32(..3) {
        0 => json!({"type": "object", "allOf": rules}),
        1 => json!({"not": {"anyOf": rules}}),
        _ => json!({"allOf": rules}),
    }
}
