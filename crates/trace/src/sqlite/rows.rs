//! Conversion of records to database rows.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde_json::Value;

use crate::Attributes;
use crate::record::{CorrectionRecord, EventRecord, SpanRecord};
use crate::{Record, RunId, SpanId, SpanKind, Subject};

/// Maximum number of subjects whose row IDs are cached. Names are arbitrary, so the number of
/// subjects has no other limit.
const KNOWN_SUBJECTS: usize = 4096;

/// Writes records to the database. Keeps the row IDs of open runs and spans between writes.
pub(super) struct Rows {
    connection: Connection,
    places: Places,
    ledger: bool,
}

/// Row IDs of runs, spans and subjects, to which later rows refer.
#[derive(Default)]
struct Places {
    runs: HashMap<RunId, i64>,
    spans: HashMap<SpanId, i64>,
    subjects: HashMap<Subject, i64>,
    /// Runs added in the current transaction, like the spans in `new_spans`. They are forgotten if
    /// the transaction fails.
    new_runs: HashSet<RunId>,
    new_spans: HashSet<SpanId>,
}

impl Rows {
    pub(super) fn new(connection: Connection, ledger: bool) -> Self {
        connection.set_prepared_statement_cache_capacity(32);
        Self { connection, places: Places::default(), ledger }
    }

    /// Writes all records in one transaction. If an error occurs, writes none.
    pub(super) fn write(&mut self, records: &[Record]) -> Result<(), rusqlite::Error> {
        let written = self.try_write(records);
        let places = &mut self.places;
        let (runs, spans) = (std::mem::take(&mut places.new_runs), std::mem::take(&mut places.new_spans));
        if written.is_err() {
            places.runs.retain(|run, _| !runs.contains(run));
            places.spans.retain(|span, _| !spans.contains(span));
            places.subjects.clear();
        }
        written
    }

    fn try_write(&mut self, records: &[Record]) -> Result<(), rusqlite::Error> {
        // Take the write lock at once. A transaction that starts with a read fails instead of
        // waiting for the lock.
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut batch = Batch { transaction: &transaction, places: &mut self.places };
        for record in records {
            match record {
                Record::Started(span) => batch.insert(span).map(|_| ())?,
                Record::Event(event) => batch.event(event)?,
                Record::Correction(correction) if self.ledger => batch.correction(correction)?,
                Record::Correction(_) => {}
                Record::Ended(span) => batch.end(span)?,
            }
        }
        transaction.commit()
    }
}

struct Batch<'a> {
    transaction: &'a Transaction<'a>,
    places: &'a mut Places,
}

