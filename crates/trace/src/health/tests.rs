use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Attributes;
use crate::tests::attributes;
use crate::{Event, MemorySink, Record, Span, SpanKind, SqliteOptions, SqliteSink, Status, Tracer};

const HOUR: i64 = 3_600_000_000;
/// 2026-01-01T00:00:00Z, in microseconds since 1970.
const START: i64 = 1_767_225_600_000_000;

/// Trace database with a tracer whose clock the test sets.
struct World {
    folder: tempfile::TempDir,
    tracer: Tracer,
    memory: MemorySink,
    now: Arc<AtomicI64>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let sink =
            SqliteSink::open(folder.path().join("traces.db"), SqliteOptions::default()).expect("a database");
        let (memory, now) = (MemorySink::default(), Arc::new(AtomicI64::new(START)));
        let clock = Arc::clone(&now);
        let tracer = Tracer::default()
            .with_sink(sink)
            .with_sink(memory.clone())
            .with_clock(move || Timestamp(clock.load(Ordering::Relaxed)));
        Self { folder, tracer, memory, now }
    }

    fn set(&self, hours: i64) {
        self.now.store(START + hours * HOUR, Ordering::Relaxed);
    }

    /// Records a run with one attempt at the step `step` by `model`. Calls `happens` inside the
    /// attempt.
    fn step(&self, step: &str, model: &str, happens: impl Fn(&Span)) {
        let run = self.tracer.run("support");
        run.set_agent("writer");
        let step = run.step(step);
        let attempt = step.attempt(1);
        attempt.set_model(model);
        happens(&attempt);
        attempt.end(Status::Ok);
        step.end(Status::Ok);
        run.end(Status::Ok);
    }

    fn health(&self, options: HealthOptions) -> Health {
        self.tracer.flush().expect("written");
        let now = Timestamp(self.now.load(Ordering::Relaxed));
        let path = self.folder.path().join("traces.db");
        Health::read(&path, &HealthOptions { now, ..options }).expect("a database")
    }
}

fn success(span: &Span, stage: &str, transforms: &[&str]) {
    span.event(Event::OutputAttempt, attributes(json!({ "stage": stage, "expected_type": "integer" })));
    span.event(Event::OutputSuccess, attributes(json!({ "stage": stage, "transforms": transforms })));
}

/// Records two models and three steps over six hours. The rate of `plan` rises, and `chat` needs no
/// corrections.
fn example() -> World {
    let world = World::new();
    for hour in 0..6 {
        world.set(hour);
        for number in 0..10 {
            world.step("chat", "large", |attempt| attempt.event(Event::SoeEnabled, Attributes::new()));
            world.step("plan", "small", |attempt| {
                attempt.event(Event::SoeSkipped, attributes(json!({ "reason": "not supported" })));
                if number < hour {
                    success(attempt, "tolerant", &["json5"]);
                }
                if number == 0 {
                    attempt.event(Event::OutputFail, attributes(json!({ "stage": "semantic" })));
                    attempt.event(Event::PrecheckFail, attributes(json!({ "score": 0.2 })));
                } else {
                    attempt.event(Event::PrecheckPass, Attributes::new());
                }
            });
        }
        world.step("write", "small", |attempt| {
            success(attempt, "extract", &["json.loads"]);
            success(attempt, "semantic", &["str->int", "str->bool"]);
            attempt.event(Event::ReasoningValidation, attributes(json!({ "result": "pass", "score": 1 })));
            attempt.event(Event::ReasoningValidation, attributes(json!({ "result": "fail" })));
            attempt.event("of.our.own", Attributes::new());
        });
    }
    world
}

fn names(named: &[Named]) -> Vec<(&str, u64, u64)> {
    let of = |named: &'_ Named| (named.tally.runs, named.tally.coercions.successes);
    named.iter().map(|named| (named.name.as_str(), of(named).0, of(named).1)).collect()
}

