use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::Body;

/// Microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// By the clock of this machine.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Later by `time`.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Earlier by `time`.
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

/// A run, in whatever database: 32 hexadecimal digits, as a trace has in W3C's Trace Context.
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

/// A span among those of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub(super) u64);

/// What a span stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// All that is done for one request of the application.
    Run,
    /// A named call of a model.
    Step,
    /// A try to make it.
    Attempt,
}

impl SpanKind {
    /// The name that is written down.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Step => "step",
            Self::Attempt => "attempt",
        }
    }
}

/// How a span ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It has not.
    Open,
    /// As it should.
    Ok,
    /// With an error.
    Error,
    /// It was given up from outside, or nobody said how it ended.
    Cancelled,
}

impl Status {
    /// The name that is written down.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What spans and events are counted by. A span has what the one around it had when it began, and what was said of it since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Subject {
    /// The run's name, which is that of the pipeline.
    pub run: String,
    /// The step's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Who calls the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whose model it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// A span as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRecord {
    /// The span.
    pub id: SpanId,
    /// The run that it is part of.
    pub run: RunId,
    /// The span around it; none around a run.
    pub parent: Option<SpanId>,
    /// What it stands for.
    pub kind: SpanKind,
    /// Its name.
    pub name: String,
    /// What it is counted by.
    pub subject: Subject,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Option<Timestamp>,
    /// How it ended.
    pub status: Status,
    /// What else was said of it.
    pub attributes: Body,
}

/// Something that happened in a span.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    /// The span, as it was then.
    pub span: Arc<SpanRecord>,
    /// When it happened.
    pub at: Timestamp,
    /// Its name, see [`Event`](super::Event).
    pub name: Cow<'static, str>,
    /// What is said of it.
    pub attributes: Body,
}

/// A correction of an output, for the ledger. Step, agent and model are those of its span.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Correction {
    /// SHA-256 of the schema, hexadecimal.
    pub schema_hash: Option<String>,
    /// Which version of the rules of coercion made it.
    pub coercion_policy_version: Option<String>,
    /// The stage, such as `semantic`.
    pub stage: String,
    /// How many attempts and stages came before.
    pub repair_depth: u32,
    /// The transforms, such as `str->int`.
    pub transforms_applied: Vec<String>,
    /// How much longer asking again would have taken, if that is known.
    pub latency_ms_saved: Option<f64>,
}

/// A correction with its span.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrectionRecord {
    /// The span, as it was then.
    pub span: Arc<SpanRecord>,
    /// When it was made.
    pub at: Timestamp,
    /// What was corrected.
    pub correction: Correction,
}

/// What sinks are told.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A span began.
    Started(Arc<SpanRecord>),
    /// Something happened in one.
    Event(Arc<EventRecord>),
    /// An output was corrected in one.
    Correction(Arc<CorrectionRecord>),
    /// A span ended; of each that began there is one of these in the end.
    Ended(Arc<SpanRecord>),
}
