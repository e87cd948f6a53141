//! The keys and values of all sequences, in blocks of positions.
//!
//! A device holds two tensors for each layer, `[kv_heads, slots, head_dim]`. Slots come in blocks of [`BLOCK`], which
//! sequences take as they grow and give back when they shrink or close. Writing and reading go by the numbers of slots, so
//! that the positions of many sequences are written, and read, in one step each. The tensors double when no block is
//! free.

use candle_core::{DType, Device, Result, Tensor};

use crate::spec::ModelSpec;

/// Positions in a block.
pub(super) const BLOCK: usize = 64;

/// Blocks in a new pool.
const FIRST: usize = 16;

pub(super) struct Pool {
    layers: Vec<Layer>,
    free: Vec<u32>,
    blocks: usize,
}

struct Layer {
    keys: Tensor,
    values: Tensor,
}

/// The blocks of one sequence.
#[derive(Default)]
pub(super) struct Table {
    blocks: Vec<u32>,
    len: usize,
}

impl Table {
    /// How many positions are filled.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The slot of a position for which there is room.
    pub(super) fn slot(&self, position: usize) -> u32 {
        self.blocks[position / BLOCK] * BLOCK as u32 + (position % BLOCK) as u32
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
        Ok(Self { layers, free: (0..FIRST as u32).rev().collect(), blocks: FIRST })
    }

    /// Makes room in a sequence for `more` positions.
    pub(super) fn reserve(&mut self, table: &mut Table, more: usize) -> Result<()> {
        while table.blocks.len() < (table.len + more).div_ceil(BLOCK) {
            if self.free.is_empty() {
                self.grow()?;
            }
            table.blocks.extend(self.free.pop());
        }
        Ok(())
    }

    /// Forgets the positions of a sequence from `len` on.
    pub(super) fn truncate(&mut self, table: &mut Table, len: usize) {
        table.len = table.len.min(len);
        let kept = table.len.div_ceil(BLOCK).min(table.blocks.len());
        self.free.extend(table.blocks.drain(kept..));
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
        self.free.extend((self.blocks as u32..2 * self.blocks as u32).rev());
        self.blocks *= 2;
        Ok(())
    }

    #[cfg(test)]
    pub(super) const fn free_blocks(&self) -> usize {
        self.free.len()
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
