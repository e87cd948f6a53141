//! The automaton of one output, and the enumeration of the texts that may follow a place.

use std::collections::VecDeque;

use crate::machine::Config;
use crate::machine::automaton::Automaton;
use crate::{ByteSet, Grammar};

/// Maximum number of options at a place.
pub(super) const MAX_OPTIONS: usize = 255;
/// Maximum number of texts at a place. A number has a text for each byte that may follow it.
const MAX_TEXTS: usize = 1024;
/// Maximum length of a text, in bytes.
const MAX_LEN: usize = 1024;
/// Maximum number of bytes that are tried at one place.
const PLACE_STEPS: usize = 1 << 15;
/// Maximum number of bytes that are tried for one output.
const OUTPUT_STEPS: usize = 1 << 23;
/// Maximum memory of an automaton, in bytes, after which a new one replaces it.
const MAX_BYTES: usize = 32 << 20;

/// Decision of an enumeration about a text that the grammar allows.
pub(super) enum Verdict<S> {
    /// The text is complete.
    Complete,
    /// The text goes on, in this state.
    Continue(S),
    /// The text is complete, and may also go on.
    Both(S),
    /// The text is not looked for.
    Skip,
    /// The texts are no choice.
    Abandon,
}

/// A byte that may follow a text.
pub(super) struct Step<'a> {
    /// All bytes that may follow the text.
    pub(super) following: &'a ByteSet,
    pub(super) byte: u8,
    /// Config after the byte.
    pub(super) next: Config,
    /// True if the output may end after the byte.
    pub(super) may_end: bool,
}

/// A text that is not complete.
struct Open<S> {
    text: Vec<u8>,
    config: Config,
    state: S,
}

/// Runs a grammar over one output, within limits of time and memory.
pub(super) struct Explorer {
    grammar: Grammar,
    automaton: Automaton,
    /// Number of bytes that may still be tried for the output.
    output_steps: usize,
    /// Number of bytes that may still be tried at the place.
    place_steps: usize,
}

impl Explorer {
    pub(super) fn new(grammar: &Grammar) -> Self {
        Self {
            grammar: grammar.clone(),
            automaton: grammar.automaton(),
            output_steps: OUTPUT_STEPS,
            place_steps: PLACE_STEPS,
        }
    }

    pub(super) const fn start(&self) -> Config {
        self.automaton.start()
    }

    /// Starts with a new place.
    pub(super) const fn begin_place(&mut self) {
        self.place_steps = PLACE_STEPS;
    }

    /// Returns true if nothing more is tried for the output.
    pub(super) const fn is_spent(&self) -> bool {
        self.output_steps == 0
    }

    /// Returns true if the automaton has grown too large and should be replaced.
    pub(super) fn is_large(&self) -> bool {
        self.automaton.byte_len() > MAX_BYTES
    }

    /// Replaces the automaton. All configs lose their meaning.
    pub(super) fn renew(&mut self) {
        self.automaton = self.grammar.automaton();
    }

    /// Returns the config after a byte of the output.
    pub(super) fn step(&mut self, config: Config, byte: u8) -> Config {
        if config == Config::DEAD { config } else { self.automaton.run(config, &[byte]) }
    }

    /// Returns the bytes that may follow.
    pub(super) fn following(&mut self, config: Config) -> ByteSet {
        if config == Config::DEAD { ByteSet::default() } else { self.automaton.following(config) }
    }

    pub(super) fn may_end(&self, config: Config) -> bool {
        config != Config::DEAD && self.automaton.accepting(config)
    }

    /// Returns all texts from `config` that `judge` finds complete, in the order of their lengths and bytes.
    /// Returns `None` if there are more than [`MAX_TEXTS`], if a text is longer than [`MAX_LEN`] or may have a
    /// control token, or if finding the texts takes too many steps.
    ///
    /// `judge` gets the state before a byte.
    pub(super) fn enumerate<S>(
        &mut self,
        config: Config,
        state: S,
        judge: impl Fn(&S, Step<'_>) -> Verdict<S>,
    ) -> Option<Vec<Vec<u8>>> {
        let mut open = VecDeque::from([Open { text: Vec::new(), config, state }]);
        let mut complete = Vec::new();
        while let Some(Open { text, config, state }) = open.pop_front() {
            let following = self.following(config);
            let may_be_token = config != Config::DEAD && self.automaton.takes_tokens(config);
            if may_be_token || text.len() >= MAX_LEN {
                return None;
            }
            for byte in following.iter() {
                self.place_steps = self.place_steps.checked_sub(1)?;
                self.output_steps = self.output_steps.checked_sub(1)?;
                let next = self.automaton.run(config, &[byte]);
                if next == Config::DEAD {
                    continue;
                }
                let longer = || [&text[..], &[byte]].concat();
                let may_end = self.automaton.accepting(next);
                match judge(&state, Step { following: &following, byte, next, may_end }) {
                    Verdict::Complete => complete.push(longer()),
                    Verdict::Continue(state) => open.push_back(Open { text: longer(), config: next, state }),
                    Verdict::Both(state) => {
                        complete.push(longer());
                        open.push_back(Open { text: longer(), config: next, state });
                    }
                    Verdict::Skip => {}
                    Verdict::Abandon => return None,
                }
                // Each open text has a completion of its own.
                if complete.len() + open.len() > MAX_TEXTS {
                    return None;
                }
            }
        }
        Some(complete)
    }
}
