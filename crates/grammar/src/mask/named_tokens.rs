//! Tables of the tokens that contain a name of a JSON object, or a part of such a name.
//!
//! A name must not occur twice in an object, so a mask must exclude tokens that repeat a name. With
//! these tables, a mask tests only the tokens that contain or end a name seen before. Of the
//! 128,000 tokens of Llama 3.1, about 140 contain a complete name.

use formwork_vocab::{TokenId, TokenTrie, TrieNode, Vocabulary};
use rustc_hash::FxHashMap;

use crate::Profile;
use crate::machine::json::classes::{StringRead, read_string};
use crate::mask::tables::SPACES;

/// The tokens of a vocabulary that contain names, or parts of names, as one [`Profile`] spells
/// them.
///
/// A string in a token counts as a name if the token begins with the string, or if a comma or an
/// opening brace precedes the string.
pub(crate) struct NamedTokens {
    /// Tokens that contain a complete name, by this name. Example: `"a":`, by `a`.
    pub(crate) whole: ByText,
    /// Tokens that end in a name, between two of its characters, by the characters so far. Example:
    /// `, "na`, by `na`.
    pub(crate) begun: ByText,
    /// Tokens that end in a name, inside a character, by the complete characters before. Example:
    /// `, "n\u00`, by `n`.
    pub(crate) within_char: ByText,
    /// Tokens that begin inside a string and end the string, by the characters before the closing
    /// quote. Example: `me":`, by `me`.
    pub(crate) ending: ByText,
    /// Tokens that end a string and then contain the same string as a name. The key is the
    /// beginning of the string, which precedes the token. Example: `b","ab":`, by `a`.
    by_start: FxHashMap<String, Vec<TokenId>>,
    /// Tokens that end a string and then contain a complete name. Used if the beginning of the
    /// string is unknown.
    after_string: Vec<TokenId>,
    /// Tokens that contain the same name twice.
    twice: Vec<TokenId>,
}

/// Tokens that are looked up by a text. The bytes of the text are the path to the token in `trie`.
pub(crate) struct ByText {
    pub(crate) trie: TokenTrie,
    /// Tokens whose text is empty.
    pub(crate) empty: Vec<TokenId>,
}

impl ByText {
    fn new(texts: &[(String, TokenId)]) -> Self {
        let empty = texts.iter().filter(|(text, _)| text.is_empty()).map(|&(_, token)| token).collect();
        Self { trie: TokenTrie::new(texts.iter().map(|(text, token)| (text.as_bytes(), *token))), empty }
    }
}

impl ByText {
    /// Returns all tokens, whatever their texts are.
    pub(crate) fn all(&self) -> impl Iterator<Item = TokenId> {
        self.empty.iter().chain(self.trie.tokens_below(TrieNode::ROOT)).copied()
    }
}

/// The beginning of the name that is being read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NameRead {
    /// The characters read so far.
    Start(String),
    /// The characters are unknown, or the text ends inside a character.
    Unknown,
}

impl NamedTokens {
    pub(crate) fn new(vocabulary: &Vocabulary, profile: Profile) -> Self {
        let (mut whole, mut begun, mut within_char, mut ending) = (vec![], vec![], vec![], vec![]);
        let mut by_start: FxHashMap<String, Vec<TokenId>> = FxHashMap::default();
        let (mut after_string, mut twice) = (Vec::new(), Vec::new());
        for token in vocabulary.ids().filter(|&token| vocabulary.kind(token).is_text()) {
            let bytes = vocabulary.bytes(token);
            if !bytes.contains(&b'"') {
                continue;
            }
            let end = match read_string(bytes, profile) {
                StringRead::Ended(text, _) => Some(text),
                _ => None,
            };
            ending.extend(end.iter().map(|text| (text.clone(), token)));
            let mut names = Vec::new();
            for start in name_starts(bytes) {
                match read_string(&bytes[start..], profile) {
                    StringRead::Ended(name, len) if may_follow_name(&bytes[start + len..]) => {
                        names.push(name);
                    }
                    StringRead::Begun { text, within: false } => begun.push((text, token)),
                    StringRead::Begun { text, within: true } => within_char.push((text, token)),
                    StringRead::Ended(..) | StringRead::Rejected => {}
                }
            }
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            if names.len() < count {
                twice.push(token);
            }
            if count > 0 && bytes.split(|&byte| byte == b'"').count() > 3 {
                after_string.push(token);
                let starts =
                    end.iter().flat_map(|end| names.iter().filter_map(|name| name.strip_suffix(&**end)));
                for start in starts {
                    by_start.entry(start.to_owned()).or_default().push(token);
                }
            }
            whole.extend(names.into_iter().map(|name| (name, token)));
        }
        let [whole, begun, within_char, ending] =
            [whole, begun, within_char, ending].map(|texts| ByText::new(&texts));
        Self { whole, begun, within_char, ending, by_start, after_string, twice }
    }

