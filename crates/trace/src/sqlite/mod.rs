//! Sink that writes records to an `SQLite` database.

mod rows;
pub(super) mod schema;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::Kind;
use super::{Record, Sink, TraceError};
use rows::Rows;
use writer::{Losses, Message, Writer};

/// Options for writing a trace database. The defaults suit everything except tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// True to write corrections to the correction ledger. The configuration calls this option
    /// `correction_ledger_enabled`.
    pub correction_ledger: bool,
    /// Maximum time between the first record of a batch and the commit of the batch.
    pub interval: Duration,
    /// Maximum number of records in one batch, which is committed at once.
    pub batch: usize,
    /// Maximum number of records that wait for the writer thread.
    pub queue: usize,
    /// Maximum time to wait while another process locks the database.
    pub busy: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            correction_ledger: false,
            interval: Duration::from_millis(100),
            batch: 4096,
            queue: 16_384,
            busy: Duration::from_secs(10),
        }
    }
}

/// Sink that writes records to an `SQLite` database, on a thread of its own. Several processes may
/// write to the same database.
///
/// ```
/// use formwork_trace::{SqliteOptions, SqliteSink, Status, Tracer};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("traces.db");
/// let tracer = Tracer::default().with_sink(SqliteSink::open(&path, SqliteOptions::default())?);
/// tracer.run("support").end(Status::Ok);
/// tracer.flush()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Commits
/// Records are committed in batches. A batch is committed completely or not at all, at the earliest
/// of these moments:
/// - The end of a run, as soon as the queue is empty.
/// - 100 ms after the first record of the batch.
/// - The batch has 4,096 records.
/// - A call of [`flush`](Sink::flush), which returns after the commit of everything recorded
///   before.
/// - The sink is dropped.
///
/// Committed records survive the end of the process, even if it is killed. A power failure may lose
/// the last commits but keeps the database consistent (`synchronous = NORMAL`).
///
/// # Limits
/// The queue holds 16,384 records. If the queue is full, recording blocks. The traced work is
/// therefore slowed down if the disk is slow or another process locks the database.
///
/// A batch is lost if the database stays locked for 10 seconds, or if the write fails.
/// [`lost`](Self::lost) and the next `flush` report the loss. Later batches are written normally.
pub struct SqliteSink {
    path: PathBuf,
    queue: Option<SyncSender<Message>>,
    writer: Option<JoinHandle<()>>,
    losses: Arc<Losses>,
}

impl SqliteSink {
    /// Opens the database at `path`, or creates it. The folder must exist.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened or created, or if it is not a trace database.
    /// Also returns an error if it was created by a newer version of this program.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let rows = Rows::new(schema::open(path, options.busy)?, options.correction_ledger);
        let losses = Arc::new(Losses::new(path));
        let (queue, messages) = sync_channel(options.queue);
        let writer = Writer { rows, options, losses: Arc::clone(&losses) };
        let writer = std::thread::Builder::new()
            .name("formwork-trace".to_owned())
            .spawn(move || writer.run(&messages))
            .map_err(|error| TraceError::new(path, Kind::Thread(error)))?;
        Ok(Self { path: path.to_owned(), queue: Some(queue), writer: Some(writer), losses })
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of records lost since the sink was opened.
    pub fn lost(&self) -> u64 {
        self.losses.count()
    }
}

impl Sink for SqliteSink {
    fn record(&self, record: &Record) {
        let sent =
            self.queue.as_ref().is_some_and(|queue| queue.send(Message::Record(record.clone())).is_ok());
        if !sent {
            self.losses.add_one();
        }
    }

    fn flush(&self) -> Result<(), TraceError> {
        let (done, written) = sync_channel(1);
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(Message::Flush(done)).is_ok());
        if !sent || written.recv().is_err() {
            return Err(TraceError::new(&self.path, Kind::Ended));
        }
        self.losses.tell()
    }
}

impl Drop for SqliteSink {
    fn drop(&mut self) {
        // When the queue is closed, the writer commits the remaining records and ends.
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl fmt::Debug for SqliteSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteSink")
            .field("path", &self.path)
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
