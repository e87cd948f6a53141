//! Tables of a trace database, and functions that open a database.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::TraceError;
use crate::error::Kind;

/// `application_id` in the header of the file: the bytes `FWTR`.
const APPLICATION: i64 = 0x4657_5452;
/// Version of the tables, stored as `user_version` in the header of the file.
pub(crate) const VERSION: i64 = 1;

/// Definitions of the tables.
///
/// Times are in microseconds since 1970-01-01 UTC. In `subjects`, an unknown value is an empty
/// string instead of NULL, so that the uniqueness constraint applies.
///
/// In `events`, the columns `stage` and `transforms` repeat values of `attributes`, so that
/// counting need not parse JSON.
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

/// Opens a database for writing, or creates it. `busy` is the maximum time to wait for a lock.
pub(super) fn open(path: &Path, busy: Duration) -> Result<Connection, TraceError> {
    let fail = |error| TraceError::new(path, Kind::Open(error));
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(fail)?;
    connection.busy_timeout(busy).map_err(fail)?;
    // Check the version before changing anything, since the database may belong to another program.
    let is_new = version_at_once(&connection).map_err(|kind| TraceError::new(path, kind))?.is_none();
    write_ahead(&connection, busy).map_err(fail)?;
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(fail)?;
    if is_new {
        create(&mut connection).map_err(|kind| TraceError::new(path, kind))?;
    }
    Ok(connection)
}

/// Opens a database for reading. Returns `None` if the database has no tables yet.
pub(crate) fn open_to_read(path: &Path, busy: Duration) -> Result<Option<Connection>, TraceError> {
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

/// Creates a trace database in memory, without records.
pub(crate) fn nothing() -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(TABLES)?;
    Ok(connection)
}

/// Calls [`version`] in a transaction, because another process may be creating the tables.
fn version_at_once(connection: &Connection) -> Result<Option<i64>, Kind> {
    version(&*connection.unchecked_transaction().map_err(Kind::Open)?)
}

/// Returns the version of the tables, or `None` if the database has no tables. Must be called in a
/// transaction.
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

/// Enables write-ahead logging, so that readers and the writer do not block each other.
///
/// A committed transaction survives the end of the process. While another process changes the
/// journal mode, `SQLite` may report a busy database at once instead of waiting. This function
/// therefore retries for up to `busy`.
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

/// Creates the tables, unless another process has created them since the version was read.
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
