//! Matcher, adjustments and guide of one request, which change the choice of its tokens.

use std::borrow::Cow;

use formwork_grammar::{Follower, Matcher};
use formwork_vocab::{TokenId, TokenSet, Tokenizer};

use crate::Request;
use crate::bias::Adjustment;

/// State of a request that affects the choice of tokens, in addition to the model's logits.
pub(crate) struct LogitsProcessors {
    /// Position in the constraint.
    pub(crate) matcher: Option<Matcher>,
    adjustment: Option<Adjustment>,
    guide: Option<Box<dyn Follower>>,
}

impl Clone for LogitsProcessors {
    fn clone(&self) -> Self {
        Self {
            matcher: self.matcher.clone(),
            adjustment: self.adjustment.clone(),
            guide: self.guide.as_ref().map(|guide| guide.boxed_clone()),
        }
    }
}

impl LogitsProcessors {
    /// Creates the state at the start of an output. `matcher` is the position in the constraint.
    ///
    /// DRY searches the prompt for sequence breakers, which takes a while for a long prompt.
    pub(crate) fn new(request: &Request, matcher: Option<Matcher>, tokenizer: &Tokenizer) -> Self {
        Self {
            matcher,
            adjustment: Adjustment::new(request, tokenizer.vocabulary()),
            guide: request.guide.as_ref().map(|guide| guide.follow()),
        }
    }

    /// Returns true if a token is chosen by the model's own logits, within the mask.
    pub(crate) const fn is_neutral(&self) -> bool {
        self.adjustment.is_none() && self.guide.is_none()
    }

    /// Counts a token of the output. The matcher must have committed the token before.
    pub(crate) fn note(&mut self, token: TokenId) {
        if let Some(adjustment) = &mut self.adjustment {
            adjustment.count(token);
        }
        if let Some(guide) = &mut self.guide {
            guide.push(token);
        }
    }

    /// Returns the logits with all adjustments of the request. Shape: `[vocabulary]`.
    ///
    /// The guide applies to the tokens of `mask`, and to none without a mask.
    pub(crate) fn adjust<'l>(&self, logits: &'l [f32], mask: Option<&TokenSet>) -> Cow<'l, [f32]> {
        let mut logits = match &self.adjustment {
            Some(adjustment) => Cow::Owned(adjustment.apply(logits)),
            None => Cow::Borrowed(logits),
        };
        if let (Some(guide), Some(mask)) = (&self.guide, mask) {
            for (token, bias) in guide.bias(mask) {
                if let Some(logit) = logits.to_mut().get_mut(token.index()) {
                    *logit += bias;
                }
            }
        }
        logits
    }
}
