//! Tests of trace databases with several processes. Commits must survive a kill, and several
//! processes must be able to write to one database.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use formwork_trace::health::{Health, HealthOptions};
use formwork_trace::{Event, SqliteOptions, SqliteSink, Status, Timestamp, Tracer};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

/// Environment variable with the path of the database, for the other process. [`RUNS`] has the
/// number of runs.
const DATABASE: &str = "FORMWORK_TRACES_TEST_DATABASE";
const RUNS: &str = "FORMWORK_TRACES_TEST_RUNS";

/// Body of the other processes. Without the environment variables, this test does nothing. It
/// prints a line after each committed run.
#[test]
fn the_other_process() {
    let Some(path) = std::env::var_os(DATABASE) else { return };
    let runs: u64 = std::env::var(RUNS).expect("runs").parse().expect("a number");
    let tracer = Tracer::default().with_sink(SqliteSink::open(path, SqliteOptions::default()).expect("open"));
    for number in 1..=runs {
        let run = tracer.run("work");
        for step in ["plan", "write"] {
            let step = run.step(step);
            let attempt = step.attempt(1);
            let attributes = json!({ "stage": "extract", "transforms": ["json.loads"], "number": number });
            attempt.event(Event::OutputSuccess, attributes.as_object().expect("an object").clone());
            attempt.end(Status::Ok);
            step.end(Status::Ok);
        }
        run.end(Status::Ok);
        tracer.flush().expect("committed");
        println!("\ncommitted {number}");
    }
}

struct Other {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(path: &Path, runs: u64) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["the_other_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(DATABASE, path)
            .env(RUNS, runs.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("another process");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        Self { process, lines }
    }

    /// Waits until `number` runs are committed.
    fn wait_for(&mut self, number: u64) {
        let wanted = format!("committed {number}");
        let found = self.lines.by_ref().any(|line| line.expect("a line") == wanted);
        assert!(found, "it ended before");
    }

    /// Waits until the process ends successfully.
    fn join(mut self) {
        self.lines.by_ref().for_each(|line| drop(line.expect("a line")));
        assert!(self.process.wait().expect("its end").success());
    }
}

fn number(path: &Path, query: &str) -> u64 {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a database");
    let count: i64 = connection.query_row(query, [], |row| row.get(0)).expect(query);
    count.unsigned_abs()
}

/// Checks that the database is intact and contains all records of each run that has ended. Returns
/// the number of such runs.
fn check_whole(path: &Path) -> u64 {
    let connection = Connection::open(path).expect("a database");
    let verdict: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a verdict");
    assert_eq!(verdict, "ok");
    let ended = number(path, "SELECT count(*) FROM spans WHERE kind = 'run' AND status = 'ok'");
    let whole = "SELECT count(*) FROM spans AS run WHERE kind = 'run' AND status = 'ok' \
                 AND 4 = (SELECT count(*) FROM spans WHERE trace = run.trace AND kind != 'run' AND status = 'ok') \
                 AND 2 = (SELECT count(*) FROM events WHERE span IN (SELECT id FROM spans WHERE trace = run.trace))";
    assert_eq!(number(path, whole), ended);
    ended
}

#[test]
fn committed_records_survive_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("traces.db");
    let mut committed = 0;
    // Kills the process in the middle of its runs, each time with a different log length, on the
    // same database.
    for kill_after in [1, 40, 333, 600] {
        // There are far more runs than needed, so that even a late kill interrupts them.
        let mut other = Other::start(&path, 1_000_000);
        other.wait_for(kill_after);
        other.process.kill().expect("killed");
        other.process.wait().expect("its end");
        let ended = check_whole(&path);
        committed += kill_after;
        assert!(ended >= committed, "{ended} of {committed}");
        // Runs committed after the last line that was read count, too.
        committed = ended;
        let health = Health::read(&path, &HealthOptions::at(Timestamp::now())).expect("a database");
        assert!(health.overall.runs >= 2 * committed && health.overall.coercions.successes >= 2 * committed);
    }
    // A new process can continue with the database.
    Other::start(&path, 10).join();
    assert_eq!(check_whole(&path), committed + 10);
}

#[test]
fn several_processes_write_to_one_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("traces.db");
    // All processes start without a database and try to create it.
    let others: Vec<_> = (0..4).map(|_| Other::start(&path, 100)).collect();
    others.into_iter().for_each(Other::join);
    assert_eq!(check_whole(&path), 400);
    assert_eq!(number(&path, "SELECT count(*) FROM events"), 800);
    assert_eq!(number(&path, "SELECT count(*) FROM traces"), 400);
    assert_eq!(number(&path, "SELECT count(*) FROM subjects"), 3);
    let health = Health::read(&path, &HealthOptions::at(Timestamp::now())).expect("a database");
    assert_eq!((health.traces, health.overall.runs, health.overall.per_100_runs()), (400, 800, Some(100.0)));
}
