use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use formwork_lm::{AdapterId, LanguageModel, SequenceId};
use formwork_vocab::{TokenId, TokenSet, Tokenizer};

use crate::arrival::{Arrival, Event};
use crate::decision::DecisionJob;
use crate::drafter::Drafter;
use crate::embedding::Embedding;
use crate::error::GenerationKind;
use crate::pace::Pace;
use crate::prefix_cache::PrefixCache;
use crate::sequence::{Progress, Sequence};
use crate::{EngineHandle, GenerationError, Output, Stats};

/// Options of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineOptions {
    /// Maximum number of sequences in the model at the same time. 0 counts as 1.
    pub parallel: usize,
    /// Maximum number of unfinished requests, including those in the model. Further requests are
    /// refused as busy.
    pub queue: usize,
    /// Approximate number of tokens in a step. Limits the forced tokens of a step together, and the
    /// prompt tokens beside generating sequences. A larger value reads prompts in fewer steps, but
    /// lengthens each step for generating sequences.
    pub step_tokens: usize,
    /// Approximate time limit of a step while generating sequences wait for its end. If the model
    /// reads slowly, a step contains fewer prompt tokens. [`Duration::MAX`] turns the limit off.
    pub step_time: Duration,
    /// Size of the prefix cache in bytes of keys and values. The cache lets prompts with a common
    /// prefix share work; 0 turns it off. A draft model keeps texts of ended sequences in as many bytes
    /// of its own.
    pub prefix_cache_bytes: usize,
    /// Maximum number of tokens drafted for the model to check in one pass.
    /// Fewer are drafted if drafts often fail or many sequences share a pass. 0 turns drafting off.
    /// `None` drafts up to 8 tokens if there is a draft model or a head for drafts. It does the same
    /// without them if the model is batch invariant and removes drafts at no cost
    /// ([`LanguageModel::is_batch_invariant`], [`LanguageModel::removes_drafts_cheaply`]). Models that
    /// cannot fork never draft.
    pub speculate: Option<usize>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            parallel: 8,
            queue: 256,
            step_tokens: 512,
            step_time: Duration::from_millis(100),
            prefix_cache_bytes: 512 << 20,
            speculate: None,
        }
    }
}

/// State of the model thread, which alone accesses the model and the sequences.
pub struct Engine {
    pub(crate) model: Box<dyn LanguageModel>,
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// Tokens of the vocabulary, if the model has more rows of logits.
    pub(crate) known: Option<Arc<TokenSet>>,
    events: Receiver<Event>,
    pub(crate) options: EngineOptions,
    waiting: VecDeque<Arrival>,
    /// Sequences in the order of their admission.
    pub(crate) running: Vec<Sequence>,
    pub(crate) embeddings: VecDeque<Embedding>,
    /// Requests for decisions. The first two take turns, a pass each.
    pub(crate) decisions: VecDeque<DecisionJob>,
    pub(crate) cache: PrefixCache,
    pub(crate) drafter: Option<Drafter>,
    /// Number of sequences admitted so far.
    admitted: u64,
    pub(crate) pace: Pace,
    /// Time that prompts took from generating sequences and that is still owed to them.
    pub(crate) owed: Duration,
    stats: Arc<Mutex<Stats>>,
}

impl Engine {
    /// Starts the model thread and returns a handle to it.
    ///
    /// The thread ends when all handles are dropped and all accepted work is finished.
    pub fn start(
        model: Box<dyn LanguageModel>,
        tokenizer: Arc<Tokenizer>,
        options: EngineOptions,
    ) -> EngineHandle {
        Self::start_with_draft(model, None, tokenizer, options)
    }

