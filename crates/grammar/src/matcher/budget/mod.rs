//! Computes how many tokens are needed to close an output.
//!
//! The *completion* of a config is the shortest text that ends the output ([`Automaton::closing`]).
//! The *bound* of a config is the least number of tokens that spell its completion. The bound
//! depends on the config alone, not on earlier queries.
//!
//! A text with few bytes need not have few tokens: a long word may be one token and a short word
//! three. While a matcher follows the tokens of one completion, it may therefore reach a config
//! with another completion and a larger bound. A bound that was returned to a caller must still
//! hold. Each matcher therefore keeps a [`ClosingPath`]: the rest of the path followed so far, or
//! the config's own path, whichever has fewer tokens.
//!
//! The token limit of a request must be at least the bound of the start. To make that bound small,
//! [`search`](Budget::search) tries more texts than the shortest one. The search runs once for all
//! generations of the caches. If items of an array must differ, the search can take a second and
//! fill one generation.
//!
//! Completions share their ends. The [`Bound`] of each config on a completion is therefore stored,
//! so that each completion is followed once. If following a completion costs more than
//! [`CLOSING_COST`], the bound is its number of bytes: the completion is then spelt with tokens of
//! one byte.

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

/// The closing path from the start of the output, shared by all generations of the caches. Unset
/// until the search has run, and `None` if the search finds no path.
pub(crate) type StartPath = OnceLock<Option<Arc<[TokenId]>>>;

/// The bounds computed so far.
pub(crate) struct Budget {
    start_way: Arc<StartPath>,
    bounds: FxHashMap<Config, Bound>,
    /// For each config on the closing path from the start, the number of tokens of the path before
    /// the config.
    start: FxHashMap<Config, u32>,
    /// True once the closing path from the start has been searched for.
    started: bool,
    /// For each config, whether each byte of its completion is spelt by a token of one byte. Bytes
    /// of token terminals are spelt by the tokens of the terminal.
    bytewise: FxHashMap<Config, bool>,
}

/// The spelling of a config's completion in the fewest tokens.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// Number of tokens, without end-of-sequence. [`NEVER`] if no sequence of tokens spells the
    /// completion.
    tokens: u32,
    /// First token of the spelling; `None` if there are no tokens.
    first: Option<TokenId>,
    /// Cost of following the completion: the sum of [`Automaton::cost`] over the configs before its
    /// bytes.
    cost: u32,
}

/// The tokens with which a matcher can close its output.
#[derive(Clone, Debug)]
pub(crate) struct ClosingPath {
    /// Number of tokens that the matcher has committed before the path starts.
    pub(crate) position: usize,
    tokens: Arc<[TokenId]>,
    /// Index in `tokens` at which the path starts.
    from: usize,
}

impl ClosingPath {
    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens[self.from..]
    }

    /// Returns the remaining path after its first token is committed.
    pub(crate) fn after_first(self) -> Self {
        Self { position: self.position + 1, from: self.from + 1, ..self }
    }
}

/// Number of tokens of a [`Bound`] if no sequence of tokens spells the completion.
const NEVER: u32 = u32::MAX;

/// Maximum cost of following a completion.
pub(crate) const CLOSING_COST: usize = 1 << 13;

impl Bound {
    /// The bound of a completion that is too costly to follow.
    const COSTLY: Self = Self { tokens: NEVER, first: None, cost: u32::MAX };
    const END: Self = Self { tokens: 0, first: None, cost: 0 };

    const fn is_costly(self) -> bool {
        self.cost == u32::MAX
    }
}

impl Budget {
    pub(crate) fn new(start_way: Arc<StartPath>) -> Self {
        Self {
            start_way,
            bounds: FxHashMap::default(),
            start: FxHashMap::default(),
            started: false,
            bytewise: FxHashMap::default(),
        }
    }

