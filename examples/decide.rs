//! Lets the model choose one of several labels, and prints the probability of each label.
//!
//! ```sh
//! cargo run --release -p formwork-examples --bin decide -- MODEL "The soup was cold."
//! ```

#![expect(clippy::print_stdout, reason = "the answer goes to standard output")]

use std::sync::Arc;

use anyhow::{Context, Result};
use formwork_engine::prompt::{self, Shape};
use formwork_engine::{Engine, EngineHandle, EngineOptions, Request};
use formwork_grammar::{Constraint, Grammar, Limits};
use formwork_lm::{ChatInput, Message};
use formwork_model::{Model, OpenOptions};

const LABELS: [&str; 3] = ["positive", "neutral", "negative"];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("usage: decide MODEL [REVIEW]")?;
    let review = arguments.next().unwrap_or_else(|| "The soup was cold.".to_owned());
    let model = Model::open(path, OpenOptions::default())?;
    let tokenizer = Arc::new(model.tokenizer()?);
    let template = model.compile_template(&tokenizer, None)?;
    let engine = Engine::start(model.language_model(), tokenizer, EngineOptions::default());

    let mut messages = vec![Message::new("user", format!("What is the tone of this review? {review}"))];
    Shape::Choices(&LABELS.map(str::to_owned)).add_to(&mut messages);
    let input = ChatInput { messages, add_generation_prompt: true, ..ChatInput::default() };
    let tokens = prompt::encode(engine.tokenizer(), &template.render(&input)?)?;
    let request = Request { logprobs: Some(0), ..Request::new(tokens) };

    // The label is chosen token by token, so in rare cases another label is more probable as a whole.
    let (choice, _) = choose(&engine, &request, &LABELS)?;
    println!("{choice}");

    // If only one label is allowed, the result is the log-probability of this label. The engine
    // reads the prompt only once, because its prefix cache keeps it.
    let logprobs = LABELS.map(|label| choose(&engine, &request, &[label]).map(|(_, logprob)| logprob));
    let logprobs = logprobs.into_iter().collect::<Result<Vec<f64>>>()?;
    let total: f64 = logprobs.iter().map(|logprob| logprob.exp()).sum();
    for (label, logprob) in LABELS.iter().zip(logprobs) {
        println!("{label:8} {:.3} (log-probability {logprob:.2})", logprob.exp() / total);
    }
    Ok(())
}

/// Generates one of `choices`, and returns it with its log-probability.
fn choose(engine: &EngineHandle, request: &Request, choices: &[&str]) -> Result<(String, f64)> {
    let grammar = Grammar::choices(choices, &Limits::default())?;
    let constraint = Constraint::new(&grammar, Arc::clone(engine.tokenizer().vocabulary()))?;
    let request = Request { constraint: Some(constraint), ..request.clone() };
    let (text, finish) = engine.generate(request)?.collect()?;
    Ok((text, finish.cumulative_logprob.context("no log-probabilities were requested")?))
}
