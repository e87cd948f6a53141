use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;

use super::record::{CorrectionRecord, EventRecord, SpanRecord};
use super::{Correction, Record, RunId, Sink, SpanId, SpanKind, Status, Subject, Timestamp, TraceError};
use crate::Attributes;

/// Starts runs and sends all their records to its sinks. A tracer without sinks discards the
/// records.
///
/// ```
/// use formwork_trace::{Event, MemorySink, Status, Tracer};
/// let memory = MemorySink::default();
/// let run = Tracer::default().with_sink(memory.clone()).run("support");
/// let step = run.step("answer");
/// step.set_model("smollm2-135m-instruct");
/// let attempt = step.attempt(1);
/// let reason = [("reason".to_owned(), "not supported".into())].into_iter().collect();
/// attempt.event(Event::SoeSkipped, reason);
/// attempt.end(Status::Ok);
/// step.end(Status::Ok);
/// run.end(Status::Ok);
/// let event = &memory.events()[0];
/// assert_eq!(
///     (event.name.as_ref(), event.span.subject.step.as_deref()),
///     ("aros.soe.skipped", Some("answer"))
/// );
/// ```
#[derive(Clone, Default)]
pub struct Tracer {
    sinks: Arc<[Arc<dyn Sink>]>,
    clock: Option<Arc<dyn Fn() -> Timestamp + Send + Sync>>,
}

impl Tracer {
    /// Adds a sink, which receives the records of runs started later.
    #[must_use]
    pub fn with_sink(mut self, sink: impl Sink + 'static) -> Self {
        self.sinks = self.sinks.iter().cloned().chain([Arc::new(sink) as Arc<dyn Sink>]).collect();
        self
    }

    /// Replaces the system clock by `clock`, for example in tests.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Reports whether the tracer has a sink. If not, callers can skip the work of tracing.
    pub fn is_on(&self) -> bool {
        !self.sinks.is_empty()
    }

    /// Starts a run of the pipeline `name`.
    pub fn run(&self, name: impl Into<String>) -> Span {
        let clock = match &self.clock {
            Some(clock) => Clock::Given(Arc::clone(clock)),
            None => Clock::Machine { start: Timestamp::now(), since: Instant::now() },
        };
        let shared = Shared { sinks: Arc::clone(&self.sinks), clock, run: RunId::new() };
        let name = name.into();
        let subject = Subject { run: name.clone(), ..Subject::default() };
        Span::begin(Arc::new(shared), SpanKind::Run, name, None, subject)
    }

    /// Waits until all sinks have stored the records that they have received.
    ///
    /// # Errors
    /// Returns an error if a sink has lost records. If several sinks have, returns the error of the
    /// first.
    pub fn flush(&self) -> Result<(), TraceError> {
        let results: Vec<_> = self.sinks.iter().map(Sink::flush).collect();
        results.into_iter().collect()
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("sinks", &self.sinks.len()).finish_non_exhaustive()
    }
}

/// Data shared by all spans of a run.
struct Shared {
    sinks: Arc<[Arc<dyn Sink>]>,
    clock: Clock,
    run: RunId,
}

