//! Tokenizers from a `tokenizer.json`, the format of the `tokenizers` crate.
//!
//! The `tokenizers` crate does the encoding. This module calls its steps one by one. Control tokens
//! are therefore recognised in text only on request, and a fragment gets no leading space.
//!
//! The crate cannot report the bytes of a single token, because its decoders work on whole texts.
//! The bytes are therefore derived from the kind of decoder.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::{NormalizerWrapper, Sequence as Normalizers};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::{AddedVocabulary, Model, OffsetReferential, OffsetType, PreTokenizer};

use super::{Encoder, Tokenizer, Treatment, alphabet, ends, gguf, sentencepiece, visible};
use crate::error::Kind;
use crate::{Token, TokenId, TokenKind, VocabError, Vocabulary};

impl Tokenizer {
    /// Builds the tokenizer that a `tokenizer.json` describes.
    ///
    /// Tokens that end a sequence are recognised by their names. Use [`Tokenizer::with_ends`] to
    /// add others.
    ///
    /// # Errors
    /// Returns an error if the file is malformed, or if its decoder is neither byte-level nor
    /// SentencePiece's. Also returns an error if the ids of added tokens have gaps.
    pub fn from_json(bytes: &[u8]) -> Result<Self, VocabError> {
        let json = tokenizers::Tokenizer::from_bytes(bytes).map_err(Kind::Json)?;
        check_added(bytes, &json)?;
        let spelling = Spelling::of(json.get_decoder())?;
        let (tokens, ends) = tokens(&json, spelling);
        let vocabulary = Vocabulary::new(tokens, ends)?;
        let bos = Bos::of(&json);
        let post = serde_json::to_value(json.get_post_processor()).unwrap_or_default();
        let suffix = last_special(&post).and_then(|name| json.token_to_id(name)).map(TokenId);
        Ok(Self {
            vocabulary: Arc::new(vocabulary),
            bos: bos.token,
            eos: None,
            add_bos: bos.add,
            suffix,
            space_prefix: strips_space(json.get_decoder()),
            encoder: Encoder::Json(Arc::new(JsonEncoder::new(json)?)),
        })
    }
}

/// Reports whether the decoder removes a leading space from a text. The encoder then adds one.
fn strips_space(decoder: Option<&DecoderWrapper>) -> bool {
    match decoder {
        Some(DecoderWrapper::Sequence(sequence)) => {
            sequence.get_decoders().iter().any(|decoder| strips_space(Some(decoder)))
        }
        Some(DecoderWrapper::Strip(strip)) => strip.content == ' ' && strip.start > 0,
        Some(DecoderWrapper::WordPiece(_)) => true,
        Some(DecoderWrapper::Metaspace(metaspace)) => metaspace.prepend_scheme != PrependScheme::Never,
        _ => false,
    }
}

/// The part of the file that [`check_added`] reads.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
}

/// Returns an error if the `tokenizers` crate assigns other ids to added tokens than the file.
///
/// The crate numbers added tokens by their order. If the ids in the file have gaps, the crate only
/// logs a warning. The ids in the file are correct, because the model was trained with them.
fn check_added(bytes: &[u8], json: &tokenizers::Tokenizer) -> Result<(), VocabError> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| Kind::Json(error.into()))?;
    for added in file.added_tokens {
        let given = json.token_to_id(&added.content);
        if given != Some(added.id) {
            return Err(Kind::AddedToken { token: added.content, wanted: added.id, given }.into());
        }
    }
    Ok(())
}

/// Notation in which the file spells the bytes of tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// The byte-level alphabet, which spells each byte as one character.
    Alphabet,
    /// Plain text, except that a space is spelt `▁`. If `byte_tokens` is true, a spelling `<0xNN>`
    /// stands for a single byte.
    Text { byte_tokens: bool },
    /// Plain text after a space, or without one if the spelling starts with `##`.
    WordPiece,
}

impl Spelling {
    fn of(decoder: Option<&DecoderWrapper>) -> Result<Self, VocabError> {
        let unsupported = |given| {
            let known =
                "ByteLevel, Metaspace, WordPiece and sequences of Replace, ByteFallback, Fuse and Strip";
            Err(Kind::Decoder { given, known }.into())
        };
        match decoder {
            None => unsupported("null"),
            Some(DecoderWrapper::ByteLevel(_)) => Ok(Self::Alphabet),
            Some(DecoderWrapper::Sequence(sequence)) => {
                let mut byte_tokens = false;
                for decoder in sequence.get_decoders() {
                    match Self::of(Some(decoder))? {
                        Self::Alphabet => return Ok(Self::Alphabet),
                        Self::WordPiece => return Ok(Self::WordPiece),
                        Self::Text { byte_tokens: more } => byte_tokens |= more,
                    }
                }
                Ok(Self::Text { byte_tokens })
            }
            Some(DecoderWrapper::ByteFallback(_)) => Ok(Self::Text { byte_tokens: true }),
            Some(
                DecoderWrapper::Metaspace(_)
                | DecoderWrapper::Replace(_)
                | DecoderWrapper::Fuse(_)
                | DecoderWrapper::Strip(_),
            ) => Ok(Self::Text { byte_tokens: false }),
            Some(DecoderWrapper::BPE(_)) => unsupported("BPEDecoder"),
            Some(DecoderWrapper::WordPiece(pieces)) if pieces.prefix == "##" => Ok(Self::WordPiece),
            Some(DecoderWrapper::WordPiece(_)) => unsupported("WordPiece with another prefix than `##`"),
            Some(DecoderWrapper::CTC(_)) => unsupported("CTC"),
        }
    }

