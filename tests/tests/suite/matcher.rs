//! Invariants of matchers over random grammars: caches change speed but never masks, and budgets
//! are kept.

use std::sync::Arc;

use formwork_grammar::{Constraint, Grammar, Limits, Matcher};
use formwork_tests::random::{self, Random};
use formwork_vocab::{TokenId, Vocabulary};

fn grammars(random: &mut Random, count: usize, limits: &Limits) -> Vec<Grammar> {
    let mut grammars = Vec::new();
    while grammars.len() < count {
        grammars.extend(Grammar::gbnf(&random::gbnf(random, true), limits));
    }
    grammars
}

fn random_step(matcher: &mut Matcher, vocabulary: &Vocabulary, random: &mut Random) -> bool {
    let allowed: Vec<TokenId> = matcher.mask().iter().filter(|&token| !vocabulary.is_end(token)).collect();
    if allowed.is_empty() {
        return false;
    }
    matcher.commit(*random.pick(&allowed)).expect("allowed");
    true
}

#[test]
fn tiny_caches_clones_and_rollback_give_the_same_masks() {
    let mut random = Random::new(2);
    let vocabulary = Arc::new(random::vocabulary(&mut random));
    let tiny = Limits { cache_bytes: 1, ..Limits::default() };
    for seed in 0..25 {
        let mut random = Random::new(1000 + seed);
        let grammar = &grammars(&mut random.clone(), 1, &Limits::default())[0];
        let small = &grammars(&mut random, 1, &tiny)[0];
        let mut matcher = Constraint::new(grammar, Arc::clone(&vocabulary))
            .expect("every token is in the vocabulary")
            .matcher();
        let mut bounded = Constraint::new(small, Arc::clone(&vocabulary))
            .expect("every token is in the vocabulary")
            .matcher();
        let mut masks = vec![matcher.mask()];
        for _ in 0..8 {
            if !random_step(&mut matcher, &vocabulary, &mut random) {
                break;
            }
            masks.push(matcher.mask());
        }
        let mut replay = Constraint::new(grammar, Arc::clone(&vocabulary))
            .expect("every token is in the vocabulary")
            .matcher();
        for (position, token) in tokens_of(&matcher).into_iter().enumerate() {
            assert_eq!(bounded.mask(), masks[position]);
            assert_eq!(replay.clone().mask(), masks[position]);
            bounded.commit(token).expect("same grammar");
            replay.commit(token).expect("same grammar");
        }
        assert_eq!(bounded.mask(), *masks.last().expect("one"));
        for position in (0..matcher.len()).rev() {
            matcher.rollback(1);
            assert_eq!(matcher.mask(), masks[position]);
        }
    }
}

/// Closing tokens and masks within a budget depend only on the committed tokens, not on tokens that
/// were rolled back.
#[test]
fn ways_to_close_are_those_of_the_tokens_after_any_rollback() {
    let mut random = Random::new(11);
    let vocabulary = Arc::new(random::vocabulary(&mut random));
    for grammar in grammars(&mut random, 60, &Limits::default()) {
        let constraint =
            Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("every token is in the vocabulary");
        let mut matcher = constraint.matcher();
        for _ in 0..24 {
            if random.below(3) == 0 || !random_step(&mut matcher, &vocabulary, &mut random) {
                matcher.rollback(random.below(4));
            }
            if random.below(2) == 0 {
                let mut replay = constraint.matcher();
                for token in tokens_of(&matcher) {
                    replay.commit(token).expect("committed before");
                }
                let closing = replay.closing_tokens();
                assert_eq!(matcher.closing_tokens(), closing);
                for remaining in 0..closing.map_or(0, |closing| closing + 3) {
                    assert_eq!(matcher.mask_within(remaining), replay.mask_within(remaining));
                }
            }
        }
    }
}

fn tokens_of(matcher: &Matcher) -> Vec<TokenId> {
    matcher.tokens().to_vec()
}

#[test]
fn random_walks_within_a_budget_always_close() {
    let mut random = Random::new(3);
    let vocabulary = Arc::new(random::vocabulary(&mut random));
    for cache_bytes in [usize::MAX, 50_000] {
        let limits = Limits { cache_bytes, ..Limits::default() };
        for grammar in grammars(&mut random, 50, &limits) {
            let constraint =
                Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("every token is in the vocabulary");
            let minimum = constraint.minimum_tokens().expect("every byte is a token");
            let mut remaining = minimum + random.below(6);
            let mut matcher = constraint.matcher();
            while remaining > 0 && !matcher.complete() {
                let mask = matcher.mask_within(remaining);
                let allowed: Vec<TokenId> = mask.iter().filter(|&token| !vocabulary.is_end(token)).collect();
                if allowed.is_empty() {
                    break;
                }
                let token = *random.pick(&allowed);
                assert!(matcher.allows_within(token, remaining));
                matcher.commit(token).expect("in the mask");
                remaining -= 1;
            }
            assert!(matcher.accepting(), "stuck with {remaining} of the budget left");
        }
    }
}

/// Compares the bound with the true minimum, found by breadth-first search over tokens.
#[test]
fn the_closing_bound_is_near_the_true_minimum() {
    let mut random = Random::new(4);
    let vocabulary = Arc::new(random::vocabulary(&mut random));
    let mut compared = 0;
    for grammar in grammars(&mut random, 200, &Limits::default()) {
        let constraint =
            Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("every token is in the vocabulary");
        let bound = constraint.minimum_tokens().expect("every byte is a token");
        if bound > 2 {
            continue;
        }
        assert_eq!(bound, true_minimum(&constraint, &vocabulary, bound));
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

fn true_minimum(constraint: &Constraint, vocabulary: &Vocabulary, bound: usize) -> usize {
    let mut matcher = constraint.matcher();
    if matcher.accepting() {
        return 0;
    }
    for token in matcher.mask().iter().filter(|&token| !vocabulary.is_end(token)) {
        matcher.commit(token).expect("allowed");
        if matcher.accepting() {
            return 1;
        }
        matcher.rollback(1);
    }
    bound
}

#[test]
fn forced_tokens_are_allowed_one_after_the_other() {
    let mut random = Random::new(5);
    let vocabulary = random::vocabulary(&mut random);
    let tokenizer = formwork_vocab::Tokenizer::greedy(vocabulary.clone());
    let grammar = Grammar::gbnf(
        "root ::= \"{\\\"abcab\\\": \" (\"true\" | \"0\") \", \\\"日本\\\": \" [ab]* \"}\"",
        &Limits::default(),
    )
    .expect("valid");
    let mut matcher =
        Constraint::new(&grammar, Arc::new(vocabulary)).expect("every token is in the vocabulary").matcher();
    let forced = matcher.forced_tokens(&tokenizer);
    let text = tokenizer.decode(&forced);
    assert!(b"{\"abcab\": ".starts_with(&text) && text.len() >= 5, "{:?}", String::from_utf8_lossy(&text));
    for token in forced {
        matcher.commit(token).expect("forced");
    }
}
