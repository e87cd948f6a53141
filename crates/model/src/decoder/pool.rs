//! Memory for keys and values: pieces of equal length of large maps.
//!
//! All that a sequence stores at some positions lies together, so that few pages are touched by what reads it. The maps are as large as it
//! takes for huge pages; one goes back to the system when none of its pieces is in use and another has room.

#![allow(unsafe_code, reason = "a piece of a map is its owner's alone")]

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::MmapRaw;

use crate::memory::{self, HUGE_PAGE};

/// Pieces of a map, as far as that is no more than so many bytes.
const PIECES: usize = 16;
const LARGEST: usize = 32 << 20;

/// Pieces of memory, which come back when they are dropped.
#[derive(Debug)]
pub(super) struct Pool {
    /// Elements of a piece.
    len: usize,
    maps: Mutex<Vec<Map>>,
}

/// A map with pieces that nobody uses, or with those that all are used.
#[derive(Debug)]
struct Map {
    memory: Arc<MmapRaw>,
    /// Which are free: the next comes last.
    free: Vec<usize>,
}

/// Memory that is its owner's alone. What is in it at first is not defined.
#[derive(Debug)]
pub(super) struct Piece {
    pool: Arc<Pool>,
    memory: Arc<MmapRaw>,
    index: usize,
}

impl Pool {
    /// Of pieces of so many elements.
    pub(super) fn new(len: usize) -> Arc<Self> {
        Arc::new(Self { len: len.max(1), maps: Mutex::default() })
    }

    /// A piece that is free.
    ///
    /// # Errors
    /// When the system has no more memory.
    pub(super) fn take(self: &Arc<Self>) -> io::Result<Piece> {
        let piece = |memory: &Arc<MmapRaw>, index| Piece {
            pool: Arc::clone(self),
            memory: Arc::clone(memory),
            index,
        };
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = maps.iter_mut().find_map(|map| Some(piece(&map.memory, map.free.pop()?)));
        if let Some(taken) = taken {
            return Ok(taken);
        }
        let memory = Arc::new(MmapRaw::from(memory::zeros(self.map_bytes())?));
        let taken = piece(&memory, 0);
        maps.push(Map { memory, free: (1..self.pieces()).rev().collect() });
        Ok(taken)
    }

    const fn piece_bytes(&self) -> usize {
        self.len * size_of::<u32>()
    }

    fn map_bytes(&self) -> usize {
        let bytes = self.piece_bytes();
        let bytes = (bytes * PIECES).min(LARGEST).max(bytes);
        if bytes < HUGE_PAGE { bytes } else { bytes.next_multiple_of(HUGE_PAGE) }
    }

    fn pieces(&self) -> usize {
        self.map_bytes() / self.piece_bytes()
    }
}

impl Piece {
    /// The same in memory of its own.
    pub(super) fn copy(&self) -> io::Result<Self> {
        let mut copy = self.pool.take()?;
        copy.copy_from_slice(self);
        Ok(copy)
    }

    fn start(&self) -> *mut u32 {
        // SAFETY: a map has room for the piece.
        unsafe { self.memory.as_mut_ptr().cast::<u32>().add(self.index * self.pool.len) }
    }
}

impl Deref for Piece {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        // SAFETY: the piece is within the map, which begins at a page and lives as long, it had zeros in the beginning, and an
        // index is given to one at a time.
        unsafe { std::slice::from_raw_parts(self.start(), self.pool.len) }
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.pool.len) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let pieces = self.pool.pieces();
        let mut maps = self.pool.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(own) = maps.iter().position(|map| Arc::ptr_eq(&map.memory, &self.memory)) else { return };
        maps[own].free.push(self.index);
        let has_room = |map: &Map| !map.free.is_empty();
        if maps[own].free.len() == pieces && maps.iter().filter(|map| has_room(map)).count() > 1 {
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
    fn pieces_are_given_to_one_at_a_time() {
        for len in [3, 1000, HUGE_PAGE / 4, LARGEST / 4 + 1] {
            let pool = Pool::new(len);
            let count = pool.pieces() as u32 * 2 + 1;
            let mut pieces: Vec<Piece> = (0..count).map(|_| pool.take().unwrap()).collect();
            assert_eq!(pool.maps(), 3);
            for (number, piece) in (1..).zip(&mut pieces) {
                assert!(piece.iter().all(|element| *element == 0), "{len}");
                (piece[0], piece[len - 1]) = (number, number);
            }
            for (number, piece) in (1..).zip(&pieces) {
                assert_eq!((piece.len(), piece[0], piece[len - 1]), (len, number, number));
                let copy = piece.copy().unwrap();
                assert!(*copy == **piece && copy.start() != piece.start());
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
        let others: Vec<Piece> = (0..3 * pool.pieces()).map(|_| pool.take().unwrap()).collect();
        assert_eq!(pool.maps(), 4);
        drop(others);
        assert_eq!(pool.maps(), 1, "the one of which a piece is in use, which has room");
        drop(again);
        assert_eq!(pool.maps(), 1, "kept for what comes");
    }
}
