//! Counts of events and runs in a database, by combinations of attributes. The scan reads all spans
//! once and all events once. Names are replaced by numbers.

use std::collections::HashMap;

use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, Row};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde_json::Value;

use super::{Cost, HealthOptions};
use crate::{Event, Timestamp};

/// Dimension of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Pipeline,
    Step,
    Agent,
    Model,
}

/// Number of a name: its index in [`Names::all`].
pub(super) type NameId = u32;

/// Combination of attributes by which events are counted. `subject` is the row ID of the subject,
/// `stage` the index in [`Stages::all`], and `bucket` the index of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cell {
    pub(super) subject: i64,
    pub(super) event: Event,
    /// True for a failure from which a later stage recovered the output.
    pub(super) is_recovered: bool,
    pub(super) stage: Option<u32>,
    pub(super) bucket: u32,
}

/// Counts found in the database.
#[derive(Default)]
pub(super) struct Scan {
    /// Start and end of the window. `None` if there are no records.
    pub(super) window: Option<(Timestamp, Timestamp)>,
    pub(super) names: Names,
    pub(super) subjects: FxHashMap<i64, Subject>,
    pub(super) stages: Stages,
    pub(super) cells: FxHashMap<Cell, u64>,
    pub(super) transforms: HashMap<String, u64>,
    /// Number of runs of steps by name and bucket. The name `None` stands for all records.
    pub(super) runs: FxHashMap<(Option<NameId>, u32), u64>,
    /// Number of failed runs of steps, by name and bucket.
    pub(super) failed: FxHashMap<(Option<NameId>, u32), u64>,
    /// Cost of runs of steps, by name and bucket.
    pub(super) costs: FxHashMap<(Option<NameId>, u32), Cost>,
    /// Row IDs of steps that succeeded after a repair or a retry, and of their attempts.
    mended: FxHashSet<i64>,
    pub(super) traces: u64,
}

#[derive(Default)]
pub(super) struct Names {
    pub(super) all: Vec<(Part, String)>,
    ids: HashMap<(Part, String), NameId>,
}

/// Names in one subject: their numbers, and the name of the model.
#[derive(Default)]
pub(super) struct Subject {
    pub(super) names: Vec<NameId>,
    pub(super) model: String,
}

#[derive(Default)]
pub(super) struct Stages {
    pub(super) all: Vec<String>,
    ids: FxHashMap<String, u32>,
}

impl Names {
    fn id(&mut self, part: Part, name: &str) -> NameId {
        let next = self.all.len() as NameId;
        *self.ids.entry((part, name.to_owned())).or_insert_with(|| {
            self.all.push((part, name.to_owned()));
            next
        })
    }
}

impl Stages {
    fn id(&mut self, name: &str) -> u32 {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = self.all.len() as u32;
        self.all.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        id
    }
}

/// Division of the window into `count` buckets, whose lengths differ by at most one microsecond.
#[derive(Clone, Copy)]
pub(super) struct Buckets {
    from: Timestamp,
    /// Length of the window in microseconds, at least 1.
    length: i64,
    count: u32,
}

impl Buckets {
    pub(super) fn new((from, until): (Timestamp, Timestamp), count: u32) -> Self {
        let length = until.0.saturating_sub(from.0).max(1);
        Self { from, length, count }
    }

    /// Returns the index of the bucket that contains the time `at`. A time after the window, from a
    /// clock that is ahead, belongs to the last bucket.
    fn of(self, at: i64) -> u32 {
        if self.count <= 1 {
            return 0;
        }
        let after = i128::from(at.saturating_sub(self.from.0).max(0));
        let bucket = after * i128::from(self.count) / i128::from(self.length);
        bucket.min(i128::from(self.count - 1)) as u32
    }

    /// Returns the start and the end of each bucket. [`of`](Self::of) assigns times by the same
    /// limits.
    pub(super) fn bounds(self) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let (length, count) = (i128::from(self.length), i128::from(self.count.max(1)));
        let at = move |bucket: u32| {
            let after = (length * i128::from(bucket) + count - 1) / count;
            Timestamp(self.from.0.saturating_add(after as i64))
        };
        (0..self.count).map(move |bucket| (at(bucket), at(bucket + 1)))
    }

    /// Reports whether each bucket is at least a second long. If not, whole seconds do not
    /// distinguish the starts of buckets.
    pub(super) fn are_of_seconds(self) -> bool {
        self.length / i64::from(self.count.max(1)) >= 1_000_000
    }
}

