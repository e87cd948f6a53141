//! Tests that shared prefixes, drafts and concurrent requests do not change the output.

use std::time::Duration;

use formwork_engine::{EngineOptions, OnBudget, Output, Penalties, Pooling, Reasoning, Request, Sampling};
use formwork_lm::{Role, ScriptedModel};
use formwork_vocab::TokenId;

use crate::fixture::{
    CONTROL, Pass, Shared, VOCABULARY, babble, constraint, held_back, request, run, start, start_timed,
    start_with_draft, told, wait,
};
use crate::pieces::Pieces;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Creates a random request. Its prompt starts with one of a few prefixes.
fn any_request(random: &mut Random) -> Request {
    let beginning = random.below(3);
    let shared = [0, 1, 47, 48, 95, 96, 97, 200, 330][random.below(9)];
    let own = [0, 1, 30, 150][random.below(4)];
    let mark = random.below(3);
    let mut prompt: Vec<TokenId> =
        (0..shared).map(|at| TokenId((at * at + beginning * 7) as u32 % 250)).collect();
    prompt.extend((0..own).map(|at| TokenId((at * 3 + mark) as u32 % 250)));
    prompt.push(TokenId(1));
    let grammars = ["root ::= [a-d]* \" then \" [a-d]{3}", "root ::= \"ab\" (\"abab\" | \"cdcd\")* \".\""];
    let seed = random.below(3) as u64;
    let penalties = Penalties { frequency: random.below(2) as f32, ..Penalties::default() };
    let bias = [vec![], vec![(TokenId(98), -3.0), (TokenId(99), 2.0)]];
    Request {
        constraint: grammars.get(random.below(4)).map(|grammar| constraint(grammar)),
        sampling: Sampling { temperature: random.below(2) as f32, seed, ..Sampling::default() },
        penalties: [Penalties::default(), penalties][random.below(2)],
        logit_bias: bias[random.below(3) / 2].clone(),
        on_budget: [OnBudget::Close, OnBudget::Length][random.below(3) / 2],
        max_tokens: Some(9 + random.below(30)),
        logprobs: [None, Some(0)][random.below(2)],
        reasoning: [None, Some(Reasoning { budget: 5, close: vec![CONTROL] })][random.below(2)].clone(),
        ..Request::new(prompt)
    }
}

/// Fills a row with logits that favour one of the four tokens that [`Pieces`] favours.
fn guess(tokens: &[TokenId], row: &mut [f32]) {
    babble(tokens, row);
    row[97..=100].iter_mut().for_each(|logit| *logit += 6.0);
}

#[test]
fn a_request_gives_the_same_tokens_alone_and_among_others_and_with_any_cache() {
    let plain =
        EngineOptions { parallel: 1, prefix_cache_bytes: 0, speculate: Some(0), ..EngineOptions::default() };
    let alone = start(Pieces::default(), plain);
    let mut random = Random(5);
    let (mut cached, mut drafted, mut accepted, mut guesses) = (0, 0, 0, 0);
    for round in 0..40 {
        // A draft model pays only if the model takes its time.
        let model = Pieces::new(random.below(2) == 0).slow(Duration::from_micros(100));
        let options = EngineOptions {
            parallel: 1 + random.below(6),
            step_tokens: 1 + random.below(500),
            prefix_cache_bytes: [0, 2000, 8000, 1 << 20][random.below(4)],
            speculate: [Some(0), Some(1), Some(9), None][random.below(4)],
            ..EngineOptions::default()
        };
        let guesser = Shared::new(ScriptedModel::new(VOCABULARY, [100, 700][random.below(2)], guess));
        let engine = match random.below(2) {
            0 => start(model.clone(), options),
            _ => start_with_draft(model.clone(), guesser.clone(), options),
        };
        let requests: Vec<Request> = (0..10).map(|_| any_request(&mut random)).collect();
        let mut running = Vec::new();
        for request in &requests {
            running.push(engine.generate(request.clone()).unwrap());
            if random.below(4) == 0 {
                // Cancels a request at once.
                drop(engine.generate(request.clone()).unwrap());
            }
        }
        for (generation, request) in running.into_iter().zip(&requests) {
            let (given, expected) = (told(generation), run(&alone, request));
            assert_eq!((&given.text, &given.controls), (&expected.text, &expected.controls), "round {round}");
            assert_eq!(given.logprobs, expected.logprobs, "round {round}");
            let (mut usage, expected) = (given.finish().usage, expected.finish().usage);
            assert!(usage.cached_tokens <= usage.prompt_tokens);
            cached += usage.cached_tokens;
            usage.cached_tokens = 0;
            assert_eq!(usage, expected, "round {round}");
        }
        wait(engine.clear_prefix_cache());
        let stats = engine.stats();
        assert_eq!((model.open_sequences(), stats.cache_tokens), (0, 0), "round {round}");
        // A cancelled request may still have been running when the texts were dropped.
        assert!(guesser.open_sequences() <= options.parallel, "round {round}");
        guesses += guesser.passes().len();
        drafted += stats.drafted_tokens;
        accepted += stats.accepted_tokens;
    }
    assert!(cached > 2000, "{cached}");
    assert!(guesses > 500, "{guesses}");
    assert!(accepted > 50 && drafted > 2 * accepted, "{accepted} of {drafted}");
}

