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

/// Span with its events and child spans, but without IDs and times. Two runs with the same events
/// have equal outlines, so tests can compare them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outline {
    /// Kind of the span.
    pub kind: SpanKind,
    /// Name of the span.
    pub name: String,
    /// Status at the end of the span, or [`Status::Open`] if the span has not ended.
    pub status: Status,
    /// Subject at the end of the span. A subject can change while the span is open.
    pub subject: Subject,
    /// Attributes of the span other than the subject.
    #[serde(skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
    /// Name and attributes of each event in the span, in the order of recording.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<(String, Attributes)>,
    /// Child spans in the order of their start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Outline>,
}

impl MemorySink {
    /// Returns all records in the order in which they arrived at the sink.
    pub fn records(&self) -> Vec<Record> {
        self.lock().clone()
    }

    /// Returns all event records in the order of arrival.
    pub fn events(&self) -> Vec<Arc<EventRecord>> {
        self.all(|record| match record {
            Record::Event(event) => Some(Arc::clone(event)),
            _ => None,
        })
    }

    /// Returns all correction records in the order of arrival.
    pub fn corrections(&self) -> Vec<Arc<CorrectionRecord>> {
        self.all(|record| match record {
            Record::Correction(correction) => Some(Arc::clone(correction)),
            _ => None,
        })
    }

    /// Returns the final state of every span that has ended, in the order of ending.
    pub fn spans(&self) -> Vec<Arc<SpanRecord>> {
        self.all(|record| match record {
            Record::Ended(span) => Some(Arc::clone(span)),
            _ => None,
        })
    }

    /// Returns one outline for each run, in the order of starting.
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

/// Returns the outlines of the child spans of `parent`, or of the runs if `parent` is `None`.
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
