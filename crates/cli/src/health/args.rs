use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

#[derive(Args)]
pub(crate) struct HealthArgs {
    /// The database of traces [default: `[traces] database` of the configuration].
    pub(super) database: Option<PathBuf>,

    /// The configuration that names the database [default: formwork.toml in this folder].
    #[arg(long, value_name = "FILE", conflicts_with = "database")]
    pub(super) config: Option<PathBuf>,

    /// Look at the last so many hours only [default: at everything].
    #[arg(long, value_name = "HOURS", value_parser = hours)]
    pub(super) since_hours: Option<Duration>,

    /// Divide that time into so many parts, and tell what rises.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1000))]
    pub(super) trend_buckets: u32,

    /// Only runs of this pipeline.
    #[arg(long, value_name = "NAME")]
    pub(super) pipeline: Option<String>,

    /// Only this step.
    #[arg(long, value_name = "NAME")]
    pub(super) step: Option<String>,

    /// Only this agent.
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,

    /// Only this model.
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,

    /// How many of each the table has; JSON and CSV have all.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) limit: usize,

    /// What is written: a table, JSON (as --json) or CSV.
    #[arg(long, visible_alias = "format", value_name = "FORMAT", value_enum)]
    pub(super) export: Option<ExportArg>,

    /// The file to write it to; - is standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(super) output: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportArg {
    Table,
    Json,
    Csv,
}

fn hours(text: &str) -> Result<Duration, &'static str> {
    let hours = text.parse::<f64>().ok().filter(|hours| *hours > 0.0);
    let time = hours.and_then(|hours| Duration::try_from_secs_f64(hours * 3600.0).ok());
    time.ok_or("expected a positive number of hours")
}
