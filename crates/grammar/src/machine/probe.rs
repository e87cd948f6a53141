//! Finds a [`Tolerance`] by probing.
//!
//! In most grammars, each character of a repeated character class leads back to the same config. If
//! a machine does not report such a class, the probe finds it with steps. It steps over every ASCII
//! character, and over the encodings of all other characters.

use super::automaton::Automaton;
use super::{Config, Tolerance};
use crate::ByteSet;

/// Returns a tolerance of unbounded length for `config`, if more than [`WIDE`] characters may
/// repeat there. Otherwise returns `None`.
pub(super) fn tolerance(automaton: &mut Automaton, config: Config) -> Option<Tolerance> {
    let plausible = automaton.plausible(config);
    let ascii: ByteSet = plausible.iter().take_while(u8::is_ascii).collect();
    // Grammars may distinguish the first character of a repetition from the others, so `home` may
    // differ from `config`.
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

/// Number of bytes that a class must exceed to be worth a [`Tolerance`].
pub(super) const WIDE: usize = 8;

/// The range of a UTF-8 continuation byte.
const NEXT: (u8, u8) = (0x80, 0xbf);

/// Encodings of some characters: the first and last lead byte, and the range of each byte after the
/// lead byte.
pub(super) type Encodings = (u8, u8, &'static [(u8, u8)]);

/// The UTF-8 encodings of all non-ASCII characters, grouped by lead byte.
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

/// A search that checks whether all characters of a range lead to the config `home`.
struct Returns {
    home: Config,
    /// Pairs of a config and a number of continuation bytes. All sequences of this number of
    /// continuation bytes lead from the config to `home`.
    known: Vec<(Config, usize)>,
    steps: usize,
}

impl Returns {
    /// Maximum number of steps of a search. A search takes about 500 steps if all characters lead
    /// through the same configs, as is usual.
    const STEPS: usize = 2000;

    /// Reports whether `byte`, followed by any bytes in the ranges of `rest`, leads from `config`
    /// to `home`. Returns false if the search is out of steps.
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
