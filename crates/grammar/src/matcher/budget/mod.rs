//! How many tokens it takes to close.
//!
//! The bound of a config is the least number of tokens that spell its shortest completion: it depends on the config alone, not
//! on what else was asked. Following that completion may lead to a config whose own shortest completion is another text with a
//! larger bound. So that a bound, once given, can be kept, each matcher knows a [`ClosingPath`] of its own: the rest of the one that it
//! has followed so far, or the config's, whichever is shorter.
//!
//! The text with the fewest bytes need not have the fewest tokens: a long word may be one token where a short one is
//! three. So the bound of the start, which is what a request must allow at least, is looked for in more texts ([`search`]),
//! once for all generations of the caches: where items of an array must differ, it can take a second and fill one.
//!
//! Completions run into each other. So a [`Bound`] is kept for each config on a completion, and each is followed once.
//! Where following one would cost more than [`CLOSING_COST`], the bound is the number of its bytes.

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
pub(crate) type StartPath = OnceLock<Option<Arc<[TokenId]>>>;

/// The bounds that are known.
pub(crate) struct Budget {
    start_way: Arc<StartPath>,
    bounds: FxHashMap<Config, Bound>,
    /// How much of the way from the start lies before each config on it.
    start: FxHashMap<Config, u32>,
    /// Whether these are known.
    started: bool,
    /// For each config, true if the vocabulary has a token for each byte of its completion.
    bytewise: FxHashMap<Config, bool>,
}

/// How a config's shortest completion is spelt in the fewest tokens.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// Tokens in all, end-of-sequence not counted.
    tokens: u32,
    /// The first of them, if there is one.
    first: Option<TokenId>,
    /// What it costs to follow the completion: the sum of [`Automaton::cost`] along it.
    cost: u32,
}

/// How a matcher could close, as tokens.
#[derive(Clone, Debug)]
pub(crate) struct ClosingPath {
    /// How many tokens the matcher had when it could.
    pub(crate) position: usize,
    tokens: Arc<[TokenId]>,
    /// How many of these lie before the position.
    from: usize,
}

impl ClosingPath {
    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens[self.from..]
    }

    /// The same way one token later.
    pub(crate) fn after_first(self) -> Self {
        Self { position: self.position + 1, from: self.from + 1, ..self }
    }
}

/// The bound where no sequence of tokens spells the completion.
const NEVER: u32 = u32::MAX;

/// The most that following a completion may cost.
pub(crate) const CLOSING_COST: usize = 1 << 13;

impl Bound {
    /// That of a completion that is not followed.
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

    /// Tokens that suffice to close from `config`; `None` where the vocabulary cannot spell its completion.
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

    /// The tokens of a config's own completion.
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

    /// Returns true if each byte of a config's completion is a token of its own, as far as `cost_budget` allows to
    /// find out.
    ///
    /// Many vocabularies lack some bytes, such as control characters, which a completion seldom needs.
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

    /// What is left at a config of the way from the start.
    fn rest_of_start(&self, config: Config) -> Option<&[TokenId]> {
        let from = *self.start.get(&config)?;
        self.start_way.get()?.as_deref().map(|tokens| &tokens[from as usize..])
    }

    /// Finds the way from the start, whichever config is asked for first.
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

    /// Whether `config` can be closed within `limit` tokens, as far as `cost_budget` allows to find out.
    pub(crate) fn closes_within(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
        (limit, cost_budget): (usize, &mut usize),
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

    /// The first token of a way to close from `config` in as many tokens as its bound says.
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

    /// Returns a way to close from `config` in as many tokens as its bound says, or none if following the completion
    /// costs too much.
    ///
    /// Spelling that byte by byte needs no memory of the way: each byte makes the bound smaller.
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

    /// The tokens of a config's own completion, if it is followed.
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

    /// How a config's completion is spelt; `None` if following it costs more than `most`.
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

    /// Follows a completion to its end, or to where it is known.
    fn follow(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
        most: usize,
    ) -> Option<Bound> {
        let mut bytes: Vec<u8> = Vec::new();
        // By byte, the config before it with its cost; none within the spelling of a token terminal.
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
        // What lies beyond is known, but a token may reach into it.
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
        // Where the text from a byte on ends: at a token terminal, if not at the end.
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

/// The config on a completion after its first token.
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

/// The next byte of a config's completion, and the config after it.
fn closing_step(automaton: &mut Automaton, config: Config) -> [u32; 2] {
    let byte = automaton.closing_byte(config);
    let next = automaton.step(config, byte);
    debug_assert!(next != Config::DEAD);
    [byte.into(), next.0]
}

/// A token of the terminal that is spelt so.
fn terminal(bytes: [u8; 2], edges: &TokenEdges) -> Option<TokenId> {
    edges.tokens(spelt(bytes)?)?.iter().next()
}

/// Configs that a search goes on from.
const EXPANSIONS: usize = 64;
/// Tokens that a search looks at before it goes on from no more configs: one walk inside a string of a large vocabulary, or
/// hundreds outside.
const TOKENS: usize = 1 << 16;
/// The cost of all configs visited by a search, with their completions.
const SEARCH_COST: usize = 1 << 12;

/// A config that a search has come to.
struct Visit {
    config: Config,
    /// The visit before and the token that led on from it.
    from: Option<(usize, TokenId)>,
    tokens: usize,
}

impl Budget {
    /// A way to close in few tokens, if the vocabulary spells one.
    ///
    /// Best first: the next config to expand is the one whose shortest completion, spelt, makes the shortest way so far.
    /// What is found is a way however early the search ends.
    fn search(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        start: Config,
    ) -> Option<Vec<TokenId>> {
        // Where one way is that long, others are as good.
        let own = self.bound(automaton, vocabulary, start, SEARCH_COST)?;
        // The length of the best way, and the visit from which it is a completion.
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
            // Another token makes a way that is no shorter than the best unless the output can end after it.
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
