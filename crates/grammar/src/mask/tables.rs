//! Tables of a vocabulary's tokens, independent of any grammar. The tables are built once per
//! vocabulary and shared by all grammars.
//!
//! * [`Spaced`] has the tokens without their leading white space. Where JSON allows any white
//!   space, ` {`, `\n{` and `{` lead to the same config.
//! * [`Strings`] has the effect of each token inside a JSON string. Of the 128,000 tokens of Llama
//!   3.1, 123,000 stay inside a string. 1,300 end the string, with 580 different texts after the
//!   quote. A mask inside a string is therefore a copy of a set, together with the result of a walk
//!   over a small trie.
//!
//! The tables are built with the decoder of the JSON machine ([`StringReader`]). The two profiles
//! spell strings differently, so each profile has its own tables.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use formwork_vocab::{TokenId, TokenSet, TokenTrie, TrieNode, Vocabulary};
use rustc_hash::FxHashMap;

use crate::Profile;
use crate::machine::json::classes::{ReadOutcome, StringReader};
use crate::mask::named_tokens::NamedTokens;

/// The tokens without their leading white space.
pub(crate) struct Spaced {
    /// The tokens by their bytes after the leading white space. Has only the tokens whose first
    /// byte after the white space is in [`STARTS`]. Includes tokens without leading white space.
    pub(crate) trie: TokenTrie,
    /// The tokens that consist of white space only.
    pub(crate) blank: Vec<TokenId>,
    /// The tokens that begin with white space.
    pub(crate) led: TokenSet,
}

/// The white space of JSON.
pub(crate) const SPACES: [u8; 4] = *b" \n\t\r";

/// The bytes with which the texts in [`Spaced::trie`] begin: the first bytes of JSON tokens.
/// Without this restriction, the trie would be six times as large.
pub(crate) const STARTS: [u8; 21] = *b"\"-0123456789{}[],:tfn";

impl Spaced {
    /// Returns the table of `vocabulary`. Builds the table on first use.
    pub(crate) fn of(vocabulary: &Vocabulary) -> Arc<Self> {
        vocabulary.derived(|vocabulary| {
            let texts = || {
                let texts = vocabulary.ids().filter(|&token| vocabulary.kind(token).is_text());
                texts.map(|token| (vocabulary.bytes(token), token)).filter(|(bytes, _)| !bytes.is_empty())
            };
            let rest = |bytes: &[u8]| bytes.iter().take_while(|byte| SPACES.contains(byte)).count();
            let texts_left = texts().map(|(bytes, token)| (&bytes[rest(bytes)..], token));
            let starting =
                texts_left.filter(|(left, _)| left.first().is_some_and(|byte| STARTS.contains(byte)));
            let blank = texts().filter(|(bytes, _)| rest(bytes) == bytes.len());
            let mut led = vocabulary.empty_set();
            for (_, token) in texts().filter(|(bytes, _)| rest(bytes) > 0) {
                led.insert(token);
            }
            Self { led, trie: TokenTrie::new(starting), blank: blank.map(|(_, token)| token).collect() }
        })
    }
}

/// The effect of each token inside a JSON string, as one [`Profile`] spells strings. Each token is
/// read from a position between two characters of the string.
pub(crate) struct Strings {
    /// The tokens that stay inside a string.
    inside: TokenSet,
    /// At index `n`, for `n` below [`COUNTED`]: the tokens in `inside` with at most `n` characters.
    shorter: Vec<TokenSet>,
    /// `(characters, token)` for the tokens in `inside` with at least [`COUNTED`] characters,
    /// sorted.
    longer: Vec<(u32, TokenId)>,
    /// The largest number of characters that a token adds to a string.
    longest: u32,
    /// The tokens whose last byte is the closing quote of the string.
    pub(crate) closers: Vec<TokenId>,
    /// The tokens that end the string and have more bytes after the closing quote, by these bytes.
    pub(crate) suffixes: TokenTrie,
    /// For the tokens in `closers` and `suffixes`, the number of characters before the quote.
    before: FxHashMap<TokenId, u32>,
    /// The tokens with three or more quotes. Such a token may end a string and then contain another
    /// complete string.
    pub(crate) repeats: Vec<TokenId>,
    pub(crate) names: NamedTokens,
    pub(crate) spaced: Arc<Spaced>,
    pub(crate) token_notes: Notes,
    pub(crate) spaced_notes: Notes,
    pub(crate) suffix_notes: Notes,
}

/// Length of [`Strings::shorter`]: the sets for the maximum lengths 0 to 15 are precomputed.
const COUNTED: u32 = 16;

struct GenerateStrings(Arc<Strings>);
struct AcceptStrings(Arc<Strings>);

