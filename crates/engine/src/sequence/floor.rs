//! Minimum length of an output.

use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet, Vocabulary};

use crate::{EndTokens, Request};

/// Excludes the tokens that would end an output too early.
pub(super) struct Floor {
    min_tokens: usize,
    end_tokens: EndTokens,
    ends: Vec<TokenId>,
    stops: Vec<TokenId>,
    /// All tokens but those that are excluded, for outputs without a constraint. They depend on whether
    /// the output is too short.
    others: Option<(bool, Arc<TokenSet>)>,
}

impl Floor {
    pub(super) fn new(request: &Request, vocabulary: &Vocabulary) -> Self {
        Self {
            min_tokens: request.min_tokens,
            end_tokens: request.end_tokens,
            ends: vocabulary.ends().to_vec(),
            stops: request.stop_tokens.clone(),
            others: None,
        }
    }

    /// Returns true if an output of `len` tokens is too short to end.
    pub(super) const fn is_short(&self, len: usize) -> bool {
        len < self.min_tokens
    }

    /// Returns the maximum number of drafts after `len` tokens for which the same tokens are excluded.
    pub(super) const fn most_drafts(&self, len: usize) -> usize {
        if self.is_short(len) { self.min_tokens - len - 1 } else { usize::MAX }
    }

    /// Removes the excluded tokens from the mask of the token after `len` others. Without a mask, all tokens
    /// are allowed. A mask without other tokens stays as it is.
    pub(super) fn restrict(
        &mut self,
        mask: Option<Arc<TokenSet>>,
        len: usize,
        all: usize,
    ) -> Option<Arc<TokenSet>> {
        let is_short = self.is_short(len);
        if !is_short && self.end_tokens == EndTokens::Allowed {
            return mask;
        }
        let stops = if is_short { &*self.stops } else { &[] };
        let excluded = self.ends.iter().chain(stops).filter(|token| token.index() < all);
        let without = |mut set: TokenSet| {
            excluded.for_each(|&token| set.remove(token));
            set
        };
        if let Some(mask) = mask {
            let rest = without((*mask).clone());
            return Some(if rest.is_empty() { mask } else { Arc::new(rest) });
        }
        if let Some((known, others)) = &self.others
            && *known == is_short
        {
            return Some(Arc::clone(others));
        }
        let others = Arc::new(without(TokenSet::full(all)));
        self.others = Some((is_short, Arc::clone(&others)));
        Some(others)
    }
}
