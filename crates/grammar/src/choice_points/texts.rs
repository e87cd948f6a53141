//! Enumeration of the texts that may follow a place, if they are few.

use std::collections::VecDeque;

use crate::ByteSet;
use crate::machine::Config;
use crate::machine::automaton::Automaton;

/// Maximum number of texts.
pub(super) const MAX_TEXTS: usize = 255;
/// Maximum number of bytes that the enumerations at one place try.
pub(super) const MAX_STEPS: usize = 1 << 15;

/// Decision of an enumeration about a text that the grammar allows.
pub(super) enum Next<S> {
    /// The text is complete.
    Complete,
    /// The text goes on, in this state.
    On(S),
    /// The text is complete, and may also go on.
    Both(S),
    /// The text is not looked for.
    Skip,
}

/// A byte that may follow a text.
pub(super) struct Step<'a> {
    pub(super) automaton: &'a Automaton,
    /// All bytes that may follow the text.
    pub(super) following: &'a ByteSet,
    pub(super) byte: u8,
    /// Config after the byte.
    pub(super) next: Config,
}

/// A text that is not complete.
struct Open<S> {
    text: Vec<u8>,
    config: Config,
    state: S,
}

/// Returns all texts from `config` that `judge` finds complete, in the order of their lengths and bytes.
/// Returns `None` if there are more than [`MAX_TEXTS`], or if `steps` is less than the number of bytes tried.
///
/// `judge` gets the state before a byte.
pub(super) fn enumerate<S>(
    automaton: &mut Automaton,
    (config, state): (Config, S),
    steps: &mut usize,
    judge: impl Fn(&S, Step<'_>) -> Next<S>,
) -> Option<Vec<Vec<u8>>> {
    let mut open = VecDeque::from([Open { text: Vec::new(), config, state }]);
    let mut complete = Vec::new();
    while let Some(Open { text, config, state }) = open.pop_front() {
        let following = automaton.following(config);
        for byte in following.iter() {
            *steps = steps.checked_sub(1)?;
            let next = automaton.run(config, &[byte]);
            if next == Config::DEAD {
                continue;
            }
            let longer = || [&text[..], &[byte]].concat();
            match judge(&state, Step { automaton, following: &following, byte, next }) {
                Next::Complete => complete.push(longer()),
                Next::On(state) => open.push_back(Open { text: longer(), config: next, state }),
                Next::Both(state) => {
                    complete.push(longer());
                    open.push_back(Open { text: longer(), config: next, state });
                }
                Next::Skip => {}
            }
            // Each open text has a completion of its own.
            if complete.len() + open.len() > MAX_TEXTS {
                return None;
            }
        }
    }
    Some(complete)
}
