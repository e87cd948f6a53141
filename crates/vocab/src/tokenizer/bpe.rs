//! Byte-pair encoding with a list of merges, as in GGUF files of model `gpt2` and `gemma4`.
//!
//! Regular expressions split the text into words. Within a word, adjacent tokens are merged in the
//! order of the list. A word starts as single bytes (most tokenizers) or single characters (Gemma
//! 4). Characters that are not in the vocabulary become byte tokens.
//!
//! The regular-expression engine is that of the `tokenizers` crate, because the expressions are
//! written for this engine. Merging is implemented here, because the crate's model keeps every
//! token as an owned string in two maps. For SmolLM2, building that model takes 48 ms, and building
//! this whole tokenizer with vocabulary and trie takes 28 ms. The difference is noticeable at
//! start-up.

use rustc_hash::FxHashMap;
use tokenizers::utils::SysRegex;

use super::alphabet;
use super::index::Index;
use super::merge::Chain;
use super::pre::{Splitting, Whole};
use super::sentencepiece::{ByteTokens, SPACE, fall_back, spaces};
use crate::error::Kind;
use crate::{TokenId, VocabError, Vocabulary};

/// Units that a word starts with, before any merge. The units determine how the file spells tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Units {
    /// Bytes, spelt in the byte-level alphabet of the module `alphabet`.
    Bytes,
    /// Characters, spelt as themselves, except that a space is spelt `▁`.
    Characters,
}

impl Units {
    /// Appends the bytes that the spelling of a token stands for.
    pub(super) fn decode(self, spelling: &str, bytes: &mut Vec<u8>) {
        match self {
            Self::Bytes => alphabet::decode(spelling, bytes),
            Self::Characters if spelling.contains(SPACE) => bytes.extend(spaces(spelling, false).as_bytes()),
            Self::Characters => bytes.extend_from_slice(spelling.as_bytes()),
        }
    }
}

/// Encoder with a list of merges. The vocabulary owns the bytes of the tokens.
#[derive(Debug)]
pub(super) struct Bpe {
    words: Vec<SysRegex>,
    whole: Whole,
    units: Units,
    index: Index,
    byte_tokens: ByteTokens,
    merges: Merges,
}

/// For each pair of tokens that can be merged, the position of the pair in the list of merges, and
/// the merged token.
type Merges = FxHashMap<(TokenId, TokenId), (u32, TokenId)>;

impl Bpe {
    /// Builds the encoder. `members` are the tokens that text may be encoded to. `byte_tokens` is
    /// only used with [`Units::Characters`].
    pub(super) fn new(
        vocabulary: &Vocabulary,
        members: impl Iterator<Item = TokenId>,
        merges: &[String],
        byte_tokens: ByteTokens,
        splitting: &Splitting,
    ) -> Result<Self, VocabError> {
        let units = splitting.units;
        let words: Result<_, _> = splitting.patterns.iter().map(|pattern| SysRegex::new(pattern)).collect();
        let index = Index::new(vocabulary, members);
        let byte_tokens = match units {
            Units::Bytes => Box::new(std::array::from_fn(|byte| index.find(vocabulary, &[byte as u8]))),
            Units::Characters => byte_tokens,
        };
        Ok(Self {
            words: words.map_err(Kind::Split)?,
            whole: splitting.whole,
            units,
            merges: read_merges(vocabulary, &index, units, merges)?,
            index,
            byte_tokens,
        })
    }

