//! Weights of choices, from the definition to the model's output.

use std::collections::BTreeMap;
use std::sync::Arc;

use formwork_engine::{Engine, EngineHandle, EngineOptions, Request, Sampling};
use formwork_fields::builder::{
    array, composite, constant, field, int, reference, string, untagged, variant, weighted, weighted_variant,
};
use formwork_fields::field::{Choice, Member, Scalar};
use formwork_fields::{Definition, DefinitionBuilder, Kind};
use formwork_grammar::{Constraint, Follower, Guide, Limits};
use formwork_lm::ScriptedModel;
use formwork_tests::random::Random;
use formwork_tests::random::fields::{self, Values, canonical};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
use serde_json::Value;

/// Creates a vocabulary of every byte, some texts, and end-of-sequence.
fn vocabulary(texts: &[String]) -> Vocabulary {
    let bytes = (0..=255u8).map(|byte| vec![byte]);
    let texts = texts.iter().map(|text| text.as_bytes().to_vec());
    let mut tokens: Vec<Token> =
        bytes.chain(texts).map(|bytes| Token { bytes, kind: TokenKind::Text }).collect();
    let end = TokenId(tokens.len() as u32);
    tokens.push(Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control });
    Vocabulary::new(tokens, vec![end]).expect("small and not empty")
}

/// Starts an engine whose model gives all tokens the same logit.
fn engine(texts: &[String], speculate: usize) -> EngineHandle {
    let tokenizer = Arc::new(Tokenizer::greedy(vocabulary(texts)));
    let model = ScriptedModel::new(tokenizer.vocabulary().len(), 512, |_, _| {});
    Engine::start(
        Box::new(model),
        tokenizer,
        EngineOptions { speculate: Some(speculate), ..EngineOptions::default() },
    )
}

fn request(engine: &EngineHandle, definition: &Definition, seed: u64) -> Request {
    let vocabulary = engine.tokenizer().vocabulary();
    let grammar = definition.grammar(&Limits::default()).expect("within limits");
    let mut request = Request::new(vec![TokenId(b'?'.into())]);
    request.constraint = Some(Constraint::new(&grammar, Arc::clone(vocabulary)).expect("without terminals"));
    let weights = definition.weights(vocabulary).expect("there are weights");
    request.guide = Some(Arc::new(weights));
    request.sampling = Sampling { temperature: 1.0, seed, ..Sampling::default() };
    request
}

/// Counts the generated values, grouped by the result of `read`.
fn counts(
    definition: &Definition,
    texts: &[String],
    draws: u64,
    read: impl Fn(&Value) -> Value,
) -> BTreeMap<String, f64> {
    let engine = engine(texts, 0);
    let template = request(&engine, definition, 0);
    let mut counts = BTreeMap::new();
    for seed in 0..draws {
        let sampling = Sampling { seed, ..template.sampling };
        let (text, _) = engine
            .generate(Request { sampling, ..template.clone() })
            .expect("taken")
            .collect()
            .expect("generated");
        assert!(definition.validate(&text).is_empty(), "{text}");
        let value = serde_json::from_str(&text).expect("valid");
        *counts.entry(read(&value).to_string()).or_default() += 1.0;
    }
    counts
}

/// Checks with Pearson's chi-square test that counts are proportional to weights. The bounds let
/// one in 10,000 correct samplers fail; draws are the same on every run.
fn assert_proportion(counts: &BTreeMap<String, f64>, choice: &Choice) {
    let draws: f64 = counts.values().sum();
    let total: f64 = choice.weights.iter().sum();
    let statistic: f64 = (choice.options.iter().zip(&choice.weights))
        .map(|(option, weight)| {
            let expected = draws * weight / total;
            let count = counts.get(&option.text()).copied().unwrap_or_default();
            (count - expected).powi(2) / expected
        })
        .sum();
    let bound = [0.0, 15.2, 18.5, 21.2, 23.6][choice.options.len() - 1];
    assert!(statistic < bound, "{statistic} for {counts:?}, weights {:?}", choice.weights);
    assert!(counts.len() == choice.options.len());
}

