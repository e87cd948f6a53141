//! Computes the masks of machines that read JSON, with tables instead of most steps.
//!
//! Inside a string of any text, [`Strings`] has the tokens that stay inside as a set. The tokens
//! that end the string form a small trie of their bytes after the closing quote. A name counts as a
//! string of any text, except for the few tokens that complete a declared name. [`Walk::differ`]
//! finds these tokens. Strings that begin inside a token are handled in the same way. Where white
//! space makes no difference, tokens are looked up without their leading white space.
//!
//! The masks are exact. Each token is tested by the machine's own steps, or by the steps of a
//! config that the machine declares to be equivalent ([`ConfigPart`]).

mod raw_text_masks;

use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet, TokenTrie, TrieNode, Vocabulary};
use raw_text_masks::{RawTextMasks, SharedText};
use rustc_hash::FxHashMap;

use crate::machine::automaton::Automaton;
use crate::machine::{Config, ConfigPart, Text};
use crate::mask::char_classes::CharClasses;
use crate::mask::tables::{Inside, Notes, Pool, SPACES, STARTS, Strings};
use crate::{ByteSet, Profile};

/// Tables of the vocabulary, and masks that walks share.
pub(crate) struct TextMasks {
    strings: Arc<Strings>,
    classes: Arc<CharClasses>,
    /// Masks inside strings with any number of any characters, by the config after the closing
    /// quote.
    free: Kept,
    /// Masks of the configs that [`ConfigPart::Equivalent`] names as `other`.
    likes: Kept,
    /// Masks of the texts that [`ConfigPart::Shared`] names as `alone`, by config.
    shared: FxHashMap<Config, SharedText>,
    /// Masks of such texts that all grammars of the vocabulary share.
    raw: Arc<RawTextMasks>,
}

/// By config: a mask, and the tokens of the mask that each user of the mask must test one by one.
type Kept = FxHashMap<Config, (Arc<TokenSet>, Undecided)>;

/// Groups of tokens whose result was taken from an equivalent config, although it may differ. They
/// must be tested one by one.
#[derive(Clone, Copy, Default)]
struct Undecided {
    /// True if the tokens in [`Strings::repeats`] must be tested.
    repeats: bool,
    /// True if the tokens of the mask that contain a complete name ([`Strings::names`]) must be
    /// tested.
    names: bool,
}

impl Undecided {
    fn add(&mut self, other: Self) {
        self.repeats |= other.repeats;
        self.names |= other.names;
    }
}

impl TextMasks {
    pub(crate) fn new(vocabulary: &Vocabulary, profile: Profile) -> Self {
        Self {
            strings: Strings::of(vocabulary, profile),
            classes: CharClasses::of(vocabulary),
            free: FxHashMap::default(),
            likes: FxHashMap::default(),
            shared: FxHashMap::default(),
            raw: RawTextMasks::of(vocabulary),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.free.clear();
        self.likes.clear();
        self.shared.clear();
    }

    /// Returns the approximate memory of the masks, in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        let kept = self.free.values().chain(self.likes.values()).map(|(mask, _)| mask);
        let mut masks = kept.chain(self.shared.values().map(|text| &text.mask));
        let count = self.free.len() + self.likes.len() + self.shared.len();
        let ends: usize = self.shared.values().map(|text| size_of_val(&*text.ends)).sum();
        masks.next().map_or(0, |mask| count * mask.byte_len()) + ends
    }
}

/// Computes one mask: a walk over the tokens that may follow a config.
pub(crate) struct Walk<'a> {
    automaton: &'a mut Automaton,
    vocabulary: &'a Vocabulary,
    strings: &'a Strings,
    classes: &'a CharClasses,
    texts: &'a mut Kept,
    likes: &'a mut Kept,
    shared: &'a mut FxHashMap<Config, SharedText>,
    raw: &'a RawTextMasks,
    pool: &'a Pool,
    /// Nodes whose children must still be visited, each with the config at the node.
    open: Vec<(TrieNode, Config)>,
    /// Nodes that may have an entry in [`Notes`], each with the config at the node.
    noted: Vec<(TrieNode, Config)>,
    /// Tokens to test one by one at the end.
    undecided: Undecided,
    /// True while a mask for [`TextMasks::likes`] is computed.
    is_like: bool,
    /// The ends of a [`SharedText`] that is being computed.
    ends: Option<Vec<TrieNode>>,
}

/// A trie to walk, the notes about its nodes, and a filter for its tokens.
#[derive(Clone, Copy)]
struct TrieView<'a> {
    trie: &'a TokenTrie,
    notes: &'a Notes,
    keep: TokenFilter<'a>,
}