    /// Returns a number of tokens that suffices to close from `config`, the smallest known. `None`
    /// if the vocabulary cannot spell the completion of `config`.
    pub(crate) fn closing_tokens(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
    ) -> Option<u32> {
        self.begin(automaton, vocabulary);
        let own = self.own_tokens(automaton, vocabulary, config);
        let tokens = self.rest_of_start(config).map_or(own, |rest| own.min(rest.len() as u32));
        (tokens != NEVER).then_some(tokens)
    }

    /// Returns the number of tokens of the completion of `config`, ignoring the closing path from
    /// the start. [`NEVER`] if the vocabulary cannot spell the completion.
    fn own_tokens(&mut self, automaton: &mut Automaton, vocabulary: &Vocabulary, config: Config) -> u32 {
        let mut unbounded = usize::MAX;
        match self.bound(automaton, vocabulary, config, CLOSING_COST) {
            Some(bound) => bound.tokens,
            None if self.spells_bytes(automaton, vocabulary, config, &mut unbounded) => {
                automaton.closing_len(config)
            }
            None => NEVER,
        }
    }

    /// Reports whether tokens of one byte spell the completion of `config`. Returns false if
    /// finding out costs more than `cost_budget`, and charges the cost to `cost_budget`.
    ///
    /// Many vocabularies lack some bytes, such as control characters. A completion seldom needs
    /// these bytes.
    fn spells_bytes(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
        cost_budget: &mut usize,
    ) -> bool {
        if vocabulary.spells_utf8() {
            return true;
        }
        let mut configs = Vec::new();
        let mut at = config;
        let spells = loop {
            if automaton.accepting(at) {
                break true;
            }
            if let Some(&known) = self.bytewise.get(&at) {
                break known;
            }
            let Some(left) = cost_budget.checked_sub(automaton.cost(at)) else {
                *cost_budget = 0;
                return false;
            };
            *cost_budget = left;
            configs.push(at);
            let [byte, next] = closing_step(automaton, at);
            at = Config(next);
            let is_spelt = if is_lead(byte as u8) {
                let [rest, next] = closing_step(automaton, at);
                at = Config(next);
                terminal([byte as u8, rest as u8], automaton.edges()).is_some()
            } else {
                vocabulary.trie().prefixes(&[byte as u8]).next().is_some()
            };
            if !is_spelt {
                break false;
            }
        };
        self.bytewise.extend(configs.into_iter().map(|config| (config, spells)));
        spells
    }

    /// Returns the rest of the closing path from the start, if `config` lies on that path.
    /// Otherwise returns `None`.
    fn rest_of_start(&self, config: Config) -> Option<&[TokenId]> {
        let from = *self.start.get(&config)?;
        self.start_way.get()?.as_deref().map(|tokens| &tokens[from as usize..])
    }

