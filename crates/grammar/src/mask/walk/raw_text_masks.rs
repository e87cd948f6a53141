//! Masks inside raw strings that many rules share.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use formwork_vocab::{TokenId, TokenSet, TrieNode, Vocabulary};
use rustc_hash::FxHashMap;

use super::Walk;
use crate::ByteSet;
use crate::ir::text::TextProgram;
use crate::machine::{Config, TextPlace};

/// Maximum memory of the programs and masks that [`RawTextMasks`] keeps, in bytes.
const MOST_BYTES: usize = 32 << 20;

/// Maximum memory of a program whose masks are kept, in bytes.
const LARGEST_PROGRAM: usize = 1 << 20;

/// Maximum number of tokens to test one by one, to derive a mask from one of a smaller length.
const MOST_TESTED: usize = 256;

/// The tokens that may follow at a place of a text that many rules share.
#[derive(Clone)]
pub(super) struct SharedText {
    /// The tokens that stay in the text or end with it.
    pub(super) mask: Arc<TokenSet>,
    /// The nodes of the trie at which the text may end although longer tokens follow.
    pub(super) ends: Arc<[TrieNode]>,
}

impl SharedText {
    /// Returns the memory in bytes.
    pub(super) fn byte_len(&self) -> usize {
        self.mask.byte_len() + size_of_val(&*self.ends)
    }
}

/// Masks inside raw strings. They depend only on the vocabulary and the [`TextProgram`], so all grammars of
/// the vocabulary share them.
pub(super) struct RawTextMasks {
    known: Mutex<KnownMasks>,
    /// The text tokens, from the longest to the shortest. Sorted on first use.
    by_length: OnceLock<Vec<TokenId>>,
}

#[derive(Default)]
struct KnownMasks {
    /// By the address of the program. An entry keeps its program alive, so no other program gets the address.
    programs: FxHashMap<usize, (Arc<TextProgram>, PlaceMasks)>,
    /// Memory of the programs and masks, in bytes.
    bytes: usize,
}

/// By state: the smallest length with a known mask, and this mask. Without a maximum length, all places of a
/// state have the same length.
type PlaceMasks = FxHashMap<u32, (u32, SharedText)>;

impl RawTextMasks {
    /// Returns the masks of `vocabulary`.
    pub(super) fn of(vocabulary: &Vocabulary) -> Arc<Self> {
        vocabulary.derived(|_| Self { known: Mutex::default(), by_length: OnceLock::new() })
    }

    /// Returns the known mask in the state of `place`, and its length.
    fn get(&self, place: &TextPlace) -> Option<(u32, SharedText)> {
        let known = self.lock();
        let (_, masks) = known.programs.get(&address(&place.program))?;
        masks.get(&place.state).cloned()
    }

    /// Keeps the mask at `place`, unless a mask of a smaller length is known or the program is too large.
    fn insert(&self, place: TextPlace, text: &SharedText) {
        let program_bytes = place.program.byte_len();
        if program_bytes > LARGEST_PROGRAM {
            return;
        }
        let mut known = self.lock();
        if known.bytes > MOST_BYTES {
            *known = KnownMasks::default();
        }
        let KnownMasks { programs, bytes } = &mut *known;
        let (_, masks) = programs.entry(address(&place.program)).or_insert_with(|| {
            *bytes += program_bytes;
            (place.program, PlaceMasks::default())
        });
        if masks.get(&place.state).is_none_or(|&(length, _)| place.length < length) {
            let replaced = masks.insert(place.state, (place.length, text.clone()));
            *bytes += text.byte_len();
            *bytes -= replaced.map_or(0, |(_, replaced)| replaced.byte_len());
        }
    }

    fn by_length(&self, vocabulary: &Vocabulary) -> &[TokenId] {
        self.by_length.get_or_init(|| {
            let mut tokens: Vec<TokenId> =
                vocabulary.ids().filter(|&token| vocabulary.kind(token).is_text()).collect();
            tokens.sort_by_key(|&token| Reverse(vocabulary.bytes(token).len()));
            tokens
        })
    }

