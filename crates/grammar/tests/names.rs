//! Compares masks with checks of each single token, for objects whose member names must differ.

use std::sync::Arc;

use formwork_grammar::{
    Constraint, Grammar, Layout, Limits, Matcher, Order, Profile, SchemaOptions, Undeclared,
};
use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use serde_json::{Value, json};

/// Texts from which the tokens are composed: short names, and the punctuation around them.
const PIECES: [&str; 28] = [
    "\"", "\"", "\"", "\"", ",", ",\"", "\",\"", "\":", "\":\"", "\": ", ":", "{", "{\"", "}", "[", "]", " ",
    "a", "b", "ab", "\\u0061", "\\n", "é", "1", ",\"a\":1", "\"b\":", "x", "\"a\"",
];
const NAMES: [&str; 6] = ["a", "b", "ab", "é", "", "x"];

/// A small `xorshift64*` generator. Equal seeds give equal inputs.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

fn vocabulary(random: &mut Random) -> Arc<Vocabulary> {
    let mut tokens: Vec<Token> =
        (0..=255).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Byte }).collect();
    for _ in 0..1500 {
        let bytes: Vec<u8> = (0..=random.below(6)).flat_map(|_| random.pick(&PIECES).bytes()).collect();
        tokens.push(Token { bytes, kind: TokenKind::Text });
    }
    let end = TokenId(tokens.len() as u32);
    tokens.push(Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control });
    Arc::new(Vocabulary::new(tokens, vec![end]).expect("small and not empty"))
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 3 } else { 7 }) {
        0 => json!({"type": "integer"}),
        1 => json!({"type": "string"}),
        2 => json!({"enum": ["a", 1, "b"]}),
        3 => json!({"type": "array", "items": value(random, depth - 1)}),
        4 => json!({"type": "array", "items": object(random, depth - 1), "uniqueItems": true}),
        _ => object(random, depth - 1),
    }
}

fn object(random: &mut Random, depth: usize) -> Value {
    let mut object = json!({"type": "object"});
    for _ in 0..random.below(3) {
        object["properties"][*random.pick(&NAMES)] = value(random, depth.saturating_sub(1));
    }
    let patterns = [
        "^a",
        "^[ab]$",
        "b$",
        "^x$",
        "^(?!a)",
        "^[abx]{1,2}$",
        // Infinitely many names match, but not with every prefix.
        "^(a|b.*)$",
        "^[ab]?x$|^é",
        // More names match than one token can hold, but a prefix may run out of names.
        "^[ab]{1,4}$",
        "^[abé]{2}x?$",
        ".+",
    ];
    match random.below(5) {
        0 => object["patternProperties"] = json!({*random.pick(&patterns): value(random, 0)}),
        1 => object["propertyNames"] = json!({"pattern": *random.pick(&patterns)}),
        2 => {
            object["patternProperties"] = json!({*random.pick(&patterns): value(random, 0)});
            object["additionalProperties"] = false.into();
        }
        3 => object["additionalProperties"] = value(random, depth.saturating_sub(1)),
        _ => {}
    }
    match random.below(6) {
        0 => object["maxProperties"] = (1 + random.below(4)).into(),
        1 => object["minProperties"] = random.below(4).into(),
        2 => object["not"] = json!({"additionalProperties": {"type": "integer"}}),
        _ => {}
    }
    if random.below(5) == 0 {
        let branches = [object.clone(), self::object(random, 0)];
        return json!({"anyOf": branches});
    }
    object
}

fn options(random: &mut Random) -> SchemaOptions {
    SchemaOptions {
        profile: *random.pick(&[Profile::Generate, Profile::Accept]),
        layout: *random.pick(&[Layout::Spaced, Layout::Compact, Layout::Compact, Layout::Flexible]),
        order: *random.pick(&[Order::Declared, Order::Any]),
        undeclared: *random.pick(&[Undeclared::Allow, Undeclared::Allow, Undeclared::Omit]),
        ..SchemaOptions::default()
    }
}

fn text_of(matcher: &Matcher, vocabulary: &Vocabulary) -> String {
    let bytes: Vec<u8> =
        matcher.tokens().iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn masks_agree_with_checks_of_single_tokens() {
    let random = &mut Random(0x9e37_79b9_7f4a_7c15);
    let vocabulary = vocabulary(random);
    let (mut compared, mut schemas) = (0, 0);
    while schemas < 240 {
        let (schema, options) = (object(random, 2), options(random));
        let Ok(grammar) = Grammar::json_schema(&schema, &options, &Limits::default()) else { continue };
        schemas += 1;
        let constraint = Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("every byte is a token");
        let mut matcher = constraint.matcher();
        for _ in 0..30 {
            let mask = matcher.mask();
            for token in vocabulary.ids() {
                let allowed = matcher.commit(token).is_ok();
                matcher.rollback(usize::from(allowed));
                if mask.contains(token) != allowed {
                    let (bytes, text) = (vocabulary.bytes(token), text_of(&matcher, &vocabulary));
                    let token = String::from_utf8_lossy(bytes);
                    panic!("{token:?} {allowed} after {text:?}, {schema} {options:?}");
                }
            }
            compared += 1;
            let all: Vec<TokenId> = mask.iter().filter(|&token| !vocabulary.is_end(token)).collect();
            let ending = |token: &&TokenId| {
                let bytes = vocabulary.bytes(**token);
                bytes.iter().all(|byte| b"{\",:1abx []".contains(byte))
                    && bytes.iter().any(|b| b"{\",:".contains(b))
            };
            let marks: Vec<TokenId> = all.iter().filter(ending).copied().collect();
            let from = if marks.is_empty() || random.below(5) == 0 { &all } else { &marks };
            if from.is_empty() {
                break;
            }
            matcher.commit(*random.pick(from)).expect("in the mask");
        }
    }
    assert!(compared > 3000, "{compared}");
}
