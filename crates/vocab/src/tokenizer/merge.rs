//! The merge loop of both kinds of byte-pair encoding.
//!
//! A word starts as a chain of symbols, which are bytes or characters. The loop repeatedly replaces
//! two adjacent symbols by a single one. It chooses the pair with the lowest rank, and the leftmost
//! of several such pairs. The loop ends when no pair can be merged.
//!
//! The rank of a pair is its position in the list of merges, or is derived from the score of the
//! merged token.
//!
//! For a chain of n symbols, the loop takes O(n log n): each merge removes a symbol and queues at
//! most two new pairs. A queued pair becomes stale if another merge changes one of its symbols.
//! Stale pairs stay in the queue. They are recognised by their total length, because the start of a
//! symbol never changes and its length only grows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::TokenId;

const NONE: u32 = u32::MAX;

/// Part of a word: a byte, a character, or several of them that have been merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    /// Offset in the word, in bytes.
    pub(super) start: u32,
    /// Length in bytes. Zero if the symbol has been merged into the symbol before.
    len: u32,
    /// The token with the symbol's bytes. `None` if the caller did not give one and the symbol has
    /// not been merged.
    pub(super) token: Option<TokenId>,
    previous: u32,
    next: u32,
}

impl Symbol {
    /// Returns the offset of the first byte after the symbol.
    pub(super) const fn end(&self) -> u32 {
        self.start + self.len
    }
}

/// Two adjacent symbols that can be merged. Pairs are ordered by rank, then from left to right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Pair {
    rank: u32,
    left: u32,
    right: u32,
    /// Total length of both symbols when the pair was queued, in bytes.
    len: u32,
    token: TokenId,
}

/// The symbols of one word. Reusing a chain for several words avoids allocations.
#[derive(Debug, Default)]
pub(super) struct Chain {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Pair>>,
}

impl Chain {
    /// Removes all symbols.
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.queue.clear();
    }

    /// Appends a symbol of `len` bytes, with its token if known.
    pub(super) fn push(&mut self, len: usize, token: Option<TokenId>) {
        let index = self.symbols.len() as u32;
        let start = self.symbols.last().map_or(0, Symbol::end);
        let previous = index.checked_sub(1).unwrap_or(NONE);
        if let Some(last) = self.symbols.last_mut() {
            last.next = index;
        }
        self.symbols.push(Symbol { start, len: len as u32, token, previous, next: NONE });
    }

    /// Merges pairs until no pair can be merged. `rank` returns the rank of a pair and the merged
    /// token, or `None` if the pair cannot be merged.
    pub(super) fn merge(&mut self, rank: impl Fn(Symbol, Symbol) -> Option<(u32, TokenId)>) {
        for right in 1..self.symbols.len() as u32 {
            self.queue(right - 1, right, &rank);
        }
        while let Some(Reverse(pair)) = self.queue.pop() {
            let [left, right] = [pair.left, pair.right].map(|index| self.symbols[index as usize]);
            if left.len == 0 || right.len == 0 || left.len + right.len != pair.len {
                continue;
            }
            let merged = &mut self.symbols[pair.left as usize];
            merged.len = pair.len;
            merged.token = Some(pair.token);
            merged.next = right.next;
            self.symbols[pair.right as usize].len = 0;
            if right.next != NONE {
                self.symbols[right.next as usize].previous = pair.left;
                self.queue(pair.left, right.next, &rank);
            }
            if left.previous != NONE {
                self.queue(left.previous, pair.left, &rank);
            }
        }
    }

    fn queue(&mut self, left: u32, right: u32, rank: impl Fn(Symbol, Symbol) -> Option<(u32, TokenId)>) {
        let [a, b] = [left, right].map(|index| self.symbols[index as usize]);
        if let Some((rank, token)) = rank(a, b) {
            self.queue.push(Reverse(Pair { rank, left, right, len: a.len + b.len, token }));
        }
    }

    /// Returns an iterator over the symbols that remain after merging, in the order of the text.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|symbol| symbol.len > 0)
    }
}