    /// Starts the model thread, with a smaller model of the same vocabulary that drafts tokens for the
    /// large one to check. Outputs are the same as without a draft model if the large model is batch
    /// invariant ([`LanguageModel::is_batch_invariant`]).
    ///
    /// Without a draft model, the model's own head drafts if it has one ([`LanguageModel::draft`]). A
    /// draft model or a head that fails is not used any more.
    pub fn start_with_draft(
        model: Box<dyn LanguageModel>,
        draft: Option<Box<dyn LanguageModel>>,
        tokenizer: Arc<Tokenizer>,
        options: EngineOptions,
    ) -> EngineHandle {
        let (sender, events) = channel();
        let stats = Arc::new(Mutex::new(Stats::new()));
        let handle = EngineHandle {
            stats: Arc::clone(&stats),
            events: sender,
            tokenizer: Arc::clone(&tokenizer),
            context_len: model.context_len(),
            vocab_size: model.vocab_size(),
            prompt_grain: model.prompt_grain(),
            architecture: model.architecture().map(Arc::from),
            abilities: Arc::new(model.abilities()),
            load: Arc::new(AtomicUsize::new(0)),
            queue: options.queue,
            adapters: model.adapters().into(),
            adapter: None,
        };
        let mut model = model;
        if draft.is_some() || options.speculate == Some(0) {
            model.close_draft_head();
        }
        let vocabulary = model.vocab_size().min(tokenizer.vocabulary().len());
        let of_head = || model.has_draft_head().then(|| Drafter::of_head(vocabulary));
        let known = (model.vocab_size() > vocabulary).then(|| {
            let mut known = TokenSet::empty(model.vocab_size());
            (0..vocabulary as u32).for_each(|token| known.insert(TokenId(token)));
            Arc::new(known)
        });
        let engine = Self {
            cache: PrefixCache::new(&*model, options.prefix_cache_bytes),
            drafter: draft
                .map(|draft| Drafter::of_model(draft, vocabulary, options.prefix_cache_bytes))
                .or_else(of_head),
            model,
            tokenizer,
            known,
            events,
            options,
            waiting: VecDeque::new(),
            running: Vec::new(),
            embeddings: VecDeque::new(),
            decisions: VecDeque::new(),
            admitted: 0,
            pace: Pace::default(),
            owed: Duration::ZERO,
            stats,
        };
        std::thread::spawn(move || engine.run());
        handle
    }

    fn run(mut self) {
        while self.receive() {
            self.drop_cancelled();
            self.admit();
            self.note_load();
            let rests = self.owes();
            self.step(rests);
            self.step_embedding(rests);
            self.step_decision(rests);
        }
    }

    /// Handles pending events. Blocks for the next event if the engine is idle.
    ///
    /// Returns false if the engine should stop.
    fn receive(&mut self) -> bool {
        let is_idle = self.running.is_empty() && self.waiting.is_empty();
        if is_idle && self.embeddings.is_empty() && self.decisions.is_empty() {
            self.note_load();
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
            Event::Arrived(arrivals) => self.waiting.extend(arrivals),
            Event::Embed(embedding) => self.embeddings.push_back(*embedding),
            // The text of a generation waits for its probabilities, so the next turn is theirs.
            Event::Decide(job) if job.is_part() => {
                self.decisions.insert(self.decisions.len().min(1), *job);
            }
            Event::Decide(job) => self.decisions.push_back(*job),
            Event::ClearCache(done) => {
                self.cache.clear(&mut *self.model);
                if let Some(drafter) = &mut self.drafter {
                    drafter.clear(&self.running);
                }
                self.stats().cache_tokens = 0;
                // The receiver may be gone.
                let _ = done.send(());
            }
        }
    }

    /// Ends requests that were cancelled or whose deadline has passed.
    fn drop_cancelled(&mut self) {
        let now = Instant::now();
        let is_late = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        for arrival in std::mem::take(&mut self.waiting) {
            if arrival.is_cancelled() {
                self.stats().cancelled += 1;
            } else if is_late(arrival.request.deadline) {
                self.stats().failed += 1;
                arrival.fail(GenerationKind::Deadline.into());
            } else {
                self.waiting.push_back(arrival);
            }
        }
        for sequence in std::mem::take(&mut self.running) {
            if sequence.is_cancelled() {
                tracing::debug!(sequence = %sequence.id, "cancelled");
                self.keep_begun(&sequence);
                self.model.close(sequence.id);
                self.stats().cancelled += 1;
            } else if is_late(sequence.deadline()) {
                self.keep_begun(&sequence);
                self.settle(sequence, Err(GenerationKind::Deadline.into()));
            } else {
                self.running.push(sequence);
            }
        }
        for embedding in std::mem::take(&mut self.embeddings) {
            if embedding.is_cancelled() {
                self.close_embedding(&embedding);
            } else {
                self.embeddings.push_back(embedding);
            }
        }
        for mut job in std::mem::take(&mut self.decisions) {
            if job.is_cancelled() {
                job.close(&mut *self.model);
                self.stats().cancelled += 1;
            } else if job.is_late(now) {
                self.end_decision(job, Err(GenerationKind::Deadline.into()));
            } else {
                self.decisions.push_back(job);
            }
        }
    }

