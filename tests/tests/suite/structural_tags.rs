//! Free text with tags.

use std::sync::Arc;

use formwork_grammar::{
    Constraint, Grammar, GrammarError, Limits, SchemaOptions, StructuralTag, StructuralTags, TagContent,
};
use formwork_tests::random::{self, Random};
use formwork_vocab::TokenId;
use serde_json::json;

fn tag(begin: &str, content: TagContent, end: &str) -> StructuralTag {
    StructuralTag { begin: begin.to_owned(), content, end: end.to_owned() }
}

fn tags(triggers: &[&str], tags: Vec<StructuralTag>) -> StructuralTags {
    let triggers = triggers.iter().map(|&trigger| trigger.to_owned()).collect();
    StructuralTags { triggers, tags, excludes: Vec::new(), at_least_one: false, stop_after_first: false }
}

fn compile(tags: &StructuralTags) -> Result<Grammar, GrammarError> {
    Grammar::structural_tags(tags, &SchemaOptions::default(), &Limits::default())
}

fn tools() -> StructuralTags {
    let number = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
        "additionalProperties": false });
    let number = TagContent::JsonSchema(number.into());
    let list = "root ::= item (\",\" item)*\nitem ::= [a-c]{1,2}".to_owned();
    tags(
        &["<f=", "[["],
        vec![
            tag("<f=add>", number, "</f>"),
            tag("<f=list>", TagContent::Gbnf(list), "</f>"),
            tag("[[", TagContent::Regex("[0-9]+".to_owned()), "]]"),
        ],
    )
}

#[test]
fn text_is_free_until_a_trigger_and_after_a_tag() {
    let grammar = compile(&tools()).expect("a good grammar");
    for text in [
        "",
        "a < b, <f is no trigger, nor is [ [",
        "x<f=add>{\"n\": 1}</f>",
        "<f=add>{\"n\": 1}</f><f=list>ab,c</f> and [[12]], 日本",
        "<<f=list>a</f>",
        "[[[1]]",
    ] {
        let accepted = grammar.accepts(text.as_bytes());
        // The first two of three brackets are the trigger.
        assert_eq!(accepted, text != "[[[1]]", "{text}");
    }
    for text in
        ["<f=", "<f=sub>", "<f=add>{}</f>", "<f=list>abc</f>", "[[]]", "[[1]", "<f=add>{\"n\": 1} </f>"]
    {
        assert!(!grammar.accepts(text.as_bytes()), "{text}");
    }
}

#[test]
fn a_tag_may_be_asked_for_and_may_be_the_end() {
    for (at_least_one, stop_after_first) in [(false, true), (true, false), (true, true)] {
        let grammar = compile(&StructuralTags { at_least_one, stop_after_first, ..tools() }).expect("good");
        assert_eq!(grammar.accepts(b""), !at_least_one);
        assert_eq!(grammar.accepts(b"no tag <f"), !at_least_one);
        assert_eq!(grammar.accepts(b"a tag [[1]]"), !at_least_one);
        assert!(grammar.accepts(b"[[1]]"));
        assert_eq!(grammar.accepts(b"[[1]]."), !stop_after_first);
        assert_eq!(grammar.accepts(b"[[1]] and [[2]]"), !stop_after_first);
        assert!(grammar.accepts(&grammar.shortest()));
    }
}

#[test]
fn many_triggers_and_tags_are_refused_or_fast() {
    let triggers: Vec<String> = (0..1000)
        .map(|number| char::from_u32(0x4e00 + number).map_or_else(String::new, String::from))
        .collect();
    let tags = triggers.iter().map(|trigger| tag(trigger, TagContent::Regex("a".to_owned()), ""));
    let many = StructuralTags {
        tags: tags.collect(),
        triggers,
        excludes: Vec::new(),
        at_least_one: false,
        stop_after_first: false,
    };
    let grammar = compile(&many).expect("one edge for each");
    assert!(grammar.accepts("b一ab".as_bytes()) && !grammar.accepts("b一b".as_bytes()));
}

#[test]
fn masks_are_those_of_the_bytes() {
    let mut random = Random::new(51);
    let vocabulary = Arc::new(random::vocabulary(&mut random));
    for grammar in [
        compile(&tools()).expect("good"),
        compile(&StructuralTags { at_least_one: true, ..tools() }).expect("good"),
        compile(&tags(
            &["ab", "ba"],
            vec![
                tag("abb", TagContent::Regex("a?".to_owned()), "c"),
                tag("ba", TagContent::Regex("[ab]".to_owned()), ""),
            ],
        ))
        .expect("good"),
    ] {
        let constraint = Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("no token terminals");
        for output in grammar.samples(5).max_bytes(60).take(6) {
            let mut matcher = constraint.matcher();
            for (at, &byte) in output.iter().enumerate().take(30) {
                let mask = matcher.mask();
                for token in vocabulary.ids().filter(|&token| !vocabulary.is_end(token)) {
                    let mut recognizer = grammar.recognizer();
                    recognizer.extend(&output[..at]).expect("what was allowed");
                    let allowed = recognizer.extend(vocabulary.bytes(token)).is_ok();
                    assert_eq!(mask.contains(token), allowed, "{:?}", vocabulary.bytes(token));
                }
                matcher.commit(TokenId(u32::from(byte))).expect("a byte of an output");
            }
        }
    }
}

#[test]
fn what_does_not_go_together_is_named() {
    let any = || TagContent::Regex("a".to_owned());
    let bad_schema = TagContent::JsonSchema(json!({ "type": "colour" }).into());
    let bad_gbnf = TagContent::Gbnf("root ::= other".to_owned());
    for (given, expected) in [
        (tags(&[], vec![tag("<a>", any(), "")]), "triggers: must not be empty"),
        (tags(&["<"], vec![]), "tags: must not be empty"),
        (tags(&["<", ""], vec![tag("<a>", any(), "")]), "triggers[1]: must not be empty"),
        (
            tags(&["<"], vec![tag("<a>", any(), ""), tag("a>", any(), "")]),
            "tags[1].begin: must begin with one of the triggers",
        ),
        (tags(&["<", "["], vec![tag("<a>", any(), "")]), "triggers[1]: no tag begins with this trigger"),
        (
            tags(&["x<a", "<"], vec![tag("<b", any(), ""), tag("x<ab", any(), "")]),
            "tags[1].begin: its trigger `x<a` contains another trigger, which always fires first",
        ),
        (tags(&["<"], vec![tag("<a>", bad_schema, "")]), "tags[0].content: #/type: `type`: "),
        (
            tags(&["<"], vec![tag("<a>", bad_gbnf, "")]),
            "tags[0].content: line 1, column 10: rule `other` is not defined",
        ),
    ] {
        let error = compile(&given).expect_err(expected).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn tags_can_be_written_as_gbnf() {
    let grammar = compile(&tools()).expect("good");
    let again =
        Grammar::gbnf(&grammar.to_gbnf().expect("GBNF can say this"), &Limits::default()).expect("good");
    for output in grammar.samples(3).max_bytes(80).take(20) {
        assert!(again.accepts(&output), "{}", String::from_utf8_lossy(&output));
    }
}
