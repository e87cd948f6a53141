//! Tests that the view of masks is right and does not change the output.

use formwork_engine::{Request, TokenMask, TokenOrigin};
use formwork_grammar::Constraint;

use crate::fixture::{CONTROL, VOCABULARY, babble, babbler, run, tokenizer};
use crate::logprobs::requests;

#[test]
fn viewing_masks_changes_no_token() {
    let engine = babbler();
    for (index, plain) in requests().into_iter().enumerate() {
        let plain = Request { reports_tokens: true, ..plain };
        let expected = run(&engine, &plain);
        for logprobs in [None, Some(1)] {
            let given = run(&engine, &Request { mask_view: Some(index % 4), logprobs, ..plain.clone() });
            assert_eq!((&given.text, &given.tokens), (&expected.text, &expected.tokens), "request {index}");
            assert_eq!(given.finish().usage, expected.finish().usage);
            assert_eq!(given.finish().closed_by_budget, expected.finish().closed_by_budget);
            assert_eq!(given.finish().cumulative_logprob.is_some(), logprobs.is_some());
            let viewed: Vec<_> = given.masks.iter().map(|mask| mask.token).collect();
            assert_eq!(viewed, given.tokens, "request {index}");
            let sampled = given.masks.iter().filter(|mask| is_sampled(mask)).count();
            let usage = given.finish().usage;
            let ending = usize::from(plain.reasoning.is_some());
            assert!(usage.completion_tokens - usage.forced_tokens - sampled <= ending, "request {index}");
        }
        assert!(expected.masks.is_empty());
    }
}

fn is_sampled(mask: &TokenMask) -> bool {
    matches!(mask.origin, TokenOrigin::Sampled | TokenOrigin::TokenBudget)
}

/// Computes the figures again, from the logits and from a matcher that steps through the output.
#[test]
fn figures_agree_with_logits_and_masks() {
    let engine = babbler();
    let mut origins = Vec::new();
    for (index, plain) in requests().into_iter().enumerate() {
        let mut history = plain.prompt.clone();
        let mut matcher = plain.constraint.as_ref().map(Constraint::matcher);
        let given = run(&engine, &Request { mask_view: Some(3), logit_bias: vec![(CONTROL, 3.0)], ..plain });
        for seen in &given.masks {
            let mut row = vec![0.0; VOCABULARY];
            babble(&history, &mut row);
            row.truncate(tokenizer().vocabulary().len());
            let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            let probability = |id: usize| f64::from(row[id]).exp() / sum;
            assert!((seen.probability - probability(seen.token.index())).abs() < 1e-6, "request {index}");
            assert_eq!(seen.top.len(), 3);
            assert!(seen.top.windows(2).all(|pair| pair[0].probability >= pair[1].probability));
            for likely in &seen.top {
                assert!((likely.probability - probability(likely.token.index())).abs() < 1e-6);
            }
            origins.push(seen.origin);
            history.push(seen.token);
            let Some(matcher) = &mut matcher else {
                assert_eq!((seen.allowed, seen.removed), (None, 0.0));
                assert!(seen.top.iter().all(|likely| likely.is_allowed));
                continue;
            };
            let mask = matcher.mask();
            matcher.commit(seen.token).unwrap();
            let kept: f64 = mask.iter().map(|token| probability(token.index())).sum();
            assert!((seen.removed - (1.0 - kept)).abs() < 1e-6, "request {index}");
            assert_eq!(seen.allowed, Some(mask.count()));
            let is_forced = matches!(seen.origin, TokenOrigin::OnlyToken | TokenOrigin::OnlyText);
            if is_forced {
                assert_eq!(seen.origin == TokenOrigin::OnlyToken, mask.single().is_some(), "request {index}");
            }
            assert!(seen.top.iter().all(|likely| likely.is_allowed == mask.contains(likely.token)));
        }
    }
    for origin in
        [TokenOrigin::Sampled, TokenOrigin::OnlyToken, TokenOrigin::ReasoningBudget, TokenOrigin::TokenBudget]
    {
        assert!(origins.contains(&origin), "{origin:?}");
    }
}
