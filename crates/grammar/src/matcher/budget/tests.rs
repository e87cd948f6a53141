//! Compares the bound of the start with the true minimum. A breadth-first search over configs and
//! all tokens finds the true minimum.

use std::sync::Arc;

use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use rustc_hash::FxHashSet;
use serde_json::json;

use super::Budget;
use crate::machine::automaton::Automaton;
use crate::{Constraint, Grammar, Layout, Limits, SchemaOptions, mask};

/// Creates a vocabulary with a token for each byte, and with tokens of several bytes that are
/// typical of tokenizers.
fn vocabulary() -> Vocabulary {
    const PIECES: &str = "{\" \": \":\" \":\" \", \" \",\" \"} \"} }} [] {} {}} [[ ]] ]} [{ }] true false null tru ull \
                          name id size kind red green blue circle square yes maybe international in inter nation al \
                          000 00 10 12 100 202 2020 -0 01 0. .5 ab abc bc cc aaaa aa bbb http:// .com @ \"] [\" ] }";
    let pieces = PIECES.split(' ').flat_map(|piece| [piece.to_owned(), format!(" {piece}")]);
    let blanks = ["\n", "\n  ", "\n    ", "  ", "    ", "{\n", "[\n", ",\n", "},\n", "\"\n", "\n}"];
    let text = |piece: String| Token { bytes: piece.into_bytes(), kind: TokenKind::Text };
    let mut tokens: Vec<Token> =
        (0..=255).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Byte }).collect();
    tokens.extend(pieces.chain(blanks.map(ToOwned::to_owned)).map(text));
    let end = TokenId(tokens.len() as u32);
    tokens.push(Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control });
    Vocabulary::new(tokens, vec![end]).unwrap()
}

fn schemas() -> Vec<serde_json::Value> {
    vec![
        json!({}),
        json!({"type": "object"}),
        json!({"type": "integer", "minimum": 2020}),
        json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        json!({"type": "string"}),
        json!({"type": "string", "minLength": 4}),
        json!({"type": "string", "minLength": 9, "maxLength": 12}),
        json!({"type": "string", "pattern": "^[abc]{5}$"}),
        json!({"type": "string", "pattern": "^(xyz|international)$"}),
        json!({"type": "string", "format": "date"}),
        json!({"type": "string", "format": "uri"}),
        json!({"type": "string", "format": "email"}),
        json!({"enum": ["qx", "international"]}),
        json!({"enum": ["red", "green", "blue", "zz"]}),
        json!({"const": {"a": [true, null]}}),
        json!({"enum": [[1, 2], {"id": 3}, "wvz"]}),
        json!({"type": "boolean"}),
        json!({"type": "array", "minItems": 2, "items": {"type": "boolean"}}),
        json!({"type": "array", "minItems": 3, "items": {"enum": ["qq", "name"]}}),
        json!({"type": "array", "items": {"type": "array", "minItems": 1}, "minItems": 2}),
        json!({"type": "array", "prefixItems": [{"type": "object"}, {"const": "x-y"}], "minItems": 2}),
        json!({"type": "array", "contains": {"const": "yes"}}),
        json!({"type": "object", "required": ["name", "id"]}),
        json!({"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}, "zq": {}}}),
        json!({"type": "object", "properties": {"kind": {"enum": ["circle", "sq"]}}, "required": ["kind"]}),
        json!({"type": "object", "properties": {"a": {"enum": ["sq", "circle"]}, "b": {"enum": ["jk", "square"]}}, "required": ["a", "b"]}),
        json!({"type": "object", "minProperties": 1}),
        json!({"type": "object", "minProperties": 2, "additionalProperties": false, "properties": {"zx": {}, "name": {}, "qw": {}, "id": {}}}),
        json!({"anyOf": [{"const": "zq!"}, {"type": "array", "minItems": 1, "items": {"const": "international"}}]}),
        json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"const": "kjw"}]}}, "required": ["next"]}),
        json!({"type": "object", "patternProperties": {"^z": {"type": "null"}}, "additionalProperties": false, "minProperties": 1}),
    ]
}

