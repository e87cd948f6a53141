//! Tests that failures in one generation do not affect other generations.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use formwork_engine::{EngineOptions, Output, Pooling, Request, Sampling, TextRequest};
use formwork_lm::{Batch, EncodedText, LanguageModel, Logits, ModelError, ScriptedModel, SequenceId};
use formwork_vocab::TokenId;

use crate::fixture::{Shared, VOCABULARY, babble, held_back, request, run, start, told, wait};

/// Creates a model that panics after any text with two `!`.
fn touchy() -> Shared {
    Shared::new(ScriptedModel::new(VOCABULARY, 600, |tokens, row| {
        let marks = tokens.iter().filter(|token| token.0 == u32::from(b'!')).count();
        assert!(marks < 2, "too loud");
        babble(tokens, row);
    }))
}

#[test]
fn a_panic_ends_only_its_generation() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let asked = |index: u64| {
        let mut asked = request(&format!("Say something {index}>"));
        asked.max_tokens = Some(60);
        asked.sampling = Sampling { temperature: 1.0, seed: index, ..Sampling::default() };
        // Request 2 favours `!` and soon panics; the others never produce it.
        let loud = if index == 2 { 8.0 } else { -100.0 };
        asked.logit_bias = vec![(TokenId(u32::from(b'!')), loud)];
        asked
    };
    let alone = start(Shared::babbling(600), EngineOptions::default());
    let expected: Vec<_> = (0..4).map(|index| run(&alone, &asked(index))).collect();
    for is_batch_invariant in [false, true] {
        let model = touchy().batch_invariant(is_batch_invariant);
        // A cached answer would keep its sequence open.
        let options = EngineOptions { prefix_cache_bytes: 0, ..EngineOptions::default() };
        let engine = start(model.clone(), options);
        let mut generations: Vec<_> = (0..4).map(|index| engine.generate(asked(index)).unwrap()).collect();
        let error = generations.remove(2).collect().unwrap_err();
        assert_eq!(error.to_string(), "the generation panicked");
        for (generation, index) in generations.into_iter().zip([0, 1, 3]) {
            let given = told(generation);
            assert_eq!(given.text, expected[index].text);
            assert_eq!(given.finish().usage, expected[index].finish().usage);
        }
        assert_eq!((engine.stats().failed, engine.stats().finished), (1, 3));
        assert_eq!(model.open_sequences(), 0);
    }
    std::panic::set_hook(hook);
}

/// Checks that a prompt that panics restarts other sequences only once, if it is short or long and
/// submitted several times.
#[test]
fn a_failed_prompt_costs_others_one_reread() {
    for loud in ["loud>".to_owned(), format!("loud{}>", ".".repeat(100))] {
        assert_one_reading(&loud);
    }
}

fn assert_one_reading(loud: &str) {
    let asked = Request { max_tokens: Some(40), ..request("Say something>") };
    let expected = run(&start(Shared::babbling(600), EngineOptions::default()), &asked);
    let (permit, permits) = std::sync::mpsc::channel();
    let fed = Arc::new(AtomicUsize::new(0));
    let rows = Arc::clone(&fed);
    let model = ScriptedModel::new(VOCABULARY, 600, move |tokens, row| {
        let _ = permits.recv();
        rows.fetch_add(1, Ordering::Relaxed);
        assert!(!tokens.starts_with(&crate::fixture::tokens("loud")), "too loud");
        babble(tokens, row);
    });
    let model = Shared::new(model).batch_invariant(true);
    let options = EngineOptions { speculate: Some(0), ..EngineOptions::default() };
    let engine = start(model.clone(), options);
    let mut quiet = engine.generate(asked).unwrap();
    permit.send(()).unwrap();
    assert!(matches!(quiet.blocking_next(), Some(Output::Text(_) | Output::Token(_))));
    // The quiet generation waits for its second row while the other requests arrive.
    let loud = engine.generate_many(&request(loud), 5).unwrap();
    drop(permit);
    for generation in loud {
        assert_eq!(generation.collect().unwrap_err().to_string(), "the generation panicked");
    }
    let told = told(quiet);
    assert_eq!(told.finish().usage.completion_tokens, expected.finish().usage.completion_tokens);
    assert!(expected.text.ends_with(&told.text), "{} and {}", expected.text, told.text);
    // Each failing request computes one row. The quiet generation repeats one row for the failed
    // pass.
    let fed = fed.load(Ordering::Relaxed);
    assert!(fed <= 40 + 5 + 2, "{fed} rows");
    assert_eq!(model.open_sequences(), 0);
}

