//! Decisions of the real models: probabilities against samples, and the same bits in any company.
//!
//! Runs if `FORMWORK_TEST_MODELS` names a folder with the model files. `FORMWORK_TEST_SAMPLES` sets the
//! number of samples.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use formwork_engine::{
    DecisionRequest, Enclosure, Ending, Engine, EngineHandle, EngineOptions, FinishReason, Output, Question,
    Request, Sampling, SearchLimits, Visited, prompt,
};
use formwork_grammar::{ChoiceReader, Constraint, Grammar, Limits, OptionValue, SchemaOptions};
use formwork_model::{Model, OpenOptions};

use super::real_models::{engine, model_files};

fn question(engine: &EngineHandle, text: &str, options: &[&str]) -> Question {
    Question {
        prompt: prompt::encode(engine.tokenizer(), text).expect("text"),
        options: options.iter().map(|&option| vec![option.to_owned()]).collect(),
        ending: Ending::Tokens(engine.tokenizer().vocabulary().ends().to_vec()),
        temperature: 1.0,
        visited: Visited::AsNeeded,
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

/// Returns the number of samples.
fn samples() -> usize {
    let samples = std::env::var("FORMWORK_TEST_SAMPLES").ok().and_then(|samples| samples.parse().ok());
    samples.unwrap_or(300)
}

/// Checks that an option occurs about as often as its probability says.
fn assert_frequent(option: &str, probability: f64, count: usize, samples: usize) {
    let (expected, count) = (probability * samples as f64, count as f64);
    let deviation = (expected * (1.0 - probability)).sqrt().max(1.0);
    let is_near = (count - expected).abs() <= 4.0 * deviation;
    assert!(is_near, "{option}: {count} of {samples}, expected {expected:.1} ± {deviation:.1}");
}

#[test]
fn probabilities_are_the_frequencies_of_samples() {
    let samples = samples();
    let Some(path) = model_files().into_iter().next() else { return };
    let engine = engine(&path);
    let text = asked("Is the sky blue? Answer with yes or no only.");
    // Several spellings are likely, and one is the beginning of another one.
    let options = ["Yes", "Yes.", "No", "No.", "yes"];
    let limits = SearchLimits { tolerance: 0.0, nodes: 20_000 };
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
        assert_frequent(options[option], law.ln_lower[option].exp(), count, samples);
    }
}

#[test]
fn probabilities_of_the_sampler_are_the_frequencies_of_masked_samples() {
    let samples = samples();
    let Some(path) = model_files().into_iter().next() else { return };
    let engine = engine(&path);
    let teams = ["billing", "technical support", "technical", "sales"];
    let schema = serde_json::json!({
        "type": "object", "properties": { "team": { "enum": teams } }, "required": ["team"]
    });
    let grammar = Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default());
    let grammar = grammar.expect("a good schema");
    let constraint = Constraint::new(&grammar, Arc::clone(engine.tokenizer().vocabulary()));
    let text = asked("The app shows an error. Which team should answer? Answer in JSON.");
    let request = |seed: usize| Request {
        constraint: Some(constraint.clone().expect("a good grammar")),
        sampling: Sampling { temperature: 1.0, seed: seed as u64, ..Sampling::default() },
        reports_tokens: true,
        ..Request::new(prompt::encode(engine.tokenizer(), &text).expect("text"))
    };
    let mut tracker = engine.tracker(&request(0), ChoiceReader::json(&grammar)).expect("a good request");
    let mut generation = engine.generate(request(0)).expect("room");
    let mut points = Vec::new();
    while let Some(output) = generation.blocking_next() {
        match output {
            Output::Generated(token) => tracker.token(token),
            Output::Text(text) => {
                tracker.show(&text);
                points.extend(tracker.content(&text));
            }
            _ => {}
        }
    }
    let choice =
        tracker.questions(points.remove(0)).expect("spellable options").expect("a choice of the output");
    let limits = SearchLimits { tolerance: 1e-6, nodes: 20_000 };
    let enclosures = decide(&engine, vec![choice.question.clone(), choice.sampled], limits);
    let shares = |law: &Enclosure| law.shares().expect("possible options");
    println!("the model's own: {:?}", shares(&enclosures[0]));
    let mut counts = [0usize; 4];
    for first in (0..samples).step_by(100) {
        let count = (samples - first).min(100);
        for generation in engine.generate_many(&request(1_000_000 + first), count).expect("room") {
            let (text, _) = generation.collect().expect("an answer");
            let given: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let value = OptionValue::Value(given["team"].clone());
            counts[choice.point.options.iter().position(|option| option.value == value).expect("a team")] +=
                1;
        }
    }
    for (option, share) in shares(&enclosures[1]).into_iter().enumerate() {
        let name = &choice.point.options[option].texts[0];
        assert_frequent(name, share, counts[option], samples);
    }
    // The probabilities are those of the same options after the same tokens.
    let again = Question { options: choice.question.options.clone(), ..choice.question };
    assert_eq!(bits(&decide(&engine, vec![again], limits)[0]), bits(&enclosures[0]));
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
    let limits = SearchLimits { tolerance: 1e-3, nodes: 24 };
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
