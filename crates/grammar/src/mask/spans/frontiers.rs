//! Frontiers: sets of nodes of the token trie.
//!
//! A frontier has the nodes at which a rule may end although the node has children. The longer
//! tokens below these nodes continue in the callers of the rule.

use std::sync::Arc;

use formwork_vocab::{TokenTrie, TrieNode, Vocabulary};
use rustc_hash::FxHashMap;

use crate::ByteSet;

/// Id of an interned frontier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct FrontierId(u32);

impl FrontierId {
    /// The frontier with the root of the trie as its only node. All tokens start there.
    pub(super) const ROOT: Self = Self(0);

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The interned frontiers. Equal frontiers are stored once.
pub(super) struct Frontiers {
    edges: Arc<TrieEdges>,
    /// The nodes of each frontier, with the length in bytes of the shortest prefix among the nodes.
    known: Vec<(Arc<NodeSet>, u32)>,
    ids: FxHashMap<Arc<NodeSet>, FrontierId>,
    bytes: usize,
}

/// A set of nodes of the token trie.
///
/// Such a set can be large: after an identifier, the frontier has tens of thousands of nodes. Few
/// of them have a child whose byte may follow an identifier, so large sets are searched by byte
/// ([`TrieEdges`]).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum NodeSet {
    /// A list of nodes. In an interned frontier, the list is sorted and has no duplicates.
    Few(Vec<TrieNode>),
    /// A bit set over all nodes of the trie.
    Many(Box<[u64]>),
}

/// A set is stored as bits if it has more than 1/[`FEW`] of the trie's nodes.
const FEW: usize = 128;

/// All edges of a vocabulary's trie, grouped by byte.
struct TrieEdges {
    /// `(source, target)` of each edge, sorted by the byte of the edge.
    pairs: Vec<(TrieNode, TrieNode)>,
    /// For each byte, the index of its first edge in `pairs`. The last entry, at index 256, is the
    /// number of edges.
    starts: Vec<usize>,
    /// For each node, the length of its prefix in bytes.
    depths: Vec<u16>,
}

impl NodeSet {
    pub(super) const fn none() -> Self {
        Self::Few(Vec::new())
    }

    pub(super) fn extend(&mut self, nodes: impl IntoIterator<Item = TrieNode>) {
        match self {
            Self::Few(few) => few.extend(nodes),
            Self::Many(bits) => {
                for node in nodes {
                    bits[node.index() / 64] |= 1 << (node.index() % 64);
                }
            }
        }
    }

    /// Removes `top` and all nodes below it.
    pub(super) fn cut(&mut self, trie: &TokenTrie, top: TrieNode) {
        let below = trie.nodes_below(top);
        match self {
            Self::Few(few) => few.retain(|&node| node != top && !below.contains(&node.index())),
            Self::Many(bits) => {
                for index in below.chain([top.index()]) {
                    bits[index / 64] &= !(1 << (index % 64));
                }
            }
        }
    }

    fn contains(&self, node: TrieNode) -> bool {
        match self {
            Self::Few(few) => few.contains(&node),
            Self::Many(bits) => bits[node.index() / 64] >> (node.index() % 64) & 1 == 1,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Few(few) => few.is_empty(),
            Self::Many(bits) => bits.iter().all(|&word| word == 0),
        }
    }

    /// Normalizes the set before interning: a long list becomes a bit set, and a short list is
    /// sorted without duplicates.
    ///
    /// A bit set with few nodes stays a bit set, so the same few nodes may be interned twice.
    fn settled(self, trie: &TokenTrie) -> Self {
        match self {
            Self::Few(few) if few.len() > trie.len() / FEW => {
                let mut many = Self::Many(vec![0; trie.len().div_ceil(64)].into());
                many.extend(few);
                many
            }
            Self::Few(mut few) => {
                few.sort_unstable_by_key(|node| node.index());
                few.dedup();
                Self::Few(few)
            }
            Self::Many(_) => self,
        }
    }

    fn byte_len(&self) -> usize {
        match self {
            Self::Few(nodes) => size_of_val(&**nodes),
            Self::Many(bits) => size_of_val(&**bits),
        }
    }
}

impl Frontiers {
    pub(super) fn new(vocabulary: &Vocabulary) -> Self {
        let edges = vocabulary.derived(TrieEdges::new);
        let mut frontiers = Self { edges, known: Vec::new(), ids: FxHashMap::default(), bytes: 0 };
        frontiers.intern(vocabulary.trie(), NodeSet::Few(vec![TrieNode::ROOT]));
        frontiers
    }

    /// Returns the id of the frontier with these nodes, or `None` if `nodes` is empty.
    pub(super) fn intern(&mut self, trie: &TokenTrie, nodes: NodeSet) -> Option<FrontierId> {
        if nodes.is_empty() {
            return None;
        }
        let nodes = nodes.settled(trie);
        if let Some(&known) = self.ids.get(&nodes) {
            return Some(known);
        }
        let id = FrontierId(self.known.len() as u32);
        let depth = self.edges.least_depth(&nodes);
        self.bytes += nodes.byte_len() + 64;
        let nodes = Arc::new(nodes);
        self.known.push((Arc::clone(&nodes), depth));
        self.ids.insert(nodes, id);
        Some(id)
    }

