use std::io;
use std::ops::Range;
use std::sync::Arc;

use formwork_kernels::{KvBlock, KvFormat, KvShape, POSITIONS, Pool, Slot, Team};

use crate::spec::{AttentionSpec, KeyValues, LayerSpec, ModelSpec};

/// Number of positions in a block of the cache.
pub(super) const BLOCK: usize = POSITIONS;

/// Memory layout of a model's keys and values, and the pool from which caches take memory.
#[derive(Clone, Debug)]
pub(super) struct KvMemory {
    format: KvFormat,
    layers: Arc<[LayerMemory]>,
    /// Pool of slots. A slot stores a block of positions for all layers, one after the other. Shape of
    /// a layer: `[kv_heads, block]`.
    pool: Arc<Pool>,
}

/// Memory layout of one layer's keys and values.
#[derive(Clone, Copy, Debug)]
struct LayerMemory {
    /// Number of key-value heads; 0 if the layer reads those of another layer or has no attention.
    kv_heads: usize,
    shape: KvShape,
    /// Offset of the layer in a slot.
    start: usize,
}

impl LayerMemory {
    /// Returns the elements of the layer in a slot.
    const fn range(&self) -> Range<usize> {
        self.start..self.start + self.kv_heads * self.shape.block_len()
    }
}

impl KvMemory {
    pub(super) fn new(spec: &ModelSpec, format: KvFormat) -> Self {
        let shape = |layer: &LayerSpec| match layer.mixer.cached() {
            Some(AttentionSpec { kv_heads, head_dim, key_values, .. }) => match key_values {
                KeyValues::OfLayer(_) => (0, KvShape::new(format, head_dim)),
                KeyValues::WithinKeys(first) => (kv_heads, KvShape::within_keys(format, head_dim, first)),
                KeyValues::Own | KeyValues::OneProjection => (kv_heads, KvShape::new(format, head_dim)),
            },
            None => (0, KvShape::new(format, 0)),
        };
        Self::of(format, spec.layers.iter().map(shape))
    }

    /// Returns the format in which keys and values are stored.
    pub(super) const fn format(&self) -> KvFormat {
        self.format
    }

    /// Creates the memory for layers with the given numbers of key-value heads and shapes.
    fn of(format: KvFormat, shapes: impl Iterator<Item = (usize, KvShape)>) -> Self {
        let mut end = 0;
        let layer = |(kv_heads, shape)| {
            let layer = LayerMemory { kv_heads, shape, start: end };
            end = layer.range().end;
            layer
        };
        let layers = shapes.map(layer).collect();
        Self { format, layers, pool: Pool::new(end) }
    }

    pub(super) fn bytes_per_position(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.range().end) * size_of::<u32>() / POSITIONS
    }
}

/// Keys and values of one sequence, stored in blocks of [`BLOCK`] positions. The cache takes more
/// blocks as the sequence grows.
///
/// Forks of a sequence share blocks. Before a shared block is written, it is copied.
#[derive(Debug)]
pub(super) struct KvCache {
    memory: KvMemory,
    /// Blocks in the order of positions. Each block stores all layers.
    blocks: Vec<Arc<Slot>>,
    len: usize,
}

/// One layer of a cache, for reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerCache<'a> {
    cache: &'a KvCache,
    index: usize,
}

impl KvCache {
    pub(super) const fn new(memory: KvMemory) -> Self {
        Self { memory, blocks: Vec::new(), len: 0 }
    }

