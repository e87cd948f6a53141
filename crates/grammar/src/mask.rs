//! From a config to the tokens that may come next.
//!
//! A token may come if the machine can step over all of its bytes. The tokens lie in a trie, so what they share is
//! stepped over once; children that the machine finds implausible are not stepped to at all.
//!
//! Where a string may hold any text, stepping is left out: [`Strings`] has the tokens that stay inside as a set, and those
//! that end the string as a small trie of what comes after it. A name that may turn out to be a declared one is such a
//! string but for the few tokens that bring it to its end, which [`Walk::differ`] finds. The same goes for strings that
//! begin within a token. Where any white space may come, tokens are taken without what they have of it in front.
//!
//! All of this is exact; [`plain`] is the walk without it.

use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet, TokenTrie, TrieNode, Vocabulary};

use crate::machine::automaton::Automaton;
use crate::machine::{Config, Part, Text};
use crate::tables::{Inside, Notes, SPACES, Strings};

/// The tokens allowed at `config`: text tokens all of whose bytes can follow, and end-of-sequence where the output may
/// end.
pub(crate) fn compute(
    automaton: &mut Automaton,
    vocabulary: &Vocabulary,
    strings: Option<&Strings>,
    config: Config,
) -> TokenSet {
    let mut mask = vocabulary.empty_set();
    if config == Config::DEAD {
        return mask;
    }
    match strings {
        Some(strings) => mask = Walk::new(automaton, vocabulary, strings).whole(config),
        None => plain(automaton, vocabulary, config, |_, tokens, _| {
            for &token in tokens {
                mask.insert(token);
            }
        }),
    }
    if automaton.accepting(config) {
        for &end in vocabulary.ends() {
            mask.insert(end);
        }
    }
    mask
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

/// A trie to walk, and which of its tokens count.
#[derive(Clone, Copy)]
struct Ground<'a> {
    trie: &'a TokenTrie,
    notes: &'a Notes,
    /// The characters that a token may have before the closing quote that it begins with, where all have one.
    before: Option<(u32, u32)>,
}

/// A walk over the tokens that may follow some config.
struct Walk<'a> {
    automaton: &'a mut Automaton,
    vocabulary: &'a Vocabulary,
    strings: &'a Strings,
    mask: TokenSet,
    /// Nodes whose children are to be looked at.
    open: Vec<(TrieNode, Config)>,
}

impl<'a> Walk<'a> {
    fn new(automaton: &'a mut Automaton, vocabulary: &'a Vocabulary, strings: &'a Strings) -> Self {
        Self { automaton, vocabulary, strings, mask: TokenSet::empty(0), open: Vec::new() }
    }

    /// The tokens that may follow `config`.
    fn whole(mut self, config: Config) -> TokenSet {
        let mut parts = Vec::with_capacity(1);
        self.automaton.parts(config, &mut parts);
        let mut whole: Option<TokenSet> = None;
        for part in parts {
            self.part(part);
            match &mut whole {
                Some(whole) => whole.extend(&self.mask),
                None => whole = Some(std::mem::replace(&mut self.mask, TokenSet::empty(0))),
            }
        }
        whole.unwrap_or_else(|| self.vocabulary.empty_set())
    }

    /// Sets the mask to the tokens that may follow a part.
    fn part(&mut self, part: Part) {
        let strings = self.strings;
        let tokens = Ground { trie: self.vocabulary.trie(), notes: &strings.token_notes, before: None };
        match part {
            Part::Plain(config) => {
                self.mask = self.vocabulary.empty_set();
                if self.skips_spaces(config) {
                    strings.spaced.blank.iter().for_each(|&token| self.mask.insert(token));
                    let notes = &strings.spaced_notes;
                    let ground = Ground { trie: &strings.spaced.trie, notes, before: None };
                    self.walk(ground, config);
                } else {
                    self.walk(tokens, config);
                }
            }
            Part::Text(text) => self.text(text),
            Part::Special { config, text } => {
                self.text(text);
                for (node, after) in self.differ(tokens, TrieNode::ROOT, config) {
                    for &token in tokens.trie.tokens_below(node) {
                        self.mask.remove(token);
                    }
                    self.arrive(tokens, node, after);
                }
                self.run(tokens);
            }
        }
    }

    /// Whether white space changes nothing.
    fn skips_spaces(&mut self, config: Config) -> bool {
        SPACES.iter().all(|&space| self.automaton.step(config, space) == config)
    }

