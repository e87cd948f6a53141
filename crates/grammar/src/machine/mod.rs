//! The interface of the machines, which run compiled grammars byte by byte.
//!
//! A [`Machine`] interns its whole state as a [`Config`], so equal states have equal ids. Masks,
//! caches, rollback, forced bytes and token budgets are written once, against [`Machine`].

use formwork_vocab::TokenId;

use crate::mask::named_tokens::NamedTokens;
use crate::{ByteSet, Profile};

pub(crate) mod automaton;
pub(crate) mod cfg;
mod hashed;
pub(crate) mod json;
pub(crate) mod probe;

/// The id of an interned machine state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Config(pub(crate) u32);

impl Config {
    /// The dead state, from which no completion exists.
    pub(crate) const DEAD: Self = Self(u32::MAX);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One part of a config. A text may follow the config exactly if the text may follow one of the
/// parts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConfigPart {
    /// A config about which nothing else is known.
    Plain(Config),
    Text(Text),
    /// A place between two characters of a JSON string that may turn out to be special, such as a
    /// declared name.
    ///
    /// Any characters may follow, as described by `text`. After the closing quote, the same bytes
    /// may follow as in `text`, unless the string is special.
    Special {
        config: Config,
        text: Text,
    },
    /// A place with the same next tokens as `other`, with these exceptions:
    ///
    /// - If `within`, the place is in a JSON string that may turn out to be special.
    ///   [`Machine::equivalent_config`] describes where the tokens differ.
    /// - If `names`, the tokens of [`Machine::add_repeating`] may differ too.
    /// - Without `names`, tokens may differ if they end the string and contain another whole
    ///   string.
    Equivalent {
        config: Config,
        other: Config,
        names: bool,
        within: bool,
    },
}

/// A place between two characters of a JSON string in which any characters are allowed. Between
/// `min` and `max` more characters may follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Text {
    pub(crate) min: u32,
    /// `u32::MAX` if there is no upper bound.
    pub(crate) max: u32,
    /// The config after the closing quote.
    pub(crate) after: Config,
}

/// An active rule: the rest of the rule, and the place to which the rule returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Frame {
    /// Config in which the rest of the rule is the whole output.
    ///
    /// The rules that the rest calls are not part of this config; [`Machine::called`] returns them.
    /// Rules called before the first byte are an exception: they have frames of their own.
    pub(crate) rest: Config,
    /// Id of the callers that resume when the rule ends, for [`Machine::callers`].
    /// [`Frame::NOBODY`] if the rule has no callers.
    pub(crate) returns: u32,
}

impl Frame {
    /// The `returns` of a rule whose end is the end of the output.
    pub(crate) const NOBODY: u32 = 0;
}

/// The counterpart of a config in a JSON string that may turn out to be special: the config at the
/// same place of an ordinary string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EquivalentConfig {
    /// Config at the same place of a string that is certainly not special.
    pub(crate) other: Config,
    /// Bytes after which the two configs may differ. Every other byte leads both to the same
    /// config.
    pub(crate) bytes: ByteSet,
}

/// Text that may follow a config: up to `chars` characters, all in `class`. The last character may
/// be incomplete.
///
/// `chars` is `u32::MAX` if the length is unbounded. The class contains all bytes from 0x80 up if
/// every non-ASCII character is allowed, and none of them otherwise.
/// [`ODD_BYTE`](crate::mask::char_classes::ODD_BYTE), which never occurs in text, is an exception.
/// This byte stands for unusual white space and line breaks, which are allowed independently of the
/// other non-ASCII characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tolerance {
    pub(crate) class: ByteSet,
    pub(crate) chars: u32,
    /// All other bytes that may come after such text.
    pub(crate) exits: ByteSet,
    /// True if no character of `class` may follow after `chars` characters.
    pub(crate) ends: bool,
    /// `Some(true)` if the output may end after each of these characters, `Some(false)` if after
    /// none. `None` if neither is known.
    pub(crate) accepting: Option<bool>,
}

/// A deterministic view of a grammar, one byte at a time.
///
/// Every config except [`Config::DEAD`] has a completion: a machine drops states without one.
pub(crate) trait Machine: Send {
    /// Returns the state before the first byte. This state is never dead, because programs for
    /// empty languages are rejected earlier.
    fn start(&mut self) -> Config;

    /// Returns the state after `byte`. Callers memoise the result, so each pair of config and byte
    /// is requested once.
    fn step(&mut self, config: Config, byte: u8) -> Config;

