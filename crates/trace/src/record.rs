use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::Attributes;

/// Microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the current time of the system clock.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Returns the time that is later by `time`.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Returns the time that is earlier by `time`.
    #[must_use]
    pub fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self::default().after(since),
            Err(error) => Self::default().before(error.duration()),
        }
    }
}

/// Globally unique ID of a run: 32 hexadecimal digits, like a trace ID of the W3C Trace Context.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u128);

impl RunId {
    pub(super) fn new() -> Self {
        Self(fastrand::u128(1..))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({self})")
    }
}

/// ID of a span, unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub(super) u64);

/// Kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// All work for one request of the application.
    Run,
    /// Named call of a model.
    Step,
    /// One attempt of a step.
    Attempt,
}

impl SpanKind {
    /// Returns the name used in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Step => "step",
            Self::Attempt => "attempt",
        }
    }
}

/// Status of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The span has not ended.
    Open,
    /// The span ended successfully.
    Ok,
    /// The span ended with an error.
    Error,
    /// The span was cancelled or dropped without a status.
    Cancelled,
}

impl Status {
    /// Returns the name used in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Dimensions by which spans and events are counted.
///
/// A span inherits the subject of its parent at its start and may change it later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Subject {
    /// Name of the run, which is the name of the pipeline.
    pub run: String,
    /// Name of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Name of the agent that calls the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// ID of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Name of the model's provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// State of a span at some point in time.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRecord {
    /// ID of the span.
    pub id: SpanId,
    /// ID of the run that contains the span.
    pub run: RunId,
    /// ID of the parent span; `None` for a run.
    pub parent: Option<SpanId>,
    /// Kind of the span.
    pub kind: SpanKind,
    /// Name of the span.
    pub name: String,
    /// Dimensions by which the span is counted.
    pub subject: Subject,
    /// Time at which the span started.
    pub start: Timestamp,
    /// Time at which the span ended.
    pub end: Option<Timestamp>,
    /// Status of the span.
    pub status: Status,
    /// Further attributes.
    pub attributes: Attributes,
}

/// Event in a span.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    /// The span at the time of the event.
    pub span: Arc<SpanRecord>,
    /// Time of the event.
    pub at: Timestamp,
    /// Name of the event; see [`Event`](super::Event).
    pub name: Cow<'static, str>,
    /// Attributes of the event.
    pub attributes: Attributes,
}

/// Correction of an output, for the correction ledger. Its span provides the step, agent and model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Correction {
    /// SHA-256 of the schema, in hexadecimal.
    pub schema_hash: Option<String>,
    /// Version of the coercion rules.
    pub coercion_policy_version: Option<String>,
    /// Name of the stage, such as `semantic`.
    pub stage: String,
    /// Number of stages before this one.
    pub repair_depth: u32,
    /// Names of the applied transforms, such as `str->int`.
    pub transforms_applied: Vec<String>,
    /// Estimated milliseconds saved compared to another request, if known.
    pub latency_ms_saved: Option<f64>,
}

/// Correction with its span.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrectionRecord {
    /// The span at the time of the correction.
    pub span: Arc<SpanRecord>,
    /// Time of the correction.
    pub at: Timestamp,
    /// The correction.
    pub correction: Correction,
}

/// Record sent to sinks.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A span started.
    Started(Arc<SpanRecord>),
    /// An event occurred in a span.
    Event(Arc<EventRecord>),
    /// An output was corrected in a span.
    Correction(Arc<CorrectionRecord>),
    /// A span ended. Every started span eventually has this record.
    Ended(Arc<SpanRecord>),
}