#[test]
fn sorts_by_the_number_of_coercions() {
    let health = example().health(HealthOptions::default());
    assert_eq!(names(&health.steps), [("write", 6, 12), ("plan", 60, 15), ("chat", 60, 0)]);
    assert_eq!(names(&health.models), [("small", 66, 27), ("large", 60, 0)]);
    assert_eq!(names(&health.agents), [("writer", 126, 27)]);
    assert_eq!(names(&health.pipelines), [("support", 126, 27)]);
    assert_eq!((health.traces, health.overall.runs), (126, 126));
    assert_eq!(health.steps[1].tally.per_100_runs(), Some(25.0));
    let counts: Vec<_> = health.transforms.iter().map(|count| (count.name.as_str(), count.count)).collect();
    assert_eq!(counts, [("json5", 15), ("json.loads", 6), ("str->bool", 6), ("str->int", 6)]);
    assert_eq!(health.soe_skips, [Count { name: "small".to_owned(), count: 60 }]);
    assert_eq!(health.models[1].tally.soe, Soe { enabled: 60, skipped: 0, applied: 0 });
    let plan = &health.steps[1].tally;
    assert_eq!(
        (plan.precheck, plan.precheck.failure_rate()),
        (Precheck { pass: 54, fail: 6, skipped: 0 }, Some(0.1))
    );
    let stages = |tally: &Tally| -> Vec<_> {
        let of = |(stage, coercions): (&String, &Coercions)| {
            (stage.clone(), coercions.successes, coercions.failures)
        };
        tally.stages.iter().map(of).collect()
    };
    assert_eq!(stages(plan), [("semantic".to_owned(), 0, 6), ("tolerant".to_owned(), 15, 0)]);
    let small = [("extract".to_owned(), 6, 0), ("semantic".to_owned(), 6, 6), ("tolerant".to_owned(), 15, 0)];
    assert_eq!(stages(&health.models[0].tally), small);
    assert_eq!(health.overall.validation, Validation { pass: 6, fail: 6 });
    assert_eq!(
        health.overall.coercions,
        Coercions { attempts: 27, successes: 27, failures: 6, recovered: 0 }
    );
    assert_eq!(health.window.from.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!((health.generated_at.as_str(), health.version), ("2026-01-01T05:00:00Z", 1));
    assert!(health.trends.is_empty());
}

#[test]
fn a_window_includes_records_since_its_start() {
    let world = example();
    let since = |hours: u64| HealthOptions {
        since: Some(Duration::from_secs(hours * 3600)),
        ..HealthOptions::default()
    };
    // Records exactly at the start of the window are included.
    let health = world.health(since(1));
    assert_eq!(names(&health.steps), [("write", 2, 4), ("plan", 20, 9), ("chat", 20, 0)]);
    assert_eq!((health.traces, health.window.since_hours), (42, Some(1.0)));
    assert_eq!(health.window.from.as_deref(), Some("2026-01-01T04:00:00Z"));
    assert_eq!(health.window.until.as_deref(), Some("2026-01-01T05:00:00Z"));
    assert_eq!(world.health(since(100)).overall, world.health(HealthOptions::default()).overall);
    world.set(100);
    let nothing = world.health(HealthOptions { buckets: 2, ..since(1) });
    assert_eq!((nothing.traces, &nothing.overall, nothing.steps.len()), (0, &Tally::default(), 0));
    assert_eq!(nothing.trends.len(), 2);
    assert_eq!(nothing.trends[1].until, "2026-01-05T04:00:00Z");
    assert!(nothing.recommendations[0].text.starts_with("no records match"));
}

#[test]
fn trends_count_by_bucket_step_model_and_stage() {
    let world = example();
    // Records exactly at the end of the window are in the last bucket.
    let options =
        HealthOptions { since: Some(Duration::from_secs(6 * 3600)), buckets: 3, ..HealthOptions::default() };
    let health = world.health(options.clone());
    let bounds: Vec<_> =
        health.trends.iter().map(|bucket| (&bucket.from[11..13], &bucket.until[11..13])).collect();
    assert_eq!(bounds, [("23", "01"), ("01", "03"), ("03", "05")]);
    let plan: Vec<_> = health.trends.iter().map(|bucket| &bucket.steps["plan"]).collect();
    let counts: Vec<_> = plan.iter().map(|tally| (tally.runs, tally.coercions.successes)).collect();
    assert_eq!(counts, [(10, 0), (20, 3), (30, 12)]);
    assert_eq!(plan[2].stages["tolerant"].successes, 12);
    let small = &health.trends[2].models["small"];
    assert_eq!((small.runs, small.stages["extract"].successes, small.coercions.successes), (33, 3, 18));
    assert_eq!(health.trends[2].tally.coercions.successes, 18);
    let whole: u64 = health.trends.iter().map(|bucket| bucket.tally.coercions.successes).sum();
    assert_eq!(whole, health.overall.coercions.successes);
    // Without `since`, the window is from the first record to the last.
    let health = world.health(HealthOptions { since: None, buckets: 6, ..options });
    let runs: Vec<_> = health.trends.iter().map(|bucket| bucket.tally.runs).collect();
    assert_eq!(runs, [21; 6]);
}

#[test]
fn filters_exclude_all_other_records() {
    let world = example();
    let some = |name: &str| Some(name.to_owned());
    let health = world.health(HealthOptions { step: some("plan"), ..HealthOptions::default() });
    assert_eq!(names(&health.steps), [("plan", 60, 15)]);
    assert_eq!(names(&health.models), [("small", 60, 15)]);
    assert_eq!((health.filters.step.as_deref(), health.traces), (Some("plan"), 60));
    assert_eq!(health.transforms.len(), 1);
    // The step gets its model from its attempts.
    let health = world.health(HealthOptions { model: some("small"), buckets: 2, ..HealthOptions::default() });
    assert_eq!(names(&health.steps), [("write", 6, 12), ("plan", 60, 15)]);
    assert_eq!(health.trends.iter().map(|bucket| bucket.tally.runs).sum::<u64>(), 66);
    let health =
        world.health(HealthOptions { model: some("large"), step: some("plan"), ..HealthOptions::default() });
    assert_eq!((health.overall, health.traces), (Tally::default(), 0));
    let pipeline =
        HealthOptions { pipeline: some("support"), agent: some("writer"), ..HealthOptions::default() };
    assert_eq!(world.health(pipeline).overall.runs, 126);
    let nobody = HealthOptions { pipeline: some("other"), ..HealthOptions::default() };
    assert_eq!(world.health(nobody).overall, Tally::default());
}

#[test]
fn counts_a_step_with_several_attempts_once() {
    let world = World::new();
    let run = world.tracer.run("r");
    let step = run.step("s");
    for (number, model) in [(1, "small"), (2, "small"), (3, "large")] {
        let attempt = step.attempt(number);
        attempt.set_model(model);
        success(&attempt, "extract", &[]);
    }
    // Events outside of steps belong to no step.
    success(&run, "custom", &["own"]);
    let health = world.health(HealthOptions::default());
    assert_eq!(names(&health.steps), [("s", 1, 3)]);
    assert_eq!(names(&health.models), [("small", 1, 2), ("large", 1, 1)]);
    assert_eq!((health.overall.runs, health.overall.coercions.successes), (1, 4));
}

/// Basis, step, model and stage of a recommendation.
type About<'a> = (Advice, Option<&'a str>, Option<&'a str>, Option<&'a str>);

