//! Finds a class of characters such that any text over the class may follow ([`Tolerance`]).
//!
//! Such a class may exist in a number, and in a string or name with a pattern. Every state that
//! texts over the class lead to must accept the whole class, so the class shrinks as more states
//! are found. There is a trade-off between long texts over a small class and short texts over a
//! large class.

use super::classes::add_transitions;
use super::intern::Thread;
use super::names::{UNKNOWN, UNREAD};
use super::{JsonMachine, OUTSIDE, ROOT, State};
use crate::ByteSet;
use crate::ir::json::number::NumberDfa;
use crate::ir::json::program::LanguageRule;
use crate::ir::json::spelling::Decode;
use crate::ir::json::texts::Texts;
use crate::machine::{Config, Tolerance};
use crate::mask::char_classes::{ODD, ODD_BYTE};

/// Maximum number of characters to look ahead. Few tokens are longer.
const LONG: u32 = 24;

/// Length at which the comparison of two tolerances stops preferring the longer one. Longer tokens
/// are rare.
const USUAL: u32 = 8;

/// Maximum number of states that are examined.
const STATES: usize = 256;

impl JsonMachine {
    /// Returns the tolerance of `config`, or `None` if there is none. Uses the thread that allows
    /// the most tokens.
    pub(super) fn any_text(&self, config: Config) -> Option<Tolerance> {
        let threads = self.interner.threads_of(config);
        let tolerances = threads.iter().filter_map(|&thread| self.any_text_of(self.interner.thread(thread)));
        let most = tolerances.filter(|tolerance| tolerance.chars > 0).max_by_key(value)?;
        // Another thread may continue where this thread ends or rejects a byte.
        let alone = threads.len() == 1;
        Some(if alone { most } else { Tolerance { exits: !most.class, ends: false, ..most } })
    }

    fn any_text_of(&self, Thread { stack, state, text }: Thread) -> Option<Tolerance> {
        if self.interner.stack(stack).contested != ROOT && !self.is_unknown(stack, text) {
            return None;
        }
        let program = &*self.program;
        match state {
            State::Number { dfa, state } => {
                let chars = program.numbers[dfa as usize].any_digits(state);
                let class: ByteSet = (b'0'..=b'9').collect();
                Some(Tolerance { class, chars, exits: !class, ends: false, accepting: None })
            }
            State::Language { rule, state, chars, decode: Decode::Whole } => {
                let LanguageRule { language, max, .. } = program.language_rules[rule as usize];
                let left = max.map_or(u32::MAX, |max| max.saturating_sub(chars));
                program.languages[language as usize].any_text(state, left, |_| true)
            }
            State::Key { at, other, name: UNREAD | UNKNOWN, decode: Decode::Whole } if other != OUTSIDE => {
                let texts = &program.languages[self.object_rule(stack)?.labels? as usize];
                // A name that may still be undeclared may continue, even if it may also become a
                // declared one.
                let live = |other| {
                    let state = State::Key { at: OUTSIDE, other, name: UNKNOWN, decode: Decode::Whole };
                    self.find_plain(stack, state).is_some() || self.closing(stack, state).is_some()
                };
                let tolerance = texts.any_text(other, u32::MAX, live)?;
                // A declared name may be longer than all undeclared ones.
                Some(Tolerance { ends: tolerance.ends && at == OUTSIDE, ..tolerance })
            }
            _ => None,
        }
    }
}

/// Estimates the number of tokens that a tolerance allows.
fn value(tolerance: &Tolerance) -> usize {
    tolerance.class.len() * tolerance.chars.min(USUAL) as usize
}

impl NumberDfa {
    /// Returns the number of digits that may follow, whatever digits they are. `u32::MAX` if there
    /// is no limit.
    fn any_digits(&self, mut state: u32) -> u32 {
        for digits in 0..LONG {
            let Some(next) = self.step(state, b'0') else { return digits };
            if (b'1'..=b'9').any(|digit| self.step(state, digit) != Some(next)) {
                return digits;
            }
            if next == state {
                return u32::MAX;
            }
            state = next;
        }
        LONG
    }
}

impl Texts {
    /// Returns a tolerance at a position between two characters of a string. `None` if there is
    /// none.
    ///
    /// At most `left` more characters may follow. Transitions to states for which `live` is false
    /// are ignored.
    fn any_text(&self, state: u32, left: u32, live: impl Fn(u32) -> bool) -> Option<Tolerance> {
        let mut region = Region::new(self, state, left, live)?;
        let mut best = None;
        for steps in 1..=LONG {
            let closed = !region.step();
            let tolerance = region.tolerance(steps, closed);
            if best.as_ref().is_none_or(|best| value(best) <= value(&tolerance)) {
                best = Some(tolerance);
            }
            if closed || region.class.is_empty() || region.states.len() > STATES {
                break;
            }
        }
        best.filter(|best| !best.class.is_empty())
    }

    /// Returns the characters that `state` accepts next, in the encoding of [`Tolerance::class`].
    fn class(&self, state: u32, live: &impl Fn(u32) -> bool) -> ByteSet {
        let transitions = self.dfa().transitions(state).iter();
        plain_class(transitions.filter(|&&(.., target)| live(target)).map(|&(low, high, _)| (low, high)))
    }

