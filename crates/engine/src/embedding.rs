//! One text on its way to its embedding.

use formwork_lm::{AdapterId, LanguageModel, SequenceId};
use formwork_vocab::TokenId;
use tokio::sync::oneshot;

use crate::engine::open;
use crate::error::GenerationKind;
use crate::outbox::Seat;
use crate::{GenerationError, Pooling};

/// Progress of the model through a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Number of tokens read.
    pub(crate) read: usize,
    /// Total number of tokens.
    pub(crate) len: usize,
}

/// A text whose hidden states are pooled as the model reads it.
pub(crate) struct Embedding {
    tokens: Vec<TokenId>,
    adapter: Option<AdapterId>,
    pooling: Pooling,
    /// Sequence of the model that reads the text, once reading has started.
    sequence: Option<SequenceId>,
    read: usize,
    /// Sum of the hidden states so far, or the last one, depending on `pooling`.
    pooled: Vec<f64>,
    reply: oneshot::Sender<Result<Vec<f32>, GenerationError>>,
    seat: Seat,
}

impl Embedding {
    pub(crate) fn new(
        (tokens, adapter): (Vec<TokenId>, Option<AdapterId>),
        pooling: Pooling,
        reply: oneshot::Sender<Result<Vec<f32>, GenerationError>>,
        seat: Seat,
    ) -> Self {
        Self { tokens, adapter, pooling, sequence: None, read: 0, pooled: Vec::new(), reply, seat }
    }

    /// Returns true if the receiver of the embedding is gone.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.reply.is_closed()
    }

    pub(crate) const fn sequence(&self) -> Option<SequenceId> {
        self.sequence
    }

    /// Returns the progress of the model through the text.
    pub(crate) const fn progress(&self) -> Reading {
        Reading { read: self.read, len: self.tokens.len() }
    }

    /// Reads the next `count` tokens.
    pub(crate) fn read(
        &mut self,
        model: &mut dyn LanguageModel,
        count: usize,
    ) -> Result<(), GenerationError> {
        let sequence = match self.sequence {
            Some(sequence) => sequence,
            None => *self.sequence.insert(open(model, self.adapter)?),
        };
        let tokens = &self.tokens[self.read..self.read + count];
        // Shape: [tokens, hidden]
        let states = model.hidden_states(sequence, tokens).map_err(GenerationKind::model)?;
        let hidden = states.len() / count;
        self.pooled.resize(hidden, 0.0);
        for state in states.chunks_exact(hidden) {
            for (pooled, &x) in self.pooled.iter_mut().zip(state) {
                match self.pooling {
                    Pooling::Mean => *pooled += f64::from(x),
                    Pooling::Last => *pooled = f64::from(x),
                }
            }
        }
        self.read += count;
        Ok(())
    }

    /// Frees the seat and then sends the embedding or the error.
    pub(crate) fn end(self, result: Result<(), GenerationError>) {
        let count = match self.pooling {
            Pooling::Mean => self.tokens.len() as f64,
            Pooling::Last => 1.0,
        };
        let vector = || self.pooled.iter().map(|x| (x / count) as f32).collect();
        drop(self.seat);
        // The receiver may be gone.
        let _ = self.reply.send(result.map(|()| vector()));
    }
}
