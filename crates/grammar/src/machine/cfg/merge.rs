//! Merges equivalent states of a rule's automaton.
//!
//! Example: a rule for words that are not keywords. Its automaton has a separate loop for each
//! letter of each keyword at which a word may differ from the keyword. After merging, these loops
//! are a single state, and results for that state are computed once.

use rustc_hash::FxHashMap;

use super::states::{Dot, States};
use crate::buckets::Buckets;
use crate::regular::minimize::{Edge, Incoming, minimize};

/// Maximum number of edges of an automaton that is minimised; larger automata are left unchanged.
/// The limits of all edges cut the bytes into ranges. An edge counts once for each range that it
/// covers.
const EDGES: usize = 1 << 19;

/// Returns the minimal automaton that is equivalent to a deterministic automaton. State 0 remains
/// the start.
pub(super) fn merged(states: States) -> States {
    if states.len() <= 2 {
        return states;
    }
    match heights(&states) {
        Some(heights) => merged_by_height(&states, &heights),
        None => merged_by_parts(states),
    }
}

/// Like [`merged`], for any automaton.
fn merged_by_parts(states: States) -> States {
    let Some(edges) = edges(&states) else { return states };
    let labels: Vec<u32> = states.iter().map(|state| state.accepting.into()).collect();
    let mut classes = minimize(&labels, &edges, &Incoming::new(&edges));
    // Each class is named after its first state.
    let mut firsts = vec![None; states.len()];
    for (at, class) in classes.iter_mut().enumerate() {
        *class = *firsts[*class as usize].get_or_insert(at as u32);
    }
    kept_of_classes(&states, &classes)
}

/// Returns the length of the longest path from each state, in edges. `None` if there is a cycle.
fn heights(states: &States) -> Option<Vec<u32>> {
    const UNSEEN: u32 = u32::MAX;
    const OPEN: u32 = u32::MAX - 1;
    let mut heights = vec![UNSEEN; states.len()];
    let mut open = Vec::new();
    for first in 0..states.len() {
        open.push(first);
        while let Some(&at) = open.last() {
            let targets = || states.get(at).targets().map(Dot::index);
            match heights[at] {
                UNSEEN => {
                    heights[at] = OPEN;
                    for target in targets() {
                        match heights[target] {
                            UNSEEN => open.push(target),
                            OPEN => return None,
                            _ => {}
                        }
                    }
                }
                OPEN => {
                    heights[at] = targets().map(|target| heights[target] + 1).max().unwrap_or(0);
                    open.pop();
                }
                _ => drop(open.pop()),
            }
        }
    }
    Some(heights)
}

/// Like [`merged`], for an automaton without cycles: two states are equivalent if they have the same
/// edges to equivalent states. Equivalent states have the same height.
fn merged_by_height(states: &States, heights: &[u32]) -> States {
    // The first state of the class of each state.
    let mut classes: Vec<u32> = (0..states.len() as u32).collect();
    // The states of one height, with edges to the first states of classes.
    let mut candidates = States::default();
    let mut order: Vec<usize> = Vec::new();
    for group in Buckets::by_key(states.len(), |at| heights[at]).iter().filter(|group| group.len() > 1) {
        candidates.clear();
        for &at in group {
            candidates.push_mapped(states.get(at as usize), |target| Dot(classes[target.index()]));
        }
        order.clear();
        order.extend(0..group.len());
        order.sort_unstable_by_key(|&place| (candidates.get(place), place));
        for equal in order.chunk_by(|&a, &b| candidates.get(a) == candidates.get(b)) {
            for &place in equal {
                classes[group[place] as usize] = group[equal[0]];
            }
        }
    }
    kept_of_classes(states, &classes)
}

/// Returns the first state of each class, with its edges to such states. `classes` has the first state of the
/// class of each state.
fn kept_of_classes(states: &States, classes: &[u32]) -> States {
    let mut ids = vec![Dot(0); states.len()];
    let firsts = || (0..classes.len()).filter(|&at| classes[at] as usize == at);
    for (id, first) in firsts().enumerate() {
        ids[first] = Dot(id as u32);
    }
    let mut kept = States::with_capacity(states.len());
    for first in firsts() {
        kept.push_mapped(states.get(first), |target| ids[classes[target.index()] as usize]);
    }
    kept
}

/// Returns the edges in the form that [`minimize`] needs. A letter is a byte range or a called
/// rule. `None` if there are more than [`EDGES`].
fn edges(states: &States) -> Option<Vec<Edge>> {
    let mut cuts = [false; 257];
    let mut rules = FxHashMap::default();
    for state in states.iter() {
        for edge in state.bytes {
            cuts[usize::from(edge.low)] = true;
            cuts[usize::from(edge.high) + 1] = true;
        }
        for edge in state.calls {
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
        for edge in state.bytes {
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
    use super::super::states::{ByteEdge, CallEdge};
    use super::*;
    use crate::ir::expr::RuleId;
    use crate::{Grammar, Limits};

    /// Returns an automaton without cycles whose states are ordered from the start to the ends.
    fn acyclic(next: &mut impl FnMut(u32) -> u32) -> States {
        let count = 3 + next(10);
        let mut states = States::default();
        for at in 0..count {
            let accepting = at + 1 == count || next(4) == 0;
            let targets = |next: &mut dyn FnMut(u32) -> u32| Dot(at + 1 + next(count - at - 1));
            if at + 1 < count {
                for low in (b'a'..b'e').filter(|_| next(2) == 0).collect::<Vec<_>>() {
                    states.push_byte(ByteEdge { low, high: low, target: targets(next) });
                }
                for rule in (0..2).filter(|_| next(4) == 0).map(RuleId).collect::<Vec<_>>() {
                    states.push_call(CallEdge { rule, target: targets(next) });
                }
            }
            states.finish_state(accepting, None);
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
            let heights = heights(&states).expect("no cycle");
            let merged = merged_by_height(&states, &heights);
            smaller += usize::from(merged.len() < states.len());
            let other = merged_by_parts(states.clone());
            assert!(merged.iter().eq(other.iter()), "{states:?}");
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