pub(super) fn scan(connection: &Connection, options: &HealthOptions) -> Result<Scan, rusqlite::Error> {
    let since = options.since.map(|since| options.now.before(since));
    let mut scan = Scan { window: window(connection, options, since)?, ..Scan::default() };
    subjects(connection, options, &mut scan)?;
    if let Some(window) = scan.window {
        let buckets = Buckets::new(window, options.buckets);
        spans(connection, since, buckets, &mut scan)?;
        events(connection, since, buckets, &mut scan)?;
    }
    Ok(scan)
}

/// Returns the window of the options, or the window that contains all records. Returns `None` if
/// there are no records.
fn window(
    connection: &Connection,
    options: &HealthOptions,
    since: Option<Timestamp>,
) -> Result<Option<(Timestamp, Timestamp)>, rusqlite::Error> {
    if let Some(since) = since {
        return Ok(Some((since, options.now)));
    }
    // Each query is a single index lookup.
    let one = |query: &str| connection.query_row(query, [], |row| row.get::<_, Option<i64>>(0));
    let first = [one("SELECT min(start_us) FROM spans")?, one("SELECT min(at_us) FROM events")?];
    let last = [one("SELECT max(start_us) FROM spans")?, one("SELECT max(at_us) FROM events")?];
    let first = first.into_iter().flatten().min();
    let last = last.into_iter().flatten().max();
    Ok(first.zip(last).map(|(first, last)| (Timestamp(first), Timestamp(last.saturating_add(1)))))
}

/// Adds the subjects that match the filters of the options to `scan`.
fn subjects(
    connection: &Connection,
    options: &HealthOptions,
    scan: &mut Scan,
) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare("SELECT id, run, step, agent, model FROM subjects")?;
    let mut rows = statement.query([])?;
    let parts = [
        (Part::Pipeline, &options.pipeline),
        (Part::Step, &options.step),
        (Part::Agent, &options.agent),
        (Part::Model, &options.model),
    ];
    while let Some(row) = rows.next()? {
        let names: [String; 4] = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
        let is_wanted = parts
            .iter()
            .zip(&names)
            .all(|((_, wanted), name)| wanted.as_ref().is_none_or(|wanted| wanted == name));
        if !is_wanted {
            continue;
        }
        let mut subject = Subject { names: Vec::new(), model: names[3].clone() };
        for ((part, _), name) in parts.iter().zip(&names).filter(|(_, name)| !name.is_empty()) {
            subject.names.push(scan.names.id(*part, name));
        }
        scan.subjects.insert(row.get(0)?, subject);
    }
    Ok(())
}

/// Counts the runs of steps. A run counts once for each name that occurs in the step or in one of
/// its attempts.
fn spans(
    connection: &Connection,
    since: Option<Timestamp>,
    buckets: Buckets,
    scan: &mut Scan,
) -> Result<(), rusqlite::Error> {
    let (mut traces, mut seen) = (FxHashSet::default(), FxHashSet::default());
    let mut outcomes: FxHashMap<i64, Outcome> = FxHashMap::default();
    let query = "SELECT id, trace, parent, kind, subject, start_us, status, attributes FROM spans";
    each(connection, query, "start_us", since, |row| {
        let id: i64 = row.get(0)?;
        let (step, is_step) = match text(row, 3)? {
            Some("step") => (id, true),
            Some("attempt") => (row.get::<_, Option<i64>>(2)?.unwrap_or(id), false),
            _ => (id, false),
        };
        if is_step {
            let outcome = Outcome::read(row)?;
            if outcome.is_mended {
                scan.mended.insert(id);
            }
            if outcome.is_notable() {
                outcomes.insert(id, outcome);
            }
        } else if scan.mended.contains(&step) {
            scan.mended.insert(id);
        }
        let Some(subject) = scan.subjects.get(&row.get(4)?) else { return Ok(()) };
        traces.insert(row.get::<_, i64>(1)?);
        if text(row, 3)? == Some("run") {
            return Ok(());
        }
        let bucket = buckets.of(row.get(5)?);
        let outcome = outcomes.get(&step).copied().unwrap_or_default();
        for name in subject.names.iter().copied().map(Some).chain([None]) {
            if seen.insert((step, name)) {
                *scan.runs.entry((name, bucket)).or_default() += 1;
                if outcome.is_failed {
                    *scan.failed.entry((name, bucket)).or_default() += 1;
                }
                if outcome.cost != Cost::default() {
                    *scan.costs.entry((name, bucket)).or_default() += outcome.cost;
                }
            }
        }
        Ok(())
    })?;
    scan.traces = traces.len() as u64;
    Ok(())
}

/// Result of a run of a step, from the row of its span.
#[derive(Clone, Copy, Default)]
struct Outcome {
    is_failed: bool,
    /// True if the run succeeded after a repair or a retry.
    is_mended: bool,
    cost: Cost,
}