    /// Converts an entry of the model's vocabulary, given by its spelling.
    fn token(self, spelling: &str) -> Token {
        if self == Self::WordPiece && spelling == "##" {
            return Token { bytes: Vec::new(), kind: TokenKind::Unused };
        }
        let byte = if self == (Self::Text { byte_tokens: true }) { gguf::byte(spelling) } else { None };
        let mut bytes = Vec::new();
        match (self, byte) {
            (Self::Alphabet, _) => alphabet::decode(spelling, &mut bytes),
            (Self::WordPiece, _) => match spelling.strip_prefix("##") {
                Some(rest) => bytes.extend(rest.bytes()),
                None => bytes.extend(format!(" {spelling}").bytes()),
            },
            (Self::Text { .. }, Some(byte)) => return Token { bytes: vec![byte], kind: TokenKind::Byte },
            (Self::Text { .. }, None) => bytes.extend(sentencepiece::spaces(spelling, false).into_bytes()),
        }
        Token { bytes, kind: TokenKind::Text }
    }

    /// Converts an entry of `added_tokens`, given by its content. `special` is its flag in the
    /// file.
    fn added(self, content: &str, special: bool) -> Token {
        let kind = if special { TokenKind::Control } else { TokenKind::Text };
        let bytes = match (self, kind) {
            (Self::Text { .. }, TokenKind::Text) => sentencepiece::spaces(content, false).into_bytes(),
            _ => content.as_bytes().to_vec(),
        };
        Token { bytes, kind }
    }
}

/// Returns all tokens, indexed by id, and the tokens that end a sequence. Ids without an entry in
/// the file become unused tokens.
fn tokens(json: &tokenizers::Tokenizer, spelling: Spelling) -> (Vec<Token>, Vec<TokenId>) {
    let unused = Token { bytes: Vec::new(), kind: TokenKind::Unused };
    let mut tokens = Vec::with_capacity(json.get_vocab_size(true));
    let mut put = |id: u32, token| {
        let index = id as usize;
        if index >= tokens.len() {
            tokens.resize(index + 1, unused.clone());
        }
        tokens[index] = token;
    };
    for (spelt, id) in json.get_vocab(false) {
        put(id, spelling.token(&spelt));
    }
    let added = json.get_added_tokens_decoder();
    for (&id, token) in &added {
        put(id, spelling.added(&token.content, token.special && !visible::is_text(&token.content)));
    }
    let spelt = added.iter().map(|(&id, token)| (token.content.as_str(), TokenId(id), token.special));
    let ends = ends::named(spelt);
    (tokens, ends)
}

/// Beginning-of-sequence token, if the model has one. `add` is true if a text starts with this
/// token.
struct Bos {
    token: Option<TokenId>,
    add: bool,
}

impl Bos {
    fn of(json: &tokenizers::Tokenizer) -> Self {
        let post = serde_json::to_value(json.get_post_processor()).unwrap_or_default();
        if let Some(name) = first_special(&post) {
            return Self { token: json.token_to_id(name).map(TokenId), add: true };
        }
        let added = json.get_added_vocabulary();
        let usual = ["<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>"];
        let token = usual.into_iter().find(|name| added.is_special_token(name));
        Self { token: token.and_then(|name| json.token_to_id(name)).map(TokenId), add: false }
    }
}

/// Returns the special token that the template of a post-processor puts before the text. Returns
/// `None` if there is no such template or token.
fn first_special(post: &Value) -> Option<&str> {
    match post.get("type")?.as_str()? {
        "TemplateProcessing" => post["single"].get(0)?.get("SpecialToken")?.get("id")?.as_str(),
        "BertProcessing" | "RobertaProcessing" => post["cls"].get(0)?.as_str(),
        "Sequence" => post["processors"].as_array()?.iter().find_map(first_special),
        _ => None,
    }
}

/// Returns the special token that the template of a post-processor puts after the text. Returns `None`
/// if there is no such template or token.
fn last_special(post: &Value) -> Option<&str> {
    match post.get("type")?.as_str()? {
        "TemplateProcessing" => post["single"].as_array()?.last()?.get("SpecialToken")?.get("id")?.as_str(),
        // These have a fixed form: the text is between the two tokens.
        "BertProcessing" | "RobertaProcessing" => post["sep"].get(0)?.as_str(),
        "Sequence" => post["processors"].as_array()?.iter().find_map(last_special),
        _ => None,
    }
}