#[test]
fn a_cancelled_generation_is_closed() {
    let (permit, permits) = std::sync::mpsc::channel();
    let model = held_back(permits);
    let engine = start(model.clone(), EngineOptions::default());
    let mut long = engine.generate(Request { logprobs: Some(0), ..request("long>") }).unwrap();
    permit.send(()).unwrap();
    assert!(matches!(long.blocking_next(), Some(Output::Token(_))));
    drop((long, permit));
    run(&engine, &Request { max_tokens: Some(3), ..request("short>") });
    assert_eq!(engine.stats().cancelled, 1);
    assert_eq!(model.open_sequences(), 0);
}

/// A model that exposes no hidden states and cannot fork.
struct Plain(ScriptedModel);

impl LanguageModel for Plain {
    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }
    fn context_len(&self) -> usize {
        self.0.context_len()
    }
    fn open(&mut self) -> SequenceId {
        self.0.open()
    }
    fn close(&mut self, sequence: SequenceId) {
        self.0.close(sequence);
    }
    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        self.0.truncate(sequence, len)
    }
    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        self.0.forward(batch)
    }
}

#[test]
fn a_model_may_lack_abilities() {
    let model = Plain(ScriptedModel::new(VOCABULARY, 600, babble));
    let engine = start(model, EngineOptions::default());
    let error = wait(engine.embed(crate::fixture::tokens("hello"), Pooling::Mean)).unwrap_err();
    match error {
        formwork_engine::EmbedError::Failed(error) => assert!(error.is_unsupported(), "{error}"),
        formwork_engine::EmbedError::Refused(error) => panic!("{error}"),
    }
    let asked = Request { max_tokens: Some(9), ..request("go>") };
    let texts = engine.generate_many(&asked, 3).unwrap().into_iter().map(|one| told(one).text);
    let expected = run(&start(Shared::babbling(600), EngineOptions::default()), &asked).text;
    assert!(texts.into_iter().all(|text| text == expected));
}

/// A model that encodes several texts in one pass. It fails if one of them contains `!`.
struct Encodes(ScriptedModel);

impl LanguageModel for Encodes {
    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }
    fn context_len(&self) -> usize {
        self.0.context_len()
    }
    fn open(&mut self) -> SequenceId {
        self.0.open()
    }
    fn close(&mut self, sequence: SequenceId) {
        self.0.close(sequence);
    }
    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        self.0.truncate(sequence, len)
    }
    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        self.0.forward(batch)
    }
    fn reads_whole_texts(&self) -> bool {
        true
    }
    fn encode(&mut self, texts: &[EncodedText<'_>]) -> Result<Vec<Vec<f32>>, ModelError> {
        let states = |text: &EncodedText<'_>| text.tokens.iter().map(|token| token.0 as f32).collect();
        if texts.iter().any(|text| text.tokens.contains(&TokenId(33))) {
            return Err(ModelError::unsupported("this text"));
        }
        Ok(texts.iter().map(states).collect())
    }
    fn score(&self, pooled: &[f32]) -> Result<f32, ModelError> {
        Ok(2.0 * pooled[0])
    }
}

#[test]
fn a_failed_text_ends_no_other_in_its_pass() {
    let engine = start(Encodes(ScriptedModel::new(VOCABULARY, 600, babble)), EngineOptions::default());
    let texts: Vec<_> = (0..24)
        .map(|index| {
            let engine = engine.clone();
            let text = if index % 5 == 0 { "a!" } else { "ac" };
            let embed = move || wait(engine.embed(crate::fixture::tokens(text), Pooling::Mean));
            (index, std::thread::spawn(embed))
        })
        .collect();
    for (index, text) in texts {
        let vector = text.join().unwrap();
        match vector {
            Ok(vector) => assert_eq!((vector, index % 5 == 0), (vec![98.0], false)),
            Err(_) => assert_eq!(index % 5, 0),
        }
    }
    let tokens = crate::fixture::tokens("ac");
    for (pooling, expected) in [(Pooling::First, 194.0), (Pooling::Last, 198.0)] {
        let text = TextRequest { tokens: tokens.clone(), second: Some(1), pooling };
        assert!((wait(engine.score(text)).unwrap() - expected).abs() < 1e-6);
    }
}
