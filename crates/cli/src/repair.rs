//! `formwork repair`

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use formwork_adapt::{AdaptOptions, AnyOfStrategy, Tolerance};
use formwork_protocol::config::Config;
use formwork_protocol::directives::{Mode, repeated};
use formwork_protocol::repair::{
    Answer, MOST_ATTEMPTS, RepairOptions, Repairer, Shape, Stats, Verdict, response_format,
};
use formwork_protocol::{Body, Plan, PromptRunner, ScriptedBackend};
use serde_json::{Value, json};

use crate::adapt::{LevelArg, PreferArg};
use crate::backend::{BackendArgs, models, tell_retry};
use crate::step::steps;
use crate::{NEGATIVE, TRUNCATED, files, load};

/// Prompt of answers whose prompt is unknown.
const PROMPT: &str = "Answer with JSON.";

/// Arguments of `formwork repair`.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct RepairArgs {
    /// Files with one answer each; `-` for standard input [default: standard input].
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// JSON Schema file that answers must match [default: the envelope of tool calls,
    /// `{toolCalls, content, needsMoreWork}`].
    // clap does not enforce `requires` of an argument if the required one conflicts with a given
    // argument, so `schema` conflicts with `step` explicitly.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["steps", "step"])]
    schema: Option<PathBuf>,

    /// Fields file (JSON, YAML, TOML or C#) whose schema answers must match, instead of a JSON Schema.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schema", "steps", "step"])]
    fields: Option<PathBuf>,

    /// Steps file (YAML, TOML or JSON); one of its steps defines how answers are adapted, validated and
    /// repaired.
    #[arg(long, value_name = "FILE", requires = "step")]
    steps: Option<PathBuf>,

    /// Name of the step.
    #[arg(long, value_name = "NAME", requires = "steps")]
    step: Option<String>,

    /// Processing of answers before the model is called, as in `formwork adapt`; cannot be combined with
    /// --steps.
    #[arg(long, value_enum, default_value_t = LevelArg::Full, conflicts_with = "steps")]
    level: LevelArg,

    /// Accepted syntax: 0 JSON, 1 also JSON5, 2 also broken JSON; 1 and 2 have an effect only at level full.
    ///
    /// Up to 1, nothing is guessed and nothing is dropped. At 2, text that was cut off is closed at its end,
    /// and no model is called to complete it. The closed value is not accepted without --allow-truncated.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "steps")]
    tolerant: u8,

    /// Accept an answer that ends inside its value; requires `--tolerant 2`.
    #[arg(long, conflicts_with = "steps")]
    allow_truncated: bool,

    /// Choice among several different values in an answer that match the schema [default: only].
    #[arg(long, value_enum, conflicts_with = "steps")]
    prefer: Option<PreferArg>,

    /// Ask the model with `--prompt` instead of reading answers. If an answer has no usable value after its
    /// repairs, the next of the modes is tried; with --strict, also after an invalid value.
    #[arg(long, requires = "prompt", conflicts_with = "files")]
    ask: bool,

    /// Modes in which the model is asked, in order: `json_schema`, `json_object` and `prompt_only`; requires
    /// `--ask` [default: all three, or those of the step].
    #[arg(long, value_name = "MODES", value_delimiter = ',', value_parser = mode, requires = "ask")]
    modes: Vec<Mode>,

    #[command(flatten)]
    backend: BackendArgs,

    /// Maximum number of repair requests per answer; 0 only validates, and 8 is the limit [default: 2, or the step's
    /// value].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_ATTEMPTS)))]
    max_attempts: Option<u32>,

    /// Reject an invalid answer even if some of its fields are usable.
    #[arg(long)]
    strict: bool,

    /// Prompt that produced the answers, as context for the model [default: Answer with JSON.]; the prompt of
    /// `--ask`, which requires it.
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,

    /// Maximum number of tokens per repair.
    #[arg(long, value_name = "N")]
    max_tokens: Option<NonZeroUsize>,

    /// Print repair statistics and their targets to standard error.
    #[arg(long)]
    report: bool,
}

/// An answer and the name of its source.
struct Given {
    name: String,
    text: String,
}

impl Given {
    fn name(&self) -> &str {
        &self.name
    }
}

/// The repaired answers, in the order of the inputs.
struct Outcome {
    answers: Vec<Answer>,
    /// Error that ended the run early: the name of the unanswered input and the backend's failure.
    unanswered: Option<anyhow::Error>,
}

