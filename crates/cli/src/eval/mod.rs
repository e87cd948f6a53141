//! `formwork eval`: measures how often models follow directives and tool-calling tasks.

pub(crate) mod args;
mod models;
mod store;
mod table;

use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use formwork_eval::{EvalSettings, Evaluation, Harness, Journal, Summary, select_scenarios};
use formwork_protocol::config::Config;
use futures_util::StreamExt;

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
    };
    let mut settings = settings(args, harness)?;
    if let EvalCommand::Directives(directives) = command {
        settings.modes = directives.modes.iter().map(|mode| mode.mode()).collect();
        settings.modes.sort_unstable();
        settings.modes.dedup();
        settings.semantic_repair = directives.semantic_repair;
    }
    let config = args.config.as_deref().map(config::read).transpose()?.unwrap_or_default();
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
    Ok(args.min_ok.is_none_or(|least| share >= least))
}

/// Builds the settings, except for the models and the options of directives.
fn settings(args: &EvalArgs, harness: Harness) -> Result<EvalSettings> {
    let overrides = args.sampling.sampling();
    overrides.check()?;
    let scenarios = select_scenarios(harness, &args.scenarios)?;
    Ok(EvalSettings {
        scenarios: scenarios.into_iter().map(str::to_owned).collect(),
        strategies: args.strategy.strategies(),
        trials: args.trials,
        seed: (!args.no_seed).then_some(args.seed),
        max_tokens: Some(args.max_tokens),
        defaults: args.llm_options_defaults.clone().unwrap_or_default(),
        overrides,
        ..EvalSettings::new(harness)
    })
}

fn run(args: &EvalArgs, config: &Config, mut settings: EvalSettings) -> Result<Summary> {
    let Subjects { models, backends } = models::subjects(args, config)?;
    settings.models = models;
    let folder = args.out.clone().unwrap_or_else(|| new_folder(settings.harness));
    let (mut store, Journal { mut trials, .. }) = Store::open(&folder, &settings)?;
    let evaluation = Evaluation::new(settings, backends)?;
    let done = trials.iter().map(|trial| trial.key.clone()).collect();
    let bar = progress_bar(evaluation.settings().plan().len(), "trials")?;
    bar.set_position(trials.len() as u64);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut made = std::pin::pin!(evaluation.trials(&done, args.parallel.get()));
        while let Some(trial) = made.next().await {
            let trial = trial?;
            store.append(&trial).with_context(|| folder.display().to_string())?;
            trials.push(trial);
            bar.inc(1);
        }
        anyhow::Ok(())
    })?;
    bar.finish_and_clear();
    let summary = Summary::of(evaluation.settings(), &trials);
    let report = store.finish(&summary, &trials)?;
    eprintln!("formwork: {}", report.display());
    Ok(summary)
}

fn new_folder(harness: Harness) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    PathBuf::from("formwork-eval").join(format!("{}-{now}", harness.name()))
}

#[cfg(test)]
mod tests;
