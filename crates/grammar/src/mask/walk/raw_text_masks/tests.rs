use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use serde_json::{Value, json};

use super::*;
use crate::frontend::parts_in_notation::tests::tagged;
use crate::{Around, Constraint, Grammar, Limits, Notation, Part, SchemaOptions, Strings};

/// Returns a vocabulary of all bytes and of some texts.
fn vocabulary() -> Arc<Vocabulary> {
    let texts = [
        "ab",
        "é",
        "</p>",
        "\n</",
        "p>\n",
        "aaaaaaaa",
        "aaaaaaaaaaaaaaaa",
        "\n</p>\n<p=",
        ",<",
        " ,<u",
        "\t,",
    ];
    let bytes = (0..=255).map(|byte| vec![byte]);
    let texts = bytes.chain(texts.iter().map(|text| text.as_bytes().to_vec()));
    let tokens: Vec<Token> = texts.map(|bytes| Token { bytes, kind: TokenKind::Text }).collect();
    let end = Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control };
    let last = TokenId(tokens.len() as u32);
    Arc::new(Vocabulary::new(tokens.into_iter().chain([end]).collect(), vec![last]).expect("not empty"))
}

/// Takes the masks along a call with an argument of the schema `text`. Returns the programs and masks that are
/// kept then, each mask with its state and length, and checks the memory.
fn kept(vocabulary: &Arc<Vocabulary>, text: &Value, value: &str) -> Vec<Vec<(u32, u32)>> {
    // Masks are shared only if something follows the text.
    let properties = json!({ "t": text, "u": { "type": "boolean" } });
    let schema = json!({ "type": "object", "properties": properties, "required": ["t", "u"] });
    let part = Part::Arguments { schema: schema.into(), notation: Arc::new(tagged()) };
    let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect("small");
    let constraint = Constraint::new(&grammar, Arc::clone(vocabulary)).expect("no tokens");
    let mut matcher = constraint.matcher();
    for byte in format!("<p=t>\n{value}\n</p>\n").bytes() {
        assert!(matcher.mask().contains(TokenId(byte.into())), "{value} {}", byte as char);
        matcher.commit(TokenId(byte.into())).expect("in the mask");
    }
    let masks = RawTextMasks::of(vocabulary);
    let known = masks.lock();
    let programs = || known.programs.values();
    let bytes: usize = programs()
        .map(|(program, masks)| {
            program.byte_len() + masks.values().map(|(_, text)| text.byte_len()).sum::<usize>()
        })
        .sum();
    assert_eq!(known.bytes, bytes);
    let places = |(_, masks): &(_, PlaceMasks)| {
        let mut places: Vec<(u32, u32)> =
            masks.iter().map(|(&state, &(length, _))| (state, length)).collect();
        places.sort_unstable();
        places
    };
    let mut all: Vec<_> = programs().map(places).collect();
    all.sort();
    all
}

#[test]
fn grammars_of_a_vocabulary_share_one_mask_per_state() {
    let vocabulary = vocabulary();
    for (bounded, first) in [
        (json!({ "type": "string", "maxLength": 70 }), 0),
        (json!({ "type": "string", "minLength": 3, "maxLength": 60 }), 3),
    ] {
        let before = kept(&vocabulary, &bounded, &"a".repeat(50));
        // The mask at the smallest length serves all places between two characters of the value.
        let places = before.iter().find(|places| places[0] == (0, first)).expect("a program");
        assert!(places.len() < 10, "{places:?}");
        // A grammar that is compiled again has the same program, and masks of smaller lengths replace others.
        let after = kept(&vocabulary, &bounded, "aaaa\nb");
        assert_eq!(after.len(), before.len());
        let after = after.iter().find(|places| places[0] == (0, first)).expect("a program");
        assert_eq!(after.len(), places.len());
        assert!(after.iter().zip(places).skip(1).all(|(after, before)| after.1 < before.1), "{after:?}");
    }
    assert_eq!(kept(&vocabulary, &json!({ "type": "string" }), "a").len(), 3);
}

#[test]
fn patterns_of_two_grammars_share_a_program() {
    let vocabulary = vocabulary();
    let pattern = json!({ "type": "string", "pattern": "^[a-f]{2,20}$" });
    assert_eq!(kept(&vocabulary, &pattern, "abc").len(), 1);
    assert_eq!(kept(&vocabulary, &pattern, "abcdef").len(), 1);
}

/// Compares the masks along `texts` with steps over single bytes. The texts are calls with an argument of
/// the schema `text` and a boolean.
fn check_masks(notation: Notation, text: &Value, texts: &[&str]) {
    let properties = json!({ "t": text, "u": { "type": "boolean" } });
    let schema = json!({ "type": "object", "properties": properties, "required": ["t", "u"] });
    let part = Part::Arguments { schema: schema.into(), notation: Arc::new(notation) };
    let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect("small");
    let vocabulary = vocabulary();
    let constraint = Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("no tokens");
    for text in texts {
        let mut matcher = constraint.matcher();
        for &byte in text.as_bytes() {
            let mask = matcher.mask();
            for token in vocabulary.ids().filter(|&token| vocabulary.kind(token).is_text()) {
                let bytes = vocabulary.bytes(token);
                let steps = bytes.iter().take_while(|&&byte| matcher.commit(TokenId(byte.into())).is_ok());
                let read = steps.count();
                matcher.rollback(read);
                assert_eq!(mask.contains(token), read == bytes.len(), "{:?}", String::from_utf8_lossy(bytes));
            }
            matcher.commit(TokenId(byte.into())).expect("in the mask");
        }
    }
}

#[test]
fn masks_up_to_the_maximum_length_equal_single_bytes() {
    let long = format!("<p=t>\n{}\n</p>\n<p=u>\ntrue\n</p>\n", "a".repeat(30));
    let texts = [long.as_str(), "<p=t>\na\n</\n</p>\n<p=u>\ntrue\n</p>\n"];
    for lengths in [json!({ "maxLength": 30 }), json!({ "minLength": 2, "maxLength": 31 })] {
        let mut text = lengths;
        text["type"] = "string".into();
        check_masks(tagged(), &text, &texts);
    }
}

/// The trie of tokens after white space has other nodes than the trie of all tokens.
#[test]
fn masks_in_white_space_equal_single_bytes() {
    let around = Around { before: Part::literal("="), after: Part::literal(",") };
    let strings = Strings::Raw { avoid: vec![",".to_owned()], nested_open: None, section: None };
    let notation = Notation {
        name_open: Part::literal("<"),
        around: std::array::from_fn(|_| around.clone()),
        strings,
        ..tagged()
    };
    let blanks = json!({ "type": "string", "pattern": "^[ \\t\\r\\n]*$" });
    check_masks(notation, &blanks, &["<t= \t,<u=true,"]);
}
