//! The keys and values of all sequences, in blocks of positions.
//!
//! The device holds two tensors per layer, of shape `[kv_heads, slots, head_dim]`. A slot is the
//! place of one position. Slots are grouped into blocks of [`BLOCK`]. A sequence takes blocks as it
//! grows, and returns them when it shrinks or closes. Reads and writes address slots by number, so
//! one operation covers the positions of many sequences. If no block is free, the tensors double in
//! size. Forks of a sequence share its blocks. A shared block is copied before a write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Result, Tensor};

use crate::spec::{AttentionSpec, ModelSpec};

/// Number of positions in a block.
pub(super) const BLOCK: usize = 64;

/// Number of blocks in a new pool.
const FIRST: usize = 16;

pub(super) struct Pool {
    layers: Vec<Layer>,
    free: Arc<Free>,
    blocks: usize,
}

/// The numbers of the free blocks.
#[derive(Default)]
struct Free(Mutex<Vec<u32>>);

impl Free {
    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A block in use. It becomes free when the last sequence drops it.
struct Block {
    index: u32,
    free: Arc<Free>,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.free.lock().push(self.index);
    }
}

struct Layer {
    keys: Tensor,
    values: Tensor,
}

/// The blocks of one sequence, and the number of its filled positions.
#[derive(Clone, Default)]
pub(super) struct Table {
    blocks: Vec<Arc<Block>>,
    len: usize,
}

impl Table {
    /// Returns the number of filled positions.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the slot of position `position`. The block of the position must be reserved.
    pub(super) fn slot(&self, position: usize) -> u32 {
        self.blocks[position / BLOCK].index * BLOCK as u32 + (position % BLOCK) as u32
    }

    /// Removes the positions from `len` on and frees the blocks that become empty.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.blocks.truncate(self.len.div_ceil(BLOCK));
    }

    /// Returns a table with the first `len` positions, which shares its blocks with this one.
    pub(super) fn fork(&self, len: usize) -> Self {
        let mut fork = self.clone();
        fork.truncate(len);
        fork
    }

    /// Marks the next `count` positions as filled. Every layer must have written them.
    pub(super) const fn advance(&mut self, count: usize) {
        self.len += count;
    }
}

impl Pool {
    /// Creates a pool whose keys and values have the type `dtype`.
    pub(super) fn new(spec: &ModelSpec, dtype: DType, device: &Device) -> Result<Self> {
        let layer = |shape: AttentionSpec| {
            let zeros = || Tensor::zeros((shape.kv_heads, FIRST * BLOCK, shape.head_dim), dtype, device);
            Ok(Layer { keys: zeros()?, values: zeros()? })
        };
        let layers = spec.attentions().map(|(_, shape)| layer(*shape)).collect::<Result<_>>()?;
        let free = Free(Mutex::new((0..FIRST as u32).rev().collect()));
        Ok(Self { layers, free: Arc::new(free), blocks: FIRST })
    }

    /// Reserves blocks for `more` additional positions of a sequence. Copies a shared block that
    /// will be written.
    pub(super) fn reserve(&mut self, table: &mut Table, more: usize) -> Result<()> {
        // Only the last block, if it is partly filled, can be both shared and written to.
        if more > 0
            && !table.len.is_multiple_of(BLOCK)
            && let Some(last) = table.blocks.get(table.len / BLOCK)
            && Arc::strong_count(last) > 1
        {
            let copy = self.take()?;
            self.copy(table.blocks[table.len / BLOCK].index, copy.index)?;
            table.blocks[table.len / BLOCK] = Arc::new(copy);
        }
        while table.blocks.len() < (table.len + more).div_ceil(BLOCK) {
            table.blocks.push(Arc::new(self.take()?));
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Block> {
        let free = Arc::clone(&self.free);
        loop {
            if let Some(index) = free.lock().pop() {
                return Ok(Block { index, free: Arc::clone(&free) });
            }
            self.grow()?;
        }
    }

    /// Copies the keys and values of all layers from one block to another.
    fn copy(&mut self, from: u32, to: u32) -> Result<()> {
        for layer in &self.layers {
            for tensor in [&layer.keys, &layer.values] {
                // Shape: `[kv_heads, BLOCK, head_dim]`.
                let block = tensor.narrow(1, from as usize * BLOCK, BLOCK)?.contiguous()?.copy()?;
                tensor.slice_set(&block, 1, to as usize * BLOCK)?;
            }
        }
        Ok(())
    }

    /// Doubles the size of the tensors. If an allocation fails, the tensors before it stay enlarged
    /// and the next attempt continues with the others.
    fn grow(&mut self) -> Result<()> {
        let wanted = 2 * self.blocks * BLOCK;
        for layer in &mut self.layers {
            for tensor in [&mut layer.keys, &mut layer.values] {
                let (heads, slots, dim) = tensor.dims3()?;
                if slots < wanted {
                    let larger = Tensor::zeros((heads, wanted, dim), tensor.dtype(), tensor.device())?;
                    larger.slice_set(tensor, 1, 0)?;
                    *tensor = larger;
                }
            }
        }
        self.free.lock().extend((self.blocks as u32..2 * self.blocks as u32).rev());
        self.blocks *= 2;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn free_blocks(&self) -> usize {
        self.free.lock().len()
    }

    /// Writes the keys and values of some tokens, each of shape `[kv_heads, tokens, head_dim]`.
    /// `slots` has the same shape and contains the slot of each element's position.
    pub(super) fn write(
        &mut self,
        layer: usize,
        slots: &Tensor,
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<()> {
        let layer = &mut self.layers[layer];
        layer.keys.scatter_set(slots, &keys.to_dtype(layer.keys.dtype())?, 1)?;
        layer.values.scatter_set(slots, &values.to_dtype(layer.values.dtype())?, 1)
    }

    /// Returns the keys and the values in `slots`, converted to `f32`. Shape of both:
    /// `[kv_heads, slots, head_dim]`.
    pub(super) fn read(&self, layer: usize, slots: &Tensor) -> Result<(Tensor, Tensor)> {
        let layer = &self.layers[layer];
        let read = |tensor: &Tensor| tensor.index_select(slots, 1)?.to_dtype(DType::F32);
        Ok((read(&layer.keys)?, read(&layer.values)?))
    }
}
