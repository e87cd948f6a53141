//! `formwork bench masks`

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use formwork_benches::masks::{
    self, Cases, Engine, Formwork, Isolation, Outcome, Report, Settings, Spelling, Status, Summary,
};
use formwork_grammar::Limits;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{
    BenchCommand, BenchMasksArgs, FormatsArg, IsolateArg, LayoutArg, OrderArg, ProfileArg, SchemaArgs,
    TextArg,
};
use crate::load;

pub(crate) fn bench(command: &BenchCommand, json: Option<&Path>) -> Result<bool> {
    match command {
        BenchCommand::Masks(args) => masks(args, json),
    }
}

/// Runs the cases; false when an instance gets the wrong verdict.
fn masks(args: &BenchMasksArgs, json_path: Option<&Path>) -> Result<bool> {
    if args.threads == 0 {
        bail!("--threads must be at least 1");
    }
    let files = masks::find(&args.path)?;
    let tokenizer = load::tokenizer_of(&args.tokenizer)?;
    let (spelling, layout) = match args.text {
        TextArg::Compact => (Spelling::Compact, LayoutArg::Compact),
        TextArg::Spaced => (Spelling::Spaced, LayoutArg::Spaced),
    };
    let isolation = match args.isolate {
        IsolateArg::Test => Isolation::Test,
        IsolateArg::Schema => Isolation::Schema,
    };
    let schema =
        SchemaArgs { layout, order: OrderArg::Declared, formats: FormatsArg::Assert, remote: Vec::new() };
    let options = load::schema_options(args.profile, &schema);
    let engine = Formwork::new(&tokenizer, Settings { options, limits: Limits::default(), isolation })?;
    // Made before the run, which may take long.
    let mut json = json_path.map(output).transpose()?;
    let bar = progress_bar(files.len())?;
    let cases = Cases { files: &files, tokenizer: &tokenizer, spelling };
    let outcomes = masks::run(&engine, cases, args.threads, |done| bar.set_position(done as u64))?;
    bar.finish_and_clear();

    let summary = Summary::of(&outcomes);
    if let Some(json) = &mut json {
        let report = Report {
            engine: &engine.name(),
            tokenizer: &args.tokenizer,
            text: spelling,
            isolate: isolation,
            schemas: &outcomes,
            summary: &summary,
        };
        serde_json::to_writer(&mut *json, &report).map_err(io::Error::from)?;
        writeln!(json)?;
        json.flush()?;
    }
    if json_path != Some(Path::new("-")) {
        let tables = engine.tables_time().as_secs_f64() * 1e3;
        write!(io::stdout(), "{summary}\ntables of the tokenizer: {tables:.0} ms\n")?;
    }
    Ok(tell_failures(&outcomes, args.profile))
}

/// The wrong verdicts on standard error; true when there are none. That a profile which generates does not write a valid
/// instance the way it is written is none.
fn tell_failures(outcomes: &[Outcome], profile: ProfileArg) -> bool {
    let failed = |outcome: &&Outcome| match outcome.status {
        Status::Pass | Status::CompileError => false,
        Status::ValidRejected => profile == ProfileArg::Accept,
        Status::InvalidAccepted => true,
    };
    let mut none = true;
    for outcome in outcomes.iter().filter(failed) {
        eprintln!("formwork: {}: {}", outcome.id, outcome.error.as_deref().unwrap_or_default());
        none = false;
    }
    none
}

fn output(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    let file = File::create(path).with_context(|| path.display().to_string())?;
    Ok(Box::new(BufWriter::new(file)))
}

fn progress_bar(cases: usize) -> Result<ProgressBar> {
    if !io::stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} schemas {eta}")?;
    Ok(ProgressBar::new(cases as u64).with_style(style))
}
