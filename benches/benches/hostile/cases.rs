//! The adversarial set: grammars and schemas designed to exhaust time or memory.

#![expect(clippy::format_collect, reason = "these texts are made before the clock starts")]

use anyhow::{Context, Result};
use formwork_grammar::{Grammar, GrammarError, Limits, SchemaOptions};
use serde_json::{Value, json};

/// A hostile input.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) source: Source,
}

#[derive(Clone)]
pub(crate) enum Source {
    Gbnf(String),
    Regex(String),
    Schema(Value),
    Choices(Vec<String>),
}

impl Source {
    pub(crate) fn compile(&self) -> Result<Grammar, GrammarError> {
        let limits = Limits::default();
        match self {
            Self::Gbnf(source) => Grammar::gbnf(source, &limits),
            Self::Regex(pattern) => Grammar::regex(pattern, &limits),
            Self::Schema(schema) => Grammar::json_schema(schema, &SchemaOptions::accept(), &limits),
            Self::Choices(choices) => Grammar::choices(choices, &limits),
        }
    }

    /// Encodes the source as a letter for its kind, followed by the text.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Gbnf(source) => format!("g{source}").into_bytes(),
            Self::Regex(pattern) => format!("r{pattern}").into_bytes(),
            Self::Schema(schema) => format!("s{schema}").into_bytes(),
            Self::Choices(choices) => format!("c{}", choices.join("\n")).into_bytes(),
        }
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (kind, text) = std::str::from_utf8(bytes)?.split_at_checked(1).context("no kind")?;
        Ok(match kind {
            "g" => Self::Gbnf(text.to_owned()),
            "r" => Self::Regex(text.to_owned()),
            "s" => Self::Schema(serde_json::from_str(text)?),
            _ => Self::Choices(text.lines().map(str::to_owned).collect()),
        })
    }
}

/// Returns all cases.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: &str, source| cases.push(Case { name: name.to_owned(), source });
    for (name, source) in gbnf() {
        add(name, Source::Gbnf(source));
    }
    for (name, pattern) in regexes() {
        add(name, Source::Regex(pattern));
    }
    for (name, pattern) in patterns() {
        add(name, Source::Schema(json!({"type": "string", "pattern": pattern})));
    }
    for (name, schema) in
        products().into_iter().chain(nests()).chain(objects()).chain(sizes()).chain(mixtures())
    {
        add(name, Source::Schema(schema));
    }
    let choices = (0..20_000).map(|number| format!("choice number {number}")).collect();
    add("choices: 20,000", Source::Choices(choices));
    cases
}

