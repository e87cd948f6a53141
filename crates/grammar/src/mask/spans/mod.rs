//! Masks of machines that run rules.
//!
//! Such a machine is on its way through some rules at once, each called by another, and what comes after the innermost ones
//! is hardly ever the same twice. But no token reaches far beyond them. So a mask is put together from [`Span`]s: what is
//! left of one rule, by itself, makes of the tokens. Where it ends before the token does, the callers go on from the
//! *frontier*, the nodes of the trie at which that is so, and what they make of it is a span again. So it is with rules that
//! are called on the way. Spans are few, and made once per grammar and vocabulary, whatever the callers are; a mask that
//! comes from the same spans as another is the same.

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

/// What is left of a rule, beginning at a frontier.
#[derive(Clone, Copy)]
struct Span {
    /// The tokens that end within it, or where it does, by their index; `None` if there are none.
    tokens: Option<u32>,
    /// The nodes beyond the frontier at which it may end while tokens go on.
    exits: Option<FrontierId>,
}

/// What is known of a rest from another one.
struct SpanTemplate {
    /// The other one's, from the root.
    span: Span,
    /// First bytes after which the two differ, with their nodes.
    different: Vec<(u8, TrieNode)>,
}

/// Some tokens, in order.
#[derive(PartialEq, Eq, Hash)]
enum Tokens {
    Few(Box<[TokenId]>),
    Many(TokenSet),
}

/// More tokens than one in so many of the vocabulary are kept as a set.
const FEW: usize = 128;

/// Bytes of an entry of a map, roughly.
const ENTRY: usize = 64;

/// The spans of a generation, and what they are made with.
pub(crate) struct Spans {
    classes: Arc<CharClasses>,
    paths: Arc<Paths>,
    pool: Arc<Pool>,
    frontiers: Frontiers,
    known: FxHashMap<(FrontierId, Config), Span>,
    tokens: Vec<Arc<Tokens>>,
    token_ids: FxHashMap<Arc<Tokens>, u32>,
    /// Masks by the tokens that they consist of, and whether the output may end.
    masks: FxHashMap<(Box<[u32]>, bool), Arc<TokenSet>>,
    ascii_runs: FxHashMap<Config, AsciiRun>,
    bytes: usize,
    /// What the spans of a mask may still cost, in nodes of the trie. Nothing that is found once it is used up counts.
    cost_budget: usize,
    /// What the automaton's rows had weighed in all when they were last paid for.
    work: usize,
    /// Masks that cost too much.
    failures: usize,
}

/// What the spans of a mask may cost, or twice the nodes of the trie if these are more. Those of a programming language take a
/// quarter of it at most.
const PURSE: usize = 1 << 19;

/// What a row costs, and a set of nodes.
const ROW: usize = 200;
const NODES: usize = 1000;

/// What a place of a new row costs.
const PLACE: usize = 2;

/// After so many masks that cost too much it is not tried any more.
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

    /// The text tokens that may follow `config`, with those that end the output there.
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

    /// Lets go of the masks, which are kept elsewhere, too.
    pub(crate) fn forget_masks(&mut self) {
        self.masks.clear();
    }

    /// Bytes of memory, roughly, with those of masks that consist of spans.
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

/// The spans with what they are made of.
struct SpanComposer<'a> {
    spans: &'a mut Spans,
    automaton: &'a mut Automaton,
    vocabulary: &'a Vocabulary,
    /// Calls on the way: spans within spans.
    depth: usize,
}

/// Spans within spans go so deep at most, as tokens of more calls do not: for each level there is one on the stack.
const DEPTH: usize = 256;

impl SpanComposer<'_> {
    /// The tokens that a config's mask consists of; `None` where it is better walked to as a whole: in a machine without
    /// rules, and in a grammar so ambiguous that its rules end nearly everywhere, in nearly all ways.
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

    /// Pays a cost, and for the rows that were made since the last time.
    fn pay(&mut self, cost: usize) {
        let work = self.automaton.work();
        let rows = work - std::mem::replace(&mut self.spans.work, work);
        self.spans.cost_budget = self.spans.cost_budget.saturating_sub(cost + PLACE * rows);
    }

    /// All that may follow some frames from a frontier on: the tokens by their indices, in order, and the frontiers at which the
    /// frames that return to nobody have ended.
    fn reach(&mut self, mut frontier: FrontierId, mut frames: Vec<Frame>) -> (Vec<u32>, Vec<FrontierId>) {
        let (mut used, mut ends) = (Vec::new(), Vec::new());
        // By frontier, the returns of the rules that may end there. A frontier's exits lie deeper, so that frontiers are met once.
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

    /// A config to which most tokens lead from `rest`, and then back to itself: in the middle of a word the same may follow
    /// as one letter later, unless a keyword is in the making.
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

    /// Adds known tokens to those found.
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
