//! The machines behind one interface.
//!
//! A machine's whole state is interned to a [`Config`]; equal states have equal ids. Masks, caches, rollback, forced
//! bytes and budgets are written once, over [`Machine`].

use formwork_vocab::TokenId;

use crate::mask::named_tokens::NamedTokens;
use crate::{ByteSet, Profile};

pub(crate) mod automaton;
pub(crate) mod cfg;
mod hashed;
pub(crate) mod json;
pub(crate) mod probe;

/// An interned machine state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Config(pub(crate) u32);

impl Config {
    /// The state from which nothing can be completed.
    pub(crate) const DEAD: Self = Self(u32::MAX);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One of the ways on from a config, so that what may follow the config is what may follow any of its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConfigPart {
    /// Nothing is known but the config itself.
    Plain(Config),
    Text(Text),
    /// A place in a JSON string, between two characters, where any characters may follow as in `text`, and after its
    /// closing quote the same as in `text`, unless the string turns out to be a special one.
    Special {
        config: Config,
        text: Text,
    },
    /// A place where the same tokens may follow as at `other`, unless it is in a JSON string that turns out
    /// to be a special one ([`Machine::equivalent_config`], if `within`). With `names` the tokens of
    /// [`Machine::add_repeating`] may differ, too; without, those that end the string and have another whole
    /// one after it.
    Equivalent {
        config: Config,
        other: Config,
        names: bool,
        within: bool,
    },
}

/// A place in a JSON string, between two characters, that between `min` and `max` more characters may follow, whichever
/// they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Text {
    pub(crate) min: u32,
    /// `u32::MAX` where there is no bound.
    pub(crate) max: u32,
    /// The config after the closing quote.
    pub(crate) after: Config,
}

/// A rule on the way: what is left of it, and where it returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Frame {
    /// The config in which what is left of the rule is the whole output, and its calls are left out: [`Machine::called`]
    /// tells those, but for its first byte, where they are frames of their own.
    pub(crate) rest: Config,
    /// Who goes on once the rule has ended: what [`Machine::callers`] takes, or [`Frame::NOBODY`].
    pub(crate) returns: u32,
}

impl Frame {
    /// The output ends with the rule.
    pub(crate) const NOBODY: u32 = 0;
}

/// How a config in a string that may turn out to be special differs from the one in a string that cannot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EquivalentConfig {
    /// The config at the same place of a string that is certainly not special.
    pub(crate) other: Config,
    /// The two lead to the same config over all other bytes.
    pub(crate) bytes: ByteSet,
}

/// Text that may follow whatever it is: up to `chars` characters, all of them in `class`. The last one may be unfinished.
///
/// The class holds the bytes beyond ASCII either all, and then they stand for all characters that there are, or not at all.
/// But [`ODD_BYTE`](crate::mask::char_classes::ODD_BYTE), which no text has, stands for some of these characters of which the others
/// are independent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tolerance {
    pub(crate) class: ByteSet,
    pub(crate) chars: u32,
    /// All other bytes that may come after such text.
    pub(crate) exits: ByteSet,
    /// Whether after `chars` characters none of `class` may come.
    pub(crate) ends: bool,
    /// Whether the output may end after each of these characters, or after none; `None` if that is not known.
    pub(crate) accepting: Option<bool>,
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

    /// The first byte of some shortest completion. Stepping over it lowers [`Machine::closing_len`] by one at least.
    /// Only asked where that is positive.
    fn closing_byte(&self, config: Config) -> u8;

    /// Returns a shortest completion.
    ///
    /// Of several ways to read the text it follows the shortest alone, so it meets other configs than a matcher does.
    fn closing(&mut self, config: Config) -> Vec<u8>;

    /// A set of bytes that holds all those which lead to a config other than [`Config::DEAD`].
    fn plausible(&self, config: Config) -> ByteSet {
        let _ = config;
        ByteSet::ALL
    }

    /// The spelling of the strings that [`ConfigPart::Text`] and [`ConfigPart::Special`] are about; `None` where there are no such parts.
    fn strings(&self) -> Option<Profile> {
        None
    }

    /// Adds the parts of a config.
    fn parts(&mut self, config: Config, parts: &mut Vec<ConfigPart>) {
        parts.push(ConfigPart::Plain(config));
    }

    /// Adds the frames of a config: what may follow the config is what may follow one of the rests, and once that has ended
    /// one of its callers. None where the machine has no rules.
    fn frames(&mut self, config: Config, frames: &mut Vec<Frame>) {
        let _ = (config, frames);
    }

    /// The config of which the frames are the rules called in a rest, or in a config that a rest has come to. Where it is
    /// accepting all of these may be empty.
    fn called(&mut self, config: Config) -> Option<Config> {
        let _ = config;
        None
    }

    /// Adds the frames that go on where some frames return to, and tells whether these may have ended, too, and return to
    /// nobody.
    fn callers(&mut self, returns: &[u32], frames: &mut Vec<Frame>) -> bool {
        let _ = (returns, frames);
        false
    }

    /// What a config in a string that may yet be special is like; `None` once the string has ended, and for all others.
    fn equivalent_config(&mut self, config: Config) -> Option<EquivalentConfig> {
        let _ = config;
        None
    }

    /// The config with the same next tokens but for those that hold a whole name of a JSON object, where some of these
    /// must not come again; the config itself where that is not known.
    fn without_names(&mut self, config: Config) -> Config {
        config
    }

    /// Adds the tokens that may repeat a name of an object, except those told by [`Machine::equivalent_config`].
    fn add_repeating(&self, config: Config, named: &NamedTokens, tokens: &mut Vec<TokenId>) {
        let _ = (config, named, tokens);
    }

    /// Some text that may follow `config`, where much of it can.
    fn tolerance(&mut self, config: Config) -> Option<Tolerance> {
        let _ = config;
        None
    }

    /// Whether [`Machine::tolerance`] says all that there is to say of a config. Where not, it is found by trying.
    fn tells_tolerance(&self, config: Config) -> bool {
        let _ = config;
        false
    }

    /// What may follow a config, of which `following` are the next bytes, in words; nothing where only the bytes are known.
    fn expected(&self, config: Config, following: ByteSet) -> Vec<String> {
        let _ = (config, following);
        Vec::new()
    }

    /// The config after which may follow what may follow any of some. Asked only where token terminals and text agree on a
    /// token, which machines without such terminals never do.
    fn join(&mut self, configs: &[Config]) -> Config {
        configs.first().copied().unwrap_or(Config::DEAD)
    }

    /// Returns the number of places that were met when a config was made, in proportion to the time that this took.
    fn weight(&self, config: Config) -> usize {
        let _ = config;
        1
    }

    /// The weights of all states that were made so far; 0 where that is not counted.
    fn work(&self) -> usize {
        0
    }

    /// Bytes of memory that the interned states take, roughly.
    fn byte_len(&self) -> usize;
}