impl Batch<'_> {
    /// Inserts a row for a span and returns its row ID.
    fn insert(&mut self, span: &SpanRecord) -> Result<i64, rusqlite::Error> {
        let (run, subject) = (self.run(span)?, self.subject(&span.subject)?);
        let parent = span.parent.and_then(|parent| self.places.spans.get(&parent));
        let mut statement = self.transaction.prepare_cached(
            "INSERT INTO spans (trace, parent, kind, subject, start_us, end_us, status, name, attributes) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        let row = statement.insert(params![
            run,
            parent,
            span.kind.name(),
            subject,
            span.start.0,
            span.end.map(|end| end.0),
            span.status.name(),
            span.name,
            json(&span.attributes),
        ])?;
        self.places.spans.insert(span.id, row);
        self.places.new_spans.insert(span.id);
        Ok(row)
    }

    /// Returns the row ID of a span. If the start of the span was lost, inserts a row now.
    fn span(&mut self, span: &SpanRecord) -> Result<i64, rusqlite::Error> {
        match self.places.spans.get(&span.id) {
            Some(&row) => Ok(row),
            None => self.insert(span),
        }
    }

    fn end(&mut self, span: &SpanRecord) -> Result<(), rusqlite::Error> {
        let (row, subject) = (self.span(span)?, self.subject(&span.subject)?);
        let mut statement = self.transaction.prepare_cached(
            "UPDATE spans SET subject = ?, end_us = ?, status = ?, attributes = ? WHERE id = ?",
        )?;
        let end = span.end.map(|end| end.0);
        statement.execute(params![subject, end, span.status.name(), json(&span.attributes), row])?;
        self.places.spans.remove(&span.id);
        if span.kind == SpanKind::Run {
            self.places.runs.remove(&span.run);
        }
        Ok(())
    }

    fn event(&mut self, event: &EventRecord) -> Result<(), rusqlite::Error> {
        let (span, subject) = (self.span(&event.span)?, self.subject(&event.span.subject)?);
        let mut statement = self.transaction.prepare_cached(
            "INSERT INTO events (span, subject, at_us, name, stage, transforms, attributes) \
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?;
        let stage = event.attributes.get("stage").and_then(Value::as_str);
        let transforms = event.attributes.get("transforms").map(Value::to_string);
        let attributes = json(&event.attributes);
        statement.insert(params![span, subject, event.at.0, event.name, stage, transforms, attributes])?;
        Ok(())
    }

    fn correction(&mut self, record: &CorrectionRecord) -> Result<(), rusqlite::Error> {
        let (subject, correction) = (&record.span.subject, &record.correction);
        let mut statement = self.transaction.prepare_cached(
            "INSERT INTO correction_ledger (timestamp, step_name, agent_id, provider_model, schema_hash, \
             coercion_policy_version, stage, repair_depth, transforms_applied, latency_ms_saved) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        statement.insert(params![
            record.at.0,
            subject.step,
            subject.agent,
            subject.model,
            correction.schema_hash,
            correction.coercion_policy_version,
            correction.stage,
            correction.repair_depth,
            Value::from(correction.transforms_applied.clone()).to_string(),
            correction.latency_ms_saved,
        ])?;
        Ok(())
    }

    fn run(&mut self, span: &SpanRecord) -> Result<i64, rusqlite::Error> {
        if let Some(&row) = self.places.runs.get(&span.run) {
            return Ok(row);
        }
        let id = span.run.to_string();
        // A span may outlive its run.
        let mut known = self.transaction.prepare_cached("SELECT id FROM traces WHERE trace_id = ?")?;
        let known = known.query_row([&id], |row| row.get(0)).optional()?;
        let row = match known {
            Some(row) => row,
            None => self
                .transaction
                .prepare_cached("INSERT INTO traces (trace_id, name, start_us) VALUES (?, ?, ?)")?
                .insert(params![id, span.subject.run, span.start.0])?,
        };
        self.places.runs.insert(span.run, row);
        self.places.new_runs.insert(span.run);
        Ok(row)
    }

    fn subject(&mut self, subject: &Subject) -> Result<i64, rusqlite::Error> {
        if let Some(&row) = self.places.subjects.get(subject) {
            return Ok(row);
        }
        let Subject { run, step, agent, model, provider } = subject;
        let [step, agent, model, provider] =
            [step, agent, model, provider].map(|part| part.as_deref().unwrap_or_default());
        let columns = [run, step, agent, model, provider];
        // Another process may already have inserted the subject.
        self.transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO subjects (run, step, agent, model, provider) VALUES (?, ?, ?, ?, ?)",
            )?
            .execute(columns)?;
        let mut found = self.transaction.prepare_cached(
            "SELECT id FROM subjects WHERE run = ? AND step = ? AND agent = ? AND model = ? AND provider = ?",
        )?;
        let row = found.query_row(columns, |row| row.get(0))?;
        if self.places.subjects.len() >= KNOWN_SUBJECTS {
            self.places.subjects.clear();
        }
        self.places.subjects.insert(subject.clone(), row);
        Ok(row)
    }
}

/// Serializes attributes as JSON. Returns `None` if there are no attributes.
fn json(attributes: &Attributes) -> Option<String> {
    // A map with string keys always serializes.
    (!attributes.is_empty()).then(|| serde_json::to_string(attributes).unwrap_or_default())
}
