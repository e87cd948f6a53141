//! Generates an answer to a prompt, and streams it to standard output.
//!
//! ```sh
//! cargo run --release -p formwork-examples --bin generate -- MODEL "Tell me about tides."
//! ```
//!
//! `MODEL` is a GGUF file or a folder of safetensors. `formwork pull` downloads a small model and
//! prints its path.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result};
use formwork_engine::{Engine, EngineOptions, Output, Request, Sampling, prompt};
use formwork_lm::{ChatInput, Message};
use formwork_model::{Model, OpenOptions};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("usage: generate MODEL [PROMPT]")?;
    let question = arguments.next().unwrap_or_else(|| "Tell me about tides.".to_owned());
    let model = Model::open(path, OpenOptions::default())?;
    let tokenizer = Arc::new(model.tokenizer()?);
    let template = model.compile_template(&tokenizer, None)?;
    let engine = Engine::start(model.language_model(), tokenizer, EngineOptions::default());

    // The chat template formats messages as the model knows them from its training.
    let messages = vec![Message::new("user", question)];
    let input = ChatInput { messages, add_generation_prompt: true, ..ChatInput::default() };
    let tokens = prompt::encode(engine.tokenizer(), &template.render(&input)?)?;

    let sampling = Sampling { temperature: 0.7, top_p: 0.95, seed: 1, ..Sampling::default() };
    let request = Request { sampling, max_tokens: Some(100), ..Request::new(tokens) };
    let mut generation = engine.generate(request)?;

    let mut stdout = std::io::stdout().lock();
    while let Some(output) = generation.blocking_next() {
        match output {
            Output::Text(piece) => {
                write!(stdout, "{piece}")?;
                stdout.flush()?;
            }
            Output::Finished(finish) => {
                writeln!(stdout)?;
                eprintln!("{} tokens in {:.1?}", finish.usage.completion_tokens, finish.timings.decode);
            }
            Output::Failed(error) => return Err(error.into()),
            // Control tokens, and figures that only some requests ask for.
            _ => {}
        }
    }
    Ok(())
}
