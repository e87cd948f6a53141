//! Languages of strings, from `pattern`, `format`, `patternProperties` and `propertyNames`.
//!
//! An automaton over characters reads the output of the decoder in [`spelling`](super::spelling),
//! so the spelling of a character is irrelevant for the automaton. For each state and label, a
//! table has the length of the shortest text that leads from the state to the label, plus the
//! closing quote. This is the shortest way to close a string.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{Hash, Hasher};

use super::cost::Shortest;
use super::spelling::Decode;
use crate::options::Profile;
use crate::regular::TextDfa;

/// An automaton over the characters of a string, and the distance of each state to the nearest end.
/// An *end* is a state whose label is not 0: the strings that lead to it belong to at least one
/// language of the automaton.
#[derive(Debug)]
pub(crate) struct Texts {
    dfa: TextDfa,
    /// The shortest rest of a string from a state to a state with a given label, closing quote
    /// included. The first index is the label, and the second is the state. Not computed for label
    /// 0 of a single language.
    nearest: Vec<Vec<Option<Shortest>>>,
    /// For each state, the shortest rest of a string to any end, closing quote included.
    any: Vec<Option<Shortest>>,
    /// For each state, the rest of a string to any end with the fewest characters: its number of
    /// characters, and its bytes, closing quote included.
    fewest: Vec<Option<(u32, Shortest)>>,
}

/// Compares the automata, which determine everything else.
impl PartialEq for Texts {
    fn eq(&self, other: &Self) -> bool {
        self.dfa == other.dfa
    }
}

impl Eq for Texts {}

impl Hash for Texts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dfa.hash(state);
    }
}

/// A count that stands for infinitely many texts. Finite counts are capped at `ENDLESS - 1`.
pub(crate) const ENDLESS: u32 = u32::MAX;

impl Texts {
    pub(crate) fn new(dfa: TextDfa) -> Self {
        let ways = ReverseEdges::new(&dfa);
        let labels = dfa.labels().len() as u32;
        let nearest = |label| ways.nearest(|state| dfa.label(state) == label);
        let any = ways.nearest(|state| dfa.label(state) != 0);
        let nearest = match labels {
            // Label 0 marks texts outside the only language, and label 1 marks texts in the
            // language.
            2 => vec![Vec::new(), any.clone()],
            _ => (0..labels).map(nearest).collect(),
        };
        let fewest = ways.fewest(|state| dfa.label(state) != 0);
        Self { dfa, nearest, any, fewest }
    }

    /// Estimates the memory of the [`Texts`] of an automaton, in bytes.
    pub(crate) fn bytes_for(dfa: &TextDfa) -> usize {
        dfa.len() * dfa.labels().len() * size_of::<Option<Shortest>>()
    }

    /// Counts, for each state, the texts that lead from the state to a state whose label satisfies
    /// `counts`.
    ///
    /// Infinitely many texts count as [`ENDLESS`].
    pub(crate) fn counts_below(&self, counts: impl Fn(u32) -> bool) -> Vec<u32> {
        let states = 0..self.dfa.len() as u32;
        let mut into = vec![Vec::new(); self.dfa.len()];
        for state in states.clone() {
            for &(low, high, target) in self.dfa.transitions(state) {
                into[target as usize].push((state, characters(low, high)));
            }
        }
        let is_end = |&state: &u32| counts(self.dfa.label(state));
        let mut open: Vec<u32> = states.clone().filter(is_end).collect();
        let mut live = vec![false; self.dfa.len()];
        // For each state, the number of transitions to live states without a count. The number
        // never becomes 0 on a cycle.
        let mut left = vec![0u32; self.dfa.len()];
        while let Some(state) = open.pop() {
            if !std::mem::replace(&mut live[state as usize], true) {
                for &(from, _) in &into[state as usize] {
                    left[from as usize] += 1;
                    open.push(from);
                }
            }
        }
        let mut below: Vec<u32> = states.clone().map(|state| u32::from(is_end(&state))).collect();
        let mut ready: Vec<u32> =
            states.filter(|&state| live[state as usize] && left[state as usize] == 0).collect();
        while let Some(state) = ready.pop() {
            for &(from, characters) in &into[state as usize] {
                let more = below[state as usize].saturating_mul(characters);
                let all = &mut below[from as usize];
                *all = all.saturating_add(more).min(ENDLESS - 1);
                left[from as usize] -= 1;
                if left[from as usize] == 0 {
                    ready.push(from);
                }
            }
        }
        for (below, _) in below.iter_mut().zip(left).filter(|&(_, left)| left > 0) {
            *below = ENDLESS;
        }
        below
    }

