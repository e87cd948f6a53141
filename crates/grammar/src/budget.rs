//! How many tokens it takes to close.
//!
//! The bound of a config is the least number of tokens that spell its shortest completion: it depends on the config alone, not
//! on what else was asked. Following that completion may lead to a config whose own shortest completion is another text with a
//! larger bound. So that a bound, once given, can be kept, each matcher knows a [`Way`] of its own: the rest of the one that it
//! has followed so far, or the config's, whichever is shorter.
//!
//! The text with the fewest bytes need not have the fewest tokens: a long word may be one token where a short one is
//! three. So the bound of the start, which is what a request must allow at least, is looked for in more texts ([`search`]),
//! once for all generations of the caches: where items of an array must differ, it can take a second and fill one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, OnceLock};

use formwork_vocab::{TokenId, Vocabulary};
use rustc_hash::FxHashMap;

use crate::machine::Config;
use crate::machine::automaton::Automaton;
use crate::mask;
use crate::tokens::{TokenEdges, is_lead, spelt};

#[cfg(test)]
mod tests;

/// The way from the start, once it has been looked for; `None` where there is none.
pub(crate) type StartWay = OnceLock<Option<Vec<TokenId>>>;

/// The bounds that are known.
pub(crate) struct Budget {
    start_way: Arc<StartWay>,
    /// Tokens in all, end-of-sequence not counted.
    bounds: FxHashMap<Config, u32>,
    /// Of the way from the start, the rest for each config on it.
    start: FxHashMap<Config, Arc<[TokenId]>>,
    /// Whether these are known.
    started: bool,
}

/// How a matcher could close, as tokens.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// How many tokens the matcher had when it could.
    pub(crate) position: usize,
    pub(crate) tokens: Arc<[TokenId]>,
}

/// The bound where no sequence of tokens spells the completion.
const NEVER: u32 = u32::MAX;

impl Budget {
    pub(crate) fn new(start_way: Arc<StartWay>) -> Self {
        Self { start_way, bounds: FxHashMap::default(), start: FxHashMap::default(), started: false }
    }

    /// Tokens that suffice to close from `config`; `None` where the vocabulary cannot spell its completion.
    pub(crate) fn closing_tokens(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
    ) -> Option<u32> {
        self.begin(automaton, vocabulary);
        let known = self.bounds.get(&config).copied();
        let bound = known.unwrap_or_else(|| {
            let bytes = automaton.closing(config);
            let spelt =
                spell(&bytes, automaton.edges(), vocabulary).map_or(NEVER, |tokens| tokens.len() as u32);
            let bound = self.start.get(&config).map_or(spelt, |way| spelt.min(way.len() as u32));
            self.bounds.insert(config, bound);
            bound
        });
        (bound != NEVER).then_some(bound)
    }

    /// Finds the way from the start, whichever config is asked for first.
    fn begin(&mut self, automaton: &mut Automaton, vocabulary: &Vocabulary) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let mut at = automaton.start();
        let way = self.start_way.get_or_init(|| search(automaton, vocabulary, at));
        let Some(tokens) = way else { return };
        for (index, &token) in tokens.iter().enumerate() {
            self.start.insert(at, tokens[index..].into());
            at = automaton.after(at, token, vocabulary);
        }
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
        // No token has more bytes than the deepest node of the trie, or the two that spell a token terminal.
        if bytes.div_ceil(vocabulary.trie().max_depth().max(2)) > limit {
            return false;
        }
        self.closing_tokens(automaton, vocabulary, config).is_some_and(|tokens| tokens as usize <= limit)
    }

    /// A way to close from `config` in as many tokens as its bound says.
    pub(crate) fn way(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
    ) -> Option<Arc<[TokenId]>> {
        let bound = self.closing_tokens(automaton, vocabulary, config)? as usize;
        if let Some(way) = self.start.get(&config).filter(|way| way.len() == bound) {
            return Some(Arc::clone(way));
        }
        let bytes = automaton.closing(config);
        spell(&bytes, automaton.edges(), vocabulary).map(Into::into)
    }

    pub(crate) fn byte_len(&self) -> usize {
        let way = self.start.values().map(|way| size_of_val(&**way) + size_of::<(Config, Arc<[TokenId]>)>());
        self.bounds.len() * size_of::<(Config, u32)>() + way.sum::<usize>()
    }
}