enum Clock {
    /// Default clock: the system time at the start of the run plus the monotonic time since then. A
    /// change of the system clock during the run has no effect.
    Machine {
        start: Timestamp,
        since: Instant,
    },
    Given(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

impl Shared {
    fn now(&self) -> Timestamp {
        match &self.clock {
            Clock::Machine { start, since } => start.after(since.elapsed()),
            Clock::Given(clock) => clock(),
        }
    }

    fn tell(&self, record: &Record) {
        self.sinks.iter().for_each(|sink| sink.record(record));
    }
}

/// Run, step or attempt that has not ended.
///
/// A span that is dropped without a call of [`end`](Self::end) ends with the status
/// [`Status::Cancelled`]. This happens, for example, if a future is cancelled.
pub struct Span {
    shared: Arc<Shared>,
    record: Mutex<Arc<SpanRecord>>,
}

impl Span {
    fn begin(
        shared: Arc<Shared>,
        kind: SpanKind,
        name: String,
        parent: Option<SpanId>,
        subject: Subject,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let record = Arc::new(SpanRecord {
            id: SpanId(NEXT.fetch_add(1, Ordering::Relaxed)),
            run: shared.run,
            parent,
            kind,
            name,
            subject,
            start: shared.now(),
            end: None,
            status: Status::Open,
            attributes: Attributes::new(),
        });
        shared.tell(&Record::Started(Arc::clone(&record)));
        Self { shared, record: Mutex::new(record) }
    }

    /// Starts a step called `name` in this run or step.
    #[must_use]
    pub fn step(&self, name: impl Into<String>) -> Self {
        let (name, around) = (name.into(), self.record());
        let subject = Subject { step: Some(name.clone()), ..around.subject.clone() };
        Self::begin(Arc::clone(&self.shared), SpanKind::Step, name, Some(around.id), subject)
    }

    /// Starts an attempt at this step. `number` is 1 for the first attempt.
    #[must_use]
    pub fn attempt(&self, number: u32) -> Self {
        let around = self.record();
        let (name, subject) = (format!("attempt {number}"), around.subject.clone());
        Self::begin(Arc::clone(&self.shared), SpanKind::Attempt, name, Some(around.id), subject)
    }

    /// Sets the agent of this span, and of child spans that start later.
    pub fn set_agent(&self, agent: impl Into<String>) {
        self.change(|record| record.subject.agent = Some(agent.into()));
    }

    /// Sets the model of this span, and of child spans that start later.
    pub fn set_model(&self, model: impl Into<String>) {
        self.change(|record| record.subject.model = Some(model.into()));
    }

    /// Sets the model's provider for this span, and for child spans that start later.
    pub fn set_provider(&self, provider: impl Into<String>) {
        self.change(|record| record.subject.provider = Some(provider.into()));
    }

    /// Sets an attribute of this span, but not of child spans. Sinks receive it at the end of the
    /// span.
    pub fn set(&self, name: impl Into<String>, value: impl Into<Value>) {
        self.change(|record| {
            record.attributes.insert(name.into(), value.into());
        });
    }

    /// Records an event in this span. [`Event`](super::Event) lists the known names and attributes.
    pub fn event(&self, name: impl Into<Cow<'static, str>>, attributes: Attributes) {
        let (name, span, at) = (name.into(), self.record(), self.shared.now());
        self.shared.tell(&Record::Event(Arc::new(EventRecord { span, at, name, attributes })));
    }

    /// Records a correction in this span, for the correction ledger.
    pub fn correction(&self, correction: Correction) {
        let (span, at) = (self.record(), self.shared.now());
        self.shared.tell(&Record::Correction(Arc::new(CorrectionRecord { span, at, correction })));
    }

    /// Ends the span with the given status.
    pub fn end(self, status: Status) {
        self.change(|record| record.status = status);
    }

    /// Returns the ID of the run that contains the span.
    pub fn run_id(&self) -> RunId {
        self.shared.run
    }

    /// Returns the current state of the span, as a record.
    pub fn record(&self) -> Arc<SpanRecord> {
        Arc::clone(&self.lock())
    }

    fn change(&self, change: impl FnOnce(&mut SpanRecord)) {
        change(Arc::make_mut(&mut self.lock()));
    }

    fn lock(&self) -> MutexGuard<'_, Arc<SpanRecord>> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let end = self.shared.now();
        self.change(|record| {
            // A custom clock may go backwards.
            record.end = Some(end.max(record.start));
            if record.status == Status::Open {
                record.status = Status::Cancelled;
            }
        });
        self.shared.tell(&Record::Ended(self.record()));
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Span").field(&self.record()).finish()
    }
}
