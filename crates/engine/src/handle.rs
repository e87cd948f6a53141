use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use formwork_grammar::ChoiceReader;
use formwork_lm::{Abilities, AdapterId};
use formwork_vocab::{TokenId, Tokenizer};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::arrival::{Arrival, Event};
use crate::decision::{ChoiceTracker, DecisionJob, SamplerState};
use crate::embedding::{Embedding, Goal, TextRequest};
use crate::error::{GenerationKind, RequestKind};
use crate::outbox::Seat;
use crate::processors::LogitsProcessors;
use crate::{
    Decided, DecisionError, DecisionRequest, EmbedError, Finish, GenerationError, Output, Pooling, Request,
    RequestError, Stats,
};

/// Maximum number of prompt tokens in one pass whose log-probabilities are reported. Only models that
/// read a prompt in one piece reach it.
const MOST_ROWS: usize = 1024;

/// Handle to an engine. Cheap to clone.
///
/// The engine stops when the last handle is dropped and all accepted requests have ended.
#[derive(Clone)]
pub struct EngineHandle {
    pub(crate) events: Sender<Event>,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) context_len: usize,
    /// Number of tokens that the model has an embedding for. The tokenizer may have more tokens.
    pub(crate) vocab_size: usize,
    /// Number of tokens at whose multiples a prompt may be cut.
    pub(crate) prompt_grain: usize,
    pub(crate) architecture: Option<Arc<str>>,
    pub(crate) abilities: Arc<Abilities>,
    /// Number of seats that are taken.
    pub(crate) load: Arc<AtomicUsize>,
    pub(crate) queue: usize,
    /// Names of the model's adapters.
    pub(crate) adapters: Arc<[String]>,
    /// Adapter of all requests of this handle.
    pub(crate) adapter: Option<AdapterId>,
    pub(crate) stats: Arc<Mutex<Stats>>,
}

impl EngineHandle {
    /// Submits a request.
    ///
    /// # Errors
    /// Returns an error if the request is invalid (see [`RequestError`]), too many requests are
    /// waiting, or the engine has stopped.
    pub fn generate(&self, request: Request) -> Result<Generation, RequestError> {
        let mut generations = self.submit(request, 1)?;
        generations.pop().ok_or_else(|| RequestKind::Stopped.into())
    }

    /// Submits a request `count` times; each copy uses the next higher seed.
    ///
    /// Accepts all copies or none. The copies share the reading of the prompt.
    ///
    /// # Errors
    /// Returns an error under the same conditions as [`EngineHandle::generate`].
    pub fn generate_many(&self, request: &Request, count: usize) -> Result<Vec<Generation>, RequestError> {
        self.submit(request.clone(), count)
    }

    fn submit(&self, request: Request, count: usize) -> Result<Vec<Generation>, RequestError> {
        // The length comes first, since the start of the constraint may take long.
        self.check(&request)?;
        let mut matcher = request.matcher(&self.tokenizer)?;
        let budget = request.budget(self.context_len, matcher.as_mut())?;
        let seats = self.seats(count)?;
        let arrived = Instant::now();
        let (mut arrivals, mut generations) = (Vec::new(), Vec::new());
        let requests = std::iter::repeat_n(request, count).zip(seats);
        for (index, (mut request, seat)) in requests.enumerate() {
            request.sampling.seed = request.sampling.seed.wrapping_add(index as u64);
            let (outputs, receiver) = tokio::sync::mpsc::unbounded_channel();
            // Created here instead of on the engine thread: there, other requests would wait, and a
            // panic would end them all.
            let processors = LogitsProcessors::new(&request, matcher.clone(), &self.tokenizer);
            arrivals.push(Arrival {
                request,
                adapter: self.adapter,
                processors,
                budget,
                outputs,
                seat,
                arrived,
            });
            generations.push(Generation { receiver, ended: false });
        }
        self.events.send(Event::Arrived(arrivals)).map_err(|_| RequestKind::Stopped)?;
        Ok(generations)
    }

    /// Checks a request against the model, except its constraint.
    fn check(&self, request: &Request) -> Result<(), RequestError> {
        self.check_generates()?;
        request.check(self.context_len)?;
        if request.prompt_logprobs && request.prompt.len().min(self.prompt_grain) > MOST_ROWS {
            return Err(RequestKind::TooManyRows { limit: MOST_ROWS }.into());
        }
        self.check_tokens(&request.prompt)?;
        let limit = self.vocab_size;
        let end = request.reasoning.iter().flat_map(|reasoning| &reasoning.close);
        if let Some(&TokenId(given)) = end.into_iter().find(|token| token.index() >= limit) {
            return Err(RequestKind::ReasoningEndOutside { given, limit }.into());
        }
        let limit = self.tokenizer.vocabulary().len();
        if let Some((token, _)) = request.logit_bias.iter().find(|(token, _)| token.index() >= limit) {
            return Err(RequestKind::BiasOutside { given: token.0, limit }.into());
        }
        if let Some(&TokenId(given)) = request.stop_tokens.iter().find(|token| token.index() >= limit) {
            return Err(RequestKind::StopOutside { given, limit }.into());
        }
        Ok(())
    }

