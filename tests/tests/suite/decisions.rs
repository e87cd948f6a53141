//! Decisions of the real models: probabilities against samples, and the same bits in any company.
//!
//! Runs if `FORMWORK_TEST_MODELS` names a folder with the model files. `FORMWORK_TEST_SAMPLES` sets the
//! number of samples.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use formwork_engine::{
    DecisionRequest, Enclosure, Ending, Engine, EngineHandle, EngineOptions, FinishReason, Question, Request,
    Sampling, SearchLimits, prompt,
};
use formwork_model::{Model, OpenOptions};

use super::real_models::{engine, model_files};

fn question(engine: &EngineHandle, text: &str, options: &[&str]) -> Question {
    Question {
        prompt: prompt::encode(engine.tokenizer(), text).expect("text"),
        options: options.iter().map(|&option| vec![option.to_owned()]).collect(),
        ending: Ending::Tokens(engine.tokenizer().vocabulary().ends().to_vec()),
        temperature: 1.0,
        sampler: None,
    }
}

fn decide(engine: &EngineHandle, questions: Vec<Question>, limits: SearchLimits) -> Vec<Enclosure> {
    let request = DecisionRequest { questions, limits, deadline: None, is_part: false };
    engine.decide(request).expect("good questions").blocking_result().expect("probabilities").enclosures
}

/// Returns a question in the form of a chat with SmolLM2.
fn asked(question: &str) -> String {
    format!("<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n")
}

#[test]
fn probabilities_are_the_frequencies_of_samples() {
    let samples = std::env::var("FORMWORK_TEST_SAMPLES").ok().and_then(|samples| samples.parse().ok());
    let samples: usize = samples.unwrap_or(300);
    let Some(path) = model_files().into_iter().next() else { return };
    let engine = engine(&path);
    let text = asked("Is the sky blue? Answer with yes or no only.");
    // Several spellings are likely, and one is the beginning of another one.
    let options = ["Yes", "Yes.", "No", "No.", "yes"];
    let limits = SearchLimits { tolerance: 0.0, nodes: 20_000, ..SearchLimits::default() };
    let question = question(&engine, &text, &options);
    let law = decide(&engine, vec![question.clone()], limits).remove(0);
    let mut counts = [0usize; 5];
    for first in (0..samples).step_by(100) {
        let request = Request {
            max_tokens: Some(4),
            sampling: Sampling { temperature: 1.0, seed: 1_000_000 + first as u64, ..Sampling::default() },
            ..Request::new(question.prompt.clone())
        };
        let count = (samples - first).min(100);
        for generation in engine.generate_many(&request, count).expect("room") {
            let (text, finish) = generation.collect().expect("an answer");
            if finish.reason == FinishReason::Stop
                && let Some(option) = options.iter().position(|option| *option == text)
            {
                counts[option] += 1;
            }
        }
    }
    for (option, count) in counts.into_iter().enumerate() {
        let probability = law.ln_lower[option].exp();
        let (expected, count) = (probability * samples as f64, count as f64);
        let deviation = (expected * (1.0 - probability)).sqrt().max(1.0);
        println!("{:?}: {count} of {samples}, expected {expected:.1} ± {deviation:.1}", options[option]);
        assert!((count - expected).abs() <= 4.0 * deviation, "{:?} is off", options[option]);
    }
}

fn engine_of(path: &Path, threads: usize, options: EngineOptions) -> EngineHandle {
    let open =
        OpenOptions { context: Some(2048), threads: NonZeroUsize::new(threads), ..OpenOptions::default() };
    let model = Model::open(path, open).expect("a good file");
    let tokenizer = Arc::new(model.tokenizer().expect("a good tokenizer"));
    Engine::start(model.language_model(), tokenizer, options)
}

/// Returns the bits of the bounds of an enclosure.
fn bits(enclosure: &Enclosure) -> Vec<u64> {
    let Enclosure { ln_lower, ln_upper, error, .. } = enclosure;
    ln_lower.iter().chain(ln_upper).chain([error]).map(|number| number.to_bits()).collect()
}

#[test]
fn a_question_has_the_same_bits_with_any_threads_and_company() {
    let limits = SearchLimits { tolerance: 1e-3, nodes: 24, ..SearchLimits::default() };
    for path in model_files() {
        let one =
            EngineOptions { parallel: 1, prefix_cache_bytes: 0, step_tokens: 48, ..EngineOptions::default() };
        let engines = [engine_of(&path, 2, EngineOptions::default()), engine_of(&path, 1, one)];
        let state = "The customer was charged twice for one order and asks for the money. ".repeat(6);
        let teams = ["billing", "technical support", "engineering", "sales"];
        let all = |engine: &EngineHandle| -> Vec<Question> {
            let question = |index: usize| {
                let text = asked(&format!("{state}\n\nQuestion {index}: which team should answer?"));
                question(engine, &text, &teams[..2 + index % 3])
            };
            (0..10).map(question).collect()
        };
        let together: Vec<Vec<u64>> =
            decide(&engines[0], all(&engines[0]), limits).iter().map(bits).collect();
        let reversed = decide(&engines[0], all(&engines[0]).into_iter().rev().collect(), limits);
        assert!(reversed.iter().rev().map(bits).eq(together.iter().cloned()), "{}", path.display());
        for index in [0, 5, 9] {
            let alone = decide(&engines[1], vec![all(&engines[1]).swap_remove(index)], limits);
            assert_eq!(bits(&alone[0]), together[index], "{}", path.display());
        }
    }
}
