use thiserror::Error;

use crate::TokenId;

/// Error from building a vocabulary or tokenizer, or from encoding text.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct VocabError(#[from] pub(crate) Kind);

#[derive(Debug, Error)]
pub(crate) enum Kind {
    #[error("the vocabulary is empty")]
    Empty,
    #[error("the vocabulary has {given} tokens, more than the limit of {limit}")]
    TooManyTokens { given: usize, limit: usize },
    #[error("end-of-sequence token {given} is out of range (vocabulary size {limit})")]
    EndOutside { given: u32, limit: usize },
    #[error("no token covers byte 0x{byte:02x} at offset {at} of the text")]
    NoToken { byte: u8, at: usize },
    #[error("no sequence of tokens covers the word at offset {at} of the text")]
    NoWord { at: usize },
    #[error("the text is {given} bytes long, more than the limit of {limit}")]
    TextTooLong { given: usize, limit: usize },
    #[error("tokenizer.ggml.model: unsupported model `{given}`; expected one of {known}")]
    UnknownModel { given: String, known: &'static str },
    #[error("tokenizer.ggml.pre: unknown pre-tokenizer `{given}`; expected one of {known}")]
    UnknownPre { given: String, known: String },
    #[error("{field} is missing, and the vocabulary has no token `{usual}`")]
    NoSpecial { field: &'static str, usual: &'static str },
    #[error("{field} has {given} entries; expected {limit}")]
    FieldLength { field: &'static str, given: usize, limit: usize },
    #[error("{field}: token {given} is out of range (vocabulary size {limit})")]
    TokenOutside { field: &'static str, given: u32, limit: usize },
    #[error("tokenizer.ggml.merges: entry {entry} `{given}` is not two tokens separated by a space")]
    Merge { entry: usize, given: String },
    #[error("tokenizer.ggml.tokens: byte token {token} is spelled `{given}`; expected the form `<0xNN>`")]
    ByteSpelling { token: TokenId, given: String },
    #[error("tokenizer.json: {0}")]
    Json(#[source] tokenizers::Error),
    #[error("tokenizer.json: unsupported decoder `{given}`; expected {known}")]
    Decoder { given: &'static str, known: &'static str },
    #[error(
        "tokenizer.json: added token `{token}` has id {wanted}, but the tokenizers crate assigns {given:?}; ids of \
         added tokens must be contiguous"
    )]
    AddedToken { token: String, wanted: u32, given: Option<u32> },
    #[error("cannot split the text into words")]
    Split(#[source] tokenizers::Error),
}
