//! Probabilities of tokens by the model's own logits.

use formwork_vocab::TokenId;

/// The softmax of a row of logits of the shape `[vocabulary]`. Logits that are not finite have probability 0.
pub(crate) struct Softmax<'l> {
    logits: &'l [f32],
    largest: f32,
    /// Sum of the exponentials of the differences between all logits and the largest one.
    total: f64,
}

impl<'l> Softmax<'l> {
    pub(crate) fn new(logits: &'l [f32]) -> Self {
        let finite = || logits.iter().copied().filter(|logit| logit.is_finite());
        let largest = finite().fold(f32::NEG_INFINITY, f32::max);
        let total = finite().map(|logit| f64::from(logit - largest).exp()).sum();
        Self { logits, largest, total }
    }

    /// Returns the logit of a token, if it is finite.
    pub(crate) fn logit(&self, token: TokenId) -> Option<f32> {
        self.logits.get(token.index()).copied().filter(|logit| logit.is_finite())
    }

    /// Returns the logits of all tokens with their ids.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (TokenId, f32)> {
        (0..).map(TokenId).zip(self.logits.iter().copied())
    }

    /// Returns the logarithm of the probability of a finite logit.
    pub(crate) fn logprob(&self, logit: f32) -> f64 {
        f64::from(logit) - (f64::from(self.largest) + self.total.ln())
    }

    /// Returns the sum of the probabilities of some logits.
    pub(crate) fn sum(&self, logits: impl IntoIterator<Item = f32>) -> f64 {
        let finite = logits.into_iter().filter(|logit| logit.is_finite());
        let sum: f64 = finite.map(|logit| f64::from(logit - self.largest).exp()).sum();
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
        let mut tokens: Vec<(TokenId, f32)> = self.tokens().filter(|(_, logit)| logit.is_finite()).collect();
        if count < tokens.len() {
            tokens.select_nth_unstable_by(count, order);
            tokens.truncate(count);
        }
        tokens.sort_unstable_by(order);
        tokens
    }
}
