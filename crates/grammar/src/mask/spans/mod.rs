//! Composes the masks of machines that run rules from cached parts.
//!
//! A machine for a context-free grammar is inside several rules at once, each called by another.
//! The stack of callers is rarely the same twice, but a token rarely extends far into the callers.
//! A mask is therefore composed of [`Span`]s. A span has the tokens that the remaining part of one
//! rule accepts. A span does not depend on the callers of the rule.
//!
//! A rule may end before a token does. The nodes of the token trie at which this happens are a
//! *frontier*. The callers resume at the frontier, and the remaining part of each caller has a span
//! that starts there. Rules that are called inside a rule have spans as well. There are few
//! different spans, and each is computed once per generation of the caches. Masks that consist of
//! the same spans share one set.

mod frontiers;
mod span_walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet, TrieNode, Vocabulary};
use frontiers::{FrontierId, Frontiers, NodeSet};
use rustc_hash::FxHashMap;
use span_walk::{Found, SpanWalk};

use crate::machine::automaton::Automaton;
use crate::machine::{Config, Frame};
use crate::mask::char_classes::{AsciiRun, CharClasses, Paths};
use crate::mask::tables::Pool;

/// The tokens that the remaining part of a rule accepts, starting at a frontier.
#[derive(Clone, Copy)]
struct Span {
    /// Index in [`Spans::tokens`] of the tokens that end inside the remaining part or at its end.
    /// `None` if there are no such tokens.
    tokens: Option<u32>,
    /// Frontier at which the rule may end while longer tokens continue. `None` if there are no such
    /// nodes.
    exits: Option<FrontierId>,
}

/// A known span, and the differences between its config and another config. The span of the other
/// config is computed from both.
struct SpanTemplate {
    /// The known span. It starts at the root.
    span: Span,
    /// Children of the root, with their bytes, at which the two configs may accept different
    /// tokens.
    different: Vec<(u8, TrieNode)>,
}

/// Tokens of a span. Equal collections of tokens are stored once.
#[derive(PartialEq, Eq, Hash)]
enum Tokens {
    Few(Box<[TokenId]>),
    Many(TokenSet),
}

/// Tokens are stored as a set if they are more than 1/[`FEW`] of the vocabulary.
const FEW: usize = 128;

/// Approximate size of an entry of a hash map, in bytes.
const ENTRY: usize = 64;

/// The spans and masks of one generation of the caches, and the tables for computing them.
pub(crate) struct Spans {
    classes: Arc<CharClasses>,
    paths: Arc<Paths>,
    pool: Arc<Pool>,
    frontiers: Frontiers,
    known: FxHashMap<(FrontierId, Config), Span>,
    tokens: Vec<Arc<Tokens>>,
    token_ids: FxHashMap<Arc<Tokens>, u32>,
    /// Masks, by the indices of their tokens in `tokens` and by whether the output may end.
    masks: FxHashMap<(Box<[u32]>, bool), Arc<TokenSet>>,
    ascii_runs: FxHashMap<Config, AsciiRun>,
    bytes: usize,
    /// Remaining cost budget of the current mask, measured in visited nodes of the trie. Once the
    /// budget is 0, the results of the current mask are incomplete and are discarded.
    cost_budget: usize,
    /// Value of [`Automaton::work`] when the cost budget was last charged.
    work: usize,
    /// Number of masks that exceeded their cost budget.
    failures: usize,
}

/// Minimum cost budget of one mask, measured in visited nodes of the trie. The budget is twice the
/// trie's number of nodes if that is more. Masks of programming languages use at most a quarter of
/// the budget.
const PURSE: usize = 1 << 19;

/// Cost of processing the frames at one frontier, measured in visited nodes of the trie.
const ROW: usize = 200;
/// Cost of copying a set of tokens or nodes, measured in visited nodes of the trie.
const NODES: usize = 1000;

/// Cost of one unit of [`Automaton::work`], measured in visited nodes of the trie.
const PLACE: usize = 2;

/// Number of masks over budget after which all masks of the generation are computed by walks of the
/// whole trie.
const FAILURES: usize = 2;

