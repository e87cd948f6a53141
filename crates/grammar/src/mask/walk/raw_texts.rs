//! Masks inside raw strings that many rules share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use formwork_vocab::{TokenId, TokenSet, TrieNode, Vocabulary};
use rustc_hash::FxHashMap;

use super::Walk;
use crate::ByteSet;
use crate::ir::text::TextProgram;
use crate::machine::{Config, TextPlace};

/// Maximum memory of the masks that [`RawTexts`] keeps, in bytes.
const MOST_BYTES: usize = 32 << 20;

/// Maximum number of tokens to test one by one when a mask is derived from the mask of a shorter text.
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

/// Masks inside raw strings, which depend on the vocabulary and the [`TextProgram`] alone. All grammars of the
/// vocabulary share them, since calls of most tools have the same programs.
pub(super) struct RawTexts {
    kept: Mutex<Kept>,
    /// The text tokens, from the longest to the shortest.
    by_length: Vec<TokenId>,
}

#[derive(Default)]
struct Kept {
    /// By the address of the program, which the entry keeps alive.
    programs: FxHashMap<usize, (Arc<TextProgram>, PlaceMasks)>,
    bytes: usize,
}

/// By state: the least length at which a mask is known, and this mask. Texts without a maximum length have one
/// length.
type PlaceMasks = FxHashMap<u32, (u32, SharedText)>;

impl RawTexts {
    /// Returns the masks of `vocabulary`.
    pub(super) fn of(vocabulary: &Vocabulary) -> Arc<Self> {
        vocabulary.derived(|vocabulary| {
            let mut by_length: Vec<TokenId> =
                vocabulary.ids().filter(|&token| vocabulary.kind(token).is_text()).collect();
            by_length.sort_by_key(|&token| std::cmp::Reverse(vocabulary.bytes(token).len()));
            Self { kept: Mutex::default(), by_length }
        })
    }

    /// Returns the mask in the state of `place` at the least known length, and this length.
    fn get(&self, place: &TextPlace) -> Option<(u32, SharedText)> {
        let kept = self.lock();
        let (_, masks) = kept.programs.get(&address(&place.program))?;
        masks.get(&place.state).cloned()
    }

    /// Keeps the mask at `place`, unless one of a shorter text is known.
    fn insert(&self, place: TextPlace, text: &SharedText) {
        let mut kept = self.lock();
        if kept.bytes > MOST_BYTES {
            *kept = Kept::default();
        }
        let address = address(&place.program);
        let (_, masks) =
            kept.programs.entry(address).or_insert_with(|| (place.program, PlaceMasks::default()));
        if masks.get(&place.state).is_none_or(|&(length, _)| place.length < length) {
            masks.insert(place.state, (place.length, text.clone()));
            kept.bytes += text.byte_len();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Derives what may follow `config`, which is at `place`, from what may follow the same state after fewer
    /// characters. Returns `None` if that is not known or if there are too many tokens to test.
    fn known_text(&mut self, config: Config, place: &TextPlace) -> Option<SharedText> {
        let (length, text) = self.raw.get(place)?;
        if length == place.length {
            return Some(text);
        }
        // More characters may follow after fewer ones, and only a long token may have too many.
        let fitting = place.program.fitting(place.length) as usize;
        let is_long = |token: &TokenId| self.vocabulary.bytes(*token).len() > fitting;
        let long = self.raw.by_length.partition_point(is_long);
        if length > place.length || long > MOST_TESTED {
            return None;
        }
        let SharedText { mut mask, ends } = text;
        for &token in &self.raw.by_length[..long] {
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
