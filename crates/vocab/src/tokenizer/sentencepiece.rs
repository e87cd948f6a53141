//! SentencePiece BPE with scores, as in GGUF files of model `llama` (Llama 2, Gemma 3, Phi-3).
//!
//! The file has no list of merges: a pair may be merged when the vocabulary has its text, and the token with the highest
//! score goes first. Nothing splits the text into words beforehand. Characters that are in no token become byte tokens.
//!
//! The file spells a space `▁` (U+2581) and so cannot tell the two apart; everything here works on the spaces. Control,
//! byte and unused tokens are never the result of a merge, so no text can spell its way to a control token.

use super::index::Index;
use super::merge::Chain;
use crate::error::Kind;
use crate::{TokenId, VocabError, Vocabulary};

/// How SentencePiece spells a space.
pub(super) const SPACE: &str = "\u{2581}";

/// The encoder's tables; the bytes of the tokens are the vocabulary's.
#[derive(Debug)]
pub(super) struct SentencePiece {
    index: Index,
    /// Lower is merged earlier, one per token.
    ranks: Vec<u32>,
    byte_tokens: ByteTokens,
}

/// The token of each single byte, where there is one.
pub(super) type ByteTokens = Box<[Option<TokenId>; 256]>;

impl SentencePiece {
    /// `members` are the tokens that text may become, the preferred one first where two have the same bytes.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        members: impl Iterator<Item = TokenId>,
        scores: &[f32],
        byte_tokens: ByteTokens,
    ) -> Self {
        let ranks = scores.iter().map(|&score| descending(score)).collect();
        Self { index: Index::new(vocabulary, members), ranks, byte_tokens }
    }

    /// Appends the tokens of `text`, which starts at byte `at` of the whole text, with a space before it if `prefix`.
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

/// Appends one byte token for each of `bytes`, which are at offset `at` of the text.
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

/// `text` with `▁` read as a space, which is how the vocabulary would spell it, and perhaps a space before it.
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

/// An integer that is smaller the higher the score is, and equal for equal scores.
fn descending(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits(); // one zero
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
