//! The interface of the machines, which run compiled grammars byte by byte.
//!
//! A [`Machine`] interns its whole state as a [`Config`], so equal states have equal ids. Masks,
//! caches, rollback, forced bytes and token budgets are written once, for any [`Machine`].

use std::sync::Arc;

use formwork_vocab::TokenId;

use crate::ir::text::TextProgram;
use crate::mask::named_tokens::NamedTokens;
use crate::{ByteSet, Profile};

pub(crate) mod automaton;
pub(crate) mod cfg;
mod hashed;
pub(crate) mod json;
pub(crate) mod probe;
mod region;
pub(crate) mod text;

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

/// One part of a config. A text may follow the config if and only if the text may follow at least
/// one of its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConfigPart {
    /// A config without special structure, to be walked step by step.
    Plain(Config),
    Text(Text),
    /// A place in a JSON string that may turn out to be *special*: a string with another
    /// continuation than ordinary strings. Declared names and repeated names are examples.
    ///
    /// `config` is the config at this place. Inside the string, any characters may follow, as
    /// described by `text`. After the closing quote, the same bytes may follow as after `text`,
    /// unless the string is special.
    Special {
        config: Config,
        text: Text,
    },
    /// A config with the same next tokens as `other`, with these exceptions:
    ///
    /// - If `within` is true, the place is in a JSON string that may turn out to be special.
    ///   [`Machine::equivalent_config`] describes where the tokens differ.
    /// - If `names` is true, the tokens of [`Machine::add_repeating`] may differ too.
    /// - If `names` is false, the tokens that end the string and contain another whole string may
    ///   differ.
    Equivalent {
        config: Config,
        other: Config,
        names: bool,
        within: bool,
    },
    /// A place in a text that occurs in many rules. `alone` is the config at the same place of the text
    /// without anything after it, which all of these rules share.
    ///
    /// `config` allows all tokens that `alone` allows. [`Machine::resumed`] returns the config after the end
    /// of the text.
    Shared {
        config: Config,
        alone: Config,
    },
}

/// A place between two characters of a JSON string, in which between `min` and `max` more
/// characters may follow. Any characters are allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Text {
    pub(crate) min: u32,
    /// Maximum number of characters; `u32::MAX` if there is no maximum.
    pub(crate) max: u32,
    /// The config after the closing quote.
    pub(crate) after: Config,
}

/// A place between two characters of a raw string.
pub(crate) struct TextPlace {
    pub(crate) program: Arc<TextProgram>,
    pub(crate) state: u32,
    /// Number of characters so far.
    pub(crate) length: u32,
}

impl TextPlace {
    /// Reports whether no continuation is too short for the program.
    pub(crate) fn is_past_minimum(&self) -> bool {
        self.program.is_past_minimum(self.state, self.length)
    }
}

/// One rule that is being read: its remaining part, and the callers that resume when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Frame {
    /// Config that stands for the remaining part of the rule. The config is accepting where the
    /// rule may end.
    ///
    /// The rules that the remaining part calls are not part of this config: [`Machine::called`]
    /// returns them. Rules that are called before the next byte are an exception, because
    /// [`Machine::frames`] lists them as frames of their own.
    pub(crate) rest: Config,
    /// Id of the callers that resume when the rule ends, for [`Machine::callers`].
    /// [`Frame::NOBODY`] if the rule has no callers.
    pub(crate) returns: u32,
}

impl Frame {
    /// Value of `returns` for a rule whose end is the end of the output.
    pub(crate) const NOBODY: u32 = 0;
}

/// Counterpart of a config that is inside a string, and whose string may still turn out to be
/// special ([`ConfigPart::Special`]). The counterpart is the config at the same place of an
/// ordinary string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EquivalentConfig {
    /// Config at the same place of a string that is certainly not special.
    pub(crate) other: Config,
    /// Bytes after which the two configs may differ. Each byte outside this set leads from both
    /// configs to the same config.
    pub(crate) bytes: ByteSet,
}

/// A set of texts that may follow a config: all texts of at most `chars` characters that are all in
/// `class`. The last character may be incomplete.
///
/// `chars` is `u32::MAX` if the length is unbounded. `class` has all bytes from 0x80 up if every
/// non-ASCII character is allowed, and none of them otherwise.
/// [`ODD_BYTE`](crate::mask::char_classes::ODD_BYTE) is an exception. This byte never occurs in
/// text, and stands for unusual white space and line breaks. Its presence in `class` does not
/// depend on the other bytes from 0x80 up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tolerance {
    pub(crate) class: ByteSet,
    pub(crate) chars: u32,
    /// The bytes outside `class` that may come after such a text. The set may be too large.
    pub(crate) exits: ByteSet,
    /// True if no character of `class` may follow once `chars` characters have been read.
    pub(crate) ends: bool,
    /// `Some(true)` if the output may end after each of these characters, `Some(false)` if after
    /// none of them. `None` if this differs between characters or is unknown.
    pub(crate) accepting: Option<bool>,
}

/// An automaton that reads outputs of a grammar byte by byte.
///
/// Every config except [`Config::DEAD`] has a completion: a machine drops states without one.
pub(crate) trait Machine: Send {
    /// Returns the config before the first byte. The config is never dead, because programs for
    /// empty languages are rejected earlier.
    fn start(&mut self) -> Config;

    /// Returns the config after `byte`. Callers cache the result, so each pair of config and byte
    /// is requested once.
    fn step(&mut self, config: Config, byte: u8) -> Config;