/// A model that repeats three digits is drafted correctly after its first round.
#[test]
fn drafts_repeated_text() {
    let model = || {
        Shared::new(ScriptedModel::new(VOCABULARY, 600, |tokens, row| {
            let next = match tokens.last().map(|token| token.0 as u8) {
                Some(b'1') => b'2',
                Some(b'2') => b'3',
                _ => b'1',
            };
            row[usize::from(next)] = 1.0;
        }))
    };
    let plain = start(model(), EngineOptions { speculate: Some(0), ..EngineOptions::default() });
    let engine = start(model(), EngineOptions { speculate: Some(8), ..EngineOptions::default() });
    for grammar in [None, Some("root ::= [0-9]* \"!\""), Some("root ::= ([0-9]{7} \" and \")* \"!\"")] {
        for logprobs in [None, Some(1)] {
            let asked = Request {
                max_tokens: Some(60),
                constraint: grammar.map(constraint),
                logprobs,
                ..request("count>")
            };
            let (before, given, expected) = (engine.stats(), run(&engine, &asked), run(&plain, &asked));
            assert_eq!((&given.text, &given.logprobs), (&expected.text, &expected.logprobs));
            assert_eq!(given.finish().usage, expected.finish().usage);
            let stats = engine.stats();
            let (accepted, steps) =
                (stats.accepted_tokens - before.accepted_tokens, stats.steps - before.steps);
            assert!(accepted >= 25 && steps <= 25, "{accepted} accepted in {steps} steps: {grammar:?}");
        }
    }
}

/// Submits prompts while another sequence generates, and returns the next passes: one per prompt
/// and one more.
fn passes_beside(is_batch_invariant: bool, prompts: &[usize]) -> Vec<Pass> {
    let (permit, permits) = std::sync::mpsc::channel();
    let model = held_back(permits).batch_invariant(is_batch_invariant);
    let options = EngineOptions { speculate: Some(0), prefix_cache_bytes: 0, ..EngineOptions::default() };
    let engine = start(model.clone(), options);
    let mut first = engine.generate(Request { max_tokens: Some(9), ..request("go>") }).unwrap();
    permit.send(()).unwrap();
    assert!(matches!(first.blocking_next(), Some(Output::Text(_) | Output::Token(_))));
    // The first generation waits for its second row while the other requests arrive.
    while model.passes().len() < 2 {
        std::thread::yield_now();
    }
    let prompt = |(index, len): (usize, &usize)| vec![TokenId(u32::from(b'a') + index as u32); *len];
    let others: Vec<_> = prompts.iter().enumerate().map(prompt).collect();
    let others = others.into_iter().map(|prompt| engine.generate(Request::new(prompt)).unwrap());
    let others: Vec<_> = others.collect();
    drop(permit);
    told(first);
    drop(others);
    // Skips the pass of the first prompt and the pass of its first output token.
    model.passes().into_iter().skip(2).take(1 + prompts.len()).collect()
}

