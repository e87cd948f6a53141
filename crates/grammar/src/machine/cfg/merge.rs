//! Merges equivalent states of a rule's automaton.
//!
//! Example: a rule for words that are not keywords. Its automaton has a separate loop for each
//! letter of each keyword at which a word may differ from the keyword. After merging, these loops
//! are a single state, and results for that state are computed once.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::program::{ByteEdge, CallEdge, Dot, State};
use crate::regular::minimize::{Edge, Incoming, minimize};

/// Maximum number of edges of an automaton that is minimised; larger automata are left unchanged.
/// The limits of all edges cut the bytes into ranges. An edge counts once for each range that it
/// covers.
const EDGES: usize = 1 << 19;

/// Returns the minimal automaton that is equivalent to a deterministic automaton. State 0 remains
/// the start.
pub(super) fn merged(states: Vec<State>) -> Vec<State> {
    if states.len() <= 2 {
        return states;
    }
    match ends_first(&states) {
        Some(order) => merged_in_order(states, &order),
        None => merged_by_parts(states),
    }
}

/// Like [`merged`], for any automaton.
fn merged_by_parts(states: Vec<State>) -> Vec<State> {
    let Some(edges) = edges(&states) else { return states };
    let labels: Vec<u32> = states.iter().map(|state| state.accepting.into()).collect();
    let classes = minimize(&labels, &edges, &Incoming::new(states.len(), &edges));
    kept_of_classes(states, &classes)
}

/// Returns the states in an order in which each comes after its targets. `None` if there is a cycle.
fn ends_first(states: &[State]) -> Option<Vec<u32>> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Seen {
        No,
        Open,
        Done,
    }
    let targets = |at: u32| {
        let state = &states[at as usize];
        let bytes = state.bytes.iter().map(|edge| edge.target.0);
        bytes.chain(state.calls.iter().map(|edge| edge.target.0))
    };
    let mut seen = vec![Seen::No; states.len()];
    let mut order = Vec::with_capacity(states.len());
    let mut open = Vec::new();
    for first in 0..states.len() as u32 {
        open.push(first);
        while let Some(&at) = open.last() {
            match seen[at as usize] {
                Seen::No => {
                    seen[at as usize] = Seen::Open;
                    for target in targets(at) {
                        match seen[target as usize] {
                            Seen::No => open.push(target),
                            Seen::Open => return None,
                            Seen::Done => {}
                        }
                    }
                }
                Seen::Open => {
                    seen[at as usize] = Seen::Done;
                    order.push(at);
                    open.pop();
                }
                Seen::Done => drop(open.pop()),
            }
        }
    }
    Some(order)
}

/// Like [`merged`], for an automaton without cycles: two states are equivalent if they have the same
/// edges to equivalent states. `order` has each state after its targets.
fn merged_in_order(mut states: Vec<State>, order: &[u32]) -> Vec<State> {
    // A state that stands for its class.
    let mut classes: Vec<u32> = (0..states.len() as u32).collect();
    let mut known: FxHashMap<State, u32> = FxHashMap::default();
    for &at in order {
        let mut state = std::mem::take(&mut states[at as usize]);
        for edge in &mut state.bytes {
            edge.target.0 = classes[edge.target.index()];
        }
        for edge in &mut state.calls {
            edge.target.0 = classes[edge.target.index()];
        }
        super::build::join(&mut state.bytes);
        classes[at as usize] = *known.entry(state).or_insert(at);
    }
    let mut firsts = vec![None; states.len()];
    for (at, &class) in classes.iter().enumerate() {
        firsts[class as usize].get_or_insert(at);
    }
    for (state, class) in known {
        if let Some(first) = firsts[class as usize] {
            states[first] = state;
        }
    }
    kept_of_classes(states, &classes)
}

/// Returns the first state of each class, with its edges to such states. Classes are numbered below the
/// number of states.
fn kept_of_classes(states: Vec<State>, classes: &[u32]) -> Vec<State> {
    /// A class without a state so far.
    const NONE: u32 = u32::MAX;
    let mut ids = vec![NONE; states.len()];
    let mut kept = Vec::new();
    for (at, &class) in classes.iter().enumerate() {
        if ids[class as usize] == NONE {
            ids[class as usize] = kept.len() as u32;
            kept.push(at);
        }
    }
    let target = |dot: Dot| Dot(ids[classes[dot.index()] as usize]);
    let mut kept = kept.into_iter().peekable();
    let mut result = Vec::with_capacity(kept.len());
    for (at, state) in states.into_iter().enumerate() {
        if kept.next_if_eq(&at).is_none() {
            continue;
        }
        let bytes = state.bytes.into_iter().map(|edge| ByteEdge { target: target(edge.target), ..edge });
        let mut bytes: SmallVec<[ByteEdge; 2]> = bytes.collect();
        super::build::join(&mut bytes);
        let calls = state.calls.into_iter().map(|edge| CallEdge { target: target(edge.target), ..edge });
        result.push(State {
            accepting: state.accepting,
            bytes,
            calls: calls.collect(),
            embedded: state.embedded,
        });
    }
    result
}