    /// Appends the tokens of `text` to `ids`. `at` is the offset of `text` in the whole text, in
    /// bytes, for error messages.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        (at, text): (usize, &str),
        ids: &mut Vec<TokenId>,
    ) -> Result<(), VocabError> {
        let spaced;
        let text = match self.units {
            Units::Bytes => text,
            Units::Characters => {
                spaced = spaces(text, false);
                &spaced
            }
        };
        let mut chain = Chain::default();
        for (start, word) in self.split(text) {
            if let Some(token) = self.whole(vocabulary, word) {
                ids.push(token);
                continue;
            }
            chain.clear();
            self.start(vocabulary, word, &mut chain);
            chain.merge(|left, right| self.merges.get(&(left.token?, right.token?)).copied());
            for symbol in chain.iter() {
                if let Some(token) = symbol.token {
                    ids.push(token);
                } else {
                    let bytes = &word.as_bytes()[symbol.start as usize..symbol.end() as usize];
                    fall_back(&self.byte_tokens, bytes, at + start + symbol.start as usize, ids)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the words of `text`, each with its offset in bytes. The first expression splits the
    /// text into matches and the gaps between them. Each further expression splits the resulting
    /// pieces.
    fn split<'t>(&self, text: &'t str) -> Vec<(usize, &'t str)> {
        let mut pieces = vec![(0, text)];
        for words in &self.words {
            let mut finer = Vec::with_capacity(pieces.len());
            for (at, piece) in pieces {
                let mut done = 0;
                for (from, to) in words.find_iter(piece) {
                    finer.push((at + done, &piece[done..from]));
                    finer.push((at + from, &piece[from..to]));
                    done = to;
                }
                finer.push((at + done, &piece[done..]));
            }
            finer.retain(|(_, piece)| !piece.is_empty());
            pieces = finer;
        }
        pieces
    }

    /// Returns the token whose bytes are all of `word`, if such words are not merged from smaller
    /// tokens. Otherwise returns `None`.
    fn whole(&self, vocabulary: &Vocabulary, word: &str) -> Option<TokenId> {
        let is_whole = match self.whole {
            Whole::None => false,
            Whole::LineFeeds => word.bytes().all(|byte| byte == b'\n'),
            Whole::All => true,
        };
        if is_whole { self.index.find(vocabulary, word.as_bytes()) } else { None }
    }

    fn start(&self, vocabulary: &Vocabulary, word: &str, chain: &mut Chain) {
        match self.units {
            Units::Bytes => word.bytes().for_each(|byte| chain.push(1, self.byte_tokens[usize::from(byte)])),
            Units::Characters => {
                for (at, c) in word.char_indices() {
                    let len = c.len_utf8();
                    chain.push(len, self.index.find(vocabulary, &word.as_bytes()[at..at + len]));
                }
            }
        }
    }
}

/// Converts the list of merges to a map. Merges with tokens that are not in the vocabulary can
/// never apply, and are skipped.
fn read_merges(
    vocabulary: &Vocabulary,
    index: &Index,
    units: Units,
    merges: &[String],
) -> Result<Merges, VocabError> {
    let mut ranks = Merges::with_capacity_and_hasher(merges.len(), rustc_hash::FxBuildHasher);
    let mut bytes = Vec::new();
    for (rank, merge) in merges.iter().enumerate() {
        // The spelling of a token may start with a space, but has no other spaces.
        let space = merge.bytes().skip(1).position(|byte| byte == b' ').map(|at| at + 1);
        let Some((left, right)) = space.map(|at| (&merge[..at], &merge[at + 1..])) else {
            return Err(Kind::Merge { entry: rank, given: merge.clone() }.into());
        };
        bytes.clear();
        units.decode(left, &mut bytes);
        let cut = bytes.len();
        units.decode(right, &mut bytes);
        let find = |bytes| index.find(vocabulary, bytes);
        if let (Some(left), Some(right), Some(merged)) =
            (find(&bytes[..cut]), find(&bytes[cut..]), find(&bytes))
        {
            ranks.entry((left, right)).or_insert((rank as u32, merged));
        }
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::tokenizer::pre;
    use crate::{Token, TokenKind};

    /// The words of one text by the rules of each name, separated by `␞`.
    #[derive(Deserialize)]
    struct Splits {
        text: String,
        words: BTreeMap<String, String>,
    }

    #[test]
    fn words_are_those_of_the_models_own_expressions() {
        let splits = include_str!("../../tests/tokenizers/splits/splits.json");
        let Splits { text, words } = serde_json::from_str(splits).unwrap();
        let token = Token { bytes: b"a".to_vec(), kind: TokenKind::Text };
        let vocabulary = Vocabulary::new(vec![token], vec![]).unwrap();
        for (name, expected) in words {
            let splitting = pre::splitting(&name).unwrap();
            let none = ByteTokens::new([None; 256]);
            let bpe = Bpe::new(&vocabulary, std::iter::empty(), &[], none, &splitting).unwrap();
            let words: Vec<&str> = bpe.split(&text).into_iter().map(|(_, word)| word).collect();
            assert_eq!(words, expected.split('␞').collect::<Vec<_>>(), "{name}");
        }
    }
}