type Named<T> = Vec<(&'static str, T)>;

fn gbnf() -> Named<String> {
    let doubling = |levels: usize| {
        let rules = (0..levels).map(|level| format!("a{level} ::= a{} a{}\n", level + 1, level + 1));
        format!("root ::= a0\n{}a{levels} ::= \"x\"\n", rules.collect::<String>())
    };
    let chain: String = (0..20_000).map(|at| format!("r{at} ::= \"a\" | r{}\n", at + 1)).collect();
    let many: String = (0..20_000).map(|at| format!(" | \"{at}\" r")).collect();
    vec![
        ("gbnf: {0,1000} of {0,1000}", "root ::= (\"a\"{0,1000}){0,1000}".into()),
        ("gbnf: {0,100} three deep", "root ::= ((\"ab\"{0,100}){0,100}){0,100}".into()),
        ("gbnf: {0,10} six deep", "root ::= ((((([a-z]{0,10}){0,10}){0,10}){0,10}){0,10}){0,10}".into()),
        ("gbnf: {1000000} of {1000000}", "root ::= (\"\"{1000000}){1000000}".into()),
        ("gbnf: [a-z]{1000000}", "root ::= [a-z]{1000000}".into()),
        ("gbnf: .{0,1000000}", "root ::= .{0,1000000}".into()),
        ("gbnf: .{0,20000}", "root ::= .{0,20000}".into()),
        ("gbnf: ([a-z]?){0,5000}", "root ::= ([a-z]?){0,5000}".into()),
        ("gbnf: (\" \"? [a-z]?){0,1000}", "root ::= (\" \"? [a-z]?){0,1000}".into()),
        ("gbnf: optional parts", "root ::= (\"a\"? (\"\"?){0,119}){0,5600}".into()),
        ("gbnf: (a|a)*", "root ::= (\"a\" | \"a\")*".into()),
        ("gbnf: ((a*)*)*", "root ::= ((\"a\"*)*)*".into()),
        ("gbnf: 60,000 parentheses", format!("root ::= {}\"a\"{}", "(".repeat(60_000), ")".repeat(60_000))),
        ("gbnf: 60,000 stars", format!("root ::= \"a\"{}", "*".repeat(60_000))),
        ("gbnf: 2^40 letters", doubling(40)),
        ("gbnf: 2^15 letters", doubling(15)),
        ("gbnf: chain of 20,000 rules", format!("root ::= r0\n{chain}r20000 ::= \"b\"\n")),
        ("gbnf: 20,000 alternatives", format!("root ::= r\nr ::= \"x\"{many}\n")),
        ("gbnf: e+e", "root ::= e\ne ::= e \"+\" e | e \"*\" e | [0-9]+ | \"(\" e \")\"".into()),
        ("gbnf: a ::= a a | a", "root ::= a\na ::= a a | a | \"x\" | \"\"".into()),
        ("gbnf: S ::= S S S | x", "root ::= s\ns ::= s s s | s s | \"x\"".into()),
        ("gbnf: hidden left recursion", "root ::= n root \"a\" | \"b\"\nn ::= \"\" | n n".into()),
        ("gbnf: 16 MB of comment", format!("root ::= \"a\"\n{}", "# no\n".repeat(3_000_000))),
        ("gbnf: literal of 24,000 \u{e9}", format!("root ::= \"{}\"", "\u{e9}".repeat(24_000))),
        ("gbnf: 5,000 rules around each other", {
            let around: String =
                (0..5000).map(|at| format!("r{at} ::= \"a\"? r{} \"b\"?\n", at + 1)).collect();
            format!("root ::= r0\n{around}r5000 ::= \"c\"\n")
        }),
        ("gbnf: 200 schemas side by side", {
            let names: Vec<String> = (0..200).map(|at| format!("s{at}")).collect();
            let rules = (0..200).map(|at| format!("s{at} ::= %json {{\"multipleOf\": {}}}\n", 2 * at + 1));
            format!("root ::= {}\n{}", names.join(" | "), rules.collect::<String>())
        }),
        ("gbnf: 1 MB literal", format!("root ::= \"{}\"", "a".repeat(1 << 20))),
    ]
}

fn regexes() -> Named<String> {
    vec![
        ("regex: (a{0,1000}){0,1000}", "(a{0,1000}){0,1000}".into()),
        ("regex: ((a{0,100}){0,100}){0,100}", "((a{0,100}){0,100}){0,100}".into()),
        ("regex: (.*a){20}", "(.*a){20}".into()),
        ("regex: .*a.{20}", ".*a.{20}".into()),
        ("regex: (a|a)*", "(a|a)*".into()),
        ("regex: (a?){1000}a{1000}", "(a?){1000}a{1000}".into()),
        (r"regex: (\w+\s*)+$", r"(\w+\s*)+$".into()),
        (r"regex: \pL{1,300}", r"\pL{1,300}".into()),
        (r"regex: \w{1000}", r"\w{1000}".into()),
        (r"regex: (\w?){1000}", r"(\w?){1000}".into()),
        ("regex: 60,000 parentheses", format!("{}a{}", "(".repeat(60_000), ")".repeat(60_000))),
        ("regex: 20,000 words", (0..20_000).map(|at| format!("word{at}|")).collect::<String>() + "end"),
        ("regex: 1 MB", "ab".repeat(1 << 19)),
    ]
}

fn patterns() -> Named<String> {
    vec![
        ("pattern: (.*a){20}", "^(.*a){20}$".into()),
        ("pattern: (.*a){200}", "^(.*a){200}$".into()),
        ("pattern: .*a.{20}", "^.*a.{20}$".into()),
        ("pattern: a.{40}b", "a.{40}b".into()),
        ("pattern: (a{0,1000}){0,1000}", "^(a{0,1000}){0,1000}$".into()),
        ("pattern: (ab{0,1000}){0,1000}", "^(ab{0,1000}){0,1000}$".into()),
        ("pattern: ((ab{0,100}){0,100}){0,100}", "^((ab{0,100}c){0,100}d){0,100}$".into()),
        ("pattern: (a?){1000}a{1000}", "^(a?){1000}a{1000}$".into()),
        ("pattern: (a|a)*", "^(a|a)*$".into()),
        ("pattern: (a|aa)+$", "^(a|aa)+$".into()),
        ("pattern: a{100000}", "^a{100000}$".into()),
        ("pattern: look-ahead x20", (0..20).map(|at| format!("(?=.*{at})")).collect::<String>() + ".*"),
        ("pattern: look-aheads of letters", ('a'..='p').map(|c| format!("(?=.*{c})")).collect()),
        ("pattern: 20,000 words", (0..20_000).map(|at| format!("word{at}|")).collect::<String>() + "end"),
        ("pattern: 60,000 parentheses", format!("{}a{}", "(".repeat(60_000), ")".repeat(60_000))),
        (r"pattern: (\w+\s?)+\d{50}", r"^(\w+\s?)+\d{50}$".into()),
        (r"pattern: \p{L}{1,2000}", r"^\p{L}{1,2000}$".into()),
        ("pattern: ((a|b)*c){50}", "^((a|b)*c(a|d)*){50}$".into()),
        ("pattern: nested counts", "^((((a{1,9}b){1,9}c){1,9}d){1,9}e){1,9}$".into()),
    ]
}

/// Returns schemas with combinations of choices that multiply.
fn products() -> Named<Value> {
    let two = |at: usize| json!([{"required": [format!("a{at}")]}, {"required": [format!("b{at}")]}]);
    let any = |keyword: &str, count| json!({"allOf": (0..count).map(|at| json!({keyword: two(at)})).collect::<Vec<_>>()});
    let member = |at: usize| json!({"properties": {format!("p{at}"): {"type": "integer"}}});
    let other = |at: usize| json!({"properties": {format!("p{at}"): {"type": "string"}}});
    let independent: Vec<_> = (0..40).map(|at| json!({"anyOf": [member(at), other(at)]})).collect();
    let scalars: Vec<_> = (0..40).map(|at| json!({"anyOf": [{"minimum": at}, {"maximum": -at}]})).collect();
    let ones = (0..200).map(|at| json!({"properties": {"a": {"minimum": at}}})).collect::<Vec<_>>();
    let not = (0..12)
        .map(|at| json!({"not": {"properties": {format!("p{at}"): {"type": "null"}, "q": {"minimum": at}}}}));
    vec![
        ("schema: anyOf of required x20", any("anyOf", 20)),
        ("schema: oneOf of required x20", any("oneOf", 20)),
        ("schema: anyOf of required x12", any("anyOf", 12)),
        ("schema: anyOf of members x40", json!({"type": "object", "allOf": independent})),
        ("schema: anyOf of bounds x40", json!({"type": "number", "allOf": scalars})),
        ("schema: oneOf of 200 overlapping", json!({"oneOf": ones})),
        ("schema: not x12", json!({"type": "object", "allOf": not.collect::<Vec<_>>()})),
        (
            "schema: if/then/else x30",
            json!({"allOf": (0..30).map(|at| json!({
            "if": {"properties": {format!("k{at}"): {"const": at}}, "required": [format!("k{at}")]},
            "then": {"required": [format!("a{at}")]}, "else": {"required": [format!("b{at}")]},
        })).collect::<Vec<_>>()}),
        ),
        (
            "schema: dependentRequired x30",
            json!({"dependentRequired": (0..30)
            .map(|at| (format!("a{at}"), json!([format!("b{at}")])))
            .collect::<serde_json::Map<_, _>>()}),
        ),
    ]
}

/// Returns deeply nested schemas.
fn nests() -> Named<Value> {
    let nest = |depth: usize, wrap: &dyn Fn(Value) -> Value| {
        (0..depth).fold(json!({"type": "integer"}), |inner, _| wrap(inner))
    };
    let refs: serde_json::Map<_, _> = (0..5000)
        .map(|at| (format!("d{at}"), json!({"$ref": format!("#/$defs/d{}", at + 1)})))
        .chain([("d5000".to_owned(), json!({"type": "null"}))])
        .collect();
    let cycle: serde_json::Map<_, _> = (0..1000)
        .map(|at| (format!("d{at}"), json!({"$ref": format!("#/$defs/d{}", (at + 1) % 1000)})))
        .collect();
    let tangle: serde_json::Map<_, _> = (0..30)
        .map(|at| {
            let to = |by: usize| json!({"$ref": format!("#/$defs/d{}", (at * by + 1) % 30)});
            let members = json!({"a": to(3), "b": to(7), "c": to(11), "d": {"allOf": [to(13), to(17)]}});
            (format!("d{at}"), json!({"type": "object", "properties": members}))
        })
        .collect();
    vec![
        ("schema: allOf 60 deep", nest(60, &|inner| json!({"allOf": [inner]}))),
        ("schema: not 120 deep", nest(120, &|inner| json!({"not": inner}))),
        (
            "schema: not of two 30 deep",
            nest(30, &|inner| json!({"not": {"allOf": [inner, {"not": {"type": "string"}}]}})),
        ),
        (
            "schema: if 60 deep",
            nest(60, &|inner| json!({"if": inner, "then": {"minimum": 1}, "else": {"maxLength": 3}})),
        ),
        (
            "schema: if/then/else tree 9 deep",
            nest(9, &|inner| json!({"if": inner, "then": {"not": inner}, "else": inner})),
        ),
        (
            "schema: properties 60 deep",
            nest(60, &|inner| json!({"properties": {"a": inner}, "required": ["a"]})),
        ),
        (
            "schema: anyOf of both 9 deep",
            nest(
                9,
                &|inner| json!({"anyOf": [{"items": inner}, {"items": {"anyOf": [inner, {"type": "null"}]}}]}),
            ),
        ),
        ("schema: chain of 5,000 refs", json!({"$ref": "#/$defs/d0", "$defs": refs})),
        ("schema: cycle of 1,000 refs", json!({"$ref": "#/$defs/d0", "$defs": cycle})),
        ("schema: cycle through not", json!({"not": {"$ref": "#"}})),
        ("schema: cycle through anyOf", json!({"anyOf": [{"$ref": "#"}, {"type": "null"}]})),
        ("schema: tangled refs", json!({"$ref": "#/$defs/d1", "$defs": tangle})),
        (
            "schema: nested ambiguous anyOf",
            json!({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, "x": {"type": "null"}}},
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, "y": {"type": "null"}}},
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, "z": {"type": "null"}}}]}}}),
        ),
    ]
}