    fn check_generates(&self) -> Result<(), RequestError> {
        if self.abilities.generates {
            return Ok(());
        }
        Err(RequestKind::NoGeneration { purpose: self.abilities.describe() }.into())
    }

    fn check_tokens(&self, tokens: &[TokenId]) -> Result<(), RequestError> {
        let limit = self.vocab_size;
        match tokens.iter().find(|token| token.index() >= limit) {
            Some(token) => Err(RequestKind::TokenOutside { given: token.0, limit }.into()),
            None => Ok(()),
        }
    }

    fn seats(&self, given: usize) -> Result<Vec<Seat>, RequestError> {
        if given == 1 {
            return Ok(vec![self.seat()?]);
        }
        let limit = self.queue;
        let seats = Seat::take_all(&self.load, given, limit);
        seats.map_err(|waiting| RequestKind::NoRoom { given, waiting, limit }.into())
    }

    fn seat(&self) -> Result<Seat, RequestError> {
        Seat::take(&self.load, self.queue).map_err(|waiting| RequestKind::Busy { waiting }.into())
    }

    /// Returns the embedding of a text: the pooled final hidden states of its tokens, after the layers
    /// that the model has for this purpose.
    ///
    /// # Errors
    /// - If the text is empty, exceeds the context, or has a token that is out of range.
    /// - If too many requests are waiting or the engine has stopped.
    /// - If the model fails or does not expose hidden states.
    pub async fn embed(&self, tokens: Vec<TokenId>, pooling: Pooling) -> Result<Vec<f32>, EmbedError> {
        self.read(TextRequest { tokens, second: None, pooling }, Goal::Vector).await
    }

    /// Returns the score of a text that contains a query and a document.
    ///
    /// # Errors
    /// Returns an error in the cases of [`EngineHandle::embed`], and if the model computes no scores.
    pub async fn score(&self, text: TextRequest) -> Result<f32, EmbedError> {
        let scores = self.read(text, Goal::Score).await?;
        Ok(scores.first().copied().unwrap_or_default())
    }

    /// Checks that a text of `given` tokens can be read, so that a request with many texts fails before
    /// any of them is read.
    ///
    /// # Errors
    /// Returns an error if the text is empty or exceeds the context.
    pub fn check_text(&self, given: usize) -> Result<(), RequestError> {
        let limit = self.context_len;
        match given {
            0 => Err(RequestKind::EmptyPrompt.into()),
            _ if given > limit => Err(RequestKind::TextTooLong { given, limit }.into()),
            _ => Ok(()),
        }
    }

    async fn read(&self, text: TextRequest, goal: Goal) -> Result<Vec<f32>, EmbedError> {
        self.check_text(text.tokens.len())?;
        self.check_tokens(&text.tokens)?;
        let (reply, result) = oneshot::channel();
        let embedding = Embedding::new((text, self.adapter), goal, reply, self.seat()?);
        let sent = self.events.send(Event::Embed(Box::new(embedding)));
        sent.map_err(|_| RequestError::from(RequestKind::Stopped))?;
        let result = result.await.unwrap_or_else(|_| Err(GenerationKind::Stopped.into()));
        Ok(result?)
    }

    /// Returns the state of a request's generation before its first token, for
    /// [`Question::sampler`](crate::Question::sampler).
    ///
    /// # Errors
    /// Returns an error if the constraint does not allow the begun text.
    pub fn sampler(&self, request: &Request) -> Result<SamplerState, RequestError> {
        SamplerState::new(request, &self.tokenizer)
    }

    /// Creates a tracker of the choices in a request's output. `reader` reads the content of the output.
    ///
    /// # Errors
    /// Returns an error if the constraint does not allow the begun text.
    pub fn tracker(&self, request: &Request, reader: ChoiceReader) -> Result<ChoiceTracker, RequestError> {
        let (prompt, sampler) = (request.prompt.clone(), self.sampler(request)?);
        Ok(ChoiceTracker::new(reader, prompt, sampler, Arc::clone(&self.tokenizer)))
    }

