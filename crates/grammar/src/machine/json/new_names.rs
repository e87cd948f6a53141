//! Shortest undeclared names that have not been seen.
//!
//! A new name may share a prefix with names seen, and may end before them, extend them, or branch
//! off. The names seen are a trie. The search follows this trie as long as a name along it may
//! still be shorter than one that leaves it. Each place of the search also has a state in the
//! language of undeclared names and a node among the declared names.

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

/// The path to a place in a name.
#[derive(Clone, Copy)]
struct NamePath {
    place: NamePlace,
    /// Number of bytes so far, and the first of them.
    bytes: Shortest,
}

impl NamePath {
    /// Extends the path by the character `c`, which takes `bytes`, to another place.
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
    /// By label, the least number of bytes after a name.
    after: Vec<Option<u32>>,
    /// By label and length of a name, the least number of bytes after that name.
    after_taken: FxHashMap<(u32, u32), Option<u32>>,
    best: Option<Shortest>,
    ways: Vec<NamePath>,
    open: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Object<'_> {
    /// Returns the shortest text from inside a name through an undeclared name to the end of the object.
    ///
    /// All characters of the name so far must be known.
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
    /// Returns the shortest text to an end with a label, without regard to the names seen.
    fn nearest(&self, NamePlace { at, other, .. }: NamePlace, label: u32) -> Option<Shortest> {
        match self.object.rule.labels {
            Some(labels) => self.object.machine.program.languages[labels as usize].nearest(other, label),
            None if at == OUTSIDE => Some(QUOTE),
            None => Some(self.object.rule.names.node(at).outside()),
        }
    }

    /// Returns the label of a name that ends at a place, or `None` if that name is declared.
    fn label(&self, NamePlace { at, other, .. }: NamePlace) -> Option<u32> {
        match self.object.rule.labels {
            Some(labels) => Some(self.object.machine.program.languages[labels as usize].dfa().label(other)),
            None => (at == OUTSIDE || self.object.rule.names.node(at).word.is_none()).then_some(0),
        }
    }

    /// Considers the name with a label that ends after `bytes`.
    fn end(&mut self, way: NamePath, bytes: Shortest, label: u32) {
        let length = way.place.spelled + bytes.len - 1;
        if self.after.get(label as usize).is_some_and(Option::is_some)
            && let Some(after) = self.after_name(label, length)
        {
            let whole = way.and(bytes).then(after);
            self.best = Shortest::shorter(self.best, Some(whole));
        }
    }

    /// Returns the least number of bytes from the closing quote of a name to the end of the object.
    fn after_name(&mut self, label: u32, length: u32) -> Option<u32> {
        let Self { object, after_taken, .. } = self;
        let after = || object.after_other(label, Some((label, length)));
        *after_taken.entry((label, length)).or_insert_with(after)
    }

    /// Ends the names at a place without rivals, and queues a place with rivals.
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
    /// Tries each character with which a name seen continues, and one other character for each
    /// further target.
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
