//! `formwork health-check`: reports from a trace database how often outputs need help.

mod args;
mod table;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use formwork_trace::Timestamp;
use formwork_trace::health::{Health, HealthOptions};

use crate::config::{self, ConfigFile, FILE};
use args::ExportArg;
pub(crate) use args::HealthArgs;

/// Maximum number of names in an error.
const NAMES: usize = 20;

/// Analyzes a trace database and writes the result to a file or to standard output.
pub(crate) fn health_check(args: &HealthArgs, as_json: bool) -> Result<bool> {
    let export = match (args.export, as_json) {
        (Some(export), true) if export != ExportArg::Json => bail!("--json contradicts --export"),
        (_, true) => ExportArg::Json,
        (export, false) => export.unwrap_or(ExportArg::Table),
    };
    let database = database(args)?;
    let health = Health::read(&database, &options(args, Timestamp::now()))?;
    if health.overall.runs == 0 {
        check_names(args, &database)?;
    }
    let text = match export {
        ExportArg::Table => table::table(&health, args.limit),
        ExportArg::Json => serde_json::to_string_pretty(&health)? + "\n",
        ExportArg::Csv => health.to_csv(),
    };
    if args.output == Path::new("-") {
        std::io::stdout().write_all(text.as_bytes())?;
    } else {
        std::fs::write(&args.output, text).with_context(|| format!("--output: {}", args.output.display()))?;
    }
    Ok(true)
}

/// Refuses a filter for a name that no trace of the database has.
fn check_names(args: &HealthArgs, database: &Path) -> Result<()> {
    let all = Health::read(database, &HealthOptions::at(Timestamp::now()))?;
    let filters = [
        ("pipeline", &args.pipeline, &all.pipelines),
        ("step", &args.step, &all.steps),
        ("agent", &args.agent, &all.agents),
        ("model", &args.model, &all.models),
    ];
    for (part, given, known) in filters {
        let Some(given) = given.as_ref().filter(|given| !known.iter().any(|named| named.name == **given))
        else {
            continue;
        };
        let names: Vec<&str> = known.iter().take(NAMES).map(|named| named.name.as_str()).collect();
        let known = if names.is_empty() {
            format!("the traces name no {part}")
        } else {
            format!("expected one of {}", names.join(", "))
        };
        bail!("--{part}: no traces of {part} `{given}`; {known}");
    }
    Ok(())
}

fn options(args: &HealthArgs, now: Timestamp) -> HealthOptions {
    HealthOptions {
        now,
        since: args.since_hours,
        buckets: args.trend_buckets,
        pipeline: args.pipeline.clone(),
        step: args.step.clone(),
        agent: args.agent.clone(),
        model: args.model.clone(),
    }
}

/// Returns the path of the named database, or of the configuration's database. Paths in the
/// configuration are relative to its folder.
fn database(args: &HealthArgs) -> Result<PathBuf> {
    if let Some(database) = &args.database {
        return Ok(database.clone());
    }
    let ConfigFile { path, config } = config::load(args.config.as_deref())?;
    let Some(path) = path else {
        bail!(
            "no database given and no {FILE} in this folder; pass a database, or --config FILE with \
             `[traces] database`"
        )
    };
    match config.traces.database {
        Some(database) => Ok(path.parent().unwrap_or(Path::new("")).join(database)),
        None => bail!("{}: no `[traces] database` set, and no database given", path.display()),
    }
}

#[cfg(test)]
mod tests;
