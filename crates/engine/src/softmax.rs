//! Probabilities of tokens by the model's own logits.

use formwork_vocab::TokenId;

/// The softmax of a row of logits of the shape `[vocabulary]`. Logits that are not finite have probability 0.
pub(crate) struct Softmax<'l> {
    logits: &'l [f32],
    largest: f32,
    /// Logarithm of the sum of the exponentials of all logits.
    normalizer: f64,
}

impl<'l> Softmax<'l> {
    pub(crate) fn new(logits: &'l [f32]) -> Self {
        let finite = || logits.iter().copied().filter(|logit| logit.is_finite());
        let largest = finite().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = finite().map(|logit| f64::from(logit - largest).exp()).sum();
        Self { logits, largest, normalizer: f64::from(largest) + sum.ln() }
    }

    /// Returns the logarithm of the probability of a finite logit.
    pub(crate) fn logprob(&self, logit: f32) -> f64 {
        f64::from(logit) - self.normalizer
    }

    /// Returns the sum of the probabilities of some logits.
    pub(crate) fn sum(&self, logits: impl IntoIterator<Item = f32>) -> f64 {
        let finite = logits.into_iter().filter(|logit| logit.is_finite());
        let sum: f64 = finite.map(|logit| f64::from(logit - self.largest).exp()).sum();
        if sum == 0.0 { 0.0 } else { (sum.ln() + f64::from(self.largest) - self.normalizer).exp().min(1.0) }
    }

    /// Returns the `count` likeliest tokens with their logits, likeliest first. Ties are in order of id, as in
    /// greedy sampling.
    pub(crate) fn likeliest(&self, count: usize) -> Vec<(TokenId, f32)> {
        if count == 0 {
            return Vec::new();
        }
        let order = |a: &(TokenId, f32), b: &(TokenId, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let ids = (0..).map(TokenId).zip(self.logits.iter().copied());
        let mut tokens: Vec<(TokenId, f32)> = ids.filter(|(_, logit)| logit.is_finite()).collect();
        if count < tokens.len() {
            tokens.select_nth_unstable_by(count, order);
            tokens.truncate(count);
        }
        tokens.sort_unstable_by(order);
        tokens
    }
}
