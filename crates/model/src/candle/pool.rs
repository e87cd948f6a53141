//! The keys and values of all sequences, in blocks of positions.
//!
//! The device holds two tensors per layer, of shape `[kv_heads, slots, head_dim]`. A slot is the
//! place of one position. Slots are grouped into blocks of [`BLOCK`]. A sequence takes blocks as it
//! grows, and returns them when it shrinks or closes. Reads and writes address slots by number, so
//! one operation covers the positions of many sequences. If no block is free, the tensors double in
//! size. Forks of a sequence share its blocks. A shared block is copied before a write.

use candle_core::{DType, Device, Result, Tensor};

use crate::paged::{BLOCK, BlockMemory, Blocks};
use crate::spec::{AttentionSpec, ModelSpec};

/// Number of blocks in a new pool.
const FIRST: usize = 16;

pub(super) struct Pool {
    layers: Vec<Layer>,
    blocks: Blocks,
}

struct Layer {
    keys: Tensor,
    values: Tensor,
}

impl Pool {
    /// Creates a pool whose keys and values have the type `dtype`.
    pub(super) fn new(spec: &ModelSpec, dtype: DType, device: &Device) -> Result<Self> {
        let layer = |shape: AttentionSpec| {
            let zeros = || Tensor::zeros((shape.kv_heads, FIRST * BLOCK, shape.head_dim), dtype, device);
            Ok(Layer { keys: zeros()?, values: zeros()? })
        };
        let layers = spec.attentions().map(|(_, shape)| layer(*shape)).collect::<Result<_>>()?;
        Ok(Self { layers, blocks: Blocks::new(FIRST) })
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

    #[cfg(test)]
    pub(super) fn free_blocks(&self) -> usize {
        self.blocks.free()
    }
}

impl BlockMemory for Pool {
    type Error = candle_core::Error;

    fn blocks(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

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
        let wanted = 2 * self.blocks.count() * BLOCK;
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
        self.blocks.grow_to(2 * self.blocks.count());
        Ok(())
    }
}
