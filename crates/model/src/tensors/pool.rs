//! The keys and values of all sequences, in blocks of positions.
//!
//! A device holds two tensors for each layer, `[kv_heads, slots, head_dim]`. Slots come in blocks of [`BLOCK`], which
//! sequences take as they grow and give back when they shrink or close. Writing and reading go by the numbers of slots, so
//! that the positions of many sequences are written, and read, in one step each. The tensors double when no block is
//! free. Forks of a sequence share its blocks; one that writes to a shared block copies it first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Result, Tensor};

use crate::spec::ModelSpec;

/// Positions in a block.
pub(super) const BLOCK: usize = 64;

/// Blocks in a new pool.
const FIRST: usize = 16;

pub(super) struct Pool {
    layers: Vec<Layer>,
    free: Arc<Free>,
    blocks: usize,
}

/// The numbers of blocks that nobody has.
#[derive(Default)]
struct Free(Mutex<Vec<u32>>);

impl Free {
    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A block that is taken. It goes back with the last sequence that has it.
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

/// The blocks of one sequence.
#[derive(Clone, Default)]
pub(super) struct Table {
    blocks: Vec<Arc<Block>>,
    len: usize,
}

impl Table {
    /// How many positions are filled.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The slot of a position for which there is room.
    pub(super) fn slot(&self, position: usize) -> u32 {
        self.blocks[position / BLOCK].index * BLOCK as u32 + (position % BLOCK) as u32
    }

    /// Forgets the positions from `len` on, and gives back the blocks that held only such.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.blocks.truncate(self.len.div_ceil(BLOCK));
    }

    /// The first `len` positions as a sequence of their own.
    pub(super) fn fork(&self, len: usize) -> Self {
        let mut fork = self.clone();
        fork.truncate(len);
        fork
    }

    /// Counts positions that every layer has written as filled.
    pub(super) const fn advance(&mut self, count: usize) {
        self.len += count;
    }
}

impl Pool {
    /// A pool for elements of type `dtype`.
    pub(super) fn new(spec: &ModelSpec, dtype: DType, device: &Device) -> Result<Self> {
        let shape = (spec.kv_heads, FIRST * BLOCK, spec.head_dim);
        let layer = || {
            let zeros = || Tensor::zeros(shape, dtype, device);
            Ok(Layer { keys: zeros()?, values: zeros()? })
        };
        let layers = spec.layers.iter().map(|_| layer()).collect::<Result<_>>()?;
        let free = Free(Mutex::new((0..FIRST as u32).rev().collect()));
        Ok(Self { layers, free: Arc::new(free), blocks: FIRST })
    }

    /// Makes room in a sequence for `more` positions.
    pub(super) fn reserve(&mut self, table: &mut Table, more: usize) -> Result<()> {
        // Only a block with room left may be shared and still be written to.
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
                // [kv_heads, BLOCK, head_dim]
                let block = tensor.narrow(1, from as usize * BLOCK, BLOCK)?.contiguous()?.copy()?;
                tensor.slice_set(&block, 1, to as usize * BLOCK)?;
            }
        }
        Ok(())
    }

    /// Doubles the tensors. Where one of them finds no room, those before it are larger already, and the next attempt goes
    /// on with the others.
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

    /// Writes keys and values, `[kv_heads, tokens, head_dim]` each, to slots that are given in the same shape.
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

    /// The keys and values in some slots, `[kv_heads, slots, head_dim]` each, as `f32`.
    pub(super) fn read(&self, layer: usize, slots: &Tensor) -> Result<(Tensor, Tensor)> {
        let layer = &self.layers[layer];
        let read = |tensor: &Tensor| tensor.index_select(slots, 1)?.to_dtype(DType::F32);
        Ok((read(&layer.keys)?, read(&layer.values)?))
    }
}
