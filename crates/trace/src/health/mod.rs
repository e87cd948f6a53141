//! Health reports: how often outputs need corrections, by step and model, with recommendations.
//!
//! ```
//! use formwork_trace::health::{Health, HealthOptions};
//! # use formwork_trace::{Event, SqliteOptions, SqliteSink, Status, Timestamp, Tracer};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("traces.db");
//! # let tracer = Tracer::default().with_sink(SqliteSink::open(&path, SqliteOptions::default())?);
//! # let run = tracer.run("support");
//! # run.step("answer").event(Event::OutputSuccess, [("stage".to_owned(), "extract".into())].into_iter().collect());
//! # run.end(Status::Ok);
//! # tracer.flush()?;
//! let health = Health::read(&path, &HealthOptions::at(Timestamp::now()))?;
//! assert_eq!((health.steps[0].name.as_str(), health.steps[0].tally.per_100_runs()), ("answer", Some(100.0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is counted
//! - A *coercion* is an `output.coercion.success` event: a stage changed an output.
//! - A *failure* is an `output.coercion.fail` event if no later stage recovered the output.
//! - A *recovered* failure was corrected by a later stage and does not count as a failure. For
//!   example, a syntax repair recovers an extraction that found no JSON.
//! - A *run*, in `runs` and in rates, means a run of a step. For a model, an agent or a pipeline,
//!   it counts runs of steps with this name, on the step itself or on one of its attempts.
//!
//! Rates may exceed 100, since several stages can change one output.
//!
//! Events belong to the window in which they happened. Runs belong to the window in which the step
//! or one of its attempts started. Records dated after the end of the window, by a clock that is
//! ahead, are included. Corrections that a step in shadow mode would have made are not counted.
//!
//! # Limits
//! Events are read once, and names that are not in [`Event`](super::Event) are skipped. Memory
//! grows with the number of runs of steps in the window. A million events in 250,000 runs of steps
//! take about one second on one core (`cargo bench -p formwork-benches --bench traces`).

mod csv;
mod fold;
mod recommend;
mod scan;
mod tally;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use serde::Serialize;

pub use recommend::{Advice, Recommendation};
pub use tally::{Coercions, Outcomes, Precheck, Soe, Tally, Validation};

use super::error::Kind;
use super::sqlite::schema;
use super::{Timestamp, TraceError};

/// Version of the JSON format of [`Health`].
pub const HEALTH_VERSION: u32 = 1;

/// Maximum wait for another process that locks the database.
const BUSY: Duration = Duration::from_secs(10);

/// Selection of the records to report on. Filters that are `None` include all names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthOptions {
    /// Current time, which is the end of the window.
    pub now: Timestamp,
    /// Length of the window before `now`. If `None`, the window is from the first record to the
    /// last.
    pub since: Option<Duration>,
    /// Number of parts of equal length into which the window is divided for trends; 0 for none.
    pub buckets: u32,
    /// Name of the only pipeline to include.
    pub pipeline: Option<String>,
    /// Name of the only step to include.
    pub step: Option<String>,
    /// Name of the only agent to include.
    pub agent: Option<String>,
    /// Name of the only model to include.
    pub model: Option<String>,
}

impl HealthOptions {
    /// Selects all records up to `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }
}

/// Health report. Its JSON starts with `version` and `generated_at`, and times are in RFC 3339.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Health {
    /// Format version, [`HEALTH_VERSION`].
    pub version: u32,
    /// Time at which the report was created.
    pub generated_at: String,
    /// The reported time window.
    pub window: Window,
    /// The filters applied.
    pub filters: Filters,
    /// Number of runs of pipelines.
    pub traces: u64,
    /// Counts over all records.
    pub overall: Tally,
    /// Counts by pipeline. These lists are sorted by the number of coercions in 100 runs, highest
    /// first.
    pub pipelines: Vec<Named>,
    /// Counts by step.
    pub steps: Vec<Named>,
    /// Counts by agent.
    pub agents: Vec<Named>,
    /// Counts by model.
    pub models: Vec<Named>,
    /// Number of uses of each transform, highest first.
    pub transforms: Vec<Count>,
    /// Number of skipped constraints by model, highest first. Events without a model have an empty
    /// name.
    pub soe_skips: Vec<Count>,
    /// Parts of the window, if requested.
    pub trends: Vec<Bucket>,
    /// Recommended actions.
    pub recommendations: Vec<Recommendation>,
}

/// Time window of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Window {
    /// Length of the window in hours, if given.
    pub since_hours: Option<f64>,
    /// Start of the window; `None` if there are no records.
    pub from: Option<String>,
    /// End of the window.
    pub until: Option<String>,
}

/// Filters of a report. `None` includes all names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filters {
    /// Name of the pipeline.
    pub pipeline: Option<String>,
    /// Name of the step.
    pub step: Option<String>,
    /// Name of the agent.
    pub agent: Option<String>,
    /// Name of the model.
    pub model: Option<String>,
}

/// Counts of one pipeline, step, agent or model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Named {
    /// Name of the pipeline, step, agent or model.
    pub name: String,
    /// The counts.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Number of occurrences of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Name of the transform or model.
    pub name: String,
    /// Number of occurrences.
    pub count: u64,
}

/// Part of the window.
///
/// Times have a resolution of one second, or one microsecond if parts are shorter than a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bucket {
    /// Start of the part.
    pub from: String,
    /// End of the part, exclusive.
    pub until: String,
    /// Counts over all records of the part.
    #[serde(flatten)]
    pub tally: Tally,
    /// Counts by step.
    pub steps: BTreeMap<String, Tally>,
    /// Counts by model.
    pub models: BTreeMap<String, Tally>,
}

impl Health {
    /// Reads a database, which may be written to at the same time.
    ///
    /// # Errors
    /// Returns an error if the file is missing, is not a trace database, or was created by a newer
    /// version of this program.
    pub fn read(path: &Path, options: &HealthOptions) -> Result<Self, TraceError> {
        let fail = |error| TraceError::new(path, Kind::Read(error));
        let connection = match schema::open_to_read(path, BUSY)? {
            Some(connection) => connection,
            None => schema::nothing().map_err(fail)?,
        };
        Self::of(&connection, options).map_err(fail)
    }

    fn of(connection: &Connection, options: &HealthOptions) -> Result<Self, rusqlite::Error> {
        // The transaction gives a consistent snapshot.
        let moment = connection.unchecked_transaction()?;
        let scan = scan::scan(&moment, options)?;
        fold::fold(&moment, &scan, options)
    }

    /// Returns the report as CSV (RFC 4180).
    ///
    /// Each line has one number, with the columns `part`, `name`, `bucket`, `stage`, `metric` and
    /// `value`.
    ///
    /// `part` is `overall`, `pipeline`, `step`, `agent`, `model`, `transform`, `soe_skip`,
    /// `bucket`, `bucket_step`, `bucket_model` or `recommendation`. The value of a `recommendation`
    /// is a text. `bucket` is the start of a bucket. Texts that a spreadsheet would read as a
    /// formula start with an apostrophe.
    pub fn to_csv(&self) -> String {
        csv::csv(self)
    }
}

#[cfg(test)]
mod tests;
