//! A machine with its steps remembered.

use formwork_vocab::{TokenId, Vocabulary};

use super::{Config, ConfigPart, EquivalentConfig, Frame, Machine, Tolerance, probe};
use crate::mask::named_tokens::NamedTokens;
use crate::tokens::{TEXT, TokenEdges, is_lead, spelling};
use crate::{ByteSet, Profile};

/// In a block: this step has not been made yet.
const UNKNOWN: u32 = u32::MAX - 1;

/// In a row: none of these steps has been made yet.
const NO_BLOCK: u32 = u32::MAX;

/// A [`Machine`] that makes each step once.
///
/// The steps from a config are kept in blocks of 16 bytes of input, so that a config of which a few steps are asked costs a
/// few cache lines and not a kilobyte.
pub(crate) struct Automaton {
    machine: Box<dyn Machine>,
    /// By config.
    rows: Vec<Row>,
    blocks: Vec<[u32; BLOCK]>,
    start: Config,
    /// What the machine's token terminals stand for.
    edges: TokenEdges,
}

/// Bytes of input per block.
const BLOCK: usize = 16;

/// Places of a config that cost as much as a config does.
const PLACES: usize = 4;

#[derive(Clone)]
struct Row {
    /// By byte over [`BLOCK`], where the block is.
    blocks: [u32; 256 / BLOCK],
    /// Bytes of text that may lead on, and whether a token terminal may.
    plausible: Option<(ByteSet, bool)>,
    /// The config without names.
    unnamed: u32,
}

/// The row of a config about which nothing has been asked.
const EMPTY_ROW: Row = Row { blocks: [NO_BLOCK; 256 / BLOCK], plausible: None, unnamed: UNKNOWN };

impl Automaton {
    pub(crate) fn new(mut machine: Box<dyn Machine>) -> Self {
        let start = machine.start();
        Self { machine, rows: Vec::new(), blocks: Vec::new(), start, edges: TokenEdges::default() }
    }

    /// The same with tokens for the token terminals.
    pub(crate) fn with_edges(self, edges: TokenEdges) -> Self {
        Self { edges, ..self }
    }

    pub(crate) const fn start(&self) -> Config {
        self.start
    }

    /// The config after `byte`. `config` must not be dead.
    #[inline]
    pub(crate) fn step(&mut self, config: Config, byte: u8) -> Config {
        let (block, at) = (usize::from(byte) / BLOCK, usize::from(byte) % BLOCK);
        let row = self.rows.get(config.0 as usize);
        let known = row.and_then(|row| self.blocks.get(row.blocks[block] as usize)).map(|block| block[at]);
        match known {
            Some(next) if next != UNKNOWN => Config(next),
            _ => self.step_cold(config, byte),
        }
    }

    #[cold]
    fn step_cold(&mut self, config: Config, byte: u8) -> Config {
        let next = self.machine.step(config, byte);
        let (block, at) = (usize::from(byte) / BLOCK, usize::from(byte) % BLOCK);
        let fresh = self.blocks.len() as u32;
        let index = &mut self.row(config).blocks[block];
        if *index == NO_BLOCK {
            *index = fresh;
            self.blocks.push([UNKNOWN; BLOCK]);
        }
        let index = self.row(config).blocks[block];
        self.blocks[index as usize][at] = next.0;
        next
    }

    fn row(&mut self, config: Config) -> &mut Row {
        let index = config.0 as usize;
        if index >= self.rows.len() {
            self.rows.resize(index + 1, EMPTY_ROW);
        }
        &mut self.rows[index]
    }

    /// A set of bytes that holds all those of text which lead on.
    pub(crate) fn plausible(&mut self, config: Config) -> ByteSet {
        self.plausible_and_tokens(config).0
    }

    /// The same with the bytes of which token terminals' spellings consist.
    pub(crate) fn plausible_with_spellings(&self, config: Config) -> ByteSet {
        self.machine.plausible(config)
    }

    /// Whether a token terminal may lead on.
    pub(crate) fn takes_tokens(&mut self, config: Config) -> bool {
        self.plausible_and_tokens(config).1
    }

    fn plausible_and_tokens(&mut self, config: Config) -> (ByteSet, bool) {
        if let Some(known) = self.row(config).plausible {
            return known;
        }
        let plausible = self.machine.plausible(config);
        let text = plausible & TEXT;
        let known = (text, text != plausible);
        self.row(config).plausible = Some(known);
        known
    }

    /// The config after the token terminal with an index.
    pub(crate) fn terminal(&mut self, config: Config, index: usize) -> Config {
        let [lead, rest] = spelling(index);
        match self.step(config, lead) {
            Config::DEAD => Config::DEAD,
            next => self.step(next, rest),
        }
    }

    /// What the token terminals stand for.
    pub(crate) const fn edges(&self) -> &TokenEdges {
        &self.edges
    }

    /// The configs after the token terminals that may follow, by index.
    pub(crate) fn terminals(&mut self, config: Config) -> Vec<(usize, Config)> {
        if self.edges.is_empty() || !self.takes_tokens(config) {
            return Vec::new();
        }
        let indices: Vec<usize> = self.edges.iter().map(|(index, _)| index).collect();
        let next = indices.into_iter().map(|index| (index, self.terminal(config, index)));
        next.filter(|&(_, next)| next != Config::DEAD).collect()
    }

