//! Compares the JSON machine with the slow reference, byte by byte.

use std::sync::Arc;

use formwork_grammar::{Constraint, Grammar, Limits, Matcher, SchemaOptions, Undeclared};
use formwork_model::{Model, OpenOptions};
use formwork_tests::random::{self, Random};
use formwork_tests::reference::json_schema::{Reference, Style};
use formwork_vocab::{TokenId, Vocabulary};
use serde_json::{Value, json};

/// Number of random schemas; less than half of them are satisfiable.
const SCHEMAS: u64 = 40;

const WORDS: [&str; 9] = ["", "a", "ab", "abc", "b", "é", "ê", "a\n", "\u{1}\"/"];
const BYTES: &[u8] = b"{}[]\",: \n-.0123456789eE+abcdefnrtu\\/lsz\x01\xc3\xa9\xaa\xf0\x9f\x98\x80\xed\t";

fn scalar(random: &mut Random) -> Value {
    match random.below(5) {
        0 => Value::Null,
        1 => (random.below(2) == 0).into(),
        2 => (random.below(40) as i64 - 20).into(),
        3 => ((random.below(40) as f64 - 20.0) / 2.0).into(),
        _ => (*random.pick(&WORDS)).into(),
    }
}

fn leaf(random: &mut Random) -> Value {
    match random.below(12) {
        0 => json!(true),
        1 => json!(false),
        2 => json!({"type": ["null", "boolean"]}),
        3 | 4 => number(random),
        5 | 6 => {
            let mut schema = json!({"type": "string", "minLength": random.below(3)});
            if random.below(2) == 0 {
                schema["maxLength"] = random.below(4).into();
            }
            schema
        }
        7 | 8 => {
            let count = 1 + random.below(3);
            json!({"enum": (0..count).map(|_| scalar(random)).collect::<Vec<_>>()})
        }
        9 => json!({"const": [scalar(random), {"a": scalar(random)}]}),
        10 => json!({"$ref": "#/$defs/other"}),
        _ => json!({"$ref": "#"}),
    }
}

fn number(random: &mut Random) -> Value {
    let mut schema = json!({"type": *random.pick(&["integer", "number"])});
    for name in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
        if random.below(4) == 0 {
            let halves = random.below(40) as i64 - 20;
            schema[name] = if halves % 2 == 0 { (halves / 2).into() } else { (halves as f64 / 2.0).into() };
        }
    }
    if random.below(6) == 0 {
        schema["multipleOf"] = random.pick(&[json!(2), json!(3.0), json!(7), json!(0.5)]).clone();
    }
    schema
}

fn schema(random: &mut Random, depth: usize) -> Value {
    let kind = if depth == 0 { 9 } else { random.below(10) };
    match kind {
        0 | 1 => {
            let mut array = json!({"type": "array", "minItems": random.below(3)});
            if random.below(2) == 0 {
                let count = 1 + random.below(2);
                array["prefixItems"] = (0..count).map(|_| schema(random, depth - 1)).collect();
            }
            if random.below(3) > 0 {
                array["items"] = schema(random, depth - 1);
            }
            if random.below(2) == 0 {
                array["maxItems"] = random.below(4).into();
            }
            array
        }
        2..=4 => object(random, depth),
        5 | 6 => {
            let count = 1 + random.below(3);
            json!({"anyOf": (0..count).map(|_| schema(random, depth - 1)).collect::<Vec<_>>()})
        }
        7 => {
            let count = 1 + random.below(2);
            json!({"allOf": (0..count).map(|_| schema(random, depth - 1)).collect::<Vec<_>>()})
        }
        8 => {
            let (mut one, other) = (schema(random, depth - 1), schema(random, depth - 1));
            if let Value::Object(map) = &mut one {
                map.insert("anyOf".to_owned(), json!([other, {"type": "null"}]));
            }
            one
        }
        _ => leaf(random),
    }
}

fn object(random: &mut Random, depth: usize) -> Value {
    let mut object = json!({"type": "object", "properties": {}});
    let mut required: Vec<&str> = Vec::new();
    for _ in 0..random.below(4) {
        let name = *random.pick(&WORDS);
        object["properties"][name] = schema(random, depth - 1);
    }
    for _ in 0..random.below(3) {
        let name = *random.pick(&WORDS);
        if !required.contains(&name) {
            required.push(name);
        }
    }
    object["required"] = required.into();
    let closed = random.below(2) == 0;
    if closed {
        object["additionalProperties"] = false.into();
    } else if random.below(2) == 0 {
        object["additionalProperties"] = schema(random, depth - 1);
    }
    object["minProperties"] = random.below(4).into();
    if random.below(3) == 0 {
        object["maxProperties"] = random.below(4).into();
    }
    object
}

