use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::json;

use super::*;
use crate::Attributes;

pub(super) fn attributes(value: serde_json::Value) -> Attributes {
    let serde_json::Value::Object(attributes) = value else { panic!("{value} is no object") };
    attributes
}

/// Returns a clock that advances by one microsecond at each call.
pub(super) fn ticking() -> impl Fn() -> Timestamp + Send + Sync + 'static {
    let now = AtomicI64::new(1_000_000);
    move || Timestamp(now.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn spans_inherit_the_data_of_their_parents() {
    let memory = MemorySink::default();
    let run = Tracer::default().with_sink(memory.clone()).with_clock(ticking()).run("support");
    run.set_agent("writer");
    let step = run.step("answer");
    step.set("temperature", 0.5);
    step.set_provider("local");
    let first = step.attempt(1);
    first.set_model("small");
    first.event(Event::OutputFail, attributes(json!({ "stage": "extract", "error_preview": "no JSON" })));
    first.end(Status::Error);
    let second = step.attempt(2);
    second.event("of.our.own", Attributes::new());
    second.end(Status::Ok);
    step.end(Status::Ok);
    drop(run);
    insta::assert_snapshot!(serde_json::to_string_pretty(&memory.outline()).expect("JSON"));
    let events = memory.events();
    assert_eq!((events[0].at, events[0].span.status), (Timestamp(1_000_003), Status::Open));
    let spans = memory.spans();
    let times: Vec<_> = spans.iter().map(|span| (span.start.0 - 1_000_000, span.end)).collect();
    let end = |at: i64| Some(Timestamp(1_000_000 + at));
    assert_eq!(times, [(2, end(4)), (5, end(7)), (1, end(8)), (0, end(9))]);
    assert!(spans.iter().all(|span| span.run == spans[0].run));
}

#[test]
fn each_span_ends_exactly_once() {
    let memory = MemorySink::default();
    let tracer = Tracer::default().with_sink(memory.clone());
    let run = tracer.run("r");
    let step = run.step("s");
    let gone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _step = step;
        panic!("the step fails");
    }));
    assert!(gone.is_err());
    run.end(Status::Error);
    let ended: Vec<_> = memory.spans().iter().map(|span| (span.name.clone(), span.status)).collect();
    assert_eq!(ended, [("s".to_owned(), Status::Cancelled), ("r".to_owned(), Status::Error)]);
}

#[test]
fn no_span_ends_before_its_start_if_the_clock_goes_back() {
    let (memory, now) = (MemorySink::default(), AtomicI64::new(10));
    let clock = move || Timestamp(now.fetch_sub(1, Ordering::Relaxed));
    Tracer::default().with_sink(memory.clone()).with_clock(clock).run("r").end(Status::Ok);
    let span = &memory.spans()[0];
    assert_eq!((span.start, span.end), (Timestamp(10), Some(Timestamp(10))));
}

#[test]
fn without_sinks_nothing_is_recorded() {
    let tracer = Tracer::default();
    assert!(!tracer.is_on());
    let run = tracer.run("r");
    run.step("s").event(Event::GrammarApplied, Attributes::new());
    run.end(Status::Ok);
    tracer.flush().expect("nothing to flush");
}

#[test]
fn all_sinks_receive_every_record() {
    let (one, other) = (MemorySink::default(), MemorySink::default());
    let tracer = Tracer::default().with_sink(one.clone()).with_sink(other.clone());
    assert!(tracer.is_on());
    tracer.run("r").correction(Correction { stage: "semantic".to_owned(), ..Correction::default() });
    assert_eq!(one.records(), other.records());
    assert_eq!((one.records().len(), one.corrections()[0].correction.stage.as_str()), (3, "semantic"));
}

#[test]
fn times_before_1970_are_negative() {
    let time = std::time::UNIX_EPOCH - std::time::Duration::from_millis(2);
    assert_eq!(Timestamp::from(time), Timestamp(-2000));
}
