//! SentencePiece BPE with scores, as in GGUF files of model `llama` (Llama 2, Gemma 3, Phi-3).
//!
//! The file has no list of merges. A pair may be merged if the vocabulary has its text, and the
//! token with the highest score is merged first. The text is not split into words. Characters
//! without a token become byte tokens.
//!
//! The file spells a space as `▁` (U+2581) and cannot distinguish the two, so this module works
//! with spaces only. A merge never produces a control, byte or unused token, so no text can produce
//! a control token by its spelling.

use super::index::Index;
use super::merge::Chain;
use crate::error::Kind;
use crate::{TokenId, VocabError, Vocabulary};

/// SentencePiece's spelling of a space.
pub(super) const SPACE: &str = "\u{2581}";

/// Tables of the encoder. The vocabulary owns the bytes of the tokens.
#[derive(Debug)]
pub(super) struct SentencePiece {
    index: Index,
    /// Rank of each token. Lower ranks are merged earlier.
    ranks: Vec<u32>,
    byte_tokens: ByteTokens,
}

/// The token of each single byte. `None` if the vocabulary has no such token.
pub(super) type ByteTokens = Box<[Option<TokenId>; 256]>;

impl SentencePiece {
    /// Builds the tables. `members` are the tokens that text may be encoded to. Of two tokens with
    /// the same bytes, the first one is used.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        members: impl Iterator<Item = TokenId>,
        scores: &[f32],
        byte_tokens: ByteTokens,
    ) -> Self {
        let ranks = scores.iter().map(|&score| descending(score)).collect();
        Self { index: Index::new(vocabulary, members), ranks, byte_tokens }
    }

    /// Appends the tokens of `text`, which starts at byte `at` of the whole text. If `prefix`, adds
    /// a leading space.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        (at, text): (usize, &str),
        prefix: bool,
        ids: &mut Vec<TokenId>,
    ) -> Result<(), VocabError> {
        let text = spaces(text, prefix);
        let mut chain = Chain::default();
        for c in text.chars() {
            chain.push(c.len_utf8(), None);
        }
        let bytes = text.as_bytes();
        chain.merge(|left, right| {
            let token = self.index.find(vocabulary, &bytes[left.start as usize..right.end() as usize])?;
            Some((self.ranks[token.index()], token))
        });
        for symbol in chain.iter() {
            let spelling = &bytes[symbol.start as usize..symbol.end() as usize];
            if let Some(token) = symbol.token.or_else(|| self.index.find(vocabulary, spelling)) {
                ids.push(token);
            } else {
                fall_back(&self.byte_tokens, spelling, at + symbol.start as usize, ids)?;
            }
        }
        Ok(())
    }
}

/// Appends a byte token for each of `bytes`, which are at offset `at` of the text.
pub(super) fn fall_back(
    byte_tokens: &ByteTokens,
    bytes: &[u8],
    at: usize,
    ids: &mut Vec<TokenId>,
) -> Result<(), VocabError> {
    for &byte in bytes {
        ids.push(byte_tokens[usize::from(byte)].ok_or(Kind::NoToken { byte, at })?);
    }
    Ok(())
}

/// Returns `text` with `▁` replaced by a space, as the vocabulary spells it. If `prefix`, adds a
/// leading space.
pub(super) fn spaces(text: &str, prefix: bool) -> String {
    let mut spaced = String::with_capacity(text.len() + 1);
    if prefix {
        spaced.push(' ');
    }
    let mut parts = text.split(SPACE);
    spaced.extend(parts.next());
    for part in parts {
        spaced.push(' ');
        spaced.push_str(part);
    }
    spaced
}

/// Maps a score to an integer that decreases as the score increases. Equal scores have equal
/// integers.
fn descending(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits(); // Turns -0.0 into 0.0.
    if bits >> 31 == 0 { !(bits | 1 << 31) } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_fall_as_scores_rise() {
        let scores = [f32::INFINITY, 3.5, 1.0, 1e-30, 0.0, -1e-30, -1.0, -2.0, -1e9, f32::NEG_INFINITY];
        assert!(scores.windows(2).all(|pair| descending(pair[0]) < descending(pair[1])));
        assert_eq!(descending(0.0), descending(-0.0));
    }

    #[test]
    fn spaces_are_read_in_both_spellings() {
        assert_eq!(spaces("a▁b c▁", true), " a b c ");
        assert_eq!(spaces("▁", false), " ");
        assert_eq!(spaces("", false), "");
    }
}
