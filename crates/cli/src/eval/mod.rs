//! `formwork eval`: measures how often models follow directives and tool-calling tasks, and which
//! schemas and keywords a server enforces.

pub(crate) mod args;
pub(crate) mod decisions;
mod models;
mod store;
mod structured;
mod table;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use formwork_eval::{EvalSettings, Evaluation, Harness, Journal, JournalEntry, Summary, select_scenarios};
use formwork_protocol::BackendError;
use formwork_protocol::config::Config;
use futures_util::{Stream, StreamExt};

use crate::bench::progress_bar;
use crate::config;
use args::{EvalArgs, EvalCommand};
use models::Subjects;
use store::Store;

/// Runs an evaluation; returns false if the success rate is below `--min-ok`.
pub(crate) fn eval(command: &EvalCommand, as_json: bool) -> Result<bool> {
    let (args, harness) = match command {
        EvalCommand::Directives(directives) => (&directives.eval, Harness::Directives),
        EvalCommand::Tools(tools) => (&tools.eval, Harness::Tools),
        EvalCommand::Structured(structured) => return structured::structured(structured, as_json),
        EvalCommand::Decisions(args) => return decisions::decisions(args, as_json),
    };
    let mut settings = settings(args, harness)?;
    if let EvalCommand::Directives(directives) = command {
        settings.modes = directives.modes.iter().map(|mode| mode.mode()).collect();
        settings.modes.sort_unstable();
        settings.modes.dedup();
        settings.semantic_repair = directives.semantic_repair;
        settings.require = directives.require;
    }
    let config = config::load(args.shared.config.as_deref())?.config;
    let summary = run(args, &config, settings)?;
    let mut out = std::io::stdout();
    if as_json {
        writeln!(out, "{}", serde_json::to_string(&summary)?)?;
    } else {
        write!(out, "{}", table::table(&summary))?;
    }
    let counted =
        summary.tool_scenarios.as_ref().filter(|tools| tools.runs.of > 0).unwrap_or(&summary.overall);
    let share = counted.runs.share().unwrap_or_default();
    Ok(args.shared.min_ok.is_none_or(|least| share >= least))
}

/// Builds the settings, except for the models and the options of directives.
fn settings(args: &EvalArgs, harness: Harness) -> Result<EvalSettings> {
    let shared = &args.shared;
    let overrides = shared.sampling.sampling();
    overrides.check()?;
    let scenarios = select_scenarios(harness, &args.scenarios())?;
    Ok(EvalSettings {
        scenarios: scenarios.into_iter().map(str::to_owned).collect(),
        strategies: args.strategy.strategies(),
        trials: args.trials(),
        seed: shared.seed(),
        max_tokens: Some(shared.max_tokens),
        defaults: shared.llm_options_defaults.clone().unwrap_or_default(),
        overrides,
        ..EvalSettings::new(harness)
    })
}

fn run(args: &EvalArgs, config: &Config, mut settings: EvalSettings) -> Result<Summary> {
    let shared = &args.shared;
    let Subjects { models, backends } = models::subjects(shared, config, args.provider.as_deref())?;
    settings.models = models;
    let folder = shared.out.clone().map_or_else(|| new_folder(settings.harness.name()), Ok)?;
    let (mut store, Journal { mut trials, .. }) = Store::open(&folder, &settings)?;
    let evaluation = Evaluation::new(settings, backends)?;
    let done = trials.iter().map(|trial| trial.key.clone()).collect();
    let planned = evaluation.settings().plan().len();
    drive(&mut store, planned, &mut trials, evaluation.trials(&done, shared.parallel.get()))?;
    let summary = Summary::of(evaluation.settings(), &trials);
    let report = store.finish(&summary, &trials)?;
    eprintln!("formwork: {}", report.display());
    Ok(summary)
}

/// Runs the trials of a stream, stores each one when it has ended and adds it to `trials`.
fn drive<T: JournalEntry>(
    store: &mut Store,
    planned: usize,
    trials: &mut Vec<T>,
    left: impl Stream<Item = Result<T, BackendError>>,
) -> Result<()> {
    let bar = progress_bar(planned, "trials")?;
    bar.set_position(trials.len() as u64);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut made = std::pin::pin!(left);
        while let Some(trial) = made.next().await {
            let trial = trial?;
            store.append(&trial)?;
            trials.push(trial);
            bar.inc(1);
        }
        anyhow::Ok(())
    })?;
    bar.finish_and_clear();
    Ok(())
}

/// Creates a folder for the results of an evaluation. Its name has the time in seconds, and a number if
/// another evaluation began in the same second.
fn new_folder(harness: &str) -> Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    new_folder_in(Path::new("formwork-eval"), &format!("{harness}-{now}"))
}

fn new_folder_in(parent: &Path, name: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    let mut folder = parent.join(name);
    for number in 2.. {
        match std::fs::create_dir(&folder) {
            Ok(()) => break,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                folder = parent.join(format!("{name}-{number}"));
            }
            Err(error) => return Err(error).with_context(|| folder.display().to_string()),
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests;