    /// Sets the mask to the tokens that may follow inside a string of any text.
    fn text(&mut self, Text { min, max, after }: Text) {
        let strings = self.strings;
        self.mask = strings.within(max);
        if after == Config::DEAD {
            return;
        }
        let fits = |chars: &u32| (min..=max).contains(chars);
        for (_, token) in strings.closers.iter().filter(|(chars, _)| fits(chars)) {
            self.mask.insert(*token);
        }
        let before = (min > 0 || max < u32::MAX).then_some((min, max));
        self.walk(Ground { trie: &strings.suffixes, notes: &strings.suffix_notes, before }, after);
    }

    /// Adds the tokens of a whole trie.
    fn walk(&mut self, ground: Ground, config: Config) {
        self.open.push((TrieNode::ROOT, config));
        self.run(ground);
    }

    /// Goes on from the open nodes.
    fn run(&mut self, ground: Ground) {
        while let Some((node, config)) = self.open.pop() {
            let plausible = self.automaton.plausible(config);
            for (byte, child) in ground.trie.children(node) {
                if plausible.contains(byte) {
                    let next = self.automaton.step(config, byte);
                    self.arrive(ground, child, next);
                }
            }
        }
    }

    /// At `node`, the machine is in `config`: adds the tokens that end here, and sees to those that go on.
    fn arrive(&mut self, ground: Ground, node: TrieNode, config: Config) {
        if config == Config::DEAD {
            return;
        }
        for &token in ground.trie.tokens_at(node) {
            self.insert(ground, token);
        }
        if !ground.trie.has_children(node) {
            return;
        }
        match ground.notes.inside(node) {
            Some(inside) => self.inside(ground, node, config, inside),
            None => self.open.push((node, config)),
        }
    }

    /// At a node where `config` may be inside a string.
    fn inside(&mut self, ground: Ground, node: TrieNode, config: Config, inside: &Inside) {
        let mut parts = Vec::with_capacity(1);
        self.automaton.parts(config, &mut parts);
        for part in parts {
            match part {
                Part::Plain(config) => self.open.push((node, config)),
                Part::Text(text) => self.text_below(ground, inside, text, &[]),
                Part::Special { config, text } => {
                    let special = self.differ(ground, node, config);
                    self.text_below(ground, inside, text, &special);
                    for (node, after) in special {
                        self.arrive(ground, node, after);
                    }
                }
            }
        }
    }

    /// Adds the tokens that go on in a string of any text, and those that end it, apart from those in `special`.
    fn text_below(
        &mut self,
        ground: Ground,
        inside: &Inside,
        Text { min, max, after }: Text,
        special: &[(TrieNode, Config)],
    ) {
        for token in inside.within(max) {
            self.insert(ground, token);
        }
        for node in inside.ends(min, max) {
            if !special.iter().any(|&(other, _)| other == node) {
                self.arrive(ground, node, after);
            }
        }
    }

    fn insert(&mut self, ground: Ground, token: TokenId) {
        if let Some((min, max)) = ground.before
            && !(min..=max).contains(&self.strings.before(token))
        {
            return;
        }
        self.mask.insert(token);
    }

    /// The nodes below `node`, right after a string's closing quote, where `config` has come to something else than a
    /// string has that was never special, and what it has come to.
    fn differ(&mut self, ground: Ground, node: TrieNode, config: Config) -> Vec<(TrieNode, Config)> {
        let mut different = Vec::new();
        let mut open = vec![(node, config)];
        while let Some((node, config)) = open.pop() {
            let Some(likeness) = self.automaton.likeness(config) else { continue };
            for (byte, child) in ground.trie.children(node) {
                let ends = byte == b'"' || ground.notes.quote_below(child);
                if !ends || !likeness.bytes.contains(byte) {
                    continue;
                }
                let next = self.automaton.step(config, byte);
                if next == self.automaton.step(likeness.other, byte) {
                    continue;
                }
                if next != Config::DEAD && self.automaton.likeness(next).is_some() {
                    open.push((child, next));
                } else {
                    different.push((child, next));
                }
            }
        }
        different
    }
}

/// The tables that masks of this machine need, if any.
pub(crate) fn strings(automaton: &Automaton, vocabulary: &Vocabulary) -> Option<Arc<Strings>> {
    automaton.strings().map(|profile| Strings::of(vocabulary, profile))
}
