//! Models with byte tokens, and helpers to run them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use formwork_engine::{
    Engine, EngineHandle, EngineOptions, Finish, Generation, Output, Request, TokenLogprob, TokenMask,
};
use formwork_grammar::{Constraint, Grammar, Limits};
use formwork_lm::{
    Batch, LanguageModel, Logits, ModelError, Role, Run, RunLogits, ScriptedModel, SequenceId, TopLogits,
    Wanted,
};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};

/// The end-of-sequence token and a control token. The tokens below 256 are the bytes.
pub(crate) const END: TokenId = TokenId(256);
pub(crate) const CONTROL: TokenId = TokenId(257);
/// Tokens of several bytes.
pub(crate) const WORDS: [&str; 4] = ["true", "false", "\": ", "]]"];
pub(crate) const VOCABULARY: usize = 258 + WORDS.len();

pub(crate) fn tokenizer() -> Arc<Tokenizer> {
    static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(make_tokenizer);
    Arc::clone(&TOKENIZER)
}

fn make_tokenizer() -> Arc<Tokenizer> {
    let text = |bytes: &[u8]| Token { bytes: bytes.to_vec(), kind: TokenKind::Text };
    let control = |name: &str| Token { bytes: name.into(), kind: TokenKind::Control };
    let bytes = (0..=255u8).map(|byte| text(&[byte]));
    let others = [control("</s>"), control("</think>")];
    let words = WORDS.iter().map(|word| text(word.as_bytes()));
    let tokens = bytes.chain(others).chain(words).collect();
    Arc::new(Tokenizer::greedy(Vocabulary::new(tokens, vec![END]).unwrap()))
}

pub(crate) fn tokens(text: &str) -> Vec<TokenId> {
    text.bytes().map(|byte| TokenId(byte.into())).collect()
}

/// Fills a row with logits that depend on every earlier token, without a pattern.
pub(crate) fn babble(tokens: &[TokenId], row: &mut [f32]) {
    let mix = |state: u64, x: u64| (state ^ x).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let state = tokens.iter().fold(7, |state, token| mix(state, token.0.into()));
    for (token, logit) in row.iter_mut().enumerate() {
        *logit = (mix(mix(state, token as u64), 1) >> 40) as f32 / (1 << 21) as f32;
    }
}

/// A model that tests can inspect while an engine owns a clone.
#[derive(Clone)]
pub(crate) struct Shared {
    model: Arc<Mutex<ScriptedModel>>,
    is_batch_invariant: bool,
    token_time: Duration,
    /// Number of tokens that the model returns if the likeliest ones are enough. 0 for whole rows.
    top: usize,
    passes: Arc<Mutex<Vec<Pass>>>,
    /// Number of rows that the likeliest tokens replaced.
    top_rows: Arc<AtomicUsize>,
}

/// Role and number of tokens of each run of a forward pass.
pub(crate) type Pass = Vec<(Role, usize)>;

impl Shared {
    /// Wraps a model without batch invariance, so that prompts run alone and nothing is drafted by
    /// default.
    pub(crate) fn new(model: ScriptedModel) -> Self {
        Self {
            model: Arc::new(Mutex::new(model)),
            is_batch_invariant: false,
            token_time: Duration::ZERO,
            top: 0,
            passes: Arc::default(),
            top_rows: Arc::default(),
        }
    }

    /// Returns the model with a delay for each token.
    pub(crate) fn slow(self, token_time: Duration) -> Self {
        Self { token_time, ..self }
    }

    /// Returns the model with the given batch invariance.
    pub(crate) fn batch_invariant(self, is_batch_invariant: bool) -> Self {
        Self { is_batch_invariant, ..self }
    }

    /// Returns the model with `top` tokens of a row where they are enough.
    pub(crate) fn with_top(self, top: usize) -> Self {
        Self { top, ..self }
    }

    /// Returns the number of rows so far that the likeliest tokens replaced.
    pub(crate) fn top_rows(&self) -> usize {
        self.top_rows.load(Ordering::Relaxed)
    }

    /// Returns the likeliest tokens of a row instead of it, if they are requested and enough.
    fn reduced(&self, run: &Run<'_>, logits: RunLogits) -> RunLogits {
        let (Wanted::Top(request), RunLogits::Rows(rows)) = (run.wanted, &logits) else { return logits };
        let top = TopLogits::of(&rows[0], self.top, request.temperature);
        if self.top == 0 || !(request.is_enough)(&top) {
            return logits;
        }
        self.top_rows.fetch_add(1, Ordering::Relaxed);
        RunLogits::Top(top)
    }

    pub(crate) fn babbling(context: usize) -> Self {
        Self::new(ScriptedModel::new(VOCABULARY, context, babble))
    }

    pub(crate) fn open_sequences(&self) -> usize {
        self.with(|model| model.open_sequences())
    }

