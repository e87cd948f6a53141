use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::{TokenId, Vocabulary};

const FREE: u64 = u64::MAX;

/// Finds a token by its exact bytes.
///
/// This is an open-addressing table of ids, and the vocabulary owns the bytes. For 262,144 tokens,
/// the table takes 4 MB and a few milliseconds to build. A map with owned keys would copy every
/// string.
#[derive(Debug)]
pub(super) struct Index {
    /// The upper half of a slot is the upper half of the hash, and the lower half is the token.
    slots: Box<[u64]>,
    max_len: usize,
}

impl Index {
    /// Indexes `members`. Of several tokens with the same bytes, the first one counts. Skips tokens
    /// without bytes.
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

    /// Returns the token with exactly these bytes.
    pub(super) fn find(&self, vocabulary: &Vocabulary, bytes: &[u8]) -> Option<TokenId> {
        if bytes.len() > self.max_len { None } else { self.probe(vocabulary, bytes).ok() }
    }

    /// Returns the token with these bytes, or the free slot for them. The search ends because the
    /// table is at most half full.
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
