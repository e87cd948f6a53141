//! Grammars composed of parts: whole answers with tool calls.

use std::sync::Arc;

use formwork_grammar::{Constraint, Grammar, GrammarError, Limits, Part, SchemaOptions, Trigger};
use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use serde_json::json;

fn compile(part: &Part) -> Result<Grammar, GrammarError> {
    Grammar::of_parts(part, &SchemaOptions::default(), &Limits::default())
}

fn call(name: &str) -> Part {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
        "additionalProperties": false });
    Part::sequence([
        Part::literal(format!("{{\"name\": \"{name}\", \"arguments\": ")),
        Part::Json(schema.into()),
        Part::literal("}</call>"),
    ])
}

fn calls() -> Part {
    let item = Box::new(Part::OneOf(vec![call("add"), call("sub")]));
    Part::List { item, separator: Box::new(Part::literal("\n<call>")), max: Some(2) }
}

#[test]
fn an_answer_is_text_until_it_calls() {
    let trigger = || Trigger::Text("<call>".to_owned());
    let may = compile(&Part::Text { triggers: vec![(trigger(), calls())], may_end: true }).expect("good");
    let must = compile(&Part::Text { triggers: vec![(trigger(), calls())], may_end: false }).expect("good");
    let one = "<call>{\"name\": \"add\", \"arguments\": {\"n\": 1}}</call>";
    let two = format!("So <ca.. {one}\n<call>{{\"name\": \"sub\", \"arguments\": {{\"n\": -2}}}}</call>");
    for (text, calls, whole) in [
        ("", false, true),
        ("no call <call at all", false, true),
        (one, true, true),
        (&two, true, true),
        ("<call>{\"name\": \"mul\"", false, false),
        (&format!("{one}\n{one}"), true, true),
        (&format!("{one}\n{one}\n{one}"), false, false),
        (&format!("{one} and text"), false, false),
        ("<call>", false, false),
    ] {
        assert_eq!(may.accepts(text.as_bytes()), whole, "{text}");
        assert_eq!(must.accepts(text.as_bytes()), calls, "{text}");
    }
    assert!(must.accepts(&must.shortest()));
}

#[test]
fn text_before_a_trigger_that_overlaps_itself_ends_at_the_first() {
    let part =
        Part::Text { triggers: vec![(Trigger::Text("aa".to_owned()), Part::literal("!"))], may_end: true };
    let grammar = compile(&part).expect("good");
    assert!(grammar.accepts(b"a") && grammar.accepts(b"baa!") && grammar.accepts(b"abaa!"));
    assert!(!grammar.accepts(b"aaa!") && !grammar.accepts(b"aa"));
}

#[test]
fn a_token_can_be_a_trigger() {
    let bytes = (0..=255u8).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Text });
    let control = |text: &str| Token { bytes: text.into(), kind: TokenKind::Control };
    let tokens = bytes.chain([control("</s>"), control("[CALLS]")]).collect();
    let vocabulary = Arc::new(Vocabulary::new(tokens, vec![TokenId(256)]).expect("a vocabulary"));
    let part = Part::Text {
        triggers: vec![(Trigger::Token(TokenId(257)), Part::Json(json!({ "const": [1] }).into()))],
        may_end: true,
    };
    let mut matcher = Constraint::new(&compile(&part).expect("good"), vocabulary).expect("known").matcher();
    for byte in "[CALLS]{é".bytes() {
        matcher.commit(TokenId(byte.into())).expect("text is free");
    }
    assert!(matcher.accepting() && matcher.mask().contains(TokenId(257)));
    matcher.commit(TokenId(257)).expect("the trigger");
    assert_eq!((matcher.forced_bytes(), matcher.accepting()), (b"[1]".to_vec(), false));
}

#[test]
fn a_lone_part_compiles_as_its_kind() {
    let (options, limits) = (SchemaOptions::default(), Limits::default());
    let schema = json!({ "type": "array", "items": { "type": "integer" } });
    let of_schema = Grammar::json_schema(&schema, &options, &limits).expect("good");
    let gbnf = "root ::= \"a\" | \"b\"\nother ::= \"c\"";
    let of_gbnf = Grammar::gbnf(gbnf, &limits).expect("good");
    for (part, expected) in [(Part::Json(schema.into()), of_schema), (Part::Gbnf(gbnf.to_owned()), of_gbnf)] {
        let grammar = compile(&part).expect("good");
        let described = |grammar: &Grammar| (grammar.size(), grammar.warnings().to_vec());
        assert_eq!(described(&grammar), described(&expected), "{part:?}");
        let within = compile(&Part::sequence([Part::literal("<"), part, Part::literal(">")])).expect("good");
        for output in grammar.samples(3).take(20) {
            assert!(within.accepts(&[b"<", output.as_slice(), b">"].concat()));
        }
    }
    let objects =
        [Part::JsonObject, Part::at("o", Part::JsonObject)].map(|part| compile(&part).expect("good"));
    for grammar in objects {
        assert!(grammar.accepts(br#"{"a": [1]}"#) && !grammar.accepts(b"[1]"));
    }
}

#[test]
fn errors_name_the_place() {
    let bad = json!({ "properties": { "x": { "type": 3 } } });
    let bad = Part::at("tools[2].function.parameters", Part::Json(bad.into()));
    let error = compile(&Part::OneOf(vec![call("add"), bad])).expect_err("bad").to_string();
    assert!(error.starts_with("tools[2].function.parameters: #/properties/x/type: "), "{error}");
}
