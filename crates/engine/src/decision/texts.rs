//! The texts of a question as a trie of bytes, and the tokens that advance through it.

use std::collections::HashMap;
use std::ops::Range;

use formwork_vocab::{TokenId, TokenTrie, TrieNode};

/// Index of a node of a [`TextTrie`].
pub(crate) type Place = u32;

/// Trie over the bytes of a question's texts. Parents precede their children.
#[derive(Debug)]
pub(crate) struct TextTrie {
    nodes: Vec<Node>,
    /// Children of all nodes. The children of a node are consecutive, in the order of their bytes.
    children: Vec<(u8, Place)>,
}

#[derive(Clone, Debug)]
struct Node {
    children: Range<u32>,
    parent: Place,
    /// Index of the text that ends here.
    text: Option<u32>,
}

/// Tokens that advance from a place in the trie.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    /// Tokens whose bytes stay in the trie, with the place that each of them reaches.
    pub(crate) inside: Vec<(TokenId, Place)>,
    /// Tokens whose bytes begin with the rest of a text and go on, with the index of the text.
    pub(crate) beyond: Vec<(TokenId, u32)>,
}

impl TextTrie {
    /// Root of the trie: no byte of a text.
    pub(crate) const ROOT: Place = 0;

    /// Builds the trie. The texts must differ.
    pub(crate) fn new(texts: &[&[u8]]) -> Self {
        let mut order: Vec<u32> = (0..texts.len() as u32).collect();
        order.sort_by_key(|&text| texts[text as usize]);
        let root = Node { children: 0..0, parent: Self::ROOT, text: None };
        let mut trie = Self { nodes: vec![root], children: Vec::new() };
        // Nodes without children yet, with the range of their texts in `order` and their depth.
        let mut open = vec![(Self::ROOT, 0..order.len(), 0)];
        while let Some((at, range, depth)) = open.pop() {
            let mut rest = range.start;
            if let Some(&text) =
                order[range.clone()].first().filter(|&&text| texts[text as usize].len() == depth)
            {
                trie.nodes[at as usize].text = Some(text);
                rest += 1;
            }
            let first = trie.children.len() as u32;
            while rest < range.end {
                let byte = texts[order[rest] as usize][depth];
                let below =
                    order[rest..range.end].partition_point(|&text| texts[text as usize][depth] == byte);
                let child = trie.nodes.len() as Place;
                trie.nodes.push(Node { children: 0..0, parent: at, text: None });
                trie.children.push((byte, child));
                open.push((child, rest..rest + below, depth + 1));
                rest += below;
            }
            trie.nodes[at as usize].children = first..trie.children.len() as u32;
        }
        trie
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the text that ends at a place.
    pub(crate) fn text(&self, at: Place) -> Option<u32> {
        self.nodes[at as usize].text
    }

    /// Returns, for each place, the option of all texts at and below it, if it is the same. `options` has the
    /// option of each text.
    pub(crate) fn certain(&self, options: &[u32]) -> Vec<Option<u32>> {
        // `None` until a text is seen, and then the option or a mixture of options.
        let mut below: Vec<Option<Option<u32>>> = vec![None; self.nodes.len()];
        let merged = |known: Option<Option<u32>>, seen: Option<Option<u32>>| match (known, seen) {
            (None, seen) => seen,
            (known, None) => known,
            (Some(one), Some(other)) => Some(one.filter(|_| one == other)),
        };
        for (at, node) in self.nodes.iter().enumerate().rev() {
            let own = node.text.map(|text| Some(options[text as usize]));
            below[at] = merged(below[at], own);
            let parent = node.parent as usize;
            if parent != at {
                below[parent] = merged(below[parent], below[at]);
            }
        }
        below.into_iter().map(Option::flatten).collect()
    }

    /// Returns true if a text continues after a place.
    pub(crate) fn continues(&self, at: Place) -> bool {
        !self.nodes[at as usize].children.is_empty()
    }

    /// Returns the parent of a place. The root is its own parent.
    pub(crate) fn parent(&self, at: Place) -> Place {
        self.nodes[at as usize].parent
    }

    /// Returns a text that is the beginning of another one, and the other one.
    pub(crate) fn prefix_pair(&self) -> Option<(u32, u32)> {
        let at = (0..self.nodes.len() as Place).find(|&at| self.text(at).is_some() && self.continues(at))?;
        let mut below = at;
        loop {
            below = self.children[self.nodes[below as usize].children.start as usize].1;
            if let (Some(text), Some(longer)) = (self.text(at), self.text(below)) {
                return Some((text, longer));
            }
        }
    }

    /// Returns the tokens that advance from a place, in the order of their bytes. With `past_ends`, tokens
    /// that go beyond the end of a text are included.
    pub(crate) fn steps(&self, from: Place, tokens: &TokenTrie, past_ends: bool) -> Steps {
        let mut steps = Steps::default();
        let mut open = vec![(TrieNode::ROOT, from)];
        while let Some((node, at)) = open.pop() {
            steps.inside.extend(tokens.tokens_at(node).iter().map(|&token| (token, at)));
            if past_ends
                && at != from
                && let Some(text) = self.text(at)
            {
                let longer = &tokens.tokens_below(node)[tokens.tokens_at(node).len()..];
                steps.beyond.extend(longer.iter().map(|&token| (token, text)));
                continue;
            }
            let Range { start, end } = self.nodes[at as usize].children;
            let children = self.children[start as usize..end as usize].iter().rev();
            open.extend(children.filter_map(|&(byte, child)| Some((tokens.child(node, byte)?, child))));
        }
        steps
    }

    /// Returns a text that no sequence of tokens spells.
    pub(crate) fn unspellable(&self, tokens: &TokenTrie) -> Option<u32> {
        let mut is_reached = vec![false; self.nodes.len()];
        is_reached[Self::ROOT as usize] = true;
        let mut open = vec![Self::ROOT];
        while let Some(at) = open.pop() {
            for (_, to) in self.steps(at, tokens, false).inside {
                if !std::mem::replace(&mut is_reached[to as usize], true) {
                    open.push(to);
                }
            }
        }
        let unreached = |at: &Place| !is_reached[*at as usize] && self.text(*at).is_some();
        (0..self.nodes.len() as Place).find(unreached).and_then(|at| self.text(at))
    }
}

/// Steps from the places that a search has visited.
#[derive(Debug, Default)]
pub(crate) struct StepCache {
    steps: HashMap<Place, Steps>,
}

impl StepCache {
    /// Returns the steps from a place.
    pub(crate) fn get(&mut self, trie: &TextTrie, at: Place, tokens: &TokenTrie, past_ends: bool) -> &Steps {
        self.steps.entry(at).or_insert_with(|| trie.steps(at, tokens, past_ends))
    }
}