    /// Returns the states to which `state` leads over characters in `class`, each with these
    /// characters.
    fn targets(&self, state: u32, class: ByteSet) -> Vec<(u32, ByteSet)> {
        let mut targets: Vec<(u32, ByteSet)> = Vec::new();
        for &(low, high, target) in self.dfa().transitions(state) {
            let mut own = ByteSet::default();
            if low < 0x80 {
                own.insert_range(low as u8, high.min(0x7f) as u8);
            }
            let (usual, odd) = beyond_ascii(low, high);
            if usual > 0 {
                own.insert_range(0x80, ODD_BYTE - 1);
            }
            if odd > 0 {
                own.insert(ODD_BYTE);
            }
            let own = own & class;
            match targets.iter_mut().find(|(known, _)| *known == target) {
                Some((_, known)) => *known = *known | own,
                None => targets.push((target, own)),
            }
        }
        targets.retain(|(_, own)| !own.is_empty());
        targets
    }
}

/// A class of characters, and the states that texts over the class lead to.
struct Region<'a, L> {
    texts: &'a Texts,
    live: L,
    /// Maximum number of characters that may follow in the string; `u32::MAX` if there is no limit.
    left: u32,
    class: ByteSet,
    states: Vec<u32>,
    /// Number of states in `states` that are known to accept the whole class. The others were found
    /// in the last step.
    settled: usize,
    /// Maximum number of characters after which all states can still reach the end of the string.
    reach: u32,
    /// True if some state is reached in more than one way, perhaps after different numbers of
    /// characters.
    meets: bool,
}

impl<'a, L: Fn(u32) -> bool> Region<'a, L> {
    fn new(texts: &'a Texts, state: u32, left: u32, live: L) -> Option<Self> {
        let (class, states) = (ByteSet::ALL, vec![state]);
        let mut region = Self { texts, live, left, class, states, settled: 0, reach: left, meets: false };
        region.reach = region.before(state)?;
        Some(region)
    }

    /// Returns the maximum number of characters before `state`, so that the string can still end
    /// within `left` characters. `None` if `state` cannot end within that limit.
    fn before(&self, state: u32) -> Option<u32> {
        match self.left {
            u32::MAX => Some(u32::MAX),
            left => left.checked_sub(self.texts.fewest(state)?.0),
        }
    }

    /// Restricts the class to the characters that the newest states accept, and finds the states to
    /// which these characters lead.
    ///
    /// If a new state would remove more characters from the class than lead to it, the characters
    /// that lead to it are removed instead. Returns false if there are no new states.
    fn step(&mut self) -> bool {
        let found = self.states.len();
        for at in self.settled..found {
            self.class = self.class & self.texts.class(self.states[at], &self.live);
        }
        for at in self.settled..found {
            for (target, by) in self.texts.targets(self.states[at], self.class) {
                let by = by & self.class;
                if self.states.contains(&target) || by.is_empty() {
                    self.meets |= !by.is_empty();
                    continue;
                }
                let lost = self.class & !self.texts.class(target, &self.live);
                match self.before(target).filter(|_| lost.len() <= by.len()) {
                    Some(reach) => {
                        self.reach = self.reach.min(reach);
                        self.states.push(target);
                    }
                    None => self.class = self.class & !by,
                }
            }
        }
        self.settled = found;
        self.states.len() > found
    }

    /// Returns the tolerance after `steps` calls of [`step`](Self::step). `closed` is true if the
    /// last step found no new state.
    fn tolerance(&self, steps: u32, closed: bool) -> Tolerance {
        let (class, chars) = (self.class, if closed { self.reach } else { self.reach.min(steps) });
        let mut exits = ByteSet::default();
        for &state in &self.states {
            add_transitions(self.texts, state, &mut exits);
        }
        let ends_at = |&state: &u32| (self.texts.class(state, &self.live) & class).is_empty();
        let exhausted = !self.meets && chars == steps && self.states[self.settled..].iter().all(ends_at);
        let ends = (!closed && exhausted) || (self.left != u32::MAX && chars == self.left);
        Tolerance { class, chars, exits: exits & !class, ends, accepting: None }
    }
}

/// Returns the class of the characters in disjoint ranges, in the encoding of [`Tolerance::class`].
///
/// The class contains only the ASCII characters that are written in a string without an escape, and
/// the bytes that stand for the characters beyond ASCII.
fn plain_class(ranges: impl Iterator<Item = (u32, u32)>) -> ByteSet {
    let mut class = ByteSet::default();
    let (mut usual, mut odd) = (0, 0);
    for (low, high) in ranges {
        if low < 0x80 {
            class.insert_range(low.max(0x20) as u8, high.min(0x7f) as u8);
        }
        let beyond = beyond_ascii(low, high);
        (usual, odd) = (usual + beyond.0, odd + beyond.1);
    }
    let all = beyond_ascii(0, u32::from(char::MAX));
    if usual == all.0 {
        class.insert_range(0x80, ODD_BYTE - 1);
    }
    if odd == all.1 {
        class.insert(ODD_BYTE);
    }
    class.without(b"\"\\")
}

/// Returns the number of characters beyond ASCII in a range: first the characters outside [`ODD`],
/// and then the characters in [`ODD`].
fn beyond_ascii(low: u32, high: u32) -> (u32, u32) {
    let overlap = |from: u32, to: u32| (high.min(to) + 1).saturating_sub(low.max(from));
    let odd = ODD.iter().map(|&(from, to)| overlap(from.into(), to.into())).sum();
    (overlap(0x80, 0xd7ff) + overlap(0xe000, char::MAX.into()) - odd, odd)
}
