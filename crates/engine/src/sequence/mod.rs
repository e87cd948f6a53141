//! One request on its way through the model.

mod account;
mod budget;
mod delivery;
mod feed;
mod floor;
mod speculation;

use std::sync::Arc;
use std::time::Instant;

use formwork_grammar::Matcher;
use formwork_lm::{AdapterId, SequenceId, TopLogits};
use formwork_vocab::{TokenId, TokenSet, Tokenizer};

use self::account::Account;
use self::budget::Budget;
use self::delivery::Delivery;
use self::feed::RowLogits;
pub(crate) use self::feed::{Ahead, Feed, FeedLogits, LogitsNeed};
use self::floor::Floor;
use self::speculation::Speculation;
use crate::arrival::Arrival;
use crate::error::GenerationKind;
use crate::mask_view::{Chosen, TokenOrigin};
use crate::outbox::Outbox;
use crate::processors::LogitsProcessors;
use crate::reasoning::Thinking;
use crate::scheduler::Need;
use crate::text::Place;
use crate::{Finish, FinishReason, GenerationError, Output, Request, Sampling, Stats};

/// Seed salt that keeps a redraw within the token budget independent of the rejected draw.
const REDRAWN: u64 = 0x5bd1_e995_97f4_a7c1;

/// A sequence between two steps: its tokens, and the state needed to choose the next one.
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    order: u64,
    /// Adapter of the model to compute the sequence with.
    adapter: Option<AdapterId>,
    request: Request,
    tokenizer: Arc<Tokenizer>,
    /// Tokens of the prompt and the output.
    tokens: Vec<TokenId>,
    /// Number of tokens that the model has read.
    read: usize,
    /// True if the sequence was in a batch that failed and has not received logits since.
    is_suspect: bool,
    processors: LogitsProcessors,
    /// Position of the constraint before the first token that waits for its logits, if masks are reported. Masks
    /// of waiting tokens are made one at a time, because each has a bit for every token of the vocabulary.
    viewer: Option<Matcher>,
    /// Number of tokens that the matcher had committed before the output.
    begun: usize,
    /// Mask for the next token. `None` if all tokens are allowed.
    mask: Option<Arc<TokenSet>>,
    /// True if the largest logits alone were not enough to choose the next token.
    wants_whole: bool,
    thinking: Option<Thinking>,
    budget: Budget,
    floor: Floor,
    speculation: Speculation,
    account: Account,
    delivery: Delivery,
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
        let Arrival { request, adapter, processors, budget, outputs, seat, arrived } = arrival;
        let mut delivery = Delivery::new(request.stop.clone(), Outbox::new(outputs, &request, seat));
        if request.prompt_logprobs {
            delivery.prompt(&request.prompt);
        }
        Self {
            id,
            order,
            adapter,
            tokens: request.prompt.clone(),
            read: 0,
            is_suspect: false,
            begun: processors.matcher.as_ref().map_or(0, Matcher::len),
            viewer: None,
            processors,
            mask: None,
            wants_whole: false,
            thinking: request.reasoning.clone().map(|bound| Thinking::new(bound, tokenizer.vocabulary())),
            budget: Budget::new(budget, request.on_budget),
            floor: Floor::new(&request, tokenizer.vocabulary()),
            speculation: Speculation::default(),
            account: Account::new(request.prompt.len(), arrived),
            delivery,
            request,
            tokenizer,
        }
    }

    /// Returns true if the receiver of the outputs is gone.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.delivery.is_cancelled()
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
            Need::Generated(self.readable() - self.read + self.speculation.len())
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

    /// Returns the tokens of the prompt and the output.
    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Returns the temperature of the request.
    pub(crate) const fn temperature(&self) -> f32 {
        self.request.sampling.temperature
    }

    /// Returns the number of output tokens left.
    pub(crate) const fn remaining(&self) -> usize {
        self.budget.remaining()
    }

    /// Returns the tokens of the prompt.
    pub(crate) fn prompt(&self) -> &[TokenId] {
        &self.request.prompt
    }

    /// Returns the adapter of the model to compute the sequence with.
    pub(crate) const fn adapter(&self) -> Option<AdapterId> {
        self.adapter
    }

    /// Returns true if both sequences are reading the same prompt with the same adapter, so that one can
    /// read it for both.
    pub(crate) fn reads_as(&self, other: &Self) -> bool {
        let reads = |one: &Self| {
            matches!(one.need(), Need::Prompt { .. }) && !one.is_suspect && !one.reports_prompt()
        };
        reads(self) && reads(other) && self.adapter == other.adapter && self.prompt() == other.prompt()
    }

    /// Returns true if log-probabilities of the prompt are not reported yet. Such a sequence reads the
    /// prompt itself, a few tokens in a pass, because each token needs a row of logits.
    pub(crate) fn reports_prompt(&self) -> bool {
        self.first_wanted() + 1 < self.request.prompt.len()
    }

    /// Moves to another sequence of the model, in which the first `read` tokens of the prompt are
    /// read.
    pub(crate) const fn resume(&mut self, id: SequenceId, read: usize) {
        self.id = id;
        if !self.is_suspect {
            self.account.count_cached(read - self.read);
        }
        self.read = read;
    }

    /// Moves to an empty sequence of the model, to read everything again.
    pub(crate) fn start_over(&mut self, id: SequenceId) {
        self.speculation.clear();
        self.id = id;
        self.read = 0;
        self.is_suspect = true;
    }

    /// Adds the changes since the last call to the statistics.
    pub(crate) fn report(&mut self, stats: &mut Stats) {
        self.speculation.report(stats);
        self.account.report(stats);
    }

    /// Frees the seat and then sends the last output.
    pub(crate) fn end(self, last: Output) {
        self.delivery.end(last);
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
            self.account.add_grammar_since(started);
        } else {
            self.mask = None;
        }
        let len = self.output().len();
        self.mask = self.floor.restrict(self.mask.take(), len, matcher.as_mut());
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
            if self.budget.remaining() == 0 {
                let is_complete = self.budget.run_out(matcher.is_some());
                return Some(if is_complete { FinishReason::Stop } else { FinishReason::Length });
            }
            let before = self.account.completion_tokens();
            if let Some(end) = self.reasoning_end(matcher.as_deref()) {
                if self.take(&end, TokenOrigin::ReasoningBudget, matcher.as_deref_mut()) {
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
                let stopped = self.take(&forced, TokenOrigin::OnlyText, Some(matcher));
                self.account.count_forced_since(before);
                if stopped {
                    return Some(FinishReason::Stop);
                }
                self.mask = Some(mask);
            }
            if self.account.completion_tokens() == before {
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
            self.budget.allows(&mut ahead, token, index) && ahead.commit(token).is_ok()
        });
        fits.then_some(end)
    }

    /// Appends tokens that were not sampled, up to the first that is not allowed.
    ///
    /// Returns true if a stop string occurred.
    fn take(&mut self, tokens: &[TokenId], origin: TokenOrigin, mut matcher: Option<&mut Matcher>) -> bool {
        for &token in tokens.iter().take(self.budget.remaining()) {
            if self.request.mask_view.is_some() && self.viewer.is_none() {
                self.viewer = matcher.as_deref().cloned();
            }
            if let Some(matcher) = matcher.as_deref_mut()
                && (!self.budget.allows(matcher, token, 0) || matcher.commit(token).is_err())
            {
                break;
            }
            if self.emit(token, &Chosen { origin, mask: None }, None, matcher.as_deref_mut()) {
                return true;
            }
        }
        false
    }

    /// Chooses the next token from logits and appends it; see [`Sequence::take_logits`].
    fn sample(&mut self, row: RowLogits<'_>) -> Result<Progress, GenerationError> {
        let chosen = self.choose(row)?;
        self.wants_whole = chosen.is_none();
        let Some((token, chosen)) = chosen else { return Ok(Progress::Running) };
        let mut matcher = self.processors.matcher.take();
        let is_stop = self.request.stop_tokens.contains(&token)
            && !self.floor.is_short(self.output().len())
            && matcher.as_mut().is_none_or(Matcher::accepting);
        if is_stop || self.tokenizer.vocabulary().is_end(token) {
            if self.request.prompt_logprobs
                && let RowLogits::Whole(logits) = row
            {
                self.delivery.ending(token, logits);
            }
            return Ok(self.finish(FinishReason::Stop));
        }
        if let Some(matcher) = &mut matcher {
            matcher.commit(token).map_err(GenerationKind::from)?;
        }
        let logits = match row {
            RowLogits::Whole(logits) => Some(logits),
            // Such rows are requested only if nothing is reported about all logits.
            RowLogits::Largest(_) | RowLogits::Top(_) => None,
        };
        let stopped = self.emit(token, &chosen, logits, matcher.as_mut());
        self.processors.matcher = matcher;
        Ok(if stopped { self.finish(FinishReason::Stop) } else { self.advance() })
    }

    /// Samples a token within the mask and the budget.
    ///
    /// Returns `None` if the row does not contain the logits that are needed.
    fn choose(&mut self, row: RowLogits<'_>) -> Result<Option<(TokenId, Chosen)>, GenerationError> {
        let Some(token) = self.draw(row, self.mask.as_deref(), self.request.sampling.seed)? else {
            return Ok(None);
        };
        let mask = self.mask.clone().filter(|_| self.processors.matcher.is_some());
        let chosen = Chosen { origin: TokenOrigin::Sampled, mask };
        let Some(matcher) = self.processors.matcher.as_mut().filter(|_| self.budget.must_close()) else {
            return Ok(Some((token, chosen)));
        };
        let started = Instant::now();
        let closing = if self.budget.allows(matcher, token, 0) {
            None
        } else if row.has_all() {
            Some(self.budget.close(matcher))
        } else {
            return Ok(None);
        };
        self.account.add_grammar_since(started);
        let Some(closing) = closing else { return Ok(Some((token, chosen))) };
        let chosen = Chosen { origin: TokenOrigin::TokenBudget, ..chosen };
        let closing = self.allowed_of(closing);
        if let Some(only) = closing.single() {
            return Ok(Some((only, chosen)));
        }
        // Uses a separate random draw: the first one is conditioned on its token being rejected.
        let token = self.draw(row, Some(&closing), self.request.sampling.seed ^ REDRAWN)?;
        Ok(token.map(|token| (token, chosen)))
    }

    /// Returns the tokens of a set that the mask allows. If there are none, returns one of the set, which the
    /// mask left out because it ends the output.
    fn allowed_of(&self, set: TokenSet) -> TokenSet {
        let Some(mask) = self.mask.as_ref().filter(|_| self.floor.excludes(self.output().len())) else {
            return set;
        };
        let mut allowed = TokenSet::empty(set.universe());
        set.iter().filter(|&token| mask.contains(token)).for_each(|token| allowed.insert(token));
        if allowed.is_empty() {
            set.iter().take(1).for_each(|token| allowed.insert(token));
        }
        allowed
    }

    /// Draws a token of `mask`, which is a part of the mask of the row. Returns `None` if the likeliest
    /// tokens are not enough.
    fn draw(
        &self,
        row: RowLogits<'_>,
        mask: Option<&TokenSet>,
        seed: u64,
    ) -> Result<Option<TokenId>, GenerationError> {
        let sampling = Sampling { seed, ..self.request.sampling };
        let position = self.account.completion_tokens();
        match row {
            RowLogits::Whole(logits) | RowLogits::Largest(logits) => {
                let logits = self.processors.adjust(logits, mask);
                let token = sampling.choose(&logits, mask, position).ok_or(GenerationKind::NoCandidate)?;
                Ok(Some(token))
            }
            RowLogits::Top(top) if top.is_complete => {
                let is_allowed = |token| mask.is_none_or(|mask| mask.contains(token));
                let tokens = top.tokens.iter().copied().filter(|(token, _)| is_allowed(*token));
                Ok(sampling.choose_top(&TopLogits { tokens: tokens.collect(), ..*top }, position))
            }
            RowLogits::Top(top) => Ok(sampling.choose_top(top, position)),
        }
    }

    /// Appends a token to the output and sends its text. The matcher has already committed the
    /// token.
    ///
    /// `logits` is `None` for a token that was not sampled. Returns true if a stop string occurred.
    fn emit(
        &mut self,
        token: TokenId,
        chosen: &Chosen,
        logits: Option<&[f32]>,
        matcher: Option<&mut Matcher>,
    ) -> bool {
        let index = self.output().len();
        self.tokens.push(token);
        self.account.count_token();
        self.budget.spend();
        self.processors.note(token);
        if let Some(thinking) = &mut self.thinking {
            thinking.note(&self.tokens[self.request.prompt.len()..], self.tokenizer.vocabulary());
            self.account.set_reasoning(thinking.tokens());
        }
        self.delivery.token(token, chosen, logits);
        if self.tokenizer.vocabulary().kind(token).is_text() {
            self.show(index, token, matcher)
        } else {
            self.delivery.control(token);
            false
        }
    }

    /// Sends the text of output token `index`. Returns true if a stop string occurred.
    fn show(&mut self, index: usize, token: TokenId, mut matcher: Option<&mut Matcher>) -> bool {
        let (vocabulary, begun) = (self.tokenizer.vocabulary(), self.begun);
        let output = &self.tokens[self.request.prompt.len()..];
        let is_short = self.floor.is_short(output.len());
        let may_stop = |place: Place| {
            if is_short {
                return false;
            }
            let Some(matcher) = &mut matcher else { return true };
            let before = vocabulary.bytes(output[place.token]).get(..place.bytes);
            before.is_some_and(|before| matcher.accepting_at(begun + place.token, before))
        };
        self.delivery.show(index, vocabulary.bytes(token), may_stop)
    }

    fn output(&self) -> &[TokenId] {
        &self.tokens[self.request.prompt.len()..]
    }

    /// Ends the sequence as soon as all its tokens are reported.
    fn finish(&mut self, reason: FinishReason) -> Progress {
        self.delivery.finish(reason);
        self.ended().unwrap_or(Progress::Running)
    }

    /// Returns the end of the sequence if its output is complete and all its tokens are reported.
    fn ended(&self) -> Option<Progress> {
        let reason = self.delivery.ended()?;
        Some(Progress::Ended(Finish {
            reason,
            stop_string: self.delivery.stop_string().map(str::to_owned),
            closed_by_budget: self.budget.is_closed(),
            usage: self.account.usage(),
            cumulative_logprob: self.delivery.cumulative_logprob(),
            timings: self.account.timings(),
        }))
    }
}