    /// Returns the approximate memory in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        let nearest: usize = self.nearest.iter().map(|states| size_of_val(&**states)).sum();
        self.dfa.byte_len() + nearest + size_of_val(&*self.any) + size_of_val(&*self.fewest)
    }

    pub(crate) fn dfa(&self) -> &TextDfa {
        &self.dfa
    }

    /// Returns the shortest rest of a string from `state` to a state with `label`, closing quote
    /// included. Returns `None` if no such state is reachable.
    pub(crate) fn nearest(&self, state: u32, label: u32) -> Option<Shortest> {
        *self.nearest[label as usize].get(state as usize)?
    }

    /// Returns the shortest rest of a string from `state` to any end, closing quote included.
    pub(crate) fn nearest_any(&self, state: u32) -> Option<Shortest> {
        self.any[state as usize]
    }

    /// Returns the rest with the fewest characters from `state` to any end: its number of
    /// characters, and its bytes including the closing quote.
    pub(crate) fn fewest(&self, state: u32) -> Option<(u32, Shortest)> {
        self.fewest[state as usize]
    }

    /// Returns the rest of a string from inside a character to any end, closing quote included.
    /// Considers only rests with at most `left` characters, including the current one. Chooses the
    /// fewest characters, and among equal numbers the fewest bytes. Returns `None` if no end is
    /// near enough.
    ///
    /// `state` is the state before the character, and `decode` is the part of the character that
    /// has been read.
    pub(crate) fn fewest_after_char(
        &self,
        state: u32,
        decode: Decode,
        profile: Profile,
        left: u32,
    ) -> Option<Shortest> {
        let ways = self.dfa.transitions(state).iter().filter_map(|&(low, high, target)| {
            let (chars, rest) = self.fewest(target).filter(|&(chars, _)| chars < left)?;
            Some((chars, decode.finish_in(low, high, profile)?.then(rest.len)))
        });
        ways.min_by_key(|(chars, way)| (*chars, way.len)).map(|(_, way)| way)
    }

    /// Returns the number of characters of the longest text, or `None` if there is no longest text.
    pub(crate) fn longest(&self) -> Option<u32> {
        // States in topological order. States on a cycle never become ready.
        let states = 0..self.dfa.len() as u32;
        let mut into = vec![0u32; self.dfa.len()];
        let targets = |state: u32| self.dfa.transitions(state).iter().map(|&(.., to)| to as usize);
        for target in states.clone().flat_map(targets) {
            into[target] += 1;
        }
        let mut longest = vec![0; self.dfa.len()];
        let mut ready: Vec<u32> = states.filter(|&state| into[state as usize] == 0).collect();
        let mut done = 0;
        while let Some(state) = ready.pop() {
            done += 1;
            for target in targets(state) {
                longest[target] = longest[target].max(longest[state as usize] + 1);
                into[target] -= 1;
                if into[target] == 0 {
                    ready.push(target as u32);
                }
            }
        }
        (done == self.dfa.len()).then(|| longest.into_iter().max().unwrap_or(0))
    }

    /// Returns the shortest rest of a string from inside a character. `state` is the state before
    /// the character, and `decode` is the part of the character that has been read.
    ///
    /// The rest consists of the bytes that complete the character, and the result of `rest` for the
    /// next state.
    pub(crate) fn after_char(
        &self,
        state: u32,
        decode: Decode,
        profile: Profile,
        rest: impl Fn(u32) -> Option<Shortest>,
    ) -> Option<Shortest> {
        let mut best = None;
        for &(low, high, target) in self.dfa.transitions(state) {
            if let Some(end) = decode.finish_in(low, high, profile)
                && let Some(rest) = rest(target)
            {
                best = Shortest::shorter(best, Some(end.then(rest.len)));
            }
        }
        best
    }
}

/// Returns the number of characters in a range of code points.
fn characters(low: u32, high: u32) -> u32 {
    let surrogates = (high.min(0xdfff) + 1).saturating_sub(low.max(0xd800));
    high - low + 1 - surrogates
}

/// The reversed edges of an automaton.
struct ReverseEdges {
    /// For each state, the edges into it: the source, and the shortest spelling of one of the
    /// characters.
    into: Vec<Vec<(u32, Shortest)>>,
}

impl ReverseEdges {
    fn new(dfa: &TextDfa) -> Self {
        let mut into = vec![Vec::new(); dfa.len()];
        for from in 0..dfa.len() as u32 {
            for &(low, high, target) in dfa.transitions(from) {
                // Shortest spellings are the same in both profiles.
                if let Some(spelling) = Decode::Whole.finish_in(low, high, Profile::Generate) {
                    into[target as usize].push((from, spelling));
                }
            }
        }
        Self { into }
    }

    /// Returns, for each state, the shortest rest of a string to a state for which `ends` is true,
    /// closing quote included.
    fn nearest(&self, ends: impl Fn(u32) -> bool) -> Vec<Option<Shortest>> {
        let ways = self.best(ends, 0);
        ways.into_iter().map(|way| way.map(|(_, way)| way)).collect()
    }

    /// Returns, for each state, the rest with the fewest characters to a state for which `ends` is
    /// true: its number of characters, and its bytes including the closing quote.
    fn fewest(&self, ends: impl Fn(u32) -> bool) -> Vec<Option<(u32, Shortest)>> {
        self.best(ends, 1)
    }

    /// Returns, for each state, the cheapest rest of a string to a state for which `ends` is true:
    /// its cost and its bytes. Each character costs `char_cost`. Among equal costs, the fewest
    /// bytes win.
    ///
    /// Uses Dijkstra's algorithm, from the ends backwards.
    fn best(&self, ends: impl Fn(u32) -> bool, char_cost: u32) -> Vec<Option<(u32, Shortest)>> {
        let mut best = vec![None; self.into.len()];
        let mut queue = BinaryHeap::new();
        for state in (0..self.into.len() as u32).filter(|&state| ends(state)) {
            best[state as usize] = Some((0, Shortest::new(1, b'"')));
            queue.push(Reverse((0, 1, state)));
        }
        while let Some(Reverse((chars, len, state))) = queue.pop() {
            let known: Option<(u32, Shortest)> = best[state as usize];
            if known.is_some_and(|(known, way)| (known, way.len) < (chars, len)) {
                continue;
            }
            for &(from, spelling) in &self.into[state as usize] {
                let way = (chars + char_cost, spelling.then(len));
                let known = &mut best[from as usize];
                if known.is_none_or(|(chars, known)| (way.0, way.1.len) < (chars, known.len)) {
                    *known = Some(way);
                    queue.push(Reverse((way.0, way.1.len, from)));
                }
            }
        }
        best
    }
}
