use formwork_vocab::TokenId;
use thiserror::Error;

use crate::SequenceId;

/// Why a forward pass could not be made.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ModelError(#[from] Kind);

#[derive(Debug, Error)]
enum Kind {
    #[error("sequence {0} is not open")]
    UnknownSequence(SequenceId),
    #[error("sequence {0} occurs twice in a batch")]
    RepeatedSequence(SequenceId),
    #[error("token {given} is outside the vocabulary of {limit} tokens")]
    TokenOutside { given: u32, limit: usize },
    #[error("{given} tokens do not fit the context of {limit}")]
    ContextFull { given: usize, limit: usize },
    #[error("{given} rows of logits are wanted of a run of {limit} tokens")]
    TooManyRows { given: usize, limit: usize },
    #[error("this model does not support {0}")]
    Unsupported(&'static str),
    #[error("the model's back end failed")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ModelError {
    /// A run names a sequence that is not open.
    pub fn unknown_sequence(id: SequenceId) -> Self {
        Kind::UnknownSequence(id).into()
    }

    /// Two runs of a batch name the same sequence.
    pub fn repeated_sequence(id: SequenceId) -> Self {
        Kind::RepeatedSequence(id).into()
    }

    /// A token is outside the vocabulary.
    pub fn token_outside(given: u32, limit: usize) -> Self {
        Kind::TokenOutside { given, limit }.into()
    }

    /// Nothing, where all tokens are in a vocabulary of this size.
    ///
    /// # Errors
    /// For the first that is not.
    pub fn check_tokens(tokens: &[TokenId], vocabulary: usize) -> Result<(), Self> {
        match tokens.iter().find(|token| token.index() >= vocabulary) {
            Some(token) => Err(Self::token_outside(token.0, vocabulary)),
            None => Ok(()),
        }
    }

    /// A sequence would grow past the context.
    pub fn context_full(given: usize, limit: usize) -> Self {
        Kind::ContextFull { given, limit }.into()
    }

    /// A run wants more rows than it has tokens.
    pub fn too_many_rows(given: usize, limit: usize) -> Self {
        Kind::TooManyRows { given, limit }.into()
    }

    /// The model has no such ability.
    pub fn unsupported(what: &'static str) -> Self {
        Kind::Unsupported(what).into()
    }

    /// Whether the model lacks the ability that was asked for.
    pub const fn is_unsupported(&self) -> bool {
        matches!(self.0, Kind::Unsupported(_))
    }

    /// The tensor library reported an error.
    pub fn backend(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Kind::Backend(source.into()).into()
    }
}
