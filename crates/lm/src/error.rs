use formwork_vocab::TokenId;
use thiserror::Error;

use crate::{AdapterId, SequenceId};

/// Error of an operation of a [`LanguageModel`](crate::LanguageModel).
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ModelError(#[from] Kind);

#[derive(Debug, Error)]
enum Kind {
    #[error("sequence {0} is not open")]
    UnknownSequence(SequenceId),
    #[error("adapter {given} is unknown; the model has {limit} adapters")]
    UnknownAdapter { given: u32, limit: usize },
    #[error("the batch contains sequence {0} more than once")]
    RepeatedSequence(SequenceId),
    #[error("token {given} is out of range (vocabulary size {limit})")]
    TokenOutside { given: u32, limit: usize },
    #[error("{given} tokens exceed the context length of {limit}")]
    ContextFull { given: usize, limit: usize },
    #[error("{given} rows of logits requested for a run of {limit} tokens; expected at most one per token")]
    TooManyRows { given: usize, limit: usize },
    #[error("this model does not support {0}")]
    Unsupported(&'static str),
    #[error("the model's backend failed")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ModelError {
    /// Creates the error for a run whose sequence is not open.
    pub fn unknown_sequence(id: SequenceId) -> Self {
        Kind::UnknownSequence(id).into()
    }

    /// Creates the error for an adapter that is not among the `limit` adapters of the model.
    pub fn unknown_adapter(given: AdapterId, limit: usize) -> Self {
        Kind::UnknownAdapter { given: given.0, limit }.into()
    }

    /// Creates the error for a batch with two runs of the same sequence.
    pub fn repeated_sequence(id: SequenceId) -> Self {
        Kind::RepeatedSequence(id).into()
    }

    /// Creates the error for a token `given` outside a vocabulary of `limit` tokens.
    pub fn token_outside(given: u32, limit: usize) -> Self {
        Kind::TokenOutside { given, limit }.into()
    }

    /// Checks that all tokens are inside a vocabulary of `vocabulary` tokens.
    ///
    /// # Errors
    /// Returns an error for the first token outside the vocabulary.
    pub fn check_tokens(tokens: &[TokenId], vocabulary: usize) -> Result<(), Self> {
        match tokens.iter().find(|token| token.index() >= vocabulary) {
            Some(token) => Err(Self::token_outside(token.0, vocabulary)),
            None => Ok(()),
        }
    }

    /// Creates the error for a sequence that would have `given` tokens in a context of `limit`.
    pub fn context_full(given: usize, limit: usize) -> Self {
        Kind::ContextFull { given, limit }.into()
    }

    /// Creates the error for a run of `limit` tokens that requests `given` rows of logits.
    pub fn too_many_rows(given: usize, limit: usize) -> Self {
        Kind::TooManyRows { given, limit }.into()
    }

    /// Creates the error for an operation that the model does not support.
    pub fn unsupported(what: &'static str) -> Self {
        Kind::Unsupported(what).into()
    }

    /// Reports whether the error is [`ModelError::unsupported`].
    pub const fn is_unsupported(&self) -> bool {
        matches!(self.0, Kind::Unsupported(_))
    }

    /// Wraps an error of the model's back end, such as a tensor library.
    pub fn backend(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Kind::Backend(source.into()).into()
    }
}
