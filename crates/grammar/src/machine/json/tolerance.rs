//! Classes of characters such that any text over the class may follow in a number, or in a string or name
//! with a pattern ([`Tolerance`]).

use super::classes::add_transitions;
use super::intern::Thread;
use super::names::{UNKNOWN, UNREAD};
use super::{JsonMachine, OUTSIDE, ROOT, State};
use crate::ByteSet;
use crate::ir::json::number::NumberDfa;
use crate::ir::json::program::LanguageRule;
use crate::ir::json::spelling::Decode;
use crate::ir::json::texts::Texts;
use crate::machine::region::{CharGraph, LONG, any_text, value};
use crate::machine::{Config, Tolerance};

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
                let texts = &*program.languages[language as usize];
                any_text(&Strings { texts, live: |_| true }, state, left)
            }
            State::Key { at, other, name: UNREAD | UNKNOWN, decode: Decode::Whole } if other != OUTSIDE => {
                let texts = &program.languages[self.object_rule(stack)?.labels? as usize];
                // A name that may still be undeclared may continue, even if it may also become a
                // declared one.
                let live = |other| {
                    let state = State::Key { at: OUTSIDE, other, name: UNKNOWN, decode: Decode::Whole };
                    self.find_plain(stack, state).is_some() || self.closing(stack, state).is_some()
                };
                let tolerance = any_text(&Strings { texts, live }, other, u32::MAX)?;
                // A declared name may be longer than all undeclared ones.
                Some(Tolerance { ends: tolerance.ends && at == OUTSIDE, ..tolerance })
            }
            _ => None,
        }
    }
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

/// The strings of a language. Only targets for which `live` is true lead to a string.
struct Strings<'a, L> {
    texts: &'a Texts,
    live: L,
}

impl<L: Fn(u32) -> bool> CharGraph for Strings<'_, L> {
    fn plain(&self) -> ByteSet {
        let mut plain = ByteSet::default();
        plain.insert_range(0x20, 0x7f);
        plain.without(b"\"\\")
    }

    fn transitions(&self, state: u32) -> impl Iterator<Item = ((u32, u32), u32)> {
        self.texts.dfa().transitions(state).iter().map(|&(low, high, target)| ((low, high), target))
    }

    fn is_live(&self, state: u32) -> bool {
        (self.live)(state)
    }

    fn fewest(&self, state: u32) -> Option<u32> {
        Some(self.texts.fewest(state)?.0)
    }

    fn add_first_bytes(&self, state: u32, bytes: &mut ByteSet) {
        add_transitions(self.texts, state, bytes);
    }
}