    /// Finds the closing path from the start. Does so once, before the first query, so that results
    /// do not depend on the order of queries.
    fn begin(&mut self, automaton: &mut Automaton, vocabulary: &Vocabulary) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let start_way = Arc::clone(&self.start_way);
        let mut at = automaton.start();
        let way = start_way.get_or_init(|| self.search(automaton, vocabulary, at).map(Into::into));
        let Some(tokens) = way else { return };
        for (index, &token) in tokens.iter().enumerate() {
            self.start.insert(at, index as u32);
            at = automaton.after(at, token, vocabulary);
        }
    }

    /// Reports whether the output can be closed from `config` within `limit` tokens. Returns false
    /// if finding out costs more than `cost_budget`, and charges the cost to `cost_budget`.
    pub(crate) fn closes_within(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
        (limit, cost_budget): (usize, &mut usize),
    ) -> bool {
        // Spelling byte by byte is also a closing path, and needs no search.
        let bytes = automaton.closing_len(config) as usize;
        if bytes <= limit && vocabulary.spells_utf8() {
            return true;
        }
        // A token has at most as many bytes as the trie is deep. A token terminal is spelt with two
        // bytes.
        if bytes.div_ceil(vocabulary.trie().max_depth().max(2)) > limit {
            return false;
        }
        self.begin(automaton, vocabulary);
        if self.rest_of_start(config).is_some_and(|rest| rest.len() <= limit) {
            return true;
        }
        if let Some(bound) = self.bound(automaton, vocabulary, config, *cost_budget) {
            *cost_budget -= bound.cost as usize;
            return bound.tokens as usize <= limit;
        }
        let mut left = std::mem::take(cost_budget);
        bytes <= limit && self.spells_bytes(automaton, vocabulary, config, &mut left)
    }

    /// Returns the first token of a closing path from `config` with
    /// [`closing_tokens`](Self::closing_tokens) tokens. `None` if the path is empty or unknown.
    pub(crate) fn first(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
    ) -> Option<TokenId> {
        let own = self.own_tokens(automaton, vocabulary, config);
        if let Some(rest) = self.rest_of_start(config).filter(|rest| rest.len() as u32 <= own) {
            return rest.first().copied();
        }
        if let Some(bound) = self.bound(automaton, vocabulary, config, CLOSING_COST) {
            return bound.first;
        }
        let byte = automaton.closing_byte(config);
        if !is_lead(byte) {
            return vocabulary.trie().prefixes(&[byte]).next().map(|(_, token)| token);
        }
        let after = automaton.step(config, byte);
        terminal([byte, automaton.closing_byte(after)], automaton.edges())
    }

    /// Returns a closing path from `config` with [`closing_tokens`](Self::closing_tokens) tokens.
    /// The path starts after `position` committed tokens. `None` if following the completion costs
    /// too much.
    ///
    /// In that case, the completion is spelt with tokens of one byte. No stored path is needed for
    /// this spelling, because each byte lowers the bound.
    pub(crate) fn way(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
        position: usize,
    ) -> Option<ClosingPath> {
        let own = self.own_tokens(automaton, vocabulary, config);
        if let Some(&from) = self.start.get(&config)
            && let Some(Some(tokens)) = self.start_way.get()
            && tokens.len() as u32 - from <= own
        {
            return Some(ClosingPath { position, tokens: Arc::clone(tokens), from: from as usize });
        }
        let tokens = self.spelling(automaton, vocabulary, config)?;
        Some(ClosingPath { position, tokens: tokens.into(), from: 0 })
    }

    /// Returns the tokens of the completion of `config`. `None` if following the completion costs
    /// more than [`CLOSING_COST`].
    fn spelling(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
    ) -> Option<Vec<TokenId>> {
        let mut tokens = Vec::new();
        let mut at = config;
        while let Some(first) = self.bound(automaton, vocabulary, at, CLOSING_COST)?.first {
            tokens.push(first);
            at = after_first(automaton, vocabulary, at, first);
        }
        Some(tokens)
    }

    /// Returns the bound of `config`. `None` if following its completion costs more than `most` or
    /// [`CLOSING_COST`].
    fn bound(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
        most: usize,
    ) -> Option<Bound> {
        let most = most.min(CLOSING_COST);
        if automaton.accepting(config) {
            return Some(Bound::END);
        }
        let known = self.bounds.get(&config).copied();
        let bound = known.or_else(|| self.follow(automaton, vocabulary, config, most))?;
        (bound.cost as usize <= most).then_some(bound)
    }

    /// Follows the completion of `config` to its end, or to a config with a known bound. Stores the
    /// bounds of all configs on the way, and returns the bound of `config`. `None` if following
    /// costs more than `most` or [`CLOSING_COST`].
    fn follow(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
        most: usize,
    ) -> Option<Bound> {
        let mut bytes: Vec<u8> = Vec::new();
        // By byte: the config before the byte, with its cost. `None` for the second byte of a token
        // terminal.
        let mut configs: Vec<Option<(Config, u32)>> = Vec::new();
        let mut cost = 0;
        let mut at = config;
        let known = loop {
            if automaton.accepting(at) {
                break Bound::END;
            }
            if let Some(&known) = self.bounds.get(&at) {
                break known;
            }
            let own = automaton.cost(at);
            cost += own;
            if cost > most {
                if most == CLOSING_COST {
                    self.bounds.insert(config, Bound::COSTLY);
                }
                return None;
            }
            configs.push(Some((at, own as u32)));
            let [byte, next] = closing_step(automaton, at);
            bytes.push(byte as u8);
            at = Config(next);
            if is_lead(byte as u8) {
                let [rest, next] = closing_step(automaton, at);
                configs.push(None);
                bytes.push(rest as u8);
                at = Config(next);
            }
        };
        if known.is_costly() || known.cost as usize + cost > CLOSING_COST {
            let costly = configs.iter().flatten().filter(|_| known.is_costly());
            self.bounds.extend(costly.map(|&(config, _)| (config, Bound::COSTLY)));
            self.bounds.insert(config, Bound::COSTLY);
            return None;
        }
        // The bounds of the rest are known, but a token may reach into the rest.
        let new = bytes.len();
        let mut counts = vec![NEVER; new];
        counts.push(known.tokens);
        while !automaton.accepting(at) && bytes.len() - new < vocabulary.trie().max_depth() {
            let [byte, next] = closing_step(automaton, at);
            if is_lead(byte as u8) {
                break;
            }
            bytes.push(byte as u8);
            at = Config(next);
            let ends = automaton.accepting(at);
            counts.push(if ends { 0 } else { self.bounds.get(&at).map_or(NEVER, |bound| bound.tokens) });
        }
        let mut cost = known.cost;
        // End of the text from a byte on: the next token terminal, or the end of all bytes.
        let mut text_end = bytes.len();
        for index in (0..new).rev() {
            let Some((config, own)) = configs[index] else { continue };
            let mut first = None;
            if is_lead(bytes[index]) {
                text_end = index;
                first = terminal([bytes[index], bytes[index + 1]], automaton.edges());
                if first.is_some() && counts[index + 2] != NEVER {
                    counts[index] = counts[index + 2] + 1;
                }
            } else {
                for (len, token) in vocabulary.trie().prefixes(&bytes[index..text_end]) {
                    let rest = counts[index + len];
                    if rest != NEVER && rest + 1 < counts[index] {
                        counts[index] = rest + 1;
                        first = Some(token);
                    }
                }
            }
            cost += own;
            let first = first.filter(|_| counts[index] != NEVER);
            self.bounds.insert(config, Bound { tokens: counts[index], first, cost });
        }
        self.bounds.get(&config).copied()
    }

    pub(crate) fn byte_len(&self) -> usize {
        let way = self.start_way.get().and_then(Option::as_deref).map_or(0, size_of_val);
        let (bounds, start) = (size_of::<(Config, Bound)>(), size_of::<(Config, u32)>());
        let bytewise = self.bytewise.len() * size_of::<(Config, bool)>();
        2 * (self.bounds.len() * bounds + self.start.len() * start + bytewise) + way
    }
}

