//! Memory for keys and values: slots of equal size in large memory maps.
//!
//! A slot holds all keys and values of a sequence for a range of positions, so a reader touches few
//! pages. Maps are large enough for huge pages. A map is returned to the system when all its slots
//! are free and another map also has a free slot.

#![allow(unsafe_code, reason = "each slot of a map has one owner")]

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::MmapRaw;

use crate::memory::{HUGE_PAGE, zeroed_memory};

/// Maximum number of slots in a map.
const SLOTS: usize = 16;
/// Maximum size of a map with more than one slot, in bytes.
const LARGEST: usize = 32 << 20;

/// A pool of memory slots of equal size. A slot returns to its pool when it is dropped.
#[derive(Debug)]
pub struct Pool {
    /// Number of 32-bit elements in a slot.
    len: usize,
    /// Number of slots in a map.
    slots: usize,
    /// All maps, with their free slots.
    maps: Mutex<Vec<Map>>,
}

#[derive(Debug)]
struct Map {
    memory: Arc<MmapRaw>,
    /// Indices of free slots. The last one is taken first.
    free: Vec<usize>,
}

/// A slot of memory with a single owner, as a slice of 32-bit elements. A slot taken from the pool
/// contains zeros or the contents that its last owner left.
#[derive(Debug)]
pub struct Slot {
    pool: Arc<Pool>,
    memory: Arc<MmapRaw>,
    index: usize,
}

impl Pool {
    /// Creates a pool of slots with `len` 32-bit elements each.
    pub fn new(len: usize) -> Arc<Self> {
        let len = len.max(1);
        let slots = (LARGEST / bytes(len)).clamp(1, SLOTS);
        Arc::new(Self { len, slots, maps: Mutex::default() })
    }

    /// Takes a free slot from the map with the fewest free slots. If no slot is free, creates a new
    /// map.
    ///
    /// # Errors
    /// Returns an error if the system has no more memory.
    pub fn take(self: &Arc<Self>) -> io::Result<Slot> {
        let slot =
            |memory: &Arc<MmapRaw>, index| Slot { pool: Arc::clone(self), memory: Arc::clone(memory), index };
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let with_room = maps.iter_mut().filter(|map| !map.free.is_empty());
        let fullest = with_room.min_by_key(|map| map.free.len());
        if let Some((index, memory)) = fullest.and_then(|map| Some((map.free.pop()?, &map.memory))) {
            return Ok(slot(memory, index));
        }
        let memory = Arc::new(MmapRaw::from(zeroed_memory(self.map_bytes())?));
        let taken = slot(&memory, 0);
        maps.push(Map { memory, free: (1..self.slots).rev().collect() });
        Ok(taken)
    }

    /// Returns the size of a map in bytes. A size of at least one huge page is rounded up to whole
    /// huge pages. On overflow, returns `usize::MAX`, which the system refuses to map.
    fn map_bytes(&self) -> usize {
        let bytes = bytes(self.len).saturating_mul(self.slots);
        let whole = bytes.checked_next_multiple_of(HUGE_PAGE).filter(|_| bytes >= HUGE_PAGE);
        whole.unwrap_or(bytes)
    }
}

/// Returns the size of `len` elements in bytes, or `usize::MAX` on overflow.
const fn bytes(len: usize) -> usize {
    len.saturating_mul(size_of::<u32>())
}

impl Slot {
    /// Takes a new slot from the pool and copies the contents into it.
    ///
    /// # Errors
    /// Returns an error if the system has no more memory.
    pub fn copy(&self) -> io::Result<Self> {
        let mut copy = self.pool.take()?;
        copy.copy_from_slice(self);
        Ok(copy)
    }

    /// Returns the elements as floats.
    pub fn floats_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(self)
    }

    #[expect(clippy::cast_ptr_alignment, reason = "a map is aligned to a page")]
    fn start(&self) -> *mut u32 {
        // SAFETY: the map has room for all of the pool's slots per map, and `index` is less than
        // their number.
        unsafe { self.memory.as_mut_ptr().cast::<u32>().add(self.index * self.pool.len) }
    }
}

impl Deref for Slot {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        // SAFETY: the slot lies within the map, which starts at a page boundary and lives as long
        // as `self.memory`. The system zeroed the map, so all elements are initialised. An index
        // belongs to one slot at a time, which is borrowed here.
        unsafe { std::slice::from_raw_parts(self.start(), self.pool.len) }
    }
}

impl DerefMut for Slot {
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: as in `deref`; the slot is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.pool.len) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut maps = self.pool.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(own) = maps.iter().position(|map| Arc::ptr_eq(&map.memory, &self.memory)) else { return };
        maps[own].free.push(self.index);
        let is_unused = maps[own].free.len() == self.pool.slots;
        if is_unused && maps.iter().filter(|map| !map.free.is_empty()).count() > 1 {
            maps.swap_remove(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Pool {
        fn maps(&self) -> usize {
            self.maps.lock().unwrap().len()
        }
    }

    #[test]
    fn slots_are_given_to_one_at_a_time() {
        for len in [3, 1000, HUGE_PAGE / 4, LARGEST / 4 + 1] {
            let pool = Pool::new(len);
            let count = pool.slots as u32 * 2 + 1;
            let mut slots: Vec<Slot> = (0..count).map(|_| pool.take().unwrap()).collect();
            assert_eq!(pool.maps(), 3);
            for (number, slot) in (1..).zip(&mut slots) {
                assert!(slot.iter().all(|element| *element == 0), "{len}");
                (slot[0], slot[len - 1]) = (number, number);
            }
            for (number, slot) in (1..).zip(&slots) {
                assert_eq!((slot.len(), slot[0], slot[len - 1]), (len, number, number));
                let copy = slot.copy().unwrap();
                assert!(*copy == **slot && copy.start() != slot.start());
            }
        }
    }

    #[test]
    fn memory_comes_back() {
        let pool = Pool::new(1000);
        let first = pool.take().unwrap();
        let place = first.start();
        drop(first);
        let again = pool.take().unwrap();
        assert_eq!((again.start(), pool.maps()), (place, 1));
        let others: Vec<Slot> = (0..3 * pool.slots).map(|_| pool.take().unwrap()).collect();
        assert_eq!(pool.maps(), 4);
        drop(others);
        assert_eq!(pool.maps(), 1, "one map, with a slot in use and room for more");
        drop(again);
        assert_eq!(pool.maps(), 1, "the map is kept for later requests");
    }

    #[test]
    fn threads_take_and_drop_at_once() {
        let pool = Pool::new(100);
        std::thread::scope(|scope| {
            for number in 1..=4_u32 {
                let pool = &pool;
                scope.spawn(move || {
                    let mut slots = Vec::new();
                    for round in 0..300 {
                        let mut slot = pool.take().unwrap();
                        slot.fill(number);
                        slots.push(slot);
                        assert!(slots.iter().flat_map(|slot| slot.iter()).all(|element| *element == number));
                        slots.truncate(round * 7 % 20);
                    }
                });
            }
        });
        assert_eq!(pool.maps(), 1);
    }

    #[test]
    fn rejects_more_memory_than_available() {
        for len in [usize::MAX, usize::MAX / 4, 1 << 45] {
            Pool::new(len).take().unwrap_err();
        }
    }
}
