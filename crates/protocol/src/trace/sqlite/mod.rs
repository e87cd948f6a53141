//! A sink that writes a database, and what is in one.

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

/// How a database is written. The defaults suit all but tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// Whether corrections are written to the ledger as well (`correction_ledger_enabled` of the configuration).
    pub correction_ledger: bool,
    /// How long a record may wait for others to be committed with.
    pub interval: Duration,
    /// So many records are committed at once at most.
    pub batch: usize,
    /// So many may wait to be written.
    pub queue: usize,
    /// How long to wait for another process that writes.
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

/// A sink that writes to an `SQLite` database, on a thread of its own. Several processes may write to one at a time.
///
/// ```
/// use formwork_protocol::trace::{SqliteOptions, SqliteSink, Status, Tracer};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("traces.db");
/// let tracer = Tracer::default().with_sink(SqliteSink::open(&path, SqliteOptions::default())?);
/// tracer.run("support").end(Status::Ok);
/// tracer.flush()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What is committed when
/// Records are committed together, those of a batch all or none: as soon as nothing more is waiting after the end of a run; 100 ms
/// after the first of the batch; when there are 4,096; on [`flush`](Sink::flush), which returns when everything recorded before
/// is committed; and when the sink is dropped. What is committed outlasts the process, killed or not. A machine that loses power
/// may lose the last commits, but no others, and the database stays whole (`synchronous = NORMAL`).
///
/// # Limits
/// 16,384 records may wait. Where there are more, who records waits: the disk, or another process that holds the database, then slows
/// down what is traced. What cannot be written within 10 seconds of waiting for others, or at all, is lost, as
/// [`lost`](Self::lost) and the next `flush` tell; what comes later is written again.
pub struct SqliteSink {
    path: PathBuf,
    queue: Option<SyncSender<Message>>,
    writer: Option<JoinHandle<()>>,
    losses: Arc<Losses>,
}

impl SqliteSink {
    /// Opens a database, and makes it if there is none. The folder must be there.
    ///
    /// # Errors
    /// When it cannot be opened or made, is a database of something else, or one that a newer program made.
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

    /// The database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many records could not be written since the beginning.
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
        // Without a queue the writer commits what there is, and ends.
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
