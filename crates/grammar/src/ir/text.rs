//! Texts of an automaton, whose length may be bounded.

use crate::GrammarError;
use rustc_hash::FxHashMap;

use crate::ledger::Ledger;

/// Maximum number of pairs of a state and a length.
const PAIRS: usize = 1 << 20;

/// The texts of an automaton over characters that have at least `min` and at most `max` characters.
///
/// The automaton has no copy of its states for each length. Only the distance to the nearest end is stored
/// for each pair of a state and a length.
#[derive(Debug)]
pub(crate) struct TextProgram {
    states: Vec<TextState>,
    pub(crate) start: u32,
    min: u32,
    /// Maximum number of characters. `None` if there is no maximum.
    max: Option<u32>,
    /// For each length and each state, the number of bytes to the nearest end, or [`NONE`]. The lengths
    /// from the last one up are one.
    closing: Vec<u32>,
    /// For each state, the first state with the same transitions over characters beyond ASCII.
    beyond_ascii: Vec<u32>,
    /// For each state, the least number of characters to an end, or [`NONE`].
    fewest: Vec<u32>,
    /// The largest of these numbers.
    farthest: u32,
}

/// A transition: the target state, and a range of code points.
pub(crate) type Edge = (u32, (u32, u32));

/// A state of the automaton.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextState {
    /// The ranges of the transitions are disjoint. In a program they are in order.
    pub(crate) edges: Vec<Edge>,
    pub(crate) ends: bool,
}

/// Number of bytes to the nearest end if no end is reachable.
pub(crate) const NONE: u32 = u32::MAX;

/// The code points that are no characters.
const SURROGATES: (u32, u32) = (0xd800, 0xdfff);

impl TextProgram {
    /// Creates a program. Returns `None` if there are no texts.
    ///
    /// # Errors
    /// Returns an error if there are too many pairs of a state and a length.
    pub(crate) fn new(
        mut states: Vec<TextState>,
        start: u32,
        (min, max): (u32, Option<u32>),
        ledger: &Ledger,
    ) -> Result<Option<Self>, GrammarError> {
        let lengths = max.unwrap_or(min) as usize + 1;
        let pairs = lengths.saturating_mul(states.len());
        if pairs > PAIRS {
            return Err(GrammarError::limit("pairs of a state and a length of a text", pairs, PAIRS));
        }
        let edges: usize = states.iter().map(|state| state.edges.len()).sum();
        ledger.spend(lengths.saturating_mul(states.len() + edges))?;
        ledger.hold(pairs * size_of::<u32>() + edges * 16)?;
        for state in &mut states {
            state.edges.sort_unstable_by_key(|&(_, range)| range);
        }
        let (beyond_ascii, fewest) = (beyond_ascii(&states), fewest(&states));
        let farthest = fewest.iter().copied().filter(|&count| count != NONE).max().unwrap_or(0);
        let closing = vec![NONE; pairs];
        let mut program = Self { states, start, min, max, closing, beyond_ascii, fewest, farthest };
        for length in (0..lengths as u32).rev() {
            // Without a maximum, the texts of the last length can have any number of further characters.
            while program.settle(length) && max.is_none() && length == min {
                ledger.spend(program.states.len() + edges)?;
            }
        }
        Ok((program.closing(start, 0) != NONE).then_some(program))
    }

    /// Computes the distances at `length` from those at the next length. Returns true if one changed.
    fn settle(&mut self, length: u32) -> bool {
        let mut changed = false;
        // Most transitions lead to later states, so one round from the back settles most of them.
        for at in (0..self.states.len() as u32).rev() {
            let closing = if self.ends(at, length) {
                0
            } else {
                let ways = self.states[at as usize].edges.iter();
                let ways =
                    ways.map(|edge| self.closing_over(edge, length).saturating_add(utf8_len(edge.1.0)));
                ways.min().unwrap_or(NONE)
            };
            let index = self.index(at, length);
            changed |= self.closing[index] != closing;
            self.closing[index] = closing;
        }
        changed
    }

    fn index(&self, state: u32, length: u32) -> usize {
        length as usize * self.states.len() + state as usize
    }

    pub(crate) fn state(&self, state: u32) -> &TextState {
        &self.states[state as usize]
    }

    /// Returns the state that stands for `state` inside of a character beyond ASCII.
    pub(crate) fn beyond_ascii(&self, state: u32) -> u32 {
        self.beyond_ascii[state as usize]
    }

