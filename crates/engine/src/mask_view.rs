//! Effect of a constraint on each token of an output.

use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet};

use crate::softmax::Softmax;

/// Effect of the constraint on one token of an output.
///
/// Probabilities are those by the model's own logits, without mask, temperature, penalties and bias.
#[derive(Clone, PartialEq, Debug)]
pub struct TokenMask {
    /// The token.
    pub token: TokenId,
    /// Origin of the token.
    pub origin: TokenOrigin,
    /// Number of tokens that the mask of the constraint allowed. `None` without a constraint, when all are
    /// allowed.
    pub allowed: Option<usize>,
    /// Probability of the token.
    pub probability: f64,
    /// Sum of the probabilities of all tokens that the mask forbade.
    pub removed: f64,
    /// The likeliest tokens before the mask, likeliest first.
    pub top: Vec<MaskedToken>,
}

/// A token that was likely before the mask.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MaskedToken {
    /// The token.
    pub token: TokenId,
    /// Probability of the token.
    pub probability: f64,
    /// True if the mask allowed the token.
    pub is_allowed: bool,
}

/// Origin of a token of an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenOrigin {
    /// Sampled from the tokens that the mask allowed.
    Sampled,
    /// Appended as the only token that the mask allowed.
    OnlyToken,
    /// Appended because the constraint allowed a single text. The mask also allowed other tokens that begin this
    /// text.
    OnlyText,
    /// Appended because the reasoning had used up its budget.
    ReasoningBudget,
    /// Sampled from the tokens that complete the output within its token budget.
    TokenBudget,
}

/// Origin of a token, and the tokens that were allowed.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// [`TokenOrigin::OnlyText`] also stands for [`TokenOrigin::OnlyToken`].
    pub(crate) origin: TokenOrigin,
    /// The allowed tokens. `None` means all.
    pub(crate) mask: Option<Arc<TokenSet>>,
}

impl Chosen {
    /// Returns what the mask did to the token, with the `top` likeliest tokens.
    pub(crate) fn view(&self, token: TokenId, softmax: &Softmax<'_>, top: usize) -> TokenMask {
        let mask = self.mask.as_deref();
        let is_allowed = |token: TokenId| mask.is_none_or(|mask| mask.contains(token));
        let removed = mask.map_or(0.0, |mask| softmax.forbidden(mask));
        let masked = |(token, logit)| MaskedToken {
            token,
            probability: softmax.probability(logit),
            is_allowed: is_allowed(token),
        };
        TokenMask {
            token,
            origin: match (self.origin, mask.and_then(TokenSet::single)) {
                (TokenOrigin::OnlyText, Some(_)) => TokenOrigin::OnlyToken,
                (origin, _) => origin,
            },
            allowed: mask.map(TokenSet::count),
            probability: softmax.logit(token).map_or(0.0, |logit| softmax.probability(logit)),
            removed,
            top: softmax.likeliest(top).into_iter().map(masked).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_softmax() {
        let logits = [1.0f32.ln(), 4.0f32.ln(), 3.0f32.ln(), 2.0f32.ln(), f32::NEG_INFINITY];
        let mut mask = TokenSet::empty(5);
        for id in [0, 3, 4] {
            mask.insert(TokenId(id));
        }
        let chosen = Chosen { origin: TokenOrigin::Sampled, mask: Some(Arc::new(mask)) };
        let view = chosen.view(TokenId(3), &Softmax::new(&logits), 3);
        assert_eq!((view.allowed, view.origin), (Some(3), TokenOrigin::Sampled));
        assert!((view.probability - 0.2).abs() < 1e-6 && (view.removed - 0.7).abs() < 1e-6);
        let top: Vec<(u32, bool)> = view.top.iter().map(|seen| (seen.token.0, seen.is_allowed)).collect();
        assert_eq!(top, [(1, false), (2, false), (3, true)]);
        assert!((view.top[0].probability - 0.4).abs() < 1e-6);
        let free =
            Chosen { origin: TokenOrigin::Sampled, mask: None }.view(TokenId(4), &Softmax::new(&logits), 0);
        assert_eq!((free.allowed, free.removed, free.probability), (None, 0.0, 0.0));
        assert!(free.top.is_empty());
    }
}