    /// Reports whether the bytes so far are a complete output.
    fn accepting(&self, config: Config) -> bool;

    /// Returns the length of a shortest completion, in bytes. The length is zero exactly if
    /// `config` is accepting.
    fn closing_len(&self, config: Config) -> u32;

    /// Returns the first byte of a shortest completion. Stepping over this byte lowers
    /// [`Machine::closing_len`] by at least one. Called only if that length is positive.
    fn closing_byte(&self, config: Config) -> u8;

    /// Returns a shortest completion.
    ///
    /// If the text so far can be read in several ways, only the shortest reading is followed. The
    /// configs on the way may therefore differ from the configs of a matcher.
    fn closing(&mut self, config: Config) -> Vec<u8>;

    /// Returns a superset of the bytes that lead to a config other than [`Config::DEAD`].
    fn plausible(&self, config: Config) -> ByteSet {
        let _ = config;
        ByteSet::ALL
    }

    /// Returns the spelling of the strings in [`ConfigPart::Text`] and [`ConfigPart::Special`].
    /// `None` if the machine never reports such parts.
    fn strings(&self) -> Option<Profile> {
        None
    }

    /// Appends the parts of a config.
    fn parts(&mut self, config: Config, parts: &mut Vec<ConfigPart>) {
        parts.push(ConfigPart::Plain(config));
    }

    /// Appends the frames of a config. Machines without rules append none.
    ///
    /// Every continuation of the config is a text of one frame's rest, followed by a continuation
    /// of that frame's callers.
    fn frames(&mut self, config: Config, frames: &mut Vec<Frame>) {
        let _ = (config, frames);
    }

    /// Returns the config whose frames are the rules that `config` calls; `None` if it calls none.
    ///
    /// `config` is the rest of a frame, or a config reached from a rest. If the returned config is
    /// accepting, all these rules may match the empty text.
    fn called(&mut self, config: Config) -> Option<Config> {
        let _ = config;
        None
    }

    /// Appends the frames of the callers that resume when rules with the given `returns` end.
    /// Reports whether the output may end there too, because the callers may have ended as well.
    fn callers(&mut self, returns: &[u32], frames: &mut Vec<Frame>) -> bool {
        let _ = (returns, frames);
        false
    }

    /// Returns the equivalent config of a config in a string that may still turn out to be special.
    /// `None` after the end of the string, and for all other configs.
    fn equivalent_config(&mut self, config: Config) -> Option<EquivalentConfig> {
        let _ = config;
        None
    }

    /// Returns the config that has forgotten the member names seen so far. That config allows the
    /// same next tokens, and also tokens that repeat a whole name. Returns `config` itself if no
    /// such config is known.
    fn without_names(&mut self, config: Config) -> Config {
        config
    }

    /// Appends the tokens that may repeat a member name of an object. Tokens whose difference
    /// [`Machine::equivalent_config`] reports are omitted.
    fn add_repeating(&self, config: Config, named: &NamedTokens, tokens: &mut Vec<TokenId>) {
        let _ = (config, named, tokens);
    }

    /// Returns the tolerance of `config`, if a wide class of characters may follow.
    fn tolerance(&mut self, config: Config) -> Option<Tolerance> {
        let _ = config;
        None
    }

    /// Reports whether the result of [`Machine::tolerance`] is final for a config. Otherwise,
    /// callers may find a tolerance by probing.
    fn tells_tolerance(&self, config: Config) -> bool {
        let _ = config;
        false
    }

    /// Describes in words what may follow a config. `following` holds the next bytes. Empty if
    /// nothing is known except these bytes.
    fn expected(&self, config: Config, following: ByteSet) -> Vec<String> {
        let _ = (config, following);
        Vec::new()
    }

    /// Returns a config that allows every continuation of every given config. Called only if a
    /// token terminal and plain text match the same token, so never on machines without token
    /// terminals.
    fn join(&mut self, configs: &[Config]) -> Config {
        configs.first().copied().unwrap_or(Config::DEAD)
    }

    /// Returns the number of places visited to create a config, a measure of the time that this
    /// took.
    fn weight(&self, config: Config) -> usize {
        let _ = config;
        1
    }

    /// Returns the sum of the weights of all states created so far; 0 if the machine does not count
    /// them.
    fn work(&self) -> usize {
        0
    }

    /// Returns the approximate memory of the interned states, in bytes.
    fn byte_len(&self) -> usize;
}