fn advice(health: &Health) -> Vec<About<'_>> {
    let all = health.recommendations.iter();
    all.map(|of| (of.kind, of.step.as_deref(), of.model.as_deref(), of.stage.as_deref())).collect()
}

#[test]
fn gives_basic_targeted_stage_and_trend_advice() {
    let world = example();
    let health = world.health(HealthOptions { buckets: 6, ..HealthOptions::default() });
    assert_eq!(
        advice(&health),
        [
            (Advice::Basic, None, None, None),
            (Advice::Basic, None, None, None),
            (Advice::Targeted, Some("write"), None, None),
            (Advice::Targeted, None, Some("small"), None),
            (Advice::Targeted, None, Some("small"), None),
            (Advice::Stage, None, None, Some("tolerant")),
            (Advice::Trend, Some("plan"), None, None),
            (Advice::Trend, None, Some("small"), None),
            (Advice::Trend, None, None, Some("tolerant")),
        ]
    );
    let texts: Vec<_> = health.recommendations.iter().map(|advice| advice.text.as_str()).collect();
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn each_stage_has_its_own_advice() {
    for stage in ["extract", "tolerant", "syntactic", "semantic", "custom"] {
        let world = World::new();
        (0..3).for_each(|_| world.step("s", "m", |attempt| success(attempt, stage, &[])));
        let health = world.health(HealthOptions::default());
        let of_stage: Vec<_> =
            health.recommendations.iter().filter(|advice| advice.kind == Advice::Stage).collect();
        assert_eq!((of_stage.len(), of_stage[0].stage.as_deref()), (1, Some(stage)));
    }
}

#[test]
fn recommends_changes_for_failing_prechecks() {
    let world = World::new();
    for result in [Event::PrecheckFail, Event::PrecheckPass, Event::PrecheckSkipped] {
        world.step("s", "m", |attempt| attempt.event(result, Attributes::new()));
    }
    let health = world.health(HealthOptions::default());
    assert_eq!(health.overall.precheck.failure_rate(), Some(0.5));
    let kinds = [(Advice::Basic, None, None, None), (Advice::Targeted, Some("s"), None, None)];
    assert_eq!(advice(&health), kinds);
    assert_eq!(
        health.recommendations[1].text,
        "step `s` fails 50% of its prechecks: check which information their feedback requests"
    );
}

#[test]
fn recommends_nothing_if_all_is_well() {
    let world = World::new();
    world.step("s", "m", |attempt| attempt.event(Event::SoeEnabled, Attributes::new()));
    let health = world.health(HealthOptions { buckets: 4, ..HealthOptions::default() });
    assert_eq!(health.recommendations[0].text, "nothing to do");
    assert_eq!(health.steps[0].tally.per_100_runs(), Some(0.0));
}

#[test]
fn empty_databases_are_healthy_and_missing_ones_are_errors() {
    let health = World::new().health(HealthOptions { buckets: 3, ..HealthOptions::default() });
    assert_eq!((health.traces, health.window.from, health.trends.len()), (0, None, 0));
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.db");
    std::fs::write(&empty, "").expect("a file");
    let options =
        HealthOptions { since: Some(Duration::from_secs(60)), ..HealthOptions::at(Timestamp(START)) };
    let health = Health::read(&empty, &options).expect("nothing is fine");
    assert_eq!(
        (health.overall, health.window.from.as_deref()),
        (Tally::default(), Some("2025-12-31T23:59:00Z"))
    );
    assert_eq!(std::fs::read(&empty).expect("a file"), b"", "reading changes nothing");
    let missing = folder.path().join("missing.db");
    let error = Health::read(&missing, &options).expect_err("no file");
    assert!(error.is_missing() && error.to_string().ends_with("missing.db: no such file"), "{error}");
    assert!(!missing.exists());
}

#[test]
fn rejects_newer_databases() {
    let world = World::new();
    world.health(HealthOptions::default());
    let path = world.folder.path().join("traces.db");
    Connection::open(&path).expect("a database").execute_batch("PRAGMA user_version = 9").expect("a version");
    let error = Health::read(&path, &HealthOptions::default()).expect_err("a newer version");
    assert!(error.is_newer() && error.to_string().contains("format 9;"), "{error}");
}

#[test]
fn health_serializes_as_versioned_json() {
    let world = World::new();
    world.step("s", "m", |attempt| success(attempt, "extract", &["json.loads"]));
    let options =
        HealthOptions { since: Some(Duration::from_secs(90)), buckets: 1, ..HealthOptions::default() };
    insta::assert_snapshot!(serde_json::to_string_pretty(&world.health(options)).expect("JSON"));
}

#[test]
fn health_serializes_as_csv() {
    let world = World::new();
    world.step("s, \"t\"", "m", |attempt| success(attempt, "extract", &["json.loads"]));
    insta::assert_snapshot!(
        world.health(HealthOptions { buckets: 1, ..HealthOptions::default() }).to_csv().replace("\r\n", "\n")
    );
}

#[test]
fn csv_cells_are_never_formulas() {
    let world = World::new();
    for (step, cell) in [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "\"'\r=1\""),
        ("=1,\"2\"", "\"'=1,\"\"2\"\"\""),
        ("a=1", "a=1"),
    ] {
        world.step(step, "m", |attempt| success(attempt, "=stage", &["-transform"]));
        let csv = world.health(HealthOptions::default()).to_csv();
        let line = format!("\r\nstep,{cell},,,coercions,1\r\n");
        assert!(csv.contains(&line), "{csv:?}");
        assert!(csv.contains(&format!("\r\nstep,{cell},,'=stage,coercions,1\r\n")), "{csv:?}");
    }
    let csv = world.health(HealthOptions::default()).to_csv();
    assert!(csv.contains("\r\ntransform,'-transform,,,count,8\r\n"), "{csv:?}");
}

