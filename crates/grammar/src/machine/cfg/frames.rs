//! Splits rows into frames. A frame has one position in a rule, and the return of that rule.
//!
//! In the grammar of a programming language, few rows repeat, because a row also has everything
//! that may come later. The positions in rules at which a row reads a byte repeat often. A *bare
//! row* is a set of positions in one rule, and the end of the rule is the end of the output. Steps
//! from a bare row stay within the rule. The rules that a bare row calls have a row of their own.

use rustc_hash::FxHashMap;

use super::program::Shortest;
use super::returns::{OUTPUT_END, ReturnId};
use super::rows::{CfgMachine, Item, Row};
use super::states::Dot;
use crate::machine::{Config, Frame};

/// Cached results for frames.
#[derive(Default)]
pub(super) struct Frames {
    bare: FxHashMap<Box<[Dot]>, Config>,
    /// For each bare row with calls: the items that call rules or, once it is computed, the row of
    /// the called rules.
    calling: FxHashMap<Config, Calling>,
    /// For each sorted list of return ids, the row in which the callers have resumed.
    returned: FxHashMap<Box<[u32]>, Config>,
}

enum Calling {
    Dots(Vec<Item>),
    Row(Config),
}

impl CfgMachine {
    /// Appends the frames of the row `config`. Appends none if no rule of the grammar calls another
    /// rule.
    pub(super) fn frames_of(&mut self, config: Config, frames: &mut Vec<Frame>) {
        let (_, calls) = self.program.states.edges();
        if calls.is_empty() {
            return;
        }
        for at in 0..self.rows[config.index()].items.len() {
            let Item { dot, returns: ReturnId(returns) } = self.rows[config.index()].items[at];
            frames.push(Frame { rest: self.bare_row(vec![dot]), returns });
        }
    }

    pub(super) fn frames_of_callers(&mut self, returns: &[u32], frames: &mut Vec<Frame>) -> bool {
        let row = self.returned(returns);
        if row == Config::DEAD {
            return false;
        }
        self.frames_of(row, frames);
        self.rows[row.index()].accepting
    }

    fn returned(&mut self, returns: &[u32]) -> Config {
        if let Some(&known) = self.frames.returned.get(returns) {
            return known;
        }
        let callers = returns.iter().flat_map(|&id| &self.returns[id as usize].callers);
        let mut callers: Vec<Item> = callers.copied().collect();
        callers.sort_unstable();
        callers.dedup();
        let row = self.intern(callers);
        self.byte_len += size_of_val(returns) + 32;
        self.frames.returned.insert(returns.into(), row);
        row
    }

    /// Returns the bare row with these dots, which must be dots of one rule. Returns
    /// [`Config::DEAD`] if there are no dots.
    pub(super) fn bare_row(&mut self, mut dots: Vec<Dot>) -> Config {
        dots.sort_unstable();
        dots.dedup();
        if dots.is_empty() {
            return Config::DEAD;
        }
        if let Some(&known) = self.frames.bare.get(&*dots) {
            return known;
        }
        let states = || dots.iter().map(|&dot| (dot, self.program.state(dot)));
        let item = |dot| Item { dot, returns: OUTPUT_END };
        let items = states().filter(|(_, state)| !state.bytes.is_empty()).map(|(dot, _)| item(dot)).collect();
        let calling: Vec<Item> =
            states().filter(|(_, state)| !state.calls.is_empty()).map(|(dot, _)| item(dot)).collect();
        let accepting = states().any(|(_, state)| state.accepting);
        let closing = Shortest { len: Shortest::NEVER, first: 0 };
        let weight = dots.len() as u32;
        let row = self.push_row(Row { items, accepting, closing, bare: true, weight });
        self.byte_len += size_of_val(&*dots) + 64;
        self.frames.bare.insert(dots.into(), row);
        if !calling.is_empty() {
            self.frames.calling.insert(row, Calling::Dots(calling));
        }
        row
    }

    /// Reports whether a rule is called at the bare row `config`.
    pub(super) fn calls(&self, config: Config) -> bool {
        self.frames.calling.contains_key(&config)
    }

    /// Returns the row of the rules that are called at the bare row `config`. `None` if no rules
    /// are called there.
    pub(super) fn called_row(&mut self, config: Config) -> Option<Config> {
        let kernel = match self.frames.calling.get(&config)? {
            Calling::Row(row) => return Some(*row),
            Calling::Dots(items) => items.clone(),
        };
        let mut row = self.predict(&kernel, false);
        // The bare row already has the byte edges of the kernel itself.
        row.items = row.items.iter().filter(|item| kernel.binary_search(item).is_err()).copied().collect();
        let row = self.push_row(row);
        self.frames.calling.insert(config, Calling::Row(row));
        Some(row)
    }
}
