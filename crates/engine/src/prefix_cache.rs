//! Cache of prompt prefixes that the model has read, as a tree.
//!
//! A node holds a chunk of tokens, so a path from the root is a prefix of a prompt. Chunks start
//! and end at positions where prompts may be cut ([`LanguageModel::prompt_grain`]). The cached keys
//! and values are therefore exactly those of any other prompt with the same prefix.
//!
//! A leaf owns a sequence of the model with all tokens on its path. An inner node has no sequence:
//! its prefix is forked from a leaf below. Forks share keys and values, so the tree takes the
//! memory of each node once. If the tree exceeds its limit, the least recently used leaf loses its
//! last chunk, repeatedly.
//!
//! Each adapter of the model has a root of its own, because keys and values depend on the adapter.

use std::collections::HashMap;

use formwork_lm::{AdapterId, LanguageModel, ModelError, SequenceId};
use formwork_vocab::TokenId;

/// Minimum length of a chunk in tokens, which keeps the overhead of a node small compared to its
/// keys and values.
const CHUNK: usize = 64;

/// Index of a node.
type NodeId = usize;

/// A cached prefix of a prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedPrefix {
    /// New sequence of the model that has read the prefix.
    pub(crate) sequence: SequenceId,
    /// Length of the prefix in tokens.
    pub(crate) len: usize,
}

pub(crate) struct PrefixCache {
    /// All nodes. The roots come first: that of the base, and one for each adapter. They have no tokens
    /// and always exist; other nodes are reused.
    nodes: Vec<Node>,
    /// Number of roots.
    roots: usize,
    free: Vec<NodeId>,
    /// Number of tokens in a node.
    chunk: usize,
    /// Maximum number of nodes, not counting the roots.
    most: usize,
    /// Counter of uses, which serves as a clock.
    now: u64,
}

#[derive(Default)]
struct Node {
    parent: NodeId,
    tokens: Box<[TokenId]>,
    children: HashMap<Box<[TokenId]>, NodeId>,
    /// Time of the last use of the node or one below it.
    used: u64,
    /// Sequence of the model. Only leaves have one.
    sequence: Option<SequenceId>,
}

impl PrefixCache {
    /// Creates a cache of at most `bytes` of keys and values. Caches nothing if the model cannot
    /// fork.
    pub(crate) fn new(model: &dyn LanguageModel, bytes: usize) -> Self {
        let grain = model.prompt_grain().max(1);
        let chunk = CHUNK.div_ceil(grain).saturating_mul(grain);
        let node = model.kv_bytes_per_token().max(1).saturating_mul(chunk);
        let most = if model.can_fork() { bytes / node } else { 0 };
        let roots = 1 + model.adapters().len();
        let nodes = std::iter::repeat_with(Node::default).take(roots).collect();
        Self { nodes, roots, free: Vec::new(), chunk, most, now: 0 }
    }

    /// Returns the number of tokens whose keys and values the cache holds.
    pub(crate) fn tokens(&self) -> usize {
        self.count() * self.chunk
    }

    /// Returns the number of nodes, not counting the roots.
    fn count(&self) -> usize {
        self.nodes.len() - self.roots - self.free.len()
    }

    /// Returns the root of the prompts that are read with an adapter.
    fn root(&self, adapter: Option<AdapterId>) -> NodeId {
        let root = adapter.map_or(0, |adapter| adapter.index() + 1);
        debug_assert!(root < self.roots, "the adapter belongs to the model");
        root
    }

    /// Forks a sequence with the longest cached prefix of a prompt.
    ///
    /// Returns `None` if the length does not exceed `least` tokens. The prefix is never the whole
    /// prompt, because the model must read the last token.
    ///
    /// # Errors
    /// Returns an error if the model fails to fork the sequence.
    pub(crate) fn fork(
        &mut self,
        model: &mut dyn LanguageModel,
        adapter: Option<AdapterId>,
        prompt: &[TokenId],
        least: usize,
    ) -> Result<Option<CachedPrefix>, ModelError> {
        let way = self.way(self.root(adapter), prompt);
        let len = way.len() * self.chunk;
        let Some(&last) = way.last().filter(|_| len > least) else { return Ok(None) };
        self.touch(&way);
        match self.sequence_below(last) {
            Some(leaf) => Ok(Some(CachedPrefix { sequence: model.fork(leaf, len)?, len })),
            None => Ok(None),
        }
    }

