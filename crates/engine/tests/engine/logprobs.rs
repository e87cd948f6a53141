//! Tests that log-probabilities are right and do not change the output.

use formwork_engine::{EngineOptions, OnBudget, Reasoning, Request, Sampling};
use formwork_lm::Role;

use crate::fixture::{CONTROL, Pass, Shared, babble, babbler, constraint, request, run, start, tokens, told};
use crate::fixture::{VOCABULARY, tokenizer};

/// Creates requests with different grammars and options; the grammars force many tokens.
pub(crate) fn requests() -> Vec<Request> {
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
fn reporting_logprobs_changes_no_token() {
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

/// Checks that forced tokens and their logits rows respect the budget of a step.
#[test]
fn forced_tokens_are_read_within_the_budget_of_a_step() {
    let grammar =
        format!("root ::= \"{}\" [a-c]{{3}} \"{}\"", "once upon a time ".repeat(20), "-".repeat(100));
    let asked = |logprobs| Request { constraint: Some(constraint(&grammar)), logprobs, ..request("go>") };
    let passes = |logprobs, step_tokens, count: usize| {
        let model = Shared::babbling(600);
        let options = EngineOptions { step_tokens, ..EngineOptions::default() };
        let engine = start(model.clone(), options);
        let told: Vec<_> =
            engine.generate_many(&asked(logprobs), count).unwrap().into_iter().map(told).collect();
        let generated = |pass: Pass| {
            let of_output = pass.iter().filter(|(role, _)| *role == Role::Generated);
            of_output.map(|(_, tokens)| *tokens).collect::<Vec<_>>()
        };
        (told, model.passes().into_iter().map(generated).collect::<Vec<_>>())
    };
    for logprobs in [None, Some(1)] {
        let (expected, _) = passes(logprobs, 4096, 1);
        let (given, passes_of_one) = passes(logprobs, 50, 1);
        let most = if logprobs.is_some() { 32 } else { 50 };
        assert_eq!(Some(&most), passes_of_one.iter().flatten().max());
        assert_eq!(
            (&given[0].text, &given[0].logprobs, given[0].finish().usage),
            (&expected[0].text, &expected[0].logprobs, expected[0].finish().usage)
        );
        let (_, passes_of_three) = passes(logprobs, 50, 3);
        assert!(passes_of_three.iter().all(|pass| pass.iter().sum::<usize>() <= 50));
        assert!(passes_of_three.iter().any(|pass| *pass == [16; 3]));
    }
}

/// Checks the log-probabilities of a prompt that is read in several passes, beside another request with
/// the same prompt and after a first request has filled the prefix cache.
#[test]
fn reports_the_prompt() {
    let model = Shared::babbling(600);
    let engine = start(model.clone(), EngineOptions::default());
    let text = "Once upon a time there was a token>".repeat(8);
    let plain = Request { max_tokens: Some(5), ..request(&text) };
    let expected = run(&engine, &plain);
    let reported = Request { logprobs: Some(3), prompt_logprobs: true, ..plain.clone() };
    let many = engine.generate_many(&reported, 2).unwrap();
    let beside = engine.generate(plain).unwrap();
    for given in many.into_iter().map(told) {
        assert_eq!(given.text, expected.text);
        assert_eq!((given.logprobs.len(), given.prompt_logprobs.len()), (5, text.len() - 1));
        for (index, told) in given.prompt_logprobs.iter().enumerate() {
            let (before, token) = (&reported.prompt[..=index], reported.prompt[index + 1]);
            assert_eq!((told.token, told.top.len()), (token, 3), "token {index}");
            let mut row = vec![0.0; VOCABULARY];
            babble(before, &mut row);
            let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            let own = f64::from(row[token.index()]) - sum.ln();
            assert!((f64::from(told.logprob) - own).abs() < 1e-4, "token {index}");
        }
        let sum: f64 = given.logprobs.iter().map(|token| f64::from(token.logprob)).sum();
        assert!((given.finish().cumulative_logprob.unwrap() - sum).abs() < 1e-6);
    }
    assert_eq!(told(beside).text, expected.text);
    let largest = model.passes().iter().flatten().map(|&(_, tokens)| tokens).skip(1).max();
    assert!(largest.unwrap() <= 64, "{largest:?}");
}

#[test]
fn reports_a_prompt_without_an_output() {
    let engine = start(Shared::babbling(20), EngineOptions::default());
    for len in [1, 2, 20] {
        let text = "abcdefghijklmnopqrst";
        let asked = Request {
            max_tokens: Some(0),
            logprobs: Some(0),
            prompt_logprobs: true,
            ..request(&text[..len])
        };
        let given = run(&engine, &asked);
        assert_eq!((given.text.as_str(), given.logprobs.len()), ("", 0));
        assert_eq!(given.prompt_logprobs.len(), len - 1);
        assert_eq!(given.finish().reason, formwork_engine::FinishReason::Length);
        assert_eq!(given.finish().usage.completion_tokens, 0);
    }
    // The token that ends an output is reported beside its prompt.
    let ends = start(Shared::new(crate::fixture::says(b"ab")), EngineOptions::default());
    for (prompt_logprobs, reported) in [(true, 3), (false, 2)] {
        let asked = Request { logprobs: Some(0), prompt_logprobs, ..request("x>") };
        let given = run(&ends, &asked);
        assert_eq!((given.text.as_str(), given.logprobs.len()), ("ab", reported));
        assert_eq!(given.finish().usage.completion_tokens, 2);
    }
    let error = engine.generate(Request { max_tokens: Some(0), ..request("abc") }).err().unwrap();
    assert_eq!(error.to_string(), "the budget must be at least 1 token");
}
