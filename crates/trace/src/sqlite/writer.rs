//! Thread that writes records to a trace database.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::SqliteOptions;
use super::rows::Rows;
use crate::error::Kind;
use crate::{Record, SpanKind, TraceError};

/// Message to the writer thread.
pub(super) enum Message {
    Record(Record),
    /// Request to commit everything received before, and to reply after the commit.
    Flush(SyncSender<()>),
}

pub(super) struct Writer {
    pub(super) rows: Rows,
    pub(super) options: SqliteOptions,
    pub(super) losses: Arc<Losses>,
}

/// Records to commit together. `waiting` is the caller of `flush` that waits for the commit, if
/// any.
#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    waiting: Option<SyncSender<()>>,
}

impl Writer {
    /// Writes records in batches until all senders are dropped.
    pub(super) fn run(mut self, queue: &Receiver<Message>) {
        while let Ok(first) = queue.recv() {
            let batch = self.gather(first, queue);
            if !batch.records.is_empty()
                && let Err(error) = self.rows.write(&batch.records)
            {
                self.losses.add(batch.records.len() as u64, error);
            }
            if let Some(waiting) = batch.waiting {
                // The caller may have stopped waiting.
                let _ = waiting.try_send(());
            }
        }
    }

    /// Collects the records of a batch until the commit is due. No transaction is open meanwhile,
    /// so other processes can write.
    fn gather(&self, first: Message, queue: &Receiver<Message>) -> Batch {
        let due = Instant::now() + self.options.interval;
        let (mut batch, mut message, mut run_ended) = (Batch::default(), first, false);
        loop {
            match message {
                Message::Flush(waiting) => {
                    batch.waiting = Some(waiting);
                    return batch;
                }
                Message::Record(record) => {
                    run_ended |= matches!(&record, Record::Ended(span) if span.kind == SpanKind::Run);
                    batch.records.push(record);
                }
            }
            if batch.records.len() >= self.options.batch {
                return batch;
            }
            let wait = if run_ended { Duration::ZERO } else { due.saturating_duration_since(Instant::now()) };
            match queue.recv_timeout(wait) {
                Ok(next) => message = next,
                Err(_) => return batch,
            }
        }
    }
}

/// Number of records that could not be written, with the error to report.
pub(super) struct Losses {
    path: PathBuf,
    count: AtomicU64,
    /// Number of lost records that `flush` has not reported, and the first error. `None` if all
    /// losses have been reported.
    untold: Mutex<Option<(u64, rusqlite::Error)>>,
}

impl Losses {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), count: AtomicU64::new(0), untold: Mutex::new(None) }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a record as lost because it arrived after the writer thread had ended.
    pub(super) fn add_one(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn add(&self, lost: u64, error: rusqlite::Error) {
        tracing::warn!("{}: {lost} trace records were lost: {error}", self.path.display());
        self.count.fetch_add(lost, Ordering::Relaxed);
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        *untold = match untold.take() {
            Some((before, first)) => Some((before + lost, first)),
            None => Some((lost, error)),
        };
    }

    /// Returns an error if records have been lost since the last call.
    pub(super) fn tell(&self) -> Result<(), TraceError> {
        match self.untold.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some((lost, first)) => Err(TraceError::new(&self.path, Kind::Lost { lost, first })),
            None => Ok(()),
        }
    }
}