    /// Admits waiting requests while the model has free places, first come, first served.
    ///
    /// Unread long prompts take at most half of the places. They are read one after another anyway,
    /// and this way a short request need not wait for all of them. A prompt that a running sequence
    /// is reading does not count as long.
    fn admit(&mut self) {
        let parallel = self.options.parallel.max(1);
        while self.running.len() < parallel {
            let long = self.prompt_tokens(true);
            let reading = self.running.iter().filter(|sequence| sequence.need().is_prompt_over(long));
            let is_open = reading.count() < parallel.div_ceil(2);
            let may_come =
                |arrival: &Arrival| is_open || arrival.request.prompt.len() <= long || self.reads(arrival);
            let Some(index) = self.waiting.iter().position(may_come) else { return };
            let Some(arrival) = self.waiting.remove(index) else { return };
            let id = match open(&mut *self.model, arrival.adapter) {
                Ok(id) => id,
                Err(error) => {
                    self.stats().failed += 1;
                    arrival.fail(error);
                    continue;
                }
            };
            self.admitted += 1;
            let mut sequence = Sequence::new(id, self.admitted, arrival, Arc::clone(&self.tokenizer));
            let progress = contained(|| Ok(sequence.advance()));
            self.settle(sequence, progress);
        }
    }

    /// Returns true if a running sequence is reading the same prompt with the same adapter.
    fn reads(&self, arrival: &Arrival) -> bool {
        let reads = |one: &Sequence| {
            one.need().is_prompt_over(0)
                && one.adapter() == arrival.adapter
                && one.prompt() == arrival.request.prompt
        };
        self.model.can_fork() && self.running.iter().any(reads)
    }

    /// Keeps a running sequence, or ends one that finished or failed and frees its KV cache.
    pub(crate) fn settle(&mut self, mut sequence: Sequence, progress: Result<Progress, GenerationError>) {
        sequence.report(&mut self.stats());
        let last = match progress {
            Ok(Progress::Running) => return self.running.push(sequence),
            Ok(Progress::Ended(finish)) => {
                self.stats().finished += 1;
                // The next message of a conversation follows the answer. A model whose results depend
                // on the division of a text would compute other keys and values from a prompt.
                if self.model.is_batch_invariant() {
                    self.keep(&sequence, sequence.read());
                }
                Output::Finished(finish)
            }
            Err(error) => {
                tracing::warn!(sequence = %sequence.id, %error, "generation failed");
                self.stats().failed += 1;
                Output::Failed(error)
            }
        };
        self.model.close(sequence.id);
        sequence.end(last);
    }

    pub(crate) fn close_embedding(&mut self, embedding: &Embedding) {
        if let Some(sequence) = embedding.sequence() {
            self.model.close(sequence);
        }
    }

    pub(crate) fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_load(&self) {
        let mut stats = self.stats();
        stats.waiting = self.waiting.len();
        stats.running = self.running.len();
    }
}

/// Opens a sequence of the model.
pub(crate) fn open(
    model: &mut dyn LanguageModel,
    adapter: Option<AdapterId>,
) -> Result<SequenceId, GenerationError> {
    match adapter {
        Some(adapter) => contained(|| Ok(model.open_with(adapter).map_err(GenerationKind::model)?)),
        None => Ok(model.open()),
    }
}

/// Runs `work` and turns a panic into an error, so that a panic fails only the sequences of that
/// work.
pub(crate) fn contained<T>(work: impl FnOnce() -> Result<T, GenerationError>) -> Result<T, GenerationError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(GenerationKind::Panicked.into()))
}