    /// Returns the tokens that contain the same name twice. If `read` is given, also returns the
    /// tokens that may complete the name in `read` and then repeat it.
    pub(crate) fn repeating(&self, read: Option<&NameRead>) -> impl Iterator<Item = TokenId> {
        let after: &[TokenId] = match read {
            Some(NameRead::Start(start)) => self.by_start.get(start).map_or(&[], Vec::as_slice),
            Some(NameRead::Unknown) => &self.after_string,
            None => &[],
        };
        self.twice.iter().chain(after).copied()
    }
}

/// Reports whether `bytes`, which come after the closing quote of a string, may follow a name. This
/// is so if the first byte after white space is a colon, or if there is only white space.
fn may_follow_name(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !SPACES.contains(byte)).is_none_or(|&byte| byte == b':')
}

/// Returns the offsets in a token right after a quote that may begin a name.
fn name_starts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let quotes = (0..bytes.len()).filter(|&at| bytes[at] == b'"');
    let starts = quotes.filter(|&at| {
        let before = bytes[..at].iter().rev().find(|byte| !SPACES.contains(byte));
        before.is_none_or(|byte| b",{".contains(byte))
    });
    starts.map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use formwork_vocab::{Token, TokenKind};

    use super::*;

    fn ids(tokens: impl IntoIterator<Item = TokenId>) -> Vec<u32> {
        let mut ids: Vec<u32> = tokens.into_iter().map(|token| token.0).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn tokens_are_found_by_the_names_they_hold() {
        let texts = [
            r#"ab","ab":1"#,
            r#""a","b":"#,
            r#", "\u0061": 1, "a""#,
            r#"{"":"","":"#,
            "x",
            r#"":"","c"#,
            "\"\u{e9}",
            ", \"\\u00e",
        ];
        let tokens =
            texts.iter().map(|text| Token { bytes: text.as_bytes().to_vec(), kind: TokenKind::Text });
        let vocabulary = Vocabulary::new(tokens.collect(), vec![]).unwrap();
        let named = NamedTokens::new(&vocabulary, Profile::Accept);
        let at = |tokens: &ByText, text: &str| {
            let node = text.bytes().try_fold(TrieNode::ROOT, |node, byte| tokens.trie.child(node, byte));
            ids(node.map_or(&[][..], |node| tokens.trie.tokens_at(node)).to_vec())
        };
        assert_eq!(at(&named.whole, "a"), [2]);
        assert_eq!(at(&named.whole, "b"), [1]);
        assert_eq!(at(&named.whole, "ab"), [0]);
        assert_eq!(ids(named.whole.empty.clone()), [3]);
        assert_eq!(at(&named.begun, "c"), [5]);
        assert_eq!(at(&named.begun, "\u{e9}"), [6]);
        assert_eq!(ids(named.within_char.empty.clone()), [7]);
        assert_eq!(at(&named.ending, "ab"), [0]);
        assert_eq!(ids(named.ending.empty.clone()), [1, 5, 6]);
        let repeating = |start: &str| ids(named.repeating(Some(&NameRead::Start(start.to_owned()))));
        assert_eq!(ids(named.repeating(None)), [2, 3]);
        assert_eq!(repeating(""), [0, 2, 3]);
        assert_eq!(repeating("x"), [2, 3]);
    }
}
