//! Compares masks of realistic schemas with each token tried byte by byte. The tables and shortcuts
//! that make masks fast must not change any bit.

use std::sync::Arc;

use formwork_grammar::{
    Constraint, Grammar, Layout, Limits, Matcher, Order, Part, Profile, SchemaOptions, Undeclared,
};
use formwork_model::{Model, OpenOptions};
use formwork_tests::random::Random;
use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use serde_json::{Value, json};

/// Pieces of tokens, as they occur in JSON.
const PIECES: [&str; 64] = [
    "\"",
    "\"",
    "\"",
    "\"",
    "\\",
    "\\n",
    "\\u",
    "\\\"",
    "\\/",
    "00",
    "e9",
    "d83d",
    ",",
    ":",
    "{",
    "}",
    "[",
    "]",
    "{\"",
    "\":",
    "\",",
    "\"}",
    "\"]",
    "[\"",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "    ",
    "0",
    "1",
    "12",
    "123",
    "-",
    ".",
    "e",
    "E",
    "+",
    "true",
    "false",
    "null",
    "na",
    "name",
    "id",
    "value",
    "va",
    "type",
    "ty",
    "pe",
    "red",
    "green",
    "re",
    "é",
    "\u{e9}t\u{e9}",
    "日本",
    "😀",
    "a",
    "b",
    "the",
    "The",
    "s",
    "'",
    "/",
];

const NAMES: [&str; 12] =
    ["name", "names", "id", "value", "type", "été", "", "a\"b", "ty/pe", "日本", "the name", "re\\d\n"];

/// Creates a vocabulary of every byte and thousands of strings that tokenizers would learn from
/// JSON.
fn vocabulary(random: &mut Random) -> Arc<Vocabulary> {
    let mut tokens: Vec<Token> =
        (0..=255).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Byte }).collect();
    for _ in 0..3000 {
        let mut bytes: Vec<u8> = (0..=random.below(4)).flat_map(|_| random.pick(&PIECES).bytes()).collect();
        // Some tokens begin or end within a character, as in real vocabularies.
        let (from, cut) = (random.below(6) / 5, random.below(6) / 5);
        bytes.truncate(bytes.len().saturating_sub(cut));
        tokens.push(Token { bytes: bytes.split_off(from.min(bytes.len())), kind: TokenKind::Text });
    }
    for words in 1..=40 {
        tokens.push(Token { bytes: "7".repeat(words).into_bytes(), kind: TokenKind::Text });
        tokens.push(Token { bytes: "x ".repeat(words).into_bytes(), kind: TokenKind::Text });
        tokens
            .push(Token { bytes: [&"x".repeat(words), "\","].concat().into_bytes(), kind: TokenKind::Text });
    }
    let end = TokenId(tokens.len() as u32);
    tokens.push(Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control });
    Arc::new(Vocabulary::new(tokens, vec![end]).expect("small and not empty"))
}

const PATTERNS: [&str; 16] = [
    "^[a-z]+$",
    "^[a-z0-9 ]{2,7}$",
    "[0-9]",
    "^(red|green|x+)",
    "^[^\"/]*$",
    "^a.*[b-e]$",
    "^\\p{L}+$",
    "^[A-Z][a-z]+( [a-z]+)*$",
    "^(\\{[a-z]+\\})|([a-z]+)$",
    "^[0-9a-f]{2}-[0-9a-f]{4}$",
    "^[^é]{3,}$",
    "^(?!the).*$",
    "^.{0,4}$",
    "^x{20,30}$",
    "^[\\s\\S]*$",
    "^(%[0-9a-f]{2}|[a-z/])+$",
];

const FORMATS: [&str; 6] = ["date", "uri", "email", "ipv4", "uuid", "hostname"];

fn text(random: &mut Random) -> Value {
    let mut schema = json!({"type": "string"});
    match random.below(5) {
        0 | 1 => schema["pattern"] = (*random.pick(&PATTERNS)).into(),
        2 => schema["format"] = (*random.pick(&FORMATS)).into(),
        _ => {}
    }
    let min = *random.pick(&[0, 0, 1, 3, 20]);
    if random.below(2) == 0 {
        schema["minLength"] = min.into();
    }
    if random.below(2) == 0 {
        schema["maxLength"] = (min + *random.pick(&[0, 2, 15, 17, 100, 1_000_000])).into();
    }
    schema
}

fn schema(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 11 }) {
        0 => json!({}),
        1 => json!({"type": *random.pick(&["number", "integer", "boolean", "null"])}),
        2 | 3 => text(random),
        4 | 5 => json!({"enum": (0..3).map(|_| *random.pick(&NAMES)).collect::<Vec<_>>()}),
        6 => {
            let mut array = json!({"type": "array", "items": schema(random, depth - 1)});
            match random.below(3) {
                0 => array["minItems"] = 1.into(),
                1 => array["items"] = false.into(),
                _ => array["maxItems"] = random.below(2).into(),
            }
            array
        }
        7 => {
            let branches = (0..2 + random.below(2)).map(|_| schema(random, depth - 1));
            json!({"anyOf": branches.collect::<Vec<_>>()})
        }
        _ => object(random, depth),
    }
}