/// Returns the config after `first`, the first token of the completion of `config`.
pub(crate) fn after_first(
    automaton: &mut Automaton,
    vocabulary: &Vocabulary,
    config: Config,
    first: TokenId,
) -> Config {
    let byte = automaton.closing_byte(config);
    if !is_lead(byte) {
        return automaton.run(config, vocabulary.bytes(first));
    }
    let after = automaton.step(config, byte);
    let rest = automaton.closing_byte(after);
    automaton.step(after, rest)
}

/// Returns the next byte of the completion of `config`, and the id of the config after that byte.
fn closing_step(automaton: &mut Automaton, config: Config) -> [u32; 2] {
    let byte = automaton.closing_byte(config);
    let next = automaton.step(config, byte);
    debug_assert!(next != Config::DEAD);
    [byte.into(), next.0]
}

/// Returns a token that the token terminal with this spelling matches.
fn terminal(bytes: [u8; 2], edges: &TokenEdges) -> Option<TokenId> {
    edges.tokens(spelt(bytes)?)?.iter().next()
}

/// Maximum number of configs whose next tokens a search visits.
const EXPANSIONS: usize = 64;
/// Number of visited tokens after which a search expands no more configs. Inside a string with a
/// large vocabulary, the tokens of one config reach this number. Outside strings, the tokens of
/// hundreds of configs do.
const TOKENS: usize = 1 << 16;
/// Maximum cost of all configs that a search visits, including the cost of following their
/// completions.
const SEARCH_COST: usize = 1 << 12;

