//! End-to-end tests on the real models: for any sampling, budget and grammar, the output is
//! complete and valid.
//!
//! Runs if `FORMWORK_TEST_MODELS` names a folder with the two model files. `FORMWORK_TEST_RUNS`
//! sets the number of generations per model (100 covers the full matrix).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use formwork_engine::prompt::{self, Shape};
use formwork_engine::{
    Engine, EngineHandle, EngineOptions, FinishReason, Generation, Output, Request, Sampling, TokenLogprob,
    Usage,
};
use formwork_grammar::{Constraint, Grammar, Limits, SchemaOptions};
use formwork_lm::Message;
use formwork_model::{Model, OpenOptions};
use formwork_tests::reference::cfg::Reference;
use serde_json::Value;

use super::{fields, grammars};

const MODELS: [&str; 2] = ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"];

/// Returns the files of the real models, or none if they are not available.
pub(crate) fn model_files() -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("FORMWORK_TEST_MODELS") else { return Vec::new() };
    MODELS.iter().map(|name| Path::new(&folder).join(name)).collect()
}

pub(crate) fn engine(path: &Path) -> EngineHandle {
    engine_with(path, EngineOptions::default())
}

fn engine_with(path: &Path, options: EngineOptions) -> EngineHandle {
    let model = Model::open(path, OpenOptions { context: Some(2048), ..OpenOptions::default() })
        .expect("a good file");
    let tokenizer = Arc::new(model.tokenizer().expect("a good tokenizer"));
    Engine::start(model.language_model(), tokenizer, options)
}

/// A constraint, with the instruction for the model and a validator for the output.
struct Case {
    name: String,
    grammar: Grammar,
    instruction: String,
    valid: Box<dyn Fn(&str) -> bool>,
}

fn load_cases() -> Vec<Case> {
    let schemas = grammars::files(".schema.json").into_iter().map(|path| {
        let schema: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).expect("readable")).expect("JSON");
        let validator = jsonschema::validator_for(&schema).expect("a valid schema");
        Case {
            name: path.display().to_string(),
            grammar: Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default())
                .expect("supported"),
            instruction: Shape::Schema(&schema).instruction(),
            valid: Box::new(move |text| {
                serde_json::from_str(text).is_ok_and(|value: Value| validator.is_valid(&value))
            }),
        }
    });
    let gbnf = grammars::files(".gbnf").into_iter().map(|path| {
        let source = std::fs::read_to_string(&path).expect("readable");
        let reference = Reference::new(&source);
        Case {
            name: path.display().to_string(),
            grammar: Grammar::gbnf(&source, &Limits::default()).expect("valid"),
            instruction: Shape::Grammar(&source).instruction(),
            valid: Box::new(move |text| reference.accepts(text.as_bytes())),
        }
    });
    schemas.chain(gbnf).collect()
}

/// Returns the number of runs, if the environment sets it.
fn runs() -> Option<usize> {
    std::env::var("FORMWORK_TEST_RUNS").ok().and_then(|runs| runs.parse().ok())
}