    /// Reports whether the output may end at `config`.
    fn accepting(&self, config: Config) -> bool;

    /// Returns the length of a shortest completion of `config`, in bytes. The length is zero if and
    /// only if `config` is accepting.
    fn closing_len(&self, config: Config) -> u32;

    /// Returns the first byte of a shortest completion. Stepping over this byte lowers
    /// [`Machine::closing_len`] by at least one. Called only if [`Machine::closing_len`] is
    /// positive.
    fn closing_byte(&self, config: Config) -> u8;

    /// Returns a shortest completion of `config`.
    ///
    /// If the text so far has several readings, only the reading with the shortest completion is
    /// followed. The machine therefore visits other configs than a [`Matcher`](crate::Matcher) that
    /// reads the same completion.
    fn closing(&mut self, config: Config) -> Vec<u8>;

    /// Returns the bytes that may lead from `config` to a config other than [`Config::DEAD`]. The
    /// set may be too large.
    fn plausible(&self, config: Config) -> ByteSet {
        let _ = config;
        ByteSet::ALL
    }

    /// Returns how the strings in [`ConfigPart::Text`] and [`ConfigPart::Special`] are spelt.
    /// `None` if the machine never reports such parts.
    fn strings(&self) -> Option<Profile> {
        None
    }

    /// Appends the parts of `config` to `parts`.
    fn parts(&mut self, config: Config, parts: &mut Vec<ConfigPart>) {
        parts.push(ConfigPart::Plain(config));
    }

    /// Appends the frames of `config` to `frames`. Machines without rules append none.
    ///
    /// Each continuation of `config` consists of a text of one frame's `rest`, and a continuation
    /// of the callers of the same frame.
    fn frames(&mut self, config: Config, frames: &mut Vec<Frame>) {
        let _ = (config, frames);
    }

    /// Returns the config whose frames are the rules that `config` calls. `None` if `config` calls
    /// no rules.
    ///
    /// `config` must be the `rest` of a frame, or a config reached from a `rest`. If the returned
    /// config is accepting, the called rules may match the empty text.
    fn called(&mut self, config: Config) -> Option<Config> {
        let _ = config;
        None
    }

    /// Appends the frames of the callers that resume after the given `returns` ids.
    ///
    /// Returns true if the output may end there too, because the callers may have ended as well.
    fn callers(&mut self, returns: &[u32], frames: &mut Vec<Frame>) -> bool {
        let _ = (returns, frames);
        false
    }

    /// Returns the counterpart of a config in a string that may still turn out to be special.
    /// `None` after the end of the string, and for all other configs.
    fn equivalent_config(&mut self, config: Config) -> Option<EquivalentConfig> {
        let _ = config;
        None
    }

    /// Returns the config after the end of the text of a [`ConfigPart::Shared`]. The text cannot continue
    /// from there.
    fn resumed(&mut self, config: Config) -> Config {
        let _ = config;
        Config::DEAD
    }

    /// Returns the place of a config between two characters of a raw string. `None` for all other configs.
    fn text_place(&self, config: Config) -> Option<TextPlace> {
        let _ = config;
        None
    }

    /// Returns a config from which most bytes probably lead to the same configs as from `config`. `None`
    /// if the machine knows no such config.
    fn counterpart(&mut self, config: Config) -> Option<Config> {
        let _ = config;
        None
    }

    /// Returns a config that has forgotten the member names seen so far. The result allows the same
    /// next tokens as `config`, and also tokens that repeat a whole name. Returns `config` itself
    /// if the machine knows no such config.
    fn without_names(&mut self, config: Config) -> Config {
        config
    }

    /// Appends the tokens in `named` that may repeat a member name of an object. Omits tokens whose
    /// difference [`Machine::equivalent_config`] already reports.
    fn add_repeating(&self, config: Config, named: &NamedTokens, tokens: &mut Vec<TokenId>) {
        let _ = (config, named, tokens);
    }

    /// Returns a [`Tolerance`] of `config` if many characters may follow. `None` if few may follow
    /// or if the machine does not know.
    fn tolerance(&mut self, config: Config) -> Option<Tolerance> {
        let _ = config;
        None
    }

    /// Reports whether the result of [`Machine::tolerance`] is final for `config`. If false, and
    /// the result is `None`, callers may look for a tolerance by probing.
    fn tells_tolerance(&self, config: Config) -> bool {
        let _ = config;
        false
    }

    /// Describes in words what may follow `config`, one entry for each alternative. `following` has
    /// the bytes that may come next. Returns an empty list if the machine knows nothing beyond
    /// these bytes.
    fn expected(&self, config: Config, following: ByteSet) -> Vec<String> {
        let _ = (config, following);
        Vec::new()
    }

    /// Returns a config that allows every continuation of every config in `configs`. Called only if
    /// a token terminal and plain text match the same token, so never on machines without token
    /// terminals.
    fn join(&mut self, configs: &[Config]) -> Config {
        configs.first().copied().unwrap_or(Config::DEAD)
    }

    /// Returns a measure of the time that creating `config` took: the number of grammar positions
    /// visited.
    fn weight(&self, config: Config) -> usize {
        let _ = config;
        1
    }

    /// Returns the sum of the weights of all configs created so far. Returns 0 if the machine does
    /// not count them.
    fn work(&self) -> usize {
        0
    }

    /// Returns the approximate memory of the interned states, in bytes.
    fn byte_len(&self) -> usize;
}
