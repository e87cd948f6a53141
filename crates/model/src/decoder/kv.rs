use std::ops::Range;

use crate::spec::ModelSpec;

/// Positions in a block.
const BLOCK: usize = 128;

/// The keys and values of one sequence: per layer, blocks of [`BLOCK`] positions that are added as the sequence grows.
///
/// A block is `[kv_heads, BLOCK, head_dim]`, so that what one head reads is contiguous.
#[derive(Debug)]
pub(super) struct KvCache {
    layers: Vec<LayerCache>,
    len: usize,
}

#[derive(Clone, Debug)]
pub(super) struct LayerCache {
    kv_heads: usize,
    head_dim: usize,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
struct Block {
    keys: Box<[f32]>,
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
            layer.blocks.resize_with(layer.blocks.len().max(len.div_ceil(BLOCK)), || Block {
                keys: vec![0.0; size].into_boxed_slice(),
                values: vec![0.0; size].into_boxed_slice(),
            });
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

    pub(super) fn layer_mut(&mut self, index: usize) -> &mut LayerCache {
        &mut self.layers[index]
    }
}

impl LayerCache {
    /// Writes a token's keys and values, `[kv_heads, head_dim]` each. There must be room.
    pub(super) fn write(&mut self, position: usize, keys: &[f32], values: &[f32]) {
        let dim = self.head_dim;
        let block = &mut self.blocks[position / BLOCK];
        for head in 0..self.kv_heads {
            let to = (head * BLOCK + position % BLOCK) * dim;
            block.keys[to..to + dim].copy_from_slice(&keys[head * dim..(head + 1) * dim]);
            block.values[to..to + dim].copy_from_slice(&values[head * dim..(head + 1) * dim]);
        }
    }

    /// A head's keys and values over `positions`, in pieces of `[positions, head_dim]`, in order.
    pub(super) fn pieces(
        &self,
        head: usize,
        positions: Range<usize>,
    ) -> impl Iterator<Item = (&[f32], &[f32])> {
        let first = positions.start / BLOCK;
        self.blocks[first..positions.end.div_ceil(BLOCK)].iter().enumerate().map(move |(index, block)| {
            let base = (first + index) * BLOCK;
            let from = positions.start.saturating_sub(base);
            let to = (positions.end - base).min(BLOCK);
            let range = (head * BLOCK + from) * self.head_dim..(head * BLOCK + to) * self.head_dim;
            (&block.keys[range.clone()], &block.values[range])
        })
    }
}
