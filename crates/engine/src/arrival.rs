//! Work on its way from the handles to the engine thread.

use std::time::Instant;

use formwork_lm::AdapterId;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::decision::DecisionJob;
use crate::embedding::Embedding;
use crate::outbox::{Outbox, Seat};
use crate::processors::LogitsProcessors;
use crate::{GenerationError, Output, Request};

/// Message to the engine thread.
pub(crate) enum Event {
    /// Requests that were submitted together.
    Arrived(Vec<Arrival>),
    /// A text to embed.
    Embed(Box<Embedding>),
    /// Questions to decide.
    Decide(Box<DecisionJob>),
    /// Empties the prefix cache, then answers.
    ClearCache(oneshot::Sender<()>),
}

/// An accepted request with its token budget.
pub(crate) struct Arrival {
    pub(crate) request: Request,
    /// Adapter of the model to compute the request with.
    pub(crate) adapter: Option<AdapterId>,
    pub(crate) processors: LogitsProcessors,
    pub(crate) budget: usize,
    pub(crate) outputs: UnboundedSender<Output>,
    pub(crate) seat: Seat,
    pub(crate) arrived: Instant,
}

impl Arrival {
    /// Returns true if the receiver of the outputs is gone.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.outputs.is_closed()
    }

    /// Frees the seat and then sends the error.
    pub(crate) fn fail(self, error: GenerationError) {
        Outbox::new(self.outputs, &self.request, self.seat).end(Output::Failed(error));
    }
}
