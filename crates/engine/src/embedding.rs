//! One text on its way to its embedding or score.

use formwork_lm::{AdapterId, EncodedText, LanguageModel, Pooling, SequenceId};
use formwork_vocab::TokenId;
use tokio::sync::oneshot;

use crate::GenerationError;
use crate::engine::open;
use crate::error::GenerationKind;
use crate::outbox::Seat;

/// A whole text for the model.
#[derive(Clone, Debug)]
pub struct TextRequest {
    /// Tokens of the text.
    pub tokens: Vec<TokenId>,
    /// Index of the first token of the second text, if the text is a pair.
    pub second: Option<usize>,
    /// Combination of the hidden states of the tokens.
    pub pooling: Pooling,
}

/// Result that a text is read for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goal {
    /// The vector of the text.
    Vector,
    /// The score of a query and a document, as a vector of one element.
    Score,
}

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
    text: TextRequest,
    goal: Goal,
    adapter: Option<AdapterId>,
    /// Sequence of the model that reads the text, once reading has started.
    sequence: Option<SequenceId>,
    read: usize,
    /// Sum of the hidden states so far, or one of them, depending on the pooling.
    pooled: Vec<f64>,
    reply: oneshot::Sender<Result<Vec<f32>, GenerationError>>,
    seat: Seat,
}

impl Embedding {
    pub(crate) fn new(
        (text, adapter): (TextRequest, Option<AdapterId>),
        goal: Goal,
        reply: oneshot::Sender<Result<Vec<f32>, GenerationError>>,
        seat: Seat,
    ) -> Self {
        Self { text, goal, adapter, sequence: None, read: 0, pooled: Vec::new(), reply, seat }
    }

    /// Returns true if the text is read with an adapter of the model.
    pub(crate) const fn has_adapter(&self) -> bool {
        self.adapter.is_some()
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
        Reading { read: self.read, len: self.text.tokens.len() }
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
        let tokens = &self.text.tokens[self.read..self.read + count];
        // Shape: [tokens, hidden]
        let states = model.hidden_states(sequence, tokens).map_err(GenerationKind::model)?;
        self.pool(&states, count);
        Ok(())
    }

    /// Reads several whole texts in one pass.
    pub(crate) fn read_whole(
        texts: &mut [Self],
        model: &mut dyn LanguageModel,
    ) -> Result<(), GenerationError> {
        let encoded =
            texts.iter().map(|Self { text, .. }| EncodedText { tokens: &text.tokens, second: text.second });
        let encoded: Vec<EncodedText<'_>> = encoded.collect();
        let states = model.encode(&encoded).map_err(GenerationKind::model)?;
        for (text, states) in texts.iter_mut().zip(states) {
            text.pool(&states, text.text.tokens.len());
        }
        Ok(())
    }

    /// Adds the hidden states of the next `count` tokens. Shape of `states`: `[count, hidden]`.
    fn pool(&mut self, states: &[f32], count: usize) {
        let hidden = states.len() / count;
        self.pooled.resize(hidden, 0.0);
        for state in states.chunks_exact(hidden) {
            let is_first = self.read == 0;
            self.read += 1;
            for (pooled, &x) in self.pooled.iter_mut().zip(state) {
                match self.text.pooling {
                    Pooling::Mean => *pooled += f64::from(x),
                    Pooling::First if !is_first => {}
                    Pooling::First | Pooling::Last => *pooled = f64::from(x),
                }
            }
        }
    }

    /// Frees the seat and then sends the result or the error.
    pub(crate) fn end(self, result: Result<(), GenerationError>, model: &dyn LanguageModel) {
        let count = match self.text.pooling {
            Pooling::Mean => self.text.tokens.len() as f64,
            Pooling::First | Pooling::Last => 1.0,
        };
        let result = result.and_then(|()| {
            let pooled = self.pooled.iter().map(|x| (x / count) as f32).collect::<Vec<f32>>();
            match self.goal {
                Goal::Vector => Ok(model.project(pooled)),
                Goal::Score => {
                    let score = model.score(&pooled).map_err(GenerationKind::model)?;
                    Ok(vec![score])
                }
            }
        });
        drop(self.seat);
        // The receiver may be gone.
        let _ = self.reply.send(result);
    }
}