#[test]
fn hot_sampling_with_tight_budgets_is_always_complete_and_valid() {
    let runs = runs().unwrap_or(15);
    for path in model_files() {
        let engine = engine(&path);
        let tokenizer = engine.tokenizer();
        let cases: Vec<(Case, Constraint)> = load_cases()
            .into_iter()
            .map(|case| {
                let constraint = Constraint::new(&case.grammar, Arc::clone(tokenizer.vocabulary()))
                    .expect("every token is in the vocabulary");
                (case, constraint)
            })
            .collect();
        for run in 0..runs {
            let (case, constraint) = &cases[run % cases.len()];
            let minimum = constraint.minimum_tokens().expect("spellable");
            let spare = [0, 1, 3, 8, 20, 45, 90][run / cases.len() % 7];
            let max_tokens = (minimum + spare).max(1);
            // Only every other run has the schema in its prompt, since its prefill takes longest.
            let instruction = if run % 2 == 0 { case.instruction.as_str() } else { "Fill this in." };
            let message = Message::new("user", instruction);
            let mut request = Request::new(prompt::encode(tokenizer, message.text()).expect("text"));
            request.constraint = Some(constraint.clone());
            request.max_tokens = Some(max_tokens);
            request.sampling = Sampling { temperature: 1.5, seed: run as u64, ..Sampling::default() };
            if minimum > 1 {
                let refused = Request { max_tokens: Some(minimum - 1), ..request.clone() };
                let error = engine.generate(refused).expect_err("below the minimum");
                assert_eq!(error.minimum_tokens(), Some(minimum));
            }
            let (text, finish) = engine.generate(request).expect("accepted").collect().expect("no failure");
            assert!((case.valid)(&text), "{}, run {run}, {max_tokens} tokens: {text:?}", case.name);
            assert_eq!(finish.reason, FinishReason::Stop);
            assert!(finish.usage.completion_tokens <= max_tokens);
        }
        eprintln!("{}: {runs} of {runs} complete and valid", path.display());
    }
}

#[test]
fn fields_are_filled_in_with_valid_values() {
    let runs = runs().unwrap_or(4);
    for path in model_files() {
        let engine = engine(&path);
        let tokenizer = engine.tokenizer();
        for name in ["character.json", "scene-event.yaml", "quest-log.toml"] {
            let definition = fields::examples::example(name);
            let grammar = definition.grammar(&Limits::default()).expect("within limits");
            let constraint = Constraint::new(&grammar, Arc::clone(tokenizer.vocabulary()));
            let template = definition.template();
            let instruction = Shape::Template(&template).instruction();
            let mut request = Request::new(prompt::encode(tokenizer, &instruction).expect("text"));
            request.constraint = Some(constraint.expect("without terminals"));
            request.max_tokens = Some(400);
            if let Some(weights) = definition.weights(tokenizer.vocabulary()) {
                request.guide = Some(Arc::new(weights));
            }
            for seed in 0..runs as u64 {
                let sampling = Sampling { temperature: 1.0, seed, ..Sampling::default() };
                let generation = engine.generate(Request { sampling, ..request.clone() }).expect("accepted");
                let (text, _) = generation.collect().expect("no failure");
                let errors = definition.validate(&text);
                assert!(errors.is_empty(), "{name}, run {seed}: {text}: {errors:?}");
            }
            eprintln!("{}: {name}: {runs} of {runs} valid", path.display());
        }
    }
}

#[test]
fn a_request_gives_the_same_tokens_alone_and_among_others() {
    for path in model_files().iter().take(1) {
        let engine = engine(path);
        let request = |seed| {
            let text = "The sea is";
            let mut request = Request::new(prompt::encode(engine.tokenizer(), text).expect("text"));
            request.max_tokens = Some(12);
            request.sampling = Sampling { temperature: 1.0, seed, ..Sampling::default() };
            request
        };
        let alone: Vec<String> = (0..3)
            .map(|seed| engine.generate(request(seed)).expect("accepted").collect().expect("text").0)
            .collect();
        let together: Vec<_> = (0..3).map(|seed| engine.generate(request(seed)).expect("accepted")).collect();
        for (generation, alone) in together.into_iter().zip(alone) {
            assert_eq!(generation.collect().expect("text").0, alone);
        }
    }
}

