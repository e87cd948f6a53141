use std::ops::Range;
use std::sync::Arc;

use formwork_kernels::{KvBlock, KvFormat, POSITIONS, Team};

use crate::spec::ModelSpec;

/// Positions in a block.
pub(super) const BLOCK: usize = POSITIONS;

/// The keys and values of one sequence: per layer, blocks of [`BLOCK`] positions that are added as the sequence grows.
///
/// Blocks are shared between forks of a sequence, and copied where one of them writes.
#[derive(Debug)]
pub(super) struct KvCache {
    layers: Vec<LayerCache>,
    len: usize,
}

#[derive(Clone, Debug)]
pub(super) struct LayerCache {
    format: KvFormat,
    kv_heads: usize,
    head_dim: usize,
    /// Each of as many as there are heads.
    blocks: Vec<Arc<Box<[KvBlock]>>>,
}

impl KvCache {
    pub(super) fn new(spec: &ModelSpec, format: KvFormat) -> Self {
        let (kv_heads, head_dim) = (spec.kv_heads, spec.head_dim);
        let layer = LayerCache { format, kv_heads, head_dim, blocks: Vec::new() };
        Self { layers: vec![layer; spec.layers.len()], len: 0 }
    }

    /// How many positions are filled.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Makes room for positions up to `len`.
    pub(super) fn reserve(&mut self, len: usize) {
        for layer in &mut self.layers {
            let blocks = layer.blocks.len().max(len.div_ceil(BLOCK));
            let empty = || (0..layer.kv_heads).map(|_| KvBlock::new(layer.format, layer.head_dim)).collect();
            layer.blocks.resize_with(blocks, || Arc::new(empty()));
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

    pub(super) fn layer(&self, index: usize) -> &LayerCache {
        &self.layers[index]
    }

    pub(super) fn layer_mut(&mut self, index: usize) -> &mut LayerCache {
        &mut self.layers[index]
    }
}

impl LayerCache {
    /// Writes the keys and values of tokens from position `start` on, `[tokens, kv_heads, head_dim]` each. There must be room.
    pub(super) fn write(&mut self, team: &Team, start: usize, keys: &[f32], values: &[f32]) {
        let (head_dim, len) = (self.head_dim, self.kv_heads * self.head_dim);
        let end = start + keys.len() / len;
        let first = start / BLOCK;
        team.for_chunks(&mut self.blocks[first..end.div_ceil(BLOCK)], 1, |index, blocks| {
            let positions = (first + index) * BLOCK..(first + index + 1) * BLOCK;
            for block in blocks {
                let block = Arc::make_mut(block);
                for position in positions.start.max(start)..positions.end.min(end) {
                    let of_token = (position - start) * len..(position - start + 1) * len;
                    let keys = keys[of_token.clone()].chunks_exact(head_dim);
                    let values = values[of_token].chunks_exact(head_dim);
                    for (head, (key, value)) in block.iter_mut().zip(keys.zip(values)) {
                        head.write(position % BLOCK, key, value);
                    }
                }
            }
        });
    }

    pub(super) const fn format(&self) -> KvFormat {
        self.format
    }

    /// What a head has stored in some blocks.
    pub(super) fn blocks(&self, head: usize, blocks: Range<usize>) -> impl Iterator<Item = &KvBlock> {
        self.blocks[blocks].iter().map(move |block| &block[head])
    }
}

#[cfg(test)]
mod tests {
    use formwork_kernels::add_values;

    use super::*;

    fn cache() -> KvCache {
        let layer = LayerCache { format: KvFormat::I16, kv_heads: 1, head_dim: 2, blocks: Vec::new() };
        KvCache { layers: vec![layer; 2], len: 0 }
    }

    fn fill(cache: &mut KvCache, to: usize, value: f32) {
        cache.reserve(to);
        let team = Team::alone();
        let count = to - cache.len;
        let rows = vec![value; count * 2];
        for layer in &mut cache.layers {
            layer.write(&team, cache.len, &rows, &rows);
        }
        cache.advance(count);
    }

    /// What is stored at each position, to three digits.
    fn values(cache: &KvCache) -> Vec<f32> {
        let mut all = Vec::new();
        for block in cache.layers[1].blocks(0, 0..cache.len.div_ceil(BLOCK)) {
            for row in 0..BLOCK {
                let mut weights = [0.0; BLOCK];
                weights[row] = 1.0;
                let mut out = [0.0; 2];
                add_values(&[&weights], block, &mut [&mut out]);
                all.push((out[0] * 1e3).round() / 1e3);
            }
        }
        all.truncate(cache.len);
        all
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
