//! One request on its way through the model.

mod feed;

use std::sync::Arc;
use std::time::{Duration, Instant};

use formwork_grammar::Matcher;
use formwork_lm::SequenceId;
use formwork_vocab::{TokenId, TokenSet, Tokenizer};

use self::feed::Draft;
pub(crate) use self::feed::Feed;
use crate::arrival::Arrival;
use crate::error::GenerationKind;
use crate::lookup::{Precedent, Record};
use crate::outbox::Outbox;
use crate::processors::LogitsProcessors;
use crate::reasoning::Thinking;
use crate::scheduler::Need;
use crate::text::{Place, TextStream};
use crate::{
    Finish, FinishReason, GenerationError, OnBudget, Output, Request, Sampling, Stats, Timings, Usage,
};

/// Seed salt that keeps a redraw within the token budget independent of the rejected draw.
const REDRAWN: u64 = 0x5bd1_e995_97f4_a7c1;

/// A sequence between two steps: its tokens, and the state needed to choose the next one.
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    order: u64,
    request: Request,
    processors: LogitsProcessors,
    tokenizer: Arc<Tokenizer>,
    outbox: Outbox,
    text: TextStream,
    thinking: Option<Thinking>,
    /// Number of output tokens left in the budget.
    remaining: usize,
    /// Tokens of the prompt and the output.
    tokens: Vec<TokenId>,
    /// Number of tokens that the model has read.
    read: usize,
    /// Mask for the next token, if there is a constraint.
    mask: Option<Arc<TokenSet>>,
    /// True if the largest logit alone was not enough to choose the next token.
    wants_whole: bool,
    /// True if the sequence was in a batch that failed and has not received logits since.
    is_suspect: bool,
    /// Usage and grammar time already added to the statistics, and the time of the last new tokens.
    reported: (Usage, Duration, Option<Instant>),
    /// Tokens that may come next, with the masks after them.
    drafts: Vec<Draft>,
    /// Place that the drafts were copied from.
    precedent: Option<Precedent>,
    record: Record,
    /// Numbers of drafts tried and accepted since the last report to the statistics.
    tried: (u64, u64),
    /// Reason for the end while held tokens still wait for their logits.
    ending: Option<FinishReason>,
    usage: Usage,
    closed_by_budget: bool,
    times: Times,
}

/// Timestamps of a sequence, and its total grammar time.
struct Times {
    arrived: Instant,
    admitted: Instant,
    first_token: Option<Instant>,
    prompt_read: Option<Instant>,
    grammar: Duration,
}

/// Result of a step for a sequence.
#[derive(Debug)]
pub(crate) enum Progress {
    Running,
    Ended(Finish),
}

impl Sequence {
    /// Creates a sequence; `order` must be larger than the order of every earlier sequence.
    pub(crate) fn new(id: SequenceId, order: u64, arrival: Arrival, tokenizer: Arc<Tokenizer>) -> Self {
        let Arrival { request, processors, budget, outputs, seat, arrived } = arrival;
        Self {
            id,
            order,
            text: TextStream::new(request.stop.clone()),
            processors,
            thinking: request.reasoning.clone().map(|bound| Thinking::new(bound, tokenizer.vocabulary())),
            tokenizer,
            outbox: Outbox::new(outputs, request.logprobs, seat),
            remaining: budget,
            tokens: request.prompt.clone(),
            read: 0,
            mask: None,
            wants_whole: false,
            is_suspect: false,
            reported: (Usage::default(), Duration::ZERO, None),
            drafts: Vec::new(),
            precedent: None,
            record: Record::default(),
            tried: (0, 0),
            ending: None,
            usage: Usage { prompt_tokens: request.prompt.len(), ..Usage::default() },
            closed_by_budget: false,
            times: Times {
                arrived,
                admitted: Instant::now(),
                first_token: None,
                prompt_read: None,
                grammar: Duration::ZERO,
            },
            request,
        }
    }

