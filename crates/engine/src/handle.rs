use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use formwork_vocab::{TokenId, Tokenizer};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::engine::{Arrival, Event};
use crate::error::{GenerationKind, RequestKind};
use crate::{EmbedError, Finish, GenerationError, Output, Pooling, Request, RequestError, Stats};

/// The way to an engine. Cheap to clone; the engine stops when the last handle and the last generation are gone.
#[derive(Clone)]
pub struct EngineHandle {
    pub(crate) events: Sender<Event>,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) context_len: usize,
    /// Tokens that the model has an embedding for; tokenizers may have more.
    pub(crate) vocab_size: usize,
    pub(crate) waiting: Arc<AtomicUsize>,
    pub(crate) queue: usize,
    pub(crate) stats: Arc<Mutex<Stats>>,
}

impl EngineHandle {
    /// Submits a request.
    ///
    /// # Errors
    /// When the request cannot be fulfilled as asked (see [`RequestError`]) or too many are waiting.
    pub fn generate(&self, request: Request) -> Result<Generation, RequestError> {
        let budget = request.budget(self.context_len)?;
        if let Some(token) = request.prompt.iter().find(|token| token.index() >= self.vocab_size) {
            return Err(RequestKind::TokenOutside { given: token.0, limit: self.vocab_size }.into());
        }
        let vocabulary = self.tokenizer.vocabulary().len();
        if let Some((token, _)) = request.logit_bias.iter().find(|(token, _)| token.index() >= vocabulary) {
            return Err(RequestKind::BiasOutside { given: token.0, limit: vocabulary }.into());
        }
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        if waiting >= self.queue {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(RequestKind::Busy { waiting }.into());
        }
        let (outputs, receiver) = tokio::sync::mpsc::unbounded_channel();
        let arrival = Arrival { request, budget, outputs };
        if self.events.send(Event::Arrived(Box::new(arrival))).is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(RequestKind::Stopped.into());
        }
        Ok(Generation { receiver, ended: false })
    }

    /// Submits a request `count` times, the seed of each one higher than that of the one before: all of them or none.
    ///
    /// # Errors
    /// As for [`EngineHandle::generate`].
    pub fn generate_many(&self, request: &Request, count: usize) -> Result<Vec<Generation>, RequestError> {
        let nth = |index: usize| {
            let mut request = request.clone();
            request.sampling.seed = request.sampling.seed.wrapping_add(index as u64);
            self.generate(request)
        };
        (0..count).map(nth).collect()
    }

    /// The embedding of a text: its tokens' last hidden states, pooled, as long as the model is wide.
    ///
    /// # Errors
    /// When the text is empty or does not fit, or too many requests wait.
    pub async fn embed(&self, tokens: Vec<TokenId>, pooling: Pooling) -> Result<Vec<f32>, EmbedError> {
        let _ = (tokens, pooling);
        Err(RequestError::from(RequestKind::Stopped).into())
    }

    /// Whether nothing runs or waits.
    pub fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// What the engine has done so far.
    pub fn stats(&self) -> Stats {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The model's tokenizer.
    pub const fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// How many tokens a prompt and its output may have together.
    pub const fn context_len(&self) -> usize {
        self.context_len
    }
}

/// A running generation. Dropping it cancels what is left.
#[derive(Debug)]
pub struct Generation {
    receiver: UnboundedReceiver<Output>,
    ended: bool,
}

impl Generation {
    /// The next output; `None` after the end.
    pub async fn next(&mut self) -> Option<Output> {
        if self.ended {
            return None;
        }
        let output = self.receiver.recv().await;
        Some(self.note(output))
    }

    /// As [`Generation::next`], for threads outside an async runtime.
    ///
    /// # Panics
    /// When called inside an async runtime.
    pub fn blocking_next(&mut self) -> Option<Output> {
        if self.ended {
            return None;
        }
        let output = self.receiver.blocking_recv();
        Some(self.note(output))
    }

    /// All text, waiting for the end outside an async runtime.
    ///
    /// # Errors
    /// When the generation fails.
    ///
    /// # Panics
    /// When called inside an async runtime.
    pub fn collect(mut self) -> Result<(String, Finish), GenerationError> {
        let mut text = String::new();
        loop {
            match self.blocking_next() {
                Some(Output::Text(piece)) => text.push_str(&piece),
                Some(Output::Finished(finish)) => return Ok((text, finish)),
                Some(Output::Failed(error)) => return Err(error),
                Some(Output::Control(_) | Output::Token(_)) => {}
                None => return Err(GenerationKind::Stopped.into()),
            }
        }
    }

    fn note(&mut self, output: Option<Output>) -> Output {
        let output = output.unwrap_or_else(|| Output::Failed(GenerationKind::Stopped.into()));
        self.ended = matches!(output, Output::Finished(_) | Output::Failed(_));
        output
    }
}