    fn lock(&self) -> MutexGuard<'_, KnownMasks> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(program: &Arc<TextProgram>) -> usize {
    Arc::as_ptr(program).addr()
}

impl Walk<'_> {
    /// Returns the tokens that may follow a place in a text that many rules share.
    pub(super) fn resumed(&mut self, config: Config, alone: Config) -> Arc<TokenSet> {
        let SharedText { mut mask, ends } = self.alone(alone);
        let after = self.automaton.resumed(config);
        if !ends.is_empty() && after != Config::DEAD {
            self.open.extend(ends.iter().map(|&node| (node, after)));
            self.run(self.tokens(), Arc::make_mut(&mut mask));
        }
        mask
    }

    /// Returns what may follow a place in a text without anything after it. Computes it once.
    fn alone(&mut self, config: Config) -> SharedText {
        if let Some(known) = self.shared.get(&config) {
            return known.clone();
        }
        let place = self.automaton.text_place(config).filter(TextPlace::is_past_minimum);
        let known = place.as_ref().and_then(|place| self.known_text(config, place));
        let text = known.unwrap_or_else(|| {
            let text = match self.automaton.counterpart(config) {
                Some((other, bytes)) => self.alone_like(config, (other, bytes)),
                None => self.alone_plain(config),
            };
            if let Some(place) = place {
                self.raw.insert(place, &text);
            }
            text
        });
        self.shared.insert(config, text.clone());
        text
    }

    /// Derives the tokens at `config` from a known mask of the same state. `place` is the place of `config`.
    /// Returns `None` if no such mask is known or if there are too many tokens to test.
    fn known_text(&mut self, config: Config, place: &TextPlace) -> Option<SharedText> {
        let (length, text) = self.raw.get(place)?;
        if length == place.length {
            return Some(text);
        }
        // At a smaller length, more characters may follow. Only long tokens can have too many of them.
        let fitting = place.program.fitting(place.length) as usize;
        let by_length = self.raw.by_length(self.vocabulary);
        let long = by_length.partition_point(|&token| self.vocabulary.bytes(token).len() > fitting);
        if length > place.length || long > MOST_TESTED {
            return None;
        }
        let SharedText { mut mask, ends } = text;
        for &token in &by_length[..long] {
            if mask.contains(token)
                && self.automaton.run(config, self.vocabulary.bytes(token)) == Config::DEAD
            {
                Arc::make_mut(&mut mask).remove(token);
            }
        }
        let ends = ends.iter().copied().filter(|&end| {
            let at = self.automaton.run(config, path(self.vocabulary, end));
            at != Config::DEAD && self.automaton.accepting(at)
        });
        Some(SharedText { mask, ends: ends.collect() })
    }

    fn alone_plain(&mut self, config: Config) -> SharedText {
        self.ends = Some(Vec::new());
        let mask = Arc::new(self.plain(config));
        SharedText { mask, ends: self.ends.take().unwrap_or_default().into() }
    }

    /// Derives what may follow `config` from what may follow its counterpart `other`. Only the bytes in
    /// `bytes` lead elsewhere.
    fn alone_like(&mut self, config: Config, (other, bytes): (Config, ByteSet)) -> SharedText {
        let SharedText { mask, ends } = self.alone(other);
        let mut mask = self.pool.copy(&mask);
        self.ends = Some(ends.to_vec());
        self.diverge((config, other), bytes, &mut mask);
        SharedText { mask: Arc::new(mask), ends: self.ends.take().unwrap_or_default().into() }
    }
}

/// Returns the bytes that lead to a node of the trie.
fn path(vocabulary: &Vocabulary, node: TrieNode) -> &[u8] {
    let trie = vocabulary.trie();
    let bytes = trie.tokens_below(node).first().map_or(&[][..], |&token| vocabulary.bytes(token));
    let (mut at, mut length) = (TrieNode::ROOT, 0);
    while at != node
        && let Some(next) = bytes.get(length).and_then(|&byte| trie.child(at, byte))
    {
        (at, length) = (next, length + 1);
    }
    &bytes[..length]
}

#[cfg(test)]
mod tests;
