//! The machines behind one interface.
//!
//! A machine's whole state is interned to a [`Config`]; equal states have equal ids. Masks, caches, rollback, forced
//! bytes and budgets are written once, over [`Machine`].

pub(crate) mod automaton;
pub(crate) mod cfg;
pub(crate) mod json;

/// An interned machine state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Config(pub(crate) u32);

impl Config {
    /// The state from which nothing can be completed.
    pub(crate) const DEAD: Self = Self(u32::MAX);
}

/// A deterministic view of a grammar, one byte at a time.
///
/// Every config other than [`Config::DEAD`] has a completion: a machine leaves states without one out.
pub(crate) trait Machine: Send {
    /// The state before the first byte. Programs for empty languages are refused earlier, so it is never dead.
    fn start(&mut self) -> Config;

    /// The state after `byte`. Callers memoise: this is asked once per pair.
    fn step(&mut self, config: Config, byte: u8) -> Config;

    /// Whether the bytes so far are a complete output.
    fn accepting(&self, config: Config) -> bool;

    /// The number of bytes in a shortest completion: zero exactly when accepting.
    fn closing_len(&self, config: Config) -> u32;

    /// The first byte of some shortest completion. Stepping over it lowers [`Machine::closing_len`] by one.
    /// Only asked where that is positive.
    fn closing_byte(&self, config: Config) -> u8;

    /// Bytes of memory that the interned states take, roughly.
    fn byte_len(&self) -> usize;
}
