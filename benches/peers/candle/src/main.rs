//! Measures candle's models on GGUF files as `formwork bench prefill` and `formwork bench decode`
//! define, and reports the time and memory of loading.

mod gguf;
mod memory;
mod model;

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand};
use formwork_benches::throughput;
use formwork_lm::LanguageModel;

use memory::Memory;
use model::Candle;

/// Measures candle on a GGUF file. The environment variable RAYON_NUM_THREADS sets the number of
/// threads.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    test: Test,
}

#[derive(Subcommand)]
enum Test {
    /// Measure prefill speed.
    Prefill {
        #[command(flatten)]
        common: Common,

        /// Number of prompt tokens.
        #[arg(short, long, value_name = "N", default_value = "512")]
        prompt: NonZero<usize>,
    },
    /// Measure decode speed.
    Decode {
        #[command(flatten)]
        common: Common,

        /// Number of output tokens.
        #[arg(short = 'n', long, value_name = "N", default_value = "128")]
        tokens: NonZero<usize>,

        /// Number of tokens before the output.
        #[arg(short, long, value_name = "N", default_value = "0")]
        prompt: usize,
    },
}

#[derive(Args)]
struct Common {
    /// A `.gguf` file of a llama or gemma3 model.
    #[arg(short, long)]
    model: PathBuf,

    /// Number of measured runs.
    #[arg(short, long, value_name = "N", default_value = "5")]
    runs: NonZero<usize>,
}

fn main() -> Result<()> {
    let test = Cli::parse().test;
    let (Test::Prefill { common, .. } | Test::Decode { common, .. }) = &test;
    let name = common.model.file_stem().unwrap_or_default().to_string_lossy();
    let start = Instant::now();
    let mut model = Candle::open(&common.model)?;
    println!("{name}, load: {:.3} s", start.elapsed().as_secs_f64());
    tell_memory(&name, "loading");

    let vocabulary = gguf::vocabulary(&common.model)?;
    let context = model.context_len();
    let tokens = |count: usize| {
        ensure!(count <= context, "{count} tokens do not fit the context of {context}");
        Ok(throughput::tokens(&vocabulary, count))
    };
    let runs = common.runs.get();
    let (test, rates) = match test {
        Test::Prefill { prompt, .. } => {
            let tokens = tokens(prompt.get())?;
            ("prefill", throughput::prefill(&mut model, &tokens, runs, |_| ())?)
        }
        Test::Decode { tokens: count, prompt, .. } => {
            let all = tokens(prompt.saturating_add(count.get()))?;
            let (before, tokens) = all.split_at(prompt);
            ("decode", throughput::decode(&mut model, before, tokens, runs, |_| ())?)
        }
    };
    let threads = candle_core::utils::get_num_threads();
    let unit = if threads == 1 { "thread" } else { "threads" };
    println!("{name}, {test}, {threads} {unit}: {rates}");
    tell_memory(&name, "the runs");
    Ok(())
}

fn tell_memory(name: &str, after: &str) {
    match Memory::now() {
        Some(memory) => println!("{name}, memory after {after}: {memory}"),
        None => println!("{name}, memory after {after}: not known on this system"),
    }
}
