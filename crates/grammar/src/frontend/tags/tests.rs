use std::sync::Arc;

use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use serde_json::json;

use super::*;
use crate::{Constraint, Grammar, SchemaOptions, Trigger};

fn tag(begin: &str, content: Part, end: &str) -> StructuralTag {
    StructuralTag {
        begin: begin.to_owned(),
        content: TagContent::Part(Box::new(content)),
        end: end.to_owned(),
    }
}

fn tags(triggers: &[&str], excludes: &[&str], tags: Vec<StructuralTag>) -> StructuralTags {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let (triggers, excludes) = (owned(triggers), owned(excludes));
    StructuralTags { triggers, tags, excludes, at_least_one: false, stop_after_first: false }
}

fn compiled(part: &Part) -> Result<Grammar, GrammarError> {
    Grammar::of_parts(part, &SchemaOptions::default(), &Limits::default())
}

#[track_caller]
fn check(part: &Part, good: &[&str], bad: &[&str]) {
    let grammar = compiled(part).expect("a grammar");
    for text in good {
        assert!(grammar.accepts(text.as_bytes()), "rejected: {text}");
    }
    for text in bad {
        assert!(!grammar.accepts(text.as_bytes()), "accepted: {text}");
    }
}

/// Free text without `texts`.
fn without(texts: &[&str]) -> Part {
    let never = |&text: &&str| (Trigger::Text(text.to_owned()), Part::OneOf(Vec::new()));
    Part::Text { triggers: texts.iter().map(never).collect(), may_end: true }
}

#[test]
fn text_does_not_contain_excluded_texts() {
    let one = || tag("<a>", Part::literal("1"), "</a>");
    let with = |excludes: &[&str]| Part::Tags(tags(&["<a"], excludes, vec![one()]));
    check(&with(&["x", "yz"]), &["y<a>1</a>z", ""], &["x", "yz", "<a>1</a>x"]);
    // An excluded text counts at the end of a trigger, but not inside a tag.
    check(&with(&["y<a"]), &["x<a>1</a>"], &["y<a>1</a>"]);
    check(&with(&["a"]), &["<"], &["<a>1</a>"]);
    check(&with(&["<a>", "1"]), &["<a>1</a>"], &["1"]);
    check(&without(&["ab", "c"]), &["", "ba", "a"], &["abc", "c"]);
    let error = compiled(&with(&["x", ""])).expect_err("an empty text").to_string();
    assert_eq!(error, "excludes[1]: must not be empty");
}

#[test]
fn the_longest_trigger_fires() {
    let two = vec![tag("<a", Part::literal("1"), ""), tag("x<a", Part::literal("2"), "")];
    check(&Part::Tags(tags(&["<a", "x<a"], &[], two)), &["<a1", "y<a1", "x<a2"], &["x<a1", "<a2"]);
    let same = vec![tag("<", Part::literal("1"), ""), tag("<", Part::literal("2"), "")];
    check(&Part::Tags(tags(&["<"], &[], same)), &["<1<2"], &["<3"]);
}

#[test]
fn contents_are_parts() {
    let inner = Part::Tags(tags(&["("], &[], vec![tag("(", without(&[")"]), ")")]));
    let content = Part::sequence([Part::Json(json!({ "type": "integer" }).into()), inner]);
    let nested = Part::Tags(tags(&["<"], &[], vec![tag("<a>", content, "</a>")]));
    check(&nested, &["x<a>1x(</a>)</a>y", "<a>12</a>"], &["<a>1(</a>", "<a></a>", "<b>"]);
    let bad = Part::sequence([Part::at("elements[1]", Part::Gbnf("root ::= x".to_owned()))]);
    let error = compiled(&Part::Tags(tags(&["<"], &[], vec![tag("<", bad, "")]))).expect_err("no rule");
    assert!(error.to_string().starts_with("tags[0].content: elements[1]: line 1, column 10: "), "{error}");
}