pub(crate) fn repair(args: &RepairArgs, as_json: bool) -> Result<u8> {
    // Check the cheap inputs before loading a model.
    if args.backend.config.is_some() && args.steps.is_none() && args.backend.model.is_none() {
        bail!("--config has no effect without --steps or --model");
    }
    let given = if args.ask { Vec::new() } else { read(args)? };
    let config = args.backend.configuration()?.config;
    check(args, &config)?;
    let checker = repairer(args, &config, nobody())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        let repairer = if args.ask || needs_model(&checker, &given) {
            repairer(args, &config, open(args, &config)?)?
        } else {
            checker
        };
        tokio::select! {
            outcome = answers(args, &repairer, &given) => Ok((outcome?, repairer.counters().stats())),
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    });
    runtime.shutdown_background();
    let (Outcome { answers, unanswered }, stats) = done?;
    let names: Vec<&str> =
        if args.ask { vec!["the answer"] } else { given.iter().map(Given::name).collect() };
    tell(&names, &answers, stats, as_json, std::io::stdout().lock())?;
    if args.report {
        report(stats);
    }
    match unanswered {
        Some(error) => Err(error),
        None => Ok(answers.iter().map(exit_code).max_by_key(|&code| severity(code)).unwrap_or(0)),
    }
}

const fn exit_code(answer: &Answer) -> u8 {
    match answer {
        Answer { verdict: Verdict::Valid, .. } => 0,
        Answer { is_truncated: true, .. } => TRUNCATED,
        _ => NEGATIVE,
    }
}

/// Orders exit codes: a truncated answer is less severe than an invalid one, as in `formwork adapt`.
const fn severity(code: u8) -> u8 {
    match code {
        0 => 0,
        TRUNCATED => 1,
        _ => 2,
    }
}

/// Refuses options that would have no effect.
fn check(args: &RepairArgs, config: &Config) -> Result<()> {
    if let Some(mode) = repeated(&args.modes) {
        bail!("--modes: `{}` occurs twice", mode.name());
    }
    let (Some(path), Some(name)) = (&args.steps, &args.step) else { return Ok(()) };
    let model = steps(path)?.step(name)?.model.clone();
    let named = format!("step `{name}` names its model in {}", path.display());
    args.backend.check_named(config, &[model.as_deref()], &named)
}

/// Reports whether a model is needed: repairs are allowed and at least one answer does not fit.
fn needs_model(checker: &Repairer, given: &[Given]) -> bool {
    let fits = |given: &Given| checker.read(&given.text).map_or(true, |read| read.is_valid());
    checker.options().attempts() > 0 && !given.iter().all(fits)
}

/// Asks the model, or repairs the answers that are given.
async fn answers(args: &RepairArgs, repairer: &Repairer, given: &[Given]) -> Result<Outcome> {
    if !args.ask {
        return all(args, repairer, given).await;
    }
    let answer = repairer.ask(&plan(args)).await?;
    let unanswered = answer.unanswered.clone().map(anyhow::Error::new);
    Ok(Outcome { answers: vec![answer], unanswered })
}

/// Returns the request of the prompt, without a response format.
fn plan(args: &RepairArgs) -> Plan {
    let prompt = args.prompt.as_deref().unwrap_or(PROMPT);
    let mut plan = Plan { messages: vec![json!({ "role": "user", "content": prompt })], ..Plan::default() };
    plan.options.extend(args.max_tokens.map(|tokens| ("max_tokens".to_owned(), tokens.get().into())));
    plan
}

/// Repairs answers in order and stops at the first one for which the backend fails. A backend
/// failure says nothing about the answer itself.
async fn all(args: &RepairArgs, repairer: &Repairer, given: &[Given]) -> Result<Outcome> {
    let mut plan = plan(args);
    let format = response_format(repairer.shape(), Mode::JsonSchema);
    plan.options.extend(format.map(|format| ("response_format".to_owned(), format)));
    let mut answers = Vec::new();
    for given in given {
        let answer = repairer.repair(&plan, &given.text).await.with_context(|| given.name.clone())?;
        if let Some(error) = &answer.unanswered {
            let error = anyhow::Error::new(error.clone()).context(given.name.clone());
            return Ok(Outcome { answers, unanswered: Some(error) });
        }
        answers.push(answer);
    }
    Ok(Outcome { answers, unanswered: None })
}

fn read(args: &RepairArgs) -> Result<Vec<Given>> {
    if args.files.is_empty() {
        return Ok(vec![Given { name: "standard input".to_owned(), text: files::read_input_text(None)? }]);
    }
    let read = |path: &PathBuf| {
        let is_input = path == Path::new("-");
        let text = if is_input { files::read_input_text(None)? } else { files::read_text(path)? };
        Ok(Given { name: path.display().to_string(), text })
    };
    args.files.iter().map(read).collect()
}

/// Returns a runner without a backend, for checks that never call a model.
fn nobody() -> PromptRunner {
    PromptRunner::new(Arc::new(ScriptedBackend::new([])), "none")
}

/// Opens the model that repairs answers: the step's, or that of the command line.
fn open(args: &RepairArgs, config: &Config) -> Result<PromptRunner> {
    let named = match (&args.steps, &args.step) {
        (Some(path), Some(step)) => steps(path)?.step(step)?.model.clone(),
        _ => None,
    };
    let opened = models::open(&args.backend, config, [named.as_deref()])?;
    opened.get(&named).map(|opened| opened.prompts(Body::new())).context("no model")
}