/// Returns schemas with many names, members and items.
fn objects() -> Named<Value> {
    let properties = |count: usize| -> serde_json::Map<_, _> {
        (0..count).map(|at| (format!("property{at}"), json!({"type": "integer", "minimum": at}))).collect()
    };
    let required: Vec<_> = (0..5000).map(|at| format!("property{at}")).collect();
    let overlaps: serde_json::Map<_, _> =
        ('a'..='t').map(|c| (c.to_string(), json!({"minLength": c as u32}))).collect();
    let counted: serde_json::Map<_, _> =
        ('a'..='h').map(|c| (format!("{c}.{{8}}$"), json!({"type": "string"}))).collect();
    let contains = |at: usize, min: usize| json!({"contains": {"minimum": at * 10, "maximum": at * 10 + 15}, "minContains": min, "maxContains": min + 3});
    let counts = |min| (0..4).map(|at| contains(at, min)).collect::<Vec<_>>();
    let uniform = |count: usize| json!({"type": "object", "properties": (0..count).map(|at| (format!("p{at}"), json!({}))).collect::<serde_json::Map<_, _>>(), "additionalProperties": false, "minProperties": count / 2});
    vec![
        ("schema: 5,000 properties", json!({"type": "object", "properties": properties(5000)})),
        (
            "schema: 5,000 required properties",
            json!({"type": "object", "properties": properties(5000), "required": required}),
        ),
        ("schema: 50,000 properties", json!({"type": "object", "properties": properties(50_000)})),
        ("schema: 2,000 properties, half needed", uniform(2000)),
        (
            "schema: 20 patternProperties",
            json!({"patternProperties": overlaps, "additionalProperties": false}),
        ),
        ("schema: 8 counted patternProperties", json!({"patternProperties": counted})),
        ("schema: contains x4", json!({"type": "array", "items": {"type": "integer"}, "allOf": counts(2)})),
        (
            "schema: contains x4, ten each",
            json!({"type": "array", "items": {"type": "integer"}, "allOf": counts(10)}),
        ),
        (
            "schema: contains x4, 1,000 each",
            json!({"type": "array", "items": {"type": "integer"}, "allOf": counts(1000)}),
        ),
        ("schema: minContains 4,000", json!({"contains": {"type": "null"}, "minContains": 4000})),
        (
            "schema: prefixItems 5,000",
            json!({"type": "array", "prefixItems": (0..5000).map(|at| json!({"const": at})).collect::<Vec<_>>(), "minItems": 5000}),
        ),
        (
            "schema: prefixItems 20,000, contains",
            json!({"type": "array", "prefixItems": vec![json!({"type": "integer"}); 20_000], "contains": {"const": 3}}),
        ),
    ]
}

