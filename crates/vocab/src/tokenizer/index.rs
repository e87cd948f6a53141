use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::{TokenId, Vocabulary};

const FREE: u64 = u64::MAX;

/// Hash table that finds a token by its exact bytes.
///
/// The table uses open addressing and stores only ids, because the vocabulary owns the bytes. For
/// 262,144 tokens, the table takes 4 MB and a few milliseconds to build. A map with owned keys
/// would copy every byte string.
#[derive(Debug)]
pub(super) struct Index {
    /// Entries of the table. The upper 32 bits are the upper half of the hash, and the lower 32 bits
    /// are the token id.
    slots: Box<[u64]>,
    max_len: usize,
}

impl Index {
    /// Builds the table of the tokens `members`. If several tokens have the same bytes, the table
    /// contains the first one. Tokens without bytes are skipped.
    pub(super) fn new(vocabulary: &Vocabulary, members: impl Iterator<Item = TokenId>) -> Self {
        let size = (2 * vocabulary.len()).next_power_of_two();
        let mut index = Self { slots: vec![FREE; size].into_boxed_slice(), max_len: 0 };
        for token in members {
            let bytes = vocabulary.bytes(token);
            if bytes.is_empty() {
                continue;
            }
            index.max_len = index.max_len.max(bytes.len());
            if let Err(slot) = index.probe(vocabulary, bytes) {
                index.slots[slot] = tag(hash(bytes)) | u64::from(token.0);
            }
        }
        index
    }

    /// Returns the token with exactly these bytes, or `None` if the table has no such token.
    pub(super) fn find(&self, vocabulary: &Vocabulary, bytes: &[u8]) -> Option<TokenId> {
        if bytes.len() > self.max_len { None } else { self.probe(vocabulary, bytes).ok() }
    }

    /// Returns the token with these bytes. If there is none, returns the free slot for such a token
    /// as an error. The search ends because the table is at most half full.
    fn probe(&self, vocabulary: &Vocabulary, bytes: &[u8]) -> Result<TokenId, usize> {
        let hash = hash(bytes);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let entry = self.slots[slot];
            if entry == FREE {
                return Err(slot);
            }
            let token = TokenId(entry as u32);
            if tag(entry) == tag(hash) && vocabulary.bytes(token) == bytes {
                return Ok(token);
            }
            slot = (slot + 1) & mask;
        }
    }
}

const fn tag(hash: u64) -> u64 {
    hash & 0xffff_ffff_0000_0000
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}