/// Returns requests with a common prompt prefix that spans two pieces of a prompt. The text repeats
/// itself, which suits drafts.
fn alike(engine: &EngineHandle) -> Vec<Request> {
    let text = "The sea is blue, the sky is blue, the sea is deep, the sky is high. ".repeat(20);
    let grammar = Grammar::gbnf(
        r#"root ::= "[" item ("," item)* "]"
item ::= " \"" [a-z ]{1,20} "\"""#,
        &Limits::default(),
    );
    let constraint = Constraint::new(&grammar.expect("valid"), Arc::clone(engine.tokenizer().vocabulary()));
    let constraint = constraint.expect("without terminals");
    let ends = ["Again: the sea is", "Again: the sea is", "So", ""];
    let request = |(index, end): (usize, &&str)| {
        let prompt = prompt::encode(engine.tokenizer(), &format!("{text}{end}")).expect("text");
        Request {
            max_tokens: Some(16),
            sampling: Sampling { temperature: (index % 2) as f32, seed: 3, ..Sampling::default() },
            constraint: (index == 2).then(|| constraint.clone()),
            logprobs: (index != 1).then_some(1),
            ..Request::new(prompt)
        }
    };
    ends.iter().enumerate().map(request).collect()
}

/// Collects the text, log-probabilities and usage of a generation.
fn told(mut generation: Generation) -> (String, Vec<TokenLogprob>, Usage) {
    let (mut text, mut logprobs) = (String::new(), Vec::new());
    loop {
        match generation.blocking_next().expect("it ends with its end") {
            Output::Text(piece) => text.push_str(&piece),
            Output::Token(logprob) => logprobs.push(logprob),
            Output::Control(_) | Output::Generated(_) | Output::Masked(_) | Output::PromptToken(_) => {}
            Output::Finished(finish) => return (text, logprobs, finish.usage),
            Output::Failed(error) => panic!("{error}"),
        }
    }
}

/// Returns options for one request at a time, without prefix cache and drafts.
fn plain() -> EngineOptions {
    EngineOptions { parallel: 1, prefix_cache_bytes: 0, speculate: Some(0), ..EngineOptions::default() }
}

/// Greedy requests that need only the largest logit do not compute all logits, and use drafts.
/// Their tokens must not change.
#[test]
fn greedy_tokens_are_those_of_whole_rows_of_logits() {
    for path in model_files() {
        let greedy = |options: EngineOptions, logprobs: Option<usize>| {
            let engine = engine_with(&path, options);
            let of = |request: Request| {
                let sampling = Sampling::default();
                let request = Request { max_tokens: Some(60), sampling, logprobs, ..request };
                let (text, _, usage) = told(engine.generate(request).expect("accepted"));
                (text, usage.completion_tokens)
            };
            alike(&engine).into_iter().map(of).collect::<Vec<_>>()
        };
        let whole = greedy(plain(), Some(0));
        assert_eq!(whole, greedy(plain(), None), "{}", path.display());
        let usual = EngineOptions { prefix_cache_bytes: 0, ..EngineOptions::default() };
        assert_eq!(whole, greedy(usual, None), "{}", path.display());
    }
}

#[test]
fn a_request_gives_the_same_tokens_alone_and_among_others_with_any_cache_and_drafts() {
    for path in model_files() {
        let alone = engine_with(&path, plain());
        let expected: Vec<_> =
            alike(&alone).into_iter().map(|one| told(alone.generate(one).expect("accepted"))).collect();
        let options = EngineOptions { step_tokens: 100, speculate: Some(5), ..EngineOptions::default() };
        let engine = engine_with(&path, options);
        for round in 0..2 {
            let together: Vec<_> =
                alike(&engine).into_iter().map(|one| engine.generate(one).expect("accepted")).collect();
            let mut cached = 0;
            for (generation, expected) in together.into_iter().zip(&expected) {
                let (text, logprobs, usage) = told(generation);
                assert_eq!((&text, &logprobs), (&expected.0, &expected.1), "round {round}");
                cached += usage.cached_tokens;
                assert_eq!(Usage { cached_tokens: 0, ..usage }, expected.2);
            }
            assert!(cached >= 256 * (3 + round), "{cached} tokens were cached");
        }
        let stats = engine.stats();
        eprintln!(
            "{}: {} of {} drafts were right",
            path.display(),
            stats.accepted_tokens,
            stats.drafted_tokens
        );
        assert!(stats.drafted_tokens > 0 && stats.cache_tokens >= 256);
    }
}
