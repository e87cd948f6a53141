//! Tests of request options: budgets, reasoning, stops, deadlines, statistics and embeddings.

use std::time::Instant;

use formwork_engine::{
    EndTokens, EngineOptions, FinishReason, OnBudget, Output, Pooling, Reasoning, Request, Sampling,
};

use crate::fixture::{
    CONTROL, END, Shared, VOCABULARY, babble, babbler, constraint, request, run, says, start, tokens, told,
    wait,
};

#[test]
fn an_output_may_be_cut_off_by_its_budget() {
    let engine = start(says(b"[[1], [2], [3]]"), EngineOptions::default());
    let grammar = "root ::= \"[\" (list (\", \" list)*)? \"]\"\nlist ::= \"[\" [0-9]* \"]\"";
    let mut asked = request("lists>");
    asked.constraint = Some(constraint(grammar));
    asked.max_tokens = Some(6);
    let closed = run(&engine, &asked);
    assert_eq!(closed.finish().reason, FinishReason::Stop);
    assert!(closed.finish().closed_by_budget && closed.text.ends_with(']'), "{}", closed.text);
    asked.on_budget = OnBudget::Length;
    let cut = run(&engine, &asked);
    assert_eq!((cut.text.as_str(), cut.finish().reason), ("[[1], ", FinishReason::Length));
    assert!(!cut.finish().closed_by_budget);
    asked.max_tokens = Some(1);
    assert_eq!(run(&engine, &asked).text, "[");
    asked.max_tokens = Some(100);
    let whole = run(&engine, &asked);
    assert_eq!((whole.text.as_str(), whole.finish().reason), ("[[1], [2], [3]]", FinishReason::Stop));
}

#[test]
fn reasoning_ends_when_its_budget_is_used_up() {
    let engine = start(says(b"well, let me think about it"), EngineOptions::default());
    let mut asked = request("why>");
    asked.reasoning = Some(Reasoning { budget: 4, close: [vec![CONTROL], tokens("\n\n")].concat() });
    let given = run(&engine, &asked);
    assert_eq!(given.controls, [CONTROL]);
    assert!(given.text.starts_with("well\n\n"), "{}", given.text);
    assert_eq!(given.finish().usage.reasoning_tokens, 4);
    // The reasoning ends before its budget is used up.
    asked.reasoning = Some(Reasoning { budget: 8, close: tokens(", ") });
    let given = run(&engine, &asked);
    assert_eq!(given.text, "well, let me think about it");
    assert_eq!(given.finish().usage.reasoning_tokens, 4);
    // The reasoning never ends.
    asked.reasoning = Some(Reasoning { budget: 80, close: vec![CONTROL] });
    assert_eq!(run(&engine, &asked).finish().usage.reasoning_tokens, 27);
    asked.reasoning = Some(Reasoning { budget: 80, close: vec![] });
    let error = engine.generate(asked).unwrap_err();
    assert_eq!(error.to_string(), "the end marker of the reasoning is empty");
}

#[test]
fn reasoning_under_a_constraint_leaves_room_for_what_follows() {
    let engine = babbler();
    let grammar = "root ::= [a-d ]* </think> \"the answer is \" [0-9]+ \".\"";
    for seed in 0..40 {
        let budget = seed as usize % 5;
        let mut asked = request("why>");
        asked.constraint = Some(constraint(grammar));
        asked.reasoning = Some(Reasoning { budget, close: vec![CONTROL] });
        asked.max_tokens = Some(22);
        asked.sampling = Sampling { temperature: 1.0, seed, ..Sampling::default() };
        let given = run(&engine, &asked);
        assert_eq!(given.controls, [CONTROL]);
        let (thought, answer) = given.text.split_once("the answer is ").unwrap();
        assert!(thought.len() <= budget && answer.ends_with('.'), "{}", given.text);
        assert_eq!(given.finish().usage.reasoning_tokens, thought.len());
    }
}

