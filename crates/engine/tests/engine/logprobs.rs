//! Probabilities are told without changing anything else.

use formwork_engine::{OnBudget, Reasoning, Request, Sampling};

use crate::fixture::{CONTROL, babble, babbler, constraint, request, run, tokens};
use crate::fixture::{VOCABULARY, tokenizer};

/// Requests of every kind, with much that is forced.
fn requests() -> Vec<Request> {
    let grammars = [
        "root ::= \"{\\\"answer\\\": \" (\"true\" | \"false\") \"}\"",
        "root ::= \"abc\"",
        "root ::= [a-c]{3} \"and then\" [x-z]* \"end of it\"",
        "root ::= ( [a-z]* \"-->\" )+",
    ];
    let mut requests = Vec::new();
    for (index, grammar) in grammars.iter().map(Some).chain([None]).enumerate() {
        for seed in 0..6 {
            let mut request = request("Once upon a time>");
            request.constraint = grammar.map(|grammar| constraint(grammar));
            request.max_tokens = Some(40);
            request.sampling = Sampling { temperature: seed as f32 / 2.0, seed, ..Sampling::default() };
            if seed % 3 == 1 {
                request.stop = vec!["n".to_owned(), "-->".to_owned()];
            }
            if seed % 3 == 2 {
                request.on_budget = OnBudget::Length;
                request.max_tokens = Some(7);
            }
            if index == 4 {
                request.reasoning = Some(Reasoning { budget: 3, close: vec![CONTROL] });
            }
            requests.push(request);
        }
    }
    requests
}

#[test]
fn telling_probabilities_changes_no_token() {
    let engine = babbler();
    for (index, plain) in requests().into_iter().enumerate() {
        let expected = run(&engine, &plain);
        let given = run(&engine, &Request { logprobs: Some(index % 4), ..plain });
        assert_eq!((&given.text, &given.controls), (&expected.text, &expected.controls), "request {index}");
        let (given_end, end) = (given.finish(), expected.finish());
        assert_eq!((given_end.reason, given_end.usage), (end.reason, end.usage), "request {index}");
        assert_eq!(given_end.closed_by_budget, end.closed_by_budget);
        assert_eq!(given.logprobs.len(), end.usage.completion_tokens, "request {index}");
        let sum: f64 = given.logprobs.iter().map(|token| f64::from(token.logprob)).sum();
        assert!((given_end.cumulative_logprob.unwrap() - sum).abs() < 1e-6);
        assert_eq!(end.cumulative_logprob, None);
    }
}

#[test]
fn probabilities_are_the_models_own() {
    let engine = babbler();
    for (index, plain) in requests().into_iter().enumerate() {
        let mut history = plain.prompt.clone();
        let given = run(&engine, &Request { logprobs: Some(2), logit_bias: vec![(CONTROL, 3.0)], ..plain });
        for told in &given.logprobs {
            let mut row = vec![0.0; VOCABULARY];
            babble(&history, &mut row);
            let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            let expected = f64::from(row[told.token.index()]) - sum.ln();
            assert!((f64::from(told.logprob) - expected).abs() < 1e-4, "request {index}");
            let best = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(row[told.top[0].0.index()].to_bits(), best.to_bits());
            assert_eq!(told.top.len(), 2);
            history.push(told.token);
        }
        let spelt = history[tokens("Once upon a time>").len()..].iter();
        let spelt: Vec<u8> =
            spelt.flat_map(|&token| tokenizer().vocabulary().bytes(token).to_vec()).collect();
        assert!(String::from_utf8_lossy(&spelt).len() >= given.text.len());
    }
}
