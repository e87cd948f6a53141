//! Tests of drafts from a second model.

use formwork_engine::{EngineOptions, Request};
use formwork_lm::{Role, ScriptedModel};
use formwork_vocab::TokenId;

use crate::fixture::{Shared, VOCABULARY, babble, constraint, request, run, start, start_with_draft, wait};

/// Returns a model that agrees with [`babble`] after the given share of texts.
fn agreeing(percent: usize) -> Shared {
    Shared::new(ScriptedModel::new(VOCABULARY, 600, move |tokens, row| {
        babble(tokens, row);
        let sum: u32 = tokens.iter().map(|token| token.0).sum();
        if sum as usize % 100 >= percent {
            row.reverse();
        }
    }))
}

/// Returns a request whose text never repeats, so that only a draft model has drafts.
fn asked(grammar: Option<&str>) -> Request {
    Request { max_tokens: Some(60), constraint: grammar.map(constraint), ..request("go>") }
}

#[test]
fn a_pass_checks_the_drafts_of_a_model_that_agrees() {
    let plain = start(Shared::babbling(600), EngineOptions::default());
    for grammar in [None, Some("root ::= [a-z0-9 ]{59} \"!\""), Some("root ::= ([a-z]{3} [0-9]{3})* \"!\"")] {
        let large = Shared::babbling(600).slow(std::time::Duration::from_millis(2)).batch_invariant(true);
        let engine = start_with_draft(large.clone(), agreeing(100), EngineOptions::default());
        let expected = run(&plain, &asked(grammar));
        for _ in 0..2 {
            let given = run(&engine, &asked(grammar));
            assert_eq!((&given.text, &given.finish().usage), (&expected.text, &expected.finish().usage));
        }
        let stats = engine.stats();
        // Only tokens that the budget forbids are drafted in vain.
        let (drafted, accepted) = (stats.drafted_tokens, stats.accepted_tokens);
        assert!(accepted >= 60 && drafted - accepted <= 8, "{grammar:?}: {accepted} of {drafted}");
    }
}

#[test]
fn a_model_that_is_usually_wrong_is_rarely_asked() {
    let engine = start_with_draft(Shared::babbling(600), agreeing(5), EngineOptions::default());
    let expected = run(&start(Shared::babbling(600), EngineOptions::default()), &asked(None));
    let given = run(&engine, &Request { max_tokens: Some(500), ..asked(None) });
    assert!(given.text.starts_with(&expected.text));
    let stats = engine.stats();
    assert!((1..100).contains(&stats.drafted_tokens), "{}", stats.drafted_tokens);
}

/// A long prompt is read in parts, so that no output token waits for all of it, and not at all for a few
/// tokens of output.
#[test]
fn long_prompts_are_read_in_parts_or_not_at_all() {
    let prompt = vec![TokenId(u32::from(b'x')); 300];
    let large = Shared::babbling(600).slow(std::time::Duration::from_micros(300));
    let draft = agreeing(100);
    let engine = start_with_draft(large, draft.clone(), EngineOptions::default());
    run(&engine, &Request { max_tokens: Some(8), ..Request::new(prompt.clone()) });
    assert!(draft.passes().is_empty());
    run(&engine, &Request { max_tokens: Some(100), ..Request::new(prompt) });
    assert!(draft.passes()[0].iter().map(|(_, tokens)| tokens).sum::<usize>() <= 20);
    assert!(engine.stats().accepted_tokens > 20, "{}", engine.stats().accepted_tokens);
}

/// A sequence with the prompt of a running one continues a fork of its text. Without forks, the draft
/// model would read the prompt twice.
#[test]
fn sequences_with_a_common_prompt_share_what_the_draft_model_has_read() {
    let prompt: Vec<TokenId> = (0..200).map(|at| TokenId(at * at % 250)).collect();
    let draft = agreeing(100);
    let large = Shared::babbling(600).slow(std::time::Duration::from_micros(300));
    let engine = start_with_draft(large, draft.clone(), EngineOptions::default());
    let asked = |mark: u32, count: usize| {
        let prompt = prompt.iter().copied().chain([TokenId(mark)]).collect();
        Request { max_tokens: Some(count), ..Request::new(prompt) }
    };
    let mut first = engine.generate(asked(1, 390)).unwrap();
    // The prompt has been read when drafts are accepted.
    while engine.stats().accepted_tokens == 0 {
        assert!(first.blocking_next().is_some());
    }
    let second = run(&engine, &asked(2, 60));
    let expected = run(&start(Shared::babbling(600), EngineOptions::default()), &asked(2, 60));
    assert_eq!(second.text, expected.text);
    drop(first);
    let passes = draft.passes();
    let prompts = passes.iter().flatten().filter(|(role, _)| *role == Role::Prompt);
    let read: usize = prompts.map(|(_, tokens)| tokens).sum();
    assert!((180..300).contains(&read), "{read}");
    wait(engine.clear_prefix_cache());
}

/// A draft model that panics or fails is left out. The request goes on without it.
#[test]
fn a_draft_model_that_fails_changes_nothing() {
    let expected = run(&start(Shared::babbling(600), EngineOptions::default()), &asked(None));
    let panics = ScriptedModel::new(VOCABULARY, 600, |tokens: &[TokenId], row: &mut [f32]| {
        assert!(tokens.len() < 20, "the draft model fails");
        babble(tokens, row);
    });
    let small = ScriptedModel::new(7, 600, |_, row: &mut [f32]| row[0] = 1.0);
    for draft in [panics, small] {
        let engine = start_with_draft(Shared::babbling(600), draft, EngineOptions::default());
        for _ in 0..2 {
            assert_eq!(run(&engine, &asked(None)).text, expected.text);
        }
    }
}
