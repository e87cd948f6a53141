//! Tests of models that return the likeliest tokens instead of rows.

use formwork_engine::{EngineOptions, Penalties, Request, Sampling};
use formwork_lm::ScriptedModel;

use crate::fixture::{Shared, VOCABULARY, babble, constraint, request, run, start};

/// Grammar of texts of printable characters.
const TEXT: &str = "root ::= \"<\" [ -~]* \">\"";

/// A model with a few likely tokens, as real models have.
fn decided() -> Shared {
    Shared::new(ScriptedModel::new(VOCABULARY, 600, |tokens, row| {
        babble(tokens, row);
        for logit in row {
            *logit *= 3.0;
        }
    }))
}

#[test]
fn likeliest_tokens_give_the_texts_of_whole_rows() {
    let model = decided().with_top(100);
    let (rows, tops) = (start(decided(), EngineOptions::default()), model.clone());
    let engine = start(model, EngineOptions::default());
    let samplings = [
        Sampling { temperature: 1.0, ..Sampling::default() },
        Sampling { temperature: 0.8, top_k: 20, top_p: 0.9, ..Sampling::default() },
        Sampling { temperature: 0.7, top_p: 0.5, ..Sampling::default() },
        Sampling { temperature: 1.2, min_p: 0.1, xtc_probability: 0.5, ..Sampling::default() },
        Sampling { temperature: 0.9, typical_p: 0.8, ..Sampling::default() },
    ];
    for sampling in samplings {
        for seed in 0..6 {
            let asked = Request {
                constraint: (seed % 2 == 0).then(|| constraint(TEXT)),
                max_tokens: Some(40),
                sampling: Sampling { seed, ..sampling },
                ..request("say>")
            };
            let before = tops.top_rows();
            let (given, expected) = (run(&engine, &asked), run(&rows, &asked));
            assert_eq!(given.text, expected.text, "{sampling:?}, seed {seed}");
            let is_reduced = tops.top_rows() > before;
            assert_eq!(is_reduced, sampling.typical_p >= 1.0, "{sampling:?}, seed {seed}");
        }
    }
}

#[test]
fn rows_are_whole_if_other_logits_matter() {
    let model = Shared::babbling(600).with_top(60);
    let engine = start(model.clone(), EngineOptions::default());
    let sampling = Sampling { temperature: 0.7, top_k: 20, ..Sampling::default() };
    let asked = Request { sampling, max_tokens: Some(10), ..request("say>") };
    let requests = [
        Request { logprobs: Some(3), ..asked.clone() },
        Request { penalties: Penalties { presence: 0.5, ..Penalties::default() }, ..asked.clone() },
        Request { logit_bias: vec![(crate::fixture::tokens("x")[0], 2.0)], ..asked.clone() },
    ];
    for request in &requests {
        run(&engine, request);
        assert_eq!(model.top_rows(), 0);
    }
    run(&engine, &asked);
    assert!(model.top_rows() > 0);
}

#[test]
fn rows_of_padding_are_never_chosen() {
    // The model prefers tokens beyond the vocabulary.
    let model = ScriptedModel::new(VOCABULARY + 40, 600, |tokens, row| {
        babble(tokens, &mut row[..VOCABULARY]);
        row[VOCABULARY..].fill(100.0);
    });
    let model = Shared::new(model).with_top(290);
    let engine = start(model.clone(), EngineOptions::default());
    for temperature in [0.0, 1.0] {
        let sampling = Sampling { temperature, ..Sampling::default() };
        let given = run(&engine, &Request { sampling, max_tokens: Some(20), ..request("say>") });
        assert_eq!(given.finish().usage.completion_tokens, 20);
    }
    assert!(model.top_rows() > 10);
}

#[test]
fn an_output_closes_without_reading_its_last_token_again() {
    // A mask of few tokens, whose logits are all known.
    let model = decided().with_top(260);
    let engine = start(model.clone(), EngineOptions::default());
    let rows = start(decided(), EngineOptions::default());
    for seed in 0..20 {
        let sampling = Sampling { temperature: 1.5, seed, ..Sampling::default() };
        let asked = Request {
            constraint: Some(constraint("root ::= (\"[\" root \"]\" | [ab])+")),
            max_tokens: Some(24),
            sampling,
            ..request("say>")
        };
        let before = model.passes().len();
        let given = run(&engine, &asked);
        assert_eq!(given.text, run(&rows, &asked).text);
        let usage = given.finish().usage;
        assert!(model.passes().len() - before <= 1 + usage.completion_tokens, "seed {seed}");
    }
}
