//! Delivery of a generation's outputs to the receiver.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use formwork_vocab::{TokenId, TokenSet};
use tokio::sync::mpsc::UnboundedSender;

use crate::mask_view::{Chosen, TokenOrigin};
use crate::softmax::Softmax;
use crate::{Output, Request, TokenLogprob};

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
    /// Why the token was appended. `None` for a token of the prompt.
    origin: Option<TokenOrigin>,
    /// Outputs that must follow the token.
    after: Vec<Output>,
}

/// Sends outputs in order.
///
/// If figures by logits are requested, a token that was not sampled is held until its logits are
/// known. Outputs after a held token wait, too.
pub(crate) struct Outbox {
    outputs: UnboundedSender<Output>,
    /// Number of likeliest alternatives to report with each token; `None` reports no
    /// log-probabilities.
    top: Option<usize>,
    /// Number of likeliest tokens to report with what the mask did to each token; `None` does not report it.
    mask_view: Option<usize>,
    /// True if each token of the output is reported.
    reports_tokens: bool,
    /// Tokens that wait for their logits, oldest first.
    held: VecDeque<HeldToken>,
    cumulative: f64,
    seat: Seat,
}

impl Outbox {
    pub(crate) const fn new(outputs: UnboundedSender<Output>, request: &Request, seat: Seat) -> Self {
        Self {
            outputs,
            top: request.logprobs,
            mask_view: request.mask_view,
            reports_tokens: request.reports_tokens,
            held: VecDeque::new(),
            cumulative: 0.0,
            seat,
        }
    }

    /// Returns true if the receiver is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.outputs.is_closed()
    }

    /// Returns true if each token is reported with figures by all logits.
    pub(crate) const fn needs_logits(&self) -> bool {
        self.top.is_some() || self.mask_view.is_some()
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
    pub(crate) fn token(&mut self, token: TokenId, chosen: &Chosen, logits: Option<&[f32]>) {
        if self.reports_tokens {
            self.send(Output::Generated(token));
        }
        match logits {
            _ if !self.needs_logits() => {}
            Some(logits) => self.tell(token, chosen, logits),
            None => self.hold(token, Some(chosen.origin)),
        }
    }

    /// Reports the token that ends the output, without adding to the sum of log-probabilities.
    pub(crate) fn ending(&mut self, token: TokenId, logits: &[f32]) {
        if let Some(top) = self.top {
            let _ = self.outputs.send(Output::Token(logprob(token, &Softmax::new(logits), top)));
        }
    }

    /// Holds the tokens of a prompt except the first, before any output.
    pub(crate) fn prompt(&mut self, prompt: &[TokenId]) {
        if self.top.is_some() {
            prompt.iter().skip(1).for_each(|&token| self.hold(token, None));
        }
    }

    fn hold(&mut self, token: TokenId, origin: Option<TokenOrigin>) {
        self.held.push_back(HeldToken { token, origin, after: Vec::new() });
    }

    /// Reports the first held token with its logits, of the shape `[vocabulary]`, and with its mask. Returns the
    /// token, or `None` for a token of the prompt.
    pub(crate) fn take_logits(&mut self, logits: &[f32], mask: Option<Arc<TokenSet>>) -> Option<TokenId> {
        let HeldToken { token, origin, after } = self.held.pop_front()?;
        if let Some(origin) = origin {
            self.tell(token, &Chosen { origin, mask }, logits);
        } else {
            let top = self.top.unwrap_or_default();
            let _ = self.outputs.send(Output::PromptToken(logprob(token, &Softmax::new(logits), top)));
        }
        for output in after {
            let _ = self.outputs.send(output);
        }
        origin.map(|_| token)
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

    fn tell(&mut self, token: TokenId, chosen: &Chosen, logits: &[f32]) {
        let softmax = Softmax::new(logits);
        if let Some(top) = self.top {
            let logprob = logprob(token, &softmax, top);
            self.cumulative += f64::from(logprob.logprob);
            let _ = self.outputs.send(Output::Token(logprob));
        }
        if let Some(top) = self.mask_view {
            let _ = self.outputs.send(Output::Masked(chosen.view(token, &softmax, top)));
        }
    }
}

/// Returns the log-probability of a token, and the `top` likeliest tokens.
fn logprob(token: TokenId, softmax: &Softmax<'_>, top: usize) -> TokenLogprob {
    let of = |logit: f32| softmax.logprob(logit) as f32;
    TokenLogprob {
        token,
        logprob: softmax.logit(token).map_or(f32::NEG_INFINITY, of),
        top: softmax.likeliest(top).into_iter().map(|(token, logit)| (token, of(logit))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_the_softmax() {
        let logits = [1.0f32.ln(), 4.0f32.ln(), 4.0f32.ln(), 1.0f32.ln(), f32::NEG_INFINITY];
        let softmax = Softmax::new(&logits);
        let given = logprob(TokenId(3), &softmax, 3);
        assert!((given.logprob - 0.1f32.ln()).abs() < 1e-6);
        let ids: Vec<u32> = given.top.iter().map(|(token, _)| token.0).collect();
        assert_eq!(ids, [1, 2, 0]);
        assert!((given.top[0].1 - 0.4f32.ln()).abs() < 1e-6);
        assert!(logprob(TokenId(4), &softmax, 0).logprob.is_infinite());
        assert_eq!(logprob(TokenId(0), &softmax, 9).top.len(), 4);
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
        let request = Request { logprobs: Some(0), ..Request::new(Vec::new()) };
        let mut outbox = Outbox::new(sender, &request, seat);
        let chosen = Chosen { origin: TokenOrigin::Sampled, mask: None };
        outbox.token(TokenId(0), &chosen, Some(&[0.0, 0.0]));
        outbox.send(Output::Text("a".to_owned()));
        outbox.token(TokenId(1), &chosen, None);
        outbox.send(Output::Text("b".to_owned()));
        assert_eq!(outbox.held(), 1);
        let mut told = || std::iter::from_fn(|| receiver.try_recv().ok()).count();
        assert_eq!(told(), 2);
        outbox.take_logits(&[0.0, 0.0], None);
        assert_eq!((told(), outbox.held()), (2, 0));
        assert!((outbox.cumulative().expect("told") - 2.0 * 0.5f64.ln()).abs() < 1e-6);
    }
}