/// The tokens of a trie that a walk adds to the mask.
#[derive(Clone, Copy)]
enum TokenFilter<'a> {
    All,
    Of(&'a TokenSet),
    /// Tokens with `min` to `max` characters before the closing quote.
    Chars {
        min: u32,
        max: u32,
        strings: &'a Strings,
    },
}

impl TokenFilter<'_> {
    fn contains(self, token: TokenId) -> bool {
        match self {
            Self::All => true,
            Self::Of(set) => set.contains(token),
            Self::Chars { min, max, strings } => (min..=max).contains(&strings.before(token)),
        }
    }
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        automaton: &'a mut Automaton,
        vocabulary: &'a Vocabulary,
        TextMasks { strings, classes, free: texts, likes, shared, raw }: &'a mut TextMasks,
        pool: &'a Pool,
    ) -> Self {
        let (open, noted) = (Vec::new(), Vec::new());
        Self {
            automaton,
            vocabulary,
            strings,
            classes,
            texts,
            likes,
            shared,
            raw,
            pool,
            open,
            noted,
            undecided: Undecided::default(),
            is_like: false,
            ends: None,
        }
    }

    /// Returns the text tokens that may follow `config`.
    pub(crate) fn mask(mut self, config: Config) -> Arc<TokenSet> {
        let strings = self.strings;
        let mut parts = Vec::with_capacity(1);
        self.automaton.parts(config, &mut parts);
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return Arc::new(self.pool.empty()) };
        let mut mask = self.part(strings, first);
        for part in parts {
            let more = self.part(strings, part);
            Arc::make_mut(&mut mask).extend(&more);
        }
        if self.undecided.repeats {
            self.decide(config, &strings.repeats, Arc::make_mut(&mut mask));
        }
        if self.undecided.names {
            self.remove_repeated_names(config, &mut mask);
        }
        mask
    }

    /// Tests the tokens that may repeat a name of an object. Removes a token from `mask` if it does
    /// repeat a name.
    fn remove_repeated_names(&mut self, config: Config, mask: &mut Arc<TokenSet>) {
        let mut tokens = Vec::new();
        self.automaton.add_repeating(config, &self.strings.names, &mut tokens);
        for token in tokens {
            if mask.contains(token)
                && self.automaton.run(config, self.vocabulary.bytes(token)) == Config::DEAD
            {
                Arc::make_mut(mask).remove(token);
            }
        }
    }

    /// Tests each of `tokens` with steps from `config`. Adds the token to `mask` if it may follow,
    /// and removes it otherwise.
    fn decide(&mut self, config: Config, tokens: &[TokenId], mask: &mut TokenSet) {
        for &token in tokens {
            if self.automaton.run(config, self.vocabulary.bytes(token)) == Config::DEAD {
                mask.remove(token);
            } else {
                mask.insert(token);
            }
        }
    }

    fn part(&mut self, strings: &'a Strings, part: ConfigPart) -> Arc<TokenSet> {
        match part {
            ConfigPart::Plain(config) => self.plain_like(strings, config),
            ConfigPart::Text(text) => self.text(strings, text),
            ConfigPart::Special { config, text } => {
                self.undecided.names = true;
                let ordinary = self.text(strings, text);
                let different = self.differ(self.tokens(), TrieNode::ROOT, config, true);
                self.except(ordinary, different)
            }
            ConfigPart::Equivalent { config, other, names, within } => {
                let ordinary = self.like(strings, other);
                self.undecided.add(Undecided { repeats: !names, names });
                if !within {
                    return ordinary;
                }
                let different = self.differ(self.tokens(), TrieNode::ROOT, config, false);
                self.except(ordinary, different)
            }
            ConfigPart::Shared { config, alone } => self.resumed(config, alone),
        }
    }

    /// Turns `mask` and `ends`, which are those of `other`, into those of `config`. Visits only tokens with
    /// bytes that lead to different configs. `bytes` are the first bytes of these tokens.
    fn diverge(&mut self, (config, other): (Config, Config), bytes: ByteSet, mask: &mut TokenSet) {
        let tokens = self.tokens();
        let trie = tokens.trie;
        let mut pairs = vec![(TrieNode::ROOT, config, other, bytes)];
        while let Some((node, config, other, bytes)) = pairs.pop() {
            for (byte, child) in trie.children(node).filter(|&(byte, _)| bytes.contains(byte)) {
                let [next, known] = [config, other].map(|from| {
                    let next = self.automaton.step(from, byte);
                    let plain = self.automaton.without_names(next);
                    self.undecided.names |= plain != next;
                    plain
                });
                if next == known {
                    continue;
                }
                if next != Config::DEAD && known != Config::DEAD {
                    if trie.has_children(child) {
                        self.change_end(child, (next, known));
                        let bytes = self.automaton.plausible(next) | self.automaton.plausible(known);
                        pairs.push((child, next, known, bytes));
                    }
                    continue;
                }
                for &token in trie.tokens_below(child) {
                    mask.remove(token);
                }
                let below = trie.nodes_below(child);
                if let Some(ends) = &mut self.ends {
                    ends.retain(|&end| end != child && !below.contains(&end.index()));
                }
                self.arrive(tokens, (child, next), byte == b'"' || node == TrieNode::ROOT, mask);
            }
        }
        self.run(tokens, mask);
    }

    /// Adds a node to `ends` or removes it if the text may end at only one of the two configs. The node gets
    /// the first config instead of the second.
    fn change_end(&mut self, node: TrieNode, (config, before): (Config, Config)) {
        let Some(ends) = &mut self.ends else { return };
        match (self.automaton.accepting(config), self.automaton.accepting(before)) {
            (true, false) => ends.push(node),
            (false, true) => ends.retain(|&end| end != node),
            _ => {}
        }
    }

    /// Returns the mask of `config`, which other configs are equivalent to. Computes each such mask
    /// once.
    fn like(&mut self, strings: &'a Strings, config: Config) -> Arc<TokenSet> {
        if let Some((known, undecided)) = self.likes.get(&config) {
            self.undecided.add(*undecided);
            return Arc::clone(known);
        }
        let before = std::mem::take(&mut self.undecided);
        let was_like = std::mem::replace(&mut self.is_like, true);
        let mut parts = Vec::with_capacity(1);
        self.automaton.parts(config, &mut parts);
        let mask = if parts.iter().any(|part| matches!(part, ConfigPart::Equivalent { .. })) {
            Arc::new(self.plain(config))
        } else {
            let masks = parts.into_iter().map(|part| self.part(strings, part));
            let union = masks.reduce(|mut all, more| {
                Arc::make_mut(&mut all).extend(&more);
                all
            });
            union.unwrap_or_else(|| Arc::new(self.pool.empty()))
        };
        self.is_like = was_like;
        self.likes.insert(config, (Arc::clone(&mask), self.undecided));
        self.undecided.add(before);
        mask
    }

    /// Returns the view for walking all tokens from their first byte.
    fn tokens(&self) -> TrieView<'a> {
        TrieView { trie: self.vocabulary.trie(), notes: &self.strings.token_notes, keep: TokenFilter::All }
    }

    /// Returns the tokens that may follow `config`, without looking at the parts of the config. Derives
    /// them from the tokens of a counterpart, if there is one.
    fn plain_like(&mut self, strings: &'a Strings, config: Config) -> Arc<TokenSet> {
        // The counterpart may have a part with the same counterpart.
        let counterpart = if self.is_like { None } else { self.automaton.counterpart(config) };
        let Some((other, bytes)) = counterpart else { return Arc::new(self.plain(config)) };
        let ordinary = self.like(strings, other);
        let mut mask = self.pool.copy(&ordinary);
        self.diverge((config, other), bytes, &mut mask);
        Arc::new(mask)
    }

    /// Computes the tokens that may follow `config` with tolerances and steps, without looking at
    /// the parts of the config.
    fn plain(&mut self, config: Config) -> TokenSet {
        let tolerance = self.automaton.tolerance(config);
        let mut mask = match tolerance {
            Some(tolerance) => self.pool.copy(&self.classes.tokens(&tolerance, || self.pool.empty())),
            None => self.pool.empty(),
        };
        let mut first = ByteSet::ALL;
        // The ends of a shared text are nodes of the vocabulary's trie, not of the trie after white space.
        let after_spaces = if self.ends.is_none() { self.after_spaces(config) } else { None };
        if let Some(after) = after_spaces {
            let strings = self.strings;
            let spaced = &*strings.spaced;
            let keep = if after == config { TokenFilter::All } else { TokenFilter::Of(&spaced.led) };
            let ground = TrieView { trie: &spaced.trie, notes: &strings.spaced_notes, keep };
            for &token in &spaced.blank {
                mask.insert(token);
            }
            self.open.push((TrieNode::ROOT, after));
            self.run(ground, &mut mask);
            if after == config {
                return mask;
            }
            first = ByteSet::ALL.without(&SPACES);
        }
        match tolerance {
            Some(tolerance) => {
                let trie = self.vocabulary.trie();
                let beyond = self.classes.beyond(self.automaton, trie, config, (&tolerance, first));
                self.undecided.names |= beyond.forgets;
                let tolerated = beyond.tolerated.into_iter().flat_map(|(node, _)| trie.tokens_at(node));
                tolerated.for_each(|&token| mask.insert(token));
                for (byte, node, next) in beyond.left {
                    self.arrive(self.tokens(), (node, next), byte == b'"', &mut mask);
                }
            }
            None => self.expand(self.tokens(), (TrieNode::ROOT, config), first, &mut mask),
        }
        self.run(self.tokens(), &mut mask);
        mask
    }

    /// Returns the config after one white-space byte, if further white space does not change it.
    ///
    /// Returns `None` in all other cases, and if bytes other than white space and [`STARTS`] may
    /// follow there.
    fn after_spaces(&mut self, config: Config) -> Option<Config> {
        let after = self.automaton.step(config, SPACES[0]);
        let mut ends_there = |config| SPACES.iter().all(|&space| self.automaton.step(config, space) == after);
        if after == Config::DEAD || !ends_there(config) || !ends_there(after) {
            return None;
        }
        let others = self.automaton.plausible(after).without(&SPACES).without(&STARTS);
        others.is_empty().then_some(after)
    }

    /// Returns the tokens that may follow inside the string that `text` describes.
    fn text(&mut self, strings: &'a Strings, text: Text) -> Arc<TokenSet> {
        let free = strings.is_free(text.min, text.max);
        if free && let Some((known, undecided)) = self.texts.get(&text.after) {
            self.undecided.add(*undecided);
            return Arc::clone(known);
        }
        let before = std::mem::take(&mut self.undecided);
        let Text { min, max, after } = text;
        let mut mask = self.pool.copy(strings.within(max));
        strings.cut(max, &mut mask);
        let keep = if free { TokenFilter::All } else { TokenFilter::Chars { min, max, strings } };
        if after != Config::DEAD {
            for &token in strings.closers.iter().filter(|&&token| keep.contains(token)) {
                mask.insert(token);
            }
            let ground = TrieView { trie: &strings.suffixes, notes: &strings.suffix_notes, keep };
            self.open.push((TrieNode::ROOT, after));
            self.run(ground, &mut mask);
        }
        let mask = Arc::new(mask);
        if free {
            self.texts.insert(after, (Arc::clone(&mask), self.undecided));
        }
        self.undecided.add(before);
        mask
    }

    /// Returns a copy of `tokens` in which the tokens below the nodes in `different` are computed
    /// anew, from the config given with each node.
    fn except(&mut self, tokens: Arc<TokenSet>, different: Vec<(TrieNode, Config)>) -> Arc<TokenSet> {
        if different.is_empty() {
            return tokens;
        }
        let ground = self.tokens();
        let mut mask = self.pool.copy(&tokens);
        for &(node, _) in &different {
            for &token in ground.trie.tokens_below(node) {
                mask.remove(token);
            }
        }
        for at in different {
            self.arrive(ground, at, false, &mut mask);
        }
        self.run(ground, &mut mask);
        Arc::new(mask)
    }

    /// Visits all nodes in `open` and `noted`, which are nodes of the trie of `ground`, and adds
    /// their tokens to `mask`.
    fn run(&mut self, ground: TrieView, mask: &mut TokenSet) {
        loop {
            while let Some(at) = self.open.pop() {
                self.expand(ground, at, ByteSet::ALL, mask);
            }
            let Some((node, config)) = self.noted.pop() else { break };
            match ground.notes.inside(node) {
                Some(inside) => self.enter(ground, (node, config), inside, mask),
                None => self.open.push((node, config)),
            }
        }
    }

    /// Steps from a node to each child whose byte is in `among`, and calls [`arrive`](Self::arrive)
    /// there.
    fn expand(
        &mut self,
        ground: TrieView,
        (node, config): (TrieNode, Config),
        among: ByteSet,
        mask: &mut TokenSet,
    ) {
        let plausible = self.automaton.plausible(config) & among;
        for (byte, child) in ground.trie.children(node).filter(|&(byte, _)| plausible.contains(byte)) {
            let next = self.automaton.step(config, byte);
            // A name matters only to tokens that hold the complete name. These tokens are tested
            // later, so all names share one config here.
            let plain = self.automaton.without_names(next);
            self.undecided.names |= plain != next;
            self.arrive(ground, (child, plain), byte == b'"' || node == TrieNode::ROOT, mask);
        }
    }

    /// Adds the tokens that end at `node` to `mask`. The machine is in `config` there. If the node
    /// has children, queues the node: in the field `noted` if the argument `noted` is true, and in
    /// `open` otherwise.
    fn arrive(
        &mut self,
        ground: TrieView,
        (node, config): (TrieNode, Config),
        noted: bool,
        mask: &mut TokenSet,
    ) {
        if config == Config::DEAD {
            return;
        }
        for &token in ground.trie.tokens_at(node) {
            if ground.keep.contains(token) {
                mask.insert(token);
            }
        }
        if ground.trie.has_children(node) {
            if let Some(ends) = &mut self.ends
                && self.automaton.accepting(config)
            {
                ends.push(node);
            }
            if noted { self.noted.push((node, config)) } else { self.open.push((node, config)) }
        }
    }

    /// Adds the tokens below a node that may lie between two characters of a string. Strings of any
    /// text use the precomputed `inside`. All other parts of the config queue the node in `open`.
    fn enter(&mut self, ground: TrieView, at: (TrieNode, Config), inside: &Inside, mask: &mut TokenSet) {
        let mut parts = Vec::with_capacity(1);
        self.automaton.parts(at.1, &mut parts);
        for part in parts {
            let (text, special) = match part {
                ConfigPart::Plain(config) | ConfigPart::Shared { config, .. } => {
                    self.open.push((at.0, config));
                    continue;
                }
                ConfigPart::Text(text) => (text, Vec::new()),
                ConfigPart::Special { config, text } => {
                    self.undecided.names = true;
                    (text, self.differ(ground, at.0, config, true))
                }
                ConfigPart::Equivalent { config, other, names, .. } => {
                    self.undecided.add(Undecided { repeats: !names, names });
                    match self.alike(ground, (at.0, config), other) {
                        Some(text) => text,
                        None => continue,
                    }
                }
            };
            for token in inside.within(text.max).filter(|&token| ground.keep.contains(token)) {
                mask.insert(token);
            }
            for node in inside.ends(text.min, text.max) {
                let other = special.iter().find(|&&(other, _)| other == node);
                self.arrive(ground, *other.unwrap_or(&(node, text.after)), false, mask);
            }
        }
    }

    /// Handles a node whose config is equivalent to `other`, except inside some strings.
    ///
    /// If `other` consists of a single [`ConfigPart::Text`], returns its text, and the nodes and
    /// configs of the exceptions. Otherwise queues the node and returns `None`.
    fn alike(
        &mut self,
        ground: TrieView,
        at: (TrieNode, Config),
        other: Config,
    ) -> Option<(Text, Vec<(TrieNode, Config)>)> {
        let different = self.differ(ground, at.0, at.1, false);
        let mut parts = Vec::with_capacity(1);
        self.automaton.parts(other, &mut parts);
        match parts[..] {
            [ConfigPart::Text(text)] if different.iter().all(|(_, config)| *config != Config::DEAD) => {
                return Some((text, different));
            }
            _ if different.is_empty() => self.noted.push((at.0, other)),
            _ => self.open.push(at),
        }
        None
    }

    /// Returns the nodes below `node` at which `config` first differs from its equivalent config
    /// ([`Machine::equivalent_config`](crate::machine::Machine::equivalent_config)).
    ///
    /// Each node comes with the config that the bytes from `node` lead to. The two configs usually
    /// differ right after the closing quote of a string. If `ends` is true, they cannot differ
    /// earlier, so subtrees without a quote are skipped.
    fn differ(
        &mut self,
        ground: TrieView,
        node: TrieNode,
        config: Config,
        ends: bool,
    ) -> Vec<(TrieNode, Config)> {
        let mut different = Vec::new();
        let mut open = vec![(node, config)];
        while let Some((node, config)) = open.pop() {
            let Some(equivalent_config) = self.automaton.equivalent_config(config) else { continue };
            for (byte, child) in ground.trie.children(node) {
                let quote = || byte == b'"' || ground.notes.quote_below(child);
                if (ends && !quote()) || !equivalent_config.bytes.contains(byte) {
                    continue;
                }
                let named = self.automaton.step(config, byte);
                let other = self.automaton.step(equivalent_config.other, byte);
                // One thread may know that the name is new, while another thread still reads a
                // declared name. The first must not hide the second.
                let next = self.automaton.without_names(named);
                if named == other || next == other {
                    continue;
                }
                if next != Config::DEAD && self.automaton.equivalent_config(next).is_some() {
                    open.push((child, next));
                } else {
                    different.push((child, next));
                }
            }
        }
        different
    }
}
