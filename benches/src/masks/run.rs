use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use formwork_vocab::Tokenizer;

use super::{Case, CaseFile, Engine, Instance, InstanceCounts, Outcome, Sequence, Spelling, Status};

/// Stack size of a worker thread: that of a main thread, so that results do not depend on the
/// number of threads.
const STACK_BYTES: usize = 8 << 20;

/// Compiles the schema of `case` with `engine`, follows all its instances and records verdicts and
/// times.
pub fn measure<E: Engine>(engine: &E, case: &Case) -> Outcome {
    let mut outcome = Outcome {
        id: case.id.clone(),
        status: Status::Pass,
        error: None,
        instances: InstanceCounts::default(),
        refusal: None,
        ttfm_us: None,
        start_us: Vec::new(),
        mask_us: Vec::new(),
    };
    for instance in &case.instances {
        *if instance.valid { &mut outcome.instances.valid } else { &mut outcome.instances.invalid } += 1;
    }
    let schema = case.schema.clone();
    let (compiled, ttfm) = timed(|| engine.compile(schema));
    let grammar = match compiled {
        Ok(grammar) => grammar,
        Err(refusal) => {
            outcome.status = Status::CompileError;
            outcome.error = Some(refusal.message.clone());
            outcome.refusal = Some(refusal);
            return outcome;
        }
    };
    outcome.ttfm_us = Some(ttfm);
    for (index, instance) in case.instances.iter().enumerate() {
        let (mut sequence, start) = timed(|| engine.start(&grammar));
        outcome.start_us.push(start);
        let end = follow(&mut sequence, instance, &mut outcome.mask_us);
        judge(&mut outcome, index, instance.valid, &end);
    }
    outcome
}

/// Result of following one instance token by token.
enum End {
    Accepted,
    NotAllowed { position: usize },
    NotFinished,
    GaveUp { message: String },
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => write!(f, "accepted"),
            Self::NotAllowed { position } => write!(f, "not allowed at token {position}"),
            Self::NotFinished => write!(f, "not allowed to end"),
            Self::GaveUp { message } => write!(f, "the engine gave up: {message}"),
        }
    }
}

fn follow(sequence: &mut impl Sequence, instance: &Instance, mask_us: &mut Vec<f64>) -> End {
    for (position, &token) in instance.tokens.iter().enumerate() {
        let (advanced, time) = timed(|| sequence.advance(token));
        mask_us.push(time);
        match advanced {
            Ok(true) => {}
            Ok(false) => return End::NotAllowed { position },
            Err(message) => return End::GaveUp { message },
        }
    }
    let (may_end, time) = timed(|| sequence.may_end());
    mask_us.push(time);
    match may_end {
        Ok(true) => End::Accepted,
        Ok(false) => End::NotFinished,
        Err(message) => End::GaveUp { message },
    }
}

/// Records the verdict on the instance with index `index`. An engine that gives up counts as
/// rejecting the instance.
fn judge(outcome: &mut Outcome, index: usize, valid: bool, end: &End) {
    let (status, problem) = match (valid, end) {
        (false, End::Accepted) => {
            outcome.instances.invalid_accepted += 1;
            (Status::InvalidAccepted, format!("invalid, but {end}"))
        }
        (true, End::Accepted) | (false, _) => return,
        (true, stopped) => {
            outcome.instances.valid_rejected += 1;
            (Status::ValidRejected, format!("valid, but {stopped}"))
        }
    };
    if status > outcome.status {
        outcome.status = status;
        outcome.error = Some(format!("tests[{index}]: {problem}"));
    }
}

/// Runs `work`. Returns its result and the elapsed time in microseconds.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let started = Instant::now();
    let result = work();
    (result, micros(started.elapsed()))
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

/// The cases of a run, and the way to write and tokenize their instances.
#[derive(Clone, Copy, Debug)]
pub struct Cases<'a> {
    /// Files of the cases.
    pub files: &'a [CaseFile],
    /// Tokenizer with the vocabulary that the engine uses.
    pub tokenizer: &'a Tokenizer,
    /// JSON spelling of the instances.
    pub spelling: Spelling,
}

/// Measures all `cases` on `threads` threads. Returns the outcomes in the order of the files. After
/// each case, calls `progress` on the calling thread with the number of finished cases.
///
/// # Errors
/// Returns an error if a file cannot be read or is not a case.
pub fn run<E: Engine>(
    engine: &E,
    cases: Cases<'_>,
    threads: usize,
    mut progress: impl FnMut(usize),
) -> Result<Vec<Outcome>> {
    let Cases { files, tokenizer, spelling } = cases;
    let next = AtomicUsize::new(0);
    let take = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        Some((index, files.get(index)?))
    };
    let (sender, receiver) = mpsc::channel();
    let work = |sender: mpsc::Sender<(usize, Result<Outcome>)>| {
        while let Some((index, file)) = take() {
            let outcome = file.read(tokenizer, spelling).map(|case| measure(engine, &case));
            if sender.send((index, outcome)).is_err() {
                return; // the receiver is gone because another case failed to load
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let sender = sender.clone();
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, || work(sender)).context("a thread")?;
        }
        drop(sender);
        let mut outcomes: Vec<Option<Outcome>> = files.iter().map(|_| None).collect();
        for (done, (index, outcome)) in receiver.into_iter().enumerate() {
            outcomes[index] = Some(outcome?);
            progress(done + 1);
        }
        Ok(outcomes.into_iter().flatten().collect())
    })
}