fn object(random: &mut Random, depth: usize) -> Value {
    let mut object = json!({"type": "object", "properties": {}});
    for _ in 0..=random.below(4) {
        object["properties"][*random.pick(&NAMES)] = schema(random, depth - 1);
    }
    if random.below(2) == 0 {
        object["required"] = json!([*random.pick(&NAMES)]);
    }
    match random.below(3) {
        0 => object["additionalProperties"] = false.into(),
        1 => object["additionalProperties"] = schema(random, depth - 1),
        _ => {}
    }
    match random.below(4) {
        0 => object["patternProperties"] = json!({*random.pick(&PATTERNS): schema(random, depth - 1)}),
        1 => object["propertyNames"] = text(random),
        _ => {}
    }
    if random.below(4) == 0 {
        object["maxProperties"] = (1 + random.below(3)).into();
    }
    object
}

fn options(random: &mut Random) -> SchemaOptions {
    SchemaOptions {
        profile: *random.pick(&[Profile::Generate, Profile::Accept]),
        layout: *random.pick(&[
            Layout::Spaced,
            Layout::Compact,
            Layout::Pretty,
            Layout::Flexible,
            Layout::Inside,
        ]),
        order: *random.pick(&[Order::Declared, Order::Any]),
        undeclared: *random.pick(&[Undeclared::Allow, Undeclared::Omit]),
        ..SchemaOptions::default()
    }
}

/// Chooses the next token, mostly one with structural characters instead of a piece of a long
/// string.
fn choose(random: &mut Random, vocabulary: &Vocabulary, allowed: &[TokenId]) -> TokenId {
    let marks = b"\"{}[]:,\\";
    let structural = |token: &&TokenId| vocabulary.bytes(**token).iter().any(|byte| marks.contains(byte));
    let structural: Vec<TokenId> = allowed.iter().filter(structural).copied().collect();
    let all = structural.is_empty() || random.below(3) == 0;
    *random.pick(if all { allowed } else { &structural })
}

/// Compares masks along random outputs of grammars with each token tried alone. Returns the number
/// of masks.
fn compare(
    vocabulary: &Arc<Vocabulary>,
    random: &mut Random,
    masks: usize,
    grammar: impl Fn(&mut Random) -> (String, Option<Grammar>),
) -> usize {
    let mut compared = 0;
    while compared < masks {
        let (source, grammar) = grammar(random);
        let Some(grammar) = grammar else { continue };
        let mut matcher = Constraint::new(&grammar, Arc::clone(vocabulary))
            .expect("every token is in the vocabulary")
            .matcher();
        for _ in 0..24 {
            let mask = matcher.mask();
            let following = matcher.following();
            for token in vocabulary.ids() {
                if let &[byte] = vocabulary.bytes(token) {
                    assert_eq!(mask.contains(token), following.contains(byte), "{byte:?} {source}");
                }
                let allowed = matcher.commit(token).is_ok();
                matcher.rollback(usize::from(allowed));
                if mask.contains(token) != allowed {
                    let (bytes, text) = (vocabulary.bytes(token), text_of(&matcher, vocabulary));
                    panic!("{:?} {allowed} after {text:?}, {source}", String::from_utf8_lossy(bytes));
                }
            }
            compared += 1;
            let allowed: Vec<TokenId> = mask.iter().filter(|&token| !vocabulary.is_end(token)).collect();
            if allowed.is_empty() || compared >= masks {
                break;
            }
            matcher.commit(choose(random, vocabulary, &allowed)).expect("in the mask");
        }
    }
    compared
}

fn random_schema(random: &mut Random) -> (String, Option<Grammar>) {
    let (schema, options) = (object(random, 3), options(random));
    let grammar = Grammar::json_schema(&schema, &options, &Limits::default());
    (format!("{options:?} {schema}"), grammar.ok())
}