/// Configs that a search goes on from.
const EXPANSIONS: usize = 64;
/// Tokens that a search looks at before it goes on from no more configs: one walk inside a string of a large vocabulary, or
/// hundreds outside.
const TOKENS: usize = 1 << 16;
/// Bytes of completions that a search spells.
const SPELT_BYTES: usize = 1 << 18;

/// A config that a search has come to.
struct Visit {
    config: Config,
    /// The visit before and the token that led on from it.
    from: Option<(usize, TokenId)>,
    tokens: usize,
}

/// A way to close in few tokens, if the vocabulary spells one.
///
/// Best first: the next config to go on from is the one whose shortest completion, spelt, makes the shortest way so far.
/// What is found is a way however early the search ends.
fn search(automaton: &mut Automaton, vocabulary: &Vocabulary, start: Config) -> Option<Vec<TokenId>> {
    let mut best = spell(&automaton.closing(start), automaton.edges(), vocabulary);
    let mut visits = vec![Visit { config: start, from: None, tokens: 0 }];
    let mut fewest = FxHashMap::from_iter([(start, 0)]);
    let mut open = BinaryHeap::from([Reverse((0, 0))]);
    let mut bytes_left = SPELT_BYTES;
    let mut looked_at = 0;
    for _ in 0..EXPANSIONS {
        if looked_at > TOKENS {
            break;
        }
        let Some(Reverse((_, at))) = open.pop() else { break };
        let Visit { config, tokens, .. } = visits[at];
        // Another token makes a way that is no shorter than the best unless the output can end after it.
        if best.as_ref().is_some_and(|best| tokens + 1 >= best.len()) {
            continue;
        }
        let mut found: Vec<(TokenId, Config)> = Vec::new();
        mask::plain(automaton, vocabulary, config, |_, ids, next| {
            looked_at += 1;
            let known = fewest.entry(next).or_insert(usize::MAX);
            if tokens + 1 < *known {
                *known = tokens + 1;
                found.push((ids[0], next));
            }
        });
        for (token, next) in found {
            visits.push(Visit { config: next, from: Some((at, token)), tokens: tokens + 1 });
            let len = automaton.closing_len(next) as usize;
            if len > bytes_left {
                return best;
            }
            bytes_left -= len;
            let Some(rest) = spell(&automaton.closing(next), automaton.edges(), vocabulary) else { continue };
            let whole = tokens + 1 + rest.len();
            open.push(Reverse((whole, visits.len() - 1)));
            if best.as_ref().is_none_or(|best| whole < best.len()) {
                best = Some([way_to(&visits, visits.len() - 1), rest].concat());
            }
        }
    }
    best
}

/// The tokens that led to a visit.
fn way_to(visits: &[Visit], mut at: usize) -> Vec<TokenId> {
    let mut tokens = Vec::with_capacity(visits[at].tokens);
    while let Some((before, token)) = visits[at].from {
        tokens.push(token);
        at = before;
    }
    tokens.reverse();
    tokens
}

/// The fewest tokens that spell `bytes`, among them those of token terminals, if any do.
fn spell(bytes: &[u8], edges: &TokenEdges, vocabulary: &Vocabulary) -> Option<Vec<TokenId>> {
    // Per offset, from the end: the first token of the best spelling with its length, and how many it has.
    let mut best: Vec<Option<(usize, TokenId)>> = vec![None; bytes.len() + 1];
    let mut count = vec![NEVER; bytes.len() + 1];
    count[bytes.len()] = 0;
    // Where the text from `at` on ends: at a token terminal, if not at the end.
    let mut text_end = bytes.len();
    for at in (0..bytes.len()).rev() {
        if is_lead(bytes[at]) {
            text_end = at;
            let index = bytes.get(at + 1).and_then(|&rest| spelt([bytes[at], rest]));
            let tokens = index.and_then(|index| edges.tokens(index));
            if let Some(token) = tokens.and_then(|tokens| tokens.iter().next())
                && count[at + 2] != NEVER
            {
                count[at] = count[at + 2] + 1;
                best[at] = Some((2, token));
            }
            continue;
        }
        for (len, token) in vocabulary.trie().prefixes(&bytes[at..text_end]) {
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