    /// The config after a token, dead when it may not follow.
    pub(crate) fn after(&mut self, config: Config, token: TokenId, vocabulary: &Vocabulary) -> Config {
        if config == Config::DEAD {
            return Config::DEAD;
        }
        let bytes = if vocabulary.kind(token).is_text() { vocabulary.bytes(token) } else { &[] };
        let text = if bytes.is_empty() { Config::DEAD } else { self.run(config, bytes) };
        let mut ways: Vec<Config> = self
            .terminals(config)
            .into_iter()
            .filter_map(|(index, next)| {
                self.edges.tokens(index).filter(|tokens| tokens.contains(token)).map(|_| next)
            })
            .collect();
        if ways.is_empty() {
            return text;
        }
        ways.extend(Some(text).filter(|&text| text != Config::DEAD));
        match *ways {
            [only] => only,
            _ => self.machine.join(&ways),
        }
    }

    /// What may follow a config, in words.
    pub(crate) fn expected(&mut self, config: Config) -> Vec<String> {
        let following = self.following(config);
        self.machine.expected(config, following)
    }

    pub(crate) fn strings(&self) -> Option<Profile> {
        self.machine.strings()
    }

    pub(crate) fn parts(&mut self, config: Config, parts: &mut Vec<ConfigPart>) {
        self.machine.parts(config, parts);
    }

    pub(crate) fn frames(&mut self, config: Config, frames: &mut Vec<Frame>) {
        self.machine.frames(config, frames);
    }

    pub(crate) fn called(&mut self, config: Config) -> Option<Config> {
        self.machine.called(config)
    }

    pub(crate) fn callers(&mut self, returns: &[u32], frames: &mut Vec<Frame>) -> bool {
        self.machine.callers(returns, frames)
    }

    pub(crate) fn equivalent_config(&mut self, config: Config) -> Option<EquivalentConfig> {
        self.machine.equivalent_config(config)
    }

    /// The config without the names that must not come again, where that is as good for tokens without whole names.
    #[inline]
    pub(crate) fn without_names(&mut self, config: Config) -> Config {
        if config == Config::DEAD {
            return config;
        }
        match self.rows.get(config.index()).map(|row| row.unnamed) {
            Some(known) if known != UNKNOWN => Config(known),
            _ => {
                let unnamed = self.machine.without_names(config);
                self.row(config).unnamed = unnamed.0;
                unnamed
            }
        }
    }

    /// Adds the tokens that may repeat a name of an object, except those told by a equivalent_config.
    pub(crate) fn add_repeating(&self, config: Config, named: &NamedTokens, tokens: &mut Vec<TokenId>) {
        self.machine.add_repeating(config, named, tokens);
    }

    /// Some text that may follow whatever it is, where much of it can.
    pub(crate) fn tolerance(&mut self, config: Config) -> Option<Tolerance> {
        let known = self.known_tolerance(config);
        if known.is_some() || self.machine.tells_tolerance(config) {
            return known;
        }
        probe::tolerance(self, config)
    }

    /// The same, but only what the machine says of itself.
    pub(crate) fn known_tolerance(&mut self, config: Config) -> Option<Tolerance> {
        self.machine.tolerance(config)
    }

    /// The config after all of `bytes`, dead as soon as one of them cannot follow.
    pub(crate) fn run(&mut self, config: Config, bytes: &[u8]) -> Config {
        let mut at = config;
        for &byte in bytes {
            if at == Config::DEAD {
                break;
            }
            at = if is_lead(byte) { Config::DEAD } else { self.step(at, byte) };
        }
        at
    }

    pub(crate) fn accepting(&self, config: Config) -> bool {
        self.machine.accepting(config)
    }

    pub(crate) fn closing_len(&self, config: Config) -> u32 {
        self.machine.closing_len(config)
    }

    /// Returns a shortest completion.
    pub(crate) fn closing(&mut self, config: Config) -> Vec<u8> {
        self.machine.closing(config)
    }

    /// The first byte of some shortest completion of a config that is not accepting.
    pub(crate) fn closing_byte(&self, config: Config) -> u8 {
        self.machine.closing_byte(config)
    }

    /// Returns the cost of a config: one, and its share of the places that it consists of.
    ///
    /// The cost depends on the config alone, so a limit of cost does not depend on what is cached. A unit is about a
    /// microsecond and half a kilobyte.
    pub(crate) fn cost(&self, config: Config) -> usize {
        1 + self.machine.weight(config) / PLACES
    }

    /// The weights of all configs that were made so far.
    pub(crate) fn work(&self) -> usize {
        self.machine.work()
    }

    /// The bytes of text that may follow.
    pub(crate) fn following(&mut self, config: Config) -> ByteSet {
        let plausible = self.plausible(config);
        plausible.iter().filter(|&byte| self.step(config, byte) != Config::DEAD).collect()
    }

    /// Whether the output may end and nothing else may follow.
    pub(crate) fn only_ends(&mut self, config: Config) -> bool {
        self.accepting(config) && self.following(config).is_empty() && self.terminals(config).is_empty()
    }

    /// The bytes that every completion starts with, up to `limit` of them.
    pub(crate) fn forced(&mut self, config: Config, limit: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut at = config;
        while bytes.len() < limit && !self.accepting(at) {
            let Some(byte) = self.only_byte(at) else { break };
            bytes.push(byte);
            at = self.step(at, byte);
        }
        bytes
    }

    fn only_byte(&mut self, config: Config) -> Option<u8> {
        if self.takes_tokens(config) {
            return None;
        }
        let mut only = None;
        for byte in self.plausible(config).iter() {
            if self.step(config, byte) != Config::DEAD && only.replace(byte).is_some() {
                return None;
            }
        }
        only
    }

    /// Bytes of memory, roughly.
    pub(crate) fn byte_len(&self) -> usize {
        let tables = size_of_val(&*self.blocks) + size_of_val(&*self.rows);
        self.machine.byte_len() + self.edges.byte_len() + tables
    }
}
