//! Exchange between a sequence and the model: tokens to read, and logits that come back.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use formwork_lm::Role;
use formwork_vocab::{TokenId, TokenSet};

use super::{Progress, Sequence};
use crate::GenerationError;
use crate::lookup::Precedent;
use crate::scheduler::Need;

/// Tokens that a sequence feeds to the model next.
pub(crate) struct Feed<'a> {
    pub(crate) tokens: Cow<'a, [TokenId]>,
    pub(crate) role: Role,
    /// Logits rows to compute, oldest first; the last row is after the last token. `Some` restricts
    /// a row to a set of tokens, `None` asks for the whole row.
    pub(crate) rows: Vec<Option<&'a TokenSet>>,
    /// True if only the largest logit of the only row matters.
    pub(crate) is_greedy: bool,
}

/// A drafted token that has not been chosen yet.
pub(super) struct Draft {
    token: TokenId,
    /// Mask for the token after the draft, if there is a constraint.
    mask: Option<Arc<TokenSet>>,
}

/// Maximum number of held tokens whose logits are computed in one step. Each row is as long as the
/// vocabulary.
const TOLD: usize = 32;

impl Sequence {
    /// Returns the tokens that the model should read next, at most `limit`.
    ///
    /// Drafted tokens are added on top of the limit if all other tokens are included.
    pub(crate) fn feed(&self, limit: usize) -> Feed<'_> {
        let prompt = self.request.prompt.len();
        let first = self.first_wanted();
        let (to, role) = if self.read < prompt {
            (prompt.min(self.read.saturating_add(limit)), Role::Prompt)
        } else {
            (self.readable().min(self.read.saturating_add(limit)), Role::Generated)
        };
        let mask = self.mask.as_deref().filter(|_| !self.outbox.tells_logprobs());
        let mut rows = vec![mask; to.saturating_sub(first)];
        let mut tokens = Cow::Borrowed(&self.tokens[self.read..to]);
        if to == self.tokens.len() && !self.drafts.is_empty() {
            tokens.to_mut().extend(self.drafts.iter().map(|draft| draft.token));
            let masks = self.drafts.iter().map(|draft| draft.mask.as_deref());
            rows.extend(masks.map(|mask| mask.filter(|_| !self.outbox.tells_logprobs())));
        }
        let is_greedy = role == Role::Generated && rows.len() == 1 && self.takes_largest();
        Feed { tokens, role, rows, is_greedy }
    }

    /// Returns the index of the first token after which logits are wanted.
    ///
    /// Logits are wanted after the last token and before each token that waits for its
    /// log-probability.
    fn first_wanted(&self) -> usize {
        self.tokens.len() - 1 - self.outbox.held()
    }

    /// Returns the number of tokens that the model may have read at the end of the next pass.
    pub(super) fn readable(&self) -> usize {
        // The logits after the end are not needed.
        let end = self.tokens.len() - usize::from(self.ending.is_some());
        end.min(self.first_wanted() + TOLD)
    }

    /// Returns true if the next token is the one with the model's largest logit, without any
    /// adjustment.
    fn takes_largest(&self) -> bool {
        // After the budget has limited the output, the largest logit is often not the one to take.
        self.processors.is_neutral()
            && !self.closed_by_budget
            && self.request.sampling.is_greedy()
            && !self.wants_whole
            && !self.outbox.tells_logprobs()
    }

    /// Drafts at most `most` tokens for the model to check in its next pass, which `sequences`
    /// generating sequences share.
    pub(crate) fn draft(&mut self, most: usize, sequences: usize) {
        self.drafts.clear();
        if !matches!(self.need(), Need::Generated(_)) || self.ending.is_some() {
            return;
        }
        // The last token of the budget is never read.
        let most = most.min(self.remaining.saturating_sub(1));
        let Some(precedent) = Precedent::find(&self.tokens).filter(|_| most > 0) else { return };
        let found = precedent.draft(&self.tokens, self.record.count(precedent, sequences, most));
        self.precedent = Some(precedent);
        let started = Instant::now();
        // Uses a clone: the matcher stores a guaranteed closing path, and looking ahead must not
        // change it.
        let mut ahead = self.processors.matcher.as_ref().filter(|_| !found.is_empty()).cloned();
        let mut mask = self.mask.clone();
        for (index, token) in found.into_iter().enumerate() {
            if let Some(ahead) = &mut ahead {
                let is_masked = mask.as_ref().is_some_and(|mask| !mask.contains(token));
                let remaining = self.remaining.saturating_sub(index);
                if is_masked || !self.allows(ahead, token, remaining) || ahead.commit(token).is_err() {
                    break;
                }
                mask = Some(ahead.mask());
            }
            if self.tokenizer.vocabulary().is_end(token) {
                break;
            }
            self.drafts.push(Draft { token, mask: mask.clone() });
        }
        if ahead.is_some() {
            self.times.grammar += started.elapsed();
        }
    }

    /// Takes the logits computed after the last `count` tokens of a [`Sequence::feed`]. Shape:
    /// `[rows][vocabulary]`.
    ///
    /// Drafts are accepted as long as they equal the chosen tokens. If `is_partial` is true, a row
    /// may hold only its largest logits. If another logit is needed to choose a token, the last
    /// token must be read again.
    pub(crate) fn take_rows(
        &mut self,
        count: usize,
        rows: &[Vec<f32>],
        is_partial: bool,
    ) -> Result<Progress, GenerationError> {
        let first = self.first_wanted();
        let mut drafts = std::mem::take(&mut self.drafts);
        // If some tokens of the sequence are still unread, the drafts were not read either.
        let read = self.tokens.len().min(self.read + count);
        drafts.truncate(self.read + count - read);
        if read >= self.request.prompt.len() {
            self.times.prompt_read.get_or_insert_with(Instant::now);
        }
        self.is_suspect &= rows.is_empty();
        loop {
            let chosen = self.tokens[read..].iter();
            let right = drafts.iter().zip(chosen).take_while(|(draft, token)| draft.token == **token).count();
            self.read = read + right;
            self.tell_held(first, rows);
            if let Some(reason) = self.ending.filter(|_| self.outbox.held() == 0) {
                return Ok(Progress::Ended(self.summary(reason)));
            }
            let last = self.tokens.len() - 1;
            let row = rows.get(last - first).filter(|_| last < self.read && self.ending.is_none());
            let progress = match row {
                Some(row) => {
                    self.sample(&row[..row.len().min(self.tokenizer.vocabulary().len())], is_partial)
                }
                None => Ok(Progress::Running),
            };
            let again = row.is_some() && self.wants_whole;
            self.read -= usize::from(again);
            if row.is_none() || again || !matches!(progress, Ok(Progress::Running)) {
                if let Some(precedent) = self.precedent.take() {
                    self.record.learn(precedent, drafts.len(), right);
                }
                self.tried.0 += drafts.len() as u64;
                self.tried.1 += right as u64;
                return progress;
            }
        }
    }

    /// Reports the held tokens whose logits are now available. `rows` starts after token `first`.
    fn tell_held(&mut self, first: usize, rows: &[Vec<f32>]) {
        while let Some(before) = (self.tokens.len() - 1).checked_sub(self.outbox.held())
            && self.outbox.held() > 0
            && before < self.read
            && let Some(row) = rows.get(before - first)
        {
            self.outbox.take_logits(&row[..row.len().min(self.tokenizer.vocabulary().len())]);
        }
    }
}