impl Strings {
    /// Returns the tables of `vocabulary`. Builds the tables on first use.
    pub(crate) fn of(vocabulary: &Vocabulary, profile: Profile) -> Arc<Self> {
        let spaced = Spaced::of(vocabulary);
        let new = |vocabulary: &Vocabulary| Arc::new(Self::new(vocabulary, profile, spaced));
        match profile {
            Profile::Generate => Arc::clone(&vocabulary.derived(|v| GenerateStrings(new(v))).0),
            Profile::Accept => Arc::clone(&vocabulary.derived(|v| AcceptStrings(new(v))).0),
        }
    }

    fn new(vocabulary: &Vocabulary, profile: Profile, spaced: Arc<Spaced>) -> Self {
        let trie = vocabulary.trie();
        let all = Inside::new(trie, TrieNode::ROOT, profile);
        let mut inside = vocabulary.empty_set();
        let mut shorter = Vec::new();
        for &(chars, token) in &all.tokens {
            while shorter.len() < chars.min(COUNTED) as usize {
                shorter.push(inside.clone());
            }
            inside.insert(token);
        }
        shorter.resize(COUNTED as usize, inside.clone());
        let chars_of = |chars: Option<&u32>| chars.copied().unwrap_or(0);
        let longest = chars_of(
            all.tokens.iter().map(|(chars, _)| chars).chain(all.ends.iter().map(|(chars, _)| chars)).max(),
        );
        let longer = all.tokens.into_iter().filter(|&(chars, _)| chars >= COUNTED).collect();
        let (mut closers, mut suffixes, mut before) = (Vec::new(), Vec::new(), FxHashMap::default());
        for &(chars, node) in &all.ends {
            let (here, below) = trie.tokens_below(node).split_at(trie.tokens_at(node).len());
            closers.extend_from_slice(here);
            suffixes.extend(below.iter().map(|&t| (after_string(vocabulary.bytes(t), profile), t)));
            before.extend(here.iter().chain(below).map(|&token| (token, chars)));
        }
        let suffixes = TokenTrie::new(suffixes.into_iter());
        let mut repeats: Vec<_> =
            vocabulary.ids().filter(|&token| vocabulary.kind(token).is_text()).collect();
        repeats.retain(|&token| vocabulary.bytes(token).split(|&byte| byte == b'"').count() > 3);
        Self {
            inside,
            shorter,
            longer,
            longest,
            closers,
            repeats,
            names: NamedTokens::new(vocabulary, profile),
            before,
            token_notes: Notes::new(trie, profile, true),
            spaced_notes: Notes::new(&spaced.trie, profile, false),
            suffix_notes: Notes::new(&suffixes, profile, false),
            suffixes,
            spaced,
        }
    }

    /// Reports whether a string with at least `min` and at most `max` more characters allows every
    /// token.
    pub(crate) fn is_free(&self, min: u32, max: u32) -> bool {
        min == 0 && self.longest <= max
    }

    /// Returns the tokens that stay inside a string of at most `max` more characters.
    ///
    /// If `max` is at least [`COUNTED`], the result may also contain tokens that are too long.
    /// [`Strings::cut`] removes them.
    pub(crate) fn within(&self, max: u32) -> &TokenSet {
        self.shorter.get(max as usize).unwrap_or(&self.inside)
    }

    /// Removes the tokens with more than `max` characters from `tokens`, a copy of the result of
    /// [`Strings::within`].
    pub(crate) fn cut(&self, max: u32, tokens: &mut TokenSet) {
        let fitting = self.longer.partition_point(|&(chars, _)| chars <= max);
        for &(_, token) in &self.longer[fitting..] {
            tokens.remove(token);
        }
    }

    /// Returns the number of characters before the closing quote, for a token in
    /// [`Strings::closers`] or [`Strings::suffixes`]. Returns 0 for all other tokens.
    pub(crate) fn before(&self, token: TokenId) -> u32 {
        self.before.get(&token).copied().unwrap_or(0)
    }
}

/// Returns the part of `bytes` after the closing quote. `bytes` begin inside a string. Returns an
/// empty slice if the string does not end.
fn after_string(bytes: &[u8], profile: Profile) -> &[u8] {
    let mut reader = StringReader::new(profile);
    for (at, &byte) in bytes.iter().enumerate() {
        match reader.read(byte) {
            ReadOutcome::Inside(next) => reader = next,
            ReadOutcome::End(_) => return &bytes[at + 1..],
            ReadOutcome::Reject => break,
        }
    }
    &[]
}

/// Precomputed properties of the nodes of a trie.
pub(crate) struct Notes {
    /// The tokens below each node that may lie between two characters of a string. These are the
    /// nodes right after a quote and, if requested, the nodes of one byte.
    insides: FxHashMap<TrieNode, Inside>,
    /// True for nodes with a quote below them.
    quotes: Vec<bool>,
}