#[test]
fn options_come_in_the_proportion_of_their_weights() {
    let choices = [
        weighted([("warrior", 6.0), ("mage", 3.0), ("rogue", 1.0)]),
        // Options with a common prefix, and an option that is a prefix of another.
        weighted([("sword", 50.0), ("swordfish", 20.0), ("spear", 20.0), ("shield", 5.0), ("s", 5.0)]),
        weighted([(Scalar::from(1), 4.0), (12.into(), 3.0), (123.into(), 2.0), (true.into(), 1.0)]),
        weighted([("a\"b", 0.7), ("a\\", 0.2), ("é", 0.1)]),
    ];
    for choice in choices {
        let definition = Definition::new("choice", choice.clone()).expect("well-formed");
        assert_proportion(&counts(&definition, &[], 3000, Clone::clone), &choice);
    }
}

#[test]
fn tokens_may_cross_the_ends_of_options() {
    let choice = weighted([("sword", 5.0), ("swordfish", 3.0), ("spear", 2.0)]);
    // Each option gets the same number of tokens, so that the model prefers none.
    let mut texts: Vec<String> = vec![": \"".to_owned(), "\", \"".to_owned(), "\"}".to_owned()];
    for option in ["sword", "swordfish", "spear"] {
        texts.extend(["", "\"", " \"", ": \"", "\": \""].map(|before| format!("{before}{option}\"")));
        texts.extend(["\", \"", "\", ", "\","].map(|after| format!("{option}{after}")));
    }
    let members = [
        field("name", string(1, 1).of("ab".parse().expect("a set"))),
        field("first", choice.clone()),
        field("second", choice.clone()),
        field("last", constant(1)),
    ];
    let definition = Definition::new("both", composite(members)).expect("well-formed");
    for member in ["first", "second"] {
        assert_proportion(&counts(&definition, &texts, 3000, |value| value[member].clone()), &choice);
    }
    let definition = Definition::new("list", array(2, 2, choice.clone())).expect("well-formed");
    for index in 0..2 {
        assert_proportion(&counts(&definition, &texts, 3000, |value| value[index].clone()), &choice);
    }
}

#[test]
fn structures_are_told_apart_before_their_weights_count() {
    let common = weighted([("x", 9.0), ("y", 1.0)]);
    let rare = weighted([("x", 1.0), ("y", 9.0)]);
    let inner = |kind: &str, choice: &Choice| {
        composite([field("kind", constant(kind)), field("value", choice.clone())])
    };
    let either = untagged([inner("common", &common), inner("rare", &rare)]);
    let tagged = variant([("common", inner("common", &common)), ("rare", inner("rare", &rare))]);
    let read = |value: &Value| {
        if value.get("kind").is_some() {
            value.clone()
        } else {
            value.as_object().unwrap().values().next().unwrap().clone()
        }
    };
    for kind in [Kind::from(either), tagged.into()] {
        let definition = Definition::new("either", kind).expect("well-formed");
        let counts = counts(&definition, &[], 3000, read);
        for (kind, choice) in [("common", &common), ("rare", &rare)] {
            let of_kind = |value: &str| {
                let value = serde_json::json!({ "kind": kind, "value": value });
                (
                    format!("{:?}", value["value"].as_str().unwrap()),
                    counts.get(&value.to_string()).copied().unwrap_or_default(),
                )
            };
            assert_proportion(&["x", "y"].map(of_kind).into_iter().collect(), choice);
        }
    }
}

#[test]
fn optional_members_come_with_their_probability() {
    // Each outcome has the same number of tokens, so that the model prefers none. A token such as
    // `, "b": ` would make a comma likelier than the brace, which has only one token.
    let texts = ["{\"a\": ", "{\"b\": ", "{}"].map(str::to_owned);
    let members = [field("a", int(1, 1)).probability(0.8), field("b", int(1, 1)).probability(0.3)];
    let definition = Definition::new("pair", composite(members)).expect("well-formed");
    let read = |value: &Value| {
        Value::from(format!("{}{}", value.get("a").map_or("", |_| "a"), value.get("b").map_or("", |_| "b")))
    };
    let expected = weighted([("ab", 0.24), ("a", 0.56), ("b", 0.06), ("", 0.14)]);
    assert_proportion(&counts(&definition, &texts, 3000, read), &expected);
}

#[test]
fn structures_come_in_the_proportion_of_their_weights() {
    let event = weighted_variant([
        ("hit", int(1, 1).into(), 6.0),
        ("hide", int(1, 1).into(), 3.0),
        ("miss", int(1, 1).into(), 1.0),
    ]);
    let definition = Definition::new("event", event).expect("well-formed");
    let read = |value: &Value| Value::from(value.as_object().unwrap().keys().next().unwrap().as_str());
    let expected = weighted([("hit", 6.0), ("hide", 3.0), ("miss", 1.0)]);
    assert_proportion(&counts(&definition, &[], 3000, read), &expected);
}

