//! Delivery of a generation's outputs to the receiver.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use formwork_vocab::TokenId;
use tokio::sync::mpsc::UnboundedSender;

use crate::{Output, TokenLogprob};

/// A seat among the accepted requests that have not ended. Dropping the seat frees it.
#[derive(Debug)]
pub(crate) struct Seat(Arc<AtomicUsize>);

impl Seat {
    /// Takes one of `limit` seats.
    ///
    /// # Errors
    /// If no seat is free, returns the number of seats taken.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, limit: usize) -> Result<Self, usize> {
        let more = |taken: usize| (taken < limit).then_some(taken + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)?;
        Ok(Self(Arc::clone(taken)))
    }

    /// Takes `count` seats together.
    ///
    /// # Errors
    /// If fewer seats are free, takes none and returns the number of seats taken.
    pub(crate) fn take_all(taken: &Arc<AtomicUsize>, count: usize, limit: usize) -> Result<Vec<Self>, usize> {
        let more = |taken: usize| taken.checked_add(count).filter(|&sum| sum <= limit);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)?;
        Ok((0..count).map(|_| Self(Arc::clone(taken))).collect())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A token that waits for its logits.
struct HeldToken {
    token: TokenId,
    is_prompt: bool,
    /// Outputs that must follow the token.
    after: Vec<Output>,
}

/// Sends outputs in order.
///
/// If log-probabilities are requested, a token that was not sampled is held until its logits are
/// known. Outputs after a held token wait, too.
pub(crate) struct Outbox {
    outputs: UnboundedSender<Output>,
    /// Number of likeliest alternatives to report with each token; `None` reports no
    /// log-probabilities.
    top: Option<usize>,
    /// True if each token of the output is reported.
    reports_tokens: bool,
    /// Tokens that wait for their logits, oldest first.
    held: VecDeque<HeldToken>,
    cumulative: f64,
    seat: Seat,
}

impl Outbox {
    pub(crate) const fn new(outputs: UnboundedSender<Output>, top: Option<usize>, seat: Seat) -> Self {
        Self { outputs, top, reports_tokens: false, held: VecDeque::new(), cumulative: 0.0, seat }
    }

    /// Reports each token of the output if `reports_tokens` is true.
    pub(crate) fn reporting_tokens(self, reports_tokens: bool) -> Self {
        Self { reports_tokens, ..self }
    }

    /// Returns true if the receiver is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.outputs.is_closed()
    }

    /// Returns true if log-probabilities are reported.
    pub(crate) const fn tells_logprobs(&self) -> bool {
        self.top.is_some()
    }

    /// Returns the number of tokens that wait for their logits.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns the sum of the log-probabilities reported so far, or `None` if none are requested.
    pub(crate) fn cumulative(&self) -> Option<f64> {
        self.top.map(|_| self.cumulative)
    }

    /// Reports a token with the logits that it was chosen from. Without logits, holds the token.
    pub(crate) fn token(&mut self, token: TokenId, logits: Option<&[f32]>) {
        if self.reports_tokens {
            self.send(Output::Generated(token));
        }
        match (self.top, logits) {
            (None, _) => {}
            (Some(top), Some(logits)) => self.tell(token, logits, top),
            (Some(_), None) => self.hold(token, false),
        }
    }

    /// Reports the token that ends the output, without adding to the sum of log-probabilities.
    pub(crate) fn ending(&mut self, token: TokenId, logits: &[f32]) {
        if let Some(top) = self.top {
            let _ = self.outputs.send(Output::Token(logprob(token, logits, top)));
        }
    }

    /// Holds the tokens of a prompt except the first, before any output.
    pub(crate) fn prompt(&mut self, prompt: &[TokenId]) {
        if self.top.is_some() {
            prompt.iter().skip(1).for_each(|&token| self.hold(token, true));
        }
    }

    fn hold(&mut self, token: TokenId, is_prompt: bool) {
        self.held.push_back(HeldToken { token, is_prompt, after: Vec::new() });
    }

    /// Reports the first held token with its logits. Shape: `[vocabulary]`.
    pub(crate) fn take_logits(&mut self, logits: &[f32]) {
        let Some(HeldToken { token, is_prompt, after }) = self.held.pop_front() else { return };
        let top = self.top.unwrap_or_default();
        if is_prompt {
            let _ = self.outputs.send(Output::PromptToken(logprob(token, logits, top)));
        } else {
            self.tell(token, logits, top);
        }
        for output in after {
            let _ = self.outputs.send(output);
        }
    }

    pub(crate) fn send(&mut self, output: Output) {
        match self.held.back_mut() {
            Some(held) => held.after.push(output),
            // The engine detects a closed channel elsewhere.
            None => drop(self.outputs.send(output)),
        }
    }

    /// Frees the seat and then sends the last output.
    pub(crate) fn end(self, last: Output) {
        drop(self.seat);
        let _ = self.outputs.send(last);
    }

    fn tell(&mut self, token: TokenId, logits: &[f32], top: usize) {
        let logprob = logprob(token, logits, top);
        self.cumulative += f64::from(logprob.logprob);
        let _ = self.outputs.send(Output::Token(logprob));
    }
}

