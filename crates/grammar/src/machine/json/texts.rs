//! Languages of strings: what `pattern`, `format`, `patternProperties` and `propertyNames` ask for.
//!
//! An automaton over characters stands behind the decoder of [`spelling`](super::spelling), so it never sees how a
//! character is written. For the way to the end of a string it is enough to know, per state and label, the least number
//! of bytes that spell some text from there and its quote.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cost::Shortest;
use super::spelling::Decode;
use crate::frontend::json_schema::Profile;
use crate::regular::TextDfa;

/// An automaton over the characters of a string, and how far each of its ends is.
#[derive(Debug)]
pub(crate) struct Texts {
    dfa: TextDfa,
    /// By label and state: the bytes to the nearest end with that label, its quote included.
    nearest: Vec<Vec<Option<Shortest>>>,
    /// By state: the same to the nearest end with any label.
    any: Vec<Option<Shortest>>,
}

impl Texts {
    pub(crate) fn new(dfa: TextDfa) -> Self {
        let ways = Ways::new(&dfa);
        let labels = dfa.labels().len() as u32;
        let nearest: Vec<_> = (0..labels).map(|label| ways.to(|state| dfa.label(state) == label)).collect();
        let any = ways.to(|state| dfa.label(state) != 0);
        Self { dfa, nearest, any }
    }

    pub(crate) fn dfa(&self) -> &TextDfa {
        &self.dfa
    }

    /// From between two characters to the nearest end with a label, its quote included.
    pub(crate) fn nearest(&self, state: u32, label: u32) -> Option<Shortest> {
        self.nearest[label as usize][state as usize]
    }

    /// To the nearest end that any label marks.
    pub(crate) fn nearest_any(&self, state: u32) -> Option<Shortest> {
        self.any[state as usize]
    }

    /// The least of what `rest` gives for the states that the character being read may lead to, with the bytes that
    /// complete the character.
    pub(super) fn after_char(
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

/// The edges of an automaton backwards, each with the shortest spelling of one of its characters.
struct Ways {
    into: Vec<Vec<(u32, Shortest)>>,
}

impl Ways {
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

    /// From each state, the bytes to the nearest that `ends` and the quote after it (Dijkstra, from the ends).
    fn to(&self, ends: impl Fn(u32) -> bool) -> Vec<Option<Shortest>> {
        let mut best = vec![None; self.into.len()];
        let mut queue = BinaryHeap::new();
        for state in (0..self.into.len() as u32).filter(|&state| ends(state)) {
            best[state as usize] = Some(Shortest::new(1, b'"'));
            queue.push(Reverse((1, state)));
        }
        while let Some(Reverse((len, state))) = queue.pop() {
            if best[state as usize].is_some_and(|known: Shortest| known.len < len) {
                continue;
            }
            for &(from, spelling) in &self.into[state as usize] {
                let way = spelling.then(len);
                let known = &mut best[from as usize];
                if known.is_none_or(|known| way.len < known.len) {
                    *known = Some(way);
                    queue.push(Reverse((way.len, from)));
                }
            }
        }
        best
    }
}
