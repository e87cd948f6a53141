//! Speed of writing traces and of computing health reports from them.
//!
//! ```sh
//! cargo bench -p formwork-benches --bench traces -- [--events N]
//! ```
//!
//! Writes runs with two steps, three attempts and eight events each to a database in a temporary
//! folder, N events in total (by default a million). Then reads the database as
//! `formwork health-check` does: once over all events with trends, and once over the last tenth of
//! the time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use formwork_trace::health::{Health, HealthOptions};
use formwork_trace::{Event, Span, SqliteOptions, SqliteSink, Status, Timestamp, Tracer};
use serde_json::{Map, Value, json};

/// Events of a run.
const EVENTS: u64 = 8;

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> Result<()> {
    let mut events = 1_000_000;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {}
            "--events" => events = arguments.next().context("--events has a number")?.parse()?,
            _ => bail!("unknown argument `{argument}`"),
        }
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("traces.db");
    let tracer = Tracer::default().with_sink(SqliteSink::open(&path, SqliteOptions::default())?);
    let began = Instant::now();
    (0..events / EVENTS).for_each(|number| run(&tracer, number));
    tracer.flush()?;
    let written = began.elapsed();
    // Closes the database, which moves the write-ahead log into the database file.
    drop(tracer);
    let bytes = std::fs::metadata(&path)?.len();
    let rate = events as f64 / written.as_secs_f64();
    println!(
        "{events} events written in {:.2} s, {rate:.0} a second, {} MiB",
        written.as_secs_f64(),
        bytes >> 20
    );
    let now = Timestamp::now();
    let everything = HealthOptions { buckets: 12, ..HealthOptions::at(now) };
    let tenth = began.elapsed() / 10;
    let last_tenth = HealthOptions { since: Some(tenth), ..HealthOptions::at(now) };
    for (name, options) in [("everything, 12 buckets", everything), ("last tenth of the time", last_tenth)] {
        let times: Vec<_> = (0..5).map(|_| look(&path, &options)).collect::<Result<_>>()?;
        let best = times.iter().min().context("some times")?;
        println!("{name}: {:.3} s, the fastest of {}", best.as_secs_f64(), times.len());
    }
    Ok(())
}

fn look(path: &std::path::Path, options: &HealthOptions) -> Result<Duration> {
    let began = Instant::now();
    let health = Health::read(path, options)?;
    let taken = began.elapsed();
    assert!(health.overall.runs > 0, "nothing was found");
    Ok(taken)
}

/// Records a run of one of eight pipelines, with varying steps and models.
fn run(tracer: &Tracer, number: u64) {
    let run = tracer.run(format!("pipeline {}", number % 8));
    run.set_agent("writer");
    let plan = run.step("plan");
    attempt(&plan, 1, number, |attempt| {
        attempt.event(Event::PrecheckPass, attributes(json!({ "score": 0.9 })));
        attempt.event(Event::SoeSkipped, attributes(json!({ "reason": "not supported by the backend" })));
    });
    plan.end(Status::Ok);
    let write = run.step(format!("write {}", number % 20));
    attempt(&write, 1, number, |attempt| {
        let mode = json!({ "mode": "json", "schema_hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" });
        attempt.event(Event::GrammarApplied, attributes(mode));
        let stage = json!({ "stage": "extract", "error_preview": "$: expected an object, and found text without JSON" });
        attempt.event(Event::OutputFail, attributes(stage));
    });
    attempt(&write, 2, number + 1, |attempt| {
        for (stage, transforms) in
            [("extract", vec!["json.loads"]), ("semantic", vec!["str->int", "str->bool"])]
        {
            let reason =
                json!({ "stage": stage, "reason": "it does not fit the schema", "expected_type": "integer" });
            attempt.event(Event::OutputAttempt, attributes(reason));
            attempt
                .event(Event::OutputSuccess, attributes(json!({ "stage": stage, "transforms": transforms })));
        }
    });
    write.end(Status::Ok);
    run.end(Status::Ok);
}

fn attempt(step: &Span, number: u32, model: u64, happens: impl Fn(&Span)) {
    let attempt = step.attempt(number);
    attempt.set_model(format!("model {}", model % 5));
    happens(&attempt);
    attempt.end(Status::Ok);
}

fn attributes(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(attributes) => attributes,
        _ => Map::new(),
    }
}
