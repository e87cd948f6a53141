//! Tables of a vocabulary's tokens, independent of any grammar. The tables are built once per
//! vocabulary and shared by all grammars.
//!
//! * [`Spaced`] has the tokens without their leading white space. Where JSON allows any white
//!   space, ` {`, `\n{` and `{` have the same future.
//! * [`Strings`] has the effect of each token inside a JSON string. Of the 128,000 tokens of Llama
//!   3.1, 123,000 stay inside a string and 1,300 end the string, with 580 different continuations.
//!   A mask inside a string is therefore a copy of a set, and a walk of a small trie.
//!
//! The tables use the machine's own decoder ([`StringReader`]). The two profiles spell strings
//! differently, so each profile has its own tables.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use formwork_vocab::{TokenId, TokenSet, TokenTrie, TrieNode, Vocabulary};
use rustc_hash::FxHashMap;

use crate::Profile;
use crate::machine::json::classes::{ReadOutcome, StringReader};
use crate::mask::named_tokens::NamedTokens;

/// The tokens without their leading white space.
pub(crate) struct Spaced {
    /// The tokens whose remaining bytes begin with a byte in [`STARTS`], by these bytes.
    pub(crate) trie: TokenTrie,
    /// The tokens that consist of white space only.
    pub(crate) blank: Vec<TokenId>,
    /// The tokens that begin with white space.
    pub(crate) led: TokenSet,
}

/// The white space of JSON.
pub(crate) const SPACES: [u8; 4] = *b" \n\t\r";

/// First bytes of the texts in [`Spaced::trie`]. Without this restriction, the trie would be six
/// times as large.
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

/// The effect of each token inside a JSON string, in one [`Profile`].
pub(crate) struct Strings {
    /// The tokens that stay inside a string.
    inside: TokenSet,
    /// For each number below [`COUNTED`], the tokens in `inside` with at most this number of
    /// characters.
    shorter: Vec<TokenSet>,
    /// `(characters, token)` for the tokens in `inside` with at least [`COUNTED`] characters,
    /// sorted.
    longer: Vec<(u32, TokenId)>,
    /// The largest number of characters that a token adds to a string.
    longest: u32,
    /// The tokens that end with the closing quote.
    pub(crate) closers: Vec<TokenId>,
    /// The tokens that continue after the closing quote, by their bytes after the quote.
    pub(crate) suffixes: TokenTrie,
    /// For the tokens in `closers` and `suffixes`, the number of characters before the quote.
    before: FxHashMap<TokenId, u32>,
    /// The tokens with three or more quotes. They may end a string and hold another complete
    /// string.
    pub(crate) repeats: Vec<TokenId>,
    pub(crate) names: NamedTokens,
    pub(crate) spaced: Arc<Spaced>,
    pub(crate) token_notes: Notes,
    pub(crate) spaced_notes: Notes,
    pub(crate) suffix_notes: Notes,
}

/// Number of maximum lengths (0, 1, …) for which there is a precomputed set.
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

    /// Reports whether every token satisfies these bounds on the number of characters of a string.
    pub(crate) fn is_free(&self, min: u32, max: u32) -> bool {
        min == 0 && self.longest <= max
    }

    /// Returns the tokens that stay inside a string of at most `max` more characters.
    ///
    /// The result may also contain longer tokens. [`Strings::cut`] removes them.
    pub(crate) fn within(&self, max: u32) -> &TokenSet {
        self.shorter.get(max as usize).unwrap_or(&self.inside)
    }

    /// Removes the tokens with more than `max` characters.
    pub(crate) fn cut(&self, max: u32, tokens: &mut TokenSet) {
        let fitting = self.longer.partition_point(|&(chars, _)| chars <= max);
        for &(_, token) in &self.longer[fitting..] {
            tokens.remove(token);
        }
    }

    /// Returns the number of characters before the quote, for a token in [`Strings::closers`] or
    /// [`Strings::suffixes`].
    pub(crate) fn before(&self, token: TokenId) -> u32 {
        self.before.get(&token).copied().unwrap_or(0)
    }
}

/// Returns the bytes after the string in which `bytes` begins.
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

/// Notes about the nodes of a trie.
pub(crate) struct Notes {
    /// Tokens below nodes that may be inside a string, between two characters. These are the nodes
    /// right after a quote and, for some tries, the nodes of one byte.
    insides: FxHashMap<TrieNode, Inside>,
    /// True for nodes with a quote below them.
    quotes: Vec<bool>,
}

impl Notes {
    /// Creates the notes of a trie.
    ///
    /// If `first` is true, nodes of one byte are noted too. The byte may complete a character that
    /// another token began.
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

/// The tokens below a node that is inside a string, between two characters.
pub(crate) struct Inside {
    /// `(characters, token)` for the tokens that stay inside the string, sorted. Characters are
    /// counted from the node.
    tokens: Vec<(u32, TokenId)>,
    /// `(characters, node)` for the nodes right after the closing quote, sorted. Characters are
    /// counted up to the quote.
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

    /// Returns the tokens of at most `max` characters that stay inside the string.
    pub(crate) fn within(&self, max: u32) -> impl Iterator<Item = TokenId> {
        let fitting = self.tokens.partition_point(|&(chars, _)| chars <= max);
        self.tokens[..fitting].iter().map(|&(_, token)| token)
    }

    /// Returns the nodes right after a closing quote that follows `min` to `max` characters.
    pub(crate) fn ends(&self, min: u32, max: u32) -> impl Iterator<Item = TrieNode> {
        let ends = self.ends.iter().filter(move |&&(chars, _)| (min..=max).contains(&chars));
        ends.map(|&(_, node)| node)
    }
}

/// Unused token sets, kept for reuse.
///
/// A set over 128,000 tokens takes 16 KB, which the system provides page by page. Copying into a
/// reused set takes a third of the time of a new copy.
pub(crate) struct Pool {
    size: usize,
    sets: Mutex<Vec<TokenSet>>,
}

/// Maximum number of sets kept.
const POOLED: usize = 256;

impl Pool {
    /// Returns the pool of `vocabulary`.
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

    /// Keeps `sets` for reuse, up to [`POOLED`] sets in the pool.
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