/// Encoder that uses the `tokenizers` crate.
#[derive(Debug)]
pub(super) struct JsonEncoder {
    json: tokenizers::Tokenizer,
    /// Added tokens for text in which special tokens are not recognised.
    plain: AddedVocabulary,
    /// Normalizer for text that continues other text: the tokenizer's own normalizer, without the
    /// step that adds a leading space.
    normalizer: Option<NormalizerWrapper>,
    /// Pre-tokenizer for text that continues other text: the tokenizer's own pre-tokenizer, without
    /// the leading space.
    pre_tokenizer: Option<PreTokenizerWrapper>,
    unknown: Option<u32>,
}

impl JsonEncoder {
    fn new(json: tokenizers::Tokenizer) -> Result<Self, VocabError> {
        let plain = plain(&json)?;
        let unknown = match json.get_model() {
            ModelWrapper::BPE(bpe) => {
                bpe.get_unk_token().as_ref().and_then(|unknown| json.token_to_id(unknown))
            }
            _ => None,
        };
        Ok(Self {
            plain,
            normalizer: json.get_normalizer().and_then(without_prepend),
            pre_tokenizer: json.get_pre_tokenizer().cloned().map(without_prefix),
            unknown,
            json,
        })
    }

    /// Appends the tokens of `text` to `ids`.
    pub(super) fn encode(
        &self,
        text: &str,
        Treatment { special, whole }: Treatment,
        ids: &mut Vec<TokenId>,
    ) -> Result<(), VocabError> {
        let added = if special { self.json.get_added_vocabulary() } else { &self.plain };
        let (normalizer, pre_tokenizer) = if whole {
            (self.json.get_normalizer(), self.json.get_pre_tokenizer())
        } else {
            (self.normalizer.as_ref(), self.pre_tokenizer.as_ref())
        };
        let mut pieces = added.extract_and_normalize(normalizer, text);
        if let Some(pre_tokenizer) = pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut pieces).map_err(Kind::Split)?;
        }
        for (piece, (at, _), tokens) in pieces.get_splits(OffsetReferential::Original, OffsetType::Byte) {
            if let Some(tokens) = tokens {
                ids.extend(tokens.iter().map(|token| TokenId(token.id)));
                continue;
            }
            let tokens = self.json.get_model().tokenize(piece).map_err(Kind::Split)?;
            // A model without a token for unknown text skips what it does not know and ends early.
            let end = tokens.last().map_or(0, |token| token.offsets.1);
            if end != piece.len() || tokens.iter().any(|token| Some(token.id) == self.unknown) {
                return Err(Kind::NoWord { at }.into());
            }
            ids.extend(tokens.iter().map(|token| TokenId(token.id)));
        }
        Ok(())
    }
}

/// Returns the added tokens for text in which special tokens are not recognised. Special tokens
/// inside answers are recognised in all text, as in GGUF files.
fn plain(json: &tokenizers::Tokenizer) -> Result<AddedVocabulary, VocabError> {
    let mut plain = json.get_added_vocabulary().clone();
    let mut added: Vec<_> = json.get_added_tokens_decoder().into_iter().collect();
    if added.iter().any(|(_, token)| token.special && visible::is_text(&token.content)) {
        // The crate cannot withdraw the flag of a token, so the tokens are added again. In the order
        // of their ids, they get the same ids.
        added.sort_unstable_by_key(|&(id, _)| id);
        let tokens = added.into_iter().map(|(_, mut token)| {
            token.special &= !visible::is_text(&token.content);
            token
        });
        plain = AddedVocabulary::new();
        plain.add_tokens(tokens, json.get_model(), json.get_normalizer()).map_err(Kind::Json)?;
    }
    plain.set_encode_special_tokens(true);
    Ok(plain)
}

fn without_prepend(normalizer: &NormalizerWrapper) -> Option<NormalizerWrapper> {
    match normalizer {
        NormalizerWrapper::Prepend(_) => None,
        NormalizerWrapper::Sequence(steps) => {
            let steps: &[NormalizerWrapper] = steps.as_ref();
            Some(Normalizers::new(steps.iter().filter_map(without_prepend).collect()).into())
        }
        other => Some(other.clone()),
    }
}

fn without_prefix(mut pre_tokenizer: PreTokenizerWrapper) -> PreTokenizerWrapper {
    match &mut pre_tokenizer {
        PreTokenizerWrapper::Metaspace(metaspace) => metaspace.set_prepend_scheme(PrependScheme::Never),
        PreTokenizerWrapper::ByteLevel(byte_level) => byte_level.add_prefix_space = false,
        PreTokenizerWrapper::Sequence(steps) => {
            for step in steps.as_mut() {
                *step = without_prefix(step.clone());
            }
        }
        _ => {}
    }
    pre_tokenizer
}
