use std::sync::Arc;

use super::{Record, TraceError};

/// Destination of records.
///
/// Sinks are called from any thread. They must not fail or panic, since tracing must not break the
/// traced work.
pub trait Sink: Send + Sync {
    /// Accepts a record. The records of one span arrive in order.
    fn record(&self, record: &Record);

    /// Waits until all records so far are stored.
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
