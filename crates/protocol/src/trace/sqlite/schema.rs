//! What a database of traces looks like, and how one is opened.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::trace::TraceError;
use crate::trace::error::Kind;

/// Written in the file's header (`application_id`): `FWTR`.
const APPLICATION: i64 = 0x4657_5452;
/// The version of the tables (`user_version`).
pub(in crate::trace) const VERSION: i64 = 1;

/// Times are in microseconds since 1970-01-01 UTC. In `subjects`, what is not known is empty, so that each combination is there once.
/// `stage` and `transforms` are in `attributes` as well; they are columns so that counting reads no JSON.
const TABLES: &str = "
    CREATE TABLE traces (
        id INTEGER PRIMARY KEY,
        trace_id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        start_us INTEGER NOT NULL
    );
    CREATE TABLE subjects (
        id INTEGER PRIMARY KEY,
        run TEXT NOT NULL,
        step TEXT NOT NULL,
        agent TEXT NOT NULL,
        model TEXT NOT NULL,
        provider TEXT NOT NULL,
        UNIQUE (run, step, agent, model, provider)
    );
    CREATE TABLE spans (
        id INTEGER PRIMARY KEY,
        trace INTEGER NOT NULL REFERENCES traces (id),
        parent INTEGER REFERENCES spans (id),
        kind TEXT NOT NULL,
        subject INTEGER NOT NULL REFERENCES subjects (id),
        start_us INTEGER NOT NULL,
        end_us INTEGER,
        status TEXT NOT NULL,
        name TEXT NOT NULL,
        attributes TEXT
    );
    CREATE INDEX spans_by_start ON spans (start_us);
    CREATE INDEX spans_by_trace ON spans (trace);
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        span INTEGER NOT NULL REFERENCES spans (id),
        subject INTEGER NOT NULL REFERENCES subjects (id),
        at_us INTEGER NOT NULL,
        name TEXT NOT NULL,
        stage TEXT,
        transforms TEXT,
        attributes TEXT
    );
    CREATE INDEX events_by_time ON events (at_us);
    CREATE INDEX events_by_span ON events (span);
    CREATE TABLE correction_ledger (
        id INTEGER PRIMARY KEY,
        timestamp INTEGER NOT NULL,
        step_name TEXT,
        agent_id TEXT,
        provider_model TEXT,
        schema_hash TEXT,
        coercion_policy_version TEXT,
        stage TEXT NOT NULL,
        repair_depth INTEGER NOT NULL,
        transforms_applied TEXT NOT NULL,
        latency_ms_saved REAL
    );
";

/// Opens a database to write to it, and makes it if there is none.
pub(super) fn open(path: &Path, busy: Duration) -> Result<Connection, TraceError> {
    let fail = |error| TraceError::new(path, Kind::Open(error));
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(fail)?;
    connection.busy_timeout(busy).map_err(fail)?;
    // Before anything is changed: it may be somebody else's.
    let is_new = version_at_once(&connection).map_err(|kind| TraceError::new(path, kind))?.is_none();
    write_ahead(&connection, busy).map_err(fail)?;
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(fail)?;
    if is_new {
        create(&mut connection).map_err(|kind| TraceError::new(path, kind))?;
    }
    Ok(connection)
}

/// Opens a database to read it; none where nothing was written yet.
pub(in crate::trace) fn open_to_read(path: &Path, busy: Duration) -> Result<Option<Connection>, TraceError> {
    if !path.exists() {
        return Err(TraceError::new(path, Kind::Missing));
    }
    let fail = |error| TraceError::new(path, Kind::Open(error));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(fail)?;
    connection.busy_timeout(busy).map_err(fail)?;
    let version = version_at_once(&connection).map_err(|kind| TraceError::new(path, kind))?;
    Ok(version.map(|_| connection))
}

/// A database without any records.
pub(in crate::trace) fn nothing() -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(TABLES)?;
    Ok(connection)
}

/// [`version`] at one point in time: another process may be making the tables.
fn version_at_once(connection: &Connection) -> Result<Option<i64>, Kind> {
    version(&*connection.unchecked_transaction().map_err(Kind::Open)?)
}

/// The version of a database's tables; `None` of one that has nothing in it. In a transaction.
fn version(connection: &Connection) -> Result<Option<i64>, Kind> {
    let number = |query| connection.query_row(query, [], |row| row.get::<_, i64>(0)).map_err(Kind::Open);
    let application = number("PRAGMA application_id")?;
    if application == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(None);
    }
    if application != APPLICATION {
        return Err(Kind::Foreign);
    }
    match number("PRAGMA user_version")? {
        given if given > VERSION => Err(Kind::Newer { given, known: VERSION }),
        given => Ok(Some(given)),
    }
}

/// A log written ahead: readers and a writer are not in each other's way, and a commit outlasts its process. While another process
/// does the same `SQLite` may refuse at once instead of waiting, so this waits itself.
fn write_ahead(connection: &Connection, busy: Duration) -> Result<(), rusqlite::Error> {
    let start = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && start.elapsed() < busy =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// Makes the tables, unless another process has made them by now.
fn create(connection: &mut Connection) -> Result<(), Kind> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(Kind::Open)?;
    if version(&transaction)?.is_none() {
        transaction.execute_batch(TABLES).map_err(Kind::Open)?;
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(Kind::Open)?;
        transaction.pragma_update(None, "user_version", VERSION).map_err(Kind::Open)?;
    }
    transaction.commit().map_err(Kind::Open)
}
