use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex};

use formwork_lm::{Batch, LanguageModel, Run};
use formwork_vocab::Tokenizer;
use tokio::sync::mpsc::UnboundedSender;

use crate::error::GenerationKind;
use crate::sequence::{Progress, Sequence};
use crate::{EngineHandle, GenerationError, Output, Request, Stats};

/// How an engine is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineOptions {
    /// Sequences that are in the model at the same time.
    pub parallel: usize,
    /// Requests that may wait, those in the model included; one more is refused as busy.
    pub queue: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { parallel: 4, queue: 256 }
    }
}

/// What the engine thread reacts to.
pub(crate) enum Event {
    Arrived(Box<Arrival>),
}

/// A request that was accepted, with its token budget.
pub(crate) struct Arrival {
    pub(crate) request: Request,
    pub(crate) budget: usize,
    pub(crate) outputs: UnboundedSender<Output>,
}

/// The model thread's state: it alone touches the model and the sequences.
pub struct Engine {
    model: Box<dyn LanguageModel>,
    tokenizer: Arc<Tokenizer>,
    events: Receiver<Event>,
    parallel: usize,
    waiting: VecDeque<Arrival>,
    running: Vec<Sequence>,
    /// Requests accepted and not ended, shared with the handles.
    load: Arc<AtomicUsize>,
    stats: Arc<Mutex<Stats>>,
}

impl Engine {
    /// Starts the model thread. It ends when all handles are gone and nothing is left to do.
    pub fn start(
        model: Box<dyn LanguageModel>,
        tokenizer: Arc<Tokenizer>,
        options: EngineOptions,
    ) -> EngineHandle {
        let (sender, events) = channel();
        let load = Arc::new(AtomicUsize::new(0));
        let stats = Arc::new(Mutex::new(Stats::default()));
        let handle = EngineHandle {
            stats: Arc::clone(&stats),
            events: sender,
            tokenizer: Arc::clone(&tokenizer),
            context_len: model.context_len(),
            vocab_size: model.vocab_size(),
            waiting: Arc::clone(&load),
            queue: options.queue,
        };
        let engine = Self {
            model,
            tokenizer,
            events,
            parallel: options.parallel.max(1),
            waiting: VecDeque::new(),
            running: Vec::new(),
            load,
            stats,
        };
        std::thread::spawn(move || engine.run());
        handle
    }

    fn run(mut self) {
        while self.receive() {
            self.drop_cancelled();
            self.admit();
            self.step();
        }
    }

    /// Takes in what arrived, waiting for it when there is nothing else to do; false when the engine should stop.
    fn receive(&mut self) -> bool {
        if self.running.is_empty() && self.waiting.is_empty() {
            match self.events.recv() {
                Ok(event) => self.handle(event),
                Err(_) => return false,
            }
        }
        loop {
            match self.events.try_recv() {
                Ok(event) => self.handle(event),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return true,
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrived(arrival) => self.waiting.push_back(*arrival),
        }
    }

    fn drop_cancelled(&mut self) {
        let before = self.waiting.len();
        self.waiting.retain(|arrival| !arrival.outputs.is_closed());
        self.load.fetch_sub(before - self.waiting.len(), Ordering::Relaxed);
        let (model, load) = (&mut self.model, &self.load);
        self.running.retain(|sequence| {
            let cancelled = sequence.is_cancelled();
            if cancelled {
                tracing::debug!(sequence = %sequence.id, "cancelled");
                model.close(sequence.id);
                load.fetch_sub(1, Ordering::Relaxed);
            }
            !cancelled
        });
    }

    fn admit(&mut self) {
        while self.running.len() < self.parallel
            && let Some(arrival) = self.waiting.pop_front()
        {
            let id = self.model.open();
            let mut sequence = Sequence::new(id, arrival, Arc::clone(&self.tokenizer));
            let progress = contained(|| Ok(sequence.advance()));
            self.settle(sequence, progress);
        }
    }

    /// Feeds every running sequence once, all in one forward pass.
    fn step(&mut self) {
        let limit = self.model.vocab_size();
        let mut running = Vec::new();
        for sequence in std::mem::take(&mut self.running) {
            // One that cannot be fed must not take the others down with it.
            match sequence.next_run().0.iter().find(|token| token.index() >= limit) {
                None => running.push(sequence),
                Some(token) => {
                    let error = GenerationKind::NoEmbedding { given: token.0, limit };
                    self.settle(sequence, Err(error.into()));
                }
            }
        }
        if running.is_empty() {
            return;
        }
        let runs = running.iter().map(|sequence| {
            let (tokens, role, wanted) = sequence.next_run();
            Run { sequence: sequence.id, tokens, role, wanted }
        });
        let batch = Batch { runs: runs.collect() };
        let logits = contained(|| {
            let logits = self.model.forward(&batch);
            Ok(logits.map_err(|error| GenerationKind::Model(Arc::new(error)))?)
        });
        for (index, mut sequence) in running.into_iter().enumerate() {
            let progress = match &logits {
                Ok(logits) => contained(|| sequence.take_logits(logits.row(index))),
                Err(error) => Err(error.clone()),
            };
            self.settle(sequence, progress);
        }
    }

    /// Keeps a sequence that goes on, and frees one that ended or failed.
    fn settle(&mut self, sequence: Sequence, progress: Result<Progress, GenerationError>) {
        match progress {
            Ok(Progress::Running) => return self.running.push(sequence),
            Ok(Progress::Ended) => {}
            Err(error) => sequence.fail(error),
        }
        self.close(&sequence);
    }

    fn close(&mut self, sequence: &Sequence) {
        self.model.close(sequence.id);
        self.load.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does some work; a panic in it is the failure of those sequences that it was for and no one else's.
fn contained<T>(work: impl FnOnce() -> Result<T, GenerationError>) -> Result<T, GenerationError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(GenerationKind::Panicked.into()))
}
