//! Text to token ids and back.
//!
//! A `tokenizer.json` goes through the `tokenizers` crate, which defines that format. The metadata of GGUF files, byte
//! pairs with a list of merges or with scores, has its own encoders, because a model is loaded in the time in which the
//! first token should be out. Whatever the source, a tokenizer's [`Vocabulary`] holds the bytes that each token really
//! adds to the output.
//!
//! Some vocabularies put a space before a text (Llama 2). Tokens decode to that space too, since a token does not know where
//! in a text it is; [`Tokenizer::decode_text`] takes them for a whole text and leaves it out.

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

/// The longest text that is encoded at once, in bytes. No context holds as much, and the regular expressions that find
/// words give up only past it.
const MAX_TEXT: usize = 1 << 23;

/// How to encode a whole text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EncodeOptions {
    /// Read the spellings of control tokens (such as `<|im_start|>`) as those tokens, not as text.
    pub special: bool,
    /// Put the beginning-of-sequence token first, where the model has one.
    pub bos: bool,
}

/// Text to token ids and back.
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
    /// Whether a whole text gets a space before it.
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
    /// A tokenizer that takes the longest token at each place: for tests, and where no merges are known.
    pub fn greedy(vocabulary: Vocabulary) -> Self {
        Self {
            vocabulary: Arc::new(vocabulary),
            bos: None,
            add_bos: false,
            space_prefix: false,
            encoder: Encoder::Greedy,
        }
    }

    /// The tokens and their bytes.
    pub const fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The beginning-of-sequence token, where the model has one.
    pub const fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// Whether the model expects the beginning-of-sequence token before a prompt.
    pub const fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Encodes a whole text.
    ///
    /// # Errors
    /// When some part of the text has no tokens, which only a vocabulary without all bytes can cause; when the text is
    /// longer than 8 MiB.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<TokenId>, VocabError> {
        let mut ids = Vec::new();
        if let (true, Some(bos)) = (options.bos, self.bos) {
            ids.push(bos);
        }
        self.append(text, (options.special, true), &mut ids)?;
        Ok(ids)
    }

    /// Encodes a piece of text that continues other text: nothing is put before it, and nothing in it is special.
    ///
    /// # Errors
    /// As for [`Tokenizer::encode`].
    pub fn encode_fragment(&self, text: &str) -> Result<Vec<TokenId>, VocabError> {
        let mut ids = Vec::new();
        self.append(text, (false, false), &mut ids)?;
        Ok(ids)
    }

    /// Appends the tokens of `text`: whether control tokens may be spelt in it, and whether it is a whole text.
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

    /// The same tokenizer with `ends` among the tokens that end a sequence, as a model's generation settings may ask.
    ///
    /// # Errors
    /// When one of them is outside the vocabulary.
    pub fn with_ends(mut self, ends: &[TokenId]) -> Result<Self, VocabError> {
        if !ends.iter().all(|&end| self.vocabulary.is_end(end)) {
            self.vocabulary = Arc::new(self.vocabulary.with_ends(ends)?);
        }
        Ok(self)
    }

    /// The bytes that `ids` add to the output. Control tokens add none.
    pub fn decode(&self, ids: &[TokenId]) -> Vec<u8> {
        self.decode_where(ids, TokenKind::is_text)
    }

    /// The text that `ids` are the tokens of, with control tokens spelt out on request: without the space at its very
    /// beginning, where [`Tokenizer::encode`] puts one.
    pub fn decode_text(&self, ids: &[TokenId], special: bool) -> Vec<u8> {
        let mut text = if special { self.decode_special(ids) } else { self.decode(ids) };
        if self.space_prefix && text.first() == Some(&b' ') {
            text.remove(0);
        }
        text
    }

    /// The bytes of `ids`, with control tokens spelt out.
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
