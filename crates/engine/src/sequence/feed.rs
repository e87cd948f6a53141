//! Exchange between a sequence and the model: tokens to read, and logits that come back.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use formwork_grammar::Matcher;
use formwork_lm::{Role, TopLogits};
use formwork_vocab::{TokenId, TokenSet};

use super::{Progress, Sequence};
use crate::GenerationError;
use crate::scheduler::Need;

/// Tokens that a sequence feeds to the model next.
pub(crate) struct Feed<'a> {
    pub(crate) tokens: Cow<'a, [TokenId]>,
    pub(crate) role: Role,
    /// Logits rows to compute, oldest first; the last row is after the last token. `Some` restricts
    /// a row to a set of tokens, `None` asks for the whole row.
    pub(crate) rows: Vec<Option<&'a TokenSet>>,
    /// Logits that are needed to choose a token, if there is one row.
    pub(crate) needs: LogitsNeed,
}

/// Logits that are needed to choose a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogitsNeed {
    /// All logits.
    Whole,
    /// The largest logit.
    Largest,
    /// The likeliest tokens, in most cases.
    Top,
}

/// Logits of a feed.
#[derive(Clone, Copy)]
pub(crate) enum FeedLogits<'a> {
    /// Shape: `[rows][vocabulary]`.
    Rows(&'a [Vec<f32>]),
    /// The only row, which may hold only its largest logits.
    Largest(&'a [Vec<f32>]),
    /// The likeliest tokens of the only row.
    Top(&'a TopLogits),
}

impl<'a> FeedLogits<'a> {
    /// Returns the number of rows.
    const fn count(self) -> usize {
        match self {
            Self::Rows(rows) | Self::Largest(rows) => rows.len(),
            Self::Top(_) => 1,
        }
    }

    /// Returns the rows, which are empty for the likeliest tokens.
    const fn whole(self) -> &'a [Vec<f32>] {
        match self {
            Self::Rows(rows) | Self::Largest(rows) => rows,
            Self::Top(_) => &[],
        }
    }

    /// Returns the row at `index`, without logits of tokens from `vocabulary` on.
    fn row(self, index: usize, vocabulary: usize) -> Option<RowLogits<'a>> {
        let cut = |rows: &'a [Vec<f32>]| rows.get(index).map(|row| &row[..row.len().min(vocabulary)]);
        match self {
            Self::Rows(rows) => cut(rows).map(RowLogits::Whole),
            Self::Largest(rows) => cut(rows).map(RowLogits::Largest),
            Self::Top(top) => (index == 0).then_some(RowLogits::Top(top)),
        }
    }
}

/// Logits of a row.
#[derive(Clone, Copy)]
pub(super) enum RowLogits<'a> {
    /// All logits.
    Whole(&'a [f32]),
    /// The largest logits. Others may be `-inf`.
    Largest(&'a [f32]),
    /// The likeliest tokens.
    Top(&'a TopLogits),
}

impl RowLogits<'_> {
    /// Returns true if the logits of all allowed tokens are known.
    pub(super) const fn has_all(self) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Largest(_) => false,
            Self::Top(top) => top.is_complete,
        }
    }
}

/// State of a sequence's constraint after its drafts.
pub(crate) struct Ahead {
    matcher: Option<Matcher>,
    /// Mask for the next draft. `None` if all tokens are allowed.
    mask: Option<Arc<TokenSet>>,
}