    /// Returns the memory of the program in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        let edges: usize = self.states.iter().map(|state| size_of_val(&*state.edges)).sum();
        edges + self.states.len() * (size_of::<TextState>() + 8) + size_of_val(&*self.closing)
    }

    /// Reports whether a text may end in `state` after `length` characters.
    pub(crate) fn ends(&self, state: u32, length: u32) -> bool {
        length >= self.min && self.states[state as usize].ends
    }

    /// Returns the length after one more character. `None` if there may be no more.
    pub(crate) fn next_length(&self, length: u32) -> Option<u32> {
        match self.max {
            Some(max) => (length < max).then_some(length + 1),
            None => Some((length + 1).min(self.min)),
        }
    }

    /// Returns a length with the same continuations as `length` in `state`.
    ///
    /// If every continuation reaches the minimum and there is no maximum, this is the minimum.
    pub(crate) fn settled_length(&self, state: u32, length: u32) -> u32 {
        if self.max.is_none() && self.is_past_minimum(state, length) { self.min } else { length }
    }

    /// Reports whether no continuation is too short from `state` after `length` characters.
    pub(crate) fn is_past_minimum(&self, state: u32, length: u32) -> bool {
        length.saturating_add(self.fewest[state as usize]) >= self.min
    }

    /// Returns a number of characters that always fit after `length` characters. The maximum length then
    /// leaves room for an end, whatever the characters are.
    pub(crate) fn fitting(&self, length: u32) -> u32 {
        let Some(max) = self.max else { return u32::MAX };
        max.saturating_sub(length).saturating_sub(self.farthest)
    }

    /// Returns the number of bytes to the nearest end from `state` after `length` characters, or [`NONE`].
    pub(crate) fn closing(&self, state: u32, length: u32) -> u32 {
        self.closing[self.index(state, length)]
    }

    /// Returns the number of bytes to the nearest end after a character of `edge`, or [`NONE`]. `length` is
    /// the number of characters before this one.
    pub(crate) fn closing_over(&self, edge: &Edge, length: u32) -> u32 {
        self.next_length(length).map_or(NONE, |next| self.closing(edge.0, next))
    }

    /// Returns the character within `low..=high` that begins a shortest rest, and the length of the rest in
    /// bytes without the character. `None` if no text continues with such a character.
    pub(crate) fn nearest(&self, state: u32, length: u32, within: (u32, u32)) -> Option<(char, u32)> {
        let edges = self.states[state as usize].edges.iter();
        let ways = edges.filter_map(|edge| {
            let rest = self.closing_over(edge, length);
            let first = first_char(edge.1, within)?;
            (rest != NONE).then_some((first, rest))
        });
        ways.min_by_key(|(first, rest)| rest + first.len_utf8() as u32)
    }

    /// Returns one of the shortest texts.
    pub(crate) fn shortest(&self) -> Vec<u8> {
        self.rest(self.start, 0)
    }

    /// Returns a shortest rest from `state` after `length` characters.
    pub(crate) fn rest(&self, mut state: u32, mut length: u32) -> Vec<u8> {
        let mut text = String::new();
        while !self.ends(state, length) {
            let Some((first, _)) = self.nearest(state, length, (0, u32::MAX)) else { break };
            let Some((next, after)) = self.step(state, length, first) else { break };
            text.push(first);
            (state, length) = (next, after);
        }
        text.into_bytes()
    }

    /// Returns the state and the length after the character `c`. `None` if no text continues with `c`.
    pub(crate) fn step(&self, state: u32, length: u32, c: char) -> Option<(u32, u32)> {
        let c = u32::from(c);
        let next = self.next_length(length)?;
        let edges = &self.states[state as usize].edges;
        let after = edges.partition_point(|&(_, (low, _))| low <= c);
        let &(target, (_, high)) = edges.get(after.checked_sub(1)?)?;
        if high < c {
            return None;
        }
        (self.closing(target, next) != NONE).then_some((target, next))
    }
}

/// Computes [`TextProgram::beyond_ascii`].
fn beyond_ascii(states: &[TextState]) -> Vec<u32> {
    let mut firsts: FxHashMap<Vec<Edge>, u32> = FxHashMap::default();
    let first = |(state, at): (&TextState, u32)| {
        let wide = state.edges.iter().filter(|(_, (_, high))| *high >= 0x80);
        let mut wide: Vec<_> = wide.map(|&(to, (low, high))| (to, (low.max(0x80), high))).collect();
        wide.dedup_by(|next, previous| {
            let continues = next.0 == previous.0 && next.1.0 == previous.1.1 + 1;
            if continues {
                previous.1.1 = next.1.1;
            }
            continues
        });
        *firsts.entry(wide).or_insert(at)
    };
    states.iter().zip(0..).map(first).collect()
}

/// Computes [`TextProgram::fewest`].
fn fewest(states: &[TextState]) -> Vec<u32> {
    let mut sources = vec![Vec::new(); states.len()];
    let mut fewest = vec![NONE; states.len()];
    let mut reached = Vec::new();
    for (state, at) in states.iter().zip(0..) {
        state.edges.iter().for_each(|&(target, _)| sources[target as usize].push(at));
        if state.ends {
            fewest[at as usize] = 0;
            reached.push(at);
        }
    }
    let mut next = 0;
    while let Some(&at) = reached.get(next) {
        next += 1;
        for &source in &sources[at as usize] {
            if fewest[source as usize] == NONE {
                fewest[source as usize] = fewest[at as usize] + 1;
                reached.push(source);
            }
        }
    }
    fewest
}

/// Returns the first character in both ranges of code points. It has the shortest spelling of them.
fn first_char(range: (u32, u32), within: (u32, u32)) -> Option<char> {
    let (low, high) = (range.0.max(within.0), range.1.min(within.1));
    let low = if (SURROGATES.0..=SURROGATES.1).contains(&low) { SURROGATES.1 + 1 } else { low };
    char::from_u32(low).filter(|_| low <= high)
}

/// Returns the number of bytes of the code point `c` in UTF-8.
const fn utf8_len(c: u32) -> u32 {
    match c {
        0..0x80 => 1,
        0x80..0x800 => 2,
        0x800..0x1_0000 => 3,
        _ => 4,
    }
}