const RULES: [&str; 14] = [
    "root ::= \"qx\" | \"international\"",
    "root ::= \"(\" root \")\" | [0-9]{4}",
    "root ::= (\"zq\" | \"name\") (\"kj\" | \"size\") (\"vw\" | \"blue\")",
    "root ::= word{3}\nword ::= \"x\" [a-z] | \" true\"",
    "root ::= [a-c]{7}",
    "root ::= \"[\" (item (\",\" item)+) \"]\"\nitem ::= \"wq\" | \"yes\" | \"maybe\"",
    "root ::= a b\na ::= \"aaa\" | \"b\" a\nb ::= \"bbb\" | \"zzc\"",
    "root ::= \"x\"? \"true\" \"y\"? \"null\"",
    "root ::= [^a-z]{6} \"!\"",
    "root ::= (\"ab\" | \"bc\" | \"c\"){5}",
    "root ::= expr\nexpr ::= term | expr \"+\" term\nterm ::= [0-9]+ \".\" [0-9]{2}",
    "root ::= \"日本\" | \"false\"",
    "root ::= \"{\\n\" (\"  \" [a-z]{3} \"\\n\"){2} \"}\"",
    "root ::= \"\" | \"a\"",
];

fn grammars() -> Vec<(String, Grammar)> {
    let limits = Limits::default();
    let layouts = [Layout::Spaced, Layout::Compact, Layout::Pretty];
    let of_schemas = schemas().into_iter().flat_map(|schema| {
        layouts.map(|layout| {
            let options = SchemaOptions { layout, ..SchemaOptions::default() };
            (schema.to_string(), Grammar::json_schema(&schema, &options, &limits).unwrap())
        })
    });
    let of_rules = RULES.map(|rules| (rules.to_owned(), Grammar::gbnf(rules, &limits).unwrap()));
    of_schemas.chain(of_rules).collect()
}

fn true_minimum(automaton: &mut Automaton, vocabulary: &Vocabulary, bound: usize) -> usize {
    let mut level = vec![automaton.start()];
    let mut met: FxHashSet<_> = level.iter().copied().collect();
    let longest = vocabulary.trie().max_depth();
    for tokens in 0..bound {
        let mut next_level = Vec::new();
        for config in level {
            if automaton.accepting(config) {
                return tokens;
            }
            mask::plain(automaton, vocabulary, config, &mut usize::MAX.clone(), |automaton, _, next| {
                // The names seen so far would multiply the configs. Closing takes as many tokens
                // without them.
                let next = automaton.without_names(next);
                let more = (automaton.closing_len(next) as usize).div_ceil(longest);
                if tokens + 1 + more < bound && met.insert(next) {
                    next_level.push(next);
                }
            });
        }
        level = next_level;
    }
    bound
}

#[test]
fn the_bound_of_the_start_is_near_the_true_minimum() {
    let vocabulary = vocabulary();
    let (mut compared, mut exact, mut worst, mut plain_worst) = (0, 0, 1.0_f64, 1.0_f64);
    let mut wide = Vec::new();
    for (name, grammar) in grammars() {
        let mut automaton = grammar.automaton();
        let start = automaton.start();
        let bound =
            Budget::new(Arc::default()).closing_tokens(&mut automaton, &vocabulary, start).unwrap() as usize;
        let plain = Budget::new(Arc::default()).spelling(&mut automaton, &vocabulary, start).unwrap().len();
        let minimum = true_minimum(&mut automaton, &vocabulary, bound);
        let ratio = |bound: usize| bound.max(1) as f64 / minimum.max(1) as f64;
        compared += 1;
        exact += usize::from(bound == minimum);
        worst = worst.max(ratio(bound));
        plain_worst = plain_worst.max(ratio(plain));
        if ratio(bound) > 1.25 {
            wide.push(format!("{name}: {bound} for {minimum}"));
        }
    }
    println!("{exact} of {compared} exact, worst {worst:.2}; by bytes alone {plain_worst:.2}");
    assert!(compared >= 100);
    assert_eq!(wide, Vec::<String>::new());
}

/// Returns the bound after `prefix`. Checks that the tokens of
/// [`Matcher::mask_within`](crate::Matcher::mask_within) reach an end within that bound.
fn closes(grammar: &Grammar, prefix: &[u8]) -> usize {
    let vocabulary = Arc::new(vocabulary());
    let mut matcher = Constraint::new(grammar, Arc::clone(&vocabulary)).unwrap().matcher();
    for &byte in prefix {
        matcher.commit(TokenId(byte.into())).unwrap();
    }
    let bound = matcher.closing_tokens().unwrap();
    let mut left = bound;
    while !matcher.accepting() {
        let token =
            matcher.mask_within(left).iter().find(|&token| matcher.allows_within(token, left)).unwrap();
        matcher.commit(token).unwrap();
        left -= 1;
        assert!(matcher.closing_tokens().unwrap() <= left);
    }
    bound
}

