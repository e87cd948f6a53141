use std::sync::Arc;

use super::{Record, TraceError};

/// Destination of the records of a [`Tracer`](super::Tracer).
///
/// Methods of a sink can be called from any thread. They must not panic, because an error in
/// tracing must not affect the traced work.
pub trait Sink: Send + Sync {
    /// Accepts a record. The records of a span arrive in the order in which they were made.
    fn record(&self, record: &Record);

    /// Waits until all records that arrived before this call are stored.
    ///
    /// # Errors
    /// Returns an error if records were lost since the last call.
    fn flush(&self) -> Result<(), TraceError> {
        Ok(())
    }
}

impl<S: Sink + ?Sized> Sink for Arc<S> {
    fn record(&self, record: &Record) {
        (**self).record(record);
    }

    fn flush(&self) -> Result<(), TraceError> {
        (**self).flush()
    }
}