/// Returns schemas with large bounds, and very large schemas.
fn sizes() -> Named<Value> {
    let words = |len: usize| (0..(1 << 20) / len).map(|at| format!("{at:0len$}")).collect::<Vec<_>>();
    let numbers: Vec<_> = (0..100_000).map(|at| at * 7919).collect();
    let objects: Vec<_> = (0..20_000).map(|at| json!({"id": at, "name": format!("n{at}")})).collect();
    let primes = [2, 3, 5, 7, 11, 13, 17, 19, 23].map(|prime| json!({"multipleOf": prime}));
    let formats = ["date-time", "uri", "email", "hostname", "uuid"].map(|format| json!({"format": format}));
    let no_formats = formats.clone().map(|format| json!({"not": format}));
    vec![
        ("schema: enum of 1 MB, long words", json!({"enum": words(1000)})),
        ("schema: enum of 1 MB, short words", json!({"enum": words(10)})),
        ("schema: enum of one 1 MB word", json!({"const": "a".repeat(1 << 20)})),
        ("schema: enum of 100,000 numbers", json!({"enum": numbers})),
        ("schema: enum of 20,000 objects", json!({"enum": objects})),
        ("schema: not enum of 1 MB", json!({"type": "string", "not": {"enum": words(10)}})),
        ("schema: maxLength 100", json!({"type": "string", "maxLength": 100})),
        ("schema: maxLength 1000000", json!({"type": "string", "maxLength": 1_000_000})),
        (
            "schema: pattern, maxLength 1000000",
            json!({"type": "string", "pattern": "^[a-z]+( [a-z]+)*$", "maxLength": 1_000_000}),
        ),
        ("schema: minLength 50000", json!({"type": "string", "minLength": 50_000})),
        ("schema: minLength 100000000", json!({"type": "string", "minLength": 100_000_000})),
        (
            "schema: minItems 100000000",
            json!({"items": {"type": "integer"}, "minItems": 100_000_000, "type": "array"}),
        ),
        (
            "schema: maxItems 1000000",
            json!({"items": {"type": "integer"}, "maxItems": 1_000_000, "type": "array"}),
        ),
        ("schema: bounds of 300 digits", json!({"type": "integer", "minimum": 1e300, "maximum": 1e308})),
        ("schema: multipleOf 1e-300", json!({"type": "number", "multipleOf": 1e-300})),
        ("schema: multipleOf 999983", json!({"type": "integer", "multipleOf": 999_983})),
        ("schema: multipleOf of primes", json!({"type": "integer", "allOf": primes})),
        ("schema: formats together", json!({"type": "string", "allOf": formats})),
        ("schema: not of formats", json!({"type": "string", "allOf": no_formats})),
        (
            "schema: 120 arrays in a const",
            json!({"const": (0..120).fold(json!(0), |inner, _| json!([inner]))}),
        ),
    ]
}

