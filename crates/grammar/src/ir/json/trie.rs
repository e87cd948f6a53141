use std::ops::Range;

use smallvec::SmallVec;

use super::cost::Shortest;
use super::spelling::shortest_spelling;

/// A trie of strings over their characters, for the names of an object or the strings of `enum`.
///
/// The *rank* of a word is its position among the sorted words. The words below a node have
/// consecutive ranks.
#[derive(Clone, Debug)]
pub(crate) struct Trie {
    nodes: Vec<TrieNode>,
    /// The words by rank: the index in the list that the trie was built from, the characters, and
    /// the length of the shortest spelling.
    words: Vec<(u32, Box<[char]>, u32)>,
    /// Rank of each word. The index is the word's index in the list that the trie was built from.
    ranks: Vec<u32>,
}

/// Largest number of words below a node that are scanned, instead of looked up by their indices.
const FEW: usize = 16;

/// Maximum initial capacity for nodes.
const ROOM: usize = 256;

/// A prefix of words.
#[derive(Clone, Debug)]
pub(crate) struct TrieNode {
    /// The children, each with its character and the index of its node. Sorted by character.
    pub(crate) children: SmallVec<[(char, u32); 2]>,
    /// Index of the word that ends at this node, in the list that the trie was built from.
    pub(crate) word: Option<u32>,
    /// Number of characters of the prefix.
    depth: u32,
    /// Length of the shortest spelling of the prefix, in bytes.
    spelled: u32,
    /// Ranks of the words that begin with the prefix.
    ranks: Range<u32>,
    /// The shortest rest of a word after the prefix, closing quote included.
    nearest: Shortest,
    /// The shortest rest of a string that begins with the prefix and is not a word, closing quote
    /// included.
    outside: Shortest,
}

impl Trie {
    /// Builds the trie of `words`, which must all be different.
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
        // A list of many words shares prefixes; a short list does not.
        let most = 1 + words.iter().map(|(_, chars, _)| chars.len()).sum::<usize>();
        let mut trie =
            Self { nodes: Vec::with_capacity(most.min(ROOM)), words: Vec::new(), ranks: Vec::new() };
        trie.nodes.push(TrieNode::new(0, 0, 0));
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
        trie.nodes.shrink_to_fit();
        trie.words = words;
        trie.measure();
        trie
    }

    /// Computes `nearest` and `outside`, from the children to their parents.
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
            // Only a trie without words has no nearest word, and the value is never used for such a
            // trie.
            let nothing = Shortest::new(u32::MAX, 0);
            let (nearest, outside) = (nearest.unwrap_or(nothing), outside.unwrap_or(nothing));
            (self.nodes[at].nearest, self.nodes[at].outside) = (nearest, outside);
        }
    }

    pub(crate) fn node(&self, at: u32) -> &TrieNode {
        &self.nodes[at as usize]
    }

    /// Returns the words below the node with index `at`: the index of the word, and the shortest
    /// spelling of its rest with the closing quote.
    pub(crate) fn words_below(&self, at: u32) -> impl Iterator<Item = (u32, Shortest)> {
        let node = self.node(at);
        self.words[node.ranks.start as usize..node.ranks.end as usize].iter().map(|word| node.rest(word))
    }

    /// Returns words below the node with index `at` like [`words_below`](Self::words_below).
    ///
    /// The result contains at least the words whose index is in `indexes`. Other words may be
    /// missing.
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

    /// Returns, for each node, the shortest path through one of the words below the node.
    ///
    /// A path consists of the rest of the word, its quote, and `after(index)` more bytes. `after`
    /// returns `None` for words that must not follow.
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

    /// Returns the number of words below the node with index `at`.
    pub(crate) fn count_below(&self, at: u32) -> usize {
        self.node(at).ranks.len()
    }

    /// Returns all words, sorted, each with its index.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u32, String)> {
        self.words.iter().map(|(index, chars, _)| (*index, chars.iter().collect()))
    }

    /// Returns the word with the index `index` in the list that the trie was built from.
    pub(crate) fn word(&self, index: u32) -> String {
        let word = self.words.iter().find(|(other, ..)| *other == index);
        word.map(|(_, chars, _)| chars.iter().collect()).unwrap_or_default()
    }

    /// Returns the characters from the root to the node with index `at`.
    pub(crate) fn text_at(&self, at: u32) -> String {
        let node = self.node(at);
        let word = self.words.get(node.ranks.start as usize);
        word.map(|(_, chars, _)| chars[..node.depth as usize].iter().collect()).unwrap_or_default()
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

impl TrieNode {
    fn new(depth: u32, spelled: u32, rank: u32) -> Self {
        let unknown = Shortest::new(0, 0);
        Self {
            children: SmallVec::new(),
            word: None,
            depth,
            spelled,
            ranks: rank..rank,
            nearest: unknown,
            outside: unknown,
        }
    }

    /// Returns the index of the child for the character `c`.
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

    /// Returns the length of the shortest spelling of the prefix, in bytes.
    pub(crate) const fn spelled(&self) -> u32 {
        self.spelled
    }

    /// Returns the index of a word below the node, and the shortest spelling of its rest with the
    /// closing quote.
    fn rest(&self, (index, chars, bytes): &(u32, Box<[char]>, u32)) -> (u32, Shortest) {
        let first = chars.get(self.depth as usize).map_or(b'"', |&c| shortest_spelling(c).first);
        (*index, Shortest::new(bytes - self.spelled + 1, first))
    }

    /// Returns a character with the shortest spelling among the characters that have no child.
    fn cheapest_other(&self) -> Option<char> {
        let plain = (' '..=char::MAX).filter(|&c| c != '"' && c != '\\');
        plain.into_iter().find(|&c| self.child(c).is_none())
    }
}
