use thiserror::Error;

use crate::TokenId;

/// Error from building or using a vocabulary or tokenizer.
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
    #[error("no token covers some of the word at offset {at} of the text")]
    NoWord { at: usize },
    #[error("the text is {given} bytes long, more than the limit of {limit}")]
    TextTooLong { given: usize, limit: usize },
    #[error("tokenizer.ggml.model: `{given}` is not supported; supported are {known}")]
    UnknownModel { given: String, known: &'static str },
    #[error("tokenizer.ggml.pre: `{given}` is not known; known are {known}")]
    UnknownPre { given: String, known: String },
    #[error("{field} has {given} entries for {limit} tokens")]
    FieldLength { field: &'static str, given: usize, limit: usize },
    #[error("{field}: token {given} is outside the vocabulary of {limit} tokens")]
    TokenOutside { field: &'static str, given: u32, limit: usize },
    #[error("tokenizer.ggml.merges: entry {entry} `{given}` is not two tokens with a space between them")]
    Merge { entry: usize, given: String },
    #[error("tokenizer.ggml.tokens: byte token {token} is spelt `{given}`, not `<0xNN>`")]
    ByteSpelling { token: TokenId, given: String },
    #[error("tokenizer.json: {0}")]
    Json(#[source] tokenizers::Error),
    #[error("tokenizer.json: decoder `{given}` is not supported; supported are {known}")]
    Decoder { given: &'static str, known: &'static str },
    #[error(
        "tokenizer.json: added token `{token}` has id {wanted}, but would be read as {given:?}; ids may have no gaps"
    )]
    AddedToken { token: String, wanted: u32, given: Option<u32> },
    #[error("the text cannot be split into words")]
    Split(#[source] tokenizers::Error),
}
