//! What is known of a vocabulary's tokens before any grammar is: tables built once per vocabulary and shared by all.
//!
//! * [`Spaced`]: the tokens without the white space that they begin with. Between the parts of a JSON text that any white
//!   space may separate, ` {`, `\n{` and `{` have the same future.
//! * [`Strings`]: what tokens do to a JSON string that they meet. Of the 128,000 tokens of Llama 3.1, 123,000 stay inside
//!   a string and 1,300 end it, with 580 different continuations, so a mask inside a string is a copy and a walk of a
//!   small trie.
//!
//! Whether a token stays inside is asked of the machine's own decoder ([`StringReader`]). Strings are spelt differently by the
//! two profiles, so each has its own tables.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use formwork_vocab::{TokenId, TokenSet, TokenTrie, TrieNode, Vocabulary};
use rustc_hash::FxHashMap;

use crate::Profile;
use crate::machine::json::classes::{ReadOutcome, StringReader};
use crate::mask::named_tokens::NamedTokens;

/// The tokens with leading white space cut off, as far as a part of a JSON text may begin with what is left.
pub(crate) struct Spaced {
    pub(crate) trie: TokenTrie,
    /// The tokens that are nothing else.
    pub(crate) blank: Vec<TokenId>,
    /// The tokens that begin with white space.
    pub(crate) led: TokenSet,
}

/// The white space of JSON.
pub(crate) const SPACES: [u8; 4] = *b" \n\t\r";

/// The bytes that the tokens in [`Spaced`] begin with. There is none for all others, which would make six times as many.
pub(crate) const STARTS: [u8; 21] = *b"\"-0123456789{}[],:tfn";

impl Spaced {
    /// The table of `vocabulary`, built when it is first asked for.
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

/// What tokens do to a string, in one [`Profile`].
pub(crate) struct Strings {
    /// All tokens that stay inside a string that they are met in.
    inside: TokenSet,
    /// For each number of characters below [`COUNTED`], those of at most that many.
    shorter: Vec<TokenSet>,
    /// Those of more characters, with their number, by it.
    longer: Vec<(u32, TokenId)>,
    /// The most characters that a token has inside a string.
    longest: u32,
    /// The tokens that end with the closing quote.
    pub(crate) closers: Vec<TokenId>,
    /// The tokens that go on after the closing quote, by what comes after it.
    pub(crate) suffixes: TokenTrie,
    /// For the tokens in `closers` and `suffixes`, the characters before the quote.
    before: FxHashMap<TokenId, u32>,
    /// The tokens that may end a string and have another whole one after it.
    pub(crate) repeats: Vec<TokenId>,
    pub(crate) names: NamedTokens,
    pub(crate) spaced: Arc<Spaced>,
    pub(crate) token_notes: Notes,
    pub(crate) spaced_notes: Notes,
    pub(crate) suffix_notes: Notes,
}

/// The longest bound on the characters of a string for which there is a set.
const COUNTED: u32 = 16;

struct GenerateStrings(Arc<Strings>);
struct AcceptStrings(Arc<Strings>);

impl Strings {
    /// The tables of `vocabulary`, built when they are first asked for.
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

    /// Whether no token breaks these bounds on the characters of a string.
    pub(crate) fn is_free(&self, min: u32, max: u32) -> bool {
        min == 0 && self.longest <= max
    }

    /// The tokens that stay inside a string of at most `max` more characters, and others that [`Strings::cut`] removes.
    pub(crate) fn within(&self, max: u32) -> &TokenSet {
        self.shorter.get(max as usize).unwrap_or(&self.inside)
    }

    /// Removes the tokens of more than `max` characters.
    pub(crate) fn cut(&self, max: u32, tokens: &mut TokenSet) {
        let fitting = self.longer.partition_point(|&(chars, _)| chars <= max);
        for &(_, token) in &self.longer[fitting..] {
            tokens.remove(token);
        }
    }

    /// For a token of [`Strings::closers`] or [`Strings::suffixes`], the characters before the quote.
    pub(crate) fn before(&self, token: TokenId) -> u32 {
        self.before.get(&token).copied().unwrap_or(0)
    }
}

/// What comes after the string that `bytes` begin in.
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

/// What is known of the nodes of a trie.
pub(crate) struct Notes {
    /// For nodes after a quote, and at the end of a character that another token began: what comes inside a string.
    insides: FxHashMap<TrieNode, Inside>,
    /// By node, whether a quote comes below it.
    quotes: Vec<bool>,
}

impl Notes {
    /// With `first`, the nodes of one byte are places inside a string, too.
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

/// What comes below a node of a trie when that is a place inside a string, between two characters.
pub(crate) struct Inside {
    /// The tokens that stay inside the string, with their characters from here, by these.
    tokens: Vec<(u32, TokenId)>,
    /// The nodes after the closing quote, with the characters before it, by these.
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

    /// The tokens of at most `max` characters that stay inside.
    pub(crate) fn within(&self, max: u32) -> impl Iterator<Item = TokenId> {
        let fitting = self.tokens.partition_point(|&(chars, _)| chars <= max);
        self.tokens[..fitting].iter().map(|&(_, token)| token)
    }

    /// The nodes after a closing quote that comes after `min` to `max` characters.
    pub(crate) fn ends(&self, min: u32, max: u32) -> impl Iterator<Item = TrieNode> {
        let ends = self.ends.iter().filter(move |&&(chars, _)| (min..=max).contains(&chars));
        ends.map(|&(_, node)| node)
    }
}

/// Sets of tokens that nobody uses any more, for those who need one: a set over 128,000 tokens is 16 KB, which comes from
/// the system page by page, and copying into one that was in use before takes a third of the time.
pub(crate) struct Pool {
    size: usize,
    sets: Mutex<Vec<TokenSet>>,
}

/// The most sets kept.
const POOLED: usize = 256;

impl Pool {
    /// The pool of `vocabulary`.
    pub(crate) fn of(vocabulary: &Vocabulary) -> Arc<Self> {
        vocabulary.derived(|vocabulary| Self { size: vocabulary.len(), sets: Mutex::default() })
    }

    /// The empty set.
    pub(crate) fn empty(&self) -> TokenSet {
        match self.pooled() {
            Some(mut set) => {
                set.clear();
                set
            }
            None => TokenSet::empty(self.size),
        }
    }

    /// A copy of `tokens`.
    pub(crate) fn copy(&self, tokens: &TokenSet) -> TokenSet {
        match self.pooled() {
            Some(mut set) => {
                set.clone_from(tokens);
                set
            }
            None => tokens.clone(),
        }
    }

    /// Keeps `sets`, as far as there is room.
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
