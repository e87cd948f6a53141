//! Tokens that may not end an output: until its minimum length, or at all.

use std::sync::Arc;

use formwork_grammar::Matcher;
use formwork_vocab::{TokenId, TokenSet, Vocabulary};

use crate::{EndTokens, Request};

/// Excludes tokens that would end an output.
pub(super) struct Floor {
    min_tokens: usize,
    end_tokens: EndTokens,
    ends: Vec<TokenId>,
    stops: Vec<TokenId>,
    /// Size of the vocabulary.
    vocabulary: usize,
    /// Mask for outputs without a constraint, and whether it is for short outputs.
    unconstrained: Option<(bool, Arc<TokenSet>)>,
}

impl Floor {
    pub(super) fn new(request: &Request, vocabulary: &Vocabulary) -> Self {
        Self {
            min_tokens: request.min_tokens,
            end_tokens: request.end_tokens,
            ends: vocabulary.ends().to_vec(),
            stops: request.stop_tokens.clone(),
            vocabulary: vocabulary.len(),
            unconstrained: None,
        }
    }

    /// Returns true if an output of `len` tokens is too short to end.
    pub(super) const fn is_short(&self, len: usize) -> bool {
        len < self.min_tokens
    }

    /// Returns the number of drafts that may follow `len` tokens before the minimum length is reached.
    pub(super) const fn most_drafts(&self, len: usize) -> usize {
        if self.is_short(len) { self.min_tokens - len - 1 } else { usize::MAX }
    }

    /// Returns true if tokens are excluded after `len` others.
    pub(super) fn excludes(&self, len: usize) -> bool {
        self.is_short(len) || self.end_tokens == EndTokens::Excluded
    }

    /// Removes excluded tokens from the mask for the output token at index `len`. Without a mask, all tokens
    /// are allowed.
    ///
    /// A stop token is excluded only where it would end the output. If no token would be left, tokens stay
    /// in the mask: the stop tokens, or else all of it.
    pub(super) fn restrict(
        &mut self,
        mask: Option<Arc<TokenSet>>,
        len: usize,
        matcher: Option<&mut Matcher>,
    ) -> Option<Arc<TokenSet>> {
        let is_short = self.is_short(len);
        if !self.excludes(len) {
            return mask;
        }
        let without = |set: &TokenSet, excluded: &[TokenId]| {
            let mut rest = set.clone();
            let known = excluded.iter().filter(|token| token.index() < set.universe());
            known.for_each(|&token| rest.remove(token));
            rest
        };
        // A stop token that the request names ends an output of sufficient length, although it may be an
        // end-of-sequence token, too.
        let is_excluded = |end: &TokenId| is_short || !self.stops.contains(end);
        let ends: Vec<TokenId> = self.ends.iter().copied().filter(is_excluded).collect();
        if let Some(mask) = mask {
            let rest = without(&mask, &ends);
            if is_short && matcher.is_none_or(Matcher::accepting) {
                let less = without(&rest, &self.stops);
                if !less.is_empty() {
                    return Some(Arc::new(less));
                }
            }
            return Some(if rest.is_empty() { mask } else { Arc::new(rest) });
        }
        if let Some((known, unconstrained)) = &self.unconstrained
            && *known == is_short
        {
            return Some(Arc::clone(unconstrained));
        }
        let excluded = if is_short { [ends, self.stops.clone()].concat() } else { ends };
        let unconstrained = Arc::new(without(&TokenSet::full(self.vocabulary), &excluded));
        self.unconstrained = Some((is_short, Arc::clone(&unconstrained)));
        Some(unconstrained)
    }
}