#[test]
fn does_not_count_recovered_failures() {
    let world = World::new();
    world.step("s", "m", |attempt| {
        let fail = json!({ "stage": "extract", "error_preview": "no", "recovered": true });
        attempt.event(Event::OutputAttempt, attributes(json!({ "stage": "extract" })));
        attempt.event(Event::OutputFail, attributes(fail));
        success(attempt, "syntactic", &["close"]);
    });
    world.step("s", "m", |attempt| {
        attempt.event(
            Event::OutputFail,
            attributes(json!({ "stage": "semantic", "error_preview": "\"recovered\":true" })),
        );
    });
    let health = world.health(HealthOptions::default());
    let stages = &health.steps[0].tally.stages;
    assert_eq!((stages["extract"].failures, stages["extract"].recovered), (0, 1));
    assert_eq!((stages["semantic"].failures, stages["semantic"].recovered), (1, 0));
    let overall = Coercions { attempts: 2, successes: 1, failures: 1, recovered: 1 };
    assert_eq!(health.overall.coercions, overall);
    let csv = health.to_csv();
    assert!(csv.contains("\r\nstep,s,,extract,coercion_recovered,1\r\n"), "{csv}");
}

#[test]
fn ignores_events_of_shadow_mode() {
    let world = World::new();
    world.step("s", "m", |attempt| {
        for event in [Event::OutputSuccess, Event::SyntacticSuccess, Event::CoercionFail] {
            attempt.event(event, attributes(json!({ "stage": "semantic", "shadow": true })));
        }
    });
    let overall = world.health(HealthOptions::default()).overall;
    assert_eq!(overall, Tally { runs: 1, ..Tally::default() });
}

