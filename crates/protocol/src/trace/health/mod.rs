//! Health: how often outputs need help, of which steps and models, and what to do about it.
//!
//! ```
//! use formwork_protocol::trace::health::{Health, HealthOptions};
//! # use formwork_protocol::trace::{Event, SqliteOptions, SqliteSink, Status, Timestamp, Tracer};
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
//! A *coercion* is an `output.coercion.success`: a stage that changed an output. A *failure* is an `output.coercion.fail` that no later stage made
//! good: where one did, as a repair of syntax does for an extraction that found no JSON, the failure is *recovered*, and counted as that alone. A *run*, in `runs` and in rates, is one run of a
//! step: of a model, an agent or a pipeline, a run of a step in which it took part, in the step itself or in one of its attempts. So a rate
//! may be above 100, where several stages help with one output. Events are in the window in which they happened, and a run is in that in which it,
//! or an attempt of it, began: from the beginning of the window on, and what a clock that is ahead has dated after its end as well. What a step in shadow
//! mode would have done is not counted.
//!
//! # Limits
//! Events are read once, rows of other names than those of [`Event`](super::Event) not at all; memory grows with the runs of steps in
//! the window. A million events in 250,000 runs of steps take about a second of one core (`cargo bench -p formwork-benches --bench traces`).

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

/// The version of a [`Health`] as JSON.
pub const HEALTH_VERSION: u32 = 1;

/// How long to wait for a process that holds the database.
const BUSY: Duration = Duration::from_secs(10);

/// What to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthOptions {
    /// The time now, where windows end.
    pub now: Timestamp,
    /// How long ago the window begins; without it everything is looked at, from the first record to the last.
    pub since: Option<Duration>,
    /// Into how many parts of equal length the window is divided for trends; 0 for none.
    pub buckets: u32,
    /// Only runs of this name.
    pub pipeline: Option<String>,
    /// Only this step.
    pub step: Option<String>,
    /// Only this agent.
    pub agent: Option<String>,
    /// Only this model.
    pub model: Option<String>,
}

impl HealthOptions {
    /// Everything up to `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }
}

/// What came of a look at traces. As JSON it has `version` and `generated_at` first; times are in RFC 3339.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Health {
    /// [`HEALTH_VERSION`].
    pub version: u32,
    /// When it was made.
    pub generated_at: String,
    /// What was looked at.
    pub window: Window,
    /// Which runs, steps, agents and models.
    pub filters: Filters,
    /// How many runs of pipelines there were.
    pub traces: u64,
    /// All together.
    pub overall: Tally,
    /// By pipeline. These lists begin with whoever has most coercions in 100 runs.
    pub pipelines: Vec<Named>,
    /// By step.
    pub steps: Vec<Named>,
    /// By agent.
    pub agents: Vec<Named>,
    /// By model.
    pub models: Vec<Named>,
    /// How often each transform was applied, most often first.
    pub transforms: Vec<Count>,
    /// How often structured output was skipped, by model, most often first. Events that name no model are under the empty name.
    pub soe_skips: Vec<Count>,
    /// The window in parts, if that was asked for.
    pub trends: Vec<Bucket>,
    /// What to do.
    pub recommendations: Vec<Recommendation>,
}

/// The time that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Window {
    /// How long it is, if that was said.
    pub since_hours: Option<f64>,
    /// Its beginning; none where nothing was recorded.
    pub from: Option<String>,
    /// Its end.
    pub until: Option<String>,
}

/// What was left out of account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filters {
    /// All other pipelines.
    pub pipeline: Option<String>,
    /// All other steps.
    pub step: Option<String>,
    /// All other agents.
    pub agent: Option<String>,
    /// All other models.
    pub model: Option<String>,
}

/// What there is of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// What there is of it.
    #[serde(flatten)]
    pub tally: Tally,
}

/// How often there was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Its name.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// A part of the window. Its times are to the second; to the microsecond, where parts are shorter than a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bucket {
    /// Its beginning.
    pub from: String,
    /// Its end.
    pub until: String,
    /// All that happened in it.
    #[serde(flatten)]
    pub tally: Tally,
    /// By step.
    pub steps: BTreeMap<String, Tally>,
    /// By model.
    pub models: BTreeMap<String, Tally>,
}

impl Health {
    /// Looks at a database, which may be written to meanwhile.
    ///
    /// # Errors
    /// When there is no file, it is no database of traces, or one that a newer program made.
    pub fn read(path: &Path, options: &HealthOptions) -> Result<Self, TraceError> {
        let fail = |error| TraceError::new(path, Kind::Read(error));
        let connection = match schema::open_to_read(path, BUSY)? {
            Some(connection) => connection,
            None => schema::nothing().map_err(fail)?,
        };
        Self::of(&connection, options).map_err(fail)
    }

    fn of(connection: &Connection, options: &HealthOptions) -> Result<Self, rusqlite::Error> {
        // All that is read is of one moment.
        let moment = connection.unchecked_transaction()?;
        let scan = scan::scan(&moment, options)?;
        fold::fold(&moment, &scan, options)
    }

    /// The same as CSV (RFC 4180): a line for each number, with the columns `part`, `name`, `bucket`, `stage`, `metric` and `value`.
    ///
    /// `part` is `overall`, `pipeline`, `step`, `agent`, `model`, `transform`, `soe_skip`, `bucket`, `bucket_step`, `bucket_model`, or
    /// `recommendation`, whose value is a text; `bucket` is the beginning of one. Texts that a spreadsheet would take for a formula have an apostrophe
    /// before them.
    pub fn to_csv(&self) -> String {
        csv::csv(self)
    }
}

#[cfg(test)]
mod tests;
