//! `formwork adapt`
//!
//! Values go to standard output, one a line. Errors of an output go to standard error with their
//! location, and so do repairs of its syntax. The exit code is 0 if all outputs end up valid and 1
//! if one does not. It is 3 if outputs are invalid only because they are truncated, and 2 if the
//! schema, an option or a file cannot be used.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use formwork_adapt::{
    AdaptOptions, Adaptation, Adapter, AnyOfStrategy, Coercion, Outcome, OutputProcessing, Prefer, Stage,
    StageReport, Tolerance,
};
use formwork_protocol::config::Config;
use formwork_protocol::step::trace_adaptation;
use formwork_trace::{Span, Status, Tracer};
use serde_json::{Value, json};

use crate::config::{self, ConfigFile};
use crate::{files, load, traces};

#[derive(clap::Args)]
pub(crate) struct AdaptArgs {
    /// JSON Schema file that outputs must match; either this option or --fields is required.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,

    /// Fields file (JSON, YAML, TOML or C#) whose schema outputs must match, instead of a JSON Schema.
    #[arg(long, value_name = "FILE", conflicts_with = "schema")]
    fields: Option<PathBuf>,

    /// Configuration file; `[aros]` sets defaults for these options, and `[traces]` the trace database [default:
    /// ./formwork.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Amount of processing [default: minimal].
    #[arg(long, value_enum)]
    level: Option<LevelArg>,

    /// Accepted syntax: 0 JSON, 1 also JSON5 and similar notations, 2 also broken JSON; 1 and 2 require level
    /// full [default: 0].
    #[arg(long, value_name = "N")]
    tolerant: Option<u8>,

    /// Choice of the branch of anyOf and oneOf; requires level full [default: first-pass].
    #[arg(long, value_enum)]
    anyof_strategy: Option<StrategyArg>,

    /// Choice among several different values in a text that match the schema [default: only].
    #[arg(long, value_enum)]
    prefer: Option<PreferArg>,

    /// Accept an output that ends inside its value; requires `--tolerant 2`.
    #[arg(long)]
    allow_truncated: bool,

    /// Maximum number of times that JSON is unwrapped from strings [default: 2].
    #[arg(long, value_name = "N")]
    max_unescape_depth: Option<u8>,

    /// Allowed conversions, as JSON such as `{"integer": ["str->int"], "array": ["str->list", "wrap"]}`;
    /// replaces those of the level.
    ///
    /// Conversions by the type that the schema expects: integer: `str->int` ("42" becomes 42); number:
    /// `str->float` ("3.14" becomes 3.14); boolean: `str->bool` ("true" and "1" become true, "false" and "0"
    /// become false); array: `str->list` ("[1, 2]" becomes [1, 2]) and `wrap` (7 becomes [7]). Level minimal
    /// allows the first three. Level full also allows `str->list`. `wrap` is allowed only if it is named
    /// here.
    #[arg(long, value_name = "JSON")]
    allow: Option<String>,

    /// Only report on standard error what would be done; the result is that of level off.
    #[arg(long)]
    shadow: bool,

    /// Treat each line of the input that is not blank as one output; messages give its line number, starting
    /// from 1.
    #[arg(long)]
    lines: bool,

    /// Write the stages of each output as one line of JSON; `-`, or no value, for standard error.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    report: Option<PathBuf>,

    /// File with model output [default: standard input].
    input: Option<PathBuf>,
}