/// Returns the edges in the form that [`minimize`] needs. A letter is a byte range or a called
/// rule. `None` if there are more than [`EDGES`].
fn edges(states: &[State]) -> Option<Vec<Edge>> {
    let mut cuts = [false; 257];
    let mut rules = FxHashMap::default();
    for state in states {
        for edge in &state.bytes {
            cuts[usize::from(edge.low)] = true;
            cuts[usize::from(edge.high) + 1] = true;
        }
        for edge in &state.calls {
            let next = rules.len() as u32;
            rules.entry(edge.rule).or_insert(next);
        }
    }
    // By byte: the number of its range.
    let mut letters = [0_u32; 256];
    let mut letter = 0;
    for (byte, slot) in letters.iter_mut().enumerate() {
        letter += u32::from(cuts[byte]);
        *slot = letter;
    }
    let mut edges = Vec::new();
    for (from, state) in states.iter().enumerate() {
        let from = from as u32;
        for edge in &state.bytes {
            let covered = letters[usize::from(edge.low)]..=letters[usize::from(edge.high)];
            edges.extend(covered.map(|letter| Edge { from, letter, to: edge.target.0 }));
        }
        let calls = state.calls.iter();
        edges.extend(calls.map(|edge| Edge {
            from,
            letter: letter + 1 + rules[&edge.rule],
            to: edge.target.0,
        }));
        if edges.len() > EDGES {
            return None;
        }
    }
    Some(edges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::expr::RuleId;
    use crate::{Grammar, Limits};

    /// Returns an automaton without cycles whose states are ordered from the start to the ends.
    fn acyclic(next: &mut impl FnMut(u32) -> u32) -> Vec<State> {
        let count = 3 + next(10);
        let mut states: Vec<State> = (0..count)
            .map(|at| {
                let mut state = State { accepting: at + 1 == count || next(4) == 0, ..State::default() };
                let targets = |next: &mut dyn FnMut(u32) -> u32| Dot(at + 1 + next(count - at - 1));
                if at + 1 < count {
                    for low in (b'a'..b'e').filter(|_| next(2) == 0).collect::<Vec<_>>() {
                        let target = targets(next);
                        state.bytes.push(ByteEdge { low, high: low, target });
                    }
                    for rule in (0..2).filter(|_| next(4) == 0).map(RuleId).collect::<Vec<_>>() {
                        let target = targets(next);
                        state.calls.push(CallEdge { rule, target });
                    }
                }
                state
            })
            .collect();
        for state in &mut states {
            super::super::build::join(&mut state.bytes);
        }
        states
    }

    #[test]
    fn both_ways_of_merging_agree() {
        let mut seed = 9_u64;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32 % below.max(1)
        };
        let mut smaller = 0;
        for _ in 0..2000 {
            let states = acyclic(&mut next);
            let order = ends_first(&states).expect("no cycle");
            let merged = merged_in_order(states.clone(), &order);
            smaller += usize::from(merged.len() < states.len());
            assert_eq!(merged, merged_by_parts(states.clone()), "{states:?}");
        }
        assert!(smaller > 100, "{smaller}");
    }

    /// Without cycles, states are merged from the ends.
    #[test]
    fn merges_equal_ends_of_words() {
        let source = "root ::= \"get\" end | \"let\" end | \"a\" \"t\" end\nend ::= \"\\n</x>\"";
        let grammar = Grammar::gbnf(source, &Limits::default()).expect("a good grammar");
        assert_eq!(grammar.size(), 10, "before and after `g` or `l`, before a `t`, and the end");
        for (text, accepted) in
            [("get\n</x>", true), ("at\n</x>", true), ("let\n</x", false), ("ge\n</x>", false)]
        {
            assert_eq!(grammar.accepts(text.as_bytes()), accepted, "{text}");
        }
    }

    #[test]
    fn merges_the_loops_of_words_other_than_keywords() {
        let word = "[a-z]*";
        let source = format!("root ::= \"i\" ([a-eg-z] {word} | \"f\" [a-z] {word})? | [a-hj-z] {word}");
        let grammar = Grammar::gbnf(&source, &Limits::default()).expect("a good grammar");
        assert_eq!(grammar.size(), 4, "before and after an i, after an f, in a word");
        for (text, accepted) in [("i", true), ("if", false), ("iff", true), ("fi", true), ("", false)] {
            assert_eq!(grammar.accepts(text.as_bytes()), accepted, "{text}");
        }
    }
}
