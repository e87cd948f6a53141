//! Sets of texts as automata: intersection, what follows them, and membership.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::automata::{Automaton, State};
use super::strings::ALL;
use crate::argument_types::Names;
use crate::error::GrammarError;

impl Automaton {
    /// Returns the automaton of the names that a notation can write. Spaces occur only inside of names.
    pub(super) fn of_names(names: &Names) -> Self {
        let allowed = |low: u32, high: u32, is_allowed: &dyn Fn(char) -> bool| {
            let chars = (low..=high).filter_map(char::from_u32).filter(|&c| is_allowed(c));
            chars.map(|c| (1, (c.into(), c.into()))).collect::<Vec<_>>()
        };
        match names {
            Names::Without(reserved) => {
                let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !reserved.contains(c);
                // The last white space of Unicode is U+3000.
                let mut edges = allowed(0, 0x3000, &is_plain);
                edges.extend([(0x3001, 0xd7ff), (0xe000, 0x10_ffff)].map(|range| (1, range)));
                let space = (!reserved.contains(' ')).then_some((2, (0x20, 0x20)));
                let inside: Vec<_> = edges.iter().copied().chain(space).collect();
                let states = [(edges, false), (inside.clone(), true), (inside, false)];
                Self { states: states.map(|(edges, ends)| State { edges, ends }).into(), start: 0 }
            }
            Names::Tags => {
                // The last white space of Unicode is U+3000.
                let chars = |is_first: bool| {
                    let mut edges = allowed(0, 0x3000, &|c| Names::is_in_tags(c, is_first));
                    edges.extend([(0x3001, 0xd7ff), (0xe000, 0x10_ffff)].map(|range| (1, range)));
                    edges
                };
                let states = [(chars(true), false), (chars(false), true)];
                Self { states: states.map(|(edges, ends)| State { edges, ends }).into(), start: 0 }
            }
            Names::Identifiers => {
                let is_letter = |c: char| c == '_' || c.is_ascii_alphabetic();
                let first = allowed(0, 0x7f, &is_letter);
                let rest = allowed(0, 0x7f, &|c| is_letter(c) || c.is_ascii_digit());
                let states = vec![State { edges: first, ends: false }, State { edges: rest, ends: true }];
                Self { states, start: 0 }
            }
        }
    }

    /// Returns the automaton of all texts of `min` to `max` characters.
    pub(super) fn of_length(min: u32, max: Option<u32>, limit: usize) -> Result<Self, GrammarError> {
        let last = max.unwrap_or(min) as usize;
        if last >= limit {
            return Err(GrammarError::limit("states for the length of a string", last, limit));
        }
        let state = |chars: usize| {
            let next = if max.is_none() { (chars + 1).min(last) } else { chars + 1 };
            let goes_on = max.is_none() || chars < last;
            let edges = ALL.map(|range| (next, range)).into_iter().filter(|_| goes_on).collect();
            State { edges, ends: chars >= min as usize }
        };
        Ok(Self { states: (0..=last).map(state).collect(), start: 0 })
    }

    /// Returns the automaton of the texts of both automata, which are deterministic.
    pub(super) fn intersection(&self, other: &Self, limit: usize) -> Result<Self, GrammarError> {
        let start = (self.start, other.start);
        let mut ids = FxHashMap::from_iter([(start, 0)]);
        let mut pairs = vec![start];
        let mut states = Vec::new();
        let mut size = 0;
        while let Some(&(a, b)) = pairs.get(states.len()) {
            let (a, b) = (&self.states[a], &other.states[b]);
            let mut edges = Vec::new();
            for &(to, (low, high)) in &a.edges {
                for &(other_to, (other_low, other_high)) in &b.edges {
                    let range = (low.max(other_low), high.min(other_high));
                    if range.0 > range.1 {
                        continue;
                    }
                    let next = *ids.entry((to, other_to)).or_insert_with(|| {
                        pairs.push((to, other_to));
                        pairs.len() - 1
                    });
                    edges.push((next, range));
                }
            }
            size += 1 + edges.len();
            if size > limit {
                return Err(GrammarError::limit("states of the strings of a place", size, limit));
            }
            states.push(State { edges, ends: a.ends && b.ends });
        }
        Ok(Self { states, start: 0 })
    }

