use std::sync::Arc;

use rusqlite::Connection;
use serde_json::json;

use super::*;
use crate::Attributes;
use crate::tests::{attributes, ticking};
use crate::{Correction, Event, Span, Status, Timestamp, Tracer};

fn path(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("traces.db")
}

fn tracer(path: &Path, options: SqliteOptions) -> Tracer {
    Tracer::default().with_sink(SqliteSink::open(path, options).expect("a database"))
}

/// Returns every row of `query` as a text, with bars between the columns.
fn rows(path: &Path, query: &str) -> Vec<String> {
    let connection = Connection::open(path).expect("a database");
    let mut statement = connection.prepare(query).expect("a query");
    let count = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        let columns = (0..count).map(|at| match row.get_ref(at)? {
            rusqlite::types::ValueRef::Null => Ok("-".to_owned()),
            rusqlite::types::ValueRef::Integer(number) => Ok(number.to_string()),
            rusqlite::types::ValueRef::Real(number) => Ok(number.to_string()),
            other => Ok(other.as_str()?.to_owned()),
        });
        Ok(columns.collect::<Result<Vec<_>, rusqlite::Error>>()?.join("|"))
    };
    statement.query_map([], row).expect("rows").map(|row| row.expect("a row")).collect()
}

fn help(span: &Span) {
    let success = json!({ "stage": "semantic", "transforms": ["str->int"], "branch_index": 1 });
    span.event(Event::OutputSuccess, attributes(success));
}

#[test]
fn writes_records_as_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path(&folder);
    let sink = Arc::new(SqliteSink::open(&path, SqliteOptions::default()).expect("a database"));
    let tracer = Tracer::default().with_sink(Arc::clone(&sink)).with_clock(ticking());
    let run = tracer.run("support");
    let step = run.step("answer");
    step.set_agent("writer");
    let attempt = step.attempt(1);
    help(&attempt);
    attempt.set_model("small");
    attempt.event(Event::SoeSkipped, Attributes::new());
    attempt.end(Status::Ok);
    step.set("temperature", 0.5);
    step.end(Status::Error);
    tracer.flush().expect("written");
    let spans = "SELECT spans.id, parent, kind, spans.name, step, agent, model, start_us, end_us, status, attributes \
                 FROM spans JOIN subjects ON subjects.id = subject ORDER BY spans.id";
    assert_eq!(
        rows(&path, spans),
        [
            "1|-|run|support||||1000000|-|open|-",
            "2|1|step|answer|answer|writer||1000001|1000006|error|{\"temperature\":0.5}",
            "3|2|attempt|attempt 1|answer|writer|small|1000002|1000005|ok|-",
        ]
    );
    let events = "SELECT span, at_us, name, model, stage, transforms, attributes \
                  FROM events JOIN subjects ON subjects.id = subject ORDER BY events.id";
    assert_eq!(
        rows(&path, events),
        [
            "3|1000003|output.coercion.success||semantic|[\"str->int\"]|\
             {\"stage\":\"semantic\",\"transforms\":[\"str->int\"],\"branch_index\":1}",
            "3|1000004|aros.soe.skipped|small|-|-|-",
        ]
    );
    let id = run.run_id();
    run.end(Status::Ok);
    tracer.flush().expect("written");
    assert_eq!(rows(&path, "SELECT trace_id, name FROM traces"), [format!("{id}|support")]);
    assert_eq!(rows(&path, "SELECT status, end_us FROM spans WHERE id = 1"), ["ok|1000007"]);
    assert_eq!((sink.lost(), sink.path()), (0, path.as_path()));
}

#[test]
fn writes_the_ledger_only_if_enabled() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path(&folder);
    for correction_ledger in [false, true] {
        let options = SqliteOptions { correction_ledger, ..SqliteOptions::default() };
        let tracer = tracer(&path, options).with_clock(|| Timestamp(7));
        let step = tracer.run("support").step("answer");
        step.set_agent("writer");
        step.set_model("small");
        step.correction(Correction {
            schema_hash: Some("ab".to_owned()),
            coercion_policy_version: Some("1".to_owned()),
            stage: "semantic".to_owned(),
            repair_depth: 2,
            transforms_applied: vec!["str->int".to_owned(), "str->bool".to_owned()],
            latency_ms_saved: Some(1.5),
        });
        tracer.flush().expect("written");
    }
    assert_eq!(
        rows(&path, "SELECT * FROM correction_ledger"),
        ["1|7|answer|writer|small|ab|1|semantic|2|[\"str->int\",\"str->bool\"]|1.5"]
    );
}

