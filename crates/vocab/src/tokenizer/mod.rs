//! Conversion of text to token ids and back.
//!
//! A `tokenizer.json` is handled by the `tokenizers` crate, which defines that format. The metadata
//! of GGUF files describes byte pairs with a list of merges or with scores. These have encoders of
//! their own, so that loading a model is fast. For both sources, the [`Vocabulary`] of a tokenizer
//! holds the bytes that each token adds to the output.
//!
//! Some vocabularies put a space before a text, for example that of Llama 2. Decoding tokens
//! returns this space, because a token does not know its position in the text.
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

use std::sync::Arc;

pub use gguf::GgufTokenizer;

use crate::error::Kind;

use crate::{TokenId, TokenKind, VocabError, Vocabulary};

/// Maximum length of a text that is encoded at once, in bytes. Longer than any context, but short
/// enough that the regular expressions for words do not give up.
const MAX_TEXT: usize = 1 << 23;

/// Options for encoding a whole text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EncodeOptions {
    /// True to encode the spellings of control tokens, such as `<|im_start|>`, as these tokens
    /// instead of as text.
    pub special: bool,
    /// True to put the beginning-of-sequence token first, if the model has one.
    pub bos: bool,
}

/// Converts text to token ids and back.
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
    add_bos: bool,
    /// True if a whole text gets a leading space.
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
    /// Creates a tokenizer that takes the longest token at each position, for tests and for
    /// vocabularies without known merges.
    pub fn greedy(vocabulary: Vocabulary) -> Self {
        Self {
            vocabulary: Arc::new(vocabulary),
            bos: None,
            add_bos: false,
            space_prefix: false,
            encoder: Encoder::Greedy,
        }
    }

    /// Returns the tokens and their bytes.
    pub const fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// Returns the beginning-of-sequence token, if the model has one.
    pub const fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// Reports whether the model expects the beginning-of-sequence token before a prompt.
    pub const fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Encodes a whole text.
    ///
    /// # Errors
    /// Returns an error if no token covers some part of the text, which happens only if the
    /// vocabulary lacks some bytes. Also returns an error if the text is longer than 8 MiB.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<TokenId>, VocabError> {
        let mut ids = Vec::new();
        if let (true, Some(bos)) = (options.bos, self.bos) {
            ids.push(bos);
        }
        self.append(text, (options.special, true), &mut ids)?;
        Ok(ids)
    }

    /// Encodes a piece of text that continues other text. Adds nothing before it, and treats
    /// control tokens as text.
    ///
    /// # Errors
    /// Returns an error as [`Tokenizer::encode`] does.
    pub fn encode_fragment(&self, text: &str) -> Result<Vec<TokenId>, VocabError> {
        let mut ids = Vec::new();
        self.append(text, (false, false), &mut ids)?;
        Ok(ids)
    }

    /// Appends the tokens of `text`. `special` allows control tokens in the text, and `whole` marks
    /// a whole text.
    fn append(
        &self,
        text: &str,
        (special, whole): (bool, bool),
        ids: &mut Vec<TokenId>,
    ) -> Result<(), VocabError> {
        if text.len() > MAX_TEXT {
            return Err(Kind::TextTooLong { given: text.len(), limit: MAX_TEXT }.into());
        }
        match &self.encoder {
            Encoder::Greedy => greedy::encode(&self.vocabulary, text, ids),
            Encoder::Gguf(encoder) => encoder.encode(&self.vocabulary, text, (special, whole), ids),
            Encoder::Json(encoder) => encoder.encode(text, (special, whole), ids),
        }
    }

    /// Adds `ends` to the tokens that end a sequence, for example from a model's generation
    /// settings.
    ///
    /// # Errors
    /// Returns an error if one of `ends` is outside the vocabulary.
    pub fn with_ends(mut self, ends: &[TokenId]) -> Result<Self, VocabError> {
        if !ends.iter().all(|&end| self.vocabulary.is_end(end)) {
            self.vocabulary = Arc::new(self.vocabulary.with_ends(ends)?);
        }
        Ok(self)
    }

    /// Returns the bytes that `ids` add to the output. Control tokens add none.
    pub fn decode(&self, ids: &[TokenId]) -> Vec<u8> {
        self.decode_where(ids, TokenKind::is_text)
    }

    /// Returns the whole text that `ids` stand for, without the leading space that
    /// [`Tokenizer::encode`] may add. If `special`, spells out control tokens.
    pub fn decode_text(&self, ids: &[TokenId], special: bool) -> Vec<u8> {
        let mut text = if special { self.decode_special(ids) } else { self.decode(ids) };
        if self.space_prefix && text.first() == Some(&b' ') {
            text.remove(0);
        }
        text
    }

    /// Returns the bytes of `ids`, with control tokens spelt out.
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