    /// Returns the automaton of the texts of this one, which is deterministic, followed by `lead`. The result
    /// is deterministic too.
    pub(super) fn followed_by(&self, lead: &str, limit: usize) -> Result<Self, GrammarError> {
        /// The state of this automaton, if the text may go on, and how many characters of `lead` may have
        /// been read.
        type Place = (Option<usize>, SmallVec<[usize; 2]>);
        let lead: Vec<u32> = lead.chars().map(u32::from).collect();
        let Some(&first) = lead.first() else { return Ok(self.clone()) };
        let mut places: Vec<Place> = vec![(Some(self.start), SmallVec::new())];
        let mut ids: FxHashMap<Place, usize> = FxHashMap::from_iter([(places[0].clone(), 0)]);
        let mut states = Vec::new();
        let mut size = 0;
        while let Some((at, read)) = places.get(states.len()).cloned() {
            let mut id_of = |place: Place| {
                *ids.entry(place).or_insert_with_key(|place| {
                    places.push(place.clone());
                    places.len() - 1
                })
            };
            let state = at.map(|at| &self.states[at]);
            let own = state.map(|state| state.edges.as_slice()).unwrap_or_default();
            // Each next character of `lead`, with the number of characters read then.
            let mut next: SmallVec<[(u32, usize); 4]> =
                read.iter().filter_map(|&read| Some((*lead.get(read)?, read + 1))).collect();
            next.extend(state.is_some_and(|state| state.ends).then_some((first, 1)));
            next.sort_unstable();
            let mut edges = Vec::with_capacity(own.len() + next.len());
            for &(to, (low, high)) in own {
                let mut from = low;
                let mut plain = |low: u32, high: u32| {
                    if low <= high {
                        edges.push((id_of((Some(to), SmallVec::new())), (low, high)));
                    }
                };
                for &(c, _) in next.iter().filter(|(c, _)| (low..=high).contains(c)) {
                    if from < c {
                        plain(from, c - 1);
                    }
                    from = from.max(c + 1);
                }
                plain(from, high);
            }
            for same in next.chunk_by(|a, b| a.0 == b.0) {
                let c = same[0].0;
                let to = own.iter().find(|(_, (low, high))| (*low..=*high).contains(&c)).map(|&(to, _)| to);
                let read = same.iter().map(|&(_, read)| read).collect();
                edges.push((id_of((to, read)), (c, c)));
            }
            size += 1 + edges.len();
            if size > limit {
                return Err(GrammarError::limit("states of the strings of a place", size, limit));
            }
            states.push(State { edges, ends: read.contains(&lead.len()) });
        }
        Ok(Self { states, start: 0 })
    }

    /// Reports whether the automaton, which is trimmed, has any text.
    pub(super) fn can_end(&self) -> bool {
        self.states.get(self.start).is_some_and(|start| start.ends || !start.edges.is_empty())
    }

    /// Reports whether some state has a transition over `c`.
    pub(super) fn reads(&self, c: char) -> bool {
        let edges = self.states.iter().flat_map(|state| &state.edges);
        edges.into_iter().any(|(_, (low, high))| (*low..=*high).contains(&c.into()))
    }

    /// Reports whether `text` is a text of the automaton.
    pub(super) fn accepts(&self, text: &str) -> bool {
        let mut at = self.start;
        for c in text.chars().map(u32::from) {
            let edge = self
                .states
                .get(at)
                .and_then(|state| state.edges.iter().find(|(_, (low, high))| (*low..=*high).contains(&c)));
            let Some(&(to, _)) = edge else { return false };
            at = to;
        }
        self.states.get(at).is_some_and(|state| state.ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all texts of at most `most` letters `a` and `b`.
    fn texts(most: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut done = 0;
        while let Some(text) = all.get(done).filter(|text| text.len() < most).cloned() {
            all.extend(["a", "b"].map(|more| text.clone() + more));
            done += 1;
        }
        all
    }

    #[test]
    fn texts_followed_by_another_are_exactly_those() {
        let mut seed = 5_u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let all = texts(7);
        for _ in 0..300 {
            let count = 1 + next(4);
            let state = |next: &mut dyn FnMut(usize) -> usize| {
                let edges = ['a', 'b'].into_iter().filter_map(|c| {
                    let to = next(count + 1);
                    (to < count).then_some((to, (c.into(), c.into())))
                });
                let edges = edges.collect();
                State { edges, ends: next(2) == 0 }
            };
            let states = (0..count).map(|_| state(&mut next)).collect();
            let automaton = Automaton { states, start: 0 };
            let lead = &all[next(30)];
            let both = automaton.followed_by(lead, 1 << 10).expect("small");
            for text in &all {
                let expected = text.strip_suffix(lead.as_str()).is_some_and(|text| automaton.accepts(text));
                assert_eq!(both.accepts(text), expected, "{text} ends in {lead}");
            }
        }
    }
}