fn repairer(args: &RepairArgs, config: &Config, prompts: PromptRunner) -> Result<Repairer> {
    let (repairer, options) = if let (Some(path), Some(name)) = (&args.steps, &args.step) {
        of_step(config, (path, name), &prompts)?
    } else {
        let read = load::read_schema(args.schema.as_deref(), args.fields.as_deref())?;
        let shape = read.map_or_else(|| Ok(Shape::tool_calls()), shape)?;
        let repairer = Repairer::new(prompts, shape).with_adaptation(adaptation(args)?)?;
        (repairer, RepairOptions::default())
    };
    let options = RepairOptions {
        max_attempts: args.max_attempts.unwrap_or(options.max_attempts),
        strict: args.strict || options.strict,
        modes: if args.modes.is_empty() { options.modes } else { args.modes.clone() },
        ..options
    };
    Ok(repairer.with_options(options).on_retry(tell_retry))
}

/// Returns the options for adapting answers. If a value fits several branches, the model has to
/// choose.
fn adaptation(args: &RepairArgs) -> Result<AdaptOptions> {
    let tolerance = Tolerance::try_from(args.tolerant).context("--tolerant")?;
    let options = AdaptOptions::of_level(args.level.into()).with_tolerance(tolerance);
    let prefer = args.prefer.map_or(options.prefer, Into::into);
    if args.allow_truncated && options.tolerance != Tolerance::Repair {
        bail!("--allow-truncated has no effect below tolerance 2; add `--tolerant 2`");
    }
    let allow_truncated = args.allow_truncated;
    Ok(AdaptOptions { anyof_strategy: AnyOfStrategy::Unique, prefer, allow_truncated, ..options })
}

fn of_step(
    config: &Config,
    (path, name): (&Path, &str),
    prompts: &PromptRunner,
) -> Result<(Repairer, RepairOptions)> {
    let place = || path.display().to_string();
    let step = steps(path)?.build(name, &config.aros, &|_| prompts.clone()).with_context(place)?;
    let settings = step.settings();
    let options = settings.repair.clone().unwrap_or_default();
    // If the configuration switches all processing off, repairs are off as well.
    let options = RepairOptions { enabled: options.enabled && settings.is_on, ..options };
    let Some(repairer) = step.repairer() else { bail!("{}: the step `{name}` has no schema", place()) };
    Ok((repairer, options))
}

fn shape((schema, path): (Value, PathBuf)) -> Result<Shape> {
    Shape::of_schema(schema, "answer").with_context(|| path.display().to_string())
}

/// Parses the name of a mode.
fn mode(name: &str) -> Result<Mode, String> {
    let names = Mode::ALL.map(Mode::name);
    let known = Mode::ALL.into_iter().find(|mode| mode.name() == name);
    known.ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

fn tell(names: &[&str], answers: &[Answer], stats: Stats, as_json: bool, mut out: impl Write) -> Result<()> {
    if as_json {
        let told = names.iter().zip(answers).map(|(name, answer)| json!({ "name": name, "answer": answer }));
        let told = json!({
            "answers": told.collect::<Vec<_>>(),
            "stats": stats,
            "targets": stats.targets(),
        });
        writeln!(out, "{told}")?;
        return Ok(());
    }
    for (name, answer) in names.iter().zip(answers) {
        if !answer.adapted.is_empty() {
            eprintln!("formwork: {name}: adapted: {}", answer.adapted.join(", "));
        }
        match (&answer.value, &answer.written) {
            (_, Some(written)) if answer.verdict == Verdict::Valid => writeln!(out, "{written}")?,
            (Some(value), None) if answer.verdict == Verdict::Valid => writeln!(out, "{value}")?,
            (Some(value), _) => eprintln!("formwork: {name}: not accepted: {value}"),
            (None, _) => eprintln!("formwork: {name}: no value found"),
        }
        for error in &answer.errors {
            eprintln!("formwork: {name}: {error}");
        }
        if answer.is_truncated && !answer.adapted.is_empty() {
            eprintln!("formwork: {name}: `--allow-truncated` accepts what was read");
        }
    }
    Ok(())
}

fn report(stats: Stats) {
    let Stats { runs, valid, valid_at_first, repairs, discarded, .. } = stats;
    eprintln!(
        "formwork: {valid} of {runs} valid, {valid_at_first} of them without repair; {repairs} repairs, {discarded} discarded"
    );
    for target in stats.targets() {
        let Some(value) = target.value else { continue };
        let verdict = if target.is_met { "met" } else { "missed" };
        eprintln!("formwork: {} {value:.3}, target {}: {verdict}", target.name, target.target);
    }
}

#[cfg(test)]
mod tests;