    /// Adds the nodes of `frontier` to `nodes`.
    pub(super) fn add_to(&self, nodes: &mut NodeSet, frontier: FrontierId) {
        match (&*self.known[frontier.index()].0, nodes) {
            (NodeSet::Few(few), nodes) => nodes.extend(few.iter().copied()),
            (NodeSet::Many(from), NodeSet::Many(to)) => {
                to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
            }
            (many @ NodeSet::Many(_), nodes) => {
                let few = std::mem::replace(nodes, many.clone());
                if let NodeSet::Few(few) = few {
                    nodes.extend(few);
                }
            }
        }
    }

    /// Calls `visit(byte, child)` for each child of the frontier's nodes whose byte is in `bytes`.
    pub(super) fn beyond(
        &self,
        frontier: FrontierId,
        trie: &TokenTrie,
        bytes: ByteSet,
        mut visit: impl FnMut(u8, TrieNode),
    ) {
        match &*self.known[frontier.index()].0 {
            NodeSet::Few(nodes) => {
                let edges = nodes.iter().flat_map(|&node| trie.children(node));
                for (byte, node) in edges.filter(|&(byte, _)| bytes.contains(byte)) {
                    visit(byte, node);
                }
            }
            many @ NodeSet::Many(_) => {
                for byte in bytes.iter() {
                    for &(from, node) in self.edges.over(byte) {
                        if many.contains(from) {
                            visit(byte, node);
                        }
                    }
                }
            }
        }
    }

    /// Returns the length in bytes of the shortest prefix among the frontier's nodes.
    pub(super) fn depth(&self, frontier: FrontierId) -> u32 {
        self.known[frontier.index()].1
    }

    /// Returns the approximate memory of the frontiers, in bytes.
    pub(super) const fn byte_len(&self) -> usize {
        self.bytes
    }
}

impl TrieEdges {
    fn new(vocabulary: &Vocabulary) -> Self {
        let trie = vocabulary.trie();
        let all =
            || trie.nodes().flat_map(|from| trie.children(from).map(move |(byte, to)| (byte, from, to)));
        let mut starts = vec![0_usize; 257];
        for (byte, ..) in all() {
            starts[usize::from(byte) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut pairs = vec![(TrieNode::ROOT, TrieNode::ROOT); starts[256]];
        let mut depths = vec![0_u16; trie.len()];
        let mut next = starts.clone();
        for (byte, from, to) in all() {
            pairs[next[usize::from(byte)]] = (from, to);
            next[usize::from(byte)] += 1;
            depths[to.index()] = depths[from.index()].saturating_add(1);
        }
        Self { pairs, starts, depths }
    }

    fn over(&self, byte: u8) -> &[(TrieNode, TrieNode)] {
        let at = usize::from(byte);
        &self.pairs[self.starts[at]..self.starts[at + 1]]
    }

    fn least_depth(&self, nodes: &NodeSet) -> u32 {
        let mut least = u16::MAX;
        match nodes {
            NodeSet::Few(few) => {
                for node in few {
                    least = least.min(self.depths[node.index()]);
                }
            }
            NodeSet::Many(bits) => {
                for (at, &word) in bits.iter().enumerate().filter(|&(_, &word)| word != 0) {
                    let nodes = (0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| 64 * at + bit);
                    least = nodes.fold(least, |least, node| least.min(self.depths[node]));
                    // Only the root has a smaller depth.
                    if least <= 1 {
                        break;
                    }
                }
            }
        }
        least.into()
    }
}

#[cfg(test)]
mod tests {
    use formwork_vocab::{Token, TokenKind};

    use super::*;

    #[test]
    fn few_and_many_nodes_agree() {
        let texts = (0..2000).map(|number| format!("{number:b}"));
        let tokens = texts.map(|text| Token { bytes: text.into_bytes(), kind: TokenKind::Text }).collect();
        let vocabulary = Vocabulary::new(tokens, vec![]).expect("a good vocabulary");
        let trie = vocabulary.trie();
        let mut frontiers = Frontiers::new(&vocabulary);
        let all: Vec<TrieNode> = trie.nodes().skip(1).collect();
        let top = trie.child(TrieNode::ROOT, b'1').and_then(|one| trie.child(one, b'0')).expect("10");
        let below = trie.nodes_below(top);
        let kept = |node: &&TrieNode| **node != top && !below.contains(&node.index());
        let expected: Vec<TrieNode> = all.iter().filter(kept).copied().collect();
        assert!(expected.len() > trie.len() / FEW && expected.len() < all.len());
        let mut few = NodeSet::Few(all.clone());
        few.cut(trie, top);
        let mut many = NodeSet::Few(all).settled(trie);
        assert!(matches!(many, NodeSet::Many(_)));
        many.cut(trie, top);
        let frontier = frontiers.intern(trie, few).expect("there are some");
        assert_eq!(frontiers.intern(trie, many), Some(frontier));
        assert_eq!(frontiers.depth(frontier), 1);
        let beyond = |nodes: NodeSet| {
            let mut frontiers = Frontiers::new(&vocabulary);
            let frontier = frontiers.intern(trie, nodes).expect("there are some");
            let mut beyond = Vec::new();
            frontiers
                .beyond(frontier, trie, [b'1'].into_iter().collect(), |_, node| beyond.push(node.index()));
            beyond.sort_unstable();
            beyond
        };
        let one_by_one: Vec<usize> =
            expected.iter().filter_map(|&node| trie.child(node, b'1')).map(TrieNode::index).collect();
        let mut sorted = one_by_one.clone();
        sorted.sort_unstable();
        assert_eq!(beyond(NodeSet::Few(expected.clone())), sorted);
        assert_eq!(beyond(NodeSet::Few(expected[..5].to_vec())).len(), {
            expected[..5].iter().filter(|&&node| trie.child(node, b'1').is_some()).count()
        });
    }
}