#[test]
fn a_long_path_from_the_start_is_stored_once() {
    let grammar = Grammar::gbnf(&format!("root ::= \"{}\"", "\u{e9}".repeat(24_000)), &Limits::default());
    let (grammar, vocabulary) = (grammar.unwrap(), vocabulary());
    let mut automaton = grammar.automaton();
    let start = automaton.start();
    let mut budget = Budget::new(Arc::default());
    assert_eq!(budget.closing_tokens(&mut automaton, &vocabulary, start), Some(48_000));
    assert!(budget.byte_len() + automaton.byte_len() < 64 << 20);
}

#[test]
fn a_small_cost_budget_gives_no_answer() {
    let rules = (0..12).map(|level| format!("a{level} ::= a{0} \"x\" a{0}\n", level + 1));
    let source = format!("root ::= \"z\" a0 | \"yy\"\n{}a12 ::= \"x\"", rules.collect::<String>());
    let grammar = Grammar::gbnf(&source, &Limits::default()).unwrap();
    let (bytes, vocabulary) = (8191, vocabulary());
    let mut automaton = grammar.automaton();
    let start = automaton.start();
    let config = automaton.step(start, b'z');
    let mut budget = Budget::new(Arc::default());
    // A cost budget that is too small finds nothing, whether or not the bound is already known.
    for _ in 0..2 {
        let mut cost_budget = 1000;
        assert!(!budget.closes_within(&mut automaton, &vocabulary, config, (bytes - 1, &mut cost_budget)));
        assert_eq!(cost_budget, 0);
        assert_eq!(budget.closing_tokens(&mut automaton, &vocabulary, config), Some(bytes as u32));
    }
    assert_eq!(closes(&grammar, b""), 2);
}

#[test]
fn bounds_of_places_hold() {
    for (source, prefix) in [
        ("root ::= \"(\" root \")\" | [0-9]{4}", "((((("),
        ("root ::= (\"zq\" | \"name\") (\"kj\" | \"size\") (\"vw\" | \"blue\")", "zqsi"),
        ("root ::= root \"+\" root | \"(\" root \")\" | \"true\"", "((true+(t"),
    ] {
        let grammar = Grammar::gbnf(source, &Limits::default()).unwrap();
        assert!(closes(&grammar, prefix.as_bytes()) > 0, "{source}");
    }
}

/// A rule that is called resumes its caller, at any depth. The shortest output is therefore
/// accepted.
#[test]
fn the_shortest_output_is_an_output() {
    let sources = [
        "root ::= e \";\" e\ne ::= \"x\" | \"(\" e \"+\" e \")\"",
        "root ::= a \".\" a \".\"\na ::= b b | \"[\" a \"]\"\nb ::= \"yy\" | \"<\" a \">\"",
        "root ::= p %json {\"type\": \"integer\", \"minimum\": 10} p\np ::= \"(\" p \")\" | \"-\"",
    ];
    for source in sources {
        let grammar = Grammar::gbnf(source, &Limits::default()).unwrap();
        let shortest = grammar.shortest();
        assert!(grammar.accepts(&shortest), "{:?}", String::from_utf8_lossy(&shortest));
        let start = grammar.automaton().start();
        assert_eq!(shortest.len(), grammar.automaton().closing_len(start) as usize);
    }
}

/// A completion that is too costly to spell in few tokens is spelt with one-byte tokens. The
/// vocabulary needs such tokens only for the bytes that occur in the completion.
#[test]
fn a_long_completion_needs_only_its_own_bytes() {
    let names: Vec<String> = (0..3000).map(|at| format!("member {at}")).collect();
    let schema = json!({"type": "object", "required": names});
    let grammar = Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default()).unwrap();
    let without = |missing: u8| {
        let bytes = (0..=255).filter(|&byte| byte != missing);
        let tokens = bytes.map(|byte| Token { bytes: vec![byte], kind: TokenKind::Byte }).collect();
        Arc::new(Vocabulary::new(tokens, vec![]).unwrap())
    };
    let shortest = grammar.shortest().len();
    assert_eq!(Constraint::new(&grammar, without(0x04)).unwrap().minimum_tokens(), Some(shortest));
    assert_eq!(Constraint::new(&grammar, without(b'3')).unwrap().minimum_tokens(), None);
}