/// Prompt pieces are limited by time while another sequence generates, and by tokens otherwise.
#[test]
fn limits_step_time_while_others_wait() {
    let prompt = || Request { max_tokens: Some(1), ..Request::new(vec![TokenId(97); 200]) };
    let pieces = |step_time: u64, is_awaited: bool| {
        let model = Shared::babbling(600).slow(Duration::from_micros(500));
        let options = EngineOptions {
            step_time: Duration::from_millis(step_time),
            step_tokens: 100,
            ..EngineOptions::default()
        };
        let engine = start_timed(model.clone(), options);
        run(&engine, &Request { max_tokens: Some(1), ..request(&"tell the pace".repeat(4)) });
        let mut other =
            is_awaited.then(|| engine.generate(Request { max_tokens: Some(500), ..request("go>") }).unwrap());
        assert!(other.as_mut().is_none_or(|other| other.blocking_next().is_some()));
        run(&engine, &prompt());
        let of_prompt = |pass: &Pass| pass.iter().map(|(_, tokens)| *tokens).max();
        model.passes().iter().skip(1).filter_map(of_prompt).max().unwrap()
    };
    // A token takes at least 0.5 ms, so a step of 20 ms reads at most 40 tokens.
    assert!((32..=40).contains(&pieces(20, true)));
    assert_eq!(pieces(20, false), 100);
    assert_eq!(pieces(60_000, true), 99);
}

/// After a piece of a prompt, generating sequences run alone for the same time.
#[test]
fn prompts_take_half_of_the_time_during_generation() {
    let model = Shared::babbling(600).slow(Duration::from_micros(500));
    let options = EngineOptions { step_time: Duration::from_millis(20), ..EngineOptions::default() };
    let engine = start_timed(model.clone(), options);
    run(&engine, &Request { max_tokens: Some(1), ..request(&"tell the pace".repeat(4)) });
    let mut other = engine.generate(Request { max_tokens: Some(500), ..request("go>") }).unwrap();
    assert!(other.blocking_next().is_some());
    let before = model.passes().len();
    run(&engine, &Request { max_tokens: Some(1), ..Request::new(vec![TokenId(97); 200]) });
    let passes = model.passes().split_off(before);
    let reads = |pass: &&Pass| pass.iter().any(|(role, _)| *role == Role::Prompt);
    let pieces = passes.iter().filter(reads).count();
    // A piece takes at least 16 ms. A pass without a prompt takes half a millisecond, or a few on a
    // busy machine.
    assert!(pieces >= 5 && passes.len() >= 4 * pieces, "{pieces} of {} passes", passes.len());
}

/// Texts to embed take turns with prompts.
#[test]
fn prompts_are_read_beside_embeddings() {
    let endless = ScriptedModel::new(VOCABULARY, 600, |_, row| row[usize::from(b'a')] = 1.0);
    let model = Shared::new(endless).slow(Duration::from_micros(200));
    let step_time = Duration::from_millis(10);
    let engine =
        start_timed(model, EngineOptions { step_time, speculate: Some(0), ..EngineOptions::default() });
    run(&engine, &Request { max_tokens: Some(1), ..request(&"tell the pace".repeat(4)) });
    let mut busy = engine.generate(Request { max_tokens: Some(590), ..request("go>") }).unwrap();
    assert!(busy.blocking_next().is_some());
    let text = vec![TokenId(97); 300];
    let embedders: Vec<_> = (0..4)
        .map(|_| {
            let (engine, text) = (engine.clone(), text.clone());
            let embed =
                move || (0..5).for_each(|_| drop(wait(engine.embed(text.clone(), Pooling::Mean)).unwrap()));
            std::thread::spawn(embed)
        })
        .collect();
    // Waits until the first piece of a text has been read.
    let read = engine.stats().prompt_tokens;
    while engine.stats().prompt_tokens == read {
        std::thread::yield_now();
    }
    let short = run(&engine, &Request { max_tokens: Some(1), ..Request::new(vec![TokenId(98); 40]) });
    assert_eq!(short.finish().usage.completion_tokens, 1);
    // The other request has not finished yet.
    assert_eq!(engine.stats().finished, 2);
    drop(busy);
    for embedder in embedders {
        embedder.join().unwrap();
    }
}