    /// Returns the number of filled positions.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Takes memory for positions up to `len`. Shared blocks that will be written are copied.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn reserve(&mut self, len: usize) -> io::Result<()> {
        for block in self.blocks.iter_mut().skip(self.len / BLOCK) {
            if Arc::get_mut(block).is_none() {
                *block = Arc::new(block.copy()?);
            }
        }
        while self.blocks.len() < len.div_ceil(BLOCK) {
            self.blocks.push(Arc::new(self.memory.pool.take()?));
        }
        Ok(())
    }

    /// Marks the next `count` positions as filled. All layers must have written these positions.
    pub(super) const fn advance(&mut self, count: usize) {
        self.len += count;
    }

    /// Removes the positions from `len` on and frees the blocks that become empty.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.blocks.truncate(self.len.div_ceil(BLOCK));
    }

    /// Returns a cache with the first `len` positions of this one. Both caches share the blocks.
    pub(super) fn fork(&self, len: usize) -> Self {
        let mut fork = Self { memory: self.memory.clone(), blocks: self.blocks.clone(), len: self.len };
        fork.truncate(len);
        fork
    }

    /// Writes the keys and values of the next tokens to the layer at `index`. Shape of both:
    /// `[tokens, kv_heads, head_dim]`. `values` is empty if they are a part of the keys.
    /// [`reserve`](Self::reserve) must have been called for these tokens.
    pub(super) fn write(&mut self, team: &Team, index: usize, keys: &[f32], values: &[f32]) {
        let Self { memory, blocks, len: start } = self;
        let (start, layer) = (*start, memory.layers[index]);
        let shape = layer.shape;
        let head_dim = shape.head_dim();
        let len = layer.kv_heads * head_dim;
        let end = start + keys.len() / len;
        let first = start / BLOCK;
        team.for_chunks(&mut blocks[first..end.div_ceil(BLOCK)], 1, |chunk, blocks| {
            let positions = (first + chunk) * BLOCK..(first + chunk + 1) * BLOCK;
            for block in blocks {
                let Some(block) = Arc::get_mut(block) else { unreachable!("reserved for this sequence") };
                let memory = &mut block[layer.range()];
                for position in positions.start.max(start)..positions.end.min(end) {
                    let of_token = (position - start) * len..(position - start + 1) * len;
                    let keys = keys[of_token.clone()].chunks_exact(head_dim);
                    let mut values = values.get(of_token).unwrap_or_default().chunks_exact(head_dim);
                    let heads = memory.chunks_exact_mut(shape.block_len());
                    for (head, key) in heads.zip(keys) {
                        shape.write(head, position % BLOCK, key, values.next().unwrap_or_default());
                    }
                }
            }
        });
    }

    pub(super) const fn layer(&self, index: usize) -> LayerCache<'_> {
        LayerCache { cache: self, index }
    }
}

impl<'a> LayerCache<'a> {
    pub(super) fn format(self) -> KvFormat {
        self.cache.memory.layers[self.index].shape.format()
    }

    /// Returns the number of elements into which keys or values of a block are copied before they are
    /// used.
    pub(super) fn room_len(self) -> usize {
        self.cache.memory.layers[self.index].shape.room_len()
    }

    /// Returns the block at index `block` of a key-value head. Only its positions before `end` are
    /// valid.
    pub(super) fn block(self, head: usize, block: usize, end: usize) -> KvBlock<'a> {
        let LayerMemory { shape, start, .. } = self.cache.memory.layers[self.index];
        let start = start + head * shape.block_len();
        let memory = &self.cache.blocks[block][start..start + shape.block_len()];
        KvBlock::new(shape, memory, (end - block * BLOCK).min(BLOCK))
    }
}

#[cfg(test)]
mod tests {
    use formwork_kernels::add_values;

    use super::*;

    fn cache() -> KvCache {
        let shape = KvShape::new(KvFormat::I16, 2);
        KvCache::new(KvMemory::of(KvFormat::I16, [(1, shape); 2].into_iter()))
    }

    fn fill(cache: &mut KvCache, to: usize, value: f32) {
        cache.reserve(to).unwrap();
        let team = Team::alone();
        let count = to - cache.len;
        let rows = vec![value; count * 2];
        for layer in 0..2 {
            cache.write(&team, layer, &rows, &rows);
        }
        cache.advance(count);
    }

    /// Returns the values stored for each position, rounded to three decimals.
    fn values(cache: &KvCache) -> Vec<f32> {
        let mut all = Vec::new();
        for block in 0..cache.len.div_ceil(BLOCK) {
            for row in 0..BLOCK.min(cache.len - block * BLOCK) {
                let mut weights = [0.0; BLOCK];
                weights[row] = 1.0;
                let mut out = [0.0; 2];
                let block = cache.layer(1).block(0, block, cache.len);
                add_values(&[&weights], block, &mut [&mut out]);
                all.push((out[0] * 1e3).round() / 1e3);
            }
        }
        all
    }

    #[test]
    fn forks_share_blocks_until_they_write() {
        let mut first = cache();
        fill(&mut first, 200, 1.0);
        let mut second = first.fork(150);
        let shared = |a: &KvCache, b: &KvCache| {
            let blocks = a.blocks.iter().zip(&b.blocks);
            blocks.filter(|(a, b)| Arc::ptr_eq(a, b)).count()
        };
        assert_eq!((second.len(), shared(&first, &second)), (150, 3));
        fill(&mut second, 151, 2.0);
        assert_eq!(shared(&first, &second), 2);
        assert_eq!(values(&first), [1.0; 200]);
        assert_eq!(values(&second), [&[1.0; 150][..], &[2.0]].concat());
        let weak = Arc::downgrade(&first.blocks[0]);
        drop(first);
        assert!(weak.upgrade().is_some());
        drop(second);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn ignores_leftover_memory_contents() {
        let mut first = cache();
        fill(&mut first, 64, f32::NAN);
        let mut second = KvCache::new(first.memory.clone());
        drop(first);
        fill(&mut second, 3, 1.0);
        assert_eq!(values(&second), [1.0; 3]);
    }
}
