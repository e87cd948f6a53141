use std::ops::Range;
use std::sync::Arc;

use formwork_kernels::POSITIONS;

use crate::spec::ModelSpec;

/// Positions in a block.
pub(super) const BLOCK: usize = POSITIONS;

/// The keys and values of one sequence: per layer, blocks of [`BLOCK`] positions that are added as the sequence grows.
///
/// Blocks are shared between forks of a sequence, and copied where one of them writes.
///
/// What one head reads is contiguous. Values are rows per position; keys are rows per element of the head, so that a query
/// meets all positions of a block in vector lanes and no lanes have to be added up.
#[derive(Debug)]
pub(super) struct KvCache {
    layers: Vec<LayerCache>,
    len: usize,
}

#[derive(Clone, Debug)]
pub(super) struct LayerCache {
    kv_heads: usize,
    head_dim: usize,
    blocks: Vec<Arc<Memory>>,
}

/// What a block holds of all heads.
#[derive(Clone, Debug)]
struct Memory {
    /// `[kv_heads, head_dim, BLOCK]`
    keys: Box<[f32]>,
    /// `[kv_heads, BLOCK, head_dim]`
    values: Box<[f32]>,
}

impl KvCache {
    pub(super) fn new(spec: &ModelSpec) -> Self {
        let layer = LayerCache { kv_heads: spec.kv_heads, head_dim: spec.head_dim, blocks: Vec::new() };
        Self { layers: vec![layer; spec.layers.len()], len: 0 }
    }

    /// How many positions are filled.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Makes room for positions up to `len`.
    pub(super) fn reserve(&mut self, len: usize) {
        for layer in &mut self.layers {
            let size = layer.kv_heads * BLOCK * layer.head_dim;
            let zeros = || vec![0.0; size].into_boxed_slice();
            let blocks = layer.blocks.len().max(len.div_ceil(BLOCK));
            layer.blocks.resize_with(blocks, || Arc::new(Memory { keys: zeros(), values: zeros() }));
        }
    }

    /// Counts positions that every layer has written as filled.
    pub(super) const fn advance(&mut self, count: usize) {
        self.len += count;
    }

    /// Forgets the positions from `len` on and frees the blocks that held only such.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        for layer in &mut self.layers {
            layer.blocks.truncate(self.len.div_ceil(BLOCK));
        }
    }

    /// The first `len` positions as a cache of their own.
    pub(super) fn fork(&self, len: usize) -> Self {
        let mut fork = Self { layers: self.layers.clone(), len: self.len };
        fork.truncate(len);
        fork
    }

    pub(super) fn layer_mut(&mut self, index: usize) -> &mut LayerCache {
        &mut self.layers[index]
    }
}

impl LayerCache {
    /// Writes a token's keys and values, `[kv_heads, head_dim]` each. There must be room.
    pub(super) fn write(&mut self, position: usize, keys: &[f32], values: &[f32]) {
        let dim = self.head_dim;
        let block = Arc::make_mut(&mut self.blocks[position / BLOCK]);
        let row = position % BLOCK;
        let slots = block.keys.iter_mut().skip(row).step_by(BLOCK);
        for (slot, key) in slots.zip(keys) {
            *slot = *key;
        }
        for (head, value) in values.chunks_exact(dim).enumerate() {
            let to = (head * BLOCK + row) * dim;
            block.values[to..to + dim].copy_from_slice(value);
        }
    }

    /// What a head has stored around `positions`, block by block.
    pub(super) fn blocks(&self, head: usize, positions: Range<usize>) -> impl Iterator<Item = Block<'_>> {
        let size = BLOCK * self.head_dim;
        let own = head * size..(head + 1) * size;
        (positions.start / BLOCK..positions.end.div_ceil(BLOCK)).map(move |index| {
            let Memory { keys, values } = &*self.blocks[index];
            Block { first: index * BLOCK, keys: &keys[own.clone()], values: &values[own.clone()] }
        })
    }
}

/// A block, of one head.
pub(super) struct Block<'a> {
    /// The position of its first row.
    pub(super) first: usize,
    /// `[head_dim, BLOCK]`
    pub(super) keys: &'a [f32],
    /// `[BLOCK, head_dim]`
    pub(super) values: &'a [f32],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> KvCache {
        let layer = LayerCache { kv_heads: 1, head_dim: 2, blocks: Vec::new() };
        KvCache { layers: vec![layer; 2], len: 0 }
    }

    fn fill(cache: &mut KvCache, to: usize, value: f32) {
        cache.reserve(to);
        for position in cache.len..to {
            for layer in &mut cache.layers {
                layer.write(position, &[value; 2], &[value; 2]);
            }
        }
        cache.advance(to - cache.len);
    }

    fn values(cache: &KvCache) -> Vec<f32> {
        let blocks = cache.layers[1].blocks(0, 0..cache.len);
        blocks.flat_map(|block| block.values.iter().step_by(2)).copied().take(cache.len).collect()
    }

    #[test]
    fn forks_share_blocks_until_they_write() {
        let mut first = cache();
        fill(&mut first, 200, 1.0);
        let mut second = first.fork(150);
        let shared = |a: &KvCache, b: &KvCache| {
            let blocks = a.layers[0].blocks.iter().zip(&b.layers[0].blocks);
            blocks.filter(|(a, b)| Arc::ptr_eq(a, b)).count()
        };
        assert_eq!((second.len(), shared(&first, &second)), (150, 3));
        fill(&mut second, 151, 2.0);
        assert_eq!(shared(&first, &second), 2);
        assert_eq!(values(&first), [1.0; 200]);
        assert_eq!(values(&second), [&[1.0; 150][..], &[2.0]].concat());
        let weak = Arc::downgrade(&first.layers[0].blocks[0]);
        drop(first);
        assert!(weak.upgrade().is_some());
        drop(second);
        assert!(weak.upgrade().is_none());
    }
}
