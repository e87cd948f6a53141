//! Tests of the choices within outputs: their probabilities against generations, and their bits.

use std::sync::Arc;

use formwork_engine::{
    Decided, DecisionError, DecisionRequest, Ending, EngineHandle, EngineOptions, Penalties, Question,
    Request, Sampling, SearchLimits, TrackedChoice, Visited,
};
use formwork_grammar::{ChoiceKind, ChoiceReader, Constraint, Grammar, Limits, OptionValue, SchemaOptions};
use formwork_lm::ScriptedModel;
use serde_json::{Value, json};

use crate::fixture::{self, Shared, VOCABULARY, babble};

/// A model whose logits are small enough that most choices are open.
fn undecided() -> EngineHandle {
    let model = ScriptedModel::new(VOCABULARY, 600, |tokens, row| {
        babble(tokens, row);
        for logit in row {
            *logit *= 0.5;
        }
    });
    fixture::start(Shared::new(model).batch_invariant(true), EngineOptions::default())
}

fn schema() -> Grammar {
    let schema = json!({
        "type": "object",
        "properties": {
            "first": { "enum": ["true", "trust", "false", "t"] },
            "second": { "type": "boolean" },
            "list": { "type": "array", "items": { "enum": [1, 12, null] }, "maxItems": 3 },
            "maybe": { "const": "x" }
        },
        "required": ["first", "second", "list"]
    });
    Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default()).unwrap()
}

fn request(grammar: &Grammar, seed: u64) -> Request {
    let constraint = Constraint::new(grammar, Arc::clone(fixture::tokenizer().vocabulary())).unwrap();
    let word = |text: &str| fixture::tokens(text)[0];
    Request {
        constraint: Some(constraint),
        sampling: Sampling { temperature: 0.8, top_p: 0.97, seed, ..Sampling::default() },
        penalties: Penalties { presence: 0.3, repetition: 1.1, ..Penalties::default() },
        logit_bias: vec![(word("f"), 0.4)],
        reports_tokens: true,
        ..fixture::request("Answer:")
    }
}

/// Generates an output, and returns its text with its choices.
fn tracked(engine: &EngineHandle, request: &Request, reader: ChoiceReader) -> (String, Vec<TrackedChoice>) {
    let mut tracker = engine.tracker(request, reader).unwrap();
    let told = fixture::run(engine, request);
    told.tokens.iter().for_each(|&token| tracker.token(token));
    tracker.show(&told.text);
    let mut points = tracker.content(&told.text);
    points.extend(tracker.finish());
    (told.text, points.into_iter().filter_map(|point| tracker.questions(point).unwrap()).collect())
}

fn decide(engine: &EngineHandle, choices: &[TrackedChoice]) -> Decided {
    let both = choices.iter().flat_map(|choice| [choice.question.clone(), choice.sampled.clone()]);
    let limits = SearchLimits { tolerance: 0.0, nodes: usize::MAX };
    let request = DecisionRequest { questions: both.collect(), limits, deadline: None, is_part: true };
    engine.decide(request).unwrap().blocking_result().unwrap()
}

#[test]
fn tokens_are_reported_and_change_nothing() {
    let engine = undecided();
    let with = fixture::run(&engine, &request(&schema(), 3));
    let without = fixture::run(&engine, &Request { reports_tokens: false, ..request(&schema(), 3) });
    assert_eq!((&with.text, with.tokens.is_empty()), (&without.text, false));
    let tokenizer = fixture::tokenizer();
    let spelt: Vec<u8> =
        with.tokens.iter().flat_map(|&token| tokenizer.vocabulary().bytes(token).to_vec()).collect();
    assert_eq!(spelt, with.text.as_bytes());
    assert!(without.tokens.is_empty());
    assert_eq!(with.tokens.len(), with.finish().usage.completion_tokens);
}

