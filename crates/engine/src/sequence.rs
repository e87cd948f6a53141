//! One request on its way through the model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use formwork_grammar::Matcher;
use formwork_lm::{Role, SequenceId, Wanted};
use formwork_vocab::{TokenId, TokenSet, Tokenizer};
use tokio::sync::mpsc::UnboundedSender;

use crate::bias::Adjustment;
use crate::engine::Arrival;
use crate::error::GenerationKind;
use crate::text::TextStream;
use crate::{Finish, FinishReason, GenerationError, Output, Request, Timings, Usage};

/// Prompts go through the model in pieces of this many tokens, cut at multiples of it from the start.
const PREFILL_CHUNK: usize = 512;

/// A sequence between two steps: tokens that the model has not seen yet, and what to do with the logits after them.
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    request: Request,
    matcher: Option<Matcher>,
    tokenizer: Arc<Tokenizer>,
    outputs: UnboundedSender<Output>,
    text: TextStream,
    adjustment: Option<Adjustment>,
    /// Tokens of output that may still come.
    remaining: usize,
    /// Tokens to feed: the rest of the prompt, then tokens of the output.
    pending: Vec<TokenId>,
    prompt_fed: usize,
    /// The mask for the next token, when there is a constraint.
    mask: Option<Arc<TokenSet>>,
    usage: Usage,
    closed_by_budget: bool,
    admitted: Instant,
    first_token: Option<Instant>,
    prompt_read: Option<Instant>,
    grammar_time: Duration,
}

/// What became of a sequence in a step.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    Running,
    Ended,
}

impl Sequence {
    pub(crate) fn new(id: SequenceId, arrival: Arrival, tokenizer: Arc<Tokenizer>) -> Self {
        let Arrival { request, budget, outputs } = arrival;
        let adjustment = Adjustment::new(
            request.penalties,
            request.logit_bias.clone(),
            &request.prompt,
            tokenizer.vocabulary().len(),
        );
        let matcher = request.constraint.as_ref().map(formwork_grammar::Constraint::matcher);
        Self {
            id,
            text: TextStream::new(request.stop.clone(), matcher.is_some()),
            matcher,
            tokenizer,
            adjustment,
            outputs,
            remaining: budget,
            pending: request.prompt.clone(),
            prompt_fed: 0,
            mask: None,
            usage: Usage { prompt_tokens: request.prompt.len(), ..Usage::default() },
            closed_by_budget: false,
            admitted: Instant::now(),
            first_token: None,
            prompt_read: None,
            grammar_time: Duration::ZERO,
            request,
        }
    }

