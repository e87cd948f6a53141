//! `formwork bench masks`

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Result, bail};
use formwork_benches::masks::{
    self, Cases, Engine, Formwork, Isolation, Outcome, Report, Settings, Spelling, Status, Summary,
};
use formwork_grammar::Limits;

use super::{output, progress_bar};
use crate::args::{
    BenchMasksArgs, FormatsArg, IsolateArg, LayoutArg, OrderArg, ProfileArg, SchemaArgs, TextArg,
    UndeclaredArg,
};
use crate::load;

/// Runs the cases; returns false if an instance gets the wrong verdict.
pub(super) fn masks(args: &BenchMasksArgs, json_path: Option<&Path>) -> Result<bool> {
    if args.threads == 0 {
        bail!("--threads must be at least 1");
    }
    let files = masks::find(&args.path)?;
    let tokenizer = load::tokenizer_of("--tokenizer", &args.tokenizer)?;
    let (spelling, layout) = match args.text {
        TextArg::Compact => (Spelling::Compact, LayoutArg::Compact),
        TextArg::Spaced => (Spelling::Spaced, LayoutArg::Spaced),
    };
    let isolation = match args.isolate {
        IsolateArg::Test => Isolation::Test,
        IsolateArg::Schema => Isolation::Schema,
    };
    let schema = SchemaArgs {
        layout,
        order: OrderArg::Declared,
        formats: FormatsArg::Assert,
        undeclared: UndeclaredArg::Omit,
        remote: Vec::new(),
    };
    let options = load::schema_options(args.profile, &schema);
    let engine = Formwork::new(&tokenizer, Settings { options, limits: Limits::default(), isolation })?;
    // Opened before the run, which may take long.
    let mut json = json_path.map(output).transpose()?;
    let bar = progress_bar(files.len(), "schemas")?;
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
        write!(io::stdout(), "{summary}\ntokenizer tables: {tables:.0} ms\n")?;
    }
    Ok(tell_failures(&outcomes, args.profile))
}

/// Prints wrong verdicts to standard error; returns true if there are none. The `generate` profile
/// writes values in one spelling only, so a rejected valid instance does not count as wrong there.
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