#[test]
fn buckets_cover_the_window_exactly() {
    let world = World::new();
    for at in [0, 1, 999_999] {
        world.now.store(START + at, Ordering::Relaxed);
        world.step("s", "m", |_| {});
    }
    let health = world.health(HealthOptions { buckets: 3, ..HealthOptions::default() });
    let bounds: Vec<_> =
        health.trends.iter().map(|bucket| (&bucket.from[17..], &bucket.until[17..])).collect();
    let third = ["00Z", "00.333334Z", "00.666667Z", "01Z"];
    assert_eq!(bounds, [(third[0], third[1]), (third[1], third[2]), (third[2], third[3])]);
    let runs: Vec<_> = health.trends.iter().map(|bucket| bucket.tally.runs).collect();
    assert_eq!(runs, [2, 0, 1]);
    // There may be more buckets than microseconds.
    let world = World::new();
    world.step("s", "m", |_| {});
    let health = world.health(HealthOptions { buckets: 3, ..HealthOptions::default() });
    assert_eq!(health.trends.iter().map(|bucket| bucket.tally.runs).sum::<u64>(), 1);
    assert_eq!(health.trends[2].until, "2026-01-01T00:00:00.000001Z");
}

#[test]
fn rejects_files_that_are_not_databases() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = HealthOptions::at(Timestamp(START));
    let error = Health::read(folder.path(), &options).expect_err("a folder");
    assert_eq!(error.to_string(), format!("{}: the path is a folder", folder.path().display()));
    let error = SqliteSink::open(folder.path(), SqliteOptions::default()).expect_err("a folder");
    assert_eq!(error.to_string(), format!("{}: the path is a folder", folder.path().display()));
    let path = folder.path().join("notes.txt");
    for text in ["some notes", &"some notes, longer than any header of a database is. ".repeat(100)] {
        std::fs::write(&path, text).expect("a file");
        let told = format!("{}: not an SQLite database", path.display());
        assert_eq!(Health::read(&path, &options).expect_err("no database").to_string(), told);
        let error = SqliteSink::open(&path, SqliteOptions::default()).expect_err("no database");
        assert_eq!(error.to_string(), told);
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), text, "it is left alone");
    }
    let path = folder.path().join("other.db");
    Connection::open(&path).expect("a database").execute_batch("CREATE TABLE t (x)").expect("a table");
    let error = Health::read(&path, &options).expect_err("another's");
    assert!(error.to_string().ends_with("other.db: not a trace database"), "{error}");
}

/// Numbers of the hour, step, model, event and stage of an event in an attempt.
type Happening = (i64, u8, u8, u8, u8);