/// Generates arrays with unique items, nested in each other and in objects.
fn random_unique(random: &mut Random) -> (String, Option<Grammar>) {
    fn items(random: &mut Random, depth: usize) -> Value {
        match random.below(if depth == 0 { 6 } else { 8 }) {
            0 => json!({}),
            1 => json!({"type": *random.pick(&["number", "integer", "boolean"])}),
            2 | 3 => text(random),
            4 => json!({"enum": (0..3).map(|_| *random.pick(&NAMES)).collect::<Vec<_>>()}),
            5 => json!({"type": "string", "pattern": "^[a-z\"é]*$", "maxLength": 1 + random.below(3)}),
            6 => unique(random, depth - 1),
            _ => {
                let mut object = object(random, 1);
                object["properties"]["id"] = items(random, depth - 1);
                object
            }
        }
    }
    fn unique(random: &mut Random, depth: usize) -> Value {
        let mut array = json!({"type": "array", "items": items(random, depth), "uniqueItems": true});
        if random.below(2) == 0 {
            array["minItems"] = random.below(4).into();
        }
        if random.below(4) == 0 {
            array["prefixItems"] = json!([items(random, depth)]);
        }
        array
    }
    let (schema, options) = (unique(random, 2), options(random));
    let grammar = Grammar::json_schema(&schema, &options, &Limits::default());
    (format!("{options:?} {schema}"), grammar.ok())
}

/// Generates strings and member names with patterns, often of bounded length.
fn random_pattern(random: &mut Random) -> (String, Option<Grammar>) {
    const MORE: [&str; 5] =
        ["^a?.*[b-e]$", "^([a-z]{2})+$", "^[ -~]*x[0-9]$", "^(ab|[a-z]7)*$", "^(a[a-f]*|b[a-z]*)[0-9]{3}$"];
    let all: Vec<&str> = PATTERNS.iter().chain(&MORE).copied().collect();
    let mut language = json!({"pattern": *random.pick(&all)});
    if random.below(3) > 0 {
        language["maxLength"] = (2 + random.below(12)).into();
    }
    let schema = match random.below(3) {
        0 => json!({"type": "object", "propertyNames": language, "properties": {"xx7": true, "abd": true}}),
        _ => json!({"type": "string", "allOf": [language]}),
    };
    let options = options(random);
    let grammar = Grammar::json_schema(&schema, &options, &Limits::default());
    (format!("{options:?} {schema}"), grammar.ok())
}

/// Generates grammars that repeat wide character classes: alone, counted, and combined in ways that
/// no single class shows.
fn wide_grammar(random: &mut Random) -> (String, Option<Grammar>) {
    const CLASSES: [&str; 9] = [
        "[a-z]",
        "[^\"\\\\\\x00-\\x1f]",
        "[^\\n]",
        ".",
        "[a-zA-Z0-9_]",
        "[0-9a-f]",
        "[^,]",
        "[ -~é]",
        "[^\\u0080-\\u07ff\"]",
    ];
    let repeat = |random: &mut Random| *random.pick(&["*", "+", "{2,5}", "{0,20}", "?"]);
    let item = |random: &mut Random| {
        let (class, repeat) = (*random.pick(&CLASSES), repeat(random));
        match random.below(4) {
            0 => format!("\"\\\"\" ({class} | \"\\\\\" [nt\"])* \"\\\"\""),
            1 => format!("({class} | \"ab\" | {}){repeat}", random.pick(&CLASSES)),
            _ => format!("{class}{repeat}"),
        }
    };
    let pair =
        |random: &mut Random| format!("{} {}", item(random), random.pick(&["\",\"", "\" \"*", "", "[0-9]"]));
    let pairs: Vec<String> = (0..=random.below(3)).map(|_| pair(random)).collect();
    let source = format!("root ::= {}", pairs.join(" "));
    let grammar = Grammar::gbnf(&source, &Limits::default());
    (source, grammar.ok())
}

/// Generates rules that call each other around the same wide texts. The rules contain words that
/// are not keywords, and text that ends where its caller says. They recurse on the left, on the
/// right and in the middle.
fn wide_rules(random: &mut Random) -> (String, Option<Grammar>) {
    const TEXTS: [&str; 8] = [
        "[a-z]+",
        "[a-zA-Z_] [a-zA-Z0-9_]*",
        "[^,()\n]{0,20}",
        "\"i\" ([a-eg-z] [a-z]* | \"f\" [a-z]+)? | [a-hj-z] [a-z]*",
        "\"\\\"\" ([^\"\\\\] | escape){0,30} \"\\\"\"",
        "([a-m] [n-z])*",
        ".{0,9}",
        "[0-9]+ (\".\" [0-9]+)?",
    ];
    const RULES: usize = 4;
    let mut lines = Vec::from([String::from("root ::= r0\nescape ::= \"\\\\\" [nt\"] | \"&\" [a-z]+ \";\"")]);
    for rule in 0..RULES {
        let part = |random: &mut Random| match random.below(8) {
            0..=2 => format!("r{}", random.below(RULES)),
            3 => (*random.pick(&["\",\"", "\" \"*", "\"if \"", "\"+\""])).to_owned(),
            4 => format!("\"(\" r{} \")\"{}", random.below(RULES), random.pick(&["?", "", "*", "{0,9}"])),
            _ => format!("t{}", random.below(TEXTS.len())),
        };
        let way = |random: &mut Random| {
            let parts: Vec<String> = (0..=random.below(3)).map(|_| part(random)).collect();
            parts.join(" ")
        };
        let ways: Vec<String> = (0..=random.below(2)).map(|_| way(random)).collect();
        lines.push(format!("r{rule} ::= t{} | {}", random.below(TEXTS.len()), ways.join(" | ")));
    }
    lines.extend(TEXTS.iter().enumerate().map(|(at, text)| format!("t{at} ::= {text}")));
    let source = lines.join("\n");
    let grammar = Grammar::gbnf(&source, &Limits::default());
    (source, grammar.ok())
}