#[test]
fn repeats_parts() {
    let repeat = |min, max| Part::repeat(Part::literal("ab"), min, max);
    check(&repeat(0, Some(1)), &["", "ab"], &["abab"]);
    check(&repeat(2, Some(3)), &["abab", "ababab"], &["ab", "abababab"]);
    check(&repeat(1, None), &["ab", "ababab"], &[""]);
    check(&repeat(0, Some(0)), &[""], &["ab"]);
    check(&Part::OneOf(vec![repeat(2, Some(1)), Part::literal("c")]), &["c"], &["", "ab", "abab"]);
    check(&Part::repeat(without(&["b"]), 2, None), &["", "aaa"], &["b"]);
    assert!(compiled(&repeat(0, Some((1 << 20) + 1))).expect_err("a large count").is_over_limit());
}

#[test]
fn many_texts_are_refused() {
    let long: String = (0..10_000).map(|at| char::from_u32(0x4e00 + at).unwrap_or('x')).collect();
    let parts = Part::Sequence(vec![without(&[&long]); 20]);
    assert!(compiled(&parts).expect_err("many states").is_over_limit());
}

/// A vocabulary of bytes, of some longer tokens, and of control tokens with the ids 258 to 261.
fn vocabulary() -> Vocabulary {
    let token = |bytes: &[u8], kind| Token { bytes: bytes.to_vec(), kind };
    let mut tokens: Vec<Token> = (0..=255).map(|byte| token(&[byte], TokenKind::Byte)).collect();
    for text in ["ab<", "a></a>"] {
        tokens.push(token(text.as_bytes(), TokenKind::Text));
    }
    for text in ["<call>", "</call>", "<other>", "</s>"] {
        tokens.push(token(text.as_bytes(), TokenKind::Control));
    }
    Vocabulary::new(tokens, vec![TokenId(261)]).expect("a good vocabulary")
}

#[test]
fn masks_are_those_of_the_bytes() {
    let vocabulary = Arc::new(vocabulary());
    let content = Part::sequence([without(&["</a>", "b"]), Part::repeat(Part::literal("b<"), 0, Some(2))]);
    let part = Part::Tags(tags(
        &["b<", "<a>"],
        &["ab<", "c"],
        vec![tag("<a>", content, "</a>"), tag("b<", Part::repeat(without(&["a"]), 1, None), "a")],
    ));
    let grammar = compiled(&part).expect("a grammar");
    let constraint = Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("a constraint");
    let mut compared = 0;
    for output in grammar.samples(5).max_bytes(40).take(20) {
        let mut matcher = constraint.matcher();
        for (at, &byte) in output.iter().enumerate() {
            let mask = matcher.mask();
            for token in (0..258).map(TokenId) {
                let mut recognizer = grammar.recognizer();
                recognizer.extend(&output[..at]).expect("a prefix of an output");
                let is_allowed = recognizer.extend(vocabulary.bytes(token)).is_ok();
                assert_eq!(mask.contains(token), is_allowed, "{token:?} at {at}");
            }
            matcher.commit(TokenId(u32::from(byte))).expect("a byte of an output");
            compared += 1;
        }
    }
    assert!(compared > 50);
}

#[test]
fn tokens_stand_in_contents_of_tags() {
    let vocabulary = Arc::new(vocabulary());
    let other = Part::Gbnf("root ::= !</call>*".to_owned());
    let content = Part::sequence([other, Part::Gbnf("root ::= <[259]>".to_owned())]);
    let part = Part::sequence([
        Part::Gbnf("root ::= <call>".to_owned()),
        Part::Tags(StructuralTags {
            stop_after_first: true,
            ..tags(&["<"], &[], vec![tag("<a>", content, "")])
        }),
    ]);
    let grammar = compiled(&part).expect("a grammar");
    let constraint = Constraint::new(&grammar, vocabulary).expect("a constraint");
    let run = |tokens: &[u32]| -> Option<bool> {
        let mut matcher = constraint.matcher();
        for &token in tokens {
            if !matcher.mask().contains(TokenId(token)) {
                return None;
            }
            matcher.commit(TokenId(token)).ok()?;
        }
        Some(matcher.mask().contains(TokenId(261)))
    };
    let [a, open, close] = [b'a', b'<', b'>'].map(u32::from);
    assert_eq!(run(&[258, a, open, a, close, a, 260, 258, 259]), Some(true));
    assert_eq!(run(&[258, a, open, a, close, a, 260]), Some(false));
    assert_eq!(run(&[258, a]), Some(true));
    assert_eq!(run(&[258, 260]), None);
    assert_eq!(run(&[a]), None);
    assert_eq!(run(&[258, open, a, close, 259, a]), None);
}