#[test]
fn dropping_the_sink_commits_all_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path(&folder);
    // Without the drop, the commit would wait for an hour.
    let options = SqliteOptions { interval: Duration::from_secs(3600), ..SqliteOptions::default() };
    let tracer = tracer(&path, options);
    let run = tracer.run("r");
    drop(tracer);
    help(&run);
    let still_open = rows(&path, "SELECT count(*) FROM sqlite_schema");
    assert_ne!(still_open, ["0"]);
    drop(run);
    assert_eq!(rows(&path, "SELECT status FROM spans"), ["cancelled"]);
    assert_eq!(rows(&path, "SELECT count(*) FROM events"), ["1"]);
}

#[test]
fn a_full_queue_blocks_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path(&folder);
    let options = SqliteOptions { queue: 1, batch: 3, ..SqliteOptions::default() };
    let tracer = tracer(&path, options);
    let runs: Vec<_> = (0..4)
        .map(|_| {
            let tracer = tracer.clone();
            std::thread::spawn(move || {
                let run = tracer.run("r");
                (0..200).for_each(|_| help(&run));
            })
        })
        .collect();
    for run in runs {
        run.join().expect("no panic");
    }
    tracer.flush().expect("written");
    assert_eq!(rows(&path, "SELECT count(*) FROM events"), ["800"]);
    assert_eq!(rows(&path, "SELECT count(*) FROM spans WHERE status = 'cancelled'"), ["4"]);
}

#[test]
fn reports_failed_writes_and_continues() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path(&folder);
    let options = SqliteOptions { busy: Duration::from_millis(1), ..SqliteOptions::default() };
    let sink = Arc::new(SqliteSink::open(&path, options).expect("a database"));
    let tracer = Tracer::default().with_sink(Arc::clone(&sink));
    let other = Connection::open(&path).expect("a database");
    other.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
    let run = tracer.run("r");
    let step = run.step("s");
    let error = tracer.flush().expect_err("another writes");
    assert!(error.to_string().ends_with("traces.db: 2 records were lost: database is locked"), "{error}");
    assert_eq!((sink.lost(), error.path()), (2, path.as_path()));
    other.execute_batch("COMMIT").expect("the end of it");
    tracer.flush().expect("it was told");
    help(&step);
    step.end(Status::Ok);
    run.end(Status::Ok);
    tracer.flush().expect("written");
    assert_eq!(rows(&path, "SELECT kind, status FROM spans ORDER BY kind"), ["run|ok", "step|ok"]);
    assert_eq!(rows(&path, "SELECT count(*) FROM events"), ["1"]);
}

#[test]
fn leaves_foreign_and_newer_databases_unchanged() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |path: &Path| SqliteSink::open(path, SqliteOptions::default());
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).expect("a database").execute_batch("CREATE TABLE t (x)").expect("a table");
    let error = open(&foreign).expect_err("no traces");
    assert!(error.to_string().ends_with("foreign.db: not a trace database"), "{error}");
    assert_eq!(rows(&foreign, "PRAGMA journal_mode"), ["delete"]);
    let text = folder.path().join("text.db");
    std::fs::write(
        &text,
        "this is a text, and a long one, so that it is as long as a header of a database would be",
    )
    .expect("a file");
    let error = open(&text).expect_err("no database");
    assert!(error.to_string().ends_with("text.db: not an SQLite database"), "{error}");
    assert!(schema::open_to_read(&text, Duration::ZERO).is_err());
    let newer = path(&folder);
    drop(open(&newer).expect("a database"));
    Connection::open(&newer)
        .expect("a database")
        .execute_batch("PRAGMA user_version = 2")
        .expect("a version");
    let error = open(&newer).expect_err("a newer version");
    assert!(error.is_newer() && !error.is_missing());
    assert!(
        error.to_string().contains("created by a newer version (format 2; supported up to 1)"),
        "{error}"
    );
    let nowhere = folder.path().join("no/such/folder.db");
    assert!(
        open(&nowhere).expect_err("no folder").to_string().contains("folder.db: cannot open the database: ")
    );
}

#[test]
fn writer_and_reader_do_not_block_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path(&folder);
    let tracer = tracer(&path, SqliteOptions { busy: Duration::ZERO, ..SqliteOptions::default() });
    tracer.run("r").end(Status::Ok);
    tracer.flush().expect("written");
    let reader = schema::open_to_read(&path, Duration::ZERO).expect("a database").expect("tables");
    let count = |connection: &Connection| {
        connection.query_row("SELECT count(*) FROM spans", [], |row| row.get::<_, i64>(0)).expect("a count")
    };
    let moment = reader.unchecked_transaction().expect("a moment");
    assert_eq!(count(&moment), 1);
    tracer.run("r").end(Status::Ok);
    tracer.flush().expect("written");
    assert_eq!(count(&moment), 1);
    drop(moment);
    assert_eq!(count(&reader), 2);
}