fn text_of(matcher: &Matcher, vocabulary: &Vocabulary) -> String {
    let bytes: Vec<u8> =
        matcher.tokens().iter().flat_map(|&token| vocabulary.bytes(token).to_vec()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn masks_of_lifelike_schemas_equal_single_tokens() {
    for seed in 0..3 {
        let mut random = Random::new(90 + seed);
        let vocabulary = vocabulary(&mut random);
        assert!(compare(&vocabulary, &mut random, 800, random_schema) >= 800);
    }
}

/// Tokens that complete a name must not repeat one, also in objects inside of a larger grammar.
#[test]
fn no_mask_repeats_a_name_in_a_larger_grammar() {
    let pieces: [&[u8]; 4] = [b"b\"", b"\"ab\"", b"{\"ab\": 1, \"ab\"", b"c\""];
    let bytes = (0..=255).map(|byte| vec![byte]).chain(pieces.map(<[u8]>::to_vec));
    let mut tokens: Vec<Token> = bytes.map(|bytes| Token { bytes, kind: TokenKind::Text }).collect();
    tokens.push(Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control });
    let vocabulary = Arc::new(Vocabulary::new(tokens, vec![TokenId(260)]).expect("small"));
    let json = Part::Json(json!({ "type": "object", "additionalProperties": { "type": "integer" } }).into());
    let part =
        Part::sequence([Part::literal("f("), json.clone(), Part::literal(", "), json, Part::literal(")")]);
    let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect("good");
    let constraint = Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("no tokens");
    for text in ["", "f", "f(", "f({\"ab\": 1, ", "f({\"ab\": 1, \"a", "f({\"ab\": 1}, {\"a"] {
        let mut matcher = constraint.matcher();
        for byte in text.bytes() {
            matcher.commit(TokenId(byte.into())).expect(text);
        }
        let mask = matcher.mask();
        for token in vocabulary.ids() {
            let allowed = matcher.commit(token).is_ok();
            matcher.rollback(usize::from(allowed));
            let bytes = String::from_utf8_lossy(vocabulary.bytes(token));
            assert_eq!(mask.contains(token), allowed, "{bytes:?} after {text:?}");
        }
    }
}

#[test]
fn masks_of_items_that_differ_equal_single_tokens() {
    for seed in 0..2 {
        let mut random = Random::new(95 + seed);
        let vocabulary = vocabulary(&mut random);
        assert!(compare(&vocabulary, &mut random, 700, random_unique) >= 700);
    }
}

#[test]
fn masks_of_patterns_equal_single_tokens() {
    let mut random = Random::new(94);
    let vocabulary = vocabulary(&mut random);
    assert!(compare(&vocabulary, &mut random, 1500, random_pattern) >= 1500);
}

#[test]
fn masks_of_wide_grammars_equal_single_tokens() {
    let mut random = Random::new(93);
    let vocabulary = vocabulary(&mut random);
    assert!(compare(&vocabulary, &mut random, 1500, wide_grammar) >= 1500);
}

#[test]
fn masks_of_wide_rules_equal_single_tokens() {
    let mut random = Random::new(96);
    let vocabulary = vocabulary(&mut random);
    assert!(compare(&vocabulary, &mut random, 300, wide_rules) >= 300);
}

/// Compares masks on the real tokenizers, if available. `FORMWORK_TEST_PAIRS` sets the number of
/// masks for each.
#[test]
fn fast_masks_equal_single_tokens_on_real_tokenizers() {
    let masks = std::env::var("FORMWORK_TEST_PAIRS").ok().and_then(|masks| masks.parse().ok()).unwrap_or(20);
    for path in super::real_models::model_files() {
        let model = Model::open(&path, OpenOptions::default()).expect("a good file");
        let vocabulary = Arc::clone(model.tokenizer().expect("a good tokenizer").vocabulary());
        let random = &mut Random::new(95);
        let compared = compare(&vocabulary, random, masks, random_schema)
            + compare(&vocabulary, random, masks / 2, random_pattern)
            + compare(&vocabulary, random, masks / 2, wide_grammar)
            + compare(&vocabulary, random, masks / 2, wide_rules);
        eprintln!("{}: {compared} masks equal", path.display());
    }
}
