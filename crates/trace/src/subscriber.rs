use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tracing::field::Empty;

use super::record::{EventRecord, SpanRecord};
use super::{Record, Sink, SpanId, SpanKind, Status};

/// Target of all `tracing` spans and events that [`TracingSink`] creates.
const TARGET: &str = "formwork::trace";

/// Sink that forwards spans and events to the `tracing` crate. All have the level `INFO` and the
/// target `formwork::trace`.
///
/// Spans have the fields `otel.name` and `otel.status_code`, which subscribers that export to
/// `OpenTelemetry` read. The message of an event is its name. A run becomes a child of the
/// `tracing` span that is current when the run starts.
///
/// Each common attribute of documented events becomes a field of its own. The field `attributes`
/// contains all other attributes as JSON.
#[derive(Debug, Default)]
pub struct TracingSink {
    open: Mutex<HashMap<SpanId, tracing::Span>>,
}

impl TracingSink {
    /// Returns the `tracing` span for the open span with ID `id`, for example to run other work
    /// inside it. Returns `None` if the span is not open.
    pub fn span(&self, id: SpanId) -> Option<tracing::Span> {
        self.lock().get(&id).cloned()
    }

    fn start(&self, record: &SpanRecord) {
        let parent = record.parent.and_then(|parent| self.span(parent));
        let span = match &parent {
            Some(parent) => parent.in_scope(|| open(record)),
            None => open(record),
        };
        self.lock().insert(record.id, span);
    }

    fn end(&self, record: &SpanRecord) {
        let Some(span) = self.lock().remove(&record.id) else { return };
        span.record("status", record.status.name());
        if matches!(record.status, Status::Ok | Status::Error) {
            span.record("otel.status_code", if record.status == Status::Ok { "OK" } else { "ERROR" });
        }
        let subject = &record.subject;
        for (name, value) in
            [("agent", &subject.agent), ("model", &subject.model), ("provider", &subject.provider)]
        {
            if let Some(value) = value {
                span.record(name, value.as_str());
            }
        }
        if !record.attributes.is_empty() {
            span.record("attributes", json(record.attributes.iter()));
        }
    }

    fn event(&self, record: &EventRecord) {
        let Some(span) = self.span(record.span.id) else { return };
        let text = |name: &str| record.attributes.get(name).and_then(Value::as_str);
        let transforms = record.attributes.get("transforms").map(|transforms| {
            let names = transforms.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.collect::<Vec<_>>().join(",")
        });
        // Computed outside the macro, in which `Value` would refer to a trait of `tracing`.
        let branch_index = record.attributes.get("branch_index").and_then(Value::as_u64);
        let score = record.attributes.get("score").and_then(Value::as_f64);
        let others: Vec<_> =
            record.attributes.iter().filter(|(name, _)| !FIELDS.contains(&name.as_str())).collect();
        tracing::info!(
            target: TARGET,
            parent: &span,
            stage = text("stage"),
            mode = text("mode"),
            reason = text("reason"),
            result = text("result"),
            expected_type = text("expected_type"),
            actual_type = text("actual_type"),
            error_preview = text("error_preview"),
            schema_hash = text("schema_hash"),
            transforms,
            branch_index,
            score,
            attributes = (!others.is_empty()).then(|| json(others.into_iter())),
            "{}",
            record.name
        );
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SpanId, tracing::Span>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Attributes of events that become fields of their own. A value of an unexpected type is dropped.
const FIELDS: [&str; 11] = [
    "stage",
    "mode",
    "reason",
    "result",
    "expected_type",
    "actual_type",
    "error_preview",
    "schema_hash",
    "transforms",
    "branch_index",
    "score",
];

impl Sink for TracingSink {
    fn record(&self, record: &Record) {
        match record {
            Record::Started(span) => self.start(span),
            Record::Event(event) => self.event(event),
            // The ledger is a table of the database, not a log.
            Record::Correction(_) => {}
            Record::Ended(span) => self.end(span),
        }
    }
}

/// Opens a `tracing` span as a child of the current one. Each kind of span has its own macro call,
/// because the name of a `tracing` span must be a constant.
fn open(record: &SpanRecord) -> tracing::Span {
    macro_rules! span {
        ($kind:literal) => {
            tracing::info_span!(
                target: TARGET,
                $kind,
                otel.name = record.name,
                otel.status_code = Empty,
                run_id = %record.run,
                run = record.subject.run,
                step = record.subject.step,
                agent = Empty,
                model = Empty,
                provider = Empty,
                status = Empty,
                attributes = Empty,
            )
        };
    }
    match record.kind {
        SpanKind::Run => span!("run"),
        SpanKind::Step => span!("step"),
        SpanKind::Attempt => span!("attempt"),
    }
}

fn json<'a>(attributes: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let attributes: serde_json::Map<_, _> =
        attributes.map(|(name, value)| (name.clone(), value.clone())).collect();
    Value::from(attributes).to_string()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use serde_json::json;
    use tracing_subscriber::fmt::format::FmtSpan;
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
    use tracing_subscriber::registry::{LookupSpan, Scope};

    use super::*;
    use crate::tests::attributes;
    use crate::{Event, Tracer};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// For each event, the names of the spans around it, outermost first.
    #[derive(Clone, Default)]
    struct Scopes(Arc<Mutex<Vec<Vec<&'static str>>>>);

    impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Scopes {
        fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
            let scope = context.event_scope(event).into_iter().flat_map(Scope::from_root);
            let names = scope.map(|span| span.name()).collect();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(names);
        }
    }

    #[test]
    fn forwards_spans_and_events_to_tracing() {
        let (written, scopes) = (Written::default(), Scopes::default());
        let writer = written.clone();
        let lines = tracing_subscriber::fmt::layer()
            .json()
            .without_time()
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(lines).with(scopes.clone());
        tracing::subscriber::with_default(subscriber, || {
            let sink = Arc::new(TracingSink::default());
            let around = tracing::info_span!("request").entered();
            let run = Tracer::default().with_sink(Arc::clone(&sink)).run("support");
            drop(around);
            let step = run.step("answer");
            step.set_model("small");
            let success = json!({
                "stage": "semantic", "transforms": ["str->int", "str->bool"], "branch_index": 1, "other": [2],
            });
            step.event(Event::OutputSuccess, attributes(success));
            assert!(sink.span(step.record().id).is_some());
            step.set("temperature", 0.5);
            step.end(Status::Error);
            run.end(Status::Ok);
            assert!(sink.lock().is_empty());
        });
        assert_eq!(*scopes.0.lock().unwrap_or_else(PoisonError::into_inner), [["request", "run", "step"]]);
        let bytes = written.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = String::from_utf8(bytes).expect("UTF-8");
        let mut lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        for line in &mut lines {
            // These fields differ between runs.
            line["fields"].as_object_mut().expect("fields").retain(|name, _| !name.starts_with("time."));
            line["span"].as_object_mut().expect("a span").remove("run_id");
        }
        insta::assert_snapshot!(serde_json::to_string_pretty(&lines).expect("JSON"));
    }
}