/// Returns schemas whose keywords multiply the requirements of other keywords.
fn mixtures() -> Named<Value> {
    let list = |count: usize, make: &dyn Fn(usize) -> Value| (0..count).map(make).collect::<Vec<_>>();
    let map = |count: usize, make: &dyn Fn(usize) -> (String, Value)| {
        (0..count).map(make).collect::<serde_json::Map<_, _>>()
    };
    let primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47];
    let decimals = ["0.1", "0.03", "0.007", "1.1", "0.0013", "1e-17"]
        .map(|divisor| json!({"multipleOf": serde_json::from_str::<Value>(divisor).unwrap_or_default()}));
    let reference = |at: usize| json!({"$ref": format!("#/$defs/d{}", at % 500)});
    vec![
        (
            "schema: oneOf of multiples x15",
            json!({"type": "integer", "oneOf": primes.map(|prime| json!({"multipleOf": prime}))}),
        ),
        (
            "schema: not of multiples x15",
            json!({"type": "integer", "allOf": primes.map(|prime| json!({"not": {"multipleOf": prime}}))}),
        ),
        ("schema: decimals together", json!({"type": "number", "allOf": decimals, "minimum": -1e200})),
        (
            "schema: anyOf of multiples and bounds x100",
            json!({"type": "number", "allOf": list(100, &|at| json!({"anyOf": [
                {"multipleOf": primes[at % 15]}, {"minimum": at, "maximum": 1e18}]}))}),
        ),
        (
            "schema: if/then chain x300",
            json!({"allOf": list(300, &|at| json!({
                "if": {"properties": {format!("n{at}"): {"const": at}}, "required": [format!("n{at}")]},
                "then": {"required": [format!("n{}", at + 1)]},
                "else": {"properties": {format!("n{}", at + 1): {"type": "null"}}}}))}),
        ),
        (
            "schema: dependentSchemas x300",
            json!({"dependentSchemas": map(300, &|at| (format!("n{at}"), json!({"anyOf": [
                {"required": [format!("n{}", at * 7 % 300)]}, {"maxProperties": 3}]})))}),
        ),
        (
            "schema: patternProperties, propertyNames and names",
            json!({
                "patternProperties": map(26, &|at| {
                    let letter = char::from(b'a' + at as u8);
                    (format!("{letter}.{{{at}}}$"), json!({"minLength": at}))
                }),
                "propertyNames": {"pattern": "^(?=.{2,40}$)(.*[aeiou]){3}"},
                "properties": map(300, &|at| (format!("a{at}e"), json!({"type": "integer"}))),
                "unevaluatedProperties": false}),
        ),
        ("schema: propertyNames of itself", json!({"propertyNames": {"$ref": "#"}})),
        (
            "schema: unevaluatedProperties over anyOf x60",
            json!({"anyOf": list(60, &|at| json!({"properties": {format!("p{at}"): {}}, "required": [format!("p{at}")]})),
                "unevaluatedProperties": false}),
        ),
        (
            "schema: unevaluatedItems over contains x8",
            json!({"anyOf": list(8, &|at| json!({"contains": {"const": at}})), "unevaluatedItems": {"type": "null"}}),
        ),
        (
            "schema: contains, uniqueItems, minItems",
            json!({"type": "array", "uniqueItems": true, "minItems": 50, "items": {"enum": list(60, &|at| json!(at))},
                "allOf": [{"contains": {"minimum": 30}, "minContains": 20}]}),
        ),
        (
            "schema: not enum of 2,000 objects",
            json!({"not": {"enum": list(2000, &|at| json!({"id": at, "list": [at, {"a": "x"}]}))}}),
        ),
        (
            "schema: required name of 500 KB",
            json!({"properties": {"a".repeat(500_000): {"const": "b".repeat(400_000)}}, "required": ["a".repeat(500_000)]}),
        ),
        (
            "schema: format beside pattern and length",
            json!({"type": "string", "format": "email", "pattern": "^[a-z]{1,60}@.{3,90}\\.(com|org)$",
                "maxLength": 120, "not": {"format": "idn-email", "pattern": "a.{12}b"}}),
        ),
        (
            "schema: allOf of refs in cycles",
            json!({"$ref": "#/$defs/d0", "$defs": map(500, &|at| {
                let all = list(4, &|by| reference(at * by + 1));
                (format!("d{at}"), json!({"items": reference(at + 1), "properties": {"x": {"allOf": all}}}))
            })}),
        ),
        (
            "schema: 20,000 definitions in a chain",
            json!({"$ref": "#/$defs/d0", "$defs": map(20_000, &|at| (format!("d{at}"),
                if at + 1 < 20_000 { json!({"$ref": format!("#/$defs/d{}", at + 1)}) } else { json!({"minimum": 0}) }))}),
        ),
        (
            "schema: $dynamicRef x60",
            json!({"$id": "https://example.com/root", "$dynamicAnchor": "node", "$ref": "s0", "$defs": map(60, &|at| {
                let next = format!("s{}", (at + 1) % 60);
                (format!("d{at}"), json!({"$id": format!("s{at}"), "$dynamicAnchor": "node",
                    "properties": {format!("a{at}"): {"$dynamicRef": "#node"}}, "anyOf": [{"$ref": next}, {"items": {"$dynamicRef": "#node"}}]}))
            })}),
        ),
        (
            "schema: additionalProperties 100 deep",
            (0..100).fold(json!({"type": "integer"}), |inner, at| json!({
                "additionalProperties": inner, "properties": {format!("p{at}"): {"enum": [at]}}, "minProperties": 2})),
        ),
    ]
}
