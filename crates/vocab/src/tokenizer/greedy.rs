use crate::error::Kind;
use crate::{TokenId, VocabError, Vocabulary};

/// Appends the tokens of `text` to `ids`, by taking the longest matching token at each position.
pub(super) fn encode(vocabulary: &Vocabulary, text: &str, ids: &mut Vec<TokenId>) -> Result<(), VocabError> {
    let mut at = 0;
    while at < text.len() {
        let (len, token) = vocabulary
            .trie()
            .prefixes(&text.as_bytes()[at..])
            .last()
            .ok_or(Kind::NoToken { byte: text.as_bytes()[at], at })?;
        ids.push(token);
        at += len;
    }
    Ok(())
}
