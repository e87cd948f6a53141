//! Conversion of text to token ids and back.
//!
//! The `tokenizers` crate encodes text for tokenizers from a `tokenizer.json`, because it defines
//! that format. Tokenizers from GGUF metadata have encoders of their own, so that loading a model
//! is fast. In both cases, the [`Vocabulary`] of the tokenizer holds the bytes that each token adds
//! to the output.
//!
//! Some tokenizers add a space before a text, for example that of Llama 2. [`Tokenizer::decode`]
//! keeps this space, because a token does not know its position in the text.
//! [`Tokenizer::decode_text`] decodes a whole text and removes the space.

mod alphabet;
mod bpe;
mod ends;
mod gguf;
mod greedy;
mod index;
mod json;
mod merge;
mod partition;
mod pre;
mod sentencepiece;
mod visible;
mod wordpiece;

use std::sync::Arc;

pub use gguf::GgufTokenizer;

use crate::error::Kind;

use crate::{TokenId, TokenKind, VocabError, Vocabulary};

/// Maximum length of a text that is encoded at once, in bytes. Such a text is longer than any
/// context, but short enough for the regular expressions that split text into words.
const MAX_TEXT: usize = 1 << 23;

/// Options for encoding a whole text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EncodeOptions {
    /// True to encode the spellings of control tokens, such as `<|im_start|>`, as control tokens.
    /// False to encode these spellings as ordinary text.
    pub special: bool,
    /// True to put the beginning-of-sequence token first, if the model has one.
    pub bos: bool,
}

/// Treatment of a text by an encoder.
#[derive(Clone, Copy)]
struct Treatment {
    /// True to encode the spellings of control tokens as these tokens.
    special: bool,
    /// True if the text does not continue other text.
    whole: bool,
}

/// Converts text to token ids, and token ids to text.
///
/// ```
/// use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
/// let token = |s: &str| Token { bytes: s.into(), kind: TokenKind::Text };
/// let vocabulary = Vocabulary::new(vec![token("a"), token("b"), token("ab")], vec![])?;
/// let tokenizer = Tokenizer::greedy(vocabulary);
/// let ids = tokenizer.encode("abb", Default::default())?;
/// assert_eq!(ids, [TokenId(2), TokenId(1)]);
/// assert_eq!(tokenizer.decode(&ids), b"abb");
/// # Ok::<(), formwork_vocab::VocabError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokenizer {
    vocabulary: Arc<Vocabulary>,
    bos: Option<TokenId>,
    eos: Option<TokenId>,
    add_bos: bool,
    /// Token that follows a text whose vector or score is computed.
    suffix: Option<TokenId>,
    /// True if the encoder adds a leading space to a whole text.
    space_prefix: bool,
    encoder: Encoder,
}

#[derive(Clone, Debug)]
enum Encoder {
    Greedy,
    Gguf(Arc<gguf::GgufEncoder>),
    Json(Arc<json::JsonEncoder>),
}

impl Tokenizer {
    /// Creates a tokenizer that takes the longest matching token at each position. Such a tokenizer
    /// serves tests and vocabularies whose merges are unknown.
    pub fn greedy(vocabulary: Vocabulary) -> Self {
        Self {
            vocabulary: Arc::new(vocabulary),
            bos: None,
            eos: None,
            add_bos: false,
            suffix: None,
            space_prefix: false,
            encoder: Encoder::Greedy,
        }
    }

    /// Returns the vocabulary, with the bytes of each token.
    pub const fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// Returns the beginning-of-sequence token, or `None` if the model has none.
    pub const fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// Returns the token that the model's files name as its end-of-sequence token, or `None` if they
    /// name none. [`Vocabulary::ends`] has all tokens that end a sequence.
    pub const fn eos(&self) -> Option<TokenId> {
        self.eos
    }

    /// Reports whether the encoder adds a leading space to a whole text.
    pub const fn has_space_prefix(&self) -> bool {
        self.space_prefix
    }

    /// Reports whether a prompt for the model must start with the beginning-of-sequence token.
    pub const fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Returns the token that the tokenizer puts after a text, or `None` if there is none. Models for
    /// embeddings need it. A prompt for a generated continuation must not end with it.
    pub const fn suffix(&self) -> Option<TokenId> {
        self.suffix
    }