    /// Submits questions. The result has bounds on the probabilities of each question's options.
    ///
    /// # Errors
    /// - If the request has no question, or a question fails its [check](crate::Question::check).
    /// - If a prompt is empty, has a token that is out of range, or exceeds the context together with the
    ///   longest option.
    /// - If the model does not generate text, too many requests are waiting, or the engine has stopped.
    pub fn decide(&self, request: DecisionRequest) -> Result<Decision, DecisionError> {
        self.check_generates()?;
        let limit = self.context_len;
        if request.questions.is_empty() {
            return Err(RequestError::from(RequestKind::EmptyPrompt).into());
        }
        for (index, question) in request.questions.iter().enumerate() {
            if question.prompt.is_empty() {
                return Err(RequestError::from(RequestKind::EmptyPrompt).into());
            }
            self.check_tokens(&question.prompt)?;
            // A sequence of tokens has at most one token for each byte.
            let longest = question.options.iter().flatten().map(String::len).max();
            let room = longest.filter(|_| !request.is_part).unwrap_or_default();
            let given = question.prompt.len();
            if given + room > limit {
                return Err(DecisionError::TooLong { question: index, given, room, limit });
            }
            question.check(self.tokenizer.vocabulary())?;
        }
        let (reply, result) = oneshot::channel();
        let limit = if request.is_part { usize::MAX } else { self.queue };
        let seat = Seat::take(&self.load, limit);
        let seat = seat.map_err(|waiting| RequestError::from(RequestKind::Busy { waiting }))?;
        let job = DecisionJob::new(request, self.adapter, reply, seat);
        let sent = self.events.send(Event::Decide(Box::new(job)));
        sent.map_err(|_| RequestError::from(RequestKind::Stopped))?;
        Ok(Decision { result })
    }

    /// Returns the name of the model's architecture, as in GGUF files. `None` if it is not known.
    pub fn architecture(&self) -> Option<&str> {
        self.architecture.as_deref()
    }

    /// Returns the purposes of the model.
    pub fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    /// Returns true if no request is running or waiting.
    pub fn is_idle(&self) -> bool {
        self.load.load(Ordering::Relaxed) == 0
    }

    /// Empties the prefix cache.
    pub async fn clear_prefix_cache(&self) {
        let (reply, done) = oneshot::channel();
        if self.events.send(Event::ClearCache(reply)).is_ok() {
            // A stopping engine drops its cache anyway.
            let _ = done.await;
        }
    }

    /// Returns the engine's statistics since its start.
    pub fn stats(&self) -> Stats {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the model's tokenizer.
    pub const fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Returns the names of the model's adapters.
    pub fn adapters(&self) -> &[String] {
        &self.adapters
    }

    /// Returns a handle to the same engine whose requests are computed with an adapter of the model.
    /// Returns `None` if the model has no adapter called `name`.
    #[must_use]
    pub fn with_adapter(&self, name: &str) -> Option<Self> {
        let index = self.adapters.iter().position(|adapter| adapter == name)?;
        Some(Self { adapter: Some(AdapterId(index as u32)), ..self.clone() })
    }

    /// Returns the model's context length: the maximum number of tokens of a prompt and its output
    /// together.
    pub const fn context_len(&self) -> usize {
        self.context_len
    }
}

/// Submitted questions. Dropping it cancels the rest of their computation.
#[derive(Debug)]
pub struct Decision {
    result: oneshot::Receiver<Result<Decided, GenerationError>>,
}

impl Decision {
    /// Waits for the result.
    ///
    /// # Errors
    /// Returns an error if the model fails, the engine stops or the deadline passes.
    pub async fn result(self) -> Result<Decided, GenerationError> {
        self.result.await.unwrap_or_else(|_| Err(GenerationKind::Stopped.into()))
    }

    /// Waits for the result, blocking the thread. For threads outside an async runtime.
    ///
    /// # Errors
    /// Returns an error in the cases of [`Decision::result`].
    ///
    /// # Panics
    /// Panics if called inside an async runtime.
    pub fn blocking_result(self) -> Result<Decided, GenerationError> {
        self.result.blocking_recv().unwrap_or_else(|_| Err(GenerationKind::Stopped.into()))
    }
}

/// A running generation. Dropping it cancels the rest.
#[derive(Debug)]
pub struct Generation {
    receiver: UnboundedReceiver<Output>,
    ended: bool,
}

impl Generation {
    /// Returns the next output, or `None` after the end.
    pub async fn next(&mut self) -> Option<Output> {
        if self.ended {
            return None;
        }
        let output = self.receiver.recv().await;
        Some(self.note(output))
    }

    /// Returns the next output, blocking the thread. For threads outside an async runtime; see
    /// [`Generation::next`].
    ///
    /// # Panics
    /// Panics if called inside an async runtime.
    pub fn blocking_next(&mut self) -> Option<Output> {
        if self.ended {
            return None;
        }
        let output = self.receiver.blocking_recv();
        Some(self.note(output))
    }

    /// Waits for the end and returns the whole text. For threads outside an async runtime.
    ///
    /// # Errors
    /// Returns an error if the generation fails.
    ///
    /// # Panics
    /// Panics if called inside an async runtime.
    pub fn collect(mut self) -> Result<(String, Finish), GenerationError> {
        let mut text = String::new();
        loop {
            match self.blocking_next() {
                Some(Output::Text(piece)) => text.push_str(&piece),
                Some(Output::Finished(finish)) => return Ok((text, finish)),
                Some(Output::Failed(error)) => return Err(error),
                Some(
                    Output::Control(_)
                    | Output::Generated(_)
                    | Output::Token(_)
                    | Output::Masked(_)
                    | Output::PromptToken(_),
                ) => {}
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
