//! [`Automaton`]: a [`Machine`] with cached steps.

use formwork_vocab::{TokenId, Vocabulary};

use super::{Config, ConfigPart, EquivalentConfig, Frame, Machine, TextPlace, Tolerance, probe};
use crate::mask::named_tokens::NamedTokens;
use crate::tokens::{TEXT, TokenEdges, is_lead, spelling};
use crate::{ByteSet, Profile};

/// Placeholder in [`Automaton::blocks`] and [`Row::unnamed`] for a result that has not been
/// computed.
const UNKNOWN: u32 = u32::MAX - 1;

/// Placeholder in [`Row::blocks`] for a block without any computed step.
const NO_BLOCK: u32 = u32::MAX;

/// A [`Machine`] that computes each step once.
///
/// The steps of a config are stored in blocks, each for 16 successive input bytes. A config with
/// few computed steps then takes a few cache lines instead of a kilobyte.
pub(crate) struct Automaton {
    machine: Box<dyn Machine>,
    /// One row for each config, indexed by [`Config::index`].
    rows: Vec<Row>,
    blocks: Vec<[u32; BLOCK]>,
    start: Config,
    /// The tokens of the vocabulary that each token terminal stands for.
    edges: TokenEdges,
}

/// Input bytes per block.
const BLOCK: usize = 16;

/// Weight of a config ([`Machine::weight`]) that costs as much as the config itself; see
/// [`Automaton::cost`].
const PLACES: usize = 4;

#[derive(Clone)]
struct Row {
    /// For each group of [`BLOCK`] input bytes, the index of its block in [`Automaton::blocks`].
    blocks: [u32; 256 / BLOCK],
    /// Text bytes that may be allowed, and whether a token terminal may be allowed. `None` if not
    /// yet computed.
    plausible: Option<(ByteSet, bool)>,
    /// Result of [`Machine::without_names`], or [`UNKNOWN`].
    unnamed: u32,
}

/// The row of a config about which nothing has been computed.
const EMPTY_ROW: Row = Row { blocks: [NO_BLOCK; 256 / BLOCK], plausible: None, unnamed: UNKNOWN };

impl Automaton {
    pub(crate) fn new(mut machine: Box<dyn Machine>) -> Self {
        let start = machine.start();
        Self { machine, rows: Vec::new(), blocks: Vec::new(), start, edges: TokenEdges::default() }
    }

    /// Returns the automaton with `edges` as the tokens of its token terminals.
    pub(crate) fn with_edges(self, edges: TokenEdges) -> Self {
        Self { edges, ..self }
    }

    pub(crate) const fn start(&self) -> Config {
        self.start
    }

    /// Returns the config after `byte`. `config` must not be dead.
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

    /// Returns the text bytes that may be allowed at `config`. The set may be too large.
    pub(crate) fn plausible(&mut self, config: Config) -> ByteSet {
        self.plausible_and_tokens(config).0
    }

    /// Returns the bytes that may be allowed at `config`, including the bytes that spell token
    /// terminals. The set may be too large.
    pub(crate) fn plausible_with_spellings(&self, config: Config) -> ByteSet {
        self.machine.plausible(config)
    }

    /// Reports whether a token terminal may be allowed at `config`.
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

    /// Returns the config after the token terminal with this index; dead if the terminal may not
    /// follow.
    pub(crate) fn terminal(&mut self, config: Config, index: usize) -> Config {
        let [lead, rest] = spelling(index);
        match self.step(config, lead) {
            Config::DEAD => Config::DEAD,
            next => self.step(next, rest),
        }
    }

    /// Returns the tokens of the vocabulary that each token terminal stands for.
    pub(crate) const fn edges(&self) -> &TokenEdges {
        &self.edges
    }

    /// Returns `(index, next)` for each token terminal that may follow `config`. `next` is the
    /// config after the terminal.
    pub(crate) fn terminals(&mut self, config: Config) -> Vec<(usize, Config)> {
        if self.edges.is_empty() || !self.takes_tokens(config) {
            return Vec::new();
        }
        let indices: Vec<usize> = self.edges.iter().map(|(index, _)| index).collect();
        let next = indices.into_iter().map(|index| (index, self.terminal(config, index)));
        next.filter(|&(_, next)| next != Config::DEAD).collect()
    }

