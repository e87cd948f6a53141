//! Walks over the part of the token trie that the remaining part of one rule accepts.

use formwork_vocab::{TokenId, TokenSet, TokenTrie, TrieNode};
use rustc_hash::FxHashMap;

use super::frontiers::{FrontierId, Frontiers};
use crate::ByteSet;
use crate::machine::Config;
use crate::machine::automaton::Automaton;
use crate::mask::char_classes::{AsciiRun, CharClasses, Paths};
use crate::mask::tables::Pool;

/// A walk over the trie nodes that one config accepts. The walk starts at a frontier, or at some
/// children of the root.
pub(super) struct SpanWalk<'a> {
    pub(super) automaton: &'a mut Automaton,
    pub(super) trie: &'a TokenTrie,
    pub(super) classes: &'a CharClasses,
    pub(super) paths: &'a Paths,
    pub(super) pool: &'a Pool,
    pub(super) frontiers: &'a Frontiers,
    /// The ASCII run at each config that this walk or an earlier walk has visited.
    pub(super) ascii_runs: &'a mut FxHashMap<Config, AsciiRun>,
    /// True if the walk also collects [`Found::exits`] and [`Found::calls`]. False if the walk
    /// covers the whole output instead of one rule.
    pub(super) leaves: bool,
    /// Number of visited nodes after which the walk stops with an incomplete result.
    pub(super) allowance: usize,
    /// Nodes whose children must still be visited, each with the config at the node.
    pub(super) open: Vec<(TrieNode, Config)>,
    pub(super) found: Found,
}

/// The result of a [`SpanWalk`]. The tokens found are the union of `set` and `tokens`.
#[derive(Default)]
pub(super) struct Found {
    /// Tokens that were found as a whole set; `None` if there is no such set.
    pub(super) set: Option<TokenSet>,
    /// Tokens that were found one by one.
    pub(super) tokens: Vec<TokenId>,
    /// Nodes with children at which the rule may end.
    pub(super) exits: Vec<TrieNode>,
    /// Nodes with children at which other rules are called. The key is the config of the called
    /// rules ([`Automaton::called`]).
    pub(super) calls: FxHashMap<Config, Vec<TrieNode>>,
    /// Number of nodes visited.
    pub(super) visits: usize,
}

impl SpanWalk<'_> {
    /// Walks from the nodes of `frontier`, at which the automaton is in `config`. Returns the
    /// tokens, exits and calls found.
    pub(super) fn over_frontier(mut self, frontier: FrontierId, config: Config) -> Found {
        let tolerance = match (frontier, self.leaves) {
            (FrontierId::ROOT, false) => self.automaton.tolerance(config),
            (FrontierId::ROOT, true) => self.automaton.known_tolerance(config),
            _ => None,
        };
        let Some(tolerance) = tolerance.filter(|tolerance| !self.leaves || tolerance.accepting.is_some())
        else {
            let (plausible, frontiers) = (self.automaton.plausible(config), self.frontiers);
            frontiers.beyond(frontier, self.trie, plausible, |byte, node| {
                let next = self.automaton.step(config, byte);
                self.arrive(node, next);
            });
            return self.finish();
        };
        self.found.set = Some(self.pool.copy(&self.classes.tokens(&tolerance, || self.pool.empty())));
        if self.leaves && tolerance.accepting == Some(true) {
            self.found.exits = self.paths.along(&tolerance);
        }
        let beyond = self.classes.beyond(self.automaton, self.trie, config, (&tolerance, ByteSet::ALL));
        for (node, next) in beyond.tolerated {
            self.found.tokens.extend(self.trie.tokens_at(node));
            if self.trie.has_children(node) {
                self.leave(node, next);
            }
        }
        for (_, node, next) in beyond.left {
            self.arrive(node, next);
        }
        self.finish()
    }

    /// Walks over `children`, which are children of the root with their bytes. At the root, the
    /// automaton is in `config`. Returns the tokens, exits and calls found.
    pub(super) fn over_children(mut self, children: &[(u8, TrieNode)], config: Config) -> Found {
        let plausible = self.automaton.plausible(config);
        for &(byte, child) in children.iter().filter(|&&(byte, _)| plausible.contains(byte)) {
            let next = self.automaton.step(config, byte);
            self.arrive(child, next);
        }
        self.finish()
    }

    fn finish(mut self) -> Found {
        while let Some((node, config)) = self.open.pop() {
            if self.found.visits > self.allowance {
                break;
            }
            let plausible = self.automaton.plausible(config);
            for (byte, child) in self.trie.children(node).filter(|&(byte, _)| plausible.contains(byte)) {
                let next = self.automaton.step(config, byte);
                self.arrive(child, next);
            }
        }
        self.found
    }

    fn arrive(&mut self, node: TrieNode, config: Config) {
        self.found.visits += 1;
        if config == Config::DEAD {
            return;
        }
        if !self.trie.has_children(node) {
            self.found.tokens.extend(self.trie.tokens_at(node));
            return;
        }
        self.leave(node, config);
        let ascii_run = self.ascii_run(config);
        if self.classes.goes_along(node, ascii_run) && (!self.leaves || ascii_run.accepting().is_some()) {
            self.found.tokens.extend(self.trie.tokens_below(node));
            if self.leaves && ascii_run.accepting() == Some(true) {
                let below = self.trie.nodes_below(node).map(TrieNode::from_index);
                self.found.exits.extend(below.filter(|&node| self.trie.has_children(node)));
            }
            return;
        }
        self.found.tokens.extend(self.trie.tokens_at(node));
        self.open.push((node, config));
    }

    /// Adds `node` to the exits if the rule may end at `config`, and to the calls if other rules
    /// are called at `config`.
    fn leave(&mut self, node: TrieNode, config: Config) {
        if !self.leaves {
            return;
        }
        let called = self.automaton.called(config);
        if self.automaton.accepting(config) || called.is_some_and(|called| self.automaton.accepting(called)) {
            self.found.exits.push(node);
        }
        if let Some(called) = called {
            self.found.calls.entry(called).or_default().push(node);
        }
    }

    fn ascii_run(&mut self, config: Config) -> AsciiRun {
        if let Some(&known) = self.ascii_runs.get(&config) {
            return known;
        }
        let ascii_run = AsciiRun::new(self.automaton.known_tolerance(config));
        self.ascii_runs.insert(config, ascii_run);
        ascii_run
    }
}
