use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

#[derive(Args)]
pub(crate) struct HealthArgs {
    /// Trace database [default: `[traces] database` of the configuration].
    pub(super) database: Option<PathBuf>,

    /// Configuration file that names the database [default: ./formwork.toml].
    #[arg(long, value_name = "FILE", conflicts_with = "database")]
    pub(super) config: Option<PathBuf>,

    /// Analyze only the last HOURS hours [default: all traces].
    #[arg(long, value_name = "HOURS", value_parser = hours)]
    pub(super) since_hours: Option<Duration>,

    /// Number of equal time spans to report trends over; 0 reports no trends.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1000))]
    pub(super) trend_buckets: u32,

    /// Analyze only runs of this pipeline.
    #[arg(long, value_name = "NAME")]
    pub(super) pipeline: Option<String>,

    /// Analyze only this step.
    #[arg(long, value_name = "NAME")]
    pub(super) step: Option<String>,

    /// Analyze only this agent.
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,

    /// Analyze only this model.
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,

    /// Maximum number of rows of each kind in the table; JSON and CSV list all.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) limit: usize,

    /// Output format: table, JSON (same as --json) or CSV [default: table].
    #[arg(long, visible_alias = "format", value_name = "FORMAT", value_enum)]
    pub(super) export: Option<ExportArg>,

    /// Output file; `-` for standard output.
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
