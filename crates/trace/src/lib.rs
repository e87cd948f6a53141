//! Traces of runs, steps and attempts, which show how often the outputs of models need corrections.
//!
//! A [`Tracer`] starts runs, a run has steps, and a step has attempts. Each of these is a [`Span`]
//! with a name, a start, an end, a status and a [`Subject`]. The subject consists of pipeline,
//! step, agent, model and provider. Events with attributes are recorded in a span. [`Event`] lists
//! the known events.
//!
//! Records are sent to sinks: to memory for tests ([`MemorySink`]), to an `SQLite` database
//! ([`SqliteSink`]), or to the `tracing` crate ([`TracingSink`]). Subscribers of `tracing` can
//! export them to `OpenTelemetry`.
//!
//! # Features
//! `sqlite` adds [`SqliteSink`] and the module [`health`], which reads databases. Without the
//! feature, the crate does not link `SQLite`.
//!
//! # Limits
//! This crate only records events. The code that adapts, checks or repairs outputs emits them. The
//! texts of prompts and answers are not recorded, unless a caller adds them as attributes.

mod error;
mod event;
#[cfg(feature = "sqlite")]
pub mod health;
mod memory;
mod record;
mod sink;
mod span;
#[cfg(feature = "sqlite")]
mod sqlite;
mod subscriber;

pub use error::TraceError;
pub use event::Event;
pub use memory::{MemorySink, Outline};
pub use record::{
    Correction, CorrectionRecord, EventRecord, Record, RunId, SpanId, SpanKind, SpanRecord, Status, Subject,
    Timestamp,
};
pub use sink::Sink;
pub use span::{Span, Tracer};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOptions, SqliteSink};
pub use subscriber::TracingSink;

/// Values of attributes of a span or an event, by attribute name.
pub type Attributes = serde_json::Map<String, serde_json::Value>;

#[cfg(test)]
mod tests;
