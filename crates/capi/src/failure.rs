use formwork_grammar::{GrammarError, NotAllowed};
use formwork_json::JsonError;
use formwork_vocab::VocabError;
use thiserror::Error;

use crate::error::FormworkStatus;
use crate::tags::TagsProblem;

/// The reason why a call failed, before it becomes a [`FormworkError`](crate::FormworkError).
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error("`{argument}` is NULL")]
    Null { argument: String },
    #[error("`{argument}` is not aligned to {align} bytes")]
    Misaligned { argument: String, align: usize },
    #[error("`{argument}` is {given} bytes long, more than the limit of {limit}")]
    TooLong { argument: String, given: usize, limit: usize },
    #[error("`{argument}` is not UTF-8: invalid byte at offset {offset}")]
    NotUtf8 { argument: String, offset: usize },
    #[error("`{argument}` is {given}; expected {expected}")]
    UnknownValue { argument: String, given: usize, expected: &'static str },
    #[error("`options.nesting` is {given}, more than the limit of {limit}")]
    Nesting { given: usize, limit: usize },
    #[error("`words` has room for {given} words, but the mask has {needed}")]
    ShortBuffer { given: usize, needed: usize },
    #[error("token {given} is out of range (vocabulary size {limit})")]
    TokenOutside { given: u32, limit: usize },
    #[error("warning {given} is out of range (number of warnings {limit})")]
    WarningOutside { given: usize, limit: usize },
    #[error("the tokenizer has {given} tokens, but the vocabulary of the matcher has {expected}")]
    OtherVocabulary { given: usize, expected: usize },
    #[error("{0}")]
    NotJson(JsonError),
    #[error("#{pointer}: {problem}")]
    Tags { pointer: String, problem: TagsProblem },
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    #[error(transparent)]
    Vocabulary(#[from] VocabError),
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error("the vocabulary cannot spell any completion of the output")]
    NoCompletion,
    #[error("no thread could be started: {0}")]
    Thread(std::io::Error),
    #[error("internal error: {message}")]
    Panic { message: String },
}

impl Failure {
    pub(crate) fn status(&self) -> FormworkStatus {
        match self {
            Self::Null { .. } => FormworkStatus::NullPointer,
            Self::NotUtf8 { .. } => FormworkStatus::NotUtf8,
            Self::Misaligned { .. }
            | Self::TooLong { .. }
            | Self::UnknownValue { .. }
            | Self::Nesting { .. }
            | Self::ShortBuffer { .. }
            | Self::TokenOutside { .. }
            | Self::WarningOutside { .. }
            | Self::OtherVocabulary { .. } => FormworkStatus::InvalidArgument,
            Self::NotJson(_) => FormworkStatus::NotJson,
            Self::Grammar(error) if error.is_unsatisfiable() => FormworkStatus::Unsatisfiable,
            Self::Grammar(error) if error.is_over_limit() => FormworkStatus::Limit,
            Self::Tags { .. } | Self::Grammar(_) => FormworkStatus::Grammar,
            Self::Vocabulary(_) => FormworkStatus::Vocabulary,
            Self::NotAllowed(_) => FormworkStatus::NotAllowed,
            Self::NoCompletion => FormworkStatus::NoCompletion,
            Self::Thread(_) | Self::Panic { .. } => FormworkStatus::Internal,
        }
    }
}