impl AdaptArgs {
    /// Returns the file of the schema or of the fields.
    fn schema_file(&self) -> Option<&Path> {
        self.schema.as_deref().or(self.fields.as_deref())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelArg {
    /// No processing.
    Off,
    /// Extract, unescape and parse JSON, and apply unambiguous conversions.
    Minimal,
    /// Also parse tolerantly, repair the syntax and choose branches.
    Full,
}

impl From<LevelArg> for OutputProcessing {
    fn from(level: LevelArg) -> Self {
        match level {
            LevelArg::Off => Self::Off,
            LevelArg::Minimal => Self::Minimal,
            LevelArg::Full => Self::Full,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StrategyArg {
    /// First branch that accepts the value.
    FirstPass,
    /// Only branch that accepts the value; several are an error.
    Unique,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreferArg {
    /// None of them: several values are an error.
    Only,
    /// First value.
    First,
    /// Last value.
    Last,
    /// Value with the longest text.
    Largest,
}

impl From<PreferArg> for Prefer {
    fn from(prefer: PreferArg) -> Self {
        match prefer {
            PreferArg::Only => Self::Only,
            PreferArg::First => Self::First,
            PreferArg::Last => Self::Last,
            PreferArg::Largest => Self::Largest,
        }
    }
}

/// Verdict on all outputs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Verdict {
    Valid,
    /// At least one output is truncated, and all others are valid.
    Truncated,
    Invalid,
}

impl Verdict {
    fn of(adaptation: &Adaptation) -> Self {
        match adaptation.violations() {
            [] => Self::Valid,
            [only] if adaptation.is_truncated() && only.keyword == "truncated" => Self::Truncated,
            _ => Self::Invalid,
        }
    }

    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Valid => 0,
            Self::Truncated => crate::TRUNCATED,
            Self::Invalid => crate::NEGATIVE,
        }
    }
}

pub(crate) fn adapt(args: &AdaptArgs, as_json: bool) -> Result<Verdict> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let answer = run(args, as_json, &mut out, &mut std::io::stderr())?;
    out.flush()?;
    Ok(answer)
}

/// Adapts all outputs in the input.
fn run(args: &AdaptArgs, as_json: bool, out: &mut dyn Write, told: &mut dyn Write) -> Result<Verdict> {
    let read = load::read_schema(args.schema.as_deref(), args.fields.as_deref())?;
    let (schema, schema_file) = read.context("--schema or --fields is required")?;
    let ConfigFile { path: place, config } = config::load(args.config.as_deref())?;
    let config = place.is_some().then_some(config);
    let adapter = Adapter::new(&schema, options(args, config.as_ref())?)
        .with_context(|| schema_file.display().to_string())?;
    let input = files::read_input_text(args.input.as_deref())?;
    let mut report = report(args)?;
    let outputs: Vec<(Option<usize>, &str)> = if args.lines {
        let lines = input.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines.map(|(at, line)| (Some(at + 1), line)).collect()
    } else {
        vec![(None, input.as_str())]
    };
    let tracer = match &config {
        Some(config) => traces::tracer(None, (place.as_deref(), config))?,
        None => Tracer::default(),
    };
    let ledger = config.as_ref().filter(|config| config.aros.correction_ledger_enabled).map(|_| &schema);
    let around = tracer.run("adapt");
    let mut all = Verdict::Valid;
    for (line, text) in outputs {
        let adaptation = adapter.adapt(text);
        all = all.max(Verdict::of(&adaptation));
        trace(&around, args, &adaptation, ledger);
        print(&adaptation, line, as_json, out)?;
        if !as_json {
            tell(&adaptation, line, told)?;
        }
        if args.report.is_some() {
            let record = record(&adaptation, line)?;
            match &mut report {
                Some(file) => writeln!(file, "{record}")?,
                None => writeln!(told, "{record}")?,
            }
        }
    }
    around.end(if all == Verdict::Valid { Status::Ok } else { Status::Error });
    traces::flush(&tracer);
    if let Some(file) = &mut report {
        file.flush()?;
    }
    Ok(all)
}

/// Traces an adaptation as a step named after the schema's file.
fn trace(around: &Span, args: &AdaptArgs, adaptation: &Adaptation, ledger: Option<&Value>) {
    let name = args.schema_file().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let step = around.step(name);
    trace_adaptation(&step, adaptation, ledger);
    step.end(if adaptation.is_valid() { Status::Ok } else { Status::Error });
}

/// Returns the configuration's options, overridden by the command line.
fn options(args: &AdaptArgs, config: Option<&Config>) -> Result<AdaptOptions> {
    let mut options = match config {
        Some(config) => config.aros.adapt_options()?,
        None => AdaptOptions::minimal(),
    };
    if let Some(level) = args.level {
        options = options.at_level(level.into());
    }
    let allow = args.allow.as_deref().map(serde_json::from_str).transpose();
    let block = Coercion {
        tolerant_level: args.tolerant.map(Tolerance::try_from).transpose().context("--tolerant")?,
        allow: allow.map_err(|error| anyhow!("--allow: {error}"))?,
        max_unescape_depth: args
            .max_unescape_depth
            .map(TryFrom::try_from)
            .transpose()
            .context("--max-unescape-depth")?,
        anyof_strategy: args.anyof_strategy.map(|strategy| match strategy {
            StrategyArg::FirstPass => AnyOfStrategy::FirstPass,
            StrategyArg::Unique => AnyOfStrategy::Unique,
        }),
        prefer: args.prefer.map(Into::into),
        allow_truncated: args.allow_truncated.then_some(true),
    };
    if options.level != OutputProcessing::Full {
        let is_tolerant = block.tolerant_level.is_some_and(|level| level != Tolerance::Strict);
        for (option, is_given) in
            [("--tolerant", is_tolerant), ("--anyof-strategy", block.anyof_strategy.is_some())]
        {
            if is_given {
                bail!("{option} has no effect below level full; add `--level full`");
            }
        }
    }
    let options = options.with_coercion(&block).with_shadow(args.shadow);
    // The output has all digits of such integers.
    let options = AdaptOptions { wide_integers: true, ..options };
    if args.allow_truncated && options.tolerance != Tolerance::Repair {
        bail!("--allow-truncated has no effect below tolerance 2; add `--level full --tolerant 2`");
    }
    Ok(options)
}

/// Creates the file of the report; returns `None` if there is no report or if the report goes to
/// standard error.
fn report(args: &AdaptArgs) -> Result<Option<Box<dyn Write>>> {
    let Some(path) = args.report.as_deref().filter(|path| *path != Path::new("-")) else { return Ok(None) };
    let same = |other: &Path| match (path.canonicalize(), other.canonicalize()) {
        (Ok(path), Ok(other)) => path == other,
        _ => false,
    };
    for (what, other) in [("input", args.input.as_deref()), ("schema", args.schema_file())] {
        if other.is_some_and(same) {
            bail!("the report would overwrite the {what} {}", path.display());
        }
    }
    let file = std::fs::File::create(path).with_context(|| format!("--report: {}", path.display()))?;
    Ok(Some(Box::new(BufWriter::new(file))))
}

/// Prints the value on a line of its own if the value is valid. As JSON, prints the whole record in
/// any case.
fn print(adaptation: &Adaptation, line: Option<usize>, as_json: bool, out: &mut dyn Write) -> Result<()> {
    if as_json {
        let mut record = record(adaptation, line)?;
        if let Some(written) = adaptation.written() {
            // The text has all digits of the value's numbers.
            let members = record.to_string();
            writeln!(out, "{},\"value\":{written}}}", members.strip_suffix('}').unwrap_or(&members))?;
        } else {
            record["value"] = adaptation.value().cloned().unwrap_or_default();
            writeln!(out, "{record}")?;
        }
    } else if adaptation.is_valid() {
        match (adaptation.written(), adaptation.value()) {
            (Some(written), _) => writeln!(out, "{written}")?,
            (None, Some(value)) => writeln!(out, "{value}")?,
            (None, None) => {}
        }
    }
    Ok(())
}

/// Prints the repairs and errors of an output, one a line. In shadow mode, also prints the changes
/// that would have been made.
fn tell(adaptation: &Adaptation, line: Option<usize>, told: &mut dyn Write) -> Result<()> {
    let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
    for stage in adaptation.stages() {
        if let Some(note) = mended(stage) {
            writeln!(told, "formwork: {place}{note}")?;
        }
    }
    let wrong: Vec<String> = adaptation
        .violations()
        .iter()
        .map(|violation| in_line(&violation.path, &violation.message, line))
        .collect();
    // The text may have been mended before it failed, so its reason comes first: it decides.
    let reason = failed(adaptation, line)
        .filter(|reason| Verdict::of(adaptation) == Verdict::Invalid && !wrong.contains(reason));
    if let Some(reason) = &reason {
        writeln!(told, "formwork: {place}not adapted: {reason}")?;
    }
    let as_it_is = if reason.is_some() && adaptation.value().is_none() { "as it is: " } else { "" };
    for violation in &wrong {
        writeln!(told, "formwork: {place}{as_it_is}{violation}")?;
    }
    if adaptation.is_truncated() && adaptation.is_valid() {
        writeln!(told, "formwork: {place}the text ends inside the value; some of it may be missing")?;
    } else if Verdict::of(adaptation) == Verdict::Truncated {
        writeln!(told, "formwork: {place}`--allow-truncated` accepts what was read")?;
    }
    if let Some(shadow) = adaptation.shadow() {
        would(shadow, line, told)?;
    }
    Ok(())
}

/// Describes the repairs of the syntax, since the value then differs from the text that the model
/// wrote.
fn mended(stage: &StageReport) -> Option<String> {
    let is_mend = matches!(stage.stage, Stage::Tolerant | Stage::Syntactic);
    if !is_mend || stage.outcome != Outcome::Success {
        return None;
    }
    Some(stage.reason.clone())
}

/// Prints the changes that shadow mode would have made, and their result.
fn would(shadow: &Adaptation, line: Option<usize>, told: &mut dyn Write) -> Result<()> {
    let place = line.map(|line| format!("line {line}: ")).unwrap_or_default() + "shadow: ";
    for stage in shadow.stages().iter().filter(|stage| stage.outcome == Outcome::Success) {
        writeln!(told, "formwork: {place}{}: {}", stage.stage.name(), stage.transforms.join(", "))?;
    }
    match shadow.value().filter(|_| shadow.is_valid()) {
        Some(value) if shadow.is_adapted() => writeln!(told, "formwork: {place}would become {value}")?,
        Some(_) => writeln!(told, "formwork: {place}unchanged")?,
        None => {
            let reason = failed(shadow, line).map(|reason| format!(": {reason}")).unwrap_or_default();
            writeln!(told, "formwork: {place}would stay invalid{reason}")?;
        }
    }
    Ok(())
}

/// Returns the reason of the last stage that failed.
fn failed(adaptation: &Adaptation, line: Option<usize>) -> Option<String> {
    let stage = adaptation.stages().iter().rev().find(|stage| stage.outcome == Outcome::Fail)?;
    Some(in_line(stage.path.as_deref().unwrap_or_default(), &stage.reason, line))
}

/// Formats an error with its location. If each line of the input is an output, drops "line 1, "
/// from the message: only the line number in the input is useful.
fn in_line(path: &str, message: &str, line: Option<usize>) -> String {
    let message = line.and_then(|_| message.strip_prefix("line 1, ")).unwrap_or(message);
    if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") }
}

fn record(adaptation: &Adaptation, line: Option<usize>) -> Result<Value> {
    let mut record = serde_json::to_value(adaptation)?;
    if let Some(line) = line {
        record["line"] = json!(line);
    }
    Ok(record)
}

#[cfg(test)]
mod tests;
