//! Tokenizers from the metadata of GGUF files.
//!
//! The format stores a tokenizer as lists under `tokenizer.ggml.*`: spellings, types, and either
//! merges or scores. The field `tokenizer.ggml.pre` contains a name for everything else, such as
//! the regular expressions. The model crate reads the file, and this module builds a [`Tokenizer`]
//! from the fields.

use std::sync::Arc;

use super::bpe::{Bpe, Units};
use super::partition::{Entry, Part, Partition};
use super::sentencepiece::{ByteTokens, SentencePiece};
use super::{Encoder, Tokenizer, Treatment, ends, pre, visible, wordpiece};
use crate::error::Kind;
use crate::{Token, TokenId, TokenKind, VocabError, Vocabulary};

/// Tokenizer fields of a GGUF file, as the file stores them. A field that the file does not have is
/// empty or `None`.
///
/// ```
/// use formwork_vocab::tokenizer::GgufTokenizer;
/// use formwork_vocab::{TokenId, Tokenizer};
/// let strings = |s: &[&str]| s.iter().map(|s| s.to_string()).collect();
/// let tokenizer = Tokenizer::from_gguf(GgufTokenizer {
///     model: "gpt2".into(),
///     pre: Some("gpt-2".into()),
///     tokens: strings(&["a", "b", "Ġ", "ab", "Ġab"]),
///     merges: strings(&["a b", "Ġ ab"]),
///     ..GgufTokenizer::default()
/// })?;
/// assert_eq!(tokenizer.encode_fragment("ab ab")?, [TokenId(3), TokenId(4)]);
/// assert_eq!(tokenizer.vocabulary().bytes(TokenId(4)), b" ab");
/// # Ok::<(), formwork_vocab::VocabError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GgufTokenizer {
    /// `general.name`. Used only to recognise Phi-3, whose special tokens absorb the white space
    /// after them.
    pub name: Option<String>,
    /// `tokenizer.ggml.model`: `gpt2`, `llama`, `gemma4` or `bert`.
    pub model: String,
    /// `tokenizer.ggml.pre`: name of the rules that split text into words. Used with model `gpt2`.
    pub pre: Option<String>,
    /// `tokenizer.ggml.tokens`: the spelling of each token.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.token_type`: for each token, 1 normal, 2 unknown, 3 control, 4 user-defined,
    /// 5 unused, 6 byte. If the list is empty, all tokens are normal.
    pub token_type: Vec<i32>,
    /// `tokenizer.ggml.scores`: the score of each token. Pairs with a higher score are merged
    /// first. Used with model `llama`.
    pub scores: Vec<f32>,
    /// `tokenizer.ggml.merges`: pairs of spellings separated by a space, in the order of merging.
    /// Used with models `gpt2` and `gemma4`.
    pub merges: Vec<String>,
    /// `tokenizer.ggml.bos_token_id`: token for the beginning of a sequence.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`: token for the end of a sequence.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`: token for the end of a turn.
    pub eot: Option<u32>,
    /// `tokenizer.ggml.eom_token_id`: token for the end of a message.
    pub eom: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`: true if prompts start with the beginning-of-sequence token.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.cls_token_id`: token that starts a text. Used with model `bert`, if there is no
    /// beginning-of-sequence token.
    pub cls: Option<u32>,
    /// `tokenizer.ggml.seperator_token_id`: token between two texts. The key has this spelling.
    pub sep: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`: token for unknown words. Used with model `bert`.
    pub unknown: Option<u32>,
    /// `tokenizer.ggml.add_eos_token`: true if texts to embed end with the end-of-sequence token.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_sep_token`: true if texts to embed end with the separator token.
    pub add_sep: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`: true if a whole text gets a leading space. Used with
    /// model `llama`.
    pub add_space_prefix: Option<bool>,
}

const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
pub(super) const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Model {
    /// Byte-pair encoding with a list of merges and named splitting rules.
    Gpt2,
    /// SentencePiece with scores. Words start as characters.
    Llama,
    /// Byte-pair encoding with a list of merges and the splitting rules of Gemma 4.
    Gemma4,
}

impl Model {
    fn named(name: &str) -> Result<Self, VocabError> {
        match name {
            "gpt2" => Ok(Self::Gpt2),
            "llama" => Ok(Self::Llama),
            "gemma4" => Ok(Self::Gemma4),
            _ => {
                Err(Kind::UnknownModel { given: name.to_owned(), known: "gpt2, llama, gemma4, bert" }.into())
            }
        }
    }
}

impl Tokenizer {
    /// Builds the tokenizer that the fields of a GGUF file describe.
    ///
    /// # Errors
    /// Returns an error in these cases:
    ///
    /// - The model or the splitting rules are unknown.
    /// - A list has a wrong length, or an id is invalid.
    /// - A byte token or a merge is malformed.
    /// - There are no tokens or too many.
    pub fn from_gguf(mut fields: GgufTokenizer) -> Result<Self, VocabError> {
        if fields.model == "bert" {
            return wordpiece::tokenizer(&fields);
        }
        let model = Model::named(&fields.model)?;
        let splitting = match model {
            Model::Gpt2 => Some(pre::splitting(fields.pre.as_deref().unwrap_or(pre::UNNAMED))?),
            Model::Gemma4 => Some(pre::GEMMA4),
            Model::Llama => None,
        };
        let units = splitting.map_or(Units::Characters, |splitting| splitting.units);
        fields.check(model)?;
        let byte_tokens = fields.byte_tokens()?;
        let partition = fields.partition();
        let tokens = std::mem::take(&mut fields.tokens);
        let ends = fields.ends(&tokens);
        let tokens = tokens.into_iter().zip(&fields.token_type);
        let tokens = tokens.map(|(spelling, &kind)| token(spelling, kind, units)).collect();
        let vocabulary = Vocabulary::new(tokens, ends)?;
        let words = match splitting {
            Some(ref splitting) => Words::Merges(Bpe::new(
                &vocabulary,
                fields.of_type(&[NORMAL]),
                &fields.merges,
                byte_tokens,
                splitting,
            )?),
            None => Words::Scores {
                encoder: SentencePiece::new(
                    &vocabulary,
                    fields.of_type(&[NORMAL]).chain(fields.of_type(&[USER_DEFINED])),
                    &fields.scores,
                    byte_tokens,
                ),
                space_prefix: fields.add_space_prefix.unwrap_or(true),
            },
        };
        let space_prefix = matches!(words, Words::Scores { space_prefix: true, .. });
        // Some files of Gemma 4 say that prompts have no beginning-of-sequence token. The model
        // needs it.
        let add_bos = model == Model::Gemma4
            || fields.add_bos.unwrap_or(splitting.is_none_or(|splitting| splitting.add_bos));
        Ok(Self {
            vocabulary: Arc::new(vocabulary),
            bos: fields.bos.map(TokenId),
            eos: fields.eos.map(TokenId),
            add_bos: add_bos && fields.bos.is_some(),
            suffix: fields.suffix().map(TokenId),
            space_prefix,
            encoder: Encoder::Gguf(Arc::new(GgufEncoder { partition, words })),
        })
    }
}

impl GgufTokenizer {
    /// Checks that the lengths of lists and the ids match the vocabulary. Missing fields get the
    /// defaults of `model`, unknown token types become normal, and control tokens inside answers
    /// become user-defined.
    fn check(&mut self, model: Model) -> Result<(), VocabError> {
        let limit = self.tokens.len();
        if self.token_type.is_empty() {
            self.token_type = vec![NORMAL; limit];
        }
        for kind in &mut self.token_type {
            *kind = if (NORMAL..=BYTE).contains(kind) { *kind } else { NORMAL };
        }
        if model == Model::Llama {
            let usual = |id: u32| (limit > 2).then_some(id);
            self.bos = self.bos.or_else(|| usual(1));
            self.eos = self.eos.or_else(|| usual(2));
        } else {
            self.scores.clear();
        }
        for (field, given, wanted) in [
            ("tokenizer.ggml.token_type", self.token_type.len(), limit),
            ("tokenizer.ggml.scores", self.scores.len(), if model == Model::Llama { limit } else { 0 }),
        ] {
            if given != wanted {
                return Err(Kind::FieldLength { field, given, limit }.into());
            }
        }
        for (field, id) in [
            ("tokenizer.ggml.bos_token_id", self.bos),
            ("tokenizer.ggml.eos_token_id", self.eos),
            ("tokenizer.ggml.eot_token_id", self.eot),
            ("tokenizer.ggml.eom_token_id", self.eom),
            ("tokenizer.ggml.seperator_token_id", self.sep),
        ] {
            if let Some(given) = id.filter(|&id| id as usize >= limit) {
                return Err(Kind::TokenOutside { field, given, limit }.into());
            }
        }
        for (kind, spelling) in self.token_type.iter_mut().zip(&self.tokens) {
            if *kind == CONTROL && visible::is_text(spelling) {
                *kind = USER_DEFINED;
            }
        }
        Ok(())
    }

    /// Returns the token that follows a text whose vector is computed.
    const fn suffix(&self) -> Option<u32> {
        match self {
            Self { add_eos: Some(true), eos: Some(eos), .. } => Some(*eos),
            Self { add_sep: Some(true), sep: Some(sep), .. } => Some(*sep),
            _ => None,
        }
    }

    /// Returns the ids of the tokens whose type is in `types`, in increasing order.
    fn of_type<'a>(&'a self, types: &'a [i32]) -> impl Iterator<Item = TokenId> + 'a {
        self.token_type.iter().zip(0..).filter(|(kind, _)| types.contains(kind)).map(|(_, id)| TokenId(id))
    }

    fn byte_tokens(&self) -> Result<ByteTokens, VocabError> {
        let mut tokens: ByteTokens = Box::new([None; 256]);
        for token in self.of_type(&[BYTE]) {
            let given = &self.tokens[token.index()];
            let byte = byte(given).ok_or_else(|| Kind::ByteSpelling { token, given: given.clone() })?;
            tokens[usize::from(byte)] = Some(token);
        }
        Ok(tokens)
    }

    /// Returns the tokens that are recognised in text by their spelling: unknown, control and
    /// user-defined tokens.
    fn partition(&self) -> Partition {
        let spelt: Vec<Entry> = self
            .of_type(&[UNKNOWN, CONTROL, USER_DEFINED])
            .map(|token| {
                (self.tokens[token.index()].clone(), token, self.token_type[token.index()] != USER_DEFINED)
            })
            .collect();
        let name = self.name.as_deref().unwrap_or_default().to_lowercase();
        let trimming = if name.contains("phi-3") || name.contains("phi3") {
            let keeping = ["<s>", "<unk>", "<|endoftext|>"];
            spelt.iter().filter(|entry| !keeping.contains(&entry.0.as_str())).map(|entry| entry.1).collect()
        } else {
            Vec::new()
        };
        Partition::new(&spelt, trimming)
    }

    /// Returns the tokens that end a sequence, by the fields of the file and by their names.
    /// `spellings` contains the spelling of every token.
    fn ends(&self, spellings: &[String]) -> Vec<TokenId> {
        let spelt = self.of_type(&[CONTROL, USER_DEFINED]).map(|token| {
            (spellings[token.index()].as_str(), token, self.token_type[token.index()] == CONTROL)
        });
        let mut ends = ends::named(spelt);
        ends.extend([self.eos, self.eot, self.eom].into_iter().flatten().map(TokenId));
        ends
    }
}

/// Returns the byte that a spelling of the form `<0xNN>` stands for, or `None` for another
/// spelling.
pub(super) fn byte(spelling: &str) -> Option<u8> {
    let digits = spelling.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

fn token(spelling: String, kind: i32, units: Units) -> Token {
    let kind = match kind {
        UNKNOWN | CONTROL => TokenKind::Control,
        UNUSED => TokenKind::Unused,
        BYTE => TokenKind::Byte,
        _ if spelling.is_empty() => TokenKind::Unused,
        USER_DEFINED if units == Units::Bytes => {
            return Token { bytes: spelling.into_bytes(), kind: TokenKind::Text };
        }
        _ => TokenKind::Text,
    };
    let bytes = match kind {
        TokenKind::Text => {
            let mut bytes = Vec::with_capacity(spelling.len());
            units.decode(&spelling, &mut bytes);
            bytes
        }
        TokenKind::Byte => byte(&spelling).into_iter().collect(),
        TokenKind::Control | TokenKind::Unused => spelling.into_bytes(),
    };
    Token { bytes, kind }
}

/// Encoder for the tokenizers of GGUF files. The results equal those of llama.cpp, which defines
/// the format.
#[derive(Debug)]
pub(super) struct GgufEncoder {
    partition: Partition,
    words: Words,
}

#[derive(Debug)]
enum Words {
    Merges(Bpe),
    Scores { encoder: SentencePiece, space_prefix: bool },
}

impl GgufEncoder {
    /// Appends the tokens of `text` to `ids`. If the text is whole, it may get a leading space.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        Treatment { special, whole }: Treatment,
        ids: &mut Vec<TokenId>,
    ) -> Result<(), VocabError> {
        let mut after_token = true;
        for part in self.partition.split(text, special) {
            match (part, &self.words) {
                (Part::Token(token), _) => ids.push(token),
                (Part::Text(at, text), Words::Merges(bpe)) => bpe.encode(vocabulary, (at, text), ids)?,
                (Part::Text(at, text), Words::Scores { encoder, space_prefix }) => {
                    encoder.encode(vocabulary, (at, text), *space_prefix && whole && after_token, ids)?;
                }
            }
            after_token = matches!(part, Part::Token(_));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_spellings() {
        assert_eq!(byte("<0x0A>"), Some(10));
        assert_eq!(byte("<0xff>"), Some(255));
        assert_eq!([byte("<0x0>"), byte("<0x100>"), byte("0x0A"), byte("<0xG0>")], [None; 4]);
    }
}