/// Generates a random schema that can be the target of references.
fn root_schema(random: &mut Random) -> Value {
    let mut root = schema(random, 3);
    if !root.is_object() {
        root = json!({"allOf": [root]});
    }
    root["$defs"] = json!({"other": leaf(random)});
    root
}

/// Returns the options of the reference, which allow undeclared members.
fn open() -> SchemaOptions {
    SchemaOptions { undeclared: Undeclared::Allow, ..SchemaOptions::default() }
}

/// Compares masks along random outputs of random schemas with `expected`, which judges one token
/// after the text so far. Returns the number of compared masks.
fn compare_masks(
    vocabulary: &Arc<Vocabulary>,
    random: &mut Random,
    pairs: usize,
    expected: impl Fn(&Reference, &mut Matcher, &[u8], TokenId) -> bool,
) -> usize {
    let mut compared = 0;
    while compared < pairs {
        let schema = root_schema(random);
        let Ok(grammar) = Grammar::json_schema(&schema, &open(), &Limits::default()) else { continue };
        let reference = Reference::new(&schema, Style::Generate);
        let mut matcher = Constraint::new(&grammar, Arc::clone(vocabulary))
            .expect("every token is in the vocabulary")
            .matcher();
        let mut text = Vec::new();
        for _ in 0..5 {
            let mask = matcher.mask();
            for token in vocabulary.ids().filter(|&token| vocabulary.kind(token).is_text()) {
                let allowed = expected(&reference, &mut matcher, &text, token);
                let bytes = String::from_utf8_lossy(vocabulary.bytes(token));
                assert_eq!(mask.contains(token), allowed, "token {bytes:?} after {text:?} in {schema}");
            }
            compared += 1;
            let allowed: Vec<TokenId> = mask.iter().filter(|&token| !vocabulary.is_end(token)).collect();
            if allowed.is_empty() || text.len() > 12 {
                break;
            }
            let token = *random.pick(&allowed);
            matcher.commit(token).expect("in the mask");
            text.extend_from_slice(vocabulary.bytes(token));
        }
    }
    compared
}

#[test]
fn masks_equal_the_reference() {
    let mut random = Random::new(8);
    let vocabulary = Arc::new(random::vocabulary(&mut random));
    let words = Arc::clone(&vocabulary);
    compare_masks(&vocabulary, &mut random, 400, move |reference, _, text, token| {
        reference.judge(&[text, words.bytes(token)].concat()).viable
    });
}

/// Tries each token alone, byte by byte and without the trie. On real tokenizers the reference
/// would take minutes per mask.
#[test]
fn masks_equal_single_tokens_on_real_tokenizers() {
    let pairs = std::env::var("FORMWORK_TEST_PAIRS").ok().and_then(|pairs| pairs.parse().ok()).unwrap_or(20);
    for path in super::real_models::model_files() {
        let model = Model::open(&path, OpenOptions::default()).expect("a good file");
        let vocabulary = Arc::clone(model.tokenizer().expect("a good tokenizer").vocabulary());
        let compared = compare_masks(&vocabulary, &mut Random::new(9), pairs, |_, matcher, _, token| {
            let allowed = matcher.commit(token).is_ok();
            matcher.rollback(usize::from(allowed));
            allowed
        });
        eprintln!("{}: {compared} masks equal", path.display());
    }
}

#[test]
fn every_byte_gets_the_verdict_of_the_reference() {
    let mut compiled = 0;
    for seed in 0..SCHEMAS {
        let random = &mut Random::new(seed);
        let root = root_schema(random);
        let (options, style) = match random.below(2) {
            0 => (open(), Style::Generate),
            _ => (SchemaOptions::accept(), Style::Accept),
        };
        let Ok(grammar) = Grammar::json_schema(&root, &options, &Limits::default()) else { continue };
        compiled += 1;
        let reference = Reference::new(&root, style);
        for _ in 0..3 {
            walk(&grammar, &reference, &root, random);
        }
    }
    assert!(compiled > SCHEMAS / 3, "only {compiled} of {SCHEMAS} random schemas compile");
}

/// Follows a random text of the grammar and compares every byte at each step.
fn walk(grammar: &Grammar, reference: &Reference, schema: &Value, random: &mut Random) {
    let mut text = Vec::new();
    for _ in 0..24 {
        let mut alive = Vec::new();
        for &byte in BYTES {
            text.push(byte);
            let mut recognizer = grammar.recognizer();
            let viable = recognizer.extend(&text).is_ok();
            let complete = viable && recognizer.accepting();
            let expected = reference.judge(&text);
            let shown = String::from_utf8_lossy(&text);
            assert_eq!((viable, complete), (expected.viable, expected.complete), "{schema} {shown:?}");
            text.pop();
            if viable {
                alive.push(byte);
            }
        }
        let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        if alive.is_empty() || digits > 12 {
            break;
        }
        text.push(*random.pick(&alive));
    }
}
