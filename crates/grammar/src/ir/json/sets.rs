//! Interned sets of values.
//!
//! A set is a Patricia trie: a binary trie over the bits of its values, highest bit first, without
//! nodes that have one child. The shape of the trie depends on the values only, and equal nodes are
//! stored once. Equal sets therefore have equal ids. Adding a value copies only the nodes on the
//! path to that value. The sets of an array with many items therefore share most of their memory.

use rustc_hash::FxHashMap;

use super::values::{NOTHING, SetId, ValueId};

/// A node of a set's trie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Node {
    Nothing,
    Value(ValueId),
    /// `without` has the values in which `bit` is 0, and `with` has the others. `bit` is the
    /// highest bit in which the values differ.
    Split {
        bit: u32,
        without: SetId,
        with: SetId,
    },
}

/// Stores interned sets and their nodes.
#[derive(Debug)]
pub(crate) struct Sets {
    nodes: Vec<Node>,
    ids: FxHashMap<Node, SetId>,
    /// For each node, one of the values in its set. Meaningless for the empty set.
    some: Vec<ValueId>,
}

impl Default for Sets {
    fn default() -> Self {
        let ids = FxHashMap::from_iter([(Node::Nothing, NOTHING)]);
        Self { nodes: vec![Node::Nothing], ids, some: vec![0] }
    }
}

impl Sets {
    fn node(&mut self, node: Node, some: ValueId) -> SetId {
        *self.ids.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.some.push(some);
            self.nodes.len() as SetId - 1
        })
    }

    pub(crate) fn has(&self, mut set: SetId, value: ValueId) -> bool {
        loop {
            match self.nodes[set as usize] {
                Node::Nothing => return false,
                Node::Value(only) => return only == value,
                Node::Split { bit, without, with } => {
                    set = if value >> bit & 1 == 0 { without } else { with }
                }
            }
        }
    }

    /// Returns the set that consists of `value` and the values of `set`.
    pub(crate) fn with(&mut self, set: SetId, value: ValueId) -> SetId {
        // The nodes on the path: the bit of each node, the direction taken, and the child in the
        // other direction.
        let mut above = Vec::new();
        let mut at = set;
        let mut new = loop {
            let node = self.nodes[at as usize];
            if node == Node::Nothing {
                break self.node(Node::Value(value), value);
            }
            let differs = (self.some[at as usize] ^ value).checked_ilog2();
            match (node, differs) {
                (Node::Value(_), None) => break at,
                // All values of the node agree in the bits above the bit of the node.
                (Node::Split { bit, without, with }, differs) if differs.is_none_or(|top| top <= bit) => {
                    let goes_with = value >> bit & 1 == 1;
                    above.push((bit, goes_with, if goes_with { without } else { with }));
                    at = if goes_with { with } else { without };
                }
                (_, differs) => {
                    let leaf = self.node(Node::Value(value), value);
                    let bit = differs.unwrap_or(0);
                    let (without, with) = if value >> bit & 1 == 1 { (at, leaf) } else { (leaf, at) };
                    break self.node(Node::Split { bit, without, with }, value);
                }
            }
        };
        while let Some((bit, goes_with, other)) = above.pop() {
            let (without, with) = if goes_with { (other, new) } else { (new, other) };
            new = self.node(Node::Split { bit, without, with }, value);
        }
        new
    }

    /// Returns all values of `set` in increasing order.
    pub(crate) fn values(&self, set: SetId) -> Vec<ValueId> {
        let mut values = Vec::new();
        let mut todo = vec![set];
        while let Some(set) = todo.pop() {
            match self.nodes[set as usize] {
                Node::Nothing => {}
                Node::Value(value) => values.push(value),
                Node::Split { without, with, .. } => todo.extend([with, without]),
            }
        }
        values
    }

    pub(crate) const fn byte_len(&self) -> usize {
        self.nodes.len() * (3 * size_of::<Node>() + 24)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn equal_sets_have_equal_ids() {
        let sets = &mut Sets::default();
        let mut ids = FxHashMap::default();
        let mut state = 1u32;
        for _ in 0..200 {
            let (mut set, mut expected) = (NOTHING, BTreeSet::new());
            for _ in 0..9 {
                state = state.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
                let value = state >> 28;
                assert_eq!(sets.has(set, value), expected.contains(&value));
                set = sets.with(set, value);
                expected.insert(value);
                let values: Vec<_> = expected.iter().copied().collect();
                assert_eq!(sets.values(set), values);
                assert_eq!(*ids.entry(values).or_insert(set), set);
            }
        }
    }

    #[test]
    fn large_sets_share_their_nodes() {
        let sets = &mut Sets::default();
        let set = (0..5000).fold(NOTHING, |set, value| sets.with(set, value));
        assert_eq!(sets.values(set).len(), 5000);
        assert!(sets.nodes.len() < 5000 * 14, "{} nodes", sets.nodes.len());
    }
}
