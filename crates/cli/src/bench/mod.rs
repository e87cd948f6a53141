//! `formwork bench`

mod masks;
mod serve;
mod speed;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::BenchCommand;

/// Runs a benchmark; returns false if a measured result is wrong. Results are also written to
/// `json`: a file, or `-` for standard output instead of the usual text.
pub(crate) fn bench(command: &BenchCommand, json: Option<&Path>) -> Result<bool> {
    match command {
        BenchCommand::Masks(args) => masks::masks(args, json),
        BenchCommand::Prefill(args) => speed::prefill(args, json),
        BenchCommand::Decode(args) => speed::decode(args, json),
        BenchCommand::Steps(args) => speed::steps(args, json),
        BenchCommand::Serve(args) => serve::serve(args, json),
    }
}

/// Creates the file that `--json` names; `-` stands for standard output.
fn output(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    let file = File::create(path).with_context(|| format!("--json: {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}

/// Creates a progress bar over `count` items called `things`. Hides the bar if standard error is
/// not a terminal.
pub(crate) fn progress_bar(count: usize, things: &str) -> Result<ProgressBar> {
    if !io::stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let style = ProgressStyle::with_template(&format!("{{wide_bar}} {{pos}}/{{len}} {things} {{eta}}"))?;
    Ok(ProgressBar::new(count as u64).with_style(style))
}
