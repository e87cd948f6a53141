//! Blocks of positions, which the keys and values of sequences on a device are stored in.
//!
//! A sequence takes blocks as it grows, and returns them when it shrinks or closes. Forks of a
//! sequence share its blocks. A shared block is copied before a write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of positions in a block.
pub(crate) const BLOCK: usize = 64;

/// Memory of a device that consists of blocks.
pub(crate) trait BlockMemory {
    /// Error of the device.
    type Error;

    /// Returns the blocks of the memory.
    fn blocks(&mut self) -> &mut Blocks;

    /// Enlarges the memory, and adds the new blocks with [`Blocks::grow_to`].
    fn grow(&mut self) -> Result<(), Self::Error>;

    /// Copies the keys and values of all layers from one block to another.
    fn copy(&mut self, from: u32, to: u32) -> Result<(), Self::Error>;
}

/// The blocks of a memory: their number, and the free ones.
pub(crate) struct Blocks {
    count: usize,
    free: Arc<Free>,
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
pub(crate) struct Block {
    index: u32,
    free: Arc<Free>,
}

#[cfg(feature = "gpu")]
impl Block {
    /// Returns the number of the block.
    pub(crate) const fn index(&self) -> u32 {
        self.index
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.free.lock().push(self.index);
    }
}

impl Blocks {
    /// Creates `count` free blocks.
    pub(crate) fn new(count: usize) -> Self {
        Self { count, free: Arc::new(Free(Mutex::new((0..count as u32).rev().collect()))) }
    }

    /// Returns the number of blocks.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Adds free blocks until there are `count`.
    pub(crate) fn grow_to(&mut self, count: usize) {
        self.free.lock().extend((self.count as u32..count as u32).rev());
        self.count = self.count.max(count);
    }

    /// Takes a free block. Returns `None` if there is none.
    pub(crate) fn take(&self) -> Option<Block> {
        let index = self.free.lock().pop()?;
        Some(Block { index, free: Arc::clone(&self.free) })
    }

    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.free.lock().len()
    }
}

/// The blocks of one sequence, and the number of its filled positions.
#[derive(Clone, Default)]
pub(crate) struct Table {
    blocks: Vec<Arc<Block>>,
    len: usize,
}

impl Table {
    /// Returns the number of filled positions.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the slot of position `position`. The block of the position must be reserved.
    pub(crate) fn slot(&self, position: usize) -> u32 {
        self.blocks[position / BLOCK].index * BLOCK as u32 + (position % BLOCK) as u32
    }

    /// Returns the numbers of the blocks.
    #[cfg(feature = "gpu")]
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().map(|block| block.index)
    }

    /// Removes the positions from `len` on and frees the blocks that become empty.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.blocks.truncate(self.len.div_ceil(BLOCK));
    }

    /// Returns a table with the first `len` positions, which shares its blocks with this one.
    #[cfg(feature = "candle")]
    pub(crate) fn fork(&self, len: usize) -> Self {
        let mut fork = self.clone();
        fork.truncate(len);
        fork
    }

    /// Marks the next `count` positions as filled. Every layer must have written them.
    pub(crate) const fn advance(&mut self, count: usize) {
        self.len += count;
    }

    /// Reserves blocks for `more` additional positions. Copies a shared block that will be written.
    pub(crate) fn reserve<M: BlockMemory>(&mut self, memory: &mut M, more: usize) -> Result<(), M::Error> {
        // Only the last block, if it is partly filled, can be both shared and written to.
        if more > 0
            && !self.len.is_multiple_of(BLOCK)
            && let Some(last) = self.blocks.get(self.len / BLOCK)
            && Arc::strong_count(last) > 1
        {
            let copy = take(memory)?;
            memory.copy(self.blocks[self.len / BLOCK].index, copy.index)?;
            self.blocks[self.len / BLOCK] = Arc::new(copy);
        }
        while self.blocks.len() < (self.len + more).div_ceil(BLOCK) {
            self.blocks.push(Arc::new(take(memory)?));
        }
        Ok(())
    }
}

fn take<M: BlockMemory>(memory: &mut M) -> Result<Block, M::Error> {
    loop {
        if let Some(block) = memory.blocks().take() {
            return Ok(block);
        }
        memory.grow()?;
    }
}