    /// Returns all forward passes so far.
    pub(crate) fn passes(&self) -> Vec<Pass> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn with<T>(&self, work: impl FnOnce(&mut ScriptedModel) -> T) -> T {
        work(&mut self.model.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LanguageModel for Shared {
    fn vocab_size(&self) -> usize {
        self.with(|model| model.vocab_size())
    }
    fn context_len(&self) -> usize {
        self.with(|model| model.context_len())
    }
    fn open(&mut self) -> SequenceId {
        self.with(ScriptedModel::open)
    }
    fn close(&mut self, sequence: SequenceId) {
        self.with(|model| model.close(sequence));
    }
    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        self.with(|model| model.truncate(sequence, len))
    }
    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        let tokens: usize = batch.runs.iter().map(|run| run.tokens.len()).sum();
        std::thread::sleep(self.token_time * tokens as u32);
        let runs = batch.runs.iter().map(|run| (run.role, run.tokens.len()));
        self.passes.lock().unwrap_or_else(PoisonError::into_inner).push(runs.collect());
        let logits = self.with(|model| model.forward(batch))?;
        Ok(batch.runs.iter().zip(logits.into_runs()).map(|(run, logits)| self.reduced(run, logits)).collect())
    }
    fn prompt_grain(&self) -> usize {
        self.with(|model| model.prompt_grain())
    }
    fn can_fork(&self) -> bool {
        self.with(|model| model.can_fork())
    }
    fn is_batch_invariant(&self) -> bool {
        self.is_batch_invariant
    }
    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        self.with(|model| model.fork(sequence, len))
    }
    fn kv_bytes_per_token(&self) -> usize {
        self.with(|model| model.kv_bytes_per_token())
    }
    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        std::thread::sleep(self.token_time * tokens.len() as u32);
        self.with(|model| model.hidden_states(sequence, tokens))
    }
}

/// Starts an engine without a time limit for steps, so that their sizes do not depend on the
/// machine.
pub(crate) fn start(model: impl LanguageModel + 'static, options: EngineOptions) -> EngineHandle {
    start_timed(model, EngineOptions { step_time: Duration::MAX, ..options })
}

/// Starts an engine with a draft model, without a time limit for steps.
pub(crate) fn start_with_draft(
    model: impl LanguageModel + 'static,
    draft: impl LanguageModel + 'static,
    options: EngineOptions,
) -> EngineHandle {
    let options = EngineOptions { step_time: Duration::MAX, ..options };
    Engine::start_with_draft(Box::new(model), Some(Box::new(draft)), tokenizer(), options)
}

/// Starts an engine with the time limit for steps in `options`.
pub(crate) fn start_timed(model: impl LanguageModel + 'static, options: EngineOptions) -> EngineHandle {
    Engine::start(Box::new(model), tokenizer(), options)
}

pub(crate) fn babbler() -> EngineHandle {
    start(Shared::babbling(600), EngineOptions::default())
}

/// Creates a model that computes one logits row per permit, and any number once the sender is
/// dropped.
pub(crate) fn held_back(permits: std::sync::mpsc::Receiver<()>) -> Shared {
    Shared::new(ScriptedModel::new(VOCABULARY, 600, move |tokens, row| {
        let _ = permits.recv();
        babble(tokens, row);
    }))
}

/// Creates a model that continues every prompt with `text` and then ends. A prompt must end with
/// `>`.
pub(crate) fn says(text: &'static [u8]) -> ScriptedModel {
    ScriptedModel::new(VOCABULARY, 600, move |tokens, row| {
        let start = tokens.iter().rposition(|token| token.0 == u32::from(b'>')).unwrap_or(0);
        let said: usize = tokens[start + 1..].iter().copied().map(byte_len).sum();
        row[text.get(said).map_or(END.index(), |&byte| byte.into())] = 100.0;
    })
}

pub(crate) fn constraint(grammar: &str) -> Constraint {
    let grammar = Grammar::gbnf(grammar, &Limits::default()).unwrap();
    Constraint::new(&grammar, Arc::clone(tokenizer().vocabulary())).unwrap()
}

fn byte_len(token: TokenId) -> usize {
    token.index().checked_sub(258).map_or(1, |word| WORDS[word].len())
}

/// Creates a request with default options.
pub(crate) fn request(prompt: &str) -> Request {
    Request::new(tokens(prompt))
}

/// Collected outputs of a generation.
#[derive(Default, Debug)]
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) controls: Vec<TokenId>,
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) logprobs: Vec<TokenLogprob>,
    pub(crate) masks: Vec<TokenMask>,
    pub(crate) prompt_logprobs: Vec<TokenLogprob>,
    pub(crate) finish: Option<Finish>,
}

impl Told {
    pub(crate) fn finish(&self) -> &Finish {
        self.finish.as_ref().unwrap()
    }
}

pub(crate) fn told(mut generation: Generation) -> Told {
    let mut told = Told::default();
    while let Some(output) = generation.blocking_next() {
        match output {
            Output::Text(text) => told.text.push_str(&text),
            Output::Control(token) => told.controls.push(token),
            Output::Generated(token) => told.tokens.push(token),
            Output::Token(logprob) => told.logprobs.push(logprob),
            Output::Masked(mask) => told.masks.push(mask),
            Output::PromptToken(logprob) => told.prompt_logprobs.push(logprob),
            Output::Finished(finish) => told.finish = Some(finish),
            Output::Failed(error) => panic!("{error}"),
        }
        // Checks that a text is only sent after the tokens that spell it.
        let seen = told.text.chars().count() + told.controls.len();
        let spelt = |token: &TokenLogprob| tokenizer().vocabulary().bytes(token.token).len();
        assert!(told.logprobs.is_empty() || seen <= told.logprobs.iter().map(spelt).sum());
    }
    told
}

pub(crate) fn run(engine: &EngineHandle, request: &Request) -> Told {
    told(engine.generate(request.clone()).unwrap())
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