#[test]
fn choices_of_an_output_have_the_bits_of_each_alone() {
    let engine = undecided();
    let grammar = schema();
    for seed in 0..8 {
        let (text, choices) = tracked(&engine, &request(&grammar, seed), ChoiceReader::json(&grammar));
        let value: Value = serde_json::from_str(&text).unwrap();
        let together = decide(&engine, &choices);
        for (choice, pair) in choices.iter().zip(together.enclosures.chunks(2)) {
            let alone = decide(&engine, std::slice::from_ref(choice));
            assert_eq!(alone.enclosures, pair, "{text}");
            let point = &choice.point;
            if point.kind == ChoiceKind::Value {
                let chosen = OptionValue::Value(value.pointer(&point.path).unwrap().clone());
                assert_eq!(point.options[point.chosen].value, chosen);
            }
            for law in pair {
                let shares = law.shares().unwrap();
                assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
        let last = choices.last().unwrap();
        assert!(together.prompt_tokens <= last.question.prompt.len() + 2 * choices.len());
    }
}

/// Checks that the shares of samples agree with the probabilities of the first choice, within four standard
/// deviations.
fn assert_sampled(grammar: &Grammar, reader: impl Fn() -> ChoiceReader, change: impl Fn(&mut Request)) {
    const SAMPLES: u64 = 4000;
    let engine = undecided();
    let request = |seed: u64| {
        let mut request = request(grammar, seed);
        change(&mut request);
        request
    };
    let (_, choices) = tracked(&engine, &request(0), reader());
    let point = &choices[0].point;
    let shares = decide(&engine, &choices[..1]).enclosures[1].shares().unwrap();
    let mut counts = vec![0; point.options.len()];
    for seed in 0..SAMPLES {
        let text = fixture::run(&engine, &request(seed)).text;
        let rest = &text[point.start..];
        let is_chosen = |texts: &[String]| texts.iter().any(|text| rest.starts_with(text.as_str()));
        counts[point.options.iter().position(|option| is_chosen(&option.texts)).unwrap()] += 1;
    }
    for (&share, &count) in shares.iter().zip(&counts) {
        let deviation = (share * (1.0 - share) / SAMPLES as f64).sqrt();
        let given = f64::from(count) / SAMPLES as f64;
        assert!((given - share).abs() <= 4.0 * deviation + 1e-9, "{shares:?}: {counts:?}");
    }
}

#[test]
fn samples_have_the_probabilities_of_the_sampler() {
    let grammar = schema();
    let reader = || ChoiceReader::json(&grammar);
    assert_sampled(&grammar, reader, |_| {});
    assert_sampled(&grammar, reader, |request| request.forced_tokens = false);
    assert_sampled(&grammar, reader, |request| {
        request.sampling.xtc_probability = 0.5;
        request.sampling.top_k = 3;
    });
    assert_sampled(&grammar, reader, |request| request.sampling.temperature = 0.0);
    let color = "root ::= \"It is \" (\"true\" | \"trust\" | \"ff\") \".\" [a-z]*";
    let gbnf = Grammar::gbnf(color, &Limits::default()).unwrap();
    assert_sampled(&gbnf, || ChoiceReader::text(&gbnf), |request| request.max_tokens = Some(20));
}

#[test]
fn the_sampler_and_the_model_differ_where_the_mask_cuts_off() {
    let engine = undecided();
    let grammar = schema();
    let (_, choices) = tracked(&engine, &request(&grammar, 1), ChoiceReader::json(&grammar));
    let decided = decide(&engine, &choices);
    let (own, sampled) = (&decided.enclosures[0], &decided.enclosures[1]);
    assert_eq!((own.error, sampled.error), (0.0, 0.0));
    assert!(own.mass() < 0.01 && (sampled.mass() - 1.0).abs() < 1e-9, "{} {}", own.mass(), sampled.mass());
    assert_ne!(own.shares(), sampled.shares());
}

#[test]
fn options_beyond_the_context_have_an_error() {
    let model = ScriptedModel::new(VOCABULARY, 30, babble);
    let engine = fixture::start(Shared::new(model), EngineOptions::default());
    let long = "t".repeat(40);
    let question = Question {
        prompt: fixture::tokens("0123456789012345678901234567"),
        options: vec![vec!["t".to_owned()], vec!["fx".to_owned()], vec![format!("f{long}")]],
        ending: Ending::Open,
        temperature: 1.0,
        visited: Visited::Option(0),
        sampler: None,
    };
    let limits = SearchLimits { tolerance: 0.0, nodes: usize::MAX };
    let request =
        |is_part| DecisionRequest { questions: vec![question.clone()], limits, deadline: None, is_part };
    assert!(matches!(engine.decide(request(false)), Err(DecisionError::TooLong { .. })));
    let bounds = engine.decide(request(true)).unwrap().blocking_result().unwrap().enclosures.remove(0);
    assert!(bounds.ln_lower[0].is_finite() && bounds.ln_lower[1].is_finite());
    assert!(bounds.ln_lower[2] == f64::NEG_INFINITY && bounds.ln_upper[2].is_finite());
    assert!(bounds.error > 0.0);
}