    /// Encodes a whole text with the tokens that the tokenizer puts before and after it, for a model
    /// that computes the text's vector. The spellings of control tokens are encoded as ordinary text.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Tokenizer::encode`].
    pub fn encode_framed(&self, text: &str) -> Result<Vec<TokenId>, VocabError> {
        let mut ids = self.encode(text, EncodeOptions { special: false, bos: self.add_bos })?;
        ids.extend(self.suffix);
        Ok(ids)
    }

    /// Encodes a whole text, such as a prompt.
    ///
    /// # Errors
    /// Returns an error if no token covers some part of the text. This only happens if the
    /// vocabulary lacks tokens for some bytes. Also returns an error if the text is longer than 8
    /// MiB.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<TokenId>, VocabError> {
        let mut ids = Vec::new();
        if let (true, Some(bos)) = (options.bos, self.bos) {
            ids.push(bos);
        }
        self.append(text, Treatment { special: options.special, whole: true }, &mut ids)?;
        Ok(ids)
    }

    /// Encodes a text that continues other text. No leading space or beginning-of-sequence token is
    /// added, and the spellings of control tokens are encoded as ordinary text.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Tokenizer::encode`].
    pub fn encode_fragment(&self, text: &str) -> Result<Vec<TokenId>, VocabError> {
        let mut ids = Vec::new();
        self.append(text, Treatment { special: false, whole: false }, &mut ids)?;
        Ok(ids)
    }

    /// Encodes a text that continues other text, like [`Tokenizer::encode_fragment`], except that the
    /// spellings of control tokens become these tokens.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Tokenizer::encode`].
    pub fn encode_continuation(&self, text: &str) -> Result<Vec<TokenId>, VocabError> {
        let mut ids = Vec::new();
        self.append(text, Treatment { special: true, whole: false }, &mut ids)?;
        Ok(ids)
    }

    /// Appends the tokens of `text` to `ids`.
    fn append(&self, text: &str, treatment: Treatment, ids: &mut Vec<TokenId>) -> Result<(), VocabError> {
        if text.len() > MAX_TEXT {
            return Err(Kind::TextTooLong { given: text.len(), limit: MAX_TEXT }.into());
        }
        match &self.encoder {
            Encoder::Greedy => greedy::encode(&self.vocabulary, text, ids),
            Encoder::Gguf(encoder) => encoder.encode(&self.vocabulary, text, treatment, ids),
            Encoder::Json(encoder) => encoder.encode(text, treatment, ids),
        }
    }

    /// Makes the tokens `ends` end a sequence too. A model's generation settings, for example, can
    /// name such tokens.
    ///
    /// # Errors
    /// Returns an error if one of `ends` is outside the vocabulary.
    pub fn with_ends(mut self, ends: &[TokenId]) -> Result<Self, VocabError> {
        if !ends.iter().all(|&end| self.vocabulary.is_end(end)) {
            self.vocabulary = Arc::new(self.vocabulary.with_ends(ends)?);
        }
        Ok(self)
    }

    /// Makes `eos` the end-of-sequence token. It ends a sequence, like those of
    /// [`Tokenizer::with_ends`].
    ///
    /// # Errors
    /// Returns an error if `eos` is outside the vocabulary.
    pub fn with_eos(self, eos: TokenId) -> Result<Self, VocabError> {
        Ok(Self { eos: Some(eos), ..self.with_ends(&[eos])? })
    }

    /// Returns the bytes that the tokens add to the output, in order. Control tokens add no bytes.
    pub fn decode(&self, ids: &[TokenId]) -> Vec<u8> {
        self.decode_where(ids, TokenKind::is_text)
    }

    /// Returns the whole text that the tokens stand for, as bytes. The leading space that
    /// [`Tokenizer::encode`] may have added is removed. If `special` is true, control tokens are
    /// spelt out.
    pub fn decode_text(&self, ids: &[TokenId], special: bool) -> Vec<u8> {
        let mut text = if special { self.decode_special(ids) } else { self.decode(ids) };
        if self.space_prefix && text.first() == Some(&b' ') {
            text.remove(0);
        }
        text
    }

    /// Returns the bytes of the tokens, in order, with control tokens spelt out.
    pub fn decode_special(&self, ids: &[TokenId]) -> Vec<u8> {
        self.decode_where(ids, |_| true)
    }

    fn decode_where(&self, ids: &[TokenId], wanted: impl Fn(TokenKind) -> bool) -> Vec<u8> {
        ids.iter()
            .filter(|&&id| wanted(self.vocabulary.kind(id)))
            .flat_map(|&id| self.vocabulary.bytes(id))
            .copied()
            .collect()
    }
}