impl Spans {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        Self {
            classes: CharClasses::of(vocabulary),
            paths: Paths::of(vocabulary),
            pool: Pool::of(vocabulary),
            frontiers: Frontiers::new(vocabulary),
            known: FxHashMap::default(),
            tokens: Vec::new(),
            token_ids: FxHashMap::default(),
            masks: FxHashMap::default(),
            ascii_runs: FxHashMap::default(),
            bytes: 0,
            cost_budget: PURSE,
            work: 0,
            failures: 0,
        }
    }

    /// Returns the text tokens that may follow `config`, together with the tokens in `ends`. `ends`
    /// has the end-of-sequence tokens if the output may end, and is empty otherwise.
    pub(crate) fn mask(
        &mut self,
        automaton: &mut Automaton,
        vocabulary: &Vocabulary,
        config: Config,
        ends: &[TokenId],
    ) -> Arc<TokenSet> {
        self.cost_budget = PURSE.max(2 * vocabulary.trie().len());
        self.work = automaton.work();
        let mut composer = SpanComposer { spans: self, automaton, vocabulary, depth: 0 };
        let Some(used) = composer.used(config) else {
            let found = composer.span_walk(false).over_frontier(FrontierId::ROOT, config);
            let mut mask = found.set.unwrap_or_else(|| self.pool.empty());
            insert_all(&mut mask, found.tokens.iter().chain(ends));
            return Arc::new(mask);
        };
        let key = (used.into_boxed_slice(), !ends.is_empty());
        if let Some(known) = self.masks.get(&key) {
            return Arc::clone(known);
        }
        let mut mask = self.pool.empty();
        for &tokens in &key.0 {
            self.tokens[tokens as usize].add_to(&mut mask);
        }
        insert_all(&mut mask, ends);
        let mask = Arc::new(mask);
        self.bytes += mask.byte_len() + size_of_val(&*key.0) + ENTRY;
        self.masks.insert(key, Arc::clone(&mask));
        mask
    }

    fn intern(&mut self, tokens: Tokens) -> Option<u32> {
        if matches!(&tokens, Tokens::Few(few) if few.is_empty()) {
            return None;
        }
        let next = self.tokens.len() as u32;
        let tokens = Arc::new(tokens);
        let known = *self.token_ids.entry(Arc::clone(&tokens)).or_insert(next);
        if known == next {
            self.bytes += tokens.byte_len() + ENTRY;
            self.tokens.push(tokens);
        }
        Some(known)
    }

    /// Drops this table's references to masks, so that the caller can reuse the memory of masks
    /// that only it still references.
    pub(crate) fn forget_masks(&mut self) {
        self.masks.clear();
    }

    /// Returns the approximate memory of the spans and of the masks that consist of spans, in
    /// bytes.
    pub(crate) fn byte_len(&self) -> usize {
        self.bytes + self.frontiers.byte_len() + self.ascii_runs.len() * 2 * size_of::<(Config, AsciiRun)>()
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        self.token_ids.clear();
        let sets = self.tokens.drain(..).filter_map(|tokens| match Arc::into_inner(tokens) {
            Some(Tokens::Many(set)) => Some(set),
            _ => None,
        });
        self.pool.take_back(sets);
    }
}

/// Computes and composes the spans of one mask.
struct SpanComposer<'a> {
    spans: &'a mut Spans,
    automaton: &'a mut Automaton,
    vocabulary: &'a Vocabulary,
    /// Number of spans that are being computed now. Each is for a call inside the previous one.
    depth: usize,
}

/// Maximum value of [`SpanComposer::depth`], because each level uses stack space. No real token
/// contains as many nested calls.
const DEPTH: usize = 256;

