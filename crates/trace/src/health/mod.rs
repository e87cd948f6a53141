//! Health reports, which show how often outputs need corrections, by step and by model. A report
//! also contains recommendations.
//!
//! ```
//! use formwork_trace::health::{Health, HealthOptions};
//! # use formwork_trace::{Event, SqliteOptions, SqliteSink, Status, Timestamp, Tracer};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("traces.db");
//! # let tracer = Tracer::default().with_sink(SqliteSink::open(&path, SqliteOptions::default())?);
//! # let run = tracer.run("support");
//! # let stage = [("stage".to_owned(), "extract".into())].into_iter().collect();
//! # run.step("answer").event(Event::OutputSuccess, stage);
//! # run.end(Status::Ok);
//! # tracer.flush()?;
//! let health = Health::read(&path, &HealthOptions::at(Timestamp::now()))?;
//! let step = &health.steps[0];
//! assert_eq!((step.name.as_str(), step.tally.per_100_runs()), ("answer", Some(100.0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is counted
//! - A *coercion* is an `output.coercion.success` event: a stage changed an output.
//! - A *failure* is an `output.coercion.fail` event, if no later stage recovered the output.
//! - A *recovered* failure is not counted as a failure. A later stage corrected the output. For
//!   example, a syntax repair recovers an extraction that found no JSON.
//! - A failure also counts as recovered if its step succeeded, by a repair or in another attempt.
//! - A *failed run* is a run of a step that ended with an error.
//! - A *run*, in `runs` and in rates, is a run of a step. A run counts for a model, an agent or a
//!   pipeline if the step or one of its attempts names it.
//!
//! Several stages can change one output, so there can be more than 100 coercions per 100 runs.
//!
//! Reports cover a window of time. An event counts if it happened in the window. A run counts if
//! the step or one of its attempts started in the window.
//!
//! Records dated after the end of the window are included, because the clock of another process may
//! be ahead. Corrections that a step in shadow mode only computed are not counted.
//!
//! # Limits
//! Events are read once. Events with names that are not in [`Event`](super::Event) are skipped.
//! Memory use grows with the number of runs of steps in the window.
//!
//! Reading a million events in 250,000 runs of steps takes about one second on one core (`cargo
//! bench -p formwork-benches --bench traces`).

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
pub use tally::{Coercions, Cost, Outcomes, Precheck, Repairs, Soe, Tally, Validation};

use super::error::Kind;
use super::sqlite::schema;
use super::{Timestamp, TraceError};

/// Version of the JSON format of [`Health`].
pub const HEALTH_VERSION: u32 = 1;

/// Maximum time to wait while another process locks the database.
const BUSY: Duration = Duration::from_secs(10);

/// Selection of the records for a report. A filter that is `None` includes all names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthOptions {
    /// Current time, which is the end of the window.
    pub now: Timestamp,
    /// Length of the window, which ends at `now`. If `None`, the window contains all records.
    pub since: Option<Duration>,
    /// Number of buckets into which the window is divided, to show trends. Buckets have equal
    /// length. If 0, the report has no trends.
    pub buckets: u32,
    /// Filter: includes only records of the pipeline with this name.
    pub pipeline: Option<String>,
    /// Filter: includes only records of the step with this name.
    pub step: Option<String>,
    /// Filter: includes only records of the agent with this name.
    pub agent: Option<String>,
    /// Filter: includes only records of the model with this name.
    pub model: Option<String>,
}

impl HealthOptions {
    /// Selects all records up to `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }
}

/// Health report. Its JSON starts with `version` and `generated_at`. Times are formatted as in RFC
/// 3339.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Health {
    /// Version of the JSON format: [`HEALTH_VERSION`].
    pub version: u32,
    /// Time at which the report was created.
    pub generated_at: String,
    /// Time window that the report covers.
    pub window: Window,
    /// Filters that selected the records.
    pub filters: Filters,
    /// Number of runs of pipelines. [`Tally::runs`] counts runs of steps instead.
    pub traces: u64,
    /// Counts over all selected records.
    pub overall: Tally,
    /// Counts by pipeline. This list and the following three are sorted by coercions per 100 runs,
    /// highest first.
    pub pipelines: Vec<Named>,
    /// Counts by step.
    pub steps: Vec<Named>,
    /// Counts by agent.
    pub agents: Vec<Named>,
    /// Counts by model.
    pub models: Vec<Named>,
    /// Number of uses of each transform, such as `str->int`, highest first.
    pub transforms: Vec<Count>,
    /// For each model, how often a constraint was skipped (`aros.soe.skipped`), highest first. The
    /// name is empty for events without a model.
    pub soe_skips: Vec<Count>,
    /// Counts by bucket, in the order of time. Empty if no buckets were requested.
    pub trends: Vec<Bucket>,
    /// Recommended actions. There is at least one, which may be that there is nothing to do.
    pub recommendations: Vec<Recommendation>,
}

/// Time window of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Window {
    /// Length of the window in hours. `None` if the window contains all records.
    pub since_hours: Option<f64>,
    /// Start of the window. `None` if there are no records.
    pub from: Option<String>,
    /// End of the window. `None` if there are no records.
    pub until: Option<String>,
}

/// Filters of a report. A filter that is `None` includes all names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filters {
    /// Name of the only pipeline that is included.
    pub pipeline: Option<String>,
    /// Name of the only step that is included.
    pub step: Option<String>,
    /// Name of the only agent that is included.
    pub agent: Option<String>,
    /// Name of the only model that is included.
    pub model: Option<String>,
}

/// Counts of one pipeline, step, agent or model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Named {
    /// Name of the pipeline, step, agent or model.
    pub name: String,
    /// Counts of the records with this name.
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

/// Counts of one bucket, which is a part of the window.
///
/// Times have a resolution of one second, or of one microsecond if buckets are shorter than a
/// second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bucket {
    /// Start of the bucket.
    pub from: String,
    /// End of the bucket, exclusive.
    pub until: String,
    /// Counts over all selected records in the bucket.
    #[serde(flatten)]
    pub tally: Tally,
    /// Counts by name of the step.
    pub steps: BTreeMap<String, Tally>,
    /// Counts by name of the model.
    pub models: BTreeMap<String, Tally>,
}

impl Health {
    /// Creates a report from a trace database. Other processes may write to the database meanwhile.
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
    /// Each line has one value, with the columns `part`, `name`, `bucket`, `stage`, `metric` and
    /// `value`.
    ///
    /// - `part` is `overall`, `pipeline`, `step`, `agent`, `model`, `transform`, `soe_skip`,
    ///   `bucket`, `bucket_step`, `bucket_model` or `recommendation`.
    /// - `bucket` is the start of a bucket.
    /// - `value` is a number, except that it is a text for a `recommendation`.
    ///
    /// A text that a spreadsheet would run as a formula starts with an apostrophe.
    pub fn to_csv(&self) -> String {
        csv::csv(self)
    }
}

#[cfg(test)]
mod tests;
