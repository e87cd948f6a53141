//! Traces: what happens to outputs, by run, step and attempt, for those who want to know how often models need help.
//!
//! A [`Tracer`] begins runs; a run has steps, and a step attempts, each a [`Span`] with a name, a start, an end, a status and what it is
//! counted by ([`Subject`]: pipeline, step, agent, model and provider). What happens in one is an event with attributes ([`Event`] has
//! the names). All of it goes to sinks: memory for tests ([`MemorySink`]), an `SQLite` database ([`SqliteSink`]), and the
//! `tracing` crate ([`TracingSink`]), by which `OpenTelemetry` has it, too.
//!
//! # What is not here
//! Nothing of what is traced: who adapts, checks or repairs outputs says what happened. No texts of prompts and answers either, unless
//! somebody puts them into attributes.

mod error;
mod event;
pub mod health;
mod memory;
mod record;
mod sink;
mod span;
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
pub use sqlite::{SqliteOptions, SqliteSink};
pub use subscriber::TracingSink;

#[cfg(test)]
mod tests;