/// Returns the log-probability of a token, and the `top` likeliest tokens, by logits of the shape
/// `[vocabulary]`. Ties are in order of id, as in greedy sampling.
fn logprob(token: TokenId, logits: &[f32], top: usize) -> TokenLogprob {
    let finite = || logits.iter().copied().enumerate().filter(|(_, logit)| logit.is_finite());
    let largest = finite().map(|(_, logit)| logit).fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = finite().map(|(_, logit)| f64::from(logit - largest).exp()).sum();
    let normalizer = f64::from(largest) + sum.ln();
    let of = |logit: f32| (f64::from(logit) - normalizer) as f32;
    let mut likeliest: Vec<(usize, f32)> = if top == 0 { Vec::new() } else { finite().collect() };
    let order = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if top < likeliest.len() {
        likeliest.select_nth_unstable_by(top, order);
        likeliest.truncate(top);
    }
    likeliest.sort_unstable_by(order);
    let logit = logits.get(token.index()).copied().filter(|logit| logit.is_finite());
    TokenLogprob {
        token,
        logprob: logit.map_or(f32::NEG_INFINITY, of),
        top: likeliest.into_iter().map(|(id, logit)| (TokenId(id as u32), of(logit))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_the_softmax() {
        let logits = [1.0f32.ln(), 4.0f32.ln(), 4.0f32.ln(), 1.0f32.ln(), f32::NEG_INFINITY];
        let given = logprob(TokenId(3), &logits, 3);
        assert!((given.logprob - 0.1f32.ln()).abs() < 1e-6);
        let ids: Vec<u32> = given.top.iter().map(|(token, _)| token.0).collect();
        assert_eq!(ids, [1, 2, 0]);
        assert!((given.top[0].1 - 0.4f32.ln()).abs() < 1e-6);
        assert!(logprob(TokenId(4), &logits, 0).logprob.is_infinite());
        assert_eq!(logprob(TokenId(0), &logits, 9).top.len(), 4);
    }

    #[test]
    fn seats_are_taken_together_or_not_at_all() {
        let taken = Arc::new(AtomicUsize::new(0));
        let first = Seat::take_all(&taken, 2, 3).expect("there is room");
        assert_eq!(Seat::take_all(&taken, 2, 3).expect_err("one is left"), 2);
        drop(first);
        assert_eq!(Seat::take_all(&taken, 3, 3).expect("all are free").len(), 3);
    }

    #[test]
    fn holds_output_back_until_logits_arrive() {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let seat = Seat::take(&Arc::default(), 1).expect("free");
        let mut outbox = Outbox::new(sender, Some(0), seat);
        outbox.token(TokenId(0), Some(&[0.0, 0.0]));
        outbox.send(Output::Text("a".to_owned()));
        outbox.token(TokenId(1), None);
        outbox.send(Output::Text("b".to_owned()));
        assert_eq!(outbox.held(), 1);
        let mut told = || std::iter::from_fn(|| receiver.try_recv().ok()).count();
        assert_eq!(told(), 2);
        outbox.take_logits(&[0.0, 0.0]);
        assert_eq!((told(), outbox.held()), (2, 0));
        assert!((outbox.cumulative().expect("told") - 2.0 * 0.5f64.ln()).abs() < 1e-6);
    }
}
