//! From a config to the tokens that may come next.
//!
//! A token may come if the machine can step over all of its bytes. The tokens lie in a trie, so what they share is
//! stepped over once; children that the machine finds implausible are not stepped to at all.
//!
//! Most of the stepping is left out where it is known beforehand what tokens do: see [`walk`](crate::walk). [`plain`] is the
//! walk without that.

use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet, TrieNode, Vocabulary};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::cells::{Cells, Road};
use crate::machine::Config;
use crate::machine::automaton::Automaton;
use crate::tables::{Pool, Strings};
use crate::walk::Walk;

/// The masks of a generation, each computed at most once.
pub(crate) struct Masks {
    known: FxHashMap<Config, Arc<TokenSet>>,
    /// Those by a hash of their tokens.
    distinct: FxHashMap<u64, Arc<TokenSet>>,
    /// Those inside strings of any text, by the config after the closing quote.
    texts: FxHashMap<Config, Arc<TokenSet>>,
    /// Those of configs that others are like.
    likes: FxHashMap<Config, Arc<TokenSet>>,
    /// The text that may follow configs that a walk has come to.
    roads: FxHashMap<Config, Road>,
    /// The tables of the machine's strings, if it has such.
    strings: Option<Arc<Strings>>,
    cells: Arc<Cells>,
    pool: Arc<Pool>,
    bytes: usize,
}

/// Bytes of masks from which on it is looked for equal ones, which takes longer than a short cut to a mask.
const PLENTY: usize = 8 << 20;

impl Masks {
    pub(crate) fn new(automaton: &Automaton, vocabulary: &Vocabulary) -> Self {
        Self {
            known: FxHashMap::default(),
            distinct: FxHashMap::default(),
            texts: FxHashMap::default(),
            likes: FxHashMap::default(),
            roads: FxHashMap::default(),
            strings: automaton.strings().map(|profile| Strings::of(vocabulary, profile)),
            cells: Cells::of(vocabulary),
            pool: Pool::of(vocabulary),
            bytes: 0,
        }
    }

    /// The tokens allowed at `config`: text tokens all of whose bytes can follow, and end-of-sequence where the output
    /// may end.
    pub(crate) fn at(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
    ) -> Arc<TokenSet> {
        if let Some(known) = self.known.get(&config) {
            return Arc::clone(known);
        }
        let mut mask = self.compute(automaton, vocabulary, config);
        if config != Config::DEAD {
            for (index, _) in automaton.terminals(config) {
                if let Some(tokens) = automaton.edges().tokens(index) {
                    Arc::make_mut(&mut mask).extend(tokens);
                }
            }
        }
        if config != Config::DEAD && automaton.accepting(config) {
            let mask = Arc::make_mut(&mut mask);
            for &end in vocabulary.ends() {
                mask.insert(end);
            }
        }
        let mask = self.shared(mask);
        self.known.insert(config, Arc::clone(&mask));
        mask
    }

    /// The mask that is equal to this one, if there was one before: places that differ in what comes later are many, and
    /// most of them have the same next tokens. Those of JSON share what is long in them already.
    fn shared(&mut self, mask: Arc<TokenSet>) -> Arc<TokenSet> {
        if self.bytes < PLENTY || self.strings.is_some() {
            self.bytes += mask.byte_len();
            return mask;
        }
        let hash = FxBuildHasher.hash_one(&*mask);
        match self.distinct.entry(hash) {
            Entry::Occupied(known) if **known.get() == *mask => {
                let known = Arc::clone(known.get());
                self.pool.take_back(Arc::into_inner(mask).into_iter());
                known
            }
            Entry::Occupied(_) => {
                self.bytes += mask.byte_len();
                mask
            }
            Entry::Vacant(free) => {
                self.bytes += mask.byte_len();
                Arc::clone(free.insert(mask))
            }
        }
    }

    fn compute(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
    ) -> Arc<TokenSet> {
        if config == Config::DEAD {
            return Arc::new(self.pool.empty());
        }
        let Self { texts, likes, roads, pool, cells, strings, .. } = self;
        let strings = strings.as_deref();
        let (open, noted) = (Vec::new(), Vec::new());
        Walk { automaton, vocabulary, strings, cells, texts, pool, open, noted, likes, roads, likened: false }
            .mask(config)
    }

    /// Bytes of memory, roughly.
    pub(crate) const fn byte_len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Masks {
    fn drop(&mut self) {
        self.texts.clear();
        self.likes.clear();
        self.distinct.clear();
        self.pool.take_back(self.known.drain().filter_map(|(_, mask)| Arc::into_inner(mask)));
    }
}

/// Calls `visit` with every group of tokens that share their bytes and can follow, and the config after them.
pub(crate) fn plain(
    automaton: &mut Automaton,
    vocabulary: &Vocabulary,
    config: Config,
    mut visit: impl FnMut(&mut Automaton, &[TokenId], Config),
) {
    let trie = vocabulary.trie();
    let mut open = vec![(TrieNode::ROOT, config)];
    while let Some((node, config)) = open.pop() {
        let plausible = automaton.plausible(config);
        for (byte, child) in trie.children(node).filter(|&(byte, _)| plausible.contains(byte)) {
            let next = automaton.step(config, byte);
            if next == Config::DEAD {
                continue;
            }
            let tokens = trie.tokens_at(child);
            if !tokens.is_empty() {
                visit(automaton, tokens, next);
            }
            if trie.has_children(child) {
                open.push((child, next));
            }
        }
    }
}
