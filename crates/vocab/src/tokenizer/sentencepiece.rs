//! SentencePiece BPE with scores, as in GGUF files of model `llama` (Llama 2, Gemma 3, Phi-3).
//!
//! The file has no list of merges. Two adjacent symbols can be merged if the vocabulary contains
//! their joined text. The pair whose merged token has the highest score is merged first. The text
//! is not split into words. Characters without a token become byte tokens.
//!
//! The file spells a space as `▁` (U+2581) and cannot distinguish the two characters. This module
//! replaces every `▁` by a space. Only normal and user-defined tokens can result from a merge, so
//! no text can produce a control token by its spelling.

use super::index::Index;
use super::merge::Chain;
use crate::error::Kind;
use crate::{TokenId, VocabError, Vocabulary};

/// SentencePiece's spelling of a space.
pub(super) const SPACE: &str = "\u{2581}";

/// Encoder with scores. The vocabulary owns the bytes of the tokens.
#[derive(Debug)]
pub(super) struct SentencePiece {
    index: Index,
    /// Rank of each token, by id. A pair whose merged token has a lower rank is merged earlier.
    ranks: Vec<u32>,
    byte_tokens: ByteTokens,
}

/// For each byte, the token that stands for this byte alone. `None` if the vocabulary has no such
/// token.
pub(super) type ByteTokens = Box<[Option<TokenId>; 256]>;

impl SentencePiece {
    /// Builds the encoder. `members` are the tokens that text may be encoded to. If two of them
    /// have the same bytes, the first one is used.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        members: impl Iterator<Item = TokenId>,
        scores: &[f32],
        byte_tokens: ByteTokens,
    ) -> Self {
        let ranks = scores.iter().map(|&score| descending(score)).collect();
        Self { index: Index::new(vocabulary, members), ranks, byte_tokens }
    }

    /// Appends the tokens of `text` to `ids`. If `prefix` is true, adds a leading space to the
    /// text. `at` is the offset of `text` in the whole text, in bytes, for error messages.
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

/// Appends the byte token of each of `bytes` to `ids`. Returns an error with the offset `at` if a
/// byte has no token.
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

/// Returns `text` with every `▁` replaced by a space. If `prefix` is true, adds a leading space.
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

/// Maps a score to a rank: a higher score has a lower rank, and equal scores have equal ranks.
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
