//! Probabilities of tokens by the model's own logits.

use formwork_kernels::unscaled_softmax;
use formwork_vocab::{TokenId, TokenSet};

use crate::lanes::{largest, total};

/// Number of tokens in a word of a [`TokenSet`].
const WORD: usize = 64;

/// Number of logits whose exponentials are computed at a time.
const BLOCK: usize = 16 * WORD;

/// The softmax of a row of logits of the shape `[vocabulary]`. Logits that are not finite have probability 0.
pub(crate) struct Softmax<'l> {
    logits: &'l [f32],
    largest: f32,
    /// Sum of the exponentials of the differences between all logits and the largest one.
    total: f64,
}

impl<'l> Softmax<'l> {
    pub(crate) fn new(logits: &'l [f32]) -> Self {
        let mut largest = largest(logits);
        if largest == f32::INFINITY {
            largest =
                logits.iter().copied().filter(|logit| logit.is_finite()).fold(f32::NEG_INFINITY, f32::max);
        }
        let mut softmax = Self { logits, largest, total: 0.0 };
        softmax.total = softmax.blocks(|_, weights| total(weights));
        softmax
    }

    /// Returns the logit of a token, if it is finite.
    pub(crate) fn logit(&self, token: TokenId) -> Option<f32> {
        self.logits.get(token.index()).copied().filter(|logit| logit.is_finite())
    }

    /// Returns the logarithm of the probability of a finite logit.
    pub(crate) fn logprob(&self, logit: f32) -> f64 {
        f64::from(logit) - (f64::from(self.largest) + self.total.ln())
    }

    /// Returns the probability of a finite logit.
    pub(crate) fn probability(&self, logit: f32) -> f64 {
        self.logprob(logit).exp()
    }

    /// Returns the sum of the probabilities of all tokens that are not in `allowed`.
    pub(crate) fn forbidden(&self, allowed: &TokenSet) -> f64 {
        let sum = self.blocks(|index, weights| {
            let words = allowed.words().get(index * (BLOCK / WORD)..).unwrap_or_default();
            let words = words.iter().copied().chain(std::iter::repeat(0));
            let each = words.zip(weights.chunks_mut(WORD));
            each.map(|(allowed, weights)| {
                if allowed != 0 {
                    for (bit, weight) in weights.iter_mut().enumerate() {
                        *weight = if allowed >> bit & 1 == 1 { 0.0 } else { *weight };
                    }
                }
                total(weights)
            })
            .sum()
        });
        // Without a finite logit, both sums are 0.
        if sum == 0.0 { 0.0 } else { (sum / self.total).min(1.0) }
    }

    /// Returns the `count` likeliest tokens with their logits, likeliest first. Ties are in order of id, as in
    /// greedy sampling.
    pub(crate) fn likeliest(&self, count: usize) -> Vec<(TokenId, f32)> {
        if count == 0 {
            return Vec::new();
        }
        let order = |a: &(TokenId, f32), b: &(TokenId, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let mut kept: Vec<(TokenId, f32)> = Vec::new();
        let mut least = f32::NEG_INFINITY;
        for (first, word) in (0..).step_by(WORD).zip(self.logits.chunks(WORD)) {
            // Few words have a token as likely as those kept; only these are searched token by token.
            if largest(word) < least {
                continue;
            }
            let tokens = (first..).map(TokenId).zip(word.iter().copied());
            kept.extend(tokens.filter(|(_, logit)| *logit >= least && logit.is_finite()));
            if kept.len() >= 2 * count + WORD {
                kept.select_nth_unstable_by(count - 1, order);
                kept.truncate(count);
                least = kept[count - 1].1;
            }
        }
        kept.sort_unstable_by(order);
        kept.truncate(count);
        kept
    }

    /// Returns the sum of what `sum` returns for the index and the exponentials of each block of logits. `sum` may
    /// change the exponentials.
    fn blocks(&self, sum: impl Fn(usize, &mut [f32]) -> f64) -> f64 {
        let mut weights = [0.0; BLOCK];
        let blocks = self.logits.chunks(BLOCK).enumerate();
        blocks
            .map(|(index, block)| {
                let weights = &mut weights[..block.len()];
                weights.copy_from_slice(block);
                unscaled_softmax(weights, self.largest, 1.0);
                sum(index, weights)
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits of ties, of a wide range, and some that are not finite.
    fn logits() -> Vec<f32> {
        let mut logits: Vec<f32> = (0..3000).map(|i| ((i * 7919) % 997) as f32 / 31.0 - 12.0).collect();
        logits[5] = f32::NAN;
        logits[64] = f32::INFINITY;
        logits[2999] = f32::NEG_INFINITY;
        logits
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        let logits = logits();
        let mut allowed = TokenSet::empty(logits.len() - 100);
        (0..1500).step_by(3).chain(2048..2200).for_each(|id| allowed.insert(TokenId(id)));
        let weight = |logit: f32| if logit.is_finite() { f64::from(logit).exp() } else { 0.0 };
        let total: f64 = logits.iter().copied().map(weight).sum();
        let softmax = Softmax::new(&logits);
        assert!((softmax.logprob(3.0) - (3.0 - total.ln())).abs() < 1e-6);
        let tokens = (0..).map(TokenId).zip(&logits).filter(|(token, _)| !allowed.contains(*token));
        let forbidden: f64 = tokens.map(|(_, &logit)| weight(logit)).sum();
        assert!((softmax.forbidden(&allowed) - forbidden / total).abs() < 1e-7);
        assert!((softmax.forbidden(&TokenSet::full(3000))).abs() < f64::MIN_POSITIVE);
    }

    #[test]
    fn likeliest_tokens_are_the_first_in_order() {
        let logits = logits();
        let mut sorted: Vec<(TokenId, f32)> =
            (0..).map(TokenId).zip(logits.iter().copied()).filter(|(_, logit)| logit.is_finite()).collect();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let softmax = Softmax::new(&logits);
        for count in [0, 1, 5, 20, 700, 2996, 2997, 5000] {
            assert_eq!(softmax.likeliest(count), sorted[..count.min(sorted.len())]);
        }
    }
}
