use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::{TokenId, TokenTrie};

/// Splits text at tokens that are recognised by their spelling before the rest is encoded.
/// User-defined tokens are always recognised, and control tokens on request.
///
/// Longer spellings take precedence, anywhere in the text. Among spellings of equal length, lower
/// ids take precedence, then positions further left.
#[derive(Debug)]
pub(super) struct Partition {
    defined: TokenTrie,
    /// All recognised tokens: user-defined and control tokens. `defined` contains the user-defined
    /// tokens only.
    all: TokenTrie,
    /// Tokens that absorb the white space after them, in increasing order of id.
    trimming: Vec<TokenId>,
}

/// A piece of a text that has been split at recognised tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part<'t> {
    /// Text that must be encoded, preceded by its offset in the whole text, in bytes.
    Text(usize, &'t str),
    /// A token that was recognised by its spelling.
    Token(TokenId),
}

/// Spelling of a token, its id, and true if the token is a control token.
pub(super) type Entry = (String, TokenId, bool);

impl Partition {
    pub(super) fn new(entries: &[Entry], trimming: Vec<TokenId>) -> Self {
        let trie = |control: bool| {
            let wanted = entries.iter().filter(|entry| control || !entry.2);
            TokenTrie::new(wanted.map(|(spelling, token, _)| (spelling.as_bytes(), *token)))
        };
        Self { defined: trie(false), all: trie(true), trimming }
    }

    /// Splits `text` at the tokens that are spelt in it. Control tokens are recognised only if
    /// `control` is true.
    pub(super) fn split<'t>(&self, text: &'t str, control: bool) -> Vec<Part<'t>> {
        let mut parts = Vec::new();
        let mut done = 0;
        for (from, (to, token)) in self.find(text, control) {
            if from < done {
                continue; // absorbed by the token before
            }
            if done < from {
                parts.push(Part::Text(done, &text[done..from]));
            }
            parts.push(Part::Token(token));
            done = to;
            if self.trimming.binary_search(&token).is_ok() {
                let rest = text[to..].trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
                done = text.len() - rest.len();
            }
        }
        if done < text.len() {
            parts.push(Part::Text(done, &text[done..]));
        }
        parts
    }

    /// Finds the tokens that are spelt in `text` and do not overlap. Maps the start of each to its
    /// end and the token, with positions in bytes.
    ///
    /// The queue holds, for each position, the longest spelling that starts there. A position
    /// inside a token already found is dropped. If a spelling runs into such a token, its position
    /// is queued again with the longest spelling that ends before the token.
    fn find(&self, text: &str, control: bool) -> BTreeMap<usize, (usize, TokenId)> {
        let trie = if control { &self.all } else { &self.defined };
        let mut taken: BTreeMap<usize, (usize, TokenId)> = BTreeMap::new();
        if trie.is_empty() {
            return taken;
        }
        let longest = |from: usize, limit: usize| {
            let (len, token) = trie.prefixes(&text.as_bytes()[from..limit]).last()?;
            Some((len, Reverse(token), Reverse(from)))
        };
        let mut queue: BinaryHeap<_> = (0..text.len()).filter_map(|from| longest(from, text.len())).collect();
        while let Some((len, Reverse(token), Reverse(from))) = queue.pop() {
            let covered = taken.range(..=from).next_back().is_some_and(|(_, &(end, _))| end > from);
            let limit = taken.range(from..).next().map_or(text.len(), |(&start, _)| start);
            if covered {
                continue;
            }
            if from + len <= limit {
                taken.insert(from, (from + len, token));
            } else {
                queue.extend(longest(from, limit));
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(trimming: Vec<TokenId>) -> Partition {
        let entries = [("<a>", false), ("<a><b>", false), ("<c>", true), ("\n\n", false), ("b>x", false)];
        let entries: Vec<_> =
            entries.iter().zip(0..).map(|(&(s, control), id)| (s.to_owned(), TokenId(id), control)).collect();
        Partition::new(&entries, trimming)
    }

    #[test]
    fn longer_spellings_come_first_and_control_tokens_on_request() {
        use Part::{Text, Token};
        let partition = partition(vec![]);
        assert_eq!(partition.split("x<a><b>y", false), [Text(0, "x"), Token(TokenId(1)), Text(7, "y")]);
        assert_eq!(partition.split("<a><b>x", false), [Token(TokenId(1)), Text(6, "x")]);
        assert_eq!(partition.split("<b>x", false), [Text(0, "<"), Token(TokenId(4))]);
        assert_eq!(partition.split("<c>", false), [Text(0, "<c>")]);
        assert_eq!(partition.split("<c>", true), [Token(TokenId(2))]);
        assert_eq!(partition.split("\n\n\n", true), [Token(TokenId(3)), Text(2, "\n")]);
        assert_eq!(partition.split("", true), []);
    }

    #[test]
    fn a_trimming_token_takes_the_white_space_after_it() {
        use Part::{Text, Token};
        let partition = partition(vec![TokenId(2)]);
        assert_eq!(partition.split("<c> \nx", true), [Token(TokenId(2)), Text(5, "x")]);
        assert_eq!(partition.split("<c> <c> ", true), [Token(TokenId(2)), Token(TokenId(2))]);
    }
}
