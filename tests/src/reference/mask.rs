//! Computes masks by simulating each token byte by byte.

use formwork_vocab::{TokenId, TokenSet, Vocabulary};

/// The text tokens of a vocabulary, sorted by their bytes, so that common prefixes are simulated
/// once.
pub struct TextTokens<'a> {
    vocabulary: &'a Vocabulary,
    sorted: Vec<TokenId>,
}

impl<'a> TextTokens<'a> {
    /// Collects all text tokens of `vocabulary`.
    pub fn new(vocabulary: &'a Vocabulary) -> Self {
        let text =
            |token: &TokenId| vocabulary.kind(*token).is_text() && !vocabulary.bytes(*token).is_empty();
        let mut sorted: Vec<TokenId> = vocabulary.ids().filter(text).collect();
        sorted.sort_by_key(|&token| vocabulary.bytes(token));
        Self { vocabulary, sorted }
    }
}

/// Returns the mask at `state`: all tokens whose bytes `step` accepts one after the other. If
/// `ends`, the mask also contains the tokens that end the output. `step` returns the state after a
/// byte, or `None` if it rejects the byte.
pub fn reference_mask<S>(
    tokens: &TextTokens<'_>,
    state: &S,
    ends: bool,
    step: impl Fn(&S, u8) -> Option<S>,
) -> TokenSet {
    let TextTokens { vocabulary, sorted } = tokens;
    let mut mask = vocabulary.empty_set();
    let mut path: Vec<(u8, S)> = Vec::new();
    let mut at = 0;
    while let Some(&token) = sorted.get(at) {
        let bytes = vocabulary.bytes(token);
        let shared = path.iter().zip(bytes).take_while(|((have, _), byte)| have == *byte).count();
        path.truncate(shared);
        while let Some(&byte) = bytes.get(path.len()) {
            let Some(next) = step(path.last().map_or(state, |(_, state)| state), byte) else { break };
            path.push((byte, next));
        }
        if path.len() == bytes.len() {
            mask.insert(token);
            at += 1;
        } else {
            // Skip all tokens that share the same prefix and the byte that `step` rejected.
            let dead = &bytes[..=path.len()];
            at += sorted[at..].partition_point(|&token| vocabulary.bytes(token).starts_with(dead));
        }
    }
    if ends {
        for &end in vocabulary.ends() {
            mask.insert(end);
        }
    }
    mask
}