#[test]
fn reasoning_continues_if_the_constraint_forbids_its_end() {
    let engine = babbler();
    let mut asked = request("why>");
    asked.constraint = Some(constraint("root ::= [ab]{5} </think> \"x\""));
    asked.reasoning = Some(Reasoning { budget: 2, close: vec![CONTROL] });
    let given = run(&engine, &asked);
    assert_eq!((given.text.len(), given.finish().usage.reasoning_tokens), (6, 5));
}

#[test]
fn stop_tokens_end_an_output_where_it_may_end() {
    let engine = start(says(b"aab,b"), EngineOptions::default());
    let mut asked = request("x>");
    asked.stop_tokens = tokens("b");
    assert_eq!(run(&engine, &asked).text, "aa");
    asked.constraint = Some(constraint("root ::= [ab]+ \",\" [ab]*"));
    assert_eq!(run(&engine, &asked).text, "aab,");
}

#[test]
fn stop_strings_end_an_output_where_it_may_end() {
    let engine = start(says(b"[[1],[2]]] and"), EngineOptions::default());
    let mut asked = request("x>");
    asked.stop = vec!["]]".to_owned(), "and".to_owned()];
    assert_eq!(run(&engine, &asked).text, "[[1],[2");
    // The output may end neither after "[[1],[2" nor after "[[1],[2]".
    asked.constraint = Some(constraint("root ::= \"[[1],[2]]\" [\\] a-z]*"));
    assert_eq!(run(&engine, &asked).text, "[[1],[2]]] ");
    asked.constraint = Some(constraint("root ::= \"[[1],[2]\" [\\] a-z]*"));
    assert_eq!(run(&engine, &asked).text, "[[1],[2]");
    // The control token before the text has no text of its own.
    asked.constraint = Some(constraint("root ::= </think> [a-z\\],[0-9]*"));
    assert_eq!(run(&engine, &asked).controls, [CONTROL]);
}

#[test]
fn nothing_ends_an_output_before_its_minimum() {
    // After its text, the model prefers the end, and then the token 0.
    let engine = start(says(b"ab"), EngineOptions::default());
    let asked = Request { max_tokens: Some(9), ..request("x>") };
    for samples in [false, true] {
        let sampling =
            if samples { Sampling { temperature: 1.0, ..Sampling::default() } } else { asked.sampling };
        let asked = Request { sampling, ..asked.clone() };
        let given = run(&engine, &Request { min_tokens: 5, ..asked.clone() });
        assert!(given.text.starts_with("ab"), "{}", given.text);
        assert_eq!((given.finish().usage.completion_tokens, given.finish().reason), (5, FinishReason::Stop));
        let given = run(&engine, &Request { end_tokens: EndTokens::Excluded, ..asked.clone() });
        assert_eq!(
            (given.finish().usage.completion_tokens, given.finish().reason),
            (9, FinishReason::Length)
        );
        assert_eq!(run(&engine, &asked).text, "ab");
    }
    // Stop tokens and stop strings wait, too.
    let engine = start(says(b"aab,b"), EngineOptions::default());
    let stopped = Request { stop_tokens: tokens("b"), ..asked.clone() };
    assert_eq!(run(&engine, &stopped).text, "aa");
    assert!(run(&engine, &Request { min_tokens: 4, ..stopped }).text.len() >= 4);
    let stopped = Request { stop: vec!["b".to_owned()], ..asked.clone() };
    assert_eq!(run(&engine, &Request { min_tokens: 4, ..stopped.clone() }).text, "aab,");
    assert_eq!(run(&engine, &Request { min_tokens: 3, ..stopped }).text, "aa");
    // A stop token of the request ends an output although it is an end-of-sequence token.
    let ended = Request { stop_tokens: vec![END], end_tokens: EndTokens::Excluded, ..asked.clone() };
    assert_eq!(run(&engine, &ended).text, "aab,b");
    // In a text that cannot end there, a stop token is an ordinary one.
    let nested = Request { constraint: Some(constraint("root ::= \"aab\" [,b]*")), ..ended };
    assert!(
        run(&engine, &Request { stop_tokens: tokens("b"), min_tokens: 9, ..nested }).text.starts_with("aab")
    );
    // A constraint goes on as long as it can, and then ends.
    let bounded = Request { constraint: Some(constraint("root ::= [ab,]{1,4}")), ..asked };
    let engine = start(says(b"a"), EngineOptions::default());
    assert_eq!(run(&engine, &bounded).text, "a");
    assert_eq!(run(&engine, &Request { min_tokens: 3, ..bounded.clone() }).text.len(), 3);
    assert_eq!(run(&engine, &Request { end_tokens: EndTokens::Excluded, ..bounded.clone() }).text.len(), 4);
    // Within 3 tokens, the only way to close is the end.
    let pairs = Request { constraint: Some(constraint("root ::= \"a\" (\"[\" \"b\" \"]\")*")), ..bounded };
    let pairs = Request { max_tokens: Some(3), end_tokens: EndTokens::Excluded, ..pairs };
    for temperature in [0.0, 1.0] {
        for logprobs in [None, Some(1)] {
            let sampling = Sampling { temperature, ..Sampling::default() };
            let given = run(&engine, &Request { sampling, logprobs, ..pairs.clone() });
            assert_eq!((given.text.as_str(), given.finish().reason), ("a", FinishReason::Stop));
        }
    }
}

