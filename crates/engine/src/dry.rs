//! DRY ("don't repeat yourself"): penalises tokens that would lengthen a repetition, more for
//! longer repetitions.
//!
//! If the last tokens of the text occurred before, the token that followed them would lengthen the
//! repetition. Its logit is reduced by `multiplier * base ^ (length - allowed_length)`, where
//! `length` is the length of the longest such repetition. Sequence breakers end repetitions: a
//! repetition never spans a breaker. The sampler is by p-e-w
//! (<https://github.com/oobabooga/text-generation-webui/pull/5677>); names and defaults are from
//! llama.cpp.

use std::collections::HashMap;

use formwork_vocab::{TokenId, Vocabulary};

use crate::error::{RequestError, Setting};

/// DRY settings, which limit repeated sequences of tokens. Off by default.
#[derive(Clone, PartialEq, Debug)]
pub struct Dry {
    /// Strength of the penalty; 0 turns DRY off.
    pub multiplier: f32,
    /// Growth factor of the penalty for each further token of a repetition.
    pub base: f32,
    /// Length in tokens that repetitions may reach without a penalty. A token that would extend a
    /// repetition of exactly this length is penalised by `multiplier`.
    pub allowed_length: usize,
    /// Number of last tokens to search for repetitions, including tokens of the prompt; `None`
    /// searches all.
    pub penalty_last_n: Option<usize>,
    /// Strings that end repetitions.
    pub sequence_breakers: Vec<String>,
}

impl Default for Dry {
    fn default() -> Self {
        let sequence_breakers = ["\n", ":", "\"", "*"].map(str::to_owned).to_vec();
        Self { multiplier: 0.0, base: 1.75, allowed_length: 2, penalty_last_n: None, sequence_breakers }
    }
}

impl Dry {
    pub(crate) fn is_on(&self) -> bool {
        self.multiplier > 0.0
    }

    pub(crate) fn check(&self) -> Result<(), RequestError> {
        let Self { multiplier, base, .. } = *self;
        Setting { name: "dry_multiplier", given: multiplier, range: "0..=100" }
            .check((0.0..=100.0).contains(&multiplier))?;
        Setting { name: "dry_base", given: base, range: "1..=100" }.check((1.0..=100.0).contains(&base))
    }
}

/// The text of one request, indexed for repetitions.
#[derive(Clone)]
pub(crate) struct Repetitions {
    dry: Dry,
    tokens: Vec<TokenId>,
    /// Number of tokens since the last sequence breaker.
    unbroken: usize,
    /// Last bytes of the text, shorter than the longest breaker.
    tail: Vec<u8>,
}

impl Repetitions {
    pub(crate) fn new(dry: Dry, prompt: &[TokenId], vocabulary: &Vocabulary) -> Self {
        let mut repetitions = Self { dry, tokens: Vec::new(), unbroken: 0, tail: Vec::new() };
        for &token in prompt {
            repetitions.push(token, vocabulary);
        }
        repetitions
    }

    /// Appends a token.
    pub(crate) fn push(&mut self, token: TokenId, vocabulary: &Vocabulary) {
        self.tokens.push(token);
        let before = self.tail.len();
        self.tail.extend_from_slice(vocabulary.bytes(token));
        // Searches for breakers that end in this token.
        let is_broken = breakers(&self.dry).any(|breaker| {
            let text = &self.tail[before.saturating_sub(breaker.len() - 1)..];
            text.windows(breaker.len()).any(|window| window == breaker)
        });
        self.unbroken = if is_broken { 0 } else { self.unbroken + 1 };
        let longest = breakers(&self.dry).map(<[u8]>::len).max().unwrap_or(1);
        let kept = self.tail.len().min(longest - 1);
        self.tail.drain(..self.tail.len() - kept);
    }

    /// Applies the penalties to the logits. Shape: `[vocabulary]`.
    pub(crate) fn apply(&self, logits: &mut [f32], vocabulary: &Vocabulary) {
        for (token, length) in self.lengths() {
            let bytes = vocabulary.bytes(token);
            let breaks =
                breakers(&self.dry).any(|breaker| bytes.windows(breaker.len()).any(|text| text == breaker));
            if let Some(logit) = logits.get_mut(token.index()).filter(|_| !breaks) {
                let excess = (length - self.dry.allowed_length) as f32;
                // Capped, so that a token with a huge penalty still has a finite logit.
                *logit -= (self.dry.multiplier * self.dry.base.powf(excess)).min(f32::MAX / 4.0);
            }
        }
    }

    /// Returns the tokens that would lengthen a repetition of at least `allowed_length`, each with
    /// the length of its longest repetition.
    fn lengths(&self) -> HashMap<TokenId, usize> {
        let looked_at = self.dry.penalty_last_n.unwrap_or(usize::MAX).min(self.tokens.len());
        let tokens = &self.tokens[self.tokens.len() - looked_at..];
        let mut longest = HashMap::new();
        if self.unbroken < self.dry.allowed_length.max(1) {
            return longest;
        }
        for (back, length) in suffix_lengths(tokens).into_iter().enumerate().skip(1) {
            let length = length.min(self.unbroken);
            if length >= self.dry.allowed_length.max(1) {
                let known = longest.entry(tokens[tokens.len() - back]).or_insert(length);
                *known = length.max(*known);
            }
        }
        longest
    }
}