    /// Whether nobody listens any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.outputs.is_closed()
    }

    /// Takes what the grammar decides by itself: forced tokens become pending, and a finished output ends. Called once
    /// before the first step and after every token.
    pub(crate) fn advance(&mut self) -> Progress {
        let Some(mut matcher) = self.matcher.take() else {
            return if self.remaining == 0 { self.finish(FinishReason::Length) } else { Progress::Running };
        };
        let started = Instant::now();
        let end = self.take_forced(&mut matcher);
        self.grammar_time += started.elapsed();
        self.matcher = Some(matcher);
        match end {
            None => Progress::Running,
            Some(reason) => self.finish(reason),
        }
    }

    fn take_forced(&mut self, matcher: &mut Matcher) -> Option<FinishReason> {
        loop {
            if matcher.complete() {
                return Some(FinishReason::Stop);
            }
            if self.remaining == 0 {
                // The budget was kept, so the output may end here.
                self.closed_by_budget = true;
                return Some(FinishReason::Stop);
            }
            let mask = matcher.mask();
            let forced = match mask.single() {
                Some(only) if self.tokenizer.vocabulary().is_end(only) => return Some(FinishReason::Stop),
                Some(only) => vec![only],
                None => matcher.forced_tokens(&self.tokenizer),
            };
            let mut taken = 0;
            for token in forced {
                if !matcher.allows_within(token, self.remaining) || matcher.commit(token).is_err() {
                    break;
                }
                taken += 1;
                self.usage.forced_tokens += 1;
                if self.emit(token) {
                    return Some(FinishReason::Stop);
                }
            }
            if taken == 0 {
                self.mask = Some(mask);
                return None;
            }
        }
    }

    /// The next tokens to feed, their role, and what is wanted after them.
    pub(crate) fn next_run(&self) -> (&[TokenId], Role, Wanted<'_>) {
        let prompt_left = self.request.prompt.len() - self.prompt_fed;
        let wanted = match &self.mask {
            Some(mask) => Wanted::Only(mask),
            None => Wanted::All,
        };
        if prompt_left == 0 {
            return (&self.pending, Role::Generated, wanted);
        }
        let chunk = prompt_left.min(PREFILL_CHUNK);
        let last = chunk == self.pending.len();
        (&self.pending[..chunk], Role::Prompt, if last { wanted } else { Wanted::Nothing })
    }

    /// Takes the logits after the run that [`Sequence::next_run`] gave. Shape: `[vocabulary]`, or empty if the run was
    /// not the last.
    pub(crate) fn take_logits(&mut self, logits: &[f32]) -> Result<Progress, GenerationError> {
        let prompt_left = self.request.prompt.len() - self.prompt_fed;
        let fed = if prompt_left == 0 { self.pending.len() } else { prompt_left.min(PREFILL_CHUNK) };
        self.prompt_fed = (self.prompt_fed + fed).min(self.request.prompt.len());
        self.pending.drain(..fed);
        if self.prompt_fed == self.request.prompt.len() {
            self.prompt_read.get_or_insert_with(Instant::now);
        }
        if !self.pending.is_empty() || logits.is_empty() {
            return Ok(Progress::Running);
        }
        let logits = &logits[..logits.len().min(self.tokenizer.vocabulary().len())];
        let token = self.choose(logits)?;
        if self.tokenizer.vocabulary().is_end(token) || self.request.stop_tokens.contains(&token) {
            return Ok(self.finish(FinishReason::Stop));
        }
        if let Some(matcher) = &mut self.matcher {
            matcher.commit(token).map_err(GenerationKind::from)?;
        }
        if self.emit(token) {
            return Ok(self.finish(FinishReason::Stop));
        }
        Ok(self.advance())
    }

    /// Samples, within the mask and the budget.
    fn choose(&mut self, logits: &[f32]) -> Result<TokenId, GenerationError> {
        let adjusted = self.adjustment.as_ref().map(|adjustment| adjustment.apply(logits));
        let logits = adjusted.as_deref().unwrap_or(logits);
        let sampling = self.request.sampling;
        let position = self.usage.completion_tokens;
        let choose = |mask: Option<&TokenSet>| {
            sampling.choose(logits, mask, position).ok_or(GenerationKind::NoCandidate)
        };
        let Some(matcher) = &mut self.matcher else { return Ok(choose(None)?) };
        let token = choose(self.mask.as_deref())?;
        let started = Instant::now();
        let within = matcher.allows_within(token, self.remaining);
        let token = if within {
            token
        } else {
            // Choosing again among those that leave room to close is the same as never having offered the others.
            self.closed_by_budget = true;
            choose(Some(&matcher.mask_within(self.remaining)))?
        };
        self.grammar_time += started.elapsed();
        Ok(token)
    }

    /// Appends a token of output and shows its text; true when a stop string came.
    fn emit(&mut self, token: TokenId) -> bool {
        self.first_token.get_or_insert_with(Instant::now);
        self.usage.completion_tokens += 1;
        self.remaining = self.remaining.saturating_sub(1);
        if let Some(adjustment) = &mut self.adjustment {
            adjustment.count(token);
        }
        self.pending.push(token);
        let vocabulary = self.tokenizer.vocabulary();
        if !vocabulary.kind(token).is_text() {
            self.show_held();
            let _ = self.outputs.send(Output::Control(token));
            return false;
        }
        let bytes = vocabulary.bytes(token);
        let constraint = self.request.constraint.as_ref();
        let piece = self.text.push(bytes, |text| {
            constraint.is_none_or(|constraint| constraint.grammar().accepts(text.as_bytes()))
        });
        if !piece.text.is_empty() {
            // A closed channel is noticed by the scheduler.
            let _ = self.outputs.send(Output::Text(piece.text));
        }
        if piece.stopped {
            self.text = TextStream::new(Vec::new(), false);
        }
        piece.stopped
    }

    /// Shows text that was held back: what it might have become it cannot become any more.
    fn show_held(&mut self) {
        let rest = self.text.finish();
        if !rest.is_empty() {
            let _ = self.outputs.send(Output::Text(rest));
        }
    }

    fn finish(&mut self, reason: FinishReason) -> Progress {
        self.show_held();
        let now = Instant::now();
        let (first, read) = (self.first_token.unwrap_or(now), self.prompt_read.unwrap_or(now));
        let finish = Finish {
            reason,
            closed_by_budget: self.closed_by_budget,
            usage: self.usage,
            timings: Timings {
                first_token: first - self.admitted,
                prompt: read - self.admitted,
                decode: now - read,
                grammar: self.grammar_time,
            },
        };
        let _ = self.outputs.send(Output::Finished(finish));
        Progress::Ended
    }

    pub(crate) fn fail(&self, error: GenerationError) {
        tracing::warn!(sequence = %self.id, %error, "generation failed");
        let _ = self.outputs.send(Output::Failed(error));
    }
}
