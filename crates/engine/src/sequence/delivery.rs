//! Text, stop strings and the end of one output, on their way to the receiver.
//!
//! Outputs leave in order. Text is held back while it may be the start of a stop string, and the end
//! waits until the figures of all tokens are reported.

use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet};

use crate::mask_view::Chosen;
use crate::outbox::Outbox;
use crate::text::{Place, TextStream};
use crate::{FinishReason, Output};

/// Outputs of a sequence that are not sent yet.
pub(super) struct Delivery {
    text: TextStream,
    outbox: Outbox,
    /// Reason for the end, once the output is complete.
    ending: Option<FinishReason>,
    /// Stop string that ended the output.
    stop: Option<String>,
}

impl Delivery {
    /// Creates the delivery of an output that ends at each of the strings `stop`.
    pub(super) fn new(stop: Vec<String>, outbox: Outbox) -> Self {
        Self { text: TextStream::new(stop), outbox, ending: None, stop: None }
    }

    /// Returns true if the receiver of the outputs is gone.
    pub(super) fn is_cancelled(&self) -> bool {
        self.outbox.is_closed()
    }

    /// Returns true if each token is reported with figures by all logits.
    pub(super) const fn needs_logits(&self) -> bool {
        self.outbox.needs_logits()
    }

    /// Returns the number of tokens that wait for their logits.
    pub(super) fn held(&self) -> usize {
        self.outbox.held()
    }

    /// Returns the sum of the log-probabilities reported so far, or `None` if none are requested.
    pub(super) fn cumulative_logprob(&self) -> Option<f64> {
        self.outbox.cumulative()
    }

    /// Holds the tokens of the prompt, whose log-probabilities are reported before any output.
    pub(super) fn prompt(&mut self, prompt: &[TokenId]) {
        self.outbox.prompt(prompt);
    }

    /// Reports a token, with figures by the logits that it was chosen from. Without logits, it waits for
    /// [`Delivery::take_logits`].
    pub(super) fn token(&mut self, token: TokenId, chosen: &Chosen, logits: Option<&[f32]>) {
        self.outbox.token(token, chosen, logits);
    }

    /// Reports the token that ends the output, which is not part of it. Shape of `logits`:
    /// `[vocabulary]`.
    pub(super) fn ending(&mut self, token: TokenId, logits: &[f32]) {
        self.outbox.ending(token, logits);
    }

    /// Reports the first token that waits for its logits, of the shape `[vocabulary]`. Returns the token, or
    /// `None` for a token of the prompt.
    pub(super) fn take_logits(&mut self, logits: &[f32], mask: Option<Arc<TokenSet>>) -> Option<TokenId> {
        self.outbox.take_logits(logits, mask)
    }

    /// Sends the text of output token `index`. Returns true if a stop string occurred.
    ///
    /// A stop string only counts where `may_stop` returns true.
    pub(super) fn show(&mut self, index: usize, bytes: &[u8], may_stop: impl FnMut(Place) -> bool) -> bool {
        let piece = self.text.push(index, bytes, may_stop);
        if !piece.text.is_empty() {
            self.outbox.send(Output::Text(piece.text));
        }
        if piece.stop.is_some() {
            self.text = TextStream::new(Vec::new());
            self.stop = piece.stop;
        }
        self.stop.is_some()
    }

    /// Returns the stop string that ended the output, if one did.
    pub(super) fn stop_string(&self) -> Option<&str> {
        self.stop.as_deref()
    }

    /// Sends a control token. Text that was held back comes first, because a stop string does not
    /// extend across a control token.
    pub(super) fn control(&mut self, token: TokenId) {
        self.show_held();
        self.outbox.send(Output::Control(token));
    }

    /// Completes the output: sends the text that was held back, and sets the reason for the end.
    pub(super) fn finish(&mut self, reason: FinishReason) {
        self.show_held();
        self.ending = Some(reason);
    }

    /// Returns true if the output is complete.
    pub(super) const fn is_complete(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns the reason for the end if the output is complete and no token waits for its logits.
    pub(super) fn ended(&self) -> Option<FinishReason> {
        self.ending.filter(|_| self.held() == 0)
    }

    /// Frees the seat and then sends the last output.
    pub(super) fn end(self, last: Output) {
        self.outbox.end(last);
    }

    fn show_held(&mut self) {
        let rest = self.text.finish();
        if !rest.is_empty() {
            self.outbox.send(Output::Text(rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::mpsc::UnboundedReceiver;

    use super::*;
    use crate::Request;
    use crate::mask_view::TokenOrigin;
    use crate::outbox::Seat;

    /// Creates a delivery with the stop string `END`, with or without log-probabilities.
    fn delivery(logprobs: Option<usize>) -> (Delivery, UnboundedReceiver<Output>) {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let seat = Seat::take(&Arc::default(), 1).expect("free");
        let request = Request { logprobs, ..Request::new(Vec::new()) };
        (Delivery::new(vec!["END".to_owned()], Outbox::new(sender, &request, seat)), receiver)
    }

    /// Returns the outputs sent since the last call, in a short form.
    fn sent(receiver: &mut UnboundedReceiver<Output>) -> Vec<String> {
        let short = |output| match output {
            Output::Text(text) => text,
            Output::Control(token) => format!("<{}>", token.0),
            Output::Generated(_) | Output::Token(_) | Output::PromptToken(_) | Output::Masked(_) => {
                "token".to_owned()
            }
            Output::Finished(_) | Output::Failed(_) => "end".to_owned(),
        };
        std::iter::from_fn(|| receiver.try_recv().ok()).map(short).collect()
    }

    #[test]
    fn a_stop_string_cuts_the_text() {
        let (mut delivery, mut receiver) = delivery(None);
        assert!(!delivery.show(0, b"one E", |_| true));
        assert!(delivery.show(1, b"ND two", |_| true));
        assert_eq!(sent(&mut receiver), ["one "]);
        assert_eq!(delivery.stop_string(), Some("END"));
        delivery.finish(FinishReason::Stop);
        assert!(sent(&mut receiver).is_empty());
    }

    #[test]
    fn held_text_comes_before_a_control_token_and_the_end() {
        let (mut delivery, mut receiver) = delivery(None);
        delivery.show(0, b"one EN", |_| true);
        delivery.control(TokenId(7));
        delivery.show(2, b"D two E", |_| true);
        assert_eq!(sent(&mut receiver), ["one ", "EN", "<7>", "D two "]);
        assert!(!delivery.is_complete());
        delivery.finish(FinishReason::Length);
        assert_eq!(sent(&mut receiver), ["E"]);
        assert_eq!(delivery.ended(), Some(FinishReason::Length));
    }

    #[test]
    fn the_end_waits_for_logits() {
        let (mut delivery, mut receiver) = delivery(Some(0));
        let chosen = Chosen { origin: TokenOrigin::Sampled, mask: None };
        delivery.token(TokenId(0), &chosen, None);
        delivery.show(0, b"one", |_| true);
        delivery.finish(FinishReason::Stop);
        assert!(delivery.is_complete() && delivery.ended().is_none());
        assert!(sent(&mut receiver).is_empty());
        delivery.take_logits(&[0.0, 0.0], None);
        assert_eq!(sent(&mut receiver), ["token", "one"]);
        assert_eq!(delivery.ended(), Some(FinishReason::Stop));
    }
}