#[test]
fn finds_stop_strings_after_non_text_tokens() {
    let engine = start(says(b"\xff\xe2\xfe so END"), EngineOptions::default());
    let asked = Request { stop: vec!["END".to_owned(), "so".to_owned()], ..request("x>") };
    assert_eq!(run(&engine, &asked).text, "\u{fffd}\u{fffd}\u{fffd} ");
}

#[test]
fn a_deadline_ends_a_request() {
    let model = Shared::babbling(600);
    let engine = start(model.clone(), EngineOptions { parallel: 1, ..EngineOptions::default() });
    let mut first = engine.generate(Request { max_tokens: Some(500), ..request("first>") }).unwrap();
    let late = Request { deadline: Some(Instant::now()), ..request("late>") };
    // The late request waits behind the first one, and ends before it.
    let mut waiting = engine.generate(late.clone()).unwrap();
    match waiting.blocking_next().unwrap() {
        Output::Failed(error) => assert!(error.is_deadline(), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(first.blocking_next(), Some(Output::Text(_))));
    drop(first);
    let error = engine.generate(late).unwrap().collect().unwrap_err();
    assert_eq!((error.is_deadline(), error.to_string().as_str()), (true, "the deadline has passed"));
    assert_eq!(engine.stats().failed, 2);
}

#[test]
fn accepts_several_requests_together_or_none() {
    let engine = start(says(b"yes"), EngineOptions { queue: 3, ..EngineOptions::default() });
    let error = engine.generate_many(&request("ok>"), 4).unwrap_err();
    // Four requests never fit into a queue of three.
    assert!(!error.is_busy());
    assert_eq!(error.field(), Some("n"));
    assert_eq!(error.to_string(), "queue full: 0 waiting + 4 new exceeds the limit of 3");
    for _ in 0..3 {
        let generations = engine.generate_many(&request("ok>"), 3).unwrap();
        let texts: Vec<String> = generations.into_iter().map(|generation| told(generation).text).collect();
        assert_eq!(texts, ["yes"; 3]);
    }
    assert_eq!(engine.stats().finished, 9);
}

#[test]
fn statistics_count_what_happened() {
    let engine = start(says(b"{\"answer\": true}"), EngineOptions::default());
    let mut asked = request("json>");
    run(&engine, &asked);
    let unmasked = engine.stats();
    asked.constraint = Some(constraint("root ::= \"{\\\"answer\\\": \" (\"true\" | \"false\") \"}\""));
    let given = run(&engine, &asked);
    let stats = engine.stats();
    assert_eq!((stats.finished, stats.failed, stats.cancelled), (2, 0, 0));
    assert_eq!(stats.prompt_tokens, 10);
    assert_eq!(stats.completion_tokens as usize, 16 + given.finish().usage.completion_tokens);
    assert_eq!(stats.forced_tokens as usize, given.finish().usage.forced_tokens);
    assert!(stats.forced_tokens > 4);
    assert_eq!(unmasked.head_rows, unmasked.unmasked_head_rows);
    let allowed = stats.head_rows - unmasked.head_rows;
    assert!(allowed > 0 && 10 * allowed < stats.unmasked_head_rows - unmasked.unmasked_head_rows);
    assert_eq!(stats.first_token.count(), 2);
    assert!(stats.between_tokens.count() >= 15);
    assert_eq!(stats.batch.count(), stats.steps);
    assert!(stats.steps >= 17);
}

#[test]
fn embeddings_are_pooled_states() {
    let engine = start(Shared::babbling(50), EngineOptions { step_tokens: 7, ..EngineOptions::default() });
    let text = tokens("what is this about?");
    let states: Vec<Vec<f32>> = (1..=text.len())
        .map(|len| {
            let mut row = vec![0.0; VOCABULARY];
            babble(&text[..len], &mut row);
            row
        })
        .collect();
    let last = wait(engine.embed(text.clone(), Pooling::Last)).unwrap();
    assert_eq!(last, states[text.len() - 1]);
    let mean = wait(engine.embed(text.clone(), Pooling::Mean)).unwrap();
    for (index, mean) in mean.iter().enumerate() {
        let expected = states.iter().map(|state| f64::from(state[index])).sum::<f64>() / text.len() as f64;
        assert!((f64::from(*mean) - expected).abs() < 1e-4);
    }
    let error = |tokens| wait(engine.embed(tokens, Pooling::Mean)).unwrap_err().to_string();
    assert_eq!(error(vec![]), "the prompt is empty");
    assert_eq!(error(vec![END; 51]), "the text has 51 tokens, more than the model's context length of 50");
    assert!(error(vec![formwork_vocab::TokenId(9999)]).contains("9999"));
}

#[test]
fn a_constraint_covers_the_begun_text() {
    let engine = babbler();
    let begun = |grammar: &str, begun: &str| Request {
        constraint: Some(constraint(grammar)),
        begun: begun.to_owned(),
        max_tokens: Some(30),
        ..request(&format!("go>{begun}"))
    };
    let grammar = "root ::= \"true or false: \" [a-c]{3} \"]]\"";
    for cut in 0..=19 {
        let text = "true or false: ";
        let whole = format!("{text}abc]]");
        let start = &whole[..cut];
        let given = run(&engine, &begun(grammar, start));
        let joined = format!("{start}{}", given.text);
        assert!(
            joined.starts_with(text) && joined.ends_with("]]") && joined.len() == whole.len(),
            "{joined}"
        );
    }
    // Nothing is left to say after a complete text.
    assert_eq!(run(&engine, &begun(grammar, "true or false: abc]]")).text, "");
    let error = engine.generate(begun(grammar, "true and")).err().unwrap();
    assert_eq!(error.to_string(), "the beginning of the answer does not match the constraint");
    assert_eq!(error.field(), Some("messages"));
    // The budget limits the output without the begun text.
    let left = Request { max_tokens: Some(4), ..begun(grammar, "true or false: a") };
    assert_eq!(run(&engine, &left).text.len(), 4);
    // A stop string counts where the whole text may end.
    let stops = Request { stop: vec!["]".to_owned()], ..begun("root ::= [a-c]+ \"]]\" \"]\"*", "a") };
    let given = run(&engine, &stops);
    assert!(given.text.ends_with("]]"), "{}", given.text);
    assert_eq!(given.finish().stop_string.as_deref(), Some("]"));
}