    /// Returns true if the receiver of the outputs is gone.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.outbox.is_closed()
    }

    /// Returns the request's deadline.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.request.deadline
    }

    /// Returns the sequence's rank in scheduling; lower values come first.
    pub(crate) const fn order(&self) -> u64 {
        self.order
    }

    /// Returns true if the sequence was in a batch that failed and has not received logits since.
    pub(crate) const fn is_suspect(&self) -> bool {
        self.is_suspect
    }

    pub(crate) fn need(&self) -> Need {
        let len = self.request.prompt.len();
        if self.read < len {
            Need::Prompt { read: self.read, len }
        } else {
            Need::Generated(self.readable() - self.read + self.drafts.len())
        }
    }

    /// Returns the number of tokens that the model has read.
    pub(crate) const fn read(&self) -> usize {
        self.read
    }

    /// Returns the tokens that the model has not read.
    pub(crate) fn unread(&self) -> &[TokenId] {
        &self.tokens[self.read..]
    }

    /// Returns the tokens of the prompt.
    pub(crate) fn prompt(&self) -> &[TokenId] {
        &self.request.prompt
    }

    /// Returns true if both sequences are reading the same prompt, so that one can read it for
    /// both.
    pub(crate) fn reads_as(&self, other: &Self) -> bool {
        let reads = |one: &Self| matches!(one.need(), Need::Prompt { .. }) && !one.is_suspect;
        reads(self) && reads(other) && self.prompt() == other.prompt()
    }

    /// Moves to another sequence of the model, in which the first `read` tokens of the prompt are
    /// read.
    pub(crate) const fn resume(&mut self, id: SequenceId, read: usize) {
        self.id = id;
        if !self.is_suspect {
            self.usage.cached_tokens += read - self.read;
        }
        self.read = read;
    }

    /// Moves to an empty sequence of the model, to read everything again.
    pub(crate) fn start_over(&mut self, id: SequenceId) {
        self.drafts.clear();
        self.id = id;
        self.read = 0;
        self.is_suspect = true;
    }

    /// Adds the changes since the last call to the statistics.
    pub(crate) fn report(&mut self, stats: &mut Stats) {
        let (before, grammar, last) = self.reported;
        let now = Instant::now();
        let (drafted, accepted) = std::mem::take(&mut self.tried);
        stats.drafted_tokens += drafted;
        stats.accepted_tokens += accepted;
        let cached = (self.usage.cached_tokens - before.cached_tokens) as u64;
        stats.cached_tokens += cached;
        stats.prompt_tokens += cached;
        stats.grammar += self.times.grammar.saturating_sub(grammar);
        let tokens = self.usage.completion_tokens - before.completion_tokens;
        if tokens == 0 {
            self.reported = (self.usage, self.times.grammar, last);
            return;
        }
        stats.completion_tokens += tokens as u64;
        stats.forced_tokens += (self.usage.forced_tokens - before.forced_tokens) as u64;
        match last {
            None => stats.first_token.observe((now - self.times.arrived).as_secs_f64()),
            Some(last) => stats.between_tokens.observe((now - last).as_secs_f64()),
        }
        self.reported = (self.usage, self.times.grammar, Some(now));
    }

    /// Frees the seat and then sends the last output.
    pub(crate) fn end(self, last: Output) {
        self.outbox.end(last);
    }

    /// Advances without the model: appends forced tokens and the end of a reasoning that used up
    /// its budget, and detects the end of the output.
    ///
    /// Called once before the first step and after every token.
    pub(crate) fn advance(&mut self) -> Progress {
        let mut matcher = self.processors.matcher.take();
        let started = Instant::now();
        let end = self.take_decided(matcher.as_mut());
        if matcher.is_some() {
            self.times.grammar += started.elapsed();
        }
        self.processors.matcher = matcher;
        match end {
            None => Progress::Running,
            Some(reason) => self.finish(reason),
        }
    }

    fn take_decided(&mut self, mut matcher: Option<&mut Matcher>) -> Option<FinishReason> {
        loop {
            if matcher.as_mut().is_some_and(|matcher| matcher.complete()) {
                return Some(FinishReason::Stop);
            }
            if self.remaining == 0 {
                // With `OnBudget::Close` the output is complete at this point.
                self.closed_by_budget = matcher.is_some() && self.request.on_budget == OnBudget::Close;
                return Some(if self.closed_by_budget { FinishReason::Stop } else { FinishReason::Length });
            }
            let before = self.usage.completion_tokens;
            if let Some(end) = self.reasoning_end(matcher.as_deref()) {
                if self.take(&end, matcher.as_deref_mut()) {
                    return Some(FinishReason::Stop);
                }
            } else if let Some(matcher) = matcher.as_deref_mut() {
                let mask = matcher.mask();
                let forced = match mask.single() {
                    Some(only) if self.tokenizer.vocabulary().is_end(only) => {
                        return Some(FinishReason::Stop);
                    }
                    _ if !self.request.forced_tokens => Vec::new(),
                    Some(only) => vec![only],
                    None => matcher.forced_tokens(&self.tokenizer),
                };
                let stopped = self.take(&forced, Some(matcher));
                self.usage.forced_tokens += self.usage.completion_tokens - before;
                if stopped {
                    return Some(FinishReason::Stop);
                }
                self.mask = Some(mask);
            }
            if self.usage.completion_tokens == before {
                return None;
            }
        }
    }

    /// Returns the tokens that end the reasoning, if they are due.
    ///
    /// Returns `None` if the constraint does not allow these tokens or leaves too little budget
    /// after them.
    fn reasoning_end(&self, matcher: Option<&Matcher>) -> Option<Vec<TokenId>> {
        let end = self.thinking.as_ref()?.due(self.output(), self.tokenizer.vocabulary())?;
        // Uses a clone: the matcher stores a guaranteed closing path, and looking ahead must not
        // change it.
        let Some(mut ahead) = matcher.cloned() else { return Some(end) };
        let fits = end.iter().enumerate().all(|(index, &token)| {
            self.allows(&mut ahead, token, self.remaining.saturating_sub(index))
                && ahead.commit(token).is_ok()
        });
        fits.then_some(end)
    }

    /// Returns true if `token` may come next with `remaining` tokens left, including the token.
    fn allows(&self, matcher: &mut Matcher, token: TokenId, remaining: usize) -> bool {
        match self.request.on_budget {
            OnBudget::Close => matcher.allows_within(token, remaining),
            OnBudget::Length => remaining > 0,
        }
    }

    /// Appends tokens that were not sampled, up to the first that is not allowed.
    ///
    /// Returns true if a stop string occurred.
    fn take(&mut self, tokens: &[TokenId], mut matcher: Option<&mut Matcher>) -> bool {
        for &token in tokens.iter().take(self.remaining) {
            if let Some(matcher) = matcher.as_deref_mut()
                && (!self.allows(matcher, token, self.remaining) || matcher.commit(token).is_err())
            {
                break;
            }
            if self.emit(token, None, matcher.as_deref_mut()) {
                return true;
            }
        }
        false
    }

    /// Chooses the next token from logits and appends it; see [`Sequence::take_rows`]. Shape:
    /// `[vocabulary]`.
    fn sample(&mut self, logits: &[f32], is_partial: bool) -> Result<Progress, GenerationError> {
        let token = self.choose(logits, is_partial)?;
        self.wants_whole = token.is_none();
        let Some(token) = token else { return Ok(Progress::Running) };
        let mut matcher = self.processors.matcher.take();
        let is_stop =
            self.request.stop_tokens.contains(&token) && matcher.as_mut().is_none_or(Matcher::accepting);
        if is_stop || self.tokenizer.vocabulary().is_end(token) {
            return Ok(self.finish(FinishReason::Stop));
        }
        if let Some(matcher) = &mut matcher {
            matcher.commit(token).map_err(GenerationKind::from)?;
        }
        let stopped = self.emit(token, Some(logits), matcher.as_mut());
        self.processors.matcher = matcher;
        Ok(if stopped { self.finish(FinishReason::Stop) } else { self.advance() })
    }

    /// Samples a token within the mask and the budget.
    ///
    /// Returns `None` if a partial row does not contain the logits that are needed.
    fn choose(&mut self, logits: &[f32], is_partial: bool) -> Result<Option<TokenId>, GenerationError> {
        let logits = self.processors.adjust(logits, self.mask.as_deref());
        let sampling = self.request.sampling;
        let position = self.usage.completion_tokens;
        let choose = |mask: Option<&TokenSet>, seed: u64| {
            let sampling = Sampling { seed, ..sampling };
            sampling.choose(&logits, mask, position).ok_or(GenerationKind::NoCandidate)
        };
        let Some(matcher) = &mut self.processors.matcher else {
            return Ok(Some(choose(None, sampling.seed)?));
        };
        let token = choose(self.mask.as_deref(), sampling.seed)?;
        if self.request.on_budget == OnBudget::Length {
            return Ok(Some(token));
        }
        let started = Instant::now();
        let within = matcher.allows_within(token, self.remaining);
        let token = if within {
            Some(token)
        } else if is_partial {
            None
        } else {
            // Uses a separate random draw: the first one is conditioned on its token being
            // rejected.
            self.closed_by_budget = true;
            Some(choose(Some(&matcher.mask_within(self.remaining)), sampling.seed ^ REDRAWN)?)
        };
        self.times.grammar += started.elapsed();
        Ok(token)
    }

    /// Appends a token to the output and sends its text. The matcher has already committed the
    /// token.
    ///
    /// `logits` is `None` for a token that was not sampled. Returns true if a stop string occurred.
    fn emit(&mut self, token: TokenId, logits: Option<&[f32]>, matcher: Option<&mut Matcher>) -> bool {
        self.times.first_token.get_or_insert_with(Instant::now);
        let index = self.output().len();
        self.tokens.push(token);
        self.usage.completion_tokens += 1;
        self.remaining = self.remaining.saturating_sub(1);
        self.processors.note(token);
        if let Some(thinking) = &mut self.thinking {
            thinking.note(&self.tokens[self.request.prompt.len()..], self.tokenizer.vocabulary());
            self.usage.reasoning_tokens = thinking.tokens();
        }
        self.outbox.token(token, logits);
        if self.tokenizer.vocabulary().kind(token).is_text() {
            self.show(index, token, matcher)
        } else {
            self.show_held();
            self.outbox.send(Output::Control(token));
            false
        }
    }

    /// Sends the text of output token `index`. Returns true if a stop string occurred.
    fn show(&mut self, index: usize, token: TokenId, mut matcher: Option<&mut Matcher>) -> bool {
        let vocabulary = self.tokenizer.vocabulary();
        let output = &self.tokens[self.request.prompt.len()..];
        let may_stop = |place: Place| {
            let Some(matcher) = &mut matcher else { return true };
            let before = vocabulary.bytes(output[place.token]).get(..place.bytes);
            before.is_some_and(|before| matcher.accepting_at(place.token, before))
        };
        let piece = self.text.push(index, vocabulary.bytes(token), may_stop);
        if !piece.text.is_empty() {
            self.outbox.send(Output::Text(piece.text));
        }
        if piece.stopped {
            self.text = TextStream::new(Vec::new());
        }
        piece.stopped
    }

    /// Sends text that was held back for a stop string that can no longer complete.
    fn show_held(&mut self) {
        let rest = self.text.finish();
        if !rest.is_empty() {
            self.outbox.send(Output::Text(rest));
        }
    }

    fn output(&self) -> &[TokenId] {
        &self.tokens[self.request.prompt.len()..]
    }

    /// Ends the sequence as soon as all its tokens are reported.
    fn finish(&mut self, reason: FinishReason) -> Progress {
        self.show_held();
        self.ending = Some(reason);
        if self.outbox.held() > 0 { Progress::Running } else { Progress::Ended(self.summary(reason)) }
    }

    fn summary(&self, reason: FinishReason) -> Finish {
        let now = Instant::now();
        let Times { admitted, first_token, prompt_read, grammar, .. } = self.times;
        let (first, read) = (first_token.unwrap_or(now), prompt_read.unwrap_or(now));
        Finish {
            reason,
            closed_by_budget: self.closed_by_budget,
            usage: self.usage,
            cumulative_logprob: self.outbox.cumulative(),
            timings: Timings {
                first_token: first - admitted,
                prompt: read - admitted,
                decode: now - read,
                grammar,
            },
        }
    }
}
