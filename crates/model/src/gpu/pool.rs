//! Keys and values of all sequences of a decoder, in the memory of the device.

use formwork_gpu::attention::KvType;
use formwork_gpu::{Buffer, Gpu, GpuError};

use crate::paged::{BLOCK, BlockMemory, Blocks};
use crate::spec::{AttentionSpec, KeyValues, LayerSpec, ModelSpec};

// The kernels have the blocks of the tables.
const _: () = assert!(BLOCK == formwork_gpu::attention::BLOCK);

/// Number of blocks in a new pool.
const FIRST: usize = 16;

/// Keys and values in blocks. A buffer has the blocks of one layer. Layers without keys and values of
/// their own have buffers without blocks.
///
/// Shape of the keys: `[blocks, kv_heads, head_dim / 2, BLOCK, 2]`. Shape of the values:
/// `[blocks, kv_heads, BLOCK, head_dim]`. Neighbouring threads of attention read neighbouring words
/// of both.
pub(super) struct Pool {
    gpu: Gpu,
    blocks: Blocks,
    pub(super) layers: Vec<[Buffer; 2]>,
    /// Size of a block of the layer's keys, which is also that of its values, in bytes.
    sizes: Vec<u64>,
    /// True if the buffers were replaced since the last call of [`Pool::take_change`].
    has_grown: bool,
}

impl Pool {
    /// Creates a pool with memory for `tokens` tokens if there is as much, and at least for a few blocks.
    pub(super) fn new(gpu: &Gpu, spec: &ModelSpec, kv: KvType, tokens: usize) -> Result<Self, GpuError> {
        let sizes: Vec<u64> =
            spec.layers.iter().map(|layer| (BLOCK * own_key_len(layer) * kv.bytes()) as u64).collect();
        let allocate = |count| Self::allocate(gpu, &sizes, count).map(|layers| (layers, count));
        let wanted = tokens.div_ceil(BLOCK).max(FIRST);
        let (layers, count) = allocate(wanted).or_else(|_| allocate(FIRST))?;
        Ok(Self { gpu: gpu.clone(), blocks: Blocks::new(count), layers, sizes, has_grown: false })
    }

    /// Allocates `count` blocks for each layer.
    fn allocate(gpu: &Gpu, sizes: &[u64], count: usize) -> Result<Vec<[Buffer; 2]>, GpuError> {
        let limit = gpu.limits().binding;
        let layer = |size: &u64| {
            let bytes = size * count as u64;
            if bytes > limit {
                return Err(GpuError::Binding { what: "keys", bytes, limit });
            }
            Ok([(); 2].map(|()| gpu.buffer(bytes)))
        };
        let layers = sizes.iter().map(layer).collect::<Result<_, _>>()?;
        gpu.check()?;
        Ok(layers)
    }

    /// Reports whether the buffers were replaced since the last call.
    pub(super) const fn take_change(&mut self) -> bool {
        std::mem::replace(&mut self.has_grown, false)
    }
}

/// Returns the number of elements of a token's keys that the layer writes.
pub(super) fn own_key_len(layer: &LayerSpec) -> usize {
    match layer.mixer.cached() {
        Some(AttentionSpec { key_values: KeyValues::OfLayer(_), .. }) | None => 0,
        Some(shape) => shape.key_len(),
    }
}

impl BlockMemory for Pool {
    type Error = GpuError;

    fn blocks(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    fn grow(&mut self) -> Result<(), GpuError> {
        let count = self.blocks.count();
        // A smaller growth may fit where a doubling does not.
        let larger = Self::allocate(&self.gpu, &self.sizes, 2 * count).map(|layers| (layers, 2 * count));
        let (larger, new_count) = larger.or_else(|_| {
            let less = count + count / 4;
            Self::allocate(&self.gpu, &self.sizes, less).map(|layers| (layers, less))
        })?;
        let layers = self.layers.iter().zip(&larger).zip(&self.sizes).filter(|(_, size)| **size > 0);
        for ((old, new), size) in layers {
            for (old, new) in old.iter().zip(new) {
                self.gpu.copy((old, 0), (new, 0), size * count as u64);
            }
        }
        self.layers = larger;
        self.has_grown = true;
        self.blocks.grow_to(new_count);
        self.gpu.check()
    }

    fn copy(&mut self, from: u32, to: u32) -> Result<(), GpuError> {
        // A copy within a buffer is not allowed, so the block goes through another buffer.
        let largest = self.sizes.iter().copied().max().unwrap_or_default();
        let between = self.gpu.buffer(largest);
        for (layer, size) in self.layers.iter().zip(&self.sizes).filter(|(_, size)| **size > 0) {
            for buffer in layer {
                self.gpu.copy((buffer, u64::from(from) * size), (&between, 0), *size);
                self.gpu.copy((&between, 0), (buffer, u64::from(to) * size), *size);
            }
        }
        self.gpu.check()
    }
}
