//! Runs llguidance and Formwork on the same MaskBench files, alternating per schema on one thread,
//! and prints a comparison.

mod comparison;
mod engine;

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use formwork_benches::masks::{
    Case, Engine, Formwork, Isolation, Outcome, Settings, Spelling, find, measure,
};
use formwork_grammar::{Layout, Limits, SchemaOptions};
use formwork_vocab::Tokenizer;

use comparison::Comparison;
use engine::LlGuidance;

/// Runs llguidance and Formwork on MaskBench.
#[derive(Parser)]
struct Args {
    /// A `tokenizer.json` file.
    #[arg(long)]
    tokenizer: PathBuf,

    /// Spelling of instances as JSON text.
    #[arg(long, value_enum, default_value_t = TextArg::Compact)]
    text: TextArg,

    /// Accepted JSON texts of a schema; with `generate`, both engines use the whitespace of
    /// `--text`.
    #[arg(long, value_enum, default_value_t = ProfileArg::Accept)]
    profile: ProfileArg,

    /// Clear caches for each instance or for each schema.
    #[arg(long, value_enum, default_value_t = IsolateArg::Test)]
    isolate: IsolateArg,

    /// Use only every Nth file.
    #[arg(long, value_name = "N", default_value = "1")]
    take_every: std::num::NonZero<usize>,

    /// File for the results of each schema in both engines.
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,

    /// Files of the form `{"schema", "tests": [{"valid", "data"}]}`, or folders of them.
    #[arg(required = true)]
    path: Vec<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum TextArg {
    Compact,
    Spaced,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProfileArg {
    Accept,
    Generate,
}

#[derive(Clone, Copy, ValueEnum)]
enum IsolateArg {
    Test,
    Schema,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut files = find(&args.path)?;
    files = files.into_iter().step_by(args.take_every.get()).collect();
    let tokenizer_json = std::fs::read(&args.tokenizer).context("--tokenizer")?;
    let tokenizer = Tokenizer::from_json(&tokenizer_json).context("--tokenizer")?;
    let (spelling, layout) = match args.text {
        TextArg::Compact => (Spelling::Compact, Layout::Compact),
        TextArg::Spaced => (Spelling::Spaced, Layout::Spaced),
    };
    let isolation = match args.isolate {
        IsolateArg::Test => Isolation::Test,
        IsolateArg::Schema => Isolation::Schema,
    };
    let (options, rigid) = match args.profile {
        ProfileArg::Accept => (SchemaOptions::accept(), None),
        ProfileArg::Generate => (SchemaOptions { layout, ..SchemaOptions::default() }, Some(spelling)),
    };
    let ours = Formwork::new(&tokenizer, Settings { options, limits: Limits::default(), isolation })?;
    let theirs = LlGuidance::new(&tokenizer_json, &tokenizer, rigid, isolation)?;
    let mut json = match &args.json {
        Some(path) => Some(BufWriter::new(File::create(path).context("--json")?)),
        None => None,
    };

    let mut outcomes: (Vec<Outcome>, Vec<Outcome>) = (Vec::new(), Vec::new());
    for (index, file) in files.iter().enumerate() {
        if std::io::stderr().is_terminal() {
            eprint!("\r{index} of {}", files.len());
        }
        let case = file.read(&tokenizer, spelling)?;
        let (our, their) = interleaved(&ours, &theirs, &case, index % 2 == 0);
        outcomes.0.push(our);
        outcomes.1.push(their);
    }
    if std::io::stderr().is_terminal() {
        eprint!("\r");
    }

    let comparison = Comparison::of((ours.name(), &outcomes.0), (theirs.name(), &outcomes.1));
    if let Some(json) = &mut json {
        serde_json::to_writer(&mut *json, &comparison)?;
        json.flush()?;
    }
    print!("{comparison}");
    Ok(())
}

/// Runs one case in both engines, Formwork first if `ours_first`. Callers alternate the order,
/// since the second engine finds the processor caches in another state.
fn interleaved(ours: &Formwork, theirs: &LlGuidance, case: &Case, ours_first: bool) -> (Outcome, Outcome) {
    if ours_first {
        let our = measure(ours, case);
        (our, measure(theirs, case))
    } else {
        let their = measure(theirs, case);
        (measure(ours, case), their)
    }
}
