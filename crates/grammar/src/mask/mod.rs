//! Computes masks: the sets of tokens that may follow a config.
//!
//! A token may follow if the machine can step over all its bytes. The tokens form a trie, so each
//! shared prefix is stepped over once. Bytes outside [`Automaton::plausible`] are skipped without a
//! step.
//!
//! Precomputed tables replace most of the steps: see [`walk`](crate::mask::walk) for machines that
//! read JSON, and [`spans`](crate::mask::spans) for all other machines. [`plain`] walks the trie
//! without tables.

pub(crate) mod char_classes;
pub(crate) mod named_tokens;
pub(crate) mod spans;
pub(crate) mod tables;
pub(crate) mod walk;

use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet, TrieNode, Vocabulary};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::machine::Config;
use crate::machine::automaton::Automaton;
use crate::mask::spans::Spans;
use crate::mask::tables::Pool;
use crate::mask::walk::{TextMasks, Walk};

/// The masks of one generation of the caches. Each mask is computed at most once.
pub(crate) struct Masks {
    known: FxHashMap<Config, Arc<TokenSet>>,
    /// Masks by the hash of their token set, for sharing equal masks.
    distinct: FxHashMap<u64, Arc<TokenSet>>,
    strategy: Strategy,
    pool: Arc<Pool>,
    bytes: usize,
}

/// Algorithm for computing masks.
enum Strategy {
    /// For machines that read JSON strings.
    Strings(TextMasks),
    /// For all other machines.
    Rules(Spans),
}

/// Total size of the masks, in bytes, above which equal masks are shared. Below this size, sharing
/// is not worthwhile: looking for an equal mask takes longer than composing a mask from known
/// spans.
const PLENTY: usize = 8 << 20;

impl Masks {
    pub(crate) fn new(automaton: &Automaton, vocabulary: &Vocabulary) -> Self {
        let strategy = match automaton.strings() {
            Some(profile) => Strategy::Strings(TextMasks::new(vocabulary, profile)),
            None => Strategy::Rules(Spans::new(vocabulary)),
        };
        Self {
            known: FxHashMap::default(),
            distinct: FxHashMap::default(),
            strategy,
            pool: Pool::of(vocabulary),
            bytes: 0,
        }
    }

    /// Returns the tokens that are allowed at `config`.
    ///
    /// The mask has the text tokens whose bytes can all follow, the tokens of the token terminals
    /// that can follow, and end-of-sequence if the output may end.
    pub(crate) fn at(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
    ) -> Arc<TokenSet> {
        if let Some(known) = self.known.get(&config) {
            return Arc::clone(known);
        }
        let mask = self.compute(automaton, vocabulary, config);
        let mask = self.shared(mask);
        self.known.insert(config, Arc::clone(&mask));
        mask
    }

    /// Returns a stored mask with the same tokens as `mask`, or `mask` itself if no such mask is
    /// stored.
    ///
    /// Many configs have equal masks, because they differ only in what can come much later. Masks
    /// of JSON machines are returned unchanged, because those masks share their large sets already.
    fn shared(&mut self, mask: Arc<TokenSet>) -> Arc<TokenSet> {
        if Arc::strong_count(&mask) > 1 {
            return mask;
        }
        if self.bytes < PLENTY || matches!(self.strategy, Strategy::Strings(_)) {
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
        let ends = if automaton.accepting(config) { vocabulary.ends() } else { &[] };
        let mut mask = match &mut self.strategy {
            Strategy::Rules(spans) => spans.mask(automaton, vocabulary, config, ends),
            Strategy::Strings(texts) => {
                let mut mask = Walk::new(automaton, vocabulary, texts, &self.pool).mask(config);
                if !ends.is_empty() {
                    let mask = Arc::make_mut(&mut mask);
                    for &end in ends {
                        mask.insert(end);
                    }
                }
                mask
            }
        };
        for (index, _) in automaton.terminals(config) {
            if let Some(tokens) = automaton.edges().tokens(index) {
                Arc::make_mut(&mut mask).extend(tokens);
            }
        }
        mask
    }

    /// Returns the approximate memory of the masks and their caches, in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        let known = self.known.len() * 2 * size_of::<(Config, Arc<TokenSet>)>();
        let kept = match &self.strategy {
            Strategy::Rules(spans) => spans.byte_len(),
            Strategy::Strings(texts) => texts.byte_len(),
        };
        self.bytes + known + kept
    }
}

impl Drop for Masks {
    fn drop(&mut self) {
        match &mut self.strategy {
            Strategy::Strings(texts) => texts.clear(),
            Strategy::Rules(spans) => spans.forget_masks(),
        }
        self.distinct.clear();
        self.pool.take_back(self.known.drain().filter_map(|(_, mask)| Arc::into_inner(mask)));
    }
}

/// Walks the trie from `config` and calls `visit(automaton, tokens, next)` for all tokens that may
/// follow. `tokens` are tokens with the same bytes, and `next` is the config after them.
///
/// The walk stops when the visited configs and steps have used up `cost_budget`. Each config and
/// step is charged once, so the result does not depend on cached steps.
pub(crate) fn plain(
    automaton: &mut Automaton,
    vocabulary: &Vocabulary,
    config: Config,
    cost_budget: &mut usize,
    mut visit: impl FnMut(&mut Automaton, &[TokenId], Config),
) {
    let trie = vocabulary.trie();
    let mut met = FxHashSet::from_iter([config]);
    let mut steps = FxHashSet::default();
    let mut open = vec![(TrieNode::ROOT, config)];
    while let Some((node, config)) = open.pop() {
        let plausible = automaton.plausible(config);
        for (byte, child) in trie.children(node).filter(|&(byte, _)| plausible.contains(byte)) {
            let next = automaton.step(config, byte);
            if next == Config::DEAD {
                continue;
            }
            if next != config {
                let cost = automaton.cost(next);
                let cost = if met.insert(next) {
                    cost
                } else if cost > 1 && steps.insert((config, byte)) {
                    cost - 1
                } else {
                    0
                };
                *cost_budget = cost_budget.saturating_sub(cost);
                if *cost_budget == 0 {
                    return;
                }
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
