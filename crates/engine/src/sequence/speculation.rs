//! Drafted tokens of one sequence, which the model checks in its next pass.
//!
//! The drafts continue the tokens of the sequence. A draft is accepted if all drafts before it are,
//! and if the sequence then chooses the same token. Drafts live for one pass.

use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet};

use crate::Stats;
use crate::lookup::{Precedent, Rate, Record};

/// A drafted token that has not been chosen yet.
struct Draft {
    token: TokenId,
    /// Mask for the token after the draft. `None` if all tokens are allowed.
    mask: Option<Arc<TokenSet>>,
}

/// Numbers of drafted tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct DraftCounts {
    checked: u64,
    accepted: u64,
}

/// Origin of drafts.
#[derive(Clone, Copy)]
enum Source {
    /// An earlier place in the text.
    Text(Precedent),
    /// A draft model, or the model's own head.
    Computed,
}

/// Drafts for the next pass, and the success of earlier drafts.
#[derive(Default)]
pub(super) struct Speculation {
    drafts: Vec<Draft>,
    /// Origin of the drafts.
    source: Option<Source>,
    record: Record,
    /// Success of computed drafts.
    rate: Rate,
    /// Counts since the last report to the statistics.
    counts: DraftCounts,
}

impl Speculation {
    /// Removes all drafts.
    pub(super) fn clear(&mut self) {
        self.drafts.clear();
        self.source = None;
    }

    /// Returns tokens worth drafting after `tokens`, at most `most`, for a pass that `sequences`
    /// generating sequences share. Remembers their source. Returns none if computed drafts with the given
    /// cost are expected to save more.
    pub(super) fn look_up(
        &mut self,
        tokens: &[TokenId],
        most: usize,
        sequences: usize,
        model_cost: Option<f32>,
    ) -> Vec<TokenId> {
        let Some(precedent) = Precedent::find(tokens).filter(|_| most > 0) else { return Vec::new() };
        let is_worse = |cost| self.rate.speed(cost, most) > self.record.speed(precedent, sequences, most);
        if model_cost.is_some_and(is_worse) {
            return Vec::new();
        }
        self.source = Some(Source::Text(precedent));
        precedent.draft(tokens, self.record.count(precedent, sequences, most))
    }

    /// Returns the number of tokens, at most `most`, that are worth computing as drafts, at the
    /// given cost of a token ([`Rate::count`]). Remembers their source.
    pub(super) fn plan(&mut self, cost: f32, most: usize) -> usize {
        self.source = Some(Source::Computed);
        self.rate.count(cost, most)
    }

    /// Appends a draft with the mask for the token after it.
    pub(super) fn push(&mut self, token: TokenId, mask: Option<Arc<TokenSet>>) {
        self.drafts.push(Draft { token, mask });
    }

    /// Returns the number of drafts.
    pub(super) const fn len(&self) -> usize {
        self.drafts.len()
    }

    /// Returns true if there are no drafts.
    pub(super) const fn is_empty(&self) -> bool {
        self.drafts.is_empty()
    }

    /// Returns the drafted tokens.
    pub(super) fn tokens(&self) -> impl Iterator<Item = TokenId> {
        self.drafts.iter().map(|draft| draft.token)
    }

    /// Returns the mask after each draft, `None` without a constraint.
    pub(super) fn masks(&self) -> impl Iterator<Item = Option<&TokenSet>> {
        self.drafts.iter().map(|draft| draft.mask.as_deref())
    }

    /// Keeps the first `count` drafts, which the model has read.
    pub(super) fn truncate(&mut self, count: usize) {
        self.drafts.truncate(count);
    }

    /// Returns the number of first drafts that equal the tokens chosen instead of them so far.
    pub(super) fn accepted(&self, chosen: &[TokenId]) -> usize {
        self.tokens().zip(chosen).take_while(|(draft, token)| draft == *token).count()
    }

    /// Records that the check accepted the first `accepted` drafts, and removes all drafts.
    pub(super) fn settle(&mut self, accepted: usize) {
        match self.source {
            Some(Source::Text(precedent)) => self.record.learn(precedent, self.drafts.len(), accepted),
            Some(Source::Computed) => self.rate.learn(self.drafts.len(), accepted),
            None => {}
        }
        self.counts.checked += self.drafts.len() as u64;
        self.counts.accepted += accepted as u64;
        self.clear();
    }

    /// Adds the counts since the last call to the statistics.
    pub(super) fn report(&mut self, stats: &mut Stats) {
        let DraftCounts { checked, accepted } = std::mem::take(&mut self.counts);
        stats.drafted_tokens += checked;
        stats.accepted_tokens += accepted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<TokenId> {
        text.bytes().map(|byte| TokenId(byte.into())).collect()
    }

    /// Creates a speculation with drafts of the continuation of `text`.
    fn drafted(text: &str, most: usize) -> Speculation {
        let mut speculation = Speculation::default();
        for token in speculation.look_up(&tokens(text), most, 1, None) {
            speculation.push(token, None);
        }
        speculation
    }

    /// Returns the checked and accepted drafts since the last report.
    fn reported(speculation: &mut Speculation) -> (u64, u64) {
        let mut stats = Stats::new();
        speculation.report(&mut stats);
        (stats.drafted_tokens, stats.accepted_tokens)
    }

    #[test]
    fn drafts_are_accepted_up_to_the_first_difference() {
        let speculation = drafted("the cat and the", 3);
        assert_eq!(speculation.tokens().collect::<Vec<_>>(), tokens(" ca"));
        assert_eq!(speculation.accepted(&[]), 0);
        assert_eq!(speculation.accepted(&tokens(" c")), 2);
        assert_eq!(speculation.accepted(&tokens(" oa")), 1);
        assert_eq!(speculation.accepted(&tokens(" catch")), 3);
    }

    #[test]
    fn settled_drafts_are_counted_once_and_removed() {
        let mut speculation = drafted("the cat and the", 3);
        speculation.settle(2);
        assert!(speculation.is_empty());
        assert_eq!(reported(&mut speculation), (3, 2));
        assert_eq!(reported(&mut speculation), (0, 0));
    }

    #[test]
    fn unread_and_cleared_drafts_are_not_counted() {
        let mut speculation = drafted("the cat and the", 3);
        speculation.truncate(1);
        speculation.settle(1);
        assert_eq!(reported(&mut speculation), (1, 1));
        let mut speculation = drafted("the cat and the", 3);
        let record = speculation.record;
        speculation.clear();
        speculation.settle(0);
        assert_eq!((reported(&mut speculation), speculation.record), ((0, 0), record));
    }

    #[test]
    fn looks_up_nothing_without_room() {
        assert_eq!(drafted("the cat and the", 0).len(), 0);
        assert_eq!(drafted("abc", 3).len(), 0);
    }
}
