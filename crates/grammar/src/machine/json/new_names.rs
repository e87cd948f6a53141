//! Searches for the shortest undeclared name that an object has not seen.
//!
//! A new name may begin like a name seen, and then end early, continue after its end, or continue
//! with another character. The names seen form a trie. The search follows the trie as long as a
//! name along it may still be shorter than a name that leaves it. Each place of the search also has
//! a state in the language of undeclared names, and a node in the trie of declared names.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::OUTSIDE;
use super::closing::{NamePlace, Object};
use super::names::{NO_NAMES, NamesId};
use crate::ir::json::cost::Shortest;
use crate::ir::json::shortest_spelling;
use crate::ir::json::spelling::Decode;

const QUOTE: Shortest = Shortest::new(1, b'"');

/// A path of the search: a place in a name, and the bytes that lead to it.
#[derive(Clone, Copy)]
struct NamePath {
    place: NamePlace,
    /// Number of bytes on the path, and the first byte.
    bytes: Shortest,
}

impl NamePath {
    /// Returns the path extended by the character `c`, which is spelt as `bytes`. `(at, other,
    /// rivals)` is the new place, as in [`NamePlace`].
    fn on(self, bytes: Shortest, c: char, (at, other, rivals): (u32, u32, NamesId)) -> Self {
        let spelled = self.place.spelled + shortest_spelling(c).len;
        let bytes = self.and(bytes);
        Self { place: NamePlace { at, other, rivals, spelled }, bytes }
    }

    fn and(self, bytes: Shortest) -> Shortest {
        if self.bytes.len == 0 { bytes } else { self.bytes.then(bytes.len) }
    }
}

/// A search for the undeclared name that leads to the shortest completion.
struct Search<'a> {
    object: &'a Object<'a>,
    /// For each label, the least number of bytes from the closing quote of a name with this label
    /// to the end of the object. `None` if such a name cannot come.
    after: Vec<Option<u32>>,
    /// For names of a known length, the number of bytes as in `after`, by label and length. The
    /// number may be larger than in `after`, because the name is then no longer available for other
    /// members.
    after_taken: FxHashMap<(u32, u32), Option<u32>>,
    best: Option<Shortest>,
    ways: Vec<NamePath>,
    open: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Object<'_> {
    /// Returns the shortest text from `place` in a name, through an undeclared name, to the end of
    /// the object. `None` if there is no such text.
    ///
    /// The characters of the name so far must be known.
    pub(super) fn undeclared(&self, place: NamePlace, decode: Decode) -> Option<Shortest> {
        if place.other == OUTSIDE {
            return None;
        }
        let after = (0..self.rule.others.len() as u32).map(|label| self.after_other(label, None)).collect();
        let mut search = Search {
            object: self,
            after,
            after_taken: FxHashMap::default(),
            best: None,
            ways: Vec::new(),
            open: BinaryHeap::new(),
        };
        let start = NamePath { place, bytes: Shortest::new(0, 0) };
        match decode {
            Decode::Whole => search.consider(start),
            _ => search.expand(start, decode),
        }
        while let Some(Reverse((_, at))) = search.open.pop() {
            search.go_on(search.ways[at as usize]);
        }
        search.best
    }
}

