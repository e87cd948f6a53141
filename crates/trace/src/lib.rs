//! Traces of runs, steps and attempts, which show how often the outputs of models need corrections.
//!
//! A [`Tracer`] starts runs, a run has steps, and a step has attempts. Each is a [`Span`] with a
//! name, a start, an end, a status and a [`Subject`]: pipeline, step, agent, model and provider.
//! Events with attributes are recorded in a span; [`Event`] lists the names.
//!
//! All records go to sinks: memory for tests ([`MemorySink`]), an `SQLite` database
//! ([`SqliteSink`]), and the `tracing` crate ([`TracingSink`]), which can export them to
//! `OpenTelemetry`.
//!
//! # Features
//! `sqlite` adds the database and the module [`health`], which reads databases. Without the feature,
//! the crate links no database.
//!
//! # Limits
//! This crate only records: the code that adapts, checks or repairs outputs emits the events. The
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

/// Attributes of a span or an event, by name.
pub type Attributes = serde_json::Map<String, serde_json::Value>;

#[cfg(test)]
mod tests;