    /// Returns the config after `token`; dead if `token` may not follow.
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

    /// Describes in words what may follow `config`; see [`Machine::expected`].
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

    pub(crate) fn resumed(&mut self, config: Config) -> Config {
        self.machine.resumed(config)
    }

    pub(crate) fn text_place(&self, config: Config) -> Option<TextPlace> {
        self.machine.text_place(config)
    }

    pub(crate) fn equivalent_config(&mut self, config: Config) -> Option<EquivalentConfig> {
        self.machine.equivalent_config(config)
    }

    /// Returns a config that has forgotten the member names seen so far; see
    /// [`Machine::without_names`].
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

    /// Appends the tokens in `named` that may repeat a member name of an object; see
    /// [`Machine::add_repeating`].
    pub(crate) fn add_repeating(&self, config: Config, named: &NamedTokens, tokens: &mut Vec<TokenId>) {
        self.machine.add_repeating(config, named, tokens);
    }

    /// Returns a tolerance of `config` if many characters may follow. Probes the automaton if the
    /// machine has no final answer ([`probe::tolerance`]).
    pub(crate) fn tolerance(&mut self, config: Config) -> Option<Tolerance> {
        let known = self.known_tolerance(config);
        if known.is_some() || self.machine.tells_tolerance(config) {
            return known;
        }
        probe::tolerance(self, config)
    }

    /// Returns a config from which almost all characters lead to the same configs as from `config`, and
    /// the bytes that do not. `None` if no such config is known.
    ///
    /// Inside the beginning of a closing text, such as `</`, all characters but one lead back into the
    /// text, just as from a place in the middle of the text.
    pub(crate) fn counterpart(&mut self, config: Config) -> Option<(Config, ByteSet)> {
        /// Maximum number of ASCII characters that lead elsewhere. Other characters often lead to the same
        /// config with their last byte.
        const MOST: usize = 8;
        let other = self.machine.counterpart(config)?;
        let (mut different, mut ascii) = (ByteSet::default(), 0);
        for byte in (self.plausible(config) | self.plausible(other)).iter() {
            if self.step(config, byte) != self.step(other, byte) {
                different.insert(byte);
                ascii += usize::from(byte.is_ascii());
                if ascii > MOST {
                    return None;
                }
            }
        }
        Some((other, different))
    }

    /// Like [`Automaton::tolerance`], but without probing.
    pub(crate) fn known_tolerance(&mut self, config: Config) -> Option<Tolerance> {
        self.machine.tolerance(config)
    }

    /// Returns the config after all of `bytes`; dead if one of the bytes may not follow. Bytes that
    /// begin the spelling of a token terminal are not text, so they never follow.
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

    /// Returns a shortest completion of `config`.
    pub(crate) fn closing(&mut self, config: Config) -> Vec<u8> {
        self.machine.closing(config)
    }

    /// Returns the first byte of a shortest completion of `config`. `config` must not be accepting.
    pub(crate) fn closing_byte(&self, config: Config) -> u8 {
        self.machine.closing_byte(config)
    }

    /// Returns the cost of `config`: 1, plus its weight divided by [`PLACES`].
    ///
    /// The cost depends on the config alone, so limits on costs give the same results whatever is
    /// cached. One unit stands for about a microsecond and half a kilobyte.
    pub(crate) fn cost(&self, config: Config) -> usize {
        1 + self.machine.weight(config) / PLACES
    }

    /// Returns the sum of the weights of all configs created so far.
    pub(crate) fn work(&self) -> usize {
        self.machine.work()
    }

    /// Returns the text bytes that may follow `config`.
    pub(crate) fn following(&mut self, config: Config) -> ByteSet {
        let plausible = self.plausible(config);
        plausible.iter().filter(|&byte| self.step(config, byte) != Config::DEAD).collect()
    }

    /// Reports whether the output may end at `config` and nothing else may follow.
    pub(crate) fn only_ends(&mut self, config: Config) -> bool {
        self.accepting(config) && self.following(config).is_empty() && self.terminals(config).is_empty()
    }

    /// Returns the bytes with which every completion of `config` starts, up to `limit` bytes.
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

    /// Returns the approximate memory use, in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        let tables = size_of_val(&*self.blocks) + size_of_val(&*self.rows);
        self.machine.byte_len() + self.edges.byte_len() + tables
    }
}
