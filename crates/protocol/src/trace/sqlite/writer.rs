//! The thread that writes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::SqliteOptions;
use super::rows::Rows;
use crate::trace::error::Kind;
use crate::trace::{Record, SpanKind, TraceError};

/// What the writer is sent.
pub(super) enum Message {
    Record(Record),
    /// Commit what came before, and answer.
    Flush(SyncSender<()>),
}

pub(super) struct Writer {
    pub(super) rows: Rows,
    pub(super) options: SqliteOptions,
    pub(super) losses: Arc<Losses>,
}

/// What is committed together, and who waits for it.
#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    waiting: Option<SyncSender<()>>,
}

impl Writer {
    /// Writes until nobody can send any more.
    pub(super) fn run(mut self, queue: &Receiver<Message>) {
        while let Ok(first) = queue.recv() {
            let batch = self.gather(first, queue);
            if !batch.records.is_empty()
                && let Err(error) = self.rows.write(&batch.records)
            {
                self.losses.add(batch.records.len() as u64, error);
            }
            if let Some(waiting) = batch.waiting {
                // Who has gone needs no answer.
                let _ = waiting.try_send(());
            }
        }
    }

    /// Gathers what comes until it is time to commit. No transaction is open meanwhile, so that other processes can write.
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

/// What could not be written.
pub(super) struct Losses {
    path: PathBuf,
    count: AtomicU64,
    /// Of those that nobody was told of yet.
    untold: Mutex<Option<(u64, rusqlite::Error)>>,
}

impl Losses {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), count: AtomicU64::new(0), untold: Mutex::new(None) }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// One that came after the writer had ended.
    pub(super) fn add_one(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn add(&self, lost: u64, error: rusqlite::Error) {
        tracing::warn!("{}: {lost} records of traces were lost: {error}", self.path.display());
        self.count.fetch_add(lost, Ordering::Relaxed);
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        *untold = match untold.take() {
            Some((before, first)) => Some((before + lost, first)),
            None => Some((lost, error)),
        };
    }

    /// The losses since the last time as an error.
    pub(super) fn tell(&self) -> Result<(), TraceError> {
        match self.untold.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some((lost, first)) => Err(TraceError::new(&self.path, Kind::Lost { lost, first })),
            None => Ok(()),
        }
    }
}