#[test]
fn weighted_outputs_are_the_same_alone_among_others_and_with_drafts() {
    let choice = weighted([("alpha", 5.0), ("alphabet", 3.0), ("beta", 2.0)]);
    let definition = Definition::new("list", array(3, 6, choice)).expect("well-formed");
    let texts = ["\", \"".to_owned(), "\"alpha".to_owned()];
    let all = |speculate: usize, together: bool| {
        let engine = engine(&texts, speculate);
        let requests = (0..30).map(|seed| request(&engine, &definition, seed));
        let text = |generation: formwork_engine::Generation| generation.collect().expect("no failure").0;
        let outputs: Vec<String> = if together {
            let generations: Vec<_> =
                requests.map(|request| engine.generate(request).expect("accepted")).collect();
            generations.into_iter().map(text).collect()
        } else {
            requests.map(|request| text(engine.generate(request).expect("accepted"))).collect()
        };
        (outputs, engine.stats().accepted_tokens)
    };
    let (alone, _) = all(0, false);
    assert_eq!(all(0, true).0, alone);
    let (drafted, accepted) = all(4, true);
    assert_eq!(drafted, alone);
    assert!(accepted > 0, "no draft was right");
}

#[test]
fn the_likeliest_is_chosen_by_weight_when_greedy() {
    let engine = engine(&[], 0);
    let choice = weighted([("a", 1.0), ("b", 5.0), ("c", 2.0)]);
    let mut request = request(&engine, &Definition::new("choice", choice).expect("well-formed"), 0);
    request.sampling = Sampling::default();
    assert_eq!(engine.generate(request).unwrap().collect().unwrap().0, "\"b\"");
}

/// Sums the logarithms of the shares of all weighted choices in a value. Structures must have tags.
fn share(definition: &Definition, kind: &Kind, value: &Value) -> f64 {
    match kind.plain() {
        Kind::Choice(choice) => {
            let index =
                choice.options.iter().position(|option| option.to_json() == *value).expect("an option");
            let total: f64 = choice.weights.iter().sum();
            choice.weights.get(index).map_or(0.0, |weight| (weight / total).ln())
        }
        Kind::Composite(composite) => {
            let members =
                composite.fields.iter().filter_map(|member| Some((member, value.get(&member.name)?)));
            let inner: f64 = members.map(|(member, value)| share(definition, &member.kind, value)).sum();
            inner + presence(&composite.fields, value)
        }
        Kind::Variant(variant) => {
            let (name, value) = value.as_object().and_then(|object| object.iter().next()).expect("a tag");
            let index = variant.variants.iter().position(|branch| branch.name.as_ref() == Some(name));
            let index = index.expect("a structure");
            let total: f64 = variant.weights.iter().sum();
            let weight = variant.weights.get(index).map_or(0.0, |weight| (weight / total).ln());
            weight + share(definition, &variant.variants[index].kind, value)
        }
        Kind::Array(array) => {
            value.as_array().expect("a list").iter().map(|item| share(definition, &array.element, item)).sum()
        }
        Kind::Ref(name) => {
            let structure = definition.definitions().iter().find(|(known, _)| known == name);
            share(definition, &structure.expect("checked").1, value)
        }
        _ => 0.0,
    }
}

/// Returns the logarithm of the probability that exactly the members of `value` are present. After
/// each member, the optional members up to the next required one are decided about in order.
fn presence(members: &[Member], value: &Value) -> f64 {
    let mut sum = 0.0;
    let mut rest = members;
    loop {
        let run: Vec<&Member> = rest.iter().take_while(|member| member.optional).collect();
        if run.iter().any(|member| member.probability.is_some()) {
            for member in run {
                let probability = member.probability.unwrap_or(0.5);
                if value.get(&member.name).is_some() {
                    sum += probability.ln();
                    break;
                }
                sum += (1.0 - probability).ln();
            }
        }
        match rest.iter().position(|member| value.get(&member.name).is_some()) {
            Some(next) => rest = &rest[next + 1..],
            None => return sum,
        }
    }
}

fn is_tagged(kind: &Kind) -> bool {
    match kind.plain() {
        Kind::Composite(composite) => composite.fields.iter().all(|member| is_tagged(&member.kind)),
        Kind::Variant(variant) => {
            !variant.untagged && variant.variants.iter().all(|branch| is_tagged(&branch.kind))
        }
        Kind::Array(array) => is_tagged(&array.element),
        _ => true,
    }
}

