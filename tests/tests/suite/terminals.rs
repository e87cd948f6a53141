//! JSON texts and tokens as terminals of a GBNF grammar.

use std::sync::Arc;

use formwork_grammar::{
    Constraint, Grammar, Limits, Matcher, Part, SchemaOptions, StructuralTag, StructuralTags, TagContent,
    Trigger,
};
use formwork_tests::random::{self, Random};
use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};

/// Grammars with a JSON text beside, inside and after other text, each with an accepted text.
const MIXED: [(&str, &str); 7] = [
    (
        r#"root ::= "<a>" %json { "type": "object", "properties": { "a": { "type": "string" } } } "</a>""#,
        r#"<a>{"a": "b, \" and 日"}</a>"#,
    ),
    (r#"root ::= [abc ]* (%json { "type": "integer" } [abc ]+)*"#, "a -12 b0 c"),
    (
        "root ::= call (\"\\n\" call)*\ncall ::= name \": \" %json {\"type\": \"array\", \"items\": {\"maxLength\": 3}}\nname ::= [a-c]+",
        "ab: [1, \"abc\", {}]\na: []",
    ),
    // Ambiguous: the text may match either of two schemas, or plain characters.
    (
        r#"root ::= (%json { "enum": ["ab", 1] } | %json { "type": "string", "pattern": "^a" } | [^0-9]{0,5}) "a"?"#,
        r#""ab"a"#,
    ),
    (r#"root ::= "[" (root | %json { "type": ["number", "string"] }) "]""#, r#"[[["a"]]]"#),
    (r#"root ::= %json { "type": "number", "minimum": 0 } "0"{2} "."?"#, "1.500."),
    // A space leads back into the spaces.
    (r#"root ::= " "* %json { "type": "string" }"#, "  \"a b\""),
];

fn options(at: usize) -> SchemaOptions {
    if at.is_multiple_of(2) { SchemaOptions::default() } else { SchemaOptions::accept() }
}

/// Compares every bit of the mask with a recognizer that reads each token's bytes.
fn check_mask(matcher: &mut Matcher, grammar: &Grammar, vocabulary: &Vocabulary, text: &[u8]) {
    let mask = matcher.mask();
    for token in vocabulary.ids().filter(|&token| !vocabulary.is_end(token)) {
        let mut recognizer = grammar.recognizer();
        recognizer.extend(text).expect("what was allowed");
        let allowed = recognizer.extend(vocabulary.bytes(token)).is_ok();
        assert_eq!(mask.contains(token), allowed, "{:?} after {text:?}", vocabulary.bytes(token));
    }
}

#[test]
fn masks_around_json_are_those_of_the_bytes() {
    let mut random = Random::new(31);
    let vocabulary = Arc::new(random::vocabulary(&mut random));
    for (at, (source, text)) in MIXED.iter().enumerate() {
        let options = options(at);
        let grammar = Grammar::gbnf_with_schemas(source, &options, &Limits::default()).expect(source);
        assert!(grammar.accepts(text.as_bytes()), "{source}");
        assert!(grammar.accepts(&grammar.shortest()), "{source}");
        let constraint = Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("no token terminals");
        let mut outputs: Vec<Vec<u8>> = grammar.samples(at as u64).max_bytes(60).take(8).collect();
        outputs.push(text.as_bytes().to_vec());
        for output in outputs {
            let mut matcher = constraint.matcher();
            for (at, &byte) in output.iter().enumerate().take(40) {
                check_mask(&mut matcher, &grammar, &vocabulary, &output[..at]);
                matcher.commit(TokenId(u32::from(byte))).expect("a byte of an output");
            }
        }
    }
}

#[test]
fn outputs_with_json_close_within_their_budget() {
    let vocabulary = Arc::new(random::vocabulary(&mut Random::new(32)));
    for (at, (source, _)) in MIXED.iter().enumerate() {
        let grammar = Grammar::gbnf_with_schemas(source, &options(at), &Limits::default()).expect(source);
        let constraint = Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("no token terminals");
        let minimum = constraint.minimum_tokens().expect("every byte is a token");
        for spare in 0..12 {
            let mut random = Random::new(spare as u64);
            let mut matcher = constraint.matcher();
            for left in (1..=minimum + spare).rev() {
                let mask = matcher.mask_within(left);
                let tokens: Vec<_> = mask.iter().filter(|&token| !vocabulary.is_end(token)).collect();
                if tokens.is_empty() || (matcher.accepting() && random.below(8) == 0) {
                    break;
                }
                matcher.commit(*random.pick(&tokens)).expect("in the mask");
            }
            assert!(matcher.accepting(), "{source}");
        }
    }
}

/// Creates a vocabulary of bytes, a word, and special tokens. Other tokens can spell the text of a
/// special token.
fn with_specials() -> Arc<Vocabulary> {
    let text = |bytes: &[u8], kind| Token { bytes: bytes.to_vec(), kind };
    let mut tokens: Vec<Token> = (0..=255).map(|byte| text(&[byte], TokenKind::Byte)).collect();
    tokens.push(text(b"think", TokenKind::Text));
    tokens.push(text(b"<think>", TokenKind::Control));
    tokens.push(text(b"</think>", TokenKind::Control));
    tokens.push(text(b"</s>", TokenKind::Control));
    Arc::new(Vocabulary::new(tokens, vec![TokenId(259)]).expect("valid"))
}

const OPEN: TokenId = TokenId(257);
const CLOSE: TokenId = TokenId(258);
const END: TokenId = TokenId(259);

fn matcher(source: &str) -> Matcher {
    let grammar = Grammar::gbnf(source, &Limits::default()).expect(source);
    Constraint::new(&grammar, with_specials()).expect(source).matcher()
}

fn allowed(matcher: &mut Matcher) -> Vec<u32> {
    matcher.mask().iter().map(|token| token.0).collect()
}

#[test]
fn tokens_stand_where_the_grammar_says() {
    let mut matcher = matcher("root ::= <think> (!</think>){2} </think> <[97]> \"b\"?");
    assert_eq!(allowed(&mut matcher), [257]);
    assert_eq!(matcher.closing_tokens(), Some(5));
    assert!(matcher.forced_bytes().is_empty());
    matcher.commit(OPEN).expect("the only one");
    // All tokens except the named one and end-of-sequence.
    assert_eq!(allowed(&mut matcher).len(), 258);
    matcher.commit(OPEN).expect("any other");
    matcher.commit(TokenId(0xf8)).expect("any other");
    assert_eq!(allowed(&mut matcher), [258]);
    assert!(matcher.commit(TokenId(0xf8)).is_err());
    matcher.commit(CLOSE).expect("the only one");
    assert!(!matcher.accepting());
    matcher.commit(TokenId(97)).expect("by its id");
    assert_eq!(allowed(&mut matcher), [u32::from(b'b'), END.0]);
    matcher.rollback(2);
    assert_eq!(allowed(&mut matcher), [258]);
}

#[test]
fn a_token_and_its_text_may_both_be_meant() {
    // After `a` both alternatives are possible: `a` as a token and `a` as text.
    let mut matcher = matcher("root ::= <[97]> \"x\" | \"a\" [yz] | \"ab\"");
    assert_eq!(allowed(&mut matcher), [u32::from(b'a')]);
    assert_eq!(matcher.closing_tokens(), Some(2));
    matcher.commit(TokenId(97)).expect("allowed");
    assert_eq!(allowed(&mut matcher), b"bxyz".map(u32::from));
    matcher.commit(TokenId(u32::from(b'x'))).expect("allowed");
    assert!(matcher.complete());
}

#[test]
fn budgets_count_a_token_as_one() {
    let mut matcher = matcher("root ::= [a-z]* <think> \"ok\" </think>");
    assert_eq!(matcher.closing_tokens(), Some(4));
    assert_eq!(matcher.mask_within(4).iter().collect::<Vec<_>>(), [OPEN]);
    assert_eq!(matcher.mask_within(5).count(), 28); // `OPEN`, 26 letters and one word
    for token in [OPEN, TokenId(u32::from(b'o')), TokenId(u32::from(b'k')), CLOSE] {
        let left = matcher.closing_tokens().expect("closable");
        assert!(matcher.allows_within(token, left));
        matcher.commit(token).expect("allowed");
    }
    assert!(matcher.complete());
}

#[test]
fn bytes_that_spell_no_text_are_no_tokens() {
    let mut matcher = matcher("root ::= .* <think> [^a]");
    // ASCII and the first bytes of characters are allowed. Bytes from 0xf5 up, which start the
    // internal spelling of token terminals, are not.
    let all = allowed(&mut matcher);
    assert!(
        all.contains(&0xf4) && all.contains(&257) && !all.iter().any(|token| (0xf5..=0xff).contains(token))
    );
}

#[test]
fn unknown_tokens_are_refused() {
    for (source, token) in [("root ::= <[260]>", "<[260]>"), ("root ::= \"a\" !<tool>", "!<tool>")] {
        let grammar = Grammar::gbnf(source, &Limits::default()).expect(source);
        let error = Constraint::new(&grammar, with_specials()).err().expect("no such token");
        assert_eq!(error.to_string(), format!("the vocabulary has no token `{token}`"));
    }
}

/// Creates a vocabulary of bytes and control tokens. Two tokens end generation, and so does the
/// second of two tokens with the same text. A plain text token spells one of the ends.
fn with_two_ends() -> Arc<Vocabulary> {
    let text = |text: &str| Token { bytes: text.as_bytes().to_vec(), kind: TokenKind::Control };
    let mut tokens: Vec<Token> =
        (0..=255).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Byte }).collect();
    tokens.extend(["<think>", "<|im_end|>", "</s>", "<twice>", "<twice>"].map(text));
    let plain = Token { bytes: b"<|im_end|>".to_vec(), kind: TokenKind::Text };
    tokens.push(plain);
    Arc::new(Vocabulary::new(tokens, [257, 258, 260].map(TokenId).to_vec()).expect("valid"))
}

fn refusal(grammar: &Grammar) -> String {
    Constraint::new(grammar, with_two_ends()).err().expect("it ends generation").to_string()
}

#[test]
fn refuses_a_terminal_that_ends_generation() {
    for (source, message) in [
        ("root ::= \"a\" <|im_end|> \"b\"", "rule `root` (line 1): the token `<|im_end|>` ends generation"),
        ("root ::= \"a\" x\nx ::= \"b\" | \n  </s>", "rule `x` (line 3): the token `</s>` ends generation"),
        ("root ::= <[257]>* \"b\"", "rule `root` (line 1): the token `<[257]>` ends generation"),
        ("root ::= %json {} <[258]> %json {}", "rule `root` (line 1): the token `<[258]>` ends generation"),
        // One of the two tokens with this text ends generation.
        ("root ::= <twice> \"b\"", "rule `root` (line 1): the token `<twice>` ends generation"),
    ] {
        let grammar = Grammar::gbnf(source, &Limits::default()).expect(source);
        let error = refusal(&grammar);
        assert!(error.starts_with(message), "{source}: {error}");
    }
}

#[test]
fn refuses_a_terminal_that_ends_generation_in_parts_and_tags() {
    let (options, limits) = (SchemaOptions::default(), Limits::default());
    let tags = StructuralTags {
        triggers: vec!["<t>".to_owned()],
        tags: vec![StructuralTag {
            begin: "<t>".to_owned(),
            content: TagContent::Gbnf("root ::= \"a\" </s>".to_owned()),
            end: "</t>".to_owned(),
        }],
        excludes: Vec::new(),
        at_least_one: true,
        stop_after_first: true,
    };
    let grammar = Grammar::structural_tags(&tags, &options, &limits).expect("valid");
    assert!(refusal(&grammar).contains("the token `</s>` ends generation"));
    let end = || TokenId(257);
    for part in [
        Part::sequence([Part::Token(end()), Part::literal("a")]),
        Part::Text { triggers: vec![(Trigger::Token(end()), Part::literal("a"))], may_end: false },
        Part::Tags(tags),
        Part::Gbnf("root ::= <[257]> \"a\"".to_owned()),
    ] {
        let grammar = Grammar::of_parts(&part, &options, &limits).expect("valid");
        assert!(refusal(&grammar).contains("ends generation"), "{part:?}");
    }
}

#[test]
fn a_negated_terminal_never_stands_for_a_token_that_ends_generation() {
    let grammar =
        Grammar::gbnf("root ::= !<|im_end|>+ !<[256]>+ !<[258]>", &Limits::default()).expect("valid");
    let vocabulary = with_two_ends();
    let mut matcher =
        Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("ends are left out").matcher();
    for _ in 0..5 {
        assert!(vocabulary.ends().iter().all(|&end| matcher.accepting() || !matcher.mask().contains(end)));
        matcher.commit(TokenId(97)).expect("any other");
    }
    assert!(matcher.accepting() && matcher.mask().contains(TokenId(257)));
}

#[test]
fn a_negated_terminal_never_stands_for_an_unused_id() {
    let text = |text: &str| Token { bytes: text.into(), kind: TokenKind::Text };
    let unused = Token { bytes: Vec::new(), kind: TokenKind::Unused };
    let vocabulary = Vocabulary::new(vec![text("a"), text("b"), unused], vec![]).expect("a vocabulary");
    let grammar = Grammar::gbnf("root ::= !<[0]>", &Limits::default()).expect("valid");
    let mut matcher = Constraint::new(&grammar, Arc::new(vocabulary)).expect("a token").matcher();
    assert_eq!(matcher.mask().iter().collect::<Vec<_>>(), [TokenId(1)]);
}

#[test]
fn text_that_spells_an_end_is_not_that_token() {
    let grammar = Grammar::gbnf("root ::= \"<|im_end|>\" \"b\"", &Limits::default()).expect("valid");
    let vocabulary = with_two_ends();
    let mut matcher = Constraint::new(&grammar, vocabulary).expect("no token terminals").matcher();
    let mask = matcher.mask();
    // The byte `<`, and the plain text token.
    assert_eq!(mask.iter().map(|token| token.0).collect::<Vec<_>>(), [u32::from(b'<'), 261]);
    assert!(matcher.commit(TokenId(257)).is_err());
}

#[test]
fn what_is_printed_reads_back() {
    let source = "root ::= <think> item* !<[3]>\nitem ::= %json {\"type\": \"null\"} | \"x\"\n";
    let grammar = Grammar::gbnf(source, &Limits::default()).expect(source);
    let printed = grammar.to_gbnf().expect("writable");
    assert_eq!(printed, source);
    assert_eq!(String::from_utf8_lossy(&grammar.shortest()), "<think>!<[3]>");
    assert!(grammar.samples(1).take(20).all(|sample| sample.starts_with(b"<think>")));
}