impl Ahead {
    /// Returns the tokens that the next draft may be. `None` means all.
    pub(crate) fn mask(&self) -> Option<&TokenSet> {
        self.mask.as_deref()
    }
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
        // Figures by all logits need the whole row.
        let restricts = !self.delivery.needs_logits();
        let mut rows = vec![self.mask.as_deref().filter(|_| restricts); to.saturating_sub(first)];
        let mut tokens = Cow::Borrowed(&self.tokens[self.read..to]);
        if to == self.tokens.len() && !self.speculation.is_empty() {
            tokens.to_mut().extend(self.speculation.tokens());
            rows.extend(self.speculation.masks().map(|mask| mask.filter(|_| restricts)));
        }
        let is_single = role == Role::Generated && rows.len() == 1;
        let needs = if is_single { self.needs() } else { LogitsNeed::Whole };
        Feed { tokens, role, rows, needs }
    }

    /// Returns the index of the first token after which logits are wanted.
    ///
    /// Logits are wanted after the last token and before each token that waits for its
    /// log-probability.
    pub(super) fn first_wanted(&self) -> usize {
        self.tokens.len() - 1 - self.delivery.held()
    }

    /// Returns the number of tokens that the model may have read at the end of the next pass.
    pub(super) fn readable(&self) -> usize {
        // The logits after the end are not needed.
        let end = self.tokens.len() - usize::from(self.delivery.is_complete());
        end.min(self.first_wanted() + TOLD)
    }

    /// Returns the logits that are needed to choose the next token.
    fn needs(&self) -> LogitsNeed {
        // After the budget has limited the output, the likeliest token is often not the one to take.
        let is_direct = self.processors.is_neutral()
            && !self.budget.is_closed()
            && !self.wants_whole
            && !self.delivery.needs_logits();
        let sampling = &self.request.sampling;
        if is_direct && sampling.is_greedy() {
            LogitsNeed::Largest
        } else if is_direct && sampling.may_choose_top(self.account.completion_tokens()) {
            LogitsNeed::Top
        } else {
            LogitsNeed::Whole
        }
    }

    /// Returns a function that judges whether the likeliest tokens are enough to choose the next token.
    pub(crate) fn top_judge(&self) -> impl Fn(&TopLogits) -> bool + Sync + use<> {
        let (sampling, position) = (self.request.sampling, self.account.completion_tokens());
        move |top| sampling.choose_top(top, position).is_some()
    }

    /// Drafts at most `most` tokens for the model to check in its next pass, which `sequences`
    /// generating sequences share. Leaves drafting to a draft model or head if that is expected to save more.
    /// `model_cost` is its cost of a token ([`Rate::count`](crate::lookup::Rate::count)).
    pub(crate) fn draft(&mut self, most: usize, sequences: usize, model_cost: Option<f32>) {
        self.speculation.clear();
        if !matches!(self.need(), Need::Generated(_)) || self.delivery.is_complete() {
            return;
        }
        let most = most.min(self.most_drafts());
        let found = self.speculation.look_up(&self.tokens, most, sequences, model_cost);
        if found.is_empty() {
            return;
        }
        let mut ahead = self.look_ahead();
        for token in found {
            if !self.push_draft(&mut ahead, token) {
                break;
            }
        }
    }

    /// Returns the number of tokens, at most `most`, that are worth computing as drafts, at the
    /// given cost of a token ([`Rate::count`](crate::lookup::Rate::count)). Returns 0 if the sequence
    /// already has drafts or chooses no token next.
    pub(crate) fn plan_drafts(&mut self, cost: f32, most: usize) -> usize {
        let chooses = matches!(self.need(), Need::Generated(_)) && !self.delivery.is_complete();
        if !chooses || !self.speculation.is_empty() {
            return 0;
        }
        self.speculation.plan(cost, most.min(self.most_drafts()))
    }

    /// Returns the maximum number of drafts. The last token of the budget is never read.
    fn most_drafts(&self) -> usize {
        let most = self.floor.most_drafts(self.output().len());
        most.min(self.budget.remaining().saturating_sub(1))
    }

    /// Returns the state of the constraint after the last token.
    pub(crate) fn look_ahead(&self) -> Ahead {
        // Uses a clone: the matcher stores a guaranteed closing path, and looking ahead must not
        // change it.
        Ahead { matcher: self.processors.matcher.clone(), mask: self.mask.clone() }
    }

    /// Appends a draft, if it is allowed. `ahead` is the state of the constraint after the drafts so
    /// far. Returns false if no draft may follow.
    pub(crate) fn push_draft(&mut self, ahead: &mut Ahead, token: TokenId) -> bool {
        let started = Instant::now();
        let Ahead { matcher, mask } = ahead;
        let index = self.speculation.len();
        let len = self.output().len() + index + 1;
        let is_allowed = match matcher {
            Some(matcher) => {
                let is_masked = mask.as_ref().is_some_and(|mask| !mask.contains(token));
                let is_allowed =
                    !is_masked && self.budget.allows(matcher, token, index) && matcher.commit(token).is_ok();
                if is_allowed {
                    *mask = self.floor.restrict(Some(matcher.mask()), len, Some(matcher));
                }
                self.account.add_grammar_since(started);
                is_allowed
            }
            None => true,
        };
        let may_follow = is_allowed && !self.tokenizer.vocabulary().is_end(token);
        if may_follow {
            self.speculation.push(token, mask.clone());
        }
        may_follow
    }

    /// Takes the logits computed after the last `count` tokens of a [`Sequence::feed`].
    ///
    /// Drafts are accepted as long as they equal the chosen tokens. If a logit that is missing is needed
    /// to choose a token, the last token must be read again.
    pub(crate) fn take_logits(
        &mut self,
        count: usize,
        logits: FeedLogits<'_>,
    ) -> Result<Progress, GenerationError> {
        let first = self.first_wanted();
        // If some tokens of the sequence are still unread, the drafts were not read either.
        let read = self.tokens.len().min(self.read + count);
        self.speculation.truncate(self.read + count - read);
        if read >= self.request.prompt.len() {
            self.account.note_prompt_read();
        }
        self.is_suspect &= logits.count() == 0;
        let vocabulary = self.tokenizer.vocabulary().len();
        loop {
            let accepted = self.speculation.accepted(&self.tokens[read..]);
            self.read = read + accepted;
            self.tell_held(first, logits.whole());
            if let Some(end) = self.ended() {
                return Ok(end);
            }
            let last = self.tokens.len() - 1;
            let is_read = last < self.read && !self.delivery.is_complete();
            let row = logits.row(last - first, vocabulary).filter(|_| is_read);
            let progress = row.map_or(Ok(Progress::Running), |row| self.sample(row));
            let again = row.is_some() && self.wants_whole;
            self.read -= usize::from(again);
            if row.is_none() || again || !matches!(progress, Ok(Progress::Running)) {
                self.speculation.settle(accepted);
                return progress;
            }
        }
    }

    /// Reports the held tokens whose logits are now available. `rows` starts after token `first`.
    fn tell_held(&mut self, first: usize, rows: &[Vec<f32>]) {
        while let Some(before) = (self.tokens.len() - 1).checked_sub(self.delivery.held())
            && self.delivery.held() > 0
            && before < self.read
            && let Some(row) = rows.get(before - first)
        {
            let mask = self.viewer.as_mut().map(Matcher::mask);
            let token =
                self.delivery.take_logits(&row[..row.len().min(self.tokenizer.vocabulary().len())], mask);
            if let (Some(viewer), Some(token)) = (&mut self.viewer, token) {
                // The matcher of the sequence has committed the token before.
                let _ = viewer.commit(token);
            }
        }
        if self.delivery.held() == 0 {
            self.viewer = None;
        }
    }
}