/// Long prompts that wait to be read do not take all places.
#[test]
fn short_requests_need_not_wait_until_long_prompts_are_read() {
    let (permit, permits) = std::sync::mpsc::channel();
    let model = held_back(permits);
    let options =
        EngineOptions { parallel: 4, step_tokens: 50, prefix_cache_bytes: 0, ..EngineOptions::default() };
    let engine = start(model.clone(), options);
    let mut busy = engine.generate(Request { logprobs: Some(0), ..request("busy>") }).unwrap();
    permit.send(()).unwrap();
    assert!(busy.blocking_next().is_some());
    let ask = |len: usize, token: u8| {
        engine
            .generate(Request { max_tokens: Some(1), ..Request::new(vec![TokenId(token.into()); len]) })
            .unwrap()
    };
    let long: Vec<_> = (b'a'..b'f').map(|token| ask(200, token)).collect();
    let short = ask(10, b'x');
    drop(permit);
    told(short);
    for long in long {
        told(long);
    }
    let read = |pass: &Pass| {
        pass.iter().filter(|(role, _)| *role == Role::Prompt).map(|(_, count)| *count).collect()
    };
    let prompts: Vec<Vec<usize>> = model.passes().iter().map(read).collect();
    let at = prompts.iter().position(|counts| counts.contains(&10)).unwrap();
    let before: usize = prompts[..at].iter().flatten().sum();
    assert!(before < 2 * 200, "{before} tokens before the short prompt");
}

#[test]
fn short_prompts_share_the_pass_of_those_that_generate_or_else_the_oldest_long_one() {
    use Role::{Generated, Prompt};
    let one = (Generated, 1);
    let passes = passes_beside(true, &[100, 120, 33]);
    assert_eq!(passes[..3], [vec![one, (Prompt, 100)], vec![(Prompt, 120)], vec![(Prompt, 33)]]);
    assert_eq!(passes[3], [one; 4]);
    let passes = passes_beside(true, &[100, 20, 32]);
    assert_eq!(passes[..2], [vec![one, (Prompt, 20), (Prompt, 32)], vec![(Prompt, 100)]]);
    let passes = passes_beside(false, &[100, 20]);
    assert_eq!(passes[..3], [vec![one], vec![(Prompt, 100)], vec![(Prompt, 20)]]);
}

#[test]
fn a_warm_cache_is_used() {
    let engine = start(Shared::babbling(600), EngineOptions::default());
    let text = "It was a dark and stormy night; the rain fell in torrents, except at occasional intervals. "
        .repeat(4);
    let asked = |end: &str| Request { max_tokens: Some(5), ..request(&format!("{text}{end}")) };
    let cold = run(&engine, &asked("Then>"));
    let warm = run(&engine, &asked("Then>"));
    assert_eq!(cold.text, warm.text);
    assert_eq!((cold.finish().usage.cached_tokens, warm.finish().usage.cached_tokens), (0, 320));
    assert_eq!(run(&engine, &asked("Later>")).finish().usage.cached_tokens, 320);
    let stats = engine.stats();
    assert_eq!((stats.cached_tokens, stats.cache_tokens), (640, 320));
    assert_eq!(stats.prompt_tokens as usize, 2 * asked("Then>").prompt.len() + asked("Later>").prompt.len());
}

#[test]
fn siblings_share_the_reading_of_their_prompt() {
    let model = Shared::babbling(600);
    let engine = start(model.clone(), EngineOptions { prefix_cache_bytes: 0, ..EngineOptions::default() });
    let mut asked = Request { max_tokens: Some(9), ..request("one and the same prompt>") };
    asked.sampling.temperature = 1.0;
    let texts: Vec<_> = engine.generate_many(&asked, 4).unwrap().into_iter().map(told).collect();
    let read: Vec<usize> = texts.iter().map(|one| one.finish().usage.cached_tokens).collect();
    assert_eq!(read, [0, 24, 24, 24]);
    for (index, told) in texts.iter().enumerate() {
        asked.sampling.seed = index as u64;
        assert_eq!(run(&engine, &asked).text, told.text);
    }
    assert_eq!(model.open_sequences(), 0);
}