/// Computes the expected counts from the records: runs, coercions and failures by name.
fn by_hand(records: &[Record], from: i64, wanted: Option<&str>) -> BTreeMap<String, (u64, u64, u64)> {
    let mut tallies: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    let mut seen = HashSet::new();
    for record in records {
        match record {
            Record::Ended(span) if span.kind == SpanKind::Attempt && span.start.0 >= from => {
                let subject = &span.subject;
                if wanted.is_none_or(|wanted| subject.step.as_deref() == Some(wanted)) {
                    for name in [&subject.step, &subject.model].into_iter().flatten() {
                        if seen.insert((name.clone(), span.parent)) {
                            tallies.entry(name.clone()).or_default().0 += 1;
                        }
                    }
                }
            }
            Record::Event(event) if event.at.0 >= from => {
                let subject = &event.span.subject;
                if wanted.is_none_or(|wanted| subject.step.as_deref() == Some(wanted)) {
                    for name in [&subject.step, &subject.model].into_iter().flatten() {
                        let tally = tallies.entry(name.clone()).or_default();
                        let extracts =
                            event.attributes.get("stage").and_then(Value::as_str) == Some("extract");
                        tally.1 += u64::from(event.name == Event::OutputSuccess.name());
                        tally.2 += u64::from(event.name == Event::OutputFail.name() && extracts);
                    }
                }
            }
            _ => {}
        }
    }
    tallies
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn counts_match_a_direct_count(
        happenings in proptest::collection::vec((0_i64..12, 0_u8..3, 0_u8..3, 0_u8..16, 0_u8..3), 0..60),
        since in 0_u64..14,
        step in proptest::option::of(0_u8..3),
    ) {
        let world = World::new();
        let mut sorted: Vec<Happening> = happenings;
        sorted.sort_unstable();
        for (hour, step, model, event, stage) in sorted {
            world.set(hour);
            world.step(&format!("step {step}"), &format!("model {model}"), |attempt| {
                let stage = ["extract", "semantic", "custom"][usize::from(stage)];
                attempt.event(Event::ALL[usize::from(event)], attributes(json!({ "stage": stage })));
            });
        }
        world.set(12);
        let step = step.map(|step| format!("step {step}"));
        let options = HealthOptions {
            since: Some(Duration::from_secs(since * 3600)),
            buckets: 5,
            step: step.clone(),
            ..HealthOptions::default()
        };
        let health = world.health(options);
        let from = START + (12 - since as i64) * HOUR;
        let expected = by_hand(&world.memory.records(), from, step.as_deref());
        let found = health.steps.iter().chain(&health.models).map(|Named { name, tally }| {
            let extracts = tally.stages.get("extract").copied().unwrap_or_default();
            (name.clone(), (tally.runs, tally.coercions.successes, extracts.failures))
        });
        prop_assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
        let mut whole = Tally::default();
        health.trends.iter().for_each(|bucket| whole.merge(&bucket.tally));
        prop_assert_eq!(whole, health.overall);
    }
}

#[test]
fn counts_failed_runs_retries_repairs_and_cost() {
    let world = World::new();
    let run = |mended: bool, status: Status| {
        let run = world.tracer.run("support");
        let step = run.step("plan");
        let attempt = step.attempt(1);
        attempt.event(Event::OutputFail, attributes(json!({ "stage": "semantic" })));
        attempt.event(Event::StepRepair, attributes(json!({ "result": "invalid" })));
        attempt.event(Event::StepRetry, attributes(json!({ "attempt": 2 })));
        attempt.end(Status::Error);
        let attempt = step.attempt(2);
        attempt.event(Event::StepRepair, attributes(json!({ "result": "valid" })));
        attempt.end(status);
        for (name, value) in [("requests", json!(4)), ("tokens", json!(100)), ("latency_ms", json!(1500.4))] {
            step.set(name, value);
        }
        if mended {
            step.set("mended", true);
        }
        step.end(status);
        run.end(status);
    };
    run(true, Status::Ok);
    run(false, Status::Error);
    let health = world.health(HealthOptions::default());
    let plan = &health.steps[0].tally;
    assert_eq!((plan.runs, plan.failed_runs, plan.retries), (2, 1, 2));
    assert_eq!(plan.repairs, Repairs { valid: 2, failed: 2 });
    assert_eq!(plan.cost, Cost { requests: 8, tokens: 200, latency_ms: 3000 });
    assert_eq!((plan.coercions.failures, plan.coercions.recovered), (1, 1));
    assert_eq!(health.overall, *plan);
    assert!(health.recommendations.iter().any(|advice| advice.text.starts_with("1 of 2 runs failed: ")));
}

#[test]
fn counts_applied_and_skipped_constraints() {
    let world = World::new();
    world.step("plan", "large", |attempt| {
        attempt.event(Event::SoeEnabled, attributes(json!({ "mode": "auto" })));
        attempt.event(Event::GrammarApplied, attributes(json!({ "mode": "auto", "schema_hash": "0" })));
    });
    world.step("plan", "small", |attempt| {
        attempt.event(Event::SoeSkipped, attributes(json!({ "reason": "unsupported" })));
    });
    let health = world.health(HealthOptions::default());
    assert_eq!((health.overall.soe.applied, health.overall.soe.skipped), (1, 1));
    assert!(health.recommendations.iter().any(|advice| advice.text.contains("was skipped once: ")));
}