impl Outcome {
    fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Written {
            mended: bool,
            requests: u64,
            tokens: u64,
            latency_ms: f64,
        }
        let is_failed = text(row, 6)? == Some("error");
        let written: Written =
            text(row, 7)?.and_then(|attributes| serde_json::from_str(attributes).ok()).unwrap_or_default();
        // A negative time, in a damaged database, becomes 0.
        let latency_ms = written.latency_ms.round() as u64;
        let cost = Cost { requests: written.requests, tokens: written.tokens, latency_ms };
        Ok(Self { is_failed, is_mended: written.mended && !is_failed, cost })
    }

    fn is_notable(&self) -> bool {
        self.is_failed || self.cost != Cost::default()
    }
}

fn events(
    connection: &Connection,
    since: Option<Timestamp>,
    buckets: Buckets,
    scan: &mut Scan,
) -> Result<(), rusqlite::Error> {
    // Lists of transforms as stored. Few of them differ, so each distinct list is parsed once.
    let mut lists: FxHashMap<String, u64> = FxHashMap::default();
    let query = "SELECT subject, name, at_us, stage, transforms, attributes, span FROM events";
    each(connection, query, "at_us", since, |row| {
        let subject = row.get(0)?;
        let Some(event) = text(row, 1)?.and_then(Event::of_name) else { return Ok(()) };
        if !scan.subjects.contains_key(&subject) {
            return Ok(());
        }
        // Changes of a step in shadow mode were not applied.
        if is_of_adaptation(event) && has(row, SHADOW)? {
            return Ok(());
        }
        let is_recovered =
            event == Event::OutputFail && (scan.mended.contains(&row.get(6)?) || has(row, RECOVERED)?);
        let stage = match event {
            Event::ReasoningValidation | Event::StepRepair => Some(scan.stages.id(&result(text(row, 5)?))),
            _ => text(row, 3)?.map(|stage| scan.stages.id(stage)),
        };
        let cell = Cell { subject, event, is_recovered, stage, bucket: buckets.of(row.get(2)?) };
        *scan.cells.entry(cell).or_default() += 1;
        if event == Event::OutputSuccess
            && let Some(list) = text(row, 4)?
        {
            match lists.get_mut(list) {
                Some(count) => *count += 1,
                None => drop(lists.insert(list.to_owned(), 1)),
            }
        }
        Ok(())
    })?;
    for (list, count) in lists {
        let transforms: Vec<String> = serde_json::from_str(&list).unwrap_or_default();
        for transform in transforms {
            *scan.transforms.entry(transform).or_default() += count;
        }
    }
    Ok(())
}

/// Text of an attribute in serialized attributes. It cannot occur inside a JSON string, because
/// quotes in strings are escaped.
const SHADOW: &str = "\"shadow\":true";
const RECOVERED: &str = "\"recovered\":true";

/// Reports whether the serialized attributes of an event contain the text `attribute`.
fn has(row: &Row<'_>, attribute: &str) -> Result<bool, rusqlite::Error> {
    Ok(text(row, 5)?.is_some_and(|attributes| attributes.contains(attribute)))
}

/// Reports whether an event is about the adaptation of an output.
const fn is_of_adaptation(event: Event) -> bool {
    matches!(
        event,
        Event::OutputAttempt
            | Event::OutputSuccess
            | Event::OutputFail
            | Event::SyntacticSuccess
            | Event::SyntacticSkip
            | Event::SyntacticFail
            | Event::CoercionSuccess
            | Event::CoercionSkip
            | Event::CoercionFail
    )
}

/// Returns the attribute `result` of a `reasoning.validation` or `step.repair` event, or an empty
/// string if it is missing.
fn result(attributes: Option<&str>) -> String {
    let attributes: Value = attributes.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    attributes.get("result").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Calls `see` for each row of `query` whose column `time` is not before `since`.
///
/// If `since` is `None`, the table is read in storage order, which is faster than reading an index.
fn each(
    connection: &Connection,
    query: &str,
    time: &str,
    since: Option<Timestamp>,
    mut see: impl FnMut(&Row<'_>) -> Result<(), rusqlite::Error>,
) -> Result<(), rusqlite::Error> {
    let (query, from) = match since {
        Some(since) => (format!("{query} WHERE {time} >= ?"), Some(SqlValue::from(since.0))),
        None => (query.to_owned(), None),
    };
    let mut statement = connection.prepare(&query)?;
    let mut rows = statement.query(rusqlite::params_from_iter(from))?;
    while let Some(row) = rows.next()? {
        see(row)?;
    }
    Ok(())
}

/// Returns the text in a column. Returns `None` if the value is NULL or, in a damaged database, not
/// a text.
fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<Option<&'a str>, rusqlite::Error> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) => Ok(std::str::from_utf8(bytes).ok()),
        _ => Ok(None),
    }
}
