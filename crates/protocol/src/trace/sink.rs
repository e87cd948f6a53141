use std::sync::Arc;

use super::{Record, TraceError};

/// Where records go. It is told from whatever thread something happens on, and must neither fail nor panic: a trace is no reason for
/// what is traced to go wrong.
pub trait Sink: Send + Sync {
    /// Takes a record. A span's records come in their order.
    fn record(&self, record: &Record);

    /// Waits until what was recorded so far is kept.
    ///
    /// # Errors
    /// When something was lost since the last time.
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
