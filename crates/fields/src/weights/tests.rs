//! Shares of whole texts, as the sum of the biases of their bytes.

use std::sync::Arc;

use formwork_grammar::Guide;
use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};

use crate::builder::{
    boolean, composite, constant, field, int, reference, string, untagged, weighted, weighted_variant,
};
use crate::{Definition, DefinitionBuilder, Kind, Lead};

fn bytes() -> Arc<Vocabulary> {
    let bytes = (0..=255u8).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Byte });
    Arc::new(Vocabulary::new(bytes.collect(), vec![]).expect("small"))
}

/// Returns the share of a text: the exponential of the sum of the biases of its bytes.
fn share(definition: &Definition, text: &str) -> f64 {
    assert!(definition.validate(text).is_empty(), "{text}");
    let vocabulary = bytes();
    let mut place = definition.weights(&vocabulary).expect("it has weights").follow();
    let mut sum = 0.0;
    for byte in text.bytes() {
        let mut allowed = vocabulary.empty_set();
        allowed.insert(TokenId(byte.into()));
        sum += place.bias(&allowed).iter().map(|(_, bias)| f64::from(*bias)).sum::<f64>();
        place.push(TokenId(byte.into()));
    }
    sum.exp()
}

#[test]
fn weights_count_after_thoughts() {
    let definition = Definition::new("x", weighted([("rare", 1.0), ("common", 3.0)])).expect("well-formed");
    let vocabulary = bytes();
    let weights = definition.weights(&vocabulary).expect("it has weights");
    let share = |lead: Lead, text: &str| {
        let mut place = weights.clone().after(lead).follow();
        let biases = text.bytes().map(|byte| {
            let mut allowed = vocabulary.empty_set();
            allowed.insert(TokenId(byte.into()));
            let bias: f64 = place.bias(&allowed).iter().map(|(_, bias)| f64::from(*bias)).sum();
            place.push(TokenId(byte.into()));
            bias
        });
        biases.sum::<f64>().exp()
    };
    let lead = |open: Option<&str>, begun: &str| Lead {
        close: Some("</think>".to_owned()),
        open: open.map(str::to_owned),
        begun: begun.to_owned(),
    };
    for (lead, text) in [
        (Lead::default(), r#""rare""#),
        (lead(None, ""), "\"common\" or </think>\n\n\"rare\""),
        (lead(Some("<think>"), ""), "<think>\"common\"</think>\"rare\""),
        (lead(Some("<think>"), ""), r#""rare""#),
        (lead(None, "\"c</think>\n\""), r#"rare""#),
    ] {
        assert!((share(lead.clone(), text) - 0.25).abs() < 1e-6, "{lead:?} {text}");
    }
}

fn assert_shares(kind: impl Into<Kind>, expected: &[(&str, f64)]) {
    let definition = Definition::new("x", kind).expect("well-formed");
    for (text, expected) in expected {
        let given = share(&definition, text);
        assert!((given - expected).abs() < 1e-5, "{text}: {given}, not {expected}");
    }
}

#[test]
fn optional_members_have_their_probability() {
    let inner = composite([field("p", int(0, 9)).probability(0.1), field("q", int(0, 9)).probability(0.9)]);
    assert_shares(
        inner.clone(),
        &[
            ("{}", 0.9 * 0.1),
            (r#"{"p": 1}"#, 0.1 * 0.1),
            (r#"{"q": 1}"#, 0.9 * 0.9),
            (r#"{"p": 1, "q": 1}"#, 0.1 * 0.9),
        ],
    );
    let around = composite([
        field("name", string(0, 9)),
        field("nam", boolean()).probability(0.2),
        field("note", string(0, 9)).optional(),
        field("names", inner).probability(0.75),
        field("end", constant(1)),
        field("free", int(0, 9)).optional(),
    ]);
    assert_shares(
        around,
        &[
            (r#"{"name": "a,}", "end": 1}"#, 0.8 * 0.5 * 0.25),
            (r#"{"name": "", "nam": true, "end": 1}"#, 0.2 * 0.5 * 0.25),
            (r#"{"name": "", "note": "", "end": 1, "free": 3}"#, 0.8 * 0.5 * 0.25),
            (r#"{"name": "", "nam": true, "names": {"q": 1}, "end": 1}"#, 0.2 * 0.5 * 0.75 * 0.81),
        ],
    );
}

#[test]
fn structures_have_their_weight() {
    let rarity = weighted([("rare", 1.0), ("common", 3.0)]);
    let inner = composite([field("rarity", rarity), field("x", int(0, 9)).probability(0.5)]);
    let event = weighted_variant([
        ("hit", inner.into(), 6.0),
        ("hide", boolean(), 3.0),
        ("miss", int(0, 9).into(), 1.0),
    ]);
    assert_shares(
        event,
        &[
            (r#"{"miss": 4}"#, 0.1),
            (r#"{"hide": true}"#, 0.3),
            (r#"{"hit": {"rarity": "rare", "x": 1}}"#, 0.6 * 0.25 * 0.5),
            (r#"{"hit": {"rarity": "common"}}"#, 0.6 * 0.75 * 0.5),
        ],
    );
}

#[test]
fn objects_count_once_they_are_told_apart() {
    let object = |kind: &str, probability| {
        composite([field("kind", constant(kind)), field("x", int(0, 9)).probability(probability)])
    };
    let either = untagged([object("a", 0.1), object("b", 0.8)]);
    assert_shares(either, &[(r#"{"kind": "a"}"#, 0.9), (r#"{"kind": "b", "x": 1}"#, 0.8)]);
    let tree =
        composite([field("next", reference("tree")).probability(0.25), field("y", int(0, 9)).optional()]);
    let tree = DefinitionBuilder::new(reference("tree")).define("tree", tree).build().expect("it can end");
    let given = share(&tree, r#"{"next": {"next": {}}}"#);
    let expected = 0.25 * 0.25 * (0.75 * 0.5);
    assert!((given - expected).abs() < 1e-5, "{given}, not {expected}");
}

#[test]
fn rejects_weights_without_effect() {
    let error = |kind: Kind| Definition::new("x", kind).expect_err("rejected").to_string();
    let mut member = field("a", int(0, 9)).probability(0.5);
    member.optional = false;
    assert_eq!(
        error(composite([member]).into()),
        "a: a required member has no probability; add `optional: true`"
    );
    for (given, shown) in [(0.0, "0"), (1.0, "1"), (f64::NAN, "NaN"), (-0.5, "-0.5")] {
        let member = field("a", int(0, 9)).probability(given);
        let expected = format!("a: probability is {shown}; expected a number from 1e-9 to 0.999999999");
        assert_eq!(error(composite([member]).into()), expected);
    }
    let pair = weighted_variant([("a", boolean(), 1.0), ("b", boolean(), 2.0)]);
    assert!(error(pair.clone().untagged().into()).starts_with("$: an untagged variant has no weights"));
    let mut short = pair.clone();
    short.weights.pop();
    assert_eq!(error(short.into()), "$: expected 2 weights, one for each structure; found 1");
    let mut wrong = pair;
    wrong.weights[1] = 0.0;
    assert_eq!(error(wrong.into()), "$: the weight 0 is not between 1e-9 and 1e9");
}