#[test]
fn cancelling_during_prefill_leaves_nothing() {
    let (permit, permits) = std::sync::mpsc::channel();
    let model = held_back(permits);
    let engine = start(model.clone(), EngineOptions { step_tokens: 10, ..EngineOptions::default() });
    let mut busy = engine.generate(Request { logprobs: Some(0), ..request("busy>") }).unwrap();
    let reading = engine.generate(request(&"read all this>".repeat(30))).unwrap();
    permit.send(()).unwrap();
    assert!(matches!(busy.blocking_next(), Some(Output::Token(_))));
    // The next row is computed after a piece of the prompt.
    permit.send(()).unwrap();
    assert!(matches!(busy.blocking_next(), Some(Output::Text(_) | Output::Token(_) | Output::Control(_))));
    drop((busy, reading, permit));
    wait(engine.clear_prefix_cache());
    run(&engine, &Request { max_tokens: Some(2), ..request("next>") });
    assert_eq!((engine.stats().cancelled, model.open_sequences()), (2, 0));
}

#[test]
fn a_repeated_request_resumes_its_prefix() {
    let (permit, permits) = std::sync::mpsc::channel();
    let model = held_back(permits);
    let engine = start(model, EngineOptions { step_tokens: 10, ..EngineOptions::default() });
    let mut busy = engine.generate(Request { logprobs: Some(0), ..request("busy>") }).unwrap();
    let long = "read all this>".repeat(30);
    let reading = engine.generate(request(&long)).unwrap();
    // Each row of the other sequence is computed after a piece of the prompt.
    for _ in 0..100 {
        permit.send(()).unwrap();
        assert!(busy.blocking_next().is_some());
    }
    drop((busy, reading, permit));
    let again = run(&engine, &Request { max_tokens: Some(2), ..request(&long) });
    let cached = again.finish().usage.cached_tokens;
    assert!((64..long.len()).contains(&cached), "{cached}");
    assert_eq!(engine.stats().cancelled, 2);
}

#[test]
fn a_panic_during_prefill_leaves_nothing() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let model = Shared::new(ScriptedModel::new(VOCABULARY, 600, |tokens, row| {
        assert!(tokens.last() != Some(&TokenId(u32::from(b'!'))), "too loud");
        babble(tokens, row);
    }));
    let engine = start(model.clone(), EngineOptions::default());
    let loud = format!("{}!", "so much to say, ".repeat(20));
    let generations = engine.generate_many(&request(&loud), 3).unwrap();
    assert!(generations.into_iter().all(|generation| generation.collect().is_err()));
    run(&engine, &Request { max_tokens: Some(2), ..request("calm>") });
    wait(engine.clear_prefix_cache());
    assert_eq!((engine.stats().failed, model.open_sequences()), (3, 0));
    std::panic::set_hook(hook);
}

#[test]
fn adapters_share_passes_but_neither_prefixes_nor_prompts() {
    let model = || ScriptedModel::new(VOCABULARY, 2000, babble).with_adapters(&["a", "b"]);
    let request = || Request {
        max_tokens: Some(20),
        ..Request::new((0..300).map(|at| TokenId(at * at % 250)).collect())
    };
    let plain = EngineOptions { parallel: 1, prefix_cache_bytes: 0, ..EngineOptions::default() };
    let handles = |options| {
        let base = start(model(), options);
        assert!(base.with_adapter("c").is_none());
        assert_eq!(base.adapters(), ["a", "b"]);
        let [a, b] = ["a", "b"].map(|name| base.with_adapter(name).unwrap());
        [base, a, b]
    };
    let alone = handles(plain).map(|engine| engine.generate(request()).unwrap().collect().unwrap().0);
    assert!(alone[0] != alone[1] && alone[1] != alone[2] && alone[0] != alone[2]);
    let engines = handles(EngineOptions::default());
    for _ in 0..2 {
        let running: Vec<_> =
            engines.iter().chain(&engines).map(|engine| engine.generate(request()).unwrap()).collect();
        for (generation, expected) in running.into_iter().zip(alone.iter().chain(&alone)) {
            assert_eq!(generation.collect().unwrap().0, *expected);
        }
    }
    assert!(engines[0].stats().cached_tokens > 0);
}