    /// Adds a prompt that a sequence has read completely.
    ///
    /// # Errors
    /// Returns an error if the model fails to fork or truncate a sequence. A failed fork of
    /// `sequence` leaves the cache unchanged.
    pub(crate) fn insert(
        &mut self,
        model: &mut dyn LanguageModel,
        adapter: Option<AdapterId>,
        prompt: &[TokenId],
        sequence: SequenceId,
    ) -> Result<(), ModelError> {
        let chunks = (prompt.len() / self.chunk).min(self.most);
        let prompt = &prompt[..chunks * self.chunk];
        let root = self.root(adapter);
        let mut way = self.known(root, prompt);
        self.touch(&way);
        if way.len() == chunks {
            return Ok(());
        }
        let fork = model.fork(sequence, prompt.len())?;
        let mut parent = way.last().copied().unwrap_or(root);
        // A former leaf no longer needs a sequence: the new leaf below serves it.
        if let Some(shorter) = self.nodes[parent].sequence.take() {
            model.close(shorter);
        }
        for tokens in prompt.chunks_exact(self.chunk).skip(way.len()) {
            parent = self.add(parent, tokens);
            way.push(parent);
        }
        self.nodes[parent].sequence = Some(fork);
        self.touch(&way);
        while self.count() > self.most {
            self.evict(model)?;
        }
        Ok(())
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self, model: &mut dyn LanguageModel) {
        for node in self.nodes.drain(..) {
            if let Some(sequence) = node.sequence {
                model.close(sequence);
            }
        }
        self.nodes.resize_with(self.roots, Node::default);
        self.free.clear();
    }

    /// Returns the nodes of the longest cached prefix that leaves at least the last token of the
    /// prompt.
    fn way(&self, root: NodeId, prompt: &[TokenId]) -> Vec<NodeId> {
        self.known(root, &prompt[..prompt.len().saturating_sub(1)])
    }

    /// Returns the nodes of the longest cached prefix of `tokens` below a root.
    fn known(&self, root: NodeId, tokens: &[TokenId]) -> Vec<NodeId> {
        let mut at = root;
        let next = |tokens| {
            at = *self.nodes[at].children.get(tokens)?;
            Some(at)
        };
        tokens.chunks_exact(self.chunk).map_while(next).collect()
    }

    fn touch(&mut self, way: &[NodeId]) {
        self.now += 1;
        for &node in way {
            self.nodes[node].used = self.now;
        }
    }

    /// Returns the sequence of a leaf at or below a node.
    fn sequence_below(&self, mut node: NodeId) -> Option<SequenceId> {
        while self.nodes[node].sequence.is_none() {
            node = *self.nodes[node].children.values().next()?;
        }
        self.nodes[node].sequence
    }

    fn add(&mut self, parent: NodeId, tokens: &[TokenId]) -> NodeId {
        let node = Node { parent, tokens: tokens.into(), ..Node::default() };
        let id = if let Some(id) = self.free.pop() {
            self.nodes[id] = node;
            id
        } else {
            self.nodes.push(node);
            self.nodes.len() - 1
        };
        self.nodes[parent].children.insert(tokens.into(), id);
        id
    }

    /// Removes the last chunk of the least recently used leaf.
    fn evict(&mut self, model: &mut dyn LanguageModel) -> Result<(), ModelError> {
        let leaves = (self.roots..self.nodes.len()).filter(|&id| self.nodes[id].sequence.is_some());
        let Some(leaf) = leaves.min_by_key(|&id| self.nodes[id].used) else { return Ok(()) };
        let Node { parent, tokens, sequence, .. } = std::mem::take(&mut self.nodes[leaf]);
        self.free.push(leaf);
        self.nodes[parent].children.remove(&tokens);
        let Some(sequence) = sequence else { return Ok(()) };
        if parent < self.roots || !self.nodes[parent].children.is_empty() {
            model.close(sequence);
            return Ok(());
        }
        self.nodes[parent].sequence = Some(sequence);
        model.truncate(sequence, self.depth(parent) * self.chunk)
    }

    fn depth(&self, mut node: NodeId) -> usize {
        let mut depth = 0;
        while node >= self.roots {
            node = self.nodes[node].parent;
            depth += 1;
        }
        depth
    }
}

#[cfg(test)]
mod tests {
    use formwork_lm::{Batch, Role, Run, ScriptedModel, Wanted};

    use super::*;

    fn model() -> ScriptedModel {
        ScriptedModel::new(10, 10_000, |_, _| {})
    }

    /// Creates a cache with room for `nodes` nodes.
    fn cache(model: &ScriptedModel, nodes: usize) -> PrefixCache {
        PrefixCache::new(model, nodes * CHUNK * model.kv_bytes_per_token())
    }

    /// Creates a prompt of chunks, each filled with one token, and one extra token at the end.
    fn prompt(chunks: &[u32]) -> Vec<TokenId> {
        chunks.iter().flat_map(|&id| [TokenId(id); CHUNK]).chain([TokenId(9)]).collect()
    }

    /// Reads a prompt and adds it to the cache.
    fn insert(cache: &mut PrefixCache, model: &mut ScriptedModel, chunks: &[u32]) {
        let sequence = model.open();
        let tokens = prompt(chunks);
        let run = Run { sequence, tokens: &tokens, role: Role::Prompt, wanted: Wanted::Nothing };
        model.forward(&Batch { runs: vec![run] }).expect("good");
        cache.insert(model, None, &tokens, sequence).expect("good");
        model.close(sequence);
    }

