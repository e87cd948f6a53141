//! Trigger matching in free text with an Aho–Corasick automaton.
//!
//! (Aho and Corasick, *Efficient string matching: an aid to bibliographic search*, 1975.)

use std::collections::{BTreeMap, VecDeque};

/// Aho–Corasick automaton over a list of triggers. In state 0, no trigger has begun.
pub(super) struct Triggers {
    states: Vec<State>,
    /// For each trigger, the state in which the trigger is complete.
    ends: Vec<usize>,
    /// For each trigger, true if text can complete the trigger: it is not empty, and no other
    /// trigger is complete before its end.
    comes_up: Vec<bool>,
}

/// A state of the automaton. It stands for a prefix of a trigger.
#[derive(Default)]
struct State {
    /// The states of the prefixes that are one character longer, by that character.
    children: BTreeMap<char, usize>,
    /// The failure link: the state of the longest proper suffix that is also a prefix of a trigger.
    shorter: usize,
    /// Indices of the triggers that end in this state, in order of decreasing length.
    complete: Vec<usize>,
}

/// Target of an edge of the automaton.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Next {
    State(usize),
    /// The character completes the triggers with these indices, and the text ends.
    Triggers(Vec<usize>),
}

impl Triggers {
    pub(super) fn new(triggers: &[String]) -> Self {
        let mut automaton = Self { states: vec![State::default()], ends: Vec::new(), comes_up: Vec::new() };
        for (index, trigger) in triggers.iter().enumerate() {
            let mut at = 0;
            for c in trigger.chars() {
                let next = automaton.states.len();
                let known = *automaton.states[at].children.entry(c).or_insert(next);
                if known == next {
                    automaton.states.push(State::default());
                }
                at = known;
            }
            automaton.states[at].complete.push(index);
            automaton.ends.push(at);
        }
        automaton.link();
        for trigger in triggers {
            let mut at = 0;
            let mut hidden = false;
            for c in trigger.chars() {
                hidden |= at != 0 && !automaton.states[at].complete.is_empty();
                at = automaton.states[at].children[&c];
            }
            automaton.comes_up.push(!hidden && at != 0);
        }
        automaton
    }

    /// Creates the automaton of `triggers` for text that must not contain the texts in `excluded`. If
    /// several triggers end at the same place, only the longest one fires, and none if an excluded text
    /// ends there. The indices of the excluded texts follow those of the triggers.
    pub(super) fn with_excluded(triggers: &[String], excluded: &[String]) -> Self {
        let texts: Vec<String> = triggers.iter().chain(excluded).cloned().collect();
        let mut automaton = Self::new(&texts);
        let Self { states, ends, .. } = &mut automaton;
        for State { complete, .. } in states {
            if complete.iter().any(|&text| text >= triggers.len()) {
                complete.retain(|&text| text >= triggers.len());
            } else if let Some(&longest) = complete.first() {
                let end = ends[longest];
                complete.retain(|&text| ends[text] == end);
            }
        }
        automaton
    }

    /// Computes the failure links, and adds the triggers that end in a suffix of each state. Works
    /// in breadth-first order, because a failure link leads to a shorter prefix.
    fn link(&mut self) {
        let mut open = VecDeque::from([0]);
        while let Some(state) = open.pop_front() {
            let children: Vec<(char, usize)> =
                self.states[state].children.iter().map(|(&c, &child)| (c, child)).collect();
            for (c, child) in children {
                let shorter = if state == 0 { 0 } else { self.after(self.states[state].shorter, c) };
                self.states[child].shorter = shorter;
                let complete = self.states[shorter].complete.clone();
                self.states[child].complete.extend(complete);
                open.push_back(child);
            }
        }
    }

    /// Returns the state after `c`, following failure links if the state has no child for `c`.
    fn after(&self, mut state: usize, c: char) -> usize {
        loop {
            if let Some(&next) = self.states[state].children.get(&c) {
                return next;
            }
            if state == 0 {
                return 0;
            }
            state = self.states[state].shorter;
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns true if text can complete the trigger with index `trigger`. Text cannot do so if
    /// another trigger inside the trigger is complete earlier.
    pub(super) fn comes_up(&self, trigger: usize) -> bool {
        self.comes_up[trigger]
    }

    /// Returns true if a trigger is complete in `state`.
    pub(super) fn is_complete(&self, state: usize) -> bool {
        !self.states[state].complete.is_empty()
    }

    /// Returns the edges of `state`, in the order of their characters. All other characters lead to
    /// state 0.
    pub(super) fn edges(&self, state: usize) -> Vec<(char, Next)> {
        let mut characters = BTreeMap::new();
        let mut at = state;
        loop {
            for (&c, &next) in &self.states[at].children {
                characters.entry(c).or_insert(next);
            }
            if at == 0 {
                break;
            }
            at = self.states[at].shorter;
        }
        let next = |(c, next): (char, usize)| match &*self.states[next].complete {
            [] => (c, Next::State(next)),
            complete => (c, Next::Triggers(complete.to_vec())),
        };
        characters.into_iter().map(next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_fires_unless_it_contains_another_trigger() {
        let triggers = ["ab", "bc", "xaby", "日b"].map(str::to_owned);
        let automaton = Triggers::new(&triggers);
        assert_eq!([0, 1, 2, 3].map(|trigger| automaton.comes_up(trigger)), [true, true, false, true]);
        for (text, expected) in [
            ("a", None),
            ("aab", Some(vec![0])),
            ("xab", Some(vec![0])),
            ("xxbbc", Some(vec![1])),
            ("日日b", Some(vec![3])),
            ("日a", None),
        ] {
            let mut at = Next::State(0);
            for c in text.chars() {
                let Next::State(state) = at else { panic!("{text} goes on after a trigger") };
                let edge = automaton.edges(state).into_iter().find(|(other, _)| *other == c);
                at = edge.map_or(Next::State(0), |(_, next)| next);
            }
            assert_eq!(matches!(at, Next::Triggers(_)), expected.is_some(), "{text}");
            if let (Next::Triggers(found), Some(expected)) = (at, expected) {
                assert_eq!(found, expected, "{text}");
            }
        }
    }
}
