//! The way of a generation's outputs to whoever listens.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use formwork_vocab::TokenId;
use tokio::sync::mpsc::UnboundedSender;

use crate::{Output, TokenLogprob};

/// A place among the requests that an engine has accepted and not ended. Dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Seat(Arc<AtomicUsize>);

impl Seat {
    /// Takes one of `limit` seats; where none is left it says how many are taken.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, limit: usize) -> Result<Self, usize> {
        let more = |taken: usize| (taken < limit).then_some(taken + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)?;
        Ok(Self(Arc::clone(taken)))
    }

    /// Takes `count` seats, or none where there are not that many left.
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

/// Sends outputs in order. Where probabilities are told, what comes after a token waits until the logits before it are known:
/// tokens that were not sampled come before them.
pub(crate) struct Outbox {
    outputs: UnboundedSender<Output>,
    /// How many of the likeliest tokens are told beside each one; `None` tells no probabilities.
    top: Option<usize>,
    /// Tokens whose logits are still to come, oldest first, each with what may be told after it only.
    held: VecDeque<(TokenId, Vec<Output>)>,
    cumulative: f64,
    seat: Seat,
}

impl Outbox {
    pub(crate) const fn new(outputs: UnboundedSender<Output>, top: Option<usize>, seat: Seat) -> Self {
        Self { outputs, top, held: VecDeque::new(), cumulative: 0.0, seat }
    }

    /// Whether nobody listens any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.outputs.is_closed()
    }

    /// Whether probabilities are told.
    pub(crate) const fn tells_logprobs(&self) -> bool {
        self.top.is_some()
    }

    /// How many tokens wait for the logits before them.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// The sum of the log-probabilities told so far, where they are.
    pub(crate) fn cumulative(&self) -> Option<f64> {
        self.top.map(|_| self.cumulative)
    }

    /// Tells a token with the logits that it was chosen from, or notes that it waits for them.
    pub(crate) fn token(&mut self, token: TokenId, logits: Option<&[f32]>) {
        match (self.top, logits) {
            (None, _) => {}
            (Some(top), Some(logits)) => self.tell(token, logits, top),
            (Some(_), None) => self.held.push_back((token, Vec::new())),
        }
    }

    /// Takes the logits, `[vocabulary]`, before the first token that waits for them.
    pub(crate) fn take_logits(&mut self, logits: &[f32]) {
        let Some((token, after)) = self.held.pop_front() else { return };
        self.tell(token, logits, self.top.unwrap_or_default());
        for output in after {
            let _ = self.outputs.send(output);
        }
    }

    pub(crate) fn send(&mut self, output: Output) {
        match self.held.back_mut() {
            Some((_, after)) => after.push(output),
            // A closed channel is noticed by the engine.
            None => drop(self.outputs.send(output)),
        }
    }

    /// Gives the seat back and sends the last output.
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

/// The log-probability of a token by logits, `[vocabulary]`, and the `top` likeliest; of equals the one with the lower id comes
/// first, as in greedy choice.
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
    fn what_follows_a_token_waits_for_its_logits() {
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