/// Sums the biases along a text that is split into tokens at random.
fn added(follower: &mut dyn Follower, vocabulary: &Vocabulary, text: &str, random: &mut Random) -> f64 {
    let all = formwork_vocab::TokenSet::full(vocabulary.len());
    let mut rest = text.as_bytes();
    let mut sum = 0.0;
    loop {
        let fitting: Vec<TokenId> = vocabulary
            .ids()
            .filter(|&token| !vocabulary.is_end(token) && rest.starts_with(vocabulary.bytes(token)))
            .collect();
        let token = if rest.is_empty() { vocabulary.ends()[0] } else { *random.pick(&fitting) };
        let bias = follower.bias(&all).into_iter().find(|(biased, _)| *biased == token);
        sum += bias.map_or(0.0, |(_, bias)| f64::from(bias));
        if rest.is_empty() {
            return sum;
        }
        follower.push(token);
        rest = &rest[vocabulary.bytes(token).len()..];
    }
}

#[test]
fn shares_do_not_depend_on_how_a_text_is_cut() {
    let mut checked = 0;
    for seed in 0..4000 {
        let definition = fields::definition(&mut Random::new(seed));
        let kinds = definition.definitions().iter().map(|(_, kind)| kind);
        if !is_tagged(definition.root()) || !kinds.into_iter().all(is_tagged) {
            continue;
        }
        let value = Values::new(&definition, Random::new(seed), 0).value();
        let text = canonical(&value);
        // Use pieces of the text as tokens.
        let mut random = Random::new(seed + 1);
        let chars: Vec<char> = text.chars().collect();
        let pieces: Vec<String> = (0..60)
            .map(|_| {
                let from = random.below(chars.len());
                chars[from..chars.len().min(from + 2 + random.below(8))].iter().collect()
            })
            .collect();
        let vocabulary = Arc::new(vocabulary(&pieces));
        let Some(weights) = definition.weights(&vocabulary) else { continue };
        let expected = share(&definition, definition.root(), &value);
        for _ in 0..3 {
            let given = added(&mut *weights.follow(), &vocabulary, &text, &mut random);
            assert!((given - expected).abs() < 1e-4, "seed {seed}: {given} for {expected}: {text}");
        }
        checked += usize::from(expected != 0.0);
    }
    assert!(checked > 100, "{checked}");
}

/// A choice among values of other kinds is weighted from its first byte on.
#[test]
fn choices_are_weighted_among_other_kinds() {
    let choice = weighted([("x", 9.0), ("y", 1.0)]);
    let either = untagged([Kind::from(choice.clone()), int(0, 9).into()]);
    let definition = Definition::new("either", either).expect("well-formed");
    let mut counts = counts(&definition, &[], 3000, Clone::clone);
    let numbers: f64 = (0..=9).filter_map(|number| counts.remove(&number.to_string())).sum();
    // The model prefers none of the eleven first bytes, and weights do not change the kind.
    let expected = 3000.0 * 10.0 / 11.0;
    assert!((numbers - expected).powi(2) / expected < 3.0, "{numbers} numbers");
    assert_proportion(&counts, &choice);
}

/// Structures that reach the same structure along 2^40 paths.
#[test]
fn ways_to_a_structure_may_be_many() {
    let mut builder = DefinitionBuilder::new(composite([field("first", reference("d0"))]));
    for index in 0..40 {
        let next = reference(format!("d{}", index + 1));
        builder = builder.define(format!("d{index}"), untagged([next.clone(), next]));
    }
    let without = builder.clone().define("d40", int(0, 9)).build().expect("well-formed");
    let vocabulary = Arc::new(vocabulary(&[]));
    assert!(without.weights(&vocabulary).is_none());
    let choice = weighted([("x", 3.0), ("y", 1.0)]);
    let with = builder.define("d40", choice).build().expect("well-formed");
    let weights = with.weights(&vocabulary).expect("there are weights");
    let given = added(&mut *weights.follow(), &vocabulary, r#"{"first": "x"}"#, &mut Random::new(1));
    assert!((given - 0.75f64.ln()).abs() < 1e-4, "{given}");
}

#[test]
fn without_weights_there_is_no_guide() {
    let definition = Definition::new("age", int(0, 9)).expect("well-formed");
    assert!(definition.weights(&Arc::new(vocabulary(&[]))).is_none());
}
