//! Tolerance found by trying.
//!
//! Most classes of characters that a grammar repeats lead back to one config: a machine that knows nothing of them is
//! stepped over every character of ASCII, and over what the encodings of all others consist of.

use super::automaton::Automaton;
use super::{Config, Tolerance};
use crate::ByteSet;

/// The text that `config` takes in any amount, where that is a wide class of characters.
pub(super) fn tolerance(automaton: &mut Automaton, config: Config) -> Option<Tolerance> {
    let plausible = automaton.plausible(config);
    let ascii: ByteSet = plausible.iter().take_while(u8::is_ascii).collect();
    // Grammars may tell the first character of a repetition from the others, so home need not be here.
    let middle = ascii.iter().nth(ascii.iter().count() / 2)?;
    let home = Some(automaton.step(config, middle)).filter(|&home| home != Config::DEAD)?;
    let mut class = ByteSet::default();
    for byte in ascii.iter() {
        if [config, home].iter().all(|&from| automaton.step(from, byte) == home) {
            class.insert(byte);
        }
    }
    class.iter().nth(WIDE)?;
    let mut returns = Returns { home, known: Vec::new(), steps: 0 };
    let mut beyond_ascii = |from: Config| {
        CHARACTERS.iter().all(|&(low, high, rest)| {
            (low..=high).all(|lead| plausible.contains(lead) && returns.after(automaton, from, lead, rest))
        })
    };
    if beyond_ascii(config) && beyond_ascii(home) {
        class.insert_range(0x80, u8::MAX);
    }
    let exits = (plausible | automaton.plausible(home)) & !class;
    Some(Tolerance { class, chars: u32::MAX, exits, ends: false, accepting: None })
}

/// The least number of ASCII characters that make it worth while to look for a [`Tolerance`].
pub(super) const WIDE: usize = 8;

/// A continuation byte of UTF-8.
const NEXT: (u8, u8) = (0x80, 0xbf);

/// The first and the last first byte, and the ranges of the bytes after it.
pub(super) type Encodings = (u8, u8, &'static [(u8, u8)]);

/// The encodings of the characters beyond ASCII: a range of first bytes, and those of the bytes after it.
pub(super) const CHARACTERS: [Encodings; 8] = [
    (0xc2, 0xdf, &[NEXT]),
    (0xe0, 0xe0, &[(0xa0, 0xbf), NEXT]),
    (0xe1, 0xec, &[NEXT, NEXT]),
    (0xed, 0xed, &[(0x80, 0x9f), NEXT]),
    (0xee, 0xef, &[NEXT, NEXT]),
    (0xf0, 0xf0, &[(0x90, 0xbf), NEXT, NEXT]),
    (0xf1, 0xf3, &[NEXT, NEXT, NEXT]),
    (0xf4, 0xf4, &[(0x80, 0x8f), NEXT, NEXT]),
];

/// The search for a way by which some character does not lead back to a config.
struct Returns {
    home: Config,
    /// From this config so many continuation bytes lead home, whichever they are.
    known: Vec<(Config, usize)>,
    steps: usize,
}

impl Returns {
    /// The most steps of a search. Where all characters share their states, as they mostly do, it takes about 500.
    const STEPS: usize = 2000;

    /// Whether `byte` and then any bytes of the ranges in `rest` lead from `config` home.
    fn after(&mut self, automaton: &mut Automaton, config: Config, byte: u8, rest: &[(u8, u8)]) -> bool {
        self.steps += 1;
        let next = automaton.step(config, byte);
        let Some((&(low, high), after)) = rest.split_first() else { return next == self.home };
        let any = rest.iter().all(|&range| range == NEXT);
        if any && self.known.contains(&(next, rest.len())) {
            return true;
        }
        let returns = next != Config::DEAD
            && self.steps < Self::STEPS
            && (low..=high).all(|byte| self.after(automaton, next, byte, after));
        if any && returns {
            self.known.push((next, rest.len()));
        }
        returns
    }
}
