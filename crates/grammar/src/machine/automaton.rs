//! A machine with its steps remembered.

use super::{Config, Machine};
use crate::ByteSet;

/// In a memo row: this step has not been made yet.
const UNKNOWN: u32 = u32::MAX - 1;

/// Bytes of memory that one memo row takes.
const MEMO_ROW: usize = 256 * size_of::<u32>();

/// A [`Machine`] that makes each step once.
pub(crate) struct Automaton {
    machine: Box<dyn Machine>,
    /// Per config, once some step from it was asked: the config after each byte.
    memo: Vec<Option<Box<[u32; 256]>>>,
    memo_rows: usize,
    start: Config,
}

impl Automaton {
    pub(crate) fn new(mut machine: Box<dyn Machine>) -> Self {
        let start = machine.start();
        Self { machine, memo: Vec::new(), memo_rows: 0, start }
    }

    pub(crate) const fn start(&self) -> Config {
        self.start
    }

    /// The config after `byte`. `config` must not be dead.
    pub(crate) fn step(&mut self, config: Config, byte: u8) -> Config {
        let index = config.0 as usize;
        if let Some(Some(row)) = self.memo.get(index) {
            let known = row[usize::from(byte)];
            if known != UNKNOWN {
                return Config(known);
            }
        }
        self.step_cold(config, byte)
    }

    #[cold]
    fn step_cold(&mut self, config: Config, byte: u8) -> Config {
        let next = self.machine.step(config, byte);
        let index = config.0 as usize;
        if index >= self.memo.len() {
            self.memo.resize_with(index + 1, || None);
        }
        let row = self.memo[index].get_or_insert_with(|| {
            self.memo_rows += 1;
            Box::new([UNKNOWN; 256])
        });
        row[usize::from(byte)] = next.0;
        next
    }

    /// The config after all of `bytes`, dead as soon as one of them cannot follow.
    pub(crate) fn run(&mut self, config: Config, bytes: &[u8]) -> Config {
        let mut at = config;
        for &byte in bytes {
            if at == Config::DEAD {
                break;
            }
            at = self.step(at, byte);
        }
        at
    }

    pub(crate) fn accepting(&self, config: Config) -> bool {
        self.machine.accepting(config)
    }

    pub(crate) fn closing_len(&self, config: Config) -> u32 {
        self.machine.closing_len(config)
    }

    /// A shortest completion.
    pub(crate) fn closing(&mut self, config: Config) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.closing_len(config) as usize);
        let mut at = config;
        while !self.accepting(at) {
            let byte = self.machine.closing_byte(at);
            let next = self.step(at, byte);
            debug_assert!(next != Config::DEAD && self.closing_len(next) + 1 == self.closing_len(at));
            bytes.push(byte);
            at = next;
        }
        bytes
    }

    /// The bytes that may follow.
    pub(crate) fn following(&mut self, config: Config) -> ByteSet {
        (0..=u8::MAX).filter(|&byte| self.step(config, byte) != Config::DEAD).collect()
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
        let mut only = None;
        for byte in 0..=u8::MAX {
            if self.step(config, byte) != Config::DEAD && only.replace(byte).is_some() {
                return None;
            }
        }
        only
    }

    /// Bytes of memory, roughly.
    pub(crate) fn byte_len(&self) -> usize {
        self.machine.byte_len() + self.memo_rows * MEMO_ROW + self.memo.len() * size_of::<usize>()
    }
}