impl Notes {
    /// Creates the notes of a trie.
    ///
    /// If `first` is true, the nodes of one byte get an entry in `insides` too. Such a byte may be
    /// the last byte of a character that another token began.
    fn new(trie: &TokenTrie, profile: Profile, first: bool) -> Self {
        let mut notes = Self { insides: FxHashMap::default(), quotes: vec![false; trie.len()] };
        // Children come after their parents.
        let mut order = vec![TrieNode::ROOT];
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            next += 1;
            for (byte, child) in trie.children(node) {
                if trie.has_children(child) {
                    order.push(child);
                    if byte == b'"' || (first && node == TrieNode::ROOT) {
                        notes.insides.insert(child, Inside::new(trie, child, profile));
                    }
                }
            }
        }
        for node in order.into_iter().rev() {
            let quote = |(byte, child): (u8, TrieNode)| byte == b'"' || notes.quotes[child.index()];
            notes.quotes[node.index()] = trie.children(node).any(quote);
        }
        notes
    }

    pub(crate) fn inside(&self, node: TrieNode) -> Option<&Inside> {
        self.insides.get(&node)
    }

    pub(crate) fn quote_below(&self, node: TrieNode) -> bool {
        self.quotes[node.index()]
    }
}

/// The tokens below one node, if the node lies between two characters of a string.
pub(crate) struct Inside {
    /// `(characters, token)` for the tokens that stay inside the string, sorted. `characters` is
    /// the number of characters from the node to the end of the token.
    tokens: Vec<(u32, TokenId)>,
    /// `(characters, node)` for the nodes right after the closing quote, sorted. `characters` is
    /// the number of characters from the first node to the quote.
    ends: Vec<(u32, TrieNode)>,
}

impl Inside {
    fn new(trie: &TokenTrie, node: TrieNode, profile: Profile) -> Self {
        let mut inside = Self { tokens: Vec::new(), ends: Vec::new() };
        let mut open = vec![(node, StringReader::new(profile))];
        while let Some((node, reader)) = open.pop() {
            for (byte, child) in trie.children(node) {
                match reader.read(byte) {
                    ReadOutcome::Inside(reader) => {
                        let tokens = trie.tokens_at(child).iter();
                        inside.tokens.extend(tokens.map(|&token| (reader.chars(), token)));
                        open.push((child, reader));
                    }
                    ReadOutcome::End(chars) => inside.ends.push((chars, child)),
                    ReadOutcome::Reject => {}
                }
            }
        }
        inside.tokens.sort_unstable();
        inside.ends.sort_unstable_by_key(|&(chars, node)| (chars, node.index()));
        inside
    }

    /// Returns the tokens that stay inside the string and add at most `max` characters.
    pub(crate) fn within(&self, max: u32) -> impl Iterator<Item = TokenId> {
        let fitting = self.tokens.partition_point(|&(chars, _)| chars <= max);
        self.tokens[..fitting].iter().map(|&(_, token)| token)
    }

    /// Returns the nodes right after a closing quote that comes after `min` to `max` more
    /// characters.
    pub(crate) fn ends(&self, min: u32, max: u32) -> impl Iterator<Item = TrieNode> {
        let ends = self.ends.iter().filter(move |&&(chars, _)| (min..=max).contains(&chars));
        ends.map(|&(_, node)| node)
    }
}

/// Token sets whose memory can be reused.
///
/// A set over 128,000 tokens takes 16 KB, which the system provides page by page. Copying into a
/// reused set takes a third of the time of a new copy.
pub(crate) struct Pool {
    size: usize,
    sets: Mutex<Vec<TokenSet>>,
}

/// Maximum number of sets in the pool.
const POOLED: usize = 256;

impl Pool {
    /// Returns the pool for sets over `vocabulary`.
    pub(crate) fn of(vocabulary: &Vocabulary) -> Arc<Self> {
        vocabulary.derived(|vocabulary| Self { size: vocabulary.len(), sets: Mutex::default() })
    }

    /// Returns an empty set.
    pub(crate) fn empty(&self) -> TokenSet {
        match self.pooled() {
            Some(mut set) => {
                set.clear();
                set
            }
            None => TokenSet::empty(self.size),
        }
    }

    /// Returns a copy of `tokens`.
    pub(crate) fn copy(&self, tokens: &TokenSet) -> TokenSet {
        match self.pooled() {
            Some(mut set) => {
                set.clone_from(tokens);
                set
            }
            None => tokens.clone(),
        }
    }

    /// Puts `sets` into the pool. Drops sets that exceed [`POOLED`].
    pub(crate) fn take_back(&self, sets: impl Iterator<Item = TokenSet>) {
        let mut pooled = self.lock();
        let room = POOLED.saturating_sub(pooled.len());
        pooled.extend(sets.take(room));
    }

    fn pooled(&self) -> Option<TokenSet> {
        self.lock().pop()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TokenSet>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
