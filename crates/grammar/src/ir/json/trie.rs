use std::ops::Range;

use super::cost::Shortest;
use super::spelling::shortest_spelling;

/// Strings as a trie over their characters: an object's names, or the strings of `enum`.
///
/// The words below a node are a range of ranks in the sorted order.
#[derive(Clone, Debug)]
pub(crate) struct Trie {
    nodes: Vec<TrieNode>,
    /// By rank: the word's index in the list that the trie was built from, its characters, and the bytes to write them.
    words: Vec<(u32, Box<[char]>, u32)>,
    /// By index of a word, its rank.
    ranks: Vec<u32>,
}

/// Words below a node that are looked through rather than looked up.
const FEW: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct TrieNode {
    /// Sorted.
    pub(crate) children: Vec<(char, u32)>,
    /// The index of the word that ends here.
    pub(crate) word: Option<u32>,
    /// Characters read.
    depth: u32,
    /// Bytes that wrote them, at least.
    spelled: u32,
    ranks: Range<u32>,
    /// To the end of the nearest word, its quote included.
    nearest: Shortest,
    /// To the end of the nearest string that is no word, its quote included.
    outside: Shortest,
}

impl Trie {
    /// Builds the trie of `words`, which are all different.
    pub(crate) fn new<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let spelled = |c: &char| shortest_spelling(*c).len;
        let mut words: Vec<_> = words
            .enumerate()
            .map(|(index, word)| {
                let chars: Box<[char]> = word.chars().collect();
                let bytes = chars.iter().map(spelled).sum();
                (index as u32, chars, bytes)
            })
            .collect();
        words.sort_unstable_by(|a, b| a.1.cmp(&b.1));
        let mut trie = Self { nodes: vec![TrieNode::new(0, 0, 0)], words: Vec::new(), ranks: Vec::new() };
        trie.ranks.resize(words.len(), 0);
        for (rank, (index, chars, _)) in words.iter().enumerate() {
            let mut at = 0;
            for &c in chars {
                trie.nodes[at].ranks.end = rank as u32 + 1;
                at = match trie.nodes[at].children.last() {
                    Some(&(last, child)) if last == c => child as usize,
                    _ => {
                        let (child, parent) = (trie.nodes.len(), &mut trie.nodes[at]);
                        parent.children.push((c, child as u32));
                        let node = TrieNode::new(parent.depth + 1, parent.spelled + spelled(&c), rank as u32);
                        trie.nodes.push(node);
                        child
                    }
                };
            }
            trie.nodes[at].ranks.end = rank as u32 + 1;
            trie.nodes[at].word = Some(*index);
            trie.ranks[*index as usize] = rank as u32;
        }
        trie.words = words;
        trie.measure();
        trie
    }

    /// Fills in `nearest` and `outside`; children come after their parents.
    fn measure(&mut self) {
        const QUOTE: Shortest = Shortest::new(1, b'"');
        for at in (0..self.nodes.len()).rev() {
            let node = &self.nodes[at];
            let via = |length: fn(&TrieNode) -> Shortest| {
                let child = |child: u32| length(&self.nodes[child as usize]).len;
                let ways = node.children.iter().map(|&(c, at)| shortest_spelling(c).then(child(at)));
                ways.min_by_key(|way| way.len)
            };
            let end = node.word.map(|_| QUOTE);
            let nearest = Shortest::shorter(end, via(|child| child.nearest));
            let other = node.cheapest_other().map(|c| shortest_spelling(c).then(QUOTE.len));
            let around = Shortest::shorter(other, via(|child| child.outside));
            let outside = if node.word.is_none() { Some(QUOTE) } else { around };
            // Only a trie without words has no nearest one, and nobody asks it.
            let nothing = Shortest::new(u32::MAX, 0);
            let (nearest, outside) = (nearest.unwrap_or(nothing), outside.unwrap_or(nothing));
            (self.nodes[at].nearest, self.nodes[at].outside) = (nearest, outside);
        }
    }

    pub(crate) fn node(&self, at: u32) -> &TrieNode {
        &self.nodes[at as usize]
    }

    /// The words below a node, each with the bytes still needed to write it and its quote, and the first of them.
    pub(crate) fn words_below(&self, at: u32) -> impl Iterator<Item = (u32, Shortest)> {
        let node = self.node(at);
        self.words[node.ranks.start as usize..node.ranks.end as usize].iter().map(|word| node.rest(word))
    }

    /// The words below a node, like [`words_below`](Self::words_below), at least those with an index in a range.
    pub(crate) fn words_among(
        &self,
        at: u32,
        indexes: Range<usize>,
    ) -> impl Iterator<Item = (u32, Shortest)> {
        let node = self.node(at);
        let (all, few) = if node.ranks.len() <= FEW || indexes.len() >= node.ranks.len() {
            (node.ranks.clone(), Vec::new())
        } else {
            let ranks = self.ranks.get(indexes).unwrap_or_default().iter().copied();
            let mut ranks: Vec<u32> = ranks.filter(|rank| node.ranks.contains(rank)).collect();
            ranks.sort_unstable();
            (0..0, ranks)
        };
        all.chain(few).map(|rank| node.rest(&self.words[rank as usize]))
    }

    /// For each node, finds the shortest way through a word below it: the rest of the word, its quote, and the bytes
    /// `after` it. That takes the word's index and returns `None` for words that may not follow.
    pub(crate) fn nearest(&self, after: impl Fn(usize) -> Option<u32>) -> Vec<Option<Shortest>> {
        let mut nearest: Vec<Option<Shortest>> = vec![None; self.nodes.len()];
        // Children come after their parents.
        for at in (0..self.nodes.len()).rev() {
            let node = &self.nodes[at];
            let end = node.word.and_then(|word| Some(Shortest::new(1, b'"').then(after(word as usize)?)));
            let via = node
                .children
                .iter()
                .filter_map(|&(c, child)| Some(shortest_spelling(c).then(nearest[child as usize]?.len)));
            nearest[at] = Shortest::shorter(end, via.min_by_key(|way| way.len));
        }
        nearest
    }

    /// The number of words below a node.
    pub(crate) fn count_below(&self, at: u32) -> usize {
        self.node(at).ranks.len()
    }

    /// All words, sorted, with their indexes.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u32, String)> {
        self.words.iter().map(|(index, chars, _)| (*index, chars.iter().collect()))
    }

    /// The word with that index in the list that the trie was built from.
    pub(crate) fn word(&self, index: u32) -> String {
        let word = self.words.iter().find(|(other, ..)| *other == index);
        word.map(|(_, chars, _)| chars.iter().collect()).unwrap_or_default()
    }

    /// What has been read at a node.
    pub(crate) fn text_at(&self, at: u32) -> String {
        let node = self.node(at);
        let word = self.words.get(node.ranks.start as usize);
        word.map(|(_, chars, _)| chars[..node.depth as usize].iter().collect()).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

impl TrieNode {
    fn new(depth: u32, spelled: u32, rank: u32) -> Self {
        let unknown = Shortest::new(0, 0);
        Self {
            children: Vec::new(),
            word: None,
            depth,
            spelled,
            ranks: rank..rank,
            nearest: unknown,
            outside: unknown,
        }
    }

    pub(crate) fn child(&self, c: char) -> Option<u32> {
        let at = self.children.binary_search_by_key(&c, |&(c, _)| c).ok()?;
        Some(self.children[at].1)
    }

    pub(crate) const fn nearest(&self) -> Shortest {
        self.nearest
    }

    pub(crate) const fn outside(&self) -> Shortest {
        self.outside
    }

    /// The bytes that what has been read takes at least.
    pub(crate) const fn spelled(&self) -> u32 {
        self.spelled
    }

    /// A word below, with the bytes still needed to write it and its quote, and the first of them.
    fn rest(&self, (index, chars, bytes): &(u32, Box<[char]>, u32)) -> (u32, Shortest) {
        let first = chars.get(self.depth as usize).map_or(b'"', |&c| shortest_spelling(c).first);
        (*index, Shortest::new(bytes - self.spelled + 1, first))
    }

    /// A character with the shortest spelling that no child has.
    fn cheapest_other(&self) -> Option<char> {
        let plain = (' '..=char::MAX).filter(|&c| c != '"' && c != '\\');
        plain.into_iter().find(|&c| self.child(c).is_none())
    }
}