/// A config that a search has reached, with the path to the config.
struct Visit {
    config: Config,
    /// Index of the previous visit, and the token that leads from there to `config`. `None` for the
    /// start.
    from: Option<(usize, TokenId)>,
    tokens: usize,
}

impl Budget {
    /// Searches for a closing path from `start` with few tokens.
    ///
    /// Returns `None` if the vocabulary cannot spell any path found, or if following the completion
    /// of `start` costs too much.
    ///
    /// This is a best-first search. The rank of a config is the number of tokens that reach the
    /// config, plus the tokens of its completion. The config with the lowest rank is expanded next.
    /// A search that ends early still returns a valid path.
    fn search(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        start: Config,
    ) -> Option<Vec<TokenId>> {
        // A start whose own completion is this costly gains little from a search.
        let own = self.bound(automaton, vocabulary, start, SEARCH_COST)?;
        // Length of the best path, and the visit whose completion ends it.
        let mut best = (own.tokens != NEVER).then_some((own.tokens as usize, 0));
        let mut visits = vec![Visit { config: start, from: None, tokens: 0 }];
        let mut fewest = FxHashMap::from_iter([(start, 0)]);
        let mut open = BinaryHeap::from([Reverse((0, 0))]);
        let mut cost_budget = SEARCH_COST;
        let mut looked_at = 0;
        for _ in 0..EXPANSIONS {
            if looked_at > TOKENS || cost_budget == 0 {
                break;
            }
            let Some(Reverse((_, at))) = open.pop() else { break };
            let Visit { config, tokens, .. } = visits[at];
            // A path with one more token is not shorter than the best path.
            if best.is_some_and(|(best, _)| tokens + 1 >= best) {
                continue;
            }
            let mut found: Vec<(TokenId, Config)> = Vec::new();
            mask::plain(automaton, vocabulary, config, &mut cost_budget, |_, ids, next| {
                looked_at += 1;
                let known = fewest.entry(next).or_insert(usize::MAX);
                if tokens + 1 < *known {
                    *known = tokens + 1;
                    found.push((ids[0], next));
                }
            });
            for (token, next) in found {
                visits.push(Visit { config: next, from: Some((at, token)), tokens: tokens + 1 });
                let Some(rest) = self.bound(automaton, vocabulary, next, cost_budget) else {
                    cost_budget = 0;
                    break;
                };
                cost_budget -= rest.cost as usize;
                if rest.tokens == NEVER {
                    continue;
                }
                let whole = tokens + 1 + rest.tokens as usize;
                open.push(Reverse((whole, visits.len() - 1)));
                if best.is_none_or(|(best, _)| whole < best) {
                    best = Some((whole, visits.len() - 1));
                }
            }
        }
        let (_, at) = best?;
        let mut way = way_to(&visits, at);
        way.extend(self.spelling(automaton, vocabulary, visits[at].config)?);
        Some(way)
    }
}

/// Returns the tokens that lead from the start to the visit at index `at`.
fn way_to(visits: &[Visit], mut at: usize) -> Vec<TokenId> {
    let mut tokens = Vec::with_capacity(visits[at].tokens);
    while let Some((before, token)) = visits[at].from {
        tokens.push(token);
        at = before;
    }
    tokens.reverse();
    tokens
}
