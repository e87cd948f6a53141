//! Byte-pair encoding with a list of merges, as in GGUF files of model `gpt2` and `gemma4`.
//!
//! Regular expressions split the text into words, and within a word pairs are merged in the order of the list. Words
//! start as bytes (`gpt2`), or as characters with byte tokens for those that are unknown (`gemma4`).
//!
//! The words come from the regular-expression engine of the `tokenizers` crate, because the expressions are written for
//! it. The merges are ours: the crate's model keeps every token as an owned string in two maps. For SmolLM2 it takes
//! 48 ms to build where this whole tokenizer, vocabulary and trie included, takes 28, and start-up shows it.

use rustc_hash::FxHashMap;
use tokenizers::utils::SysRegex;

use super::alphabet;
use super::index::Index;
use super::merge::Chain;
use super::pre::Splitting;
use super::sentencepiece::{ByteTokens, SPACE, fall_back, spaces};
use crate::error::Kind;
use crate::{TokenId, VocabError, Vocabulary};

/// What the symbols of a word are at first, and how the file spells them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Units {
    /// Bytes, in the byte-level alphabet.
    Bytes,
    /// Characters, with `▁` for a space.
    Characters,
}

impl Units {
    /// Appends the bytes that `spelling` stands for.
    pub(super) fn decode(self, spelling: &str, bytes: &mut Vec<u8>) {
        match self {
            Self::Bytes => alphabet::decode(spelling, bytes),
            Self::Characters if spelling.contains(SPACE) => bytes.extend(spaces(spelling, false).as_bytes()),
            Self::Characters => bytes.extend_from_slice(spelling.as_bytes()),
        }
    }
}

/// The encoder's tables; the bytes of the tokens are the vocabulary's.
#[derive(Debug)]
pub(super) struct Bpe {
    words: Vec<SysRegex>,
    whole_words: bool,
    units: Units,
    index: Index,
    byte_tokens: ByteTokens,
    merges: Merges,
}

/// Pairs of tokens to the place in the list and the merged token.
type Merges = FxHashMap<(TokenId, TokenId), (u32, TokenId)>;

impl Bpe {
    /// `members` are the tokens that text may become; `byte_tokens` serves [`Units::Characters`] only.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        members: impl Iterator<Item = TokenId>,
        merges: &[String],
        (units, byte_tokens): (Units, ByteTokens),
        splitting: &Splitting,
    ) -> Result<Self, VocabError> {
        let words: Result<_, _> = splitting.patterns.iter().map(|pattern| SysRegex::new(pattern)).collect();
        let index = Index::new(vocabulary, members);
        let byte_tokens = match units {
            Units::Bytes => Box::new(std::array::from_fn(|byte| index.find(vocabulary, &[byte as u8]))),
            Units::Characters => byte_tokens,
        };
        Ok(Self {
            words: words.map_err(Kind::Split)?,
            whole_words: splitting.whole_words,
            units,
            merges: read_merges(vocabulary, &index, units, merges)?,
            index,
            byte_tokens,
        })
    }

    /// Appends the tokens of `text`, which starts at byte `at` of the whole text.
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

    /// The words of `text` with their offsets: each expression cuts the pieces of the one before into matches and gaps.
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

    /// The token that stands for all of `word` whatever the merges say.
    fn whole(&self, vocabulary: &Vocabulary, word: &str) -> Option<TokenId> {
        // The merges of `gemma4` cannot make the tokens for several line feeds.
        let line_feeds = self.units == Units::Characters && word.bytes().all(|byte| byte == b'\n');
        if self.whole_words || line_feeds { self.index.find(vocabulary, word.as_bytes()) } else { None }
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

/// Merges whose tokens are not in the vocabulary can never apply and are left out.
fn read_merges(
    vocabulary: &Vocabulary,
    index: &Index,
    units: Units,
    merges: &[String],
) -> Result<Merges, VocabError> {
    let mut ranks = Merges::with_capacity_and_hasher(merges.len(), rustc_hash::FxBuildHasher);
    let mut bytes = Vec::new();
    for (rank, merge) in merges.iter().enumerate() {
        // A token may be spelt with a space first, never with one inside.
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