impl SpanComposer<'_> {
    /// Returns the indices in [`Spans::tokens`] of the token collections whose union is the mask of
    /// `config`.
    ///
    /// Returns `None` if a walk of the whole trie is better. This is so if the machine has no
    /// rules, or if the spans exceed the cost budget. The spans exceed the budget for very
    /// ambiguous grammars, in which rules end nearly everywhere.
    fn used(&mut self, config: Config) -> Option<Vec<u32>> {
        if self.spans.failures >= FAILURES {
            return None;
        }
        let mut frames = Vec::new();
        self.automaton.frames(config, &mut frames);
        if frames.is_empty() {
            return None;
        }
        let (used, _) = self.reach(FrontierId::ROOT, frames);
        if self.spans.cost_budget == 0 {
            self.spans.failures += 1;
            return None;
        }
        Some(used)
    }

    /// Charges `cost`, and the cost of the automaton's work since the last charge, to the cost
    /// budget.
    fn pay(&mut self, cost: usize) {
        let work = self.automaton.work();
        let rows = work - std::mem::replace(&mut self.spans.work, work);
        self.spans.cost_budget = self.spans.cost_budget.saturating_sub(cost + PLACE * rows);
    }

    /// Computes the tokens that may follow if the rules in `frames` are at the nodes of `frontier`.
    /// Resumes the callers of rules that end.
    ///
    /// Returns the indices of the tokens in [`Spans::tokens`], sorted. Also returns the frontiers
    /// at which frames without callers have ended.
    fn reach(&mut self, mut frontier: FrontierId, mut frames: Vec<Frame>) -> (Vec<u32>, Vec<FrontierId>) {
        let (mut used, mut ends) = (Vec::new(), Vec::new());
        // For each frontier, the returns of the rules that may end there. The exits of a frontier
        // lie deeper in the trie, so each frontier is processed once.
        let mut ended: BTreeMap<(u32, FrontierId), Vec<u32>> = BTreeMap::new();
        loop {
            self.pay(ROW + frames.len());
            if self.spans.cost_budget == 0 {
                break;
            }
            for frame in frames.drain(..) {
                let span = self.span(frontier, frame.rest);
                used.extend(span.tokens);
                match span.exits {
                    Some(exits) if frame.returns == Frame::NOBODY => ends.push(exits),
                    Some(exits) => {
                        let depth = self.spans.frontiers.depth(exits);
                        ended.entry((depth, exits)).or_default().push(frame.returns);
                    }
                    None => {}
                }
            }
            let Some(((_, next), mut returns)) = ended.pop_first() else { break };
            returns.sort_unstable();
            returns.dedup();
            if self.automaton.callers(&returns, &mut frames) {
                ends.push(next);
            }
            frontier = next;
        }
        used.sort_unstable();
        used.dedup();
        (used, ends)
    }

    fn span(&mut self, frontier: FrontierId, rest: Config) -> Span {
        if let Some(&known) = self.spans.known.get(&(frontier, rest)) {
            return known;
        }
        let model = if frontier == FrontierId::ROOT { self.model(rest) } else { None };
        self.make(frontier, rest, model)
    }

    /// Finds a known span that is similar to the span of `rest`. Returns `None` if using a template
    /// is not cheaper than a walk.
    ///
    /// The template is the span of the config that most tokens reach from `rest` with their first
    /// byte. In the middle of a word, for example, nearly the same tokens may follow as one letter
    /// later. Exceptions are the tokens that complete a keyword.
    fn model(&mut self, rest: Config) -> Option<SpanTemplate> {
        let trie = self.vocabulary.trie();
        let automaton = &mut *self.automaton;
        let plausible = automaton.plausible(rest);
        let children = || trie.children(TrieNode::ROOT);
        let mut weights: FxHashMap<Config, usize> = FxHashMap::default();
        for (byte, child) in children().filter(|&(byte, _)| plausible.contains(byte)) {
            *weights.entry(automaton.step(rest, byte)).or_default() += trie.tokens_below(child).len();
        }
        weights.remove(&Config::DEAD);
        let (&home, &weight) = weights.iter().max_by_key(|&(config, weight)| (*weight, *config))?;
        if home == rest || weight <= self.vocabulary.len() / FEW {
            return None;
        }
        let either = plausible | automaton.plausible(home);
        let mut differs = |byte: u8| {
            let [own, other] = [rest, home].map(|from| {
                if automaton.plausible(from).contains(byte) {
                    automaton.step(from, byte)
                } else {
                    Config::DEAD
                }
            });
            own != other
        };
        let different = children().filter(|&(byte, _)| either.contains(byte) && differs(byte));
        let different: Vec<(u8, TrieNode)> = different.collect();
        let below: usize = different.iter().map(|&(_, node)| trie.tokens_below(node).len()).sum();
        if below >= weight {
            return None;
        }
        let known = self.spans.known.get(&(FrontierId::ROOT, home)).copied();
        let span = known.unwrap_or_else(|| self.make(FrontierId::ROOT, home, None));
        Some(SpanTemplate { span, different })
    }

    fn make(&mut self, frontier: FrontierId, rest: Config, model: Option<SpanTemplate>) -> Span {
        if self.depth == DEPTH || self.spans.cost_budget == 0 {
            self.spans.cost_budget = 0;
            return Span { tokens: None, exits: None };
        }
        self.depth += 1;
        let span = self.make_within(frontier, rest, model);
        self.depth -= 1;
        span
    }

    fn make_within(&mut self, frontier: FrontierId, rest: Config, model: Option<SpanTemplate>) -> Span {
        let trie = self.vocabulary.trie();
        let span_walk = self.span_walk(true);
        let mut found = match &model {
            Some(model) => span_walk.over_children(&model.different, rest),
            None => span_walk.over_frontier(frontier, rest),
        };
        self.pay(found.visits + found.exits.len() / 8 + NODES * usize::from(found.set.is_some()));
        let mut exits = NodeSet::none();
        if let Some(SpanTemplate { span, different }) = model {
            let mut set = self.spans.pool.empty();
            if let Some(tokens) = span.tokens {
                self.spans.tokens[tokens as usize].add_to(&mut set);
            }
            if let Some(frontier) = span.exits {
                self.spans.frontiers.add_to(&mut exits, frontier);
            }
            for (_, node) in different {
                trie.tokens_below(node).iter().for_each(|&token| set.remove(token));
                exits.cut(trie, node);
            }
            found.set = Some(set);
        }
        exits.extend(found.exits.drain(..));
        for (called, nodes) in std::mem::take(&mut found.calls) {
            let Some(frontier) = self.spans.frontiers.intern(trie, NodeSet::Few(nodes)) else { continue };
            let mut frames = Vec::new();
            self.automaton.frames(called, &mut frames);
            let (used, ends) = self.reach(frontier, frames);
            for tokens in used {
                self.add(tokens, &mut found);
            }
            for end in ends {
                self.pay(NODES);
                self.spans.frontiers.add_to(&mut exits, end);
            }
        }
        let tokens = self.spans.intern(found.tokens(self.vocabulary, &self.spans.pool));
        let span = Span { tokens, exits: self.spans.frontiers.intern(trie, exits) };
        if self.spans.cost_budget > 0 {
            self.spans.bytes += ENTRY;
            self.spans.known.insert((frontier, rest), span);
        }
        span
    }

    /// Adds the tokens at index `tokens` of [`Spans::tokens`] to `found`.
    fn add(&self, tokens: u32, found: &mut Found) {
        match (&*self.spans.tokens[tokens as usize], &mut found.set) {
            (Tokens::Few(few), _) => found.tokens.extend(few),
            (Tokens::Many(many), Some(set)) => set.extend(many),
            (Tokens::Many(many), set) => *set = Some(self.spans.pool.copy(many)),
        }
    }

    fn span_walk(&mut self, leaves: bool) -> SpanWalk<'_> {
        let Spans { classes, paths, pool, frontiers, ascii_runs, cost_budget, .. } = &mut *self.spans;
        let allowance = if leaves { *cost_budget } else { usize::MAX };
        let (automaton, trie) = (&mut *self.automaton, self.vocabulary.trie());
        let (open, found) = (Vec::new(), Found::default());
        SpanWalk {
            automaton,
            trie,
            classes,
            paths,
            pool,
            frontiers,
            ascii_runs,
            leaves,
            allowance,
            open,
            found,
        }
    }
}

impl Found {
    fn tokens(mut self, vocabulary: &Vocabulary, pool: &Pool) -> Tokens {
        if self.set.is_none() && self.tokens.len() <= vocabulary.len() / FEW {
            self.tokens.sort_unstable();
            self.tokens.dedup();
            return Tokens::Few(self.tokens.into());
        }
        let mut set = self.set.unwrap_or_else(|| pool.empty());
        insert_all(&mut set, &self.tokens);
        Tokens::Many(set)
    }
}

impl Tokens {
    fn byte_len(&self) -> usize {
        match self {
            Self::Few(tokens) => size_of_val(&**tokens),
            Self::Many(set) => set.byte_len(),
        }
    }

    fn add_to(&self, mask: &mut TokenSet) {
        match self {
            Self::Few(tokens) => insert_all(mask, &**tokens),
            Self::Many(set) => mask.extend(set),
        }
    }
}

fn insert_all<'a>(set: &mut TokenSet, tokens: impl IntoIterator<Item = &'a TokenId>) {
    for &token in tokens {
        set.insert(token);
    }
}
