//! Conversations with models whose state cannot be cut: how many tokens are computed again.

use candle_core::quantized::GgmlDType;
use formwork_engine::{Engine, EngineHandle, EngineOptions, Output, Request, Sampling};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};

use crate::published::goldens;
use crate::{converted, tiny};

const TURNS: usize = 20;
/// Numbers of tokens of a message and of an answer. The answer begins with thoughts.
const MESSAGE: usize = 150;
const ANSWER: usize = 150;
const THOUGHTS: usize = 60;
/// Control token between messages.
const MARK: TokenId = TokenId(94);
/// Token that ends a text. It is never sampled here.
const END: u32 = 95;

fn tokenizer() -> Tokenizer {
    let text = (0..94u8).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Text });
    let control = ["<mark>", "<end>"].map(|name| Token { bytes: name.into(), kind: TokenKind::Control });
    Tokenizer::greedy(Vocabulary::new(text.chain(control).collect(), vec![TokenId(END)]).unwrap())
}

/// Generates an answer of [`ANSWER`] tokens.
fn answer(engine: &EngineHandle, prompt: Vec<TokenId>) -> Vec<TokenId> {
    let ban = vec![(TokenId(END), -100.0)];
    let request = Request {
        max_tokens: Some(ANSWER),
        logit_bias: ban,
        logprobs: Some(0),
        // Answers without repetition, so that an answer without its thoughts is a new text.
        sampling: Sampling { temperature: 10.0, seed: prompt.len() as u64, ..Sampling::default() },
        ..Request::new(prompt)
    };
    let mut generation = engine.generate(request).unwrap();
    let mut tokens = Vec::new();
    loop {
        match generation.blocking_next() {
            Some(Output::Token(token)) => tokens.push(token.token),
            Some(Output::Failed(error)) => panic!("{error}"),
            Some(Output::Finished(_)) | None => return tokens,
            Some(_) => {}
        }
    }
}

/// Holds a conversation, and returns the share of prompt tokens that were computed though they had been
/// computed before. With `strips_thoughts`, earlier answers lose their thoughts.
fn read_again(engine: &EngineHandle, strips_thoughts: bool) -> f64 {
    let mut history: Vec<TokenId> = Vec::new();
    let (mut prompts, mut new) = (0, 0);
    for turn in 0..TURNS {
        history.push(MARK);
        history.extend(tiny::tokens(MESSAGE, turn).into_iter().map(|token| TokenId(token.0 % 94)));
        history.push(MARK);
        // After the first turn, an answer without thoughts is a text that the model has not read.
        new += MESSAGE + 2 + if strips_thoughts && turn > 0 { ANSWER - THOUGHTS } else { 0 };
        prompts += history.len();
        let answer = answer(engine, history.clone());
        assert_eq!(answer.len(), ANSWER);
        history.extend(&answer[if strips_thoughts { THOUGHTS } else { 0 }..]);
    }
    let stats = engine.stats();
    let computed = stats.prompt_tokens + stats.replayed_tokens - stats.cached_tokens;
    assert_eq!(stats.prompt_tokens, prompts as u64);
    (computed as f64 - new as f64) / prompts as f64
}

#[test]
fn conversations_with_hybrids_compute_few_tokens_again() {
    let hybrids = ["lfm2-64", "qwen3.5-64", "granite-hybrid-64", "nemotron-h-64"];
    for (name, golden) in goldens().iter().filter(|(name, _)| hybrids.contains(&&**name)) {
        let model = tiny::open(&converted::gguf_with(golden, GgmlDType::F32, Some(8192))).unwrap();
        for strips_thoughts in [false, true] {
            let options = EngineOptions { parallel: 1, ..EngineOptions::default() };
            let engine = Engine::start(model.language_model(), tokenizer().into(), options);
            let share = read_again(&engine, strips_thoughts);
            println!("{name}, thoughts stripped: {strips_thoughts}: {:.2}%", share * 100.0);
            assert!(share <= 0.05, "{name}, {strips_thoughts}: {share}");
        }
    }
}
