use thiserror::Error;

/// Why a vocabulary or tokenizer could not be built or used.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct VocabError(#[from] pub(crate) Kind);

#[derive(Debug, Error)]
pub(crate) enum Kind {
    #[error("the vocabulary is empty")]
    Empty,
    #[error("the vocabulary has {given} tokens, more than the limit of {limit}")]
    TooManyTokens { given: usize, limit: usize },
    #[error("end-of-sequence token {given} is outside the vocabulary of {limit} tokens")]
    EndOutside { given: u32, limit: usize },
    #[error("no token covers byte 0x{byte:02x} at offset {at} of the text")]
    NoToken { byte: u8, at: usize },
}
