//! How many tokens it takes to close.
//!
//! The bound of a config is the least number of tokens that spell its shortest completion. Following that completion may
//! lead to a config whose own shortest completion is another text with a larger bound, so the tokens chosen are written
//! down for every config on the way: a bound, once given, can be kept.

use formwork_vocab::{TokenId, Vocabulary};
use rustc_hash::FxHashMap;

use crate::machine::Config;
use crate::machine::automaton::Automaton;

/// The first step of a way to close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan {
    /// Tokens in all, end-of-sequence not counted.
    tokens: u32,
    /// The first of them; `None` where the output may end.
    next: Option<TokenId>,
}

/// The ways to close that are known.
#[derive(Default)]
pub(crate) struct Budget {
    plans: FxHashMap<Config, Plan>,
}

/// The bound where no sequence of tokens spells the completion.
const NEVER: u32 = u32::MAX;

impl Budget {
    /// Tokens that suffice to close from `config`; `None` where the vocabulary cannot spell its completion.
    pub(crate) fn closing_tokens(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
    ) -> Option<u32> {
        if !self.plans.contains_key(&config) {
            let bytes = automaton.closing(config);
            let tokens = spell(&bytes, vocabulary);
            self.remember(automaton, vocabulary, config, tokens.as_deref());
        }
        self.plans.get(&config).map(|plan| plan.tokens).filter(|&tokens| tokens != NEVER)
    }

    /// Whether `config` can be closed within `limit` tokens.
    pub(crate) fn closes_within(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
        limit: usize,
    ) -> bool {
        // Byte by byte is a way, too, and it needs no search.
        let bytes = automaton.closing_len(config) as usize;
        if bytes <= limit && vocabulary.spells_utf8() {
            return true;
        }
        // No token has more bytes than the deepest node of the trie.
        if bytes.div_ceil(vocabulary.trie().max_depth().max(1)) > limit {
            return false;
        }
        self.closing_tokens(automaton, vocabulary, config).is_some_and(|tokens| tokens as usize <= limit)
    }

    /// The known way to close from `config`, as tokens.
    pub(crate) fn way(
        &self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
    ) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        let mut at = config;
        while let Some(Plan { next: Some(token), .. }) = self.plans.get(&at) {
            tokens.push(*token);
            at = automaton.run(at, vocabulary.bytes(*token));
        }
        tokens
    }

    /// Writes down a way to close, for every config on it that has none as short; `None` marks `config` as without one.
    pub(crate) fn remember(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
        tokens: Option<&[TokenId]>,
    ) {
        let Some(tokens) = tokens else {
            self.plans.insert(config, Plan { tokens: NEVER, next: None });
            return;
        };
        let mut at = config;
        for (index, &token) in tokens.iter().enumerate() {
            self.improve(at, Plan { tokens: (tokens.len() - index) as u32, next: Some(token) });
            at = automaton.run(at, vocabulary.bytes(token));
        }
        self.improve(at, Plan { tokens: 0, next: None });
    }

    fn improve(&mut self, config: Config, plan: Plan) {
        let known = self.plans.entry(config).or_insert(plan);
        if plan.tokens < known.tokens {
            *known = plan;
        }
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.plans.len() * (size_of::<Config>() + size_of::<Plan>())
    }
}

/// The fewest tokens that spell `bytes`, if any do.
fn spell(bytes: &[u8], vocabulary: &Vocabulary) -> Option<Vec<TokenId>> {
    // Per offset, from the end: the first token of the best spelling with its length, and how many it has.
    let mut best: Vec<Option<(usize, TokenId)>> = vec![None; bytes.len() + 1];
    let mut count = vec![NEVER; bytes.len() + 1];
    count[bytes.len()] = 0;
    for at in (0..bytes.len()).rev() {
        for (len, token) in vocabulary.trie().prefixes(&bytes[at..]) {
            let rest = count[at + len];
            if rest != NEVER && rest + 1 < count[at] {
                count[at] = rest + 1;
                best[at] = Some((len, token));
            }
        }
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (len, token) = best[at]?;
        tokens.push(token);
        at += len;
    }
    Some(tokens)
}
