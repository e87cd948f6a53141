use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::record::{CorrectionRecord, EventRecord, SpanRecord};
use super::{Record, Sink, SpanId, SpanKind, Status, Subject};
use crate::Attributes;

/// Sink that keeps all records in memory, for tests. Clones share the records.
#[derive(Clone, Debug, Default)]
pub struct MemorySink {
    records: Arc<Mutex<Vec<Record>>>,
}

/// Span with its events and child spans, without IDs and times.
///
/// Outlines are equal for runs with the same events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outline {
    /// Kind of the span.
    pub kind: SpanKind,
    /// Name of the span.
    pub name: String,
    /// Final status.
    pub status: Status,
    /// Subject at the end of the span.
    pub subject: Subject,
    /// Further attributes of the span.
    #[serde(skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
    /// Names and attributes of the events, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<(String, Attributes)>,
    /// Child spans in the order of their start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Outline>,
}

impl MemorySink {
    /// Returns all records in the order in which they arrived.
    pub fn records(&self) -> Vec<Record> {
        self.lock().clone()
    }

    /// Returns all events.
    pub fn events(&self) -> Vec<Arc<EventRecord>> {
        self.all(|record| match record {
            Record::Event(event) => Some(Arc::clone(event)),
            _ => None,
        })
    }

    /// Returns all corrections.
    pub fn corrections(&self) -> Vec<Arc<CorrectionRecord>> {
        self.all(|record| match record {
            Record::Correction(correction) => Some(Arc::clone(correction)),
            _ => None,
        })
    }

    /// Returns the spans that have ended.
    pub fn spans(&self) -> Vec<Arc<SpanRecord>> {
        self.all(|record| match record {
            Record::Ended(span) => Some(Arc::clone(span)),
            _ => None,
        })
    }

    /// Returns one outline per run.
    pub fn outline(&self) -> Vec<Outline> {
        let records = self.records();
        let within = |parent| within(&records, parent);
        within(None)
    }

    fn all<T>(&self, select: impl Fn(&Record) -> Option<T>) -> Vec<T> {
        self.lock().iter().filter_map(select).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for MemorySink {
    fn record(&self, record: &Record) {
        self.lock().push(record.clone());
    }
}

/// Returns the outlines of the spans in `parent`.
fn within(records: &[Record], parent: Option<SpanId>) -> Vec<Outline> {
    let started = records.iter().filter_map(|record| match record {
        Record::Started(span) if span.parent == parent => Some(span),
        _ => None,
    });
    started.map(|span| outline(records, span)).collect()
}

fn outline(records: &[Record], started: &Arc<SpanRecord>) -> Outline {
    let ended = records.iter().find_map(|record| match record {
        Record::Ended(span) if span.id == started.id => Some(span),
        _ => None,
    });
    let span = ended.unwrap_or(started);
    let events = records.iter().filter_map(|record| match record {
        Record::Event(event) if event.span.id == span.id => {
            Some((event.name.to_string(), event.attributes.clone()))
        }
        _ => None,
    });
    Outline {
        kind: span.kind,
        name: span.name.clone(),
        status: span.status,
        subject: span.subject.clone(),
        attributes: span.attributes.clone(),
        events: events.collect(),
        spans: within(records, Some(span.id)),
    }
}
