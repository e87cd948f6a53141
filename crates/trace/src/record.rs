use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::Attributes;

/// Point in time, in microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the current time of the system clock.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Returns the point in time that is `time` after this one.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Returns the point in time that is `time` before this one.
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

/// Globally unique ID of a run. Displayed as 32 hexadecimal digits, like a trace ID of the W3C
/// Trace Context.
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

/// Level of a span in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// All work for one request of the application.
    Run,
    /// Named step of a run, for example one question to a model.
    Step,
    /// One attempt at a step, for example a single request. A step has several attempts if it is
    /// retried.
    Attempt,
}

impl SpanKind {
    /// Returns the name of the kind in records, such as `run`.
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
    /// The span was cancelled, or dropped without a status.
    Cancelled,
}

impl Status {
    /// Returns the name of the status in records, such as `ok`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Dimensions of a span: health reports count spans and events by each of them.
///
/// A span starts with the subject of its parent. While the span is open, its subject can change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Subject {
    /// Name of the run, which identifies the pipeline. Runs of the same pipeline have the same
    /// name.
    pub run: String,
    /// Name of the step. `None` for a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Name of the agent that calls the model. `None` if the agent is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Name of the model. `None` if the model is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Name of the provider of the model. `None` if the provider is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// State of a span at one point in time.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRecord {
    /// ID of the span.
    pub id: SpanId,
    /// ID of the run that contains the span.
    pub run: RunId,
    /// ID of the parent span. `None` for a run, which has no parent.
    pub parent: Option<SpanId>,
    /// Kind of the span.
    pub kind: SpanKind,
    /// Name of the span.
    pub name: String,
    /// Dimensions by which health reports count the span.
    pub subject: Subject,
    /// Time at which the span started.
    pub start: Timestamp,
    /// Time at which the span ended. `None` if the span has not ended.
    pub end: Option<Timestamp>,
    /// Status of the span.
    pub status: Status,
    /// Attributes of the span other than the subject.
    pub attributes: Attributes,
}

/// Event in a span, as recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    /// State of the span at the time of the event.
    pub span: Arc<SpanRecord>,
    /// Time of the event.
    pub at: Timestamp,
    /// Name of the event, for example of an [`Event`](super::Event).
    pub name: Cow<'static, str>,
    /// Attributes of the event.
    pub attributes: Attributes,
}

/// Correction of an output, for the correction ledger. The span in which the correction is recorded
/// determines its step, agent and model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Correction {
    /// SHA-256 of the schema, in hexadecimal. `None` if no schema is known.
    pub schema_hash: Option<String>,
    /// Version of the rules that convert values. `None` if the version is not known.
    pub coercion_policy_version: Option<String>,
    /// Name of the stage that made the correction, such as `semantic`.
    pub stage: String,
    /// Number of stages that processed the output before this stage.
    pub repair_depth: u32,
    /// Names of the applied transforms, such as `str->int`.
    pub transforms_applied: Vec<String>,
    /// Estimated time saved because the model was not asked again, in milliseconds. `None` if
    /// unknown.
    pub latency_ms_saved: Option<f64>,
}

/// Correction, as recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrectionRecord {
    /// State of the span at the time of the correction.
    pub span: Arc<SpanRecord>,
    /// Time of the correction.
    pub at: Timestamp,
    /// The correction.
    pub correction: Correction,
}

/// Message to a sink.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A span started. Contains the state of the span at its start.
    Started(Arc<SpanRecord>),
    /// An event occurred in a span.
    Event(Arc<EventRecord>),
    /// An output was corrected in a span.
    Correction(Arc<CorrectionRecord>),
    /// A span ended. Contains the final state of the span. Every span that starts eventually ends.
    Ended(Arc<SpanRecord>),
}