fn breakers(dry: &Dry) -> impl Iterator<Item = &[u8]> {
    dry.sequence_breakers.iter().map(String::as_bytes).filter(|breaker| !breaker.is_empty())
}

/// Returns for each number of tokens removed from the end the length of the longest common suffix
/// with the whole text.
///
/// This is the Z function of the reversed text, computed in linear time.
fn suffix_lengths(tokens: &[TokenId]) -> Vec<usize> {
    let len = tokens.len();
    let at = |index: usize| tokens[len - 1 - index];
    let mut lengths = vec![0; len];
    let (mut from, mut to) = (0, 0);
    for back in 1..len {
        let mut length: usize = if back < to { lengths[back - from].min(to - back) } else { 0 };
        while back + length < len && at(length) == at(back + length) {
            length += 1;
        }
        if back + length > to {
            (from, to) = (back, back + length);
        }
        lengths[back] = length;
    }
    lengths
}

#[cfg(test)]
mod tests {
    use formwork_vocab::{Token, TokenKind};

    use super::*;

    /// Creates a vocabulary with a token for each byte, and one token of two bytes.
    fn vocabulary() -> Vocabulary {
        let text = |bytes: &[u8]| Token { bytes: bytes.to_vec(), kind: TokenKind::Text };
        let bytes = (0..=255u8).map(|byte| text(&[byte]));
        Vocabulary::new(bytes.chain([text(b"x:")]).collect(), vec![]).expect("good")
    }

    fn tokens(text: &str) -> Vec<TokenId> {
        text.bytes().map(|byte| TokenId(byte.into())).collect()
    }

    /// Returns the penalised tokens after a text as characters, with their penalties.
    fn penalties(dry: Dry, text: &str) -> Vec<(char, f32)> {
        let vocabulary = vocabulary();
        let repetitions = Repetitions::new(dry, &tokens(text), &vocabulary);
        let mut logits = vec![0.0; 257];
        repetitions.apply(&mut logits, &vocabulary);
        let taken = logits.iter().enumerate().filter(|(_, logit)| **logit < 0.0);
        taken.map(|(token, logit)| (token as u8 as char, -logit)).collect()
    }

    fn dry() -> Dry {
        Dry { multiplier: 1.0, base: 2.0, ..Dry::default() }
    }

    #[test]
    fn penalizes_tokens_that_extend_a_repetition() {
        // "abc" occurred before "d", "bc" before "e".
        assert_eq!(penalties(dry(), "abcd.bce.abc"), [('d', 2.0), ('e', 1.0)]);
        assert_eq!(penalties(dry(), "abcd.abc"), [('d', 2.0)]);
        assert_eq!(penalties(dry(), "abcd.xbc"), [('d', 1.0)]);
        assert_eq!(penalties(dry(), "abcd.xyc"), []);
        assert_eq!(penalties(Dry { multiplier: 0.5, base: 3.0, ..dry() }, "abcd.abc"), [('d', 1.5)]);
        assert_eq!(penalties(Dry { allowed_length: 4, ..dry() }, "abcd.abc"), []);
    }

    #[test]
    fn repetitions_may_overlap() {
        // "aaa" is followed by "a" at the occurrence one token earlier.
        assert_eq!(penalties(dry(), "aaaa"), [('a', 2.0)]);
    }

    #[test]
    fn looks_only_at_the_last_tokens() {
        assert_eq!(penalties(Dry { penalty_last_n: Some(7), ..dry() }, "abcd.abc"), [('d', 1.0)]);
        assert_eq!(penalties(Dry { penalty_last_n: Some(0), ..dry() }, "abcd.abc"), []);
    }

    #[test]
    fn breakers_end_repetitions() {
        assert_eq!(penalties(dry(), "ab:cd.ab:cd"), [('.', 1.0)]);
        assert_eq!(penalties(dry(), "ab:c.ab:c"), []);
        let broken = Dry { sequence_breakers: vec!["b:c".to_owned()], ..dry() };
        assert_eq!(penalties(broken.clone(), "ab:cde.ab:cd"), []);
        assert_eq!(penalties(broken, "ab:cdef.ab:cde"), [('f', 1.0)]);
    }

    #[test]
    fn does_not_penalize_breakers() {
        assert_eq!(penalties(dry(), "abc: abc"), []);
        assert_eq!(penalties(Dry { sequence_breakers: vec![], ..dry() }, "abc: abc"), [(':', 2.0)]);
    }

    #[test]
    fn z_function_matches_its_definition() {
        let mut state = 1u32;
        for len in 0..60 {
            let text: Vec<TokenId> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    TokenId(state >> 30 & 1)
                })
                .collect();
            for (back, length) in suffix_lengths(&text).into_iter().enumerate().skip(1) {
                let rest = &text[..len - back];
                let common = text.iter().rev().zip(rest.iter().rev()).take_while(|(a, b)| a == b).count();
                assert_eq!(length, common);
            }
        }
    }
}
