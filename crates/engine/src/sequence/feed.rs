//! What goes from a sequence to the model, and what comes back.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use formwork_lm::Role;
use formwork_vocab::{TokenId, TokenSet};

use super::{Progress, Sequence};
use crate::GenerationError;
use crate::lookup::Precedent;
use crate::scheduler::Need;

/// What a sequence feeds to the model next.
pub(crate) struct Feed<'a> {
    pub(crate) tokens: Cow<'a, [TokenId]>,
    pub(crate) role: Role,
    /// What is wanted after the last of them, oldest first: some tokens, or all.
    pub(crate) rows: Vec<Option<&'a TokenSet>>,
    /// Only the largest logit of the only row matters.
    pub(crate) is_greedy: bool,
}

/// A token that was not chosen yet.
pub(super) struct Draft {
    token: TokenId,
    /// What may come after it, when there is a constraint.
    mask: Option<Arc<TokenSet>>,
}

/// Tokens of which logits are told after the fact, in a step: each row is as long as the vocabulary.
const TOLD: usize = 32;

impl Sequence {
    /// What the model is to read next, at most `limit` tokens; what was drafted comes on top of these where nothing else is left.
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

    /// The first token after which logits are wanted: they are after the last one, and before each one that waits for them.
    fn first_wanted(&self) -> usize {
        self.tokens.len() - 1 - self.outbox.held()
    }

    /// Up to where the model may read the output at once.
    pub(super) fn readable(&self) -> usize {
        // What would follow the end is not asked.
        let end = self.tokens.len() - usize::from(self.ending.is_some());
        end.min(self.first_wanted() + TOLD)
    }

    /// Whether the next token is the one with the largest logit, as the model gives it.
    fn takes_largest(&self) -> bool {
        let is_as_given = self.adjustment.is_none() && self.guide.is_none();
        // Near its end by the budget, other tokens than the likeliest are called for again and again.
        is_as_given
            && !self.closed_by_budget
            && self.request.sampling.is_greedy()
            && !self.wants_whole
            && !self.outbox.tells_logprobs()
    }

    /// Drafts at most `most` tokens for the model to check with those that it is to read, beside as many `sequences` as there are
    /// with it.
    pub(crate) fn draft(&mut self, most: usize, sequences: usize) {
        self.drafts.clear();
        if !matches!(self.need(), Need::Generated(_)) || self.ending.is_some() {
            return;
        }
        // The last token of the budget is not read.
        let most = most.min(self.remaining.saturating_sub(1));
        let Some(precedent) = Precedent::find(&self.tokens).filter(|_| most > 0) else { return };
        let found = precedent.draft(&self.tokens, self.record.count(precedent, sequences, most));
        self.precedent = Some(precedent);
        let started = Instant::now();
        // A clone goes ahead: what the matcher itself was promised about its budget must not be lost.
        let mut ahead = self.matcher.as_ref().filter(|_| !found.is_empty()).cloned();
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

    /// Takes the rows that were wanted after `count` tokens of a [`Sequence::feed`]. Shape: `[rows][vocabulary]`. Drafts are
    /// right as long as the tokens that are chosen are the same. Where the row `is_partial`, having little more than its largest
    /// logit, and that does not do, the last token is to be read again.
    pub(crate) fn take_rows(
        &mut self,
        count: usize,
        rows: &[Vec<f32>],
        is_partial: bool,
    ) -> Result<Progress, GenerationError> {
        let first = self.first_wanted();
        let mut drafts = std::mem::take(&mut self.drafts);
        // Where some of the tokens are left, drafts were not read.
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

    /// Tells the tokens that wait for logits which are there now: of those rows whose tokens are read, from token `first` on.
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