    /// Returns the number of cached chunks of a prompt, and checks the tokens of the forked
    /// sequence.
    fn known(cache: &mut PrefixCache, model: &mut ScriptedModel, chunks: &[u32]) -> usize {
        let tokens = prompt(chunks);
        let Some(prefix) = cache.fork(model, None, &tokens, 0).expect("good") else { return 0 };
        assert_eq!(model.tokens(prefix.sequence), Some(&tokens[..prefix.len]));
        model.close(prefix.sequence);
        prefix.len / CHUNK
    }

    #[test]
    fn shares_common_prefixes() {
        let mut model = model();
        let cache = &mut cache(&model, 100);
        insert(cache, &mut model, &[1, 2, 3]);
        insert(cache, &mut model, &[1, 2, 4, 5]);
        assert_eq!(cache.tokens(), 5 * CHUNK);
        assert_eq!(model.open_sequences(), 2);
        assert_eq!(known(cache, &mut model, &[1, 2, 3]), 3);
        assert_eq!(known(cache, &mut model, &[1, 2, 6]), 2);
        assert_eq!(known(cache, &mut model, &[2, 2, 6]), 0);
        // A longer prompt replaces the leaf of its prefix.
        insert(cache, &mut model, &[1, 2, 3, 7]);
        assert_eq!((cache.tokens(), model.open_sequences()), (6 * CHUNK, 2));
        // A prompt that is already cached adds nothing.
        insert(cache, &mut model, &[1, 2]);
        assert_eq!((cache.tokens(), model.open_sequences()), (6 * CHUNK, 2));
        cache.clear(&mut model);
        assert_eq!((cache.tokens(), model.open_sequences()), (0, 0));
    }

    #[test]
    fn never_covers_the_last_token() {
        let mut model = model();
        let mut cache = cache(&model, 100);
        insert(&mut cache, &mut model, &[1, 2]);
        let whole = [TokenId(1); CHUNK];
        assert!(cache.fork(&mut model, None, &whole, 0).expect("good").is_none());
        let prompt = prompt(&[1, 2]);
        assert!(cache.fork(&mut model, None, &prompt, 2 * CHUNK).expect("good").is_none());
    }

    #[test]
    fn evicts_least_recently_used_chunks() {
        let mut model = model();
        let mut cache = cache(&model, 4);
        insert(&mut cache, &mut model, &[1, 2, 3]);
        insert(&mut cache, &mut model, &[4]);
        assert_eq!(known(&mut cache, &mut model, &[1, 2, 3]), 3);
        insert(&mut cache, &mut model, &[5]);
        assert_eq!(known(&mut cache, &mut model, &[4]), 0);
        insert(&mut cache, &mut model, &[6]);
        assert_eq!(known(&mut cache, &mut model, &[1, 2, 3]), 2);
        assert_eq!(known(&mut cache, &mut model, &[5]), 1);
        assert_eq!((cache.tokens(), model.open_sequences()), (4 * CHUNK, 3));
        // A prompt longer than the cache is cached in part.
        insert(&mut cache, &mut model, &[7, 7, 7, 7, 7, 7]);
        assert_eq!(known(&mut cache, &mut model, &[7, 7, 7, 7, 7, 7]), 4);
        assert_eq!((cache.tokens(), model.open_sequences()), (4 * CHUNK, 1));
    }

    #[test]
    fn keeps_nothing_without_room() {
        let mut model = model();
        let mut cache = cache(&model, 0);
        insert(&mut cache, &mut model, &[1, 2]);
        assert_eq!((cache.tokens(), model.open_sequences()), (0, 0));
    }

    /// Checks with random prompts that the cache returns the right tokens and leaks no sequences.
    #[test]
    fn tree_stays_consistent_in_any_order_of_prompts() {
        let mut state = 1u32;
        let mut below = |limit: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % limit
        };
        let mut model = model();
        let mut cache = cache(&model, 7);
        for _ in 0..500 {
            let chunks: Vec<u32> = (0..below(6)).map(|_| below(2)).collect();
            if below(2) == 0 {
                insert(&mut cache, &mut model, &chunks);
                assert_eq!(known(&mut cache, &mut model, &chunks), chunks.len());
            } else {
                known(&mut cache, &mut model, &chunks);
            }
            assert!(cache.tokens() <= 7 * CHUNK);
            let leaves = cache.nodes.iter().filter(|node| node.sequence.is_some()).count();
            assert_eq!(model.open_sequences(), leaves);
            let childless = |node: &&Node| !node.tokens.is_empty() && node.children.is_empty();
            assert_eq!(cache.nodes.iter().filter(childless).count(), leaves);
        }
    }
}