impl Search<'_> {
    /// Returns the shortest text from a place to the closing quote of an undeclared name with
    /// `label`, inclusive. Ignores the names seen.
    fn nearest(&self, NamePlace { at, other, .. }: NamePlace, label: u32) -> Option<Shortest> {
        match self.object.rule.labels {
            Some(labels) => self.object.machine.program.languages[labels as usize].nearest(other, label),
            None if at == OUTSIDE => Some(QUOTE),
            None => Some(self.object.rule.names.node(at).outside()),
        }
    }

    /// Returns the label of the name that ends at a place. Returns `None` if the name is declared.
    fn label(&self, NamePlace { at, other, .. }: NamePlace) -> Option<u32> {
        match self.object.rule.labels {
            Some(labels) => Some(self.object.machine.program.languages[labels as usize].dfa().label(other)),
            None => (at == OUTSIDE || self.object.rule.names.node(at).word.is_none()).then_some(0),
        }
    }

    /// Updates the best result with the name that has `label` and ends after the path `way` and
    /// `bytes`. `bytes` include the closing quote.
    fn end(&mut self, way: NamePath, bytes: Shortest, label: u32) {
        let length = way.place.spelled + bytes.len - 1;
        if self.after.get(label as usize).is_some_and(Option::is_some)
            && let Some(after) = self.after_name(label, length)
        {
            let whole = way.and(bytes).then(after);
            self.best = Shortest::shorter(self.best, Some(whole));
        }
    }

    /// Returns the least number of bytes from the closing quote of a name with this label and
    /// length to the end of the object.
    fn after_name(&mut self, label: u32, length: u32) -> Option<u32> {
        let Self { object, after_taken, .. } = self;
        let after = || object.after_other(label, Some((label, length)));
        *after_taken.entry((label, length)).or_insert_with(after)
    }

    /// If the place has no rivals, updates the best result with the shortest name of each label.
    /// Otherwise queues the place.
    fn consider(&mut self, way: NamePath) {
        let ends = (0..self.after.len() as u32).filter_map(|label| {
            let after = self.after[label as usize]?;
            let bytes = self.nearest(way.place, label)?;
            Some((bytes.len.saturating_add(after), bytes, label))
        });
        let ends: Vec<_> = ends.collect();
        if way.place.rivals == NO_NAMES {
            for (_, bytes, label) in ends {
                self.end(way, bytes, label);
            }
        } else if let Some(least) = ends.iter().map(|&(least, ..)| least).min() {
            let least = way.bytes.len.saturating_add(least);
            self.open.push(Reverse((least, self.ways.len() as u32)));
            self.ways.push(way);
        }
    }

    fn go_on(&mut self, way: NamePath) {
        let labels = 0..self.after.len() as u32;
        let least = labels.filter_map(|label| {
            Some(self.nearest(way.place, label)?.len.saturating_add(self.after[label as usize]?))
        });
        let least = least.min().unwrap_or(u32::MAX).saturating_add(way.bytes.len);
        if self.best.is_some_and(|best| best.len <= least) {
            return;
        }
        if !self.object.machine.names.ends(way.place.rivals)
            && let Some(label) = self.label(way.place)
        {
            self.end(way, QUOTE, label);
        }
        // Longer names cost at least `least`, so the place is expanded only if the best name costs more.
        if self.best.is_none_or(|best| best.len > least) {
            self.expand(way, Decode::Whole);
        }
    }

    /// Extends a path by one character.
    ///
    /// Tries each character with which a name seen continues. For each other target state or node,
    /// tries one character.
    fn expand(&mut self, way: NamePath, decode: Decode) {
        let machine = self.object.machine;
        let (profile, rule) = (machine.program.profile, self.object.rule);
        let NamePlace { at, other, rivals, .. } = way.place;
        let children = machine.names.next_chars(rivals);
        let trie = |c: char| if at == OUTSIDE { None } else { rule.names.node(at).child(c) };
        let dfa = rule.labels.map(|labels| machine.program.languages[labels as usize].dfa());
        for &(c, rivals) in &children {
            let next = dfa.map_or(Some(0), |dfa| dfa.next(other, c));
            if let (Some(bytes), Some(next)) = (decode.finish(c, profile), next) {
                self.consider(way.on(bytes, c, (trie(c).unwrap_or(OUTSIDE), next, rivals)));
            }
        }
        let mut known: Vec<char> = children.into_iter().map(|(c, _)| c).collect();
        if let Some(dfa) = dfa {
            let ranges =
                if decode == Decode::Whole { vec![(0, u32::MAX)] } else { decode.candidates(profile) };
            for &(from, to) in &ranges {
                for &(low, high, next) in dfa.transitions_within(other, from, to) {
                    let (low, high) = (low.max(from), high.min(to));
                    if let Some((bytes, c)) = decode.finish_other(low, high, profile, &known) {
                        self.consider(way.on(bytes, c, (trie(c).unwrap_or(OUTSIDE), next, NO_NAMES)));
                    }
                }
            }
        } else {
            let declared = if at == OUTSIDE { &[][..] } else { &rule.names.node(at).children };
            for &(c, child) in declared.iter().filter(|(c, _)| !known.contains(c)) {
                if let Some(bytes) = decode.finish(c, profile) {
                    self.consider(way.on(bytes, c, (child, 0, NO_NAMES)));
                }
            }
            known.extend(declared.iter().map(|&(c, _)| c));
            if let Some((bytes, c)) = decode.finish_other(0, char::MAX.into(), profile, &known) {
                self.consider(way.on(bytes, c, (OUTSIDE, 0, NO_NAMES)));
            }
        }
    }
}
