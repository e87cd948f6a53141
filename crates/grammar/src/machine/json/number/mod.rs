//! Numbers as automata over their digits.
//!
//! A number's text is compared with the bounds digit by digit, on the decimal digits themselves: no arithmetic, so no
//! rounding. The comparison of an integer part with a bound's is undecided until its length is known, so a state holds
//! the number of digits (up to one more than the bound has) and the order of the digits so far; in the fraction only the
//! order is left. States from which no number can be completed are pruned.
//!
//! `multipleOf` adds the remainder of the digits so far to the state.

mod rule;
mod walk;

pub(crate) use rule::{Bound, Multiple, NumberForm, NumberRule};
use rustc_hash::FxHashMap;
use walk::{Walk, spans};

use crate::frontend::json_schema::Profile;

/// Digits of a generated number, so that it is a finite double and reads back as written.
const GENERATED_DIGITS: usize = 15;

/// A minimal-effort automaton: pruned, not minimised. State 0 is the start.
#[derive(Clone, Debug)]
pub(crate) struct NumberDfa {
    rows: Vec<[u32; CLASSES]>,
    /// For each state, the bytes to the nearest end of a number, and the first of them.
    closing: Vec<(u32, u8)>,
}

const CLASSES: usize = 14;
const CLASS_BYTES: [u8; CLASSES] = *b"0123456789-+.e";
const NONE: u32 = u32::MAX;

const fn class(byte: u8) -> Option<usize> {
    match byte {
        b'0'..=b'9' => Some((byte - b'0') as usize),
        b'-' => Some(10),
        b'+' => Some(11),
        b'.' => Some(12),
        b'e' | b'E' => Some(13),
        _ => None,
    }
}

impl NumberDfa {
    /// The union of `rules`; `None` when no number satisfies any of them, and the number of states when it passes `limit`.
    pub(crate) fn new(rules: &[NumberRule], profile: Profile, limit: usize) -> Result<Option<Self>, usize> {
        let spans = spans(rules, profile);
        let start: Vec<_> = (0..spans.len() as u32).map(Walk::start).collect();
        let mut ids = FxHashMap::from_iter([(start.clone(), 0u32)]);
        let mut states = vec![start];
        let (mut rows, mut ends) = (Vec::new(), Vec::new());
        let mut next = Vec::new();
        while let Some(state) = states.get(rows.len()).cloned() {
            ends.push(state.iter().any(|walk| walk.ends(&spans[walk.rule as usize])));
            let mut row = [NONE; CLASSES];
            for (class, to) in row.iter_mut().enumerate() {
                next.clear();
                let walks = state.iter();
                next.extend(
                    walks.filter_map(|walk| walk.step(&spans[walk.rule as usize], CLASS_BYTES[class])),
                );
                next.sort_unstable();
                next.dedup();
                if next.is_empty() {
                    continue;
                }
                *to = if let Some(&known) = ids.get(&next) {
                    known
                } else {
                    let id = states.len() as u32;
                    ids.insert(next.clone(), id);
                    states.push(next.clone());
                    id
                };
            }
            rows.push(row);
            if rows.len() > limit {
                return Err(rows.len());
            }
        }
        Ok(Self::prune(rows, &ends))
    }

    /// Finds the way to the nearest end from every state, and cuts the edges into states that have none.
    fn prune(mut rows: Vec<[u32; CLASSES]>, ends: &[bool]) -> Option<Self> {
        let mut parents = vec![Vec::new(); rows.len()];
        for (from, row) in rows.iter().enumerate() {
            for (class, &to) in row.iter().enumerate().filter(|&(_, &to)| to != NONE) {
                parents[to as usize].push((from, CLASS_BYTES[class]));
            }
        }
        let mut closing = vec![(NONE, 0); rows.len()];
        let mut queue: std::collections::VecDeque<_> = (0..rows.len()).filter(|&state| ends[state]).collect();
        for &state in &queue {
            closing[state].0 = 0;
        }
        while let Some(state) = queue.pop_front() {
            for &(from, byte) in &parents[state] {
                if closing[from].0 == NONE {
                    closing[from] = (closing[state].0 + 1, byte);
                    queue.push_back(from);
                }
            }
        }
        for to in rows.iter_mut().flatten() {
            if *to != NONE && closing[*to as usize].0 == NONE {
                *to = NONE;
            }
        }
        (closing[0].0 != NONE).then_some(Self { rows, closing })
    }

    pub(crate) fn step(&self, state: u32, byte: u8) -> Option<u32> {
        let to = self.rows[state as usize][class(byte)?];
        (to != NONE).then_some(to)
    }

    /// The bytes to the nearest end, zero at one, and the first of them.
    pub(crate) fn closing(&self, state: u32) -> (u32, u8) {
        self.closing[state as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}
