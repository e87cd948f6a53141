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
    let Some(edges) = edges(&states) else { return states };
    let labels: Vec<u32> = states.iter().map(|state| state.accepting.into()).collect();
    let classes = minimize(&labels, &edges, &Incoming::new(states.len(), &edges));
    let mut ids: FxHashMap<u32, u32> = FxHashMap::default();
    let mut kept = Vec::new();
    for (at, &class) in classes.iter().enumerate() {
        let next = ids.len() as u32;
        if *ids.entry(class).or_insert(next) == next {
            kept.push(at);
        }
    }
    let target = |dot: Dot| Dot(ids[&classes[dot.index()]]);
    let mut kept = kept.into_iter().peekable();
    let mut result = Vec::with_capacity(ids.len());
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
    use crate::{Grammar, Limits};

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
